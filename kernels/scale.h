/* SPDX-License-Identifier: Apache-2.0 */
/* Scaling a plane row by row, on the host. Internal. */
#ifndef SHEAF_KERNEL_SCALE_H
#define SHEAF_KERNEL_SCALE_H

#include "kernels/check.h"
#include "kernels/rows.h"

struct plane_scale plane_scale_make(const uint8_t *in, uint64_t in_stride, uint32_t in_width, uint32_t in_height,
                                    uint32_t channels, uint32_t filter, uint32_t width, uint32_t height);
/* Of all of a picture, but of NV12 luma, to width x height; and of its chroma. */
struct plane_scale picture_scale(const struct picture_view *in, uint32_t filter, uint32_t width, uint32_t height);
struct plane_scale chroma_scale(const struct picture_view *in, uint32_t filter, uint32_t width, uint32_t height);

/* How a row is made: the same result, by what is fastest for the sizes. */
enum scaler_way {
    SCALER_HALF,       /* both sides are half as long: means of 2 x 2, with either filter */
    SCALER_COPY,       /* rows as wide as the input's: down alone */
    SCALER_PICK,       /* bilinear by odd factors: each pixel is one of the input */
    SCALER_DOUBLE,     /* bilinear, one sample a pixel, twice as wide: down, then across between neighbours */
    SCALER_BLEND,      /* bilinear: down into a row as wide as the input, then across */
    SCALER_SPARSE,     /* bilinear: most of a row is not looked at */
    SCALER_AREA_WHOLE, /* area: each pixel is the mean of whole ones, their sum below 2^16 */
    SCALER_AREA,       /* area: sums of rows below 2^16 */
    SCALER_AREA_WIDE,
};

/* What one plane needs from row to row. */
struct scaler {
    struct plane_scale scale;
    const struct kernel_rows *rows;
    uint32_t width;
    enum scaler_way way;
    struct across across;
    uint32_t *weights; /* area: of the input's rows */
    void *memory;      /* for two rows blended (int16), or sums of rows (uint16, uint32) */
};

/* -ENOMEM; scaler_close is to be called in any case. */
int scaler_open(struct scaler *scaler, const struct plane_scale *scale, uint32_t width);
void scaler_close(struct scaler *scaler);
/* Row y of the output: width pixels. */
void scaler_row(struct scaler *scaler, uint32_t y, uint8_t *out);

#endif
