/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for the tests of devices, with only host functions: they stand for an image on the driver of the tests. */
#ifndef TESTS_DEVICE_KERNELS_H
#define TESTS_DEVICE_KERNELS_H

#include <sheaf/operator.h>

/* out[offsets[r] + i] = mix(in[offsets[r] + i], salt + r, i): one block per row. */
struct mix_argument {
    const unsigned char *in;
    unsigned char *out;
    const uint64_t *offsets;
    const uint64_t *salts;
};
unsigned char mix(unsigned char byte, uint64_t salt, uint64_t at);

/* sums[r] = sum of the lengths[r] bytes at in + offsets[r]. A row that begins with the byte `fault` (0: none) makes its
 * device fault, on the driver of the tests; elsewhere it kills its process. */
struct sum_argument {
    const unsigned char *in;
    const uint64_t *offsets, *lengths;
    int64_t *sums;
    uint64_t fault;
};

extern const struct sheaf_kernels test_kernels;

#endif
