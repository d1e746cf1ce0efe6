/* SPDX-License-Identifier: Apache-2.0 */
/* How many rows READY rings have room for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "engine/shard.h"

static uint64_t rows_for(uint32_t batch_rows, uint32_t workers)
{
    struct plan_call calls[] = {{.batch_rows = 1, .pool = 0}, {.batch_rows = batch_rows, .pool = 1}};
    uint32_t pool_count[] = {1, workers};
    struct sheaf_plan plan = {.call_count = 2, .calls = calls, .pool_count = 2};
    struct sheaf_run run = {.plan = &plan, .pool_count = pool_count};
    struct shard shard = {.run = &run, .plan = &plan};
    return shard_ready_rows(&shard);
}

static void test_there_is_a_batch_for_every_worker(void **state)
{
    (void)state;
    unsetenv("SHEAF_RING_ROWS");
    assert_int_equal(rows_for(1, 1), 1024);
    assert_int_equal(rows_for(16, 64), 1024);
    assert_int_equal(rows_for(64, 32), 2048);
    assert_int_equal(rows_for(256, 32), 8192);
    assert_int_equal(rows_for(4096, 512), 8192); /* there is an end to it */
}

static void test_tests_may_make_them_small(void **state)
{
    (void)state;
    setenv("SHEAF_RING_ROWS", "8", 1);
    assert_int_equal(rows_for(64, 32), 8);
    setenv("SHEAF_RING_ROWS", "1", 1);
    assert_int_equal(rows_for(64, 32), 2048);
    setenv("SHEAF_RING_ROWS", "2048", 1);
    assert_int_equal(rows_for(64, 16), 1024);
    unsetenv("SHEAF_RING_ROWS");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_is_a_batch_for_every_worker),
        cmocka_unit_test(test_tests_may_make_them_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
