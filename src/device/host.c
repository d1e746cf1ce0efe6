/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU as a device: one thread, and everything is done by the time its function returns. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/backend.h"

enum { HEAD_BYTES = 4096 };

struct device_stream {
    char unused;
};

struct device_event {
    char unused;
};

static void host_close(struct device *device)
{
    free(device);
}

static int host_free_bytes(struct device *device, uint64_t *ret_bytes)
{
    *ret_bytes = device->info.memory_bytes;
    return 0;
}

static int allocate(struct device *device, uint64_t bytes, void **ret_memory)
{
    void *memory = NULL;
    if (bytes > SIZE_MAX - DEVICE_ALIGNMENT || posix_memalign(&memory, DEVICE_ALIGNMENT, bytes > 0 ? bytes : 1) != 0)
        return device_note(device, -ENOMEM, "%llu bytes cannot be allocated", (unsigned long long)bytes);
    *ret_memory = memory;
    return 0;
}

/* Pools are large and mostly never touched: mappings of their own, with their size in a page before them. */
static int host_memory_alloc(struct device *device, uint64_t bytes, device_address *ret_address)
{
    uint64_t whole = bytes + HEAD_BYTES;
    unsigned char *memory = MAP_FAILED;
    if (whole > bytes && whole <= SIZE_MAX)
        memory = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return device_note(device, -ENOMEM, "%llu bytes cannot be allocated", (unsigned long long)bytes);
    memcpy(memory, &whole, sizeof whole);
    *ret_address = (device_address)(uintptr_t)(memory + HEAD_BYTES);
    return 0;
}

static int host_memory_free(struct device *device, device_address address)
{
    unsigned char *memory = (unsigned char *)(uintptr_t)address - HEAD_BYTES;
    uint64_t whole;
    memcpy(&whole, memory, sizeof whole);
    munmap(memory, whole);
    return 0;
}

static int host_pinned_free(struct device *device, void *memory)
{
    free(memory);
    return 0;
}

static int host_register(struct device *device, void *memory, uint64_t bytes, bool read_only)
{
    return 0;
}

static int host_unregister(struct device *device, void *memory)
{
    return 0;
}

static int host_stream_create(struct device *device, struct device_stream **ret_stream)
{
    *ret_stream = calloc(1, sizeof **ret_stream);
    return *ret_stream != NULL ? 0 : -ENOMEM;
}

static int host_stream_destroy(struct device *device, struct device_stream *stream)
{
    free(stream);
    return 0;
}

static int host_stream_wait_idle(struct device *device, struct device_stream *stream)
{
    return 0;
}

static void *host_stream_native(const struct device_stream *stream)
{
    return NULL;
}

static int host_event_create(struct device *device, struct device_event **ret_event)
{
    *ret_event = calloc(1, sizeof **ret_event);
    return *ret_event != NULL ? 0 : -ENOMEM;
}

static int host_event_destroy(struct device *device, struct device_event *event)
{
    free(event);
    return 0;
}

static int host_event_record(struct device *device, struct device_event *event, struct device_stream *stream)
{
    return 0;
}

static int host_stream_wait_event(struct device *device, struct device_stream *stream, struct device_event *event)
{
    return 0;
}

static int host_event_query(struct device *device, struct device_event *event)
{
    return 1;
}

static int host_event_wait(struct device *device, struct device_event *event)
{
    return 0;
}

static int host_copy_in(struct device *device, struct device_stream *stream, device_address to, const void *from,
                        uint64_t bytes)
{
    memcpy((void *)(uintptr_t)to, from, bytes);
    return 0;
}

static int host_copy_out(struct device *device, struct device_stream *stream, void *to, device_address from,
                         uint64_t bytes)
{
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return 0;
}

static int host_module_load(struct device *device, struct device_module *module)
{
    return 0;
}

static int host_module_unload(struct device *device, struct device_module *module)
{
    return 0;
}

static int host_module_launch(struct device *device, struct device_stream *stream, struct device_module *module,
                              uint32_t kernel, const struct sheaf_grid *grid, const void *argument)
{
    module->kernels->kernels[kernel].host(argument, grid);
    return 0;
}

const struct device_functions host_functions = {
    .close = host_close,
    .free_bytes = host_free_bytes,
    .alloc = host_memory_alloc,
    .free = host_memory_free,
    .host_alloc = allocate,
    .host_free = host_pinned_free,
    .register_memory = host_register,
    .unregister_memory = host_unregister,
    .stream_create = host_stream_create,
    .stream_destroy = host_stream_destroy,
    .stream_wait_idle = host_stream_wait_idle,
    .stream_native = host_stream_native,
    .event_create = host_event_create,
    .event_destroy = host_event_destroy,
    .event_record = host_event_record,
    .stream_wait_event = host_stream_wait_event,
    .event_query = host_event_query,
    .event_wait = host_event_wait,
    .copy_in = host_copy_in,
    .copy_out = host_copy_out,
    .module_load = host_module_load,
    .module_unload = host_module_unload,
    .module_launch = host_module_launch,
};

void host_init(struct device *device, enum sheaf_device_backend backend, uint32_t ordinal)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    device->functions = &host_functions;
    device->info = (struct device_info){.backend = backend, .ordinal = ordinal, .reads_read_only = true};
    device->info.memory_bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page / 8 : UINT64_C(1) << 30;
    snprintf(device->info.name, sizeof device->info.name, "%s", backend == SHEAF_DEVICE_SIM ? "simulated" : "host");
}

int host_open(uint32_t ordinal, struct device **ret_device, char *ret_line)
{
    struct device *device = calloc(1, sizeof *device);
    if (device == NULL) {
        snprintf(ret_line, DEVICE_LINE_BYTES, "out of memory");
        return -ENOMEM;
    }
    host_init(device, SHEAF_DEVICE_HOST, ordinal);
    *ret_device = device;
    return 0;
}
