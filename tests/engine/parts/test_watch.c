/* SPDX-License-Identifier: Apache-2.0 */
/* How often the supervisor and the shards look, for deadlines short and long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "engine/shard.h"
#include "engine/watch.h"

static void test_looks_are_a_few_times_a_deadline(void **state)
{
    (void)state;
    static const struct {
        uint32_t timeout_ms, period_ms, thorough_ms, audit_ms;
    } cases[] = {
        {20, 10, 10, 100},         {250, 62, 62, 100},        {2000, 500, 500, 500},     {20000, 1000, 1000, 1000},
        {32000, 1000, 2000, 2000}, {60000, 1000, 3000, 3000}, {64000, 1000, 4000, 4000}, {86400000, 1000, 4000, 4000},
    };
    struct plan_call call = {.name = "call"};
    struct sheaf_plan plan = {.call_count = 1, .calls = &call};
    struct sheaf_engine engine = {0};
    struct sheaf_run run = {.plan = &plan, .engine = &engine};
    unsetenv("SHEAF_AUDIT_MS");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        engine.options.row_timeout_ms = cases[i].timeout_ms;
        uint64_t period_ms = (uint64_t)watch_period_ms(&run);
        assert_int_equal(period_ms, cases[i].period_ms);
        assert_int_equal(watch_thorough_ticks(&run) * period_ms, cases[i].thorough_ms);
        assert_int_equal(audit_period_ns(&run), cases[i].audit_ms * UINT64_C(1000000));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_looks_are_a_few_times_a_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
