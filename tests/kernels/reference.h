/* SPDX-License-Identifier: Apache-2.0 */
/* Scaling in double precision, plainly: what tests of kernels compare with. */
#ifndef TESTS_KERNELS_REFERENCE_H
#define TESTS_KERNELS_REFERENCE_H

#include "pictures.h"

struct axis {
    uint32_t in, out;
};

/* The exact value of pixel (x, y) of a plane of `in` that is scaled along these axes. Chroma of NV12 is channels 1
 * and 2. */
double reference_scaled(const struct sheaf_image *in, struct axis ax, struct axis ay, uint32_t x, uint32_t y,
                        uint32_t channel, uint32_t filter);

#endif
