/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/backend.h"

enum device_fault device_fault_of(int status)
{
    switch (status) {
    case -EFAULT:
        return DEVICE_FAULT_ILLEGAL;
    case -ETIME:
        return DEVICE_FAULT_DEADLINE;
    case -ENOMEM:
        return DEVICE_FAULT_MEMORY;
    case -EIO:
        return DEVICE_FAULT_ECC;
    case -ENODEV:
        return DEVICE_FAULT_LOST;
    case -ENOEXEC:
        return DEVICE_FAULT_UNSUITED;
    default:
        return DEVICE_FAULT_NONE;
    }
}

const char *device_fault_name(enum device_fault fault)
{
    static const char *const names[] = {"no fault",
                                        "illegal access",
                                        "deadline",
                                        "out of memory",
                                        "uncorrectable memory",
                                        "device lost",
                                        "no kernels for this device"};
    return (unsigned)fault < sizeof names / sizeof *names ? names[fault] : "unknown fault";
}

int device_note(struct device *device, int status, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(device->error, sizeof device->error, format, values);
    va_end(values);
    return status;
}

/* ---- opening ---- */

int device_open(enum sheaf_device_backend backend, uint32_t ordinal, struct device **ret_device, char *ret_line)
{
    switch (backend) {
    case SHEAF_DEVICE_HOST:
        return host_open(ordinal, ret_device, ret_line);
    case SHEAF_DEVICE_CUDA:
        return cuda_open(ordinal, ret_device, ret_line);
    case SHEAF_DEVICE_SIM:
        return sim_open(ordinal, ret_device, ret_line);
    }
    return -EINVAL;
}

void device_close(struct device *device)
{
    if (device == NULL)
        return;
    while (device->modules != NULL) {
        struct device_module *module = device->modules;
        device->modules = module->next;
        (void)device->functions->module_unload(device, module); /* what fails goes with the context */
        free(module->functions);
        free(module);
    }
    device->functions->close(device);
}

const struct device_info *device_info(const struct device *device)
{
    return &device->info;
}

const char *device_last_error(const struct device *device)
{
    return device->error;
}

int device_free_bytes(struct device *device, uint64_t *ret_bytes)
{
    return device->functions->free_bytes(device, ret_bytes);
}

/* There and back through a stream of its own. */
static int copy_round(struct device *device, struct device_stream *stream, device_address memory, unsigned char *host,
                      uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at++)
        host[at] = (unsigned char)(at * 31 + 7);
    int status = device_copy_in(device, stream, memory, host, bytes);
    if (status == 0)
        status = device_copy_out(device, stream, host + bytes, memory, bytes);
    if (status == 0)
        status = device_stream_wait_idle(device, stream);
    if (status == 0 && memcmp(host, host + bytes, bytes) != 0)
        status = device_note(device, -EIO, "what was copied to the device came back changed");
    return status;
}

int device_self_test(struct device *device)
{
    enum { BYTES = 1 << 16 };
    struct device_stream *stream = NULL;
    device_address memory = 0;
    void *host = NULL;
    int status = device_stream_create(device, &stream);
    if (status == 0)
        status = device_alloc(device, BYTES, &memory);
    if (status == 0)
        status = device_host_alloc(device, 2 * BYTES, &host);
    if (status == 0)
        status = copy_round(device, stream, memory, host, BYTES);
    if (status == 0)
        status = device_host_free(device, host);
    if (status == 0)
        status = device_free(device, memory);
    if (status == 0)
        status = device_stream_destroy(device, stream);
    return status; /* a device that fails is closed: what is left goes with its context */
}

/* ---- kernels ---- */

int device_module_load(struct device *device, const struct sheaf_kernels *kernels, struct device_module **ret_module)
{
    struct device_module *module = calloc(1, sizeof *module);
    if (module == NULL)
        return -ENOMEM;
    module->kernels = kernels;
    module->functions = calloc(kernels->kernel_count + 1, sizeof *module->functions);
    int status = module->functions != NULL ? device->functions->module_load(device, module) : -ENOMEM;
    if (status < 0) {
        free(module->functions);
        free(module);
        return status;
    }
    module->next = device->modules;
    device->modules = module;
    *ret_module = module;
    return 0;
}

static bool grid_is_good(const struct sheaf_grid *grid)
{
    uint64_t threads = 1;
    for (int axis = 0; axis < 3; axis++) {
        if (grid->blocks[axis] == 0 || grid->threads[axis] == 0 || (axis > 0 && grid->blocks[axis] > 65535))
            return false;
        threads *= grid->threads[axis];
    }
    return grid->blocks[0] <= INT32_MAX && threads <= 1024;
}

int device_launch(struct device *device, struct device_stream *stream, struct device_module *module, const char *kernel,
                  const struct sheaf_grid *grid, const void *argument)
{
    if (!grid_is_good(grid))
        return device_note(device, -EINVAL, "kernel %s: a grid of %ux%ux%u blocks of %ux%ux%u threads cannot be",
                           kernel, grid->blocks[0], grid->blocks[1], grid->blocks[2], grid->threads[0],
                           grid->threads[1], grid->threads[2]);
    for (uint32_t at = 0; module != NULL && at < module->kernels->kernel_count; at++)
        if (strcmp(module->kernels->kernels[at].name, kernel) == 0)
            return device->functions->module_launch(device, stream, module, at, grid, argument);
    return device_note(device, -ENOENT, "the plug-in has no kernel %s", kernel);
}

/* ---- what only a backend can do ---- */

int device_alloc(struct device *device, uint64_t bytes, device_address *ret_address)
{
    return device->functions->alloc(device, bytes, ret_address);
}

int device_free(struct device *device, device_address address)
{
    return device->functions->free(device, address);
}

int device_host_alloc(struct device *device, uint64_t bytes, void **ret_memory)
{
    return device->functions->host_alloc(device, bytes, ret_memory);
}

int device_host_free(struct device *device, void *memory)
{
    return device->functions->host_free(device, memory);
}

int device_register(struct device *device, void *memory, uint64_t bytes, bool read_only)
{
    return device->functions->register_memory(device, memory, bytes, read_only);
}

int device_unregister(struct device *device, void *memory)
{
    return device->functions->unregister_memory(device, memory);
}

int device_stream_create(struct device *device, struct device_stream **ret_stream)
{
    return device->functions->stream_create(device, ret_stream);
}

int device_stream_destroy(struct device *device, struct device_stream *stream)
{
    return device->functions->stream_destroy(device, stream);
}

int device_stream_wait_idle(struct device *device, struct device_stream *stream)
{
    return device->functions->stream_wait_idle(device, stream);
}

void *device_stream_native(const struct device *device, const struct device_stream *stream)
{
    return device->functions->stream_native(stream);
}

int device_event_create(struct device *device, struct device_event **ret_event)
{
    return device->functions->event_create(device, ret_event);
}

int device_event_destroy(struct device *device, struct device_event *event)
{
    return device->functions->event_destroy(device, event);
}

int device_event_record(struct device *device, struct device_event *event, struct device_stream *stream)
{
    return device->functions->event_record(device, event, stream);
}

int device_stream_wait_event(struct device *device, struct device_stream *stream, struct device_event *event)
{
    return device->functions->stream_wait_event(device, stream, event);
}

int device_event_query(struct device *device, struct device_event *event)
{
    return device->functions->event_query(device, event);
}

int device_event_wait(struct device *device, struct device_event *event)
{
    return device->functions->event_wait(device, event);
}

int device_copy_in(struct device *device, struct device_stream *stream, device_address to, const void *from,
                   uint64_t bytes)
{
    return bytes == 0 ? 0 : device->functions->copy_in(device, stream, to, from, bytes);
}

int device_copy_out(struct device *device, struct device_stream *stream, void *to, device_address from, uint64_t bytes)
{
    return bytes == 0 ? 0 : device->functions->copy_out(device, stream, to, from, bytes);
}
