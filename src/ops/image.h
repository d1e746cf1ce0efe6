/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Image files to pixels: JPEG, PNG, TIFF, WebP, from hostile bytes in memory to upright 8-bit gray or RGB.
 *
 * In two steps, so that nothing is allocated for an image before its header is known to be within the caps: the facts
 * of the header, a plan of what will be made of them, then decoding into memory of exactly the planned size. Decoding
 * runs row by row through a sink that does the rest in the same pass: colour conversion, scaling down by averaging,
 * square pixels (fax images have twice the resolution across), and turning upright by the EXIF or TIFF orientation.
 * Transparency is shown over white; 16-bit, palette, 1-bit, CMYK all come out as 8-bit.
 *
 * Functions return 0, or a negative status and why. No globals; one thread at a time.
 */
#ifndef SHEAF_OPS_IMAGE_H
#define SHEAF_OPS_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "ops/document.h"

#define IMAGE_PIXELS_MAX (512ull << 20)      /* as stored in the file: above that it is not decoded at all */
#define IMAGE_SCRATCH_BYTES_MAX (1ull << 30) /* where a format must be decoded as a whole or in large pieces */
#define IMAGE_DPI_UNKNOWN 72.0               /* then one pixel is one point */

struct image_source {
    enum document_format format;
    const uint8_t *data;
    size_t size_bytes;
    uint32_t page; /* TIFF directory, else 0 */
};

/* What the header says. */
struct image_facts {
    uint32_t width, height; /* as stored, before turning */
    int is_gray;
    int orientation;     /* 1..8 as in EXIF */
    double dpi_x, dpi_y; /* 0: unknown */
};

/* What will come out. */
struct image_plan {
    uint32_t width, height;      /* upright */
    uint32_t factor;             /* pixels averaged in each direction */
    uint32_t repeat_x, repeat_y; /* times a pixel is repeated to become square */
    double dpi;                  /* of what comes out */
    int orientation;
};

int image_facts_read(const struct image_source *source, struct image_facts *ret_facts,
                     struct document_failure *failure);
void image_plan_make(const struct image_facts *facts, uint64_t max_pixels, struct image_plan *ret_plan);
/* `channels` 1 (gray) or 3 (RGB); `out` has width * height * channels bytes of the plan. */
int image_decode(const struct image_source *source, const struct image_facts *facts, const struct image_plan *plan,
                 uint32_t channels, uint8_t *out, struct document_failure *failure);

/* Goes through the directories of a TIFF: calls `each` with 0, 1, ... as they are found; stops when it returns non-zero
 * and returns that. Else the count of directories, or a negative status. Other formats have one page. */
int image_pages(const struct image_source *source, int (*each)(void *cookie, uint32_t page), void *cookie,
                struct document_failure *failure);

/* ---- for the decoders ---- */

/* Takes the rows of an image as stored, from top to bottom, gray or RGB. */
struct image_sink {
    uint32_t width, height, channels, factor, repeat_x, repeat_y;
    uint32_t out_width, out_height; /* before turning */
    uint32_t rows_pending;
    uint32_t rows_in, rows_out;
    int64_t base, step_x, step_y; /* in pixels of the output */
    uint8_t *out;
    uint8_t *row;   /* one row in the output's colours */
    uint32_t *sums; /* factor > 1 only */
};

int image_sink_init(struct image_sink *sink, const struct image_facts *facts, const struct image_plan *plan,
                    uint32_t channels, uint8_t *out);
void image_sink_fini(struct image_sink *sink);
void image_sink_row(struct image_sink *sink, const uint8_t *pixels, uint32_t pixel_channels);
/* White for the rows that never came. */
void image_sink_finish(struct image_sink *sink);

/* Orientation (1..8) of an EXIF block, which begins "II" or "MM"; 1 when it has none. */
int exif_orientation(const uint8_t *data, size_t size_bytes);

int image_refuse(struct document_failure *failure, enum sheaf_class class_id, const char *format, ...)
    SHEAF_PRINTF(3, 4);

int jpeg_facts(const struct image_source *source, struct image_facts *facts, struct document_failure *failure);
int jpeg_rows(const struct image_source *source, struct image_sink *sink, struct document_failure *failure);
int png_facts(const struct image_source *source, struct image_facts *facts, struct document_failure *failure);
int png_rows(const struct image_source *source, struct image_sink *sink, struct document_failure *failure);
int tiff_facts(const struct image_source *source, struct image_facts *facts, struct document_failure *failure);
int tiff_rows(const struct image_source *source, struct image_sink *sink, struct document_failure *failure);
int tiff_pages(const struct image_source *source, int (*each)(void *cookie, uint32_t page), void *cookie,
               struct document_failure *failure);
int webp_facts(const struct image_source *source, struct image_facts *facts, struct document_failure *failure);
int webp_rows(const struct image_source *source, struct image_sink *sink, struct document_failure *failure);

#endif
