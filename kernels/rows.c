/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of the host. KERNEL_ROWS is the name of the table that this compilation makes, KERNEL_ROWS_TEXT what people
 * read.
 */
#include "kernels/rows.h"

#include <string.h>

#include "kernels/lanes.h"

#include "kernels/rows_colour.h"

#include "kernels/rows_bilinear.h"

#include "kernels/rows_area.h"

#include "kernels/rows_turn.h"

#include "kernels/rows_tensor.h"

#include "kernels/rows_measure.h"

const struct kernel_rows KERNEL_ROWS = {
    .name = KERNEL_ROWS_TEXT,
    .across_group = ACROSS_GROUP,
    .across_picks_bytes = ACROSS_PICKS_BYTES,
    .convert =
        {
            [SHEAF_IMAGE_GRAY] = {NULL, NULL, gray_to_rgb, gray_to_bgra, gray_to_luma},
            [SHEAF_IMAGE_RGB] = {NULL, rgb_to_gray, NULL, rgb_to_bgra, rgb_to_luma},
            [SHEAF_IMAGE_BGRA] = {NULL, bgra_to_gray, bgra_to_rgb, NULL, bgra_to_luma},
            [SHEAF_IMAGE_NV12] = {NULL, nv12_to_gray, nv12_to_rgb, nv12_to_bgra, NULL},
        },
    .chroma = {NULL, gray_chroma, rgb_chroma, bgra_chroma},
    .blend_rows = blend_rows,
    .blend_rows_round = blend_rows_round,
    .blend_across = blend_across,
    .double_across = double_across,
    .pick_row = {NULL, pick_row_1, pick_row_2, pick_row_3, pick_row_4},
    .blend_sparse = blend_sparse,
    .halve_rows = halve_rows,
    .area_down = area_down,
    .area_down_wide = area_down_wide,
    .area_across = {NULL, area_across_1, area_across_2, area_across_3, area_across_4},
    .area_across_wide = {NULL, area_across_wide_1, area_across_wide_2, area_across_wide_3, area_across_wide_4},
    .area_across_whole = area_across_whole,
    .rotate_row = rotate_row,
    .tensor_row = tensor_row,
    .histogram = histogram,
    .threshold_row = threshold_row,
    .sauvola_columns = sauvola_columns,
    .sauvola_row = sauvola_row,
    .sharpness_row = sharpness_row,
    .ssim_blocks = ssim_blocks,
    .skew_count = skew_count,
    .skew_add = skew_add,
    .skew_score = skew_score,
};
