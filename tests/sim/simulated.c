/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/simulated.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"

struct stage {
    struct witness witness;
    uint64_t random;
    struct sim_service *services;
    uint32_t *devices;
};

static uint32_t draw(struct stage *stage, uint32_t below)
{
    stage->random ^= stage->random << 13;
    stage->random ^= stage->random >> 7;
    stage->random ^= stage->random << 17;
    return (uint32_t)((stage->random >> 32) % below);
}

/* ---- operators ---- */

static struct value_ref on_source(void *cookie, uint32_t root, uint32_t source)
{
    struct stage *stage = cookie;
    return witness_source(&stage->witness, root, source);
}

static enum sim_fault fault_of(const struct row_result *result)
{
    switch (result->end) {
    case ROW_ANSWERS:
        return SIM_ANSWERS;
    case ROW_DECLARES:
        return result->scope == SHEAF_SCOPE_ROOT    ? SIM_FAILS_ROOT
               : result->scope == SHEAF_SCOPE_GROUP ? SIM_FAILS_GROUP
                                                    : SIM_FAILS_ITEM;
    case ROW_BREAKS:
        return SIM_FAILS_ITEM;
    case ROW_RAISES:
        return SIM_RAISES;
    case ROW_BREAKS_ANSWER:
        return SIM_BREAKS;
    case ROW_CRASHES:
        return SIM_CRASHES;
    case ROW_HANGS:
        return SIM_HANGS;
    }
    return SIM_ANSWERS;
}

static void on_start(void *cookie, const struct lineage *lineage, struct grain grain, uint32_t attempt,
                     struct sim_saying *ret_saying)
{
    struct stage *stage = cookie;
    const struct plan_call *call = &stage->witness.plan->calls[grain.call];
    struct row_result *result = calloc(1, sizeof(*result));
    if (!result)
        abort();
    witness_run(&stage->witness, lineage, grain, attempt, result);
    ret_saying->fault = fault_of(result);
    ret_saying->class_id = witness_class(result->end);
    ret_saying->text = result->end == ROW_BREAKS ? "a value of the wrong kind" : result->cause;
    ret_saying->at_once = result->end == ROW_ANSWERS && !result->streams;
    ret_saying->token = (uintptr_t)result;
    for (uint32_t i = 0; i < call->expansion_count; i++)
        ret_saying->children[i] = witness_children(&stage->witness, grain.call, i, result);
}

static struct value_ref on_child(void *cookie, const struct sim_saying *saying, struct grain grain, uint32_t slot,
                                 uint32_t ordinal)
{
    struct stage *stage = cookie;
    const struct row_result *result = (const struct row_result *)saying->token;
    return witness_value(&stage->witness, json_array_get(json_array_get(result->outputs, slot), ordinal));
}

static struct value_ref on_output(void *cookie, const struct sim_saying *saying, struct grain grain, uint32_t slot)
{
    struct stage *stage = cookie;
    const struct row_result *result = (const struct row_result *)saying->token;
    return witness_value(&stage->witness, json_array_get(result->outputs, slot));
}

static void on_over(void *cookie, struct sim_saying *saying)
{
    struct row_result *result = (struct row_result *)saying->token;
    json_decref(result->outputs);
    free(result);
}

static void on_unused(void *cookie, const struct value_ref *value)
{
    struct stage *stage = cookie;
    witness_unused(&stage->witness, value);
}

static void on_complete(void *cookie, const struct lineage *lineage, uint32_t root)
{
    struct stage *stage = cookie;
    witness_collect(&stage->witness, lineage, root);
}

/* ---- the setup ---- */

static uint32_t draw_of(struct stage *stage, const uint32_t *values, uint32_t count)
{
    return values[draw(stage, count)];
}

/* Times are small beside any deadline: a row that is only slow must never be taken for one that hangs. */
static void draw_services(struct stage *stage)
{
    const struct sheaf_plan *plan = stage->witness.plan;
    bool copies = draw(stage, 4) == 0;
    for (uint32_t i = 0; i < plan->call_count; i++) {
        struct sim_service *service = &stage->services[i];
        service->fixed_us = draw(stage, 2) * draw(stage, 40);
        service->row_us = draw(stage, 20);
        service->child_us = draw(stage, 10);
        if (copies && plan->calls[i].batch) {
            service->in_bytes = 1 + draw(stage, 100);
            service->out_bytes = draw(stage, 100);
        }
    }
    for (uint32_t i = 0; i < plan->pool_count; i++)
        stage->devices[i] = 1 + draw(stage, 2) * draw(stage, 4);
}

static struct sim_setup draw_setup(struct stage *stage)
{
    static const uint32_t windows[] = {0, 0, 1, 2}, dials[] = {0, 0, 1, 3}, losses[] = {0, 0, 15000, 100000},
                          budgets[] = {0, 1, 3, 3};
    struct sim_setup setup = {.plan = stage->witness.plan,
                              .services = stage->services,
                              .devices_of_pool = stage->devices,
                              .root_count = stage->witness.roots,
                              .shuffled = true,
                              .deadline_us = 10000000,
                              .seed = stage->random};
    draw_services(stage);
    setup.window = draw_of(stage, windows, 4);
    setup.dial = draw_of(stage, dials, 4);
    setup.loss_per_million = draw_of(stage, losses, 4);
    setup.children_max = draw_of(stage, budgets, 4);
    setup.fixed_batches = draw(stage, 4) == 0;
    setup.spread = (enum sim_spread)draw(stage, 3);
    setup.spread_percent = draw(stage, 50);
    setup.slow_percent = draw(stage, 50);
    setup.slow_factor = draw(stage, 2) * 3;
    setup.restart_us = draw(stage, 2) * draw(stage, 500);
    setup.links = (struct sim_links){.in_bytes_us = 1 + draw(stage, 20),
                                     .out_bytes_us = draw(stage, 20),
                                     .bridge_bytes_us = draw(stage, 20),
                                     .copy_us = draw(stage, 3),
                                     .devices_per_bridge = draw(stage, 3),
                                     .in_flight = 1 + draw(stage, 3)};
    return setup;
}

static const char *problem_of(int status)
{
    switch (status) {
    case -EDEADLK:
        return "deadlock: nothing moves and roots are left";
    case -ELOOP:
        return "livelock: much moves and nothing is ever done";
    case -EBADE:
        return "the ledger does not balance, or something is left";
    default:
        return "the simulator fails";
    }
}

void simulate(const struct sheaf_plan *plan, json_t *const *columns, uint64_t seed, struct played *ret_played)
{
    struct stage stage = {.random = seed * 0x9E3779B97F4A7C15ull + 1,
                          .services = calloc(plan->call_count + 1, sizeof(*stage.services)),
                          .devices = calloc(plan->pool_count + 1, sizeof(*stage.devices))};
    const struct sim_operators operators = {&stage,    on_source, on_start,  on_child,
                                            on_output, on_over,   on_unused, on_complete};
    struct sim_result result;
    if (!stage.services || !stage.devices)
        abort();
    witness_open(&stage.witness, plan, columns, ret_played);
    struct sim_setup setup = draw_setup(&stage);
    setup.operators = &operators;
    int status = sim_run(&setup, &result);
    if (status) {
        witness_breach(&stage.witness, "%s (%d)", problem_of(status), status);
    } else {
        ret_played->aborted = result.aborted;
        snprintf(ret_played->abort_cause, sizeof(ret_played->abort_cause), "%s", result.abort_cause);
        ret_played->grains_sealed = result.grains;
        if (!result.aborted)
            witness_finish(&stage.witness);
        sim_result_free(&result);
    }
    witness_close(&stage.witness);
    free(stage.services);
    free(stage.devices);
}
