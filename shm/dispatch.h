/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dispatch descriptors: what a worker needs to know of a row, written by the shard before it pushes the row.
 *
 * The table lies in memory that workers map read-only. Slot g describes one row on offer. The shard may write slot g
 * while no claim of g is live: no ready-ring slot names g, and a page row names it at most with the number of a
 * dispatch that has ended (PROTOCOL: P1). A worker copies the descriptor after it claimed g in the
 * ring (C1) and before it writes its page row (C3), and never reads the table for that row again: a recalled row may be
 * described anew.
 *
 * A dispatch number counts the pushes of g, charged or not, and is never reset when the id is used for another Grain:
 * it is what tells two claims of one id apart. It has 33 bits (it shares a word in the claim page) and wraps; only a
 * handful of dispatches of one id are ever live at once, so equal means same.
 */
#ifndef SHM_DISPATCH_H
#define SHM_DISPATCH_H

#include <stddef.h>

#include "shm/atomic.h"
#include "shm/value_ref.h"

#define DISPATCH_GRAIN_BITS 28u
#define DISPATCH_GRAINS_MAX (1u << DISPATCH_GRAIN_BITS)
#define DISPATCH_NUMBER_BITS 33u
#define DISPATCH_NUMBER_MASK ((UINT64_C(1) << DISPATCH_NUMBER_BITS) - 1)
#define DISPATCH_HOME_ANY UINT32_MAX
#define DISPATCH_INPUTS_INLINE 8u
#define DISPATCH_DEPTH_INLINE 8u

/*
 * Coordinate: (root, ordinal, ordinal, ...), `depth` numbers. Deeper than DISPATCH_DEPTH_INLINE or more inputs than
 * DISPATCH_INPUTS_INLINE (DISPATCH_OVERFLOW): `overflow` names a block that holds all of them: first `depth` uint64_t,
 * then `input_count` struct value_ref; the inline arrays then hold the first ones.
 *
 * What is looked at before a claim is the first cache line. In the table only what a row uses is written, and packed:
 * the fields before `coordinate` as they are here, then its inputs, then its Coordinate; with DISPATCH_OVERFLOW only
 * `overflow` follows. Each line of a descriptor crosses from the shard's core to the worker's: two are enough for one
 * input two levels deep.
 */
struct dispatch {
    uint64_t number;     /* this dispatch of the Grain */
    uint64_t key;        /* of the Entity: names it within the run */
    uint64_t parent_key; /* of its direct parent Entity (state per parent); 0 in the root Domain */
    uint64_t bytes;      /* of the inputs of a batch operator's row, else 0 */
    uint64_t shape;      /* shm/shape.h, for SHEAF_OPERATOR_ONE_SHAPE, else SHAPE_NONE */
    uint32_t grain;      /* g: says that this is the slot it should be */
    uint32_t call;
    uint32_t home;    /* the worker that has its parent open: a hint, or DISPATCH_HOME_ANY; see DISPATCH_ALONE */
    uint32_t batch;   /* isolation ring: rows with the same number are one batch, else 0 */
    uint32_t attempt; /* charged attempts before this one */
    uint16_t depth;
    uint16_t flags;       /* DISPATCH_... */
    uint32_t input_count; /* from here on: only who has claimed it */
    uint32_t reserved_count;
    uint64_t timeout_ns; /* of the row, 0: none */
    uint64_t coordinate[DISPATCH_DEPTH_INLINE];
    struct value_ref inputs[DISPATCH_INPUTS_INLINE];
    struct value_ref overflow; /* DISPATCH_OVERFLOW */
    uint64_t reserved[10];     /* 0 */
};
static_assert(sizeof(struct dispatch) == 512, "part of the shared layout");
static_assert(offsetof(struct dispatch, input_count) == 64, "what is looked at before a claim is one cache line");
static_assert(offsetof(struct dispatch, coordinate) == 80, "part of the shared layout");

enum {
    /* A suspect: claimed with nothing else, and only by a process that has run no row yet. The worker `home` sees to it
     * that there is one: it ends when it has run rows. Without a home any worker takes it, alone. */
    DISPATCH_ALONE = 1u << 0,
    DISPATCH_OVERFLOW = 1u << 1, /* Coordinate and inputs are in `overflow` */
};

/* What may be looked at before a row is claimed: a hint, exact only if the claim then succeeds. */
struct dispatch_peek {
    uint32_t grain;
    uint32_t call;
    uint32_t home;
    uint64_t key;
    uint64_t parent_key;
    uint64_t bytes;
    uint64_t shape;
    uint32_t batch;
    uint32_t flags;
};

/* Slots as they lie in the table: of each only the part before `coordinate` is where struct dispatch has it. */
struct dispatch_table {
    struct dispatch *slots; /* const for workers: their mapping is read-only */
    uint32_t capacity;
};

static inline uint64_t dispatch_next_number(uint64_t number)
{
    return (number + 1) & DISPATCH_NUMBER_MASK;
}

/* Grain and number of a dispatch in one word, whose upper bits are free for others. */
#define DISPATCH_NAME_BITS (DISPATCH_GRAIN_BITS + DISPATCH_NUMBER_BITS)

static inline uint64_t dispatch_name(uint32_t grain, uint64_t number)
{
    return number << DISPATCH_GRAIN_BITS | grain;
}

static inline uint32_t dispatch_name_grain(uint64_t name)
{
    return (uint32_t)(name & (DISPATCH_GRAINS_MAX - 1));
}

static inline uint64_t dispatch_name_number(uint64_t name)
{
    return name >> DISPATCH_GRAIN_BITS & DISPATCH_NUMBER_MASK;
}

static inline uint64_t dispatch_table_bytes(uint32_t capacity)
{
    return (uint64_t)capacity * sizeof(struct dispatch);
}

/* Shard, P1: describe g = dispatch->grain. Asserts bounds (they are the shard's own). The push after it publishes it.
 */
void dispatch_write(const struct dispatch_table *table, const struct dispatch *dispatch);

/* Any: look at g without having claimed it. -ERANGE: g is out of bounds. */
int dispatch_peek(const struct dispatch_table *table, uint32_t grain, struct dispatch_peek *ret_peek);

/* What is seen of a row by those who have not claimed it and follow it all the same. */
struct dispatch_glance {
    uint32_t call;
    uint64_t timeout_ns; /* of the row, 0: none */
};

/* Any: some of what describes dispatch `number` of g. -ERANGE: g is out of bounds; -ENOENT: the slot describes another
 * dispatch, or came to do so meanwhile. */
int dispatch_glance(const struct dispatch_table *table, uint32_t grain, uint64_t number,
                    struct dispatch_glance *ret_glance);

/* Any: g will be copied, or described, soon. What cannot be is passed over. */
void dispatch_prefetch(const struct dispatch_table *table, uint32_t grain);

/* Worker, C2: copy the descriptor of a claimed g; what it does not use (inputs and Coordinate beyond its counts, or all
 * of them with DISPATCH_OVERFLOW; `overflow` without) is not touched in *ret_dispatch. -ERANGE: out of bounds;
 * -EBADMSG: the slot does not describe g. */
int dispatch_copy(const struct dispatch_table *table, uint32_t grain, struct dispatch *ret_dispatch);

#endif
