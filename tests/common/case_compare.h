/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparing what came out of a conformance case with what the case says, by the rules of its format: entries are walked
 * by Coordinate, those with `opt` may be missing, FS means F or S, and a cause that is not given must still be there.
 * Every function returns true, or false and one line in `why`.
 */
#ifndef TESTS_COMMON_CASE_COMPARE_H
#define TESTS_COMMON_CASE_COMPARE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* `wanted`: the case's `expect`; `got`: {output: [{"at", "o", "v", "errs", "class", "cause"}, ...]}. */
bool outputs_agree(const json_t *wanted, const json_t *got, char *why, size_t bytes);
/* `wanted`: {call: [min, max]}; `got`: {call: count}. */
bool dispatches_agree(const json_t *wanted, const json_t *got, char *why, size_t bytes);
/* Any two values that must be equal; `what` names them. */
bool json_agrees(const char *what, const json_t *wanted, const json_t *got, char *why, size_t bytes);

#endif
