/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors made safe to use, and steps of plans. Internal. */
#ifndef SHEAF_KERNEL_CHECK_H
#define SHEAF_KERNEL_CHECK_H

#include <stdbool.h>

#include "kernels/kernels.h"
#include "kernels/launch.h"
#include "kernels/table.h"

struct picture_view picture_view(const struct sheaf_image *image);
/* Whether the memory of two pictures has a byte in common. */
bool images_overlap(const struct sheaf_image *a, const struct sheaf_image *b);
/* Checks both, and that they do not overlap. */
int images_check(const struct sheaf_image *in, const struct sheaf_image *out);
/* Bytes of a pixel; of NV12 those of luma. */
uint32_t format_channels(uint32_t format);

/* Checks an input of which one sample a pixel is read: gray, or luma of NV12. */
int plane_check(const struct sheaf_image *image);
struct plane_view plane_view(const struct sheaf_image *image);

/* Coefficients for all conversions with this matrix (convert.c). */
struct colour colour_coefficients(uint32_t matrix);

/* -ENOSPC when the plan has less scratch memory, with what it takes. */
int plan_scratch(struct sheaf_kernel_plan *plan, uint64_t bytes);
/* Steps that count the values of a checked plane. */
int plan_histogram(const struct plane_view *in, uint32_t *counts, struct sheaf_kernel_plan *plan);
/* A step that sets 32-bit words to 0. */
int plan_clear(struct sheaf_kernel_plan *plan, void *words, uint64_t count);
/* Appends a launch of blocks of PLAN_BLOCK_THREADS in a row. -E2BIG when the plan is full. `args` is copied. */
int plan_append_blocks(struct sheaf_kernel_plan *plan, enum kernel_function_index function, const void *args,
                       uint32_t blocks_x, uint32_t blocks_y);
/* Appends a launch over a grid of width x height threads. */
int plan_append(struct sheaf_kernel_plan *plan, enum kernel_function_index function, const void *args, uint32_t width,
                uint32_t height);

#endif
