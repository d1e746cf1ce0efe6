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

/* ---- row by row ---- */

/* From where in a row of input samples those of the output come. */
static int across_open(struct scaler *scaler)
{
    const struct plane_scale *scale = &scaler->scale;
    struct across *across = &scaler->across;
    uint32_t channels = scale->channels, samples = scaler->width * channels, group = scaler->rows->across_group;
    uint32_t groups = (samples + group - 1) / group, padded = groups * group + ACROSS_GROUP_MAX;
    across->samples = samples;
    across->channels = channels;
    across->at = malloc((samples + 2 * (size_t)groups) * sizeof *across->at);
    across->pick = calloc(2 * (size_t)padded, sizeof *across->pick);
    if (!across->at || !across->pick)
        return -ENOMEM;
    across->base = across->at + samples;
    across->span = across->base + groups;
    across->weight = (int16_t *)(across->pick + padded);
    for (uint32_t x = 0; x < scaler->width; x++) {
        int16_t weight = 0;
        uint32_t place = scale->filter == SHEAF_FILTER_AREA ? area_first(&scale->area_x, x)
                                                            : bilinear_place(&scale->bilinear_x, x, &weight);
        for (uint32_t c = 0; c < channels; c++) {
            across->at[x * channels + c] = place * channels + c;
            across->weight[x * channels + c] = weight;
        }
    }
    return 0;
}

static void across_group(struct across *across, const struct kernel_rows *rows)
{
    uint32_t group = rows->across_group;
    for (uint32_t j = 0; j < across->samples; j += group) {
        uint32_t end = across->samples - j < group ? across->samples : j + group;
        uint32_t least = across->at[j], most = least;
        for (uint32_t i = j; i < end; i++) {
            least = across->at[i] < least ? across->at[i] : least;
            most = across->at[i] > most ? across->at[i] : most;
        }
        uint32_t span = most - least + 1;
        across->base[j / group] = least;
        across->span[j / group] = span;
        across->span_max = span > across->span_max ? span : across->span_max;
        for (uint32_t i = j; i < end; i++) {
            uint32_t offset = across->at[i] - least;
            across->pick[i] = (uint16_t)(rows->across_picks_bytes ? offset * 0x202 + 0x100 : offset);
        }
    }
}

static bool is_half(const struct area_axis *axis)
{
    return axis->in == 2 && axis->out == 1;
}

/* The middle of an output pixel is that of an input pixel. */
static bool is_odd_factor(const struct area_axis *axis)
{
    return axis->out == 1 && axis->in % 2 == 1;
}

/* From SPARSE on, four loads a pixel cost less than blending whole rows. */
static enum scaler_way way_of(const struct plane_scale *scale, uint32_t width)
{
    enum { SPARSE = 5, SUM_MAX = 65535 / 255 };
    if (is_half(&scale->area_x) && is_half(&scale->area_y))
        return SCALER_HALF;
    if (scale->filter == SHEAF_FILTER_BILINEAR) {
        if (width == scale->in_width)
            return SCALER_COPY;
        if (is_odd_factor(&scale->area_x) && is_odd_factor(&scale->area_y))
            return SCALER_PICK;
        if (scale->channels == 1 && width == 2 * scale->in_width)
            return SCALER_DOUBLE;
        return scale->in_width / SPARSE >= width ? SCALER_SPARSE : SCALER_BLEND;
    }
    if (scale->area_y.in > SUM_MAX || scale->total > 1 << 24)
        return SCALER_AREA_WIDE;
    return scale->area_x.out == 1 && scale->total <= SUM_MAX ? SCALER_AREA_WHOLE : SCALER_AREA;
}

enum { ROW_ALIGNMENT = 64 };

/* Memory for a row, with room before it and behind it. */
static void *row_open(const struct scaler *scaler)
{
    size_t samples = (size_t)scaler->scale.in_width * scaler->scale.channels;
    size_t sample_bytes = scaler->way == SCALER_AREA_WIDE ? sizeof(uint32_t) : sizeof(int16_t);
    size_t bytes = ROW_ALIGNMENT + samples * sample_bytes + ACROSS_PADDING_BYTES;
    void *memory = aligned_alloc(ROW_ALIGNMENT, (bytes + ROW_ALIGNMENT - 1) / ROW_ALIGNMENT * ROW_ALIGNMENT);
    if (memory)
        memset(memory, 0, bytes);
    return memory;
}

static void *row_of(const struct scaler *scaler)
{
    return (char *)scaler->memory + ROW_ALIGNMENT;
}

int scaler_open(struct scaler *scaler, const struct plane_scale *scale, uint32_t width)
{
    *scaler = (struct scaler){.scale = *scale, .rows = kernel_rows(), .width = width, .way = way_of(scale, width)};
    bool has_across = scaler->way == SCALER_BLEND || scaler->way == SCALER_SPARSE || scaler->way == SCALER_AREA_WHOLE;
    if (scaler->way == SCALER_HALF || scaler->way == SCALER_COPY || scaler->way == SCALER_PICK)
        return 0;
    if (scaler->way != SCALER_SPARSE && !(scaler->memory = row_open(scaler)))
        return -ENOMEM;
    if (scale->filter == SHEAF_FILTER_AREA) { /* a pixel at its edge, whole ones, and one at the other */
        scaler->weights = malloc((scale->area_y.in / scale->area_y.out + 3) * sizeof *scaler->weights);
        if (!scaler->weights)
            return -ENOMEM;
    }
    int status = has_across ? across_open(scaler) : 0;
    if (status == 0 && has_across)
        across_group(&scaler->across, scaler->rows);
    return status;
}

void scaler_close(struct scaler *scaler)
{
    free(scaler->across.at);
    free(scaler->across.pick);
    free(scaler->weights);
    free(scaler->memory);
}

/* Two rows blended, and across. What lies beyond the row's ends is its first and last pixel. */
static void blend_row(struct scaler *scaler, const uint8_t *upper, const uint8_t *lower, int16_t weight, uint8_t *out)
{
    const struct kernel_rows *rows = scaler->rows;
    uint32_t channels = scaler->scale.channels, samples = scaler->scale.in_width * channels;
    int16_t *row = row_of(scaler);
    rows->blend_rows(upper, lower, weight, row, samples);
    for (uint32_t c = 0; c < channels; c++) {
        row[(int64_t)c - channels] = row[c];
        row[samples + c] = row[samples - channels + c];
    }
    if (scaler->way == SCALER_DOUBLE)
        rows->double_across(row, out, samples);
    else
        rows->blend_across(row, &scaler->across, out);
}

static void bilinear_row(struct scaler *scaler, uint32_t y, uint8_t *out)
{
    const struct plane_scale *scale = &scaler->scale;
    const struct kernel_rows *rows = scaler->rows;
    uint32_t samples = scale->in_width * scale->channels;
    int16_t weight;
    const uint8_t *upper = scale->in + bilinear_place(&scale->bilinear_y, y, &weight) * scale->in_stride;
    const uint8_t *lower = weight ? upper + scale->in_stride : upper;
    if (scaler->way == SCALER_PICK)
        rows->pick_row[scale->channels](upper, scale->area_x.in, out, scaler->width);
    else if (scaler->way == SCALER_COPY && weight == 0)
        memcpy(out, upper, samples);
    else if (scaler->way == SCALER_COPY)
        rows->blend_rows_round(upper, lower, weight, out, samples);
    else if (scaler->way == SCALER_SPARSE)
        rows->blend_sparse(upper, lower, samples, weight, &scaler->across, out);
    else
        blend_row(scaler, upper, lower, weight, out);
}

/* First down into sums of weighted rows, then across. */
static void area_row(struct scaler *scaler, uint32_t y, uint8_t *out)
{
    const struct plane_scale *scale = &scaler->scale;
    const struct kernel_rows *rows = scaler->rows;
    uint32_t first = area_first(&scale->area_y, y), count = 0, weight, samples = scale->in_width * scale->channels;
    const uint8_t *in = scale->in + first * scale->in_stride;
    while (first + count < scale->in_height && (weight = area_weight(&scale->area_y, y, first + count)) > 0)
        scaler->weights[count++] = weight;
    void *sums = row_of(scaler);
    if (scaler->way == SCALER_AREA_WIDE) {
        rows->area_down_wide(in, scale->in_stride, scaler->weights, count, sums, samples);
        rows->area_across_wide[scale->channels](sums, scale, out, scaler->width);
        return;
    }
    rows->area_down(in, scale->in_stride, scaler->weights, count, sums, samples);
    if (scaler->way == SCALER_AREA_WHOLE)
        rows->area_across_whole(sums, &scaler->across, scale->area_x.in, (uint32_t)scale->total, out);
    else
        rows->area_across[scale->channels](sums, scale, out, scaler->width);
}

void scaler_row(struct scaler *scaler, uint32_t y, uint8_t *out)
{
    const struct plane_scale *scale = &scaler->scale;
    const uint8_t *pair = scale->in + 2 * (uint64_t)y * scale->in_stride; /* of rows; only for halves */
    if (scaler->way == SCALER_HALF)
        scaler->rows->halve_rows(pair, pair + scale->in_stride, scale->channels, out, scaler->width * scale->channels);
    else if (scale->filter == SHEAF_FILTER_AREA)
        area_row(scaler, y, out);
    else
        bilinear_row(scaler, y, out);
}
