/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One conformance case: a program, its input and what must come out, as JSON. This part knows the public API and
 * nothing else: it compiles the program, submits the rows, and writes down what the engine says in the words of the
 * case files. Comparing is compare.h's.
 */
#ifndef TESTS_CONFORMANCE_CASE_H
#define TESTS_CONFORMANCE_CASE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include <sheaf/sheaf.h>

enum case_end {
    CASE_RAN,
    CASE_REFUSED,     /* by the compiler */
    CASE_INPUT_ERROR, /* before anything was admitted */
    CASE_BROKEN,      /* the engine did what it must never do: `trouble` says what */
};

/* What an engine made of a case. */
struct observed {
    enum case_end end;
    uint32_t row;     /* REFUSED: of the refusal table */
    json_t *warnings; /* [row, ...], sorted, each once */
    json_t *outputs;  /* {output: [entry, ...]} */
    json_t *roots;    /* [status, ...] */
    json_t *started;  /* {call: Grains started at least once} */
    bool aborted;
    char cause[1024]; /* of the abort */
    char trouble[1024];
};

struct case_setup {
    const struct sheaf_registry *registry;
    const char *worker_path; /* NULL: as the engine finds it */
    uint32_t workers;
    uint64_t seed;             /* decides the window and other things that must not matter */
    uint32_t give_up_after_ms; /* a run that says nothing for so long is stuck */
    bool simulated;            /* no engine: lineage and scheduling alone ... */
    bool stepwise;             /* ... and not by the simulator, but by drawing every step */
};

/* Runs a case. `ret_observed` is always filled; observed_clear frees it. */
void case_run(const struct case_setup *setup, const json_t *spec, struct observed *ret_observed);
void observed_clear(struct observed *observed);

/* simulate.c: plays a compiled case without an engine. */
void case_simulate(const struct case_setup *setup, const struct sheaf_plan *plan, const json_t *spec,
                   struct observed *observed);

/* collect.c: what a result says, into `outputs` and `roots` of `observed`. */
void collect_result(const struct sheaf_plan *plan, const struct sheaf_result *result, struct observed *observed);
/* Sorts entries by Coordinate, and reads `started` and the identities of the ledger. */
void collect_ledger(const char *ledger, struct observed *observed);

/* The first trouble is kept. */
void observed_trouble(struct observed *observed, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
