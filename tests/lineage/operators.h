/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operators of the conformance cases as pure functions of one row, on JSON values: what an operator does, told
 * apart from when, where and with whom it does it. Used by drivers that play all schedules in one process.
 */
#ifndef TESTS_LINEAGE_OPERATORS_H
#define TESTS_LINEAGE_OPERATORS_H

#include <jansson.h>

#include "program/plan.h"

enum row_end {
    ROW_ANSWERS,
    ROW_DECLARES, /* a failure of `scope` */
    ROW_RAISES,   /* the whole dispatch */
    ROW_CRASHES,  /* its worker */
    ROW_HANGS,
    ROW_BREAKS,        /* class contract, this row alone */
    ROW_BREAKS_ANSWER, /* class contract, the answer of the whole dispatch is short */
};

struct row_result {
    enum row_end end;
    enum sheaf_scope scope;
    json_t *outputs; /* array: one value per output, for groups the array of children (emitted before a failure, too) */
    bool streams;    /* children come one by one */
    char cause[160];
};

/* `inputs`: array. Release result->outputs with json_decref. */
void operator_run(const struct plan_call *call, const json_t *inputs, unsigned attempt, struct row_result *ret_result);

#endif
