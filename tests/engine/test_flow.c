/* SPDX-License-Identifier: Apache-2.0 */
/* What flows through a run: nothing, too much, deep trees, wide calls, large gathers, streams, state, several shards.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/engine/bed.h"

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

#define SOURCE "sources: {s: i64}\n"

static void test_no_roots(void **state)
{
    struct bed *bed = *state;
    bed_open(bed, SOURCE "outputs: [y]\nsteps:\n- {call: n, op: neg, in: s, out: y}\n");
    assert_int_equal(bed_poll(bed).kind, SHEAF_EVENT_NONE);
    bed_drive(bed, NULL, 0, NULL, NULL);
    bed_close(bed);
    assert_int_equal(bed_number(bed, NULL, "inputs"), 0);
    assert_int_equal(bed_number(bed, "n", "started"), 0);
    /* Not even closed. */
    bed_open(bed, SOURCE "outputs: [y]\nsteps:\n- {call: n, op: neg, in: s, out: y}\n");
    bed_close(bed);
}

static void test_back_pressure(void **state)
{
    struct bed *bed = *state;
    int64_t number = 1;
    bed->window = 4;
    bed_open(bed, SOURCE "outputs: [y]\nsteps:\n- {call: n, op: neg, in: s, out: y}\n");
    for (int i = 0; i < 4; i++)
        assert_int_equal(bed_submit(bed, &number, 1), 0);
    assert_int_equal(bed_submit(bed, &number, 1), -EAGAIN);
    struct sheaf_event event = bed_next(bed);
    assert_int_equal(event.kind, SHEAF_EVENT_ROOT);
    assert_int_equal(bed_submit(bed, &number, 1), -EAGAIN); /* a result that is not acknowledged takes its place */
    sheaf_result_acknowledge(event.result);
    bool space = false;
    for (int roots = 1; roots < 4 || !space;) {
        event = bed_next(bed);
        space |= event.kind == SHEAF_EVENT_SPACE;
        if (event.kind != SHEAF_EVENT_ROOT)
            continue;
        roots++;
        sheaf_result_acknowledge(event.result);
    }
    bed_drive(bed, &number, 1, NULL, NULL);
    bed_close(bed);
    assert_int_equal(bed_number(bed, NULL, "ok"), 5);
}

static void test_cancel(void **state)
{
    struct bed *bed = *state;
    uint64_t failed = 0, cancelled = 0;
    bed_listen(bed, "at the gate: ");
    bed_open(bed, SOURCE "outputs: [y]\nsteps:\n- {call: g, op: gate, in: s, out: y, with: {at: [7]}}\n");
    for (int64_t number = 0; number < 20; number++)
        assert_int_equal(bed_submit(bed, &number, 1), 0);
    bed_await(bed, "at the gate: ", 1, NULL, 0);
    sheaf_run_cancel(bed->run);
    for (struct sheaf_event event; (event = bed_next(bed)).kind != SHEAF_EVENT_END;) {
        struct sheaf_result_info info = {.size = sizeof info};
        assert_int_equal(event.kind, SHEAF_EVENT_ROOT);
        sheaf_result_info(event.result, &info);
        failed += info.status == SHEAF_ROOT_FAILED;
        cancelled += info.class_id == SHEAF_CLASS_CANCELLED;
        if (info.tag == 7)
            assert_int_equal(info.class_id, SHEAF_CLASS_CANCELLED);
        sheaf_result_acknowledge(event.result);
    }
    assert_true(cancelled >= 1 && failed == cancelled);
    bed_close(bed); /* with a worker that never ends by itself */
}

/* ---- shapes ---- */

enum { LEVELS = 9 };

static uint64_t count_leaves(struct sheaf_list *list, uint32_t depth)
{
    struct sheaf_value element;
    uint64_t leaves = 0, count = 0;
    while (sheaf_list_next(list, &element) > 0) {
        leaves += depth == 1 ? 1 : count_leaves(element.list, depth - 1);
        if (depth == 1)
            assert_int_equal(element.i64, -2);
        count++;
    }
    assert_int_equal(count, 2);
    return leaves;
}

static void take_nested(void *cookie, const struct sheaf_result *result, const struct sheaf_result_info *info)
{
    struct sheaf_item nested = bed_item(result, 0, 0), leaf = bed_item(result, 1, (1u << LEVELS) - 1);
    assert_int_equal(info->status, SHEAF_ROOT_OK);
    assert_int_equal(SHEAF_KIND_DEPTH(nested.value.kind), LEVELS);
    assert_int_equal(count_leaves(nested.value.list, LEVELS), 1u << LEVELS);
    assert_int_equal(leaf.depth, LEVELS + 1);
    for (uint32_t level = 1; level <= LEVELS; level++)
        assert_int_equal(leaf.coordinate[level], 1);
    ++*(int *)cookie;
}

/* More levels than a row's descriptor holds, there and back again. */
static void test_deep_nesting(void **state)
{
    struct bed *bed = *state;
    char program[8192], above[8] = "s";
    size_t at = (size_t)snprintf(program, sizeof program, SOURCE "outputs: [g1, y]\nsteps:\n");
    for (int level = 1; level <= LEVELS; level++) {
        at += (size_t)snprintf(program + at, sizeof program - at,
                               "- {call: k%d, op: const, in: %s, out: t%d, with: {value: 2}, pool: p}\n"
                               "- {call: r%d, op: range, in: t%d, out: e%d, pool: p}\n- {expand: e%d, as: x%d}\n",
                               level, above, level, level, level, level, level, level);
        snprintf(above, sizeof above, "x%d", level);
    }
    at += (size_t)snprintf(program + at, sizeof program - at,
                           "- {call: l, op: const, in: x%d, out: t, with: {value: 2}}\n"
                           "- {call: n, op: neg, in: t, out: y}\n- {gather: y, as: g%d}\n",
                           LEVELS, LEVELS);
    for (int level = LEVELS - 1; level >= 1; level--)
        at += (size_t)snprintf(program + at, sizeof program - at, "- {gather: g%d, as: g%d}\n", level + 1, level);
    int taken = 0;
    bed_open(bed, program);
    const int64_t numbers[] = {1, 2, 3};
    bed_drive(bed, numbers, 3, take_nested, &taken);
    assert_int_equal(taken, 3);
}

/* More inputs than a row's descriptor holds. */
static void test_many_inputs(void **state)
{
    struct bed *bed = *state;
    const int64_t numbers[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    bed_open(bed, "sources: {a: i64, b: i64, c: i64, d: i64, e: i64, f: i64, g: i64, h: i64, i: i64, j: i64, k: i64, "
                  "l: i64}\noutputs: [y]\nsteps:\n"
                  "- {call: z, op: sum12, in: [a, b, c, d, e, f, g, h, i, j, k, l], out: y}\n");
    assert_int_equal(bed_submit(bed, numbers, 12), 0);
    struct sheaf_event event = bed_next(bed);
    assert_int_equal(event.kind, SHEAF_EVENT_ROOT);
    assert_int_equal(bed_item(event.result, 0, 0).value.i64, 650);
    sheaf_result_acknowledge(event.result);
}

static void take_large(void *cookie, const struct sheaf_result *result, const struct sheaf_result_info *info)
{
    assert_int_equal(info->status, SHEAF_ROOT_OK);
    assert_int_equal(info->child_count, 100000);
    assert_int_equal(bed_item(result, 0, 0).value.i64, INT64_C(100000) * 99999 / 2);
    struct sheaf_item list = bed_item(result, 1, 0);
    struct sheaf_value element;
    int64_t count = 0;
    while (sheaf_list_next(list.value.list, &element) > 0) {
        assert_int_equal(element.i64, count);
        assert_int_equal(sheaf_list_ordinal(list.value.list), (uint64_t)count);
        count++;
    }
    assert_int_equal(count, 100000);
    ++*(int *)cookie;
}

static void test_large_gather(void **state)
{
    struct bed *bed = *state;
    const int64_t number = 100000;
    int taken = 0;
    bed_open(bed, SOURCE "outputs: [y, l]\nsteps:\n- {call: r, op: range, in: s, out: g}\n- {expand: g, as: c}\n"
                         "- {gather: c, as: l}\n- {call: u, op: sum, in: l, out: y}\n");
    bed_drive(bed, &number, 1, take_large, &taken);
    assert_int_equal(taken, 1);
}

/* The first child of a stream is worked on while its operator still waits for something else. */
static void test_stream_is_visible_early(void **state)
{
    struct bed *bed = *state;
    char folder[] = "/tmp/sheaf_engine_XXXXXX", fifo[64], program[512];
    assert_non_null(mkdtemp(folder));
    snprintf(fifo, sizeof fifo, "%s/gate", folder);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    snprintf(program, sizeof program,
             SOURCE "outputs: [y]\nsteps:\n- {call: g, op: stream_gate, in: s, out: e, with: {fifo: %s}, replicas: 1}\n"
                    "- {expand: e, as: c}\n- {call: k, op: say, in: c, out: y}\n",
             fifo);
    bed_listen(bed, "said ");
    bed_open(bed, program);
    const int64_t number = 5;
    uint64_t started_ms = now_ms();
    for (uint64_t root = 0; root < 4; root++) {
        assert_int_equal(bed_submit(bed, &number, 1), 0);
        /* The last of a burst is known, too, though its maker says nothing more. */
        bed_await(bed, "said ", 5 * root + 3, NULL, 0);
        assert_int_equal(bed_heard(bed, "said "), 5 * root + 3);
        assert_int_equal(bed_poll(bed).kind, SHEAF_EVENT_NONE);
        int gate = open(fifo, O_WRONLY | O_CLOEXEC);
        assert_int_equal(write(gate, "x", 1), 1);
        struct sheaf_event event = bed_next(bed);
        assert_int_equal(event.kind, SHEAF_EVENT_ROOT);
        assert_int_equal(bed_item(event.result, 0, 4).value.i64, 4);
        sheaf_result_acknowledge(event.result);
        close(gate);
    }
    assert_true(now_ms() - started_ms < 2000); /* it would be 3 s if only the tick of a second told of it */
    unlink(fifo);
    rmdir(folder);
}

/* Everything that an operator keeps per parent is evicted before the parent leaves. */
static void test_state_per_parent(void **state)
{
    struct bed *bed = *state;
    int64_t numbers[100];
    for (int i = 0; i < 100; i++)
        numbers[i] = i % 9;
    bed_listen(bed, "opened");
    bed_listen(bed, "evicted");
    bed_listen(bed, "evicted what was not open");
    bed->window = 10;
    bed_open(bed, SOURCE "outputs: [y]\nsteps:\n- {call: r, op: range, in: s, out: g}\n- {expand: g, as: c}\n"
                         "- {call: k, op: keep, in: c, out: y}\n");
    bed_drive(bed, numbers, 100, NULL, NULL);
    uint64_t opened = bed_heard(bed, "opened");
    assert_in_range(opened, 88, 2 * 88); /* 12 of the roots have no child; two workers */
    bed_await(bed, "evicted", opened, NULL, 0);
    assert_int_equal(bed_heard(bed, "evicted what was not open"), 0);
}

/* ---- several of everything ---- */

#define MIXED                                                                                                          \
    SOURCE "outputs: [y, t]\nsteps:\n- {call: r, op: range, in: s, out: g, pool: a}\n- {expand: g, as: c}\n"           \
           "- {call: n, op: fail_item_if, in: c, out: d, with: {at: [5]}, pool: b}\n"                                  \
           "- {gather: d, mode: partial, as: l}\n- {call: u, op: sum, in: l, out: y, pool: a}\n"                       \
           "- {call: x, op: to_text, in: y, out: t, pool: c, replicas: 1}\n"

static void take_mixed(void *cookie, const struct sheaf_result *result, const struct sheaf_result_info *info)
{
    int64_t n = (int64_t)info->tag, sum = n * (n - 1) / 2 - (n > 5 ? 5 : 0);
    char text[32];
    int bytes = snprintf(text, sizeof text, "%lld", (long long)sum);
    struct sheaf_item item = bed_item(result, 1, 0);
    assert_int_equal(info->status, n > 5 ? SHEAF_ROOT_PARTIAL : SHEAF_ROOT_OK);
    assert_int_equal(bed_item(result, 0, 0).value.i64, sum);
    assert_int_equal(item.value.length_bytes, bytes);
    assert_memory_equal(item.value.data, text, (size_t)bytes);
    ++*(uint64_t *)cookie;
}

static void test_shards_and_pools(void **state)
{
    struct bed *bed = *state;
    int64_t numbers[300];
    uint64_t taken = 0;
    for (int i = 0; i < 300; i++)
        numbers[i] = i % 12;
    setenv("SHEAF_SHARDS", "3", 1);
    bed_open(bed, MIXED);
    unsetenv("SHEAF_SHARDS");
    bed_drive(bed, numbers, 300, take_mixed, &taken);
    bed_close(bed);
    assert_int_equal(taken, 300);
    assert_int_equal(bed_number(bed, NULL, "shards"), 3);
    assert_int_equal(bed_number(bed, NULL, "workers"), 5);
    assert_int_equal(bed_number(bed, NULL, "ok") + bed_number(bed, NULL, "partial"), 300);
    assert_int_equal(bed_number(bed, "n", "failed"), 150);
    assert_int_equal(bed_number(bed, "n", "grains"), bed_number(bed, "n", "started"));
}

/* What the compiler allows at most runs, with as many workers as there is memory for. */
static void test_limits(void **state)
{
    struct bed *bed = *state;
    int64_t numbers[100];
    uint64_t taken = 0;
    for (int i = 0; i < 100; i++)
        numbers[i] = i % 12;
    bed->workers = 1;
    bed->memory_bytes = UINT64_C(400) << 20;
    bed_listen(bed, "wishes for 4096 workers");
    bed_open(bed, SOURCE "outputs: [y, t]\nsteps:\n- {call: r, op: range, in: s, out: g, pool: a}\n"
                         "- {expand: g, as: c}\n"
                         "- {call: n, op: fail_item_if, in: c, out: d, with: {at: [5]}, pool: a, replicas: 4096}\n"
                         "- {gather: d, mode: partial, as: l}\n- {call: u, op: sum, in: l, out: v, pool: a}\n"
                         "- {call: q, op: raise_if, in: v, out: y, with: {at: []}, batch: 1048576, pool: a}\n"
                         "- {call: x, op: to_text, in: y, out: t, pool: a}\n");
    bed_drive(bed, numbers, 100, take_mixed, &taken);
    bed_close(bed);
    assert_int_equal(taken, 100);
    assert_int_equal(bed_heard(bed, "wishes for 4096 workers"), 1);
    assert_in_range(bed_number(bed, NULL, "workers"), 1, 5);
}

/* A program without a Call needs no worker. */
static void test_no_calls(void **state)
{
    struct bed *bed = *state;
    bed_open(bed, "sources: {s: i64}\noutputs: [s]\nsteps: []\n");
    const int64_t number = 41;
    assert_int_equal(bed_workers(NULL, 0), 0);
    assert_int_equal(bed_submit(bed, &number, 1), 0);
    struct sheaf_event event = bed_next(bed);
    assert_int_equal(event.kind, SHEAF_EVENT_ROOT);
    assert_int_equal(bed_item(event.result, 0, 0).value.i64, 41);
    sheaf_result_acknowledge(event.result);
}

/* A Call that never runs opens no Domain. */
static void test_dead_branch(void **state)
{
    struct bed *bed = *state;
    bed_open(bed, SOURCE "outputs: [y]\nsteps:\n- {call: r, op: range, in: s, out: g}\n- {expand: g, as: c}\n"
                         "- {call: d, op: range, in: s, out: h}\n- {expand: h, as: e}\n"
                         "- {call: n, op: neg, in: e, out: z}\n- {gather: c, as: l}\n"
                         "- {call: u, op: len, in: l, out: y}\n");
    const int64_t number = 3;
    assert_int_equal(bed_submit(bed, &number, 1), 0);
    struct sheaf_event event = bed_next(bed);
    struct sheaf_result_info info = {.size = sizeof info};
    assert_int_equal(event.kind, SHEAF_EVENT_ROOT);
    sheaf_result_info(event.result, &info);
    assert_int_equal(info.child_count, 3);
    sheaf_result_acknowledge(event.result);
}

/* A group that nobody expands is the list of its children, emitted or answered whole; an empty one is a list too. */
static void test_unexpanded_groups(void **state)
{
    struct bed *bed = *state;
    bed_open(bed, SOURCE "outputs: [a, b, h]\nsteps:\n- {call: r, op: range, in: s, out: a}\n"
                         "- {call: t, op: range, in: s, out: b, with: {stream: true}}\n"
                         "- {call: p, op: pair_expand, in: s, out: [g, h]}\n- {expand: g, as: c}\n"
                         "- {gather: c, as: l}\n");
    for (int64_t number = 0; number < 4; number++) {
        assert_int_equal(bed_submit(bed, &number, 1), 0);
        struct sheaf_event event = bed_next(bed);
        assert_int_equal(event.kind, SHEAF_EVENT_ROOT);
        for (size_t output = 0; output < 3; output++) {
            struct sheaf_item item = bed_item(event.result, output, 0);
            struct sheaf_value element;
            assert_int_equal(item.outcome, SHEAF_PRESENT);
            assert_int_equal(item.value.length_bytes, number);
            for (int64_t i = 0; i < number; i++) {
                assert_int_equal(sheaf_list_next(item.value.list, &element), 1);
                assert_int_equal(element.i64, output == 2 ? i * i : i);
            }
            assert_int_equal(sheaf_list_next(item.value.list, &element), 0);
        }
        sheaf_result_acknowledge(event.result);
    }
}

/* Large values are read where the worker wrote them, until the result is acknowledged. */
static void test_results_in_place(void **state)
{
    struct bed *bed = *state;
    struct sheaf_result *results[10];
    bed->window = 10;
    bed_open(bed, SOURCE "outputs: [y]\nsteps:\n- {call: b, op: blob, in: s, out: y}\n");
    for (int round = 0; round < 5; round++) {
        for (int64_t i = 0; i < 10; i++) {
            int64_t bytes = (i + 1) * 100003;
            assert_int_equal(bed_submit(bed, &bytes, 1), 0);
        }
        for (int i = 0; i < 10;) {
            struct sheaf_event event = bed_next(bed);
            if (event.kind == SHEAF_EVENT_ROOT)
                results[i++] = event.result;
        }
        for (int i = 0; i < 10; i++) { /* all of them are there at once */
            struct sheaf_item item = bed_item(results[i], 0, 0);
            const char *text = item.value.data;
            uint64_t bytes = item.value.length_bytes;
            assert_true(bytes >= 100003);
            assert_true(text[0] == 'a' + (int)(bytes % 26) && memcmp(text, text + 1, bytes - 1) == 0);
        }
        for (int i = 0; i < 10; i++)
            sheaf_result_acknowledge(results[i]);
    }
}

static uint64_t resident_pages(void)
{
    unsigned long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu %lu", &size, &resident), 2);
    fclose(file);
    return resident;
}

/* Run after run in one process: neither descriptors (bed_teardown counts them) nor memory grow. */
static void test_many_runs(void **state)
{
    struct bed *bed = *state;
    const int64_t numbers[] = {3, 6, 9};
    uint64_t taken = 0, settled = 0;
    bed->workers = 1;
    for (int i = 0; i < 50; i++) {
        bed_open(bed, MIXED);
        bed_drive(bed, numbers, 3, take_mixed, &taken);
        bed_close(bed);
        if (i == 9)
            settled = resident_pages();
    }
    assert_int_equal(taken, 150);
    uint64_t grown = resident_pages();
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ /* keep what is freed, and tell of what never is */
    settled += 1u << 16;
#endif
    assert_true(grown < settled + 512); /* 2 MiB in 40 runs */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, bed_setup, bed_teardown)
        TEST(test_no_roots),
        TEST(test_back_pressure),
        TEST(test_cancel),
        TEST(test_deep_nesting),
        TEST(test_many_inputs),
        TEST(test_large_gather),
        TEST(test_stream_is_visible_early),
        TEST(test_state_per_parent),
        TEST(test_shards_and_pools),
        TEST(test_limits),
        TEST(test_no_calls),
        TEST(test_dead_branch),
        TEST(test_unexpanded_groups),
        TEST(test_results_in_place),
        TEST(test_many_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
