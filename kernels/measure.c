/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "kernels/check.h"
#include "kernels/rows.h"

/* ---- sharpness ---- */

int sheaf_kernel_sharpness(const struct sheaf_image *in, struct sheaf_sharpness *ret_sharpness)
{
    int status = plane_check(in);
    if (status < 0)
        return status;
    struct plane_view plane = plane_view(in);
    struct sheaf_sharpness sharpness = {.pixels = (uint64_t)in->width * in->height};
    for (uint32_t y = 0; y < plane.height; y++) {
        const uint8_t *row = plane.data + y * plane.stride;
        kernel_rows()->sharpness_row(y > 0 ? row - plane.stride : row, row,
                                     y + 1 < plane.height ? row + plane.stride : row, plane.width, &sharpness.sum,
                                     &sharpness.squares);
    }
    *ret_sharpness = sharpness;
    return 0;
}

double sheaf_laplacian_variance(const struct sheaf_sharpness *sharpness)
{
    uint64_t n = sharpness->pixels, sum = (uint64_t)(sharpness->sum < 0 ? -sharpness->sum : sharpness->sum);
    if (n == 0)
        return 0;
    uint128 spread = (uint128)n * sharpness->squares - (uint128)sum * sum;
    return (double)spread / ((double)n * (double)n);
}

int sheaf_plan_sharpness(const struct sheaf_image *in, struct sheaf_sharpness *sharpness,
                         struct sheaf_kernel_plan *plan)
{
    enum { BLOCK_ROWS = 8 };
    int status = plane_check(in);
    if (status < 0)
        return status;
    if (!sharpness)
        return -EINVAL;
    struct sharpness_args args = {plane_view(in), &sharpness->sum, &sharpness->squares};
    status = plan_clear(plan, sharpness, 4);
    return status < 0
               ? status
               : plan_append_blocks(plan, FUNCTION_sharpness, &args, 1, (in->height + BLOCK_ROWS - 1) / BLOCK_ROWS);
}

/* ---- scenes ---- */

uint32_t sheaf_histogram_distance(const uint32_t a[256], const uint32_t b[256])
{
    uint64_t n_a = 0, n_b = 0, sum = 0;
    for (uint32_t i = 0; i < 256; i++) {
        n_a += a[i];
        n_b += b[i];
    }
    for (uint32_t i = 0; i < 256; i++)
        sum += bin_difference(a[i], n_a, b[i], n_b);
    return histogram_distance(sum, n_a, n_b);
}

int sheaf_plan_histogram_distance(const uint32_t *a, const uint32_t *b, uint32_t *distance,
                                  struct sheaf_kernel_plan *plan)
{
    struct distance_args args = {a, b, distance};
    return a && b && distance ? plan_append_blocks(plan, FUNCTION_distance, &args, 1, 1) : -EINVAL;
}

/* ---- structural similarity ---- */

static int ssim_prepare(const struct sheaf_image *a, const struct sheaf_image *b, struct ssim_args *args)
{
    int status = plane_check(a);
    if (status == 0)
        status = plane_check(b);
    if (status < 0)
        return status;
    if (a->width != b->width || a->height != b->height || a->width < 8 || a->height < 8)
        return -EINVAL;
    *args = (struct ssim_args){plane_view(a), plane_view(b), NULL};
    return 0;
}

static uint64_t ssim_windows(const struct ssim_args *args)
{
    return (uint64_t)(args->a.width / 4 - 1) * (args->a.height / 4 - 1);
}

/* A window is four blocks of 4 x 4, which up to four windows share. */
static int64_t windows_sum(const struct ssim_sums *upper, const struct ssim_sums *lower, uint32_t blocks)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i + 1 < blocks; i++) {
        struct ssim_sums window = {upper[i].a + upper[i + 1].a + lower[i].a + lower[i + 1].a,
                                   upper[i].b + upper[i + 1].b + lower[i].b + lower[i + 1].b,
                                   upper[i].squares + upper[i + 1].squares + lower[i].squares + lower[i + 1].squares,
                                   upper[i].product + upper[i + 1].product + lower[i].product + lower[i + 1].product};
        sum += ssim_window(&window);
    }
    return sum;
}

int sheaf_kernel_ssim(const struct sheaf_image *a, const struct sheaf_image *b, struct sheaf_ssim *ret_ssim)
{
    struct ssim_args args;
    int status = ssim_prepare(a, b, &args);
    if (status < 0)
        return status;
    uint32_t blocks = args.a.width / 4;
    struct ssim_sums *memory = malloc(2 * (size_t)blocks * sizeof *memory), *upper = memory, *lower = memory + blocks;
    if (!memory)
        return -ENOMEM;
    struct sheaf_ssim ssim = {0, ssim_windows(&args)};
    for (uint32_t y = 0; y < args.a.height / 4; y++) {
        kernel_rows()->ssim_blocks(args.a.data + 4ull * y * args.a.stride, args.a.stride,
                                   args.b.data + 4ull * y * args.b.stride, args.b.stride, lower, blocks);
        if (y > 0)
            ssim.sum += windows_sum(upper, lower, blocks);
        struct ssim_sums *swap = upper;
        upper = lower;
        lower = swap;
    }
    free(memory);
    *ret_ssim = ssim;
    return 0;
}

double sheaf_ssim_mean(const struct sheaf_ssim *ssim)
{
    return ssim->windows ? (double)ssim->sum / 1073741824.0 / (double)ssim->windows : 0;
}

int sheaf_plan_ssim(const struct sheaf_image *a, const struct sheaf_image *b, struct sheaf_ssim *ssim,
                    struct sheaf_kernel_plan *plan)
{
    struct ssim_args args;
    int status = ssim_prepare(a, b, &args);
    if (status < 0)
        return status;
    if (!ssim)
        return -EINVAL;
    args.sum = &ssim->sum;
    status = plan_clear(plan, ssim, 2);
    return status < 0 ? status : plan_append(plan, FUNCTION_ssim, &args, args.a.width / 4 - 1, args.a.height / 4 - 1);
}
