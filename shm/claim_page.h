/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The claim page of one worker: one row per Grain it holds, so that the engine knows what a death takes with it.
 *
 * A row is one 64-bit word (state, g, d) and three words that only inform. The worker owns the page; the shard changes
 * a row only by X3 and L1 (exact CAS from CLAIMED) and, once the worker is proven dead, by R3. Names as in the
 * protocol:
 *
 *   C3 FREE -> CLAIMED(g, d)             worker, store, after the ring slot was claimed, before it is unlinked
 *   C5 CLAIMED -> RUNNING                worker, exact CAS; fails: cancelled or recalled, the row is given back
 *   C7 any -> FREE                       worker, store, after the record that ends the claim was published
 *   X3 CLAIMED(g, d) -> CANCELLED(g, d)  shard, exact CAS, only after the slot was seen not to name (g, d)
 *   L1 CLAIMED(g, d) -> RECALLED(g, d)   shard, exact CAS, same condition
 *   R3 any -> FREE                       worker proven dead: with several shards, by lane_reset when all are done
 *
 * The page lies in memory the worker can write: what the shard reads from it is checked against what it knows (its set
 * of live (g, d)); nothing in here trusts g or d to be in bounds.
 */
#ifndef SHM_CLAIM_PAGE_H
#define SHM_CLAIM_PAGE_H

#include "shm/dispatch.h"

enum claim_state {
    CLAIM_FREE = 0,
    CLAIM_CLAIMED,
    CLAIM_RUNNING,
    CLAIM_CANCELLED,
    CLAIM_RECALLED,
    CLAIM_DAMAGED, /* read back only: no state of ours, the worker scribbled */
};

#define CLAIM_ROWS_MAX 4096u
#define CLAIM_ROW_NONE UINT32_MAX

struct claim_row_shared {
    shared_u64 word;
    shared_u64 since_ns; /* CLOCK_MONOTONIC: RUNNING since, or since the last emitted child or the end of a block */
    shared_u32 emitted;  /* children emitted by this claim */
    shared_u32 blocked;  /* 1: waits for memory, no deadline runs */
    uint64_t reserved;
};
static_assert(sizeof(struct claim_row_shared) == 32, "part of the shared layout");

struct claim_page {
    struct claim_row_shared *rows;
    uint32_t row_count;
};

/* A row as read at one moment. The informing fields belong to it only if it was RUNNING before and after: they are
 * hints. */
struct claim_row {
    enum claim_state state;
    uint32_t grain;
    uint64_t number;
    uint64_t since_ns;
    uint32_t emitted;
    bool blocked;
};

static inline uint64_t claim_page_bytes(uint32_t row_count)
{
    return (uint64_t)row_count * sizeof(struct claim_row_shared);
}

/* --- the worker --- */

/* The first FREE row at or after `from`, or CLAIM_ROW_NONE. */
uint32_t claim_page_find_free(const struct claim_page *page, uint32_t from);

/* C3. The row must be FREE. */
void claim_page_take(const struct claim_page *page, uint32_t row, uint32_t grain, uint64_t number);

/* C5. 0: run it; -ECANCELED: cancelled or recalled, publish RELEASED and free the row. */
int claim_page_start(const struct claim_page *page, uint32_t row, uint32_t grain, uint64_t number, uint64_t now_ns);

/* A child was emitted by a RUNNING row: the deadline starts again. */
void claim_page_count_child(const struct claim_page *page, uint32_t row, uint64_t now_ns);

/* A RUNNING row begins or ends to wait for memory: the deadline stops, and starts again. */
void claim_page_set_blocked(const struct claim_page *page, uint32_t row, bool blocked, uint64_t now_ns);

/* C7. The record that ends the claim is published. */
void claim_page_release(const struct claim_page *page, uint32_t row);

/* --- the shard and the supervisor --- */

/* One row. CLAIM_FREE for a row out of bounds. */
struct claim_row claim_page_read(const struct claim_page *page, uint32_t row);

/* The row that names (g, d) in any state but FREE, or CLAIM_ROW_NONE. */
uint32_t claim_page_find(const struct claim_page *page, uint32_t grain, uint64_t number);

/* X3 at `row`. CLAIM_CANCELLED: done; CLAIM_RUNNING: it runs, discard its result; else the state found (FREE:
 * answered). */
enum claim_state claim_page_cancel(const struct claim_page *page, uint32_t row, uint32_t grain, uint64_t number);

/* L1 at `row`. CLAIM_RECALLED: done, push it again with a new number; else the state found. */
enum claim_state claim_page_recall(const struct claim_page *page, uint32_t row, uint32_t grain, uint64_t number);

/*
 * R3: for a worker proven dead and after its completion rings were drained and its slots swept: tells each row that is
 * not FREE, then frees it. Telling may come again for the same (g, d) that the sweep of the slots told: the set of live
 * dispatches counts it once. A DAMAGED row is told with its state and without meaning in g and d.
 */
typedef void claim_page_visit(void *context, const struct claim_row *row);
void claim_page_sweep(const struct claim_page *page, claim_page_visit *visit, void *context);

#endif
