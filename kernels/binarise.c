/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/check.h"
#include "kernels/rows.h"

/* ---- histogram ---- */

int sheaf_kernel_histogram(const struct sheaf_image *in, uint32_t counts[256])
{
    int status = plane_check(in);
    if (status < 0)
        return status;
    struct plane_view plane = plane_view(in);
    kernel_rows()->histogram(&plane, counts);
    return 0;
}

/* Blocks of device threads take this many rows each. */
enum { BLOCK_ROWS = 8 };

int plan_histogram(const struct plane_view *in, uint32_t *counts, struct sheaf_kernel_plan *plan)
{
    struct histogram_args args = {*in, counts};
    int status = plan_clear(plan, counts, 256);
    return status < 0
               ? status
               : plan_append_blocks(plan, FUNCTION_histogram, &args, 1, (in->height + BLOCK_ROWS - 1) / BLOCK_ROWS);
}

int sheaf_plan_histogram(const struct sheaf_image *in, uint32_t *counts, struct sheaf_kernel_plan *plan)
{
    int status = plane_check(in);
    if (status < 0)
        return status;
    struct plane_view plane = plane_view(in);
    return counts ? plan_histogram(&plane, counts, plan) : -EINVAL;
}

uint32_t sheaf_otsu_threshold(const uint32_t counts[256])
{
    uint64_t n = 0, sum = 0, n_0 = 0, sum_0 = 0;
    uint128 best = 0;
    uint32_t threshold = 0;
    for (uint32_t i = 0; i < 256; i++) {
        n += counts[i];
        sum += (uint64_t)i * counts[i];
    }
    for (uint32_t i = 0; i < 256; i++) {
        n_0 += counts[i];
        sum_0 += (uint64_t)i * counts[i];
        uint128 criterion = otsu_criterion(n, sum, n_0, sum_0);
        if (criterion > best) {
            best = criterion;
            threshold = i;
        }
    }
    return threshold;
}

struct sheaf_page_ink sheaf_page_ink(const uint32_t counts[256], uint32_t apart)
{
    struct sheaf_page_ink ink = {0};
    for (uint32_t i = 0; i < 256; i++) {
        ink.pixels += counts[i];
        ink.paper = counts[i] > counts[ink.paper] ? i : ink.paper;
    }
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t far = i > ink.paper ? i - ink.paper : ink.paper - i;
        ink.ink += far > apart ? counts[i] : 0;
    }
    return ink;
}

/* ---- thresholds ---- */

static int binarise_check(const struct sheaf_image *in, const struct sheaf_image *out)
{
    int status = images_check(in, out);
    if (status == 0)
        status = plane_check(in);
    if (status == 0 && out->format != SHEAF_IMAGE_GRAY)
        status = -ENOTSUP;
    if (status == 0 && (in->width != out->width || in->height != out->height))
        status = -EINVAL;
    return status;
}

static void plane_threshold(const struct plane_view *in, const struct sheaf_image *out, uint32_t threshold)
{
    for (uint32_t y = 0; y < in->height; y++)
        kernel_rows()->threshold_row(in->data + y * in->stride, threshold, (uint8_t *)out->data + y * out->stride_bytes,
                                     in->width);
}

int sheaf_kernel_threshold(const struct sheaf_image *in, const struct sheaf_image *out, uint32_t threshold)
{
    int status = binarise_check(in, out);
    if (status < 0)
        return status;
    struct plane_view plane = plane_view(in);
    plane_threshold(&plane, out, threshold < 255 ? threshold : 255);
    return 0;
}

int sheaf_kernel_otsu(const struct sheaf_image *in, const struct sheaf_image *out, uint32_t *ret_threshold)
{
    int status = binarise_check(in, out);
    if (status < 0)
        return status;
    struct plane_view plane = plane_view(in);
    uint32_t counts[256];
    kernel_rows()->histogram(&plane, counts);
    uint32_t threshold = sheaf_otsu_threshold(counts);
    plane_threshold(&plane, out, threshold);
    if (ret_threshold)
        *ret_threshold = threshold;
    return 0;
}

/* With a fixed threshold, or one that an earlier step finds. */
static int threshold_plan(const struct sheaf_image *in, const struct sheaf_image *out, const uint32_t *threshold,
                          uint32_t fixed, struct sheaf_kernel_plan *plan)
{
    struct threshold_args args = {plane_view(in), out->data, out->stride_bytes, threshold, fixed, 0};
    return plan_append(plan, FUNCTION_threshold, &args, (in->width + WIDE_BYTES - 1) / WIDE_BYTES, in->height);
}

int sheaf_plan_threshold(const struct sheaf_image *in, const struct sheaf_image *out, uint32_t threshold,
                         struct sheaf_kernel_plan *plan)
{
    int status = binarise_check(in, out);
    return status < 0 ? status : threshold_plan(in, out, NULL, threshold < 255 ? threshold : 255, plan);
}

int sheaf_plan_otsu(const struct sheaf_image *in, const struct sheaf_image *out, uint32_t *threshold,
                    struct sheaf_kernel_plan *plan)
{
    int status = binarise_check(in, out);
    if (status == 0)
        status = plan_scratch(plan, 257 * sizeof(uint32_t));
    if (status < 0)
        return status;
    uint32_t *counts = (uint32_t *)(uintptr_t)plan->scratch;
    struct plane_view plane = plane_view(in);
    struct otsu_args args = {counts, threshold ? threshold : counts + 256};
    status = plan_histogram(&plane, counts, plan);
    if (status == 0)
        status = plan_append_blocks(plan, FUNCTION_otsu, &args, 1, 1);
    return status < 0 ? status : threshold_plan(in, out, args.threshold, 0, plan);
}

/* ---- Sauvola ---- */

static int sauvola_prepare(const struct sheaf_image *in, const struct sheaf_image *out, uint32_t radius, uint32_t k_256,
                           struct sauvola_args *args)
{
    int status = binarise_check(in, out);
    if (status < 0)
        return status;
    if (radius < 1 || radius > SAUVOLA_RADIUS_MAX || k_256 > 256)
        return -EINVAL;
    *args = (struct sauvola_args){plane_view(in), out->data, out->stride_bytes, radius, k_256};
    return 0;
}

/* Sums of columns over the rows of the window move down with it; sums across come from their running sums. */
static int plane_sauvola(const struct sauvola_args *args)
{
    const struct plane_view *in = &args->in;
    const struct kernel_rows *rows = kernel_rows();
    uint32_t radius = args->radius, width = in->width, height = in->height;
    size_t words = (size_t)width + 2 * radius + 2;
    uint32_t *memory = calloc(2 * (size_t)width + 2 * words, sizeof *memory);
    if (!memory)
        return -ENOMEM;
    struct sauvola_sums sums = {memory, memory + width, memory + 2 * (size_t)width, memory + 2 * (size_t)width + words,
                                0};
    for (uint32_t y = 0; y < height + radius; y++) {
        const uint8_t *enters = y < height ? in->data + y * in->stride : NULL;
        const uint8_t *leaves = y >= 2 * radius + 1 ? in->data + (y - 2 * radius - 1) * in->stride : NULL;
        sums.rows += (enters != NULL) - (leaves != NULL);
        if (enters || leaves)
            rows->sauvola_columns(enters, leaves, &sums, width);
        if (y >= radius)
            rows->sauvola_row(args, &sums, in->data + (y - radius) * in->stride,
                              args->out + (y - radius) * args->out_stride);
    }
    free(memory);
    return 0;
}

int sheaf_kernel_sauvola(const struct sheaf_image *in, const struct sheaf_image *out, uint32_t radius, uint32_t k_256)
{
    struct sauvola_args args;
    int status = sauvola_prepare(in, out, radius, k_256, &args);
    return status < 0 ? status : plane_sauvola(&args);
}

int sheaf_plan_sauvola(const struct sheaf_image *in, const struct sheaf_image *out, uint32_t radius, uint32_t k_256,
                       struct sheaf_kernel_plan *plan)
{
    struct sauvola_args args;
    int status = sauvola_prepare(in, out, radius, k_256, &args);
    if (status < 0)
        return status;
    return plan_append_blocks(plan, FUNCTION_sauvola, &args, (in->width + PLAN_BLOCK_THREADS - 1) / PLAN_BLOCK_THREADS,
                              (in->height + SAUVOLA_BLOCK_ROWS - 1) / SAUVOLA_BLOCK_ROWS);
}
