/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What host and device compute alike: one sample, pixel or window at a time. C and CUDA C++.
 *
 * Integers only, unless said. Right shifts of negative numbers are arithmetic, as with every compiler used here.
 */
#ifndef SHEAF_KERNEL_ARITHMETIC_H
#define SHEAF_KERNEL_ARITHMETIC_H

#include <stdint.h>

#if defined(__CUDACC__)
#define KERNEL static __device__ __forceinline__
#else
#define KERNEL static inline __attribute__((always_inline))
#endif

/* ---- fixed point ---- */

/* a * b / 2^15, rounded to the nearest. Written so that compilers find the instruction for it (pmulhrsw). */
KERNEL int16_t multiply_q15(int16_t a, int16_t b)
{
    return (int16_t)((((int32_t)a * b >> 14) + 1) >> 1);
}

KERNEL uint8_t clamp_u8(int16_t value)
{
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* ---- colours ---- */

/* Coefficients of the conversions, filled in by colour_coefficients (convert.c). */
struct colour {
    int16_t luma[3];                        /* of gray, 15 bits; their sum is 2^15 */
    int16_t y_offset, y_scale;              /* luma to the full range, 13 bits */
    int16_t v_to_r, u_to_g, v_to_g, u_to_b; /* 12 bits */
    int16_t to_y[3], to_u[3], to_v[3];      /* of NV12, 15 bits */
};

KERNEL uint8_t gray_of_rgb(const struct colour *c, uint8_t r, uint8_t g, uint8_t b)
{
    int16_t sum = (int16_t)(multiply_q15((int16_t)(r << 7), c->luma[0]) + multiply_q15((int16_t)(g << 7), c->luma[1]) +
                            multiply_q15((int16_t)(b << 7), c->luma[2]) + 64);
    return (uint8_t)(sum >> 7);
}

/* Luma in the full range, with 5 bits of fraction: (y - 16) * 1.164 at most 17808 / 64, so that sums below fit. */
KERNEL int16_t luma_q5(const struct colour *c, uint8_t y)
{
    return multiply_q15((int16_t)((y - c->y_offset) * 128), c->y_scale);
}

KERNEL uint8_t gray_of_yuv(const struct colour *c, uint8_t y)
{
    return clamp_u8((int16_t)((luma_q5(c, y) + 16) >> 5));
}

KERNEL uint8_t red_of_yuv(const struct colour *c, uint8_t y, uint8_t v)
{
    return clamp_u8((int16_t)((luma_q5(c, y) + multiply_q15((int16_t)((v - 128) * 256), c->v_to_r) + 16) >> 5));
}

KERNEL uint8_t green_of_yuv(const struct colour *c, uint8_t y, uint8_t u, uint8_t v)
{
    int16_t chroma = (int16_t)(multiply_q15((int16_t)((u - 128) * 256), c->u_to_g) +
                               multiply_q15((int16_t)((v - 128) * 256), c->v_to_g));
    return clamp_u8((int16_t)((luma_q5(c, y) + chroma + 16) >> 5));
}

KERNEL uint8_t blue_of_yuv(const struct colour *c, uint8_t y, uint8_t u)
{
    return clamp_u8((int16_t)((luma_q5(c, y) + multiply_q15((int16_t)((u - 128) * 256), c->u_to_b) + 16) >> 5));
}

/* A weighted sum of colours with 7 bits of fraction, above `offset`. */
KERNEL uint8_t weighted_sum(uint8_t r, uint8_t g, uint8_t b, const int16_t *weights, int16_t offset)
{
    int16_t sum = (int16_t)(multiply_q15((int16_t)(r << 7), weights[0]) + multiply_q15((int16_t)(g << 7), weights[1]) +
                            multiply_q15((int16_t)(b << 7), weights[2]) + 64);
    return clamp_u8((int16_t)((sum >> 7) + offset));
}

KERNEL uint8_t luma_of_rgb(const struct colour *c, uint8_t r, uint8_t g, uint8_t b)
{
    return weighted_sum(r, g, b, c->to_y, c->y_offset);
}

/* The colours of the four pixels that share a pair of chroma. */
struct colour_sum {
    uint16_t r, g, b;
};

KERNEL void colour_add(struct colour_sum *sum, uint8_t r, uint8_t g, uint8_t b)
{
    sum->r = (uint16_t)(sum->r + r);
    sum->g = (uint16_t)(sum->g + g);
    sum->b = (uint16_t)(sum->b + b);
}

KERNEL uint8_t mean_of_four(uint16_t sum)
{
    return (uint8_t)((sum + 2) >> 2);
}

KERNEL uint8_t u_of_sum(const struct colour *c, const struct colour_sum *sum)
{
    return weighted_sum(mean_of_four(sum->r), mean_of_four(sum->g), mean_of_four(sum->b), c->to_u, 128);
}

KERNEL uint8_t v_of_sum(const struct colour *c, const struct colour_sum *sum)
{
    return weighted_sum(mean_of_four(sum->r), mean_of_four(sum->g), mean_of_four(sum->b), c->to_v, 128);
}

/* ---- resizing ---- */

/* Where the middle of output pixel i lies in the input: (i * step + start) / 2^32, clamped to 0 .. last. */
struct bilinear_axis {
    int64_t step, start, last;
};

/* The index of the pixel before that place, and in `ret_weight` that of the one behind it, of 2^15. Where the weight is
 * 0 there may be no pixel behind. */
KERNEL uint32_t bilinear_place(const struct bilinear_axis *axis, uint32_t i, int16_t *ret_weight)
{
    int64_t place = i * axis->step + axis->start;
    place = place < 0 ? 0 : place > axis->last ? axis->last : place;
    *ret_weight = (int16_t)(place >> 17 & 0x7FFF);
    return (uint32_t)(place >> 32);
}

/* Between two samples, with 7 bits of fraction: 0 to 255 * 128. */
KERNEL int16_t blend_u8(uint8_t a, uint8_t b, int16_t weight)
{
    return (int16_t)((a << 7) + multiply_q15((int16_t)((b - a) * 128), weight));
}

/* Between two of these. The difference is at most 32640 either way, and the result is never outside the two. */
KERNEL int16_t blend_q7(int16_t a, int16_t b, int16_t weight)
{
    return (int16_t)(a + multiply_q15((int16_t)(b - a), weight));
}

KERNEL uint8_t round_q7(int16_t value)
{
    return (uint8_t)((value + 64) >> 7);
}

/* Where output pixel i begins and ends, in units of which an input pixel is `out` and an output pixel `in` wide; `in`
 * and `out` are the sizes with their common factors taken out. */
struct area_axis {
    uint32_t in, out;
};

KERNEL uint32_t area_first(const struct area_axis *axis, uint32_t i)
{
    return (uint32_t)((uint64_t)i * axis->in / axis->out);
}

/* Part of input pixel `at` that output pixel i covers, of axis->in in all. */
KERNEL uint32_t area_weight(const struct area_axis *axis, uint32_t i, uint32_t at)
{
    uint64_t begin = (uint64_t)i * axis->in, end = begin + axis->in;
    uint64_t low = (uint64_t)at * axis->out, high = low + axis->out;
    low = low > begin ? low : begin;
    high = high < end ? high : end;
    return high > low ? (uint32_t)(high - low) : 0;
}

__extension__ typedef unsigned __int128 uint128;

KERNEL uint64_t multiply_high(uint64_t a, uint64_t b)
{
#if defined(__CUDA_ARCH__)
    return __umul64hi(a, b);
#else
    return (uint64_t)((uint128)a * b >> 64);
#endif
}

/* sum / total rounded, halves up. `inverse` is 2^64 / total, rounded up, by less than 1. So the product is too large by
 * less than 255.5 * total / 2^64, and with total <= 2^28 that is less than the 1 / total which separates the largest
 * quotient below an integer from it. For a total of 1 there is no such inverse: 0 stands for it. */
KERNEL uint8_t area_mean(uint64_t sum, uint64_t total, uint64_t inverse)
{
    return (uint8_t)(inverse == 0 ? sum : multiply_high(sum + total / 2, inverse));
}

#endif
