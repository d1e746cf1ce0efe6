/* SPDX-License-Identifier: Apache-2.0 */
/* The ready ring and the claim page, one process: every transition of the protocol by itself. */
#include "cmocka_all.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shm/ready_ring.h"
#include "shm/ready_word.h"

#define CAPACITY 8u
#define GRAINS 64u
#define ROWS 16u

struct stage {
    struct ready_ring ring;
    struct ready_producer producer;
    struct dispatch_table table;
    struct claim_page page;
};

static int set_up(void **state)
{
    struct stage *stage = calloc(1, sizeof(*stage));
    stage->ring.slots = aligned_alloc(FALSE_SHARING_BYTES, ready_ring_slots_bytes(CAPACITY) + FALSE_SHARING_BYTES / 2);
    memset(stage->ring.slots, 0xa5, ready_ring_slots_bytes(CAPACITY)); /* stale memory: open makes it good */
    stage->ring.notice = calloc(1, sizeof(*stage->ring.notice));
    stage->ring.capacity = CAPACITY;
    stage->ring.salt = 7;
    stage->table = (struct dispatch_table){calloc(GRAINS, sizeof(struct dispatch)), GRAINS};
    stage->page = (struct claim_page){calloc(ROWS, sizeof(struct claim_row_shared)), ROWS};
    assert_int_equal(ready_producer_open(&stage->producer, &stage->ring), 0);
    *state = stage;
    return 0;
}

static int tear_down(void **state)
{
    struct stage *stage = *state;
    ready_producer_close(&stage->producer);
    free(stage->ring.slots);
    free(stage->ring.notice);
    free(stage->table.slots);
    free(stage->page.rows);
    free(stage);
    return 0;
}

static uint64_t push(struct stage *stage, uint32_t grain, uint64_t number)
{
    struct dispatch dispatch = {.grain = grain, .number = number, .key = grain * 10u, .parent_key = grain / 4};
    uint64_t position = UINT64_MAX;
    dispatch_write(&stage->table, &dispatch);
    assert_int_equal(ready_ring_push(&stage->producer, grain, number, &position), 0);
    return position;
}

static struct ready_taken claim(struct stage *stage, uint32_t worker, uint32_t rows_max, struct ready_claim *claims)
{
    struct ready_wish wish = {.rows_max = rows_max};
    return ready_ring_claim(&stage->ring, &stage->table, &stage->page, worker, &wish, claims);
}

static void rows_come_out_in_order(void **state)
{
    struct stage *stage = *state;
    struct ready_claim claims[ROWS];
    for (uint32_t round = 0; round < 5000; round++) { /* the 11-bit lap wraps */
        for (uint32_t i = 0; i < 5; i++)
            push(stage, i, round);
        assert_int_equal(ready_ring_count_ready(&stage->ring), 5);
        struct ready_taken taken = claim(stage, 3, ROWS, claims);
        assert_int_equal(taken.claimed, 5);
        assert_int_equal(taken.damaged, 0);
        for (uint32_t i = 0; i < 5; i++) {
            assert_int_equal(claims[i].dispatch.grain, i);
            assert_int_equal(claims[i].dispatch.number, round);
            assert_int_equal(claims[i].dispatch.key, i * 10u);
            assert_false(claims[i].cancelled);
            assert_int_equal(claim_page_start(&stage->page, claims[i].row, i, round, 1), 0);
            claim_page_release(&stage->page, claims[i].row);
        }
        assert_false(ready_ring_has_ready(&stage->ring));
        assert_int_equal(load_relaxed_u64(&stage->ring.slots->head), stage->producer.tail);
        assert_int_equal(ready_ring_check(&stage->producer), 0);
    }
}

/* Rows that are put are seen by nobody until they are shown. */
static void rows_are_shown_together(void **state)
{
    struct stage *stage = *state;
    struct ready_claim claims[CAPACITY];
    uint64_t position;
    for (uint32_t grain = 0; grain < 3; grain++) {
        struct dispatch dispatch = {.grain = grain, .number = 1};
        dispatch_write(&stage->table, &dispatch);
        assert_int_equal(ready_ring_put(&stage->producer, grain, 1, &position), 0);
        assert_int_equal(position, grain);
        assert_int_equal(ready_ring_find(&stage->producer, grain, 1, position), READY_WAITING);
        assert_int_equal(ready_ring_waiting(&stage->ring), 0);
        assert_int_equal(claim(stage, 0, CAPACITY, claims).claimed, 0);
    }
    ready_ring_show(&stage->producer);
    assert_int_equal(claim(stage, 0, CAPACITY, claims).claimed, 3);
}

static void a_full_ring_says_so(void **state)
{
    struct stage *stage = *state;
    uint64_t position = 99;
    for (uint32_t i = 0; i < CAPACITY; i++)
        push(stage, i, 0);
    assert_int_equal(ready_ring_push(&stage->producer, 20, 0, &position), -EAGAIN);
    assert_int_equal(position, 99);
    assert_false(ready_ring_has_room(&stage->producer));
    struct ready_claim claims[ROWS];
    assert_int_equal(claim(stage, 0, 1, claims).claimed, 1);
    assert_true(ready_ring_has_room(&stage->producer));
    assert_int_equal(push(stage, 20, 0), CAPACITY);
}

static bool parent_is_one(void *context, const struct dispatch_peek *peek)
{
    ++*(uint32_t *)context;
    return peek->parent_key == 1;
}

static void a_filter_takes_in_order_and_leaves_the_rest(void **state)
{
    struct stage *stage = *state;
    struct ready_claim claims[ROWS];
    uint32_t asked = 0;
    uint32_t order[] = {0, 4, 1, 5, 2, 6};
    for (uint32_t i = 0; i < 6; i++)
        push(stage, order[i], 0);
    struct ready_wish wish = {.rows_max = ROWS, .examined_max = 4, .wanted = parent_is_one, .context = &asked};
    struct ready_taken taken = ready_ring_claim(&stage->ring, &stage->table, &stage->page, 1, &wish, claims);
    assert_int_equal(taken.claimed, 2);
    assert_int_equal(taken.examined, 4);
    assert_int_equal(asked, 4);
    assert_int_equal(claims[0].dispatch.grain, 4);
    assert_int_equal(claims[1].dispatch.grain, 5);
    assert_int_equal(claim(stage, 1, ROWS, claims).claimed, 4);
    assert_int_equal(claims[0].dispatch.grain, 0);
    assert_int_equal(claims[3].dispatch.grain, 6);
}

static void a_full_page_claims_nothing_more(void **state)
{
    struct stage *stage = *state;
    struct ready_claim claims[ROWS];
    stage->page.row_count = 2;
    for (uint32_t i = 0; i < 4; i++)
        push(stage, i, 0);
    assert_int_equal(claim(stage, 0, ROWS, claims).claimed, 2);
    assert_int_equal(claim(stage, 0, ROWS, claims).claimed, 0);
    assert_int_equal(ready_ring_count_ready(&stage->ring), 2);
}

static void cancel_takes_a_waiting_row(void **state)
{
    struct stage *stage = *state;
    struct ready_claim claims[ROWS];
    uint64_t position = push(stage, 5, 9);
    push(stage, 6, 1);
    assert_int_equal(ready_ring_find(&stage->producer, 5, 9, position), READY_WAITING);
    assert_int_equal(ready_ring_cancel(&stage->producer, 5, 8, position), READY_CANCEL_GONE); /* another dispatch */
    assert_int_equal(ready_ring_cancel(&stage->producer, 5, 9, position), READY_CANCEL_DONE);
    assert_int_equal(ready_ring_cancel(&stage->producer, 5, 9, position), READY_CANCEL_GONE);
    assert_int_equal(claim(stage, 0, ROWS, claims).claimed, 1);
    assert_int_equal(claims[0].dispatch.grain, 6);
}

/* A slot as worker `worker` leaves it between C1 and C4. */
static void claim_by_hand(struct stage *stage, uint32_t worker, uint64_t position, uint32_t grain)
{
    uint64_t seed = ready_seed(stage->ring.salt, stage->producer.epoch);
    uint64_t lap = position / CAPACITY;
    shared_u64 *slot = &stage->ring.slots->words[position % CAPACITY];
    assert_true(swap_exact_u64(slot, ready_seal(ready_body(READY_SLOT_READY, lap, grain, 0), seed),
                               ready_seal(ready_body(READY_SLOT_CLAIMED, lap, grain, worker), seed)));
}

static void cancel_marks_a_claimed_row_once(void **state)
{
    struct stage *stage = *state;
    uint64_t position = push(stage, 5, 9);
    claim_by_hand(stage, 2, position, 5);
    assert_int_equal(ready_ring_find(&stage->producer, 5, 9, position), READY_TAKEN);
    assert_int_equal(ready_ring_cancel(&stage->producer, 5, 9, position), READY_CANCEL_MARKED);
    assert_int_equal(ready_ring_cancel(&stage->producer, 5, 9, position), READY_CANCEL_MARKED);
    assert_int_equal(ready_ring_check(&stage->producer), 0);
}

static bool cancel_the_first(void *context, const struct dispatch_peek *peek)
{
    struct stage *stage = context;
    if (peek->grain == 6) /* the worker is between C3 of 5 and C4 of 5 */
        assert_int_equal(ready_ring_cancel(&stage->producer, 5, 9, 0), READY_CANCEL_MARKED);
    return true;
}

static void a_worker_sees_the_cancel_when_it_unlinks(void **state)
{
    struct stage *stage = *state;
    struct ready_claim claims[ROWS];
    push(stage, 5, 9);
    push(stage, 6, 0);
    struct ready_wish wish = {.rows_max = 2, .wanted = cancel_the_first, .context = stage};
    struct ready_taken taken = ready_ring_claim(&stage->ring, &stage->table, &stage->page, 4, &wish, claims);
    assert_int_equal(taken.claimed, 2);
    assert_int_equal(taken.damaged, 0);
    assert_true(claims[0].cancelled);
    assert_false(claims[1].cancelled);
    assert_int_equal(ready_ring_find(&stage->producer, 5, 9, 0), READY_GONE);
}

static void the_producer_skips_a_stuck_slot(void **state)
{
    struct stage *stage = *state;
    struct ready_claim claims[ROWS];
    claim_by_hand(stage, 2, push(stage, 0, 0), 0);
    for (uint32_t round = 0; round < 3 * CAPACITY; round++) {
        push(stage, 1 + round % 7, round);
        assert_int_equal(claim(stage, 0, 1, claims).claimed, 1);
        claim_page_release(&stage->page, claims[0].row);
    }
    assert_int_equal(ready_ring_find(&stage->producer, 0, 0, 0), READY_TAKEN);
    assert_int_equal(ready_ring_check(&stage->producer), 0);
}

struct told {
    uint32_t count;
    uint32_t grain;
    uint64_t number;
};

static void note(void *context, uint32_t grain, uint64_t number)
{
    struct told *told = context;
    *told = (struct told){told->count + 1, grain, number};
}

static void a_sweep_finds_what_the_dead_had(void **state)
{
    struct stage *stage = *state;
    struct told told = {0};
    push(stage, 4, 1);
    claim_by_hand(stage, 2, push(stage, 5, 77), 5);
    claim_by_hand(stage, 3, push(stage, 6, 2), 6);
    assert_int_equal(ready_ring_sweep(&stage->producer, 2, note, &told), 1);
    assert_int_equal(told.count, 1);
    assert_int_equal(told.grain, 5);
    assert_int_equal(told.number, 77);
    assert_int_equal(ready_ring_sweep(&stage->producer, 2, note, &told), 0); /* idempotent */
    assert_int_equal(ready_ring_find(&stage->producer, 4, 1, 0), READY_WAITING);
    assert_int_equal(ready_ring_find(&stage->producer, 6, 2, 2), READY_TAKEN);
    assert_int_equal(ready_ring_check(&stage->producer), 0);
}

static void damage_is_seen_and_rebuilt(void **state)
{
    struct stage *stage = *state;
    struct ready_claim claims[ROWS];
    uint64_t position;
    uint64_t seed = ready_seed(stage->ring.salt, stage->producer.epoch);
    push(stage, 1, 0);
    push(stage, 2, 0);
    uint64_t forged = ready_seal(ready_body(READY_SLOT_READY, 0, GRAINS + 5, 0), seed); /* out of bounds, tag right */
    store_relaxed_u64(&stage->ring.slots->words[0], forged);
    store_relaxed_u64(&stage->ring.slots->words[1], load_relaxed_u64(&stage->ring.slots->words[1]) ^ 1);
    struct ready_taken taken = claim(stage, 0, ROWS, claims);
    assert_int_equal(taken.claimed, 0);
    assert_int_equal(taken.damaged, 2);
    assert_int_equal(ready_ring_check(&stage->producer), -EBADMSG);
    store_relaxed_u64(&stage->ring.slots->words[2], 12345);
    assert_int_equal(ready_ring_push(&stage->producer, 3, 0, &position), -EBADMSG);
    ready_ring_rebuild(&stage->producer);
    assert_int_equal(ready_ring_check(&stage->producer), 0);
    assert_int_equal(claim(stage, 0, ROWS, claims).claimed, 0);
    push(stage, 3, 1);
    assert_int_equal(claim(stage, 0, ROWS, claims).claimed, 1);
    assert_int_equal(claims[0].dispatch.grain, 3);
}

static void a_spoiled_head_hides_nothing_for_good(void **state)
{
    struct stage *stage = *state;
    struct ready_claim claims[ROWS];
    push(stage, 1, 0);
    store_relaxed_u64(&stage->ring.slots->head, UINT64_MAX - 3);
    assert_int_equal(claim(stage, 0, 1, claims).claimed, 1); /* nonsense: the whole ring is looked at */
    push(stage, 2, 0);
    store_relaxed_u64(&stage->ring.slots->head, stage->producer.tail); /* a plausible lie */
    assert_int_equal(claim(stage, 0, 1, claims).claimed, 0);
    ready_ring_reset_head(&stage->producer);
    assert_int_equal(claim(stage, 0, 1, claims).claimed, 1);
    assert_int_equal(claims[0].dispatch.grain, 2);
}

static void random_slots_crash_nobody(void **state)
{
    struct stage *stage = *state;
    struct ready_claim claims[ROWS];
    struct told told = {0};
    uint64_t random = 0x5eed;
    for (uint32_t i = 0; i < GRAINS; i++) {
        struct dispatch dispatch = {.grain = i};
        dispatch_write(&stage->table, &dispatch);
    }
    for (uint32_t round = 0; round < 20000; round++) {
        uint64_t seed = ready_seed(stage->ring.salt, stage->producer.epoch);
        for (uint32_t i = 0; i < CAPACITY; i++) {
            random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            uint64_t word = random ^ random >> 29;
            store_relaxed_u64(&stage->ring.slots->words[i],
                              random >> 60 & 1 ? ready_seal(word & READY_BODY_MASK, seed) : word);
        }
        store_relaxed_u64(&stage->ring.slots->head, random >> 50);
        memset(stage->page.rows, 0, claim_page_bytes(ROWS));
        struct ready_taken taken = claim(stage, round % 5, ROWS, claims);
        for (uint32_t i = 0; i < taken.claimed; i++)
            assert_true(claims[i].dispatch.grain < GRAINS);
        uint64_t position;
        int status = ready_ring_push(&stage->producer, round % GRAINS, round, &position);
        assert_true(status == 0 || status == -EAGAIN || status == -EBADMSG);
        ready_ring_cancel(&stage->producer, round % GRAINS, round, stage->producer.tail);
        ready_ring_sweep(&stage->producer, round % 5, note, &told);
        if (round % 7 == 0)
            ready_ring_rebuild(&stage->producer);
    }
}

static void page_rows_go_by_exact_words(void **state)
{
    struct claim_page page = ((struct stage *)*state)->page;
    claim_page_take(&page, 3, 17, DISPATCH_NUMBER_MASK);
    assert_int_equal(claim_page_find(&page, 17, DISPATCH_NUMBER_MASK), 3);
    assert_int_equal(claim_page_find(&page, 17, 0), CLAIM_ROW_NONE);
    assert_int_equal(claim_page_cancel(&page, 3, 17, 0), CLAIM_FREE); /* another dispatch: not there */
    assert_int_equal(claim_page_cancel(&page, 3, 17, DISPATCH_NUMBER_MASK), CLAIM_CANCELLED);
    assert_int_equal(claim_page_start(&page, 3, 17, DISPATCH_NUMBER_MASK, 5), -ECANCELED);
    assert_int_equal(claim_page_recall(&page, 3, 17, DISPATCH_NUMBER_MASK), CLAIM_CANCELLED);
    claim_page_release(&page, 3);
    claim_page_take(&page, 3, 17, 4);
    assert_int_equal(claim_page_start(&page, 3, 17, 4, 5), 0);
    assert_int_equal(claim_page_cancel(&page, 3, 17, 4), CLAIM_RUNNING);
    claim_page_count_child(&page, 3, 8);
    claim_page_set_blocked(&page, 3, true, 9);
    struct claim_row row = claim_page_read(&page, 3);
    assert_int_equal(row.state, CLAIM_RUNNING);
    assert_int_equal(row.grain, 17);
    assert_int_equal(row.number, 4);
    assert_int_equal(row.emitted, 1);
    assert_int_equal(row.since_ns, 9);
    assert_true(row.blocked);
    assert_int_equal(claim_page_find_free(&page, 3), 4);
    assert_int_equal(claim_page_read(&page, ROWS).state, CLAIM_FREE);
}

static void note_row(void *context, const struct claim_row *row)
{
    struct told *told = context;
    told->count++;
    if (row->state != CLAIM_DAMAGED)
        *told = (struct told){told->count, row->grain, row->number};
}

static void a_page_sweep_tells_and_frees(void **state)
{
    struct claim_page page = ((struct stage *)*state)->page;
    struct told told = {0};
    claim_page_take(&page, 1, 2, 3);
    store_relaxed_u64(&page.rows[2].word, UINT64_MAX);
    claim_page_sweep(&page, note_row, &told);
    assert_int_equal(told.count, 2);
    assert_int_equal(told.grain, 2);
    assert_int_equal(told.number, 3);
    claim_page_sweep(&page, note_row, &told);
    assert_int_equal(told.count, 2);
}

/* A descriptor crosses only as far as it counts: what it does not use is neither written nor read, and of a row that
 * overflows only where the rest of it is. */
static void descriptors_cross_as_far_as_they_count(void **state)
{
    struct stage *stage = *state;
    struct dispatch whole = {.grain = 3, .number = 1, .input_count = 40, .depth = 12, .flags = DISPATCH_OVERFLOW};
    whole.overflow = (struct value_ref){.offset = 4711, .length = 9};
    dispatch_write(&stage->table, &whole);
    struct dispatch read = {0};
    assert_int_equal(dispatch_copy(&stage->table, 3, &read), 0);
    assert_memory_equal(&read, &whole, sizeof read);
    struct dispatch small = {.grain = 3, .number = 2, .input_count = 2, .depth = 8, .timeout_ns = 5, .batch = 6};
    small.coordinate[7] = 70;
    small.inputs[0].length = 16;
    small.inputs[1].hash = 17;
    dispatch_write(&stage->table, &small);
    memset(&read, 0xee, sizeof read);
    assert_int_equal(dispatch_copy(&stage->table, 3, &read), 0);
    assert_memory_equal(&read, &small, offsetof(struct dispatch, inputs[2]));
    assert_int_equal(read.inputs[2].offset, UINT64_C(0xeeeeeeeeeeeeeeee));
    assert_int_equal(read.overflow.offset, UINT64_C(0xeeeeeeeeeeeeeeee));
    struct dispatch_glance glance;
    assert_int_equal(dispatch_glance(&stage->table, 3, 2, &glance), 0);
    assert_int_equal(glance.timeout_ns, 5);
    assert_int_equal(dispatch_glance(&stage->table, 3, 1, &glance), -ENOENT);
    assert_int_equal(dispatch_glance(&stage->table, stage->table.capacity, 2, &glance), -ERANGE);
    struct dispatch untouched = read;
    stage->table.slots[3].grain = 4;
    assert_int_equal(dispatch_copy(&stage->table, 3, &read), -EBADMSG);
    stage->table.slots[3].grain = 3;
    stage->table.slots[3].input_count = DISPATCH_INPUTS_INLINE + 1;
    assert_int_equal(dispatch_copy(&stage->table, 3, &read), -EBADMSG);
    assert_memory_equal(&read, &untouched, sizeof read);
}

int main(void)
{
#define RING_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        RING_TEST(rows_come_out_in_order),
        RING_TEST(descriptors_cross_as_far_as_they_count),
        RING_TEST(rows_are_shown_together),
        RING_TEST(a_full_ring_says_so),
        RING_TEST(a_filter_takes_in_order_and_leaves_the_rest),
        RING_TEST(a_full_page_claims_nothing_more),
        RING_TEST(cancel_takes_a_waiting_row),
        RING_TEST(cancel_marks_a_claimed_row_once),
        RING_TEST(a_worker_sees_the_cancel_when_it_unlinks),
        RING_TEST(the_producer_skips_a_stuck_slot),
        RING_TEST(a_sweep_finds_what_the_dead_had),
        RING_TEST(damage_is_seen_and_rebuilt),
        RING_TEST(a_spoiled_head_hides_nothing_for_good),
        RING_TEST(random_slots_crash_nobody),
        RING_TEST(page_rows_go_by_exact_words),
        RING_TEST(a_page_sweep_tells_and_frees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
