/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Part of rows.c: colours. They go through planes of a short run of pixels, which stay in the first cache: so taking
 * pixels apart, the arithmetic, and putting them together are simple loops each of which is vectorised.
 */

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

/* As words, whose bytes are blue, green, red, alpha from the lowest on. */
typedef uint32_t bgra_words __attribute__((aligned(1), may_alias));
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "BGRA is read as little-endian words"
#endif

static void planes_of_bgra(const uint8_t *in, struct planes *restrict planes, uint32_t n)
{
    const bgra_words *restrict words = (const bgra_words *)in;
    for (uint32_t i = 0; i < n; i++)
        planes->c[i] = (uint8_t)words[i];
    for (uint32_t i = 0; i < n; i++)
        planes->b[i] = (uint8_t)(words[i] >> 8);
    for (uint32_t i = 0; i < n; i++)
        planes->a[i] = (uint8_t)(words[i] >> 16);
}

static void rgb_of_planes(const struct planes *restrict planes, uint8_t *restrict out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        out[3 * i] = planes->a[i];
        out[3 * i + 1] = planes->b[i];
        out[3 * i + 2] = planes->c[i];
    }
}

static void bgra_of_planes(const struct planes *restrict planes, uint8_t *out, uint32_t n)
{
    bgra_words *restrict words = (bgra_words *)out;
    for (uint32_t i = 0; i < n; i++)
        words[i] = planes->c[i] | (uint32_t)planes->b[i] << 8 | (uint32_t)planes->a[i] << 16 | 0xFF000000u;
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

/* What blue, green and red of LANES / 2 pixels are worth together, with 7 bits of fraction; never negative. */
KERNEL lanes_words words_weigh(lanes_words pixels, lanes_words blue_red, lanes_words green)
{
    lanes apart = (lanes)(pixels << 7 & 0x7F807F80u), between = (lanes)(pixels >> 1 & 0x7F80u);
    lanes_words sum =
        (lanes_words)(lanes_multiply_q15(apart, (lanes)blue_red) + lanes_multiply_q15(between, (lanes)green));
    return (sum + (sum >> 16)) & 0xFFFF;
}

/* weighted_sum of each pixel, for weights that are not negative: then nothing is to be clamped. */
static void bgra_weigh(const uint8_t *in, const int16_t *weights, int16_t offset, uint8_t *out, uint32_t n)
{
    lanes_words green = (uint32_t)weights[1] - (lanes_words){0};
    lanes_words blue_red = ((uint32_t)weights[2] | (uint32_t)weights[0] << 16) - (lanes_words){0};
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        read_ahead(in + 4 * (size_t)i, 4 * LANES);
        lanes_words a = words_weigh(lanes_load_words(in + 4 * (size_t)i), blue_red, green);
        lanes_words b = words_weigh(lanes_load_words(in + 4 * (size_t)(i + LANES / 2)), blue_red, green);
        lanes_store_u8(out + i, ((lanes_of_words(a, b) + 64) >> 7) + offset);
    }
    for (const uint8_t *pixel = in + 4 * (size_t)i; i < n; i++, pixel += 4)
        out[i] = weighted_sum(pixel[2], pixel[1], pixel[0], weights, offset);
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

/* And zeros up to a multiple of LANES: what is worked on there may not overflow either. */
static void chroma_double(const int16_t *restrict in, int16_t *restrict out, uint32_t pairs)
{
    for (uint32_t i = 0; i < pairs; i++)
        out[2 * i] = out[2 * i + 1] = in[i];
    for (uint32_t i = 2 * pairs; i % LANES != 0; i++)
        out[i] = 0;
}

/* For each of n pairs. */
static void chroma_make(const struct colour *c, const uint8_t *uv, struct chroma_terms *terms, uint32_t n)
{
    _Alignas(64) int16_t u[RUN], v[RUN];
    lanes v_to_r = lanes_all(c->v_to_r), u_to_g = lanes_all(c->u_to_g);
    lanes v_to_g = lanes_all(c->v_to_g), u_to_b = lanes_all(c->u_to_b);
    chroma_split(uv, u, v, n);
    for (uint32_t i = 0; i < n; i += LANES) {
        lanes at_u = lanes_load(u + i), at_v = lanes_load(v + i);
        lanes_store(terms->r + i, lanes_multiply_q15(at_v, v_to_r));
        lanes_store(terms->g + i, lanes_multiply_q15(at_u, u_to_g) + lanes_multiply_q15(at_v, v_to_g));
        lanes_store(terms->b + i, lanes_multiply_q15(at_u, u_to_b));
    }
}

/* Each pair for two pixels. */
static void chroma_make_double(const struct colour *c, const uint8_t *uv, struct chroma_terms *terms, uint32_t pairs)
{
    struct chroma_terms half;
    chroma_make(c, uv, &half, pairs);
    chroma_double(half.r, terms->r, pairs);
    chroma_double(half.g, terms->g, pairs);
    chroma_double(half.b, terms->b, pairs);
}

/* Red, green and blue of luma and what chroma adds. */
static void planes_of_yuv(const struct colour *c, const uint8_t *in, const struct chroma_terms *terms,
                          struct planes *planes, uint32_t n)
{
    _Alignas(64) uint8_t luma[RUN];
    lanes scale = lanes_all(c->y_scale), offset = lanes_all(c->y_offset);
    memcpy(luma, in, n);
    for (uint32_t i = 0; i < n; i += LANES) {
        lanes y = lanes_multiply_q15((lanes_load_u8(luma + i) - offset) << 7, scale) + 16;
        lanes_store_clamped(planes->a + i, (y + lanes_load(terms->r + i)) >> 5);
        lanes_store_clamped(planes->b + i, (y + lanes_load(terms->g + i)) >> 5);
        lanes_store_clamped(planes->c + i, (y + lanes_load(terms->b + i)) >> 5);
    }
}

static void planes_of_nv12(const struct colour *c, const uint8_t *in, const uint8_t *uv, struct planes *planes,
                           uint32_t n)
{
    struct chroma_terms terms;
    chroma_make_double(c, uv, &terms, (n + 1) / 2);
    planes_of_yuv(c, in, &terms, planes, n);
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
            read_ahead(in, run *in_bytes);                                                                             \
            __VA_ARGS__;                                                                                               \
        }                                                                                                              \
    }

#if defined(__AVX2__) && !defined(__AVX512BW__) /* there the compiler finds better */

/* Eight pixels at a time. What is stored too much the next ones cover. */
static uint32_t bgra_to_rgb_fast(const uint8_t *in, uint8_t *out, uint32_t n)
{
    const __m128i close = _mm_setr_epi8(2, 1, 0, 6, 5, 4, 10, 9, 8, 14, 13, 12, -1, -1, -1, -1);
    uint32_t i = 0;
    for (; i + 10 <= n; i += 8, in += 32, out += 24) {
        read_ahead(in, 32);
        __m256i rgb = _mm256_shuffle_epi8(_mm256_loadu_si256((const void *)in), _mm256_broadcastsi128_si256(close));
        _mm_storeu_si128((void *)out, _mm256_castsi256_si128(rgb));
        _mm_storeu_si128((void *)(out + 12), _mm256_extracti128_si256(rgb, 1));
    }
    return i;
}

#else

static uint32_t bgra_to_rgb_fast(const uint8_t *in, uint8_t *out, uint32_t n)
{
    return 0;
}

#endif

#if defined(__AVX2__)

/* Eight pixels at a time, of which four bytes more are read. */
static uint32_t rgb_to_bgra_fast(const uint8_t *in, uint8_t *out, uint32_t n)
{
    const __m128i open = _mm_setr_epi8(2, 1, 0, -1, 5, 4, 3, -1, 8, 7, 6, -1, 11, 10, 9, -1);
    const __m256i alpha = _mm256_set1_epi32((int32_t)0xFF000000);
    uint32_t i = 0;
    for (; i + 10 <= n; i += 8, in += 24, out += 32) {
        read_ahead(in, 24);
        __m256i rgb = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)in)),
                                              _mm_loadu_si128((const void *)(in + 12)), 1);
        rgb = _mm256_shuffle_epi8(rgb, _mm256_broadcastsi128_si256(open));
        _mm256_storeu_si256((void *)out, _mm256_or_si256(rgb, alpha));
    }
    return i;
}

#else

static uint32_t rgb_to_bgra_fast(const uint8_t *in, uint8_t *out, uint32_t n)
{
    return 0;
}

#endif

static void bgra_to_rgb(const struct colour *c, const uint8_t *restrict in, const uint8_t *uv, uint8_t *restrict out,
                        uint32_t n)
{
    for (size_t i = bgra_to_rgb_fast(in, out, n); i < n; i++) {
        out[3 * i] = in[4 * i + 2];
        out[3 * i + 1] = in[4 * i + 1];
        out[3 * i + 2] = in[4 * i];
    }
}

static void rgb_to_bgra(const struct colour *c, const uint8_t *restrict in, const uint8_t *uv, uint8_t *out, uint32_t n)
{
    bgra_words *restrict words = (bgra_words *)out;
    for (size_t i = rgb_to_bgra_fast(in, out, n); i < n; i++)
        words[i] = in[3 * i + 2] | (uint32_t)in[3 * i + 1] << 8 | (uint32_t)in[3 * i] << 16 | 0xFF000000u;
}

static void gray_to_rgb(const struct colour *c, const uint8_t *restrict in, const uint8_t *uv, uint8_t *restrict out,
                        uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        out[3ull * i] = out[3ull * i + 1] = out[3ull * i + 2] = in[i];
}

static void gray_to_bgra(const struct colour *c, const uint8_t *restrict in, const uint8_t *uv, uint8_t *out,
                         uint32_t n)
{
    bgra_words *restrict words = (bgra_words *)out;
    for (uint32_t i = 0; i < n; i++)
        words[i] = in[i] * 0x010101u | 0xFF000000u;
}

CONVERT_ROW(rgb_to_gray, 3, 1, planes_of_rgb(in, &planes, run); planes_weigh(&planes, c->luma, 0, plane, run);
            memcpy(out, plane, run))
CONVERT_ROW(nv12_to_rgb, 1, 3, planes_of_nv12(c, in, uv, &planes, run); rgb_of_planes(&planes, out, run))
CONVERT_ROW(nv12_to_bgra, 1, 4, planes_of_nv12(c, in, uv, &planes, run); bgra_of_planes(&planes, out, run))
CONVERT_ROW(rgb_to_luma, 3, 1, planes_of_rgb(in, &planes, run); planes_weigh(&planes, c->to_y, c->y_offset, plane, run);
            memcpy(out, plane, run))

static void bgra_to_gray(const struct colour *c, const uint8_t *in, const uint8_t *uv, uint8_t *out, uint32_t n)
{
    bgra_weigh(in, c->luma, 0, out, n);
}

static void bgra_to_luma(const struct colour *c, const uint8_t *in, const uint8_t *uv, uint8_t *out, uint32_t n)
{
    bgra_weigh(in, c->to_y, c->y_offset, out, n);
}

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
