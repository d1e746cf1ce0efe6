/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tiffio.h>

/* A TIFF in memory. Its address is libtiff's client data, by which its messages are told from those of other users of
 * libtiff in this process. */
struct memory_file {
    const struct image_source *source;
    uint64_t at;
    char message[200];
};

static struct memory_file *current_file;

/* The last one says why it went wrong; those before are of tags that can be done without. */
static void on_error(thandle_t handle, const char *module, const char *format, va_list values)
{
    struct memory_file *file = current_file;
    if (!file || handle != (thandle_t)file)
        return;
    vsnprintf(file->message, sizeof file->message, format, values);
}

static tmsize_t on_read(thandle_t handle, void *buffer, tmsize_t bytes)
{
    struct memory_file *file = handle;
    uint64_t size = file->source->size_bytes;
    if (file->at >= size || bytes <= 0)
        return 0;
    uint64_t left = size - file->at, count = (uint64_t)bytes < left ? (uint64_t)bytes : left;
    memcpy(buffer, file->source->data + file->at, count);
    file->at += count;
    return (tmsize_t)count;
}

static tmsize_t on_write(thandle_t handle, void *buffer, tmsize_t bytes)
{
    return 0;
}

static toff_t on_seek(thandle_t handle, toff_t offset, int whence)
{
    struct memory_file *file = handle;
    file->at = whence == SEEK_SET ? offset : whence == SEEK_CUR ? file->at + offset : file->source->size_bytes + offset;
    return file->at;
}

static int on_close(thandle_t handle)
{
    return 0;
}

static toff_t on_size(thandle_t handle)
{
    return ((struct memory_file *)handle)->source->size_bytes;
}

static int on_map(thandle_t handle, void **base, toff_t *size)
{
    struct memory_file *file = handle;
    *base = (void *)file->source->data;
    *size = file->source->size_bytes;
    return 1;
}

static void on_unmap(thandle_t handle, void *base, toff_t size)
{
}

static int tiff_refuse(struct memory_file *file, const char *what, struct document_failure *failure)
{
    return image_refuse(failure, SHEAF_CLASS_MALFORMED, "%s: %s", what,
                        file->message[0] ? file->message : "it is damaged");
}

static TIFF *tiff_open(struct memory_file *file, const struct image_source *source, struct document_failure *failure)
{
    *file = (struct memory_file){.source = source};
    current_file = file;
    TIFFSetErrorHandler(NULL);
    TIFFSetWarningHandler(NULL);
    TIFFSetErrorHandlerExt(on_error);
    TIFF *tiff = TIFFClientOpen("image", "r", file, on_read, on_write, on_seek, on_close, on_size, on_map, on_unmap);
    if (!tiff)
        tiff_refuse(file, "the TIFF cannot be opened", failure);
    return tiff;
}

static void tiff_close(TIFF *tiff)
{
    TIFFClose(tiff);
    TIFFSetErrorHandlerExt(NULL);
    current_file = NULL;
}

static TIFF *tiff_open_page(struct memory_file *file, const struct image_source *source,
                            struct document_failure *failure)
{
    TIFF *tiff = tiff_open(file, source, failure);
    if (tiff && source->page > 0 && !TIFFSetDirectory(tiff, (tdir_t)source->page)) {
        tiff_refuse(file, "the TIFF page cannot be read", failure);
        tiff_close(tiff);
        return NULL;
    }
    return tiff;
}

int tiff_facts(const struct image_source *source, struct image_facts *facts, struct document_failure *failure)
{
    struct memory_file file;
    TIFF *tiff = tiff_open_page(&file, source, failure);
    if (!tiff)
        return -EBADMSG;
    uint16_t orientation = 1, unit = RESUNIT_INCH, photometric = 0;
    float x = 0, y = 0;
    TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &facts->width);
    TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &facts->height);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_ORIENTATION, &orientation);
    TIFFGetFieldDefaulted(tiff, TIFFTAG_RESOLUTIONUNIT, &unit);
    TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &photometric);
    facts->is_gray = photometric == PHOTOMETRIC_MINISBLACK || photometric == PHOTOMETRIC_MINISWHITE;
    facts->orientation = orientation >= 1 && orientation <= 8 ? orientation : 1;
    if (unit != RESUNIT_NONE && TIFFGetField(tiff, TIFFTAG_XRESOLUTION, &x) &&
        TIFFGetField(tiff, TIFFTAG_YRESOLUTION, &y)) {
        double per = unit == RESUNIT_CENTIMETER ? 2.54 : 1;
        facts->dpi_x = x * per;
        facts->dpi_y = y * per;
    }
    tiff_close(tiff);
    return 0;
}

/* Delivers `rows` rows of libtiff's packed pixels; colours come multiplied by alpha. */
static void band_deliver(struct image_sink *sink, const uint32_t *raster, uint32_t rows, uint8_t *row)
{
    for (uint32_t y = 0; y < rows; y++) {
        const uint32_t *in = raster + (size_t)y * sink->width;
        for (uint32_t x = 0; x < sink->width; x++) {
            uint32_t white = 255 - TIFFGetA(in[x]);
            uint32_t rgb[3] = {TIFFGetR(in[x]) + white, TIFFGetG(in[x]) + white, TIFFGetB(in[x]) + white};
            for (int c = 0; c < 3; c++)
                row[3 * (size_t)x + (size_t)c] = (uint8_t)(rgb[c] > 255 ? 255 : rgb[c]);
        }
        image_sink_row(sink, row, 3);
    }
}

/* Rows that can be decoded together without decoding anything twice. */
static uint32_t band_rows(TIFF *tiff, uint32_t height)
{
    uint32_t rows = 0;
    if (TIFFIsTiled(tiff))
        TIFFGetField(tiff, TIFFTAG_TILELENGTH, &rows);
    else
        TIFFGetFieldDefaulted(tiff, TIFFTAG_ROWSPERSTRIP, &rows);
    return rows == 0 || rows > height ? height : rows;
}

static int bands_decode(TIFF *tiff, TIFFRGBAImage *image, struct memory_file *file, struct image_sink *sink,
                        struct document_failure *failure)
{
    uint32_t rows = band_rows(tiff, sink->height);
    if ((uint64_t)rows * sink->width * 4 > IMAGE_SCRATCH_BYTES_MAX)
        return image_refuse(failure, SHEAF_CLASS_TOO_LARGE, "the TIFF must be decoded in pieces of %u by %u pixels",
                            sink->width, rows);
    uint32_t *raster = malloc((size_t)rows * sink->width * 4);
    uint8_t *row = malloc((size_t)sink->width * 3);
    int status = 0;
    if (!raster || !row)
        status = image_refuse(failure, SHEAF_CLASS_RESOURCE_EXHAUSTED, "no memory to decode the TIFF");
    for (uint32_t at = 0; status == 0 && at < sink->height; at += rows) {
        uint32_t count = sink->height - at < rows ? sink->height - at : rows;
        image->row_offset = (int)at;
        image->col_offset = 0;
        memset(raster, 0, (size_t)rows * sink->width * 4);
        if (!TIFFRGBAImageGet(image, raster, sink->width, count))
            status = tiff_refuse(file, "the TIFF cannot be decoded", failure);
        else
            band_deliver(sink, raster, count, row);
    }
    free(raster);
    free(row);
    return status;
}

int tiff_rows(const struct image_source *source, struct image_sink *sink, struct document_failure *failure)
{
    struct memory_file file;
    TIFFRGBAImage image;
    char reason[1024] = "";
    TIFF *tiff = tiff_open_page(&file, source, failure);
    if (!tiff)
        return -EBADMSG;
    int status;
    if (!TIFFRGBAImageOK(tiff, reason) || !TIFFRGBAImageBegin(&image, tiff, 1, reason)) {
        status = image_refuse(failure, SHEAF_CLASS_UNSUPPORTED, "a form of TIFF that is not read: %.200s", reason);
    } else {
        /* The sink turns the image; libtiff would only mirror it. */
        image.orientation = ORIENTATION_TOPLEFT;
        image.req_orientation = ORIENTATION_TOPLEFT;
        status = image.width == sink->width && image.height == sink->height
                     ? bands_decode(tiff, &image, &file, sink, failure)
                     : tiff_refuse(&file, "the TIFF contradicts itself", failure);
        TIFFRGBAImageEnd(&image);
    }
    tiff_close(tiff);
    return status;
}

int tiff_pages(const struct image_source *source, int (*each)(void *cookie, uint32_t page), void *cookie,
               struct document_failure *failure)
{
    struct memory_file file;
    TIFF *tiff = tiff_open(&file, source, failure);
    if (!tiff)
        return -EBADMSG;
    int status = 0, count = 0;
    do {
        if (count == DOCUMENT_PAGES_MAX)
            status = image_refuse(failure, SHEAF_CLASS_TOO_LARGE, "more than %d TIFF pages", DOCUMENT_PAGES_MAX);
        else
            status = each(cookie, (uint32_t)count);
        count += status == 0;
    } while (status == 0 && TIFFReadDirectory(tiff));
    tiff_close(tiff);
    return status ? status : count;
}
