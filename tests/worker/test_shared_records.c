/* SPDX-License-Identifier: Apache-2.0 */
/* What of a worker's rows and children shares a record, and that each is told as if it had one of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <sheaf/operator.h>

#include "tests/worker/mini_shard.h"

enum { ROWS = 150 };

static bool fails_at(uint32_t at)
{
    return at == 0 || at == 70 || at == 71 || at == ROWS - 1;
}

/* Answers share records between rows that end otherwise; which come in their places. */
static void test_answers_share_records(void **state)
{
    struct mini mini;
    struct mini_call batch = {"batch", SHEAF_OPERATOR_BATCH, .batch_rows = ROWS, .output_count = 1,
                              .output_kinds = {SHEAF_I64}};
    mini_start(&mini, &batch, 1, &(struct mini_options){.claim_rows = 256});
    uint32_t grains[ROWS], told = 0, before = mini.records_read;
    for (uint32_t at = 0; at < ROWS; at++)
        grains[at] = mini_push(&mini, 0, BOARD_READY, mini_i64(fails_at(at) ? 15 : 100 + at));
    mini_tell(&mini);
    for (uint32_t at = 0; at < ROWS; at++) {
        struct completion record = mini_expect(&mini, fails_at(at) ? COMPLETION_FAIL : COMPLETION_ANSWER, grains[at]);
        told += record.closed != BATCH_OPEN;
        if (!fails_at(at))
            assert_int_equal(mini_i64_of(&record, 0), (100 + at) * 100 + ROWS);
    }
    assert_int_equal(told, 1);
    /* 69 answers in two records, 77 in two: 64 share one at most. */
    assert_int_equal(mini.records_read - before, 4 + 2 + 2);
    mini_stop(&mini);
}

/* More children than share a record, of two groups one of which nobody expands. */
static void test_many_appended_children(void **state)
{
    enum { WORDS = 100 };
    struct mini mini;
    struct mini_call both = {"split", .output_count = 2,
                             .output_kinds = {SHEAF_LIST_OF(SHEAF_TEXT, 1), SHEAF_LIST_OF(SHEAF_I64, 1)},
                             .group_outputs = 3};
    struct mini_call one = both;
    one.unexpanded = 2;
    struct mini_call calls[] = {both, one};
    mini_start(&mini, calls, 2, NULL);
    char text[4 * WORDS + 1] = "";
    for (uint32_t at = 0; at < WORDS; at++)
        snprintf(text + 4 * (size_t)at, sizeof text - 4 * (size_t)at, "%03u ", at);
    for (uint32_t call = 0; call < 2; call++) {
        uint32_t before = mini.records_read;
        uint32_t grain = mini_push(&mini, call, BOARD_READY, mini_text(&mini, text));
        mini_tell(&mini);
        for (uint32_t at = 0; at < WORDS; at++) {
            struct completion record = mini_expect(&mini, COMPLETION_CHILD, grain);
            char word[4];
            snprintf(word, sizeof word, "%03u", at);
            assert_int_equal(record.ordinal, at);
            assert_int_equal(record.value_count, 2);
            assert_memory_equal(mini_data(&mini, &record.values[0]), word, 3);
            assert_int_equal(record.values[1].kind, call == 0 ? SHEAF_I64 : SHEAF_NONE);
        }
        struct completion record = mini_expect(&mini, COMPLETION_ANSWER, grain);
        assert_int_equal(record.child_count, WORDS);
        assert_int_equal(mini.records_read - before, 5); /* 32 children of two values share one at most */
    }
    mini_stop(&mini);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_share_records),
        cmocka_unit_test(test_many_appended_children),
    };
    return cmocka_run_group_tests_name("shared records", tests, NULL, NULL);
}
