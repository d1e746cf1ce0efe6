/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which roots are admitted: against a plain search for the largest, over random additions and takings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "sched/admission.h"

static uint64_t draw(uint64_t *random, uint64_t below)
{
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*random >> 33) % below;
}

enum { ROOTS = 500 };

/* Takes one and checks that it is the largest that waits, the earliest of several. */
static void take_and_check(struct admission *admission, uint64_t *sizes, const bool *waits, uint64_t count,
                           bool by_size)
{
    uint64_t root, best = UINT64_MAX;
    for (uint64_t i = 0; i < count; i++)
        if (waits[i] && (best == UINT64_MAX || (by_size && sizes[i] > sizes[best])))
            best = i;
    assert_int_equal(admission_take(admission, &root), best != UINT64_MAX);
    if (best != UINT64_MAX)
        assert_int_equal(root, best);
}

static void play(enum admission_order order, uint64_t seed)
{
    static uint64_t sizes[ROOTS];
    static bool waits[ROOTS];
    struct admission admission;
    uint64_t random = seed * UINT64_C(0x9E3779B97F4A7C15), count = 0;
    admission_open(&admission, order, &lineage_heap);
    while (count < ROOTS || admission.count > 0) {
        if (count < ROOTS && draw(&random, 3) > 0) {
            sizes[count] = draw(&random, 40);
            assert_int_equal(admission_add(&admission, count, sizes[count]), 0);
            waits[count++] = true;
            continue;
        }
        uint64_t top = admission.count ? admission.heap[0].root : 0;
        bool any = admission.count > 0;
        take_and_check(&admission, sizes, waits, count, order == ADMISSION_LARGEST_FIRST);
        if (any)
            waits[top] = false;
    }
    admission_close(&admission);
}

static void test_order(void **state)
{
    const char *given = getenv("SHEAF_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 1;
    for (uint64_t i = seed; i < seed + 20; i++) {
        play(ADMISSION_AS_SUBMITTED, i);
        play(ADMISSION_LARGEST_FIRST, i);
    }
}

static void test_how_many(void **state)
{
    struct admission admission;
    admission_open(&admission, ADMISSION_AS_SUBMITTED, &lineage_heap);
    assert_int_equal(admission_roots_max(&admission, 64, 2, true), 64);
    admission_close(&admission);
    admission_open(&admission, ADMISSION_LARGEST_FIRST, &lineage_heap);
    assert_int_equal(admission_roots_max(&admission, 64, 2, true), 2); /* larger ones may come */
    assert_int_equal(admission_roots_max(&admission, 64, 2, false), 64);
    assert_int_equal(admission_roots_max(&admission, 4, 20, true), 4);
    admission_close(&admission);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order), cmocka_unit_test(test_how_many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
