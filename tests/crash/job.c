/* SPDX-License-Identifier: Apache-2.0 */
#include "job.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sheaf/engine.h>

#include "engine/shard.h"
#include "engine/supervisor.h"

enum { SILENCE_MS = 20000, LEFT_MS = 20000 };

#define CALL_TAIL "pool: all, recovery: retry, retries: 6, backoff_ms: 1}\n"
const char *const job_program =
    "name: job\n"
    "sources: {root: i64}\n"
    "steps:\n"
    "  - {call: burst, op: crash.burst, in: [root], out: [children], " CALL_TAIL
    "  - {expand: [children], as: [child]}\n"
    "  - {broadcast: root, like: child, as: child_root}\n"
    "  - {call: guard, op: crash.guard, in: [child], out: [item], " CALL_TAIL
    "  - {call: paint, op: crash.paint, in: [item], out: [picture], " CALL_TAIL
    "  - {call: words, op: crash.words, in: [picture], out: [word], " CALL_TAIL
    "  - {call: weigh, op: crash.weigh, in: [child], out: [weight], batch: 4, " CALL_TAIL
    "  - {call: relate, op: crash.kin, in: [item, child_root], out: [kin], " CALL_TAIL
    "  - {gather: [picture], mode: partial, as: [pictures]}\n"
    "  - {gather: [word], mode: partial, as: [word_lists]}\n"
    "  - {gather: [weight], mode: partial, as: [weights]}\n"
    "  - {gather: [kin], as: [kins]}\n"
    "  - {call: total, op: crash.total, in: [pictures, word_lists, weights, kins], out: [line], " CALL_TAIL
    "outputs: [line, pictures]\n";

/* ---- text ---- */

struct text {
    char *bytes;
    size_t used, room;
};

static void put(struct text *text, const char *format, ...) SHEAF_PRINTF(2, 3);
static void put(struct text *text, const char *format, ...)
{
    char line[1024];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(line, sizeof line, format, values);
    va_end(values);
    if (length < 0 || (size_t)length >= sizeof line)
        abort();
    while (text->room < text->used + (size_t)length + 1) {
        text->room = text->room * 2 + 4096;
        text->bytes = realloc(text->bytes, text->room);
        if (!text->bytes)
            abort();
    }
    memcpy(text->bytes + text->used, line, (size_t)length + 1);
    text->used += (size_t)length;
}

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ ((const unsigned char *)data)[i]) * UINT64_C(1099511628211);
    return hash;
}

static void put_value(struct text *text, const struct sheaf_value *value)
{
    if (value->kind == SHEAF_I64) {
        put(text, " %" PRId64, value->i64);
    } else if (SHEAF_KIND_DEPTH(value->kind) > 0) {
        struct sheaf_value element;
        struct sheaf_list_error error;
        put(text, " [");
        while (sheaf_list_next(value->list, &element) > 0) {
            put(text, " %" PRIu64 ":", sheaf_list_ordinal(value->list));
            put_value(text, &element);
        }
        while (sheaf_list_error_next(value->list, &error) > 0)
            put(text, " !%" PRIu64 " %s", error.ordinal, error.message);
        put(text, " ]");
    } else {
        put(text, " %" PRIu64 "/%016" PRIx64 " %s", value->length_bytes,
            hash_bytes(UINT64_C(14695981039346656037), value->data, value->length_bytes),
            value->kind == SHEAF_BYTES && value->name ? value->name : "");
    }
}

/* Which rows of a root were still run before it failed as a whole depends on time: of such a root only that it did. */
static void put_result(struct text *text, const struct sheaf_result *result, const struct sheaf_result_info *info)
{
    put(text, "%s", sheaf_root_status_name(info->status));
    if (info->status == SHEAF_ROOT_FAILED) {
        put(text, "\n");
        return;
    }
    struct sheaf_item item = {.size = sizeof item};
    for (size_t output = 0; output < 2; output++)
        for (size_t i = 0; sheaf_result_item(result, output, i, &item) == 0; i++) {
            put(text, " %d", (int)item.outcome);
            if (item.outcome == SHEAF_PRESENT)
                put_value(text, &item.value);
            else
                put(text, " %s", item.cause);
        }
    struct sheaf_failure failure = {.size = sizeof failure};
    for (size_t i = 0; sheaf_result_failure(result, i, &failure) == 0; i++)
        put(text, "; %s %" PRIu64 " %s %s", failure.call, failure.coordinate[failure.depth - 1],
            sheaf_class_name(failure.class_id), failure.message);
    put(text, "\n");
}

/* ---- a run ---- */

struct running {
    const struct job_options *options;
    struct job_outcome *outcome;
    struct sheaf_run *run;
    struct text *lines; /* per root, or NULL */
    bool *seen;         /* per root */
    uint64_t submitted, done;
    bool ended;
};

static void problem(struct job_outcome *outcome, const char *format, ...) SHEAF_PRINTF(2, 3);
static void problem(struct job_outcome *outcome, const char *format, ...)
{
    if (outcome->problem[0])
        return;
    va_list values;
    va_start(values, format);
    vsnprintf(outcome->problem, sizeof outcome->problem, format, values);
    va_end(values);
}

static void on_log(void *cookie, int level, const char *line)
{
    struct job_outcome *outcome = cookie;
    if (strstr(line, "killed by signal 9"))
        __atomic_store_n(&outcome->killed, true, __ATOMIC_RELAXED);
    if (getenv("JOB_LOG"))
        fprintf(stderr, "%d %s\n", level, line);
}

static void submit(struct running *running)
{
    while (running->submitted < running->options->roots) {
        struct sheaf_value value = {.kind = SHEAF_I64, .i64 = (int64_t)running->submitted};
        struct sheaf_submission submission = {.size = sizeof submission, .value_count = 1, .values = &value};
        submission.tag = running->submitted;
        struct sheaf_error error = SHEAF_ERROR_INIT;
        int status = sheaf_run_submit(running->run, &submission, NULL, &error);
        if (status == -EAGAIN)
            return;
        if (status < 0) {
            problem(running->outcome, "submit: %d %s", status, error.message);
            running->ended = true;
            return;
        }
        running->submitted++;
    }
    sheaf_run_close_input(running->run);
}

/* The one output is the list of the root's items: root * items_per_root and on. */
static void check_items(struct running *running, const struct sheaf_result *result,
                        const struct sheaf_result_info *info)
{
    struct sheaf_item item = {.size = sizeof item};
    struct sheaf_value value;
    uint64_t count = 0, wanted = running->options->items_per_root;
    if (info->status != SHEAF_ROOT_OK || sheaf_result_item(result, 0, 0, &item) < 0 || item.outcome != SHEAF_PRESENT) {
        problem(running->outcome, "root %" PRIu64 " is %s: %s", info->tag, sheaf_root_status_name(info->status),
                info->message);
        return;
    }
    while (sheaf_list_next(item.value.list, &value) > 0) {
        if (value.i64 != (int64_t)(info->tag * wanted + count))
            problem(running->outcome, "root %" PRIu64 ": item %" PRIu64 " is %" PRId64, info->tag, count, value.i64);
        count++;
    }
    if (count != wanted)
        problem(running->outcome, "root %" PRIu64 " has %" PRIu64 " items", info->tag, count);
}

static void take_event(struct running *running, const struct sheaf_event *event)
{
    struct sheaf_result_info info = {.size = sizeof info};
    switch (event->kind) {
    case SHEAF_EVENT_ROOT:
        sheaf_result_info(event->result, &info);
        if (running->seen[info.tag])
            problem(running->outcome, "root %" PRIu64 " came twice", info.tag);
        running->seen[info.tag] = true;
        if (running->lines)
            put_result(&running->lines[info.tag], event->result, &info);
        else
            check_items(running, event->result, &info);
        sheaf_result_acknowledge(event->result);
        running->done++;
        if (running->options->each)
            running->options->each(running->options->cookie, running->done);
        break;
    case SHEAF_EVENT_END:
        running->ended = true;
        break;
    case SHEAF_EVENT_ABORT:
    case SHEAF_EVENT_FATAL:
        problem(running->outcome, "the run broke off: %s", event->message);
        running->ended = true;
        break;
    default:
        break;
    }
}

/* Hosts look at a run while it goes on. */
static void look(struct running *running)
{
    struct sheaf_progress progress = {.size = sizeof progress};
    char *ledger = NULL;
    if (sheaf_run_progress(running->run, &progress) < 0 || progress.submitted != running->submitted)
        problem(running->outcome, "progress is wrong");
    if (running->done % 16 == 0 && sheaf_run_ledger(running->run, &ledger) < 0)
        problem(running->outcome, "there is no ledger");
    free(ledger);
}

static void poll_to_the_end(struct running *running)
{
    while (!running->ended) {
        struct sheaf_event event = {.size = sizeof event};
        submit(running);
        sheaf_run_poll(running->run, &event);
        if (event.kind != SHEAF_EVENT_NONE) {
            take_event(running, &event);
            look(running);
            continue;
        }
        struct pollfd news = {.fd = sheaf_run_descriptor(running->run), .events = POLLIN};
        if (!running->ended && poll(&news, 1, SILENCE_MS) == 0) {
            problem(running->outcome, "nothing happened for %d s: %" PRIu64 " of %" PRIu64 " roots are done",
                    SILENCE_MS / 1000, running->done, running->options->roots);
            running->ended = true;
        }
    }
}

/* Workers may still hold what was acknowledged: state that is being evicted, rows nobody wants any more. It comes back
 * soon, all of it. */
static void wait_for_nothing_left(struct running *running)
{
    struct counts_left sum = {0};
    uint64_t values = 0, bytes = 0;
    for (int waited_ms = 0; waited_ms < LEFT_MS; waited_ms += 5) {
        sum = (struct counts_left){0};
        for (uint32_t i = 0; i < running->run->shard_count; i++) {
            struct counts_left left;
            counts_left_over(running->run->shards[i], &left);
            sum.claims += left.claims;
            sum.holds += left.holds;
            sum.roots += left.roots;
            sum.entities += left.entities;
        }
        values = payload_live_values(running->run->payload);
        bytes = payload_shard_bytes(running->run->payload);
        if (sum.claims + sum.holds + sum.roots + sum.entities + values + bytes == 0)
            return;
        poll(NULL, 0, 5);
    }
    problem(running->outcome,
            "left over: %" PRIu64 " claims, %" PRIu64 " holds, %" PRIu64 " roots, %" PRIu64 " entities, %" PRIu64
            " values of workers, %" PRIu64 " bytes of shards",
            sum.claims, sum.holds, sum.roots, sum.entities, values, bytes);
}

static uint64_t now_us(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void run_all(struct running *running)
{
    struct job_outcome *outcome = running->outcome;
    uint64_t from_us = now_us(CLOCK_MONOTONIC), cpu_us = now_us(CLOCK_PROCESS_CPUTIME_ID);
    poll_to_the_end(running);
    outcome->wall_us = now_us(CLOCK_MONOTONIC) - from_us;
    outcome->engine_cpu_us = now_us(CLOCK_PROCESS_CPUTIME_ID) - cpu_us;
    outcome->worker_cpu_us = supervisor_worker_cpu_us(running->run->supervisor, NULL);
    if (!outcome->problem[0])
        wait_for_nothing_left(running);
    sheaf_run_ledger(running->run, &outcome->ledger);
    outcome->deaths = atomic_load(&running->run->deaths);
    struct text all = {0};
    put(&all, "%s", "");
    for (uint64_t root = 0; root < running->options->roots; root++) {
        if (!running->seen[root])
            problem(outcome, "root %" PRIu64 " never came", root);
        else if (running->lines)
            for (size_t at = 0; at < running->lines[root].used; at += 512)
                put(&all, "%.512s", running->lines[root].bytes + at);
        if (running->lines)
            free(running->lines[root].bytes);
    }
    outcome->text = all.bytes;
}

static struct sheaf_plan *compile(const struct job_options *options, struct sheaf_registry *registry,
                                  struct sheaf_error *error)
{
    struct sheaf_program *program;
    struct sheaf_plan *plan = NULL;
    if (sheaf_registry_load(registry, options->plugin, error) < 0 || sheaf_program_create(registry, &program) < 0)
        return NULL;
    if (sheaf_program_parse(program, "job", options->program, strlen(options->program), NULL, 0, error) == 0)
        sheaf_program_compile(program, &plan, error);
    sheaf_program_destroy(program);
    return plan;
}

void job_run(const struct job_options *options, struct job_outcome *ret_outcome)
{
    struct sheaf_error error = SHEAF_ERROR_INIT;
    struct sheaf_registry *registry;
    struct sheaf_engine *engine = NULL;
    struct running running = {.options = options, .outcome = ret_outcome};
    *ret_outcome = (struct job_outcome){0};
    if (sheaf_registry_create(&registry) < 0)
        abort();
    struct sheaf_engine_options engine_options = {.size = sizeof engine_options,
                                                  .workers = options->workers,
                                                  .worker_path = options->worker,
                                                  .memory_bytes = options->memory_bytes,
                                                  .root_window = options->window,
                                                  .cookie = ret_outcome,
                                                  .log = on_log};
    struct sheaf_plan *plan = compile(options, registry, &error);
    running.lines = options->items_per_root > 0 ? NULL : calloc(options->roots, sizeof *running.lines);
    running.seen = calloc(options->roots, sizeof *running.seen);
    if (!plan || sheaf_engine_create(&engine_options, &engine, &error) < 0 ||
        sheaf_run_open(engine, plan, NULL, &running.run, &error) < 0)
        problem(ret_outcome, "the run does not open: %s", error.message);
    else
        run_all(&running);
    sheaf_run_close(running.run);
    sheaf_engine_destroy(engine);
    sheaf_plan_destroy(plan);
    sheaf_registry_destroy(registry);
    free(running.lines);
    free(running.seen);
    pid_t children[JOB_CHILDREN_MAX];
    uint32_t left = job_children(children, false);
    if (left > 0)
        problem(ret_outcome, "%u processes are left", left);
}

void job_free(struct job_outcome *outcome)
{
    free(outcome->text);
    free(outcome->ledger);
    *outcome = (struct job_outcome){0};
}

/* A worker closes its sandbox when it has started. */
static bool has_settled(pid_t pid)
{
    char path[64], line[128];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    bool settled = false;
    while (file && fgets(line, sizeof line, file))
        settled |= strncmp(line, "NoNewPrivs:\t1", 13) == 0;
    if (file)
        fclose(file);
    return settled;
}

static int parent_of(const char *process)
{
    char path[64];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%.20s/stat", process);
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%*d (%*[^)]) %*c %d", &parent) != 1)
        parent = 0;
    if (file)
        fclose(file);
    return parent;
}

uint32_t job_children(pid_t *ret_children, bool settled)
{
    uint32_t count = 0;
    DIR *processes = opendir("/proc");
    struct dirent *entry;
    while (processes && count < JOB_CHILDREN_MAX && (entry = readdir(processes))) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 0 && parent_of(entry->d_name) == getpid() && (!settled || has_settled(pid)))
            ret_children[count++] = pid;
    }
    if (processes)
        closedir(processes);
    return count;
}
