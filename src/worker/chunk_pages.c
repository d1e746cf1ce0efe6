/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/chunk_pages.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_NOT_LEASED = 0, CHUNK_LEASED, CHUNK_TOUCHED, CHUNK_UNUSABLE };

static struct page_segment *find_segment(const struct chunk_pages *pages, uint32_t number)
{
    for (uint32_t at = 0; at < pages->segment_count; at++)
        if (pages->segments[at].number == number)
            return &pages->segments[at];
    return NULL;
}

int chunk_pages_add_segment(struct chunk_pages *pages, uint32_t number, const struct segment *segment)
{
    assert(segment->base != NULL && segment->writable);
    if (find_segment(pages, number) != NULL)
        return -EEXIST;
    uint64_t chunk_count = segment->size_bytes / CHUNK_BYTES;
    struct page_segment added = {segment, number, (uint32_t)(chunk_count * CHUNK_PAGES), NULL, NULL};
    added.free = calloc(chunk_count * CHUNK_PAGES / 64 + 1, sizeof *added.free);
    added.leased = calloc(chunk_count + 1, 1);
    struct page_segment *grown = realloc(pages->segments, (pages->segment_count + 1) * sizeof *grown);
    if (grown != NULL)
        pages->segments = grown;
    if (grown == NULL || added.free == NULL || added.leased == NULL) {
        free(added.free);
        free(added.leased);
        return -ENOMEM;
    }
    pages->segments[pages->segment_count++] = added;
    return 0;
}

void chunk_pages_done(struct chunk_pages *pages)
{
    for (uint32_t at = 0; at < pages->segment_count; at++) {
        free(pages->segments[at].free);
        free(pages->segments[at].leased);
    }
    free(pages->segments);
    *pages = (struct chunk_pages){0};
}

static bool is_free(const struct page_segment *segment, uint32_t page)
{
    return (segment->free[page / 64] >> (page % 64) & 1) != 0;
}

static void mark(struct page_segment *segment, uint32_t first, uint32_t count, bool free_now)
{
    for (uint32_t page = first; page < first + count;) {
        uint64_t *word = &segment->free[page / 64];
        uint32_t here = 64 - page % 64 < first + count - page ? 64 - page % 64 : first + count - page;
        uint64_t bits = (here == 64 ? ~UINT64_C(0) : (UINT64_C(1) << here) - 1) << (page % 64);
        assert((*word & bits) == (free_now ? 0 : bits)); /* neither given twice nor taken twice */
        *word ^= bits;
        page += here;
    }
}

int chunk_pages_lease(struct chunk_pages *pages, uint32_t number, uint64_t chunk)
{
    struct page_segment *segment = find_segment(pages, number);
    if (segment == NULL)
        return -ENOENT;
    if (chunk >= segment->page_count / CHUNK_PAGES)
        return -ERANGE;
    if (segment->leased[chunk] != CHUNK_NOT_LEASED)
        return -EEXIST;
    segment->leased[chunk] = CHUNK_LEASED;
    mark(segment, (uint32_t)(chunk * CHUNK_PAGES), CHUNK_PAGES, true);
    pages->leased_chunks++;
    return 0;
}

static bool is_idle(const struct page_segment *segment, uint32_t chunk)
{
    uint64_t all = ~UINT64_C(0);
    for (uint32_t word = 0; word < CHUNK_PAGES / 64; word++)
        all &= segment->free[chunk * (CHUNK_PAGES / 64) + word];
    return all == ~UINT64_C(0);
}

int chunk_pages_return(struct chunk_pages *pages, uint32_t *ret_number, uint32_t *ret_chunk)
{
    for (uint32_t index = 0; index < pages->segment_count; index++) {
        struct page_segment *segment = &pages->segments[index];
        for (uint32_t chunk = segment->page_count / CHUNK_PAGES; chunk-- > 0;) {
            if (!is_idle(segment, chunk))
                continue;
            mark(segment, chunk * CHUNK_PAGES, CHUNK_PAGES, false);
            segment->leased[chunk] = CHUNK_NOT_LEASED;
            pages->leased_chunks--;
            *ret_number = segment->number;
            *ret_chunk = chunk;
            return 0;
        }
    }
    return -ENOENT;
}

/* Faults the chunks under a run in. They are real memory already: the engine committed them before it leased them, and
 * nothing here opens a file. Chunks that cannot be mapped all the same are never looked at again. */
static bool touch_chunks(struct page_segment *segment, uint32_t first, uint32_t count)
{
    for (uint64_t chunk = first / CHUNK_PAGES; chunk <= (first + count - 1) / CHUNK_PAGES; chunk++) {
        if (segment->leased[chunk] == CHUNK_TOUCHED)
            continue;
        assert(segment->leased[chunk] == CHUNK_LEASED);
        int status = segment_touch(segment->segment, chunk * CHUNK_BYTES, CHUNK_BYTES);
        if (status == -ENOMEM || status == -EFAULT) { /* any other refusal costs faults later, no more */
            segment->leased[chunk] = CHUNK_UNUSABLE;
            mark(segment, (uint32_t)(chunk * CHUNK_PAGES), CHUNK_PAGES, false);
            return false;
        }
        segment->leased[chunk] = CHUNK_TOUCHED;
    }
    return true;
}

/* The first run of `count` free pages whose first page is a multiple of `step` (counted from the mapping's address). */
static bool find_run(const struct page_segment *segment, uint32_t count, uint32_t step, uint32_t *ret_first)
{
    uint64_t bias = (uintptr_t)segment->segment->base / CHUNK_PAGE_BYTES;
    for (uint32_t page = 0; page + count <= segment->page_count;) {
        if (segment->free[page / 64] == 0) {
            page = (page / 64 + 1) * 64;
            continue;
        }
        if (!is_free(segment, page) || (bias + page) % step != 0) {
            page++;
            continue;
        }
        uint32_t length = 1;
        while (length < count && is_free(segment, page + length))
            length++;
        if (length == count) {
            *ret_first = page;
            return true;
        }
        page += length + 1;
    }
    return false;
}

static void *take_in(struct chunk_pages *pages, struct page_segment *segment, uint32_t first, uint32_t count)
{
    if (!touch_chunks(segment, first, count))
        return NULL;
    mark(segment, first, count, false);
    pages->used_pages += count;
    return (char *)segment->segment->base + (uint64_t)first * CHUNK_PAGE_BYTES;
}

static void *take_there(struct chunk_pages *pages, void *at, uint32_t count)
{
    uint32_t number = 0;
    uint64_t offset = 0;
    if (chunk_pages_locate(pages, at, &number, &offset) < 0)
        return NULL;
    struct page_segment *segment = find_segment(pages, number);
    uint32_t first = (uint32_t)(offset / CHUNK_PAGE_BYTES);
    if (first + count > segment->page_count)
        return NULL;
    for (uint32_t page = first; page < first + count; page++)
        if (!is_free(segment, page))
            return NULL;
    return take_in(pages, segment, first, count);
}

void *chunk_pages_take(struct chunk_pages *pages, void *at, size_t bytes, size_t alignment)
{
    assert(bytes > 0 && (alignment & (alignment - 1)) == 0);
    if (bytes > UINT32_MAX * (uint64_t)CHUNK_PAGE_BYTES)
        return NULL;
    uint32_t count = (uint32_t)((bytes + CHUNK_PAGE_BYTES - 1) / CHUNK_PAGE_BYTES);
    if (at != NULL)
        return take_there(pages, at, count);
    uint32_t step = alignment > CHUNK_PAGE_BYTES ? (uint32_t)(alignment / CHUNK_PAGE_BYTES) : 1;
    for (uint32_t index = 0; index < pages->segment_count; index++) {
        struct page_segment *segment = &pages->segments[index];
        uint32_t first;
        while (find_run(segment, count, step, &first)) {
            void *memory = take_in(pages, segment, first, count);
            if (memory != NULL)
                return memory;
            /* a chunk turned out to be unusable and is out of the map now: look again */
        }
    }
    return NULL;
}

void chunk_pages_give(struct chunk_pages *pages, void *memory, size_t bytes)
{
    uint32_t number = 0;
    uint64_t offset = 0;
    int status = chunk_pages_locate(pages, memory, &number, &offset);
    assert(status == 0 && offset % CHUNK_PAGE_BYTES == 0);
    (void)status;
    uint32_t count = (uint32_t)((bytes + CHUNK_PAGE_BYTES - 1) / CHUNK_PAGE_BYTES);
    mark(find_segment(pages, number), (uint32_t)(offset / CHUNK_PAGE_BYTES), count, true);
    assert(pages->used_pages >= count);
    pages->used_pages -= count;
}

uint64_t chunk_pages_idle_chunks(const struct chunk_pages *pages)
{
    uint64_t idle = 0;
    for (uint32_t index = 0; index < pages->segment_count; index++) {
        const struct page_segment *segment = &pages->segments[index];
        for (uint32_t chunk = 0; chunk < segment->page_count / CHUNK_PAGES; chunk++)
            idle += is_idle(segment, chunk);
    }
    return idle;
}

int chunk_pages_locate(const struct chunk_pages *pages, const void *memory, uint32_t *ret_number, uint64_t *ret_offset)
{
    for (uint32_t index = 0; index < pages->segment_count; index++) {
        const struct segment *segment = pages->segments[index].segment;
        uintptr_t base = (uintptr_t)segment->base, at = (uintptr_t)memory;
        if (at >= base && at - base < segment->size_bytes) {
            *ret_number = pages->segments[index].number;
            *ret_offset = at - base;
            return 0;
        }
    }
    return -ENOENT;
}
