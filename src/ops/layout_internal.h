/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the files of layout analysis: ordering (layout.c), cutting into columns (layout_cut.c), blocks
 * (layout_blocks.c), text (layout_text.c).
 */
#ifndef SHEAF_OPS_LAYOUT_INTERNAL_H
#define SHEAF_OPS_LAYOUT_INTERNAL_H

#include "ops/layout.h"

/* A range of items still to be ordered, or (`emit`) rows of a range that are final. */
struct layout_task {
    uint32_t first, count, depth, emit;
};

/* Rows that leave a gap free; `cut`: they are two columns, parted by it. */
struct layout_group {
    uint32_t first_row, row_count;
    uint32_t cut;
    float u0, u1;
};

/* Makes room for one more element in a growing array; false when there is no memory. */
bool layout_grow(void **array, size_t element_bytes, uint32_t count, uint32_t *capacity);

/* Orders items [first, first + count) and appends their rows. */
int layout_order(struct layout *layout, uint32_t first, uint32_t count);

/* Forms rows of items [first, first + count), which get sorted; appends them to layout->rows with region 0. */
int layout_form_rows(struct layout *layout, uint32_t first, uint32_t count);

/* Makes blocks of rows [first, ...end of rows). */
int layout_form_blocks(struct layout *layout, const struct page_content *content, const struct layout_style *style,
                       uint32_t first_row);
/* One block of rows of a known kind. */
int layout_add_block(struct layout *layout, enum layout_kind kind, uint32_t first_row, uint32_t row_count);
/* Box, size and direction of a block from its rows. */
void layout_finish_block(const struct layout *layout, const struct page_content *content, struct layout_block *block);

/* What the first characters of a row say. */
enum layout_marker {
    LAYOUT_MARKER_NONE = 0,
    LAYOUT_MARKER_BULLET,
    LAYOUT_MARKER_NUMBER,
    LAYOUT_MARKER_NOTE,
    LAYOUT_MARKER_CAPTION
};
/* `text` is the start of a row; `*ret_bytes` the length of the marker with the white space behind it. */
enum layout_marker layout_marker_read(const char *text, size_t bytes, uint32_t *ret_bytes);

/* Is there a letter in it, of any script? */
bool layout_has_letters(const char *text, size_t bytes);

/* The text of one row, items joined by `gap` ("" joins by a space). */
void layout_row_text(const struct layout *layout, const struct page_content *content, const struct layout_row *row,
                     struct buffer *buffer);

/* The k-th smallest of numbers[0..count); reorders them. count > 0. */
float layout_select(float *numbers, uint32_t count, uint32_t k);

#endif
