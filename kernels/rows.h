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

/* Where the samples of an output row come from in a row of input samples, for groups of them, so that a group can be
 * picked from a few vectors: sample j from at[j] = base[j / group] + an offset. pick[j] is the offset, or the numbers
 * of the two bytes that are there. */
enum { ACROSS_GROUP_MAX = 32, ACROSS_PADDING_BYTES = 512 };

struct across {
    uint32_t samples, channels;
    uint32_t span_max;          /* of all groups */
    uint32_t *at, *base, *span; /* by sample; by group: the least, and how many samples it reaches over */
    uint16_t *pick;
    int16_t *weight; /* of the next pixel's sample */
};

/* Sums of the columns of a window and of their squares, and room for those across, width + 2 * radius + 2 each. */
struct sauvola_sums {
    uint32_t *sum, *squares, *across, *across_squares;
    uint32_t rows; /* of the window that lie in the picture */
};

struct kernel_rows {
    const char *name;
    /* How `across` is to be made: samples of a group, at most ACROSS_GROUP_MAX, and whether `pick` is numbers of bytes.
     */
    uint32_t across_group;
    bool across_picks_bytes;
    /* [format of the input][of the output]; NV12 as an output is luma alone. NULL for the same format. */
    convert_row_function convert[SHEAF_IMAGE_NV12 + 1][SHEAF_IMAGE_NV12 + 1];
    /* Chroma of two rows of n pixels, `in` and `more`: (n + 1) / 2 pairs. */
    convert_row_function chroma[SHEAF_IMAGE_NV12];
    /* out[i] = between a[i] and b[i], n samples; with 7 bits of fraction, or rounded. */
    void (*blend_rows)(const uint8_t *a, const uint8_t *b, int16_t weight, int16_t *out, uint32_t n);
    void (*blend_rows_round)(const uint8_t *a, const uint8_t *b, int16_t weight, uint8_t *out, uint32_t n);
    /* Each sample from the one where `across` says and that of the next pixel. */
    void (*blend_across)(const int16_t *row, const struct across *across, uint8_t *out);
    /* The same to twice the width, for one sample a pixel: n of row to 2 * n. row[-1] and row[n] are there. */
    void (*double_across)(const int16_t *row, uint8_t *out, uint32_t n);
    /* n pixels from the middles of `factor` of them each, an odd number. [channels] */
    void (*pick_row[5])(const uint8_t *row, uint32_t factor, uint8_t *out, uint32_t n);
    /* Each sample from where `across` says, from two rows at once, for pixels that lie far apart; row_bytes may be read
     * of either. */
    void (*blend_sparse)(const uint8_t *upper, const uint8_t *lower, uint32_t row_bytes, int16_t weight,
                         const struct across *across, uint8_t *out);
    /* Means of 2 x 2 pixels of two rows. */
    void (*halve_rows)(const uint8_t *upper, const uint8_t *lower, uint32_t channels, uint8_t *out, uint32_t samples);
    /* sums[i] = the sum of weights[r] * row r [i]. */
    void (*area_down)(const uint8_t *in, uint64_t stride, const uint32_t *weights, uint32_t rows, uint16_t *sums,
                      uint32_t n);
    void (*area_down_wide)(const uint8_t *in, uint64_t stride, const uint32_t *weights, uint32_t rows, uint32_t *sums,
                           uint32_t n);
    /* A row of n pixels of the output from these sums. [channels] */
    void (*area_across[5])(const uint16_t *sums, const struct plane_scale *scale, uint8_t *out, uint32_t n);
    void (*area_across_wide[5])(const uint32_t *sums, const struct plane_scale *scale, uint8_t *out, uint32_t n);
    /* The same where each pixel is the mean of `taps` from where `across` says on: sums of them fit 16 bits. */
    void (*area_across_whole)(const uint16_t *sums, const struct across *across, uint32_t taps, uint32_t total,
                              uint8_t *out);
    void (*rotate_row)(const struct rotate_args *args, uint32_t y, uint8_t *out);
    /* Samples of a row, as wide as the place, to floats; `out` is where it begins in the first plane. */
    void (*tensor_row)(const struct tensor_args *args, const uint8_t *row, const uint8_t *chroma, void *out);
    void (*histogram)(const struct plane_view *in, uint32_t counts[256]);
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
