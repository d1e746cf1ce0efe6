/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batch policy, the shard's part: what src/sched/policy.h decides over what this shard counts, published on its board.
 * For every batch Call it says how many rows to take at once, and whether to take fewer (`go`, with the reason) or to
 * wait with nothing claimed for rows that are coming. A worker that found too few rows sleeps until the shard bumps its
 * Pool: for a row that makes the batch full, or because waiting is over. Decided once per step, before rows are pushed,
 * so that a worker that sees a row sees words that know of it. While rows are kept back (alone.c) nothing is waited
 * for.
 *
 * What the decision rests on: the shard's own queues and rings; the claim pages of workers for what runs now; the cost
 * curve of the Call, from the times workers report. Pages and times are what workers wrote: a time longer than the row
 * was out is cut, a size that cannot be is passed over. They can only make batches smaller or larger than is best.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/shard.h"
#include "sched/policy.h"
#include "sched/upstream.h"

struct call_batching {
    bool decides; /* a batch Call that the policy is asked for */
    struct policy_curve curve;
    struct policy_arrivals arrivals;
    struct upstream_children children;
    uint32_t running; /* rows that nothing blocks, by the last look at the pages */
    double row_bytes; /* mean of the rows offered */
    uint32_t go, wanted;
    bool waits;
    bool blocked;     /* rows cannot be pushed: what is in the ring goes as it is */
    uint32_t waiting; /* workers that were idle then */
};

/* What a Pool's workers do, by the last look at their pages. */
struct pool_look {
    uint64_t step; /* of the look */
    uint32_t idle, busy;
};

struct batching {
    struct upstream_map map;
    struct call_batching *calls;
    struct pool_look *pools;
    double *free_in_us; /* one per worker */
    uint64_t step, decided_us;
    bool any; /* some Call decides */
};

static_assert(BATCH_FULL + POLICY_SPLIT == BATCH_SPLIT && BATCH_FULL + POLICY_NOTHING_COMING == BATCH_NOTHING_COMING &&
                  BATCH_FULL + POLICY_NOT_WORTH_WAITING == BATCH_NOT_WORTH_WAITING &&
                  BATCH_FULL + POLICY_BYTES == BATCH_BYTES && BATCH_FULL + POLICY_SHAPE == BATCH_SHAPE &&
                  BATCH_FULL + POLICY_ISOLATION == BATCH_ISOLATION && BATCH_FULL + POLICY_CLOSE_COUNT == BATCH_CLOSES,
              "the board says it in the policy's words");

static bool decides(const struct shard *shard, uint32_t call)
{
    const struct plan_call *plan_call = &shard->plan->calls[call];
    return plan_call->live && plan_call->batch && plan_call->op->slots <= 1 && run_batch_rows(plan_call) > 1;
}

int batching_create(struct shard *shard)
{
    const struct sheaf_plan *plan = shard->plan;
    struct batching *batching = calloc(1, sizeof *batching);
    if (!batching)
        return -ENOMEM;
    shard->batching = batching;
    batching->calls = calloc(plan->call_count + 1, sizeof *batching->calls);
    batching->pools = calloc(plan->pool_count + 1, sizeof *batching->pools);
    batching->free_in_us = calloc(shard->run->worker_count + 1, sizeof *batching->free_in_us);
    if (!batching->calls || !batching->pools || !batching->free_in_us)
        return -ENOMEM;
    for (uint32_t call = 0; call < plan->call_count; call++) {
        struct board_call *board = &shard->board.calls[call];
        batching->calls[call].decides = decides(shard, call);
        batching->calls[call].go = BATCH_NOTHING_COMING;
        atomic_store_explicit(&board->go, BATCH_NOTHING_COMING, memory_order_relaxed);
        batching->any |= batching->calls[call].decides;
    }
    return upstream_open(&batching->map, plan, &shard->sched_memory);
}

void batching_destroy(struct shard *shard)
{
    if (!shard->batching)
        return;
    upstream_close(&shard->batching->map);
    free(shard->batching->calls);
    free(shard->batching->pools);
    free(shard->batching->free_in_us);
    free(shard->batching);
    shard->batching = NULL;
}

/* ---- what happens ---- */

void batching_row_ready(struct shard *shard, uint32_t call)
{
    struct call_batching *state = &shard->batching->calls[call];
    if (state->decides)
        policy_arrived(&state->arrivals, 1, shard->now_us);
}

/* The first row of a Call is offered after none was: the pause says nothing about how fast rows come of it. */
static void consumers_resume(struct shard *shard, uint32_t maker)
{
    struct batching *batching = shard->batching;
    for (uint32_t call = 0; call < shard->plan->call_count; call++)
        for (uint32_t i = 0; batching->calls[call].decides && i < batching->map.calls[call].maker_count; i++)
            if (batching->map.calls[call].makers[i].call == maker)
                policy_resumed(&batching->calls[call].arrivals, shard->now_us);
}

void batching_row_offered(struct shard *shard, struct slot *slot)
{
    struct batching *batching = shard->batching;
    slot->children = 0;
    if (!batching->any)
        return;
    slot->offered_us = shard->now_us;
    if (shard->live_of_call[slot->grain.call] == 1)
        consumers_resume(shard, slot->grain.call);
}

void batching_row_weighs(struct shard *shard, uint32_t call, uint64_t bytes)
{
    uint64_t most = shard->plan->calls[call].batch_bytes;
    double *mean = &shard->batching->calls[call].row_bytes;
    double weight = (double)(most != 0 && bytes > most ? most : bytes); /* it goes alone, however heavy it is */
    *mean = *mean > 0 ? *mean + (weight - *mean) / 64 : weight;
}

bool batching_waits(const struct shard *shard, uint32_t call)
{
    const struct call_batching *state = &shard->batching->calls[call];
    return state->decides && state->waits && shard->run->shard_count == 1;
}

bool batching_holds(const struct shard *shard, const struct slot *slot)
{
    const struct call_batching *state = &shard->batching->calls[slot->grain.call];
    return slot->ring == BOARD_READY && state->decides && state->waits;
}

void batching_ahead(const struct shard *shard, uint64_t ret_ahead[BOARD_POOL_WORDS])
{
    const struct plan_call *calls = shard->plan->calls;
    uint64_t feeds[BOARD_POOL_WORDS] = {0}, wanted[BOARD_POOL_WORDS] = {0};
    for (uint32_t call = 0; call < shard->plan->call_count; call++) {
        const struct upstream *upstream = &shard->batching->map.calls[call];
        bool has_plenty = sched_ready_rows(shard->sched, call) > 0 && shard->live_of_call[call] > 0;
        if (!calls[call].live)
            continue;
        if (dispatch_waiting(shard, call) > 0 || shard->batching->calls[call].decides)
            board_pool_add(wanted, calls[call].pool);
        for (uint32_t i = 0; i < upstream->maker_count; i++)
            board_pool_add(has_plenty ? feeds : wanted, calls[upstream->makers[i].call].pool);
        if (upstream->maker_count == UPSTREAM_MAKERS_MAX && !has_plenty)
            memset(wanted, 0xff, sizeof wanted); /* there may be others */
    }
    for (uint32_t word = 0; word < BOARD_POOL_WORDS; word++)
        ret_ahead[word] = feeds[word] & ~wanted[word];
}

void batching_children(struct shard *shard, struct slot *slot, uint32_t count)
{
    slot->children += count;
    shard->batching->calls[slot->grain.call].children.emitted += count;
}

void batching_claim_over(struct shard *shard, const struct slot *slot)
{
    shard->batching->calls[slot->grain.call].children.emitted -= slot->children;
}

void batching_answered(struct shard *shard, uint32_t call, uint64_t children)
{
    if (shard->plan->calls[call].expansion_count > 0)
        upstream_answered(&shard->batching->calls[call].children, children);
}

void batching_learn(struct shard *shard, const struct slot *slot, const struct completion *record)
{
    struct call_batching *state = &shard->batching->calls[slot->grain.call];
    uint32_t cap = run_batch_rows(&shard->plan->calls[slot->grain.call]);
    if (!state->decides || record->rows_run == 0 || record->rows_run > cap)
        return;
    struct call_counts *counts = &shard->counts[slot->grain.call];
    counts->closes[record->closed - 1]++;
    uint64_t out_us = shard->now_us - slot->offered_us, took_us = record->run_ns / 1000;
    policy_learn(&state->curve, record->rows_run, cap, took_us < out_us ? took_us : out_us);
    policy_cost(&state->curve, &counts->fixed_us, &counts->row_us);
}

/* ---- what workers do ---- */

static void look_at_page(struct shard *shard, const struct claim_page *page, uint32_t *ret_rows, uint64_t *ret_since_ns,
                         uint32_t *ret_call)
{
    *ret_rows = 0;
    *ret_since_ns = UINT64_MAX;
    for (uint32_t i = 0; i < page->row_count; i++) {
        struct claim_row row = claim_page_read(page, i);
        struct slot *slot = row.state == CLAIM_RUNNING ? slot_find(shard, row.grain, row.number) : NULL;
        if (!slot)
            continue;
        ++*ret_rows;
        *ret_call = slot->grain.call;
        *ret_since_ns = row.since_ns < *ret_since_ns ? row.since_ns : *ret_since_ns;
        shard->batching->calls[slot->grain.call].running += !row.blocked && !slot->unwanted;
    }
}

/* When a worker is expected to be free of what it runs, from now. */
static double free_in_us(struct shard *shard, uint32_t call, uint32_t rows, uint64_t since_ns)
{
    double fixed = 0, row = 0, since = (double)since_ns / 1000, now = (double)shard->now_us;
    policy_cost(&shard->batching->calls[call].curve, &fixed, &row);
    double left = fixed + row * rows - (now > since ? now - since : 0);
    return left > 0 ? left : 0;
}

/* Once per step and Pool. Rows of other shards are not seen: their workers only look busy. */
static struct pool_look *look_at_pool(struct shard *shard, uint32_t pool)
{
    const struct sheaf_run *run = shard->run;
    struct batching *batching = shard->batching;
    struct pool_look *look = &batching->pools[pool];
    if (look->step == batching->step)
        return look;
    *look = (struct pool_look){.step = batching->step};
    const struct plan_pool *calls = &shard->plan->pools[pool];
    for (uint32_t i = 0; i < calls->call_count; i++)
        batching->calls[shard->plan->pool_calls[calls->call_first + i]].running = 0;
    for (uint32_t i = 0; i < run->pool_count[pool]; i++) {
        uint32_t worker = run->pool_first[pool] + i, rows, call = 0;
        uint64_t since_ns;
        if (!shard->links[worker].attached)
            continue;
        uint64_t state = load_relaxed_u64(&run->workers[worker].lane.counters->state);
        look_at_page(shard, &run->workers[worker].lane.claims, &rows, &since_ns, &call);
        if (state == LANE_IDLE && rows == 0)
            look->idle++;
        else
            batching->free_in_us[run->pool_first[pool] + look->busy++] = free_in_us(shard, call, rows, since_ns);
    }
    return look;
}

/* ---- deciding ---- */

static uint32_t in_ring(const struct shard *shard, uint32_t call)
{
    uint32_t rows = ready_ring_waiting(&shard->rings[(size_t)call * BOARD_RINGS + BOARD_READY].ring);
    return rows < shard->live_of_call[call] ? rows : shard->live_of_call[call];
}

static uint32_t rows_ready(const struct shard *shard, uint32_t call)
{
    return sched_ready_rows(shard->sched, call) + in_ring(shard, call);
}

/* Rows of a Call that have no worker and may not be READY: in back-off, put aside, held back, to be run apart. */
static bool has_more(const struct shard *shard, uint32_t call)
{
    return sched_queued(shard->sched, call) > sched_ready_rows(shard->sched, call) ||
           sched_isolating(shard->sched, call) > 0 || sched_aside(shard->sched, call) > 0 || turn_held(shard, call) > 0;
}

struct coming {
    double rows;
    uint32_t running;
    bool more; /* rows may follow that are not coming yet */
};

static void count_maker(struct shard *shard, uint32_t call, const struct upstream_maker *maker, struct coming *coming)
{
    const struct plan_call *calls = shard->plan->calls;
    struct call_batching *state = &shard->batching->calls[maker->call];
    uint32_t idle = look_at_pool(shard, calls[maker->call].pool)->idle;
    idle -= idle > 0 && calls[maker->call].pool == calls[call].pool;
    struct upstream_state does = {.queued = rows_ready(shard, maker->call),
                                  .idle = idle,
                                  .running = state->running,
                                  .emitted = state->children.emitted,
                                  .children_mean = state->children.mean};
    coming->rows += upstream_coming(maker, &does);
    coming->running += state->running;
    coming->more |= does.queued > idle || has_more(shard, maker->call) ||
                    shard->live_of_call[maker->call] > in_ring(shard, maker->call) + state->running;
}

static bool is_maker(const struct upstream *upstream, uint32_t call)
{
    for (uint32_t i = 0; i < upstream->maker_count; i++)
        if (upstream->makers[i].call == call)
            return true;
    return false;
}

static struct coming count_coming(struct shard *shard, uint32_t call)
{
    const struct upstream_map *map = &shard->batching->map;
    const struct upstream *upstream = &map->calls[call];
    struct coming coming = {.more = !atomic_load_explicit(&shard->run->input_closed, memory_order_relaxed) ||
                                    shard->admission.count > 0 || shard->reading > 0};
    for (uint32_t i = 0; i < upstream->maker_count; i++)
        count_maker(shard, call, &upstream->makers[i], &coming);
    for (uint32_t above = 0; above < shard->plan->call_count && !coming.more; above++)
        coming.more = upstream_leads_to(map, above, call) && !is_maker(upstream, above) &&
                      (rows_ready(shard, above) > 0 || has_more(shard, above) || shard->live_of_call[above] > 0);
    return coming;
}

/* The largest batch: in rows, or in as many as its bytes allow on the whole. */
static uint32_t rows_at_most(const struct shard *shard, uint32_t call)
{
    const struct plan_call *plan_call = &shard->plan->calls[call];
    const struct call_batching *state = &shard->batching->calls[call];
    uint32_t rows = run_batch_rows(plan_call);
    if (plan_call->batch_bytes == 0 || state->row_bytes * rows <= (double)plan_call->batch_bytes)
        return rows;
    double by_bytes = (double)plan_call->batch_bytes / state->row_bytes;
    return by_bytes < 1 ? 1 : (uint32_t)by_bytes;
}

static struct policy_answer decide(struct shard *shard, uint32_t call, uint32_t ready, struct coming *ret_coming)
{
    struct batching *batching = shard->batching;
    struct call_batching *state = &batching->calls[call];
    uint32_t pool = shard->plan->calls[call].pool, cap = rows_at_most(shard, call);
    uint32_t devices = shard->run->pool_count[pool], best = policy_best_rows(&state->curve, cap, ready);
    *ret_coming = (struct coming){0};
    if (ready >= (uint64_t)best * devices)
        return (struct policy_answer){best, best, POLICY_FULL};
    *ret_coming = count_coming(shard, call);
    const struct pool_look *look = look_at_pool(shard, pool);
    const struct policy_ask ask = {
        .ready = ready,
        .coming = ret_coming->rows < 1e9 ? (uint32_t)ret_coming->rows : 1000000000u,
        .held = sched_aside(shard->sched, call) + turn_held(shard, call),
        .cap = cap,
        .idle = look->idle > 0 ? look->idle : 1, /* who asks next */
        .devices = devices,
        .more = ret_coming->more,
        .gap_us = policy_gap_us(&state->arrivals, ret_coming->running, shard->now_us),
        .free_in_us = &batching->free_in_us[shard->run->pool_first[pool]],
        .free_count = look->busy,
    };
    return policy_decide(&state->curve, &ask);
}

static void publish(struct shard *shard, uint32_t call, const struct policy_answer *answer, uint32_t coming)
{
    struct call_batching *state = &shard->batching->calls[call];
    struct board_call *board = &shard->board.calls[call];
    /* A full batch is one that may not be smaller: what is left beside it is decided about anew. */
    uint32_t go = answer->rows > 0 && answer->close != POLICY_FULL ? BATCH_FULL + answer->close : BATCH_OPEN;
    if (go == BATCH_OPEN && (state->blocked || shard->alone != ALONE_OPEN))
        go = BATCH_NOTHING_COMING; /* without a moment in which it says otherwise: who looks then would sleep on */
    /* Who waits looks again when waiting is over, and when less is wanted. */
    bool news = state->go == BATCH_OPEN && (go != BATCH_OPEN || answer->wanted < state->wanted);
    state->go = go;
    state->wanted = answer->wanted;
    state->waits = go == BATCH_OPEN && answer->rows == 0;
    state->waiting = state->waits ? look_at_pool(shard, shard->plan->calls[call].pool)->idle : 0;
    atomic_store_explicit(&board->coming, coming, memory_order_relaxed);
    atomic_store_explicit(&board->batch_rows, answer->wanted, memory_order_relaxed);
    atomic_store_explicit(&board->go, go, memory_order_relaxed);
    shard->pools[shard->plan->calls[call].pool].pushed |= news;
}

void batching_decide(struct shard *shard)
{
    struct batching *batching = shard->batching;
    if (!batching->any)
        return;
    batching->step++;
    uint64_t since_us = shard->now_us - batching->decided_us;
    batching->decided_us = shard->now_us;
    for (uint32_t call = 0; call < shard->plan->call_count; call++) {
        shard->counts[call].waited_us += since_us * batching->calls[call].waiting;
        batching->calls[call].waiting = 0;
        uint32_t ready = batching->calls[call].decides ? rows_ready(shard, call) : 0;
        if (ready == 0)
            continue; /* nothing to take, whatever the words say; they are made anew before a row is pushed */
        struct coming coming;
        struct policy_answer answer = decide(shard, call, ready, &coming);
        publish(shard, call, &answer, coming.rows < 1e9 ? (uint32_t)coming.rows : 1000000000u);
    }
}

/* Rows that found no room, no memory or a Pool that takes one at a time do not come while workers wait for them: what
 * is in the ring goes as it is. */
void batching_settle(struct shard *shard)
{
    struct batching *batching = shard->batching;
    for (uint32_t call = 0; batching->any && call < shard->plan->call_count; call++) {
        struct call_batching *state = &batching->calls[call];
        bool before = state->blocked;
        state->blocked =
            state->decides && sched_ready_rows(shard->sched, call) > 0 && in_ring(shard, call) < state->wanted;
        if (!state->blocked || before || state->go != BATCH_OPEN)
            continue;
        state->go = BATCH_NOTHING_COMING;
        state->waits = false;
        atomic_store_explicit(&shard->board.calls[call].go, state->go, memory_order_relaxed);
        shard->pools[shard->plan->calls[call].pool].pushed = true;
    }
}
