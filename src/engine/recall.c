/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker that is stuck in a long row must not keep others from work: while some worker of its Pool is idle, the rows
 * it has claimed and not started are recalled (L1), and rows that wait for it because it has their parent open are
 * offered to anyone. Looked at only before the shard parks, and only while a worker is idle beside work.
 */
#include "engine/shard.h"

/* As long as it is worth waiting for a worker that has the parent open: opening it elsewhere costs milliseconds. */
#define STUCK_NS UINT64_C(20000000)

static bool is_idle(const struct shard *shard, uint32_t worker)
{
    return load_relaxed_u64(&shard->run->workers[worker].lane.counters->state) == LANE_IDLE;
}

void recall_look(struct shard *shard, uint32_t worker)
{
    if (is_idle(shard, worker))
        shard->pools[shard->run->workers[worker].pool].all_busy = false;
}

/* A worker that goes to sleep beside rows makes this shard look at it (worker/park.c), unless its Pool was called
 * ahead. To look at all is a line of memory of each. */
static bool may_have_idle(const struct shard *shard, uint32_t pool)
{
    return !shard->pools[pool].all_busy || board_pool_is_in(shard->pools_ahead, pool);
}

static bool pool_wants_work(struct shard *shard, uint32_t pool)
{
    const struct sheaf_run *run = shard->run;
    const struct plan_pool *calls = &shard->plan->pools[pool];
    uint32_t live = 0, idle = 0;
    for (uint32_t i = 0; i < calls->call_count; i++)
        live += shard->live_of_call[shard->plan->pool_calls[calls->call_first + i]];
    if (live == 0) {
        shard->pools[pool].all_busy = false; /* who sleeps beside no rows need not say so */
        return false;
    }
    if (!may_have_idle(shard, pool))
        return false;
    for (uint32_t i = 0; i < run->pool_count[pool]; i++) {
        uint32_t worker = run->pool_first[pool] + i;
        idle += shard->links[worker].attached && is_idle(shard, worker);
    }
    shard->pools[pool].all_busy = idle == 0;
    return idle > 0;
}

/* Since when the oldest row of a worker runs; UINT64_MAX: none does. */
static uint64_t running_since(const struct claim_page *page)
{
    uint64_t since_ns = UINT64_MAX;
    for (uint32_t i = 0; i < page->row_count; i++) {
        struct claim_row row = claim_page_read(page, i);
        if (row.state == CLAIM_RUNNING && row.since_ns != 0 && row.since_ns < since_ns)
            since_ns = row.since_ns;
    }
    return since_ns;
}

/* L1 for what it has claimed and not started. The old claim stays live until the worker or its death releases it. */
static uint32_t recall_claimed(struct shard *shard, const struct claim_page *page)
{
    uint32_t recalled = 0;
    for (uint32_t i = 0; i < page->row_count; i++) {
        struct claim_row row = claim_page_read(page, i);
        struct slot *slot = row.state == CLAIM_CLAIMED ? slot_find(shard, row.grain, row.number) : NULL;
        if (!slot || slot->unwanted || slot_in_ring(shard, slot) != READY_GONE ||
            claim_page_recall(page, i, row.grain, row.number) != CLAIM_RECALLED)
            continue;
        slot->unwanted = slot->recalled = true;
        sched_requeue_uncharged(shard->sched, slot->grain);
        recalled++;
    }
    return recalled;
}

/* Some idle worker of the Pool, or `worker` itself when none is. */
static uint32_t idle_beside(const struct shard *shard, uint32_t worker)
{
    const struct sheaf_run *run = shard->run;
    uint32_t pool = run->workers[worker].pool;
    for (uint32_t i = 0; i < run->pool_count[pool]; i++) {
        uint32_t other = run->pool_first[pool] + i;
        if (shard->links[other].attached && is_idle(shard, other))
            return other;
    }
    return worker;
}

/* Rows that wait in a ring for this worker because it is their home. One that must run alone in a fresh process always
 * has a home, which makes a fresh process of itself for it. */
static uint32_t offer_to_all(struct shard *shard, uint32_t worker)
{
    uint32_t offered = 0;
    for (uint32_t i = 0; i < shard->hold_count; i++) {
        const struct hold *hold = &shard->holds[i];
        if (hold->used && hold->worker == worker && keymap_get(&shard->home_of, hold->key) == worker)
            keymap_remove(&shard->home_of, hold->key);
    }
    if (shard->pools[shard->run->workers[worker].pool].homed == 0)
        return 0;
    for (uint32_t i = 0; i < shard->slots_real; i++) {
        struct slot *slot = &shard->slots[i];
        struct dispatch *dispatch = &shard->board.dispatches.slots[shard->slot_first + i];
        if (!slot->live || slot->unwanted || dispatch->home != worker || slot_in_ring(shard, slot) != READY_WAITING)
            continue;
        /* a hint: whoever reads it meanwhile reads the old or the new one */
        uint32_t home = dispatch->flags & DISPATCH_ALONE ? idle_beside(shard, worker) : DISPATCH_HOME_ANY;
        __atomic_store_n(&dispatch->home, home, __ATOMIC_RELAXED);
        offered += home != worker;
    }
    return offered;
}

/* Takes rows from workers of one Pool that are stuck. */
static uint32_t recall_in_pool(struct shard *shard, uint32_t pool, uint64_t now_ns, uint64_t *ret_wait_ns)
{
    const struct sheaf_run *run = shard->run;
    uint32_t work = 0;
    for (uint32_t i = 0; i < run->pool_count[pool]; i++) {
        uint32_t worker = run->pool_first[pool] + i;
        if (!shard->links[worker].attached)
            continue;
        const struct claim_page *page = &run->workers[worker].lane.claims;
        uint64_t since_ns = running_since(page);
        if (since_ns >= now_ns)
            continue; /* nothing runs, or it started this moment */
        if (now_ns - since_ns < STUCK_NS) {
            uint64_t wait_ns = STUCK_NS - (now_ns - since_ns);
            *ret_wait_ns = wait_ns < *ret_wait_ns ? wait_ns : *ret_wait_ns;
            continue;
        }
        uint32_t freed = recall_claimed(shard, page) + offer_to_all(shard, worker);
        shard->pools[pool].pushed |= freed > 0;
        work += freed;
    }
    return work;
}

uint32_t recall_step(struct shard *shard, uint64_t *ret_wait_ns)
{
    uint64_t now_ns = clock_now_ns();
    uint32_t work = 0;
    *ret_wait_ns = EVENT_COUNT_FOREVER;
    for (uint32_t pool = 0; pool < shard->plan->pool_count; pool++) {
        if (pool_wants_work(shard, pool))
            work += recall_in_pool(shard, pool, now_ns, ret_wait_ns);
    }
    return work;
}
