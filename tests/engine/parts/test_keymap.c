/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "engine/keymap.h"

enum { KEYS = 512, STEPS = 200000 };

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Against a plain array, with keys that collide: few distinct ones, set and removed all the time. */
static void test_agrees_with_an_array(void **state)
{
    (void)state;
    uint64_t seed = (uint64_t)time(NULL) | 1;
    printf("seed %llu\n", (unsigned long long)seed);
    struct keymap map = {0};
    uint32_t expected[KEYS], count = 0;
    for (uint32_t i = 0; i < KEYS; i++)
        expected[i] = KEYMAP_NONE;
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t key = (uint32_t)(next_random(&seed) % KEYS), number = (uint32_t)(next_random(&seed) % 1000);
        uint64_t wide = (uint64_t)key << 32 | key;
        if (next_random(&seed) % 2) {
            count += expected[key] == KEYMAP_NONE;
            expected[key] = number;
            assert_int_equal(keymap_set(&map, wide, number), 0);
        } else {
            count -= expected[key] != KEYMAP_NONE;
            expected[key] = KEYMAP_NONE;
            keymap_remove(&map, wide);
        }
        assert_int_equal(map.count, count);
        uint32_t other = (uint32_t)(next_random(&seed) % KEYS);
        assert_int_equal(keymap_get(&map, (uint64_t)other << 32 | other), expected[other]);
    }
    for (uint32_t key = 0; key < KEYS; key++)
        assert_int_equal(keymap_get(&map, (uint64_t)key << 32 | key), expected[key]);
    keymap_fini(&map);
}

static void test_empty(void **state)
{
    (void)state;
    struct keymap map = {0};
    assert_int_equal(keymap_get(&map, 1), KEYMAP_NONE);
    keymap_remove(&map, 1);
    keymap_fini(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_agrees_with_an_array),
        cmocka_unit_test(test_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
