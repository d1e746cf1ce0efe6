/* SPDX-License-Identifier: Apache-2.0 */
#include "world.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shm/crash_point.h"

#define CALL 0u
#define POOL 0u
#define SHARD 0u
#define BATCH_ROWS_MAX 16u
#define LOOK_NS 2000000u /* how long the shard parks before it asks whether a worker died */

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint32_t dice(uint64_t *random, uint32_t sides)
{
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*random >> 33) % sides;
}

static void must(bool kept)
{
    if (!kept)
        abort();
}

/* --- the worker --- */

struct worker {
    struct world *world;
    struct lane *lane;
    struct ready_ring ring;
    struct spsc_writer writer;
    uint64_t random;
    uint32_t id;
};

static void breach(struct worker *worker)
{
    atomic_fetch_add(&worker->world->score->breaches, 1);
}

static void publish(struct worker *worker, const struct completion *record)
{
    for (;;) {
        uint32_t seen = event_count_sample(worker->lane->events);
        int status = completion_write(&worker->writer, record);
        if (status == 0)
            return;
        must(status == -EAGAIN);
        spsc_commit(&worker->writer);
        event_count_bump(worker->world->board.shard_events);
        if (event_count_announce(worker->lane->events, seen))
            event_count_wait(worker->lane->events, seen, LOOK_NS);
    }
}

/* C5 and the row itself: leaves the record that ends the claim in *record. */
static void run_row(struct worker *worker, const struct ready_claim *claim, struct completion *record)
{
    uint32_t grain = claim->dispatch.grain;
    struct world_score *score = worker->world->score;
    *record = (struct completion){.kind = COMPLETION_RELEASED, .grain = grain, .number = claim->dispatch.number};
    if (claim->cancelled ||
        claim_page_start(&worker->lane->claims, claim->row, grain, claim->dispatch.number, now_ns()))
        return;
    if (!swap_exact_u32(&score->running[grain], 0, worker->id + 1))
        breach(worker);
    atomic_fetch_add(&score->runs[grain], 1);
    if (claim->dispatch.key != grain * 3u + 1)
        breach(worker);
    for (uint32_t spin = dice(&worker->random, 200); spin > 0; spin--)
        cpu_pause();
    store_release_u32(&score->running[grain], 0);
    bool raises = dice(&worker->random, 100) < worker->world->options.raise_percent;
    record->kind = raises ? COMPLETION_RAISED : COMPLETION_ANSWER;
}

static uint32_t take_and_run(struct worker *worker)
{
    struct ready_claim claims[BATCH_ROWS_MAX];
    struct ready_wish wish = {.rows_max = 1 + dice(&worker->random, worker->world->options.batch_rows)};
    struct ready_taken taken = ready_ring_claim(&worker->ring, &worker->world->board.dispatches, &worker->lane->claims,
                                                worker->id, &wish, claims);
    if (taken.damaged)
        breach(worker);
    bool together = dice(&worker->random, 2);
    for (uint32_t i = 0; i < taken.claimed; i++) {
        struct completion record;
        run_row(worker, &claims[i], &record);
        publish(worker, &record);
        if (together)
            continue;
        spsc_commit(&worker->writer);                             /* C6 */
        claim_page_release(&worker->lane->claims, claims[i].row); /* C7 */
    }
    spsc_commit(&worker->writer);
    for (uint32_t i = 0; together && i < taken.claimed; i++)
        claim_page_release(&worker->lane->claims, claims[i].row);
    return taken.claimed;
}

static void park(struct worker *worker, uint32_t seen)
{
    struct event_count *events = &worker->world->board.pool_events[POOL];
    if (load_acquire_u32(&worker->world->board.calls[CALL].overflow))
        event_count_bump(worker->world->board.shard_events);
    if (event_count_announce(events, seen) && !ready_ring_has_ready(&worker->ring) &&
        !load_acquire_u32(&worker->world->score->stop))
        event_count_wait(events, seen, EVENT_COUNT_FOREVER);
}

static void worker_main(struct world *world, uint32_t id)
{
    struct worker worker = {.world = world, .lane = &world->lanes[id], .id = id};
    worker.random = world->options.seed + id * 7919u + (uint64_t)getpid() * 104729u;
    worker.ring = board_ring(&world->board, CALL, BOARD_READY);
    struct spsc_ring completions = lane_completion_ring(worker.lane, SHARD);
    spsc_writer_open(&worker.writer, &completions);
    while (!load_acquire_u32(&world->score->stop)) {
        uint32_t seen = event_count_sample(&world->board.pool_events[POOL]);
        if (take_and_run(&worker))
            event_count_bump(world->board.shard_events);
        else
            park(&worker, seen);
    }
}

void world_start(struct world *world, uint32_t worker, const char *crash_name, uint32_t passage)
{
    pid_t parent = getpid();
    pid_t child = fork();
    must(child >= 0);
    if (child > 0) {
        world->processes[worker] = child;
        return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
#ifdef SHEAF_CRASH_POINTS
    crash_point_arm(crash_name, passage);
#endif
    worker_main(world, worker);
    _exit(0);
}

/* --- the shard --- */

static uint64_t live_bit(const struct world *world, uint64_t number)
{
    return UINT64_C(1) << ((number - world->first_number) & DISPATCH_NUMBER_MASK & 63);
}

static void seal(struct world *world, struct world_grain *grain)
{
    if (grain->state == WORLD_SEALED)
        world->double_seals++;
    else
        world->sealed++;
    grain->state = WORLD_SEALED;
}

/* The rule for a record and for what recovery finds: (g, d) counts once, and only while it is live. */
static bool drop_live(struct world *world, uint32_t id, uint64_t number)
{
    if (id >= world->options.grains)
        return false;
    struct world_grain *grain = &world->grains[id];
    if (!(grain->live & live_bit(world, number)))
        return false;
    grain->live &= ~live_bit(world, number);
    return grain->state == WORLD_DISPATCHED && grain->number == number;
}

static void accept(struct world *world, const struct completion *record)
{
    if (!drop_live(world, record->grain, record->number))
        return;
    struct world_grain *grain = &world->grains[record->grain];
    if (record->kind == COMPLETION_ANSWER)
        seal(world, grain);
    else
        grain->state = WORLD_WAITING;
}

static uint32_t drain(struct world *world, uint32_t worker)
{
    struct completion record;
    uint32_t count = 0;
    int status;
    while ((status = completion_read(&world->readers[worker], &record)) == 0) {
        accept(world, &record);
        count++;
    }
    must(status == -EAGAIN);
    if (count) {
        spsc_release(&world->readers[worker].ring);
        event_count_bump(world->lanes[worker].events);
    }
    return count;
}

bool world_push(struct world *world, uint32_t id)
{
    struct world_grain *grain = &world->grains[id];
    uint64_t number = dispatch_next_number(grain->number);
    struct dispatch dispatch = {.grain = id, .number = number, .key = id * 3u + 1, .attempt = grain->charged};
    must((grain->live & live_bit(world, number)) == 0);
    /* Also when the ring turns out full: no slot names the grain, and who holds a recalled claim of it has its copy. */
    uint64_t position;
    dispatch_write(&world->board.dispatches, &dispatch);
    int status = ready_ring_push(&world->producer, id, number, &position);
    must(status == 0 || status == -EAGAIN);
    if (status)
        return false;
    grain->number = number;
    grain->position = position;
    grain->live |= live_bit(world, number);
    grain->state = WORLD_DISPATCHED;
    return true;
}

static uint32_t push_waiting(struct world *world)
{
    uint32_t pushed = 0;
    bool waits = false;
    for (uint32_t step = 0; step < world->options.grains; step++) {
        uint32_t id = (world->next + step) % world->options.grains;
        if (world->grains[id].state != WORLD_WAITING)
            continue;
        if (!world_push(world, id)) {
            world->next = id;
            waits = true;
            break;
        }
        pushed++;
    }
    store_release_u32(&world->board.calls[CALL].overflow, waits);
    if (pushed)
        event_count_bump(&world->board.pool_events[POOL]);
    return pushed;
}

/* X3 over all pages. True when some page named it. */
static bool cancel_in_pages(struct world *world, uint32_t id, struct world_grain *grain)
{
    for (uint32_t worker = 0; worker < world->options.workers; worker++) {
        const struct claim_page *page = &world->lanes[worker].claims;
        uint32_t row = claim_page_find(page, id, grain->number);
        if (row == CLAIM_ROW_NONE)
            continue;
        enum claim_state state = claim_page_cancel(page, row, id, grain->number);
        if (state == CLAIM_FREE)
            continue; /* answered in this moment: its record is in the ring */
        grain->never_run = state == CLAIM_CANCELLED;
        return true;
    }
    return false;
}

void world_cancel(struct world *world, uint32_t id)
{
    struct world_grain *grain = &world->grains[id];
    if (grain->state == WORLD_SEALED)
        return;
    uint64_t number = grain->number;
    bool never_run = grain->state == WORLD_WAITING;
    if (grain->state == WORLD_DISPATCHED) {
        enum ready_cancel found = ready_ring_cancel(&world->producer, id, number, grain->position);
        if (found == READY_CANCEL_DONE)
            grain->live &= ~live_bit(world, number);
        if (found == READY_CANCEL_GONE && !cancel_in_pages(world, id, grain)) {
            world->cancel_races++;
            for (uint32_t worker = 0; worker < world->options.workers; worker++)
                drain(world, worker);
            world->alarms += (grain->live & live_bit(world, number)) != 0;
            return;
        }
        never_run = found != READY_CANCEL_GONE || grain->never_run;
    }
    grain->never_run = never_run && load_acquire_u32(&world->score->runs[id]) == 0;
    grain->cancelled = true;
    seal(world, grain);
}

static void recall_one(struct world *world)
{
    uint32_t worker = dice(&world->random, world->options.workers);
    const struct claim_page *page = &world->lanes[worker].claims;
    for (uint32_t row = 0; row < page->row_count; row++) {
        struct claim_row read = claim_page_read(page, row);
        if (read.state != CLAIM_CLAIMED || read.grain >= world->options.grains)
            continue;
        struct world_grain *grain = &world->grains[read.grain];
        if (grain->state != WORLD_DISPATCHED || grain->number != read.number ||
            ready_ring_find(&world->producer, read.grain, read.number, grain->position) != READY_GONE)
            continue;
        if (claim_page_recall(page, row, read.grain, read.number) == CLAIM_RECALLED) {
            grain->state = WORLD_WAITING; /* again with a new number; the old one stays live until RELEASED */
            world->recalled++;
        }
        return;
    }
}

static void found_in_slot(void *context, uint32_t id, uint64_t number)
{
    struct world *world = context;
    if (drop_live(world, id, number))
        world->grains[id].state = WORLD_WAITING;
}

static void found_in_page(void *context, const struct claim_row *row)
{
    struct world *world = context;
    if (row->state == CLAIM_DAMAGED) {
        world->alarms++;
        return;
    }
    if (drop_live(world, row->grain, row->number)) {
        world->grains[row->grain].state = WORLD_WAITING;
        world->grains[row->grain].charged += row->state == CLAIM_RUNNING;
    }
}

void world_recover(struct world *world, uint32_t worker)
{
    world->deaths++;
    drain(world, worker);
    ready_ring_sweep(&world->producer, worker, found_in_slot, world);
    claim_page_sweep(&world->lanes[worker].claims, found_in_page, world);
    for (uint32_t id = 0; id < world->options.grains; id++)
        swap_exact_u32(&world->score->running[id], worker + 1, 0);
    completion_reader_close(&world->readers[worker]);
    lane_reset(&world->lanes[worker]);
    struct spsc_ring completions = lane_completion_ring(&world->lanes[worker], SHARD);
    must(completion_reader_open(&world->readers[worker], &completions) == 0);
    event_count_bump_always(&world->board.pool_events[POOL]);
    event_count_bump_always(world->board.shard_events);
}

static bool bury_the_dead(struct world *world)
{
    bool some = false;
    for (uint32_t worker = 0; worker < world->options.workers; worker++) {
        if (world->processes[worker] <= 0 || waitpid(world->processes[worker], NULL, WNOHANG) <= 0)
            continue;
        world_recover(world, worker);
        world_start(world, worker, NULL, 0);
        some = true;
    }
    return some;
}

static bool is_over(const struct world *world)
{
    if (world->sealed < world->options.grains)
        return false;
    for (uint32_t id = 0; id < world->options.grains; id++) {
        if (world->grains[id].live)
            return false;
    }
    return true;
}

static void kill_one(struct world *world)
{
    uint32_t worker = dice(&world->random, world->options.workers);
    if (world->deaths < world->options.kills_max && world->processes[worker] > 0)
        kill(world->processes[worker], SIGKILL);
}

static uint32_t turn(struct world *world)
{
    if (world->options.kills_max && dice(&world->random, 20) == 0)
        kill_one(world);
    uint32_t done = bury_the_dead(world);
    /* Before the drain: some find their row answered, with only the record left to tell. */
    if (dice(&world->random, 100) < world->options.cancel_percent)
        world_cancel(world, world->producer.shadow[dice(&world->random, world->options.ring_capacity)].grain);
    if (dice(&world->random, 100) < world->options.recall_percent)
        recall_one(world);
    for (uint32_t worker = 0; worker < world->options.workers; worker++)
        done += drain(world, worker);
    return done + push_waiting(world);
}

bool world_run(struct world *world, uint64_t timeout_ns)
{
    uint64_t end_ns = now_ns() + timeout_ns;
    struct event_count *events = world->board.shard_events;
    while (!is_over(world)) {
        if (now_ns() > end_ns)
            return false;
        uint32_t seen = event_count_sample(events);
        if (turn(world) == 0 && event_count_announce(events, seen) && turn(world) == 0)
            event_count_wait(events, seen, LOOK_NS);
    }
    return true;
}

/* --- life and verdict --- */

struct world *world_open(const struct world_options *options)
{
    struct world *world = calloc(1, sizeof(*world));
    must(world && options->grains <= WORLD_GRAINS_MAX && options->workers <= WORLD_WORKERS_MAX &&
         options->batch_rows <= BATCH_ROWS_MAX);
    world->options = *options;
    world->random = options->seed;
    world->first_number = DISPATCH_NUMBER_MASK - 1; /* the number wraps early on */
    for (uint32_t id = 0; id < options->grains; id++)
        world->grains[id].number = DISPATCH_NUMBER_MASK - 2;
    struct board_shape shape = {.call_count = 1,
                                .pool_count = 1,
                                .dispatch_capacity = options->grains,
                                .ring_capacity = {2, options->ring_capacity, 2}};
    must(board_create(&shape, SEGMENT_ANY_NODE, &world->board) == 0 &&
         board_commit_dispatches(&world->board, options->grains) == 0);
    struct ready_ring ring = board_ring(&world->board, CALL, BOARD_READY);
    must(ready_producer_open(&world->producer, &ring) == 0);
    for (uint32_t worker = 0; worker < options->workers; worker++) {
        struct lane_shape lane = {.worker = worker,
                                  .shard_count = 1,
                                  .claim_rows = BATCH_ROWS_MAX,
                                  .completion_bytes = 1024,
                                  .control_bytes = 1024};
        must(lane_create(&lane, SEGMENT_ANY_NODE, &world->lanes[worker]) == 0);
        struct spsc_ring completions = lane_completion_ring(&world->lanes[worker], SHARD);
        must(completion_reader_open(&world->readers[worker], &completions) == 0);
    }
    must(segment_create("score", sizeof(struct world_score), &world->score_segment) == 0);
    must(segment_commit(&world->score_segment, 0, sizeof(struct world_score)) == 0);
    world->score = world->score_segment.base;
    return world;
}

static void stop_workers(struct world *world)
{
    store_release_u32(&world->score->stop, 1);
    event_count_bump_always(&world->board.pool_events[POOL]);
    for (uint32_t worker = 0; worker < world->options.workers; worker++) {
        if (world->processes[worker] <= 0)
            continue;
        event_count_bump_always(world->lanes[worker].events);
        if (world->sealed < world->options.grains) /* the test has failed already: it may hang */
            kill(world->processes[worker], SIGKILL);
        waitpid(world->processes[worker], NULL, 0);
        world->processes[worker] = 0;
    }
}

const char *world_verdict(struct world *world)
{
    stop_workers(world);
    if (load_acquire_u32(&world->score->breaches))
        return "two rows of one grain ran at once, or a worker saw damage";
    if (world->double_seals)
        return "a grain was sealed twice";
    if (world->alarms)
        return "a live dispatch was named by nobody";
    if (ready_ring_check(&world->producer))
        return "the ring does not check out";
    for (uint32_t id = 0; id < world->options.grains; id++) {
        const struct world_grain *grain = &world->grains[id];
        if (grain->state != WORLD_SEALED)
            return "a grain was lost";
        if (grain->live)
            return "a claim was never released";
        if (!grain->cancelled && load_acquire_u32(&world->score->runs[id]) == 0)
            return "a grain was sealed without having run";
        if (grain->never_run && load_acquire_u32(&world->score->runs[id]) != 0)
            return "a cancelled grain ran";
    }
    return NULL;
}

void world_close(struct world *world)
{
    stop_workers(world);
    for (uint32_t worker = 0; worker < world->options.workers; worker++) {
        completion_reader_close(&world->readers[worker]);
        lane_release(&world->lanes[worker]);
    }
    ready_producer_close(&world->producer);
    board_release(&world->board);
    segment_release(&world->score_segment);
    free(world);
}
