/* SPDX-License-Identifier: Apache-2.0 */
/* A worker is dead: why, who is told, and what takes its place once every shard has taken what is its own. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "engine/health.h"
#include "engine/supervisor_internal.h"
#include "worker/payload_arena.h"

enum { IDLE_DEATHS_MAX = 100, IDLE_WEIGHT = 10 /* of one that was waited for as long as for a row, and longer */ };

uint64_t supervisor_count_oom_kills(void)
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

static void describe_death(struct supervisor *supervisor, struct process *process, int status,
                           struct message_worker *death)
{
    uint64_t oom_kills = supervisor_count_oom_kills();
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

void supervisor_bury(struct supervisor *supervisor, uint32_t worker)
{
    struct sheaf_run *run = supervisor->run;
    struct process *process = &supervisor->processes[worker];
    int status = SIGKILL; /* as a tracer may keep to itself how it ended */
    long cpu_us = 0;
    supervisor_hear_socket(supervisor, worker); /* its last words */
    supervisor_hear_output(supervisor, worker);
    supervisor_hear_last_line(supervisor, worker);
    epoll_ctl(supervisor->epoll_fd, EPOLL_CTL_DEL, process->child.pidfd, NULL);
    atomic_store_explicit(&process->pid, 0, memory_order_relaxed);
    child_reap(&process->child, &status, &cpu_us);
    if (!process->greeted && WIFEXITED(status))
        process->killed = false; /* that is why it could not be greeted */
    atomic_fetch_add_explicit(&supervisor->dead_cpu_us, (uint64_t)cpu_us, memory_order_relaxed);
    struct message_worker death = {.message.kind = MESSAGE_DEATH, .worker = worker};
    describe_death(supervisor, process, status, &death);
    bool recycled = process_ended_well(run, worker, process, status);
    child_close(&process->child);
    bool was_ready = process->phase == PHASE_READY;
    process->phase = PHASE_RECOVERING;
    payload_orphan(run->payload, worker);
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
    bool by_us = process->killed && process->by_shard;
    if (!was_ready && !by_us && ++process->futile_starts >= FUTILE_STARTS_MAX && !process->retired) {
        char line[384];
        if (process->refusal[0])
            snprintf(line, sizeof line, "worker %u cannot start: %s", worker, process->refusal);
        else if (process->killed)
            snprintf(line, sizeof line, "worker %u cannot start: %s", worker, death.text);
        else
            snprintf(line, sizeof line, "worker %u cannot start: %s: %s; set SHEAF_WORKER to the worker program",
                     worker, run->engine->worker_path, death.text);
        supervisor_give_up(supervisor, SHEAF_E_ENVIRONMENT, line);
    }
    atomic_store_explicit(&process->shards_left, run->shard_count, memory_order_release);
    supervisor_wake_waiters(run); /* it may have died between clearing a flag and waking */
    if (supervisor_tell_shards(supervisor, &death) < 0)
        supervisor_give_up(supervisor, -ENOMEM, "memory is used up");
}

void supervisor_recovered(struct supervisor *supervisor, uint32_t worker, struct recovered how)
{
    if (how.to_blame)
        atomic_store_explicit(&supervisor->processes[worker].to_blame, true, memory_order_relaxed);
    if (how.moved_on)
        atomic_store_explicit(&supervisor->processes[worker].moved_on, true, memory_order_relaxed);
    /* Partner: the acquire load in supervisor_replace_recovered. What the shard took from the lane is taken before the
     * lane is reset. */
    if (atomic_fetch_sub_explicit(&supervisor->processes[worker].shards_left, 1, memory_order_acq_rel) == 1)
        supervisor_wake(supervisor);
}

/* One that dies again and again without a row to blame would be replaced for ever: false when it is enough. One that
 * was ended for what is not known to be its own doing counts only when nothing else went on meanwhile. */
static bool count_idle_death(struct supervisor *supervisor, uint32_t worker)
{
    struct process *process = &supervisor->processes[worker];
    bool own = !process->killed || process->idle;
    bool moved_on = atomic_exchange_explicit(&process->moved_on, false, memory_order_relaxed);
    bool to_blame = atomic_exchange_explicit(&process->to_blame, false, memory_order_relaxed);
    process->idle_deaths =
        to_blame || (!own && moved_on) ? 0 : process->idle_deaths + (process->idle ? IDLE_WEIGHT : 1);
    if (process->idle_deaths >= IDLE_DEATHS_MAX) {
        char line[256];
        snprintf(line, sizeof line, "worker %u died again and again without running a row%s%s; see the log", worker,
                 process->killed ? ": " : "", process->killed ? process->why : "");
        process->phase = PHASE_NONE;
        supervisor_give_up(supervisor, SHEAF_E_ENVIRONMENT, line);
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
            supervisor_launch(supervisor, worker);
    }
}

static void retire_device(struct supervisor *supervisor, uint32_t worker)
{
    struct sheaf_run *run = supervisor->run;
    uint32_t pool = run->workers[worker].pool;
    if (health_devices_left(run, supervisor->processes, pool) > 0) {
        struct message_worker retired = {.message.kind = MESSAGE_RETIRED, .worker = worker};
        if (supervisor_tell_shards(supervisor, &retired) < 0)
            supervisor_give_up(supervisor, -ENOMEM, "memory is used up");
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
    supervisor_give_up(supervisor, SHEAF_E_ENVIRONMENT, line);
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

void supervisor_replace_recovered(struct supervisor *supervisor)
{
    struct sheaf_run *run = supervisor->run;
    for (uint32_t worker = 0; worker < run->worker_count; worker++) {
        struct process *process = &supervisor->processes[worker];
        if (process->phase != PHASE_RECOVERING ||
            atomic_load_explicit(&process->shards_left, memory_order_acquire) != 0)
            continue;
        if (!count_idle_death(supervisor, worker))
            continue;
        payload_end_lease(run->payload, worker, supervisor_first_chunks(run, worker));
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
        supervisor_launch(supervisor, worker);
    }
}
