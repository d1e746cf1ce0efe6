/* SPDX-License-Identifier: Apache-2.0 */
/* Records that are looked at soon, on their way into the cache while others are looked at. */
#include "lineage/state.h"

/* Part of its callers: a call of a function that does nothing but fetch is left out by the compiler as without effect.
 */
static inline __attribute__((always_inline)) void record_prefetch(const struct pool *pool, uint32_t number)
{
    enum { LINE_BYTES = 64, BYTES_MAX = 4 * LINE_BYTES };
    const uint8_t *record = pool_at(pool, number);
    uint32_t bytes = pool->stride < BYTES_MAX ? pool->stride : BYTES_MAX;
    for (uint32_t at = 0; at < bytes; at += LINE_BYTES)
        __builtin_prefetch(record + at, 1);
    __builtin_prefetch(record + bytes - 1, 1);
}

void lineage_prefetch(const struct lineage *l, struct grain grain)
{
    record_prefetch(l->calls[grain.call].records, grain.entity);
}

void lineage_prefetch_child(const struct lineage *l, uint32_t call, uint32_t expansion)
{
    const struct pool *pool = &l->domains[l->calls[call].expansions.numbers[expansion]].pool;
    if (pool->free != NONE)
        record_prefetch(pool, pool->free);
}
