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

/* What one plane needs from row to row. */
struct scaler {
    struct plane_scale scale;
    const struct kernel_rows *rows;
    uint32_t width;
    bool is_sparse;  /* most of a row is not looked at: pixel by pixel */
    uint32_t *at;    /* bilinear: where output pixels are in `row` */
    int16_t *weight; /* and their weights */
    int16_t *row;    /* two rows blended */
    uint32_t *sums;  /* area: rows added */
};

/* -ENOMEM; scaler_close is to be called in any case. */
int scaler_open(struct scaler *scaler, const struct plane_scale *scale, uint32_t width);
void scaler_close(struct scaler *scaler);
/* Row y of the output: width pixels. */
void scaler_row(struct scaler *scaler, uint32_t y, uint8_t *out);

#endif
