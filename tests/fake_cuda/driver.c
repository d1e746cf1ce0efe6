/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's functions: arguments checked, calls counted, work put on streams. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_cuda/memory.h"

#define FAKE_PROTOTYPE(symbol, parameters) SHEAF_API cuda_result symbol parameters;
CUDA_FUNCTIONS(FAKE_PROTOTYPE)
#undef FAKE_PROTOTYPE

static bool initialised;
static struct CUctx_st contexts[FAKE_DEVICES_MAX]; /* by ordinal */
static uint32_t retained[FAKE_DEVICES_MAX];
static _Thread_local struct CUctx_st *current;

static bool is_sticky(int error)
{
    return error != CUDA_OK && error != CUDA_OUT_OF_MEMORY && error != CUDA_INVALID_VALUE &&
           error != CUDA_NOT_SUPPORTED && error != CUDA_NOT_FOUND;
}

/* What every call with a context begins with: its sticky error, or the one injected into this call. */
static int enter(enum fake_function function)
{
    if (!initialised)
        return CUDA_NOT_INITIALIZED;
    if (current == NULL)
        return CUDA_INVALID_CONTEXT;
    int injected = fake_count_call(current->device, function);
    pthread_mutex_lock(&current->lock);
    if (current->error == CUDA_OK && injected > 0 && is_sticky(injected))
        current->error = injected;
    int error = current->error != CUDA_OK ? current->error : injected > 0 ? injected : CUDA_OK;
    pthread_mutex_unlock(&current->lock);
    return error;
}

#define ENTER(function)                                                                                                \
    do {                                                                                                               \
        int entered = enter(FAKE_##function);                                                                          \
        if (entered != CUDA_OK)                                                                                        \
            return entered;                                                                                            \
    } while (0)

/* ---- the driver and its devices ---- */

cuda_result cuInit(unsigned flags)
{
    if (flags != 0)
        return CUDA_INVALID_VALUE;
    if (!initialised && !fake_read_settings())
        return CUDA_UNKNOWN;
    initialised = true;
    int injected = fake_count_call(0, FAKE_cuInit);
    return injected > 0 ? injected : fake.device_count > 0 ? CUDA_OK : CUDA_NO_DEVICE;
}

cuda_result cuDriverGetVersion(int *version)
{
    *version = 13000;
    return CUDA_OK;
}

cuda_result cuGetErrorName(cuda_result result, const char **name)
{
    static const struct {
        int result;
        const char *name;
    } names[] = {
        {CUDA_OK, "CUDA_SUCCESS"},
        {CUDA_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
        {CUDA_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
        {CUDA_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
        {CUDA_NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
        {CUDA_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"},
        {CUDA_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
        {CUDA_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
        {CUDA_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE"},
        {CUDA_NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
        {CUDA_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {CUDA_LAUNCH_TIMEOUT, "CUDA_ERROR_LAUNCH_TIMEOUT"},
        {CUDA_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"},
        {CUDA_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"},
        {CUDA_UNKNOWN, "CUDA_ERROR_UNKNOWN"},
    };
    for (size_t at = 0; at < sizeof names / sizeof *names; at++)
        if (names[at].result == result) {
            *name = names[at].name;
            return CUDA_OK;
        }
    *name = NULL;
    return CUDA_INVALID_VALUE;
}

cuda_result cuGetErrorString(cuda_result result, const char **text)
{
    return cuGetErrorName(result, text);
}

cuda_result cuDeviceGetCount(int *count)
{
    if (!initialised)
        return CUDA_NOT_INITIALIZED;
    *count = (int)fake.device_count;
    return CUDA_OK;
}

static bool is_device(cuda_device device)
{
    return initialised && device >= 0 && (uint32_t)device < fake.device_count;
}

cuda_result cuDeviceGet(cuda_device *device, int ordinal)
{
    if (!is_device(ordinal))
        return CUDA_INVALID_DEVICE;
    *device = ordinal;
    int injected = fake_count_call(fake.visible[ordinal], FAKE_cuDeviceGet);
    return injected > 0 ? injected : CUDA_OK;
}

cuda_result cuDeviceGetName(char *name, int bytes, cuda_device device)
{
    if (!is_device(device) || bytes <= 0)
        return CUDA_INVALID_VALUE;
    snprintf(name, (size_t)bytes, "fake device %u", fake.visible[device]);
    return CUDA_OK;
}

/* Bus ids of the eight devices of a common box. */
cuda_result cuDeviceGetPCIBusId(char *id, int bytes, cuda_device device)
{
    static const unsigned char buses[] = {0x1b, 0x43, 0x52, 0x61, 0x9d, 0xc3, 0xd1, 0xdf};
    if (!is_device(device) || bytes < 13)
        return CUDA_INVALID_VALUE;
    uint32_t number = fake.visible[device];
    snprintf(id, (size_t)bytes, "%04x:%02x:00.0", number / 8, buses[number % 8]);
    return CUDA_OK;
}

cuda_result cuDeviceGetAttribute(int *value, int attribute, cuda_device device)
{
    if (!is_device(device))
        return CUDA_INVALID_DEVICE;
    *value = attribute == CUDA_ATTRIBUTE_READ_ONLY_REGISTER && fake.read_only;
    return CUDA_OK;
}

cuda_result cuDeviceTotalMem_v2(size_t *bytes, cuda_device device)
{
    if (!is_device(device))
        return CUDA_INVALID_DEVICE;
    *bytes = fake.memory_bytes;
    return CUDA_OK;
}

/* ---- contexts ---- */

cuda_result cuDevicePrimaryCtxSetFlags_v2(cuda_device device, unsigned flags)
{
    return is_device(device) ? CUDA_OK : CUDA_INVALID_DEVICE;
}

cuda_result cuDevicePrimaryCtxRetain(cuda_context *context, cuda_device device)
{
    if (!is_device(device))
        return CUDA_INVALID_DEVICE;
    int injected = fake_count_call(fake.visible[device], FAKE_cuDevicePrimaryCtxRetain);
    if (injected > 0)
        return injected;
    if (retained[device]++ == 0) {
        contexts[device] = (struct CUctx_st){.device = fake.visible[device]};
        int status = executor_start(&contexts[device]);
        if (status != CUDA_OK)
            return status;
    }
    *context = &contexts[device];
    return CUDA_OK;
}

cuda_result cuDevicePrimaryCtxRelease_v2(cuda_device device)
{
    if (!is_device(device) || retained[device] == 0)
        return CUDA_INVALID_CONTEXT;
    if (--retained[device] == 0)
        executor_stop(&contexts[device]);
    return CUDA_OK;
}

cuda_result cuCtxSetCurrent(cuda_context context)
{
    current = context;
    return CUDA_OK;
}

/* ---- memory ---- */

static void *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory != MAP_FAILED ? memory : NULL;
}

cuda_result cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    ENTER(cuMemGetInfo_v2);
    pthread_mutex_lock(&current->lock);
    *total = fake.memory_bytes;
    *free_bytes = fake.memory_bytes - current->memory_used;
    pthread_mutex_unlock(&current->lock);
    return CUDA_OK;
}

cuda_result cuMemAlloc_v2(cuda_address *address, size_t bytes)
{
    ENTER(cuMemAlloc_v2);
    if (bytes == 0)
        return CUDA_INVALID_VALUE;
    pthread_mutex_lock(&current->lock);
    bool fits = bytes <= fake.memory_bytes - current->memory_used;
    void *memory = fits ? map(bytes) : NULL;
    if (memory != NULL && memory_add(memory, bytes, MEMORY_DEVICE)) {
        memset(memory, FAKE_POISON, bytes);
        current->memory_used += bytes;
        *address = (cuda_address)(uintptr_t)memory;
    }
    pthread_mutex_unlock(&current->lock);
    return memory != NULL ? CUDA_OK : CUDA_OUT_OF_MEMORY;
}

cuda_result cuMemFree_v2(cuda_address address)
{
    ENTER(cuMemFree_v2);
    void *memory = (void *)(uintptr_t)address;
    size_t bytes = memory_remove(memory, MEMORY_DEVICE);
    if (bytes == 0)
        return CUDA_INVALID_VALUE;
    pthread_mutex_lock(&current->lock);
    current->memory_used -= bytes;
    pthread_mutex_unlock(&current->lock);
    munmap(memory, bytes);
    return CUDA_OK;
}

cuda_result cuMemHostAlloc(void **memory, size_t bytes, unsigned flags)
{
    ENTER(cuMemHostAlloc);
    *memory = bytes > 0 ? map(bytes) : NULL;
    if (*memory == NULL || !memory_add(*memory, bytes, MEMORY_HOST))
        return CUDA_OUT_OF_MEMORY;
    return CUDA_OK;
}

cuda_result cuMemFreeHost(void *memory)
{
    ENTER(cuMemFreeHost);
    size_t bytes = memory_remove(memory, MEMORY_HOST);
    if (bytes == 0)
        return CUDA_INVALID_VALUE;
    munmap(memory, bytes);
    return CUDA_OK;
}

/* Pinning makes pages real, and is refused for memory that may not be written unless it is asked for as such. */
cuda_result cuMemHostRegister_v2(void *memory, size_t bytes, unsigned flags)
{
    enum { POPULATE_READ = 22, POPULATE_WRITE = 23 };
    ENTER(cuMemHostRegister_v2);
    bool read_only = (flags & CUDA_REGISTER_READ_ONLY) != 0;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)memory / page * page;
    size_t whole = ((uintptr_t)memory + bytes - first + page - 1) / page * page;
    if (read_only && !fake.read_only)
        return CUDA_NOT_SUPPORTED;
    if (bytes == 0 || madvise((void *)first, whole, read_only ? POPULATE_READ : POPULATE_WRITE) < 0)
        return CUDA_INVALID_VALUE;
    return memory_add(memory, bytes, read_only ? MEMORY_PINNED_READ_ONLY : MEMORY_PINNED)
               ? CUDA_OK
               : CUDA_HOST_MEMORY_ALREADY_REGISTERED;
}

cuda_result cuMemHostUnregister(void *memory)
{
    ENTER(cuMemHostUnregister);
    return memory_remove(memory, MEMORY_PINNED) > 0 ? CUDA_OK : CUDA_HOST_MEMORY_NOT_REGISTERED;
}

/* ---- work ---- */

static struct fake_work *new_work(enum fake_kind kind)
{
    struct fake_work *work = calloc(1, sizeof *work);
    if (work != NULL)
        work->kind = kind;
    return work;
}

static cuda_result add(struct CUstream_st *stream, struct fake_work *work)
{
    pthread_mutex_lock(&stream->context->lock);
    executor_add(stream, work);
    pthread_mutex_unlock(&stream->context->lock);
    return CUDA_OK;
}

static bool is_foreign(const struct CUstream_st *stream)
{
    return stream == NULL || stream->context != current;
}

cuda_result cuMemcpyHtoDAsync_v2(cuda_address to, const void *from, size_t bytes, cuda_stream stream)
{
    ENTER(cuMemcpyHtoDAsync_v2);
    unsigned char *device = (unsigned char *)(uintptr_t)to;
    bool pinned = memory_kind(from, bytes) >= MEMORY_PINNED;
    if (is_foreign(stream) || memory_kind(device, bytes) != MEMORY_DEVICE || (fake.strict && !pinned))
        return CUDA_INVALID_VALUE;
    struct fake_work *work = new_work(FAKE_COPY_IN);
    if (work == NULL)
        return CUDA_OUT_OF_MEMORY;
    work->to = device;
    work->from = from;
    work->bytes = bytes;
    if (!pinned && (work->snapshot = malloc(bytes)) != NULL)
        memcpy(work->snapshot, from, bytes);
    return add(stream, work);
}

cuda_result cuMemcpyDtoHAsync_v2(void *to, cuda_address from, size_t bytes, cuda_stream stream)
{
    ENTER(cuMemcpyDtoHAsync_v2);
    const unsigned char *device = (const unsigned char *)(uintptr_t)from;
    int kind = memory_kind(to, bytes);
    if (is_foreign(stream) || memory_kind(device, bytes) != MEMORY_DEVICE || kind == MEMORY_PINNED_READ_ONLY ||
        kind == MEMORY_DEVICE || (fake.strict && kind == 0))
        return CUDA_INVALID_VALUE;
    struct fake_work *work = new_work(FAKE_COPY_OUT);
    if (work == NULL)
        return CUDA_OUT_OF_MEMORY;
    memset(to, FAKE_POISON, bytes);
    work->to = to;
    work->from = device;
    work->bytes = bytes;
    add(stream, work);
    return kind != 0 ? CUDA_OK : cuStreamSynchronize(stream); /* memory that is not pinned: as the real one, at once */
}

cuda_result cuLaunchKernel(cuda_function function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,
                           unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared_bytes,
                           cuda_stream stream, void **arguments, void **extra)
{
    int injected = initialised && current != NULL ? fake_count_call(current->device, FAKE_cuLaunchKernel) : CUDA_OK;
    if (is_foreign(stream) || function == NULL || arguments == NULL || extra != NULL)
        return CUDA_INVALID_VALUE;
    struct fake_work *work = new_work(FAKE_KERNEL);
    unsigned char *argument = malloc(function->kernel->argument_bytes + 1);
    if (work == NULL || argument == NULL) {
        free(work);
        free(argument);
        return CUDA_OUT_OF_MEMORY;
    }
    memcpy(argument, arguments[0], function->kernel->argument_bytes);
    work->kernel = function->kernel;
    work->argument = argument;
    work->error = injected;
    work->grid = (struct sheaf_grid){.blocks = {blocks_x, blocks_y, blocks_z},
                                     .threads = {threads_x, threads_y, threads_z},
                                     .shared_bytes = shared_bytes};
    pthread_mutex_lock(&current->lock);
    int error = current->error; /* a kernel's own error shows at its end, as on a device */
    if (error == CUDA_OK)
        executor_add(stream, work);
    pthread_mutex_unlock(&current->lock);
    if (error != CUDA_OK) {
        free(argument);
        free(work);
    }
    return error;
}

/* ---- streams and events ---- */

cuda_result cuStreamCreate(cuda_stream *stream, unsigned flags)
{
    ENTER(cuStreamCreate);
    struct CUstream_st *made = calloc(1, sizeof *made);
    if (made == NULL)
        return CUDA_OUT_OF_MEMORY;
    made->context = current;
    pthread_mutex_lock(&current->lock);
    made->next = current->streams;
    current->streams = made;
    pthread_mutex_unlock(&current->lock);
    *stream = made;
    return CUDA_OK;
}

cuda_result cuStreamDestroy_v2(cuda_stream stream)
{
    ENTER(cuStreamDestroy_v2);
    if (is_foreign(stream))
        return CUDA_INVALID_HANDLE;
    pthread_mutex_lock(&current->lock);
    int error = executor_wait_stream(stream);
    for (struct CUstream_st **link = &current->streams; *link != NULL && error == CUDA_OK; link = &(*link)->next)
        if (*link == stream) {
            *link = stream->next;
            free(stream);
            break;
        }
    pthread_mutex_unlock(&current->lock);
    return error;
}

cuda_result cuStreamSynchronize(cuda_stream stream)
{
    ENTER(cuStreamSynchronize);
    if (is_foreign(stream))
        return CUDA_INVALID_HANDLE;
    pthread_mutex_lock(&current->lock);
    int error = executor_wait_stream(stream);
    pthread_mutex_unlock(&current->lock);
    return error;
}

cuda_result cuStreamWaitEvent(cuda_stream stream, cuda_event event, unsigned flags)
{
    ENTER(cuStreamWaitEvent);
    struct fake_work *work = is_foreign(stream) || event == NULL ? NULL : new_work(FAKE_WAIT);
    if (work == NULL)
        return CUDA_INVALID_HANDLE;
    pthread_mutex_lock(&current->lock);
    work->event = event;
    work->generation = event->recorded;
    executor_add(stream, work);
    pthread_mutex_unlock(&current->lock);
    return CUDA_OK;
}

cuda_result cuEventCreate(cuda_event *event, unsigned flags)
{
    ENTER(cuEventCreate);
    struct CUevent_st *made = calloc(1, sizeof *made);
    if (made == NULL)
        return CUDA_OUT_OF_MEMORY;
    made->context = current;
    pthread_mutex_lock(&current->lock);
    made->next = current->events;
    current->events = made;
    pthread_mutex_unlock(&current->lock);
    *event = made;
    return CUDA_OK;
}

cuda_result cuEventDestroy_v2(cuda_event event)
{
    ENTER(cuEventDestroy_v2);
    pthread_mutex_lock(&current->lock);
    int error = executor_wait_event(event);
    for (struct CUevent_st **link = &current->events; *link != NULL && error == CUDA_OK; link = &(*link)->next)
        if (*link == event) {
            *link = event->next;
            free(event);
            break;
        }
    pthread_mutex_unlock(&current->lock);
    return error;
}

cuda_result cuEventRecord(cuda_event event, cuda_stream stream)
{
    ENTER(cuEventRecord);
    struct fake_work *work = is_foreign(stream) || event == NULL ? NULL : new_work(FAKE_RECORD);
    if (work == NULL)
        return CUDA_INVALID_HANDLE;
    pthread_mutex_lock(&current->lock);
    work->event = event;
    work->generation = ++event->recorded;
    executor_add(stream, work);
    pthread_mutex_unlock(&current->lock);
    return CUDA_OK;
}

cuda_result cuEventQuery(cuda_event event)
{
    ENTER(cuEventQuery);
    pthread_mutex_lock(&current->lock);
    int result = current->error != CUDA_OK ? current->error : event->done >= event->recorded ? CUDA_OK : CUDA_NOT_READY;
    pthread_mutex_unlock(&current->lock);
    return result;
}

cuda_result cuEventSynchronize(cuda_event event)
{
    ENTER(cuEventSynchronize);
    pthread_mutex_lock(&current->lock);
    int error = executor_wait_event(event);
    pthread_mutex_unlock(&current->lock);
    return error;
}

/* ---- modules ---- */

static bool is_image(const void *image)
{
    uint32_t magic;
    memcpy(&magic, image, sizeof magic);
    return magic == 0xba55ed50u || memcmp(image, "FAKE", 4) == 0;
}

cuda_result cuModuleLoadData(cuda_module *module, const void *image)
{
    ENTER(cuModuleLoadData);
    if (image == NULL || !is_image(image))
        return CUDA_INVALID_IMAGE;
    struct CUmod_st *made = calloc(1, sizeof *made);
    if (made == NULL)
        return CUDA_OUT_OF_MEMORY;
    pthread_mutex_lock(&current->lock);
    made->next = current->modules;
    current->modules = made;
    pthread_mutex_unlock(&current->lock);
    *module = made;
    return CUDA_OK;
}

cuda_result cuModuleUnload(cuda_module module)
{
    ENTER(cuModuleUnload);
    pthread_mutex_lock(&current->lock);
    struct CUmod_st **link = &current->modules;
    while (*link != NULL && *link != module)
        link = &(*link)->next;
    bool found = *link != NULL;
    if (found)
        *link = module->next;
    pthread_mutex_unlock(&current->lock);
    if (found)
        executor_free_module(module);
    return found ? CUDA_OK : CUDA_INVALID_HANDLE;
}

static const struct sheaf_kernel *find_kernel(const char *name)
{
    for (uint32_t plugin = 0; plugin < fake.plugin_count; plugin++)
        for (uint32_t at = 0; at < fake.kernels[plugin]->kernel_count; at++)
            if (strcmp(fake.kernels[plugin]->kernels[at].name, name) == 0)
                return &fake.kernels[plugin]->kernels[at];
    return NULL;
}

cuda_result cuModuleGetFunction(cuda_function *function, cuda_module module, const char *name)
{
    ENTER(cuModuleGetFunction);
    const struct sheaf_kernel *kernel = find_kernel(name);
    struct CUfunc_st *made = kernel != NULL ? calloc(1, sizeof *made) : NULL;
    if (made == NULL)
        return CUDA_NOT_FOUND;
    made->kernel = kernel;
    made->next = module->functions;
    module->functions = made;
    *function = made;
    return CUDA_OK;
}
