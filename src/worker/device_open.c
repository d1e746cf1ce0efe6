/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/device_worker.h"

/* What a process that ends over its device says to a shell; nobody reads it. */
enum { DEVICE_FAULT_EXIT = 3 };

/* The last words of this process. Nothing of a context that failed can be given back in order. */
static _Noreturn void say_and_end(struct device_worker *on, int status, const char *why)
{
    char line[ATTACH_LINE_BYTES];
    enum device_fault fault = device_fault_of(status);
    snprintf(line, sizeof line, "%s: %s", device_fault_name(fault), why);
    attach_send_device_fault(on->worker->socket, ATTACH_FAULT(fault, on->failed_alone), line);
    _exit(DEVICE_FAULT_EXIT);
}

static bool is_host(const struct sheaf_worker *worker)
{
    return worker->hello.device_backend == SHEAF_DEVICE_HOST;
}

int device_worker_open(struct sheaf_worker *worker, struct device_worker *ret_on, char *line)
{
    *ret_on = (struct device_worker){.worker = worker};
    int status = device_open((enum sheaf_device_backend)worker->hello.device_backend, 0, &ret_on->device, line);
    if (status == 0 && !is_host(worker))
        status = device_self_test(ret_on->device);
    if (status < 0 && ret_on->device != NULL)
        snprintf(line, DEVICE_LINE_BYTES, "%s", device_last_error(ret_on->device));
    if (status < 0 && !is_host(worker)) /* whatever it is, this process cannot drive it */
        say_and_end(ret_on, device_fault_of(status) != DEVICE_FAULT_NONE ? status : -ENODEV, line);
    return status;
}

/* Segments whose chunks the device may reach by itself. */
static int add_segments(struct device_worker *on)
{
    const struct attach_hello *hello = &on->worker->hello;
    int status = 0;
    for (uint32_t at = 0; at < hello->segment_count && status == 0; at++) {
        const struct segment *segment = payload_map_segment(&on->worker->map, hello->segments[at].number);
        if (segment != NULL && hello->segments[at].number <= hello->memory_segments)
            status = pinned_add(on->pinned, segment->base, segment->size_bytes, !hello->segments[at].own);
    }
    return status;
}

static int load_kernels(struct device_worker *on, char *line)
{
    for (uint32_t at = 0; at < on->operators->count; at++) {
        struct opened_operator *opened = &on->operators->opened[at];
        if (opened->kernels == NULL)
            continue;
        int status = device_module_load(on->device, opened->kernels, &opened->module);
        if (status < 0) {
            snprintf(line, ATTACH_LINE_BYTES, "step %s: the kernels of %s cannot be loaded: %s", opened->name,
                     opened->op->name, device_last_error(on->device));
            return status;
        }
    }
    return 0;
}

static int make_flights(struct device_worker *on)
{
    uint32_t limit = on->worker->row_limit;
    on->queue.rows = calloc(limit, sizeof(struct worker_row *));
    bool good = on->queue.rows != NULL;
    for (uint32_t slot = 0; slot < on->depth && good; slot++) {
        struct flight *flight = &on->flights[slot];
        flight->on = on;
        flight->rows = calloc(limit, sizeof(struct worker_row *));
        flight->views = calloc(limit, sizeof *flight->views);
        good = flight->rows != NULL && flight->views != NULL;
    }
    return good ? 0 : -ENOMEM;
}

int device_worker_prepare(struct device_worker *on, struct operators *operators, char *line)
{
    /* The host computes as it is called: there is nothing to overlap, and little memory to set aside. */
    struct pipeline_options options = {.depth = PIPELINE_DEPTH};
    if (is_host(on->worker))
        options = (struct pipeline_options){.depth = 1, .memory_bytes = on->worker->hello.heap_limit_bytes / 4};
    on->operators = operators;
    on->depth = options.depth;
    int status = pinned_open(on->device, UINT64_MAX, &on->pinned);
    if (status == 0)
        status = add_segments(on);
    if (status == 0)
        status = load_kernels(on, line);
    if (status == 0)
        status = pipeline_open(on->device, on->pinned, &options, &on->pipeline);
    if (status == 0)
        status = make_flights(on);
    if (device_fault_of(status) != DEVICE_FAULT_NONE)
        device_worker_fail(on, status);
    if (status < 0 && line[0] == '\0')
        snprintf(line, ATTACH_LINE_BYTES, "%s", device_last_error(on->device));
    if (status == 0)
        device_calls_fill(on);
    return status;
}

void device_worker_close(struct device_worker *on)
{
    for (uint32_t slot = 0; slot < PIPELINE_DEPTH; slot++) {
        struct flight *flight = &on->flights[slot];
        for (uint32_t input = 0; input < flight->input_capacity; input++)
            free(flight->tables[input]);
        free(flight->tables);
        free(flight->inputs);
        free((void *)flight->pointers);
        free((void *)flight->rows);
        free((void *)flight->views);
    }
    free((void *)on->queue.rows);
    pipeline_close(on->pipeline);
    pinned_close(on->pinned);
    device_close(on->device);
    *on = (struct device_worker){0};
}

void device_worker_fail(struct device_worker *on, int status)
{
    const char *why = device_last_error(on->device);
    announce(on->worker);
    say_and_end(on, status, why[0] != '\0' ? why : strerror(-status));
}
