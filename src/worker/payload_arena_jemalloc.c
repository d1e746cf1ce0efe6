/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/payload_arena.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jemalloc/jemalloc.h>

/* Read by jemalloc when the process starts. One thread: one arena for the process's own heap beside this one. Nothing
 * is retained: what an extent gives back, chunk_pages has. */
const char *malloc_conf = "narenas:1,retain:false,background_thread:false";

struct payload_arena {
    extent_hooks_t hooks; /* first: the hooks get its address */
    struct chunk_pages *pages;
    unsigned index;
    int flags; /* of mallocx */
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
 * The process's own heap keeps its hooks, but under another address: with its default ones jemalloc clears large
 * memory of calloc by giving the pages back to the system and faulting them in again, which costs many times what
 * writing zeroes does, several times for every page that pdfium reads.
 */
static void clear_by_writing(void)
{
    static extent_hooks_t hooks; /* jemalloc keeps its address; one heap per process */
    extent_hooks_t *defaults, *own = &hooks;
    size_t bytes = sizeof defaults;
    if (hooks.alloc != NULL || mallctl("arena.0.extent_hooks", &defaults, &bytes, NULL, 0) != 0)
        return;
    hooks = *defaults;
    (void)mallctl("arena.0.extent_hooks", NULL, NULL, &own, sizeof own); /* if not, it is only slower */
}

int payload_arena_create(struct chunk_pages *pages, struct payload_arena **ret_arena)
{
    clear_by_writing();
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
    /* jemalloc keeps the hooks' address with the arena's index for a later arena: the struct stays. */
}

void *payload_arena_alloc(struct payload_arena *arena, size_t bytes)
{
    return mallocx(bytes > 0 ? bytes : 1, arena->flags);
}

void *payload_arena_resize(struct payload_arena *arena, void *memory, size_t bytes)
{
    return rallocx(memory, bytes > 0 ? bytes : 1, arena->flags);
}

void payload_arena_free(struct payload_arena *arena, void *memory)
{
    dallocx(memory, MALLOCX_TCACHE_NONE);
}

size_t payload_arena_usable_bytes(const struct payload_arena *arena, const void *memory)
{
    return sallocx(memory, arena->flags);
}

void payload_arena_purge(struct payload_arena *arena)
{
    arena_control(arena->index, "purge", NULL, 0);
}
