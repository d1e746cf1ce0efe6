/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference evaluator: what docs/SEMANTICS.md says comes out of a program, computed the slow and obvious way and
 * without a line of src/lineage or src/sched. It has no events, no phases and no order of work: it asks for one Item
 * after another and looks the answer up in the tables of the page.
 *
 * Every Item has two readings. The *final* one is what it reads when all is over. The *early* one is what it may have
 * read before a barrier or a failed Expansion reached it; it says which Grains may have run in vain, and so which of
 * FAILED and SUPPRESSED, how many children and which causes timing may leave behind. Items that are PRESENT or DROPPED
 * in the end, gathers and root statuses have no such freedom.
 *
 * It reads the Plan as a record of the program (Ports, Calls, Domains, options); what the compiler worked out about
 * liveness, finality and priorities is worked out here again. `abort` is not covered: what a stopped run has committed
 * is timing.
 */
#ifndef TESTS_REFERENCE_REFERENCE_H
#define TESTS_REFERENCE_REFERENCE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "program/plan.h"

struct expected {
    /* {output: [{"at", "o": "P|D|F|S|FS", "opt", "v", "errs", "F": {cause: true}, "S": {cause: true}}]}: entries in
     * order of Coordinate; the causes an F or an S may name, "class:text", or "class:" where the text is free. */
    json_t *outputs;
    json_t *roots;  /* [status] */
    json_t *starts; /* {call: {coordinate: must}}: Grains that may be started; true: they have to be */
};

/* `columns`: one array of rows per source, in the order of plan->sources. */
void reference_evaluate(const struct sheaf_plan *plan, json_t *const *columns, struct expected *ret_expected);
void expected_clear(struct expected *expected);

/*
 * Does a run agree? `outputs`: {output: [{"at", "o": "P|D|F|S", "v", "errs", "class", "cause"}]}, `started`: {call:
 * {coordinate: true}}, or NULL. Writes the first difference.
 */
bool expected_agrees(const struct expected *expected, const json_t *outputs, const json_t *roots, const json_t *started,
                     char *why, size_t why_bytes);

#endif
