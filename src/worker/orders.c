/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "shm/crash_point.h"
#include "worker/worker.h"

uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool must_end_now(const struct sheaf_worker *worker)
{
    return worker->failure < 0 || load_acquire_u32(&worker->lane.orders->stop) >= 2;
}

/* ---- records ---- */

/* Parks until the shard has made room. What was written before must be visible, or it would wait for itself. Being
 * asked to stop (1) ends nothing here: the shard still takes answers. Stop 2 does: nobody takes them any more. The bump
 * that follows it is seen, for the sample was taken before the look. */
static int wait_for_room(struct sheaf_worker *worker, uint32_t shard, const struct completion *record,
                         const struct completion_part *parts, uint32_t count)
{
    record_commit(worker, shard);
    announce(worker);
    for (;;) {
        uint32_t seen = event_count_sample(worker->lane.events);
        int status = completion_write_rows(&worker->links[shard].records, record, parts, count);
        if (status != -EAGAIN)
            return status;
        if (must_end_now(worker))
            return -ESHUTDOWN;
        if (!event_count_announce(worker->lane.events, seen))
            continue;
        status = completion_write_rows(&worker->links[shard].records, record, parts, count);
        if (status != -EAGAIN)
            return status;
        event_count_wait(worker->lane.events, seen, EVENT_COUNT_FOREVER);
    }
}

int record_write_rows(struct sheaf_worker *worker, uint32_t shard, const struct completion *record,
                      const struct completion_part *parts, uint32_t count)
{
    if (worker->failure < 0)
        return worker->failure;
    int status = completion_write_rows(&worker->links[shard].records, record, parts, count);
    if (status == -EAGAIN)
        status = wait_for_room(worker, shard, record, parts, count);
    if (status < 0 && status != -EMSGSIZE)
        worker->failure = status;
    SHEAF_CRASH_POINT("record.written");
    return status;
}

int record_write(struct sheaf_worker *worker, uint32_t shard, const struct completion *record)
{
    const struct completion_part part = {.values = record->values};
    return record_write_rows(worker, shard, record, &part, 1);
}

void record_commit(struct sheaf_worker *worker, uint32_t shard)
{
    struct shard_link *link = &worker->links[shard];
    if (link->records.reserved == link->records.committed)
        return;
    spsc_commit(&link->records);
    board_add_news(&link->board, worker->hello.worker);
    link->unannounced = true;
}

static void announce_link(struct shard_link *link, uint64_t at_ns)
{
    link->unannounced = false;
    link->announced_ns = at_ns;
    event_count_bump(link->board.shard_events);
}

/* Whether a shard with records that it was not told of is told now. */
typedef bool tells(const struct sheaf_worker *worker, const struct shard_link *link, uint64_t at_ns);

static bool tells_always(const struct sheaf_worker *worker, const struct shard_link *link, uint64_t at_ns)
{
    return true;
}

static bool tells_unless_it_looks(const struct sheaf_worker *worker, const struct shard_link *link, uint64_t at_ns)
{
    return !board_promised(&link->board, at_ns);
}

/* It looks by itself, and has plenty of what this Pool makes. */
static bool tells_unless_ahead(const struct sheaf_worker *worker, const struct shard_link *link, uint64_t at_ns)
{
    return !board_promised_pool(&link->board, at_ns, worker->hello.pool);
}

static bool tells_when_due(const struct sheaf_worker *worker, const struct shard_link *link, uint64_t at_ns)
{
    return at_ns - link->announced_ns >= ANNOUNCE_NS && tells_unless_ahead(worker, link, at_ns);
}

static void announce_where(struct sheaf_worker *worker, uint64_t at_ns, tells *is_told)
{
    for (uint32_t shard = 0; shard < worker->hello.shard_count; shard++) {
        struct shard_link *link = &worker->links[shard];
        if (link->unannounced && is_told(worker, link, at_ns))
            announce_link(link, at_ns);
    }
}

void announce(struct sheaf_worker *worker)
{
    announce_where(worker, now_ns(), tells_always);
}

void announce_going_on(struct sheaf_worker *worker)
{
    announce_where(worker, now_ns(), tells_unless_it_looks);
}

void announce_wanted(struct sheaf_worker *worker, uint64_t at_ns)
{
    announce_where(worker, at_ns, tells_unless_ahead);
}

void announce_due(struct sheaf_worker *worker, uint64_t at_ns)
{
    announce_where(worker, at_ns, tells_when_due);
}

void announce_child(struct sheaf_worker *worker, uint32_t shard, uint64_t before_ns)
{
    struct shard_link *link = &worker->links[shard];
    /* The time counts from before the told child was committed, and to after this one was: the shard, which looks again
     * that long after it took the first, finds every child that is left untold. */
    uint64_t at_ns = now_ns();
    if (!link->unannounced || at_ns - link->child_ns < COMPLETION_CHILD_NS || !tells_unless_ahead(worker, link, at_ns))
        return;
    link->child_ns = before_ns;
    announce_link(link, at_ns);
}

/* ---- orders ---- */

static void evict_now(struct sheaf_worker *worker, const struct eviction *eviction)
{
    for (uint32_t index = 0; index < worker->hello.call_count; index++)
        if (key_set_remove(&worker->calls[index].open, eviction->key) && worker->evict != NULL)
            worker->evict(worker->evict_cookie, index, eviction->key);
    descriptors_drop(worker, eviction->key);
    struct completion record = {.kind = COMPLETION_EVICTED, .grain = COMPLETION_NO_GRAIN, .key = eviction->key};
    record_write(worker, eviction->shard, &record);
    record_commit(worker, eviction->shard);
}

static void evict_later(struct sheaf_worker *worker, const struct eviction *eviction)
{
    if (worker->eviction_count == worker->eviction_capacity) {
        uint32_t capacity = 2 * worker->eviction_capacity + 8;
        struct eviction *grown = realloc(worker->evictions, capacity * sizeof *grown);
        if (grown == NULL) {
            worker->failure = -ENOMEM; /* an order cannot be forgotten: end, and everything is evicted */
            return;
        }
        worker->evictions = grown;
        worker->eviction_capacity = capacity;
    }
    worker->evictions[worker->eviction_count++] = *eviction;
}

static void mark_unwanted(struct sheaf_worker *worker, uint32_t shard, const struct control *order)
{
    for (uint32_t at = 0; at < worker->row_limit; at++) {
        struct worker_row *row = &worker->rows[at];
        if (row->phase != ROW_FREE && row->shard == shard && row->claim.dispatch.grain == order->segment &&
            row->claim.dispatch.number == order->value)
            row->unwanted = true;
    }
}

static void obey(struct sheaf_worker *worker, uint32_t shard, const struct control *order)
{
    switch (order->kind) {
    case CONTROL_FREE:
        (void)payload_free_at(worker, order->segment, order->value);
        return;
    case CONTROL_EVICT: {
        struct eviction eviction = {shard, order->value};
        evict_later(worker, &eviction);
        return;
    }
    case CONTROL_CHUNK:
        if (order->value == CONTROL_NO_CHUNK || order->value == CONTROL_YIELD) {
            worker->chunk_refused = true;
            worker->yield = order->value == CONTROL_YIELD;
        } else
            (void)chunk_pages_lease(&worker->pages, order->segment, order->value);
        return;
    case CONTROL_RETURN:
        worker->return_down_to = order->value; /* once all that was freed before is */
        return;
    case CONTROL_UNWANTED:
        mark_unwanted(worker, shard, order);
        return;
    case CONTROL_STOP:
        worker->stop = true;
        return;
    case CONTROL_KINDS:
        return;
    }
}

/* Gives back chunks that hold nothing. What it wants in all is said first: the shard must not take what is missing now
 * for a wish. */
static void return_chunks(struct sheaf_worker *worker)
{
    uint64_t keep = worker->return_down_to;
    uint32_t number, chunk;
    struct completion record = {.kind = COMPLETION_CHUNK, .grain = COMPLETION_NO_GRAIN};
    worker->return_down_to = UINT64_MAX;
    payload_arena_purge(worker->arena);
    while (worker->pages.leased_chunks > keep && chunk_pages_return(&worker->pages, &number, &chunk) == 0) {
        payload_say_wish(worker);
        record.key = chunk;
        record_write(worker, 0, &record);
    }
    record.key = CONTROL_NO_CHUNK;
    record_write(worker, 0, &record);
    record_commit(worker, 0);
    announce(worker);
}

void orders_poll(struct sheaf_worker *worker)
{
    for (uint32_t shard = 0; shard < worker->hello.shard_count; shard++) {
        struct control order;
        int status;
        while ((status = control_read(&worker->links[shard].orders, &order)) == 0)
            obey(worker, shard, &order);
        if (status != -EAGAIN)
            worker->failure = status;
    }
    if (worker->return_down_to != UINT64_MAX)
        return_chunks(worker);
    if (load_acquire_u32(&worker->lane.orders->stop) != 0)
        worker->stop = true;
    if (worker->inside)
        return;
    for (uint32_t at = 0; at < worker->eviction_count; at++)
        evict_now(worker, &worker->evictions[at]);
    worker->eviction_count = 0;
}
