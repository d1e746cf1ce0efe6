/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the reference evaluator. */
#ifndef TESTS_REFERENCE_EVALUATE_H
#define TESTS_REFERENCE_EVALUATE_H

#include "tests/lineage/operators.h"
#include "tests/reference/reference.h"

enum world { EARLY, FINAL };

struct reading {
    char outcome; /* 'P', 'D', or 'X': FAILED or SUPPRESSED */
    bool may_fail, may_suppress;
    json_t *value;                         /* 'P' */
    json_t *errors;                        /* 'P' of a partial gather: Coordinates left out */
    json_t *fail_causes, *suppress_causes; /* sets; NULL: empty */
};

/* What the operator does with a Grain's inputs, all attempts together. */
struct run {
    bool known;
    bool possible;            /* its inputs may all be PRESENT at some time */
    struct row_result result; /* of the last attempt */
    size_t emitted_max;       /* children some attempt may have left behind */
};

/* An Entity. */
struct node {
    uint32_t domain, ordinal;
    struct node *parent, *next_made;
    bool optional;            /* a child of an Expansion that reads FAILED: it may be missing */
    struct node ***kids;      /* per Domain: NULL-terminated, or NULL: not asked for yet */
    struct reading *items[2]; /* [world][port], outcome 0: not known yet */
    struct reading *grains[2];
    struct run *runs;
    char *needed; /* [port]: 0 not known, 'y', 'n' */
};

struct facts {
    bool live, at_risk, gathered, feeds_output;
};

struct evaluation {
    const struct sheaf_plan *plan;
    json_t *const *columns;
    json_t *keep; /* owns every value made on the way */
    struct node *made;
    struct facts *ports, *calls;
};

/* static.c: what follows from the program alone. */
void facts_find(struct evaluation *e);
bool call_may_fail_group(const struct evaluation *e, uint32_t call);
bool call_may_fail_root(const struct evaluation *e, uint32_t call);
bool call_waits_for_final(const struct evaluation *e, uint32_t call);
bool domain_is_within(const struct evaluation *e, uint32_t domain, uint32_t above);

/* evaluate.c */
struct node *node_make(struct evaluation *e, struct node *parent, uint32_t domain, uint32_t ordinal);
const struct reading *item_read(struct evaluation *e, struct node *node, uint32_t port, enum world world);
const struct reading *grain_read(struct evaluation *e, struct node *node, uint32_t call, enum world world);
const struct run *grain_run(struct evaluation *e, struct node *node, uint32_t call);
/* Entities of `domain`, a child of the node's. */
struct node **node_kids(struct evaluation *e, struct node *node, uint32_t domain);
bool node_is_doomed(struct evaluation *e, struct node *node);
/* How many Grains of its group declare a group failure; a barrier stands if any does. */
uint32_t group_declarers(struct evaluation *e, struct node *node, uint32_t call);
bool inputs_all_present(struct evaluation *e, struct node *node, uint32_t call, enum world world);
json_t *keep(struct evaluation *e, json_t *value);
void causes_add(struct evaluation *e, json_t **set, const json_t *more);
json_t *own_cause(struct evaluation *e, uint32_t call, const struct row_result *result);

/* needed.c: whether an Item or Grain has to be worked out, for sure. */
bool item_is_needed(struct evaluation *e, struct node *node, uint32_t port);
bool grain_must_start(struct evaluation *e, struct node *node, uint32_t call);

#endif
