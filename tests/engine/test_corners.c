/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run ends, whatever a worker process does and wherever it gets stuck: before it is ready, before its first row,
 * between rows, while it ends. What is waited for is waited for within a bound, and the reason is said.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/engine/bed.h"

#define ONE "sources: {s: i64}\noutputs: [y]\nsteps:\n"
#define BLOB ONE "- {call: b, op: blob, in: s, out: y, timeout_ms: 100}\n"

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Workers that are stuck in that corner. */
static void stick(struct bed *bed, const char *corner)
{
    setenv("SHEAF_TEST_CORNER", corner, 1);
    bed->worker_path = getenv("SHEAF_CORNER_WORKER");
}

static void unstick(void)
{
    unsetenv("SHEAF_TEST_CORNER");
}

/* ---- before it is ready ---- */

static void test_before_it_is_ready(void **state)
{
    struct bed *bed = *state;
    static const struct {
        const char *corner, *said;
    } corners[] = {
        {"stopped at once", "was stopped"},
        {"nonsense at once", "nonsense on its socket"},
        {"closed at once", "it was not ready"},
        {"a child, then the end", "exited with status 0"},
    };
    bed->start_timeout_ms = 1000;
    for (uint32_t workers = 1; workers <= 3; workers += 2) {
        for (size_t i = 0; i < sizeof corners / sizeof corners[0]; i++) {
            struct sheaf_error error = SHEAF_ERROR_INIT;
            bed->workers = workers;
            stick(bed, corners[i].corner);
            assert_int_equal(bed_try_open(bed, BLOB, &error), SHEAF_E_ENVIRONMENT);
            if (!strstr(error.message, corners[i].said))
                fail_msg("%s: \"%s\" does not say \"%s\"", corners[i].corner, error.message, corners[i].said);
        }
    }
    unstick();
}

/* ---- ready, and nothing comes of it ---- */

static void test_before_its_first_row(void **state)
{
    struct bed *bed = *state;
    static const char *const corners[] = {"ready, then stopped", "ready, then nonsense", "ready, then nothing",
                                          "ready, then the end", "ready, then closed"};
    int64_t number = 1;
    for (size_t i = 0; i < sizeof corners / sizeof corners[0]; i++) {
        bed->workers = 1 + i % 2;
        stick(bed, corners[i]);
        bed_open(bed, BLOB);
        assert_int_equal(bed_submit(bed, &number, 1), 0);
        struct sheaf_event event = bed_next(bed);
        assert_int_equal(event.kind, SHEAF_EVENT_FATAL);
        assert_non_null(strstr(event.message, "without running a row"));
        bed_close(bed);
    }
    unstick();
}

/* One that gets stuck there and has nothing to do costs nobody anything: the run ends as soon as it is closed. */
static void test_the_end_waits_for_nobody(void **state)
{
    struct bed *bed = *state;
    static const char *const corners[] = {"ready, then stopped", "ready, then nothing", "ready, then closed"};
    for (size_t i = 0; i < sizeof corners / sizeof corners[0]; i++) {
        bed->workers = 2;
        stick(bed, corners[i]);
        bed_open(bed, ONE "- {call: b, op: blob, in: s, out: y}\n");
        uint64_t from_ms = now_ms();
        sheaf_run_cancel(bed->run);
        assert_int_equal(bed_next(bed).kind, SHEAF_EVENT_END);
        bed_close(bed);
        assert_in_range(now_ms() - from_ms, 0, 8000); /* 2 s are for ending when asked */
    }
    unstick();
}

/* ---- between rows ---- */

/* Memory that one keeps who does nothing any more is waited for, at no row's cost, until it is ended. */
static void test_memory_of_one_that_does_nothing(void **state)
{
    struct bed *bed = *state;
    static const int64_t numbers[] = {36000001, 36000000, 36000000};
    uint64_t ok = 0;
    bed->workers = 2;
    bed->memory_bytes = (UINT64_C(104) + 64 * bed->workers) << 20;
    stick(bed, "");
    bed_listen(bed, "rows or orders waited and it took none");
    bed_open(bed, BLOB);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sheaf_result_info info = {.size = sizeof info};
        assert_int_equal(bed_submit(bed, &numbers[i], 1), 0);
        struct sheaf_event event = bed_next(bed);
        assert_int_equal(event.kind, SHEAF_EVENT_ROOT);
        sheaf_result_info(event.result, &info);
        if (info.status != SHEAF_ROOT_OK)
            fail_msg("root %zu: %s: %s", i, sheaf_class_name(info.class_id), info.message);
        ok++;
        sheaf_result_acknowledge(event.result);
    }
    bed_close(bed);
    assert_int_equal(ok, 3);
    assert_true(bed_heard(bed, "rows or orders waited and it took none") >= 1);
    unstick();
}

/* ---- while it ends ---- */

static void take_ok(void *cookie, const struct sheaf_result *result, const struct sheaf_result_info *info)
{
    (void)result;
    *(uint64_t *)cookie += info->status == SHEAF_ROOT_OK;
}

/* One that was to end, for it has run its rows, and hangs as it closes what it opened is replaced. */
static void test_while_it_ends(void **state)
{
    struct bed *bed = *state;
    static const char *const hows[] = {"hang", "spin", "atexit", "stop"};
    int64_t numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    char program[256];
    bed->workers = 2;
    bed->worker_rows = 2;
    bed_listen(bed, "did not end");
    bed_listen(bed, "was stopped");
    for (size_t i = 0; i < sizeof hows / sizeof hows[0]; i++) {
        const char *said = strcmp(hows[i], "stop") == 0 ? "was stopped" : "did not end";
        uint64_t ok = 0, before = bed_heard(bed, said);
        snprintf(program, sizeof program,
                 ONE "- {call: l, op: linger, in: s, out: y, timeout_ms: 300, with: {how: %s}}\n", hows[i]);
        bed_open(bed, program);
        for (uint32_t at = 0; at < 2; at++)
            assert_int_equal(bed_submit(bed, &numbers[at], 1), 0);
        for (uint32_t at = 0; at < 2; at++)
            sheaf_result_acknowledge(bed_next(bed).result);
        bed_drive(bed, &numbers[2], 6, take_ok, &ok);
        bed_await(bed, said, before + 1, NULL, 0); /* and not only when rows wait for it */
        bed_close(bed);
        assert_int_equal(ok, 6);
    }
}

/* ---- when not even SIGKILL helps ---- */

/* Holds the process where it exits, as a disk or a driver might: it cannot be killed. */
static pid_t trace(pid_t worker, long options)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t tracer = fork();
    if (tracer == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        bool traced = ptrace(PTRACE_SEIZE, worker, NULL, options) == 0;
        (void)!write(ready[1], traced ? "y" : "n", 1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    if (byte == 'y')
        return tracer;
    kill(tracer, SIGKILL);
    waitpid(tracer, NULL, 0);
    return 0;
}

static void let_go(pid_t tracer)
{
    int status;
    kill(tracer, SIGKILL);
    waitpid(tracer, &status, 0);
}

static void test_one_that_cannot_be_killed(void **state)
{
    struct bed *bed = *state;
    int64_t number = 1;
    pid_t worker = 0, tracer = 0;
    setenv("SHEAF_DEATH_MS", "1000", 1);
    bed->workers = 1;
    bed_listen(bed, "is left behind");
    bed_open(bed, ONE "- {call: g, op: gate, in: s, out: y, timeout_ms: 300, with: {at: [1]}}\n");
    assert_int_equal(bed_workers(&worker, 1), 1);
    if (worker > 0 && (tracer = trace(worker, PTRACE_O_TRACEEXIT)) != 0) {
        assert_int_equal(bed_submit(bed, &number, 1), 0);
        struct sheaf_event event = bed_next(bed);
        assert_int_equal(event.kind, SHEAF_EVENT_FATAL);
        assert_non_null(strstr(event.message, "stuck in the system"));
        uint64_t from_ms = now_ms();
        sheaf_run_close(bed->run);
        assert_in_range(now_ms() - from_ms, 0, 12000);
        assert_int_equal(bed_heard(bed, "is left behind"), 1);
        let_go(tracer);
        waitpid(worker, NULL, __WALL);
        sheaf_engine_destroy(bed->engine);
        sheaf_plan_destroy(bed->plan);
        bed->run = NULL;
    }
    unsetenv("SHEAF_DEATH_MS");
    if (tracer == 0) {
        bed_close(bed);
        print_message("[  SKIPPED ] nobody may be traced here\n");
        skip();
    }
}

/* Who is dead but is not told of, for a tracer has it, is dead all the same. */
static void test_one_that_a_tracer_has(void **state)
{
    struct bed *bed = *state;
    int64_t number = 1;
    uint64_t ok = 0;
    pid_t worker = 0, tracer = 0;
    bed->workers = 1;
    bed_open(bed, ONE "- {call: g, op: gate, in: s, out: y, timeout_ms: 300, recovery: retry, retries: 1, "
                      "with: {at: [1]}}\n");
    assert_int_equal(bed_workers(&worker, 1), 1);
    if ((tracer = trace(worker, 0)) != 0) {
        bed_drive(bed, &number, 1, take_ok, &ok);
        assert_int_equal(ok, 1);
        let_go(tracer);
        waitpid(worker, NULL, __WALL);
    }
    bed_close(bed);
    if (tracer == 0)
        skip();
}

/* ---- what it leaves ---- */

/* Processes that a worker made before it was sealed end with it: none holds on to the run's memory. */
static void test_its_children_end_with_it(void **state)
{
    struct bed *bed = *state;
    struct sheaf_error error = SHEAF_ERROR_INIT;
    int status;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0); /* orphans come to us */
    bed->workers = 1;
    stick(bed, "a child, then the end");
    assert_int_equal(bed_try_open(bed, BLOB, &error), SHEAF_E_ENVIRONMENT);
    unstick();
    for (int left = 3; left > 0; left--) {
        uint64_t until_ms = now_ms() + 10000;
        pid_t pid;
        while ((pid = waitpid(-1, &status, WNOHANG)) == 0 && now_ms() < until_ms)
            usleep(10000);
        if (pid <= 0)
            fail_msg("%d children of workers are still there", left);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

int main(void)
{
    cmocka_set_test_filter(getenv("SHEAF_TEST_FILTER"));
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, bed_setup, bed_teardown)
        TEST(test_before_it_is_ready),
        TEST(test_before_its_first_row),
        TEST(test_the_end_waits_for_nobody),
        TEST(test_memory_of_one_that_does_nothing),
        TEST(test_while_it_ends),
        TEST(test_one_that_cannot_be_killed),
        TEST(test_one_that_a_tracer_has),
        TEST(test_its_children_end_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
