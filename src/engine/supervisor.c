/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/supervisor.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/greet.h"
#include "engine/health.h"
#include "engine/lend.h"
#include "engine/place.h"
#include "engine/shard.h"
#include "engine/watch.h"
#include "worker/attach.h"
#include "worker/payload_arena.h"

enum {
    BUMP_MS = 1000,
    STOP_MS = 2000,        /* how long a worker may take to end when asked */
    FIRST_CHUNKS = 2,      /* made real before a worker starts; more when it asks */
    FUTILE_STARTS_MAX = 3, /* processes of one worker number that died in a row without having become ready */
    IDLE_DEATHS_MAX = 100,
    ROUNDS_MAX = 32, /* reads from one descriptor before others are looked at */
    EVENTS_MAX = 64,
};

enum heard { HEARD_WAKE, HEARD_DEATH, HEARD_SOCKET, HEARD_OUTPUT };

struct message_kill {
    struct message message;
    uint32_t worker, generation;
    enum worker_end end;
    uint32_t grain; /* TIMED_OUT: the row */
    uint64_t number;
    uint64_t patience_ns; /* only if it has been ready for so long; 0: in any case */
    char why[128];
};

struct supervisor {
    struct sheaf_run *run;
    pthread_t thread;
    int epoll_fd, wake_fd;
    struct mailbox inbox; /* of struct message_kill */
    struct process *processes;
    uint64_t oom_kills; /* the system's count when last looked at */
    _Atomic uint64_t dead_cpu_us;
    _Atomic bool stopping;
    /* The start: under the lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool running; /* past the start: trouble is told to the host */
    uint32_t *ready_of_pool;
    int start_status;
    char start_line[ATTACH_LINE_BYTES + 64];
};

/* ---- small things ---- */

static void wake(struct supervisor *supervisor)
{
    uint64_t one = 1;
    (void)!write(supervisor->wake_fd, &one, sizeof one);
}

static int listen_to(struct supervisor *supervisor, int fd, enum heard what, uint32_t worker)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uint64_t)what << 32 | worker};
    return epoll_ctl(supervisor->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

/* How many processes the kernel has ended for lack of memory since boot. */
static uint64_t count_oom_kills(void)
{
    FILE *file = fopen("/proc/vmstat", "re");
    char line[128];
    unsigned long long kills = 0;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "oom_kill %llu", &kills) == 1)
            break;
    }
    if (file)
        fclose(file);
    return kills;
}

static void wake_all_waiters(struct sheaf_run *run)
{
    for (uint32_t pool = 0; pool < run->plan->pool_count; pool++)
        event_count_bump_always(&run->shards[0]->board.pool_events[pool]);
    for (uint32_t shard = 0; shard < run->shard_count; shard++)
        event_count_bump_always(run->shards[shard]->board.shard_events);
}

static int tell_shards(struct supervisor *supervisor, const struct message_worker *message)
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

static bool is_running(struct supervisor *supervisor)
{
    pthread_mutex_lock(&supervisor->lock);
    bool running = supervisor->running;
    pthread_mutex_unlock(&supervisor->lock);
    return running;
}

/* Something that ends the run. Before the start is over it is the start's result instead. */
static void give_up(struct supervisor *supervisor, int status, const char *line)
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

/* ---- starting ---- */

/* A process whose death nobody would be told of is ended here and now. */
static void bury_unwatched(struct process *process)
{
    int status;
    long cpu_us;
    child_kill(&process->child, SIGKILL);
    child_reap(&process->child, &status, &cpu_us);
    child_close(&process->child);
    process->phase = PHASE_NONE;
}

static int spawn_process(const struct sheaf_run *run, uint32_t worker, const cpu_set_t *cores, struct child *ret_child)
{
    uint32_t device = run->workers[worker].device;
    char *visible = device != TOPO_NONE ? devices_visible(run->devices->found[device].ordinal) : NULL;
    struct child_options options = {
        .path = run->engine->worker_path, .mode = "--attach", .cores = cores, .devices = visible};
    int result = device != TOPO_NONE && !visible ? -ENOMEM : child_spawn(&options, ret_child);
    free(visible);
    return result;
}

static int start_process(struct supervisor *supervisor, uint32_t worker)
{
    struct sheaf_run *run = supervisor->run;
    struct process *process = &supervisor->processes[worker];
    cpu_set_t cores;
    bool kept = place_worker_cores(run, worker, &cores);
    payload_back(run->payload, worker, FIRST_CHUNKS);
    struct greeting greeting;
    int result = greet_prepare(run, worker, &greeting);
    if (result < 0)
        return result;
    struct message_worker attached = {
        .message.kind = MESSAGE_ATTACHED, .worker = worker, .generation = process->generation + 1};
    result = tell_shards(supervisor, &attached);
    if (result == 0)
        result = spawn_process(run, worker, kept ? &cores : NULL, &process->child);
    if (result < 0) {
        free(greeting.chunks);
        return result;
    }
    atomic_store_explicit(&process->pid, process->child.pid, memory_order_relaxed);
    process->phase = PHASE_STARTING;
    process->generation++;
    process->killed = process->idle = false;
    process->fault = DEVICE_FAULT_NONE;
    process->base_bytes = 0;
    process->stopped_ticks = 0;
    process->least_ticks = 0;
    process->end = WORKER_CRASHED;
    process->line_bytes = 0;
    result = greet_send(run, worker, process->generation, process->child.socket, &greeting);
    if (result < 0)
        child_kill(&process->child, SIGKILL); /* its death reports it */
    result = listen_to(supervisor, process->child.pidfd, HEARD_DEATH, worker);
    if (result == 0)
        result = listen_to(supervisor, process->child.socket, HEARD_SOCKET, worker);
    if (result == 0)
        result = listen_to(supervisor, process->child.output, HEARD_OUTPUT, worker);
    if (result < 0)
        bury_unwatched(process);
    return result;
}

static void start_or_give_up(struct supervisor *supervisor, uint32_t worker)
{
    int result = start_process(supervisor, worker);
    if (result == 0)
        return;
    char line[512];
    snprintf(line, sizeof line, "cannot start a worker: %s: %s; set SHEAF_WORKER to the worker program",
             supervisor->run->engine->worker_path, sheaf_status_text(result));
    give_up(supervisor, SHEAF_E_ENVIRONMENT, line);
}

/* ---- what workers say ---- */

static void answer_request(struct supervisor *supervisor, uint32_t worker, const struct attach_reply *request)
{
    int fd = -1, result = lend_descriptor(supervisor->run, worker, request, &fd);
    result = attach_answer_descriptor(supervisor->processes[worker].child.socket, request->number, fd, result);
    if (fd >= 0)
        close(fd);
    if (result < 0)
        supervisor_kill(supervisor, worker, supervisor->processes[worker].generation,
                        "it does not take the descriptor it asked for");
}

static void became_ready(struct supervisor *supervisor, uint32_t worker)
{
    struct process *process = &supervisor->processes[worker];
    process->phase = PHASE_READY;
    process->ready_ns = clock_now_ns();
    process->futile_starts = 0;
    pthread_mutex_lock(&supervisor->lock);
    supervisor->ready_of_pool[supervisor->run->workers[worker].pool]++;
    pthread_cond_broadcast(&supervisor->changed);
    pthread_mutex_unlock(&supervisor->lock);
}

/* While the run starts, its own words are the reason for the user; later, a replacement gets more tries. */
static void refused_to_serve(struct supervisor *supervisor, uint32_t worker, const struct attach_reply *reply)
{
    struct process *process = &supervisor->processes[worker];
    snprintf(process->refusal, sizeof process->refusal, "%.*s", (int)sizeof process->refusal - 1, reply->line);
    if (!is_running(supervisor))
        give_up(supervisor, reply->status < 0 ? reply->status : SHEAF_E_ENVIRONMENT, reply->line);
}

static void on_socket(struct supervisor *supervisor, uint32_t worker)
{
    struct process *process = &supervisor->processes[worker];
    struct attach_reply reply;
    int result = -EAGAIN;
    for (int round = 0; round < ROUNDS_MAX; round++) {
        result = attach_receive_reply(process->child.socket, &reply);
        if (result < 0)
            break;
        switch (reply.kind) {
        case ATTACH_READY:
            if (process->phase == PHASE_STARTING)
                became_ready(supervisor, worker);
            break;
        case ATTACH_ERROR:
            refused_to_serve(supervisor, worker, &reply);
            break;
        case ATTACH_DEVICE_FAULT:
            health_last_words(process, &reply);
            break;
        case ATTACH_REQUEST_DESCRIPTOR:
        case ATTACH_REQUEST_COPY:
            answer_request(supervisor, worker, &reply);
            break;
        default:
            (void)attach_answer_descriptor(process->child.socket, reply.number, -1, -ENOENT);
            break;
        }
    }
    if (result == 0 || result == -EAGAIN)
        return;
    epoll_ctl(supervisor->epoll_fd, EPOLL_CTL_DEL, process->child.socket, NULL);
    if (result != -EPIPE)
        supervisor_kill(supervisor, worker, process->generation, "it wrote nonsense on its socket");
}

static void print_line(struct supervisor *supervisor, uint32_t worker)
{
    struct process *process = &supervisor->processes[worker];
    if (process->line_bytes > 0)
        run_log(supervisor->run, 1, "worker %u printed: %.*s", worker, (int)process->line_bytes, process->line);
    process->line_bytes = 0;
}

static void on_output(struct supervisor *supervisor, uint32_t worker)
{
    struct process *process = &supervisor->processes[worker];
    char buffer[4096];
    ssize_t got = 1;
    /* Bounded: one that prints without end must not keep us from the others. */
    for (int round = 0; round < ROUNDS_MAX && (got = read(process->child.output, buffer, sizeof buffer)) > 0; round++) {
        for (ssize_t i = 0; i < got; i++) {
            if (buffer[i] == '\n' || process->line_bytes == OUTPUT_LINE_BYTES)
                print_line(supervisor, worker);
            if (buffer[i] != '\n')
                process->line[process->line_bytes++] = buffer[i];
        }
    }
    if (got == 0)
        epoll_ctl(supervisor->epoll_fd, EPOLL_CTL_DEL, process->child.output, NULL);
}

/* ---- deaths ---- */

static void describe_death(struct supervisor *supervisor, struct process *process, int status,
                           struct message_worker *death)
{
    uint64_t oom_kills = count_oom_kills();
    bool out_of_memory = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && oom_kills > supervisor->oom_kills;
    supervisor->oom_kills = oom_kills;
    death->on_gpu = supervisor->run->workers[death->worker].device != TOPO_NONE;
    death->grain = process->grain;
    death->number = process->number;
    if (process->killed) {
        death->end = process->end;
        snprintf(death->text, sizeof death->text, "%s", process->why);
    } else if (process->fault != DEVICE_FAULT_NONE) {
        death->end = WORKER_DEVICE;
        death->fault = process->fault;
        snprintf(death->text, sizeof death->text, "device: %.200s", process->refusal);
    } else if (out_of_memory) {
        death->end = WORKER_OOM;
        snprintf(death->text, sizeof death->text, "the worker was ended by the system for lack of memory");
    } else if (WIFEXITED(status) && WEXITSTATUS(status) == PAYLOAD_EXIT_OOM) {
        death->end = WORKER_OOM;
        snprintf(death->text, sizeof death->text, "the worker's memory was to grow over its share of %llu MiB",
                 (unsigned long long)(supervisor->run->budget.heap_bytes >> 20));
    } else if (WIFSIGNALED(status)) {
        death->end = WORKER_CRASHED;
        snprintf(death->text, sizeof death->text, "the worker was killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    } else {
        death->end = WORKER_CRASHED;
        snprintf(death->text, sizeof death->text, "the worker exited with status %d", WEXITSTATUS(status));
    }
}

static void on_death(struct supervisor *supervisor, uint32_t worker)
{
    struct sheaf_run *run = supervisor->run;
    struct process *process = &supervisor->processes[worker];
    int status = 0;
    long cpu_us = 0;
    on_socket(supervisor, worker); /* its last words */
    on_output(supervisor, worker);
    print_line(supervisor, worker);
    epoll_ctl(supervisor->epoll_fd, EPOLL_CTL_DEL, process->child.pidfd, NULL);
    atomic_store_explicit(&process->pid, 0, memory_order_relaxed);
    child_reap(&process->child, &status, &cpu_us);
    atomic_fetch_add_explicit(&supervisor->dead_cpu_us, (uint64_t)cpu_us, memory_order_relaxed);
    struct message_worker death = {.message.kind = MESSAGE_DEATH, .worker = worker};
    describe_death(supervisor, process, status, &death);
    bool recycled = process_ended_well(run, worker, process, status);
    child_close(&process->child);
    bool was_ready = process->phase == PHASE_READY;
    process->phase = PHASE_RECOVERING;
    if (atomic_load_explicit(&supervisor->stopping, memory_order_acquire)) {
        process->phase = PHASE_NONE;
        return;
    }
    atomic_fetch_add_explicit(recycled ? &run->recycled : &run->deaths, 1, memory_order_relaxed);
    if (recycled)
        run_log(run, 0, "worker %u is replaced", worker);
    else
        run_log(run, 1, "worker %u: %s", worker, death.text);
    health_count_fault(run, supervisor->processes, worker);
    bool by_us = process->killed && process->end == WORKER_BREACH; /* for what others of its Pool did */
    if (!was_ready && !by_us && ++process->futile_starts >= FUTILE_STARTS_MAX && !process->retired) {
        char line[384];
        if (process->refusal[0])
            snprintf(line, sizeof line, "worker %u cannot start: %s", worker, process->refusal);
        else
            snprintf(line, sizeof line, "worker %u cannot start: %s: %s; set SHEAF_WORKER to the worker program",
                     worker, run->engine->worker_path, death.text);
        give_up(supervisor, SHEAF_E_ENVIRONMENT, line);
    }
    atomic_store_explicit(&process->shards_left, run->shard_count, memory_order_release);
    wake_all_waiters(run); /* it may have died between clearing a flag and waking */
    if (tell_shards(supervisor, &death) < 0)
        give_up(supervisor, -ENOMEM, "memory is used up");
}

void supervisor_recovered(struct supervisor *supervisor, uint32_t worker, bool to_blame)
{
    if (to_blame)
        atomic_store_explicit(&supervisor->processes[worker].to_blame, true, memory_order_relaxed);
    /* Partner: the acquire load in replace_recovered. What the shard took from the lane is taken before the lane is
     * reset. */
    if (atomic_fetch_sub_explicit(&supervisor->processes[worker].shards_left, 1, memory_order_acq_rel) == 1)
        wake(supervisor);
}

/* One that dies again and again without a row to blame would be replaced for ever: false when it is enough. */
static bool count_idle_death(struct supervisor *supervisor, uint32_t worker)
{
    struct process *process = &supervisor->processes[worker];
    bool idle = !process->killed || process->idle;
    if (atomic_exchange_explicit(&process->to_blame, false, memory_order_relaxed) || !idle)
        process->idle_deaths = 0;
    else if (++process->idle_deaths >= IDLE_DEATHS_MAX) {
        char line[128];
        snprintf(line, sizeof line, "worker %u died %u times in a row without running a row; see the log", worker,
                 process->idle_deaths);
        process->phase = PHASE_NONE;
        give_up(supervisor, SHEAF_E_ENVIRONMENT, line);
        return false;
    }
    return true;
}

/* The rest of the run goes without devices: their workers go on on the host. */
static void use_host(struct supervisor *supervisor, uint32_t pool)
{
    struct sheaf_run *run = supervisor->run;
    run_log(run, 2, "no device is left: the run goes on on the host");
    for (uint32_t i = 0; i < run->pool_count[pool]; i++) {
        uint32_t worker = run->pool_first[pool] + i;
        struct process *process = &supervisor->processes[worker];
        run->workers[worker].device = TOPO_NONE;
        process->retired = false;
        process->futile_starts = 0;
        if (process->phase == PHASE_NONE)
            start_or_give_up(supervisor, worker);
    }
}

static void retire_device(struct supervisor *supervisor, uint32_t worker)
{
    struct sheaf_run *run = supervisor->run;
    uint32_t pool = run->workers[worker].pool;
    if (health_devices_left(run, supervisor->processes, pool) > 0) {
        struct message_worker retired = {.message.kind = MESSAGE_RETIRED, .worker = worker};
        if (tell_shards(supervisor, &retired) < 0)
            give_up(supervisor, -ENOMEM, "memory is used up");
        return;
    }
    if (run->devices->may_use_host) {
        use_host(supervisor, pool);
        return;
    }
    char line[512];
    snprintf(line, sizeof line,
             "no device is left; the last one failed with: %s; --device auto would go on on the host",
             supervisor->processes[worker].refusal);
    give_up(supervisor, SHEAF_E_ENVIRONMENT, line);
}

/* What a process counted of its time goes with its lane. */
static void keep_times(const struct sheaf_run *run, struct worker *worker)
{
    const struct lane_counters *counters = worker->lane.counters;
    uint64_t most_ns = clock_now_ns() - run->started_ns; /* it may have written anything there */
    uint64_t busy_ns = load_relaxed_u64(&counters->busy_ns), idle_ns = load_relaxed_u64(&counters->idle_ns);
    atomic_fetch_add_explicit(&worker->past_busy_ns, busy_ns < most_ns ? busy_ns : most_ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&worker->past_idle_ns, idle_ns < most_ns ? idle_ns : most_ns, memory_order_relaxed);
}

static void replace_recovered(struct supervisor *supervisor)
{
    struct sheaf_run *run = supervisor->run;
    for (uint32_t worker = 0; worker < run->worker_count; worker++) {
        struct process *process = &supervisor->processes[worker];
        if (process->phase != PHASE_RECOVERING ||
            atomic_load_explicit(&process->shards_left, memory_order_acquire) != 0)
            continue;
        if (!count_idle_death(supervisor, worker))
            continue;
        payload_end_lease(run->payload, worker, FIRST_CHUNKS);
        keep_times(run, &run->workers[worker]);
        lane_reset(&run->workers[worker].lane);
        process->phase = PHASE_NONE;
        if (process->retired) {
            retire_device(supervisor, worker);
            continue;
        }
        if (process->futile_starts >= FUTILE_STARTS_MAX)
            continue;
        atomic_fetch_add_explicit(&run->replaced, 1, memory_order_relaxed);
        start_or_give_up(supervisor, worker);
    }
}

static void order_kill(struct supervisor *supervisor, const struct message_kill *order)
{
    struct message_kill *message = malloc(sizeof *message);
    if (!message)
        return;
    *message = *order;
    mailbox_post(&supervisor->inbox, &message->message);
    wake(supervisor);
}

void supervisor_kill(struct supervisor *supervisor, uint32_t worker, uint32_t generation, const char *why)
{
    struct message_kill order = {.worker = worker, .generation = generation, .end = WORKER_BREACH};
    snprintf(order.why, sizeof order.why, "%s", why);
    order_kill(supervisor, &order);
}

void supervisor_time_out(struct supervisor *supervisor, uint32_t worker, uint32_t generation, uint32_t grain,
                         uint64_t number, uint32_t timeout_ms)
{
    struct message_kill order = {
        .worker = worker, .generation = generation, .end = WORKER_TIMED_OUT, .grain = grain, .number = number};
    snprintf(order.why, sizeof order.why, "no answer within %.3g s", timeout_ms / 1e3);
    order_kill(supervisor, &order);
}

void supervisor_end_stuck(struct supervisor *supervisor, uint32_t worker, uint32_t generation)
{
    struct message_kill order = {
        .worker = worker, .generation = generation, .end = WORKER_STUCK, .why = "it had rows and ran none of them"};
    order_kill(supervisor, &order);
}

void supervisor_end_idle(struct supervisor *supervisor, uint32_t worker, uint32_t generation, uint64_t patience_ns)
{
    struct message_kill order = {.worker = worker,
                                 .generation = generation,
                                 .end = WORKER_BREACH,
                                 .patience_ns = patience_ns,
                                 .why = "rows or orders waited and it took none"};
    order_kill(supervisor, &order);
}

static void carry_out(struct supervisor *supervisor, const struct message_kill *order)
{
    struct process *process = &supervisor->processes[order->worker];
    bool ready = process->phase == PHASE_READY;
    if (process->generation != order->generation || process->killed || !(ready || process->phase == PHASE_STARTING))
        return;
    if (order->patience_ns > 0 && (!ready || clock_now_ns() - process->ready_ns < order->patience_ns))
        return;
    process->grain = order->grain;
    process->number = order->number;
    process->idle = order->patience_ns > 0;
    process_kill(process, order->end, "%s", order->why);
}

static void take_kills(struct supervisor *supervisor)
{
    struct message *message = mailbox_take(&supervisor->inbox);
    while (message) {
        struct message_kill *order = (struct message_kill *)message;
        message = message->next;
        carry_out(supervisor, order);
        free(order);
    }
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
            on_death(supervisor, worker);
        break;
    case HEARD_SOCKET:
        if (process->child.socket >= 0)
            on_socket(supervisor, worker);
        break;
    case HEARD_OUTPUT:
        if (process->child.output >= 0)
            on_output(supervisor, worker);
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
    wake_all_waiters(run);
    uint64_t deadline_ns = clock_now_ns() + STOP_MS * UINT64_C(1000000);
    bool killed = false;
    while (anyone_alive(supervisor)) {
        uint64_t now_ns = clock_now_ns();
        if (now_ns >= deadline_ns && !killed) {
            killed = true;
            for (uint32_t worker = 0; worker < run->worker_count; worker++)
                child_kill(&supervisor->processes[worker].child, SIGKILL);
        }
        wait_for_events(supervisor, killed ? BUMP_MS : (int)((deadline_ns - now_ns) / 1000000) + 1);
    }
}

static void *supervisor_thread(void *argument)
{
    struct supervisor *supervisor = argument;
    struct sheaf_run *run = supervisor->run;
    pthread_setname_np(pthread_self(), "sheaf-super");
    for (uint32_t worker = 0; worker < run->worker_count; worker++)
        start_or_give_up(supervisor, worker);
    int period_ms = watch_period_ms(run);
    uint64_t next_tick_ns = clock_now_ns(), next_bump_ns = next_tick_ns;
    while (!atomic_load_explicit(&supervisor->stopping, memory_order_acquire)) {
        uint64_t now_ns = clock_now_ns();
        if (now_ns >= next_tick_ns) {
            watch_tick(run, supervisor->processes);
            next_tick_ns = now_ns + (uint64_t)period_ms * 1000000;
        }
        if (now_ns >= next_bump_ns) {
            wake_all_waiters(run); /* bounds what a hostile worker's meddling with event counts can cost */
            next_bump_ns = now_ns + BUMP_MS * UINT64_C(1000000);
        }
        wait_for_events(supervisor, (int)((next_tick_ns - now_ns) / 1000000) + 1);
        take_kills(supervisor);
        replace_recovered(supervisor);
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
    pthread_cond_init(&supervisor->changed, NULL);
    supervisor->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    supervisor->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    supervisor->processes = calloc(run->worker_count + 1, sizeof *supervisor->processes);
    supervisor->ready_of_pool = calloc(run->plan->pool_count + 1, sizeof *supervisor->ready_of_pool);
    supervisor->oom_kills = count_oom_kills();
    if (supervisor->epoll_fd < 0 || supervisor->wake_fd < 0 || !supervisor->processes || !supervisor->ready_of_pool ||
        listen_to(supervisor, supervisor->wake_fd, HEARD_WAKE, 0) < 0) {
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
        pthread_cond_wait(&supervisor->changed, &supervisor->lock);
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
    wake(supervisor);
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
