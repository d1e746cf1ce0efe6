/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conformance cases as files: those handed with the project, below SHEAF_SHARED (or ../shared beside the project),
 * and those of tests/cases.
 */
#ifndef TESTS_COMMON_CASE_FILES_H
#define TESTS_COMMON_CASE_FILES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include <sheaf/program.h>

/* Calls `check` with every case of every file, in order. Their number; 0, and a line on stderr, if there is none; -1,
 * and a line, if a file cannot be read. */
int cases_each(void (*check)(void *cookie, const json_t *spec), void *cookie);

/* The program of a case alone, without its input and what is expected; free() it. `step_order`: NULL, or the order in
 * which the steps are written. */
char *case_program(const json_t *spec, const size_t *step_order);

/* The program of a case, compiled. What the parser or the compiler says. */
int case_compile(const struct sheaf_registry *registry, const json_t *spec, struct sheaf_plan **ret_plan,
                 struct sheaf_error *error);

enum { CASE_SOURCES_MAX = 16 };
/* The rows of each source, in the order of plan->sources; false: there are more than CASE_SOURCES_MAX. */
bool case_columns(const struct sheaf_plan *plan, const json_t *spec, json_t *columns[CASE_SOURCES_MAX]);

#endif
