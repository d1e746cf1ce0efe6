/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Part of device.cu: sixteen bytes of a row at a time, by the widest loads that its place allows, and never a byte that
 * is not the row's. Rows begin anywhere, so the same column of two rows may differ in alignment.
 */

/* Byte i is words[i / 4] >> 8 * (i % 4). */
struct sixteen {
    uint32_t words[4];
};

#define BYTE_OF(loaded, i) ((uint8_t)((loaded).words[(i) / 4] >> 8 * ((i) % 4)))

KERNEL uint32_t aligned_word(const uint8_t *at)
{
#if defined(__CUDA_ARCH__)
    return __ldg((const unsigned *)at);
#else
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return word;
#endif
}

KERNEL struct sixteen aligned_sixteen(const uint8_t *at)
{
    struct sixteen loaded;
#if defined(__CUDA_ARCH__)
    uint4 vector = __ldg((const uint4 *)at);
    loaded.words[0] = vector.x;
    loaded.words[1] = vector.y;
    loaded.words[2] = vector.z;
    loaded.words[3] = vector.w;
#else
    memcpy(loaded.words, at, sizeof loaded.words);
#endif
    return loaded;
}

/* Sixteen bytes that lie between aligned words of the row. */
KERNEL struct sixteen shifted_sixteen(const uint8_t *at, uint32_t shift)
{
    struct sixteen loaded;
    uint32_t low = aligned_word(at - shift);
    UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t high = aligned_word(at - shift + 4 * i + 4);
        loaded.words[i] = (uint32_t)(((uint64_t)high << 32 | low) >> 8 * shift);
        low = high;
    }
    return loaded;
}

/* The same byte by byte: at the ends of rows. */
KERNEL struct sixteen slow_sixteen(const uint8_t *at, uint32_t count)
{
    uint64_t low = 0, high = 0;
    ROLLED
    for (uint32_t i = 0; i < count; i++) {
        uint64_t byte = (uint64_t)at[i] << 8 * (i % 8);
        low |= i < 8 ? byte : 0;
        high |= i < 8 ? 0 : byte;
    }
    struct sixteen loaded = {{(uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32)}};
    return loaded;
}

/* Bytes x to x + 15 of a row of `bytes`; those behind its end are 0. */
KERNEL struct sixteen load_sixteen(const uint8_t *row, uint32_t x, uint32_t bytes)
{
    const uint8_t *at = row + x;
    uint32_t place = (uint32_t)(uintptr_t)at;
    if (place % 16 == 0 && x + 16 <= bytes)
        return aligned_sixteen(at);
    if (place % 4 != 0 && x >= 3 && x + 19 <= bytes)
        return shifted_sixteen(at, place % 4);
    if (place % 4 != 0 || x + 16 > bytes)
        return slow_sixteen(at, x >= bytes ? 0 : x + 16 <= bytes ? 16 : bytes - x);
    struct sixteen loaded;
    UNROLL
    for (uint32_t i = 0; i < 4; i++)
        loaded.words[i] = aligned_word(at + 4 * i);
    return loaded;
}

/* Writes the first `count` of them (a multiple of two) from byte x of a row on, as far as it goes. */
KERNEL void store_bytes(uint8_t *row, uint32_t x, uint32_t bytes, uint32_t count, const struct sixteen *stored)
{
    uint8_t *at = row + x;
    uint64_t low = (uint64_t)stored->words[1] << 32 | stored->words[0];
    uint64_t high = (uint64_t)stored->words[3] << 32 | stored->words[2];
#if defined(__CUDA_ARCH__)
    uint32_t place = (uint32_t)(uintptr_t)at;
    bool whole = x + count <= bytes;
    if (whole && count == 16 && place % 16 == 0) {
        *(uint4 *)at = make_uint4(stored->words[0], stored->words[1], stored->words[2], stored->words[3]);
        return;
    }
    if (whole && count == 8 && place % 8 == 0) {
        *(uint2 *)at = make_uint2(stored->words[0], stored->words[1]);
        return;
    }
    if (whole && count % 4 == 0 && place % 4 == 0) {
        UNROLL
        for (uint32_t i = 0; i < 4; i++)
            if (4 * i < count)
                ((unsigned *)at)[i] = stored->words[i];
        return;
    }
#endif
    ROLLED
    for (uint32_t i = 0; i < count && x + i < bytes; i++)
        at[i] = (uint8_t)((i < 8 ? low : high) >> 8 * (i % 8));
}

KERNEL uint32_t sum_of_bytes(const struct sixteen *loaded)
{
    uint32_t sum = 0;
    UNROLL
    for (uint32_t i = 0; i < 4; i++) {
#if defined(__CUDA_ARCH__)
        sum = __dp4a(loaded->words[i], 0x01010101u, sum);
#else
        for (uint32_t j = 0; j < 4; j++)
            sum += BYTE_OF(*loaded, 4 * i + j);
#endif
    }
    return sum;
}

/* How many of them are at most `most`. */
KERNEL uint32_t bytes_at_most(const struct sixteen *loaded, uint32_t most)
{
    uint32_t count = 0;
    UNROLL
    for (uint32_t i = 0; i < 4; i++) {
#if defined(__CUDA_ARCH__)
        count += (uint32_t)__popc(__vcmpleu4(loaded->words[i], most * 0x01010101u)) / 8;
#else
        for (uint32_t j = 0; j < 4; j++)
            count += BYTE_OF(*loaded, 4 * i + j) <= most;
#endif
    }
    return count;
}

/* 255 for those above, 0 for the others. */
KERNEL void bytes_above(struct sixteen *loaded, uint32_t threshold)
{
    UNROLL
    for (uint32_t i = 0; i < 4; i++) {
#if defined(__CUDA_ARCH__)
        loaded->words[i] = __vcmpgtu4(loaded->words[i], threshold * 0x01010101u);
#else
        uint32_t above = 0;
        for (uint32_t j = 0; j < 4; j++)
            above |= (BYTE_OF(*loaded, 4 * i + j) > threshold ? 255u : 0u) << 8 * j;
        loaded->words[i] = above;
#endif
    }
}

/* A run of bytes: those before its first aligned sixteen, and how many of these it has. */
struct byte_run {
    uint32_t head, sixteens;
};

KERNEL struct byte_run byte_run_of(const uint8_t *first, uint32_t bytes)
{
    uint32_t head = (16 - (uint32_t)(uintptr_t)first % 16) % 16;
    struct byte_run run;
    run.head = head < bytes ? head : bytes;
    run.sixteens = (bytes - run.head) / 16;
    return run;
}

/* The n-th byte of what the aligned sixteens leave over, at both ends. */
KERNEL uint32_t left_over(const struct byte_run *run, uint32_t n)
{
    return n < run->head ? n : n + 16 * run->sixteens;
}
