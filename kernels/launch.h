/* SPDX-License-Identifier: Apache-2.0 */
/* What the host and the functions of device.cu agree on: their names and arguments. Internal. C and CUDA C++. */
#ifndef SHEAF_KERNEL_LAUNCH_H
#define SHEAF_KERNEL_LAUNCH_H

#include "kernels/arithmetic.h"

/* A checked picture: chroma is NULL but for NV12. */
struct picture_view {
    uint8_t *data, *chroma;
    uint64_t stride;
    uint32_t width, height, format, reserved;
};

struct copy_args {
    const uint8_t *in;
    uint8_t *out;
    uint64_t in_stride, out_stride;
    uint32_t row_bytes, rows;
};

struct convert_args {
    struct picture_view in, out;
    struct colour colour;
};

/* One plane of samples, `channels` of them side by side. */
struct bilinear_args {
    const uint8_t *in;
    uint8_t *out;
    uint64_t in_stride, out_stride;
    uint32_t width, height, channels, reserved; /* of the output */
    struct bilinear_axis x, y;
};

struct area_args {
    const uint8_t *in;
    uint8_t *out;
    uint64_t in_stride, out_stride;
    uint32_t in_width, in_height;
    uint32_t width, height, channels, reserved; /* of the output */
    struct area_axis x, y;
    uint64_t total, inverse; /* of area_mean */
};

/* Every function of the fatbin is sheaf_NAME(const struct NAME_args). */
#define KERNEL_FUNCTIONS(F)                                                                                            \
    F(copy, struct copy_args)                                                                                          \
    F(convert, struct convert_args)                                                                                    \
    F(bilinear, struct bilinear_args)                                                                                  \
    F(area, struct area_args)

#define KERNEL_FUNCTION_INDEX(name, type) FUNCTION_##name,
enum kernel_function_index { KERNEL_FUNCTIONS(KERNEL_FUNCTION_INDEX) FUNCTION_COUNT };

#endif
