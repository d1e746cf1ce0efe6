/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lineage: the state machine of docs/SEMANTICS.md over one Plan. It knows which Items exist, what they read, which
 * Grains are READY, which values still have a reader, and when a root is complete. It knows no process, device, file or
 * clock.
 *
 * One thread calls it. Events come in through lineage_admit, lineage_child, lineage_answer and lineage_fail; every
 * consequence leaves through the callbacks of struct lineage_effects before the event returns. The callbacks must not
 * call back into lineage. Nothing recurses over depth or width, and memory comes from the two functions given at
 * creation, in blocks, linear in the entities that live at once.
 *
 * A Grain is (Call, Entity). Entity numbers count within a Domain and are used again once their root is released; keys
 * are never used again. A root is named by its Entity in Domain 0; its root index (0, 1, 2, ... in order of admission)
 * is the first number of every Coordinate under it.
 *
 * Values: lineage stores the value_ref of sources, Call outputs and children. Gather, broadcast and filter store none;
 * a gathered or expanded list is a handle (struct lineage_list) read by cursor. A value is reported by value_unused
 * exactly once: when every Grain that could read it is SEALED and not held, or it is discarded, or its root is
 * released.
 */
#ifndef SRC_LINEAGE_LINEAGE_H
#define SRC_LINEAGE_LINEAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "program/plan.h"
#include "shm/value_ref.h"

struct lineage;

struct grain {
    uint32_t call;
    uint32_t entity; /* in the Call's Domain */
};

/* Where memory comes from. `allocate` gives zeroed or unzeroed memory aligned to 16, or NULL. */
struct lineage_memory {
    void *cookie;
    void *(*allocate)(void *cookie, size_t bytes);
    void (*release)(void *cookie, void *memory, size_t bytes);
};

/* malloc and free. */
extern const struct lineage_memory lineage_heap;

/* What `cancel` found. */
enum lineage_found {
    LINEAGE_KEPT_OUT, /* never given to a worker */
    LINEAGE_SKIPPED,  /* claimed, not started */
    LINEAGE_RUNNING,  /* runs or has run: its answer will come and be discarded */
};

/* A Grain told READY is told exactly one of: an event of its own (answer, fail), or cancel. After RUNNING its late
 * answer or failure is still passed in; lineage discards it and reports its values unused. */
struct lineage_effects {
    void *cookie;
    void (*ready)(void *cookie, struct grain grain);
    enum lineage_found (*cancel)(void *cookie, struct grain grain);
    void (*value_unused)(void *cookie, const struct value_ref *value);
    void (*root_complete)(void *cookie, uint32_t root); /* all is sealed: results may be read, then the root released */
};

/* `plan` must outlive it. -ENOMEM. Destroying reports no values. */
int lineage_create(const struct sheaf_plan *plan, const struct lineage_effects *effects,
                   const struct lineage_memory *memory, struct lineage **ret_lineage);
void lineage_destroy(struct lineage *lineage);
/* Before any root: sources stay until their root is released, so that it can be begun anew. */
void lineage_keep_sources(struct lineage *lineage);
/* It is number `number` of `count` whose Entities meet in the same workers: their keys are kept apart. Before the first
 * Entity. */
void lineage_number_keys(struct lineage *lineage, uint32_t number, uint32_t count);

/* ---- events ---- */

/* Memory that is gone stops the machine: every event returns -ENOMEM from then on and the run must be given up. */

/* A new root: one value per source, in the order of plan->sources. `tag` is the caller's. */
int lineage_admit(struct lineage *lineage, uint64_t tag, const struct value_ref *sources, uint32_t *ret_root);

/*
 * One more child of a READY Grain, schedulable at once. `expansion`: number among plan->call_expansions of the Call.
 * `values`: one per expanded group of that Domain, in the order of the Call's outputs. Ordinals of one attempt come as
 * 0, 1, 2, ...; one that exists already (an earlier attempt emitted it) keeps its value, and the new ones are reported
 * unused, as they are when the Grain is sealed. -EINVAL (values reported unused): the ordinal is not the next.
 */
int lineage_child(struct lineage *lineage, struct grain grain, uint32_t expansion, uint32_t ordinal,
                  const struct value_ref *values);

/*
 * The Grain succeeded. `outputs`: one per output of the Call; what stands for a group that is expanded is ignored.
 * `child_counts`: per expansion of the Call, how many children this attempt emitted; NULL: as many as exist. Fewer than
 * exist is a broken contract: the Grain fails with class `contract`, and 1 is returned. A sealed Grain's outputs are
 * reported unused, and 0 is returned.
 */
int lineage_answer(struct lineage *lineage, struct grain grain, const struct value_ref *outputs,
                   const uint32_t *child_counts);

struct lineage_cause {
    enum sheaf_scope scope;
    enum sheaf_class class_id;
    const char *text; /* copied; empty is replaced by the name of the class */
    uint32_t length_bytes;
    uint32_t attempt;
    uint64_t elapsed_us;
};

/* The Grain failed for good. A scope wider than the operator may declare is a broken contract, and becomes one here. */
int lineage_fail(struct lineage *lineage, struct grain grain, const struct lineage_cause *cause);

/* The root fails as a whole without a Grain of its own to blame: cancelled, its deadline passed, its input unreadable.
 */
int lineage_fail_root(struct lineage *lineage, uint32_t root, const struct lineage_cause *cause);

/* As if the root had not been: what is not sealed is suppressed, and it counts for no output, complete already or not.
 * It becomes complete and is released as any other; its sources are then not reported but the caller's again. Only with
 * lineage_keep_sources. */
int lineage_abandon_root(struct lineage *lineage, uint32_t root);

/* ---- claims ---- */

/* A live claim (dispatch) reads the Grain's inputs: they stay until the Grain is SEALED and every hold is released. */
void lineage_hold(struct lineage *lineage, struct grain grain);
void lineage_release_hold(struct lineage *lineage, struct grain grain);

/* A worker started the held Grain. Counted once, however often it is said. */
void lineage_started(struct lineage *lineage, struct grain grain);

/* An event of the Grain comes soon: what it looks at first is fetched into the cache. */
void lineage_prefetch(const struct lineage *lineage, struct grain grain);
/* The same for the next child that `expansion` of the Call will have, whoever is its parent. */
void lineage_prefetch_child(const struct lineage *lineage, uint32_t call, uint32_t expansion);

/* READY and not sealed: an answer is wanted. */
bool lineage_is_ready(const struct lineage *lineage, struct grain grain);

/* ---- values ---- */

/* Names a list; owns nothing. Readable as long as the Grain or root it was read from holds it. */
struct lineage_list {
    uint32_t port;
    uint32_t entity;
};

struct lineage_value {
    bool is_list;
    union {
        struct value_ref value;
        struct lineage_list list;
    };
};

/* Input number `index` of a READY Grain. */
int lineage_input(const struct lineage *lineage, struct grain grain, uint32_t index, struct lineage_value *ret_value);

/* One member that a partial gather left out. The text is lineage's and lives as long as the root. */
struct lineage_list_error {
    uint64_t ordinal;
    enum sheaf_class class_id;
    uint32_t length_bytes;
    const char *text;
};

struct lineage_cursor {
    struct lineage_list list;
    uint32_t port;    /* whose children's values the list has */
    uint32_t child;   /* next child to look at */
    uint32_t error;   /* next child to look at for errors */
    uint32_t ordinal; /* of the element last given, under its parent */
};

void lineage_list_open(const struct lineage *lineage, struct lineage_list list, struct lineage_cursor *ret_cursor);
/* 1 and an element, or 0 at the end. */
int lineage_list_next(const struct lineage *lineage, struct lineage_cursor *cursor, struct lineage_value *ret_value);
/* 1 and the next member left out, in order, or 0. Independent of lineage_list_next. */
int lineage_list_error_next(const struct lineage *lineage, struct lineage_cursor *cursor,
                            struct lineage_list_error *ret_error);
/* Number of elements (walks the list). */
uint32_t lineage_list_count(const struct lineage *lineage, struct lineage_list list);

/* Every value under the root that was stored and not reported unused. The callback must not call back; it may name
 * another place where the same bytes are. */
typedef void lineage_visit(void *cookie, struct value_ref *value);
void lineage_values(const struct lineage *lineage, uint32_t root, lineage_visit *visit, void *cookie);

/* ---- identities ---- */

uint64_t lineage_entity_key(const struct lineage *lineage, uint32_t domain, uint32_t entity);
uint32_t lineage_parent_of(const struct lineage *lineage, uint32_t domain, uint32_t entity);  /* its Entity number */
uint64_t lineage_parent_key(const struct lineage *lineage, uint32_t domain, uint32_t entity); /* 0 in the root Domain */
/* Writes the Coordinate, outermost first, and returns its depth; nothing is written if it is larger than `capacity`. */
uint32_t lineage_coordinate(const struct lineage *lineage, uint32_t domain, uint32_t entity, uint64_t *buffer,
                            uint32_t capacity);
uint32_t lineage_root_of(const struct lineage *lineage, struct grain grain);
uint64_t lineage_root_index(const struct lineage *lineage, uint32_t root);
/* Entities one level below the root that an open or closed Expansion has made so far. */
uint64_t lineage_root_children(const struct lineage *lineage, uint32_t root);
uint64_t lineage_root_tag(const struct lineage *lineage, uint32_t root);

/* ---- results of a complete root ---- */

enum lineage_outcome {
    LINEAGE_UNRESOLVED,
    LINEAGE_PRESENT,
    LINEAGE_DROPPED,
    LINEAGE_FAILED,
    LINEAGE_SUPPRESSED,
    LINEAGE_OUTCOME_COUNT,
};

enum lineage_status { LINEAGE_OK, LINEAGE_PARTIAL, LINEAGE_FILTERED, LINEAGE_ROOT_FAILED };

bool lineage_root_is_complete(const struct lineage *lineage, uint32_t root);
/* SEMANTICS section 4, the first that holds. */
enum lineage_status lineage_root_status(const struct lineage *lineage, uint32_t root);

struct lineage_item {
    enum lineage_outcome outcome;
    enum sheaf_class class_id; /* of the root cause, FAILED and SUPPRESSED */
    uint32_t domain, entity;
    struct lineage_value value; /* PRESENT */
    const char *cause;          /* FAILED and SUPPRESSED, never empty; lives as long as the root */
    uint32_t cause_length_bytes;
    bool partial; /* itself a partial gather that left a member out */
};

struct lineage_item_cursor {
    uint32_t root, port, entity; /* entity: the next, or LINEAGE_NOBODY */
};
#define LINEAGE_NOBODY UINT32_MAX

/* The Items of output number `output` under a root, in order of Coordinate. */
void lineage_items_open(const struct lineage *lineage, uint32_t root, uint32_t output,
                        struct lineage_item_cursor *ret_cursor);
int lineage_items_next(const struct lineage *lineage, struct lineage_item_cursor *cursor,
                       struct lineage_item *ret_item);

/* A Grain that failed, or the root itself (call PLAN_NONE). */
struct lineage_failure {
    uint32_t call;
    uint32_t entity;
    enum sheaf_scope scope;
    enum sheaf_class class_id;
    const char *text;
    uint32_t length_bytes;
    uint32_t attempt;
    uint64_t elapsed_us;
};

/* All failures under a root, in the order they happened. *position starts at 0. 1 and a failure, or 0 at the end. */
int lineage_failures_next(const struct lineage *lineage, uint32_t root, uint32_t *position,
                          struct lineage_failure *ret_failure);

/* Frees the root and everything under it; values not yet unused are reported. -EBUSY: not complete, or something is
 * held. */
int lineage_release_root(struct lineage *lineage, uint32_t root);

/* ---- ledger ---- */

/* Sums over the roots that completed. entities = present + dropped + failed + suppressed. */
struct lineage_output_counts {
    uint64_t entities, present, dropped, failed, suppressed;
};

/* A suppressed Grain that was READY, or would have become so, counts once as kept out, skipped or discarded. */
struct lineage_call_counts {
    uint64_t grains;  /* created */
    uint64_t started; /* by a worker, at least once */
    uint64_t sealed;
    uint64_t failed;
    uint64_t kept_out, skipped, discarded;
};

void lineage_output_counts(const struct lineage *lineage, uint32_t output, struct lineage_output_counts *ret_counts);
void lineage_call_counts(const struct lineage *lineage, uint32_t call, struct lineage_call_counts *ret_counts);
uint64_t lineage_entity_count(const struct lineage *lineage, uint32_t domain); /* ever made */
uint64_t lineage_live_entities(const struct lineage *lineage);
uint64_t lineage_live_roots(const struct lineage *lineage);
uint64_t lineage_live_bytes(const struct lineage *lineage);     /* records and texts in use */
uint64_t lineage_reserved_bytes(const struct lineage *lineage); /* taken from `memory` */

#endif
