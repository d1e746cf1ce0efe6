/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/dispatch.h"

#include <errno.h>
#include <string.h>

#include "shm/crash_point.h"

#define HEAD_BYTES ((uint32_t)offsetof(struct dispatch, coordinate))

static uint32_t append(uint64_t *words, uint32_t at_bytes, const void *part, uint64_t part_bytes)
{
    memcpy((char *)words + at_bytes, part, part_bytes);
    return at_bytes + (uint32_t)part_bytes;
}

void dispatch_write(const struct dispatch_table *table, const struct dispatch *dispatch)
{
    assert(dispatch->grain < table->capacity && dispatch->number <= DISPATCH_NUMBER_MASK);
    /* Whole words, for those who peek; whoever relies on them reads after C1, which P2's release orders after this. */
    uint64_t words[sizeof(*dispatch) / sizeof(uint64_t)];
    uint32_t bytes = append(words, 0, dispatch, HEAD_BYTES);
    if ((dispatch->flags & DISPATCH_OVERFLOW) != 0) {
        bytes = append(words, bytes, &dispatch->overflow, sizeof(dispatch->overflow));
    } else {
        assert(dispatch->input_count <= DISPATCH_INPUTS_INLINE && dispatch->depth <= DISPATCH_DEPTH_INLINE);
        bytes = append(words, bytes, dispatch->inputs, dispatch->input_count * sizeof(*dispatch->inputs));
        bytes = append(words, bytes, dispatch->coordinate, dispatch->depth * sizeof(*dispatch->coordinate));
    }
    uint64_t *slot = (uint64_t *)&table->slots[dispatch->grain];
    for (uint32_t i = 0; i < bytes / sizeof(uint64_t); i++)
        __atomic_store_n(&slot[i], words[i], __ATOMIC_RELAXED);
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
    uint64_t inputs_bytes = copy.input_count * sizeof(*copy.inputs);
    memcpy(ret_dispatch->inputs, slot + HEAD_BYTES, inputs_bytes);
    memcpy(ret_dispatch->coordinate, slot + HEAD_BYTES + inputs_bytes, copy.depth * sizeof(*copy.coordinate));
    return 0;
}
