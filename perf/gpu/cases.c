/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every kernel of kernels.h once on the host and once on the device, over pictures of awkward sizes and one of a page
 * at 300 dpi, and the bytes compared. Then, on a real GPU, the page again and again over so many copies that they do
 * not stay in its cache: gigabytes read and written a second, against a plain copy on the device.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gpu.h"

enum { RESULT_SPARE = 64, SETS_MAX = 128, ROUNDS = 5 }; /* the host writes more of a measure than the device */
#define WORKING_SET_BYTES (UINT64_C(512) << 20)
#define SLOW_SHARE 0.8 /* what a kernel that only moves memory should reach of a copy on the device */

/* Where the parts of one call are: in host memory or on the device. A tensor or a measure goes to `result`; `out` then
 * only has a size. */
struct parts {
    struct sheaf_image in, other, out;
    void *result;
    uint64_t result_bytes;
};

struct kernel_case {
    const char *name;
    uint32_t in, out;       /* formats; out 0: none */
    uint32_t per_mille;     /* size of the output by that of the input */
    uint32_t measure_bytes; /* of a measure's result, as far as the device writes it */
    uint32_t tensor;        /* enum sheaf_float; 0: none */
    uint32_t side_min;
    bool takes_other;  /* a second input */
    bool moves_memory; /* and does little else: held against a copy */
    int (*host)(const struct parts *parts);
    int (*plan)(const struct parts *parts, struct sheaf_kernel_plan *plan);
};

static const struct shape {
    uint32_t width, height;
} shapes[] = {{1, 1}, {8, 8}, {17, 9}, {640, 479}, {2049, 31}, {2480, 3508}};
enum { SHAPES = sizeof shapes / sizeof *shapes, PAGE = SHAPES - 1, REHEARSED = 1 };

static const uint8_t fill[4] = {10, 20, 30, 255};
static const struct sheaf_normalise to_float = {
    .by = {0.01f, 0.02f, 0.03f}, .bias = {-1, -2, -3}, .dtype = SHEAF_FLOAT32, .filter = SHEAF_FILTER_AREA};
static const struct sheaf_normalise to_half = {
    .by = {0.01f, 0.02f, 0.03f}, .bias = {-1, -2, -3}, .dtype = SHEAF_BFLOAT16, .letterbox = 1};

/* A call of kernels.h and the plan of the same call: the arguments are the same. */
#define CASE(id, function, ...)                                                                                        \
    static int host_##id(const struct parts *parts)                                                                    \
    {                                                                                                                  \
        return sheaf_kernel_##function(__VA_ARGS__);                                                                   \
    }                                                                                                                  \
    static int plan_##id(const struct parts *parts, struct sheaf_kernel_plan *plan)                                    \
    {                                                                                                                  \
        return sheaf_plan_##function(__VA_ARGS__, plan);                                                               \
    }
CASE(convert, convert, &parts->in, &parts->out)
CASE(bilinear, resize, &parts->in, &parts->out, SHEAF_FILTER_BILINEAR)
CASE(area, resize, &parts->in, &parts->out, SHEAF_FILTER_AREA)
CASE(letterbox, letterbox, &parts->in, &parts->out, SHEAF_FILTER_BILINEAR, fill)
CASE(rotate, rotate, &parts->in, &parts->out, 3000, 255)
CASE(float, tensor, &parts->in, parts->out.width, parts->out.height, &to_float, parts->result, parts->result_bytes)
CASE(half, tensor, &parts->in, parts->out.width, parts->out.height, &to_half, parts->result, parts->result_bytes)
CASE(threshold, threshold, &parts->in, &parts->out, 100)
CASE(otsu, otsu, &parts->in, &parts->out, parts->result)
CASE(sauvola, sauvola, &parts->in, &parts->out, 15, 87)
CASE(histogram, histogram, &parts->in, parts->result)
CASE(sharpness, sharpness, &parts->in, parts->result)
CASE(ssim, ssim, &parts->in, &parts->other, parts->result)
CASE(skew, skew, &parts->in, 100, 4000, parts->result)
CASE(dhash, dhash, &parts->in, parts->result)
CASE(phash, phash, &parts->in, parts->result)

/* The first two KiB of a picture stand for two histograms. */
static int host_distance(const struct parts *parts)
{
    const uint32_t *counts = parts->in.data;
    *(uint32_t *)parts->result = sheaf_histogram_distance(counts, counts + 256);
    return 0;
}

static int plan_distance(const struct parts *parts, struct sheaf_kernel_plan *plan)
{
    const uint32_t *counts = parts->in.data;
    return sheaf_plan_histogram_distance(counts, counts + 256, parts->result, plan);
}

#define RUN(id) .host = host_##id, .plan = plan_##id
enum { GRAY = SHEAF_IMAGE_GRAY, RGB = SHEAF_IMAGE_RGB, BGRA = SHEAF_IMAGE_BGRA, NV12 = SHEAF_IMAGE_NV12 };
static const struct kernel_case kernel_cases[] = {
    {"RGB to gray", RGB, GRAY, 1000, .moves_memory = true, RUN(convert)},
    {"BGRA to gray", BGRA, GRAY, 1000, .moves_memory = true, RUN(convert)},
    {"BGRA to RGB", BGRA, RGB, 1000, .moves_memory = true, RUN(convert)},
    {"RGB to BGRA", RGB, BGRA, 1000, .moves_memory = true, RUN(convert)},
    {"NV12 to RGB", NV12, RGB, 1000, .moves_memory = true, RUN(convert)},
    {"RGB to NV12", RGB, NV12, 1000, .moves_memory = true, RUN(convert)},
    {"resize bilinear x 1.5", RGB, RGB, 1500, RUN(bilinear)},
    {"resize bilinear x 0.7", GRAY, GRAY, 700, RUN(bilinear)},
    {"resize area x 0.5", RGB, RGB, 500, RUN(area)},
    {"resize area x 0.5, gray", GRAY, GRAY, 500, RUN(area)},
    {"resize area x 0.1", GRAY, GRAY, 100, RUN(area)},
    {"letterbox", RGB, RGB, 700, RUN(letterbox)},
    {"rotate", GRAY, GRAY, 1000, RUN(rotate)},
    {"tensor float32 x 0.5", RGB, 0, 500, .tensor = SHEAF_FLOAT32, RUN(float)},
    {"tensor bfloat16 x 0.5", NV12, 0, 500, .tensor = SHEAF_BFLOAT16, RUN(half)},
    {"threshold", GRAY, GRAY, 1000, .moves_memory = true, RUN(threshold)},
    {"Otsu", GRAY, GRAY, 1000, .measure_bytes = sizeof(uint32_t), RUN(otsu)},
    {"Sauvola", GRAY, GRAY, 1000, RUN(sauvola)},
    {"histogram", GRAY, 0, 1000, .measure_bytes = 256 * sizeof(uint32_t), RUN(histogram)},
    {"histogram distance", GRAY, 0, 1000, .measure_bytes = sizeof(uint32_t), .side_min = 64, RUN(distance)},
    {"sharpness", GRAY, 0, 1000, .measure_bytes = offsetof(struct sheaf_sharpness, pixels), RUN(sharpness)},
    {"SSIM", GRAY, 0, 1000, .measure_bytes = offsetof(struct sheaf_ssim, windows), .side_min = 8, .takes_other = true,
     RUN(ssim)},
    {"skew", GRAY, 0, 1000, .measure_bytes = sizeof(struct sheaf_skew), RUN(skew)},
    {"dHash", GRAY, 0, 1000, .measure_bytes = sizeof(uint64_t), RUN(dhash)},
    {"pHash", GRAY, 0, 1000, .measure_bytes = sizeof(uint64_t), RUN(phash)},
};

/* ---- memory of one call ---- */

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + DEVICE_ALIGNMENT - 1) / DEVICE_ALIGNMENT * DEVICE_ALIGNMENT;
}

static uint32_t scaled(uint32_t side, uint32_t per_mille)
{
    uint32_t to = (uint32_t)((uint64_t)side * per_mille / 1000);
    return to > 0 ? to : 1;
}

/* The same layout on both sides: inputs, then what is written. `ret_bytes`: all of it; `ret_written_at`: where that
 * begins. */
static struct parts lay_out(const struct kernel_case *what, struct shape shape, char *memory, uint64_t *ret_bytes,
                            uint64_t *ret_written_at)
{
    uint64_t in_bytes = sheaf_image_bytes(shape.width, shape.height, what->in), at = 0;
    uint32_t width = scaled(shape.width, what->per_mille), height = scaled(shape.height, what->per_mille);
    struct parts parts = {.in = sheaf_image_packed(shape.width, shape.height, what->in, memory)};
    at += aligned(in_bytes);
    if (what->takes_other) {
        parts.other = sheaf_image_packed(shape.width, shape.height, what->in, memory + at);
        at += aligned(in_bytes);
    }
    *ret_written_at = at;
    parts.out = (struct sheaf_image){.width = width, .height = height};
    if (what->out) {
        parts.out = sheaf_image_packed(width, height, what->out, memory + at);
        at += aligned(parts.out.size_bytes);
    }
    parts.result = memory + at;
    parts.result_bytes =
        what->tensor ? sheaf_tensor_bytes(width, height, what->in, what->tensor) : what->measure_bytes + RESULT_SPARE;
    at += aligned(parts.result_bytes);
    *ret_bytes = at;
    return parts;
}

static void fill_with_noise(unsigned char *memory, uint64_t bytes)
{
    uint64_t random = 88172645463325252u;
    for (uint64_t i = 0; i < bytes; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        /* Paper with ink on it rather than snow: half of the pixels are near white. */
        memory[i] = random & 1 ? (unsigned char)(random >> 8) : (unsigned char)(240 + (random >> 8 & 15));
    }
}

/* The plan of a call on the device, with scratch memory when it wants some. */
static struct sheaf_kernel_plan make_plan(const struct gpu *gpu, const struct kernel_case *what,
                                          const struct parts *parts)
{
    struct sheaf_kernel_plan plan = {0};
    int status = what->plan(parts, &plan);
    if (status == -ENOSPC) {
        uint64_t bytes = plan.scratch_bytes;
        device_address scratch;
        gpu_must(gpu, device_alloc(gpu->device, bytes, &scratch), what->name);
        plan = (struct sheaf_kernel_plan){.scratch = scratch, .scratch_bytes = bytes};
        status = what->plan(parts, &plan);
    }
    gpu_must(gpu, status, what->name);
    return plan;
}

static void launch(const struct gpu *gpu, const struct sheaf_kernel_plan *plan)
{
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const struct sheaf_kernel_step *step = &plan->steps[i];
        const char *name = sheaf_device_kernels.kernels[step->function].name;
        gpu_must(gpu, device_launch(gpu->device, gpu->stream, gpu->module, name, &step->grid, step->args), name);
    }
}

/* ---- is it right? ---- */

static bool is_the_same(const struct gpu *gpu, const struct kernel_case *what, struct shape shape)
{
    uint64_t bytes, written_at;
    lay_out(what, shape, NULL, &bytes, &written_at);
    unsigned char *host = aligned_alloc(DEVICE_ALIGNMENT, bytes);
    void *pinned, *back;
    device_address device;
    gpu_must(gpu, host ? 0 : -ENOMEM, what->name);
    gpu_must(gpu, device_host_alloc(gpu->device, bytes, &pinned), what->name);
    gpu_must(gpu, device_host_alloc(gpu->device, bytes, &back), what->name);
    gpu_must(gpu, device_alloc(gpu->device, bytes, &device), what->name);
    memset(host, 0, bytes);
    fill_with_noise(host, written_at);
    memcpy(pinned, host, bytes);
    struct parts here = lay_out(what, shape, (char *)host, &bytes, &written_at);
    struct parts there = lay_out(what, shape, (char *)(uintptr_t)device, &bytes, &written_at);
    gpu_must(gpu, what->host(&here), what->name);
    gpu_must(gpu, device_copy_in(gpu->device, gpu->stream, device, pinned, bytes), what->name);
    struct sheaf_kernel_plan plan = make_plan(gpu, what, &there);
    launch(gpu, &plan);
    gpu_must(gpu, device_copy_out(gpu->device, gpu->stream, back, device, bytes), what->name);
    gpu_must(gpu, device_stream_wait_idle(gpu->device, gpu->stream), what->name);
    uint64_t picture = what->out ? here.out.size_bytes : 0;
    const unsigned char *result = (unsigned char *)here.result, *got = (unsigned char *)back + (result - host);
    bool same = memcmp(host, back, written_at + picture) == 0 &&
                memcmp(result, got, what->tensor ? here.result_bytes : what->measure_bytes) == 0;
    if (plan.scratch)
        device_free(gpu->device, plan.scratch);
    device_free(gpu->device, device);
    device_host_free(gpu->device, pinned);
    device_host_free(gpu->device, back);
    free(host);
    return same;
}

/* ---- how fast is it? ---- */

/* Gigabytes a second of a page, over as many copies of it as are far more than the device's caches. */
static double rate(const struct gpu *gpu, const struct kernel_case *what)
{
    struct shape shape = shapes[gpu->is_real ? PAGE : REHEARSED];
    uint64_t bytes, written_at;
    struct parts parts = lay_out(what, shape, NULL, &bytes, &written_at);
    uint64_t moved =
        written_at + (what->out ? parts.out.size_bytes : 0) + (what->tensor ? parts.result_bytes : what->measure_bytes);
    uint32_t sets = (uint32_t)(WORKING_SET_BYTES / bytes) + 1;
    sets = sets < SETS_MAX ? sets : SETS_MAX;
    sets = gpu->is_real ? sets : 2;
    struct sheaf_kernel_plan *plans = calloc(sets, sizeof *plans);
    device_address *memory = calloc(sets, sizeof *memory);
    gpu_must(gpu, plans && memory ? 0 : -ENOMEM, what->name);
    for (uint32_t i = 0; i < sets; i++) {
        gpu_must(gpu, device_alloc(gpu->device, bytes, &memory[i]), what->name);
        parts = lay_out(what, shape, (char *)(uintptr_t)memory[i], &bytes, &written_at);
        plans[i] = make_plan(gpu, what, &parts);
    }
    double began_s = 0;
    for (int round = -1; round < ROUNDS; round++) { /* the first one warms up */
        if (round == 0) {
            gpu_must(gpu, device_stream_wait_idle(gpu->device, gpu->stream), what->name);
            began_s = gpu_now_s();
        }
        for (uint32_t i = 0; i < sets; i++)
            launch(gpu, &plans[i]);
    }
    gpu_must(gpu, device_stream_wait_idle(gpu->device, gpu->stream), what->name);
    double took_s = gpu_now_s() - began_s;
    for (uint32_t i = 0; i < sets; i++) {
        if (plans[i].scratch)
            device_free(gpu->device, plans[i].scratch);
        device_free(gpu->device, memory[i]);
    }
    free(plans);
    free(memory);
    return (double)moved * sets * ROUNDS / took_s / 1e9;
}

void cases_run(struct gpu *gpu, double device_copy)
{
    printf("\n%-24s %-10s %8s %8s\n", "kernel", "is", "GB/s", "of copy");
    if (gpu->is_real)
        printf("%-24s %-10s %8.0f %7.0f%%\n", "(copy on the device)", "-", device_copy, 100.0);
    for (size_t i = 0; i < sizeof kernel_cases / sizeof *kernel_cases; i++) {
        const struct kernel_case *what = &kernel_cases[i];
        unsigned different = 0;
        /* The driver of the tests runs thread after thread: pages take too long there. */
        for (int at = 0; at < (gpu->is_real ? SHAPES : PAGE); at++)
            if (shapes[at].width >= what->side_min && shapes[at].height >= what->side_min)
                different += !is_the_same(gpu, what, shapes[at]);
        gpu->wrong += different > 0;
        printf("%-24s %-10s ", what->name, different == 0 ? "right" : "WRONG");
        if (!gpu->is_real)
            printf("%8s %8s\n", "-", "-");
        double speed = rate(gpu, what);
        bool slow = gpu->is_real && what->moves_memory && device_copy > 0 && speed < SLOW_SHARE * device_copy;
        gpu->slow += slow;
        fprintf(gpu->times, "%8.0f %7.0f%%%s\n", speed, device_copy > 0 ? 100 * speed / device_copy : 0,
                slow ? "  slow" : "");
    }
}
