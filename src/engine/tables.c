/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/tables.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "shm/atomic.h"

/* At the beginning of each huge page that is cut. */
struct tables_block {
    _Alignas(CACHE_LINE_BYTES) struct tables_block *next;
};

struct tables_free {
    struct tables_free *next;
};

enum {
    CUT_BYTES_MAX = HUGE_PAGE_BYTES / 2, /* larger ones have an allocation of their own */
    STEP_BITS = 2,                       /* sizes between two powers of two: rounding loses a fifth at most */
};

/* Rounds up to the next size; returns its number. */
static uint32_t size_of(size_t bytes, size_t *ret_bytes)
{
    size_t lines = (bytes + CACHE_LINE_BYTES - 1) / CACHE_LINE_BYTES, last = lines > 0 ? lines - 1 : 0;
    uint32_t bits = 64 - (uint32_t)__builtin_clzll(last | 1), shift = bits > STEP_BITS + 1 ? bits - STEP_BITS - 1 : 0;
    *ret_bytes = (((last >> shift) + 1) << shift) * CACHE_LINE_BYTES;
    return (shift << STEP_BITS) + (uint32_t)(last >> shift);
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EACH_ALONE true
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define EACH_ALONE true
#endif
#ifndef EACH_ALONE
#define EACH_ALONE false
#endif

static bool is_cut(size_t bytes)
{
    return !EACH_ALONE && bytes <= CUT_BYTES_MAX;
}

static void *take_alone(size_t bytes)
{
    void *table = NULL;
    bool huge = bytes >= HUGE_PAGE_BYTES;
    if (posix_memalign(&table, huge ? HUGE_PAGE_BYTES : CACHE_LINE_BYTES, bytes) != 0)
        return NULL;
    if (huge)
        (void)madvise(table, bytes, MADV_HUGEPAGE); /* a hint */
    return table;
}

static bool open_block(struct tables *tables)
{
    void *reserved =
        mmap(NULL, (size_t)2 * HUGE_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (reserved == MAP_FAILED)
        return false;
    size_t before = -(uintptr_t)reserved & (HUGE_PAGE_BYTES - 1);
    char *base = (char *)reserved + before;
    if (before > 0)
        munmap(reserved, before);
    munmap(base + HUGE_PAGE_BYTES, HUGE_PAGE_BYTES - before);
    (void)madvise(base, HUGE_PAGE_BYTES, MADV_HUGEPAGE); /* a hint */
    struct tables_block *block = (struct tables_block *)(void *)base;
    block->next = tables->blocks;
    tables->blocks = block;
    tables->cut_bytes = sizeof *block;
    return true;
}

static void *cut(struct tables *tables, size_t bytes)
{
    if ((!tables->blocks || HUGE_PAGE_BYTES - tables->cut_bytes < bytes) && !open_block(tables))
        return NULL;
    void *table = (char *)tables->blocks + tables->cut_bytes;
    tables->cut_bytes += bytes;
    return table;
}

void *tables_take(struct tables *tables, size_t bytes)
{
    void *table;
    if (is_cut(bytes)) {
        size_t rounded;
        struct tables_free **free = &tables->free[size_of(bytes, &rounded)];
        table = *free ? *free : cut(tables, rounded);
        if (*free)
            *free = (*free)->next;
    } else {
        table = take_alone(bytes);
    }
    tables->live += table != NULL;
    return table;
}

void tables_give(struct tables *tables, void *table, size_t bytes)
{
    assert(tables->live > 0);
    tables->live--;
    if (!is_cut(bytes)) {
        free(table);
        return;
    }
    size_t rounded;
    struct tables_free **free = &tables->free[size_of(bytes, &rounded)], *given = table;
    given->next = *free;
    *free = given;
}

void tables_close(struct tables *tables)
{
    assert(tables->live == 0);
    for (struct tables_block *block = tables->blocks, *next; block; block = next) {
        next = block->next;
        munmap(block, HUGE_PAGE_BYTES);
    }
    *tables = (struct tables){0};
}
