/* SPDX-License-Identifier: Apache-2.0 */
/* What a row costs in the shared-memory layer: push and claim, a record there and back, a bump, a wake-up. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "perf/micro/bench.h"
#include "shm/board.h"
#include "shm/completion_ring.h"
#include "shm/lane.h"
#include "shm/value_hash.h"

#define ROWS_MAX 256u

struct scene {
    struct board board;
    struct lane lane;
    struct ready_producer producer;
    struct spsc_writer writer;
    struct completion_reader reader;
};

static bool open_scene(struct scene *scene)
{
    struct board_shape shape = {
        .call_count = 1, .pool_count = 1, .ring_capacity = {2, 1024, 2}, .dispatch_capacity = 1024};
    struct lane_shape lane = {
        .shard_count = 1, .claim_rows = ROWS_MAX, .completion_bytes = 1u << 20, .control_bytes = 4096};
    if (board_create(&shape, SEGMENT_ANY_NODE, &scene->board) || board_commit_dispatches(&scene->board, 1024) ||
        lane_create(&lane, SEGMENT_ANY_NODE, &scene->lane))
        return false;
    struct ready_ring ring = board_ring(&scene->board, 0, BOARD_READY);
    struct spsc_ring completions = lane_completion_ring(&scene->lane, 0);
    spsc_writer_open(&scene->writer, &completions);
    return ready_producer_open(&scene->producer, &ring) == 0 &&
           completion_reader_open(&scene->reader, &completions) == 0;
}

static void close_scene(struct scene *scene)
{
    completion_reader_close(&scene->reader);
    ready_producer_close(&scene->producer);
    lane_release(&scene->lane);
    board_release(&scene->board);
}

static bool push_rows(struct scene *scene, uint32_t rows, uint64_t number)
{
    struct dispatch dispatch = {.number = number, .input_count = 1};
    uint64_t position;
    for (uint32_t i = 0; i < rows; i++) {
        dispatch.grain = i;
        dispatch_write(&scene->board.dispatches, &dispatch);
        if (ready_ring_push(&scene->producer, i, number, &position))
            return false;
    }
    return true;
}

/* A batch through the ring: descriptor, push, claim, copy, page row, unlink, RUNNING, FREE. */
static void push_and_claim(struct bench *bench)
{
    struct scene scene;
    static struct ready_claim claims[ROWS_MAX];
    uint32_t rows = (uint32_t)bench_argument(bench);
    struct ready_wish wish = {.rows_max = rows};
    uint64_t number = 0;
    if (!open_scene(&scene)) {
        bench_fail(bench, "no shared memory");
        return;
    }
    while (bench_next(bench)) {
        number = dispatch_next_number(number);
        bool whole = push_rows(&scene, rows, number);
        struct ready_taken taken =
            ready_ring_claim(&scene.producer.ring, &scene.board.dispatches, &scene.lane.claims, 0, &wish, claims);
        if (!whole || taken.claimed != rows) {
            bench_fail(bench, "rows are missing");
            break;
        }
        for (uint32_t i = 0; i < rows; i++) {
            claim_page_start(&scene.lane.claims, claims[i].row, claims[i].dispatch.grain, number, 1);
            claim_page_release(&scene.lane.claims, claims[i].row);
        }
    }
    bench_count_items(bench, bench_iterations(bench) * rows);
    close_scene(&scene);
}
BENCH("ready_ring/push_and_claim", push_and_claim, 1, 8, 32, 128)

/* A batch of ANSWER records with two values each: write, commit, read and check, release. */
/* Answers, so many of them to a record. */
static void answers_there_and_back(struct bench *bench, uint32_t rows, uint32_t together)
{
    struct scene scene;
    struct value_ref values[2] = {{.kind = 4, .segment = 1, .length = 100}, {.kind = 4, .segment = 1, .length = 100}};
    struct completion record = {.kind = COMPLETION_ANSWER, .grain = 5, .value_count = 2}, read;
    struct completion_part parts[COMPLETION_TOGETHER_MAX];
    for (uint32_t at = 0; at < together; at++)
        parts[at] = (struct completion_part){dispatch_name(5 + at, 0), values};
    if (!open_scene(&scene)) {
        bench_fail(bench, "no shared memory");
        return;
    }
    while (bench_next(bench)) {
        for (uint32_t at = 0; at < rows; at += together) {
            if (completion_write_rows(&scene.writer, &record, parts, together))
                bench_fail(bench, "no room");
        }
        spsc_commit(&scene.writer);
        uint32_t count = 0;
        while (completion_read(&scene.reader, &read) == 0)
            count += read.row_count;
        spsc_release(&scene.reader.ring);
        if (count != rows)
            bench_fail(bench, "rows are missing");
    }
    bench_count_items(bench, bench_iterations(bench) * rows);
    close_scene(&scene);
}

static void record_there_and_back(struct bench *bench)
{
    answers_there_and_back(bench, (uint32_t)bench_argument(bench), 1);
}
BENCH("completion_ring/there_and_back", record_there_and_back, 1, 8, 32, 128)

static void rows_there_and_back(struct bench *bench)
{
    uint32_t rows = (uint32_t)bench_argument(bench);
    answers_there_and_back(bench, rows, rows);
}
BENCH("completion_ring/rows_there_and_back", rows_there_and_back, 8, 32)

/* What --integrity costs for a value, once with `crash`, and once more for each look with `always`. */
static void hash_value(struct bench *bench)
{
    size_t bytes = (size_t)bench_argument(bench);
    char *value = calloc(1, bytes);
    uint64_t hashes = 0;
    if (value == NULL) {
        bench_fail(bench, "no memory");
        return;
    }
    while (bench_next(bench))
        hashes |= value_hash(value, bytes);
    if (hashes == 0)
        bench_fail(bench, "a hash is 0");
    bench_count_items(bench, bench_iterations(bench));
    free(value);
}
BENCH("value/hash", hash_value, 4096)

static void bump_nobody(struct bench *bench)
{
    struct event_count events = {0};
    while (bench_next(bench))
        event_count_bump(&events);
}
BENCH("event_count/bump_without_sleeper", bump_nobody, 0)

/* Two threads wake each other: one iteration is there and back, both asleep when their turn comes. */
struct court {
    struct event_count events[2];
    shared_u64 ball[2];
    shared_u32 over;
};

static bool await(struct court *court, uint32_t me, uint64_t round)
{
    for (;;) {
        uint32_t seen = event_count_sample(&court->events[me]);
        if (load_acquire_u64(&court->ball[me]) >= round)
            return true;
        if (load_acquire_u32(&court->over))
            return false;
        if (event_count_announce(&court->events[me], seen) && load_acquire_u64(&court->ball[me]) < round &&
            !load_acquire_u32(&court->over))
            event_count_wait(&court->events[me], seen, EVENT_COUNT_FOREVER);
    }
}

static void *answer(void *context)
{
    struct court *court = context;
    for (uint64_t round = 1; await(court, 1, round); round++) {
        store_release_u64(&court->ball[0], round);
        event_count_bump(&court->events[0]);
    }
    return NULL;
}

static void wake_there_and_back(struct bench *bench)
{
    struct court court;
    memset(&court, 0, sizeof(court));
    pthread_t thread;
    if (pthread_create(&thread, NULL, answer, &court)) {
        bench_fail(bench, "no thread");
        return;
    }
    uint64_t round = 0;
    while (bench_next(bench)) {
        store_release_u64(&court.ball[1], ++round);
        event_count_bump(&court.events[1]);
        await(&court, 0, round);
    }
    store_release_u32(&court.over, 1);
    event_count_bump_always(&court.events[1]);
    pthread_join(thread, NULL);
}
BENCH_WALL("event_count/wake_there_and_back", wake_there_and_back, 0)
