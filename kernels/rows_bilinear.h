/* SPDX-License-Identifier: Apache-2.0 */
/* Part of rows.c: bilinear resizing. */

KERNEL lanes lanes_between(const uint8_t *a, const uint8_t *b, lanes by)
{
    lanes from = lanes_load_u8(a), to = lanes_load_u8(b);
    return (from << 7) + lanes_multiply_q15((to - from) << 7, by);
}

static void blend_rows(const uint8_t *restrict a, const uint8_t *restrict b, int16_t weight, int16_t *restrict out,
                       uint32_t n)
{
    enum { LINE = 64 };
    lanes by = lanes_all(weight);
    uint32_t i = 0;
    for (; i + LINE <= n; i += LINE) {
        read_ahead(a + i, LINE);
        read_ahead(b + i, LINE);
        for (uint32_t k = i; k < i + LINE; k += LANES)
            lanes_store(out + k, lanes_between(a + k, b + k, by));
    }
    for (; i + LANES <= n; i += LANES)
        lanes_store(out + i, lanes_between(a + i, b + i, by));
    for (; i < n; i++)
        out[i] = blend_u8(a[i], b[i], weight);
}

static void blend_rows_round(const uint8_t *restrict a, const uint8_t *restrict b, int16_t weight,
                             uint8_t *restrict out, uint32_t n)
{
    lanes by = lanes_all(weight);
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        read_ahead(a + i, LANES);
        read_ahead(b + i, LANES);
        lanes_store_u8(out + i, (lanes_between(a + i, b + i, by) + 64) >> 7);
    }
    for (; i < n; i++)
        out[i] = round_q7(blend_u8(a[i], b[i], weight));
}

#if defined(__AVX512BW__)

enum { ACROSS_GROUP = 32, ACROSS_PICKS_BYTES = false };

/* A group of the 128 samples from `from` on; of the first 64 where the group reaches no further. */
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

#elif defined(__AVX2__)

enum { ACROSS_GROUP = 8, ACROSS_PICKS_BYTES = true, ACROSS_WINDOWS_MAX = 6 };

/* Eight samples of two places. */
KERNEL __m256i samples_load(const void *low, const void *high)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(low)), _mm_loadu_si128(high), 1);
}

/* Two groups, each from windows of eight samples from where it begins. A number of a byte that lies in another window
 * gets bit 7 set by adding 0x70, whether it is too large or, by wrapping around, too small: for that pshufb gives 0. */
KERNEL __m256i across_pick(const uint16_t *first, const uint16_t *second, __m256i pick, uint32_t windows)
{
    const __m256i high = _mm256_set1_epi8(0x70), step = _mm256_set1_epi8(16);
    __m256i samples = _mm256_shuffle_epi8(samples_load(first, second), _mm256_adds_epu8(pick, high));
    for (uint32_t i = 1; i < windows; i++) {
        pick = _mm256_sub_epi8(pick, step);
        __m256i more = _mm256_shuffle_epi8(samples_load(first + 8 * i, second + 8 * i), _mm256_adds_epu8(pick, high));
        samples = _mm256_or_si256(samples, more);
    }
    return samples;
}

/* Four samples of two places. */
KERNEL __m128i pair_load(const int16_t *low, const int16_t *high)
{
    return _mm_unpacklo_epi64(_mm_loadl_epi64((const void *)low), _mm_loadl_epi64((const void *)high));
}

#else

enum { ACROSS_GROUP = 8, ACROSS_PICKS_BYTES = false };

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

/* Two groups at a time, each reaching over no more windows than said. */
KERNEL uint32_t groups_blend(const int16_t *row, const struct across *across, uint32_t windows, uint8_t *out)
{
    uint32_t j = 0, channels = across->channels;
    for (; j + LANES <= across->samples; j += LANES) {
        const uint16_t *first = (const uint16_t *)row + across->base[j / ACROSS_GROUP];
        const uint16_t *second = (const uint16_t *)row + across->base[j / ACROSS_GROUP + 1];
        __m256i pick = _mm256_loadu_si256((const void *)(across->pick + j));
        lanes a = (lanes)across_pick(first, second, pick, windows);
        lanes b = (lanes)across_pick(first + channels, second + channels, pick, windows);
        lanes_store_u8(out + j, (a + lanes_multiply_q15(b - a, lanes_load(across->weight + j)) + 64) >> 7);
    }
    return j;
}

/* Two pixels of three or four samples at a time; what is too much the next ones cover. */
KERNEL uint32_t pixels_blend(const int16_t *row, const struct across *across, uint32_t channels, uint8_t *out)
{
    const __m128i half = _mm_set1_epi16(64),
                  close = _mm_setr_epi8(0, 1, 2, 4, 5, 6, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    uint32_t j = 0;
    for (; j + 8 <= across->samples; j += 2 * channels) {
        const int16_t *first = row + across->at[j], *second = row + across->at[j + channels];
        __m128i a = pair_load(first, second), b = pair_load(first + channels, second + channels);
        __m128i weight = pair_load(across->weight + j, across->weight + j + channels);
        a = _mm_add_epi16(a, _mm_mulhrs_epi16(_mm_sub_epi16(b, a), weight));
        a = _mm_srli_epi16(_mm_add_epi16(a, half), 7);
        a = _mm_packus_epi16(a, a);
        _mm_storel_epi64((void *)(out + j), channels == 3 ? _mm_shuffle_epi8(a, close) : a);
    }
    return j;
}

static uint32_t across_fast(const int16_t *row, const struct across *across, uint8_t *out)
{
    if (across->channels == 3)
        return pixels_blend(row, across, 3, out);
    if (across->channels == 4)
        return pixels_blend(row, across, 4, out);
    switch ((across->span_max + 7) / 8) {
    case 1:
        return groups_blend(row, across, 1, out);
    case 2:
        return groups_blend(row, across, 2, out);
    case 3:
        return groups_blend(row, across, 3, out);
    case 4:
        return groups_blend(row, across, 4, out);
    case 5:
    case ACROSS_WINDOWS_MAX:
        return groups_blend(row, across, ACROSS_WINDOWS_MAX, out);
    default:
        return 0;
    }
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

/* To twice the width, one sample a pixel: out[2 * i] lies a quarter before row[i], out[2 * i + 1] a quarter behind it.
 */
static void double_across(const int16_t *row, uint8_t *out, uint32_t n)
{
    enum { QUARTER = 1 << 13 };
    lanes quarter = lanes_all(QUARTER), three_quarters = lanes_all(3 * QUARTER);
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        lanes at = lanes_load(row + i), before = lanes_load(row + i - 1), behind = lanes_load(row + i + 1);
        lanes even = (before + lanes_multiply_q15(at - before, three_quarters) + 64) >> 7;
        lanes odd = (at + lanes_multiply_q15(behind - at, quarter) + 64) >> 7;
        lanes both = even | odd << 8; /* as bytes: one, the other */
        memcpy(out + 2 * i, &both, sizeof both);
    }
    for (; i < n; i++) {
        out[2 * i] = round_q7(blend_q7(row[(int64_t)i - 1], row[i], 3 * QUARTER));
        out[2 * i + 1] = round_q7(blend_q7(row[i], row[i + 1], QUARTER));
    }
}

/* ---- the pixel in the middle of each `factor` of them, which is odd ---- */

#define PICK_ROW(channels)                                                                                             \
    static void pick_row_##channels(const uint8_t *restrict row, uint32_t factor, uint8_t *restrict out, uint32_t n)   \
    {                                                                                                                  \
        row += (size_t)(factor / 2) * channels;                                                                        \
        if (factor == 3) /* so that the compiler finds vectors */                                                      \
            for (size_t i = 0; i < n; i++)                                                                             \
                memcpy(out + i * channels, row + i * 3 * channels, channels);                                          \
        else                                                                                                           \
            for (size_t i = 0; i < n; i++)                                                                             \
                memcpy(out + i * channels, row + i * factor * channels, channels);                                     \
    }
PICK_ROW(1)
PICK_ROW(2)
PICK_ROW(3)
PICK_ROW(4)

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

KERNEL int16_t neighbours_at(const uint8_t *at)
{
    int16_t pair;
    memcpy(&pair, at, sizeof pair);
    return pair;
}

/* Pixels and the next ones, of eight places. A gather would take longer on many processors. */
KERNEL __m128i neighbours_load(const uint8_t *row, const uint32_t *at)
{
    __m128i low = _mm_cvtsi32_si128(neighbours_at(row + at[0])), high = _mm_cvtsi32_si128(neighbours_at(row + at[4]));
    low = _mm_insert_epi16(low, neighbours_at(row + at[1]), 1);
    high = _mm_insert_epi16(high, neighbours_at(row + at[5]), 1);
    low = _mm_insert_epi16(low, neighbours_at(row + at[2]), 2);
    high = _mm_insert_epi16(high, neighbours_at(row + at[6]), 2);
    low = _mm_insert_epi16(low, neighbours_at(row + at[3]), 3);
    high = _mm_insert_epi16(high, neighbours_at(row + at[7]), 3);
    return _mm_unpacklo_epi64(low, high);
}

/* Eight gray pixels, each between two neighbours of a row and of the next. Weights: across in the lower half of each
 * word, down in both. */
KERNEL void neighbours_blend(__m128i upper, __m128i lower, __m256i weight_x, __m256i weight_y, uint8_t *out)
{
    __m256i a = _mm256_cvtepu8_epi16(upper), b = _mm256_cvtepu8_epi16(lower);
    b = _mm256_mulhrs_epi16(_mm256_slli_epi16(_mm256_sub_epi16(b, a), 7), weight_y);
    a = _mm256_add_epi16(_mm256_slli_epi16(a, 7), b);
    b = _mm256_sub_epi16(_mm256_srli_epi32(a, 16), a);
    a = _mm256_add_epi16(_mm256_add_epi16(a, _mm256_set1_epi16(64)), _mm256_mulhrs_epi16(b, weight_x));
    /* The lower halves of words, without their fraction, to bytes. */
    a = _mm256_and_si256(_mm256_srli_epi16(a, 7), _mm256_set1_epi32(0xFF));
    __m128i halves = _mm_packus_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    _mm_storel_epi64((void *)out, _mm_packus_epi16(halves, halves));
}

static uint32_t sparse_gray_fast(const uint8_t *upper, const uint8_t *lower, uint32_t row_bytes, int16_t weight,
                                 const struct across *across, uint8_t *out)
{
    const __m256i weight_y = _mm256_set1_epi16(weight);
    uint32_t j = 0;
    for (; j + 8 <= across->samples && across->at[j + 7] + 2 <= row_bytes; j += 8) {
        __m256i weight_x = _mm256_cvtepi16_epi32(_mm_loadu_si128((const void *)(across->weight + j)));
        neighbours_blend(neighbours_load(upper, across->at + j), neighbours_load(lower, across->at + j), weight_x,
                         weight_y, out + j);
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
