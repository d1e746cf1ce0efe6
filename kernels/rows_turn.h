/* SPDX-License-Identifier: Apache-2.0 */
/* Part of rows.c: turning. */

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
KERNEL bool rotate_sixteen(const struct plane_view *in, struct places at_x, struct places at_y, uint8_t *out)
{
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

static uint32_t rotate_fast(const struct rotate_args *args, uint32_t y, uint8_t *out)
{
    const struct turn turn = args->turn;
    const struct plane_view in = args->in;
    uint32_t x = 0;
    int64_t at_x = turn.x_0 + turn.x_y * y, at_y = turn.y_0 + turn.y_y * y;
    for (; in.width > 3 && x + 16 <= args->width; x += 16, at_x += 16 * turn.x_x, at_y += 16 * turn.y_x)
        if (!rotate_sixteen(&in, places_of(at_x, turn.x_x), places_of(at_y, turn.y_x), out + x))
            rotate_pixels(args, y, x, x + 16, out);
    return x;
}

#elif defined(__AVX2__)

/* Places of pixels 0, 1, 4, 5 and 2, 3, 6, 7, in 2^-32: so their halves come out in order. */
struct places {
    __m256i low, high;
};

KERNEL struct places places_of(int64_t first, int64_t step)
{
    __m256i ramp = _mm256_setr_epi64x(0, step, 4 * step, 5 * step);
    __m256i low = _mm256_add_epi64(_mm256_set1_epi64x(first), ramp);
    return (struct places){low, _mm256_add_epi64(low, _mm256_set1_epi64x(2 * step))};
}

KERNEL __m256i places_whole(struct places places)
{
    __m256 low = _mm256_castsi256_ps(places.low), high = _mm256_castsi256_ps(places.high);
    return _mm256_castps_si256(_mm256_shuffle_ps(low, high, _MM_SHUFFLE(3, 1, 3, 1)));
}

/* Of 2^-15. */
KERNEL __m256i places_weight(struct places places)
{
    __m256 low = _mm256_castsi256_ps(places.low), high = _mm256_castsi256_ps(places.high);
    return _mm256_srli_epi32(_mm256_castps_si256(_mm256_shuffle_ps(low, high, _MM_SHUFFLE(2, 0, 2, 0))), 17);
}

/* Eight pixels: where the first of them lies, and the step from one to the next. */
struct eight {
    int64_t x, y, step_x, step_y;
};

/* Whether all that they read lies in the picture: x grows, y may go either way. */
KERNEL bool eight_inside(const struct plane_view *in, const struct eight *eight)
{
    int64_t last_y = eight->y + 7 * eight->step_y, above = eight->y < last_y ? eight->y : last_y;
    int64_t below = eight->y < last_y ? last_y : eight->y;
    return eight->x >= 0 && (eight->x + 7 * eight->step_x) >> 32 < (int64_t)in->width - 1 && above >= 0 &&
           below >> 32 < (int64_t)in->height - 1;
}

/* The lower halves of eight words. */
KERNEL __m128i halves_of_words(__m256i words)
{
    return _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}

struct neighbours {
    __m128i upper, lower;
};

/* From three rows of WINDOW bytes: y takes two values at most, and steps of x are no longer than a pixel. */
enum { WINDOW = 16 };

KERNEL struct neighbours neighbours_pick(const struct plane_view *in, const struct eight *eight, __m256i x, __m256i y)
{
    int32_t at_x = (int32_t)(eight->x >> 32), first_y = (int32_t)(eight->y >> 32);
    int32_t last_y = (int32_t)((eight->y + 7 * eight->step_y) >> 32), at_y = first_y < last_y ? first_y : last_y;
    at_x = at_x + WINDOW <= (int32_t)in->width ? at_x : (int32_t)in->width - WINDOW;
    const uint8_t *row = in->data + (uint64_t)at_y * in->stride + at_x;
    __m128i a = _mm_loadu_si128((const void *)row), b = _mm_loadu_si128((const void *)(row + in->stride));
    __m128i c = _mm_loadu_si128((const void *)(row + (first_y == last_y ? 1 : 2) * in->stride));
    __m256i offset = _mm256_sub_epi32(x, _mm256_set1_epi32(at_x)); /* of a pixel, and the next one behind it */
    offset = _mm256_add_epi32(_mm256_or_si256(offset, _mm256_slli_epi32(offset, 8)), _mm256_set1_epi32(0x100));
    __m128i pick = halves_of_words(offset);
    __m128i is_lower = halves_of_words(_mm256_srli_epi32(_mm256_cmpgt_epi32(y, _mm256_set1_epi32(at_y)), 16));
    a = _mm_shuffle_epi8(a, pick);
    b = _mm_shuffle_epi8(b, pick);
    c = _mm_shuffle_epi8(c, pick);
    return (struct neighbours){_mm_blendv_epi8(a, b, is_lower), _mm_blendv_epi8(b, c, is_lower)};
}

KERNEL struct neighbours neighbours_gather(const struct plane_view *in, __m256i x, __m256i y)
{
    _Alignas(32) uint32_t at[8];
    _mm256_store_si256((void *)at, _mm256_add_epi32(_mm256_mullo_epi32(y, _mm256_set1_epi32((int32_t)in->stride)), x));
    return (struct neighbours){neighbours_load(in->data, at), neighbours_load(in->data + in->stride, at)};
}

/* Eight pixels that lie in the picture. */
KERNEL void rotate_eight(const struct plane_view *in, const struct eight *eight, bool is_flat, uint8_t *out)
{
    struct places at_x = places_of(eight->x, eight->step_x), at_y = places_of(eight->y, eight->step_y);
    __m256i x = places_whole(at_x), y = places_whole(at_y), weight_y = places_weight(at_y);
    struct neighbours near = is_flat ? neighbours_pick(in, eight, x, y) : neighbours_gather(in, x, y);
    weight_y = _mm256_or_si256(weight_y, _mm256_slli_epi32(weight_y, 16));
    neighbours_blend(near.upper, near.lower, places_weight(at_x), weight_y, out);
}

KERNEL uint32_t rotate_eights(const struct rotate_args *args, uint32_t y, bool is_flat, uint8_t *out)
{
    const struct turn turn = args->turn;
    const struct plane_view in = args->in;
    struct eight eight = {turn.x_0 + turn.x_y * y, turn.y_0 + turn.y_y * y, turn.x_x, turn.y_x};
    uint32_t x = 0;
    for (; x + 8 <= args->width; x += 8, eight.x += 8 * turn.x_x, eight.y += 8 * turn.y_x)
        if (eight_inside(&in, &eight))
            rotate_eight(&in, &eight, is_flat, out + x);
        else
            rotate_pixels(args, y, x, x + 8, out);
    return x;
}

static uint32_t rotate_fast(const struct rotate_args *args, uint32_t y, uint8_t *out)
{
    const struct turn *turn = &args->turn;
    const int64_t one = (int64_t)1 << 32;
    bool is_flat = args->in.width >= WINDOW && 7 * turn->y_x < one && 7 * turn->y_x > -one && turn->x_x <= one;
    return is_flat ? rotate_eights(args, y, true, out) : rotate_eights(args, y, false, out);
}

#else

static uint32_t rotate_fast(const struct rotate_args *args, uint32_t y, uint8_t *out)
{
    return 0;
}

#endif

/* The vectors count bytes of the picture in 32 bits. */
static void rotate_row(const struct rotate_args *args, uint32_t y, uint8_t *out)
{
    bool is_small = args->in.stride * args->in.height <= INT32_MAX;
    rotate_pixels(args, y, is_small ? rotate_fast(args, y, out) : 0, args->width, out);
}
