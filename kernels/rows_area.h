/* SPDX-License-Identifier: Apache-2.0 */
/* Part of rows.c: resizing to means: of 2 x 2 pixels, and of areas. */

/* ---- to half the size ---- */

/* From sample `from` on, the first of a pixel. */
KERNEL void halve_samples(const uint8_t *restrict upper, const uint8_t *restrict lower, uint32_t channels,
                          uint32_t from, uint32_t samples, uint8_t *restrict out)
{
    for (uint32_t j = from; j < samples; j += channels)
        for (uint32_t c = 0; c < channels; c++) {
            size_t at = 2 * (size_t)j + c, next = at + channels;
            out[j + c] = mean_of_four((uint16_t)(upper[at] + upper[next] + lower[at] + lower[next]));
        }
}

#if defined(__AVX512BW__)

/* Thirty-two means from sums of pairs, each row's. */
KERNEL __m256i means_of_pairs(__m512i upper, __m512i lower)
{
    __m512i sum = _mm512_add_epi16(_mm512_add_epi16(upper, lower), _mm512_set1_epi16(2));
    return _mm512_maskz_cvtepi16_epi8(~0u, _mm512_srli_epi16(sum, 2));
}

KERNEL __m512i gray_pairs(const uint8_t *row)
{
    return _mm512_maddubs_epi16(_mm512_loadu_si512(row), _mm512_set1_epi8(1));
}

static uint32_t halve_gray(const uint8_t *upper, const uint8_t *lower, uint32_t samples, uint8_t *out)
{
    uint32_t j = 0;
    for (; j + 32 <= samples; j += 32) {
        read_ahead(upper + 2 * j, 64);
        read_ahead(lower + 2 * j, 64);
        _mm256_storeu_si256((void *)(out + j), means_of_pairs(gray_pairs(upper + 2 * j), gray_pairs(lower + 2 * j)));
    }
    return j;
}

/* Sums of sixteen pixels of four bytes by pairs: eight pixels, 32 samples. */
KERNEL __m512i bgra_pairs(const uint8_t *row)
{
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    __m512i pixels = _mm512_permutexvar_epi32(even, _mm512_loadu_si512(row));
    return _mm512_add_epi16(_mm512_cvtepu8_epi16(_mm512_castsi512_si256(pixels)),
                            _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(pixels, 1)));
}

static uint32_t halve_bgra(const uint8_t *upper, const uint8_t *lower, uint32_t samples, uint8_t *out)
{
    uint32_t j = 0;
    for (; j + 32 <= samples; j += 32) {
        read_ahead(upper + 2 * j, 64);
        read_ahead(lower + 2 * j, 64);
        _mm256_storeu_si256((void *)(out + j), means_of_pairs(bgra_pairs(upper + 2 * j), bgra_pairs(lower + 2 * j)));
    }
    return j;
}

#elif defined(__AVX2__)

/* Sixteen means from sums of pairs, each row's, in 16 bits. */
KERNEL __m256i means_of_pairs(__m256i upper, __m256i lower)
{
    return _mm256_srli_epi16(_mm256_add_epi16(_mm256_add_epi16(upper, lower), _mm256_set1_epi16(2)), 2);
}

/* Sums of pairs of bytes, which are put side by side first. */
KERNEL __m256i pairs_of(const uint8_t *row, __m256i side_by_side)
{
    __m256i bytes = _mm256_shuffle_epi8(_mm256_loadu_si256((const void *)row), side_by_side);
    return _mm256_maddubs_epi16(bytes, _mm256_set1_epi8(1));
}

KERNEL uint32_t halve_even(const uint8_t *upper, const uint8_t *lower, __m128i side_by_side, uint32_t samples,
                           uint8_t *out)
{
    const __m256i order = _mm256_broadcastsi128_si256(side_by_side);
    uint32_t j = 0;
    for (; j + 32 <= samples; j += 32) {
        const uint8_t *above = upper + 2 * (size_t)j, *below = lower + 2 * (size_t)j;
        read_ahead(above, 64);
        read_ahead(below, 64);
        __m256i a = means_of_pairs(pairs_of(above, order), pairs_of(below, order));
        __m256i b = means_of_pairs(pairs_of(above + 32, order), pairs_of(below + 32, order));
        _mm256_storeu_si256((void *)(out + j), _mm256_permute4x64_epi64(_mm256_packus_epi16(a, b), 0xD8));
    }
    return j;
}

static uint32_t halve_gray(const uint8_t *upper, const uint8_t *lower, uint32_t samples, uint8_t *out)
{
    return halve_even(upper, lower, _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), samples, out);
}

static uint32_t halve_bgra(const uint8_t *upper, const uint8_t *lower, uint32_t samples, uint8_t *out)
{
    return halve_even(upper, lower, _mm_setr_epi8(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15), samples, out);
}

#else

static uint32_t halve_gray(const uint8_t *restrict upper, const uint8_t *restrict lower, uint32_t samples,
                           uint8_t *restrict out)
{
    plane_halve(upper, lower, out, samples);
    return samples;
}

static uint32_t halve_bgra(const uint8_t *upper, const uint8_t *lower, uint32_t samples, uint8_t *out)
{
    return 0;
}

#endif

#if defined(__AVX2__)

/* Sums of pairs: of pixels of three bytes from two places on, six samples each, and two of no use. */
KERNEL __m256i rgb_pairs(const uint8_t *low, const uint8_t *high)
{
    const __m128i pairs = _mm_setr_epi8(0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11, -1, -1, -1, -1);
    __m256i bytes = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const void *)low)),
                                            _mm_loadu_si128((const void *)high), 1);
    return _mm256_maddubs_epi16(_mm256_shuffle_epi8(bytes, _mm256_broadcastsi128_si256(pairs)), _mm256_set1_epi8(1));
}

/* Means of two places of two rows, in 16 bits: (sum + 2) >> 2, as a rounded multiplication. */
KERNEL __m256i rgb_means(const uint8_t *upper, const uint8_t *lower, uint32_t low, uint32_t high)
{
    __m256i sum = _mm256_add_epi16(rgb_pairs(upper + low, upper + high), rgb_pairs(lower + low, lower + high));
    return _mm256_mulhrs_epi16(sum, _mm256_set1_epi16(1 << 13));
}

/* 24 samples at a time; what is stored too much the next ones cover. */
static uint32_t halve_rgb(const uint8_t *upper, const uint8_t *lower, uint32_t samples, uint8_t *out)
{
    const __m128i close = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, -1, -1, -1, -1);
    uint32_t j = 0;
    for (; j + 28 <= samples; j += 24) {
        const uint8_t *above = upper + 2 * (size_t)j, *below = lower + 2 * (size_t)j;
        read_ahead(above, 48);
        read_ahead(below, 48);
        __m256i means = _mm256_packus_epi16(rgb_means(above, below, 0, 24), rgb_means(above, below, 12, 36));
        means = _mm256_shuffle_epi8(means, _mm256_broadcastsi128_si256(close));
        _mm_storeu_si128((void *)(out + j), _mm256_castsi256_si128(means));
        _mm_storeu_si128((void *)(out + j + 12), _mm256_extracti128_si256(means, 1));
    }
    return j;
}

#else

static uint32_t halve_rgb(const uint8_t *upper, const uint8_t *lower, uint32_t samples, uint8_t *out)
{
    return 0;
}

#endif

static void halve_rows(const uint8_t *upper, const uint8_t *lower, uint32_t channels, uint8_t *out, uint32_t samples)
{
    switch (channels) {
    case 1:
        halve_samples(upper, lower, 1, halve_gray(upper, lower, samples, out), samples, out);
        break;
    case 3:
        halve_samples(upper, lower, 3, halve_rgb(upper, lower, samples, out), samples, out);
        break;
    case 4:
        halve_samples(upper, lower, 4, halve_bgra(upper, lower, samples, out), samples, out);
        break;
    default:
        halve_samples(upper, lower, 2, 0, samples, out);
    }
}

/* ---- area ---- */

/* Up to four rows in one pass over the sums. */
#define AREA_DOWN(name, type)                                                                                          \
    static void name##_pass(const uint8_t *restrict a, uint64_t stride, const uint32_t *weights, uint32_t rows,        \
                            bool is_first, type *restrict sums, uint32_t n)                                            \
    {                                                                                                                  \
        type w0 = (type)weights[0], w1 = rows > 1 ? (type)weights[1] : 0, w2 = rows > 2 ? (type)weights[2] : 0;        \
        type w3 = rows > 3 ? (type)weights[3] : 0, keep = is_first ? 0 : 1;                                            \
        const uint8_t *restrict b = a + (rows > 1 ? stride : 0), *restrict c = b + (rows > 2 ? stride : 0);            \
        const uint8_t *restrict d = c + (rows > 3 ? stride : 0);                                                       \
        if (keep)                                                                                                      \
            for (uint32_t i = 0; i < n; i++)                                                                           \
                sums[i] = (type)(sums[i] + w0 * a[i] + w1 * b[i] + w2 * c[i] + w3 * d[i]);                             \
        else if (rows > 2)                                                                                             \
            for (uint32_t i = 0; i < n; i++)                                                                           \
                sums[i] = (type)(w0 * a[i] + w1 * b[i] + w2 * c[i] + w3 * d[i]);                                       \
        else                                                                                                           \
            for (uint32_t i = 0; i < n; i++)                                                                           \
                sums[i] = (type)(w0 * a[i] + w1 * b[i]);                                                               \
    }                                                                                                                  \
    static void name(const uint8_t *in, uint64_t stride, const uint32_t *weights, uint32_t rows, type *sums,           \
                     uint32_t n)                                                                                       \
    {                                                                                                                  \
        for (uint32_t r = 0; r < rows; r += 4)                                                                         \
            name##_pass(in + r * stride, stride, weights + r, rows - r < 4 ? rows - r : 4, r == 0, sums, n);           \
    }
AREA_DOWN(area_down, uint16_t)
AREA_DOWN(area_down_wide, uint32_t)

/* Output pixels take what is left of the input pixel `at` in turn: `left` of it, in units of scale->area_x. */
#define AREA_ACROSS(name, channels, type, sum_type)                                                                    \
    static void name##_##channels(const type *restrict sums, const struct plane_scale *scale, uint8_t *restrict out,   \
                                  uint32_t n)                                                                          \
    {                                                                                                                  \
        uint32_t at = 0, left = scale->area_x.out;                                                                     \
        for (uint32_t i = 0; i < n; i++) {                                                                             \
            sum_type sum[channels] = {0};                                                                              \
            for (uint32_t wanted = scale->area_x.in; wanted > 0;) {                                                    \
                uint32_t weight = left < wanted ? left : wanted;                                                       \
                for (uint32_t c = 0; c < channels; c++)                                                                \
                    sum[c] += (sum_type)weight * sums[(size_t)at * channels + c];                                      \
                wanted -= weight;                                                                                      \
                left -= weight;                                                                                        \
                at += left == 0;                                                                                       \
                left = left == 0 ? scale->area_x.out : left;                                                           \
            }                                                                                                          \
            for (uint32_t c = 0; c < channels; c++)                                                                    \
                out[(size_t)i * channels + c] = area_mean(sum[c], scale->total, scale->inverse);                       \
        }                                                                                                              \
    }
AREA_ACROSS(area_across, 1, uint16_t, uint32_t)
AREA_ACROSS(area_across, 2, uint16_t, uint32_t)
AREA_ACROSS(area_across, 3, uint16_t, uint32_t)
AREA_ACROSS(area_across, 4, uint16_t, uint32_t)
AREA_ACROSS(area_across_wide, 1, uint32_t, uint64_t)
AREA_ACROSS(area_across_wide, 2, uint32_t, uint64_t)
AREA_ACROSS(area_across_wide, 3, uint32_t, uint64_t)
AREA_ACROSS(area_across_wide, 4, uint32_t, uint64_t)

/* (sum + total / 2) / total in float: sums are below 2^16, so that a quotient is off by less than 2^-15, and half a
 * unit is added to the dividend, so that one that is whole is 1 / (2 * total) >= 1 / 514 above what it would be cut to.
 */
static void means_of_sums(const uint16_t *restrict sums, uint32_t total, uint8_t *restrict out, uint32_t n)
{
    float by = 1.0f / (float)total, half = (float)(total / 2) + 0.5f;
    for (uint32_t i = 0; i < n; i++)
        out[i] = (uint8_t)(int32_t)(((float)sums[i] + half) * by);
}

static void samples_add(const uint16_t *sums, const struct across *across, uint32_t taps, uint32_t from, uint32_t to,
                        uint16_t *out)
{
    for (uint32_t j = from; j < to; j++) {
        uint16_t sum = 0;
        for (uint32_t k = 0; k < taps; k++)
            sum = (uint16_t)(sum + sums[across->at[j] + k * across->channels]);
        out[j - from] = sum;
    }
}

#if defined(__AVX512BW__)

static uint32_t groups_add(const uint16_t *sums, const struct across *across, uint32_t taps, uint32_t from, uint32_t to,
                           uint16_t *out)
{
    uint32_t j = from;
    for (; j + ACROSS_GROUP <= to && across->span[j / ACROSS_GROUP] <= 128; j += ACROSS_GROUP) {
        const uint16_t *at = sums + across->base[j / ACROSS_GROUP];
        __m512i pick = _mm512_loadu_si512(across->pick + j), sum = _mm512_setzero_si512();
        for (uint32_t k = 0; k < taps; k++, at += across->channels)
            sum = _mm512_add_epi16(sum, across_pick(at, pick, across->span[j / ACROSS_GROUP] > 64));
        _mm512_storeu_si512(out + (j - from), sum);
    }
    return j;
}

#elif defined(__AVX2__)

KERNEL uint32_t windows_add(const uint16_t *sums, const struct across *across, uint32_t windows, uint32_t taps,
                            uint32_t from, uint32_t to, uint16_t *out)
{
    uint32_t j = from;
    for (; j + LANES <= to; j += LANES) {
        const uint16_t *first = sums + across->base[j / ACROSS_GROUP];
        const uint16_t *second = sums + across->base[j / ACROSS_GROUP + 1];
        __m256i pick = _mm256_loadu_si256((const void *)(across->pick + j)), sum = _mm256_setzero_si256();
        for (uint32_t k = 0; k < taps; k++, first += across->channels, second += across->channels)
            sum = _mm256_add_epi16(sum, across_pick(first, second, pick, windows));
        _mm256_storeu_si256((void *)(out + (j - from)), sum);
    }
    return j;
}

static uint32_t groups_add(const uint16_t *sums, const struct across *across, uint32_t taps, uint32_t from, uint32_t to,
                           uint16_t *out)
{
    switch ((across->span_max + 7) / 8) {
    case 1:
    case 2:
        return windows_add(sums, across, 2, taps, from, to, out);
    case 3:
        return windows_add(sums, across, 3, taps, from, to, out);
    case 4:
        return windows_add(sums, across, 4, taps, from, to, out);
    case 5:
    case ACROSS_WINDOWS_MAX:
        return windows_add(sums, across, ACROSS_WINDOWS_MAX, taps, from, to, out);
    default:
        return from;
    }
}

#else

static uint32_t groups_add(const uint16_t *sums, const struct across *across, uint32_t taps, uint32_t from, uint32_t to,
                           uint16_t *out)
{
    return from;
}

#endif

static void area_across_whole(const uint16_t *sums, const struct across *across, uint32_t taps, uint32_t total,
                              uint8_t *out)
{
    _Alignas(64) uint16_t added[RUN];
    for (uint32_t at = 0, n; at < across->samples; at += n) {
        n = across->samples - at < RUN ? across->samples - at : RUN;
        uint32_t done = groups_add(sums, across, taps, at, at + n, added);
        samples_add(sums, across, taps, done, at + n, added + (done - at));
        means_of_sums(added, total, out + at, n);
    }
}
