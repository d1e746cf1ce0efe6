/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays one run of a Plan over lineage and sched in one process: workers, batches, crashes and time are pretended, in
 * an order drawn from a seed; operators and values are those of witness.h. Checks on the way what must hold whatever
 * the order: each Grain is told READY once, every root completes, and what a witness sees.
 */
#ifndef TESTS_LINEAGE_PLAYER_H
#define TESTS_LINEAGE_PLAYER_H

#include "sched/sched.h"
#include "tests/lineage/witness.h"

/* `columns`: one array of rows per source, in the order of plan->sources. */
void play(const struct sheaf_plan *plan, json_t *const *columns, uint64_t seed, struct played *ret_played);

#endif
