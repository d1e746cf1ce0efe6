/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks for workers. Shard 0 decides, from what workers say they want in all and what they have.
 *
 * Within its share a worker gets what the limit has room for. Beyond, it waits for its own values to be freed, for
 * which it is woken; only when nobody else can go on either does it get its turn, because a row must not fail for what
 * else is in flight. Then, one after the other, until there is room:
 *
 *   TAKE_BACK  every worker gives back chunks that hold nothing
 *   SPILL      values that nobody reads now are moved to disk; then once more TAKE_BACK
 *   AWAIT      what others do, and what the host has not acknowledged, ends; whatever is freed meanwhile is taken back
 *   GIVE_WAY   rows of others that wait for memory go back unrun; then, if other rows could go on, its own does: it is
 *              offered again when what it wanted is there (reserve.c)
 *   REFUSE     it is alone, and what the budget holds is not enough
 *
 * Who has borrowed beyond its share gives back what it no longer uses.
 */
#include <assert.h>

#include "engine/shard.h"

enum { STILL_NS = 20000000 };

static bool is_idle(const struct shard *shard, uint32_t worker)
{
    uint64_t state = load_relaxed_u64(&shard->run->workers[worker].lane.counters->state);
    return !shard->links[worker].attached || state == LANE_IDLE || state == LANE_WAITING_MEMORY;
}

/* Whether a worker waits for memory while every other one is idle or waits as well: then only memory helps. */
static bool stands_still(const struct shard *shard, uint32_t worker)
{
    for (uint32_t other = 0; other < shard->run->worker_count; other++) {
        if (other != worker && !is_idle(shard, other))
            return false;
    }
    return true;
}

/* Its wish: how many chunks (LANE_CHUNKS), and which wish it is. */
static uint64_t wish_of(const struct shard *shard, uint32_t worker)
{
    return load_acquire_u64(&shard->run->workers[worker].lane.counters->wanted_chunks);
}

/* Chunks that it misses and was not refused yet. */
static uint64_t missing(const struct shard *shard, uint32_t worker)
{
    uint64_t wish = wish_of(shard, worker), leased = payload_leased(shard->run->payload, worker);
    return LANE_CHUNKS(wish) > leased && wish != shard->links[worker].refused ? LANE_CHUNKS(wish) - leased : 0;
}

static void say(struct shard *shard, uint32_t worker, uint64_t word)
{
    link_order(shard, worker, CONTROL_CHUNK, payload_worker_segment(shard->run->payload, worker), word);
    event_count_bump(shard->run->workers[worker].lane.events);
}

static void refuse(struct shard *shard, uint32_t worker, uint64_t word)
{
    shard->links[worker].refused = wish_of(shard, worker);
    say(shard, worker, word);
}

static void set_turn(struct shard *shard, uint32_t worker)
{
    shard->grants = (struct grants){.turn = worker, .stage = GRANT_TAKE_BACK};
    shard->retry_reads |= worker == GRANT_NOBODY;
    atomic_store_explicit(&shard->run->memory_short, worker != GRANT_NOBODY, memory_order_relaxed);
}

static void give(struct shard *shard, uint32_t worker, uint64_t more)
{
    struct payload *payload = shard->run->payload;
    struct lane *lane = &shard->run->workers[worker].lane;
    uint32_t first, run, given = 0;
    while (more > 0 && (run = payload_grow(payload, worker, more < UINT32_MAX ? (uint32_t)more : UINT32_MAX, &first))) {
        for (uint32_t chunk = first; chunk < first + run; chunk++)
            link_order(shard, worker, CONTROL_CHUNK, payload_worker_segment(payload, worker), chunk);
        more -= run;
        given += run;
    }
    if (given == 0) /* the system has none */
        say(shard, worker, CONTROL_NO_CHUNK);
    atomic_store_explicit(&lane->orders->granted_chunks, payload_leased(payload, worker), memory_order_release);
    event_count_bump(lane->events);
}

/* ---- a turn ---- */

static void set_returning(struct shard *shard, uint32_t worker, bool returning)
{
    struct link *link = &shard->links[worker];
    link->returning = returning;
    link->returning_since_ns = returning ? clock_now_ns() : 0;
    atomic_store_explicit(&shard->run->workers[worker].owes_memory, returning, memory_order_relaxed); /* audit.c */
}

static void ask_back(struct shard *shard, uint32_t worker, uint64_t keep)
{
    struct worker *who = &shard->run->workers[worker];
    struct link *link = &shard->links[worker];
    if (!link->attached || link->returning)
        return;
    link->frees_seen = atomic_load_explicit(&who->frees, memory_order_acquire);
    if (payload_keeps_real(shard->run->payload))
        return;
    set_returning(shard, worker, true);
    link_order(shard, worker, CONTROL_RETURN, 0, keep);
}

static bool all_answered(const struct shard *shard)
{
    for (uint32_t worker = 0; worker < shard->run->worker_count; worker++) {
        if (shard->links[worker].attached && shard->links[worker].returning)
            return false;
    }
    return true;
}

/* Something was freed somewhere since its owner was asked. */
static bool more_to_take(const struct shard *shard)
{
    for (uint32_t worker = 0; worker < shard->run->worker_count; worker++) {
        if (shard->links[worker].attached &&
            atomic_load_explicit(&shard->run->workers[worker].frees, memory_order_acquire) !=
                shard->links[worker].frees_seen)
            return true;
    }
    return false;
}

/* What will free memory without our doing: rows that run, results that the host has. */
static bool others_go_on(const struct shard *shard, uint32_t worker)
{
    return !stands_still(shard, worker) || atomic_load_explicit(&shard->run->results_out, memory_order_relaxed) > 0;
}

static void give_way(struct shard *shard, uint32_t worker)
{
    atomic_store_explicit(&shard->run->workers[worker].yielded_bytes, missing(shard, worker) * PAYLOAD_CHUNK_BYTES,
                          memory_order_relaxed);
    refuse(shard, worker, CONTROL_YIELD);
}

/* Another worker that waits for memory, or GRANT_NOBODY. */
static uint32_t other_waiter(const struct shard *shard, uint32_t worker)
{
    for (uint32_t other = 0; other < shard->run->worker_count; other++) {
        if (other != worker && shard->links[other].attached && missing(shard, other) > 0)
            return other;
    }
    return GRANT_NOBODY;
}

static void end_turn(struct shard *shard, uint32_t worker)
{
    uint32_t other = other_waiter(shard, worker);
    if (other != GRANT_NOBODY) {
        give_way(shard, other);
        shard->grants.still_since_ns = 0; /* it frees what it had */
        return;
    }
    if (reserve_may_give_way(shard->run, worker))
        give_way(shard, worker);
    else
        refuse(shard, worker, CONTROL_NO_CHUNK);
    set_turn(shard, GRANT_NOBODY);
}

/* Twice what is missing, and at least a quarter of what there is: moving a little each time would be a habit. */
static void ask_to_spill(struct shard *shard, uint64_t missing_chunks)
{
    struct sheaf_run *run = shard->run;
    uint64_t wanted = 2 * missing_chunks * PAYLOAD_CHUNK_BYTES, least = run->budget.payload_bytes / 4;
    atomic_store_explicit(&run->spill_wanted_bytes, wanted > least ? wanted : least, memory_order_relaxed);
    atomic_store_explicit(&run->spill_moved_bytes, 0, memory_order_relaxed);
    atomic_store_explicit(&run->spill_shards_left, run->shard_count, memory_order_relaxed);
    atomic_fetch_add_explicit(&run->spill_round, 1, memory_order_release);
    for (uint32_t i = 0; i < run->shard_count; i++)
        event_count_bump(run->shards[i]->board.shard_events);
}

/* True: it is under way, or moved something. */
static bool spill(struct shard *shard, uint32_t worker)
{
    struct sheaf_run *run = shard->run;
    struct grants *grants = &shard->grants;
    if (!run->spill)
        return false;
    if (grants->stage != GRANT_SPILL) {
        grants->stage = GRANT_SPILL;
        ask_to_spill(shard, missing(shard, worker));
        return true;
    }
    if (atomic_load_explicit(&run->spill_shards_left, memory_order_acquire) > 0)
        return true;
    bool moved = atomic_load_explicit(&run->spill_moved_bytes, memory_order_relaxed) > 0;
    grants->stage = moved ? GRANT_TAKE_BACK : GRANT_AWAIT;
    return moved;
}

static void advance(struct shard *shard, uint32_t worker)
{
    struct grants *grants = &shard->grants;
    if (grants->stage == GRANT_TAKE_BACK) {
        for (uint32_t other = 0; other < shard->run->worker_count; other++)
            ask_back(shard, other, 0);
        grants->stage = GRANT_TAKEN;
        grants->still_since_ns = 0;
    }
    if (!all_answered(shard))
        return;
    if (grants->stage != GRANT_SPILL && more_to_take(shard)) {
        grants->stage = GRANT_TAKE_BACK;
        advance(shard, worker);
        return;
    }
    if (grants->stage != GRANT_AWAIT && spill(shard, worker))
        return;
    grants->stage = GRANT_AWAIT;
    uint64_t now_ns = clock_now_ns();
    if (others_go_on(shard, worker))
        grants->still_since_ns = 0;
    else if (grants->still_since_ns == 0)
        grants->still_since_ns = now_ns;
    else if (now_ns - grants->still_since_ns >= STILL_NS)
        end_turn(shard, worker);
}

uint64_t grant_wait_ns(const struct shard *shard)
{
    uint64_t now_ns = clock_now_ns(), due_ns = shard->grants.still_since_ns + STILL_NS;
    if (shard->grants.turn == GRANT_NOBODY || shard->grants.still_since_ns == 0)
        return EVENT_COUNT_FOREVER;
    return due_ns > now_ns ? due_ns - now_ns : 0;
}

/* ---- one worker ---- */

/* It has no wish that is open. True: it may not know yet. */
static bool settled(struct shard *shard, uint32_t worker)
{
    struct link *link = &shard->links[worker];
    const struct sheaf_run *run = shard->run;
    if (shard->grants.turn == worker)
        set_turn(shard, GRANT_NOBODY);
    const struct worker *who = &run->workers[worker];
    if (load_relaxed_u64(&who->lane.counters->state) == LANE_WAITING_MEMORY)
        return true; /* it has not taken yet what it was given */
    bool freed = atomic_load_explicit(&who->frees, memory_order_acquire) != link->frees_seen;
    uint64_t share = run->budget.value_bytes / PAYLOAD_CHUNK_BYTES;
    if (freed && payload_leased(run->payload, worker) > share)
        ask_back(shard, worker, share);
    return false;
}

bool grant_concerns_all(const struct shard *shard)
{
    return shard->number == 0 && shard->grants.turn != GRANT_NOBODY;
}

bool grant_look(struct shard *shard, uint32_t worker)
{
    const struct sheaf_run *run = shard->run;
    struct grants *grants = &shard->grants;
    if (shard->number != 0)
        return false;
    uint64_t more = missing(shard, worker), share = run->budget.value_bytes / PAYLOAD_CHUNK_BYTES;
    if (more == 0)
        return settled(shard, worker);
    if (more > run->budget.largest_bytes / PAYLOAD_CHUNK_BYTES) {
        refuse(shard, worker, CONTROL_NO_CHUNK);
        return true;
    }
    bool within = payload_leased(run->payload, worker) + more <= share;
    bool room = payload_has_room(run->payload, more * PAYLOAD_CHUNK_BYTES);
    bool own = grants->turn == worker, others = grants->turn != GRANT_NOBODY && !own;
    if (room && !others && (own || within || stands_still(shard, worker)))
        give(shard, worker, more);
    else if (own)
        advance(shard, worker);
    else if (!others && stands_still(shard, worker))
        set_turn(shard, worker);
    return true;
}

void grant_press(struct shard *shard)
{
    struct sheaf_run *run = shard->run;
    if (atomic_load_explicit(&run->rows_out, memory_order_relaxed) > 0)
        return;
    atomic_store_explicit(&run->lists_short, true, memory_order_relaxed);
    event_count_bump(run->shards[0]->board.shard_events);
}

/* What workers do not use, and what can go to disk, makes room for it. */
void grant_step(struct shard *shard)
{
    struct sheaf_run *run = shard->run;
    if (shard->number != 0 || shard->grants.turn != GRANT_NOBODY || !all_answered(shard) ||
        !atomic_exchange_explicit(&run->lists_short, false, memory_order_relaxed))
        return;
    if (run->spill && atomic_load_explicit(&run->spill_shards_left, memory_order_acquire) == 0)
        ask_to_spill(shard, 0);
    for (uint32_t worker = 0; worker < run->worker_count; worker++)
        ask_back(shard, worker, 0);
}

void grant_returned(struct shard *shard, uint32_t worker, uint64_t chunk)
{
    if (shard->number != 0) {
        link_kill(shard, worker, "it gave memory back to a shard that does not give any");
        return;
    }
    if (chunk == CONTROL_NO_CHUNK)
        set_returning(shard, worker, false);
    else if (!payload_give_back(shard->run->payload, worker, chunk))
        link_kill(shard, worker, "it gave back memory that it does not have");
    shard->retry_reads = true;
}

void grant_left(struct shard *shard, uint32_t worker)
{
    if (shard->number == 0)
        set_returning(shard, worker, false);
    if (shard->number == 0 && shard->grants.turn == worker)
        set_turn(shard, GRANT_NOBODY);
}
