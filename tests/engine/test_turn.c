/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows get their turn: the isolation dial, and what leaves the rings when a group fails. */
#include <stdio.h>

#include "tests/engine/bed.h"

#define GROUP                                                                                                          \
    "sources: {s: i64}\noutputs: [l]\nsteps:\n- {call: r, op: range, in: s, out: g, pool: a}\n"                        \
    "- {expand: g, as: c}\n- {call: p, op: poison, in: c, out: y, pool: b, %s}\n- {gather: y, as: l}\n"

static void open_group(struct bed *bed, const char *rest)
{
    char program[512];
    snprintf(program, sizeof program, GROUP, rest);
    bed_open(bed, program);
}

/* n = failed + kept out + skipped + run and discarded (SEMANTICS section 4). */
static void check_group(const struct bed *bed, int64_t rows)
{
    assert_int_equal(bed_number(bed, "p", "grains"), rows);
    assert_int_equal(bed_number(bed, "p", "failed"), 1);
    assert_int_equal(bed_number(bed, "p", "kept_out") + bed_number(bed, "p", "skipped") +
                         bed_number(bed, "p", "discarded"),
                     rows - 1);
}

/* The first row of a parent fails its group: no more than the dial says were under way. */
static void test_the_dial_bounds_what_a_bad_parent_costs(void **state)
{
    struct bed *bed = *state;
    const int64_t numbers[] = {300};
    static const uint32_t dials[] = {0, 1, 7};
    for (size_t i = 0; i < sizeof dials / sizeof *dials; i++) {
        int64_t most = dials[i] ? dials[i] : 20;
        bed->run_options.unproven_rows = dials[i];
        open_group(bed, "with: {at: [0]}");
        bed_drive(bed, numbers, 1, NULL, NULL);
        bed_close(bed);
        check_group(bed, 300);
        assert_in_range(bed_number(bed, "p", "started"), 1, most);
        assert_in_range(bed_number(bed, "p", "kept_out"), 300 - most, 299);
        assert_int_equal(bed_number(bed, NULL, "failed"), 1);
    }
}

/* One that succeeds proves its parent: nothing is left behind. */
static void test_the_dial_lets_everything_through(void **state)
{
    struct bed *bed = *state;
    int64_t numbers[40], rows = 0;
    for (int i = 0; i < 40; i++)
        rows += numbers[i] = i * 3;
    static const uint32_t dials[] = {1, 2, 20, UINT32_MAX};
    for (size_t i = 0; i < sizeof dials / sizeof *dials; i++) {
        bed->run_options.unproven_rows = dials[i];
        open_group(bed, "with: {at: []}");
        bed_drive(bed, numbers, 40, NULL, NULL);
        bed_close(bed);
        assert_int_equal(bed_number(bed, NULL, "ok"), 40);
        assert_int_equal(bed_number(bed, "p", "rows"), rows);
    }
}

/* One worker hangs in a row, the other fails the group: what was offered leaves the ring by the shard's hand, not when
 * a worker comes upon it, and the root is done while the first still hangs. */
static void test_suppressed_rows_leave_at_once(void **state)
{
    struct bed *bed = *state;
    const int64_t number = 400;
    bed->run_options.unproven_rows = UINT32_MAX;
    open_group(bed, "with: {at: [1, 0]}, replicas: 2");
    assert_int_equal(bed_submit(bed, &number, 1), 0);
    struct sheaf_event event = bed_next(bed);
    struct sheaf_result_info info = {.size = sizeof info};
    assert_int_equal(event.kind, SHEAF_EVENT_ROOT);
    sheaf_result_info(event.result, &info);
    assert_int_equal(info.status, SHEAF_ROOT_FAILED);
    assert_int_equal(info.class_id, SHEAF_CLASS_MALFORMED);
    sheaf_result_acknowledge(event.result);
    bed_close(bed); /* the first worker still hangs */
    check_group(bed, 400);
    assert_true(bed_number(bed, "p", "discarded") >= 1);
    assert_true(bed_number(bed, "p", "kept_out") >= 300);
    assert_int_equal(bed_number(bed, NULL, "worker_deaths"), 0);
}

/* ---- the order of roots ---- */

static void submit_bytes(struct bed *bed, uint64_t bytes)
{
    static const char text[100];
    struct sheaf_value value = {.kind = SHEAF_TEXT, .data = text, .length_bytes = bytes};
    struct sheaf_submission submission = {.size = sizeof submission, .value_count = 1, .values = &value, .tag = bytes};
    assert_int_equal(sheaf_run_submit(bed->run, &submission, NULL, NULL), 0);
}

/* One worker has one root until it is known that no larger one comes: then the largest go first. */
static void test_largest_first(void **state)
{
    struct bed *bed = *state;
    enum { ROOTS = 6 };
    static const uint64_t sizes[ROOTS] = {10, 50, 30, 90, 30, 20};
    bed->workers = 1;
    for (int largest = 0; largest < 2; largest++) {
        uint64_t order[ROOTS];
        bed->run_options.order = largest ? SHEAF_ORDER_LARGEST_FIRST : SHEAF_ORDER_AS_SUBMITTED;
        bed_open(bed, "sources: {s: text}\noutputs: [y]\nsteps:\n- {call: w, op: weigh, in: s, out: y, batch: 1}\n");
        for (int i = 0; i < ROOTS; i++)
            submit_bytes(bed, sizes[i]);
        sheaf_run_close_input(bed->run);
        struct sheaf_event event;
        for (int i = 0; (event = bed_next(bed)).kind != SHEAF_EVENT_END; i++) {
            struct sheaf_result_info info = {.size = sizeof info};
            assert_int_equal(event.kind, SHEAF_EVENT_ROOT);
            sheaf_result_info(event.result, &info);
            order[i] = info.tag;
            sheaf_result_acknowledge(event.result);
        }
        bed_close(bed);
        if (!largest)
            assert_memory_equal(order, sizes, sizeof order);
        /* The first one is the largest of those that were there when it was admitted; by then all others are. */
        assert_true(!largest || order[0] == 10 || order[0] == 50 || order[0] == 90);
        for (int i = 2; largest && i < ROOTS; i++)
            assert_true(order[i] <= order[i - 1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, bed_setup, bed_teardown)
        TEST(test_the_dial_bounds_what_a_bad_parent_costs),
        TEST(test_the_dial_lets_everything_through),
        TEST(test_suppressed_rows_leave_at_once),
        TEST(test_largest_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
