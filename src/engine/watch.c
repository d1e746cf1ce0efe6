/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/watch.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/supervisor_internal.h"

enum {
    PERIOD_MS_MAX = 1000,
    PERIOD_MS_MIN = 10,
    THOROUGH_PART = 16, /* of the shortest deadline: how often everything is looked at, if that is longer than a tick */
    THOROUGH_MS_MAX = 4000,
    NEAR_PART = 8, /* of its share of memory: who has less is looked at when everything is */
    STOPPED_TICKS_MAX = 2,
    PROC_TEXT_BYTES = 256,
};

void process_kill(struct process *process, enum worker_end end, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(process->why, sizeof process->why, format, arguments);
    va_end(arguments);
    process->killed = true;
    process->killed_ns = clock_now_ns();
    process->end = end;
    child_kill(&process->child, SIGKILL);
}

uint64_t watch_death_ns(void)
{
    enum { DEFAULT_MS = 60000 };                   /* to free what it has, and for a driver to let it go */
    const char *forced = getenv("SHEAF_DEATH_MS"); /* for tests */
    return UINT64_C(1000000) * (forced ? strtoul(forced, NULL, 10) : DEFAULT_MS);
}

/* Even SIGKILL waits for a system call that waits for a disk or a driver. What such a process has cannot be taken from
 * it, so the run cannot go on. */
static void check_death(const struct sheaf_run *run, uint32_t worker, struct process *process, uint64_t now_ns)
{
    uint64_t limit_ns = watch_death_ns();
    if (process->undead_told || now_ns - process->killed_ns <= limit_ns)
        return;
    process->undead_told = true;
    char line[512];
    snprintf(line, sizeof line,
             "worker %u (process %d) was killed and is still there after %.3g s: it is stuck in the system, which "
             "/proc/%d/stack may show; it was killed because: %s",
             worker, (int)process->child.pid, (double)limit_ns / 1e9, (int)process->child.pid, process->why);
    supervisor_give_up(run->supervisor, SHEAF_E_ENVIRONMENT, line);
}

/* The least of all deadlines, or `most_ms`. */
static uint32_t shortest_timeout_ms(const struct sheaf_run *run, uint32_t most_ms)
{
    uint32_t shortest_ms = most_ms;
    for (uint32_t call = 0; call < run->plan->call_count; call++) {
        uint32_t timeout_ms = run_timeout_ms(run, &run->plan->calls[call]);
        shortest_ms = timeout_ms < shortest_ms ? timeout_ms : shortest_ms;
    }
    return shortest_ms;
}

int watch_period_ms(const struct sheaf_run *run)
{
    uint32_t shortest = shortest_timeout_ms(run, 4 * PERIOD_MS_MAX);
    return shortest / 4 < PERIOD_MS_MIN ? PERIOD_MS_MIN : (int)(shortest / 4);
}

uint64_t watch_thorough_ticks(const struct sheaf_run *run)
{
    uint32_t often_ms = shortest_timeout_ms(run, UINT32_MAX) / THOROUGH_PART,
             period_ms = (uint32_t)watch_period_ms(run);
    often_ms = often_ms < THOROUGH_MS_MAX ? often_ms : THOROUGH_MS_MAX;
    return often_ms > period_ms ? often_ms / period_ms : 1;
}

/* The beginning of one of a process's files in /proc, as text; false when there is no such file. */
static bool read_proc(pid_t pid, const char *name, int *descriptor, char *ret_text, size_t text_bytes)
{
    char path[64];
    if (*descriptor < 0) {
        snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
        *descriptor = open(path, O_RDONLY | O_CLOEXEC);
    }
    ssize_t got = *descriptor >= 0 ? pread(*descriptor, ret_text, text_bytes - 1, 0) : -1;
    ret_text[got > 0 ? got : 0] = '\0';
    return got > 0;
}

/* How long the process was ready to run and had no core, over its life: the second number of schedstat (proc(5)). 0
 * where the kernel does not count it. */
static uint64_t process_waited_ns(struct child *child)
{
    char text[PROC_TEXT_BYTES];
    unsigned long long waited;
    bool known = read_proc(child->pid, "schedstat", &child->schedstat, text, sizeof text) &&
                 sscanf(text, "%*u %llu", &waited) == 1;
    return known ? waited : 0;
}

/* How long the process has waited for a core since the last thorough look before the row that runs longest began. */
static uint64_t waited_with_row(struct sheaf_run *run, uint32_t worker, struct process *process)
{
    struct worker *who = &run->workers[worker];
    const struct claim_page *page = &who->lane.claims;
    uint64_t before_ns = atomic_load_explicit(&who->waited_ns, memory_order_relaxed);
    uint64_t waited_ns = process_waited_ns(&process->child), since_ns = UINT64_MAX;
    atomic_store_explicit(&who->waited_ns, waited_ns, memory_order_relaxed);
    for (uint32_t i = 0; i < page->row_count; i++) {
        struct claim_row row = claim_page_read(page, i);
        if (row.state == CLAIM_RUNNING && row.since_ns < since_ns)
            since_ns = row.since_ns;
    }
    if (since_ns != process->row_since_ns) /* it began after that look; another process counts from 0 */
        process->row_waited_ns = before_ns < waited_ns ? before_ns : 0;
    process->row_since_ns = since_ns;
    return waited_ns - process->row_waited_ns;
}

/* A row over its deadline. */
static void check_deadline(struct sheaf_run *run, uint32_t worker, struct process *process, uint64_t now_ns)
{
    const struct claim_page *page = &run->workers[worker].lane.claims;
    uint64_t waited_ns = waited_with_row(run, worker, process);
    uint64_t shortest_ns = shortest_timeout_ms(run, UINT32_MAX) * UINT64_C(1000000);
    if (process->row_since_ns == UINT64_MAX || now_ns - process->row_since_ns <= shortest_ns)
        return; /* not even the oldest can be over it; else each by its own, which stands in its descriptor */
    for (uint32_t i = 0; i < page->row_count; i++) {
        struct claim_row row = claim_page_read(page, i);
        if (row.state != CLAIM_RUNNING || row.blocked || row.since_ns == 0 || row.since_ns >= now_ns)
            continue;
        struct dispatch_glance glance;
        if (!run_glance(run, &row, &glance) || glance.timeout_ns == 0 ||
            watch_own_ns(now_ns - row.since_ns, waited_ns) <= glance.timeout_ns)
            continue;
        process->grain = row.grain;
        process->number = row.number;
        process_kill(process, WORKER_TIMED_OUT, "no answer within %.3g s", (double)glance.timeout_ns / 1e9);
        return;
    }
}

/* A process that was stopped from outside (SIGSTOP) answers nothing and releases nothing. One that is found stopped in
 * two ticks is replaced; what `went_on` since the last one is not asked. Who stopped it cannot be told: a row that ran
 * is tried once more alone, and only one that finds itself there again has done it. */
static void check_stopped(struct process *process, bool went_on)
{
    process->stopped_ticks = !went_on && child_is_stopped(&process->child) ? process->stopped_ticks + 1 : 0;
    if (process->stopped_ticks >= STOPPED_TICKS_MAX)
        process_kill(process, WORKER_STOPPED, "the worker was stopped and did not go on");
}

/* One that does not become ready, because what its operators do when they open hangs, would be waited for for ever. It
 * is said before it is ended. */
static void check_start(const struct sheaf_run *run, uint32_t worker, struct process *process, uint64_t now_ns)
{
    enum { TOLD_PART = 8 };
    uint64_t limit_ns = UINT64_C(1000000) * run_start_timeout_ms(run);
    uint64_t own_ns = watch_own_ns(now_ns - process->started_ns, process_waited_ns(&process->child));
    if (own_ns > limit_ns) {
        process_kill(process, WORKER_TIMED_OUT, "it was not ready within %.3g s (--start-timeout)",
                     (double)limit_ns / 1e9);
    } else if (own_ns > limit_ns / TOLD_PART && !process->start_told) {
        process->start_told = true;
        run_log(run, 1, "worker %u is still starting after %.3g s: its operators open; it may take %.3g s", worker,
                (double)own_ns / 1e9, (double)limit_ns / 1e9);
    }
}

static uint64_t private_bytes(pid_t pid, int *statm)
{
    char text[PROC_TEXT_BYTES];
    unsigned long long resident, shared;
    if (!read_proc(pid, "statm", statm, text, sizeof text) || sscanf(text, "%*u %llu %llu", &resident, &shared) != 2)
        return 0;
    return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t process_private_bytes(pid_t pid)
{
    int statm = -1;
    uint64_t bytes = private_bytes(pid, &statm);
    if (statm >= 0)
        close(statm);
    return bytes;
}

static void check_memory(struct process *process, uint64_t bytes, uint64_t limit)
{
    if (bytes > limit)
        process_kill(process, WORKER_OOM, "the worker's memory grew to %llu MiB, over its share of %llu MiB",
                     (unsigned long long)(bytes >> 20), (unsigned long long)(limit >> 20));
}

/* What a GPU's driver takes for itself before the first row comes is not the worker's doing. */
static uint64_t allowance(const struct sheaf_run *run, uint32_t worker, struct process *process, uint64_t bytes)
{
    if (run->workers[worker].device != TOPO_NONE && process->base_bytes == 0)
        process->base_bytes = bytes;
    return process->base_bytes;
}

/* ---- those that are to end ---- */

/* Of whatever Call: what a worker may need for one row it may need for closing what it opened. */
static uint64_t longest_timeout_ns(const struct sheaf_run *run)
{
    uint32_t longest_ms = 0;
    for (uint32_t call = 0; call < run->plan->call_count; call++) {
        uint32_t timeout_ms = run_timeout_ms(run, &run->plan->calls[call]);
        longest_ms = timeout_ms > longest_ms ? timeout_ms : longest_ms;
    }
    return UINT64_C(1000000) * longest_ms;
}

/* It was asked to end, or has run the rows that it may, and has none. */
static bool is_to_end(const struct worker *who)
{
    const struct lane *lane = &who->lane;
    uint32_t most = load_relaxed_u32(&lane->orders->rows_max);
    if (load_relaxed_u32(&lane->orders->stop) == 0 && (most == 0 || load_relaxed_u64(&lane->counters->rows_run) < most))
        return false;
    for (uint32_t i = 0; i < lane->claims.row_count; i++) {
        uint32_t state = claim_page_read(&lane->claims, i).state;
        if (state != CLAIM_FREE && state != CLAIM_DAMAGED)
            return false;
    }
    return true;
}

/* One that hangs in the `close` of an operator would take no rows any more, and keep the memory that it has. */
static void check_end(const struct sheaf_run *run, uint32_t worker, struct process *process, uint64_t now_ns)
{
    uint64_t limit_ns;
    if (!is_to_end(&run->workers[worker])) {
        process->ending_since_ns = 0;
        return;
    }
    uint64_t waited_ns = process_waited_ns(&process->child);
    if (process->ending_since_ns == 0) {
        process->ending_since_ns = now_ns;
        process->ending_waited_ns = waited_ns;
    } else if (watch_own_ns(now_ns - process->ending_since_ns, waited_ns - process->ending_waited_ns) >
               (limit_ns = longest_timeout_ns(run))) {
        process->grain = UINT32_MAX; /* no row's deadline */
        process_kill(process, WORKER_TIMED_OUT, "it was to be replaced and did not end within %.3g s",
                     (double)limit_ns / 1e9);
    }
}

/* ---- recycling: workers end by themselves after many rows (lane.orders), and here when they grew ---- */

enum { GROWN_TICKS = 16 };

/* Three quarters of the share never came back over some ticks: not between rows either. */
static bool has_grown(struct process *process, uint64_t bytes, uint64_t limit)
{
    process->least_bytes = process->least_ticks == 0 || bytes < process->least_bytes ? bytes : process->least_bytes;
    if (++process->least_ticks < GROWN_TICKS)
        return false;
    process->least_ticks = 0;
    return process->least_bytes > limit / 4 * 3;
}

static void check_growth(struct sheaf_run *run, uint32_t worker, struct process *process, uint64_t bytes)
{
    struct worker *who = &run->workers[worker];
    if (!has_grown(process, bytes - (bytes < process->base_bytes ? bytes : process->base_bytes),
                   run->budget.heap_bytes))
        return;
    /* After the row at hand. Partner: the worker's load in orders_poll, and before it parks. */
    store_release_u32(&who->lane.orders->stop, 1);
    event_count_bump_always(&run->shards[0]->board.pool_events[who->pool]);
}

bool process_ended_well(const struct sheaf_run *run, uint32_t worker, const struct process *process, int status)
{
    if (process->phase != PHASE_READY || process->killed || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return false;
    const struct claim_page *page = &run->workers[worker].lane.claims;
    for (uint32_t i = 0; i < page->row_count; i++) {
        if (claim_page_read(page, i).state == CLAIM_RUNNING)
            return false;
    }
    return true;
}

static bool has_gone_on(const struct sheaf_run *run, uint32_t worker, struct process *process)
{
    uint64_t before = process->rows_run;
    process->rows_run = load_relaxed_u64(&run->workers[worker].lane.counters->rows_run);
    return process->rows_run != before;
}

static void look_at_ready(struct sheaf_run *run, uint32_t worker, struct process *process, uint64_t now_ns,
                          bool thorough)
{
    if (thorough || process->bytes == 0 || process->bytes > run->budget.heap_bytes / NEAR_PART)
        process->bytes = private_bytes(process->child.pid, &process->child.statm);
    if (thorough && !process->killed)
        check_deadline(run, worker, process, now_ns);
    if (!process->killed)
        check_stopped(process, has_gone_on(run, worker, process));
    if (!process->killed)
        check_end(run, worker, process, now_ns);
    if (!process->killed)
        check_memory(process, process->bytes, run->budget.heap_bytes + allowance(run, worker, process, process->bytes));
    if (!process->killed)
        check_growth(run, worker, process, process->bytes);
}

void watch_tick(struct sheaf_run *run, struct process *processes, bool thorough)
{
    uint64_t now_ns = clock_now_ns(), resident = 0;
    for (uint32_t worker = 0; worker < run->worker_count; worker++) {
        struct process *process = &processes[worker];
        if (process->child.pidfd >= 0 && process->killed)
            check_death(run, worker, process, now_ns);
        if (process->phase == PHASE_STARTING && !process->killed)
            check_stopped(process, false);
        if (process->phase == PHASE_STARTING && !process->killed)
            check_start(run, worker, process, now_ns);
        if (process->phase != PHASE_READY)
            continue;
        look_at_ready(run, worker, process, now_ns, thorough);
        resident += process->bytes;
    }
    if (thorough)
        watch_stray(run, processes);
    memory_sample(run, resident, thorough);
}
