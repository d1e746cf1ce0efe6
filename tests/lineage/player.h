/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays one run of a Plan over lineage and sched in one process: workers, batches, crashes and time are pretended, in
 * an order drawn from a seed; operators are those of operators.h. Checks on the way what must hold whatever the order:
 * each Grain is told READY once, each value is unused exactly once and never while it can be read, every root
 * completes.
 */
#ifndef TESTS_LINEAGE_PLAYER_H
#define TESTS_LINEAGE_PLAYER_H

#include <jansson.h>

#include "lineage/lineage.h"
#include "sched/sched.h"

struct played {
    json_t *outputs;    /* {name: [entry]}: as in `expect`, with "class" and "cause" wherever there is one */
    json_t *roots;      /* [status] */
    json_t *dispatched; /* {call: count} */
    json_t *started;    /* {call: {Coordinate, as "0,2,1": true}} */
    bool aborted;
    char abort_cause[256];
    char breach[256]; /* empty, or the invariant that broke */
    uint64_t grains_sealed;
};

/* `columns`: one array of rows per source, in the order of plan->sources. */
void play(const struct sheaf_plan *plan, json_t *const *columns, uint64_t seed, struct played *ret_played);
void played_clear(struct played *played);

#endif
