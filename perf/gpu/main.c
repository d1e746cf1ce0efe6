/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gpu/gpu.h"

enum { EXIT_SLOW = 3, EXIT_NO_GPU = 77 };

void gpu_must(const struct gpu *gpu, int status, const char *what)
{
    if (status >= 0)
        return;
    fprintf(stderr, "sheaf-gpu-check: %s: %s (%s)\n", what, strerror(-status),
            gpu->device ? device_last_error(gpu->device) : "no device");
    exit(1);
}

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

double gpu_now_s(void)
{
    return seconds(CLOCK_MONOTONIC);
}

double gpu_thread_s(void)
{
    return seconds(CLOCK_THREAD_CPUTIME_ID);
}

int main(int argc, char **argv)
{
    struct gpu gpu = {0};
    char line[DEVICE_LINE_BYTES];
    if (argc > 2) {
        fprintf(stderr, "usage: sheaf-gpu-check [DEVICE]\n");
        return 2;
    }
    uint32_t ordinal = argc == 2 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    int count = device_cuda_count(line);
    if (count <= 0 || device_open(SHEAF_DEVICE_CUDA, ordinal, &gpu.device, line) < 0) {
        printf("no GPU: %s\n", line);
        return EXIT_NO_GPU;
    }
    gpu.is_real = driver_is_real();
    gpu.times = gpu.is_real ? stdout : fopen("/dev/null", "w");
    gpu_must(&gpu, gpu.times ? 0 : -errno, "/dev/null");
    const struct device_info *info = device_info(gpu.device);
    printf("device %u of %d: %s, %s, %.1f GiB%s\n", ordinal, count, info->name, info->bus_id,
           (double)info->memory_bytes / (1 << 30),
           gpu.is_real ? "" : "; the driver of the tests: no GPU, so nothing is timed");
    printf("%s\n", sheaf_device_kernels_text());
    gpu_must(&gpu, device_self_test(gpu.device), "self test");
    gpu_must(&gpu, device_stream_create(gpu.device, &gpu.stream), "stream");
    struct sheaf_kernels kernels = sheaf_device_kernels;
    if (!gpu.is_real && !kernels.image)
        kernels.image = "FAKE"; /* that driver has host functions */
    gpu_must(&gpu, device_module_load(gpu.device, &kernels, &gpu.module), "kernels");
    double device_copy = driver_copy_on_device(&gpu);
    cases_run(&gpu, device_copy);
    rates_run(&gpu);
    device_stream_destroy(gpu.device, gpu.stream);
    device_close(gpu.device);
    gpu.device = NULL;
    engine_run(&gpu);
    printf("\n%u kernels differ from the host, %u figures are below what they should reach\n", gpu.wrong, gpu.slow);
    return gpu.wrong > 0 ? 1 : gpu.slow > 0 ? EXIT_SLOW : 0;
}
