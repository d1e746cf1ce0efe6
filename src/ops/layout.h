/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layout analysis: the lines of one page in the order a reader reads them, and the blocks they form.
 *
 * Pure and deterministic: from a page_content and a little knowledge about the whole document (layout_style) to blocks
 * of rows. It knows no files, no pdfium, no output format. It serves text layers and OCR alike.
 *
 * How: lines that run in one direction are laid out together, turned upright. Lines on one height form rows;
 * consecutive rows that leave a common vertical gap free form a group; where both sides of the gap read like columns
 * the group is cut there and each side is laid out in the same way, else its rows are read across (tables, forms). What
 * spans the gap (a title, a wide figure's caption) ends a group, so it stays between what is above and below. Rows then
 * become blocks by spacing, indentation, size, markers and whether the next word would have fitted.
 *
 * Cost: sorting per level of cuts, at most LAYOUT_DEPTH_MAX levels, no recursion; memory is kept from page to page.
 */
#ifndef SHEAF_OPS_LAYOUT_H
#define SHEAF_OPS_LAYOUT_H

#include "ops/assemble_buffer.h"
#include "ops/page_record.h"

enum { LAYOUT_DEPTH_MAX = 10, LAYOUT_HEADING_SIZES_MAX = 5 };

enum layout_kind {
    LAYOUT_PARAGRAPH = 0,
    LAYOUT_HEADING,
    LAYOUT_LIST_ITEM,
    LAYOUT_CODE,
    LAYOUT_TABLE, /* rows of cells, read across */
    LAYOUT_CAPTION,
    LAYOUT_FOOTNOTE,
    LAYOUT_ASIDE,  /* runs in another direction than the page reads: a stamp in the margin, labels of a figure */
    LAYOUT_HEADER, /* running head */
    LAYOUT_FOOTER, /* running foot, page number */
    LAYOUT_KIND_COUNT,
};
/* "paragraph", "heading", "list-item", ...: the words of the JSON. Static. */
const char *layout_kind_name(enum layout_kind kind);

/* What is known of the document: what its body text looks like. Zeroed: nothing is known, the page speaks for itself.
 */
struct layout_style {
    float body_size;                               /* points; 0: take the page's own */
    uint32_t body_monospace;                       /* most text is set in a typewriter face, so that says nothing */
    uint32_t body_bold;                            /* most text is bold, so bold says nothing */
    uint32_t heading_count;                        /* sizes below, largest first */
    float heading_sizes[LAYOUT_HEADING_SIZES_MAX]; /* level 1, 2, ... */
};

/* A line in the frame in which it is upright. */
struct layout_item {
    float u0, v0, u1, v1, baseline, size;
    uint32_t line; /* in page_content.lines */
    uint32_t chars;
    uint32_t flags; /* PAGE_BOLD, PAGE_MONOSPACE: all of it is; RIGHT_TO_LEFT, HYPHEN: the line's */
    uint32_t frame;
};

/* Lines on one height. Items of a row are in reading order. */
struct layout_row {
    uint32_t first_item, item_count;
    uint32_t region; /* column */
    uint32_t chars;
    uint32_t flags; /* of all items */
    float u0, v0, u1, v1, baseline, size;
};

struct layout_block {
    enum layout_kind kind;
    uint32_t first_row, row_count;
    uint32_t region;
    uint32_t level;      /* of a heading, 1..6 */
    uint32_t continues;  /* 1: goes on with the sentence of the last paragraph of the column before */
    uint32_t flags;      /* PAGE_RIGHT_TO_LEFT when most of it is */
    struct page_box box; /* as in page_content */
    float size;
};

/* Growing arrays, reused from page to page. A zeroed struct is valid. */
struct layout {
    struct layout_item *items, *scratch;
    struct layout_row *rows;
    struct layout_block *blocks;
    uint32_t item_count, row_count, block_count;
    uint32_t item_capacity, row_capacity, block_capacity;
    uint32_t region_count;
    struct layout_task *tasks;
    uint32_t task_count, task_capacity;
    struct layout_group *groups;
    uint32_t group_count, group_capacity;
    uint32_t order_first_row, order_depth; /* of the range being ordered: its first row, depth of the last region */
    float *numbers;                        /* scratch for medians */
};

void layout_fini(struct layout *layout);

/* Lays out a page; the result is in `layout` until the next call. `margin` (NULL, or one byte per line of the page): 0
 * body, 1 running head, 2 running foot; those become blocks of their own at the start and the end. 0 or -ENOMEM. */
int layout_page(struct layout *layout, const struct page_content *content, const struct layout_style *style,
                const uint8_t *margin);

/* Appends the text of a block, UTF-8: lines of a paragraph joined, hyphenation at line ends resolved, code and tables
 * line by line with their alignment. A failed append leaves buffer->failed. */
void layout_block_text(const struct layout *layout, const struct page_content *content,
                       const struct layout_block *block, struct buffer *buffer);

/* True when a paragraph that ends in `before` is likely to go on with `after`: no full stop, a lower-case start. */
int layout_text_continues(const char *before, size_t before_bytes, const char *after, size_t after_bytes);
/* Joins two parts of a sentence: appends to `buffer`, which ends in the first part, whatever belongs between them (a
 * space, nothing), or takes a hyphen away. `hyphen`: the first part's last line ended in one. */
void layout_text_join(struct buffer *buffer, size_t since, int hyphen, const char *after, size_t after_bytes);

#endif
