/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "worker/device_worker.h"

static struct flight *flight_of(const struct sheaf_batch *batch)
{
    return (struct flight *)(uintptr_t)batch;
}

/* A fault ends the process at once: nothing the operator does now could be used. */
static int sound(struct flight *flight, int status)
{
    enum device_fault fault = device_fault_of(status);
    if (fault != DEVICE_FAULT_NONE && fault != DEVICE_FAULT_MEMORY) {
        flight->on->failed_alone = flight->alone;
        device_worker_fail(flight->on, status);
    }
    return status;
}

static void *calls_alloc(const struct sheaf_batch *batch, uint64_t bytes)
{
    device_address address;
    if (pipeline_place(flight_of(batch)->batch, bytes > 0 ? bytes : 1, &address) < 0)
        return NULL;
    return (void *)(uintptr_t)address;
}

static int calls_launch(const struct sheaf_batch *batch, const char *kernel, const struct sheaf_grid *grid,
                        const void *argument)
{
    struct flight *flight = flight_of(batch);
    return sound(flight, device_launch(flight->on->device, pipeline_stream(flight->batch), flight->opened->module,
                                       kernel, grid, argument));
}

static int calls_upload(const struct sheaf_batch *batch, void *device, const void *host, uint64_t bytes)
{
    struct flight *flight = flight_of(batch);
    return sound(flight, pipeline_upload(flight->batch, (device_address)(uintptr_t)device, host, bytes));
}

static int calls_fetch(const struct sheaf_batch *batch, void *host, const void *device, uint64_t bytes)
{
    return pipeline_fetch(flight_of(batch)->batch, host, (device_address)(uintptr_t)device, bytes);
}

void device_calls_fill(struct device_worker *on)
{
    const struct device_info *info = device_info(on->device);
    on->view = (struct sheaf_device){.size = sizeof on->view,
                                     .backend = info->backend,
                                     .ordinal = on->worker->hello.device_ordinal,
                                     .name = info->name,
                                     .memory_bytes = pipeline_batch_bytes(on->pipeline),
                                     .alloc = calls_alloc,
                                     .launch = calls_launch,
                                     .upload = calls_upload,
                                     .fetch = calls_fetch};
}
