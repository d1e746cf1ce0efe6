/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/layout_document.h"

#include <errno.h>
#include <stdlib.h>

#include "ops/layout_internal.h"
#include "ops/page_utf8.h"

/* A page of fewer lines has no margins: what stands there is all there is. */
enum { PAGE_LINES_LEAST = 5, REPEATS_LEAST = 3, NUMBER_REPEATS_LEAST = 2 };
/* Page numbers may stand further in than other running lines. */
static const float margin_part = 0.12f, number_margin_part = 0.25f, heading_least = 1.12f;

static const uint64_t key_seed = 0xcbf29ce484222325u, key_prime = 0x100000001b3u;

void layout_document_fini(struct layout_document *document)
{
    free(document->entries);
    *document = (struct layout_document){0};
}

/* ---- sizes ---- */

static uint32_t size_bin(float size)
{
    float bin = size * 4 + 0.5f;
    return bin > 0 && bin < LAYOUT_SIZE_BINS ? (uint32_t)bin : bin > 0 ? LAYOUT_SIZE_BINS - 1 : 0;
}

/* Lines of some letters, by their size: initials and symbols make no headings. */
static void note_lines(struct layout_document *document, const struct page_content *content)
{
    for (uint32_t i = 0; i < content->line_count; i++) {
        const struct page_line *line = &content->lines[i];
        const struct page_span *span = &content->spans[line->first_span];
        if (span->text_bytes >= 4 && span->text_bytes < 200 &&
            layout_has_letters(content->text + span->text_offset, span->text_bytes))
            document->lines[size_bin(span->font_size)]++;
    }
}

static void note_sizes(struct layout_document *document, const struct page_content *content)
{
    for (uint32_t i = 0; i < content->span_count; i++) {
        const struct page_span *span = &content->spans[i];
        uint32_t at = size_bin(span->font_size);
        document->chars[at] += span->text_bytes;
        document->total_chars += span->text_bytes;
        if (span->flags & PAGE_BOLD)
            document->bold_chars += span->text_bytes;
        if (span->flags & PAGE_MONOSPACE)
            document->monospace_chars += span->text_bytes;
    }
}

/* Text within half a point of the size. */
static uint64_t chars_near(const struct layout_document *document, uint32_t bin)
{
    uint64_t chars = 0;
    for (uint32_t i = bin < 2 ? 1 : bin - 1; i <= bin + 1 && i < LAYOUT_SIZE_BINS; i++)
        chars += document->chars[i];
    return chars;
}

struct heading_size {
    float size;
    uint64_t lines;
};

static uint32_t heading_sizes(const struct layout_document *document, float body, struct heading_size *sizes,
                              uint32_t max)
{
    uint32_t count = 0;
    for (uint32_t bin = LAYOUT_SIZE_BINS - 1; bin > 0 && (float)bin / 4 > heading_least * body; bin--) {
        float size = (float)bin / 4;
        if (document->lines[bin] == 0)
            continue;
        if (count && size > sizes[count - 1].size * 0.95f)
            sizes[count - 1].lines += document->lines[bin];
        else if (count < max)
            sizes[count++] = (struct heading_size){size, document->lines[bin]};
    }
    return count;
}

/* Of many sizes only those with most lines become levels of their own. */
static uint32_t drop_rarest(struct heading_size *sizes, uint32_t count)
{
    uint32_t rarest = 0;
    for (uint32_t i = 1; i < count; i++) {
        if (sizes[i].lines < sizes[rarest].lines)
            rarest = i;
    }
    for (uint32_t i = rarest; i + 1 < count; i++)
        sizes[i] = sizes[i + 1];
    return count - 1;
}

void layout_document_finish(struct layout_document *document)
{
    struct layout_style *style = &document->style;
    struct heading_size sizes[LAYOUT_SIZE_BINS];
    uint32_t body = 0;
    *style = (struct layout_style){0};
    for (uint32_t bin = 1; bin < LAYOUT_SIZE_BINS; bin++) {
        if (document->chars[bin] && (!body || chars_near(document, bin) > chars_near(document, body)))
            body = bin;
    }
    if (!body)
        return;
    style->body_size = (float)body / 4;
    style->body_bold = document->bold_chars * 2 > document->total_chars;
    style->body_monospace = document->monospace_chars * 2 > document->total_chars;
    uint32_t count = heading_sizes(document, style->body_size, sizes, LAYOUT_SIZE_BINS);
    while (count > LAYOUT_HEADING_SIZES_MAX)
        count = drop_rarest(sizes, count);
    style->heading_count = count;
    for (uint32_t i = 0; i < count; i++)
        style->heading_sizes[i] = sizes[i].size;
}

/* ---- margins ---- */

static const char *line_text(const struct page_content *content, const struct page_line *line, uint32_t *ret_bytes)
{
    const struct page_span *first = &content->spans[line->first_span], *last = first + line->span_count - 1;
    *ret_bytes = last->text_offset + last->text_bytes - first->text_offset;
    return content->text + first->text_offset;
}

static bool is_roman(const char *text, uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) {
        if (!strchr("ivxlcIVXLC", text[i]))
            return false;
    }
    return bytes > 0 && bytes <= 8;
}

/* The text without spaces, and `alike` with every run of digits (or a roman numeral that is all of it) as one mark.
 * `*ret_number`: it is nothing but numbers and punctuation. 0 when there is nothing to compare. */
static uint64_t line_key(const char *text, uint32_t bytes, uint64_t side, bool alike, bool *ret_number)
{
    uint64_t key = key_seed ^ side;
    bool digits = false, number = true;
    if (is_roman(text, bytes)) {
        *ret_number = true;
        return (key ^ '#') * key_prime | 1;
    }
    for (uint32_t i = 0; i < bytes; i++) {
        char c = text[i];
        bool digit = c >= '0' && c <= '9';
        if (c == ' ' || (digit && digits && alike))
            continue;
        digits = digit;
        if (!digit && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (unsigned char)c >= 0x80))
            number = false;
        key = (key ^ (unsigned char)(digit && alike ? '#' : c)) * key_prime;
    }
    *ret_number = number;
    return bytes ? key | 1 : 0;
}

/* The size of most of a page's text. */
static float page_size(const struct page_content *content)
{
    uint32_t chars[LAYOUT_SIZE_BINS] = {0}, most = 0;
    for (uint32_t i = 0; i < content->span_count; i++) {
        uint32_t bin = size_bin(content->spans[i].font_size);
        chars[bin] += content->spans[i].text_bytes;
        if (chars[bin] > chars[most])
            most = bin;
    }
    return (float)most / 4;
}

/* The key of a line in a margin, 0 when it cannot be a running line. What is larger than the text of its page may be a
 * heading: "Chapter 1" and "Chapter 2" are two headings, and only what repeats to the letter is a running head. */
static uint64_t margin_key(const struct page_content *content, const struct page_line *line, int side, bool outermost,
                           float size, bool *ret_number)
{
    uint32_t bytes;
    const char *text = line_text(content, line, &bytes);
    float middle = (line->box.y0 + line->box.y1) / 2, distance = side == 1 ? middle : content->height - middle;
    bool large = content->spans[line->first_span].font_size > heading_least * size;
    uint64_t key = line_key(text, bytes, (uint64_t)side, true, ret_number);
    if (large && !*ret_number)
        key = line_key(text, bytes, (uint64_t)side, false, ret_number);
    return (*ret_number && outermost) || distance <= margin_part * content->height ? key : 0;
}

/* Up to LAYOUT_MARGIN_LINES_MAX lines nearest to the top (side 1) or bottom (side 2), upright ones. */
static uint32_t margin_lines(const struct page_content *content, int side, uint32_t lines[LAYOUT_MARGIN_LINES_MAX])
{
    float distances[LAYOUT_MARGIN_LINES_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < content->line_count; i++) {
        const struct page_line *line = &content->lines[i];
        float middle = (line->box.y0 + line->box.y1) / 2, distance = side == 1 ? middle : content->height - middle;
        if (line->flags & (PAGE_VERTICAL | PAGE_TURN_MASK) || distance > number_margin_part * content->height)
            continue;
        uint32_t at = count;
        while (at > 0 && distances[at - 1] > distance)
            at--;
        if (at == LAYOUT_MARGIN_LINES_MAX)
            continue;
        count += count < LAYOUT_MARGIN_LINES_MAX;
        for (uint32_t k = count - 1; k > at; k--) {
            lines[k] = lines[k - 1];
            distances[k] = distances[k - 1];
        }
        lines[at] = i;
        distances[at] = distance;
    }
    return count;
}

static struct layout_margin_entry *find(const struct layout_document *document, uint64_t key)
{
    uint32_t mask = document->entry_capacity - 1, at = (uint32_t)(key >> 32 ^ key) & mask;
    while (document->entries[at].key && document->entries[at].key != key)
        at = (at + 1) & mask;
    return &document->entries[at];
}

static int grow_entries(struct layout_document *document)
{
    struct layout_margin_entry *old = document->entries;
    uint32_t old_capacity = document->entry_capacity, capacity = old_capacity ? old_capacity * 2 : 256;
    struct layout_margin_entry *entries = calloc(capacity, sizeof *entries);
    if (!entries)
        return -ENOMEM;
    document->entries = entries;
    document->entry_capacity = capacity;
    for (uint32_t i = 0; i < old_capacity; i++) {
        if (old[i].key)
            *find(document, old[i].key) = old[i];
    }
    free(old);
    return 0;
}

static int note_key(struct layout_document *document, uint64_t key, uint32_t page)
{
    if (document->entry_count * 2 >= document->entry_capacity && grow_entries(document))
        return -ENOMEM;
    struct layout_margin_entry *entry = find(document, key);
    if (!entry->key) {
        entry->key = key;
        document->entry_count++;
    }
    if (entry->last_page != page) {
        entry->last_page = page;
        entry->count++;
    }
    return 0;
}

int layout_document_note(struct layout_document *document, const struct page_content *content)
{
    document->page_count++;
    note_sizes(document, content);
    note_lines(document, content);
    if (content->line_count < PAGE_LINES_LEAST)
        return 0;
    float size = page_size(content);
    for (int side = 1; side <= 2; side++) {
        uint32_t lines[LAYOUT_MARGIN_LINES_MAX], count = margin_lines(content, side, lines);
        for (uint32_t i = 0; i < count; i++) {
            bool number;
            uint64_t key = margin_key(content, &content->lines[lines[i]], side, i == 0, size, &number);
            if (key && note_key(document, key, document->page_count))
                return -ENOMEM;
        }
    }
    return 0;
}

void layout_document_margins(const struct layout_document *document, const struct page_content *content,
                             uint8_t *ret_margin)
{
    if (content->line_count > 0) /* else there may be no array at all */
        memset(ret_margin, 0, content->line_count);
    if (content->line_count < PAGE_LINES_LEAST || document->entry_capacity == 0)
        return;
    float size = page_size(content);
    for (int side = 1; side <= 2; side++) {
        uint32_t lines[LAYOUT_MARGIN_LINES_MAX], count = margin_lines(content, side, lines);
        for (uint32_t i = 0; i < count; i++) {
            bool number;
            uint64_t key = margin_key(content, &content->lines[lines[i]], side, i == 0, size, &number);
            uint32_t repeats = key ? find(document, key)->count : 0;
            if (repeats >= (uint32_t)(number ? NUMBER_REPEATS_LEAST : REPEATS_LEAST))
                ret_margin[lines[i]] = (uint8_t)side;
        }
    }
}
