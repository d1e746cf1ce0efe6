/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/supervisor_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum {
    BUMP_MS = 1000,
    STOP_MS = 2000, /* how long a worker may take to end when asked */
    ASK_MS = 100,   /* between asking the host whether it still wants the run that opens */
    EVENTS_MAX = 64,
};

/* ---- what its parts share ---- */

void supervisor_wake(struct supervisor *supervisor)
{
    uint64_t one = 1;
    (void)!write(supervisor->wake_fd, &one, sizeof one);
}

int supervisor_listen(struct supervisor *supervisor, int fd, enum heard what, uint32_t worker)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)what << 32 | worker};
    return epoll_ctl(supervisor->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

/* All but shards that have said that they look by themselves after `but_ns`. */
static void wake_waiters(struct sheaf_run *run, uint64_t but_ns)
{
    for (uint32_t pool = 0; pool < run->plan->pool_count; pool++)
        event_count_bump_always(&run->shards[0]->board.pool_events[pool]);
    for (uint32_t shard = 0; shard < run->shard_count; shard++) {
        if (atomic_load_explicit(&run->shards[shard]->looks_ns, memory_order_relaxed) <= but_ns)
            event_count_bump_always(run->shards[shard]->board.shard_events);
    }
}

void supervisor_wake_waiters(struct sheaf_run *run)
{
    wake_waiters(run, UINT64_MAX);
}

int supervisor_tell_shards(struct supervisor *supervisor, const struct message_worker *message)
{
    for (uint32_t shard = 0; shard < supervisor->run->shard_count; shard++) {
        struct message_worker *copy = malloc(sizeof *copy);
        if (!copy)
            return -ENOMEM;
        *copy = *message;
        shard_tell(supervisor->run->shards[shard], &copy->message);
    }
    return 0;
}

bool supervisor_is_running(struct supervisor *supervisor)
{
    pthread_mutex_lock(&supervisor->lock);
    bool running = supervisor->running;
    pthread_mutex_unlock(&supervisor->lock);
    return running;
}

void supervisor_give_up(struct supervisor *supervisor, int status, const char *line)
{
    pthread_mutex_lock(&supervisor->lock);
    bool running = supervisor->running;
    if (!running && supervisor->start_status == 0) {
        supervisor->start_status = status;
        snprintf(supervisor->start_line, sizeof supervisor->start_line, "%s", line);
        pthread_cond_broadcast(&supervisor->changed);
    }
    pthread_mutex_unlock(&supervisor->lock);
    if (running)
        run_fail(supervisor->run, "%s", line);
}

/* ---- the thread ---- */

static void on_event(struct supervisor *supervisor, const struct epoll_event *event)
{
    uint32_t worker = (uint32_t)event->data.u64;
    struct process *process = &supervisor->processes[worker];
    uint64_t ignored;
    switch ((enum heard)(event->data.u64 >> 32)) {
    case HEARD_WAKE:
        (void)!read(supervisor->wake_fd, &ignored, sizeof ignored);
        break;
    case HEARD_DEATH:
        if (process->child.pidfd >= 0)
            supervisor_bury(supervisor, worker);
        break;
    case HEARD_SOCKET:
        if (process->child.socket >= 0)
            supervisor_hear_socket(supervisor, worker);
        break;
    case HEARD_OUTPUT:
        if (process->child.output >= 0)
            supervisor_hear_output(supervisor, worker);
        break;
    }
}

static bool anyone_alive(const struct supervisor *supervisor)
{
    for (uint32_t worker = 0; worker < supervisor->run->worker_count; worker++) {
        if (supervisor->processes[worker].child.pidfd >= 0)
            return true;
    }
    return false;
}

static void wait_for_events(struct supervisor *supervisor, int timeout_ms)
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(supervisor->epoll_fd, events, EVENTS_MAX, timeout_ms);
    for (int i = 0; i < count; i++)
        on_event(supervisor, &events[i]);
}

static void kill_workers(struct supervisor *supervisor)
{
    for (uint32_t worker = 0; worker < supervisor->run->worker_count; worker++)
        child_kill(&supervisor->processes[worker].child, SIGKILL);
}

/* Those that do not die of SIGKILL are left to the system, with what they have. */
static void abandon_workers(struct supervisor *supervisor)
{
    for (uint32_t worker = 0; worker < supervisor->run->worker_count; worker++) {
        struct child *child = &supervisor->processes[worker].child;
        if (child->pidfd < 0)
            continue;
        run_log(supervisor->run, 2, "worker %u: process %d is stuck in the system and is left behind", worker,
                (int)child->pid);
        child_close(child);
    }
}

/* Workers that were asked to end get a moment, then no more. */
static void end_workers(struct supervisor *supervisor)
{
    struct sheaf_run *run = supervisor->run;
    for (uint32_t worker = 0; worker < run->worker_count; worker++) {
        store_release_u32(&run->workers[worker].lane.orders->stop,
                          2); /* the shards have stopped: nobody takes answers */
        event_count_bump_always(run->workers[worker].lane.events);
        if (supervisor->processes[worker].phase == PHASE_STARTING)
            child_kill(&supervisor->processes[worker].child, SIGKILL);
    }
    supervisor_wake_waiters(run);
    uint64_t deadline_ns = clock_now_ns() + STOP_MS * UINT64_C(1000000);
    bool killed = false;
    while (anyone_alive(supervisor)) {
        uint64_t now_ns = clock_now_ns();
        if (now_ns >= deadline_ns && killed) {
            abandon_workers(supervisor);
            return;
        }
        if (now_ns >= deadline_ns) {
            killed = true;
            kill_workers(supervisor);
            deadline_ns = now_ns + watch_death_ns();
        }
        wait_for_events(supervisor, (int)((deadline_ns - now_ns) / 1000000) + 1);
    }
}

static void *supervisor_thread(void *argument)
{
    struct supervisor *supervisor = argument;
    struct sheaf_run *run = supervisor->run;
    pthread_setname_np(pthread_self(), "sheaf-super");
    for (uint32_t worker = 0; worker < run->worker_count; worker++)
        supervisor_launch(supervisor, worker);
    int period_ms = watch_period_ms(run);
    uint64_t next_tick_ns = clock_now_ns(), next_bump_ns = next_tick_ns;
    uint64_t thorough_ticks = watch_thorough_ticks(run), tick = 0;
    while (!atomic_load_explicit(&supervisor->stopping, memory_order_acquire)) {
        uint64_t now_ns = clock_now_ns();
        if (now_ns >= next_tick_ns) {
            /* So are the first: everything becomes real then. */
            watch_tick(run, supervisor->processes, tick < thorough_ticks || tick % thorough_ticks == 0);
            tick++;
            next_tick_ns = now_ns + (uint64_t)period_ms * 1000000;
        }
        if (now_ns >= next_bump_ns) {
            /* Bounds what a hostile worker can cost that meddles with event counts. A shard that looks in a moment is
             * left asleep: to wake it costs as much as a look. */
            wake_waiters(run, now_ns);
            next_bump_ns = now_ns + BUMP_MS * UINT64_C(1000000);
        }
        wait_for_events(supervisor, (int)((next_tick_ns - now_ns) / 1000000) + 1);
        supervisor_take_kills(supervisor);
        supervisor_replace_recovered(supervisor);
    }
    end_workers(supervisor);
    return NULL;
}

/* ---- life ---- */

static void destroy(struct supervisor *supervisor)
{
    if (supervisor->epoll_fd >= 0)
        close(supervisor->epoll_fd);
    if (supervisor->wake_fd >= 0)
        close(supervisor->wake_fd);
    mailbox_fini(&supervisor->inbox);
    pthread_mutex_destroy(&supervisor->lock);
    pthread_cond_destroy(&supervisor->changed);
    free(supervisor->processes);
    free(supervisor->ready_of_pool);
    free(supervisor);
}

static struct supervisor *create(struct sheaf_run *run)
{
    struct supervisor *supervisor = calloc(1, sizeof *supervisor);
    if (!supervisor)
        return NULL;
    supervisor->run = run;
    mailbox_init(&supervisor->inbox, &run->memory.of[MEMORY_MESSAGES]);
    pthread_mutex_init(&supervisor->lock, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&supervisor->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    supervisor->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    supervisor->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    supervisor->processes = calloc(run->worker_count + 1, sizeof *supervisor->processes);
    supervisor->ready_of_pool = calloc(run->plan->pool_count + 1, sizeof *supervisor->ready_of_pool);
    supervisor->oom_kills = supervisor_count_oom_kills();
    if (supervisor->epoll_fd < 0 || supervisor->wake_fd < 0 || !supervisor->processes || !supervisor->ready_of_pool ||
        supervisor_listen(supervisor, supervisor->wake_fd, HEARD_WAKE, 0) < 0) {
        destroy(supervisor);
        return NULL;
    }
    for (uint32_t worker = 0; worker < run->worker_count; worker++)
        supervisor->processes[worker].child = CHILD_NONE;
    return supervisor;
}

static bool all_pools_ready(const struct supervisor *supervisor)
{
    for (uint32_t pool = 0; pool < supervisor->run->plan->pool_count; pool++) {
        if (supervisor->run->pool_count[pool] > 0 && supervisor->ready_of_pool[pool] == 0)
            return false;
    }
    return true;
}

/* Waits for news of the start, and asks the host whether it still wants it. The lock is held, but for the asking. */
static void wait_for_start(struct supervisor *supervisor)
{
    const struct sheaf_run *run = supervisor->run;
    if (!run->gives_up) {
        pthread_cond_wait(&supervisor->changed, &supervisor->lock);
        return;
    }
    pthread_mutex_unlock(&supervisor->lock);
    bool over = run->gives_up(run->gives_up_cookie) != 0;
    pthread_mutex_lock(&supervisor->lock);
    if (over && supervisor->start_status == 0) {
        supervisor->start_status = SHEAF_E_CLOSED;
        snprintf(supervisor->start_line, sizeof supervisor->start_line, "given up while workers were starting");
    }
    if (supervisor->start_status != 0 || all_pools_ready(supervisor)) /* meanwhile */
        return;
    uint64_t until_ns = clock_now_ns() + ASK_MS * UINT64_C(1000000);
    struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000), .tv_nsec = (long)(until_ns % 1000000000)};
    pthread_cond_timedwait(&supervisor->changed, &supervisor->lock, &until);
}

int supervisor_start(struct sheaf_run *run, struct sheaf_error *error)
{
    struct supervisor *supervisor = create(run);
    if (!supervisor)
        return -ENOMEM;
    run->supervisor = supervisor;
    int result = thread_start(&supervisor->thread, supervisor_thread, supervisor);
    if (result < 0) {
        run->supervisor = NULL;
        destroy(supervisor);
        return result;
    }
    pthread_mutex_lock(&supervisor->lock);
    while (supervisor->start_status == 0 && !all_pools_ready(supervisor))
        wait_for_start(supervisor);
    result = supervisor->start_status;
    supervisor->running = result == 0;
    pthread_mutex_unlock(&supervisor->lock);
    if (result < 0 && error) {
        error->code = result;
        snprintf(error->message, sizeof error->message, "%.*s", (int)sizeof error->message - 1, supervisor->start_line);
    }
    return result;
}

void supervisor_stop(struct supervisor *supervisor)
{
    if (!supervisor)
        return;
    atomic_store_explicit(&supervisor->stopping, true, memory_order_release);
    supervisor_wake(supervisor);
    pthread_join(supervisor->thread, NULL);
    destroy(supervisor);
}

uint64_t supervisor_worker_cpu_us(struct supervisor *supervisor, uint32_t *ret_alive)
{
    uint64_t total_us = atomic_load_explicit(&supervisor->dead_cpu_us, memory_order_relaxed);
    uint32_t alive = 0;
    for (uint32_t worker = 0; worker < supervisor->run->worker_count; worker++) {
        clockid_t clock;
        struct timespec spent;
        pid_t pid = atomic_load_explicit(&supervisor->processes[worker].pid, memory_order_relaxed);
        if (pid <= 0 || clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &spent) < 0)
            continue;
        total_us += (uint64_t)spent.tv_sec * 1000000 + (uint64_t)spent.tv_nsec / 1000;
        alive++;
    }
    if (ret_alive)
        *ret_alive = alive;
    return total_us;
}
