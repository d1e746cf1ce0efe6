/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other engine of a case: lineage and scheduling alone, in one process in an order drawn from the seed, with
 * pretended workers, batches, crashes, hangs and time: by the simulator, or stepwise, by a player that draws every
 * step.
 */
#include <stdio.h>

#include "tests/cases/case.h"
#include "tests/common/case_files.h"
#include "tests/lineage/player.h"
#include "tests/sim/simulated.h"

static bool columns_differ(json_t *const *columns, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        if (json_array_size(columns[i]) != json_array_size(columns[0]))
            return true;
    return false;
}

void case_simulate(const struct case_setup *setup, const struct sheaf_plan *plan, const json_t *spec,
                   struct observed *observed)
{
    json_t *columns[CASE_SOURCES_MAX] = {NULL};
    struct played played;
    if (!case_columns(plan, spec, columns)) {
        observed_trouble(observed, "more than %d sources", CASE_SOURCES_MAX);
        return;
    }
    if (columns_differ(columns, plan->source_count)) {
        observed->end = CASE_INPUT_ERROR;
        return;
    }
    if (setup->stepwise)
        play(plan, columns, setup->seed, &played);
    else
        simulate(plan, columns, setup->seed, &played);
    if (played.breach[0])
        observed_trouble(observed, "%s", played.breach);
    observed->aborted = played.aborted;
    snprintf(observed->cause, sizeof observed->cause, "%s", played.abort_cause);
    json_decref(observed->outputs);
    json_decref(observed->roots);
    json_decref(observed->started);
    observed->outputs = json_incref(played.outputs);
    observed->roots = json_incref(played.roots);
    observed->started = json_incref(played.dispatched);
    played_clear(&played);
}
