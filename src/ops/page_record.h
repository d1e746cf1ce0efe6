/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The content of one page, in memory and as a value of kind `record`.
 *
 * `pdf.text` and `image.ocr` produce one per page, `doc.assemble` reads them. A page_content is three growing arrays:
 * all text of the page in one UTF-8 buffer, spans (runs of one style inside a line) that name pieces of it, and lines
 * (runs of neighbouring spans on one baseline; a line never crosses the gap between two columns). Lines stand in the
 * order in which the producer met them; reading order is found later, by layout.h. Within a line the text is in logical
 * order: for right-to-left text the first character is the one a reader reads first.
 *
 * Building, once per page, one page_content reused for all:
 *
 *     page_content_clear -> (page_line_begin -> page_span_append+ -> page_line_end)* -> page_record_encode
 *
 * Coordinates are points, origin at the top left of the page as a reader sees it (after rotation), y grows downwards.
 * For images without a resolution one pixel is one point times 72 / dpi, dpi as the producer assumes it.
 *
 * The record is a MessagePack map. Text is one string; spans and lines are binary columns of little-endian 32-bit
 * numbers, so that a page of thousands of spans costs a dozen MessagePack objects (docs/TEXT.md has the table).
 * Decoding takes nothing on trust: it comes from another process, which may have been parsing hostile files.
 *
 * Single-threaded, no globals. Functions that can fail return 0 or a negative errno and leave the content as it was.
 */
#ifndef SHEAF_OPS_PAGE_RECORD_H
#define SHEAF_OPS_PAGE_RECORD_H

#include <stddef.h>
#include <stdint.h>

enum {
    PAGE_TEXT_BYTES_MAX = 64 << 20, /* of one page: above that the rest of the page is dropped and `truncated` is set */
    PAGE_SPANS_MAX = 4 << 20,
    PAGE_LINES_MAX = 2 << 20,
    PAGE_IMAGE_PATH_BYTES = 256,
};

enum page_source { PAGE_SOURCE_NONE = 0, PAGE_SOURCE_TEXT_LAYER, PAGE_SOURCE_OCR, PAGE_SOURCE_COUNT };

/* "none", "text-layer", "ocr": the words of the JSON. The string is static. */
const char *page_source_name(enum page_source source);

/* Style of a span, and, in a line, what holds for the line. */
enum {
    PAGE_BOLD = 1u << 0,
    PAGE_ITALIC = 1u << 1,
    PAGE_MONOSPACE = 1u << 2,
    PAGE_RIGHT_TO_LEFT = 1u << 3, /* line: its base direction; span: its characters run that way */
    PAGE_VERTICAL = 1u << 4,      /* top to bottom, as in Japanese; lines follow from right to left */
    PAGE_SPACE_BEFORE = 1u << 5,  /* span: the gap to the span before it reads as a space, which is not in the text */
    PAGE_HIDDEN = 1u << 6,        /* drawn invisibly: a text layer put under a scan */
    PAGE_HYPHEN = 1u << 7, /* line: its last character is a hyphen, which may be there only because the line ends */
    PAGE_TURN_SHIFT = 8,   /* line: two bits, quarter turns clockwise by which it is turned from upright */
    PAGE_TURN_MASK = 3u << PAGE_TURN_SHIFT,
    PAGE_FLAGS_ALL = (1u << 10) - 1,
};

struct page_box {
    float x0, y0, x1, y1;
};

struct page_span {
    uint32_t text_offset, text_bytes; /* in page_content.text; spans follow each other without gap or overlap */
    struct page_box box;
    float font_size; /* as seen, in points; 0: unknown */
    uint32_t flags;
};

struct page_line {
    uint32_t first_span, span_count; /* lines follow each other without gap or overlap */
    struct page_box box;             /* union of its spans */
    float baseline;                  /* y (x for vertical text) of the baseline */
    uint32_t flags;
};

struct page_content {
    uint32_t number; /* 1-based */
    float width, height;
    uint32_t
        rotation; /* degrees clockwise the page asked to be turned: 0, 90, 180, 270; sizes and boxes have it applied */
    enum page_source source;
    float confidence;           /* mean, 0..100; below 0: not known (text layers have none) */
    uint32_t fonts_substituted; /* fonts the file does not embed, replaced by others */
    uint32_t unmapped;          /* characters of the page that have no Unicode value and are left out */
    uint32_t truncated;         /* 1: limits above were reached */
    float skew;        /* degrees by which lines ran down to the right in the picture before it was straightened */
    uint32_t has_look; /* 1: `look` is known */
    uint64_t look[2];  /* hashes of the page's picture: dHash, pHash (kernels/kernels.h) */
    char image_path[PAGE_IMAGE_PATH_BYTES]; /* as seen from the document's files; "": no image. Bytes, maybe no UTF-8,
                                               and a NUL */

    char *text; /* UTF-8, not terminated */
    struct page_span *spans;
    struct page_line *lines;
    uint32_t text_bytes, span_count, line_count;
    uint32_t text_capacity, span_capacity, line_capacity;
    uint32_t line_open; /* between page_line_begin and page_line_end */
};

/* In place. A zeroed struct is a valid, empty one as well. */
void page_content_init(struct page_content *content);
void page_content_fini(struct page_content *content);
/* Empty again, page number and sizes zeroed, memory kept. */
void page_content_clear(struct page_content *content);

/* Makes room for at least `text_bytes` more bytes of text, so that appends of that much cannot fail. */
int page_content_reserve(struct page_content *content, uint32_t text_bytes, uint32_t spans, uint32_t lines);

/* Opens a line with these flags; lines do not nest. -ENOSPC (and `truncated`) at a limit. */
int page_line_begin(struct page_content *content, uint32_t flags);
/* Appends a span to the open line. `text` is copied; empty text is ignored. What is not UTF-8 in it becomes U+FFFD. */
int page_span_append(struct page_content *content, const char *text, size_t text_bytes, const struct page_box *box,
                     float font_size, uint32_t flags);
/* Closes the line; its box is the union of its spans. A line without spans disappears. */
void page_line_end(struct page_content *content, float baseline);

/* The text of a span; `*ret_bytes` its length. */
static inline const char *page_span_text(const struct page_content *content, const struct page_span *span,
                                         uint32_t *ret_bytes)
{
    *ret_bytes = span->text_bytes;
    return content->text + span->text_offset;
}

/* True when there is nothing a reader would see as text: no characters but white space. */
int page_content_blank(const struct page_content *content);

/* For any MessagePack of another process, before it is unpacked: false when an array or map claims more elements, or a
 * text more bytes, than there can be. The unpacker would make room for them first. */
int record_counts_plausible(const void *bytes, size_t length);

/* An upper bound for the encoded size. */
size_t page_record_bound(const struct page_content *content);
/* Encodes into `buffer`: -ENOSPC when `buffer_bytes` is too small (never with page_record_bound). */
int page_record_encode(const struct page_content *content, void *buffer, size_t buffer_bytes, size_t *ret_bytes);
/* Decodes into `content`, replacing what is in it. -EBADMSG: not a page record, or one that does not check out (then
 * the content is empty); -ENOMEM. Unknown keys are skipped, so that later producers may add some. */
int page_record_decode(const void *data, size_t data_bytes, struct page_content *content);

#endif
