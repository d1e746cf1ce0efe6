/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/dispatch.h"

#include <errno.h>
#include <string.h>

#include "shm/crash_point.h"

void dispatch_write(const struct dispatch_table *table, const struct dispatch *dispatch)
{
    assert(dispatch->grain < table->capacity && dispatch->number <= DISPATCH_NUMBER_MASK);
    /* Plain stores: nobody who may rely on them reads before P2, whose release (partner: C1) orders them. */
    memcpy(&table->slots[dispatch->grain], dispatch, sizeof(*dispatch));
    SHEAF_CRASH_POINT("dispatch.written");
}

int dispatch_peek(const struct dispatch_table *table, uint32_t grain, struct dispatch_peek *ret_peek)
{
    if (grain >= table->capacity)
        return -ERANGE;
    const volatile struct dispatch *slot = &table->slots[grain]; /* may change under us: each field is read once */
    *ret_peek = (struct dispatch_peek){
        .grain = slot->grain,
        .call = slot->call,
        .home = slot->home,
        .key = slot->key,
        .parent_key = slot->parent_key,
        .bytes = slot->bytes,
    };
    return 0;
}

int dispatch_copy(const struct dispatch_table *table, uint32_t grain, struct dispatch *ret_dispatch)
{
    if (grain >= table->capacity)
        return -ERANGE;
    struct dispatch copy;
    memcpy(&copy, &table->slots[grain], sizeof(copy));
    if (copy.grain != grain || copy.number > DISPATCH_NUMBER_MASK)
        return -EBADMSG;
    *ret_dispatch = copy;
    return 0;
}
