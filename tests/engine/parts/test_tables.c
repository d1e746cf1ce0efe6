/* SPDX-License-Identifier: Apache-2.0 */
/* Tables: where they lie, that none lies in another, what is used again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "engine/tables.h"
#include "shm/atomic.h"
#include "shm/sanitizer.h"

struct held {
    uint8_t *table;
    size_t bytes;
    uint8_t mark;
};

static struct held take(struct tables *tables, size_t bytes, uint8_t mark)
{
    struct held held = {tables_take(tables, bytes), bytes, mark};
    assert_non_null(held.table);
    assert_int_equal((uintptr_t)held.table % CACHE_LINE_BYTES, 0);
    memset(held.table, mark, bytes);
    return held;
}

static void give(struct tables *tables, const struct held *held)
{
    for (size_t i = 0; i < held->bytes; i++)
        assert_int_equal(held->table[i], held->mark); /* nobody else wrote there */
    tables_give(tables, held->table, held->bytes);
}

static void small_ones_lie_close_together(void **state)
{
    struct tables tables = {0};
    struct held first = take(&tables, 1000, 1), second = take(&tables, 1, 2), third = take(&tables, 6000, 3);
    if (tables.blocks) { /* each is an allocation of its own under the address sanitizer */
        assert_true(second.table - first.table <= 1024);
        assert_true(third.table - second.table == CACHE_LINE_BYTES);
        assert_int_equal((uintptr_t)tables.blocks % HUGE_PAGE_BYTES, 0);
    }
    give(&tables, &first);
    give(&tables, &third);
    give(&tables, &second);
    tables_close(&tables);
}

static void what_is_given_back_is_used_again(void **state)
{
    struct tables tables = {0};
    uint8_t *blocks = NULL;
    for (uint32_t round = 0; round < 100; round++) {
        struct held large = take(&tables, 700000, 1), small = take(&tables, 5000 + round % 64, 2);
        blocks = round == 0 ? (uint8_t *)tables.blocks : blocks;
        assert_ptr_equal(tables.blocks, blocks); /* in one huge page for ever */
        give(&tables, &large);
        give(&tables, &small);
    }
    tables_close(&tables);
}

/* Any sizes, up to some that have pages of their own, in any order. */
static void none_lies_in_another(void **state)
{
    enum { HELD = 64, ROUNDS = 3000 };
    const char *given = getenv("SHEAF_TEST_SEED");
    unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
    print_message("seed %u\n", seed);
    struct tables tables = {0};
    struct held held[HELD] = {0};
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct held *one = &held[(unsigned)rand_r(&seed) % HELD];
        if (one->table)
            give(&tables, one);
        size_t largest = (size_t)1 << (unsigned)rand_r(&seed) % (round % 50 == 0 ? 23 : 17);
        *one = take(&tables, 1 + (size_t)rand_r(&seed) % largest, (uint8_t)round);
    }
    assert_int_equal(tables.live, HELD);
    for (uint32_t i = 0; i < HELD; i++)
        give(&tables, &held[i]);
    tables_close(&tables);
    assert_null(tables.blocks);
}

static void what_cannot_be_had_is_refused(void **state)
{
    if (BUILT_WITH_SANITIZER)
        skip(); /* their allocators end the process */
    struct tables tables = {0};
    assert_null(tables_take(&tables, SIZE_MAX - 10));
    assert_null(tables_take(&tables, SIZE_MAX / 2));
    tables_close(&tables);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_ones_lie_close_together),
        cmocka_unit_test(what_is_given_back_is_used_again),
        cmocka_unit_test(none_lies_in_another),
        cmocka_unit_test(what_cannot_be_had_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
