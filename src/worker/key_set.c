/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/key_set.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static uint32_t home_of(const struct key_set *set, uint64_t key)
{
    uint64_t mixed = key * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(mixed >> 32) & (set->capacity - 1);
}

/* Where the key stands or would stand. */
static uint32_t find(const struct key_set *set, uint64_t key)
{
    uint32_t at = home_of(set, key);
    while (set->slots[at] != 0 && set->slots[at] != key)
        at = (at + 1) & (set->capacity - 1);
    return at;
}

static int grow(struct key_set *set)
{
    struct key_set bigger = {NULL, set->capacity > 0 ? 2 * set->capacity : 16, set->count};
    bigger.slots = calloc(bigger.capacity, sizeof *bigger.slots);
    if (bigger.slots == NULL)
        return -ENOMEM;
    for (uint32_t at = 0; at < set->capacity; at++)
        if (set->slots[at] != 0)
            bigger.slots[find(&bigger, set->slots[at])] = set->slots[at];
    free(set->slots);
    *set = bigger;
    return 0;
}

int key_set_add(struct key_set *set, uint64_t key)
{
    assert(key != 0);
    if (2 * (set->count + 1) > set->capacity) {
        int status = grow(set);
        if (status < 0)
            return status;
    }
    uint32_t at = find(set, key);
    set->count += set->slots[at] == 0;
    set->slots[at] = key;
    return 0;
}

bool key_set_remove(struct key_set *set, uint64_t key)
{
    if (set->count == 0 || key == 0)
        return false;
    uint32_t hole = find(set, key);
    if (set->slots[hole] == 0)
        return false;
    set->count--;
    /* Close the hole: pull back what would no longer be found. */
    uint32_t mask = set->capacity - 1;
    for (uint32_t at = (hole + 1) & mask; set->slots[at] != 0; at = (at + 1) & mask) {
        uint32_t home = home_of(set, set->slots[at]);
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            set->slots[hole] = set->slots[at];
            hole = at;
        }
    }
    set->slots[hole] = 0;
    return true;
}

bool key_set_has(const struct key_set *set, uint64_t key)
{
    return set->count > 0 && key != 0 && set->slots[find(set, key)] == key;
}

void key_set_done(struct key_set *set)
{
    free(set->slots);
    *set = (struct key_set){0};
}
