/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches through the pipeline, as a worker on a GPU drives it: rows in payload-like memory, three batches in flight.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu/gpu.h"

/* How often: seldom where nothing is measured. */
static uint32_t small_batches(const struct gpu *gpu)
{
    return gpu->is_real ? 20000 : 12;
}

static uint32_t large_batches(const struct gpu *gpu)
{
    return gpu->is_real ? 60 : 4;
}

/* Memory that rows lie in; all of it is pinned. */
static uint64_t segment_bytes(const struct gpu *gpu)
{
    return UINT64_C(1) << (gpu->is_real ? 28 : 25);
}

#define COPY_SHARE 0.95 /* of a plain pinned copy */

/* What a batch does. */
struct load {
    const char *name;
    uint32_t rows;
    uint64_t row_bytes;
    bool in, out;     /* rows are copied in, results out */
    uint32_t kernels; /* launches over the batch */
};

struct bench {
    const struct gpu *gpu;
    struct pinned *pinned;
    struct pipeline *pipeline;
    char *from, *to; /* segment_bytes(gpu) each */
};

struct seen {
    double wall_s, cpu_s;
};

static char *map_segment(const struct gpu *gpu)
{
    int fd = memfd_create("gpu-check", MFD_CLOEXEC);
    gpu_must(gpu, fd < 0 || ftruncate(fd, segment_bytes(gpu)) < 0 ? -errno : 0, "memory");
    char *base = mmap(NULL, segment_bytes(gpu), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    gpu_must(gpu, base == MAP_FAILED ? -ENOMEM : 0, "memory");
    close(fd);
    return base;
}

static void open_bench(struct bench *bench, const struct gpu *gpu, uint32_t depth)
{
    struct pipeline_options options = {.depth = depth, .memory_bytes = segment_bytes(gpu), .staging_bytes = 32u << 20};
    bench->gpu = gpu;
    bench->from = map_segment(gpu);
    bench->to = map_segment(gpu);
    gpu_must(gpu, pinned_open(gpu->device, 2 * segment_bytes(gpu), &bench->pinned), "pinning");
    gpu_must(gpu, pinned_add(bench->pinned, bench->from, segment_bytes(gpu), false), "pinning");
    gpu_must(gpu, pinned_add(bench->pinned, bench->to, segment_bytes(gpu), false), "pinning");
    gpu_must(gpu, pipeline_open(gpu->device, bench->pinned, &options, &bench->pipeline), "pipeline");
}

static void close_bench(struct bench *bench)
{
    pipeline_close(bench->pipeline);
    pinned_close(bench->pinned);
    munmap(bench->from, segment_bytes(bench->gpu));
    munmap(bench->to, segment_bytes(bench->gpu));
}

/* A kernel over the whole batch, as a picture of gray rows: each byte is read and written. */
static void launch(const struct gpu *gpu, struct pipeline_batch *batch, device_address at, const struct load *load)
{
    uint32_t width = 4096, height = (uint32_t)(load->rows * load->row_bytes / width);
    struct sheaf_image image = sheaf_image_packed(width, height ? height : 1, SHEAF_IMAGE_GRAY, (void *)(uintptr_t)at);
    struct sheaf_image out = image;
    struct sheaf_kernel_plan plan = {0};
    out.data = (char *)out.data + load->rows * load->row_bytes;
    gpu_must(gpu, sheaf_plan_threshold(&image, &out, 100, &plan), "threshold");
    for (uint32_t i = 0; i < load->kernels; i++)
        gpu_must(gpu,
                 device_launch(gpu->device, pipeline_stream(batch), gpu->module,
                               sheaf_device_kernels.kernels[plan.steps[0].function].name, &plan.steps[0].grid,
                               plan.steps[0].args),
                 "launch");
}

static void finish_oldest(struct bench *bench)
{
    struct pipeline_batch *batch = pipeline_oldest(bench->pipeline);
    gpu_must(bench->gpu, pipeline_wait(batch), "batch");
    pipeline_end(batch);
}

static void start_batch(struct bench *bench, const struct load *load, uint32_t number)
{
    const struct gpu *gpu = bench->gpu;
    struct pipeline_batch *batch = pipeline_begin(bench->pipeline);
    uint64_t bytes = load->rows * load->row_bytes, spread = segment_bytes(gpu) / bytes,
             offset = number % spread * bytes;
    device_address at;
    gpu_must(gpu, pipeline_place(batch, 2 * bytes, &at), "device memory of a batch");
    for (uint32_t row = 0; load->in && row < load->rows; row++)
        gpu_must(gpu,
                 pipeline_copy_in(batch, at + row * load->row_bytes, bench->from + offset + row * load->row_bytes,
                                  load->row_bytes),
                 "copy in");
    gpu_must(gpu, pipeline_start(batch), "batch");
    if (load->kernels > 0)
        launch(gpu, batch, at, load);
    for (uint32_t row = 0; load->out && row < load->rows; row++)
        gpu_must(gpu,
                 pipeline_fetch(batch, bench->to + offset + row * load->row_bytes, at + bytes + row * load->row_bytes,
                                load->row_bytes),
                 "fetch");
    gpu_must(gpu, pipeline_submit(batch), "batch");
}

/* Time for `count` batches at a depth, after a few that warm up. */
static struct seen play(const struct gpu *gpu, const struct load *wanted, uint32_t depth, uint32_t count)
{
    struct load scaled = *wanted, *load = &scaled;
    if (!gpu->is_real && scaled.rows > 8)
        scaled.rows /= 8;
    struct bench bench;
    struct seen seen = {0};
    open_bench(&bench, gpu, depth);
    uint32_t warm = 2 * depth + (uint32_t)(segment_bytes(gpu) / (load->rows * load->row_bytes)); /* all of it pinned */
    warm = warm < count ? warm : count;
    for (uint32_t i = 0; i < warm + count; i++) {
        if (i == warm) {
            while (pipeline_in_flight(bench.pipeline) > 0)
                finish_oldest(&bench);
            seen = (struct seen){gpu_now_s(), gpu_thread_s()};
        }
        if (pipeline_in_flight(bench.pipeline) == pipeline_depth(bench.pipeline))
            finish_oldest(&bench);
        start_batch(&bench, load, i);
    }
    while (pipeline_in_flight(bench.pipeline) > 0)
        finish_oldest(&bench);
    seen = (struct seen){gpu_now_s() - seen.wall_s, gpu_thread_s() - seen.cpu_s};
    close_bench(&bench);
    return seen;
}

static void print_copies(struct gpu *gpu)
{
    static const struct load loads[] = {
        {"in, 1 MiB rows", 16, 1 << 20, .in = true},
        {"in, 16 KiB rows", 1024, 16 << 10, .in = true},
        {"out, 1 MiB rows", 16, 1 << 20, .out = true},
        {"out, 16 KiB rows", 1024, 16 << 10, .out = true},
    };
    double plain[] = {
        [DRIVER_IN] = driver_copy_pinned(gpu, DRIVER_IN), [DRIVER_OUT] = driver_copy_pinned(gpu, DRIVER_OUT)};
    fprintf(gpu->times, "\n%-24s %8s %10s\n", "copies of batches", "GB/s", "of pinned");
    fprintf(gpu->times, "%-24s %8.1f %9.0f%%\n%-24s %8.1f %9.0f%%\n", "(plain pinned copy in)", plain[DRIVER_IN], 100.0,
            "(plain pinned copy out)", plain[DRIVER_OUT], 100.0);
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++) {
        struct seen seen = play(gpu, &loads[i], PIPELINE_DEPTH, 4 * large_batches(gpu));
        double speed = (double)(loads[i].rows * loads[i].row_bytes) * 4 * large_batches(gpu) / seen.wall_s / 1e9;
        double share = speed / plain[loads[i].in ? DRIVER_IN : DRIVER_OUT];
        gpu->slow += gpu->is_real && share < COPY_SHARE;
        fprintf(gpu->times, "%-24s %8.1f %9.0f%%%s\n", loads[i].name, speed, 100 * share,
                share < COPY_SHARE ? "  slow" : "");
    }
}

/* What the slowest of the three parts takes is the least that all can take; one after the other they take the sum. */
static void print_overlap(const struct gpu *gpu)
{
    struct load load = {"", 16, 1 << 20, .in = true, .out = true, .kernels = gpu->is_real ? 40 : 1}, in = load,
                out = load, kernel = load;
    in.out = out.in = kernel.in = kernel.out = false;
    in.kernels = out.kernels = 0;
    double parts[] = {play(gpu, &in, PIPELINE_DEPTH, large_batches(gpu)).wall_s,
                      play(gpu, &kernel, PIPELINE_DEPTH, large_batches(gpu)).wall_s,
                      play(gpu, &out, PIPELINE_DEPTH, large_batches(gpu)).wall_s};
    double one_by_one = play(gpu, &load, 1, large_batches(gpu)).wall_s,
           together = play(gpu, &load, PIPELINE_DEPTH, large_batches(gpu)).wall_s;
    double least = parts[0] > parts[1] ? parts[0] : parts[1];
    least = least > parts[2] ? least : parts[2];
    fprintf(gpu->times, "\n%-36s %10s\n", "overlap, batches of 16 MiB", "ms a batch");
    static const char *const names[] = {"copies in alone", "kernels alone", "copies out alone"};
    for (int i = 0; i < 3; i++)
        fprintf(gpu->times, "%-36s %10.3f\n", names[i], parts[i] * 1e3 / large_batches(gpu));
    fprintf(gpu->times, "%-36s %10.3f\n%-36s %10.3f", "one batch at a time", one_by_one * 1e3 / large_batches(gpu),
            "three in flight", together * 1e3 / large_batches(gpu));
    if (one_by_one > least)
        fprintf(gpu->times, "  (%.0f%% of what can be hidden is)",
                100 * (one_by_one - together) / (one_by_one - least));
    fputc('\n', gpu->times);
}

/* The same calls without a pipeline, for what it costs itself: one staging buffer and one stream. */
static struct seen play_plain(const struct gpu *gpu, const struct load *load, uint32_t count)
{
    uint64_t bytes = load->rows * load->row_bytes;
    device_address at;
    void *staging;
    struct sheaf_kernel_plan plan = {0};
    gpu_must(gpu, device_alloc(gpu->device, 2 * bytes, &at), "device memory");
    gpu_must(gpu, device_host_alloc(gpu->device, bytes, &staging), "pinned memory");
    struct sheaf_image in = sheaf_image_packed(4096, (uint32_t)(bytes / 4096), SHEAF_IMAGE_GRAY, (void *)(uintptr_t)at);
    struct sheaf_image out = in;
    out.data = (char *)out.data + bytes;
    gpu_must(gpu, sheaf_plan_threshold(&in, &out, 100, &plan), "threshold");
    const char *name = sheaf_device_kernels.kernels[plan.steps[0].function].name;
    struct seen seen = {gpu_now_s(), gpu_thread_s()};
    for (uint32_t i = 0; i < count; i++) {
        gpu_must(gpu, device_copy_in(gpu->device, gpu->stream, at, staging, bytes), "copy in");
        gpu_must(gpu,
                 device_launch(gpu->device, gpu->stream, gpu->module, name, &plan.steps[0].grid, plan.steps[0].args),
                 "launch");
        gpu_must(gpu, device_copy_out(gpu->device, gpu->stream, staging, at + bytes, bytes), "copy out");
        if (i % PIPELINE_DEPTH == PIPELINE_DEPTH - 1)
            gpu_must(gpu, device_stream_wait_idle(gpu->device, gpu->stream), "batch");
    }
    gpu_must(gpu, device_stream_wait_idle(gpu->device, gpu->stream), "batch");
    seen = (struct seen){gpu_now_s() - seen.wall_s, gpu_thread_s() - seen.cpu_s};
    device_host_free(gpu->device, staging);
    device_free(gpu->device, at);
    return seen;
}

static void print_cost(const struct gpu *gpu)
{
    struct load load = {"", 1, 4096, .in = true, .out = true, .kernels = 1};
    struct seen ours = play(gpu, &load, PIPELINE_DEPTH, small_batches(gpu)),
                plain = play_plain(gpu, &load, small_batches(gpu));
    fprintf(gpu->times, "\n%-36s %12s %12s\n", "batches of one row of 4 KiB", "batches/s", "us CPU each");
    fprintf(gpu->times, "%-36s %12.0f %12.1f\n", "through the pipeline", small_batches(gpu) / ours.wall_s,
            ours.cpu_s * 1e6 / small_batches(gpu));
    fprintf(gpu->times, "%-36s %12.0f %12.1f\n", "the driver's calls alone", small_batches(gpu) / plain.wall_s,
            plain.cpu_s * 1e6 / small_batches(gpu));
    fprintf(gpu->times, "%-36s %12s %12.1f\n", "the pipeline's own", "",
            (ours.cpu_s - plain.cpu_s) * 1e6 / small_batches(gpu));
}

void rates_run(struct gpu *gpu)
{
    if (!gpu->is_real)
        printf("\ncopies, overlap, batches/s and cost per batch: not measured, there is no GPU\n");
    print_copies(gpu);
    print_overlap(gpu);
    print_cost(gpu);
}
