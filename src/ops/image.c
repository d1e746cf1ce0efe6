/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/image.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int image_refuse(struct document_failure *failure, enum sheaf_class class_id, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    failure->class_id = class_id;
    vsnprintf(failure->message, sizeof failure->message, format, values);
    va_end(values);
    return -EBADMSG;
}

int exif_orientation(const uint8_t *data, size_t size_bytes)
{
    if (size_bytes < 14 || data[0] != data[1] || (data[0] != 'I' && data[0] != 'M'))
        return 1;
    int little = data[0] == 'I';
#define READ16(at) ((uint32_t)(little ? data[at] | data[(at) + 1] << 8 : data[at] << 8 | data[(at) + 1]))
    size_t at = little ? READ16(4) | READ16(6) << 16 : READ16(4) << 16 | READ16(6);
    if (at + 2 > size_bytes)
        return 1;
    uint32_t count = READ16(at);
    for (uint32_t i = 0; i < count && at + 2 + 12 * (i + 1) <= size_bytes; i++) {
        size_t entry = at + 2 + 12 * (size_t)i;
        if (READ16(entry) != 0x0112)
            continue;
        uint32_t value = READ16(entry + 8);
        return value >= 1 && value <= 8 ? (int)value : 1;
    }
#undef READ16
    return 1;
}

static int facts_of_format(const struct image_source *source, struct image_facts *facts,
                           struct document_failure *failure)
{
    switch (source->format) {
    case DOCUMENT_JPEG:
        return jpeg_facts(source, facts, failure);
    case DOCUMENT_PNG:
        return png_facts(source, facts, failure);
    case DOCUMENT_TIFF:
        return tiff_facts(source, facts, failure);
    case DOCUMENT_WEBP:
        return webp_facts(source, facts, failure);
    default:
        return image_refuse(failure, SHEAF_CLASS_UNSUPPORTED, "not an image");
    }
}

/* A resolution that a scanner, camera or fax could mean; else unknown. */
static double dpi_sane(double dpi)
{
    return dpi >= 20 && dpi <= 4800 ? dpi : 0;
}

int image_facts_read(const struct image_source *source, struct image_facts *ret_facts, struct document_failure *failure)
{
    struct image_facts facts = {.orientation = 1};
    int status = facts_of_format(source, &facts, failure);
    if (status < 0)
        return status;
    if (facts.width == 0 || facts.height == 0)
        return image_refuse(failure, SHEAF_CLASS_MALFORMED, "the image is %u by %u pixels", facts.width, facts.height);
    if ((uint64_t)facts.width * facts.height > IMAGE_PIXELS_MAX)
        return image_refuse(failure, SHEAF_CLASS_TOO_LARGE, "the image is %u by %u pixels; at most %llu are decoded",
                            facts.width, facts.height, (unsigned long long)IMAGE_PIXELS_MAX);
    facts.dpi_x = dpi_sane(facts.dpi_x);
    facts.dpi_y = dpi_sane(facts.dpi_y);
    if (facts.dpi_x == 0 || facts.dpi_y == 0)
        facts.dpi_x = facts.dpi_y = facts.dpi_x + facts.dpi_y;
    *ret_facts = facts;
    return 0;
}

static uint32_t divide_up(uint32_t value, uint32_t by)
{
    return value / by + (value % by != 0);
}

void image_plan_make(const struct image_facts *facts, uint64_t max_pixels, struct image_plan *ret_plan)
{
    struct image_plan plan = {.factor = 1, .repeat_x = 1, .repeat_y = 1, .orientation = facts->orientation};
    plan.dpi = facts->dpi_x > 0 ? facts->dpi_x : IMAGE_DPI_UNKNOWN;
    if (facts->dpi_y > 0 && facts->dpi_x / facts->dpi_y >= 1.5 && facts->dpi_x / facts->dpi_y < 4.5)
        plan.repeat_y = (uint32_t)lround(facts->dpi_x / facts->dpi_y);
    if (facts->dpi_x > 0 && facts->dpi_y / facts->dpi_x >= 1.5 && facts->dpi_y / facts->dpi_x < 4.5) {
        plan.repeat_x = (uint32_t)lround(facts->dpi_y / facts->dpi_x);
        plan.dpi = facts->dpi_y;
    }
    for (;; plan.factor++) {
        plan.width = divide_up(facts->width, plan.factor) * plan.repeat_x;
        plan.height = divide_up(facts->height, plan.factor) * plan.repeat_y;
        if (max_pixels == 0 || (uint64_t)plan.width * plan.height <= max_pixels ||
            (plan.factor >= facts->width && plan.factor >= facts->height))
            break;
    }
    plan.dpi /= plan.factor;
    if (facts->orientation > 4) {
        uint32_t swap = plan.width;
        plan.width = plan.height;
        plan.height = swap;
    }
    *ret_plan = plan;
}

/* Where the stored pixel (x, y) goes in the upright image: base + x * step_x + y * step_y. */
static void turn(struct image_sink *sink, int orientation)
{
    int64_t w = sink->out_width, h = sink->out_height, stride = orientation > 4 ? h : w;
    int64_t flip_x = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    int64_t flip_y = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    sink->step_x = orientation > 4 ? stride : 1;
    sink->step_y = orientation > 4 ? 1 : stride;
    sink->base = flip_x * (w - 1) * sink->step_x + flip_y * (h - 1) * sink->step_y;
    sink->step_x = flip_x ? -sink->step_x : sink->step_x;
    sink->step_y = flip_y ? -sink->step_y : sink->step_y;
}

int image_sink_init(struct image_sink *sink, const struct image_facts *facts, const struct image_plan *plan,
                    uint32_t channels, uint8_t *out)
{
    *sink = (struct image_sink){.width = facts->width,
                                .height = facts->height,
                                .channels = channels,
                                .factor = plan->factor,
                                .repeat_x = plan->repeat_x,
                                .repeat_y = plan->repeat_y,
                                .out = out};
    sink->out_width = divide_up(facts->width, plan->factor) * plan->repeat_x;
    sink->out_height = divide_up(facts->height, plan->factor) * plan->repeat_y;
    turn(sink, plan->orientation);
    sink->row = malloc((size_t)facts->width * channels);
    if (plan->factor > 1)
        sink->sums = calloc((size_t)divide_up(facts->width, plan->factor) * channels, sizeof *sink->sums);
    if (sink->row && (plan->factor == 1 || sink->sums))
        return 0;
    image_sink_fini(sink);
    return -ENOMEM;
}

void image_sink_fini(struct image_sink *sink)
{
    free(sink->row);
    free(sink->sums);
    sink->row = NULL;
    sink->sums = NULL;
}

/* ITU-R BT.601 luma in 16-bit fixed point; white stays 255. */
static inline uint8_t luma(const uint8_t *rgb)
{
    return (uint8_t)((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 32768u) >> 16);
}

static const uint8_t *row_convert(struct image_sink *sink, const uint8_t *pixels, uint32_t pixel_channels)
{
    if (pixel_channels == sink->channels)
        return pixels;
    if (sink->channels == 1) {
        for (uint32_t x = 0; x < sink->width; x++)
            sink->row[x] = luma(pixels + 3 * (size_t)x);
    } else {
        for (uint32_t x = 0; x < sink->width; x++)
            memset(sink->row + 3 * (size_t)x, pixels[x], 3);
    }
    return sink->row;
}

/* Writes one row of averaged pixels, repeated as planned, to where it belongs. */
static void row_write(struct image_sink *sink, const uint8_t *row)
{
    size_t channels = sink->channels;
    for (uint32_t repeat = 0; repeat < sink->repeat_y; repeat++, sink->rows_out++) {
        assert(sink->rows_out < sink->out_height);
        int64_t at = sink->base + (int64_t)sink->rows_out * sink->step_y;
        if (sink->step_x == 1 && sink->repeat_x == 1) {
            memcpy(sink->out + (size_t)at * channels, row, sink->out_width * channels);
            continue;
        }
        for (uint32_t x = 0; x < sink->out_width; x++, at += sink->step_x)
            memcpy(sink->out + (size_t)at * channels, row + x / sink->repeat_x * channels, channels);
    }
}

static void sums_write(struct image_sink *sink)
{
    uint32_t channels = sink->channels, columns = divide_up(sink->width, sink->factor);
    for (uint32_t x = 0; x < columns; x++) {
        uint32_t across = sink->width - x * sink->factor < sink->factor ? sink->width - x * sink->factor : sink->factor;
        uint32_t count = across * sink->rows_pending;
        for (uint32_t c = 0; c < channels; c++)
            sink->row[x * channels + c] = (uint8_t)((sink->sums[x * channels + c] + count / 2) / count);
    }
    memset(sink->sums, 0, (size_t)columns * channels * sizeof *sink->sums);
    sink->rows_pending = 0;
    row_write(sink, sink->row);
}

void image_sink_row(struct image_sink *sink, const uint8_t *pixels, uint32_t pixel_channels)
{
    if (sink->rows_in == sink->height)
        return;
    const uint8_t *row = row_convert(sink, pixels, pixel_channels);
    sink->rows_in++;
    if (sink->factor == 1) {
        row_write(sink, row);
        return;
    }
    for (uint32_t x = 0, column = 0, in = 0; x < sink->width; x++, in++) {
        if (in == sink->factor) {
            in = 0;
            column++;
        }
        for (uint32_t c = 0; c < sink->channels; c++)
            sink->sums[column * sink->channels + c] += row[(size_t)x * sink->channels + c];
    }
    if (++sink->rows_pending == sink->factor || sink->rows_in == sink->height)
        sums_write(sink);
}

void image_sink_finish(struct image_sink *sink)
{
    uint8_t *white = malloc((size_t)sink->width * sink->channels);
    if (!white)
        return;
    memset(white, 255, (size_t)sink->width * sink->channels);
    while (sink->rows_in < sink->height)
        image_sink_row(sink, white, sink->channels);
    free(white);
}

int image_decode(const struct image_source *source, const struct image_facts *facts, const struct image_plan *plan,
                 uint32_t channels, uint8_t *out, struct document_failure *failure)
{
    struct image_sink sink;
    assert(channels == 1 || channels == 3);
    if (image_sink_init(&sink, facts, plan, channels, out) < 0)
        return image_refuse(failure, SHEAF_CLASS_RESOURCE_EXHAUSTED, "no memory to decode the image");
    int status = -EINVAL;
    if (source->format == DOCUMENT_JPEG)
        status = jpeg_rows(source, &sink, failure);
    else if (source->format == DOCUMENT_PNG)
        status = png_rows(source, &sink, failure);
    else if (source->format == DOCUMENT_TIFF)
        status = tiff_rows(source, &sink, failure);
    else if (source->format == DOCUMENT_WEBP)
        status = webp_rows(source, &sink, failure);
    if (status == 0)
        image_sink_finish(&sink);
    image_sink_fini(&sink);
    return status;
}

int image_pages(const struct image_source *source, int (*each)(void *cookie, uint32_t page), void *cookie,
                struct document_failure *failure)
{
    if (source->format == DOCUMENT_TIFF)
        return tiff_pages(source, each, cookie, failure);
    int status = each(cookie, 0);
    return status ? status : 1;
}
