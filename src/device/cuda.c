/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/backend.h"
#include "device/cuda_driver.h"

struct cuda {
    struct device device;
    struct cuda_driver driver;
    cuda_device handle;
    cuda_context context;
};

static struct cuda *cuda_of(struct device *device)
{
    return (struct cuda *)device;
}

/* The status of a result, and a line about it when it is an error. */
static int check(struct device *device, cuda_result result, const char *what)
{
    if (result == CUDA_OK)
        return 0;
    int status = cuda_status(result);
    return device_note(device, status, "device %u: %s: %s", device->info.ordinal, what,
                       cuda_result_name(&cuda_of(device)->driver, result));
}

/* The same of a result that a wait gives: it is that of the work, whatever was waited for, and so is one that this
 * version does not know. */
static int check_work(struct device *device, cuda_result result, const char *what)
{
    int status = check(device, result, what);
    return status == -EINVAL ? -EFAULT : status;
}

#define CALL(device, function, ...) check(device, cuda_of(device)->driver.function(__VA_ARGS__), #function)

/* ---- opening ---- */

int device_cuda_count(char *ret_line)
{
    struct cuda_driver driver;
    int count = 0, status = cuda_driver_open(&driver, ret_line);
    if (status < 0)
        return status;
    cuda_result result = driver.cuDeviceGetCount(&count);
    if (result != CUDA_OK || count <= 0) {
        snprintf(ret_line, DEVICE_LINE_BYTES, "the NVIDIA driver shows no device%s%s",
                 result != CUDA_OK ? ": " : "; look at nvidia-smi and CUDA_VISIBLE_DEVICES",
                 result != CUDA_OK ? cuda_result_name(&driver, result) : "");
        count = SHEAF_E_ENVIRONMENT;
    }
    cuda_driver_close(&driver);
    return count;
}

static int describe(struct cuda *cuda)
{
    struct device *device = &cuda->device;
    size_t bytes = 0;
    int read_only = 0;
    int status = CALL(device, cuDeviceGetName, device->info.name, sizeof device->info.name, cuda->handle);
    if (status == 0)
        status = CALL(device, cuDeviceTotalMem_v2, &bytes, cuda->handle);
    if (status == 0)
        status = CALL(device, cuDeviceGetPCIBusId, device->info.bus_id, sizeof device->info.bus_id, cuda->handle);
    if (cuda->driver.cuDeviceGetAttribute(&read_only, CUDA_ATTRIBUTE_READ_ONLY_REGISTER, cuda->handle) != CUDA_OK)
        read_only = 0; /* a driver that does not know of it cannot do it */
    device->info.memory_bytes = bytes;
    device->info.reads_read_only = read_only != 0;
    return status;
}

static int open_context(struct cuda *cuda)
{
    struct device *device = &cuda->device;
    /* Waiting must not burn a core. A context that somebody has made already keeps its flags: no failure. */
    (void)cuda->driver.cuDevicePrimaryCtxSetFlags_v2(cuda->handle, CUDA_CONTEXT_BLOCKING_SYNC);
    int status = CALL(device, cuDevicePrimaryCtxRetain, &cuda->context, cuda->handle);
    return status < 0 ? status : CALL(device, cuCtxSetCurrent, cuda->context);
}

static void cuda_close(struct device *device)
{
    struct cuda *cuda = cuda_of(device);
    if (cuda->context != NULL) {
        cuda->driver.cuCtxSetCurrent(NULL);
        cuda->driver.cuDevicePrimaryCtxRelease_v2(cuda->handle);
    }
    cuda_driver_close(&cuda->driver);
    free(cuda);
}

/* ---- memory ---- */

static int cuda_free_bytes(struct device *device, uint64_t *ret_bytes)
{
    size_t available = 0, total = 0;
    int status = CALL(device, cuMemGetInfo_v2, &available, &total);
    if (status == 0)
        *ret_bytes = available;
    return status;
}

static int cuda_alloc(struct device *device, uint64_t bytes, device_address *ret_address)
{
    return CALL(device, cuMemAlloc_v2, ret_address, bytes);
}

static int cuda_free(struct device *device, device_address address)
{
    return CALL(device, cuMemFree_v2, address);
}

static int cuda_host_alloc(struct device *device, uint64_t bytes, void **ret_memory)
{
    return CALL(device, cuMemHostAlloc, ret_memory, bytes, 0);
}

static int cuda_host_free(struct device *device, void *memory)
{
    return CALL(device, cuMemFreeHost, memory);
}

static int cuda_register(struct device *device, void *memory, uint64_t bytes, bool read_only)
{
    if (read_only && !device->info.reads_read_only)
        return device_note(device, -EOPNOTSUPP, "device %u cannot register read-only memory", device->info.ordinal);
    cuda_result result =
        cuda_of(device)->driver.cuMemHostRegister_v2(memory, bytes, read_only ? CUDA_REGISTER_READ_ONLY : 0);
    return result == CUDA_HOST_MEMORY_ALREADY_REGISTERED ? 0 : check(device, result, "cuMemHostRegister_v2");
}

static int cuda_unregister(struct device *device, void *memory)
{
    return CALL(device, cuMemHostUnregister, memory);
}

/* ---- order: the handles are the driver's own ---- */

static cuda_stream stream_handle(const struct device_stream *stream)
{
    return (cuda_stream)(uintptr_t)stream;
}

static cuda_event event_handle(struct device_event *event)
{
    return (cuda_event)(void *)event;
}

static int cuda_stream_create(struct device *device, struct device_stream **ret_stream)
{
    cuda_stream stream;
    int status = CALL(device, cuStreamCreate, &stream, CUDA_STREAM_NON_BLOCKING);
    if (status == 0)
        *ret_stream = (struct device_stream *)(void *)stream;
    return status;
}

static int cuda_stream_destroy(struct device *device, struct device_stream *stream)
{
    return CALL(device, cuStreamDestroy_v2, stream_handle(stream));
}

static int cuda_stream_wait_idle(struct device *device, struct device_stream *stream)
{
    return check_work(device, cuda_of(device)->driver.cuStreamSynchronize(stream_handle(stream)),
                      "cuStreamSynchronize");
}

static void *cuda_stream_native(const struct device_stream *stream)
{
    return (void *)(uintptr_t)stream;
}

static int cuda_event_create(struct device *device, struct device_event **ret_event)
{
    cuda_event event;
    int status = CALL(device, cuEventCreate, &event, CUDA_EVENT_BLOCKING_SYNC | CUDA_EVENT_DISABLE_TIMING);
    if (status == 0)
        *ret_event = (struct device_event *)(void *)event;
    return status;
}

static int cuda_event_destroy(struct device *device, struct device_event *event)
{
    return CALL(device, cuEventDestroy_v2, event_handle(event));
}

static int cuda_event_record(struct device *device, struct device_event *event, struct device_stream *stream)
{
    return CALL(device, cuEventRecord, event_handle(event), stream_handle(stream));
}

static int cuda_stream_wait_event(struct device *device, struct device_stream *stream, struct device_event *event)
{
    return CALL(device, cuStreamWaitEvent, stream_handle(stream), event_handle(event), 0);
}

static int cuda_event_query(struct device *device, struct device_event *event)
{
    cuda_result result = cuda_of(device)->driver.cuEventQuery(event_handle(event));
    if (result == CUDA_NOT_READY)
        return 0;
    return result == CUDA_OK ? 1 : check_work(device, result, "cuEventQuery");
}

static int cuda_event_wait(struct device *device, struct device_event *event)
{
    return check_work(device, cuda_of(device)->driver.cuEventSynchronize(event_handle(event)), "cuEventSynchronize");
}

/* ---- work ---- */

static int cuda_copy_in(struct device *device, struct device_stream *stream, device_address to, const void *from,
                        uint64_t bytes)
{
    return CALL(device, cuMemcpyHtoDAsync_v2, to, from, bytes, stream_handle(stream));
}

static int cuda_copy_out(struct device *device, struct device_stream *stream, void *to, device_address from,
                         uint64_t bytes)
{
    return CALL(device, cuMemcpyDtoHAsync_v2, to, from, bytes, stream_handle(stream));
}

/* All functions at once, while this process may still open files: a driver may load or compile code when it is first
 * asked for. */
static int cuda_module_load(struct device *device, struct device_module *module)
{
    const struct sheaf_kernels *kernels = module->kernels;
    cuda_module handle;
    if (kernels->image == NULL)
        return device_note(device, -ENOEXEC, "the plug-in's kernels were built without nvcc");
    int status = CALL(device, cuModuleLoadData, &handle, kernels->image);
    if (status < 0)
        return status;
    module->image = handle;
    for (uint32_t kernel = 0; kernel < kernels->kernel_count && status == 0; kernel++) {
        cuda_function function;
        status = CALL(device, cuModuleGetFunction, &function, handle, kernels->kernels[kernel].name);
        if (status == 0)
            module->functions[kernel] = function;
        else if (status == -ENOENT)
            (void)device_note(device, status, "kernel %s is not in the plug-in's image", kernels->kernels[kernel].name);
    }
    return status;
}

static int cuda_module_unload(struct device *device, struct device_module *module)
{
    return CALL(device, cuModuleUnload, (cuda_module)module->image);
}

static int cuda_module_launch(struct device *device, struct device_stream *stream, struct device_module *module,
                              uint32_t kernel, const struct sheaf_grid *grid, const void *argument)
{
    void *arguments[] = {(void *)(uintptr_t)argument}; /* the driver reads as many bytes as the kernel's argument has */
    return CALL(device, cuLaunchKernel, (cuda_function)module->functions[kernel], grid->blocks[0], grid->blocks[1],
                grid->blocks[2], grid->threads[0], grid->threads[1], grid->threads[2], grid->shared_bytes,
                stream_handle(stream), arguments, NULL);
}

static const struct device_functions cuda_functions = {
    .close = cuda_close,
    .free_bytes = cuda_free_bytes,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .host_alloc = cuda_host_alloc,
    .host_free = cuda_host_free,
    .register_memory = cuda_register,
    .unregister_memory = cuda_unregister,
    .stream_create = cuda_stream_create,
    .stream_destroy = cuda_stream_destroy,
    .stream_wait_idle = cuda_stream_wait_idle,
    .stream_native = cuda_stream_native,
    .event_create = cuda_event_create,
    .event_destroy = cuda_event_destroy,
    .event_record = cuda_event_record,
    .stream_wait_event = cuda_stream_wait_event,
    .event_query = cuda_event_query,
    .event_wait = cuda_event_wait,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .module_load = cuda_module_load,
    .module_unload = cuda_module_unload,
    .module_launch = cuda_module_launch,
};

/* The driver and the device's facts, no context. NULL: `ret_line` says why. */
static struct cuda *look_at(uint32_t ordinal, int *ret_status, char *ret_line)
{
    struct cuda *cuda = calloc(1, sizeof *cuda);
    *ret_status = cuda != NULL ? cuda_driver_open(&cuda->driver, ret_line) : -ENOMEM;
    if (*ret_status < 0) {
        free(cuda);
        return NULL;
    }
    cuda->device.functions = &cuda_functions;
    cuda->device.info = (struct device_info){.backend = SHEAF_DEVICE_CUDA, .ordinal = ordinal};
    *ret_status = CALL(&cuda->device, cuDeviceGet, &cuda->handle, (int)ordinal);
    if (*ret_status == 0)
        *ret_status = describe(cuda);
    if (*ret_status == 0)
        return cuda;
    snprintf(ret_line, DEVICE_LINE_BYTES, "%s", cuda->device.error);
    cuda_close(&cuda->device);
    return NULL;
}

int device_cuda_describe(uint32_t ordinal, struct device_info *ret_info, char *ret_line)
{
    int status;
    struct cuda *cuda = look_at(ordinal, &status, ret_line);
    if (cuda == NULL)
        return status;
    *ret_info = cuda->device.info;
    cuda_close(&cuda->device);
    return 0;
}

int cuda_open(uint32_t ordinal, struct device **ret_device, char *ret_line)
{
    int status;
    struct cuda *cuda = look_at(ordinal, &status, ret_line);
    if (cuda == NULL)
        return status;
    status = open_context(cuda);
    if (status < 0) {
        snprintf(ret_line, DEVICE_LINE_BYTES, "%s", cuda->device.error);
        cuda_close(&cuda->device);
        return status;
    }
    *ret_device = &cuda->device;
    return 0;
}
