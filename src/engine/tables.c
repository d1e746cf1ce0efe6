/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/tables.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "shm/atomic.h"
#include "shm/sanitizer.h"

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

static bool is_cut(size_t bytes)
{
    return !BUILT_WITH_ADDRESS_SANITIZER && bytes <= CUT_BYTES_MAX;
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
    struct tables_block *block = take_alone(HUGE_PAGE_BYTES);
    if (!block)
        return false;
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
        struct tables_free **list = &tables->free[size_of(bytes, &rounded)];
        table = *list ? *list : cut(tables, rounded);
        if (*list)
            *list = (*list)->next;
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
    struct tables_free **list = &tables->free[size_of(bytes, &rounded)], *given = table;
    given->next = *list;
    *list = given;
}

void tables_close(struct tables *tables)
{
    assert(tables->live == 0);
    for (struct tables_block *block = tables->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    *tables = (struct tables){0};
}
