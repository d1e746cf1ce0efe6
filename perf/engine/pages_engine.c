/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's side: a client of the public API. */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <sheaf/engine.h>

#include "pages.h"

/* %: the Call that is measured. Documents are opened and closed by workers of their own, so that those which are
 * measured do nothing else. */
static const char program_head[] =
    "sources: {document: i64}\n"
    "steps:\n"
    "- {call: open, op: perf.pages, in: document, out: pages, pool: open, replicas: %u}\n"
    "- {expand: pages, as: page}\n";
static const char sleep_steps[] =
    "- {call: work, op: perf.sleep, in: page, out: done, pool: work, replicas: %u, batch: %u,\n"
    "   with: {ns_per_row: %lld, ns_per_batch: %lld, steps_per_us: %lld, trace: \"%s\", fail_every: %lld}}\n"
    "- {gather: done, as: all, mode: partial}\n"
    "- {call: close, op: perf.count, in: all, out: result, pool: open}\n"
    "outputs: [result]\n";
static const char paint_steps[] =
    "- {call: work, op: perf.paint, in: page, out: done, pool: work, replicas: %u, with: {bytes: %lld}}\n"
    "- {gather: done, as: all}\n"
    "- {call: close, op: perf.weigh, in: all, out: [result, same], pool: open}\n"
    "outputs: [result, same]\n";

struct side {
    const struct job *job;
    struct sheaf_registry *registry;
    struct sheaf_program *program;
    struct sheaf_plan *plan;
    struct sheaf_engine *engine;
    struct sheaf_run *run;
    struct sheaf_error error;
    uint32_t submitted, finished;
    uint64_t ok, partial, counted, same; /* counted: what the documents say they had, added up */
    double since, first_s;
    json_t *roots;
    char *ledger;
};

static int compile(struct side *side)
{
    const struct job *job = side->job;
    char text[2048];
    int used = snprintf(text, sizeof text, program_head, job->openers);
    if (strcmp(job->program, "paint") == 0)
        snprintf(text + used, sizeof text - (size_t)used, paint_steps, job->workers, (long long)job->bytes);
    else
        snprintf(text + used, sizeof text - (size_t)used, sleep_steps, job->workers, job->batch,
                 (long long)job->cost.ns_per_row, (long long)job->cost.ns_per_batch, (long long)job->cost.steps_per_us,
                 job->trace ? job->trace : "", (long long)job->fail_every);
    int status = sheaf_registry_create(&side->registry);
    if (status == 0)
        status = sheaf_registry_load(side->registry, job->plugin, &side->error);
    if (status == 0)
        status = sheaf_program_create(side->registry, &side->program);
    if (status == 0)
        status = sheaf_program_parse(side->program, "perf_pages", text, strlen(text), NULL, 0, &side->error);
    return status == 0 ? sheaf_program_compile(side->program, &side->plan, &side->error) : status;
}

static int start(struct side *side)
{
    const struct job *job = side->job;
    struct sheaf_engine_options options = {.size = sizeof options,
                                           .workers = job->workers + job->openers,
                                           .memory_bytes = job->memory_bytes,
                                           .root_window = job->window,
                                           .row_timeout_ms = 600000};
    struct sheaf_run_options run_options = {.size = sizeof run_options};
    int status = compile(side);
    if (status == 0)
        status = sheaf_engine_create(&options, &side->engine, &side->error);
    return status == 0 ? sheaf_run_open(side->engine, side->plan, &run_options, &side->run, &side->error) : status;
}

static int submit_some(struct side *side)
{
    int status = 0;
    while (side->submitted < side->job->documents) {
        struct sheaf_value value = {.kind = SHEAF_I64, .i64 = side->job->pages[side->submitted]};
        struct sheaf_submission submission = {
            .size = sizeof submission, .value_count = 1, .values = &value, .tag = side->submitted};
        status = sheaf_run_submit(side->run, &submission, NULL, &side->error);
        if (status < 0)
            break;
        if (++side->submitted == side->job->documents)
            sheaf_run_close_input(side->run);
    }
    return status == -EAGAIN ? 0 : status;
}

static void take_result(struct side *side, struct sheaf_result *result)
{
    struct sheaf_result_info info = {.size = sizeof info};
    struct sheaf_item item = {.size = sizeof item};
    double now = pages_now_s() - side->since;
    sheaf_result_info(result, &info);
    side->ok += info.status == SHEAF_ROOT_OK;
    side->partial += info.status == SHEAF_ROOT_PARTIAL;
    if (sheaf_result_item(result, 0, 0, &item) == 0 && item.outcome == SHEAF_PRESENT)
        side->counted += (uint64_t)item.value.i64;
    if (sheaf_result_item(result, 1, 0, &item) == 0 && item.outcome == SHEAF_PRESENT)
        side->same += (uint64_t)item.value.i64;
    if (side->finished++ == 0)
        side->first_s = now;
    if (side->job->events)
        json_array_append_new(side->roots, json_pack("[f,I]", now, (json_int_t)info.child_count));
    sheaf_result_acknowledge(result);
}

/* CPU so far of the processes that a thread started and that live: schedstat (proc(5)). */
static double children_cpu_s(const char *thread)
{
    char path[64], word[32];
    double total_s = 0;
    snprintf(path, sizeof path, "/proc/self/task/%.20s/children", thread);
    FILE *children = fopen(path, "re");
    while (children && fscanf(children, "%31s", word) == 1) {
        unsigned long long ran_ns = 0;
        snprintf(path, sizeof path, "/proc/%s/schedstat", word);
        FILE *file = fopen(path, "re");
        if (file && fscanf(file, "%llu", &ran_ns) == 1)
            total_s += (double)ran_ns * 1e-9;
        if (file)
            fclose(file);
    }
    if (children)
        fclose(children);
    return total_s;
}

/* CPU so far of this process and of all that it started, those that it has waited for and those that live. */
static double tree_cpu_s(void)
{
    struct timespec own;
    struct rusage waited;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
    getrusage(RUSAGE_CHILDREN, &waited);
    double total_s = (double)(own.tv_sec + waited.ru_utime.tv_sec + waited.ru_stime.tv_sec) +
                     (double)own.tv_nsec * 1e-9 + (double)(waited.ru_utime.tv_usec + waited.ru_stime.tv_usec) * 1e-6;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks));) {
        if (task->d_name[0] != '.')
            total_s += children_cpu_s(task->d_name);
    }
    if (tasks)
        closedir(tasks);
    return total_s;
}

/* 1: all is done; 0: go on; negative: the run ended. */
static int take_event(struct side *side, const struct sheaf_event *event)
{
    switch (event->kind) {
    case SHEAF_EVENT_ROOT:
        take_result(side, event->result);
        return 0;
    case SHEAF_EVENT_END:
        return 1;
    case SHEAF_EVENT_ABORT:
    case SHEAF_EVENT_FATAL:
        snprintf(side->error.message, sizeof side->error.message, "%s", event->message);
        return -EIO;
    default:
        return 0;
    }
}

static int work(struct side *side)
{
    struct pollfd wait = {.fd = sheaf_run_descriptor(side->run), .events = POLLIN};
    side->since = pages_now_s();
    for (;;) {
        struct sheaf_event event = {.size = sizeof event};
        int status = submit_some(side);
        if (status == 0)
            status = sheaf_run_poll(side->run, &event);
        if (status == 0)
            status = take_event(side, &event);
        if (status != 0)
            return status < 0 ? status : 0;
        if (event.kind == SHEAF_EVENT_NONE)
            poll(&wait, 1, -1);
    }
}

static json_t *describe(struct side *side, double opened, double start_cpu_s, double run_cpu_s)
{
    struct sheaf_progress progress = {.size = sizeof progress};
    sheaf_run_progress(side->run, &progress);
    sheaf_run_ledger(side->run, &side->ledger);
    json_t *more =
        json_pack("{s:I,s:I,s:I,s:I,s:I,s:f,s:f,s:f,s:f,s:f,s:o}", "ok", (json_int_t)side->ok, "partial",
                  (json_int_t)side->partial, "counted", (json_int_t)side->counted, "same", (json_int_t)side->same,
                  "entities", (json_int_t)progress.entities, "open_s", opened, "first_document_s", side->first_s,
                  "started_s", side->since, "start_cpu_s", start_cpu_s, "run_cpu_s", run_cpu_s, "ledger",
                  json_loads(side->ledger ? side->ledger : "null", JSON_DECODE_ANY, NULL));
    if (side->job->events)
        json_object_set(more, "roots", side->roots);
    return more;
}

int pages_engine(const struct job *job, struct outcome *ret_outcome)
{
    struct side side = {.job = job, .error = SHEAF_ERROR_INIT, .roots = json_array()};
    double since = pages_now_s();
    int status = start(&side);
    double opened = pages_now_s() - since, start_cpu_s = tree_cpu_s();
    if (status == 0)
        status = work(&side);
    ret_outcome->run_s = pages_now_s() - side.since;
    if (status == 0)
        ret_outcome->more = describe(&side, opened, start_cpu_s, tree_cpu_s() - start_cpu_s);
    sheaf_run_close(side.run);
    sheaf_engine_destroy(side.engine);
    sheaf_plan_destroy(side.plan);
    sheaf_program_destroy(side.program);
    sheaf_registry_destroy(side.registry);
    ret_outcome->wall_s = pages_now_s() - since;
    if (status < 0)
        fprintf(stderr, "perf_pages: %s\n", side.error.message[0] ? side.error.message : sheaf_status_text(status));
    json_decref(side.roots);
    free(side.ledger);
    return status < 0;
}
