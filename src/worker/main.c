/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stock worker: `sheaf-worker --attach FD`, started by the engine. Attach, open every operator, seal, READY, then
 * rows until the engine says stop. `sheaf-worker --devices` says what devices it could drive.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sheaf/worker.h>

#include "worker/attach.h"
#include "worker/device_worker.h"
#include "worker/operators.h"
#include "worker/sandbox.h"
#include "worker/worker.h"

#define MESSAGE_BYTES 512u

static void run_rows(struct sheaf_worker *worker, const struct sheaf_worker_claim *claim,
                     const struct opened_operator *opened)
{
    char message[MESSAGE_BYTES];
    for (uint32_t at = 0; at < claim->row_count; at++) {
        const struct sheaf_row *row = claim->rows[at];
        message[0] = '\0';
        int status = sheaf_worker_start(worker, row);
        if (status == 0)
            status = opened->op->run(opened->state, row, message);
        message[MESSAGE_BYTES - 1] = '\0';
        if (sheaf_worker_finish(worker, row, status, message) < 0)
            return;
    }
}

static void run_batch(struct sheaf_worker *worker, const struct sheaf_worker_claim *claim,
                      const struct opened_operator *opened)
{
    char message[MESSAGE_BYTES] = "";
    const struct sheaf_row **rows;
    uint32_t count = rows_start_batch(worker, &rows);
    int status = 0;
    if (count > 0) {
        struct sheaf_batch batch = {
            .size = sizeof batch, .row_count = count, .rows = rows, .host_batch = claim->host_batch};
        status = opened->op->run_batch(opened->state, &batch, message);
    }
    message[MESSAGE_BYTES - 1] = '\0';
    sheaf_worker_finish_batch(worker, claim, status, message);
}

static int serve(struct sheaf_worker *worker, const struct operators *operators)
{
    for (;;) {
        const struct sheaf_worker_claim *claim;
        int status = sheaf_worker_claim(worker, -1, &claim);
        if (status == SHEAF_E_CLOSED)
            return 0;
        if (status < 0)
            return status;
        const struct opened_operator *opened = &operators->opened[claim->index];
        if (opened->batch)
            run_batch(worker, claim, opened);
        else
            run_rows(worker, claim, opened);
    }
}

/* Said by the first worker of a run only: the others run on the same kernel. */
static void say_what_is_open(struct sheaf_worker *worker, const struct sandbox_state *state)
{
    const struct sheaf_host *host = sheaf_worker_host(worker);
    if (worker->hello.worker != 0 || worker->hello.generation > 1)
        return;
    if (state->off) {
        host->log(NULL, 2, "the sandbox is off: operators may open files and connections");
        return;
    }
    if (!state->filtered)
        host->log(NULL, 2, "this kernel has no seccomp: operators may open connections and start processes%s",
                  state->landlock > 0 ? "" : ", and open files");
    if (state->landlock == 0)
        host->log(NULL, 1, "this kernel has no Landlock: seccomp alone keeps operators from files");
}

static bool has_gpu(const struct sheaf_worker *worker)
{
    return worker->hello.on_device && worker->hello.device_backend == SHEAF_DEVICE_CUDA;
}

static int seal(struct sheaf_worker *worker)
{
    bool gpu = has_gpu(worker);
    struct sandbox_options options = {
        .profile = gpu ? SANDBOX_GPU : SANDBOX_CPU,
        .socket = worker->socket,
        /* A driver reserves what it likes before the first row; that is not the worker's share. */
        .heap_bytes = worker->hello.heap_limit_bytes + (gpu ? sandbox_data_bytes() : 0),
    };
    struct sandbox_state state;
    payload_arena_bound_heap(worker->hello.heap_limit_bytes);
    worker_drop_descriptors(worker);
    int status = sandbox_close(&options, &state);
    if (status == 0)
        say_what_is_open(worker, &state);
    return status;
}

/* Operators that leave nothing of this worker's share for rows. */
static int too_large(const struct sheaf_worker *worker, char *ret_line, size_t line_bytes)
{
    uint64_t taken = sandbox_data_bytes(), share = worker->hello.heap_limit_bytes;
    if (share == 0 || taken < share || has_gpu(worker) || sandbox_is_off())
        return 0;
    snprintf(
        ret_line, line_bytes,
        "memory: operators take %llu MiB before the first row, and a worker's own share is %llu MiB; give more memory "
        "or fewer workers",
        (unsigned long long)(taken >> 20), (unsigned long long)(share >> 20));
    return SHEAF_E_ENVIRONMENT;
}

/* The device first, whose context operators share; then they; then what the rest of the device's memory is for. A
 * device that fails is no refusal to serve: the process ends here, and the engine knows why. */
static int open_all(struct sheaf_worker *worker, struct operators *operators, struct device_worker *on, char *line)
{
    bool device = worker->hello.on_device;
    int status = device ? device_worker_open(worker, on, line) : 0;
    if (status == 0)
        status = operators_open(worker, operators, line, ATTACH_LINE_BYTES);
    if (status == 0 && device)
        status = device_worker_prepare(on, operators, line);
    return status;
}

static int work(struct sheaf_worker *worker)
{
    char line[ATTACH_LINE_BYTES] = "";
    struct operators operators = {0};
    struct device_worker on = {0};
    int status = open_all(worker, &operators, &on, line);
    if (status == 0)
        status = too_large(worker, line, sizeof line);
    if (status == 0 && (status = seal(worker)) < 0)
        snprintf(line, sizeof line, "the sandbox cannot be closed: %s", strerror(-status));
    if (status < 0) {
        sheaf_worker_ready(worker, status, line);
    } else {
        status = sheaf_worker_ready(worker, 0, NULL);
        if (status == 0)
            status = worker->hello.on_device ? device_serve(&on) : serve(worker, &operators);
    }
    operators_close(&operators);
    device_worker_close(&on);
    return status;
}

/* What devices there are, for the engine, which touches no driver itself. */
static int list_devices(void)
{
    char line[DEVICE_LINE_BYTES] = "";
    int count = device_cuda_count(line);
    if (count < 0)
        printf("none %s\n", line);
    for (int ordinal = 0; ordinal < count; ordinal++) {
        struct device_info info;
        if (device_cuda_describe((uint32_t)ordinal, &info, line) == 0)
            printf("device %u %llu %s %s\n", info.ordinal, (unsigned long long)info.memory_bytes, info.bus_id,
                   info.name);
        else
            printf("none %s\n", line);
    }
    return fflush(stdout) == 0 ? 0 : 1;
}

static int parse_descriptor(int argument_count, char **arguments)
{
    if (argument_count != 3 || strcmp(arguments[1], "--attach") != 0)
        return -1;
    char *end;
    errno = 0;
    long number = strtol(arguments[2], &end, 10);
    return errno == 0 && end != arguments[2] && *end == '\0' && number >= 0 && number <= 1 << 20 ? (int)number : -1;
}

int main(int argument_count, char **arguments)
{
    if (argument_count >= 2 && strcmp(arguments[1], "--devices") == 0)
        return list_devices();
    int socket = parse_descriptor(argument_count, arguments);
    if (socket < 0) {
        fprintf(stderr, "usage: sheaf-worker --attach FD (started by the sheaf engine, not by hand)\n");
        return 2;
    }
    int status = sandbox_follow_parent();
    struct sheaf_worker *worker = NULL;
    struct sheaf_error error = SHEAF_ERROR_INIT;
    if (status == 0)
        status = sheaf_worker_attach(socket, &worker, &error);
    if (status < 0) {
        attach_send_error(socket, status, error.message[0] != '\0' ? error.message : "the engine is gone");
        fprintf(stderr, "sheaf-worker: %s\n", error.message[0] != '\0' ? error.message : "the engine is gone");
        return 1;
    }
    status = work(worker);
    sheaf_worker_detach(worker);
    return status < 0;
}
