/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text layer of a PDF page as a page_content.
 *
 * pdfium gives a page's characters in the order the file draws them, with generated spaces and line ends where it sees
 * gaps. This module makes lines and spans of them, in what a reader sees: rotated page coordinates, whole code points,
 * ligatures taken apart, line-end hyphens marked, characters outside the page and control characters left out, and
 * right-to-left words in logical order even where one glyph stands for several letters. It finds no reading order:
 * layout.h does.
 *
 * This is the hot path of the product. Per character it costs three calls into pdfium of some 4 ns each, per text
 * object five; docs/TEXT.md has the measurement.
 */
#ifndef SHEAF_OPS_PAGE_TEXT_H
#define SHEAF_OPS_PAGE_TEXT_H

#include "ops/page_record.h"
#include "ops/pdfium.h"

/* Replaces what is in `content` by page `number` (1-based): its size, rotation and text. `text` is the page's text
 * page; NULL: only sizes are set. The source is TEXT_LAYER, or NONE when there is no text. 0 or -ENOMEM. */
int page_text_extract(const struct pdfium *pdfium, FPDF_PAGE page, FPDF_TEXTPAGE text, uint32_t number,
                      struct page_content *content);

#endif
