/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/check.h"
#include "kernels/rows.h"

/* A plane of samples to be scaled: all of a picture, or luma or chroma of NV12. */
struct plane_pair {
    const uint8_t *in;
    uint8_t *out;
    uint64_t in_stride, out_stride;
    uint32_t in_width, in_height, width, height, channels;
};

static uint32_t planes_of(const struct sheaf_image *in, const struct sheaf_image *out, struct plane_pair *planes)
{
    struct picture_view from = picture_view(in), to = picture_view(out);
    planes[0] = (struct plane_pair){from.data, to.data,    from.stride,
                                    to.stride, from.width, from.height,
                                    to.width,  to.height,  format_channels(in->format)};
    if (in->format != SHEAF_IMAGE_NV12)
        return 1;
    planes[1] = (struct plane_pair){
        from.chroma,           to.chroma,          from.stride,         to.stride, (from.width + 1) / 2,
        (from.height + 1) / 2, (to.width + 1) / 2, (to.height + 1) / 2, 2};
    return 2;
}

/* ---- bilinear ---- */

/* The step is rounded to 2^-33 pixels, so that the last place is off by less than 2^-17 of a pixel. */
static struct bilinear_axis bilinear_axis(uint32_t in, uint32_t out)
{
    int64_t step = (int64_t)((((uint64_t)in << 32) + out / 2) / out);
    return (struct bilinear_axis){step, (step - ((int64_t)1 << 32)) / 2, (int64_t)(in - 1) << 32};
}

static struct bilinear_args bilinear_args(const struct plane_pair *plane)
{
    return (struct bilinear_args){.in = plane->in,
                                  .out = plane->out,
                                  .in_stride = plane->in_stride,
                                  .out_stride = plane->out_stride,
                                  .width = plane->width,
                                  .height = plane->height,
                                  .channels = plane->channels,
                                  .x = bilinear_axis(plane->in_width, plane->width),
                                  .y = bilinear_axis(plane->in_height, plane->height)};
}

/* First down into a row as wide as the input, then across. */
static int plane_bilinear(const struct plane_pair *plane)
{
    const struct kernel_rows *rows = kernel_rows();
    struct bilinear_args args = bilinear_args(plane);
    uint32_t channels = args.channels, samples = plane->in_width * channels;
    uint32_t *at = malloc(args.width * sizeof *at);
    int16_t *weight = malloc(args.width * sizeof *weight), weight_y;
    int16_t *row = malloc((samples + channels) * sizeof *row + 64);
    int status = at && weight && row ? 0 : -ENOMEM;
    for (uint32_t x = 0; x < args.width && status == 0; x++)
        at[x] = bilinear_place(&args.x, x, &weight[x]) * channels * (uint32_t)sizeof *row;
    for (uint32_t y = 0; y < args.height && status == 0; y++) {
        const uint8_t *upper = args.in + bilinear_place(&args.y, y, &weight_y) * args.in_stride;
        rows->blend_rows(upper, weight_y ? upper + args.in_stride : upper, weight_y, row, samples);
        memcpy(row + samples, row + samples - channels, channels * sizeof *row);
        rows->blend_across[channels](row, at, weight, args.out + y * args.out_stride, args.width);
    }
    free(at);
    free(weight);
    free(row);
    return status;
}

/* ---- area ---- */

static uint32_t common_factor(uint32_t a, uint32_t b)
{
    while (b != 0) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static struct area_args area_args(const struct plane_pair *plane)
{
    uint32_t factor_x = common_factor(plane->in_width, plane->width);
    uint32_t factor_y = common_factor(plane->in_height, plane->height);
    struct area_args args = {.in = plane->in,
                             .out = plane->out,
                             .in_stride = plane->in_stride,
                             .out_stride = plane->out_stride,
                             .in_width = plane->in_width,
                             .in_height = plane->in_height,
                             .width = plane->width,
                             .height = plane->height,
                             .channels = plane->channels,
                             .x = {plane->in_width / factor_x, plane->width / factor_x},
                             .y = {plane->in_height / factor_y, plane->height / factor_y}};
    args.total = (uint64_t)args.x.in * args.y.in;
    args.inverse = args.total > 1 ? UINT64_MAX / args.total + 1 : 0;
    return args;
}

/* First down into sums of weighted rows, at most 255 * 65535 each, then across. */
static int plane_area(const struct plane_pair *plane)
{
    const struct kernel_rows *rows = kernel_rows();
    struct area_args args = area_args(plane);
    uint32_t samples = args.in_width * args.channels;
    uint32_t *sums = malloc(samples * sizeof *sums);
    if (!sums)
        return -ENOMEM;
    for (uint32_t y = 0; y < args.height; y++) {
        uint32_t first = area_first(&args.y, y), weight;
        for (uint32_t at = first; at < args.in_height && (weight = area_weight(&args.y, y, at)) > 0; at++)
            rows->area_add(args.in + at * args.in_stride, weight, at == first, sums, samples);
        rows->area_across[args.channels](sums, &args, args.out + y * args.out_stride);
    }
    free(sums);
    return 0;
}

/* ---- the call ---- */

static int resize_check(const struct sheaf_image *in, const struct sheaf_image *out, uint32_t filter)
{
    int status = images_check(in, out);
    if (status < 0)
        return status;
    if (filter > SHEAF_FILTER_AREA || in->matrix != out->matrix)
        return -EINVAL;
    return in->format == out->format ? 0 : -ENOTSUP;
}

int sheaf_kernel_resize(const struct sheaf_image *in, const struct sheaf_image *out, uint32_t filter)
{
    struct plane_pair planes[2];
    int status = resize_check(in, out, filter);
    if (status < 0)
        return status;
    for (uint32_t i = 0, count = planes_of(in, out, planes); i < count && status == 0; i++)
        status = filter == SHEAF_FILTER_AREA ? plane_area(&planes[i]) : plane_bilinear(&planes[i]);
    return status;
}

int sheaf_plan_resize(const struct sheaf_image *in, const struct sheaf_image *out, uint32_t filter,
                      struct sheaf_kernel_plan *plan)
{
    struct plane_pair planes[2];
    int status = resize_check(in, out, filter);
    if (status < 0)
        return status;
    for (uint32_t i = 0, count = planes_of(in, out, planes); i < count && status == 0; i++) {
        struct bilinear_args bilinear = bilinear_args(&planes[i]);
        struct area_args area = area_args(&planes[i]);
        bool is_area = filter == SHEAF_FILTER_AREA;
        status =
            plan_append(plan, is_area ? FUNCTION_area : FUNCTION_bilinear,
                        is_area ? (const void *)&area : (const void *)&bilinear, planes[i].width, planes[i].height);
    }
    return status;
}
