/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers that stay alive and write into their lanes what would keep the engine waiting: it goes by its own clock and
 * by what it saw itself, so each is found, and the run ends with everything else right.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/hostile/forge.h"
#include "tests/hostile/play.h"

enum { ROWS = 60, TIMEOUT_MS = 250 };

static const struct {
    const char *name;
    enum sheaf_class class_id; /* NONE: it did what was asked before it stayed */
} wanted[FORGE_COUNT] = {
    [FORGE_FREE] = {"free", SHEAF_CLASS_CONTRACT},      [FORGE_CLAIMED] = {"claimed", SHEAF_CLASS_CONTRACT},
    [FORGE_BLOCKED] = {"blocked", SHEAF_CLASS_TIMEOUT}, [FORGE_FUTURE] = {"future", SHEAF_CLASS_TIMEOUT},
    [FORGE_ANSWER] = {"answer", SHEAF_CLASS_NONE},      [FORGE_CROWD] = {"crowd", SHEAF_CLASS_CRASHED},
};

static void forge_with(const enum forgery *forgeries, uint32_t count, struct play what)
{
    int64_t inputs[ROWS];
    struct root_end ends[ROWS];
    for (uint32_t i = 0; i < ROWS; i++)
        inputs[i] = act_input(ACT_GOOD, i);
    for (uint32_t i = 0; i < count; i++)
        inputs[7 + 10 * i] = act_input(ACT_FORGE, forgeries[i]);
    memset(ends, 0xee, sizeof ends);
    what.row_timeout_ms = TIMEOUT_MS;
    struct play_end end = play(&what, inputs, ROWS, ends);
    print_message("%u workers: %llu deaths, %llu ms\n", what.workers, (unsigned long long)end.deaths,
                  (unsigned long long)end.elapsed_ms);
    assert_false(end.fatal);
    assert_true(end.deaths >= count); /* each was found, not waited for until it had no effect */
    for (uint32_t i = 0; i < ROWS; i++) {
        uint32_t n = (uint32_t)(inputs[i] % ACT_STRIDE);
        enum sheaf_class class_id = inputs[i] < ACT_STRIDE ? SHEAF_CLASS_NONE : wanted[n].class_id;
        if (ends[i].class_id != class_id || (class_id == SHEAF_CLASS_NONE && ends[i].value != good_answer(n)))
            fail_msg("root %u, %s: value %lld, class %s and not %s: %s", i,
                     inputs[i] < ACT_STRIDE ? "good" : wanted[n].name, (long long)ends[i].value,
                     sheaf_class_name(ends[i].class_id), sheaf_class_name(class_id), ends[i].message);
    }
}

/* Everybody forges at once. */
static void test_many(void **unused)
{
    static const enum forgery all[] = {FORGE_FREE,   FORGE_CLAIMED, FORGE_BLOCKED,
                                       FORGE_FUTURE, FORGE_ANSWER,  FORGE_CROWD};
    forge_with(all, FORGE_COUNT, (struct play){.workers = 6});
}

/* Nobody else could go on. */
static void test_alone(void **unused)
{
    static const enum forgery one[] = {FORGE_FREE, FORGE_BLOCKED, FORGE_ANSWER};
    for (uint32_t i = 0; i < sizeof one / sizeof one[0]; i++)
        forge_with(&one[i], 1, (struct play){.workers = 1});
}

/* A row that is left of a batch may be innocent, and is tried by itself; how many ran is for the engine to say. */
static void test_claims_a_larger_batch(void **unused)
{
    static const enum forgery crowd = FORGE_CROWD;
    forge_with(&crowd, 1, (struct play){.operator_name = "hostile.batch", .batch_rows = 16, .workers = 1});
}

/* What it keeps open it never gives up: memory of roots that are long done would be waited for. */
static void test_keeps_what_it_has_open(void **unused)
{
    int64_t inputs[ROWS];
    struct root_end ends[ROWS];
    struct play keeper = {.operator_name = "hostile.keeper", .row_timeout_ms = TIMEOUT_MS, .workers = 1, .window = 4};
    mix(inputs, ROWS, ACT_GOOD, 0, 1);
    inputs[3] = act_input(ACT_HANG_IN_EVICT, 3);
    struct play_end end = play(&keeper, inputs, ROWS, ends);
    print_message("evict: %llu deaths, %llu ms\n", (unsigned long long)end.deaths, (unsigned long long)end.elapsed_ms);
    assert_false(end.fatal);
    assert_true(end.deaths > 0);
    for (uint32_t i = 0; i < ROWS; i++)
        assert_int_equal(ends[i].value, good_answer(i));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_many), cmocka_unit_test(test_alone),
                                       cmocka_unit_test(test_claims_a_larger_batch),
                                       cmocka_unit_test(test_keeps_what_it_has_open)};
    cmocka_set_test_filter(getenv("SHEAF_TEST_ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
