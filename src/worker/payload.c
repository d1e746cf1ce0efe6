/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for values. An allocation is a head of 64 bytes, room for a prefix (media type, tensor shape, path; may be
 * none), and the data, so that answering moves nothing:
 *
 *     start         start + 64          start + headroom
 *     | head        | room for a prefix | data ...
 *                  ^ trailer           ^ trailer         (one and the same without room)
 *
 * A value's memory begins at its prefix or, without one, at its data; before either place stands a trailer from which
 * the allocation is found again when the shard says FREE.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "shm/crash_point.h"
#include "worker/worker.h"

#define MAGIC_DATA 0x6d736866u   /* before the data */
#define MAGIC_PREFIX 0x6d736870u /* before the room for a prefix */
#define LARGE_BYTES 4096u        /* from here on room for a tensor's shape costs nothing that counts */
#define LARGE_HEADROOM (PAYLOAD_HEAD_BYTES + 192u)
#define WAIT_ROUNDS_MAX 3u /* chunks come scattered: ask again before giving up on a run of them */

struct trailer {
    uint32_t headroom_bytes; /* from the start to the data */
    uint32_t magic;
};
static_assert(192u >= sizeof(struct sheaf_tensor) + sizeof(struct trailer), "a shape fits");

static struct trailer *trailer_of(const void *memory)
{
    return (struct trailer *)((char *)memory - sizeof(struct trailer));
}

uint32_t payload_usual_headroom(size_t bytes)
{
    return bytes >= LARGE_BYTES ? LARGE_HEADROOM : PAYLOAD_HEAD_BYTES;
}

uint32_t payload_headroom(const void *memory)
{
    assert(trailer_of(memory)->magic == MAGIC_DATA);
    return trailer_of(memory)->headroom_bytes;
}

static char *start_of(const void *memory)
{
    return (char *)memory - payload_headroom(memory);
}

size_t payload_bytes(const struct sheaf_worker *worker, const void *memory)
{
    return payload_arena_usable_bytes(worker->arena, start_of(memory)) - payload_headroom(memory);
}

/* ---- waiting for chunks ---- */

static void set_waiting(struct worker_row *row, bool waiting)
{
    struct sheaf_worker *worker = row->worker;
    if (row->phase == ROW_RUNNING)
        claim_page_set_blocked(&worker->lane.claims, row->claim.row, waiting, now_ns());
    store_relaxed_u64(&worker->lane.counters->state, waiting ? LANE_WAITING_MEMORY : LANE_BUSY);
}

void payload_say_wish(struct sheaf_worker *worker)
{
    uint64_t wanted = worker->pages.leased_chunks + worker->missing_chunks;
    /* Partner: the engine's load before it grants. */
    store_release_u64(&worker->lane.counters->wanted_chunks, worker->wishes << LANE_CHUNKS_BITS | wanted);
    SHEAF_CRASH_POINT("payload.wanted");
}

/* Publishes how many chunks are wanted in all and tells the shards. False: over the limit. */
static bool want_chunks(struct sheaf_worker *worker, uint64_t count)
{
    uint64_t wanted = worker->pages.leased_chunks + count;
    uint64_t limit = worker->hello.payload_limit_bytes;
    if (limit != 0 && wanted > limit / CHUNK_BYTES)
        return false;
    worker->chunk_refused = worker->yield = false;
    worker->missing_chunks = count;
    worker->wishes++;
    payload_say_wish(worker);
    announce(worker);
    board_add_news(&worker->links[0].board, worker->hello.worker);
    event_count_bump(worker->links[0].board.shard_events);
    return true;
}

/* Sleeps until the lease grew by what is missing, memory was freed, or the answer is no. What is given back meanwhile
 * is missing no more than before. */
static bool wait_for_chunks(struct sheaf_worker *worker)
{
    for (;;) {
        uint32_t seen = event_count_sample(worker->lane.events);
        uint64_t live = worker->live_count;
        orders_poll(worker);
        if (worker->pages.leased_chunks >= LANE_CHUNKS(load_relaxed_u64(&worker->lane.counters->wanted_chunks)) ||
            worker->live_count < live)
            return true;
        if (worker->chunk_refused || must_end_now(worker))
            return false;
        if (!event_count_announce(worker->lane.events, seen))
            continue;
        bool pending = must_end_now(worker);
        for (uint32_t shard = 0; shard < worker->hello.shard_count; shard++)
            pending |= spsc_pending(&worker->links[shard].orders);
        if (!pending)
            event_count_wait(worker->lane.events, seen, EVENT_COUNT_FOREVER);
    }
}

static void *alloc_now(struct sheaf_worker *worker, void *memory, size_t bytes)
{
    return memory == NULL ? payload_arena_alloc(worker->arena, bytes)
                          : payload_arena_resize(worker->arena, memory, bytes);
}

/* As alloc (memory NULL) or resize, waiting while the engine may still give. */
static void *alloc_patiently(struct worker_row *row, void *memory, size_t bytes)
{
    struct sheaf_worker *worker = row->worker;
    void *got = alloc_now(worker, memory, bytes);
    if (got != NULL)
        return got;
    orders_poll(worker);
    payload_arena_purge(worker->arena);
    got = alloc_now(worker, memory, bytes);
    uint64_t count = bytes / CHUNK_BYTES + 1;
    set_waiting(row, true);
    for (uint32_t round = 0; got == NULL && round < WAIT_ROUNDS_MAX;) {
        uint64_t leased = worker->pages.leased_chunks;
        if (!want_chunks(worker, count) || !wait_for_chunks(worker))
            break;
        payload_arena_purge(worker->arena);
        got = alloc_now(worker, memory, bytes);
        round += worker->pages.leased_chunks > leased; /* what was freed meanwhile costs no patience */
    }
    row->yields |= got == NULL && worker->yield;
    worker->missing_chunks = 0;
    payload_say_wish(worker); /* nothing is wanted any more */
    SHEAF_CRASH_POINT("payload.satisfied");
    set_waiting(row, false);
    return got;
}

/* ---- allocations ---- */

static void count_live(struct sheaf_worker *worker, int64_t count, int64_t bytes)
{
    worker->live_count += (uint64_t)count;
    worker->live_bytes += (uint64_t)bytes;
    store_relaxed_u64(&worker->lane.counters->heap_bytes, worker->live_bytes);
}

static void *set_up(struct sheaf_worker *worker, char *start, uint32_t headroom_bytes)
{
    char *memory = start + headroom_bytes;
    *trailer_of(start + PAYLOAD_HEAD_BYTES) = (struct trailer){headroom_bytes, MAGIC_PREFIX};
    *trailer_of(memory) = (struct trailer){headroom_bytes, MAGIC_DATA};
    SHEAF_CRASH_POINT("payload.set_up");
    count_live(worker, 1, (int64_t)payload_arena_usable_bytes(worker->arena, start));
    return memory;
}

void *payload_new(struct worker_row *row, size_t bytes, uint32_t headroom_bytes)
{
    assert(headroom_bytes >= PAYLOAD_ALIGNMENT && headroom_bytes % PAYLOAD_ALIGNMENT == 0);
    if (bytes > SIZE_MAX / 4)
        return NULL;
    char *start = alloc_patiently(row, NULL, bytes + headroom_bytes);
    return start != NULL ? set_up(row->worker, start, headroom_bytes) : NULL;
}

void *payload_resize(struct worker_row *row, void *memory, size_t bytes)
{
    struct sheaf_worker *worker = row->worker;
    if (bytes > SIZE_MAX / 4)
        return NULL;
    uint32_t headroom_bytes = payload_headroom(memory);
    char *start = start_of(memory);
    size_t before = payload_arena_usable_bytes(worker->arena, start);
    char *moved = alloc_patiently(row, start, bytes + headroom_bytes);
    if (moved == NULL)
        return NULL;
    count_live(worker, -1, -(int64_t)before);
    return set_up(worker, moved, headroom_bytes);
}

void payload_free(struct sheaf_worker *worker, void *memory)
{
    char *start = start_of(memory);
    count_live(worker, -1, -(int64_t)payload_arena_usable_bytes(worker->arena, start));
    trailer_of(start + PAYLOAD_HEAD_BYTES)->magic = 0;
    trailer_of(memory)->magic = 0;
    SHEAF_CRASH_POINT("payload.unmarked");
    payload_arena_free(worker->arena, start);
    SHEAF_CRASH_POINT("payload.freed");
}

int payload_free_at(struct sheaf_worker *worker, uint32_t segment_number, uint64_t offset)
{
    const struct segment *segment = payload_map_segment(&worker->map, segment_number);
    if (segment == NULL || !segment->writable || offset < PAYLOAD_ALIGNMENT || offset % PAYLOAD_ALIGNMENT != 0)
        return -ENOENT;
    char *memory = segment_at(segment, offset, 1);
    /* What was freed before, or is no start of a value, has no trailer: such an order is dropped, not obeyed. */
    if (memory == NULL)
        return -ENOENT;
    struct trailer trailer = *trailer_of(memory);
    if (trailer.magic == MAGIC_PREFIX)
        memory += trailer.headroom_bytes - PAYLOAD_HEAD_BYTES;
    else if (trailer.magic != MAGIC_DATA)
        return -ENOENT;
    payload_free(worker, memory);
    return 0;
}
