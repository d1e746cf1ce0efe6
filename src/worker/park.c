/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Going to sleep. Everything written is announced, shards that wait for room in a ring this worker found empty are
 * bumped, then the worker spins for as long as news usually takes, if that is short and cores are to spare, and parks
 * on the event count of its Pool.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "worker/worker.h"

#define SPIN_NS_MAX 30000u

struct event_count *pool_events(const struct sheaf_worker *worker)
{
    return &worker->links[0].board.pool_events[worker->hello.pool];
}

/* PROTOCOL H8 (c): the shard may sleep with work in its arena because a ring was full, and the ring has room now. And
 * rows that are left to the worker that has their parent open: it may be stuck, and only the shard can see that. Not
 * where the shard looks soon, and has said that it needs nothing of this Pool before. */
static void tell_overflow(struct sheaf_worker *worker, uint64_t at_ns)
{
    store_relaxed_u64(&worker->lane.counters->state, LANE_IDLE);
    for (uint32_t shard = 0; shard < worker->hello.shard_count; shard++) {
        struct board *board = &worker->links[shard].board;
        bool overflow = false;
        if (board_promised_pool(board, at_ns, worker->hello.pool))
            continue;
        for (uint32_t index = 0; index < worker->hello.call_count; index++) {
            struct board_call *call = &board->calls[worker->calls[index].spec->call];
            overflow |= load_acquire_u32(&call->overflow) != 0 || load_relaxed_u32(&call->ready) != 0;
        }
        if (!overflow)
            continue;
        board_add_news(board, worker->hello.worker); /* that it is idle */
        event_count_bump(board->shard_events);
    }
}

static bool has_orders(struct sheaf_worker *worker)
{
    bool pending = load_acquire_u32(&worker->lane.orders->stop) != 0;
    for (uint32_t shard = 0; shard < worker->hello.shard_count; shard++)
        pending |= spsc_pending(&worker->links[shard].orders);
    return pending;
}

/* True: there was news while spinning. */
static bool spin(struct sheaf_worker *worker, uint32_t seen)
{
    if (worker->hello.crowded || worker->mean_gap_ns > SPIN_NS_MAX)
        return false;
    uint64_t until_ns = now_ns() + SPIN_NS_MAX;
    do {
        for (int round = 0; round < 32; round++)
            cpu_pause();
        if (event_count_sample(pool_events(worker)) != seen)
            return true;
    } while (now_ns() < until_ns);
    return false;
}

static void count_gap(struct sheaf_worker *worker, uint64_t gap_ns)
{
    worker->mean_gap_ns = (7 * worker->mean_gap_ns + gap_ns) / 8;
    struct lane_counters *counters = worker->lane.counters;
    store_relaxed_u64(&counters->idle_ns, load_relaxed_u64(&counters->idle_ns) + gap_ns);
}

bool park_announce(struct sheaf_worker *worker, uint32_t seen)
{
    uint64_t at_ns = now_ns();
    announce_wanted(worker, at_ns);
    tell_overflow(worker, at_ns);
    uint64_t from_ns = now_ns();
    if (spin(worker, seen)) {
        count_gap(worker, now_ns() - from_ns);
        return false;
    }
    return event_count_announce(pool_events(worker), seen) && !has_orders(worker);
}

/* ---- sleeping on an event count and a descriptor at once ---- */

/* A second thread sleeps on the event count and turns news into an eventfd. */
struct fd_watch {
    pthread_t thread;
    sem_t armed;
    struct event_count *events;
    _Atomic uint32_t seen;
    atomic_bool asleep; /* armed and not yet woken */
    atomic_bool closing;
    int news; /* eventfd */
};

static void *watch(void *context)
{
    struct fd_watch *watch = context;
    for (;;) {
        while (sem_wait(&watch->armed) < 0)
            ;
        if (atomic_load(&watch->closing))
            return NULL;
        event_count_wait(watch->events, atomic_load(&watch->seen), EVENT_COUNT_FOREVER);
        atomic_store(&watch->asleep, false);
        uint64_t one = 1;
        ssize_t written = write(watch->news, &one, sizeof one);
        (void)written; /* cannot fail: the counter is far from its end */
    }
}

static struct fd_watch *watch_open(struct sheaf_worker *worker)
{
    struct fd_watch *opened = calloc(1, sizeof *opened);
    if (opened == NULL)
        return NULL;
    opened->events = pool_events(worker);
    opened->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (opened->news < 0 || sem_init(&opened->armed, 0, 0) < 0 ||
        pthread_create(&opened->thread, NULL, watch, opened) != 0) {
        if (opened->news >= 0)
            close(opened->news);
        free(opened);
        return NULL;
    }
    return opened;
}

static int park_with_fd(struct sheaf_worker *worker, uint32_t seen, int fd, int timeout_ms)
{
    if (worker->watch == NULL)
        worker->watch = watch_open(worker);
    struct fd_watch *own = worker->watch;
    if (own == NULL)
        return -ENOMEM;
    if (!atomic_load(&own->asleep)) {
        atomic_store(&own->seen, seen);
        atomic_store(&own->asleep, true);
        sem_post(&own->armed);
    }
    struct pollfd sources[2] = {{.fd = fd, .events = POLLIN}, {.fd = own->news, .events = POLLIN}};
    int count = poll(sources, 2, timeout_ms);
    uint64_t news;
    if (count > 0 && sources[1].revents != 0 && read(own->news, &news, sizeof news) < 0)
        return -errno;
    return count > 0 && sources[0].revents != 0 ? 1 : 0;
}

int park(struct sheaf_worker *worker, uint32_t seen, int fd, uint64_t until_ns)
{
    uint64_t from_ns = now_ns();
    if (until_ns != 0 && until_ns <= from_ns)
        return 0;
    store_relaxed_u64(&worker->lane.counters->state, LANE_IDLE);
    int status = 0;
    if (fd >= 0) {
        uint64_t left_ms = until_ns != 0 ? (until_ns - from_ns) / 1000000u + 1 : 0;
        status = park_with_fd(worker, seen, fd, until_ns == 0 ? -1 : left_ms > INT32_MAX ? INT32_MAX : (int)left_ms);
    } else {
        event_count_wait(pool_events(worker), seen, until_ns == 0 ? EVENT_COUNT_FOREVER : until_ns - from_ns);
    }
    count_gap(worker, now_ns() - from_ns);
    store_relaxed_u64(&worker->lane.counters->state, LANE_BUSY);
    return status;
}

void park_done(struct sheaf_worker *worker)
{
    struct fd_watch *own = worker->watch;
    if (own == NULL)
        return;
    atomic_store(&own->closing, true);
    sem_post(&own->armed);
    event_count_bump_always(own->events); /* it may sleep; others look once in vain */
    pthread_join(own->thread, NULL);
    sem_destroy(&own->armed);
    close(own->news);
    free(own);
    worker->watch = NULL;
}
