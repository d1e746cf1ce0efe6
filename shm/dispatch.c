/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/dispatch.h"

#include <errno.h>
#include <string.h>

#include "shm/crash_point.h"

void dispatch_write(const struct dispatch_table *table, const struct dispatch *dispatch)
{
    assert(dispatch->grain < table->capacity && dispatch->number <= DISPATCH_NUMBER_MASK);
    /* Whole words, for those who peek; whoever relies on them reads after C1, which P2's release orders after this. */
    uint64_t words[sizeof(*dispatch) / sizeof(uint64_t)];
    uint32_t count = dispatch_bytes(dispatch->flags, dispatch->input_count) / sizeof(uint64_t);
    memcpy(words, dispatch, count * sizeof(uint64_t));
    uint64_t *slot = (uint64_t *)&table->slots[dispatch->grain];
    for (uint32_t i = 0; i < count; i++)
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

int dispatch_copy(const struct dispatch_table *table, uint32_t grain, struct dispatch *ret_dispatch)
{
    if (grain >= table->capacity)
        return -ERANGE;
    const struct dispatch *slot = &table->slots[grain];
    struct dispatch copy; /* its head, as far as it says how much there is to copy */
    memcpy(&copy, slot, offsetof(struct dispatch, timeout_ns));
    if (copy.grain != grain || copy.number > DISPATCH_NUMBER_MASK)
        return -EBADMSG;
    uint32_t bytes = dispatch_bytes(copy.flags, copy.input_count);
    memcpy(ret_dispatch, &copy, offsetof(struct dispatch, timeout_ns));
    memcpy(&ret_dispatch->timeout_ns, &slot->timeout_ns, bytes - offsetof(struct dispatch, timeout_ns));
    return 0;
}
