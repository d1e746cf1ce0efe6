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

static int set_up(void **state)
{
    static struct bed bed;
    bed.entities = 0;
    compiled_plan(text, &bed.registry, &bed.plan);
    assert_int_equal(sched_create(bed.plan, &lineage_heap, &bed.sched), 0);
    *state = &bed;
    return 0;
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
        sched_child(bed->sched, root);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
