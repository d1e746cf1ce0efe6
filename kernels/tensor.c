/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/scale.h"

static uint32_t float_bytes(uint32_t dtype)
{
    return dtype == SHEAF_FLOAT32 ? 4 : dtype == SHEAF_BFLOAT16 ? 2 : 0;
}

uint64_t sheaf_tensor_bytes(uint32_t width, uint32_t height, uint32_t format, uint32_t dtype)
{
    uint64_t planes = format == SHEAF_IMAGE_GRAY ? 1 : 3;
    return format_channels(format) ? planes * width * height * float_bytes(dtype) : 0;
}

static int normalise_check(const struct sheaf_normalise *normalise)
{
    for (int i = 0; i < 3; i++)
        if (!isfinite(normalise->by[i]) || !isfinite(normalise->bias[i]))
            return -EINVAL;
    if (float_bytes(normalise->dtype) == 0 || normalise->filter > SHEAF_FILTER_AREA || normalise->letterbox > 1)
        return -EINVAL;
    return 0;
}

static int tensor_prepare(const struct sheaf_image *in, uint32_t width, uint32_t height,
                          const struct sheaf_normalise *normalise, void *out, uint64_t out_bytes,
                          struct tensor_args *args)
{
    struct sheaf_rectangle place = {0, 0, width, height}, inside;
    int status = sheaf_image_check(in);
    if (status == 0)
        status = normalise_check(normalise);
    if (status == 0)
        status = sheaf_letterbox(in->width, in->height, width, height, &inside);
    if (status < 0)
        return status;
    uint64_t bytes = sheaf_tensor_bytes(width, height, in->format, normalise->dtype);
    struct sheaf_image memory = {.data = out, .size_bytes = bytes};
    if (!out || out_bytes < bytes || (uintptr_t)out % float_bytes(normalise->dtype) != 0 ||
        bytes > UINTPTR_MAX - (uintptr_t)out || images_overlap(in, &memory))
        return -EINVAL;
    if (normalise->letterbox)
        place = inside;
    struct picture_view view = picture_view(in);
    *args = (struct tensor_args){.scale = picture_scale(&view, normalise->filter, place.width, place.height),
                                 .out = out,
                                 .out_width = width,
                                 .out_height = height,
                                 .x = place.x,
                                 .y = place.y,
                                 .width = place.width,
                                 .height = place.height,
                                 .format = in->format,
                                 .dtype = normalise->dtype,
                                 .colour = colour_coefficients(in->matrix)};
    if (in->format == SHEAF_IMAGE_NV12)
        args->chroma = chroma_scale(&view, normalise->filter, place.width, place.height);
    memcpy(args->by, normalise->by, sizeof args->by);
    memcpy(args->bias, normalise->bias, sizeof args->bias);
    memcpy(args->fill, normalise->fill, sizeof args->fill);
    return 0;
}

/* Samples of one row, or of the fill, and where floats go. */
struct tensor_job {
    const struct tensor_args *args;
    const struct kernel_rows *rows;
    struct scaler scaler, chroma;
    uint8_t *row, *chroma_row;
};

/* What is around the place, in row y from x on. */
static void fill_floats(const struct tensor_args *args, uint32_t y, uint32_t from, uint32_t to)
{
    uint64_t plane = (uint64_t)args->out_width * args->out_height, at = (uint64_t)y * args->out_width;
    for (uint32_t c = 0; c < (args->format == SHEAF_IMAGE_GRAY ? 1 : 3); c++) {
        float value = normalise(args->fill[c], args->by[c], args->bias[c]);
        for (uint64_t i = c * plane + at + from; i < c * plane + at + to; i++)
            if (args->dtype == SHEAF_FLOAT32)
                ((float *)args->out)[i] = value;
            else
                ((uint16_t *)args->out)[i] = bf16_of_bits(bits_of_float(value));
    }
}

static void tensor_row(struct tensor_job *job, uint32_t y)
{
    const struct tensor_args *args = job->args;
    uint64_t at = ((uint64_t)y + args->y) * args->out_width + args->x;
    fill_floats(args, y + args->y, 0, args->x);
    fill_floats(args, y + args->y, args->x + args->width, args->out_width);
    scaler_row(&job->scaler, y, job->row);
    if (args->format == SHEAF_IMAGE_NV12)
        scaler_row(&job->chroma, y, job->chroma_row);
    job->rows->tensor_row(args, job->row, job->chroma_row, (char *)args->out + at * float_bytes(args->dtype));
}

static int tensor_run(const struct tensor_args *args)
{
    struct tensor_job job = {.args = args, .rows = kernel_rows()};
    int status = scaler_open(&job.scaler, &args->scale, args->width);
    job.row = malloc((size_t)args->width * args->scale.channels);
    if (status == 0 && args->format == SHEAF_IMAGE_NV12) {
        status = scaler_open(&job.chroma, &args->chroma, args->width);
        job.chroma_row = malloc((size_t)args->width * 2);
    }
    if (!job.row || (args->format == SHEAF_IMAGE_NV12 && !job.chroma_row))
        status = -ENOMEM;
    for (uint32_t y = 0; y < args->out_height && status == 0; y++) {
        if (y < args->y || y - args->y >= args->height)
            fill_floats(args, y, 0, args->out_width);
        else
            tensor_row(&job, y - args->y);
    }
    scaler_close(&job.scaler);
    scaler_close(&job.chroma);
    free(job.row);
    free(job.chroma_row);
    return status;
}

int sheaf_kernel_tensor(const struct sheaf_image *in, uint32_t width, uint32_t height,
                        const struct sheaf_normalise *normalise, void *out, uint64_t out_bytes)
{
    struct tensor_args args;
    int status = tensor_prepare(in, width, height, normalise, out, out_bytes, &args);
    return status < 0 ? status : tensor_run(&args);
}

int sheaf_plan_tensor(const struct sheaf_image *in, uint32_t width, uint32_t height,
                      const struct sheaf_normalise *normalise, void *out, uint64_t out_bytes,
                      struct sheaf_kernel_plan *plan)
{
    struct tensor_args args;
    int status = tensor_prepare(in, width, height, normalise, out, out_bytes, &args);
    return status < 0 ? status : plan_append(plan, FUNCTION_tensor, &args, width, height);
}
