/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vectors of int16 as wide as the machine's, for the loops in which the compiler does not find the instruction it
 * should. GNU C vectors; only the rounded multiplication needs to be named for each machine. Internal to the host's
 * loops.
 */
#ifndef SHEAF_KERNEL_LANES_H
#define SHEAF_KERNEL_LANES_H

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include "kernels/arithmetic.h"

#if defined(__AVX512BW__)
enum { LANES = 32 };
#elif defined(__AVX2__)
enum { LANES = 16 };
#else
enum { LANES = 8 };
#endif

typedef int16_t lanes __attribute__((vector_size(2 * LANES)));
typedef uint8_t lanes_u8 __attribute__((vector_size(LANES)));
typedef uint32_t lanes_words __attribute__((vector_size(2 * LANES))); /* half as many */

/* Asks for `bytes` that a loop will read a while after those at `at`. Where rows come from memory this saves up to half
 * of the time: what a processor foresees by itself stops at the end of a page, and waits in between for arithmetic.
 * Nothing is read in the sense of the language, so that it may lie behind the picture. */
KERNEL void read_ahead(const void *at, uint32_t bytes)
{
    enum { AHEAD = 2048, LINE = 64 };
    for (uint32_t i = 0; i < bytes; i += LINE)
        __builtin_prefetch((const void *)((uintptr_t)at + AHEAD + i));
}

/* multiply_q15 of each lane. */
KERNEL lanes lanes_multiply_q15(lanes a, lanes b)
{
#if defined(__AVX512BW__)
    return (lanes)_mm512_mulhrs_epi16((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return (lanes)_mm256_mulhrs_epi16((__m256i)a, (__m256i)b);
#elif defined(__SSSE3__)
    return (lanes)_mm_mulhrs_epi16((__m128i)a, (__m128i)b);
#elif defined(__SSE2__)
    /* From the halves of the products: (high << 16 | low) + 2^14 >> 15. */
    __m128i low = _mm_mullo_epi16((__m128i)a, (__m128i)b), high = _mm_mulhi_epi16((__m128i)a, (__m128i)b);
    __m128i round = _mm_and_si128(_mm_srli_epi16(low, 14), _mm_set1_epi16(1));
    __m128i carry = _mm_and_si128(_mm_srli_epi16(low, 15), _mm_set1_epi16(1));
    return (lanes)_mm_add_epi16(_mm_add_epi16(_mm_slli_epi16(high, 1), carry), round);
#else
    lanes product;
    for (int i = 0; i < LANES; i++)
        product[i] = multiply_q15(a[i], b[i]);
    return product;
#endif
}

KERNEL lanes lanes_all(int16_t value)
{
    return value - (lanes){0};
}

KERNEL lanes_words lanes_load_words(const void *from)
{
    lanes_words value;
    memcpy(&value, from, sizeof value);
    return value;
}

/* Words of 0 to 32767, first those of `a`. */
KERNEL lanes lanes_of_words(lanes_words a, lanes_words b)
{
#if defined(__AVX512BW__)
    const lanes even = {0,  2,  4,  6,  8,  10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30,
                        32, 34, 36, 38, 40, 42, 44, 46, 48, 50, 52, 54, 56, 58, 60, 62};
    return (lanes)_mm512_permutex2var_epi16((__m512i)a, (__m512i)even, (__m512i)b);
#elif defined(__AVX2__)
    return (lanes)_mm256_permute4x64_epi64(_mm256_packus_epi32((__m256i)a, (__m256i)b), 0xD8);
#elif defined(__SSE2__)
    return (lanes)_mm_packs_epi32((__m128i)a, (__m128i)b);
#else
    lanes value;
    for (int i = 0; i < LANES / 2; i++) {
        value[i] = (int16_t)a[i];
        value[LANES / 2 + i] = (int16_t)b[i];
    }
    return value;
#endif
}

KERNEL lanes lanes_load(const int16_t *from)
{
    lanes value;
    memcpy(&value, from, sizeof value);
    return value;
}

KERNEL void lanes_store(int16_t *to, lanes value)
{
    memcpy(to, &value, sizeof value);
}

KERNEL lanes lanes_load_u8(const uint8_t *from)
{
    lanes_u8 value;
    memcpy(&value, from, sizeof value);
    return __builtin_convertvector(value, lanes);
}

/* clamp_u8 of each. */
KERNEL void lanes_store_clamped(uint8_t *to, lanes value)
{
#if defined(__AVX512BW__)
    __m512i positive = _mm512_max_epi16((__m512i)value, _mm512_setzero_si512());
    _mm256_storeu_si256((void *)to, _mm512_maskz_cvtusepi16_epi8(~0u, positive));
#elif defined(__AVX2__)
    __m256i wide = (__m256i)value;
    _mm_storeu_si128((void *)to, _mm_packus_epi16(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1)));
#elif defined(__SSE2__)
    _mm_storel_epi64((void *)to, _mm_packus_epi16((__m128i)value, (__m128i)value));
#else
    for (int i = 0; i < LANES; i++)
        to[i] = clamp_u8(value[i]);
#endif
}

/* Of values from 0 to 255. */
KERNEL void lanes_store_u8(uint8_t *to, lanes value)
{
#if defined(__AVX512BW__)
    lanes_u8 bytes = __builtin_convertvector(value, lanes_u8);
    memcpy(to, &bytes, sizeof bytes);
#else
    lanes_store_clamped(to, value);
#endif
}

#endif
