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

/* Appends a launch over a grid of width x height threads; -ENOSPC when the plan is full. `args` is copied. */
int plan_append(struct sheaf_kernel_plan *plan, enum kernel_function_index function, const void *args, uint32_t width,
                uint32_t height);

#endif
