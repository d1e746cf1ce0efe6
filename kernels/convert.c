/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "kernels/check.h"
#include "kernels/rows.h"

static int16_t fixed(double value, int bits)
{
    return (int16_t)lround(value * (1 << bits));
}

/* BT.601-7 2.5.1 and BT.709-6 3.2: what red and blue weigh in luma; green weighs the rest. Chroma is B - Y and R - Y,
 * each divided so that it reaches from -1/2 to 1/2. */
struct colour colour_coefficients(uint32_t matrix)
{
    double kr = matrix == SHEAF_MATRIX_BT709 ? 0.2126 : 0.299, kb = matrix == SHEAF_MATRIX_BT709 ? 0.0722 : 0.114;
    double kg = 1 - kr - kb, y_range = matrix == SHEAF_MATRIX_JPEG ? 1 : 219.0 / 255;
    double chroma_range = matrix == SHEAF_MATRIX_JPEG ? 1 : 224.0 / 255;
    double to_u = chroma_range / (2 * (1 - kb)), to_v = chroma_range / (2 * (1 - kr));
    return (struct colour){
        .luma = {9798, 19235, 3735}, /* 0.299, 0.587, 0.114; the last rounded down so that white stays white */
        .y_offset = matrix == SHEAF_MATRIX_JPEG ? 0 : 16,
        .y_scale = fixed(1 / y_range, 13),
        .v_to_r = fixed(2 * (1 - kr) / chroma_range, 12),
        .u_to_g = fixed(-2 * kb * (1 - kb) / kg / chroma_range, 12),
        .v_to_g = fixed(-2 * kr * (1 - kr) / kg / chroma_range, 12),
        .u_to_b = fixed(2 * (1 - kb) / chroma_range, 12),
        .to_y = {fixed(kr * y_range, 15), fixed(kg * y_range, 15), fixed(kb * y_range, 15)},
        .to_u = {fixed(-kr * to_u, 15), fixed(-kg * to_u, 15), fixed((1 - kb) * to_u, 15)},
        .to_v = {fixed((1 - kr) * to_v, 15), fixed(-kg * to_v, 15), fixed(-kb * to_v, 15)},
    };
}

static int convert_prepare(const struct sheaf_image *in, const struct sheaf_image *out, struct convert_args *args)
{
    int status = images_check(in, out);
    if (status < 0)
        return status;
    if (in->width != out->width || in->height != out->height ||
        (in->format == out->format && in->matrix != out->matrix))
        return -EINVAL;
    const struct sheaf_image *yuv = out->format == SHEAF_IMAGE_NV12 ? out : in;
    *args = (struct convert_args){picture_view(in), picture_view(out), colour_coefficients(yuv->matrix)};
    return 0;
}

static void plane_copy(const struct copy_args *args)
{
    for (uint32_t y = 0; y < args->rows; y++)
        memcpy(args->out + y * args->out_stride, args->in + y * args->in_stride, args->row_bytes);
}

/* The planes of a copy, 1 or 2 of them. */
static uint32_t copy_planes(const struct convert_args *args, struct copy_args *planes)
{
    const struct picture_view *in = &args->in, *out = &args->out;
    planes[0] = (struct copy_args){
        in->data, out->data, in->stride, out->stride, in->width * format_channels(in->format), in->height};
    planes[1] = (struct copy_args){in->chroma,          out->chroma, in->stride, out->stride, (in->width + 1) / 2 * 2,
                                   (in->height + 1) / 2};
    return in->format == SHEAF_IMAGE_NV12 ? 2 : 1;
}

/* Row y, and behind the second of a pair, while both are in the caches, their chroma. */
static void convert_row(const struct convert_args *args, const struct kernel_rows *rows, uint32_t y)
{
    const struct picture_view *in = &args->in, *out = &args->out;
    const uint8_t *row = in->data + y * in->stride, *upper = in->data + (y & ~1u) * in->stride;
    rows->convert[in->format][out->format](&args->colour, row, in->chroma ? in->chroma + y / 2 * in->stride : NULL,
                                           out->data + y * out->stride, in->width);
    if (out->format == SHEAF_IMAGE_NV12 && (y % 2 == 1 || y + 1 == in->height))
        rows->chroma[in->format](&args->colour, upper, row, out->chroma + y / 2 * out->stride, in->width);
}

int sheaf_kernel_convert(const struct sheaf_image *in, const struct sheaf_image *out)
{
    struct convert_args args;
    struct copy_args planes[2];
    int status = convert_prepare(in, out, &args);
    if (status < 0)
        return status;
    if (in->format == out->format) {
        for (uint32_t i = 0, count = copy_planes(&args, planes); i < count; i++)
            plane_copy(&planes[i]);
        return 0;
    }
    for (uint32_t y = 0; y < in->height; y++)
        convert_row(&args, kernel_rows(), y);
    return 0;
}

int sheaf_plan_convert(const struct sheaf_image *in, const struct sheaf_image *out, struct sheaf_kernel_plan *plan)
{
    struct convert_args args;
    struct copy_args planes[2];
    int status = convert_prepare(in, out, &args);
    if (status < 0)
        return status;
    if (out->format == SHEAF_IMAGE_GRAY && (in->format == SHEAF_IMAGE_RGB || in->format == SHEAF_IMAGE_BGRA)) {
        struct gray_args gray = {args.in, args.out.data, args.out.stride, args.colour};
        return plan_append(plan, FUNCTION_gray, &gray, (in->width + WIDE_BYTES - 1) / WIDE_BYTES, in->height);
    }
    if (in->format != out->format && out->format == SHEAF_IMAGE_NV12)
        return plan_append(plan, FUNCTION_convert, &args, (in->width + 1) / 2, (in->height + 1) / 2);
    if (in->format != out->format)
        return plan_append(plan, FUNCTION_convert, &args, in->width, in->height);
    for (uint32_t i = 0, count = copy_planes(&args, planes); i < count && status == 0; i++)
        status = plan_append(plan, FUNCTION_copy, &planes[i], (planes[i].row_bytes + WIDE_BYTES - 1) / WIDE_BYTES,
                             planes[i].rows);
    return status;
}
