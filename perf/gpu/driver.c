/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/gpu.h"

#include <dlfcn.h>

#include "device/cuda_functions.h"

enum { COPY_COUNT = 40, WARM_COPIES = 4 };

static uint64_t copy_bytes(const struct gpu *gpu)
{
    return gpu->is_real ? UINT64_C(256) << 20 : 4096;
}

static void *driver_symbol(const char *name)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    return library ? dlsym(library, name) : NULL;
}

bool driver_is_real(void)
{
    return !driver_symbol("fake_cuda_fault");
}

double driver_copy_on_device(const struct gpu *gpu)
{
    cuda_result (*copy)(cuda_address to, cuda_address from, size_t bytes, cuda_stream stream) =
        (cuda_result(*)(cuda_address, cuda_address, size_t, cuda_stream))driver_symbol("cuMemcpyDtoDAsync_v2");
    device_address from, to;
    uint64_t bytes = copy_bytes(gpu);
    if (!copy)
        return 0;
    gpu_must(gpu, device_alloc(gpu->device, bytes, &from), "device memory");
    gpu_must(gpu, device_alloc(gpu->device, bytes, &to), "device memory");
    double began_s = 0;
    for (int i = -WARM_COPIES; i < COPY_COUNT; i++) { /* the first ones warm up */
        if (i == 0) {
            gpu_must(gpu, device_stream_wait_idle(gpu->device, gpu->stream), "copy on the device");
            began_s = gpu_now_s();
        }
        gpu_must(gpu, -copy(to, from, bytes, device_stream_native(gpu->device, gpu->stream)), "copy on the device");
    }
    gpu_must(gpu, device_stream_wait_idle(gpu->device, gpu->stream), "copy on the device");
    double took_s = gpu_now_s() - began_s;
    device_free(gpu->device, from);
    device_free(gpu->device, to);
    return 2.0 * (double)bytes * COPY_COUNT / took_s / 1e9;
}

double driver_copy_pinned(const struct gpu *gpu, enum driver_direction direction)
{
    device_address there;
    void *here;
    uint64_t bytes = copy_bytes(gpu);
    gpu_must(gpu, device_alloc(gpu->device, bytes, &there), "device memory");
    gpu_must(gpu, device_host_alloc(gpu->device, bytes, &here), "pinned memory");
    double began_s = 0;
    for (int i = -WARM_COPIES; i < COPY_COUNT; i++) {
        if (i == 0) {
            gpu_must(gpu, device_stream_wait_idle(gpu->device, gpu->stream), "pinned copy");
            began_s = gpu_now_s();
        }
        gpu_must(gpu,
                 direction == DRIVER_IN ? device_copy_in(gpu->device, gpu->stream, there, here, bytes)
                                        : device_copy_out(gpu->device, gpu->stream, here, there, bytes),
                 "pinned copy");
    }
    gpu_must(gpu, device_stream_wait_idle(gpu->device, gpu->stream), "pinned copy");
    double took_s = gpu_now_s() - began_s;
    device_host_free(gpu->device, here);
    device_free(gpu->device, there);
    return (double)bytes * COPY_COUNT / took_s / 1e9;
}
