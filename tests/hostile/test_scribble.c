/* SPDX-License-Identifier: Apache-2.0 */
/* A worker that writes over all the shared memory it can reach. The run ends, and nothing wrong comes out of it.
 *
 * Not SCRIBBLE_SOME_WORDS: a word here and there may turn an answer that the same worker gave, and that was not yet
 * taken in, into another that checks out. Nor SCRIBBLE_STAYS: state and start of a row stand in memory that its worker
 * can spoil, and the engine may then wait for ever. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/hostile/play.h"
#include "tests/hostile/scribble.h"

enum { ROWS = 200 };

static void scribble_with(enum scribble_pattern pattern, enum scribble_end how, unsigned seed)
{
    int64_t inputs[ROWS];
    struct root_end ends[ROWS];
    for (uint32_t i = 0; i < ROWS; i++)
        inputs[i] = act_input(ACT_GOOD, i);
    inputs[100] = act_input(ACT_SCRIBBLE, SCRIBBLE(pattern, how, seed));
    memset(ends, 0xee, sizeof ends);
    struct play_end end = play(&(struct play){.row_timeout_ms = 1000}, inputs, ROWS, ends);
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

static void test_answers(void **unused)
{
    for (unsigned seed = 0; seed < 2; seed++)
        for (int pattern = 0; pattern < SCRIBBLE_SOME_WORDS; pattern++)
            scribble_with((enum scribble_pattern)pattern, SCRIBBLE_ANSWERS, seed);
}

static void test_crashes(void **unused)
{
    for (unsigned seed = 0; seed < 2; seed++)
        for (int pattern = 0; pattern < SCRIBBLE_SOME_WORDS; pattern++)
            scribble_with((enum scribble_pattern)pattern, SCRIBBLE_CRASHES, seed);
}

static void test_stays(void **unused)
{
    for (unsigned seed = 0; seed < 2; seed++)
        for (int pattern = 0; pattern < SCRIBBLE_PATTERNS; pattern++)
            scribble_with((enum scribble_pattern)pattern, SCRIBBLE_STAYS, seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_answers), cmocka_unit_test(test_crashes),
                                       cmocka_unit_test(test_stays)};
    cmocka_set_test_filter(getenv("SHEAF_TEST_ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
