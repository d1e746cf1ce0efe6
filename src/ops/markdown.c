/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/markdown.h"

#include <math.h>

#include "ops/layout_internal.h"

/* ---- escaping ---- */

static bool is_alphanumeric(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 0x80;
}

static bool is_entity(const char *text, size_t bytes)
{
    size_t at = 1;
    while (at < bytes && at < 34 && (is_alphanumeric((unsigned char)text[at]) || text[at] == '#'))
        at++;
    return at > 1 && at < bytes && text[at] == ';';
}

/* Would text[at] be markup inside a line? */
static bool is_markup(const char *text, size_t bytes, size_t at)
{
    unsigned char before = at ? (unsigned char)text[at - 1] : ' ',
                  after = at + 1 < bytes ? (unsigned char)text[at + 1] : ' ';
    switch (text[at]) {
    case '\\':
        return after < 0x80 && !is_alphanumeric(after);
    case '`':
    case '*':
    case '~':
    case '^':
        return true;
    case '_':
        return !is_alphanumeric(before) || !is_alphanumeric(after);
    case '$':
        return after != ' ';
    case '[':
        return after == '^' || after == '@';
    case ']':
        return after == '(' || after == ':' || after == '[';
    case '<':
        return is_alphanumeric(after) || after == '/' || after == '!' || after == '?';
    case '&':
        return is_entity(text + at, bytes - at);
    default:
        return false;
    }
}

/* Length of a line start that would be markup up to and without the character to escape, or -1. */
static long start_to_escape(const char *text, size_t bytes)
{
    if (bytes == 0)
        return -1;
    size_t digits = 0;
    switch (text[0]) {
    case '#':
    case '>':
    case '=':
    case '|':
    case '%':
        return 0;
    case '-':
    case '+':
        return bytes == 1 || text[1] == ' ' || text[1] == text[0] ? 0 : -1;
    case ':':
        return bytes > 1 && (text[1] == ' ' || text[1] == ':') ? 0 : -1;
    default:
        while (digits < bytes && digits < 10 && text[digits] >= '0' && text[digits] <= '9')
            digits++;
        if (digits && digits < bytes && (text[digits] == '.' || text[digits] == ')') &&
            (digits + 1 == bytes || text[digits + 1] == ' '))
            return (long)digits;
        return -1;
    }
}

void markdown_escape(struct buffer *buffer, const char *text, size_t bytes, bool at_start)
{
    long special = at_start ? start_to_escape(text, bytes) : -1;
    size_t from = 0;
    for (size_t at = 0; at < bytes; at++) {
        unsigned char c = (unsigned char)text[at];
        if (c == '\n') {
            buffer_append(buffer, text + from, at - from);
            buffer_append_char(buffer, ' ');
            from = at + 1;
            continue;
        }
        if ((long)at != special && (is_alphanumeric(c) || c == ' ' || !is_markup(text, bytes, at)))
            continue;
        buffer_append(buffer, text + from, at - from);
        buffer_append_char(buffer, '\\');
        from = at;
    }
    buffer_append(buffer, text + from, bytes - from);
}

/* ---- blocks ---- */

void markdown_init(struct markdown *markdown, struct buffer *out)
{
    *markdown = (struct markdown){.out = out};
}

/* The empty line between blocks; items of one list stand close. */
static void separate(struct markdown *markdown, enum layout_kind kind)
{
    if (markdown->has_output)
        buffer_append_text(markdown->out,
                           kind == LAYOUT_LIST_ITEM && markdown->last_kind == LAYOUT_LIST_ITEM ? "\n" : "\n\n");
    markdown->has_output = true;
    markdown->last_kind = kind;
}

static void write_list_item(struct buffer *out, const char *text, size_t bytes)
{
    uint32_t marker;
    enum layout_marker kind = layout_marker_read(text, bytes, &marker);
    size_t digits = 0;
    while (digits < bytes && text[digits] >= '0' && text[digits] <= '9')
        digits++;
    if (kind == LAYOUT_MARKER_BULLET) {
        buffer_append_text(out, "- ");
        markdown_escape(out, text + marker, bytes - marker, true);
    } else if (kind == LAYOUT_MARKER_NUMBER && digits) { /* "12. " is Markdown already */
        buffer_append(out, text, digits + 1);
        buffer_append_char(out, ' ');
        markdown_escape(out, text + marker, bytes - marker, true);
    } else {
        buffer_append_text(out, "- ");
        markdown_escape(out, text, bytes, true);
    }
}

static void flush(struct markdown *markdown)
{
    if (markdown->has_pending) {
        separate(markdown, markdown->pending_kind);
        if (markdown->pending_kind == LAYOUT_LIST_ITEM)
            write_list_item(markdown->out, markdown->pending.data, markdown->pending.length);
        else
            markdown_escape(markdown->out, markdown->pending.data, markdown->pending.length, true);
        markdown->has_pending = false;
        markdown->pending.length = 0;
    }
    if (markdown->after.length) {
        separate(markdown, LAYOUT_FOOTNOTE);
        buffer_append(markdown->out, markdown->after.data, markdown->after.length);
        markdown->after.length = 0;
    }
}

void markdown_finish(struct markdown *markdown)
{
    flush(markdown);
    if (markdown->has_output)
        buffer_append_char(markdown->out, '\n');
    markdown->out->failed |= markdown->pending.failed | markdown->after.failed;
    buffer_fini(&markdown->pending);
    buffer_fini(&markdown->after);
}

int markdown_continues(const struct markdown *markdown, float size, const char *text, size_t bytes)
{
    if (!markdown->has_pending || fabsf(markdown->pending_size - size) > 0.6f)
        return 0;
    return layout_text_continues(markdown->pending.data, markdown->pending.length, text, bytes);
}

static void write_fenced(struct buffer *out, const char *text, size_t bytes)
{
    size_t longest = 2, run = 0;
    for (size_t at = 0; at < bytes; at++) {
        run = text[at] == '`' ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    for (size_t i = 0; i <= longest; i++)
        buffer_append_char(out, '`');
    buffer_append_char(out, '\n');
    buffer_append(out, text, bytes);
    buffer_append_char(out, '\n');
    for (size_t i = 0; i <= longest; i++)
        buffer_append_char(out, '`');
}

static void write_heading(struct buffer *out, uint32_t level, const char *text, size_t bytes)
{
    for (uint32_t i = 0; i < (level ? level : 1); i++)
        buffer_append_char(out, '#');
    buffer_append_char(out, ' ');
    bool closes = bytes && text[bytes - 1] == '#';
    markdown_escape(out, text, bytes - closes, false);
    if (closes)
        buffer_append_text(out, "\\#");
}

static void hold_back(struct markdown *markdown, const struct layout_block *block, int continues, const char *text,
                      size_t bytes)
{
    if (continues && markdown->has_pending) {
        layout_text_join(&markdown->pending, 0, 0, text, bytes);
    } else {
        flush(markdown);
        markdown->pending_kind = block->kind == LAYOUT_LIST_ITEM ? LAYOUT_LIST_ITEM : LAYOUT_PARAGRAPH;
        markdown->pending_size = block->size;
        markdown->has_pending = true;
    }
    buffer_append(&markdown->pending, text, bytes);
}

/* Footnotes and captions wait behind a paragraph that may go on after them. */
static void write_aside(struct markdown *markdown, const char *text, size_t bytes)
{
    struct buffer *out = markdown->out;
    if (markdown->has_pending) {
        out = &markdown->after;
        if (out->length)
            buffer_append_text(out, "\n\n");
    } else {
        separate(markdown, LAYOUT_CAPTION);
    }
    markdown_escape(out, text, bytes, true);
}

void markdown_block(struct markdown *markdown, const struct layout_block *block, int continues, const char *text,
                    size_t bytes)
{
    if (bytes == 0)
        return;
    switch (block->kind) {
    case LAYOUT_PARAGRAPH:
    case LAYOUT_LIST_ITEM:
        hold_back(markdown, block, continues, text, bytes);
        break;
    case LAYOUT_FOOTNOTE:
    case LAYOUT_CAPTION:
    case LAYOUT_ASIDE:
        write_aside(markdown, text, bytes);
        break;
    case LAYOUT_HEADING:
        flush(markdown);
        separate(markdown, block->kind);
        write_heading(markdown->out, block->level, text, bytes);
        break;
    case LAYOUT_CODE:
    case LAYOUT_TABLE:
        flush(markdown);
        separate(markdown, block->kind);
        write_fenced(markdown->out, text, bytes);
        break;
    default: /* running heads and feet are no part of the text */
        break;
    }
}

void markdown_note(struct markdown *markdown, const char *text, size_t bytes)
{
    flush(markdown);
    separate(markdown, LAYOUT_PARAGRAPH);
    buffer_append_text(markdown->out, "> **");
    markdown_escape(markdown->out, text, bytes, true);
    buffer_append_text(markdown->out, "**");
}
