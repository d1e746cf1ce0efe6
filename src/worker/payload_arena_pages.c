/* SPDX-License-Identifier: Apache-2.0 */
/* The heap of whole pages. A line before each allocation says how long it is. */
#include "worker/payload_arena.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct payload_arena {
    struct chunk_pages *pages;
};

int payload_arena_create(struct chunk_pages *pages, struct payload_arena **ret_arena)
{
    struct payload_arena *arena = malloc(sizeof *arena);
    if (arena == NULL)
        return -ENOMEM;
    arena->pages = pages;
    *ret_arena = arena;
    return 0;
}

void payload_arena_destroy(struct payload_arena *arena)
{
    free(arena);
}

static size_t *run_bytes(const void *memory)
{
    return (size_t *)((char *)memory - PAYLOAD_ALIGNMENT);
}

void *payload_arena_alloc(struct payload_arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    size_t run = (bytes + PAYLOAD_ALIGNMENT + CHUNK_PAGE_BYTES - 1) / CHUNK_PAGE_BYTES * CHUNK_PAGE_BYTES;
    char *start = chunk_pages_take(arena->pages, NULL, run, CHUNK_PAGE_BYTES);
    if (start == NULL)
        return NULL;
    *run_bytes(start + PAYLOAD_ALIGNMENT) = run;
    return start + PAYLOAD_ALIGNMENT;
}

void payload_arena_free(struct payload_arena *arena, void *memory)
{
    chunk_pages_give(arena->pages, (char *)memory - PAYLOAD_ALIGNMENT, *run_bytes(memory));
}

size_t payload_arena_usable_bytes(const struct payload_arena *arena, const void *memory)
{
    return *run_bytes(memory) - PAYLOAD_ALIGNMENT;
}

void *payload_arena_resize(struct payload_arena *arena, void *memory, size_t bytes)
{
    size_t usable = payload_arena_usable_bytes(arena, memory);
    if (bytes <= usable)
        return memory;
    void *moved = payload_arena_alloc(arena, bytes);
    if (moved == NULL)
        return NULL;
    memcpy(moved, memory, usable);
    payload_arena_free(arena, memory);
    return moved;
}

void payload_arena_bound_heap(uint64_t bytes)
{
    (void)bytes; /* its allocator is not ours */
}

void payload_arena_purge(struct payload_arena *arena)
{
    (void)arena; /* nothing is kept back */
}
