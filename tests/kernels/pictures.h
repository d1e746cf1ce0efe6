/* SPDX-License-Identifier: Apache-2.0 */
/* Random pictures for the tests of kernels: shapes, strides with guarded gaps, contents; and comparison. */
#ifndef TESTS_KERNELS_PICTURES_H
#define TESTS_KERNELS_PICTURES_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernels.h"

/* The seed: SHEAF_TEST_SEED, or 1; printed once by the first call. Cases: SHEAF_TEST_CASES, or `usual`. */
uint64_t test_seed(void);
uint32_t test_cases(uint32_t usual);
/* From here on random numbers follow from the seed and `stream`. */
void random_begin(uint64_t stream);
uint64_t random_u64(void);
uint32_t random_below(uint32_t limit);

/* A side: mostly small, sometimes 1, sometimes up to `most`. */
uint32_t random_side(uint32_t most);

/* A picture whose memory ends where it ends (a sanitizer sees one byte too many), with a random stride and an offset
 * that aligns it to nothing. Contents: noise, a gradient, or few shades. Gaps hold a pattern. */
struct sheaf_image picture_create(uint32_t width, uint32_t height, uint32_t format, uint32_t matrix);
void picture_destroy(struct sheaf_image *image);
/* The same descriptor over a copy of the memory. */
struct sheaf_image picture_clone(const struct sheaf_image *image);
/* All bytes equal, gaps too. Prints the first difference. */
bool pictures_equal(const struct sheaf_image *a, const struct sheaf_image *b);
/* Whether the gaps are as they were made. */
bool picture_gaps_whole(const struct sheaf_image *image);

/* Sample `channel` of a pixel; of NV12 0 is luma, 1 U, 2 V. */
uint8_t picture_sample(const struct sheaf_image *image, uint32_t x, uint32_t y, uint32_t channel);

#endif
