/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile operators against the real engine: right rows fail with the right class, all others come out right. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/hostile/play.h"
#include "tests/hostile/scribble.h"

enum { ROWS = 60 };

/* ---- the sandbox ---- */

static void test_denies_what_rows_do_not_need(void **unused)
{
    int64_t inputs[64];
    struct root_end ends[64];
    assert_true(probe_count <= 64);
    for (int i = 0; i < probe_count; i++)
        inputs[i] = act_input(ACT_PROBE + i, 0);
    struct play_end end = play(&(struct play){.workers = 1}, inputs, (uint32_t)probe_count, ends);
    assert_int_equal(end.opened, 0);
    assert_int_equal(end.deaths, 0);
    for (int i = 0; i < probe_count; i++) {
        int error = (int)ends[i].value;
        if (ends[i].status != SHEAF_ROOT_OK || (error != EPERM && error != EACCES && error != ENOSYS))
            fail_msg("%s: %s", probes[i].name, error == 0 ? "it was let" : strerror(error));
    }
}

/* The probes that this user may make are let without the sandbox: so it is the sandbox that denies them. */
static void test_probes_are_real(void **unused)
{
    int64_t inputs[64];
    struct root_end ends[64];
    uint32_t count = 0, of[64];
    for (int i = 0; i < probe_count; i++)
        if (probes[i].harmless) {
            of[count] = (uint32_t)i;
            inputs[count++] = act_input(ACT_PROBE + i, 0);
        }
    setenv("SHEAF_SANDBOX", "off", 1);
    struct play_end end = play(&(struct play){.workers = 1}, inputs, count, ends);
    unsetenv("SHEAF_SANDBOX");
    assert_int_equal(end.opened, 0);
    for (uint32_t i = 0; i < count; i++)
        if (ends[i].status != SHEAF_ROOT_OK || ends[i].value != 0)
            fail_msg("%s: %s", probes[of[i]].name, strerror((int)ends[i].value));
}

static void test_lets_what_rows_need(void **unused)
{
    int64_t inputs[ROWS];
    struct root_end ends[ROWS];
    for (uint32_t i = 0; i < ROWS; i++)
        inputs[i] = act_input(i % 2 ? ACT_THREAD : ACT_USUAL, i);
    struct play_end end = play(&(struct play){.workers = 2}, inputs, ROWS, ends);
    assert_int_equal(end.deaths, 0);
    for (uint32_t i = 0; i < ROWS; i++) {
        assert_int_equal(ends[i].status, SHEAF_ROOT_OK);
        assert_int_equal(ends[i].value, good_answer(i));
    }
}

/* ---- ends ---- */

static void check_act(const struct play *what, int act, enum sheaf_class class_id)
{
    int64_t inputs[ROWS];
    struct root_end ends[ROWS];
    mix(inputs, ROWS, act, 7, 29);
    struct play_end end = play(what, inputs, ROWS, ends);
    print_message("act %d: %llu deaths, %llu ms: %s: %s\n", act, (unsigned long long)end.deaths,
                  (unsigned long long)end.elapsed_ms, sheaf_class_name(ends[7].class_id), ends[7].message);
    assert_int_equal(end.opened, 0);
    assert_false(end.fatal);
    assert_int_equal(check_ends(inputs, ends, ROWS, class_id), 2);
}

static void test_crashes(void **unused)
{
    static const int acts[] = {ACT_SEGFAULT, ACT_ABORT, ACT_EXIT, ACT_EXIT_AT_ONCE, ACT_STACK, ACT_HEAP};
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++)
        check_act(&(struct play){0}, acts[i], SHEAF_CLASS_CRASHED);
    check_act(&(struct play){.operator_name = "hostile.bytes"}, ACT_WILD_POINTER, SHEAF_CLASS_CRASHED);
}

static void test_deadlines(void **unused)
{
    static const int acts[] = {ACT_SPIN, ACT_SLEEP, ACT_FLOOD_OUTPUT, ACT_STOP};
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++)
        check_act(&(struct play){.row_timeout_ms = 500}, acts[i], SHEAF_CLASS_TIMEOUT);
}

static void test_leaks(void **unused)
{
    check_act(&(struct play){0}, ACT_LEAK, SHEAF_CLASS_OOM);
    check_act(&(struct play){0}, ACT_LEAK_SLOWLY, SHEAF_CLASS_OOM);
}

/* Who touches it is charged, not who it belongs to. */
static void test_memory_that_was_not_given(void **unused)
{
    check_act(&(struct play){.row_timeout_ms = 4000}, ACT_TOUCH_OWN, SHEAF_CLASS_OOM);
    check_act(&(struct play){.row_timeout_ms = 4000}, ACT_TOUCH_OTHERS, SHEAF_CLASS_OOM);
}

static void test_floods_the_socket(void **unused)
{
    check_act(&(struct play){.row_timeout_ms = 500}, ACT_FLOOD_SOCKET, SHEAF_CLASS_TIMEOUT);
}

static void test_broken_contracts(void **unused)
{
    static const int acts[] = {ACT_ANSWER_TWICE, ACT_ANSWER_NEVER, ACT_ANSWER_AFTER_FAILING, ACT_WRONG_KIND,
                               ACT_WRONG_COUNT};
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++)
        check_act(&(struct play){0}, acts[i], SHEAF_CLASS_CONTRACT);
    check_act(&(struct play){.operator_name = "hostile.bytes"}, ACT_WILD_LENGTH, SHEAF_CLASS_OPERATOR);
    check_act(&(struct play){0}, ACT_LONG_MESSAGE, SHEAF_CLASS_MALFORMED);
}

/* They change nothing for anybody: the row answers itself as a good one does. */
static void test_harmless_tricks(void **unused)
{
    static const int acts[] = {ACT_STALE_ROW, ACT_FORGED_ROW, ACT_CLOSE_ALL};
    for (size_t act = 0; act < sizeof acts / sizeof acts[0]; act++) {
        int64_t inputs[ROWS];
        struct root_end ends[ROWS];
        mix(inputs, ROWS, acts[act], 7, 13);
        struct play_end end = play(&(struct play){0}, inputs, ROWS, ends);
        assert_false(end.fatal);
        for (uint32_t i = 0; i < ROWS; i++)
            if (ends[i].status != SHEAF_ROOT_OK || ends[i].value != good_answer(i))
                fail_msg("act %d: root %u: value %lld, %s: %s", acts[act], i, (long long)ends[i].value,
                         sheaf_class_name(ends[i].class_id), ends[i].message);
    }
}

/* What becomes of the row itself is open: it answers with memory that it has given away. */
static void test_uses_freed_memory(void **unused)
{
    int64_t inputs[ROWS];
    struct root_end ends[ROWS];
    mix(inputs, ROWS, ACT_FREED_MEMORY, 7, 13);
    struct play_end end = play(&(struct play){.operator_name = "hostile.bytes"}, inputs, ROWS, ends);
    assert_false(end.fatal);
    for (uint32_t i = 0; i < ROWS; i++)
        if (inputs[i] < ACT_STRIDE)
            assert_int_equal(ends[i].value, good_answer(i));
}

static void test_sends_descriptors(void **unused)
{
    int64_t inputs[ROWS];
    struct root_end ends[ROWS];
    mix(inputs, ROWS, ACT_SEND_DESCRIPTORS, 0, 2);
    struct play_end end = play(&(struct play){0}, inputs, ROWS, ends);
    assert_false(end.fatal);
    for (uint32_t i = 1; i < ROWS; i += 2)
        assert_int_equal(ends[i].value, good_answer(i));
}

/* A row that kills every worker it gets. */
static void test_poison(void **unused)
{
    int64_t inputs[ROWS];
    struct root_end ends[ROWS];
    mix(inputs, ROWS, ACT_SEGFAULT, 0, ROWS);
    for (uint32_t workers = 1; workers <= 2; workers++) {
        struct play_end end = play(&(struct play){.workers = workers, .retries = 2}, inputs, ROWS, ends);
        assert_false(end.fatal);
        assert_true(end.deaths >= 3);
        assert_int_equal(check_ends(inputs, ends, ROWS, SHEAF_CLASS_CRASHED), 1);
    }
}

static void test_poisoned_batches(void **unused)
{
    int64_t inputs[ROWS];
    struct root_end ends[ROWS];
    mix(inputs, ROWS, ACT_SEGFAULT, 5, 37);
    struct play batch = {.operator_name = "hostile.batch", .batch_rows = 16};
    struct play_end end = play(&batch, inputs, ROWS, ends);
    assert_false(end.fatal);
    assert_int_equal(check_ends(inputs, ends, ROWS, SHEAF_CLASS_CRASHED), 2);
}

static void test_many_children_then_crash(void **unused)
{
    int64_t inputs[] = {act_input(ACT_GOOD, 100), act_input(ACT_SEGFAULT, 10000), act_input(ACT_GOOD, 300)};
    struct root_end ends[3];
    struct play_end end = play(&(struct play){.operator_name = "hostile.children"}, inputs, 3, ends);
    assert_false(end.fatal);
    assert_int_equal(ends[0].child_count, 100);
    assert_int_equal(ends[2].child_count, 300);
    assert_int_equal(ends[1].status, SHEAF_ROOT_FAILED);
    assert_int_equal(ends[1].class_id, SHEAF_CLASS_CRASHED);
}

static void test_dies_at_start(void **unused)
{
    static const char *const names[] = {"hostile.dies", "hostile.exits"};
    int64_t input = 0;
    struct root_end root_end;
    for (size_t i = 0; i < 2; i++) {
        struct play_end end = play(&(struct play){.operator_name = names[i]}, &input, 1, &root_end);
        print_message("%s\n", end.message);
        assert_int_equal(end.opened, SHEAF_E_ENVIRONMENT);
        assert_non_null(strstr(end.message, i == 0 ? "signal 11" : "status 7"));
        assert_null(strchr(end.message, '\n'));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_denies_what_rows_do_not_need),
        cmocka_unit_test(test_probes_are_real),
        cmocka_unit_test(test_lets_what_rows_need),
        cmocka_unit_test(test_crashes),
        cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_leaks),
        cmocka_unit_test(test_memory_that_was_not_given),
        cmocka_unit_test(test_floods_the_socket),
        cmocka_unit_test(test_broken_contracts),
        cmocka_unit_test(test_harmless_tricks),
        cmocka_unit_test(test_uses_freed_memory),
        cmocka_unit_test(test_sends_descriptors),
        cmocka_unit_test(test_poison),
        cmocka_unit_test(test_poisoned_batches),
        cmocka_unit_test(test_many_children_then_crash),
        cmocka_unit_test(test_dies_at_start),
    };
    cmocka_set_test_filter(getenv("SHEAF_TEST_ONLY"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
