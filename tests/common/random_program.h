/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs over the operators of the conformance cases, rich in what is hard: nested and streaming expansions,
 * partial gathers with other members than values, broadcasts over levels, filters, and rows that fail their item, group
 * or root, raise, crash, hang or answer short. The same seed gives the same program.
 */
#ifndef TESTS_COMMON_RANDOM_PROGRAM_H
#define TESTS_COMMON_RANDOM_PROGRAM_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* {"sources", "steps", "outputs"} with one source `p0`; its rows, borrowed from the program. */
json_t *random_program(uint64_t seed, json_t **ret_rows);

/* The same with every operator of the cases and every kind: nested lists, texts, aligned expansions and gathers; with
 * three sources. Another generator, so that the seeds above keep their meaning. */
json_t *random_typed_program(uint64_t seed);

#endif
