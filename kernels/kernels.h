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

/* The instruction set that the host's loops run with here: "x86-64-v4", "x86-64-v3", "baseline". */
const char *sheaf_kernel_host_variant(void);

#ifdef __cplusplus
}
#endif
#endif
