/* SPDX-License-Identifier: Apache-2.0 */
/* A worker of somebody else's, through the public worker half. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sheaf/operator.h>

#include "tests/worker/mini_shard.h"

static const struct mini_call calls[] = {
    {"double", .output_count = 1, .output_kinds = {SHEAF_I64}},
    {"slots", SHEAF_OPERATOR_BATCH, .output_count = 1, .output_kinds = {SHEAF_I64}, .slots = 4},
};

static void expect(struct mini *mini, uint32_t grain, int64_t number)
{
    struct completion record = mini_expect(mini, COMPLETION_ANSWER, grain);
    assert_int_equal(record.value_count, 1);
    assert_int_equal(record.values[0].offset, number);
}

static void test_rows(void **state)
{
    struct mini mini;
    mini_start(&mini, calls, 2, NULL);
    for (int64_t round = 0; round < 100; round++) {
        uint32_t first = mini_push(&mini, 0, BOARD_READY, mini_i64(round));
        uint32_t second = mini_push(&mini, 0, BOARD_READY, mini_i64(round + 1));
        mini_tell(&mini);
        expect(&mini, first, 2 * round);
        expect(&mini, second, 2 * round + 2);
    }
    mini_stop(&mini);
}

static void test_rows_out_of_order(void **state)
{
    struct mini mini;
    mini_start(&mini, calls, 2, NULL);
    uint32_t held = mini_push(&mini, 1, BOARD_READY, mini_i64(1000));
    mini_tell(&mini);
    for (int64_t number = 1; number < 20; number++) {
        uint32_t grain = mini_push(&mini, 1, BOARD_READY, mini_i64(number));
        mini_tell(&mini);
        expect(&mini, grain, 2 * number); /* while the first is still running */
    }
    uint32_t row = claim_page_find(&mini.lane.claims, held, 1);
    assert_int_equal(claim_page_read(&mini.lane.claims, row).state, CLAIM_RUNNING);
    uint32_t last = mini_push(&mini, 1, BOARD_READY, mini_i64(0));
    mini_tell(&mini);
    expect(&mini, held, 2000);
    expect(&mini, last, 0);
    mini_stop(&mini);
}

/* An end in the middle: what runs is finished, and nothing spins. */
static void test_stop_reaches_a_waiting_operator(void **state)
{
    struct mini mini;
    mini_start(&mini, calls, 2, NULL);
    uint32_t held = mini_push(&mini, 1, BOARD_READY, mini_i64(1000));
    mini_tell(&mini);
    while (load_relaxed_u64(&mini.lane.counters->state) != LANE_IDLE ||
           claim_page_find(&mini.lane.claims, held, 1) == CLAIM_ROW_NONE)
        cpu_pause();
    mini_order(&mini, CONTROL_STOP, 0, 0);
    mini_tell(&mini);
    expect(&mini, held, 2000);
    mini_stop(&mini);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_rows_out_of_order),
        cmocka_unit_test(test_stop_reaches_a_waiting_operator),
    };
    return cmocka_run_group_tests_name("own_worker", tests, NULL, NULL);
}
