/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a driver of lineage needs to run the operators of the conformance cases in one process, whatever its schedule:
 * JSON values as lineage's values, rows run by operators.h, results as JSON. Checks on the way that each value is
 * unused exactly once and never while it can be read, that lists have the length they say, and that nothing FAILED or
 * SUPPRESSED lacks a cause.
 */
#ifndef TESTS_LINEAGE_WITNESS_H
#define TESTS_LINEAGE_WITNESS_H

#include <jansson.h>

#include "lineage/lineage.h"
#include "tests/lineage/operators.h"

/* One run. */
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
void played_clear(struct played *played);

struct witness {
    const struct sheaf_plan *plan;
    json_t *const *columns; /* one array of rows per source, in the order of plan->sources */
    struct played *out;
    uint8_t *values; /* by number: 1 live, 2 unused */
    json_t **held;   /* by number: what a live value refers to, or NULL */
    uint64_t value_count, value_capacity;
    uint32_t roots;
    json_t **results; /* per root index: {output: [entries]} */
};

void witness_open(struct witness *w, const struct sheaf_plan *plan, json_t *const *columns, struct played *ret_played);
void witness_close(struct witness *w);
void witness_breach(struct witness *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- values ---- */

struct value_ref witness_value(struct witness *w, json_t *json);
struct value_ref witness_source(struct witness *w, uint32_t root, uint32_t source);
void witness_unused(struct witness *w, const struct value_ref *value);

/* ---- rows ---- */

/* Runs a Grain's operator on its inputs and notes that it was started. Release result->outputs with json_decref. */
void witness_run(struct witness *w, const struct lineage *lineage, struct grain grain, uint32_t attempt,
                 struct row_result *ret_result);
/* Children of Expansion number `expansion` of the Call that the row emits. */
uint32_t witness_children(const struct witness *w, uint32_t call, uint32_t expansion, const struct row_result *result);
/* The class by which a row fails that ends so. */
enum sheaf_class witness_class(enum row_end end);

/* ---- results ---- */

/* Takes down what a complete root says; a second time it replaces the first. */
void witness_collect(struct witness *w, const struct lineage *lineage, uint32_t root);
/* All roots are released: fills in `out`, and no value may be left. */
void witness_finish(struct witness *w);

#endif
