/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor value seen as a picture: 8-bit gray or RGB, rows possibly padded. */
#ifndef SHEAF_OPS_PICTURE_H
#define SHEAF_OPS_PICTURE_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include <sheaf/value.h>

struct picture {
    const uint8_t *pixels;
    uint32_t width, height, channels; /* channels 1 or 3 */
    size_t row_bytes;
};

/* 0; or -EINVAL when the value is no tensor u8 [h, w] or [h, w, 3] with sides of 1 to `side_max` inside its bytes. */
static inline int picture_of_value(const struct sheaf_value *value, uint32_t side_max, struct picture *ret_picture)
{
    const struct sheaf_tensor *tensor = value->tensor;
    if (value->kind != SHEAF_TENSOR || !tensor || tensor->dtype != SHEAF_U8 || tensor->rank < 2 || tensor->rank > 3)
        return -EINVAL;
    uint64_t height = tensor->shape[0], width = tensor->shape[1], channels = tensor->rank == 3 ? tensor->shape[2] : 1;
    if ((channels != 1 && channels != 3) || width == 0 || height == 0 || width > side_max || height > side_max)
        return -EINVAL;
    int64_t row_bytes = tensor->stride_bytes[0];
    if (row_bytes < (int64_t)(width * channels) || row_bytes > INT32_MAX ||
        tensor->stride_bytes[1] != (int64_t)channels)
        return -EINVAL;
    if (tensor->rank == 3 && tensor->stride_bytes[2] != 1)
        return -EINVAL;
    if ((uint64_t)row_bytes * (height - 1) + width * channels > value->length_bytes)
        return -EINVAL;
    *ret_picture =
        (struct picture){value->data, (uint32_t)width, (uint32_t)height, (uint32_t)channels, (size_t)row_bytes};
    return 0;
}

#endif
