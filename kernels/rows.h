/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of the host, over rows of samples. rows.c is compiled once for each instruction set, and all its versions
 * compute the same. Internal.
 */
#ifndef SHEAF_KERNEL_ROWS_H
#define SHEAF_KERNEL_ROWS_H

#include <stdbool.h>

#include "kernels/kernels.h"
#include "kernels/launch.h"

/* A row of n pixels to another format. Of NV12, `in` is luma and `more` the chroma of the row. */
typedef void (*convert_row_function)(const struct colour *colour, const uint8_t *in, const uint8_t *more, uint8_t *out,
                                     uint32_t n);

/* Sums of the columns of a window and of their squares, and room for those across, width + 2 * radius + 2 each. */
struct sauvola_sums {
    uint32_t *sum, *squares, *across, *across_squares;
    uint32_t rows; /* of the window that lie in the picture */
};

struct kernel_rows {
    const char *name;
    /* [format of the input][of the output]; NV12 as an output is luma alone. NULL for the same format. */
    convert_row_function convert[SHEAF_IMAGE_NV12 + 1][SHEAF_IMAGE_NV12 + 1];
    /* Chroma of two rows of n pixels, `in` and `more`: (n + 1) / 2 pairs. */
    convert_row_function chroma[SHEAF_IMAGE_NV12];
    /* out[i] = between a[i] and b[i], n samples. */
    void (*blend_rows)(const uint8_t *a, const uint8_t *b, int16_t weight, int16_t *out, uint32_t n);
    /* Picks and blends: `at` are byte offsets of int16 samples (of the first channel) in `row`, which goes on for a
     * pixel and 16 bytes after its last; n pixels. [channels] */
    void (*blend_across[5])(const int16_t *row, const uint32_t *at, const int16_t *weight, uint8_t *out, uint32_t n);
    /* sums[i] += weight * row[i], or = at the first row. */
    void (*area_add)(const uint8_t *row, uint32_t weight, bool is_first, uint32_t *sums, uint32_t n);
    /* A row of the output from these sums. [channels] */
    void (*area_across[5])(const uint32_t *sums, const struct plane_scale *scale, uint8_t *out, uint32_t n);
    void (*rotate_row)(const struct rotate_args *args, uint32_t y, uint8_t *out);
    /* Samples of a row, as wide as the place, to floats; `out` is where it begins in the first plane. */
    void (*tensor_row)(const struct tensor_args *args, const uint8_t *row, const uint8_t *chroma, void *out);
    void (*histogram_row)(const uint8_t *row, uint32_t n, uint32_t counts[256]);
    void (*threshold_row)(const uint8_t *row, uint32_t threshold, uint8_t *out, uint32_t n);
    /* Moves the sums of n columns on by a row: either may be NULL. */
    void (*sauvola_columns)(const uint8_t *enters, const uint8_t *leaves, const struct sauvola_sums *sums, uint32_t n);
    void (*sauvola_row)(const struct sauvola_args *args, const struct sauvola_sums *sums, const uint8_t *row,
                        uint8_t *out);
    void (*sharpness_row)(const uint8_t *up, const uint8_t *row, const uint8_t *down, uint32_t n, int64_t *sum,
                          uint64_t *squares);
    /* Blocks of 4 x 4 pixels side by side. */
    void (*ssim_blocks)(const uint8_t *a, uint64_t a_stride, const uint8_t *b, uint64_t b_stride, struct ssim_sums *out,
                        uint32_t blocks);
    /* Ink of a row by strips; counts are `height` apart. */
    void (*skew_count)(const uint8_t *row, uint32_t width, uint32_t threshold, uint16_t *counts, uint32_t height);
    void (*skew_add)(const uint16_t *counts, uint16_t *profile, uint32_t n);
    uint64_t (*skew_score)(const uint16_t *profile, uint32_t n);
};

/* The fastest for this machine. */
const struct kernel_rows *kernel_rows(void);
/* All that this machine can run, slowest first: for tests. NULL behind the last. */
const struct kernel_rows *kernel_rows_at(uint32_t i);
/* Has kernel_rows return this one, NULL: the fastest again. For tests only: other threads see it too. */
void kernel_rows_force(const struct kernel_rows *rows);

#endif
