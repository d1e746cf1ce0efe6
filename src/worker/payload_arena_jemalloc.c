/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/payload_arena.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jemalloc/jemalloc.h>

#include "worker/key_set.h"

/* From here on whole pages are handed out as they are asked for: jemalloc would round up to its next size, which may be
 * a quarter more, and memory is counted in chunks where it matters. */
enum { LARGE_BYTES = 1 << 20 };

/* Read by jemalloc when the process starts. One thread: one arena for the process's own heap, large memory included,
 * beside this one. Nothing is retained: what an extent gives back, chunk_pages has. */
const char *malloc_conf = "narenas:1,oversize_threshold:0,retain:false,background_thread:false";

struct payload_arena {
    extent_hooks_t hooks; /* first: the hooks get its address */
    struct chunk_pages *pages;
    unsigned index;
    int flags;            /* of mallocx */
    struct key_set large; /* addresses of what is not jemalloc's */
};

static void *extent_alloc(extent_hooks_t *hooks, void *at, size_t bytes, size_t alignment, bool *zero, bool *commit,
                          unsigned index)
{
    struct payload_arena *arena = (struct payload_arena *)hooks;
    void *memory = chunk_pages_take(arena->pages, at, bytes, alignment);
    if (memory == NULL)
        return NULL;
    if (*zero)
        memset(memory, 0, bytes);
    *commit = true;
    return memory;
}

static bool extent_dalloc(extent_hooks_t *hooks, void *memory, size_t bytes, bool committed, unsigned index)
{
    struct payload_arena *arena = (struct payload_arena *)hooks;
    chunk_pages_give(arena->pages, memory, bytes);
    return false;
}

static void extent_destroy(extent_hooks_t *hooks, void *memory, size_t bytes, bool committed, unsigned index)
{
    extent_dalloc(hooks, memory, bytes, committed, index);
}

static bool extent_split(extent_hooks_t *hooks, void *memory, size_t bytes, size_t first_bytes, size_t second_bytes,
                         bool committed, unsigned index)
{
    return false;
}

/* Two extents may be one when they lie in one segment: mappings may happen to touch. */
static bool extent_merge(extent_hooks_t *hooks, void *first, size_t first_bytes, void *second, size_t second_bytes,
                         bool committed, unsigned index)
{
    struct payload_arena *arena = (struct payload_arena *)hooks;
    uint32_t one = 0, other = 0;
    uint64_t offset = 0;
    int status = chunk_pages_locate(arena->pages, first, &one, &offset);
    status |= chunk_pages_locate(arena->pages, second, &other, &offset);
    return status < 0 || one != other;
}

/* jemalloc 5.3's arena_config_t, which its header does not show. */
struct arena_config {
    extent_hooks_t *extent_hooks;
    bool metadata_use_hooks;
};

static int arena_control(unsigned index, const char *name, void *value, size_t value_bytes)
{
    char path[64];
    snprintf(path, sizeof path, "arena.%u.%s", index, name);
    return -mallctl(path, NULL, NULL, value, value_bytes);
}

/*
 * The process's own heap has hooks of ours. With its default ones jemalloc clears large memory of calloc by giving the
 * pages back to the system and faulting them in again, which costs many times what writing zeroes does, several times
 * for every page that pdfium reads. And at the limit of the heap it would not use what it has kept for later.
 */
static struct own_heap {
    extent_hooks_t hooks; /* jemalloc keeps its address; one heap per process */
    extent_alloc_t *allocate;
    size_t bound_bytes;
    bool at_limit; /* being asked again */
} own_heap;

static void *own_alloc(extent_hooks_t *hooks, void *at, size_t bytes, size_t alignment, bool *zero, bool *commit,
                       unsigned index)
{
    struct own_heap *heap = &own_heap;
    void *memory = heap->allocate(hooks, at, bytes, alignment, zero, commit, index);
    if (memory != NULL || at != NULL || heap->bound_bytes == 0)
        return memory;
    if (!heap->at_limit) {
        heap->at_limit = true;
        arena_control(0, "purge", NULL, 0);
        memory = heap->allocate(hooks, at, bytes, alignment, zero, commit, index);
        heap->at_limit = false;
    }
    if (memory == NULL && bytes <= heap->bound_bytes)
        _exit(PAYLOAD_EXIT_OOM);
    return memory;
}

static void own_the_heap(void)
{
    extent_hooks_t *defaults, *hooks = &own_heap.hooks;
    size_t bytes = sizeof defaults;
    if (own_heap.allocate != NULL || mallctl("arena.0.extent_hooks", &defaults, &bytes, NULL, 0) != 0)
        return;
    own_heap.hooks = *defaults;
    own_heap.allocate = defaults->alloc;
    own_heap.hooks.alloc = own_alloc;
    (void)mallctl("arena.0.extent_hooks", NULL, NULL, &hooks, sizeof hooks); /* if not, it is only slower */
}

void payload_arena_bound_heap(uint64_t bytes)
{
    own_heap.bound_bytes = bytes;
}

int payload_arena_create(struct chunk_pages *pages, struct payload_arena **ret_arena)
{
    own_the_heap();
    struct payload_arena *arena = calloc(1, sizeof *arena);
    if (arena == NULL)
        return -ENOMEM;
    /* Purge and decommit are refused (NULL): the memory stays touched. */
    arena->hooks = (extent_hooks_t){.alloc = extent_alloc,
                                    .dalloc = extent_dalloc,
                                    .destroy = extent_destroy,
                                    .split = extent_split,
                                    .merge = extent_merge};
    arena->pages = pages;
    struct arena_config config = {&arena->hooks, false};
    size_t index_bytes = sizeof arena->index;
    if (mallctl("experimental.arenas_create_ext", &arena->index, &index_bytes, &config, sizeof config) != 0) {
        free(arena);
        return -ENOTSUP;
    }
    arena->flags = MALLOCX_ARENA(arena->index) | MALLOCX_TCACHE_NONE | MALLOCX_ALIGN(PAYLOAD_ALIGNMENT);
    /* Freed extents stay in the arena until payload_arena_purge: no clock decides. */
    ssize_t never = -1;
    int status = arena_control(arena->index, "dirty_decay_ms", &never, sizeof never);
    if (status < 0) {
        payload_arena_destroy(arena);
        return -ENOTSUP;
    }
    *ret_arena = arena;
    return 0;
}

void payload_arena_destroy(struct payload_arena *arena)
{
    if (arena == NULL)
        return;
    arena_control(arena->index, "destroy", NULL, 0);
    key_set_done(&arena->large);
    /* jemalloc keeps the hooks' address with the arena's index for a later arena: the struct stays. */
}

/* ---- large ones: a line before each says how many bytes of pages it has ---- */

static size_t *run_bytes(const void *memory)
{
    return (size_t *)((char *)memory - PAYLOAD_ALIGNMENT);
}

static size_t whole_pages(size_t bytes)
{
    return (bytes + PAYLOAD_ALIGNMENT + CHUNK_PAGE_BYTES - 1) / CHUNK_PAGE_BYTES * CHUNK_PAGE_BYTES;
}

static bool is_large(const struct payload_arena *arena, const void *memory)
{
    return key_set_has(&arena->large, (uintptr_t)memory);
}

static void *large_alloc(struct payload_arena *arena, size_t bytes)
{
    size_t run = whole_pages(bytes);
    char *start = chunk_pages_take(arena->pages, NULL, run, CHUNK_PAGE_BYTES);
    if (start == NULL)
        return NULL;
    char *memory = start + PAYLOAD_ALIGNMENT;
    if (key_set_add(&arena->large, (uintptr_t)memory) < 0) {
        chunk_pages_give(arena->pages, start, run);
        return NULL;
    }
    *run_bytes(memory) = run;
    return memory;
}

/* Grows into the pages behind it, or shrinks; false: it has to move. */
static bool large_resize(struct payload_arena *arena, void *memory, size_t bytes)
{
    char *start = (char *)memory - PAYLOAD_ALIGNMENT;
    size_t run = *run_bytes(memory), wanted = whole_pages(bytes);
    if (wanted > run && chunk_pages_take(arena->pages, start + run, wanted - run, CHUNK_PAGE_BYTES) == NULL)
        return false;
    if (wanted < run)
        chunk_pages_give(arena->pages, start + wanted, run - wanted);
    *run_bytes(memory) = wanted;
    return true;
}

void *payload_arena_alloc(struct payload_arena *arena, size_t bytes)
{
    if (bytes >= LARGE_BYTES)
        return bytes <= SIZE_MAX / 2 ? large_alloc(arena, bytes) : NULL;
    return mallocx(bytes > 0 ? bytes : 1, arena->flags);
}

void *payload_arena_resize(struct payload_arena *arena, void *memory, size_t bytes)
{
    bool large = is_large(arena, memory);
    if (bytes > SIZE_MAX / 2)
        return NULL;
    if (!large && bytes < LARGE_BYTES)
        return rallocx(memory, bytes > 0 ? bytes : 1, arena->flags);
    if (large && bytes >= LARGE_BYTES && large_resize(arena, memory, bytes))
        return memory;
    void *moved = payload_arena_alloc(arena, bytes);
    if (moved == NULL)
        return NULL;
    size_t usable = payload_arena_usable_bytes(arena, memory);
    memcpy(moved, memory, usable < bytes ? usable : bytes);
    payload_arena_free(arena, memory);
    return moved;
}

void payload_arena_free(struct payload_arena *arena, void *memory)
{
    if (key_set_remove(&arena->large, (uintptr_t)memory))
        chunk_pages_give(arena->pages, (char *)memory - PAYLOAD_ALIGNMENT, *run_bytes(memory));
    else
        dallocx(memory, MALLOCX_TCACHE_NONE);
}

size_t payload_arena_usable_bytes(const struct payload_arena *arena, const void *memory)
{
    return is_large(arena, memory) ? *run_bytes(memory) - PAYLOAD_ALIGNMENT : sallocx(memory, arena->flags);
}

void payload_arena_purge(struct payload_arena *arena)
{
    arena_control(arena->index, "purge", NULL, 0);
}
