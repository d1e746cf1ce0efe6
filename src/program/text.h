/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words for people: error lines, kinds as text, and the name that was probably meant.
 */
#ifndef SRC_PROGRAM_TEXT_H
#define SRC_PROGRAM_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include <sheaf/status.h>
#include <sheaf/value.h>

/* Fills `error` (may be NULL) with one line and returns `code`. Control characters become blanks. */
int program_error(struct sheaf_error *error, int code, uint32_t row, const char *format, ...) SHEAF_PRINTF(4, 5);

/* "list<list<i64>>". Longer ones, over 16 lists, are written "list^17<i64>". */
#define KIND_TEXT_BYTES 128
const char *kind_text(sheaf_kind kind, char text[KIND_TEXT_BYTES]);
/* Reads "i64", "list<text>"; 0 or -EINVAL. Type variables are not written this way. */
int kind_parse(const char *text, sheaf_kind *ret_kind);
/* A kind that a value can have: a base kind, known and not a type variable, in any number of lists. */
bool kind_is_concrete(sheaf_kind kind);

/* Searches for the known name nearest to a wrong one: offer every candidate, then ask for the hint, which is
 * "; did you mean \"x\"?" or "" when nothing is near. */
struct nearest {
    const char *wrong;
    const char *best;
    size_t distance;
    char hint[96];
};
void nearest_start(struct nearest *nearest, const char *wrong);
void nearest_offer(struct nearest *nearest, const char *candidate);
const char *nearest_hint(struct nearest *nearest);

#endif
