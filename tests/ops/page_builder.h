/* SPDX-License-Identifier: Apache-2.0 */
/* Pages made of lines, for tests of layout and assembly: every character is half the font size wide. */
#ifndef TESTS_OPS_PAGE_BUILDER_H
#define TESTS_OPS_PAGE_BUILDER_H

#include <string.h>

#include "ops/page_record.h"

static inline void page_start(struct page_content *content, uint32_t number)
{
    page_content_clear(content);
    content->number = number;
    content->width = 600;
    content->height = 800;
    content->source = PAGE_SOURCE_TEXT_LAYER;
}

static inline float text_width(const char *text, float size)
{
    float chars = 0;
    for (; *text; text++)
        chars += ((unsigned char)*text & 0xC0) != 0x80;
    return chars * size / 2;
}

/* A line of one span whose left end and baseline are at (x, y). */
static inline void line_at(struct page_content *content, float x, float y, float size, uint32_t span_flags,
                           uint32_t line_flags, const char *text)
{
    struct page_box box = {x, y - 0.8f * size, x + text_width(text, size), y + 0.2f * size};
    size_t bytes = strlen(text);
    if (bytes && text[bytes - 1] == '-')
        line_flags |= PAGE_HYPHEN;
    page_line_begin(content, line_flags);
    page_span_append(content, text, bytes, &box, size, span_flags);
    page_line_end(content, y);
}

static inline void line(struct page_content *content, float x, float y, const char *text)
{
    line_at(content, x, y, 10, 0, 0, text);
}

#endif
