/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of the host. KERNEL_ROWS is the name of the table that this compilation makes, KERNEL_ROWS_TEXT what people
 * read. Colours go through planes of a short run of pixels, which stay in the first cache: so taking pixels apart, the
 * arithmetic and putting them together are three simple loops each of which is vectorised.
 */
#include "kernels/rows.h"

#include <string.h>

#include "kernels/lanes.h"

enum { RUN = 512 }; /* pixels; a multiple of LANES */

/* ---- taking pixels apart and putting them together ---- */

struct planes {
    _Alignas(64) uint8_t a[RUN]; /* red, or luma */
    _Alignas(64) uint8_t b[RUN]; /* green */
    _Alignas(64) uint8_t c[RUN]; /* blue */
};

static void planes_of_rgb(const uint8_t *restrict in, struct planes *restrict planes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        planes->a[i] = in[3 * i];
        planes->b[i] = in[3 * i + 1];
        planes->c[i] = in[3 * i + 2];
    }
}

static void planes_of_bgra(const uint8_t *restrict in, struct planes *restrict planes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        planes->c[i] = in[4 * i];
        planes->b[i] = in[4 * i + 1];
        planes->a[i] = in[4 * i + 2];
    }
}

static void rgb_of_planes(const struct planes *restrict planes, uint8_t *restrict out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        out[3 * i] = planes->a[i];
        out[3 * i + 1] = planes->b[i];
        out[3 * i + 2] = planes->c[i];
    }
}

static void bgra_of_planes(const struct planes *restrict planes, uint8_t *restrict out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        out[4 * i] = planes->c[i];
        out[4 * i + 1] = planes->b[i];
        out[4 * i + 2] = planes->a[i];
        out[4 * i + 3] = 255;
    }
}

/* ---- arithmetic on planes ---- */

/* weighted_sum of each pixel. The planes are worked on to a multiple of LANES, whatever stands there. */
static void planes_weigh(const struct planes *planes, const int16_t *weights, int16_t offset, uint8_t *out, uint32_t n)
{
    lanes a = lanes_all(weights[0]), b = lanes_all(weights[1]), c = lanes_all(weights[2]);
    for (uint32_t i = 0; i < n; i += LANES) {
        lanes sum = lanes_multiply_q15(lanes_load_u8(planes->a + i) << 7, a) +
                    lanes_multiply_q15(lanes_load_u8(planes->b + i) << 7, b) +
                    lanes_multiply_q15(lanes_load_u8(planes->c + i) << 7, c) + 64;
        lanes_store_clamped(out + i, (sum >> 7) + offset);
    }
}

/* What chroma adds to red, green and blue, with 5 bits of fraction, for runs of pixels. */
struct chroma_terms {
    _Alignas(64) int16_t r[RUN];
    _Alignas(64) int16_t g[RUN];
    _Alignas(64) int16_t b[RUN];
};

static void chroma_split(const uint8_t *restrict uv, int16_t *restrict u, int16_t *restrict v, uint32_t pairs)
{
    for (uint32_t i = 0; i < pairs; i++) {
        u[i] = (int16_t)((uv[2 * i] - 128) * 256);
        v[i] = (int16_t)((uv[2 * i + 1] - 128) * 256);
    }
}

static void chroma_double(const int16_t *restrict in, int16_t *restrict out, uint32_t pairs)
{
    for (uint32_t i = 0; i < pairs; i++)
        out[2 * i] = out[2 * i + 1] = in[i];
}

static void chroma_make(const struct colour *c, const uint8_t *uv, struct chroma_terms *terms, uint32_t pairs)
{
    _Alignas(64) int16_t u[RUN / 2], v[RUN / 2], r[RUN / 2], g[RUN / 2], b[RUN / 2];
    lanes v_to_r = lanes_all(c->v_to_r), u_to_g = lanes_all(c->u_to_g);
    lanes v_to_g = lanes_all(c->v_to_g), u_to_b = lanes_all(c->u_to_b);
    chroma_split(uv, u, v, pairs);
    for (uint32_t i = 0; i < pairs; i += LANES) {
        lanes at_u = lanes_load(u + i), at_v = lanes_load(v + i);
        lanes_store(r + i, lanes_multiply_q15(at_v, v_to_r));
        lanes_store(g + i, lanes_multiply_q15(at_u, u_to_g) + lanes_multiply_q15(at_v, v_to_g));
        lanes_store(b + i, lanes_multiply_q15(at_u, u_to_b));
    }
    chroma_double(r, terms->r, pairs);
    chroma_double(g, terms->g, pairs);
    chroma_double(b, terms->b, pairs);
}

/* Red, green and blue of luma and what chroma adds. */
static void planes_of_yuv(const struct colour *c, const uint8_t *in, const uint8_t *uv, struct planes *planes,
                          uint32_t n)
{
    struct chroma_terms terms;
    _Alignas(64) uint8_t luma[RUN];
    lanes scale = lanes_all(c->y_scale), offset = lanes_all(c->y_offset);
    memcpy(luma, in, n);
    chroma_make(c, uv, &terms, (n + 1) / 2);
    for (uint32_t i = 0; i < n; i += LANES) {
        lanes y = lanes_multiply_q15((lanes_load_u8(luma + i) - offset) << 7, scale) + 16;
        lanes_store_clamped(planes->a + i, (y + lanes_load(terms.r + i)) >> 5);
        lanes_store_clamped(planes->b + i, (y + lanes_load(terms.g + i)) >> 5);
        lanes_store_clamped(planes->c + i, (y + lanes_load(terms.b + i)) >> 5);
    }
}

/* ---- rows of pixels to other formats ---- */

#define CONVERT_ROW(name, in_bytes, out_bytes, ...)                                                                    \
    static void name(const struct colour *c, const uint8_t *in, const uint8_t *uv, uint8_t *out, uint32_t n)           \
    {                                                                                                                  \
        _Alignas(64) uint8_t plane[RUN];                                                                               \
        struct planes planes;                                                                                          \
        (void)planes, (void)plane, (void)c, (void)uv;                                                                  \
        for (uint32_t at = 0, run; at < n;                                                                             \
             at += run, in += run * in_bytes, uv += uv ? run : 0, out += run * out_bytes) {                            \
            run = n - at < RUN ? n - at : RUN;                                                                         \
            __VA_ARGS__;                                                                                               \
        }                                                                                                              \
    }

static void bgra_to_rgb(const struct colour *c, const uint8_t *restrict in, const uint8_t *uv, uint8_t *restrict out,
                        uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        out[3ull * i] = in[4ull * i + 2];
        out[3ull * i + 1] = in[4ull * i + 1];
        out[3ull * i + 2] = in[4ull * i];
    }
}

static void rgb_to_bgra(const struct colour *c, const uint8_t *restrict in, const uint8_t *uv, uint8_t *restrict out,
                        uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        out[4ull * i] = in[3ull * i + 2];
        out[4ull * i + 1] = in[3ull * i + 1];
        out[4ull * i + 2] = in[3ull * i];
        out[4ull * i + 3] = 255;
    }
}

static void gray_to_rgb(const struct colour *c, const uint8_t *restrict in, const uint8_t *uv, uint8_t *restrict out,
                        uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        out[3ull * i] = out[3ull * i + 1] = out[3ull * i + 2] = in[i];
}

static void gray_to_bgra(const struct colour *c, const uint8_t *restrict in, const uint8_t *uv, uint8_t *restrict out,
                         uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        out[4ull * i] = out[4ull * i + 1] = out[4ull * i + 2] = in[i];
        out[4ull * i + 3] = 255;
    }
}

CONVERT_ROW(rgb_to_gray, 3, 1, planes_of_rgb(in, &planes, run); planes_weigh(&planes, c->luma, 0, plane, run);
            memcpy(out, plane, run))
CONVERT_ROW(bgra_to_gray, 4, 1, planes_of_bgra(in, &planes, run); planes_weigh(&planes, c->luma, 0, plane, run);
            memcpy(out, plane, run))
CONVERT_ROW(nv12_to_rgb, 1, 3, planes_of_yuv(c, in, uv, &planes, run); rgb_of_planes(&planes, out, run))
CONVERT_ROW(nv12_to_bgra, 1, 4, planes_of_yuv(c, in, uv, &planes, run); bgra_of_planes(&planes, out, run))
CONVERT_ROW(rgb_to_luma, 3, 1, planes_of_rgb(in, &planes, run); planes_weigh(&planes, c->to_y, c->y_offset, plane, run);
            memcpy(out, plane, run))
CONVERT_ROW(bgra_to_luma, 4, 1, planes_of_bgra(in, &planes, run);
            planes_weigh(&planes, c->to_y, c->y_offset, plane, run); memcpy(out, plane, run))

static void nv12_to_gray(const struct colour *colour, const uint8_t *restrict in, const uint8_t *uv,
                         uint8_t *restrict out, uint32_t n)
{
    const struct colour c = *colour;
    for (uint32_t i = 0; i < n; i++)
        out[i] = gray_of_yuv(&c, in[i]);
}

static void gray_to_luma(const struct colour *colour, const uint8_t *restrict in, const uint8_t *uv,
                         uint8_t *restrict out, uint32_t n)
{
    const struct colour c = *colour;
    for (uint32_t i = 0; i < n; i++)
        out[i] = luma_of_rgb(&c, in[i], in[i], in[i]);
}

/* ---- chroma of two rows ---- */

/* Means of 2 x 2 pixels of two rows of planes; `pairs` of them, all pixels there. */
static void plane_halve(const uint8_t *restrict upper, const uint8_t *restrict lower, uint8_t *restrict out,
                        uint32_t pairs)
{
    for (uint32_t i = 0; i < pairs; i++)
        out[i] = mean_of_four((uint16_t)(upper[2 * i] + upper[2 * i + 1] + lower[2 * i] + lower[2 * i + 1]));
}

static void chroma_join(const uint8_t *restrict u, const uint8_t *restrict v, uint8_t *restrict out, uint32_t pairs)
{
    for (uint32_t i = 0; i < pairs; i++) {
        out[2 * i] = u[i];
        out[2 * i + 1] = v[i];
    }
}

/* A pixel that is missing at the end of a row is the last one. */
static void planes_make_even(struct planes *planes, uint32_t n)
{
    if (n & 1) {
        planes->a[n] = planes->a[n - 1];
        planes->b[n] = planes->b[n - 1];
        planes->c[n] = planes->c[n - 1];
    }
}

static void chroma_of_planes(const struct colour *c, const struct planes *upper, const struct planes *lower,
                             uint8_t *out, uint32_t pairs)
{
    struct planes mean;
    _Alignas(64) uint8_t u[RUN], v[RUN];
    plane_halve(upper->a, lower->a, mean.a, pairs);
    plane_halve(upper->b, lower->b, mean.b, pairs);
    plane_halve(upper->c, lower->c, mean.c, pairs);
    planes_weigh(&mean, c->to_u, 128, u, pairs);
    planes_weigh(&mean, c->to_v, 128, v, pairs);
    chroma_join(u, v, out, pairs);
}

#define CHROMA_ROW(name, in_bytes, split)                                                                              \
    static void name(const struct colour *c, const uint8_t *in, const uint8_t *more, uint8_t *out, uint32_t n)         \
    {                                                                                                                  \
        struct planes upper, lower;                                                                                    \
        for (uint32_t at = 0, run; at < n; at += run, in += run * in_bytes, more += run * in_bytes, out += run) {      \
            run = n - at < RUN ? n - at : RUN;                                                                         \
            split(in, &upper, run);                                                                                    \
            split(more, &lower, run);                                                                                  \
            planes_make_even(&upper, run);                                                                             \
            planes_make_even(&lower, run);                                                                             \
            chroma_of_planes(c, &upper, &lower, out, (run + 1) / 2);                                                   \
        }                                                                                                              \
    }

CHROMA_ROW(rgb_chroma, 3, planes_of_rgb)
CHROMA_ROW(bgra_chroma, 4, planes_of_bgra)

static void gray_chroma(const struct colour *c, const uint8_t *in, const uint8_t *more, uint8_t *out, uint32_t n)
{
    memset(out, 128, ((size_t)n + 1) / 2 * 2);
}

/* ---- resizing ---- */

static void blend_rows(const uint8_t *restrict a, const uint8_t *restrict b, int16_t weight, int16_t *restrict out,
                       uint32_t n)
{
    lanes by = lanes_all(weight);
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        lanes from = lanes_load_u8(a + i), to = lanes_load_u8(b + i);
        lanes_store(out + i, (from << 7) + lanes_multiply_q15((to - from) << 7, by));
    }
    for (; i < n; i++)
        out[i] = blend_u8(a[i], b[i], weight);
}

/* The samples of a pixel and of the one behind it lie together: for each channel one load of both would need a gather,
 * so the loop is over pixels and its body over channels. */
#define BLEND_ACROSS(channels)                                                                                         \
    static void blend_across_##channels(const int16_t *restrict row, const uint32_t *restrict at,                      \
                                        const int16_t *restrict weight, uint8_t *restrict out, uint32_t n)             \
    {                                                                                                                  \
        for (uint32_t i = 0; i < n; i++) {                                                                             \
            const int16_t *from = (const int16_t *)(const void *)((const char *)row + at[i]);                          \
            for (uint32_t c = 0; c < channels; c++)                                                                    \
                out[i * channels + c] = round_q7(blend_q7(from[c], from[c + channels], weight[i]));                    \
        }                                                                                                              \
    }
BLEND_ACROSS(1)
BLEND_ACROSS(2)
BLEND_ACROSS(3)
BLEND_ACROSS(4)

static void area_add(const uint8_t *restrict row, uint32_t weight, bool is_first, uint32_t *restrict sums, uint32_t n)
{
    if (is_first)
        for (uint32_t i = 0; i < n; i++)
            sums[i] = weight * row[i];
    else
        for (uint32_t i = 0; i < n; i++)
            sums[i] += weight * row[i];
}

/* Output pixels take what is left of the input pixel `at` in turn: `left` of it, in units of args->x. */
#define AREA_ACROSS(channels)                                                                                          \
    static void area_across_##channels(const uint32_t *restrict sums, const struct area_args *args,                    \
                                       uint8_t *restrict out)                                                          \
    {                                                                                                                  \
        uint32_t at = 0, left = args->x.out;                                                                           \
        for (uint32_t i = 0; i < args->width; i++) {                                                                   \
            uint64_t sum[channels] = {0};                                                                              \
            for (uint32_t wanted = args->x.in; wanted > 0;) {                                                          \
                uint32_t weight = left < wanted ? left : wanted;                                                       \
                for (uint32_t c = 0; c < channels; c++)                                                                \
                    sum[c] += (uint64_t)weight * sums[at * channels + c];                                              \
                wanted -= weight;                                                                                      \
                left -= weight;                                                                                        \
                at += left == 0;                                                                                       \
                left = left == 0 ? args->x.out : left;                                                                 \
            }                                                                                                          \
            for (uint32_t c = 0; c < channels; c++)                                                                    \
                out[i * channels + c] = area_mean(sum[c], args->total, args->inverse);                                 \
        }                                                                                                              \
    }
AREA_ACROSS(1)
AREA_ACROSS(2)
AREA_ACROSS(3)
AREA_ACROSS(4)

const struct kernel_rows KERNEL_ROWS = {
    .name = KERNEL_ROWS_TEXT,
    .convert =
        {
            [SHEAF_IMAGE_GRAY] = {NULL, NULL, gray_to_rgb, gray_to_bgra, gray_to_luma},
            [SHEAF_IMAGE_RGB] = {NULL, rgb_to_gray, NULL, rgb_to_bgra, rgb_to_luma},
            [SHEAF_IMAGE_BGRA] = {NULL, bgra_to_gray, bgra_to_rgb, NULL, bgra_to_luma},
            [SHEAF_IMAGE_NV12] = {NULL, nv12_to_gray, nv12_to_rgb, nv12_to_bgra, NULL},
        },
    .chroma = {NULL, gray_chroma, rgb_chroma, bgra_chroma},
    .blend_rows = blend_rows,
    .blend_across = {NULL, blend_across_1, blend_across_2, blend_across_3, blend_across_4},
    .area_add = area_add,
    .area_across = {NULL, area_across_1, area_across_2, area_across_3, area_across_4},
};
