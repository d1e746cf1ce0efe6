/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heap over a worker's leased chunks: memory for the bytes of values.
 *
 * Two builds of one interface. The stock worker has payload_arena_jemalloc.c: a jemalloc arena of its own whose extents
 * come from chunk_pages, with the metadata elsewhere (a reader of the segment sees only payload, and a worker that dies
 * leaves nothing to repair). Where jemalloc must not be the process's allocator (inside libsheaf, under a sanitizer)
 * payload_arena_pages.c hands out whole pages.
 *
 * All memory is aligned to PAYLOAD_ALIGNMENT and uninitialised. For the one thread of a worker. Nothing here waits:
 * NULL means the lease is used up.
 */
#ifndef SRC_WORKER_PAYLOAD_ARENA_H
#define SRC_WORKER_PAYLOAD_ARENA_H

#include "worker/chunk_pages.h"

#define PAYLOAD_ALIGNMENT 64u

struct payload_arena;

/* -ENOMEM; -ENOTSUP: the allocator of this process cannot be given chunks. `pages` must outlive the arena. */
int payload_arena_create(struct chunk_pages *pages, struct payload_arena **ret_arena);
void payload_arena_destroy(struct payload_arena *arena);

void *payload_arena_alloc(struct payload_arena *arena, size_t bytes);
/* As realloc; `memory` is unchanged when NULL comes back. */
void *payload_arena_resize(struct payload_arena *arena, void *memory, size_t bytes);
void payload_arena_free(struct payload_arena *arena, void *memory);

/* Bytes usable at `memory`. */
size_t payload_arena_usable_bytes(const struct payload_arena *arena, const void *memory);

/* From now on a process that cannot get so many bytes for its own heap, or less, exits with PAYLOAD_EXIT_OOM: the
 * libraries inside operators crash without memory, each in its own way, and the row is to be charged for what it is.
 * Larger wishes are refused as ever. Only where jemalloc is the process's allocator; 0: nothing is done. */
#define PAYLOAD_EXIT_OOM 86
void payload_arena_bound_heap(uint64_t bytes);

/* Gives what is free inside the allocator back to `pages`. */
void payload_arena_purge(struct payload_arena *arena);

#endif
