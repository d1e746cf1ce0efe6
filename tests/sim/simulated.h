/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of a Plan by the simulator itself, with the operators of the conformance cases: its devices, clock, batch
 * policy, queues and recovery, and a setup drawn from the seed: few devices or many, slow ones, service times of every
 * spread, copies, workers that are lost, a dial, a small window, and often a budget of one to three children.
 */
#ifndef TESTS_SIM_SIMULATED_H
#define TESTS_SIM_SIMULATED_H

#include "tests/lineage/witness.h"

/* `columns`: one array of rows per source, in the order of plan->sources. */
void simulate(const struct sheaf_plan *plan, json_t *const *columns, uint64_t seed, struct played *ret_played);

#endif
