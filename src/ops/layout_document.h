/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the layout of a page needs to know of the whole document, gathered in a first pass over its pages: the size of
 * body text and of headings, and which lines at the head or foot of pages are running heads, feet and page numbers.
 *
 * A running line is one whose text, with every number in it taken as equal, stands in the margin of several pages.
 * Memory is a few words per page.
 */
#ifndef SHEAF_OPS_LAYOUT_DOCUMENT_H
#define SHEAF_OPS_LAYOUT_DOCUMENT_H

#include "ops/layout.h"

enum { LAYOUT_SIZE_BINS = 400, LAYOUT_MARGIN_LINES_MAX = 6 };

struct layout_margin_entry {
    uint64_t key; /* 0: empty */
    uint32_t count, last_page;
};

/* A zeroed struct is valid. */
struct layout_document {
    uint64_t chars[LAYOUT_SIZE_BINS]; /* by font size, in quarter points */
    uint64_t lines[LAYOUT_SIZE_BINS]; /* that could be headings, by the size of their first span */
    uint64_t total_chars, bold_chars, monospace_chars;
    uint32_t page_count;
    struct layout_margin_entry *entries; /* open addressing, a power of two */
    uint32_t entry_count, entry_capacity;
    struct layout_style style; /* after layout_document_finish */
};

void layout_document_fini(struct layout_document *document);

/* First pass: takes in one page. 0 or -ENOMEM. */
int layout_document_note(struct layout_document *document, const struct page_content *content);
/* Between the passes: works out `style`. */
void layout_document_finish(struct layout_document *document);
/* Second pass: the margin class of every line (layout_page's `margin`) into `ret_margin`, line_count bytes:
 * of a page without lines none, and it may be NULL. */
void layout_document_margins(const struct layout_document *document, const struct page_content *content,
                             uint8_t *ret_margin);

#endif
