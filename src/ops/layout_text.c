/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of rows and blocks.
 */
#include <math.h>

#include "ops/layout_internal.h"
#include "ops/page_utf8.h"

static bool is_wide(uint32_t code)
{
    return code >= 0x2E80 && (code < 0xA4D0 || (code >= 0xF900 && code < 0xFB00) || (code >= 0xFE30 && code < 0xFE50) ||
                              (code >= 0xFF00 && code < 0xFFF0) || (code >= 0x20000 && code < 0x40000));
}

static bool is_lower(uint32_t code)
{
    if (code < 0x80)
        return code >= 'a' && code <= 'z';
    if (code <= 0xFF)
        return code >= 0xDF && code != 0xF7;
    if (code < 0x250) /* Latin Extended: pairs, the odd one is the small one in most blocks */
        return code < 0x139 || (code >= 0x14A && code < 0x179) ? code & 1 : !(code & 1) || code > 0x17F;
    return (code >= 0x3AC && code <= 0x3CE) || (code >= 0x430 && code <= 0x45F) || (code >= 0x561 && code <= 0x587);
}

static bool is_letter(uint32_t code)
{
    return (code >= 'A' && code <= 'Z') || (code >= 'a' && code <= 'z') ||
           (code >= 0xC0 && code != 0xD7 && code != 0xF7 && (code < 0x2000 || code >= 0x2C00));
}

bool layout_has_letters(const char *text, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        uint32_t length;
        if (is_letter(utf8_next(text + at, bytes - at, &length)))
            return true;
        at += length;
    }
    return false;
}

static bool word_in(const char *word, size_t bytes, const char *const *words)
{
    for (; *words; words++) {
        if (strlen(*words) == bytes && strncasecmp(*words, word, bytes) == 0)
            return true;
    }
    return false;
}

static size_t word_before(const char *text, size_t end)
{
    size_t at = end;
    while (at > 0 && ((text[at - 1] >= 'a' && text[at - 1] <= 'z') || (text[at - 1] >= 'A' && text[at - 1] <= 'Z') ||
                      (unsigned char)text[at - 1] >= 0x80))
        at--;
    return at;
}

/* Does the hyphen at the end of text[0..bytes) belong to a compound? Words that are rarely the first syllables of
 * another, and words that have a hyphen already ("state-of-the-"). */
static bool is_compound(const char *text, size_t bytes, const char *after, size_t after_bytes)
{
    static const char *const firsts[] = {"self",  "well",  "high",  "low",    "long",  "short", "half",   "all",
                                         "cross", "user",  "real",  "large",  "small", "state", "single", "open",
                                         "two",   "three", "four",  "five",   "six",   "peer",  "time",   "left",
                                         "right", "back",  "first", "second", "third", NULL};
    static const char *const endings[] = {"est", "er",  "ly",  "ing",  "ed",   "ness",  "ity",
                                          "ism", "ist", "ize", "ized", "ment", "ments", NULL};
    size_t end = bytes - 1, start = word_before(text, end);
    if (start > 0 && text[start - 1] == '-' && start > 1 && text[start - 2] != ' ')
        return true;
    size_t length = 0;
    while (length < after_bytes && after[length] >= 'a' && after[length] <= 'z')
        length++;
    return word_in(text + start, end - start, firsts) && !word_in(after, length, endings);
}

void layout_text_join(struct buffer *buffer, size_t since, int hyphen, const char *after, size_t after_bytes)
{
    if (buffer->length == since || after_bytes == 0 || buffer->failed)
        return;
    uint32_t bytes, last_bytes;
    uint32_t last = utf8_last(buffer->data + since, buffer->length - since, &last_bytes);
    uint32_t next = utf8_next(after, after_bytes, &bytes);
    bool dash = last == '-' || last == 0x2010;
    if (hyphen && !dash)
        return; /* a soft hyphen: it is not in the text */
    if (dash && buffer->length - since > last_bytes) {
        uint32_t unused;
        uint32_t letter = utf8_last(buffer->data + since, buffer->length - since - last_bytes, &unused);
        if (is_letter(letter) && is_lower(next)) {
            if (!is_compound(buffer->data + since, buffer->length - since - last_bytes + 1, after, after_bytes))
                buffer->length -= last_bytes;
            return;
        }
        if (letter != ' ' && is_letter(next))
            return; /* "COVID-" "Impfung", "Anglo-" "Saxon": the hyphen is real */
        if (letter != ' ' && next >= '0' && next <= '9')
            return;
    }
    if (is_wide(last) && is_wide(next))
        return;
    if (last != ' ' && next != ' ')
        buffer_append_char(buffer, ' ');
}

int layout_text_continues(const char *before, size_t before_bytes, const char *after, size_t after_bytes)
{
    if (before_bytes == 0 || after_bytes == 0)
        return 0;
    uint32_t bytes;
    uint32_t last = utf8_last(before, before_bytes, &bytes), next = utf8_next(after, after_bytes, &bytes);
    bool full_stop =
        last == '.' || last == '!' || last == '?' || last == ':' || last == 0x3002 || last == 0xFF01 || last == 0xFF1F;
    if (is_lower(next))
        return !full_stop || last == '.';
    if (last == ',' || last == '-' || last == 0x2010)
        return is_letter(next) || (next >= '0' && next <= '9') || next == '(' || next == '"' || next == 0x201C;
    return is_wide(next) && is_wide(last) && !full_stop;
}

static void append_line(const struct page_content *content, const struct page_line *line, struct buffer *buffer)
{
    for (uint32_t i = 0; i < line->span_count; i++) {
        const struct page_span *span = &content->spans[line->first_span + i];
        if (i && span->flags & PAGE_SPACE_BEFORE)
            buffer_append_char(buffer, ' ');
        buffer_append(buffer, content->text + span->text_offset, span->text_bytes);
    }
}

void layout_row_text(const struct layout *layout, const struct page_content *content, const struct layout_row *row,
                     struct buffer *buffer)
{
    for (uint32_t i = 0; i < row->item_count; i++) {
        const struct layout_item *item = &layout->items[row->first_item + i];
        if (i) {
            float gap = row->flags & PAGE_RIGHT_TO_LEFT ? item[-1].u0 - item->u1 : item->u0 - item[-1].u1;
            if (gap > 0.15f * row->size || gap < -0.3f * row->size)
                buffer_append_char(buffer, ' ');
        }
        append_line(content, &content->lines[item->line], buffer);
    }
}

static float median_advance(const struct layout *layout, const struct layout_block *block)
{
    float width = 0;
    uint32_t chars = 0;
    for (uint32_t r = block->first_row; r < block->first_row + block->row_count; r++) {
        const struct layout_row *row = &layout->rows[r];
        for (uint32_t i = row->first_item; i < row->first_item + row->item_count; i++) {
            width += layout->items[i].u1 - layout->items[i].u0;
            chars += layout->items[i].chars;
        }
    }
    return chars && width > 0 ? width / (float)chars : 1;
}

static size_t chars_since(const struct buffer *buffer, size_t since)
{
    size_t chars = 0;
    for (size_t i = since; i < buffer->length; i++)
        chars += ((unsigned char)buffer->data[i] & 0xC0) != 0x80;
    return chars;
}

/* Puts every item at the character column its place on the page asks for, at least `least` spaces after the one before.
 */
static void append_aligned(const struct layout *layout, const struct page_content *content,
                           const struct layout_row *row, float start, float advance, size_t least,
                           struct buffer *buffer)
{
    size_t since = buffer->length;
    for (uint32_t i = 0; i < row->item_count && !buffer->failed; i++) {
        const struct layout_item *item = &layout->items[row->first_item + i];
        float at = row->flags & PAGE_RIGHT_TO_LEFT ? 0 : (item->u0 - start) / advance;
        size_t column = at > 0 && at < 400 ? (size_t)(at + 0.5f) : 0, now = chars_since(buffer, since);
        if (i && column < now + least)
            column = now + least;
        for (; now < column; now++)
            buffer_append_char(buffer, ' ');
        append_line(content, &content->lines[item->line], buffer);
    }
}

static void aligned_text(const struct layout *layout, const struct page_content *content,
                         const struct layout_block *block, struct buffer *buffer)
{
    float start = HUGE_VALF, advance = median_advance(layout, block);
    const struct layout_row *rows = layout->rows + block->first_row;
    for (uint32_t r = 0; r < block->row_count; r++)
        start = fminf(start, rows[r].u0);
    for (uint32_t r = 0; r < block->row_count; r++) {
        if (r)
            buffer_append_char(buffer, '\n');
        append_aligned(layout, content, &rows[r], start, advance, block->kind == LAYOUT_TABLE ? 2 : 1, buffer);
    }
}

void layout_block_text(const struct layout *layout, const struct page_content *content,
                       const struct layout_block *block, struct buffer *buffer)
{
    if (block->kind == LAYOUT_CODE || block->kind == LAYOUT_TABLE) {
        aligned_text(layout, content, block, buffer);
        return;
    }
    size_t since = buffer->length;
    for (uint32_t r = 0; r < block->row_count; r++) {
        const struct layout_row *row = &layout->rows[block->first_row + r];
        const struct page_line *line = &content->lines[layout->items[row->first_item].line];
        const struct page_span *span = &content->spans[line->first_span];
        if (r)
            layout_text_join(buffer, since, (row[-1].flags & PAGE_HYPHEN) != 0, content->text + span->text_offset,
                             span->text_bytes);
        layout_row_text(layout, content, row, buffer);
    }
}
