/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/keymap.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* Fibonacci hashing: the keys are counters and small pairs, which it spreads evenly. */
static uint32_t home_of(const struct keymap *map, uint64_t key)
{
    return (uint32_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (map->capacity - 1);
}

/* The place of a key, or the empty place where it would go. */
static uint32_t place_of(const struct keymap *map, uint64_t key)
{
    uint32_t place = home_of(map, key);
    while (map->keys[place] != 0 && map->keys[place] != key + 1)
        place = (place + 1) & (map->capacity - 1);
    return place;
}

static int grow(struct keymap *map)
{
    struct keymap larger = {.capacity = map->capacity ? map->capacity * 2 : 64};
    larger.keys = calloc(larger.capacity, sizeof *larger.keys);
    larger.numbers = calloc(larger.capacity, sizeof *larger.numbers);
    if (!larger.keys || !larger.numbers) {
        keymap_fini(&larger);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < map->capacity; i++) {
        if (map->keys[i] == 0)
            continue;
        uint32_t place = place_of(&larger, map->keys[i] - 1);
        larger.keys[place] = map->keys[i];
        larger.numbers[place] = map->numbers[i];
    }
    larger.count = map->count;
    keymap_fini(map);
    *map = larger;
    return 0;
}

int keymap_set(struct keymap *map, uint64_t key, uint32_t number)
{
    assert(key != UINT64_MAX);
    if (map->count + 1 > map->capacity / 2) {
        int result = grow(map);
        if (result < 0)
            return result;
    }
    uint32_t place = place_of(map, key);
    if (map->keys[place] == 0) {
        map->keys[place] = key + 1;
        map->count++;
    }
    map->numbers[place] = number;
    return 0;
}

uint32_t keymap_get(const struct keymap *map, uint64_t key)
{
    if (map->capacity == 0)
        return KEYMAP_NONE;
    uint32_t place = place_of(map, key);
    return map->keys[place] ? map->numbers[place] : KEYMAP_NONE;
}

/* Removing shifts later entries of the same run back, so that no tombstones are needed. */
void keymap_remove(struct keymap *map, uint64_t key)
{
    if (map->capacity == 0)
        return;
    uint32_t mask = map->capacity - 1, hole = place_of(map, key);
    if (map->keys[hole] == 0)
        return;
    map->count--;
    map->keys[hole] = 0;
    for (uint32_t next = (hole + 1) & mask; map->keys[next] != 0; next = (next + 1) & mask) {
        uint32_t home = home_of(map, map->keys[next] - 1);
        if (((next - home) & mask) < ((next - hole) & mask))
            continue;
        map->keys[hole] = map->keys[next];
        map->numbers[hole] = map->numbers[next];
        map->keys[next] = 0;
        hole = next;
    }
}

void keymap_fini(struct keymap *map)
{
    free(map->keys);
    free(map->numbers);
    *map = (struct keymap){0};
}
