/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/check.h"

#include <errno.h>
#include <string.h>

uint32_t format_channels(uint32_t format)
{
    static const uint8_t channels[] = {0, 1, 3, 4, 1};
    return format <= SHEAF_IMAGE_NV12 ? channels[format] : 0;
}

static bool size_is_possible(uint32_t width, uint32_t height)
{
    return width >= 1 && height >= 1 && width <= SHEAF_IMAGE_SIDE_MAX && height <= SHEAF_IMAGE_SIDE_MAX &&
           (uint64_t)width * height <= SHEAF_IMAGE_PIXELS_MAX;
}

/* Where `rows` rows of `row_bytes` from `offset` on end. No overflow: rows < 2^16 and the stride is checked first. */
static bool rows_fit(const struct sheaf_image *image, uint64_t offset, uint64_t rows, uint64_t row_bytes)
{
    return offset <= image->size_bytes && row_bytes <= image->size_bytes - offset &&
           (rows - 1) * image->stride_bytes <= image->size_bytes - offset - row_bytes;
}

static int nv12_check(const struct sheaf_image *image)
{
    uint64_t pair_bytes = ((uint64_t)image->width + 1) / 2 * 2;
    uint64_t luma_bytes = (image->height - 1) * image->stride_bytes + image->width;
    if (image->matrix > SHEAF_MATRIX_JPEG || pair_bytes > image->stride_bytes || image->chroma_offset < luma_bytes)
        return -EINVAL;
    return rows_fit(image, image->chroma_offset, ((uint64_t)image->height + 1) / 2, pair_bytes) ? 0 : -EINVAL;
}

int sheaf_image_check(const struct sheaf_image *image)
{
    enum { STRIDE_BITS_MAX = 46 }; /* so that rows * stride fits 64 bits */
    uint32_t channels = image ? format_channels(image->format) : 0;
    if (channels == 0 || !image->data || image->size_bytes > UINTPTR_MAX - (uintptr_t)image->data)
        return -EINVAL;
    if (!size_is_possible(image->width, image->height))
        return image->width == 0 || image->height == 0 ? -EINVAL : -ERANGE;
    uint64_t row_bytes = (uint64_t)image->width * channels;
    if (image->stride_bytes < row_bytes || image->stride_bytes >> STRIDE_BITS_MAX != 0)
        return -EINVAL;
    if (!rows_fit(image, 0, image->height, row_bytes))
        return -EINVAL;
    if (image->format == SHEAF_IMAGE_NV12)
        return nv12_check(image);
    return image->matrix == 0 && image->chroma_offset == 0 ? 0 : -EINVAL;
}

uint64_t sheaf_image_bytes(uint32_t width, uint32_t height, uint32_t format)
{
    uint64_t channels = format_channels(format);
    if (!size_is_possible(width, height) || channels == 0)
        return 0;
    if (format != SHEAF_IMAGE_NV12)
        return width * channels * height;
    uint64_t stride = ((uint64_t)width + 1) / 2 * 2;
    return stride * (height + ((uint64_t)height + 1) / 2);
}

struct sheaf_image sheaf_image_packed(uint32_t width, uint32_t height, uint32_t format, void *data)
{
    struct sheaf_image image = {.width = width, .height = height, .format = format, .data = data};
    image.stride_bytes = (uint64_t)width * format_channels(format);
    image.size_bytes = sheaf_image_bytes(width, height, format);
    if (format == SHEAF_IMAGE_NV12) {
        image.stride_bytes += width & 1;
        image.chroma_offset = image.stride_bytes * height;
    }
    return image;
}

struct picture_view picture_view(const struct sheaf_image *image)
{
    struct picture_view view = {.data = image->data,
                                .stride = image->stride_bytes,
                                .width = image->width,
                                .height = image->height,
                                .format = image->format};
    if (image->format == SHEAF_IMAGE_NV12)
        view.chroma = view.data + image->chroma_offset;
    return view;
}

bool images_overlap(const struct sheaf_image *a, const struct sheaf_image *b)
{
    uintptr_t at_a = (uintptr_t)a->data, at_b = (uintptr_t)b->data;
    return at_a < at_b + b->size_bytes && at_b < at_a + a->size_bytes;
}

int images_check(const struct sheaf_image *in, const struct sheaf_image *out)
{
    int status = sheaf_image_check(in);
    if (status == 0)
        status = sheaf_image_check(out);
    if (status == 0 && images_overlap(in, out))
        status = -EINVAL;
    return status;
}

int plane_check(const struct sheaf_image *image)
{
    int status = sheaf_image_check(image);
    if (status == 0 && image->format != SHEAF_IMAGE_GRAY && image->format != SHEAF_IMAGE_NV12)
        status = -ENOTSUP;
    return status;
}

struct plane_view plane_view(const struct sheaf_image *image)
{
    return (struct plane_view){image->data, image->stride_bytes, image->width, image->height};
}

int plan_scratch(struct sheaf_kernel_plan *plan, uint64_t bytes)
{
    if (plan->scratch && plan->scratch_bytes >= bytes)
        return 0;
    plan->scratch_bytes = bytes;
    return -ENOSPC;
}

static int step_append(struct sheaf_kernel_plan *plan, enum kernel_function_index function, const void *args,
                       struct sheaf_kernel_step step)
{
    if (plan->step_count >= SHEAF_KERNEL_STEPS_MAX)
        return -E2BIG;
    step.function = function;
    step.args_bytes = sheaf_device_kernels.kernels[function].argument_bytes;
    memcpy(step.args, args, step.args_bytes);
    plan->steps[plan->step_count++] = step;
    return 0;
}

int plan_append_blocks(struct sheaf_kernel_plan *plan, enum kernel_function_index function, const void *args,
                       uint32_t blocks_x, uint32_t blocks_y)
{
    struct sheaf_kernel_step step = {
        .grid = {.blocks = {blocks_x, blocks_y, 1}, .threads = {PLAN_BLOCK_THREADS, 1, 1}}};
    return step_append(plan, function, args, step);
}

int plan_append(struct sheaf_kernel_plan *plan, enum kernel_function_index function, const void *args, uint32_t width,
                uint32_t height)
{
    enum { BLOCK_WIDTH = 32, BLOCK_HEIGHT = 8 };
    struct sheaf_kernel_step step = {
        .grid = {.blocks = {(width + BLOCK_WIDTH - 1) / BLOCK_WIDTH, (height + BLOCK_HEIGHT - 1) / BLOCK_HEIGHT, 1},
                 .threads = {BLOCK_WIDTH, BLOCK_HEIGHT, 1}},
    };
    return step_append(plan, function, args, step);
}

int plan_clear(struct sheaf_kernel_plan *plan, void *words, uint64_t count)
{
    struct clear_args args = {words, count};
    return plan_append_blocks(plan, FUNCTION_clear, &args, 1, 1);
}
