/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside lineage: how an Entity lies in memory, and the functions its files share.
 *
 * All state of one Entity is one record: a header, then what its Domain's layout says (Grains, counters, expansions,
 * gathers, one byte per Item, values). Records of a Domain lie in chunks of a fixed number, so a number finds its
 * record with one shift, nothing moves, and freed numbers are used again, the last one first: it is still in a cache.
 *
 * Items change only upwards: unresolved -> PRESENT or DROPPED -> SUPPRESSED, or straight to FAILED or SUPPRESSED. A
 * barrier is read retroactively by writing SUPPRESSED and letting the tables of section 3 run again over what reads it.
 *
 * Values: every stored Port has a top Domain, the highest that a structural path from it to a reading Call passes. The
 * top Entity counts the Grains below it that may still read (`readers` counter of the Port); at zero every value of
 * that Port below it is unused. Expanding Calls on the way count as readers, because they may still make some.
 */
#ifndef SRC_LINEAGE_STATE_H
#define SRC_LINEAGE_STATE_H

#include <string.h>

#include "lineage/lineage.h"

#define NONE LINEAGE_NOBODY

/* One byte per Item. */
enum {
    ITEM_OUTCOME = 0x07, /* enum lineage_outcome */
    ITEM_FINAL = 0x08,   /* no barrier can change it any more */
    ITEM_UNNEEDED = 0x10,
    ITEM_PARTIAL = 0x20, /* a partial gather that left a member out */
    ITEM_STORED = 0x40,  /* its value was stored */
    ITEM_UNUSED = 0x80,  /* and was reported unused */
};

struct entity {
    uint32_t next; /* sibling; in the free list the next free number */
    uint32_t parent;
    uint64_t key;
    uint32_t root;
    uint32_t ordinal : 31;
    uint32_t doomed : 1; /* below a FAILED Expansion: all Items read SUPPRESSED or FAILED */
};
#define ORDINAL_MAX INT32_MAX

enum grain_phase { GRAIN_ABSENT, GRAIN_WAITING, GRAIN_READY, GRAIN_SEALED };
enum {
    GRAIN_SHADOW = 1,  /* its Items are SUPPRESSED by a barrier already; it runs because it may fail the root */
    GRAIN_STARTED = 2, /* counted in lineage_call_counts.started */
};

struct grain_state {
    uint8_t phase;
    uint8_t outcome;
    uint8_t flags;
    uint8_t holds;
    uint32_t cause; /* FAILED, SUPPRESSED */
};

struct expansion {
    uint32_t first, last, count;
};

struct gather_state {
    uint32_t left; /* Items of children it waits for */
    uint32_t cause;
    uint32_t not_final; /* the same for finality, tracked Ports only */
};

/* (Call, parent) of a Call that may declare group failures; in the parent's record. */
struct group_state {
    uint32_t unsealed;
    uint32_t barrier; /* cause, or CAUSE_NONE */
};

/* Behind the header of the records of Domain 0. */
struct root_state {
    uint64_t index, tag;
    uint32_t unsealed;
    uint32_t unfinished; /* Grains not sealed, or still held */
    uint32_t failed;     /* cause of the failed root, or CAUSE_NONE */
    uint32_t failure_first, failure_last;
    bool trouble; /* some Item is FAILED or SUPPRESSED: only then can anything be unneeded */
    bool side_effect_failed;
    bool complete;
    bool abandoned; /* counts for nothing */
};

/* Causes are numbers of failures; the low ones are texts of our own. */
enum { CAUSE_NONE, CAUSE_DROPPED_VALUE, CAUSE_NOT_NEEDED, CAUSE_FIRST };

struct failure {
    uint32_t next; /* of the same root; in the free list the next free one */
    uint32_t call, entity;
    uint32_t domain;
    uint32_t attempt;
    uint32_t length_bytes;
    uint8_t scope, class_id;
    uint64_t elapsed_us;
    char *text;
};

/* Records of one size: number -> memory. The first member of a record is `uint32_t next`, by which free ones, and those
 * that are given back together, are chained. */
struct pool {
    /* Of every chunk of POOL_CHUNK_RECORDS the address that record 0 would have if it lay before them. */
    uintptr_t *chunks;
    uint32_t stride;
    uint32_t cleared; /* so many bytes of a record that is taken are zero */
    uint32_t used;    /* numbers ever given out */
    uint32_t free;    /* head of the free list */
    uint32_t live;
    uint32_t chunk_count, chunk_capacity;
};
enum { POOL_CHUNK_RECORDS = 64 };

enum reader_kind { READ_CALL, READ_FILTER, READ_GATHER, READ_BROADCAST, READ_EXPAND };

struct reader {
    enum reader_kind kind;
    uint32_t index; /* Call; Port; READ_EXPAND: the child Domain */
};

struct range {
    uint32_t *numbers; /* among all of them in lineage.numbers */
    uint32_t count;
};

struct port_layout {
    const struct pool *records; /* of its Domain */
    enum plan_port_kind kind;
    uint32_t domain;
    uint32_t item;    /* offsets in the record; NONE: it has none */
    uint32_t value;   /* stored Ports */
    uint32_t gather;  /* struct gather_state */
    uint32_t counter; /* of Grains that may still read it, in the record of `top`; NONE: kept until release */
    uint32_t top;     /* Domain */
    uint32_t reader_count;
    struct reader *readers; /* among all of them in lineage.readers */
    uint32_t
        hint; /* BROADCAST: in the record of `from`: the Entity below it before which nobody needs it, plus 1; or 0 */
    uint32_t source, members, mask, call;
    uint32_t gatherer; /* the gather that is all that reads it, or NONE */
    uint32_t from;     /* GATHER: Domain of the children; BROADCAST: Domain of the source */
    bool live, output, tracked, partial, needs_final;
    bool counted;       /* stored, and unused when its readers are finished */
    bool feeds_output;  /* an output derives from it ... */
    bool partial_above; /* ... and it from a partial gather, or is one: then its root's status may depend on it */
    bool kept;          /* a source that stays until its root is released */
};

struct call_layout {
    const struct pool *records; /* of its Domain */
    uint32_t domain;
    uint32_t grain; /* offset of struct grain_state */
    uint32_t group; /* offset of struct group_state in the parent's record, or NONE */
    bool live, side_effect, may_fail_root, may_fail_group, needs_final;
    bool group_observed;                      /* an output or side effect is reached without leaving the group */
    struct range inputs, outputs, expansions; /* Ports, Ports, Domains */
    struct range group_gathers;               /* gathers out of the group through which its Items are observed */
    struct range readings;                    /* stored Ports it counts as a reader of */
    struct lineage_call_counts counts;
};

struct domain_layout {
    struct pool pool;
    uint32_t parent, depth, call;
    uint32_t expansion;                        /* offset of struct expansion in the parent's record */
    struct range calls;                        /* live */
    struct range children;                     /* Domains */
    struct range ports;                        /* live, and all stored ones, by number */
    struct range expands, broadcasts, gathers; /* gathers: live ones out of this Domain into the parent */
    struct range groups;                       /* Calls of child Domains with a struct group_state here */
    struct range tops;                         /* stored Ports whose counter lies here */
    struct range stored;                       /* Ports with a value in the record */
    struct range given;                        /* those whose value is there when the Entity is made */
    uint32_t child_position;                   /* among the children of the parent */
    bool quiet;    /* a leaf whose values all have counted readers: when these are finished, every value was reported */
    bool observed; /* an output, a side effect or a Call that may fail the root in it or below */
    uint64_t entities;
};

enum { EVENT_RESOLVED, EVENT_CHANGED, EVENT_FINAL };
enum { DEMAND_ITEM, DEMAND_CHILDREN }; /* this Item; what a gather reads */

struct event {
    uint32_t port, entity, kind;
};

/* First in, first out; or a stack. The front moves back to the start of the memory when nothing is left. */
struct queue {
    struct event *front, *end; /* the first, and behind the last */
    struct event *events, *limit;
};

struct lineage {
    const struct sheaf_plan *plan;
    struct lineage_effects effects;
    struct lineage_memory memory;
    struct port_layout *ports;
    struct call_layout *calls;
    struct domain_layout *domains;
    struct reader *readers;
    uint32_t *numbers;
    struct lineage_output_counts *output_counts;
    uint64_t *coordinate_a, *coordinate_b; /* scratch, max depth each */
    struct queue queue;                    /* Items that resolved or changed */
    struct queue finals;                   /* that became final */
    struct queue demand;                   /* Items that may have lost their last observer */
    struct queue search;                   /* scratch of the search for an observer */
    struct queue seen;
    struct pool failures;
    struct text_free {
        struct text_free *next;
    } * texts[8]; /* free lists: 32 << i bytes */
    uint8_t *slab;
    uint32_t slab_left;
    struct block {
        struct block *next;
        size_t bytes;
    } * blocks;
    uint64_t last_key, next_root;
    uint32_t key_step; /* between keys: others number those in between */
    uint64_t text_bytes, reserved_bytes;
    bool broken; /* out of memory */
};

/* memory.c */
void *memory_take(struct lineage *l, size_t bytes);
void *pool_take_new(struct lineage *l, struct pool *pool, uint32_t *ret_number);
void pool_give(struct pool *pool, uint32_t number);
void pool_give_chain(struct pool *pool, uint32_t first, uint32_t last, uint32_t count);
int queue_grow(struct lineage *l, struct queue *queue);
void queue_free(struct lineage *l, struct queue *queue);
char *text_take(struct lineage *l, uint32_t bytes);
void text_give(struct lineage *l, char *text, uint32_t bytes);

/* layout.c */
int layout_make(struct lineage *l);

/* entity.c */
struct entity *entity_make(struct lineage *l, uint32_t domain, uint32_t parent, struct entity *parent_record,
                           uint32_t ordinal, uint32_t *ret_entity);
void entity_start(struct lineage *l, uint32_t domain, uint32_t entity, struct entity *record);
void value_store(struct lineage *l, uint32_t port, uint32_t entity, struct entity *record,
                 const struct value_ref *value);
void grain_finish(struct lineage *l, uint32_t call, uint32_t entity, struct entity *record);
void tree_release(struct lineage *l, uint32_t root);

/* evaluate.c */
void item_change(struct lineage *l, uint32_t port, uint32_t entity, struct entity *record,
                 enum lineage_outcome outcome);
void tracked_check(struct lineage *l, uint32_t port, uint32_t entity);
void gather_evaluate(struct lineage *l, uint32_t port, uint32_t entity);
void gather_suppress(struct lineage *l, uint32_t port, uint32_t entity);
void broadcast_evaluate(struct lineage *l, uint32_t port, uint32_t entity);
int changes_follow(struct lineage *l);
int lineage_settle(struct lineage *l, uint32_t root);

/* seal.c */
void grain_seal(struct lineage *l, uint32_t call, uint32_t entity, struct entity *record, enum lineage_outcome outcome,
                uint32_t cause);
void grain_suppress(struct lineage *l, uint32_t call, uint32_t entity, uint32_t cause);
void barrier_commit(struct lineage *l, uint32_t call, uint32_t entity, uint32_t cause);
void root_fail(struct lineage *l, uint32_t root, uint32_t cause);
int failure_make(struct lineage *l, uint32_t call, uint32_t entity, uint32_t domain, uint32_t root,
                 const struct lineage_cause *cause, uint32_t *ret_cause);
uint32_t item_cause(const struct lineage *l, uint32_t port, uint32_t entity);
uint32_t cause_lower(const struct lineage *l, uint32_t a, uint32_t b);
const char *cause_text(const struct lineage *l, uint32_t cause, uint32_t *ret_length, enum sheaf_class *ret_class);

/* liveness.c */
void broadcast_hint_reset(struct lineage *l, uint32_t port, uint32_t entity);
bool grain_is_needed(struct lineage *l, uint32_t call, uint32_t entity);
void demand_check(struct lineage *l, const struct event *lost);

/* result.c */
void root_tally(struct lineage *l, uint32_t root, int64_t sign);

/* value.c */
void port_value(const struct lineage *l, uint32_t port, uint32_t entity, const struct entity *record,
                struct lineage_value *ret_value);

/* ---- access: what ends in `_of` lies in a record at hand, what ends in `_at` looks the record up first ---- */

static inline uint8_t *pool_at(const struct pool *pool, uint32_t number)
{
    return (uint8_t *)(pool->chunks[number / POOL_CHUNK_RECORDS] + (uintptr_t)number * pool->stride);
}

static inline uint32_t *pool_next(const struct pool *pool, uint32_t number)
{
    return (uint32_t *)(void *)pool_at(pool, number);
}

/* NULL: no memory. */
static inline void *pool_take(struct lineage *l, struct pool *pool, uint32_t *ret_number)
{
    uint32_t number = pool->free;
    if (number == NONE)
        return pool_take_new(l, pool, ret_number);
    uint32_t *next = pool_next(pool, number);
    pool->free = *next;
    pool->live++;
    *ret_number = number;
    return memset(next, 0, pool->cleared);
}

/* The record of an Entity among those of its Domain. */
static inline struct entity *entity_of(const struct pool *records, uint32_t entity)
{
    return (struct entity *)(void *)pool_at(records, entity);
}

static inline uint8_t *record_at(const struct lineage *l, uint32_t domain, uint32_t entity)
{
    return pool_at(&l->domains[domain].pool, entity);
}

static inline struct entity *entity_at(const struct lineage *l, uint32_t domain, uint32_t entity)
{
    return (struct entity *)(void *)record_at(l, domain, entity);
}

static inline void *field_of(const struct entity *record, uint32_t offset)
{
    return (uint8_t *)(uintptr_t)record + offset;
}

static inline uint8_t *item_of(const struct port_layout *p, const struct entity *record)
{
    return field_of(record, p->item);
}

static inline uint8_t *item_at(const struct lineage *l, uint32_t port, uint32_t entity)
{
    const struct port_layout *p = &l->ports[port];
    return item_of(p, entity_of(p->records, entity));
}

static inline enum lineage_outcome outcome_of(const struct port_layout *p, const struct entity *record)
{
    return (enum lineage_outcome)(*item_of(p, record) & ITEM_OUTCOME);
}

static inline enum lineage_outcome item_outcome(const struct lineage *l, uint32_t port, uint32_t entity)
{
    return (enum lineage_outcome)(*item_at(l, port, entity) & ITEM_OUTCOME);
}

static inline bool outcome_is_bad(enum lineage_outcome outcome)
{
    return outcome == LINEAGE_FAILED || outcome == LINEAGE_SUPPRESSED;
}

static inline struct grain_state *grain_of(const struct call_layout *c, const struct entity *record)
{
    return field_of(record, c->grain);
}

static inline struct grain_state *grain_at(const struct lineage *l, uint32_t call, uint32_t entity)
{
    const struct call_layout *c = &l->calls[call];
    return grain_of(c, entity_of(c->records, entity));
}

/* What the outputs of a Grain read: a shadow reads SUPPRESSED while it still runs. */
static inline enum lineage_outcome grain_reads(const struct grain_state *grain)
{
    if (grain->flags & GRAIN_SHADOW && grain->outcome != LINEAGE_FAILED)
        return LINEAGE_SUPPRESSED;
    return (enum lineage_outcome)grain->outcome;
}

static inline struct gather_state *gather_of(const struct port_layout *p, const struct entity *record)
{
    return field_of(record, p->gather);
}

static inline struct gather_state *gather_at(const struct lineage *l, uint32_t port, uint32_t entity)
{
    const struct port_layout *p = &l->ports[port];
    return gather_of(p, entity_of(p->records, entity));
}

/* The Expansion into the child Domain `d` of the parent at hand. */
static inline struct expansion *expansion_of(const struct domain_layout *d, const struct entity *parent)
{
    return field_of(parent, d->expansion);
}

/* The Expansion into child Domain `domain` of the parent Entity `parent`. */
static inline struct expansion *expansion_at(const struct lineage *l, uint32_t domain, uint32_t parent)
{
    const struct domain_layout *d = &l->domains[domain];
    return expansion_of(d, entity_at(l, d->parent, parent));
}

static inline struct group_state *group_at(const struct lineage *l, uint32_t call, uint32_t parent)
{
    const struct call_layout *c = &l->calls[call];
    return (struct group_state *)(void *)(record_at(l, l->domains[c->domain].parent, parent) + c->group);
}

static inline struct root_state *root_at(const struct lineage *l, uint32_t root)
{
    return (struct root_state *)(void *)(record_at(l, 0, root) + sizeof(struct entity));
}

static inline struct value_ref *value_of(const struct port_layout *p, const struct entity *record)
{
    return field_of(record, p->value);
}

static inline struct value_ref *value_at(const struct lineage *l, uint32_t port, uint32_t entity)
{
    const struct port_layout *p = &l->ports[port];
    return value_of(p, entity_of(p->records, entity));
}

static inline struct failure *failure_at(const struct lineage *l, uint32_t cause)
{
    return (struct failure *)(void *)pool_at(&l->failures, cause - CAUSE_FIRST);
}

/* The Entity of Domain `above` (an ancestor of `domain`, or itself) over `entity`. */
static inline uint32_t ancestor_of(const struct lineage *l, uint32_t domain, uint32_t entity, uint32_t above)
{
    while (domain != above) {
        entity = entity_at(l, domain, entity)->parent;
        domain = l->domains[domain].parent;
    }
    return entity;
}

/* An Item may have become final, if anybody wants to know. */
static inline void final_check(struct lineage *l, uint32_t port, uint32_t entity)
{
    if (l->ports[port].tracked)
        tracked_check(l, port, entity);
}

/* When there is no memory for it, lineage_settle says so. */
static inline void queue_push(struct lineage *l, struct queue *queue, uint32_t port, uint32_t entity, uint32_t kind)
{
    if (queue->end == queue->limit && queue_grow(l, queue))
        return;
    *queue->end++ = (struct event){port, entity, kind};
}

static inline bool queue_is_empty(const struct queue *queue)
{
    return queue->front == queue->end;
}

static inline void queue_clear(struct queue *queue)
{
    queue->front = queue->end = queue->events;
}

/* Of one that is not empty. */
static inline struct event queue_pop(struct queue *queue)
{
    struct event event = *queue->front++;
    if (queue->front == queue->end)
        queue_clear(queue);
    return event;
}

/* A child that is not the last one a gather waits for changes nothing there but the count. */
static inline bool gather_counts_down(const struct lineage *l, const struct port_layout *p, const struct entity *child)
{
    if (p->gatherer == NONE)
        return false;
    const struct port_layout *gather = &l->ports[p->gatherer];
    struct gather_state *state = gather_of(gather, entity_of(gather->records, child->parent));
    if (state->left == 1)
        return false;
    state->left--;
    return true;
}

/* What an Item reads from now on: everybody who reads it will hear of it. */
static inline void item_set(struct lineage *l, uint32_t port, uint32_t entity, struct entity *record,
                            enum lineage_outcome outcome)
{
    const struct port_layout *p = &l->ports[port];
    uint8_t *item = item_of(p, record);
    if ((*item & ITEM_OUTCOME) != LINEAGE_UNRESOLVED) {
        item_change(l, port, entity, record, outcome);
        return;
    }
    *item |= (uint8_t)outcome;
    if (outcome_is_bad(outcome))
        root_at(l, record->root)->trouble = true;
    if (p->reader_count && (outcome_is_bad(outcome) || !gather_counts_down(l, p, record)))
        queue_push(l, &l->queue, port, entity, EVENT_RESOLVED);
    final_check(l, port, entity);
}

/* A walk over everything below (domain, entity), parents before children, ordinals in order. */
struct walk {
    uint32_t base_domain;
    uint32_t domain, entity;
};

/* Starts below the base Entity; `only`: just this child Domain of it and what is below, or NONE. False: nothing there.
 */
bool walk_start(const struct lineage *l, struct walk *walk, uint32_t domain, uint32_t entity, uint32_t only);
bool walk_next(const struct lineage *l, struct walk *walk, uint32_t only);

/* Entities of `domain` below (above, entity), in order of Coordinate. NONE: no more. */
uint32_t below_first(const struct lineage *l, uint32_t domain, uint32_t above, uint32_t entity);
uint32_t below_next(const struct lineage *l, uint32_t domain, uint32_t above, uint32_t current);

#define FOR_RANGE(range, name)                                                                                         \
    for (uint32_t name, *name##_at = (range).numbers, *name##_end = name##_at + (range).count;                         \
         name##_at != name##_end && (name = *name##_at, true); name##_at++)

#endif
