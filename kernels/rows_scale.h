/* SPDX-License-Identifier: Apache-2.0 */
/* Part of rows.c: resizing, turning, tensors. */

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

static void blend_rows_round(const uint8_t *restrict a, const uint8_t *restrict b, int16_t weight,
                             uint8_t *restrict out, uint32_t n)
{
    lanes by = lanes_all(weight);
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        lanes from = lanes_load_u8(a + i), to = lanes_load_u8(b + i);
        lanes_store_u8(out + i, ((from << 7) + lanes_multiply_q15((to - from) << 7, by) + 64) >> 7);
    }
    for (; i < n; i++)
        out[i] = round_q7(blend_u8(a[i], b[i], weight));
}

#if defined(__AVX2__) && !defined(__AVX512BW__)

/* Eight words of 0 to 255 as bytes. */
KERNEL void bytes_of_words(uint8_t *to, __m256i words)
{
    __m256i bytes = _mm256_packus_epi32(words, words);
    bytes = _mm256_packus_epi16(bytes, bytes);
    int32_t low = _mm256_cvtsi256_si32(bytes), high = _mm_cvtsi128_si32(_mm256_extracti128_si256(bytes, 1));
    memcpy(to, &low, 4);
    memcpy(to + 4, &high, 4);
}

#endif

#if defined(__AVX512BW__)

/* ACROSS_GROUP of the 128 samples from `from` on; of the first 64 where the group reaches no further. */
KERNEL __m512i across_pick(const void *from, __m512i pick, bool is_wide)
{
    const char *at = from;
    __m512i low = _mm512_permutex2var_epi16(_mm512_loadu_si512(at), pick, _mm512_loadu_si512(at + 64));
    if (!is_wide)
        return low;
    __m512i high = _mm512_permutex2var_epi16(_mm512_loadu_si512(at + 128), pick, _mm512_loadu_si512(at + 192));
    return _mm512_mask_mov_epi16(low, _mm512_test_epi16_mask(pick, _mm512_set1_epi16(64)), high);
}

static void group_blend(const int16_t *row, const struct across *across, uint32_t group, uint8_t *out)
{
    uint32_t j = group * ACROSS_GROUP;
    const int16_t *from = row + across->base[group];
    bool is_wide = across->span[group] > 64;
    __m512i pick = _mm512_loadu_si512(across->pick + j);
    lanes a = (lanes)across_pick(from, pick, is_wide), b = (lanes)across_pick(from + across->channels, pick, is_wide);
    lanes_store_u8(out, (a + lanes_multiply_q15(b - a, lanes_load(across->weight + j)) + 64) >> 7);
}

#endif

static void samples_blend(const int16_t *row, const struct across *across, uint32_t from, uint32_t to, uint8_t *out)
{
    for (uint32_t j = from; j < to; j++)
        out[j] = round_q7(blend_q7(row[across->at[j]], row[across->at[j] + across->channels], across->weight[j]));
}

#if defined(__AVX512BW__)

static uint32_t across_fast(const int16_t *row, const struct across *across, uint8_t *out)
{
    uint32_t done = 0;
    for (; done + ACROSS_GROUP <= across->samples; done += ACROSS_GROUP)
        if (across->span[done / ACROSS_GROUP] <= 128)
            group_blend(row, across, done / ACROSS_GROUP, out + done);
        else
            samples_blend(row, across, done, done + ACROSS_GROUP, out);
    return done;
}

#elif defined(__AVX2__)

/* Gray: a sample and the next are one word. */
static uint32_t across_gray(const int16_t *row, const struct across *across, uint8_t *out)
{
    const __m256i half = _mm256_set1_epi32(64);
    uint32_t j = 0;
    for (; j + 8 <= across->samples; j += 8) {
        __m256i at = _mm256_loadu_si256((const void *)(across->at + j));
        __m256i a = _mm256_i32gather_epi32((const int *)(const void *)row, at, 2), b = _mm256_srli_epi32(a, 16);
        __m256i weight = _mm256_cvtepi16_epi32(_mm_loadu_si128((const void *)(across->weight + j)));
        a = _mm256_add_epi16(a, _mm256_mulhrs_epi16(_mm256_sub_epi16(b, a), weight));
        a = _mm256_and_si256(_mm256_add_epi16(a, half), _mm256_set1_epi32(0x7FFF));
        bytes_of_words(out + j, _mm256_srli_epi32(a, 7));
    }
    return j;
}

/* A pixel of three or four samples at a time; what is too much the next one covers. */
static uint32_t across_pixels(const int16_t *row, const struct across *across, uint8_t *out)
{
    const __m128i half = _mm_set1_epi16(64);
    uint32_t channels = across->channels, j = 0;
    for (; j + 4 < across->samples; j += channels) {
        const int16_t *from = row + across->at[j];
        __m128i a = _mm_loadl_epi64((const void *)from), b = _mm_loadl_epi64((const void *)(from + channels));
        a = _mm_add_epi16(a, _mm_mulhrs_epi16(_mm_sub_epi16(b, a), _mm_set1_epi16(across->weight[j])));
        a = _mm_srli_epi16(_mm_add_epi16(a, half), 7);
        int32_t pixel = _mm_cvtsi128_si32(_mm_packus_epi16(a, a));
        memcpy(out + j, &pixel, 4);
    }
    return j;
}

static uint32_t across_fast(const int16_t *row, const struct across *across, uint8_t *out)
{
    return across->channels == 1 ? across_gray(row, across, out) : across_pixels(row, across, out);
}

#else

static uint32_t across_fast(const int16_t *row, const struct across *across, uint8_t *out)
{
    return 0;
}

#endif

static void blend_across(const int16_t *row, const struct across *across, uint8_t *out)
{
    samples_blend(row, across, across_fast(row, across, out), across->samples, out);
}

/* ---- from two rows at once ---- */

#if defined(__AVX512BW__)

/* Sixteen words, of which the lower halves count, as samples with 7 bits of fraction. */
KERNEL __m512i words_blend(__m512i a, __m512i b, __m512i weight)
{
    return _mm512_add_epi16(a, _mm512_mulhrs_epi16(_mm512_sub_epi16(b, a), weight));
}

/* Sixteen gray pixels, each between four: `upper` and `lower` begin with those of one row. */
KERNEL __m128i words_between(__m512i upper, __m512i lower, __m512i weight_x, __m512i weight_y)
{
    const __m512i byte = _mm512_set1_epi32(0xFF);
    __m512i a = _mm512_slli_epi32(_mm512_and_si512(upper, byte), 7);
    __m512i b = _mm512_slli_epi32(_mm512_and_si512(_mm512_srli_epi32(upper, 8), byte), 7);
    __m512i c = _mm512_slli_epi32(_mm512_and_si512(lower, byte), 7);
    __m512i d = _mm512_slli_epi32(_mm512_and_si512(_mm512_srli_epi32(lower, 8), byte), 7);
    __m512i value = words_blend(words_blend(a, c, weight_y), words_blend(b, d, weight_y), weight_x);
    value = _mm512_srli_epi32(_mm512_add_epi32(value, _mm512_set1_epi32(64)), 7);
    return _mm512_maskz_cvtepi32_epi8(0xFFFF, value);
}

static uint32_t sparse_gray_fast(const uint8_t *upper, const uint8_t *lower, uint32_t row_bytes, int16_t weight,
                                 const struct across *across, uint8_t *out)
{
    uint32_t j = 0;
    const __m512i weight_y = _mm512_set1_epi32(weight), zero = _mm512_setzero_si512();
    for (; j + 16 <= across->samples && across->at[j + 15] + 4 <= row_bytes; j += 16) {
        __m512i at = _mm512_loadu_si512(across->at + j);
        __m512i weight_x = _mm512_cvtepi16_epi32(_mm256_loadu_si256((const void *)(across->weight + j)));
        __m512i above = _mm512_mask_i32gather_epi32(zero, 0xFFFF, at, upper, 1);
        __m512i below = _mm512_mask_i32gather_epi32(zero, 0xFFFF, at, lower, 1);
        _mm_storeu_si128((void *)(out + j), words_between(above, below, weight_x, weight_y));
    }
    return j;
}

#elif defined(__AVX2__)

/* Eight words, of which the lower halves count, as samples with 7 bits of fraction. */
KERNEL __m256i words_blend(__m256i a, __m256i b, __m256i weight)
{
    return _mm256_add_epi16(a, _mm256_mulhrs_epi16(_mm256_sub_epi16(b, a), weight));
}

static uint32_t sparse_gray_fast(const uint8_t *upper, const uint8_t *lower, uint32_t row_bytes, int16_t weight,
                                 const struct across *across, uint8_t *out)
{
    uint32_t j = 0;
    const __m256i weight_y = _mm256_set1_epi32(weight), byte = _mm256_set1_epi32(0xFF), half = _mm256_set1_epi32(64);
    for (; j + 8 <= across->samples && across->at[j + 7] + 4 <= row_bytes; j += 8) {
        __m256i at = _mm256_loadu_si256((const void *)(across->at + j));
        __m256i weight_x = _mm256_cvtepi16_epi32(_mm_loadu_si128((const void *)(across->weight + j)));
        __m256i above = _mm256_i32gather_epi32((const int *)(const void *)upper, at, 1);
        __m256i below = _mm256_i32gather_epi32((const int *)(const void *)lower, at, 1);
        __m256i a = _mm256_slli_epi32(_mm256_and_si256(above, byte), 7);
        __m256i b = _mm256_slli_epi32(_mm256_and_si256(_mm256_srli_epi32(above, 8), byte), 7);
        __m256i c = _mm256_slli_epi32(_mm256_and_si256(below, byte), 7);
        __m256i d = _mm256_slli_epi32(_mm256_and_si256(_mm256_srli_epi32(below, 8), byte), 7);
        __m256i value = words_blend(words_blend(a, c, weight_y), words_blend(b, d, weight_y), weight_x);
        bytes_of_words(out + j, _mm256_srli_epi32(_mm256_add_epi32(value, half), 7));
    }
    return j;
}

#else

static uint32_t sparse_gray_fast(const uint8_t *upper, const uint8_t *lower, uint32_t row_bytes, int16_t weight,
                                 const struct across *across, uint8_t *out)
{
    return 0;
}

#endif

/* Pixel j / channels, sample by sample. */
static void sparse_pixel(const uint8_t *upper, const uint8_t *lower, int16_t weight, const struct across *across,
                         uint32_t j, uint8_t *out)
{
    uint32_t at = across->at[j], next = at + (across->weight[j] ? across->channels : 0);
    for (uint32_t c = 0; c < across->channels; c++)
        out[j + c] = round_q7(blend_q7(blend_u8(upper[at + c], lower[at + c], weight),
                                       blend_u8(upper[next + c], lower[next + c], weight), across->weight[j]));
}

#if defined(__SSE4_1__)

/* A pixel of up to four samples between four, of eight bytes of two rows: in those are the pixel and the next. */
#define PIXEL_BETWEEN(channels)                                                                                        \
    static uint32_t sparse_fast_##channels(const uint8_t *upper, const uint8_t *lower, uint32_t row_bytes,             \
                                           int16_t weight, const struct across *across, uint8_t *out)                  \
    {                                                                                                                  \
        const __m128i weight_y = _mm_set1_epi16(weight), half = _mm_set1_epi16(64);                                    \
        uint32_t j = 0;                                                                                                \
        for (; j + 4 < across->samples && across->at[j] + 8 <= row_bytes; j += channels) {                             \
            __m128i a = _mm_cvtepu8_epi16(_mm_loadl_epi64((const void *)(upper + across->at[j])));                     \
            __m128i b = _mm_cvtepu8_epi16(_mm_loadl_epi64((const void *)(lower + across->at[j])));                     \
            __m128i weight_x = _mm_set1_epi16(across->weight[j]);                                                      \
            b = _mm_slli_epi16(_mm_sub_epi16(b, a), 7);                                                                \
            a = _mm_add_epi16(_mm_slli_epi16(a, 7), _mm_mulhrs_epi16(b, weight_y));                                    \
            b = _mm_sub_epi16(_mm_srli_si128(a, 2 * channels), a);                                                     \
            a = _mm_add_epi16(_mm_add_epi16(a, half), _mm_mulhrs_epi16(b, weight_x));                                  \
            int32_t pixel = _mm_cvtsi128_si32(_mm_packus_epi16(_mm_srli_epi16(a, 7), a));                              \
            memcpy(out + j, &pixel, 4); /* what is too much the next pixel covers */                                   \
        }                                                                                                              \
        return j;                                                                                                      \
    }
PIXEL_BETWEEN(2)
PIXEL_BETWEEN(3)
PIXEL_BETWEEN(4)

static uint32_t sparse_fast(const uint8_t *upper, const uint8_t *lower, uint32_t row_bytes, int16_t weight,
                            const struct across *across, uint8_t *out)
{
    if (across->channels == 1)
        return sparse_gray_fast(upper, lower, row_bytes, weight, across, out);
    if (across->channels == 2)
        return sparse_fast_2(upper, lower, row_bytes, weight, across, out);
    return across->channels == 3 ? sparse_fast_3(upper, lower, row_bytes, weight, across, out)
                                 : sparse_fast_4(upper, lower, row_bytes, weight, across, out);
}

#else

static uint32_t sparse_fast(const uint8_t *upper, const uint8_t *lower, uint32_t row_bytes, int16_t weight,
                            const struct across *across, uint8_t *out)
{
    return sparse_gray_fast(upper, lower, row_bytes, weight, across, out);
}

#endif

static void blend_sparse(const uint8_t *upper, const uint8_t *lower, uint32_t row_bytes, int16_t weight,
                         const struct across *across, uint8_t *out)
{
    for (uint32_t j = sparse_fast(upper, lower, row_bytes, weight, across, out); j < across->samples;
         j += across->channels)
        sparse_pixel(upper, lower, weight, across, j, out);
}

/* ---- to half the size ---- */

static void halve_samples(const uint8_t *upper, const uint8_t *lower, uint32_t channels, uint32_t from,
                          uint32_t samples, uint8_t *out)
{
    for (uint32_t j = from; j < samples; j++) {
        uint32_t at = j / channels * 2 * channels + j % channels, next = at + channels;
        out[j] = mean_of_four((uint16_t)(upper[at] + upper[next] + lower[at] + lower[next]));
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
    for (; j + 32 <= samples; j += 32)
        _mm256_storeu_si256((void *)(out + j), means_of_pairs(gray_pairs(upper + 2 * j), gray_pairs(lower + 2 * j)));
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
    for (; j + 32 <= samples; j += 32)
        _mm256_storeu_si256((void *)(out + j), means_of_pairs(bgra_pairs(upper + 2 * j), bgra_pairs(lower + 2 * j)));
    return j;
}

#elif defined(__AVX2__)

/* Sixteen means from sums of pairs, each row's. */
KERNEL void means_of_pairs(uint8_t *to, __m256i upper, __m256i lower)
{
    __m256i sum = _mm256_add_epi16(_mm256_add_epi16(upper, lower), _mm256_set1_epi16(2));
    lanes_store_u8(to, (lanes)_mm256_srli_epi16(sum, 2));
}

KERNEL __m256i gray_pairs(const uint8_t *row)
{
    return _mm256_maddubs_epi16(_mm256_loadu_si256((const void *)row), _mm256_set1_epi8(1));
}

static uint32_t halve_gray(const uint8_t *upper, const uint8_t *lower, uint32_t samples, uint8_t *out)
{
    uint32_t j = 0;
    for (; j + 16 <= samples; j += 16)
        means_of_pairs(out + j, gray_pairs(upper + 2 * j), gray_pairs(lower + 2 * j));
    return j;
}

/* Sums of eight pixels of four bytes by pairs: four pixels, 16 samples. */
KERNEL __m256i bgra_pairs(const uint8_t *row)
{
    const __m256i even = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
    __m256i pixels = _mm256_permutevar8x32_epi32(_mm256_loadu_si256((const void *)row), even);
    return _mm256_add_epi16(_mm256_cvtepu8_epi16(_mm256_castsi256_si128(pixels)),
                            _mm256_cvtepu8_epi16(_mm256_extracti128_si256(pixels, 1)));
}

static uint32_t halve_bgra(const uint8_t *upper, const uint8_t *lower, uint32_t samples, uint8_t *out)
{
    uint32_t j = 0;
    for (; j + 16 <= samples; j += 16)
        means_of_pairs(out + j, bgra_pairs(upper + 2 * j), bgra_pairs(lower + 2 * j));
    return j;
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

static void halve_rows(const uint8_t *upper, const uint8_t *lower, uint32_t channels, uint8_t *out, uint32_t samples)
{
    uint32_t done = channels == 1   ? halve_gray(upper, lower, samples, out)
                    : channels == 4 ? halve_bgra(upper, lower, samples, out)
                                    : 0;
    halve_samples(upper, lower, channels, done, samples, out);
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

static void area_across_whole(const uint16_t *sums, const struct across *across, uint32_t taps, uint32_t total,
                              uint8_t *out)
{
    _Alignas(64) uint16_t added[RUN];
    for (uint32_t at = 0, n; at < across->samples; at += n) {
        uint32_t done = 0;
        n = across->samples - at < RUN ? across->samples - at : RUN;
#if defined(__AVX512BW__)
        for (; done + ACROSS_GROUP <= n && across->span[(at + done) / ACROSS_GROUP] <= 128; done += ACROSS_GROUP) {
            uint32_t group = (at + done) / ACROSS_GROUP;
            const uint16_t *from = sums + across->base[group];
            __m512i pick = _mm512_loadu_si512(across->pick + at + done), sum = _mm512_setzero_si512();
            for (uint32_t k = 0; k < taps; k++, from += across->channels)
                sum = _mm512_add_epi16(sum, across_pick(from, pick, across->span[group] > 64));
            _mm512_storeu_si512(added + done, sum);
        }
#endif
        samples_add(sums, across, taps, at + done, at + n, added + done);
        means_of_sums(added, total, out + at, n);
    }
}

/* ---- turning ---- */

static void rotate_pixels(const struct rotate_args *args, uint32_t y, uint32_t from, uint32_t to, uint8_t *out)
{
    const struct turn turn = args->turn;
    const struct plane_view in = args->in;
    int64_t x_0 = turn.x_0 + turn.x_y * y, y_0 = turn.y_0 + turn.y_y * y;
    for (uint32_t x = from; x < to; x++)
        out[x] = turned_pixel(in.data, in.stride, in.width, in.height, x_0 + turn.x_x * x, y_0 + turn.y_x * x,
                              (uint8_t)args->fill);
}

#if defined(__AVX512BW__)

/* Places of sixteen pixels, eight each, in 2^-32: their whole parts, and weights of 2^-15. */
struct places {
    __m512i low, high;
};

KERNEL struct places places_of(int64_t first, int64_t step)
{
    __m512i ramp = _mm512_setr_epi64(0, step, 2 * step, 3 * step, 4 * step, 5 * step, 6 * step, 7 * step);
    __m512i low = _mm512_add_epi64(_mm512_set1_epi64(first), ramp);
    return (struct places){low, _mm512_add_epi64(low, _mm512_set1_epi64(8 * step))};
}

KERNEL __m512i places_whole(struct places places)
{
    const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    return _mm512_permutex2var_epi32(places.low, odd, places.high);
}

KERNEL __m512i places_weight(struct places places)
{
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return _mm512_srli_epi32(_mm512_permutex2var_epi32(places.low, even, places.high), 17);
}

/* Sixteen pixels at a time where all that they read lies in the picture; false: they do not. */
static bool rotate_sixteen(const struct rotate_args *args, int64_t place_x, int64_t place_y, uint8_t *out)
{
    const struct plane_view *in = &args->in;
    struct places at_x = places_of(place_x, args->turn.x_x), at_y = places_of(place_y, args->turn.y_x);
    __m512i x = places_whole(at_x), y = places_whole(at_y), zero = _mm512_setzero_si512();
    __mmask16 inside = _mm512_cmplt_epu32_mask(x, _mm512_set1_epi32((int32_t)in->width - 3)) &
                       _mm512_cmplt_epu32_mask(y, _mm512_set1_epi32((int32_t)in->height - 1));
    if (inside != 0xFFFF)
        return false;
    __m512i at = _mm512_add_epi32(_mm512_mullo_epi32(y, _mm512_set1_epi32((int32_t)in->stride)), x);
    __m512i upper = _mm512_mask_i32gather_epi32(zero, 0xFFFF, at, in->data, 1);
    __m512i lower = _mm512_mask_i32gather_epi32(zero, 0xFFFF, at, in->data + in->stride, 1);
    _mm_storeu_si128((void *)out, words_between(upper, lower, places_weight(at_x), places_weight(at_y)));
    return true;
}

static void rotate_row(const struct rotate_args *args, uint32_t y, uint8_t *out)
{
    const struct turn *turn = &args->turn;
    uint32_t x = 0;
    bool is_small = args->in.width > 3 && args->in.stride * args->in.height <= INT32_MAX;
    for (; is_small && x + 16 <= args->width; x += 16)
        if (!rotate_sixteen(args, turn->x_0 + turn->x_y * y + turn->x_x * x, turn->y_0 + turn->y_y * y + turn->y_x * x,
                            out + x))
            rotate_pixels(args, y, x, x + 16, out);
    rotate_pixels(args, y, x, args->width, out);
}

#else

static void rotate_row(const struct rotate_args *args, uint32_t y, uint8_t *out)
{
    rotate_pixels(args, y, 0, args->width, out);
}

#endif

/* ---- tensors ---- */

static void floats_of_plane(const uint8_t *restrict plane, float by, float bias, float *restrict out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] = normalise(plane[i], by, bias);
}

static void bfloats_of_plane(const uint8_t *restrict plane, float by, float bias, uint16_t *restrict out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] = bf16_of_bits(bits_of_float(normalise(plane[i], by, bias)));
}

/* `out` is where the row begins in the first plane. */
static void planes_normalise(const struct tensor_args *args, const struct planes *planes, char *out, uint32_t n)
{
    const uint8_t *samples[3] = {planes->a, planes->b, planes->c};
    size_t plane = (size_t)args->out_width * args->out_height;
    for (uint32_t c = 0; c < (args->format == SHEAF_IMAGE_GRAY ? 1 : 3); c++) {
        if (args->dtype == SHEAF_FLOAT32)
            floats_of_plane(samples[c], args->by[c], args->bias[c], (float *)(void *)out + c * plane, n);
        else
            bfloats_of_plane(samples[c], args->by[c], args->bias[c], (uint16_t *)(void *)out + c * plane, n);
    }
}

static void tensor_row(const struct tensor_args *args, const uint8_t *row, const uint8_t *chroma, void *out)
{
    size_t float_bytes = args->dtype == SHEAF_FLOAT32 ? sizeof(float) : sizeof(uint16_t);
    struct chroma_terms terms;
    struct planes planes;
    for (uint32_t at = 0, n; at < args->width; at += n) {
        n = args->width - at < RUN ? args->width - at : RUN;
        switch (args->format) {
        case SHEAF_IMAGE_GRAY:
            memcpy(planes.a, row + at, n);
            break;
        case SHEAF_IMAGE_RGB:
            planes_of_rgb(row + 3 * (size_t)at, &planes, n);
            break;
        case SHEAF_IMAGE_BGRA:
            planes_of_bgra(row + 4 * (size_t)at, &planes, n);
            break;
        default:
            chroma_make(&args->colour, chroma + 2 * (size_t)at, &terms, n);
            planes_of_yuv(&args->colour, row + at, &terms, &planes, n);
        }
        planes_normalise(args, &planes, (char *)out + at * float_bytes, n);
    }
}
