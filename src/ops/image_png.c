/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

struct reader {
    const struct image_source *source;
    size_t at;
    png_structp png;
    png_infop info;
    char message[160];
    uint8_t *pixels, *row;
};

static void on_error(png_structp png, png_const_charp text)
{
    struct reader *reader = png_get_error_ptr(png);
    snprintf(reader->message, sizeof reader->message, "%s", text);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    /* Warnings are about damage that the decoder gets over. */
}

static void on_read(png_structp png, png_bytep out, png_size_t bytes)
{
    struct reader *reader = png_get_io_ptr(png);
    if (bytes > reader->source->size_bytes - reader->at)
        png_error(png, "the file ends too early");
    memcpy(out, reader->source->data + reader->at, bytes);
    reader->at += bytes;
}

static int reader_create(struct reader *reader, struct document_failure *failure)
{
    reader->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, reader, on_error, on_warning);
    reader->info = reader->png ? png_create_info_struct(reader->png) : NULL;
    if (reader->info)
        return 0;
    png_destroy_read_struct(&reader->png, NULL, NULL);
    return image_refuse(failure, SHEAF_CLASS_RESOURCE_EXHAUSTED, "no memory to decode the PNG");
}

static int reader_end(struct reader *reader, int failed, struct document_failure *failure)
{
    png_destroy_read_struct(&reader->png, &reader->info, NULL);
    free(reader->pixels);
    free(reader->row);
    if (!failed)
        return 0;
    return image_refuse(failure, SHEAF_CLASS_MALFORMED, "the PNG cannot be decoded: %s", reader->message);
}

static void header_read(struct reader *reader)
{
    png_set_read_fn(reader->png, reader, on_read);
    png_set_user_limits(reader->png, 0x7fffffff, 0x7fffffff);
    png_read_info(reader->png, reader->info);
}

int png_facts(const struct image_source *source, struct image_facts *facts, struct document_failure *failure)
{
    struct reader reader = {.source = source};
    int status = reader_create(&reader, failure);
    if (status < 0)
        return status;
    if (setjmp(png_jmpbuf(reader.png)))
        return reader_end(&reader, 1, failure);
    header_read(&reader);
    facts->width = png_get_image_width(reader.png, reader.info);
    facts->height = png_get_image_height(reader.png, reader.info);
    facts->is_gray = !(png_get_color_type(reader.png, reader.info) & PNG_COLOR_MASK_COLOR);
    png_uint_32 per_x, per_y;
    int unit;
    if (png_get_pHYs(reader.png, reader.info, &per_x, &per_y, &unit) && unit == PNG_RESOLUTION_METER) {
        facts->dpi_x = per_x * 0.0254;
        facts->dpi_y = per_y * 0.0254;
    }
#ifdef PNG_eXIf_SUPPORTED
    png_bytep exif;
    png_uint_32 exif_bytes;
    if (png_get_eXIf_1(reader.png, reader.info, &exif_bytes, &exif))
        facts->orientation = exif_orientation(exif, exif_bytes);
#endif
    return reader_end(&reader, 0, failure);
}

/* Removes alpha by showing the pixels over white; in place, `channels` 2 or 4 become 1 or 3. */
static void over_white(uint8_t *row, uint32_t width, uint32_t channels)
{
    uint32_t colours = channels - 1;
    for (uint32_t x = 0; x < width; x++) {
        const uint8_t *in = row + (size_t)x * channels;
        uint32_t alpha = in[colours];
        for (uint32_t c = 0; c < colours; c++)
            row[(size_t)x * colours + c] = (uint8_t)((in[c] * alpha + 255 * (255 - alpha) + 127) / 255);
    }
}

static void row_deliver(struct image_sink *sink, uint8_t *row, uint32_t channels)
{
    if (channels == 2 || channels == 4)
        over_white(row, sink->width, channels--);
    image_sink_row(sink, row, channels);
}

int png_rows(const struct image_source *source, struct image_sink *sink, struct document_failure *failure)
{
    struct reader reader = {.source = source};
    int status = reader_create(&reader, failure);
    if (status < 0)
        return status;
    if (setjmp(png_jmpbuf(reader.png)))
        return reader_end(&reader, 1, failure);
    header_read(&reader);
    png_set_expand(reader.png);
    png_set_scale_16(reader.png);
    int passes = png_set_interlace_handling(reader.png);
    png_read_update_info(reader.png, reader.info);
    uint32_t channels = png_get_channels(reader.png, reader.info);
    size_t row_bytes = png_get_rowbytes(reader.png, reader.info), rows = passes > 1 ? sink->height : 1;
    if (row_bytes != (size_t)sink->width * channels || row_bytes * rows > IMAGE_SCRATCH_BYTES_MAX) {
        snprintf(reader.message, sizeof reader.message, "it is interlaced and too large");
        return reader_end(&reader, 1, failure);
    }
    reader.pixels = calloc(rows, row_bytes);
    if (!reader.pixels)
        png_error(reader.png, "no memory for its pixels");
    for (int pass = 0; pass < passes; pass++) {
        for (uint32_t y = 0; y < sink->height; y++) {
            uint8_t *row = reader.pixels + (rows > 1 ? y * row_bytes : 0);
            png_read_row(reader.png, row, NULL);
            if (pass == passes - 1)
                row_deliver(sink, row, channels);
        }
    }
    return reader_end(&reader, 0, failure);
}
