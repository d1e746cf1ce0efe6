/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/payload.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096, PAGES_PER_CHUNK = PAYLOAD_CHUNK_BYTES / PAGE_BYTES, PAGES_PER_WORD = 64 };

struct payload_segment {
    struct segment memory;
    int read_only;
    uint32_t chunk_count;
    _Atomic uint32_t backed; /* chunks [0, backed) are real; grows under the lock */
    _Atomic uint32_t *live;  /* per chunk: values that touch it (worker segments) */
    _Atomic uint8_t *stale;  /* per chunk, written under the lock: holds values of a dead process */
    bool leased;             /* under the lock */
    uint64_t *pages;         /* shard segments, under the lock: a bit per page in use */
    uint64_t page_hint;      /* where the last search ended */
};

struct payload {
    pthread_mutex_t lock;
    uint32_t shard_count, segment_count;
    struct payload_segment *segments; /* [number - 1] */
    int bind_status;
    _Atomic uint64_t bytes, bytes_peak, shard_bytes;
};

static struct payload_segment *segment_of(const struct payload *payload, uint16_t number)
{
    assert(number >= 1 && number <= payload->segment_count);
    return &payload->segments[number - 1];
}

/* Segment `index` counts shards first, then workers. `ret_bind`: whether it could be put on its node. */
static int segment_open(struct payload_segment *segment, const struct payload_options *options, uint32_t index,
                        int *ret_bind)
{
    bool of_shard = index < options->shard_count;
    char label[32];
    snprintf(label, sizeof label, of_shard ? "sheaf-shard-%u" : "sheaf-worker-%u",
             of_shard ? index : index - options->shard_count);
    segment->chunk_count = (uint32_t)((options->segment_bytes + PAYLOAD_CHUNK_BYTES - 1) / PAYLOAD_CHUNK_BYTES);
    segment->read_only = -1;
    segment->memory = (struct segment)SEGMENT_NONE;
    int result = segment_create(label, segment->chunk_count * PAYLOAD_CHUNK_BYTES, &segment->memory);
    if (result < 0)
        return result;
    *ret_bind = segment_bind(&segment->memory, options->nodes ? options->nodes[index] : SEGMENT_ANY_NODE);
    result = segment_open_read_only(&segment->memory, &segment->read_only);
    if (result < 0)
        return result;
    if (of_shard) {
        segment->pages = calloc((size_t)segment->chunk_count * PAGES_PER_CHUNK / PAGES_PER_WORD, sizeof(uint64_t));
        return segment->pages ? 0 : -ENOMEM;
    }
    segment->live = calloc(segment->chunk_count, sizeof *segment->live);
    segment->stale = calloc(segment->chunk_count, 1);
    return segment->live && segment->stale ? 0 : -ENOMEM;
}

int payload_create(const struct payload_options *options, struct payload **ret_payload)
{
    uint64_t count = (uint64_t)options->shard_count + options->worker_count;
    if (count == 0 || count > PAYLOAD_SEGMENTS_MAX || options->segment_bytes == 0)
        return -EINVAL;
    struct payload *payload = calloc(1, sizeof *payload);
    if (!payload)
        return -ENOMEM;
    pthread_mutex_init(&payload->lock, NULL);
    payload->segments = calloc(count, sizeof *payload->segments);
    payload->shard_count = options->shard_count;
    int result = payload->segments ? 0 : -ENOMEM;
    while (result == 0 && payload->segment_count < count) {
        uint32_t index = payload->segment_count++;
        int bound = 0;
        result = segment_open(&payload->segments[index], options, index, &bound);
        if (bound < 0)
            payload->bind_status = bound;
    }
    if (result < 0) {
        payload_destroy(payload);
        return result;
    }
    *ret_payload = payload;
    return 0;
}

int payload_bind_status(const struct payload *payload)
{
    return payload->bind_status;
}

void payload_destroy(struct payload *payload)
{
    if (!payload)
        return;
    for (uint32_t i = 0; payload->segments && i < payload->segment_count; i++) {
        struct payload_segment *segment = &payload->segments[i];
        if (segment->read_only >= 0)
            close(segment->read_only);
        segment_release(&segment->memory);
        free(segment->live);
        free(segment->stale);
        free(segment->pages);
    }
    free(payload->segments);
    pthread_mutex_destroy(&payload->lock);
    free(payload);
}

uint32_t payload_segment_count(const struct payload *payload)
{
    return payload->segment_count;
}

uint16_t payload_shard_segment(const struct payload *payload, uint32_t shard)
{
    assert(shard < payload->shard_count);
    return (uint16_t)(1 + shard);
}

uint16_t payload_worker_segment(const struct payload *payload, uint32_t worker)
{
    assert(worker < payload->segment_count - payload->shard_count);
    return (uint16_t)(1 + payload->shard_count + worker);
}

const struct segment *payload_segment(const struct payload *payload, uint16_t number)
{
    return &segment_of(payload, number)->memory;
}

int payload_read_only(const struct payload *payload, uint16_t number)
{
    return segment_of(payload, number)->read_only;
}

uint64_t payload_real_bytes(const struct payload *payload)
{
    return atomic_load_explicit(&payload->bytes, memory_order_relaxed);
}

uint64_t payload_real_bytes_peak(const struct payload *payload)
{
    return atomic_load_explicit(&payload->bytes_peak, memory_order_relaxed);
}

uint64_t payload_shard_bytes(const struct payload *payload)
{
    return atomic_load_explicit(&payload->shard_bytes, memory_order_relaxed);
}

uint64_t payload_live_values(const struct payload *payload)
{
    uint64_t live = 0;
    for (uint32_t i = payload->shard_count; i < payload->segment_count; i++) {
        const struct payload_segment *segment = &payload->segments[i];
        uint32_t backed = atomic_load_explicit(&segment->backed, memory_order_relaxed);
        for (uint32_t chunk = 0; chunk < backed; chunk++)
            live += atomic_load_explicit(&segment->live[chunk], memory_order_relaxed);
    }
    return live;
}

/* ---- values ---- */

/* [start, start + bytes) of a reference in its segment, or false when it does not lie inside. The bytes of a list are
 * those of its header: the rest is checked as it is read. */
static bool ref_range(const struct payload *payload, const struct value_ref *ref, uint64_t *ret_start,
                      uint64_t *ret_bytes)
{
    if (ref->segment == VALUE_INLINE || ref->segment > payload->segment_count)
        return false;
    bool list = SHEAF_KIND_DEPTH(ref->kind) != 0;
    uint32_t prefix = list ? 0 : ref->prefix; /* of a list: see payload_retain */
    if (ref->offset < prefix || ref->length > UINT64_MAX - prefix)
        return false;
    *ret_start = ref->offset - prefix;
    *ret_bytes = list ? sizeof(struct list_block) : ref->length + prefix;
    return segment_at(payload_segment(payload, ref->segment), *ret_start, *ret_bytes) != NULL;
}

const void *payload_view(const struct payload *payload, const struct value_ref *ref)
{
    uint64_t start, bytes;
    if (!ref_range(payload, ref, &start, &bytes))
        return NULL;
    return (const char *)payload_segment(payload, ref->segment)->base + ref->offset;
}

static uint32_t chunk_at(uint64_t offset)
{
    return (uint32_t)(offset / PAYLOAD_CHUNK_BYTES);
}

/* The chunks an accepted reference touches. */
static void chunks_of(const struct value_ref *ref, uint32_t *ret_first, uint32_t *ret_last)
{
    bool list = SHEAF_KIND_DEPTH(ref->kind) != 0;
    uint64_t start = ref->offset - (list ? 0 : ref->prefix);
    *ret_first = chunk_at(start);
    *ret_last = list ? *ret_first + ref->prefix : chunk_at(ref->offset + (ref->length ? ref->length - 1 : 0));
}

int payload_retain(struct payload *payload, struct value_ref *ref)
{
    if (ref->segment == VALUE_INLINE)
        return 0;
    uint64_t start, bytes;
    if (ref->segment <= payload->shard_count || !ref_range(payload, ref, &start, &bytes))
        return -ERANGE;
    struct payload_segment *segment = segment_of(payload, ref->segment);
    if (SHEAF_KIND_DEPTH(ref->kind) != 0) {
        const struct list_block *block = segment_at(&segment->memory, ref->offset, sizeof *block);
        uint64_t block_bytes = block->bytes;
        if (block_bytes < sizeof *block || !segment_at(&segment->memory, ref->offset, block_bytes))
            return -ERANGE;
        if (ref->offset % _Alignof(struct list_block) != 0)
            return -ERANGE;
        uint32_t beyond = chunk_at(ref->offset + block_bytes - 1) - chunk_at(ref->offset);
        if (beyond > UINT16_MAX)
            return -ERANGE;
        ref->prefix = (uint16_t)beyond;
    }
    uint32_t first, last;
    chunks_of(ref, &first, &last);
    if (last >= atomic_load_explicit(&segment->backed, memory_order_relaxed))
        return -ERANGE;
    for (uint32_t chunk = first; chunk <= last; chunk++)
        atomic_fetch_add_explicit(&segment->live[chunk], 1, memory_order_relaxed);
    return 0;
}

/* The last value of a chunk left by a dead process is gone: true when the chunk goes to a process that is there now. */
static bool chunk_freed(struct payload *payload, struct payload_segment *segment, uint32_t chunk)
{
    bool handed_on = false;
    pthread_mutex_lock(&payload->lock);
    if (segment->stale[chunk] && atomic_load_explicit(&segment->live[chunk], memory_order_relaxed) == 0) {
        segment->stale[chunk] = 0;
        handed_on = segment->leased;
    }
    pthread_mutex_unlock(&payload->lock);
    return handed_on;
}

enum payload_gone payload_release(struct payload *payload, const struct value_ref *ref,
                                  void (*freed)(void *cookie, uint32_t chunk), void *cookie)
{
    assert(ref->segment > payload->shard_count);
    struct payload_segment *segment = segment_of(payload, ref->segment);
    enum payload_gone gone = PAYLOAD_OWNER_FREES;
    uint32_t first, last;
    chunks_of(ref, &first, &last);
    for (uint32_t chunk = first; chunk <= last; chunk++) {
        /* Total order, partner: payload_end_lease. Either it sees that this was the last value, or we see `stale`. */
        uint32_t before = atomic_fetch_sub_explicit(&segment->live[chunk], 1, memory_order_seq_cst);
        assert(before > 0);
        if (!atomic_load_explicit(&segment->stale[chunk], memory_order_seq_cst))
            continue;
        gone = PAYLOAD_FREED;
        if (before == 1 && chunk_freed(payload, segment, chunk))
            freed(cookie, chunk);
    }
    return gone;
}

/* ---- leases ---- */

/* Makes chunks up to `chunks` real. Under the lock. */
static uint32_t back_locked(struct payload *payload, struct payload_segment *segment, uint32_t chunks)
{
    uint32_t backed = atomic_load_explicit(&segment->backed, memory_order_relaxed);
    if (chunks > segment->chunk_count)
        chunks = segment->chunk_count;
    if (chunks <= backed)
        return backed;
    uint64_t offset = backed * PAYLOAD_CHUNK_BYTES, bytes = (chunks - backed) * PAYLOAD_CHUNK_BYTES;
    /* Huge pages first: they are cleared where they stand. Made of small ones they would be cleared and then copied.
     * Where memory is short, committing decides. */
    bool huge_first = bytes <= segment_memory_available() / 2;
    if (huge_first)
        segment_advise_huge(&segment->memory, offset, bytes);
    if (segment_commit(&segment->memory, offset, bytes) < 0)
        return backed;
    if (!huge_first)
        segment_advise_huge(&segment->memory, offset, bytes);
    uint64_t total = atomic_fetch_add_explicit(&payload->bytes, bytes, memory_order_relaxed) + bytes;
    if (total > atomic_load_explicit(&payload->bytes_peak, memory_order_relaxed))
        atomic_store_explicit(&payload->bytes_peak, total, memory_order_relaxed);
    atomic_store_explicit(&segment->backed, chunks, memory_order_relaxed);
    return chunks;
}

uint32_t payload_back(struct payload *payload, uint32_t worker, uint32_t chunks)
{
    struct payload_segment *segment = segment_of(payload, payload_worker_segment(payload, worker));
    pthread_mutex_lock(&payload->lock);
    uint32_t backed = back_locked(payload, segment, chunks);
    pthread_mutex_unlock(&payload->lock);
    return backed;
}

uint32_t payload_lease(struct payload *payload, uint32_t worker, uint32_t *ret_chunks, uint32_t capacity)
{
    struct payload_segment *segment = segment_of(payload, payload_worker_segment(payload, worker));
    uint32_t count = 0;
    pthread_mutex_lock(&payload->lock);
    assert(!segment->leased);
    segment->leased = true;
    uint32_t backed = atomic_load_explicit(&segment->backed, memory_order_relaxed);
    for (uint32_t chunk = 0; chunk < backed && count < capacity; chunk++) {
        if (!segment->stale[chunk])
            ret_chunks[count++] = chunk;
    }
    pthread_mutex_unlock(&payload->lock);
    return count;
}

void payload_end_lease(struct payload *payload, uint32_t worker)
{
    struct payload_segment *segment = segment_of(payload, payload_worker_segment(payload, worker));
    pthread_mutex_lock(&payload->lock);
    segment->leased = false;
    uint32_t backed = atomic_load_explicit(&segment->backed, memory_order_relaxed);
    for (uint32_t chunk = 0; chunk < backed; chunk++) {
        /* Marked before it is looked at: a value that goes meanwhile is seen here, or sees the mark. */
        atomic_store_explicit(&segment->stale[chunk], 1, memory_order_seq_cst);
        if (atomic_load_explicit(&segment->live[chunk], memory_order_seq_cst) == 0)
            atomic_store_explicit(&segment->stale[chunk], 0, memory_order_seq_cst);
    }
    pthread_mutex_unlock(&payload->lock);
}

/* ---- page runs ---- */

static bool page_used(const struct payload_segment *segment, uint64_t page)
{
    return segment->pages[page / PAGES_PER_WORD] >> (page % PAGES_PER_WORD) & 1;
}

static void set_pages(struct payload_segment *segment, uint64_t first, uint64_t count, bool used)
{
    for (uint64_t page = first; page < first + count; page++) {
        uint64_t bit = UINT64_C(1) << (page % PAGES_PER_WORD);
        assert(page_used(segment, page) != used);
        segment->pages[page / PAGES_PER_WORD] ^= bit;
    }
}

/* First free run of `count` pages in [from, to), or UINT64_MAX. Full words are skipped at once. */
static uint64_t find_run(const struct payload_segment *segment, uint64_t from, uint64_t to, uint64_t count)
{
    uint64_t run = 0;
    for (uint64_t page = from; page < to; page++) {
        if (page % PAGES_PER_WORD == 0 && segment->pages[page / PAGES_PER_WORD] == UINT64_MAX) {
            run = 0;
            page += PAGES_PER_WORD - 1;
            continue;
        }
        run = page_used(segment, page) ? 0 : run + 1;
        if (run == count)
            return page + 1 - count;
    }
    return UINT64_MAX;
}

/* Room for `count` pages in what is real, else in what can be made real behind it. Under the lock. */
static uint64_t place_run(struct payload *payload, struct payload_segment *segment, uint64_t count)
{
    uint64_t real = (uint64_t)atomic_load_explicit(&segment->backed, memory_order_relaxed) * PAGES_PER_CHUNK;
    uint64_t run = find_run(segment, segment->page_hint, real, count);
    if (run == UINT64_MAX)
        run = find_run(segment, 0, real, count);
    if (run != UINT64_MAX)
        return run;
    uint64_t start = real; /* a free tail of what is real counts */
    while (start > 0 && !page_used(segment, start - 1))
        start--;
    uint64_t chunks = (start + count + PAGES_PER_CHUNK - 1) / PAGES_PER_CHUNK;
    if (chunks > segment->chunk_count || back_locked(payload, segment, (uint32_t)chunks) < chunks)
        return UINT64_MAX;
    return start;
}

int payload_run_alloc(struct payload *payload, uint32_t shard, uint64_t bytes, uint64_t *ret_offset)
{
    struct payload_segment *segment = segment_of(payload, payload_shard_segment(payload, shard));
    uint64_t count = bytes / PAGE_BYTES + (bytes % PAGE_BYTES != 0);
    if (count == 0)
        count = 1;
    pthread_mutex_lock(&payload->lock);
    uint64_t run = place_run(payload, segment, count);
    if (run != UINT64_MAX) {
        set_pages(segment, run, count, true);
        segment->page_hint = run + count;
        atomic_fetch_add_explicit(&payload->shard_bytes, count * PAGE_BYTES, memory_order_relaxed);
    }
    pthread_mutex_unlock(&payload->lock);
    if (run == UINT64_MAX)
        return -ENOMEM;
    *ret_offset = run * PAGE_BYTES;
    return 0;
}

void payload_run_free(struct payload *payload, uint32_t shard, uint64_t offset, uint64_t bytes)
{
    struct payload_segment *segment = segment_of(payload, payload_shard_segment(payload, shard));
    uint64_t count = bytes / PAGE_BYTES + (bytes % PAGE_BYTES != 0);
    if (count == 0)
        count = 1;
    assert(offset % PAGE_BYTES == 0);
    pthread_mutex_lock(&payload->lock);
    set_pages(segment, offset / PAGE_BYTES, count, false);
    if (offset / PAGE_BYTES < segment->page_hint)
        segment->page_hint = offset / PAGE_BYTES; /* keep to what was touched before */
    atomic_fetch_sub_explicit(&payload->shard_bytes, count * PAGE_BYTES, memory_order_relaxed);
    pthread_mutex_unlock(&payload->lock);
}

void *payload_shard_at(const struct payload *payload, uint32_t shard, uint64_t offset)
{
    const struct segment *memory = payload_segment(payload, payload_shard_segment(payload, shard));
    assert(offset < memory->size_bytes);
    return (char *)memory->base + offset;
}
