/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/budget.h"
#include "engine/payload.h"

#define MIB (UINT64_C(1) << 20)

static void test_parts_never_exceed_the_whole(void **state)
{
    (void)state;
    for (uint32_t workers = 1; workers <= 512; workers = workers * 2 + 1) {
        for (uint64_t bytes = budget_minimum(workers); bytes < UINT64_C(1) << 42; bytes = bytes * 3 / 2 + 12345) {
            struct budget budget = budget_divide(bytes, workers);
            uint64_t sum = budget.fixed_bytes + budget.payload_bytes + workers * budget.heap_bytes;
            assert_true(sum <= bytes);
            assert_true(sum + PAYLOAD_CHUNK_BYTES > bytes);
            assert_true(budget.source_bytes + workers * budget.value_bytes <= budget.payload_bytes);
            assert_true(budget.source_bytes + workers * (budget.value_bytes + PAYLOAD_CHUNK_BYTES) +
                            PAYLOAD_CHUNK_BYTES >
                        budget.payload_bytes);
            assert_true(budget.source_bytes >= 16 * MIB);
            assert_true(budget.heap_bytes >= 48 * MIB);
            assert_true(budget.value_bytes >= PAYLOAD_CHUNK_BYTES);
            assert_int_equal(budget.value_bytes % PAYLOAD_CHUNK_BYTES, 0);
        }
    }
}

static void test_small_budgets_mean_fewer_workers(void **state)
{
    (void)state;
    assert_int_equal(budget_workers(512 * MIB, 8), 1);
    assert_int_equal(budget_workers(1024 * MIB, 8), 2);
    assert_int_equal(budget_workers(64 * 1024 * MIB, 8), 8);
    assert_int_equal(budget_workers(1, 8), 1);
    assert_true(budget_minimum(1) < budget_minimum(2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_never_exceed_the_whole),
        cmocka_unit_test(test_small_budgets_mean_fewer_workers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
