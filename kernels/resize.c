/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "kernels/scale.h"

/* ---- resize and letterbox: planes to places in planes ---- */

/* The launch for a plane, which also says all that the host needs. */
static struct resize_args plane_args(const struct plane_scale *scale, uint8_t *out, uint64_t out_stride, uint32_t width,
                                     uint32_t height)
{
    return (struct resize_args){.scale = *scale,
                                .out = out,
                                .out_stride = out_stride,
                                .out_width = width,
                                .out_height = height,
                                .width = width,
                                .height = height};
}

static int resize_prepare(const struct sheaf_image *in, const struct sheaf_image *out, uint32_t filter,
                          struct resize_args planes[2])
{
    int status = images_check(in, out);
    if (status < 0)
        return status;
    if (filter > SHEAF_FILTER_AREA || in->matrix != out->matrix)
        return -EINVAL;
    if (in->format != out->format)
        return -ENOTSUP;
    struct picture_view from = picture_view(in), to = picture_view(out);
    uint32_t half_width = (to.width + 1) / 2, half_height = (to.height + 1) / 2;
    struct plane_scale scale = picture_scale(&from, filter, to.width, to.height);
    planes[0] = plane_args(&scale, to.data, to.stride, to.width, to.height);
    if (in->format != SHEAF_IMAGE_NV12)
        return 1;
    scale = chroma_scale(&from, filter, half_width, half_height);
    planes[1] = plane_args(&scale, to.chroma, to.stride, half_width, half_height);
    return 2;
}

static int letterbox_prepare(const struct sheaf_image *in, const struct sheaf_image *out, uint32_t filter,
                             const uint8_t fill[4], struct resize_args planes[2])
{
    struct sheaf_rectangle place;
    int status = resize_prepare(in, out, filter, planes);
    if (status < 0)
        return status;
    if (in->format == SHEAF_IMAGE_NV12)
        return -ENOTSUP;
    sheaf_letterbox(in->width, in->height, out->width, out->height, &place);
    struct picture_view from = picture_view(in);
    planes->scale = picture_scale(&from, filter, place.width, place.height);
    planes->x = place.x;
    planes->y = place.y;
    planes->width = place.width;
    planes->height = place.height;
    memcpy(planes->fill, fill, sizeof planes->fill);
    return 1;
}

static void fill_pixels(const struct resize_args *args, uint8_t *row, uint32_t from, uint32_t to)
{
    uint32_t channels = args->scale.channels;
    for (uint32_t x = from; x < to; x++)
        memcpy(row + (size_t)x * channels, args->fill, channels);
}

static int plane_resize(const struct resize_args *args)
{
    struct scaler scaler;
    int status = scaler_open(&scaler, &args->scale, args->width);
    for (uint32_t y = 0; y < args->out_height && status == 0; y++) {
        uint8_t *row = args->out + y * args->out_stride;
        if (y < args->y || y - args->y >= args->height) {
            fill_pixels(args, row, 0, args->out_width);
            continue;
        }
        fill_pixels(args, row, 0, args->x);
        scaler_row(&scaler, y - args->y, row + (size_t)args->x * args->scale.channels);
        fill_pixels(args, row, args->x + args->width, args->out_width);
    }
    scaler_close(&scaler);
    return status;
}

static int planes_resize(const struct resize_args *planes, int count)
{
    int status = count < 0 ? count : 0;
    for (int i = 0; i < count && status == 0; i++)
        status = plane_resize(&planes[i]);
    return status;
}

/* How often the sides of a whole gray plane are halved; 0: it is no such scaling. */
static uint32_t halvings(const struct resize_args *args)
{
    const struct plane_scale *scale = &args->scale;
    bool is_whole = args->width == args->out_width && args->height == args->out_height;
    uint32_t side = scale->area_x.in, shift = 1;
    if (scale->filter != SHEAF_FILTER_AREA || scale->channels != 1 || !is_whole || scale->area_x.out != 1 ||
        scale->area_y.out != 1 || scale->area_y.in != side)
        return 0;
    while (shift <= REDUCE_SHIFT_MAX && 1u << shift != side)
        shift++;
    return shift <= REDUCE_SHIFT_MAX ? shift : 0;
}

static int reduce_plan(const struct resize_args *args, uint32_t shift, struct sheaf_kernel_plan *plan)
{
    const struct plane_scale *scale = &args->scale;
    uint32_t each = WIDE_BYTES >> shift;
    struct reduce_args reduce = {.in = {scale->in, scale->in_stride, scale->in_width, scale->in_height},
                                 .out = args->out,
                                 .out_stride = args->out_stride,
                                 .width = args->out_width,
                                 .height = args->out_height,
                                 .shift = shift,
                                 .total = scale->total,
                                 .inverse = scale->inverse};
    return plan_append(plan, FUNCTION_reduce, &reduce, (args->out_width + each - 1) / each, args->out_height);
}

/* A few output pixels of a large picture get a block each instead of a thread. */
static int plane_plan(const struct resize_args *args, struct sheaf_kernel_plan *plan)
{
    enum { FEW_PIXELS = 4096, MUCH_EACH = 512 };
    const struct plane_scale *scale = &args->scale;
    uint64_t pixels = (uint64_t)args->out_width * args->out_height;
    bool is_few = scale->filter == SHEAF_FILTER_AREA && pixels <= FEW_PIXELS &&
                  (uint64_t)scale->in_width * scale->in_height / pixels >= MUCH_EACH;
    uint32_t shift = halvings(args);
    if (is_few)
        return plan_append_blocks(plan, FUNCTION_resize_few, args, args->out_width, args->out_height);
    if (shift > 0)
        return reduce_plan(args, shift, plan);
    return plan_append(plan, FUNCTION_resize, args, args->out_width, args->out_height);
}

static int planes_plan(const struct resize_args *planes, int count, struct sheaf_kernel_plan *plan)
{
    int status = count < 0 ? count : 0;
    for (int i = 0; i < count && status == 0; i++)
        status = plane_plan(&planes[i], plan);
    return status;
}

int sheaf_kernel_resize(const struct sheaf_image *in, const struct sheaf_image *out, uint32_t filter)
{
    struct resize_args planes[2];
    return planes_resize(planes, resize_prepare(in, out, filter, planes));
}

int sheaf_plan_resize(const struct sheaf_image *in, const struct sheaf_image *out, uint32_t filter,
                      struct sheaf_kernel_plan *plan)
{
    struct resize_args planes[2];
    return planes_plan(planes, resize_prepare(in, out, filter, planes), plan);
}

int sheaf_kernel_letterbox(const struct sheaf_image *in, const struct sheaf_image *out, uint32_t filter,
                           const uint8_t fill[4])
{
    struct resize_args planes[2];
    return planes_resize(planes, letterbox_prepare(in, out, filter, fill, planes));
}

int sheaf_plan_letterbox(const struct sheaf_image *in, const struct sheaf_image *out, uint32_t filter,
                         const uint8_t fill[4], struct sheaf_kernel_plan *plan)
{
    struct resize_args planes[2];
    return planes_plan(planes, letterbox_prepare(in, out, filter, fill, planes), plan);
}

/* Of a side that is to shrink as the other from `in` to `out` does. */
static uint32_t shrunk(uint32_t side, uint32_t in, uint32_t out)
{
    uint64_t to = ((uint64_t)side * out * 2 + in) / (2 * (uint64_t)in);
    return to > 0 ? (uint32_t)to : 1;
}

int sheaf_letterbox(uint32_t in_width, uint32_t in_height, uint32_t width, uint32_t height,
                    struct sheaf_rectangle *ret_place)
{
    if (in_width == 0 || in_height == 0 || width == 0 || height == 0)
        return -EINVAL;
    if (in_width > SHEAF_IMAGE_SIDE_MAX || in_height > SHEAF_IMAGE_SIDE_MAX || width > SHEAF_IMAGE_SIDE_MAX ||
        height > SHEAF_IMAGE_SIDE_MAX)
        return -ERANGE;
    struct sheaf_rectangle place = {0, 0, width, height};
    if ((uint64_t)in_height * width <= (uint64_t)in_width * height)
        place.height = shrunk(in_height, in_width, width);
    else
        place.width = shrunk(in_width, in_height, height);
    place.x = (width - place.width) / 2;
    place.y = (height - place.height) / 2;
    *ret_place = place;
    return 0;
}

/* ---- turning ---- */

/* The output's middle is the input's. The cosine and sine are rounded to 2^-32, so that places up to 2^15 pixels from
 * the middle are off by less than 2^-16. */
static struct turn turn_of(uint32_t in_width, uint32_t in_height, uint32_t width, uint32_t height, int32_t slope)
{
    double tangent = slope / 65536.0, cosine = 1 / sqrt(1 + tangent * tangent);
    int64_t c = llround(cosine * 4294967296.0), s = llround(cosine * tangent * 4294967296.0);
    int64_t left = 1 - (int64_t)width, up = 1 - (int64_t)height; /* twice, from the middle */
    return (struct turn){.x_x = c,
                         .x_y = -s,
                         .y_x = s,
                         .y_y = c,
                         .x_0 = (c * left - s * up + (((int64_t)in_width - 1) << 32)) / 2,
                         .y_0 = (s * left + c * up + (((int64_t)in_height - 1) << 32)) / 2};
}

static int rotate_prepare(const struct sheaf_image *in, const struct sheaf_image *out, int32_t slope, uint8_t fill,
                          struct rotate_args *args)
{
    int status = images_check(in, out);
    if (status < 0)
        return status;
    if (in->format != SHEAF_IMAGE_GRAY || out->format != SHEAF_IMAGE_GRAY)
        return -ENOTSUP;
    if (slope < -65536 || slope > 65536 || in->width != out->width || in->height != out->height)
        return -EINVAL;
    *args = (struct rotate_args){.in = plane_view(in),
                                 .out = out->data,
                                 .out_stride = out->stride_bytes,
                                 .width = out->width,
                                 .height = out->height,
                                 .fill = fill,
                                 .turn = turn_of(in->width, in->height, out->width, out->height, slope)};
    return 0;
}

int sheaf_kernel_rotate(const struct sheaf_image *in, const struct sheaf_image *out, int32_t slope, uint8_t fill)
{
    struct rotate_args args;
    int status = rotate_prepare(in, out, slope, fill, &args);
    for (uint32_t y = 0; status == 0 && y < args.height; y++)
        kernel_rows()->rotate_row(&args, y, args.out + y * args.out_stride);
    return status;
}

int sheaf_plan_rotate(const struct sheaf_image *in, const struct sheaf_image *out, int32_t slope, uint8_t fill,
                      struct sheaf_kernel_plan *plan)
{
    struct rotate_args args;
    int status = rotate_prepare(in, out, slope, fill, &args);
    return status < 0 ? status : plan_append(plan, FUNCTION_rotate, &args, args.width, args.height);
}
