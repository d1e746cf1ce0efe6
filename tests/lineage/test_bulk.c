/* SPDX-License-Identifier: Apache-2.0 */
/* Roots much larger than the others: what is put aside, when it moves up, and that it does not wait for ever. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "sched/sched.h"
#include "tests/common/compiled_plan.h"

enum { MAKE, READ, BATCH, GIANT = 0, LOW_WATER = 32, TASTE = 16 };

static const char text[] = "sources: {x: {kind: i64}}\n"
                           "steps:\n"
                           "- {call: make, op: range, in: [x], out: [g], pool: a}\n"
                           "- {expand: [g], as: [c]}\n"
                           "- {call: read, op: neg, in: [c], out: [d], pool: a}\n"
                           "- {call: batch, op: raise_if, in: [d], out: [e], batch: 64, with: {at: []}, pool: b}\n"
                           "outputs: [e]\n";

struct bed {
    struct sheaf_registry *registry;
    struct sheaf_plan *plan;
    struct sched *sched;
    uint32_t entities; /* so many are READY or were */
};

static int set_up_program(const char *program, void **state)
{
    static struct bed bed;
    bed.entities = 0;
    compiled_plan(program, &bed.registry, &bed.plan);
    assert_int_equal(sched_create(bed.plan, &lineage_heap, &bed.sched), 0);
    *state = &bed;
    return 0;
}

static int set_up(void **state)
{
    return set_up_program(text, state);
}

static int tear_down(void **state)
{
    struct bed *bed = *state;
    sched_destroy(bed->sched);
    sheaf_plan_destroy(bed->plan);
    sheaf_registry_destroy(bed->registry);
    return 0;
}

/* Children of a root come to be, and are READY for a Call. */
static void grow(struct bed *bed, uint32_t call, uint32_t root, uint32_t children)
{
    for (uint32_t i = 0; i < children; i++) {
        sched_children(bed->sched, root, 1);
        assert_int_equal(sched_ready_in_turn(bed->sched, (struct grain){call, bed->entities++}, root), 0);
    }
}

static uint32_t take(struct bed *bed, uint32_t call)
{
    struct sched_row row;
    assert_int_equal(sched_next(bed->sched, call, 0, &row), 1);
    sched_done(bed->sched, row.grain);
    return row.grain.entity;
}

/* A root of three children is over: the run knows of sizes now. */
static void finish_a_small_one(struct bed *bed, uint32_t root)
{
    grow(bed, READ, root, 3);
    for (int i = 0; i < 3; i++)
        take(bed, READ);
    sched_root_over(bed->sched, root);
}

/* As long as nothing is finished: its rest is out before more of the larger one that came first. */
static void test_the_smallest_root_moves_up_first(void **state)
{
    struct bed *bed = *state;
    uint32_t pool = bed->plan->calls[READ].pool;
    grow(bed, READ, 0, 100);
    grow(bed, READ, 1, TASTE + 4);
    assert_int_equal(sched_level(bed->sched, pool, 0, 2), 4);
    assert_int_equal(sched_aside(bed->sched, READ), 100 - TASTE);
    assert_true(sched_level(bed->sched, pool, 0, 2) > 0);
}

static void test_first_roots_get_a_taste(void **state)
{
    struct bed *bed = *state;
    for (uint32_t root = 0; root < 3; root++)
        grow(bed, READ, root, 100);
    assert_int_equal(sched_queued(bed->sched, READ), 3 * TASTE);
    assert_int_equal(sched_aside(bed->sched, READ), 3 * (100 - TASTE));
    for (uint32_t i = 0; i < TASTE; i++)
        assert_int_equal(take(bed, READ), i);
    assert_int_equal(take(bed, READ), 100);
    grow(bed, READ, 0, 1); /* what was taken leaves room */
    assert_int_equal(sched_queued(bed->sched, READ), 2 * TASTE);
}

static void test_equal_roots_are_never_put_aside(void **state)
{
    struct bed *bed = *state;
    finish_a_small_one(bed, 9);
    for (uint32_t root = 0; root < 50; root++)
        grow(bed, READ, root, 250);
    assert_int_equal(sched_aside(bed->sched, READ), 0);
}

/* One worker, and small roots that keep coming: they are out soon, and the giant goes on all the while. */
static void test_a_giant_lets_others_past_and_does_not_starve(void **state)
{
    struct bed *bed = *state;
    uint32_t giant_taken = 0;
    finish_a_small_one(bed, 9);
    uint32_t first = bed->entities, giant_end = first + 10000;
    grow(bed, READ, GIANT, 10000);
    assert_int_equal(sched_queued(bed->sched, READ), 256);
    for (uint32_t root = 1; root <= 4000; root++) {
        grow(bed, READ, root, 1);
        sched_level(bed->sched, 0, 0, 1);
        uint32_t entity = take(bed, READ);
        giant_taken += entity >= first && entity < giant_end;
    }
    assert_in_range(giant_taken, 256 + 4000 / 6, 256 + 4000 / 4); /* what was queued before, and a fifth */
    for (uint32_t i = 4000; i < 14000; i++) { /* nothing else comes: it has the Pool to itself, and ends */
        sched_level(bed->sched, 0, 0, 1);
        assert_true(sched_queued(bed->sched, READ) > 0);
        take(bed, READ);
    }
    assert_int_equal(sched_aside(bed->sched, READ), 0);
    assert_int_equal(sched_queued(bed->sched, READ), 0);
}

static void test_rows_move_up_to_the_low_water_only(void **state)
{
    struct bed *bed = *state;
    grow(bed, READ, GIANT, 1000);
    assert_int_equal(sched_level(bed->sched, 0, 0, 3), 3 * LOW_WATER - TASTE);
    assert_int_equal(sched_level(bed->sched, 0, 0, 3), 0);
    assert_int_equal(sched_queued(bed->sched, READ), 3 * LOW_WATER);
    assert_int_equal(sched_level(bed->sched, 0, 50, 4), 0); /* rows that workers have count */
    assert_int_equal(sched_level(bed->sched, 0, 0, 4), LOW_WATER);
    assert_int_equal(take(bed, READ), 0); /* in order */
    grow(bed, BATCH, 1, 1000);
    sched_level(bed->sched, 1, 0, 2);
    assert_int_equal(sched_queued(bed->sched, BATCH), 2 * 2 * 64); /* two batches a worker */
}

static void test_nothing_is_put_aside_where_the_order_is_given(void **state)
{
    struct bed *bed = *state;
    sched_keep_order(bed->sched);
    grow(bed, READ, GIANT, 10000);
    assert_int_equal(sched_aside(bed->sched, READ), 0);
}

static void test_cancel_of_what_is_aside(void **state)
{
    struct bed *bed = *state;
    grow(bed, READ, GIANT, 100);
    assert_true(sched_cancel(bed->sched, (struct grain){READ, 50}));
    assert_true(sched_cancel(bed->sched, (struct grain){READ, 3}));
    assert_int_equal(sched_aside(bed->sched, READ), 100 - TASTE - 1);
    assert_int_equal(sched_queued(bed->sched, READ), TASTE - 1);
    sched_root_over(bed->sched, GIANT);
    assert_int_equal(sched_ready_in_turn(bed->sched, (struct grain){READ, 50}, GIANT), 0); /* both numbers again */
    assert_int_equal(sched_queued(bed->sched, READ), TASTE);
}

/* ---- with lanes: a worker is kept busy with parents of its own ---- */

enum { WORKERS = 2, FIRST_ROOTS = 8 + 8 * WORKERS, OPENING_ROWS = 8, FED = 16 };

static void with_lanes(struct bed *bed)
{
    assert_int_equal(sched_set_lanes(bed->sched, READ, 0, WORKERS), 0);
}

/* Takes all that is READY, and leaves it out; how many rows of it are for each worker, and of how many roots. */
static void take_all(struct bed *bed, uint32_t rows_of_root, uint32_t rows_of[WORKERS], uint64_t roots_of[WORKERS])
{
    struct sched_row row;
    memset(rows_of, 0, WORKERS * sizeof *rows_of);
    memset(roots_of, 0, WORKERS * sizeof *roots_of);
    while (sched_next(bed->sched, READ, 0, &row) == 1) {
        rows_of[row.worker]++;
        roots_of[row.worker] |= UINT64_C(1) << (row.grain.entity / rows_of_root);
    }
}

static void open_roots(struct bed *bed, uint32_t first, uint32_t count, uint32_t rows)
{
    for (uint32_t root = first; root < first + count; root++) {
        sched_opened_by(bed->sched, root, root % WORKERS);
        grow(bed, READ, root, rows);
    }
}

static void test_roots_are_opened_before_rows_of_any_are_many(void **state)
{
    struct bed *bed = *state;
    uint32_t rows[WORKERS];
    uint64_t roots[WORKERS];
    with_lanes(bed);
    open_roots(bed, 0, 2, 100);
    assert_int_equal(sched_queued(bed->sched, READ), 0);
    assert_int_equal(sched_level(bed->sched, 0, 0, WORKERS), WORKERS * OPENING_ROWS);
    assert_false(sched_is_fed(bed->sched, 0));
    take_all(bed, 100, rows, roots);
    assert_int_equal(roots[0] & roots[1], 0);
    assert_int_equal(rows[0], OPENING_ROWS);
    open_roots(bed, 2, FIRST_ROOTS - 2, 40); /* smaller ones: it is their rows that go on */
    assert_int_equal(sched_level(bed->sched, 0, WORKERS * OPENING_ROWS, WORKERS), WORKERS * (LOW_WATER - OPENING_ROWS));
    assert_true(sched_is_fed(bed->sched, 0));
    while (sched_queued(bed->sched, READ) > 0)
        assert_true(take(bed, READ) >= 200);
}

static void test_each_worker_keeps_to_its_own_roots(void **state)
{
    struct bed *bed = *state;
    uint32_t rows[WORKERS];
    uint64_t roots[WORKERS];
    with_lanes(bed);
    open_roots(bed, 0, FIRST_ROOTS, 50);
    sched_root_over(bed->sched, 60); /* had no children: sizes are not known by it */
    assert_true(sched_aside(bed->sched, READ) > 0);
    grow(bed, MAKE, 60, 1);
    sched_root_over(bed->sched, 60);
    assert_int_equal(sched_aside(bed->sched, READ), 0); /* equal ones: all are READY */
    take_all(bed, 50, rows, roots);
    assert_int_equal(roots[0] & roots[1], 0);
    assert_int_equal(rows[0], rows[1]);
}

/* The lane of one worker is empty: it gets whole roots that the other has not begun, and of those that are begun a
 * share. */
static void test_a_dry_worker_is_given_whole_roots(void **state)
{
    struct bed *bed = *state;
    struct sched_row row;
    uint32_t rows[WORKERS];
    uint64_t roots[WORKERS];
    with_lanes(bed);
    sched_keep_order(bed->sched); /* nothing is put aside, so that lanes alone are seen */
    for (uint32_t root = 0; root < 2; root++) {
        sched_opened_by(bed->sched, root, 0);
        grow(bed, READ, root, 20);
    }
    assert_int_equal(sched_next(bed->sched, READ, 0, &row), 1); /* root 0 is begun */
    assert_int_equal(row.worker, 0);
    assert_true(sched_level(bed->sched, 0, 1, WORKERS) > 0);
    take_all(bed, 20, rows, roots);
    assert_int_equal(roots[0], 1);
    assert_int_equal(roots[1], 2);
    assert_int_equal(rows[0] + rows[1], 2 * 20 - 1);
}

static void test_a_dry_worker_shares_a_root_that_is_begun(void **state)
{
    struct bed *bed = *state;
    struct sched_row row;
    uint32_t rows[WORKERS];
    uint64_t roots[WORKERS];
    with_lanes(bed);
    sched_keep_order(bed->sched);
    sched_opened_by(bed->sched, 0, 0);
    grow(bed, READ, 0, 60);
    assert_int_equal(sched_next(bed->sched, READ, 0, &row), 1);
    sched_set_row_us(bed->sched, READ, 100); /* 59 rows take 6 ms: opening it once more does not repay */
    assert_int_equal(sched_level(bed->sched, 0, 1, WORKERS), 0);
    sched_set_row_us(bed->sched, READ, 1000);
    assert_int_equal(sched_level(bed->sched, 0, 1, WORKERS), FED);
    take_all(bed, 60, rows, roots);
    assert_int_equal(rows[1], FED);
    assert_int_equal(rows[0], 59 - FED);
}

/* ---- what goes on with rows that are begun ---- */

static const char chain[] = "sources: {x: {kind: i64}}\n"
                            "steps:\n"
                            "- {call: make, op: range, in: [x], out: [g], pool: a}\n"
                            "- {expand: [g], as: [c]}\n"
                            "- {call: read, op: neg, in: [c], out: [d], pool: a}\n"
                            "- {call: look, op: is_even, in: [c], out: [m], pool: a}\n"
                            "- {filter: c, mask: m, as: kept}\n"
                            "- {call: next, op: neg, in: [d], out: [e], pool: a}\n"
                            "- {call: even, op: neg, in: [kept], out: [f], pool: a}\n"
                            "- {call: elsewhere, op: neg, in: [d], out: [h], pool: b}\n"
                            "- {call: inner, op: range, in: [c], out: [i], pool: a}\n"
                            "- {expand: [i], as: [j]}\n"
                            "- {call: deeper, op: neg, in: [j], out: [k], pool: a}\n"
                            "- {gather: [k], as: [ks]}\n"
                            "- {call: back, op: sum, in: [ks], out: [l], pool: a}\n"
                            "outputs: [e, f, h, l]\n";

static int set_up_chain(void **state)
{
    return set_up_program(chain, state);
}

static uint32_t call_named(const struct bed *bed, const char *name)
{
    uint32_t call = 0;
    while (call < bed->plan->call_count && strcmp(bed->plan->calls[call].name, name) != 0)
        call++;
    assert_true(call < bed->plan->call_count);
    return call;
}

/* Children are held back where they come into a Pool; what it makes of those that it has begun is not, or they would
 * lie in memory, each with what it is half-way through. */
static void test_what_is_begun_goes_on(void **state)
{
    struct bed *bed = *state;
    static const struct {
        const char *call;
        bool goes_on;
    } cases[] = {{"read", false},  {"look", false},      {"next", true},    {"even", true},
                 {"inner", false}, {"elsewhere", false}, {"deeper", false}, {"back", true}};
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t call = call_named(bed, cases[i].call);
        grow(bed, call, i, 1000);
        if ((sched_aside(bed->sched, call) == 0) != cases[i].goes_on)
            fail_msg("%s: %u of 1000 rows are put aside", cases[i].call, sched_aside(bed->sched, call));
        assert_int_equal(sched_queued(bed->sched, call), cases[i].goes_on ? 1000 : TASTE);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_smallest_root_moves_up_first),
        TEST(test_first_roots_get_a_taste),
        TEST(test_equal_roots_are_never_put_aside),
        TEST(test_a_giant_lets_others_past_and_does_not_starve),
        TEST(test_rows_move_up_to_the_low_water_only),
        TEST(test_nothing_is_put_aside_where_the_order_is_given),
        TEST(test_cancel_of_what_is_aside),
        TEST(test_roots_are_opened_before_rows_of_any_are_many),
        TEST(test_each_worker_keeps_to_its_own_roots),
        TEST(test_a_dry_worker_is_given_whole_roots),
        TEST(test_a_dry_worker_shares_a_root_that_is_begun),
        cmocka_unit_test_setup_teardown(test_what_is_begun_goes_on, set_up_chain, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
