/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ready ring: a bounded FIFO of Grains from one shard (producer) to many worker processes (consumers) that may die
 * at any instruction without losing, doubling or wedging anything.
 *
 * A slot is one 64-bit word: lap, state, grain, claimant, CANCEL and a check tag. Claiming is one CAS, and the word
 * says who has it (C1); the worker then writes the claim into its page (C3) and only then empties the slot (C4).
 * Position p lies in slot p % capacity and in lap p / capacity.
 *
 *   P1 descriptor, P2 slot EMPTY -> READY(lap, g), P3 tail + 1     shard; then bump the event count, once per batch
 *   C1 READY -> CLAIMED(w)                                          worker, exact CAS
 *   C4 CLAIMED(w) -> EMPTY(lap + 1), C4' the same with CANCEL        worker, exact CAS
 *   X1 READY -> EMPTY(lap + 1), X2 CLAIMED(w) -> CLAIMED(w, CANCEL)  shard, exact CAS
 *   R2 CLAIMED(dead w) -> EMPTY(lap + 1)                            shard, w proven dead
 *
 * `head` is a hint that anyone moves past positions that are no longer READY. The producer skips a position whose slot
 * is still CLAIMED, so a stopped worker wedges nothing. Slots and head are memory workers write: they are checked when
 * read, and the shard can rebuild them. Tail and epoch lie in memory workers only read; the shard keeps its own copies
 * and a shadow (g, d) per slot, which is what recovery goes by.
 */
#ifndef SHM_READY_RING_H
#define SHM_READY_RING_H

#include "shm/claim_page.h"
#include "shm/dispatch.h"

#define READY_RING_CAPACITY_MAX (1u << 20)
#define READY_RING_WORKERS_MAX 4096u

/* Workers write this part: `capacity` words follow. */
struct ready_ring_slots {
    shared_u64 head;
    uint8_t apart[FALSE_SHARING_BYTES - sizeof(shared_u64)];
    shared_u64 words[];
};
static_assert(offsetof(struct ready_ring_slots, words) == FALSE_SHARING_BYTES, "part of the shared layout");

/* Workers only read this part. */
struct ready_ring_notice {
    shared_u64 tail;
    shared_u32 epoch; /* changes with every rebuild; part of the check tag */
    uint32_t reserved;
    uint8_t apart[FALSE_SHARING_BYTES - 16];
};
static_assert(sizeof(struct ready_ring_notice) == FALSE_SHARING_BYTES, "part of the shared layout");

/* A process's view of one ring. */
struct ready_ring {
    struct ready_ring_slots *slots;
    struct ready_ring_notice *notice;
    uint32_t capacity; /* a power of two */
    uint32_t salt; /* the ring's number, part of the check tag: a word copied from another ring does not check out */
};

static inline uint64_t ready_ring_slots_bytes(uint32_t capacity)
{
    return sizeof(struct ready_ring_slots) + (uint64_t)capacity * sizeof(shared_u64);
}

/* --- the worker --- */

struct ready_claim {
    uint32_t row;   /* in the claim page */
    bool cancelled; /* the shard cancelled it before it was unlinked: never run it, publish RELEASED, release the row */
    uint64_t position;
    uint64_t word;            /* as written at C1 */
    struct dispatch dispatch; /* copied between C1 and C3: this is the row, the table is not read again */
};

/* What a worker wants to take. */
struct ready_wish {
    uint32_t rows_max;     /* claim at most that many; more than FREE rows in the page are never claimed */
    uint32_t examined_max; /* look at most at that many positions from the head; 0: the whole ring */
    /* When not NULL: take only rows for which it is true, in FIFO order among them. Called before the claim. */
    bool (*wanted)(void *context, const struct dispatch_peek *peek);
    void *context;
    struct ready_claim *const *places; /* when not NULL: where each of rows_max claims goes, instead of `claims` */
};

struct ready_taken {
    uint32_t claimed;  /* entries of `claims`, or `places`, filled */
    uint32_t examined; /* positions looked at */
    uint32_t damaged;  /* words whose tag or grain did not check out, passed over: tell the shard */
};

/*
 * C1 to C4 for up to wish->rows_max rows. Every claim ends with exactly one record (ANSWER, FAIL, RAISED or RELEASED)
 * and then claim_page_release. Nothing claimed is a normal result. `worker` is this worker's id, below
 * READY_RING_WORKERS_MAX.
 */
struct ready_taken ready_ring_claim(const struct ready_ring *ring, const struct dispatch_table *table,
                                    const struct claim_page *page, uint32_t worker, const struct ready_wish *wish,
                                    struct ready_claim *claims);

/* Whether some position between head and tail holds a READY row: the look before parking. */
bool ready_ring_has_ready(const struct ready_ring *ring);

/* --- anybody --- */

/* How many rows wait, at a glance: positions between head and tail, holes among them too. A hint. */
static inline uint32_t ready_ring_waiting(const struct ready_ring *ring)
{
    uint64_t tail = load_acquire_u64(&ring->notice->tail), head = load_relaxed_u64(&ring->slots->head);
    return tail - head <= ring->capacity ? (uint32_t)(tail - head) : 0;
}

/* How many rows are READY now, by looking at every slot between head and tail. A hint. */
uint32_t ready_ring_count_ready(const struct ready_ring *ring);

/* --- the shard --- */

struct ready_shadow {
    uint64_t position;
    uint64_t number;
    uint32_t grain;
    uint32_t used; /* 0: nothing was pushed into this slot since the last rebuild */
};

/* Shard-private: never in shared memory. */
struct ready_producer {
    struct ready_ring ring;
    struct ready_shadow *shadow;
    uint64_t tail;
    uint32_t epoch;
};

/* Start an empty ring over zeroed or stale memory. -EINVAL, -ENOMEM. Before any worker maps it. */
int ready_producer_open(struct ready_producer *producer, const struct ready_ring *ring);
void ready_producer_close(struct ready_producer *producer);

/*
 * P2, P3 for the Grain whose descriptor was written (P1). 0; -EAGAIN: full, keep it in the arena; -EBADMSG: a slot does
 * not check out: stop the Pool's workers and rebuild. `ret_position` is what cancel and find want.
 */
int ready_ring_push(struct ready_producer *producer, uint32_t grain, uint64_t number, uint64_t *ret_position);

/* The same in two: P2, and P3 for all that was put since. Workers see rows that are shown together all at once, so that
 * one that is awake does not take the first of them for the whole. */
int ready_ring_put(struct ready_producer *producer, uint32_t grain, uint64_t number, uint64_t *ret_position);
void ready_ring_show(struct ready_producer *producer);

/*
 * Whether a push would find a place: the look of a shard that published `overflow` and announced its sleep, before it
 * parks (a worker may have made room between the push that found none and `overflow`, and then parked).
 */
bool ready_ring_has_room(const struct ready_producer *producer);

/* What the slot of a pushed (g, d) says of it. */
enum ready_found {
    READY_GONE,    /* the slot no longer names it: look in the pages, then drain the completion rings */
    READY_WAITING, /* READY */
    READY_TAKEN,   /* CLAIMED and not yet unlinked */
};
enum ready_found ready_ring_find(const struct ready_producer *producer, uint32_t grain, uint64_t number,
                                 uint64_t position);

/* It is to be found soon: what the ring knows of it is fetched into the cache. */
static inline void ready_ring_prefetch(const struct ready_producer *producer, uint64_t position)
{
    uint32_t index = (uint32_t)position & (producer->ring.capacity - 1);
    __builtin_prefetch((const void *)&producer->ring.slots->words[index]);
    __builtin_prefetch(&producer->shadow[index]);
}

enum ready_cancel {
    READY_CANCEL_GONE,   /* not in the slot: X3 in the pages is next */
    READY_CANCEL_DONE,   /* X1: no worker ever had it; (g, d) is not live any more */
    READY_CANCEL_MARKED, /* X2: a worker has it and will release it without running it; (g, d) stays live until then */
};
enum ready_cancel ready_ring_cancel(struct ready_producer *producer, uint32_t grain, uint64_t number,
                                    uint64_t position);

/* R2: for a worker proven dead, after its completion rings were drained. Tells (g, d) by the shadow, empties the slots.
 */
typedef void ready_ring_visit(void *context, uint32_t grain, uint64_t number);
uint32_t ready_ring_sweep(struct ready_producer *producer, uint32_t worker, ready_ring_visit *visit, void *context);

/* 0, or -EBADMSG when some slot holds a word that the shard and its workers cannot have written. */
int ready_ring_check(const struct ready_producer *producer);

/* The head, which any worker may have spoiled, back to where it can hide nothing. Safe at any time. */
void ready_ring_reset_head(struct ready_producer *producer);

/*
 * Empty the ring under a new epoch. Every worker that maps it must be proven dead or stopped with nothing claimed. The
 * caller pushes again what was in it.
 */
void ready_ring_rebuild(struct ready_producer *producer);

#endif
