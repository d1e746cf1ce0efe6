/* SPDX-License-Identifier: Apache-2.0 */
/* What the host and the functions of device.cu agree on: their names and arguments. Internal. C and CUDA C++. */
#ifndef SHEAF_KERNEL_LAUNCH_H
#define SHEAF_KERNEL_LAUNCH_H

#include "kernels/arithmetic.h"
#include "kernels/kernels.h"

/* A checked picture: chroma is NULL but for NV12. */
struct picture_view {
    uint8_t *data, *chroma;
    uint64_t stride;
    uint32_t width, height, format, reserved;
};

/* A checked plane of one sample a pixel that is read. */
struct plane_view {
    const uint8_t *data;
    uint64_t stride;
    uint32_t width, height;
};

/* Sets 32-bit words to 0. */
struct clear_args {
    uint32_t *words;
    uint64_t count;
};

struct copy_args {
    const uint8_t *in;
    uint8_t *out;
    uint64_t in_stride, out_stride;
    uint32_t row_bytes, rows;
};

struct convert_args {
    struct picture_view in, out;
    struct colour colour;
};

/* Scales to `width` x `height` at (x, y) of a plane of out_width x out_height, and fills what is around. */
struct resize_args {
    struct plane_scale scale;
    uint8_t *out;
    uint64_t out_stride;
    uint32_t out_width, out_height, x, y, width, height;
    uint8_t fill[4];
    uint32_t reserved;
};

/* Halves both sides of a gray plane `shift` times by area: each output pixel is the mean of a whole square. */
struct reduce_args {
    struct plane_view in; /* its size is a multiple */
    uint8_t *out;
    uint64_t out_stride;
    uint32_t width, height; /* of the output */
    uint32_t shift, reserved;
    uint64_t total, inverse; /* of area_mean */
};

/* Gray of RGB, or of BGRA. */
struct gray_args {
    struct picture_view in;
    uint8_t *out;
    uint64_t out_stride;
    struct colour colour;
};

/* The same into planes of floats: first (gray, RGB, BGRA, or luma), and with chroma second. */
struct tensor_args {
    struct plane_scale scale, chroma;
    void *out;
    uint32_t out_width, out_height, x, y, width, height;
    uint32_t format, dtype; /* of the input; enum sheaf_float */
    float by[3], bias[3];
    uint8_t fill[4];
    struct colour colour;
};

struct rotate_args {
    struct plane_view in;
    uint8_t *out;
    uint64_t out_stride;
    uint32_t width, height, fill, reserved;
    struct turn turn;
};

struct histogram_args {
    struct plane_view in;
    uint32_t *counts; /* 256, added to */
};

struct otsu_args {
    const uint32_t *counts;
    uint32_t *threshold;
};

struct threshold_args {
    struct plane_view in;
    uint8_t *out;
    uint64_t out_stride;
    const uint32_t *threshold; /* NULL: `fixed` */
    uint32_t fixed, reserved;
};

/* A thread takes so many bytes at once; the sides of a plane are halved at most so often at once. */
enum { WIDE_BYTES = 16, REDUCE_SHIFT_MAX = 4 };

enum { PLAN_BLOCK_THREADS = 256, SAUVOLA_RADIUS_MAX = 63, SAUVOLA_BLOCK_ROWS = 32 };
enum { SKEW_BLOCK_ROWS = PLAN_BLOCK_THREADS - 1, SKEW_CANDIDATES_MAX = 257 };

struct sauvola_args {
    struct plane_view in;
    uint8_t *out;
    uint64_t out_stride;
    uint32_t radius, k_256;
};

struct sharpness_args {
    struct plane_view in;
    int64_t *sum;
    uint64_t *squares;
};

struct ssim_args {
    struct plane_view a, b;
    int64_t *sum;
};

struct distance_args {
    const uint32_t *a, *b;
    uint32_t *distance;
};

struct hash_args {
    const uint8_t *samples; /* 9 x 8, or 32 x 32 */
    uint64_t *hash;
};

struct skew_args {
    struct plane_view in;
    const uint32_t *found; /* the threshold, by an earlier step; NULL: `threshold` */
    uint32_t threshold, strips;
    uint32_t candidates, round; /* of this round */
    int32_t step, max_slope;    /* of the first round */
    uint16_t *counts;           /* strips x height */
    uint64_t *scores;           /* SKEW_CANDIDATES_MAX */
    struct skew_search *search;
    struct sheaf_skew *result; /* of the device */
};

/* Every function of the fatbin is sheaf_NAME(const struct NAME_args). */
#define KERNEL_FUNCTIONS(F)                                                                                            \
    F(clear, struct clear_args)                                                                                        \
    F(copy, struct copy_args)                                                                                          \
    F(convert, struct convert_args)                                                                                    \
    F(gray, struct gray_args)                                                                                          \
    F(resize, struct resize_args)                                                                                      \
    F(resize_few, struct resize_args)                                                                                  \
    F(reduce, struct reduce_args)                                                                                      \
    F(tensor, struct tensor_args)                                                                                      \
    F(rotate, struct rotate_args)                                                                                      \
    F(histogram, struct histogram_args)                                                                                \
    F(otsu, struct otsu_args)                                                                                          \
    F(threshold, struct threshold_args)                                                                                \
    F(sauvola, struct sauvola_args)                                                                                    \
    F(sharpness, struct sharpness_args)                                                                                \
    F(ssim, struct ssim_args)                                                                                          \
    F(distance, struct distance_args)                                                                                  \
    F(dhash, struct hash_args)                                                                                         \
    F(phash, struct hash_args)                                                                                         \
    F(skew_strips, struct skew_args)                                                                                   \
    F(skew_scores, struct skew_args)                                                                                   \
    F(skew_choose, struct skew_args)

#define KERNEL_FUNCTION_INDEX(name, type) FUNCTION_##name,
enum kernel_function_index { KERNEL_FUNCTIONS(KERNEL_FUNCTION_INDEX) FUNCTION_COUNT };

#endif
