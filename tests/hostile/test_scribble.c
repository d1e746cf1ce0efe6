/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker that writes over all the shared memory it can reach. The run ends, and nothing wrong comes out of it: values
 * that travel in records need nothing for that, those in payload memory --integrity.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/hostile/play.h"
#include "tests/hostile/scribble.h"

enum { ROWS = 200 };

static void scribble_with(struct play what, enum scribble_pattern pattern, enum scribble_end how, unsigned seed)
{
    int64_t inputs[ROWS];
    struct root_end ends[ROWS];
    for (uint32_t i = 0; i < ROWS; i++)
        inputs[i] = act_input(ACT_GOOD, i);
    inputs[100] = act_input(ACT_SCRIBBLE, SCRIBBLE(pattern, how, seed));
    memset(ends, 0xee, sizeof ends);
    what.row_timeout_ms = 1000;
    struct play_end end = play(&what, inputs, ROWS, ends);
    print_message("pattern %d end %d seed %u: %llu deaths, %llu ms, %s%s; scribbler: %s %s\n", (int)pattern, (int)how,
                  seed, (unsigned long long)end.deaths, (unsigned long long)end.elapsed_ms, end.fatal ? "FATAL " : "",
                  end.message, sheaf_class_name(ends[100].class_id), ends[100].message);
    assert_false(end.fatal);
    for (uint32_t i = 0; i < ROWS; i++) {
        if (i == 100)
            continue;
        if (ends[i].status != SHEAF_ROOT_OK || ends[i].value != good_answer(i))
            fail_msg("root %u: status %d, value %lld, %s: %s", i, (int)ends[i].status, (long long)ends[i].value,
                     sheaf_class_name(ends[i].class_id), ends[i].message);
    }
}

static void scribble_in_all_ways(struct play what, enum scribble_end how)
{
    for (unsigned seed = 0; seed < 2; seed++)
        for (int pattern = 0; pattern < SCRIBBLE_PATTERNS; pattern++)
            scribble_with(what, (enum scribble_pattern)pattern, how, seed);
}

static void test_answers(void **unused)
{
    scribble_in_all_ways((struct play){.integrity = SHEAF_INTEGRITY_OFF}, SCRIBBLE_ANSWERS);
}

static void test_crashes(void **unused)
{
    scribble_in_all_ways((struct play){.integrity = SHEAF_INTEGRITY_OFF}, SCRIBBLE_CRASHES);
}

static void test_stays(void **unused)
{
    scribble_in_all_ways((struct play){.integrity = SHEAF_INTEGRITY_OFF}, SCRIBBLE_STAYS);
}

/* What a worker leaves when it crashes is looked at before anybody reads it. One worker, or another might read in
 * between, which only `always` would tell. */
static void test_values_of_the_dead(void **unused)
{
    scribble_in_all_ways(
        (struct play){.operator_name = "hostile.carry", .integrity = SHEAF_INTEGRITY_CRASH, .workers = 1},
        SCRIBBLE_CRASHES);
}

/* Values that others are still to read, and results that the host is still to read: with `always` every one of them
 * comes out right, however little of it was hit. */
static void test_values_of_others(void **unused)
{
    for (int how = SCRIBBLE_ANSWERS; how < SCRIBBLE_ENDS; how++)
        scribble_in_all_ways((struct play){.operator_name = "hostile.carry", .integrity = SHEAF_INTEGRITY_ALWAYS},
                             (enum scribble_end)how);
}

static void test_results(void **unused)
{
    for (int how = SCRIBBLE_ANSWERS; how < SCRIBBLE_ENDS; how++)
        scribble_in_all_ways((struct play){.operator_name = "hostile.bytes", .integrity = SHEAF_INTEGRITY_ALWAYS},
                             (enum scribble_end)how);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_crashes),
        cmocka_unit_test(test_stays),
        cmocka_unit_test(test_values_of_others),
        cmocka_unit_test(test_values_of_the_dead),
        cmocka_unit_test(test_results),
    };
    cmocka_set_test_filter(getenv("SHEAF_TEST_ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
