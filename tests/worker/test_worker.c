/* SPDX-License-Identifier: Apache-2.0 */
/* The stock worker as a process, with a small shard on the other side. */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <sheaf/operator.h>

#include "shm/value_hash.h"
#include "tests/worker/mini_shard.h"

static const struct mini_call id_call = {"id", .output_count = 1};
static const struct mini_call upper_call = {"upper", .output_count = 1, .output_kinds = {SHEAF_TEXT}};
static const struct mini_call trouble_call = {"trouble", .output_count = 1, .output_kinds = {SHEAF_I64}};
static const struct mini_call heavy_call = {"heavy", .output_count = 1, .output_kinds = {SHEAF_BYTES}};
static const struct mini_call range_call = {"range", .output_count = 1, .output_kinds = {SHEAF_LIST_OF(SHEAF_I64, 1)},
                                            .group_outputs = 1};

static void assert_text(const struct completion *record, const char *part)
{
    if (record->text == NULL || strstr(record->text, part) == NULL)
        fail_msg("'%s' is not in '%s'", part, record->text != NULL ? record->text : "(none)");
}

static void test_values_come_back(void **state)
{
    struct mini mini;
    struct mini_call calls[] = {id_call, upper_call};
    mini_start(&mini, calls, 2, &(struct mini_options){.integrity = ATTACH_INTEGRITY_ALWAYS});
    uint32_t grain = mini_push(&mini, 0, BOARD_READY, mini_i64(-5));
    mini_tell(&mini);
    struct completion record = mini_expect(&mini, COMPLETION_ANSWER, grain);
    assert_int_equal(mini_i64_of(&record, 0), -5);

    grain = mini_push(&mini, 0, BOARD_RETRY, mini_text(&mini, "shared text"));
    mini_tell(&mini);
    record = mini_expect(&mini, COMPLETION_ANSWER, grain);
    assert_int_equal(record.values[0].length, 11);
    assert_true(record.values[0].hash != 0);
    assert_memory_equal(mini_data(&mini, &record.values[0]), "shared text", 11);

    grain = mini_push(&mini, 1, BOARD_READY, mini_text(&mini, "upper"));
    mini_tell(&mini);
    record = mini_expect(&mini, COMPLETION_ANSWER, grain);
    assert_memory_equal(mini_data(&mini, &record.values[0]), "UPPER", 5);
    mini_stop(&mini);
}

/* An input that is not what it was: nothing the row did counts, and the worker goes on. */
static void test_a_damaged_input_is_told(void **state)
{
    struct mini mini;
    struct mini_call calls[] = {id_call};
    int64_t numbers[] = {1, 2};
    mini_start(&mini, calls, 1, &(struct mini_options){.integrity = ATTACH_INTEGRITY_ALWAYS});
    struct value_ref text = mini_text(&mini, "shared text");
    text.hash = value_hash(segment_at(&mini.inputs, text.offset, text.length), text.length);
    uint32_t grain = mini_push(&mini, 0, BOARD_READY, text);
    mini_tell(&mini);
    mini_expect(&mini, COMPLETION_ANSWER, grain);
    text.hash++;
    grain = mini_push(&mini, 0, BOARD_READY, text);
    mini_tell(&mini);
    mini_expect(&mini, COMPLETION_DAMAGED, grain);

    /* an element of a list that the engine made */
    struct value_ref list = mini_i64_list(&mini, numbers, 2, "late"), *elements;
    elements = (struct value_ref *)((struct list_block *)segment_at(&mini.inputs, list.offset, 1) + 1);
    elements[1] = text;
    list.kind = SHEAF_LIST_OF(SHEAF_TEXT, 1);
    grain = mini_push(&mini, 0, BOARD_READY, list);
    mini_tell(&mini);
    mini_expect(&mini, COMPLETION_DAMAGED, grain);
    grain = mini_push(&mini, 0, BOARD_READY, mini_i64(3));
    mini_tell(&mini);
    mini_expect(&mini, COMPLETION_ANSWER, grain);
    mini_stop(&mini);
}

static void test_list_passes_whole(void **state)
{
    struct mini mini;
    struct mini_call calls[] = {id_call, {"sum", .output_count = 1, .output_kinds = {SHEAF_I64}}};
    mini_start(&mini, calls, 2, NULL);
    int64_t numbers[] = {1, 20, 300};
    struct value_ref list = mini_i64_list(&mini, numbers, 3, "late");
    uint32_t grain = mini_push(&mini, 1, BOARD_READY, list);
    mini_tell(&mini);
    struct completion record = mini_expect(&mini, COMPLETION_ANSWER, grain);
    assert_int_equal(mini_i64_of(&record, 0), 2 * 321 + 3000000 + 4);

    grain = mini_push(&mini, 0, BOARD_READY, list);
    mini_tell(&mini);
    record = mini_expect(&mini, COMPLETION_ANSWER, grain);
    struct value_ref ref = record.values[0];
    assert_int_equal(ref.kind, SHEAF_LIST_OF(SHEAF_I64, 1));
    assert_int_equal(ref.length, 3);
    struct list_block block;
    const char *data = mini_data(&mini, &ref);
    memcpy(&block, data, sizeof block);
    assert_int_equal(block.count, 3);
    assert_int_equal(block.error_count, 1);
    struct value_ref element;
    memcpy(&element, data + sizeof block + 2 * sizeof element, sizeof element);
    assert_int_equal(element.offset, 300);
    struct list_error_ref error;
    memcpy(&error, data + sizeof block + 3 * sizeof element, sizeof error);
    assert_int_equal(error.ordinal, 3);
    assert_memory_equal(segment_at(&mini.outputs, error.message_offset, 4), "late", 4);
    mini_stop(&mini);
}

static void test_children_stream(void **state)
{
    struct mini mini;
    /* A ring far too small for all children: the worker waits for room again and again. */
    mini_start(&mini, &range_call, 1, &(struct mini_options){.completion_bytes = completion_ring_bytes_min(4)});
    uint32_t grain = mini_push(&mini, 0, BOARD_READY, mini_i64(1000));
    mini_tell(&mini);
    for (int64_t ordinal = 0; ordinal < 1000; ordinal++) {
        struct completion record = mini_expect(&mini, COMPLETION_CHILD, grain);
        assert_int_equal(record.ordinal, ordinal);
        assert_int_equal(mini_i64_of(&record, 0), 10 * ordinal);
    }
    struct completion record = mini_expect(&mini, COMPLETION_ANSWER, grain);
    assert_int_equal(record.child_count, 1000);
    assert_int_equal(record.value_count, 1);
    assert_int_equal(record.values[0].kind, SHEAF_NONE);
    mini_stop(&mini);
}

/* A worker whose shard takes nothing any more ends when it is told so, whatever it waits for. */
static void test_stop_ends_the_wait_for_room(void **state)
{
    struct mini mini;
    mini_start(&mini, &range_call, 1, &(struct mini_options){.completion_bytes = completion_ring_bytes_min(4)});
    mini_push(&mini, 0, BOARD_READY, mini_i64(1000));
    mini_tell(&mini);
    /* Its flag on the event count of its lane: it sleeps there, or is about to. */
    while ((load_acquire_u32(&mini.lane.events->word) & EVENT_COUNT_FLAG) == 0)
        sched_yield();
    store_release_u32(&mini.lane.orders->stop, 1);
    event_count_bump_always(mini.lane.events);
    while ((load_acquire_u32(&mini.lane.events->word) & EVENT_COUNT_FLAG) == 0)
        sched_yield(); /* it waits on */
    store_release_u32(&mini.lane.orders->stop, 2);
    event_count_bump_always(mini.lane.events);
    assert_true(WIFEXITED(mini_reap(&mini)));
    mini_release(&mini);
}

/* A burst of children is told of now and then, not child by child. */
static void test_bursts_cost_few_wakes(void **state)
{
    struct mini mini;
    mini_start(&mini, &range_call, 1, NULL);
    uint32_t before = event_count_sample(mini.board.shard_events);
    uint32_t grain = mini_push(&mini, 0, BOARD_READY, mini_i64(5000));
    mini_tell(&mini);
    for (int64_t ordinal = 0; ordinal < 5000; ordinal++)
        mini_expect(&mini, COMPLETION_CHILD, grain);
    mini_expect(&mini, COMPLETION_ANSWER, grain);
    uint32_t moved = (event_count_sample(mini.board.shard_events) - before) / 2;
    print_message("5000 children, %u wakes\n", moved);
    assert_true(moved < 2500);
    mini_stop(&mini);
}

/* How often the shard is bumped while so many batches of one row are answered, all there at once. */
static uint32_t bumps_of_batches(uint64_t looks_ns, uint64_t pools_ahead)
{
    const uint64_t ahead[BOARD_POOL_WORDS] = {pools_ahead};
    enum { BATCHES = 60 };
    struct mini mini;
    struct mini_call batch = {"batch", SHEAF_OPERATOR_BATCH, .batch_rows = 1, .output_count = 1,
                              .output_kinds = {SHEAF_I64}};
    mini_start(&mini, &batch, 1, NULL);
    mini_wait_idle(&mini);
    board_promise(&mini.board, looks_ns, ahead);
    (void)board_take_news(&mini.board, 0);
    uint32_t before = event_count_sample(mini.board.shard_events), first = 0;
    for (int64_t at = 0; at < BATCHES; at++) {
        uint32_t grain = mini_push(&mini, 0, BOARD_READY, mini_i64(100 + at));
        first = at == 0 ? grain : first;
    }
    mini_tell(&mini);
    while (load_relaxed_u64(&mini.lane.counters->batches) < BATCHES ||
           load_relaxed_u64(&mini.lane.counters->state) != LANE_IDLE)
        cpu_pause();
    uint32_t moved = (event_count_sample(mini.board.shard_events) - before) / 2;
    assert_int_equal(board_take_news(&mini.board, 0), 1); /* of worker 0 */
    for (uint32_t at = 0; at < BATCHES; at++)
        mini_expect(&mini, COMPLETION_ANSWER, first + at);
    mini_stop(&mini);
    return moved;
}

/* A shard that has promised to look is not woken batch by batch, but when its worker goes to sleep; and not then either
 * if it has said that the worker's Pool is ahead. */
static void test_promised_looks_spare_wakes(void **state)
{
    uint32_t told = bumps_of_batches(0, 1), promised = bumps_of_batches(UINT64_MAX, ~UINT64_C(1));
    print_message("60 batches, %u bumps; %u of a shard that looks by itself\n", told, promised);
    assert_true(told >= 60);
    assert_true(promised > 0 && promised < 10);
    assert_int_equal(bumps_of_batches(UINT64_MAX, 1), 0);
}

/* Children are told of, unless the shard looks by itself and has plenty of them. */
static void test_children_of_a_pool_ahead_wake_nobody(void **state)
{
    for (uint64_t pools_ahead = 0; pools_ahead < 2; pools_ahead++) {
        const uint64_t ahead[BOARD_POOL_WORDS] = {pools_ahead};
        struct mini mini;
        mini_start(&mini, &range_call, 1, NULL);
        mini_wait_idle(&mini);
        board_promise(&mini.board, UINT64_MAX, ahead);
        uint32_t before = event_count_sample(mini.board.shard_events);
        uint32_t grain = mini_push(&mini, 0, BOARD_READY, mini_i64(3));
        mini_tell(&mini);
        while (load_relaxed_u64(&mini.lane.counters->rows_run) < 1 ||
               load_relaxed_u64(&mini.lane.counters->state) != LANE_IDLE)
            cpu_pause();
        uint32_t moved = (event_count_sample(mini.board.shard_events) - before) / 2;
        assert_true(pools_ahead ? moved == 0 : moved > 0);
        for (int64_t ordinal = 0; ordinal < 3; ordinal++)
            mini_expect(&mini, COMPLETION_CHILD, grain);
        mini_expect(&mini, COMPLETION_ANSWER, grain);
        mini_stop(&mini);
    }
}

static void test_groups_by_append(void **state)
{
    struct mini mini;
    struct mini_call groups = {"split", .output_count = 2,
                               .output_kinds = {SHEAF_LIST_OF(SHEAF_TEXT, 1), SHEAF_LIST_OF(SHEAF_I64, 1)},
                               .group_outputs = 3};
    struct mini_call lists = groups;
    lists.group_outputs = 0;
    struct mini_call calls[] = {groups, lists};
    mini_start(&mini, calls, 2, NULL);
    uint32_t grain = mini_push(&mini, 0, BOARD_READY, mini_text(&mini, "one three"));
    mini_tell(&mini);
    struct completion record = mini_expect(&mini, COMPLETION_CHILD, grain);
    assert_int_equal(mini.record.child_count, 2);
    assert_memory_equal(mini_data(&mini, &record.values[0]), "one", 3);
    assert_int_equal(mini_i64_of(&record, 1), 3);
    record = mini_expect(&mini, COMPLETION_CHILD, grain);
    assert_int_equal(record.ordinal, 1);
    assert_memory_equal(mini_data(&mini, &record.values[0]), "three", 5);
    record = mini_expect(&mini, COMPLETION_ANSWER, grain);
    assert_int_equal(record.child_count, 2);

    grain = mini_push(&mini, 0, BOARD_READY, mini_text(&mini, "one !"));
    mini_tell(&mini);
    record = mini_expect(&mini, COMPLETION_FAIL, grain);
    assert_int_equal(record.class_id, SHEAF_CLASS_CONTRACT);
    assert_text(&record, "differ in length");

    /* The same as lists: one block each; the empty list needs none. */
    grain = mini_push(&mini, 1, BOARD_READY, mini_text(&mini, "one ! three"));
    mini_tell(&mini);
    record = mini_expect(&mini, COMPLETION_ANSWER, grain);
    assert_int_equal(record.values[0].length, 3);
    assert_int_equal(record.values[1].length, 2);
    struct value_ref third;
    memcpy(&third, (const char *)mini_data(&mini, &record.values[0]) + 16 + 64, sizeof third);
    assert_memory_equal(mini_data(&mini, &third), "three", 5);
    struct value_ref empty = {.kind = SHEAF_TEXT};
    grain = mini_push(&mini, 1, BOARD_READY, empty);
    mini_tell(&mini);
    record = mini_expect(&mini, COMPLETION_ANSWER, grain);
    assert_int_equal(record.values[0].kind, SHEAF_LIST_OF(SHEAF_TEXT, 1));
    assert_int_equal(record.values[0].segment, VALUE_INLINE);
    mini_stop(&mini);
}

static void test_broken_contracts_cost_their_row(void **state)
{
    static const char *const causes[] = {"neither answered nor failed", "answered twice", "2 values", "must be i64",
                                         "scope 2"};
    struct mini mini;
    mini_start(&mini, &trouble_call, 1, NULL);
    for (int64_t mode = 0; mode < 5; mode++) {
        uint32_t grain = mini_push(&mini, 0, BOARD_READY, mini_i64(mode));
        mini_tell(&mini);
        struct completion record = mini_expect(&mini, COMPLETION_FAIL, grain);
        assert_int_equal(record.class_id, SHEAF_CLASS_CONTRACT);
        assert_int_equal(record.scope, SHEAF_SCOPE_ITEM);
        assert_text(&record, causes[mode]);
    }
    uint32_t grain = mini_push(&mini, 0, BOARD_READY, mini_i64(5));
    mini_tell(&mini);
    struct completion record = mini_expect(&mini, COMPLETION_RAISED, grain);
    assert_int_equal(record.class_id, SHEAF_CLASS_OPERATOR);
    assert_text(&record, "raised on purpose");
    grain = mini_push(&mini, 0, BOARD_READY, mini_i64(6));
    mini_tell(&mini);
    record = mini_expect(&mini, COMPLETION_FAIL, grain);
    assert_int_equal(record.class_id, SHEAF_CLASS_MALFORMED);
    assert_string_equal(record.text, "cause 6");
    grain = mini_push(&mini, 0, BOARD_READY, mini_i64(7));
    mini_tell(&mini);
    record = mini_expect(&mini, COMPLETION_LOG, grain);
    assert_string_equal(record.text, "row 7");
    mini_expect(&mini, COMPLETION_LOG, COMPLETION_NO_GRAIN);
    mini_expect(&mini, COMPLETION_ANSWER, grain);
    mini_stop(&mini);
}

static void test_bad_references_raise(void **state)
{
    struct mini mini;
    mini_start(&mini, &id_call, 1, NULL);
    int64_t numbers[] = {1, 2, 3};
    struct value_ref short_list = mini_i64_list(&mini, numbers, 3, "");
    short_list.length = 2;
    struct value_ref bad[] = {
        short_list,
        {.kind = SHEAF_TEXT, .segment = MINI_INPUTS, .offset = UINT64_MAX - 3, .length = 100},
        {.kind = SHEAF_TEXT, .segment = MINI_INPUTS, .offset = 64, .length = UINT64_MAX},
        {.kind = SHEAF_TEXT, .segment = 77, .length = 1},
        {.kind = SHEAF_BYTES, .segment = MINI_INPUTS, .offset = 8, .length = 1, .prefix = 16},
        {.kind = SHEAF_LIST_OF(SHEAF_I64, 1), .segment = MINI_INPUTS, .offset = 128, .length = 1u << 30},
        {.kind = SHEAF_TENSOR, .segment = MINI_INPUTS, .offset = 256, .length = 1, .prefix = 8},
        {.kind = 14},
    };
    for (size_t at = 0; at < sizeof bad / sizeof bad[0]; at++) {
        uint32_t grain = mini_push(&mini, 0, BOARD_READY, bad[at]);
        mini_tell(&mini);
        struct completion record = mini_expect(&mini, COMPLETION_RAISED, grain);
        assert_int_equal(record.class_id, SHEAF_CLASS_CONTRACT);
    }
    mini_stop(&mini);
}

/* A word that names a row of another Call: the row is given back unrun, and the shard is told. */
static void test_row_of_another_call_is_given_back(void **state)
{
    struct mini mini;
    struct mini_call calls[] = {id_call, upper_call};
    mini_start(&mini, calls, 2, NULL);
    struct dispatch dispatch = {.number = 1,
                                .key = 1,
                                .grain = mini.next_grain++,
                                .call = 1,
                                .home = DISPATCH_HOME_ANY,
                                .input_count = 1,
                                .depth = 1,
                                .inputs = {mini_i64(7)}};
    dispatch_write(&mini.board.dispatches, &dispatch);
    uint64_t position;
    assert_int_equal(ready_ring_push(&mini.producers[0][BOARD_READY], dispatch.grain, 1, &position), 0);
    mini_tell(&mini);
    mini_expect(&mini, COMPLETION_RELEASED, dispatch.grain);
    assert_int_equal(load_relaxed_u64(&mini.lane.counters->damaged), 1);
    uint32_t grain = mini_push(&mini, 0, BOARD_READY, mini_i64(8));
    mini_tell(&mini);
    mini_expect(&mini, COMPLETION_ANSWER, grain);
    mini_stop(&mini);
}

static void test_crash_leaves_its_row_running(void **state)
{
    struct mini mini;
    mini_start(&mini, &trouble_call, 1, NULL);
    uint32_t grains[64];
    for (int64_t at = 0; at < 64; at++)
        grains[at] = mini_push(&mini, 0, BOARD_READY, mini_i64(at == 20 ? 13 : 100 + at));
    mini_tell(&mini);
    int status = mini_reap(&mini);
    assert_true(WIFSIGNALED(status));
    uint32_t running = 0;
    for (uint32_t at = 0; at < mini.lane.claims.row_count; at++) {
        struct claim_row row = claim_page_read(&mini.lane.claims, at);
        if (row.state != CLAIM_RUNNING)
            continue;
        running++;
        assert_int_equal(row.grain, grains[20]);
        assert_true(row.since_ns > 0);
    }
    assert_int_equal(running, 1);
    for (uint32_t at = 0; at < 20; at++)
        mini_expect(&mini, COMPLETION_ANSWER, grains[at]);
    mini_release(&mini);
}

static void test_long_row_hears_that_it_is_unwanted(void **state)
{
    struct mini mini;
    mini_start(&mini, &trouble_call, 1, NULL);
    uint32_t grain = mini_push(&mini, 0, BOARD_READY, mini_i64(14));
    mini_tell(&mini);
    uint32_t row = CLAIM_ROW_NONE;
    while (row == CLAIM_ROW_NONE || claim_page_read(&mini.lane.claims, row).state != CLAIM_RUNNING)
        row = claim_page_find(&mini.lane.claims, grain, 1);
    mini_order(&mini, CONTROL_UNWANTED, grain, 1);
    mini_expect(&mini, COMPLETION_RELEASED, grain);
    mini_stop(&mini);
}

static void test_cancelled_rows_do_not_run(void **state)
{
    struct mini mini;
    struct mini_call calls[] = {trouble_call};
    mini_start(&mini, calls, 1, NULL);
    /* 100 quick rows, so that runs of several are claimed, then one that would kill the worker if it ran. */
    uint32_t first = mini_push(&mini, 0, BOARD_READY, mini_i64(14));
    mini_tell(&mini);
    uint32_t row = CLAIM_ROW_NONE;
    while (row == CLAIM_ROW_NONE || claim_page_read(&mini.lane.claims, row).state != CLAIM_RUNNING)
        row = claim_page_find(&mini.lane.claims, first, 1);
    uint32_t deadly = mini_push(&mini, 0, BOARD_READY, mini_i64(13));
    uint64_t position = mini.producers[0][BOARD_READY].tail - 1;
    assert_int_equal(ready_ring_cancel(&mini.producers[0][BOARD_READY], deadly, 1, position), READY_CANCEL_DONE);
    uint32_t last = mini_push(&mini, 0, BOARD_READY, mini_i64(200));
    mini_order(&mini, CONTROL_UNWANTED, first, 1);
    mini_tell(&mini);
    mini_expect(&mini, COMPLETION_RELEASED, first);
    mini_expect(&mini, COMPLETION_ANSWER, last);
    mini_stop(&mini);
}

static void test_batches(void **state)
{
    struct mini mini;
    struct mini_call batch = {"batch", SHEAF_OPERATOR_BATCH, .batch_rows = 8, .output_count = 1,
                              .output_kinds = {SHEAF_I64}};
    mini_start(&mini, &batch, 1, NULL);
    uint32_t grains[8];
    for (int64_t at = 0; at < 8; at++)
        grains[at] = mini_push(&mini, 0, BOARD_READY, mini_i64(at));
    mini_tell(&mini);
    for (int64_t at = 0; at < 8; at++) {
        struct completion record = mini_expect(&mini, COMPLETION_ANSWER, grains[at]);
        assert_int_equal(mini_i64_of(&record, 0), at * 100 + 8);
        assert_int_equal(record.rows_run, at == 0 ? 8 : 0);
    }
    assert_int_equal(mini.record.row_count, 8);
    /* One raises, then one is left out: nobody's answer counts. */
    for (int64_t culprit = 13; culprit <= 14; culprit++) {
        for (int64_t at = 0; at < 4; at++)
            grains[at] = mini_push(&mini, 0, BOARD_READY, mini_i64(at == 2 ? culprit : at));
        mini_tell(&mini);
        for (int64_t at = 0; at < 4; at++) {
            struct completion record = mini_expect(&mini, COMPLETION_RAISED, grains[at]);
            assert_int_equal(record.class_id, culprit == 13 ? SHEAF_CLASS_OPERATOR : SHEAF_CLASS_CONTRACT);
        }
    }
    /* Isolation: whole batches, by number; a suspect alone. */
    struct dispatch row = {.home = DISPATCH_HOME_ANY, .input_count = 1, .inputs = {mini_i64(1)}, .batch = 5};
    for (int at = 0; at < 5; at++) {
        row.batch = at < 2 ? 5 : 6;
        row.flags = at == 4 ? DISPATCH_ALONE : 0;
        grains[at] = mini_push_dispatch(&mini, BOARD_ISOLATION, row);
    }
    mini_tell(&mini);
    static const int64_t sizes[] = {2, 2, 2, 2, 1};
    for (int at = 0; at < 5; at++) {
        struct completion record = mini_expect(&mini, COMPLETION_ANSWER, grains[at]);
        assert_int_equal(mini_i64_of(&record, 0), 100 + sizes[at]);
    }
    /* Nothing goes with a suspect, whatever comes behind it. */
    row.batch = 0;
    for (int at = 0; at < 3; at++) {
        row.flags = at == 0 ? DISPATCH_ALONE : 0;
        grains[at] = mini_push_dispatch(&mini, BOARD_RETRY, row);
    }
    mini_tell(&mini);
    for (int at = 0; at < 3; at++) {
        struct completion record = mini_expect(&mini, COMPLETION_ANSWER, grains[at]);
        assert_int_equal(mini_i64_of(&record, 0), at == 0 ? 101 : 102);
    }
    /* Alone and without an answer: its own fault. */
    grains[0] = mini_push(&mini, 0, BOARD_READY, mini_i64(14));
    mini_tell(&mini);
    struct completion record = mini_expect(&mini, COMPLETION_FAIL, grains[0]);
    assert_int_equal(record.class_id, SHEAF_CLASS_CONTRACT);
    mini_stop(&mini);
}

static uint32_t push_suspect(struct mini *mini, uint32_t home, int64_t number)
{
    struct dispatch dispatch = {.flags = DISPATCH_ALONE, .home = home, .input_count = 1, .inputs = {mini_i64(number)}};
    dispatch.batch = mini->next_grain + 1;
    return mini_push_dispatch(mini, BOARD_ISOLATION, dispatch);
}

static uint32_t suspects_left(struct mini *mini)
{
    struct ready_ring ring = board_ring(&mini->board, 0, BOARD_ISOLATION);
    return ready_ring_count_ready(&ring);
}

/* A fresh process takes a suspect before anything else and with nothing else. When it has run a row it leaves those of
 * others alone, and ends itself for one that names it. */
static void test_suspects_get_a_fresh_process(void **state)
{
    struct mini mini;
    mini_start(&mini, &trouble_call, 1, NULL);
    uint32_t suspect = push_suspect(&mini, 0, 100), grains[64];
    for (int64_t at = 0; at < 64; at++)
        grains[at] = mini_push(&mini, 0, BOARD_READY, mini_i64(200 + at));
    mini_tell(&mini);
    mini_expect(&mini, COMPLETION_ANSWER, suspect);
    for (int64_t at = 0; at < 64; at++)
        mini_expect(&mini, COMPLETION_ANSWER, grains[at]);

    push_suspect(&mini, 1, 101); /* the replacement of another */
    uint32_t grain = mini_push(&mini, 0, BOARD_READY, mini_i64(300));
    mini_tell(&mini);
    mini_expect(&mini, COMPLETION_ANSWER, grain);
    assert_int_equal(suspects_left(&mini), 1);

    push_suspect(&mini, 0, 102);
    for (int64_t at = 0; at < 8; at++)
        mini_push(&mini, 0, BOARD_READY, mini_i64(400 + at));
    mini_tell(&mini);
    int status = mini_reap(&mini);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(suspects_left(&mini), 2);
    for (uint32_t at = 0; at < mini.lane.claims.row_count; at++)
        assert_int_equal(claim_page_read(&mini.lane.claims, at).state, CLAIM_FREE);
    mini_release(&mini);
}

static void test_memory_is_bounded_and_reused(void **state)
{
    struct mini mini;
    mini_start(&mini, &heavy_call, 1, &(struct mini_options){.chunk_count = 2, .outputs_bytes = 32 << 20});
    unsigned seed = (unsigned)getpid();
    print_message("seed %u\n", seed);
    for (int round = 0; round < 2000; round++) {
        uint32_t bytes = 1 + (uint32_t)rand_r(&seed) % (round % 10 == 0 ? 3000000 : 60000);
        uint32_t grain = mini_push(&mini, 0, BOARD_READY, mini_i64(bytes));
        mini_tell(&mini);
        struct completion record = mini_expect(&mini, COMPLETION_ANSWER, grain);
        const struct value_ref *ref = &record.values[0];
        assert_int_equal(ref->length, bytes);
        const char *data = mini_data(&mini, ref);
        assert_int_equal(data[0], 2);
        assert_int_equal(data[bytes - 1], 2);
        assert_string_equal(data - ref->prefix, "image/jpeg");
        mini_free(&mini, ref);
    }
    print_message("%u of 16 chunks were wanted\n", mini.granted_chunks);
    assert_true(mini.granted_chunks < 16);
    /* A row that asks for more than there can ever be hears so. */
    uint32_t grain = mini_push(&mini, 0, BOARD_READY, mini_i64(40 << 20));
    mini_tell(&mini);
    struct completion record = mini_expect(&mini, COMPLETION_FAIL, grain);
    assert_int_equal(record.class_id, SHEAF_CLASS_RESOURCE_EXHAUSTED);
    assert_int_equal(load_relaxed_u64(&mini.lane.counters->heap_bytes), 0);
    mini_stop(&mini);
}

static void test_tensor_is_taken_over_with_its_shape(void **state)
{
    struct mini mini;
    struct mini_call calls[] = {{"tensor", .output_count = 1, .output_kinds = {SHEAF_TENSOR}}, id_call};
    mini_start(&mini, calls, 2, NULL);
    uint32_t grain = mini_push(&mini, 0, BOARD_READY, mini_i64(0));
    mini_tell(&mini);
    struct value_ref ref = mini_expect(&mini, COMPLETION_ANSWER, grain).values[0];
    struct sheaf_tensor shape;
    memcpy(&shape, (const char *)mini_data(&mini, &ref) - ref.prefix, sizeof shape);
    assert_int_equal(shape.rank, 3);
    assert_int_equal(shape.shape[1], 100);
    /* And read back by the next operator. */
    grain = mini_push(&mini, 1, BOARD_READY, ref);
    mini_tell(&mini);
    struct value_ref copy = mini_expect(&mini, COMPLETION_ANSWER, grain).values[0];
    assert_int_not_equal(copy.offset, ref.offset);
    assert_memory_equal(mini_data(&mini, &copy), mini_data(&mini, &ref), 6000);
    memcpy(&shape, (const char *)mini_data(&mini, &copy) - copy.prefix, sizeof shape);
    assert_int_equal(shape.stride_bytes[0], 300);
    mini_stop(&mini);
}

static uint32_t push_page(struct mini *mini, uint64_t parent_key, uint32_t home)
{
    return mini_push_dispatch(
        mini, BOARD_READY,
        (struct dispatch){.parent_key = parent_key, .home = home, .input_count = 1, .inputs = {mini_i64(0)}});
}

/* The shard was told something since `seen`, or is now. */
static void wait_for_bump(struct mini *mini, uint32_t seen)
{
    if (event_count_announce(mini->board.shard_events, seen))
        assert_int_equal(event_count_wait(mini->board.shard_events, seen, UINT64_C(10000000000)), 0);
    assert_int_not_equal(event_count_sample(mini->board.shard_events), seen);
}

static void test_state_is_preferred_and_evicted(void **state)
{
    struct mini mini;
    struct mini_call parent = {"parent", SHEAF_OPERATOR_STATE_OF_PARENT, .output_count = 1,
                               .output_kinds = {SHEAF_I64}};
    mini_start(&mini, &parent, 1, NULL);
    uint32_t opened = push_page(&mini, 7, DISPATCH_HOME_ANY);
    mini_tell(&mini);
    mini_expect(&mini, COMPLETION_ANSWER, opened);
    /* One of the open parent goes before one of no parent in particular; one at home elsewhere is last, and waits. */
    uint32_t foreign = push_page(&mini, 8, 1), any = push_page(&mini, 9, DISPATCH_HOME_ANY);
    uint32_t same = push_page(&mini, 7, DISPATCH_HOME_ANY);
    mini_tell(&mini);
    mini_expect(&mini, COMPLETION_ANSWER, same);
    mini_expect(&mini, COMPLETION_ANSWER, any);
    mini_expect(&mini, COMPLETION_ANSWER, foreign); /* nobody else came for it */
    assert_true(load_relaxed_u64(&mini.lane.counters->idle_ns) > 10000000);

    mini_wait_idle(&mini);
    uint32_t seen = event_count_sample(mini.board.shard_events);
    mini_order(&mini, CONTROL_EVICT, 0, 7);
    mini_tell(&mini);
    wait_for_bump(&mini, seen);
    struct completion record = mini_expect(&mini, COMPLETION_LOG, COMPLETION_NO_GRAIN);
    assert_string_equal(record.text, "evicted 7");
    record = mini_expect(&mini, COMPLETION_EVICTED, COMPLETION_NO_GRAIN);
    assert_int_equal(record.key, 7);
    mini_order(&mini, CONTROL_EVICT, 0, 12345); /* nothing is kept under it: acknowledged all the same */
    mini_tell(&mini);
    record = mini_expect(&mini, COMPLETION_EVICTED, COMPLETION_NO_GRAIN);
    assert_int_equal(record.key, 12345);
    mini_stop(&mini);
}

static void test_much_foreign_work_is_taken(void **state)
{
    struct mini mini;
    struct mini_call parent = {"parent", SHEAF_OPERATOR_STATE_OF_PARENT, .output_count = 1,
                               .output_kinds = {SHEAF_I64}};
    mini_start(&mini, &parent, 1, NULL);
    uint32_t first = 0;
    for (uint32_t at = 0; at < 100; at++) {
        uint32_t grain = push_page(&mini, 8, 1);
        first = at == 0 ? grain : first;
    }
    mini_tell(&mini);
    mini_expect(&mini, COMPLETION_ANSWER, first);
    /* Its parent is open here now, so the rest follows wherever it is at home. */
    for (uint32_t at = 1; at < 100; at++)
        mini_expect(&mini, COMPLETION_ANSWER, first + at);
    mini_stop(&mini);
}

/* A shard may sleep with work that found no room in a ring: whoever finds the ring empty wakes it. */
static void test_overflow_wakes_the_shard(void **state)
{
    struct mini mini;
    mini_start(&mini, &id_call, 1, NULL);
    uint32_t grain = mini_push(&mini, 0, BOARD_READY, mini_i64(1));
    mini_tell(&mini);
    mini_expect(&mini, COMPLETION_ANSWER, grain);
    mini_wait_idle(&mini);
    store_release_u32(&mini.board.calls[0].overflow, 1);
    uint32_t seen = event_count_sample(mini.board.shard_events);
    mini_tell(&mini);
    wait_for_bump(&mini, seen);
    mini_stop(&mini);
}

static void test_file_descriptors(void **state)
{
    struct mini mini;
    struct mini_call calls[] = {{"first_byte", .output_count = 1, .output_kinds = {SHEAF_I64}}, id_call};
    mini_start(&mini, calls, 2, NULL);
    uint32_t grain = mini_push(&mini, 0, BOARD_READY, mini_file(&mini, "some/path", 65));
    mini_tell(&mini);
    struct completion record = mini_expect(&mini, COMPLETION_ANSWER, grain);
    assert_int_equal(mini_i64_of(&record, 0), 65);
    grain = mini_push(&mini, 0, BOARD_READY, mini_file(&mini, "not/there", 500));
    mini_tell(&mini);
    record = mini_expect(&mini, COMPLETION_FAIL, grain);
    assert_text(&record, "not/there: status -2");
    /* Passed on, it is still a file that can be opened. */
    grain = mini_push(&mini, 1, BOARD_READY, mini_file(&mini, "some/path", 66));
    mini_tell(&mini);
    struct value_ref passed = mini_expect(&mini, COMPLETION_ANSWER, grain).values[0];
    assert_int_equal(passed.length, 1000);
    grain = mini_push(&mini, 0, BOARD_READY, passed);
    mini_tell(&mini);
    record = mini_expect(&mini, COMPLETION_ANSWER, grain);
    assert_int_equal(mini_i64_of(&record, 0), 66);
    mini_stop(&mini);
}

static void test_refusals_are_one_line(void **state)
{
    struct mini mini;
    struct mini_call calls[] = {{"refused", .output_count = 1}};
    mini_start(&mini, calls, 1, &(struct mini_options){.expect_error = true});
    assert_string_equal(mini.error, "step refused: refused cannot be opened: there is no such library");
    assert_true(WIFEXITED(mini_reap(&mini)));
    mini_release(&mini);
    calls[0].operator_name = "unheard";
    mini_start(&mini, calls, 1, &(struct mini_options){.expect_error = true});
    assert_non_null(strstr(mini.error, "'unheard'"));
    assert_true(WIFEXITED(mini_reap(&mini)));
    mini_release(&mini);
}

static void test_many_rows_in_order(void **state)
{
    struct mini mini;
    mini_start(&mini, &id_call, 1, NULL);
    for (uint32_t round = 0; round < 20; round++) {
        uint32_t first = 0;
        for (uint32_t at = 0; at < 1000; at++) {
            uint32_t grain = mini_push(&mini, 0, BOARD_READY, mini_i64(at));
            first = at == 0 ? grain : first;
        }
        mini_tell(&mini);
        for (uint32_t at = 0; at < 1000; at++) {
            struct completion record = mini_expect(&mini, COMPLETION_ANSWER, (first + at) % MINI_GRAINS);
            assert_int_equal(mini_i64_of(&record, 0), at);
        }
    }
    assert_int_equal(load_relaxed_u64(&mini.lane.counters->rows_run), 20000);
    mini_stop(&mini);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_come_back),
        cmocka_unit_test(test_a_damaged_input_is_told),
        cmocka_unit_test(test_list_passes_whole),
        cmocka_unit_test(test_children_stream),
        cmocka_unit_test(test_stop_ends_the_wait_for_room),
        cmocka_unit_test(test_bursts_cost_few_wakes),
        cmocka_unit_test(test_groups_by_append),
        cmocka_unit_test(test_broken_contracts_cost_their_row),
        cmocka_unit_test(test_bad_references_raise),
        cmocka_unit_test(test_row_of_another_call_is_given_back),
        cmocka_unit_test(test_crash_leaves_its_row_running),
        cmocka_unit_test(test_long_row_hears_that_it_is_unwanted),
        cmocka_unit_test(test_cancelled_rows_do_not_run),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_suspects_get_a_fresh_process),
        cmocka_unit_test(test_memory_is_bounded_and_reused),
        cmocka_unit_test(test_tensor_is_taken_over_with_its_shape),
        cmocka_unit_test(test_state_is_preferred_and_evicted),
        cmocka_unit_test(test_much_foreign_work_is_taken),
        cmocka_unit_test(test_overflow_wakes_the_shard),
        cmocka_unit_test(test_promised_looks_spare_wakes),
        cmocka_unit_test(test_children_of_a_pool_ahead_wake_nobody),
        cmocka_unit_test(test_file_descriptors),
        cmocka_unit_test(test_refusals_are_one_line),
        cmocka_unit_test(test_many_rows_in_order),
    };
    return cmocka_run_group_tests_name("worker", tests, NULL, NULL);
}
