/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any descriptors and arguments either are refused, with nothing written, or stay within their memory: on the host's
 * loops and in device code, which runs on the CPU (kernels/device_host.h). Runs over a kept corpus as an ordinary
 * test (fuzz_main.c) or under libFuzzer; worth most with AddressSanitizer.
 */
#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/rows.h"
#include "kernels/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Memory behind a descriptor is as large as the descriptor says, up to this; the tensor's is as large. */
enum { MEMORY_BYTES_MAX = 1 << 16, RESULT_BYTES = 1024 };

struct picture_words {
    uint32_t width, height, format, matrix, stride_bytes, chroma_offset, size_bytes, high; /* high: upper halves */
};

struct input {
    uint32_t call, arguments[6];
    struct picture_words in, out;
};

struct run {
    struct input input;
    struct sheaf_image in, out;
    uint8_t *out_before;
    bool on_device;
    struct sheaf_kernel_plan plan;
    uint64_t result[RESULT_BYTES / 8];
};

static struct sheaf_image image_of(const struct picture_words *words)
{
    struct sheaf_image image = {.width = words->width,
                                .height = words->height,
                                .format = words->format,
                                .matrix = words->matrix,
                                .stride_bytes = words->stride_bytes | (uint64_t)(words->high & 0xFF) << 56,
                                .chroma_offset = words->chroma_offset | (uint64_t)(words->high >> 8 & 0xFF) << 56,
                                .size_bytes = words->size_bytes % (MEMORY_BYTES_MAX + 1)};
    image.data = words->high >> 31 ? NULL : malloc(image.size_bytes);
    for (uint64_t i = 0; image.data && i < image.size_bytes; i++)
        ((uint8_t *)image.data)[i] = (uint8_t)(i * 31 + i / 97);
    return image;
}

static struct sheaf_normalise normalise_of(const uint32_t *arguments)
{
    struct sheaf_normalise how = {.by = {1, 0.5f, 1e30f}, .bias = {0, -1, 3}, .fill = {1, 2, 3}};
    how.dtype = arguments[2] & 3;
    how.filter = arguments[2] >> 2 & 3;
    how.letterbox = arguments[2] >> 4 & 3;
    memcpy(&how.by[0], &arguments[3], sizeof how.by[0]);
    return how;
}

static int call_picture(struct run *run)
{
    const uint32_t *a = run->input.arguments;
    const struct sheaf_image *in = &run->in, *out = &run->out;
    struct sheaf_kernel_plan *plan = &run->plan;
    uint8_t fill[4] = {1, 2, 3, 4};
    bool device = run->on_device;
    switch (run->input.call % 16) {
    case 0:
        return device ? sheaf_plan_convert(in, out, plan) : sheaf_kernel_convert(in, out);
    case 1:
        return device ? sheaf_plan_resize(in, out, a[0], plan) : sheaf_kernel_resize(in, out, a[0]);
    case 2:
        return device ? sheaf_plan_letterbox(in, out, a[0], fill, plan) : sheaf_kernel_letterbox(in, out, a[0], fill);
    case 3:
        return device ? sheaf_plan_rotate(in, out, (int32_t)a[0], 7, plan)
                      : sheaf_kernel_rotate(in, out, (int32_t)a[0], 7);
    case 4:
        return device ? sheaf_plan_threshold(in, out, a[0], plan) : sheaf_kernel_threshold(in, out, a[0]);
    case 5:
        return device ? sheaf_plan_otsu(in, out, NULL, plan) : sheaf_kernel_otsu(in, out, NULL);
    case 6:
        return device ? sheaf_plan_sauvola(in, out, a[0], a[1], plan) : sheaf_kernel_sauvola(in, out, a[0], a[1]);
    default: {
        struct sheaf_normalise how = normalise_of(a);
        uint64_t bytes = run->out.size_bytes;
        return device ? sheaf_plan_tensor(in, a[0], a[1], &how, run->out.data, bytes, plan)
                      : sheaf_kernel_tensor(in, a[0], a[1], &how, run->out.data, bytes);
    }
    }
}

static int skew_otsu(const struct sheaf_image *in, uint32_t max_slope, struct sheaf_skew *skew)
{
    uint32_t counts[256];
    int status = sheaf_kernel_histogram(in, counts);
    return status < 0 ? status : sheaf_kernel_skew(in, sheaf_otsu_threshold(counts), max_slope, skew);
}

static int call_value(struct run *run)
{
    const uint32_t *a = run->input.arguments;
    const struct sheaf_image *in = &run->in, *out = &run->out;
    struct sheaf_kernel_plan *plan = &run->plan;
    void *result = run->result;
    bool device = run->on_device;
    switch (run->input.call % 16) {
    case 8:
        return device ? sheaf_plan_histogram(in, result, plan) : sheaf_kernel_histogram(in, result);
    case 9:
        return device ? sheaf_plan_sharpness(in, result, plan) : sheaf_kernel_sharpness(in, result);
    case 10:
        return device ? sheaf_plan_ssim(in, out, result, plan) : sheaf_kernel_ssim(in, out, result);
    case 11:
        return device ? sheaf_plan_skew(in, a[0], a[1], result, plan) : sheaf_kernel_skew(in, a[0], a[1], result);
    case 12:
        return device ? sheaf_plan_dhash(in, result, plan) : sheaf_kernel_dhash(in, result);
    case 13:
        return device ? sheaf_plan_skew_otsu(in, a[1], result, plan) : skew_otsu(in, a[1], result);
    default:
        return device ? sheaf_plan_phash(in, result, plan) : sheaf_kernel_phash(in, result);
    }
}

static int call(struct run *run)
{
    return run->input.call % 16 < 8 ? call_picture(run) : call_value(run);
}

static void check_refused(const struct run *run, int status)
{
    assert(status == 0 || status == -EINVAL || status == -ENOTSUP || status == -ERANGE);
    if (status < 0 && run->out_before)
        assert(memcmp(run->out_before, run->out.data, run->out.size_bytes) == 0);
}

/* With exactly as much scratch memory as it asks for. */
static void call_on_device(struct run *run)
{
    void *scratch = NULL;
    run->on_device = true;
    run->plan = (struct sheaf_kernel_plan){0};
    int status = call(run);
    if (status == -ENOSPC) {
        uint64_t bytes = run->plan.scratch_bytes;
        scratch = malloc(bytes);
        assert(scratch);
        run->plan = (struct sheaf_kernel_plan){.scratch = (uintptr_t)scratch, .scratch_bytes = bytes};
        status = call(run);
    }
    check_refused(run, status);
    for (uint32_t i = 0; i < run->plan.step_count && status == 0; i++) {
        const struct sheaf_kernel_step *step = &run->plan.steps[i];
        sheaf_device_kernels.kernels[step->function].host(step->args, &step->grid);
    }
    free(scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct run run;
    run = (struct run){0};
    memcpy(&run.input, data, size < sizeof run.input ? size : sizeof run.input);
    run.in = image_of(&run.input.in);
    run.out = image_of(&run.input.out);
    if (run.out.data) {
        run.out_before = malloc(run.out.size_bytes + 1);
        assert(run.out_before);
        memcpy(run.out_before, run.out.data, run.out.size_bytes);
    }
    for (uint32_t i = 0; kernel_rows_at(i); i++) {
        kernel_rows_force(kernel_rows_at(i));
        check_refused(&run, call(&run));
        if (run.out.data)
            memcpy(run.out.data, run.out_before, run.out.size_bytes);
    }
    kernel_rows_force(NULL);
    call_on_device(&run);
    free(run.in.data);
    free(run.out.data);
    free(run.out_before);
    return 0;
}
