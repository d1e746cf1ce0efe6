/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of pages in the chunks a worker has leased.
 *
 * Payload memory is leased to a worker in chunks of 2 MiB, in segments it may write. This hands out runs of 4 KiB pages
 * from them, across neighbouring chunks, and takes them back; a chunk's memory is faulted in when its first page is
 * handed out. The book-keeping lies in private memory.
 *
 * For the one thread of a worker. Nothing here asks for more chunks: see payload.h.
 */
#ifndef SRC_WORKER_CHUNK_PAGES_H
#define SRC_WORKER_CHUNK_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/segment.h"

#define CHUNK_BYTES ((uint64_t)2 << 20)
#define CHUNK_PAGE_BYTES 4096u
#define CHUNK_PAGES (CHUNK_BYTES / CHUNK_PAGE_BYTES)

/* One segment the worker may write. */
struct page_segment {
    const struct segment *segment;
    uint32_t number;
    uint32_t page_count;
    uint64_t *free;  /* bit per page: leased and not handed out */
    uint8_t *leased; /* per chunk: CHUNK_* */
};

struct chunk_pages {
    struct page_segment *segments;
    uint32_t segment_count;
    uint64_t leased_chunks;
    uint64_t used_pages;
};

/* `segment` must stay mapped. -EEXIST, -ENOMEM. */
int chunk_pages_add_segment(struct chunk_pages *pages, uint32_t number, const struct segment *segment);
void chunk_pages_done(struct chunk_pages *pages);

/* One more chunk. -ENOENT: not a segment of ours; -ERANGE: no such chunk; -EEXIST: leased already. */
int chunk_pages_lease(struct chunk_pages *pages, uint32_t number, uint64_t chunk);

/* The last chunk no page of which is handed out is ours no more. -ENOENT: there is none. */
int chunk_pages_return(struct chunk_pages *pages, uint32_t *ret_number, uint32_t *ret_chunk);

/* A run of whole pages, aligned to `alignment` (a power of two), or NULL. `at` not NULL: there or nowhere. */
void *chunk_pages_take(struct chunk_pages *pages, void *at, size_t bytes, size_t alignment);
/* Any whole part of what was taken. */
void chunk_pages_give(struct chunk_pages *pages, void *memory, size_t bytes);

/* Chunks no page of which is handed out. */
uint64_t chunk_pages_idle_chunks(const struct chunk_pages *pages);

/* Where memory lies. -ENOENT: in no segment of ours. */
int chunk_pages_locate(const struct chunk_pages *pages, const void *memory, uint32_t *ret_number, uint64_t *ret_offset);

#endif
