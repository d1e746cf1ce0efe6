/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels over pictures: conversion, resizing, measures, hashes.
 *
 * Each is written once. What one pixel, sample or window is worth is a function of arithmetic.h; the host runs these
 * over rows (rows.c, compiled for several instruction sets, chosen when first used), a device runs them over threads
 * (device.cu). table.h turns a call into launches for a device; the functions here run it at once on the host.
 *
 * Integer results are the same on host and device, bit for bit: the shared functions use integers only, and sums are
 * sums of integers, so that their order does not matter. Where a result is a float, its comment says how it is made and
 * how far it may be from the exact value. Multiplication and addition are never contracted, on either side.
 *
 * Rules of all functions:
 *  - They return 0 or a negative errno value, and then nothing was written: -EINVAL a descriptor or argument that does
 *    not make sense (checked first, so a wrong one never leads to a read or write outside data[0..size_bytes)),
 *    -ENOTSUP formats that do not go together, -ERANGE a size over a limit, -ENOMEM.
 *  - Pictures belong to the caller and are not kept. An output may not overlap an input.
 *  - They may be called from any number of threads at once.
 *  - Bytes between the end of a row and the next row are neither read nor written.
 */
#ifndef SHEAF_KERNELS_H
#define SHEAF_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A side is at most so long, and a picture has at most so many pixels; sums of squares then fit 64 bits. */
#define SHEAF_IMAGE_SIDE_MAX 65535u
#define SHEAF_IMAGE_PIXELS_MAX (1ull << 28)

enum sheaf_image_format {
    SHEAF_IMAGE_GRAY = 1, /* 1 byte */
    SHEAF_IMAGE_RGB,      /* 3 bytes: red, green, blue */
    SHEAF_IMAGE_BGRA,     /* 4 bytes: blue, green, red, alpha. Alpha is ignored when read and 255 when written */
    SHEAF_IMAGE_NV12,     /* a plane of luma, and at chroma_offset one of U, V pairs for each 2 x 2 pixels */
};

/*
 * What YCbCr of NV12 means: ITU-R BT.601-7 2.5.1 and BT.709-6 3.2, 3.5, each in its studio range (luma 16 to 235,
 * chroma 16 to 240), or in the full range of JPEG (T.871, clause 7). Chroma is sited in the middle of its 2 x 2 pixels.
 */
enum sheaf_image_matrix {
    SHEAF_MATRIX_BT601 = 0,
    SHEAF_MATRIX_BT709,
    SHEAF_MATRIX_JPEG,
};

/*
 * A picture in memory of the caller. Row y begins at data + y * stride_bytes. NV12 has (height + 1) / 2 rows of chroma
 * with (width + 1) / 2 pairs each, with the same stride, from data + chroma_offset on, behind the rows of luma.
 * All of it lies within size_bytes. For table.h `data` is an address of the device.
 */
struct sheaf_image {
    uint32_t width, height; /* pixels, 1 to SHEAF_IMAGE_SIDE_MAX */
    uint32_t format;        /* enum sheaf_image_format */
    uint32_t matrix;        /* enum sheaf_image_matrix; NV12 only, else 0 */
    uint64_t stride_bytes;
    uint64_t chroma_offset; /* bytes; NV12 only, else 0 */
    uint64_t size_bytes;
    void *data;
};

/* Whether the descriptor holds together: 0, -EINVAL or -ERANGE. All functions below begin with it. */
int sheaf_image_check(const struct sheaf_image *image);
/* Bytes of a picture without gaps; 0 for a format or size that cannot be. */
uint64_t sheaf_image_bytes(uint32_t width, uint32_t height, uint32_t format);
/* A descriptor of a picture without gaps. */
struct sheaf_image sheaf_image_packed(uint32_t width, uint32_t height, uint32_t format, void *data);

/*
 * Any format to any other of the same size; the same format copies. Gray from colours is luma of BT.601-7 2.5.1:
 * 0.299 R + 0.587 G + 0.114 B; gray from NV12 is luma in the full range. Chroma of NV12 is made of the mean of its
 * pixels and, when read, stands for all of them. In fixed point with 15-bit coefficients: each sample is within 1 of
 * the exact value rounded.
 */
int sheaf_kernel_convert(const struct sheaf_image *in, const struct sheaf_image *out);

/* ---- resizing ---- */

enum sheaf_filter {
    SHEAF_FILTER_BILINEAR = 0,
    SHEAF_FILTER_AREA,
};

/*
 * Scales to the size of `out`, which has the format of `in`; sizes are free in both directions. The middle of output
 * pixel i lies at (i + 1/2) * in / out - 1/2 in pixels of the input, its edges at i * in / out and (i + 1) * in / out.
 *
 * SHEAF_FILTER_BILINEAR: between the four nearest pixels, clamped at the edges, by 15-bit weights, first down, then
 * across, with 7 bits of fraction in between: within 1 of the exact value rounded.
 * SHEAF_FILTER_AREA: the mean of what the output pixel covers, partly covered pixels by the part of them. Exact: the
 * rational value, rounded to the nearest, halves up.
 * NV12 scales its two planes each for itself.
 */
int sheaf_kernel_resize(const struct sheaf_image *in, const struct sheaf_image *out, uint32_t filter);

/* A part of a picture, in pixels. */
struct sheaf_rectangle {
    uint32_t x, y, width, height;
};

/* The largest picture of the shape of in_width x in_height that fits into width x height, in its middle: the side that
 * does not touch is rounded to the nearest, at least 1; of an odd rest the smaller half is left and above. -EINVAL: a
 * side is 0. -ERANGE: a side is over the limit. */
int sheaf_letterbox(uint32_t in_width, uint32_t in_height, uint32_t width, uint32_t height,
                    struct sheaf_rectangle *ret_place);
/* Resizes into that place and fills the rest with `fill`, the bytes of one pixel. Not for NV12. */
int sheaf_kernel_letterbox(const struct sheaf_image *in, const struct sheaf_image *out, uint32_t filter,
                           const uint8_t fill[4]);

/* Turns a gray picture about its middle, keeping its size, so that what runs down to the right by slope / 2^16 pixels a
 * pixel then runs level: bilinear, pixels outside are `fill`. Slopes from -2^16 to 2^16 (45 degrees). As bilinear
 * above: within 1 of the exact value rounded, at places that are within 2^-14 pixels of the exact ones. */
int sheaf_kernel_rotate(const struct sheaf_image *in, const struct sheaf_image *out, int32_t slope, uint8_t fill);

/* ---- tensors ---- */

enum sheaf_float {
    SHEAF_FLOAT32 = 1,
    SHEAF_BFLOAT16, /* the upper half of a float32, rounded to the nearest, halves to even */
};

/*
 * How samples become floats: element = sample * by[channel] + bias[channel], channels in the order red, green, blue,
 * both operations rounded to float32. For a mean and deviation of samples in 0 to 1: by = 1 / (255 * deviation), bias =
 * -mean / deviation. So a float32 is within half a unit in the last place of sample * by, plus as much of the result,
 * of the exact value, and host and device agree bit for bit; a bfloat16 is that, rounded once more.
 */
struct sheaf_normalise {
    float by[3], bias[3]; /* finite */
    uint32_t dtype;       /* enum sheaf_float */
    uint32_t filter;      /* enum sheaf_filter; of sheaf_kernel_tensor only, as what follows */
    uint32_t letterbox;   /* 1: into the place of sheaf_letterbox; 0: all of the tensor */
    uint8_t fill[4];      /* red, green, blue (gray: the first) around it */
};

/* Planes of floats, [channels][height][width] without gaps: 1 of a gray picture, else 3. */
uint64_t sheaf_tensor_bytes(uint32_t width, uint32_t height, uint32_t format, uint32_t dtype);

/*
 * A picture as a tensor of height x width: scaled, converted to RGB (gray stays gray) and normalised, in one pass and
 * without a picture in between. The samples that are normalised are those which sheaf_kernel_resize and
 * sheaf_kernel_convert give, in this order, with one difference: chroma of NV12 is scaled to the size of luma, so that
 * each pixel has its own. `out` is aligned to its elements and has out_bytes, at least sheaf_tensor_bytes.
 */
int sheaf_kernel_tensor(const struct sheaf_image *in, uint32_t width, uint32_t height,
                        const struct sheaf_normalise *normalise, void *out, uint64_t out_bytes);

/* ---- black and white ---- */
/* Inputs here and below are gray, or NV12, of which they take luma as it is. */

/* How many pixels have each value. */
int sheaf_kernel_histogram(const struct sheaf_image *in, uint32_t counts[256]);
/* Otsu 1979: the value that parts a histogram into two classes, `<=` and above, with the largest variance between them;
 * the lowest of several, 0 where there is but one value. Exact. */
uint32_t sheaf_otsu_threshold(const uint32_t counts[256]);
/* 255 where a pixel is above the threshold, else 0. `out` is gray. */
int sheaf_kernel_threshold(const struct sheaf_image *in, const struct sheaf_image *out, uint32_t threshold);
/* Both at once; ret_threshold may be NULL. */
int sheaf_kernel_otsu(const struct sheaf_image *in, const struct sheaf_image *out, uint32_t *ret_threshold);

/* Sauvola and Pietikainen 2000: 255 where a pixel is above mean * (1 + k * (deviation / 128 - 1)) of the square window
 * of 2 * radius + 1 pixels about it, as far as it lies in the picture; k = k_256 / 256. Radius 1 to 63, k_256 0 to 256.
 * Their k of 0.5 is 128; for scans of text 0.34 (87) is usual. The deviation is rounded down to 1 / n, n pixels in the
 * window; the rest is exact. */
int sheaf_kernel_sauvola(const struct sheaf_image *in, const struct sheaf_image *out, uint32_t radius, uint32_t k_256);

/* ---- measures ---- */

/* Of the pixels' four-neighbour Laplacian, edges repeated: its sum, and that of its squares. */
struct sheaf_sharpness {
    int64_t sum;
    uint64_t squares;
    uint64_t pixels;
};
int sheaf_kernel_sharpness(const struct sheaf_image *in, struct sheaf_sharpness *ret_sharpness);
/* The variance (Pech-Pacheco and others 2000): low is blurred. In double, from exact sums: relative error below 2^-50.
 */
double sheaf_laplacian_variance(const struct sheaf_sharpness *sharpness);

/* What is on a page: `paper` is its most frequent value (the lowest of several), `ink` counts pixels that are further
 * than `apart` from it. Ink / pixels near 0: blank. */
struct sheaf_page_ink {
    uint64_t ink, pixels;
    uint32_t paper;
};
struct sheaf_page_ink sheaf_page_ink(const uint32_t counts[256], uint32_t apart);

/* How far two histograms are apart: half the sum of the absolute differences of their shares, 0 (the same) to 65536
 * (nothing in common), rounded down. A cut between scenes moves most of a picture; 0.3 to 0.5 of 65536 is where others
 * draw the line. 0 where one of them is empty. */
uint32_t sheaf_histogram_distance(const uint32_t a[256], const uint32_t b[256]);

/* Structural similarity: the mean over windows of 8 x 8 pixels, every 4, each counted evenly. Sides are equal and at
 * least 8. C1 and C2 are rounded to 2^-12, which moves a window's value by less than 2^-15; apart from that it is
 * within 2^-30 of the exact one, and so is the mean. */
struct sheaf_ssim {
    int64_t sum; /* in 2^-30 */
    uint64_t windows;
};
int sheaf_kernel_ssim(const struct sheaf_image *a, const struct sheaf_image *b, struct sheaf_ssim *ret_ssim);
double sheaf_ssim_mean(const struct sheaf_ssim *ssim);

/*
 * How much lines of text run down to the right: the slope for which the profile of ink, summed along it, differs most
 * from row to row (sum of squared differences, Postl 1986), looked for in three rounds. Ink is what is `<= threshold`.
 * Columns go in strips of 16 that are moved as a whole. `slope` is in 2^-16 (pixels down for a pixel to the right),
 * within about a pixel from one edge of the picture to the other; `best` and `level` are the sums at it and at slope 0:
 * where best is hardly more, there are no lines to speak of. max_slope 0 to 2^16.
 */
struct sheaf_skew {
    int32_t slope;
    uint32_t reserved;
    uint64_t best, level;
};
int sheaf_kernel_skew(const struct sheaf_image *in, uint32_t threshold, uint32_t max_slope,
                      struct sheaf_skew *ret_skew);

/* ---- hashes: pictures that look alike have hashes of which few bits differ ---- */

/* Difference hash (Krawetz 2013): of the picture scaled to 9 x 8 by area, whether each pixel is brighter than the one
 * to its left, row by row, the first in the highest bit. */
int sheaf_kernel_dhash(const struct sheaf_image *in, uint64_t *ret_hash);
/* Perceptual hash: of the picture scaled to 32 x 32 by area, whether each of the lowest 8 x 8 coefficients of its
 * cosine transform is above their median, in the same order. Coefficients are in integers: as means
 * over the picture, off by at most 2^-6 of a shade. */
int sheaf_kernel_phash(const struct sheaf_image *in, uint64_t *ret_hash);
/* Bits that differ. */
uint32_t sheaf_hash_distance(uint64_t a, uint64_t b);

/* The instruction set that the host's loops run with here: "x86-64-v4", "x86-64-v3", "baseline". */
const char *sheaf_kernel_host_variant(void);

#ifdef __cplusplus
}
#endif
#endif
