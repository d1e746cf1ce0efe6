/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small rows through the whole engine: host, shard, worker, device and back. What a batch costs is mostly the engine's
 * own work on its rows, so the CPU of all its processes is divided by the batches.
 */
#include <errno.h>
#include <jansson.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sheaf/sheaf.h>

#include "gpu/gpu.h"

enum { ROW_BYTES = 4096, BATCH_ROWS = 64, ROOTS = 200000, ROOTS_REHEARSED = 640, PATTERNS = 16 };

static const char program_text[] = "sources: {s: bytes}\noutputs: [y]\nsteps:\n"
                                   "- {call: d, op: gpu_check.threshold, in: s, out: y, batch: 64}\n";

struct host {
    struct sheaf_registry *registry;
    struct sheaf_plan *plan;
    struct sheaf_engine *engine;
    struct sheaf_run *run;
    unsigned char rows[PATTERNS][ROW_BYTES];
    uint64_t submitted, taken, wrong;
};

static void must(int status, const struct sheaf_error *error, const char *what)
{
    if (status >= 0)
        return;
    fprintf(stderr, "sheaf-gpu-check: %s: %s\n", what,
            error->message[0] != '\0' ? error->message : sheaf_status_text(status));
    exit(1);
}

/* The plug-in lies beside this program. */
static void load_operator(struct host *host, struct sheaf_error *error)
{
    char own[PATH_MAX], path[PATH_MAX + 32];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    must(length < 0 ? -errno : 0, error, "/proc/self/exe");
    own[length] = '\0';
    snprintf(path, sizeof path, "%s/gpu-check-ops.so", dirname(own));
    must(sheaf_registry_create(&host->registry), error, "operators");
    must(sheaf_registry_load(host->registry, path, error), error, path);
}

static void open_run(struct host *host)
{
    struct sheaf_error error = SHEAF_ERROR_INIT;
    struct sheaf_program *program = NULL;
    struct sheaf_engine_options options = {
        .size = sizeof options, .workers = 1, .memory_bytes = UINT64_C(2) << 30, .device = "cuda", .root_window = 4096};
    load_operator(host, &error);
    must(sheaf_program_create(host->registry, &program), &error, "program");
    must(sheaf_program_parse(program, "gpu-check", program_text, strlen(program_text), NULL, 0, &error), &error,
         "program");
    must(sheaf_program_compile(program, &host->plan, &error), &error, "program");
    sheaf_program_destroy(program);
    must(sheaf_engine_create(&options, &host->engine, &error), &error, "engine");
    must(sheaf_run_open(host->engine, host->plan, NULL, &host->run, &error), &error, "run");
    for (int pattern = 0; pattern < PATTERNS; pattern++)
        for (int i = 0; i < ROW_BYTES; i++)
            host->rows[pattern][i] = (unsigned char)(i * (pattern + 3) + pattern);
}

static void close_run(struct host *host)
{
    sheaf_run_close(host->run);
    sheaf_engine_destroy(host->engine);
    sheaf_plan_destroy(host->plan);
    sheaf_registry_destroy(host->registry);
}

/* As many as there is room for, at most until `count` were submitted. */
static void submit(struct host *host, uint64_t count)
{
    while (host->submitted < count) {
        struct sheaf_error error = SHEAF_ERROR_INIT;
        struct sheaf_value value = {
            .kind = SHEAF_BYTES, .data = host->rows[host->submitted % PATTERNS], .length_bytes = ROW_BYTES};
        struct sheaf_submission submission = {sizeof submission, 1, &value, host->submitted % PATTERNS};
        int status = sheaf_run_submit(host->run, &submission, NULL, &error);
        if (status == -EAGAIN)
            return;
        must(status, &error, "submit");
        host->submitted++;
    }
}

static bool is_right(const struct host *host, const struct sheaf_result *result)
{
    struct sheaf_result_info info = {.size = sizeof info};
    struct sheaf_item item = {.size = sizeof item};
    sheaf_result_info(result, &info);
    if (info.status != SHEAF_ROOT_OK || sheaf_result_item(result, 0, 0, &item) < 0 ||
        item.value.length_bytes != ROW_BYTES)
        return false;
    const unsigned char *out = item.value.data;
    for (int i = 0; i < ROW_BYTES; i++)
        if (out[i] != (host->rows[info.tag][i] > 100 ? 255 : 0))
            return false;
    return true;
}

/* Roots until `count` have come back; every one is looked at when `check` is set. */
static void drive(struct host *host, uint64_t count, bool check)
{
    while (host->taken < count) {
        struct sheaf_event event = {.size = sizeof event};
        submit(host, count);
        sheaf_run_poll(host->run, &event);
        if (event.kind == SHEAF_EVENT_NONE) {
            struct pollfd ready = {sheaf_run_descriptor(host->run), POLLIN, 0};
            poll(&ready, 1, -1);
        } else if (event.kind == SHEAF_EVENT_ROOT) {
            host->wrong += check && !is_right(host, event.result);
            sheaf_result_acknowledge(event.result);
            host->taken++;
        } else if (event.kind == SHEAF_EVENT_FATAL) {
            fprintf(stderr, "sheaf-gpu-check: engine: %s\n", event.message);
            exit(1);
        }
    }
}

struct ledger {
    double cpu_s, batches;
};

static struct ledger read_ledger(const struct host *host)
{
    char *text = NULL;
    struct sheaf_error error = SHEAF_ERROR_INIT;
    must(sheaf_run_ledger(host->run, &text), &error, "ledger");
    json_t *json = json_loads(text, 0, NULL), *cpu = json_object_get(json, "cpu_s");
    json_t *call = json_array_get(json_object_get(json, "calls"), 0);
    struct ledger ledger = {.cpu_s = json_number_value(json_object_get(cpu, "engine")) +
                                     json_number_value(json_object_get(cpu, "workers")),
                            .batches = json_number_value(json_object_get(call, "batches"))};
    json_decref(json);
    free(text);
    return ledger;
}

void engine_run(struct gpu *gpu)
{
    struct host host = {0};
    if (!sheaf_device_kernels.image) {
        printf("\nthe engine: not tried, this build has no kernels for a GPU\n");
        return;
    }
    open_run(&host);
    drive(&host, ROOTS_REHEARSED, true);
    gpu->wrong += host.wrong > 0;
    printf("\n%-36s %10s %10s %12s %12s\n", "the engine, rows of 4 KiB", "rows/s", "batches/s", "rows a batch",
           "us CPU each");
    if (host.wrong > 0 || !gpu->is_real) {
        printf("%-36s %10s %10s\n", host.wrong > 0 ? "WRONG" : "right", "-", "-");
    } else {
        struct ledger before = read_ledger(&host), after;
        double began_s = gpu_now_s();
        drive(&host, ROOTS_REHEARSED + ROOTS, false);
        double took_s = gpu_now_s() - began_s;
        after = read_ledger(&host);
        double batches = after.batches - before.batches;
        printf("%-36s %10.0f %10.0f %12.1f %12.1f\n", "right", ROOTS / took_s, batches / took_s, ROOTS / batches,
               (after.cpu_s - before.cpu_s) * 1e6 / batches);
    }
    close_run(&host);
}
