/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What host and device compute alike: one sample, pixel or window at a time. C and CUDA C++.
 *
 * Integers only, unless said. Right shifts of negative numbers are arithmetic, as with every compiler used here.
 */
#ifndef SHEAF_KERNEL_ARITHMETIC_H
#define SHEAF_KERNEL_ARITHMETIC_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#define KERNEL static __device__ __forceinline__
#else
#define KERNEL static inline __attribute__((always_inline))
#define __device__
#endif

__extension__ typedef unsigned __int128 uint128;

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

/* One plane to be scaled: samples of `channels` side by side. */
struct plane_scale {
    const uint8_t *in;
    uint64_t in_stride;
    uint32_t in_width, in_height, channels, filter; /* enum sheaf_filter */
    struct bilinear_axis bilinear_x, bilinear_y;
    struct area_axis area_x, area_y;
    uint64_t total, inverse; /* of area_mean */
};

KERNEL void bilinear_pixel(const struct plane_scale *scale, uint32_t x, uint32_t y, uint8_t *out)
{
    int16_t weight_x, weight_y;
    uint32_t at_x = bilinear_place(&scale->bilinear_x, x, &weight_x);
    uint32_t at_y = bilinear_place(&scale->bilinear_y, y, &weight_y);
    const uint8_t *upper = scale->in + at_y * scale->in_stride + (uint64_t)at_x * scale->channels;
    const uint8_t *lower = upper + (weight_y ? scale->in_stride : 0);
    uint32_t right = weight_x ? scale->channels : 0;
    for (uint32_t c = 0; c < scale->channels; c++) {
        int16_t a = blend_u8(upper[c], lower[c], weight_y);
        int16_t b = blend_u8(upper[c + right], lower[c + right], weight_y);
        out[c] = round_q7(blend_q7(a, b, weight_x));
    }
}

/* Adds a part of what output pixel (x, y) covers: input rows from `row` on in steps of `step`. */
KERNEL void area_sum(const struct plane_scale *scale, uint32_t x, uint32_t y, uint32_t row, uint32_t step,
                     uint64_t *sums)
{
    uint32_t from_x = area_first(&scale->area_x, x), from_y = area_first(&scale->area_y, y), weight_x, weight_y;
    for (uint32_t at_y = from_y + row; at_y < scale->in_height && (weight_y = area_weight(&scale->area_y, y, at_y)) > 0;
         at_y += step) {
        const uint8_t *in = scale->in + at_y * scale->in_stride;
        for (uint32_t at_x = from_x; at_x < scale->in_width && (weight_x = area_weight(&scale->area_x, x, at_x)) > 0;
             at_x++)
            for (uint32_t c = 0; c < scale->channels; c++)
                sums[c] += (uint64_t)weight_y * weight_x * in[(uint64_t)at_x * scale->channels + c];
    }
}

KERNEL void area_pixel(const struct plane_scale *scale, uint32_t x, uint32_t y, uint8_t *out)
{
    uint64_t sums[4] = {0, 0, 0, 0};
    area_sum(scale, x, y, 0, 1, sums);
    for (uint32_t c = 0; c < scale->channels; c++)
        out[c] = area_mean(sums[c], scale->total, scale->inverse);
}

/* ---- turning ---- */

/* Where an output pixel's middle lies in the input, in 2^-32 pixels from the middle of its first pixel:
 * x_0 + x_x * x + x_y * y, and the same for y. */
struct turn {
    int64_t x_0, x_x, x_y, y_0, y_x, y_y;
};

KERNEL uint8_t turned_sample(const uint8_t *in, uint64_t stride, uint32_t width, uint32_t height, int64_t x, int64_t y,
                             uint8_t fill)
{
    return x >= 0 && y >= 0 && x < (int64_t)width && y < (int64_t)height ? in[(uint64_t)y * stride + (uint64_t)x]
                                                                         : fill;
}

KERNEL uint8_t turned_pixel(const uint8_t *in, uint64_t stride, uint32_t width, uint32_t height, int64_t place_x,
                            int64_t place_y, uint8_t fill)
{
    int64_t x = place_x >> 32, y = place_y >> 32;
    int16_t weight_x = (int16_t)(place_x >> 17 & 0x7FFF), weight_y = (int16_t)(place_y >> 17 & 0x7FFF);
    int16_t a = blend_u8(turned_sample(in, stride, width, height, x, y, fill),
                         turned_sample(in, stride, width, height, x, y + 1, fill), weight_y);
    int16_t b = blend_u8(turned_sample(in, stride, width, height, x + 1, y, fill),
                         turned_sample(in, stride, width, height, x + 1, y + 1, fill), weight_y);
    return round_q7(blend_q7(a, b, weight_x));
}

/* ---- tensors ---- */

/* value * scale + bias, each operation rounded to the nearest and never fused. */
KERNEL float normalise(uint8_t value, float scale, float bias)
{
#if defined(__CUDA_ARCH__)
    return __fadd_rn(__fmul_rn((float)value, scale), bias);
#else
    return (float)value * scale + bias;
#endif
}

KERNEL uint32_t bits_of_float(float value)
{
#if defined(__CUDA_ARCH__)
    return __float_as_uint(value);
#else
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
#endif
}

/* The upper half of a float32, rounded to the nearest, halves to even. Not for NaN. */
KERNEL uint16_t bf16_of_bits(uint32_t bits)
{
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/* ---- binarisation ---- */

/* Variance between the classes `<= shade` and the rest, times pixels^2 (Otsu 1979, equation 14), rounded down: (n *
 * sum_0 - n_0 * sum)^2 / (n_0 * n_1). With n <= 2^28 the dividend is below 2^124. */
KERNEL uint128 otsu_criterion(uint64_t n, uint64_t sum, uint64_t n_0, uint64_t sum_0)
{
    if (n_0 == 0 || n_0 == n)
        return 0;
    uint64_t a = n * sum_0, b = n_0 * sum, apart = a > b ? a - b : b - a;
    return (uint128)apart * apart / ((uint128)n_0 * (n - n_0));
}

/*
 * Whether a pixel is above the threshold of Sauvola and Pietikainen 2000, equation 5: mean * (1 + k * (deviation / 128
 * - 1)), with k = k_256 / 256, of a window of n pixels, their sum and sum of squares. Multiplied out, with the
 * deviation times n rounded down to an integer. In double, but exact: with n <= 127^2 all of these are integers below
 * 2^53.
 */
KERNEL int sauvola_is_paper(double pixel, double n, double sum, double squares, double k_256)
{
    double spread = floor(sqrt(n * squares - sum * sum));
    return (256 * pixel * n - (256 - k_256) * sum) * (n * 128) > k_256 * sum * spread;
}

/* ---- measures ---- */

/* The four neighbours less four times the pixel: -1020 to 1020. */
KERNEL int16_t laplacian(uint8_t up, uint8_t left, uint8_t middle, uint8_t right, uint8_t down)
{
    return (int16_t)(up + left + right + down - 4 * middle);
}

/* Sums over pixels of two pictures at the same places. */
struct ssim_sums {
    uint32_t a, b, squares, product; /* a^2 + b^2, a * b */
};

/* Of a window of 64 pixels: Wang, Bovik, Sheikh and Simoncelli 2004, equation 13, both fractions extended by 64^2, in
 * 2^-30. C1 = (0.01 * 255)^2 and C2 = (0.03 * 255)^2 become 26634 and 239708. The products are below 2^62; each is
 * rounded once to double, and so is their quotient. */
KERNEL int64_t ssim_window(const struct ssim_sums *s)
{
    int64_t ab = (int64_t)s->a * s->b, means = (int64_t)s->a * s->a + (int64_t)s->b * s->b;
    int64_t above = (2 * ab + 26634) * (2 * (64 * (int64_t)s->product - ab) + 239708);
    int64_t below = (means + 26634) * (64 * (int64_t)s->squares - means + 239708);
    return (int64_t)floor((double)above / (double)below * 1073741824.0 + 0.5);
}

/* What |a / n_a - b / n_b| is times n_a * n_b, of one bin of two histograms. */
KERNEL uint64_t bin_difference(uint32_t a, uint64_t n_a, uint32_t b, uint64_t n_b)
{
    uint64_t left = a * n_b, right = b * n_a;
    return left > right ? left - right : right - left;
}

/* From the sum of these: half of it, in 2^-16. The sum is at most 2 * n_a * n_b < 2^57. */
KERNEL uint32_t histogram_distance(uint64_t sum, uint64_t n_a, uint64_t n_b)
{
    return n_a > 0 && n_b > 0 ? (uint32_t)(((uint128)sum << 15) / ((uint128)n_a * n_b)) : 0;
}

/* ---- hashes ---- */

/* Of 9 x 8 samples. */
KERNEL uint64_t dhash_of_samples(const uint8_t *samples)
{
    uint64_t hash = 0;
    for (uint32_t y = 0; y < 8; y++)
        for (uint32_t x = 0; x < 8; x++)
            hash = hash << 1 | (samples[9 * y + x + 1] > samples[9 * y + x]);
    return hash;
}

/* cos(pi / 64 * k * (2 i + 1)) in 2^-14: the first eight rows of the cosine transform (type II) of 32 values. */
static __device__ const int16_t cosine_table[8][32] = {
    {16384, 16384, 16384, 16384, 16384, 16384, 16384, 16384, 16384, 16384, 16384, 16384, 16384, 16384, 16384, 16384,
     16384, 16384, 16384, 16384, 16384, 16384, 16384, 16384, 16384, 16384, 16384, 16384, 16384, 16384, 16384, 16384},
    {16364, 16207,  15893,  15426,  14811,  14053,  13160,  12140,  11003,  9760,  8423,
     7005,  5520,   3981,   2404,   804,    -804,   -2404,  -3981,  -5520,  -7005, -8423,
     -9760, -11003, -12140, -13160, -14053, -14811, -15426, -15893, -16207, -16364},
    {16305,  15679,  14449,  12665,  10394,  7723,   4756,   1606,   -1606,  -4756,  -7723,
     -10394, -12665, -14449, -15679, -16305, -16305, -15679, -14449, -12665, -10394, -7723,
     -4756,  -1606,  1606,   4756,   7723,   10394,  12665,  14449,  15679,  16305},
    {16207,  14811,  12140,  8423,  3981,  -804,  -5520, -9760,  -13160, -15426, -16364,
     -15893, -14053, -11003, -7005, -2404, 2404,  7005,  11003,  14053,  15893,  16364,
     15426,  13160,  9760,   5520,  804,   -3981, -8423, -12140, -14811, -16207},
    {16069, 13623, 9102, 3196, -3196, -9102, -13623, -16069, -16069, -13623, -9102, -3196, 3196, 9102, 13623, 16069,
     16069, 13623, 9102, 3196, -3196, -9102, -13623, -16069, -16069, -13623, -9102, -3196, 3196, 9102, 13623, 16069},
    {15893, 12140, 5520,  -2404, -9760, -14811, -16364, -14053, -8423,  -804,   7005,
     13160, 16207, 15426, 11003, 3981,  -3981,  -11003, -15426, -16207, -13160, -7005,
     804,   8423,  14053, 16364, 14811, 9760,   2404,   -5520,  -12140, -15893},
    {15679, 10394, 1606,  -7723,  -14449, -16305, -12665, -4756, 4756,  12665, 16305,
     14449, 7723,  -1606, -10394, -15679, -15679, -10394, -1606, 7723,  14449, 16305,
     12665, 4756,  -4756, -12665, -16305, -14449, -7723,  1606,  10394, 15679},
    {15426,  8423,   -2404,  -12140, -16364, -13160, -3981, 7005,  14811, 15893, 9760,
     -804,   -11003, -16207, -14053, -5520,  5520,   14053, 16207, 11003, 804,   -9760,
     -15893, -14811, -7005,  3981,   13160,  16364,  12140, 2404,  -8423, -15426},
};

/* Coefficient k across row y of 32 x 32 samples, in 2^-6: the sum, below 2^27, is rounded. */
KERNEL int32_t phash_row_coefficient(const uint8_t *samples, uint32_t y, uint32_t k)
{
    int32_t sum = 0;
    for (uint32_t i = 0; i < 32; i++)
        sum += (int32_t)cosine_table[k][i] * samples[32 * y + i];
    return (sum + 128) >> 8;
}

/* Coefficient k down column x of 32 rows of 8 of these. */
KERNEL int64_t phash_coefficient(const int32_t *rows, uint32_t k, uint32_t x)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < 32; i++)
        sum += (int64_t)cosine_table[k][i] * rows[8 * i + x];
    return sum;
}

/* The median lies between the 32nd and the 33rd of the 64 in order of size, each found by counting how many are below
 * it: twice a value is then compared with their sum. */
KERNEL uint64_t phash_of_coefficients(const int64_t *coefficients)
{
    int64_t middle[2] = {0, 0};
    uint64_t hash = 0;
    for (uint32_t i = 0; i < 64; i++) {
        uint32_t below = 0, same = 0;
        for (uint32_t j = 0; j < 64; j++) {
            below += coefficients[j] < coefficients[i];
            same += coefficients[j] == coefficients[i];
        }
        for (uint32_t m = 0; m < 2; m++)
            if (below <= 31 + m && 31 + m < below + same)
                middle[m] = coefficients[i];
    }
    for (uint32_t i = 0; i < 64; i++)
        hash = hash << 1 | (2 * coefficients[i] > middle[0] + middle[1]);
    return hash;
}

/* ---- skew ---- */

enum { SKEW_STRIP_WIDTH = 16 };

/* How far a strip is moved at a slope of slope / 2^16, in rows; `width` of the picture. */
KERNEL int32_t skew_shift(int32_t slope, uint32_t strip, uint32_t width)
{
    int64_t from_middle = (int64_t)strip * (2 * SKEW_STRIP_WIDTH) + SKEW_STRIP_WIDTH - width;
    return (int32_t)((slope * from_middle + (1 << 16)) >> 17);
}

/* What the rounds of a search hand on. */
struct skew_search {
    int32_t middle, step; /* of the candidates */
    uint64_t level, best; /* scores at slope 0, and of `middle` after a round */
};

KERNEL void skew_begin(struct skew_search *search, int32_t step)
{
    search->middle = 0;
    search->step = step;
    search->level = search->best = 0;
}

KERNEL int32_t skew_candidate(const struct skew_search *search, uint32_t candidates, uint32_t i)
{
    return search->middle + ((int32_t)i - (int32_t)(candidates / 2)) * search->step;
}

/* Takes the best candidate as the middle of the next round, the present middle where none is better, and the first of
 * several; the next steps are a quarter. */
KERNEL void skew_choose(struct skew_search *search, const uint64_t *scores, uint32_t candidates, uint32_t round)
{
    uint32_t best = candidates / 2;
    if (round == 0)
        search->level = scores[best];
    for (uint32_t i = 0; i < candidates; i++)
        best = scores[i] > scores[best] ? i : best;
    search->best = scores[best];
    search->middle = skew_candidate(search, candidates, best);
    search->step = search->step >= 4 ? search->step / 4 : 1;
}

/* Ink of a strip in a row of the picture. */
KERNEL uint16_t skew_strip_ink(const uint8_t *row, uint32_t width, uint32_t strip, uint32_t threshold)
{
    uint32_t from = strip * SKEW_STRIP_WIDTH, to = from + SKEW_STRIP_WIDTH < width ? from + SKEW_STRIP_WIDTH : width;
    uint16_t ink = 0;
    for (uint32_t x = from; x < to; x++)
        ink = (uint16_t)(ink + (row[x] <= threshold));
    return ink;
}

#endif
