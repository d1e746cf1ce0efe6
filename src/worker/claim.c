/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rows to take next. Calls in the order of the hello (drain first); within a Call the shards of the own node
 * first; within a shard the retry ring, then ready, then isolation. For Calls with state, rows at home here go before
 * rows that are at home nowhere; rows at home elsewhere are taken only when there is nothing else, those first whose
 * parent is open here as well.
 *
 * A batch operator takes its READY rows from all shards together. It leaves them alone, with nothing claimed, while
 * they are fewer than the shards want in a batch and no shard says that waiting is over (board.h: batch_rows, go);
 * whoever says so bumps the Pool.
 *
 * Before all of that come suspects (DISPATCH_ALONE): rows over which a worker died that had run others. They are run
 * alone by a process that has run nothing, so that the damage is theirs if it happens again. The replacement of the
 * worker that died is such a process, and finds them first. If it took another row before they came, it ends itself
 * when it sees one, with nothing claimed, and its own replacement takes the row. Only the worker a suspect names does
 * that, and it can be named only if it exists or is being replaced: the row cannot be left.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "worker/worker.h"

#define RUN_ROWS_MAX 16u    /* per-row operators: amortises claims and wakes; more would starve others */
#define RUN_NS_MAX 1000000u /* and not more work than this in one run */
#define SHARE 4u            /* leave most of what is ready to other workers */
#define AFFINITY_SCAN 64u   /* positions looked through for rows of open parents before taking any */
#define FOREIGN_WORK_NS                                                                                                \
    20000000u                   /* opening a parent again costs milliseconds: less work than this is left to           \
                                   the worker that has it open */
#define UNKNOWN_ROW_NS 2000000u /* what a row is taken to cost before one was measured */

enum ownership { TAKE_OWN, TAKE_OWN_OR_ANY, TAKE_OPEN, TAKE_FOREIGN };

/* What a look through a ring wants, and what it has accepted so far. Accepting is a hint: the claim may still fail. */
struct look {
    struct sheaf_worker *worker;
    const struct worker_call *call;
    enum ownership ownership;
    bool by_batch; /* isolation ring: rows of one batch number only */
    bool only_count, only_suspects;
    uint32_t accepted;
    uint64_t batch;
    bool closed; /* an ALONE row was accepted: nothing goes with it */
};

static bool has_state_here(const struct look *look, const struct dispatch_peek *peek)
{
    uint32_t flags = look->call->spec->operator_flags;
    return ((flags & SHEAF_OPERATOR_STATE_OF_PARENT) != 0 && key_set_has(&look->call->open, peek->parent_key)) ||
           ((flags & SHEAF_OPERATOR_STATE_OF_ROW) != 0 && key_set_has(&look->call->open, peek->key));
}

/* A row that has a home waits for it, also where its parent is open in several processes. */
static bool is_own(const struct look *look, const struct dispatch_peek *peek)
{
    return peek->home == DISPATCH_HOME_ANY ? has_state_here(look, peek) : peek->home == look->worker->hello.worker;
}

static bool owned(const struct look *look, const struct dispatch_peek *peek)
{
    switch (look->ownership) {
    case TAKE_OWN:
        return is_own(look, peek);
    case TAKE_OWN_OR_ANY:
        return peek->home == DISPATCH_HOME_ANY || is_own(look, peek);
    case TAKE_OPEN:
        return has_state_here(look, peek);
    case TAKE_FOREIGN:
        return true;
    }
    return true;
}

/* Whether this process may run a suspect; notes when it must make room for one that may. */
static bool may_run_alone(const struct look *look, const struct dispatch_peek *peek)
{
    struct sheaf_worker *worker = look->worker;
    if (look->accepted > 0)
        return false;
    if (peek->home == DISPATCH_HOME_ANY)
        return true;
    if (!worker->has_run)
        return worker->free_count == worker->row_limit;
    worker->outlived |= peek->home == worker->hello.worker;
    return false;
}

/* Whether the row goes into one batch with those that were accepted: of their shape, and not too much in all. */
static bool fits(struct look *look, const struct dispatch_peek *peek)
{
    struct worker_batch *batch = &look->worker->batch;
    uint64_t most = look->call->spec->batch_bytes != 0 ? look->call->spec->batch_bytes : UINT64_MAX;
    bool first = look->accepted + look->worker->claim_count == 0;
    if (!first && peek->shape != batch->shape) {
        batch->cut = BATCH_SHAPE;
        return false;
    }
    if (!first && (batch->bytes > most || peek->bytes > most - batch->bytes)) {
        batch->cut = BATCH_BYTES;
        look->closed = true; /* no smaller one jumps the queue */
        return false;
    }
    batch->shape = peek->shape;
    batch->bytes = (first ? 0 : batch->bytes) + (peek->bytes < most ? peek->bytes : most);
    return true;
}

static bool wanted(void *context, const struct dispatch_peek *peek)
{
    struct look *look = context;
    if (look->closed)
        return false;
    bool alone = (peek->flags & DISPATCH_ALONE) != 0;
    if (alone ? !may_run_alone(look, peek) : look->only_suspects || (look->call->stateful && !owned(look, peek)))
        return false;
    if (look->only_count) {
        look->accepted++;
        return false;
    }
    look->closed = alone;
    if (look->by_batch) { /* halves of one that raised were one batch before */
        if (look->accepted > 0 && peek->batch != look->batch)
            return false;
        look->batch = peek->batch;
    } else if (look->call->batch && !fits(look, peek)) {
        return false;
    }
    look->accepted++;
    return true;
}

/* How many rows to take at once from a ring. */
static uint32_t rows_wanted(const struct sheaf_worker *worker, const struct worker_call *call,
                            const struct ready_ring *ring, enum board_ring kind)
{
    uint32_t limit = worker->free_count;
    if (call->batch) /* halves of a batch that raised go together, whatever is wanted now */
        return kind == BOARD_ISOLATION || call->spec->batch_rows > limit ? limit : call->spec->batch_rows;
    uint32_t rows = ready_ring_waiting(ring) / SHARE;
    uint64_t in_time = call->mean_row_ns != 0 ? RUN_NS_MAX / call->mean_row_ns : 1;
    if (rows > in_time)
        rows = (uint32_t)in_time;
    if (rows > RUN_ROWS_MAX)
        rows = RUN_ROWS_MAX;
    if (rows > limit)
        rows = limit;
    return rows > 0 ? rows : 1;
}

/* Puts up to `rows_max` more claims where the rows are that will be made of them. Returns for how many there are rows.
 */
static uint32_t show_places(struct sheaf_worker *worker, uint32_t rows_max)
{
    uint32_t first = worker->claim_count, left = worker->free_count - first;
    uint32_t count = rows_max < left ? rows_max : left;
    for (uint32_t at = first; at < first + count; at++)
        worker->claims[at] = &worker->rows[worker->free_rows[worker->free_count - 1 - at]].claim;
    return count;
}

/* Claims up to `rows_max` rows from one ring, behind those that worker->claims has already. Returns how many. */
static uint32_t claim_from(struct sheaf_worker *worker, struct look *look, uint32_t shard, enum board_ring kind,
                           uint32_t rows_max, uint32_t examined_max)
{
    struct board *board = &worker->links[shard].board;
    struct ready_ring ring = board_ring(board, look->call->spec->call, kind);
    struct ready_wish wish = {.examined_max = examined_max, .places = &worker->claims[worker->claim_count]};
    wish.rows_max = show_places(worker, rows_max != 0 ? rows_max : rows_wanted(worker, look->call, &ring, kind));
    if (look->call->stateful || look->call->batch || look->only_count || kind == BOARD_ISOLATION) {
        wish.wanted = wanted;
        wish.context = look;
    }
    struct ready_taken taken =
        ready_ring_claim(&ring, &board->dispatches, &worker->lane.claims, worker->hello.worker, &wish, NULL);
    for (uint32_t at = 0; at < taken.claimed; at++)
        worker->claim_shards[worker->claim_count++] = shard;
    if (taken.damaged > 0) {
        struct lane_counters *counters = worker->lane.counters;
        store_relaxed_u64(&counters->damaged, load_relaxed_u64(&counters->damaged) + taken.damaged);
        board_add_news(board, worker->hello.worker);
        event_count_bump(board->shard_events);
    }
    return taken.claimed;
}

/* Whether rows at home elsewhere are worth opening their parents here: when they have been waiting for their own
 * worker, which is busy with something long, while this one had nothing else. Or at once, when the shard has much such
 * work ready, of which the ring shows a first part; not where the shard deals rows out to lanes (src/sched/lanes.c),
 * for then it sees to that, and what is lacking here is on its way. */
static bool foreign_repays(struct sheaf_worker *worker, struct worker_call *call, uint32_t shard, enum board_ring kind)
{
    struct look look = {.worker = worker, .call = call, .ownership = TAKE_FOREIGN, .only_count = true};
    claim_from(worker, &look, shard, kind, 1, 0);
    if (look.accepted == 0)
        return false;
    uint64_t at_ns = now_ns();
    if (worker->foreign_since_ns == 0)
        worker->foreign_since_ns = at_ns;
    worker->foreign_seen = true;
    bool lanes = (call->spec->operator_flags & SHEAF_OPERATOR_STATE_OF_PARENT) != 0;
    uint64_t row_ns = call->mean_row_ns != 0 ? call->mean_row_ns : UNKNOWN_ROW_NS;
    uint64_t ready = load_relaxed_u32(&worker->links[shard].board.calls[call->spec->call].ready);
    return (!lanes && ready * row_ns >= FOREIGN_WORK_NS) || at_ns - worker->foreign_since_ns >= FOREIGN_WORK_NS;
}

static uint32_t claim_ring(struct sheaf_worker *worker, struct worker_call *call, uint32_t shard, enum board_ring kind,
                           bool foreign, uint32_t rows_max)
{
    struct look look = {.worker = worker, .call = call, .by_batch = kind == BOARD_ISOLATION};
    if (!call->stateful) {
        look.ownership = TAKE_FOREIGN;
        return foreign ? 0 : claim_from(worker, &look, shard, kind, rows_max, 0);
    }
    if (foreign) {
        look.ownership = TAKE_OPEN;
        uint32_t claimed = claim_from(worker, &look, shard, kind, rows_max, AFFINITY_SCAN);
        if (claimed > 0)
            return claimed;
        look = (struct look){.worker = worker, .call = call, .by_batch = kind == BOARD_ISOLATION};
        if (!foreign_repays(worker, call, shard, kind))
            return 0;
        look.ownership = TAKE_FOREIGN;
        return claim_from(worker, &look, shard, kind, rows_max, 0);
    }
    if (kind == BOARD_READY) {
        look.ownership = TAKE_OWN;
        uint32_t claimed = claim_from(worker, &look, shard, kind, rows_max, AFFINITY_SCAN);
        if (claimed > 0)
            return claimed;
        look = (struct look){.worker = worker, .call = call};
    }
    look.ownership = TAKE_OWN_OR_ANY;
    return claim_from(worker, &look, shard, kind, rows_max, 0);
}

/* One kind of ring, shard by shard: the first that gives. */
static bool claim_kind(struct sheaf_worker *worker, struct worker_call *call, enum board_ring kind, bool foreign)
{
    for (uint32_t at = 0; at < worker->hello.shard_count; at++)
        if (claim_ring(worker, call, worker->shard_order[at], kind, foreign, 0) > 0)
            return true;
    return false;
}

/* What the shards together want of a batch of READY rows. False: leave them alone. */
static bool may_take_batch(const struct sheaf_worker *worker, const struct worker_call *call, uint32_t *ret_rows,
                           enum batch_close *ret_go)
{
    uint32_t waiting = 0, wanted = 0;
    bool full = false; /* some shard has a batch of its own */
    *ret_go = BATCH_OPEN;
    for (uint32_t shard = 0; shard < worker->hello.shard_count; shard++) {
        const struct board *board = &worker->links[shard].board;
        const struct board_call *words = &board->calls[call->spec->call];
        struct ready_ring ring = board_ring(board, call->spec->call, BOARD_READY);
        uint32_t rows = ready_ring_waiting(&ring), go = load_relaxed_u32(&words->go);
        if (rows == 0)
            continue;
        uint32_t here = load_relaxed_u32(&words->batch_rows);
        waiting += rows;
        full |= here != 0 && rows >= here;
        wanted = here > wanted ? here : wanted;
        if (go != BATCH_OPEN)
            *ret_go = (enum batch_close)go;
        else if (here == 0) /* nobody decides for this Call */
            *ret_go = BATCH_NOTHING_COMING;
    }
    uint32_t most = call->spec->batch_rows < worker->free_count ? call->spec->batch_rows : worker->free_count;
    wanted = wanted != 0 && wanted < most ? wanted : most;
    /* Where bytes bound a batch, `wanted` is how many are likely to fill it. */
    *ret_rows = call->spec->batch_bytes != 0 && *ret_go != BATCH_SPLIT ? most : wanted;
    return waiting > 0 && (*ret_go != BATCH_OPEN || full || waiting >= wanted);
}

/* READY rows of all shards, up to `rows`. A row that others were measured by may go to another worker meanwhile: then
 * once more, for what is left fits those that are left. */
static void claim_ready(struct sheaf_worker *worker, struct worker_call *call, bool foreign, uint32_t rows)
{
    enum { TRIES = 4 };
    struct worker_batch *batch = &worker->batch;
    for (uint32_t try = 0; try < TRIES && worker->claim_count == 0; try++) {
        batch->cut = BATCH_OPEN;
        for (uint32_t at = 0; at < worker->hello.shard_count && worker->claim_count < rows; at++) {
            claim_ring(worker, call, worker->shard_order[at], BOARD_READY, foreign, rows - worker->claim_count);
            if (batch->cut == BATCH_BYTES)
                break;
        }
        if (batch->cut == BATCH_OPEN)
            return;
    }
}

static void claim_batch(struct sheaf_worker *worker, struct worker_call *call, bool foreign)
{
    uint32_t rows;
    enum batch_close go;
    worker->batch.closed = BATCH_NOTHING_COMING;
    if (claim_kind(worker, call, BOARD_RETRY, foreign))
        return;
    if (may_take_batch(worker, call, &rows, &go)) {
        claim_ready(worker, call, foreign, rows);
        if (worker->claim_count == rows)
            worker->batch.closed = go == BATCH_SPLIT ? BATCH_SPLIT : BATCH_FULL;
        else if (worker->batch.cut != BATCH_OPEN)
            worker->batch.closed = worker->batch.cut;
        else if (go != BATCH_OPEN)
            worker->batch.closed = go;
        if (worker->claim_count > 0)
            return;
    }
    worker->batch.closed = BATCH_ISOLATION;
    claim_kind(worker, call, BOARD_ISOLATION, foreign);
}

/* Rows of one Call into worker->claims; `rows_max` 0: as many as are good to take at once. False: none. */
static bool claim_call(struct sheaf_worker *worker, uint32_t index, bool foreign, uint32_t rows_max)
{
    struct worker_call *call = &worker->calls[index];
    worker->claim_count = 0;
    if (call->batch && rows_max == 0) {
        claim_batch(worker, call, foreign);
        return worker->claim_count > 0;
    }
    for (uint32_t at = 0; at < worker->hello.shard_count; at++)
        for (uint32_t kind = 0; kind < BOARD_RINGS; kind++)
            if (claim_ring(worker, call, worker->shard_order[at], kind, foreign, rows_max) > 0)
                return true;
    return false;
}

/* Looks at the suspects of every Call, and claims one if `claim` and this process may run it. */
static bool look_for_suspects(struct sheaf_worker *worker, bool claim, uint32_t *ret_index)
{
    worker->claim_count = 0;
    worker->batch.closed = BATCH_ISOLATION;
    for (uint32_t index = 0; index < worker->hello.call_count; index++)
        for (uint32_t at = 0; at < worker->hello.shard_count; at++) {
            struct worker_call *call = &worker->calls[index];
            uint32_t shard = worker->shard_order[at];
            struct ready_ring ring = board_ring(&worker->links[shard].board, call->spec->call, BOARD_ISOLATION);
            if (ready_ring_waiting(&ring) == 0)
                continue;
            struct look look = {.worker = worker, .call = call, .only_suspects = true, .only_count = !claim};
            if (claim_from(worker, &look, shard, BOARD_ISOLATION, 1, 0) > 0) {
                *ret_index = index;
                return true;
            }
        }
    return false;
}

void claim_note_suspects(struct sheaf_worker *worker)
{
    uint32_t index;
    if (worker->has_run)
        (void)look_for_suspects(worker, false, &index);
    worker->stop |= worker->outlived;
}

bool claim_has(struct sheaf_worker *worker, uint32_t index)
{
    struct worker_call *call = &worker->calls[index];
    worker->claim_count = 0;
    for (uint32_t shard = 0; shard < worker->hello.shard_count; shard++)
        for (uint32_t kind = 0; kind < BOARD_RINGS; kind++) {
            struct look look = {.worker = worker, .call = call, .ownership = TAKE_OWN_OR_ANY, .only_count = true};
            claim_from(worker, &look, shard, (enum board_ring)kind, 1, 0);
            if (look.accepted > 0)
                return true;
        }
    return false;
}

/* What was claimed becomes the batch. */
static void add_rows(struct sheaf_worker *worker, uint32_t index)
{
    struct worker_batch *batch = &worker->batch;
    store_relaxed_u64(&worker->lane.counters->state, LANE_BUSY);
    batch->index = index;
    batch->count = worker->claim_count;
    worker->alone = (worker->claims[0]->dispatch.flags & DISPATCH_ALONE) != 0;
    for (uint32_t at = 0; at < batch->count; at++)
        batch->rows[at] = row_make(worker, &worker->calls[index], worker->claim_shards[at]);
}

static bool claim_any(struct sheaf_worker *worker)
{
    uint32_t suspect_index;
    claim_note_suspects(worker);
    if (worker->stop)
        return false;
    if (!worker->has_run && look_for_suspects(worker, true, &suspect_index)) {
        add_rows(worker, suspect_index);
        return true;
    }
    worker->foreign_seen = false;
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t index = 0; index < worker->hello.call_count; index++) {
            if (!claim_call(worker, index, pass == 1, 0))
                continue;
            add_rows(worker, index);
            worker->foreign_since_ns = 0;
            return true;
        }
    }
    if (!worker->foreign_seen)
        worker->foreign_since_ns = 0;
    return false;
}

int claim_more(struct sheaf_worker *worker)
{
    orders_poll(worker);
    if (worker->failure < 0)
        return worker->failure;
    worker->batch.count = 0;
    if (!worker->stop && claim_any(worker))
        return 1;
    return worker->stop ? SHEAF_E_CLOSED : 0;
}

int claim_one(struct sheaf_worker *worker, uint32_t index, struct worker_row **ret_row)
{
    if (worker->free_count == 0 || !claim_call(worker, index, false, 1))
        return 0;
    *ret_row = row_make(worker, &worker->calls[index], worker->claim_shards[0]);
    return 1;
}

int claim_wait(struct sheaf_worker *worker, int timeout_ms)
{
    assert(worker->free_count == worker->row_limit);
    uint64_t until_ns = 0;
    worker->batch.count = 0;
    uint32_t most = load_relaxed_u32(&worker->lane.orders->rows_max);
    worker->stop |= most != 0 && load_relaxed_u64(&worker->lane.counters->rows_run) >= most;
    for (;;) {
        uint32_t seen = event_count_sample(pool_events(worker));
        orders_poll(worker);
        if (worker->failure < 0)
            return worker->failure;
        if (worker->stop) {
            announce(worker);
            return SHEAF_E_CLOSED;
        }
        if (claim_any(worker))
            return 0;
        if (worker->stop)
            continue;
        uint64_t at_ns = now_ns();
        if (timeout_ms >= 0 && until_ns == 0)
            until_ns = at_ns + (uint64_t)timeout_ms * 1000000u + 1;
        if (until_ns != 0 && at_ns >= until_ns) {
            announce(worker);
            return -ETIMEDOUT;
        }
        if (!park_announce(worker, seen))
            continue;
        if (claim_any(worker))
            return 0;
        if (worker->stop)
            continue;
        /* Rows that were left to their own worker are looked at once more when it has had its time. */
        uint64_t wake_ns = until_ns;
        if (worker->foreign_since_ns != 0 && (until_ns == 0 || worker->foreign_since_ns + FOREIGN_WORK_NS < until_ns))
            wake_ns = worker->foreign_since_ns + FOREIGN_WORK_NS;
        park(worker, seen, -1, wake_ns);
    }
}
