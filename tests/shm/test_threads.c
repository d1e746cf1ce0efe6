/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One shard and three workers as threads of one process: what a thread sanitizer can look at. Each worker takes first
 * the rows of the parents it has taken before, so that claims are made out of order too.
 */
#include "cmocka_all.h"

#include <pthread.h>
#include <stdlib.h>

#include "shm/board.h"
#include "shm/completion_ring.h"
#include "shm/lane.h"

#define WORKERS 3u
#define ROWS 6000u
#define GRAINS 64u
#define PARENTS 12u

struct hall {
    struct board board;
    struct lane lanes[WORKERS];
    shared_u32 over;
};

struct hand {
    struct hall *hall;
    uint32_t id;
    bool open[PARENTS];
    uint32_t damaged;
    pthread_t thread;
};

static bool is_open(void *context, const struct dispatch_peek *peek)
{
    return ((struct hand *)context)->open[peek->parent_key % PARENTS];
}

static uint32_t take(struct hand *hand, const struct ready_ring *ring, struct ready_claim *claims)
{
    struct ready_wish wish = {.rows_max = 4, .wanted = is_open, .context = hand};
    const struct claim_page *page = &hand->hall->lanes[hand->id].claims;
    struct ready_taken taken = ready_ring_claim(ring, &hand->hall->board.dispatches, page, hand->id, &wish, claims);
    hand->damaged += taken.damaged;
    if (taken.claimed)
        return taken.claimed;
    wish.wanted = NULL;
    wish.rows_max = 1;
    taken = ready_ring_claim(ring, &hand->hall->board.dispatches, page, hand->id, &wish, claims);
    hand->damaged += taken.damaged;
    return taken.claimed;
}

static void answer(struct hand *hand, struct spsc_writer *writer, const struct ready_claim *claim)
{
    struct lane *lane = &hand->hall->lanes[hand->id];
    uint32_t grain = claim->dispatch.grain;
    uint64_t number = claim->dispatch.number;
    struct completion record = {.kind = COMPLETION_ANSWER, .grain = grain, .number = number, .run_ns = number * grain};
    if (claim_page_start(&lane->claims, claim->row, grain, number, 1))
        record.kind = COMPLETION_RELEASED;
    hand->open[claim->dispatch.parent_key % PARENTS] = true;
    while (completion_write(writer, &record)) {
        uint32_t seen = event_count_sample(lane->events);
        spsc_commit(writer);
        event_count_bump(hand->hall->board.shard_events);
        if (completion_write(writer, &record) == 0)
            break;
        if (event_count_announce(lane->events, seen))
            event_count_wait(lane->events, seen, 1000000);
    }
    spsc_commit(writer);
    claim_page_release(&lane->claims, claim->row);
}

static void *work(void *context)
{
    struct hand *hand = context;
    struct hall *hall = hand->hall;
    struct ready_claim claims[4];
    struct ready_ring ring = board_ring(&hall->board, 0, BOARD_READY);
    struct spsc_ring completions = lane_completion_ring(&hall->lanes[hand->id], 0);
    struct spsc_writer writer;
    spsc_writer_open(&writer, &completions);
    while (!load_acquire_u32(&hall->over)) {
        uint32_t seen = event_count_sample(&hall->board.pool_events[0]);
        uint32_t count = take(hand, &ring, claims);
        for (uint32_t i = 0; i < count; i++)
            answer(hand, &writer, &claims[i]);
        if (count)
            event_count_bump(hall->board.shard_events);
        else if (event_count_announce(&hall->board.pool_events[0], seen) && !ready_ring_has_ready(&ring) &&
                 !load_acquire_u32(&hall->over))
            event_count_wait(&hall->board.pool_events[0], seen, EVENT_COUNT_FOREVER);
    }
    return NULL;
}

struct book {
    struct ready_producer producer;
    struct completion_reader readers[WORKERS];
    uint64_t number[GRAINS];
    bool live[GRAINS];
    uint32_t pushed, answered, wrong;
};

static uint32_t push_some(struct hall *hall, struct book *book)
{
    uint32_t count = 0;
    for (uint32_t grain = 0; grain < GRAINS && book->pushed < ROWS; grain++) {
        if (book->live[grain])
            continue;
        struct dispatch dispatch = {.grain = grain, .number = book->number[grain] + 1, .parent_key = grain % PARENTS};
        uint64_t position;
        dispatch_write(&hall->board.dispatches, &dispatch);
        if (ready_ring_push(&book->producer, grain, dispatch.number, &position))
            break;
        book->number[grain]++;
        book->live[grain] = true;
        book->pushed++;
        count++;
    }
    if (count)
        event_count_bump(&hall->board.pool_events[0]);
    return count;
}

static uint32_t read_all(struct hall *hall, struct book *book)
{
    uint32_t count = 0;
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        struct completion record;
        uint32_t before = count;
        while (completion_read(&book->readers[worker], &record) == 0) {
            book->wrong += record.kind != COMPLETION_ANSWER || record.grain >= GRAINS || !book->live[record.grain] ||
                           book->number[record.grain] != record.number || record.run_ns != record.number * record.grain;
            book->live[record.grain % GRAINS] = false;
            book->answered++;
            count++;
        }
        if (count > before) {
            spsc_release(&book->readers[worker].ring);
            event_count_bump(hall->lanes[worker].events);
        }
    }
    return count;
}

static void open_hall(struct hall *hall, struct book *book, struct hand *hands)
{
    struct board_shape shape = {
        .call_count = 1, .pool_count = 1, .ring_capacity = {2, 16, 2}, .dispatch_capacity = GRAINS};
    assert_int_equal(board_create(&shape, SEGMENT_ANY_NODE, &hall->board), 0);
    assert_int_equal(board_commit_dispatches(&hall->board, GRAINS), 0);
    struct ready_ring ring = board_ring(&hall->board, 0, BOARD_READY);
    assert_int_equal(ready_producer_open(&book->producer, &ring), 0);
    for (uint32_t i = 0; i < WORKERS; i++) {
        struct lane_shape lane = {
            .worker = i, .shard_count = 1, .claim_rows = 8, .completion_bytes = 1024, .control_bytes = 1024};
        assert_int_equal(lane_create(&lane, SEGMENT_ANY_NODE, &hall->lanes[i]), 0);
        struct spsc_ring completions = lane_completion_ring(&hall->lanes[i], 0);
        assert_int_equal(completion_reader_open(&book->readers[i], &completions), 0);
        hands[i] = (struct hand){.hall = hall, .id = i};
    }
}

static void threads_share_the_work(void **state)
{
    struct hall *hall = calloc(1, sizeof(*hall));
    struct book *book = calloc(1, sizeof(*book));
    struct hand hands[WORKERS];
    open_hall(hall, book, hands);
    for (uint32_t i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&hands[i].thread, NULL, work, &hands[i]), 0);
    while (book->answered < ROWS) {
        uint32_t seen = event_count_sample(hall->board.shard_events);
        if (push_some(hall, book) + read_all(hall, book) == 0 && event_count_announce(hall->board.shard_events, seen) &&
            push_some(hall, book) + read_all(hall, book) == 0)
            event_count_wait(hall->board.shard_events, seen, EVENT_COUNT_FOREVER);
    }
    store_release_u32(&hall->over, 1);
    event_count_bump_always(&hall->board.pool_events[0]);
    for (uint32_t i = 0; i < WORKERS; i++) {
        pthread_join(hands[i].thread, NULL);
        assert_int_equal(hands[i].damaged, 0);
        completion_reader_close(&book->readers[i]);
        lane_release(&hall->lanes[i]);
    }
    assert_int_equal(book->answered, ROWS);
    assert_int_equal(book->wrong, 0);
    assert_int_equal(ready_ring_check(&book->producer), 0);
    ready_producer_close(&book->producer);
    board_release(&hall->board);
    free(hall);
    free(book);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_share_the_work)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
