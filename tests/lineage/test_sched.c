/* SPDX-License-Identifier: Apache-2.0 */
/* Queues and recovery: order, who is charged, how many dispatches it costs to find a culprit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "sched/sched.h"
#include "tests/common/compiled_plan.h"

struct bed {
    struct sheaf_registry *registry;
    struct sheaf_plan *plan;
    struct sched *sched;
};

static const char text[] =
    "sources: {x: {kind: i64}}\n"
    "steps:\n"
    "- {call: rows, op: crash_if, in: [x], out: [a], with: {at: [1]}, recovery: retry, retries: 2, backoff_ms: 5}\n"
    "- {call: batch, op: raise_if, in: [a], out: [b], with: {at: [1]}, batch: 64}\n"
    "- {call: stop, op: raise_if, in: [b], out: [c], with: {at: [1]}, recovery: abort}\n"
    "outputs: [c]\n";
enum { ROWS, BATCH, STOP };

static int set_up(void **state)
{
    static struct bed bed;
    compiled_plan(text, &bed.registry, &bed.plan);
    assert_string_equal(bed.plan->calls[BATCH].name, "batch");
    assert_string_equal(bed.plan->calls[STOP].name, "stop");
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

static void make_ready(struct bed *bed, uint32_t call, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(sched_ready(bed->sched, (struct grain){call, i}), 0);
}

static struct sched_row next(struct bed *bed, uint32_t call, uint64_t now_us)
{
    struct sched_row row;
    assert_int_equal(sched_next(bed->sched, call, now_us, &row), 1);
    return row;
}

static enum sched_verdict lose(struct bed *bed, uint32_t call, enum sched_event event, enum sheaf_class class_id,
                               uint32_t entity, uint32_t rows_before)
{
    enum sched_verdict verdict;
    struct sched_loss loss = {
        .event = event, .class_id = class_id, .call = call, .culprit = 0, .rows_before = rows_before};
    assert_int_equal(sched_failed(bed->sched, &loss, &entity, 1, 1000, &verdict), 0);
    return verdict;
}

static void test_ready_rows_come_in_order(void **state)
{
    struct bed *bed = *state;
    struct sched_row row;
    make_ready(bed, ROWS, 100);
    assert_int_equal(sched_queued(bed->sched, ROWS), 100);
    for (uint32_t i = 0; i < 100; i++) {
        row = next(bed, ROWS, 0);
        assert_int_equal(row.grain.entity, i);
        assert_int_equal(row.worker, LINEAGE_NOBODY); /* without lanes it is for anyone */
    }
    assert_int_equal(sched_next(bed->sched, ROWS, 0, &row), 0);
    sched_requeue_uncharged(bed->sched, (struct grain){ROWS, 7});
    assert_int_equal(sched_ready(bed->sched, (struct grain){ROWS, 200}), 0);
    row = next(bed, ROWS, 0);
    assert_int_equal(row.grain.entity, 7);
    assert_int_equal(row.attempt, 0);
}

/* A row that is recalled and goes out again has two claims, and the older one ends first or last. */
static void test_the_newest_claim_is_known(void **state)
{
    struct bed *bed = *state;
    const struct grain grain = {ROWS, 0};
    make_ready(bed, ROWS, 1);
    next(bed, ROWS, 0);
    assert_int_equal(sched_claim(bed->sched, grain), 0);
    sched_set_claim(bed->sched, grain, 7);
    sched_requeue_uncharged(bed->sched, grain);
    next(bed, ROWS, 0);
    sched_set_claim(bed->sched, grain, 8);
    sched_claim_over(bed->sched, grain, 7);
    assert_int_equal(sched_claim(bed->sched, grain), 8);
    sched_claim_over(bed->sched, grain, 8);
    assert_int_equal(sched_claim(bed->sched, grain), 0);
}

static void test_retries_wait_and_go_first(void **state)
{
    struct bed *bed = *state;
    uint64_t due;
    make_ready(bed, ROWS, 3);
    assert_int_equal(next(bed, ROWS, 0).grain.entity, 0);
    assert_int_equal(lose(bed, ROWS, SCHED_TIMED_OUT, SHEAF_CLASS_TIMEOUT, 0, 0), SCHED_RETRIED);
    assert_int_equal(sched_next_retry_us(bed->sched, 1000, &due), 1);
    assert_int_equal(due, 1000 + 5000);
    assert_int_equal(sched_next_retry_us(bed->sched, due, &due), 0); /* it waits for a worker, not for time */
    struct sched_row row = next(bed, ROWS, due - 1);
    assert_int_equal(row.grain.entity, 1);
    row = next(bed, ROWS, due);
    assert_int_equal(row.grain.entity, 0);
    assert_int_equal(row.queue, SCHED_RETRY);
    assert_int_equal(row.attempt, 1);
    assert_int_equal(lose(bed, ROWS, SCHED_TIMED_OUT, SHEAF_CLASS_TIMEOUT, 0, 0), SCHED_RETRIED);
    assert_int_equal(next(bed, ROWS, due * 2).attempt, 2);
    assert_int_equal(lose(bed, ROWS, SCHED_TIMED_OUT, SHEAF_CLASS_TIMEOUT, 0, 0), SCHED_SEAL_FAILED);
    assert_int_equal(sched_attempt(bed->sched, (struct grain){ROWS, 0}), 2);
    sched_done(bed->sched, (struct grain){ROWS, 0});
    assert_int_equal(sched_ready(bed->sched, (struct grain){ROWS, 0}), 0);
    assert_int_equal(sched_attempt(bed->sched, (struct grain){ROWS, 0}), 0);
}

static void test_only_the_marked_row_is_charged(void **state)
{
    struct bed *bed = *state;
    uint32_t entities[] = {0, 1, 2, 3};
    enum sched_verdict verdicts[4];
    struct sched_loss loss = {.event = SCHED_TIMED_OUT, .class_id = SHEAF_CLASS_TIMEOUT, .call = ROWS, .culprit = 1};
    make_ready(bed, ROWS, 5);
    for (uint32_t i = 0; i < 4; i++)
        next(bed, ROWS, 0);
    sched_failed(bed->sched, &loss, entities, 4, 0, verdicts);
    assert_int_equal(verdicts[1], SCHED_RETRIED);
    static const uint32_t order[] = {0, 2, 3, 4};
    for (uint32_t i = 0; i < 4; i++) {
        struct sched_row row = next(bed, ROWS, 0);
        assert_int_equal(row.grain.entity, order[i]);
        assert_int_equal(row.attempt, 0);
    }
    loss.culprit = SCHED_UNKNOWN; /* nobody was RUNNING */
    entities[1] = 4;
    sched_failed(bed->sched, &loss, entities, 4, 0, verdicts);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(verdicts[i], SCHED_REQUEUED);
}

static void test_a_crash_of_a_used_worker_is_tried_alone(void **state)
{
    struct bed *bed = *state;
    make_ready(bed, ROWS, 2);
    next(bed, ROWS, 0);
    assert_int_equal(lose(bed, ROWS, SCHED_CRASHED, SHEAF_CLASS_CRASHED, 0, 3), SCHED_ISOLATING);
    assert_int_equal(next(bed, ROWS, 0).grain.entity, 1); /* READY goes before isolation */
    struct sched_row row = next(bed, ROWS, 0);
    assert_int_equal(row.grain.entity, 0);
    assert_int_equal(row.queue, SCHED_ISOLATION);
    assert_true(row.fresh_worker);
    assert_int_equal(row.batch_left, 0);
    assert_int_equal(row.attempt, 0);
    assert_int_equal(lose(bed, ROWS, SCHED_CRASHED, SHEAF_CLASS_CRASHED, 0, 0), SCHED_RETRIED);
    assert_int_equal(lose(bed, ROWS, SCHED_CRASHED, SHEAF_CLASS_OOM, 1, 0), SCHED_RETRIED);
}

/* While a back-off runs there is nothing to give but the isolation batch, which must not be mixed. */
static void test_isolation_is_told_apart_from_what_is_due(void **state)
{
    struct bed *bed = *state;
    make_ready(bed, ROWS, 2);
    next(bed, ROWS, 0);
    next(bed, ROWS, 0);
    assert_int_equal(lose(bed, ROWS, SCHED_TIMED_OUT, SHEAF_CLASS_TIMEOUT, 0, 0), SCHED_RETRIED);
    assert_int_equal(lose(bed, ROWS, SCHED_CRASHED, SHEAF_CLASS_CRASHED, 1, 3), SCHED_ISOLATING);
    assert_int_equal(sched_queued(bed->sched, ROWS), 1);
    assert_int_equal(sched_isolating(bed->sched, ROWS), 1);
    assert_false(sched_due(bed->sched, ROWS, 5999));
    assert_true(sched_due(bed->sched, ROWS, 6000));
    assert_int_equal(next(bed, ROWS, 5999).queue, SCHED_ISOLATION);
}

static void test_policies(void **state)
{
    struct bed *bed = *state;
    make_ready(bed, STOP, 2);
    next(bed, STOP, 0);
    next(bed, STOP, 0);
    assert_int_equal(lose(bed, STOP, SCHED_RAISED, SHEAF_CLASS_CONTRACT, 0, 0), SCHED_SEAL_FAILED);
    assert_int_equal(lose(bed, STOP, SCHED_RAISED, SHEAF_CLASS_OPERATOR, 1, 0), SCHED_SEAL_ABORT);
    make_ready(bed, ROWS, 1);
    next(bed, ROWS, 0);
    assert_int_equal(lose(bed, ROWS, SCHED_RAISED, SHEAF_CLASS_CONTRACT, 0, 0), SCHED_SEAL_FAILED);
}

/* Takes the isolation batch that comes next. */
static uint32_t take_batch(struct bed *bed, uint32_t *entities)
{
    struct sched_row row;
    uint32_t count = 0;
    if (!sched_next(bed->sched, BATCH, 0, &row))
        return 0;
    assert_int_equal(row.queue, SCHED_ISOLATION);
    entities[count++] = row.grain.entity;
    for (uint32_t left = row.batch_left, batch = row.batch; left > 0; left--) {
        assert_int_equal(sched_next(bed->sched, BATCH, 0, &row), 1);
        assert_int_equal(row.batch, batch);
        assert_int_equal(row.batch_left, left - 1);
        assert_int_equal(row.attempt, 0);
        entities[count++] = row.grain.entity;
    }
    return count;
}

static uint32_t dispatches_to_find(struct bed *bed, uint32_t n, uint32_t culprit)
{
    uint32_t entities[64], count = n, dispatches = 0;
    enum sched_verdict verdicts[64];
    bool found = false;
    make_ready(bed, BATCH, n);
    for (uint32_t i = 0; i < n; i++)
        entities[i] = next(bed, BATCH, 0).grain.entity;
    for (; count; count = take_batch(bed, entities), dispatches += count > 0) {
        struct sched_loss loss = {
            .event = SCHED_RAISED, .class_id = SHEAF_CLASS_OPERATOR, .call = BATCH, .culprit = SCHED_UNKNOWN};
        bool raises = false;
        for (uint32_t i = 0; i < count; i++)
            raises = raises || entities[i] == culprit;
        if (!raises) {
            for (uint32_t i = 0; i < count; i++)
                sched_done(bed->sched, (struct grain){BATCH, entities[i]});
            continue;
        }
        sched_failed(bed->sched, &loss, entities, count, 0, verdicts);
        found = found || verdicts[0] == SCHED_SEAL_FAILED;
        assert_int_equal(verdicts[0], count == 1 ? SCHED_SEAL_FAILED : SCHED_ISOLATING);
    }
    assert_true(found);
    return dispatches;
}

static void test_bisection_is_bounded(void **state)
{
    struct bed *bed = *state;
    for (uint32_t n = 1; n <= 64; n++) {
        uint32_t log = 0;
        while (1u << log < n)
            log++;
        for (uint32_t culprit = 0; culprit < n; culprit++)
            assert_in_range(dispatches_to_find(bed, n, culprit), 0, 2 * log + 1);
    }
    assert_int_not_equal(sched_isolation_batches(bed->sched, BATCH), 0);
}

static void test_a_row_left_of_a_batch_is_not_guilty(void **state)
{
    struct bed *bed = *state;
    enum sched_verdict verdict;
    uint32_t entity = 1;
    struct sched_loss loss = {.event = SCHED_RAISED,
                              .class_id = SHEAF_CLASS_OPERATOR,
                              .call = BATCH,
                              .culprit = SCHED_UNKNOWN,
                              .rows_run = 2};
    make_ready(bed, BATCH, 2);
    next(bed, BATCH, 0);
    next(bed, BATCH, 0);
    sched_failed(bed->sched, &loss, &entity, 1, 0, &verdict);
    assert_int_equal(verdict, SCHED_ISOLATING);
    assert_int_equal(next(bed, BATCH, 0).batch_left, 0);
}

/* Where memory that others can write was damaged: being alone in one worker proves nothing while others worked, too. */
static void test_company_clears_a_row(void **state)
{
    struct bed *bed = *state;
    struct sched_row row;
    uint32_t entity = 0;
    enum sched_verdict verdict;
    struct sched_loss loss = {.event = SCHED_CRASHED,
                              .class_id = SHEAF_CLASS_CONTRACT,
                              .call = ROWS,
                              .culprit = 0,
                              .rows_before = 1,
                              .in_company = true};
    make_ready(bed, ROWS, 2);
    next(bed, ROWS, 0);
    for (uint32_t time = 0; time < 3; time++) {
        assert_int_equal(sched_failed(bed->sched, &loss, &entity, 1, 0, &verdict), 0);
        assert_int_equal(verdict, SCHED_ISOLATING);
        assert_int_equal(sched_next_isolated(bed->sched, ROWS, &row), 1); /* before the row that is READY */
        assert_int_equal(row.grain.entity, 0);
        assert_true(row.fresh_worker);
    }
    loss.in_company = false;
    assert_int_equal(sched_failed(bed->sched, &loss, &entity, 1, 0, &verdict), 0);
    assert_int_equal(verdict, SCHED_SEAL_FAILED);
    assert_int_equal(sched_next_isolated(bed->sched, ROWS, &row), 0);
    assert_int_equal(next(bed, ROWS, 0).grain.entity, 1);
}

static void test_rows_that_ran_together_are_tried_alone(void **state)
{
    struct bed *bed = *state;
    uint32_t entities[] = {0, 1};
    enum sched_verdict verdicts[2];
    struct sched_loss loss = {
        .event = SCHED_CRASHED, .class_id = SHEAF_CLASS_CRASHED, .call = ROWS, .culprit = SCHED_UNKNOWN, .rows_run = 2};
    make_ready(bed, ROWS, 2);
    next(bed, ROWS, 0);
    next(bed, ROWS, 0);
    sched_failed(bed->sched, &loss, entities, 2, 0, verdicts);
    for (uint32_t i = 0; i < 2; i++) {
        struct sched_row row = next(bed, ROWS, 0);
        assert_int_equal(verdicts[i], SCHED_ISOLATING);
        assert_int_equal(row.batch_left, 0);
        assert_true(row.fresh_worker);
    }
}

static void test_cancel(void **state)
{
    struct bed *bed = *state;
    uint32_t entities[] = {0, 1, 2, 3};
    enum sched_verdict verdicts[4];
    struct sched_loss loss = {
        .event = SCHED_RAISED, .class_id = SHEAF_CLASS_OPERATOR, .call = BATCH, .culprit = SCHED_UNKNOWN};
    make_ready(bed, BATCH, 4);
    for (uint32_t i = 0; i < 4; i++)
        next(bed, BATCH, 0);
    assert_int_equal(sched_ready(bed->sched, (struct grain){BATCH, 9}), 0);
    next(bed, BATCH, 0);
    assert_false(sched_cancel(bed->sched, (struct grain){BATCH, 9})); /* out: forgotten */
    sched_done(bed->sched, (struct grain){BATCH, 9});
    sched_failed(bed->sched, &loss, entities, 4, 0, verdicts);
    assert_int_equal(next(bed, BATCH, 0).grain.entity, 0);
    assert_true(sched_cancel(bed->sched, (struct grain){BATCH, 1})); /* the rest of the batch that is being taken */
    assert_true(sched_cancel(bed->sched, (struct grain){BATCH, 3}));
    struct sched_row row = next(bed, BATCH, 0);
    assert_int_equal(row.grain.entity, 2);
    assert_int_equal(row.batch_left, 0);
    assert_int_equal(sched_isolating(bed->sched, BATCH), 0);
    assert_int_equal(sched_ready(bed->sched, (struct grain){BATCH, 3}), 0); /* its number is used again */
    assert_true(sched_cancel(bed->sched, (struct grain){BATCH, 3}));
}

static void test_drain_first(void **state)
{
    struct bed *bed = *state;
    static const uint32_t calls[] = {ROWS, BATCH, STOP};
    assert_int_equal(sched_pick(bed->sched, calls, 3, 0), PLAN_NONE);
    make_ready(bed, ROWS, 1);
    assert_int_equal(sched_pick(bed->sched, calls, 3, 0), ROWS);
    make_ready(bed, STOP, 1);
    make_ready(bed, BATCH, 1);
    assert_int_equal(sched_pick(bed->sched, calls, 3, 0), STOP);
    assert_int_equal(sched_pick(bed->sched, calls, 2, 0), BATCH);
}

static void test_lanes_keep_a_root_together(void **state)
{
    struct bed *bed = *state;
    enum { FIRST_WORKER = 4, WORKERS = 2, ROWS_OF_ROOT = 100 };
    assert_int_equal(sched_set_lanes(bed->sched, ROWS, FIRST_WORKER, WORKERS), 0);
    sched_children(bed->sched, 3, 1);
    sched_root_over(bed->sched, 3); /* sizes are known: nothing is put aside */
    sched_opened_by(bed->sched, 0, FIRST_WORKER + 1);
    sched_opened_by(bed->sched, 1, FIRST_WORKER + 1);       /* has much to do already: the other worker gets this one */
    sched_opened_by(bed->sched, 2, FIRST_WORKER + WORKERS); /* serves another Pool */
    for (uint32_t i = 0; i < 3 * ROWS_OF_ROOT; i++)
        assert_int_equal(sched_ready_in_turn(bed->sched, (struct grain){ROWS, i}, i / ROWS_OF_ROOT), 0);
    sched_level(bed->sched, bed->plan->calls[ROWS].pool, 0, 3 * ROWS_OF_ROOT);
    uint32_t worker_of[3] = {0}, taken[WORKERS] = {0};
    for (uint32_t i = 0; i < 3 * ROWS_OF_ROOT; i++) {
        struct sched_row row = next(bed, ROWS, 0);
        uint32_t root = row.grain.entity / ROWS_OF_ROOT;
        assert_true(worker_of[root] == 0 || worker_of[root] == row.worker);
        worker_of[root] = row.worker;
        taken[row.worker - FIRST_WORKER]++;
        if (i < 2 * ROWS_OF_ROOT) /* both are served in turn as long as both have rows */
            assert_true(taken[0] <= taken[1] + 1 && taken[1] <= taken[0] + 1);
    }
    assert_int_equal(worker_of[0], FIRST_WORKER + 1);
    assert_int_equal(worker_of[1], FIRST_WORKER);
    for (uint32_t i = 0; i < 3 * ROWS_OF_ROOT; i++)
        sched_done(bed->sched, (struct grain){ROWS, i});
    sched_root_over(bed->sched, 0);
    sched_opened_by(bed->sched, 0, FIRST_WORKER); /* the number again, another root */
    assert_int_equal(sched_ready_in_turn(bed->sched, (struct grain){ROWS, 0}, 0), 0);
    assert_int_equal(next(bed, ROWS, 0).worker, FIRST_WORKER);
}

static void test_admission(void **state)
{
    (void)state;
    struct sched_window window = {.roots_max = 2, .bytes_max = 100};
    assert_true(sched_may_admit(&window, 0, 0, 1000));
    assert_true(sched_may_admit(&window, 1, 50, 50));
    assert_false(sched_may_admit(&window, 1, 50, 51));
    assert_false(sched_may_admit(&window, 2, 0, 0));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_ready_rows_come_in_order),
        TEST(test_the_newest_claim_is_known),
        TEST(test_retries_wait_and_go_first),
        TEST(test_only_the_marked_row_is_charged),
        TEST(test_a_crash_of_a_used_worker_is_tried_alone),
        TEST(test_isolation_is_told_apart_from_what_is_due),
        TEST(test_policies),
        TEST(test_bisection_is_bounded),
        TEST(test_a_row_left_of_a_batch_is_not_guilty),
        TEST(test_company_clears_a_row),
        TEST(test_rows_that_ran_together_are_tried_alone),
        TEST(test_cancel),
        TEST(test_lanes_keep_a_root_together),
        TEST(test_drain_first),
        TEST(test_admission),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
