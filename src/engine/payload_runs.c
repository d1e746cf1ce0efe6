/* SPDX-License-Identifier: Apache-2.0 */
/* Page runs in the segments of shards. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "engine/payload_internal.h"

static bool page_free(const struct payload_segment *segment, uint64_t page)
{
    return segment->free_pages[page / PAGES_PER_WORD] >> (page % PAGES_PER_WORD) & 1;
}

static void set_free(struct payload_segment *segment, uint64_t first, uint64_t count, bool is_free)
{
    for (uint64_t page = first; page < first + count; page++) {
        assert(page_free(segment, page) != is_free);
        segment->free_pages[page / PAGES_PER_WORD] ^= UINT64_C(1) << (page % PAGES_PER_WORD);
    }
}

/* First free run of `count` pages in [from, to), or UINT64_MAX. Words without a free page are skipped at once. */
static uint64_t find_run(const struct payload_segment *segment, uint64_t from, uint64_t to, uint64_t count)
{
    uint64_t run = 0;
    for (uint64_t page = from; page < to; page++) {
        if (page % PAGES_PER_WORD == 0 && segment->free_pages[page / PAGES_PER_WORD] == 0) {
            run = 0;
            page += PAGES_PER_WORD - 1;
            continue;
        }
        run = page_free(segment, page) ? run + 1 : 0;
        if (run == count)
            return page + 1 - count;
    }
    return UINT64_MAX;
}

uint32_t payload_trim_runs(struct payload *payload)
{
    uint32_t trimmed = 0;
    if (payload->keeps_real)
        return 0;
    for (uint32_t i = 0; i < payload->shard_count; i++) {
        struct payload_segment *segment = &payload->segments[i];
        uint32_t reach = atomic_load_explicit(&segment->reach, memory_order_relaxed);
        for (uint32_t chunk = 0; chunk < reach; chunk++) {
            uint64_t *words = &segment->free_pages[(size_t)chunk * WORDS_PER_CHUNK], all = UINT64_MAX;
            for (uint32_t word = 0; word < WORDS_PER_CHUNK; word++)
                all &= words[word];
            if (all != UINT64_MAX)
                continue;
            memset(words, 0, WORDS_PER_CHUNK * sizeof *words);
            payload_make_unreal(payload, segment, chunk);
            trimmed++;
        }
    }
    return trimmed;
}

/* Room for `count` pages where nothing is real yet, and in the free pages just before. Under the lock. */
static uint64_t grow_run(struct payload *payload, struct payload_segment *segment, uint64_t count)
{
    uint32_t reach = atomic_load_explicit(&segment->reach, memory_order_relaxed);
    for (uint32_t chunk = 0; chunk <= reach && chunk < segment->chunk_count; chunk++) {
        if (atomic_load_explicit(&segment->real[chunk], memory_order_relaxed))
            continue;
        uint64_t start = (uint64_t)chunk * PAGES_PER_CHUNK;
        while (start > 0 && page_free(segment, start - 1))
            start--;
        uint64_t end = (start + count + PAGES_PER_CHUNK - 1) / PAGES_PER_CHUNK;
        if (end > segment->chunk_count)
            return UINT64_MAX;
        uint32_t first, wanted = (uint32_t)end - chunk;
        if (payload_unreal_run(segment, chunk, wanted, &first) < wanted || first != chunk)
            continue;
        if (!payload_make_real(payload, segment, chunk, wanted))
            return UINT64_MAX;
        set_free(segment, (uint64_t)chunk * PAGES_PER_CHUNK, (uint64_t)wanted * PAGES_PER_CHUNK, true);
        return start;
    }
    return UINT64_MAX;
}

static uint64_t place_run(struct payload *payload, struct payload_segment *segment, uint64_t count)
{
    uint64_t end = (uint64_t)atomic_load_explicit(&segment->reach, memory_order_relaxed) * PAGES_PER_CHUNK;
    uint64_t run = find_run(segment, segment->page_hint, end, count);
    if (run == UINT64_MAX)
        run = find_run(segment, 0, end, count);
    return run != UINT64_MAX ? run : grow_run(payload, segment, count);
}

int payload_run_alloc(struct payload *payload, uint32_t shard, uint64_t bytes, uint64_t *ret_offset)
{
    struct payload_segment *segment = payload_segment_of(payload, payload_shard_segment(payload, shard));
    uint64_t count = bytes / PAGE_BYTES + (bytes % PAGE_BYTES != 0);
    if (count == 0)
        count = 1;
    pthread_mutex_lock(&payload->lock);
    uint64_t run = place_run(payload, segment, count);
    if (run == UINT64_MAX && payload_trim_runs(payload) > 0)
        run = place_run(payload, segment, count);
    if (run != UINT64_MAX) {
        set_free(segment, run, count, false);
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
    struct payload_segment *segment = payload_segment_of(payload, payload_shard_segment(payload, shard));
    uint64_t count = bytes / PAGE_BYTES + (bytes % PAGE_BYTES != 0);
    if (count == 0)
        count = 1;
    assert(offset % PAGE_BYTES == 0);
    pthread_mutex_lock(&payload->lock);
    set_free(segment, offset / PAGE_BYTES, count, true);
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
