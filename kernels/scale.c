/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/scale.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The step is rounded to 2^-33 pixels, so that the last place is off by less than 2^-17 of a pixel. */
static struct bilinear_axis bilinear_axis(uint32_t in, uint32_t out)
{
    int64_t step = (int64_t)((((uint64_t)in << 32) + out / 2) / out);
    return (struct bilinear_axis){step, (step - ((int64_t)1 << 32)) / 2, (int64_t)(in - 1) << 32};
}

static struct area_axis area_axis(uint32_t in, uint32_t out)
{
    uint32_t factor = in, rest = out;
    while (rest != 0) {
        uint32_t next = factor % rest;
        factor = rest;
        rest = next;
    }
    return (struct area_axis){in / factor, out / factor};
}

struct plane_scale plane_scale_make(const uint8_t *in, uint64_t in_stride, uint32_t in_width, uint32_t in_height,
                                    uint32_t channels, uint32_t filter, uint32_t width, uint32_t height)
{
    struct plane_scale scale = {.in = in,
                                .in_stride = in_stride,
                                .in_width = in_width,
                                .in_height = in_height,
                                .channels = channels,
                                .filter = filter,
                                .bilinear_x = bilinear_axis(in_width, width),
                                .bilinear_y = bilinear_axis(in_height, height),
                                .area_x = area_axis(in_width, width),
                                .area_y = area_axis(in_height, height)};
    scale.total = (uint64_t)scale.area_x.in * scale.area_y.in;
    scale.inverse = scale.total > 1 ? UINT64_MAX / scale.total + 1 : 0;
    return scale;
}

struct plane_scale picture_scale(const struct picture_view *in, uint32_t filter, uint32_t width, uint32_t height)
{
    return plane_scale_make(in->data, in->stride, in->width, in->height, format_channels(in->format), filter, width,
                            height);
}

struct plane_scale chroma_scale(const struct picture_view *in, uint32_t filter, uint32_t width, uint32_t height)
{
    return plane_scale_make(in->chroma, in->stride, (in->width + 1) / 2, (in->height + 1) / 2, 2, filter, width,
                            height);
}

int scaler_open(struct scaler *scaler, const struct plane_scale *scale, uint32_t width)
{
    enum { SPARSE = 6 }; /* from here on four loads a pixel cost less than blending whole rows */
    uint32_t channels = scale->channels, samples = scale->in_width * channels;
    *scaler = (struct scaler){.scale = *scale, .rows = kernel_rows(), .width = width};
    if (scale->filter == SHEAF_FILTER_AREA) {
        scaler->sums = malloc((size_t)samples * sizeof *scaler->sums + 64);
        return scaler->sums ? 0 : -ENOMEM;
    }
    scaler->is_sparse = scale->in_width / SPARSE >= width;
    if (scaler->is_sparse)
        return 0;
    scaler->at = malloc(width * sizeof *scaler->at);
    scaler->weight = malloc(width * sizeof *scaler->weight);
    scaler->row = malloc((size_t)(samples + channels) * sizeof *scaler->row + 64);
    if (!scaler->at || !scaler->weight || !scaler->row)
        return -ENOMEM;
    for (uint32_t x = 0; x < width; x++)
        scaler->at[x] =
            bilinear_place(&scale->bilinear_x, x, &scaler->weight[x]) * channels * (uint32_t)sizeof *scaler->row;
    return 0;
}

void scaler_close(struct scaler *scaler)
{
    free(scaler->at);
    free(scaler->weight);
    free(scaler->row);
    free(scaler->sums);
}

/* First down into a row as wide as the input, then across. */
static void bilinear_row(struct scaler *scaler, uint32_t y, uint8_t *out)
{
    const struct plane_scale *scale = &scaler->scale;
    uint32_t channels = scale->channels, samples = scale->in_width * channels;
    int16_t weight, *row = scaler->row;
    const uint8_t *upper = scale->in + bilinear_place(&scale->bilinear_y, y, &weight) * scale->in_stride;
    scaler->rows->blend_rows(upper, weight ? upper + scale->in_stride : upper, weight, row, samples);
    memcpy(row + samples, row + samples - channels, channels * sizeof *row); /* behind the last pixel, of weight 0 */
    scaler->rows->blend_across[channels](row, scaler->at, scaler->weight, out, scaler->width);
}

/* First down into sums of weighted rows, at most 255 * 65535 each, then across. */
static void area_row(struct scaler *scaler, uint32_t y, uint8_t *out)
{
    const struct plane_scale *scale = &scaler->scale;
    uint32_t first = area_first(&scale->area_y, y), weight;
    for (uint32_t at = first; at < scale->in_height && (weight = area_weight(&scale->area_y, y, at)) > 0; at++)
        scaler->rows->area_add(scale->in + at * scale->in_stride, weight, at == first, scaler->sums,
                               scale->in_width * scale->channels);
    scaler->rows->area_across[scale->channels](scaler->sums, scale, out, scaler->width);
}

void scaler_row(struct scaler *scaler, uint32_t y, uint8_t *out)
{
    if (scaler->scale.filter == SHEAF_FILTER_AREA)
        area_row(scaler, y, out);
    else if (scaler->is_sparse)
        for (uint32_t x = 0; x < scaler->width; x++)
            bilinear_pixel(&scaler->scale, x, y, out + (size_t)x * scaler->scale.channels);
    else
        bilinear_row(scaler, y, out);
}
