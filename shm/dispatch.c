/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/dispatch.h"

#include <errno.h>
#include <string.h>

#include "shm/crash_point.h"

#define HEAD_BYTES ((uint32_t)offsetof(struct dispatch, coordinate))

/* Whole words, for those who peek; whoever relies on them reads after C1, which P2's release orders after this. The
 * loop is written out by the compiler: it would cost more than the words. */
static inline __attribute__((always_inline)) uint64_t *put_words(uint64_t *slot, const void *part, uint32_t part_bytes)
{
#pragma GCC unroll 16
    for (uint32_t at = 0; at < part_bytes; at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, (const char *)part + at, sizeof(word));
        __atomic_store_n(slot++, word, __ATOMIC_RELAXED);
    }
    return slot;
}

void dispatch_write(const struct dispatch_table *table, const struct dispatch *dispatch)
{
    assert(dispatch->grain < table->capacity && dispatch->number <= DISPATCH_NUMBER_MASK);
    uint64_t *slot = put_words((uint64_t *)&table->slots[dispatch->grain], dispatch, HEAD_BYTES);
    if ((dispatch->flags & DISPATCH_OVERFLOW) != 0) {
        put_words(slot, &dispatch->overflow, sizeof(dispatch->overflow));
    } else {
        assert(dispatch->input_count <= DISPATCH_INPUTS_INLINE && dispatch->depth <= DISPATCH_DEPTH_INLINE);
        for (uint32_t input = 0; input < dispatch->input_count; input++)
            slot = put_words(slot, &dispatch->inputs[input], sizeof(*dispatch->inputs));
        for (uint32_t level = 0; level < dispatch->depth; level++)
            slot = put_words(slot, &dispatch->coordinate[level], sizeof(*dispatch->coordinate));
    }
    SHEAF_CRASH_POINT("dispatch.written");
}

int dispatch_peek(const struct dispatch_table *table, uint32_t grain, struct dispatch_peek *ret_peek)
{
    if (grain >= table->capacity)
        return -ERANGE;
    const struct dispatch *slot = &table->slots[grain]; /* may change under us */
    *ret_peek = (struct dispatch_peek){
        .grain = __atomic_load_n(&slot->grain, __ATOMIC_RELAXED),
        .call = __atomic_load_n(&slot->call, __ATOMIC_RELAXED),
        .home = __atomic_load_n(&slot->home, __ATOMIC_RELAXED),
        .key = __atomic_load_n(&slot->key, __ATOMIC_RELAXED),
        .parent_key = __atomic_load_n(&slot->parent_key, __ATOMIC_RELAXED),
        .bytes = __atomic_load_n(&slot->bytes, __ATOMIC_RELAXED),
        .shape = __atomic_load_n(&slot->shape, __ATOMIC_RELAXED),
        .batch = __atomic_load_n(&slot->batch, __ATOMIC_RELAXED),
        .flags = __atomic_load_n(&slot->flags, __ATOMIC_RELAXED),
    };
    return 0;
}

int dispatch_glance(const struct dispatch_table *table, uint32_t grain, uint64_t number,
                    struct dispatch_glance *ret_glance)
{
    if (grain >= table->capacity)
        return -ERANGE;
    const struct dispatch *slot = &table->slots[grain]; /* may change under us, its number first */
    if (__atomic_load_n(&slot->number, __ATOMIC_RELAXED) != number)
        return -ENOENT;
    struct dispatch_glance glance = {.call = __atomic_load_n(&slot->call, __ATOMIC_ACQUIRE),
                                     .timeout_ns = __atomic_load_n(&slot->timeout_ns, __ATOMIC_ACQUIRE)};
    if (__atomic_load_n(&slot->number, __ATOMIC_RELAXED) != number) /* after them, as they were acquired */
        return -ENOENT;
    *ret_glance = glance;
    return 0;
}

void dispatch_prefetch(const struct dispatch_table *table, uint32_t grain)
{
    if (grain >= table->capacity)
        return;
    const char *slot = (const char *)&table->slots[grain];
    __builtin_prefetch(slot);
    __builtin_prefetch(slot + CACHE_LINE_BYTES);
}

int dispatch_copy(const struct dispatch_table *table, uint32_t grain, struct dispatch *ret_dispatch)
{
    if (grain >= table->capacity)
        return -ERANGE;
    const char *slot = (const char *)&table->slots[grain];
    struct dispatch copy; /* its head, which says how much there is to copy */
    memcpy(&copy, slot, HEAD_BYTES);
    bool overflows = (copy.flags & DISPATCH_OVERFLOW) != 0;
    if (copy.grain != grain || copy.number > DISPATCH_NUMBER_MASK ||
        (!overflows && (copy.input_count > DISPATCH_INPUTS_INLINE || copy.depth > DISPATCH_DEPTH_INLINE)))
        return -EBADMSG;
    memcpy(ret_dispatch, &copy, HEAD_BYTES);
    if (overflows) {
        memcpy(&ret_dispatch->overflow, slot + HEAD_BYTES, sizeof(copy.overflow));
        return 0;
    }
    const char *at = slot + HEAD_BYTES;
    for (uint32_t input = 0; input < copy.input_count; input++, at += sizeof(*copy.inputs))
        memcpy(&ret_dispatch->inputs[input], at, sizeof(*copy.inputs));
    for (uint32_t level = 0; level < copy.depth; level++, at += sizeof(*copy.coordinate))
        memcpy(&ret_dispatch->coordinate[level], at, sizeof(*copy.coordinate));
    return 0;
}
