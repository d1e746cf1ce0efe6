/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks: which rows belong together, and what they are.
 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "ops/layout_internal.h"
#include "ops/page_utf8.h"

enum { HEADING_ROWS_MAX = 4, HEADING_CHARS_MAX = 240, BOLD_HEADING_CHARS_MAX = 120 };

/* What rows of one region have in common. Edges are in reading direction: start < end. */
struct column {
    uint32_t region;
    float start, end, leading, size;
};

struct forming {
    struct layout *layout;
    const struct page_content *content;
    const struct layout_style *style;
    float body_size, page_bottom, page_top;
    struct column column;
};

/* ---- rows in reading direction ---- */

static bool reversed(const struct layout_row *row)
{
    return row->flags & PAGE_RIGHT_TO_LEFT;
}

static float row_start_edge(const struct layout_row *row)
{
    return reversed(row) ? -row->u1 : row->u0;
}

static float row_end_edge(const struct layout_row *row)
{
    return reversed(row) ? -row->u0 : row->u1;
}

static const char *row_text(const struct forming *f, const struct layout_row *row, uint32_t *ret_bytes)
{
    const struct layout_item *item = &f->layout->items[row->first_item];
    const struct page_line *line = &f->content->lines[item->line];
    const struct page_span *first = &f->content->spans[line->first_span];
    const struct page_span *last = first + line->span_count - 1;
    *ret_bytes = last->text_offset + last->text_bytes - first->text_offset;
    return f->content->text + first->text_offset;
}

static uint32_t row_last_code(const struct forming *f, const struct layout_row *row)
{
    const struct layout_item *item = &f->layout->items[row->first_item + row->item_count - 1];
    const struct page_line *line = &f->content->lines[item->line];
    const struct page_span *last = &f->content->spans[line->first_span + line->span_count - 1];
    uint32_t bytes;
    return utf8_last(f->content->text + last->text_offset, last->text_bytes, &bytes);
}

static bool ends_sentence(uint32_t code)
{
    return code == '.' || code == '!' || code == '?' || code == ':' || code == 0x3002 || code == 0xFF01 ||
           code == 0xFF1F || code == 0x061F || code == 0x06D4 || code == 0x2026 || code == ';';
}

/* Width of the first word, from the average width of the row's characters. */
static float first_word_width(const struct forming *f, const struct layout_row *row)
{
    uint32_t bytes, chars = 0;
    const char *text = row_text(f, row, &bytes);
    for (uint32_t i = 0; i < bytes && text[i] != ' '; i++)
        chars += ((unsigned char)text[i] & 0xC0) != 0x80;
    return row->chars ? (row->u1 - row->u0) * (float)chars / (float)row->chars : 0;
}

/* ---- markers ---- */

static uint32_t spaces_at(const char *text, size_t bytes, uint32_t at)
{
    while (at < bytes && text[at] == ' ')
        at++;
    return at;
}

static bool is_bullet(uint32_t code)
{
    return code == 0x2022 || code == 0x25E6 || code == 0x25AA || code == 0x25CF || code == 0x25CB || code == 0x25A0 ||
           code == 0x2023 || code == 0x2043 || code == 0x2219 || code == 0x00B7 || code == 0x27A2 || code == 0x2713 ||
           code == 0xF0B7 || code == 0xF0A7 || code == 0xF0D8;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_ascii_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* "1.", "12)", "(3)", "[4]", "a)", "(b)", "iv." is left alone: too often an initial. */
static uint32_t number_length(const char *text, size_t bytes)
{
    uint32_t at = 0, digits = 0;
    char open = bytes && (text[0] == '(' || text[0] == '[') ? text[at++] : 0;
    while (at < bytes && is_digit(text[at]) && digits < 3)
        at++, digits++;
    bool letter = digits == 0 && at < bytes && is_ascii_letter(text[at]);
    if (letter)
        at++;
    if (at >= bytes || (digits == 0 && !letter))
        return 0;
    char close = text[at++];
    if (open == '(' ? close == ')' : open == '[' ? close == ']' && digits : close == ')' || (close == '.' && digits))
        return at;
    return 0;
}

static bool starts_caption(const char *text, size_t bytes)
{
    static const char *const words[] = {"Figure ",  "Fig. ",      "Table ",     "FIGURE ", "TABLE ",
                                        "Listing ", "Algorithm ", "Abbildung ", "Tabelle "};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t length = strlen(words[i]);
        if (bytes <= length || memcmp(text, words[i], length))
            continue;
        size_t at = length;
        while (at < bytes && (is_digit(text[at]) || (text[at] == '.' && at + 1 < bytes && is_digit(text[at + 1]))))
            at++;
        return at > length && at < bytes && (text[at] == ':' || text[at] == '.');
    }
    return false;
}

enum layout_marker layout_marker_read(const char *text, size_t bytes, uint32_t *ret_bytes)
{
    *ret_bytes = 0;
    if (bytes == 0)
        return LAYOUT_MARKER_NONE;
    uint32_t length;
    uint32_t code = utf8_next(text, bytes, &length);
    uint32_t after = spaces_at(text, bytes, length);
    bool dash = (code == '-' || code == '*' || code == 0x2013 || code == 0x2014) && after > length;
    if ((is_bullet(code) || dash) && (after > length || bytes > length)) {
        *ret_bytes = after;
        return LAYOUT_MARKER_BULLET;
    }
    if (starts_caption(text, bytes))
        return LAYOUT_MARKER_CAPTION;
    length = number_length(text, bytes);
    after = spaces_at(text, bytes, length);
    if (length && after > length && after < bytes) {
        *ret_bytes = after;
        return LAYOUT_MARKER_NUMBER;
    }
    if (code == 0x2020 || code == 0x2021 || code == 0xA7 || code == '*' || is_digit(text[0])) {
        *ret_bytes = 0;
        return LAYOUT_MARKER_NOTE;
    }
    return LAYOUT_MARKER_NONE;
}

enum { HEAD_BYTES = 96 };

static uint32_t line_text_copy(const struct forming *f, const struct layout_item *item, char *out, uint32_t room)
{
    const struct page_line *line = &f->content->lines[item->line];
    const struct page_span *first = &f->content->spans[line->first_span], *last = first + line->span_count - 1;
    uint32_t bytes = last->text_offset + last->text_bytes - first->text_offset;
    bytes = bytes < room ? bytes : room;
    memcpy(out, f->content->text + first->text_offset, bytes);
    return bytes;
}

/* The first characters of a row, also where a wide gap parts a number from what it numbers. */
static uint32_t row_head(const struct forming *f, const struct layout_row *row, char head[HEAD_BYTES])
{
    const struct layout_item *items = &f->layout->items[row->first_item];
    uint32_t bytes = line_text_copy(f, &items[0], head, HEAD_BYTES - 1);
    if (row->item_count > 1 && bytes < 8) {
        head[bytes++] = ' ';
        bytes += line_text_copy(f, &items[1], head + bytes, HEAD_BYTES - bytes);
    }
    return bytes;
}

static enum layout_marker row_marker(const struct forming *f, const struct layout_row *row)
{
    char head[HEAD_BYTES];
    uint32_t length;
    return layout_marker_read(head, row_head(f, row, head), &length);
}

/* ---- columns ---- */

static void measure_column(struct forming *f, uint32_t first, uint32_t end)
{
    const struct layout_row *rows = f->layout->rows;
    struct column column = {.region = rows[first].region, .start = HUGE_VALF, .end = -HUGE_VALF};
    float *numbers = f->layout->numbers;
    uint32_t row = first, steps = 0;
    for (; row < end && rows[row].region == column.region; row++) {
        column.start = fminf(column.start, row_start_edge(&rows[row]));
        column.end = fmaxf(column.end, row_end_edge(&rows[row]));
    }
    for (uint32_t i = first + 1; i < row; i++) {
        float step = rows[i].baseline - rows[i - 1].baseline, size = fmaxf(rows[i].size, rows[i - 1].size);
        if (step > 0.9f * size && step < 3 * size)
            numbers[steps++] = step;
    }
    column.leading = steps ? layout_select(numbers, steps, steps < 8 ? 0 : (steps - 1) / 3) : 0;
    for (uint32_t i = first; i < row; i++)
        numbers[i - first] = rows[i].size;
    column.size = layout_select(numbers, row - first, (row - first) / 2);
    f->column = column;
}

/* ---- is row `b` the start of a new block after row `a`? ---- */

static bool is_code(const struct forming *f, const struct layout_row *row)
{
    if (!(row->flags & PAGE_MONOSPACE) || f->style->body_monospace || row->size > 1.12f * f->body_size)
        return false;
    uint32_t bytes;
    const char *text = row_text(f, row, &bytes);
    return utf8_ascii_prefix(text, bytes) * 2 >= bytes; /* CJK fonts are monospaced too */
}

/* A row of cells: items with clear gaps between them. */
static bool is_cells(const struct forming *f, const struct layout_row *row)
{
    uint32_t from = row->item_count == 2 && f->layout->items[row->first_item].chars <= 4 ? row_marker(f, row) : 0;
    from =
        from == LAYOUT_MARKER_BULLET || from == LAYOUT_MARKER_NUMBER ? 2 : 1; /* an item of a list is no row of cells */
    for (uint32_t i = from; i < row->item_count; i++) {
        const struct layout_item *a = &f->layout->items[row->first_item + i - 1], *b = a + 1;
        float gap = reversed(row) ? a->u0 - b->u1 : b->u0 - a->u1;
        if (gap > 1.2f * row->size)
            return true;
    }
    return false;
}

/* Do two rows of cells share a cell edge beside their first one? */
static bool cells_align(const struct forming *f, const struct layout_row *a, const struct layout_row *b)
{
    float near = 0.8f * fmaxf(a->size, b->size);
    uint32_t tries = 0;
    for (uint32_t i = 1; i < a->item_count; i++) {
        const struct layout_item *left = &f->layout->items[a->first_item + i];
        for (uint32_t j = 1; j < b->item_count && tries < 4096; j++, tries++) {
            const struct layout_item *right = &f->layout->items[b->first_item + j];
            if (fabsf(left->u0 - right->u0) < near || fabsf(left->u1 - right->u1) < near ||
                fabsf(left->u0 + left->u1 - right->u0 - right->u1) < near)
                return true;
        }
    }
    return false;
}

static bool centered(const struct forming *f, const struct layout_row *row)
{
    float left = row_start_edge(row) - f->column.start, right = f->column.end - row_end_edge(row);
    return left > row->size && fabsf(left - right) < 1.5f * row->size;
}

static bool new_style(const struct forming *f, const struct layout_row *a, const struct layout_row *b)
{
    float larger = fmaxf(a->size, b->size), smaller = fminf(a->size, b->size);
    if (larger > 1.12f * smaller && a->chars > 2 && b->chars > 2)
        return true;
    bool large = smaller > 1.12f * f->body_size; /* one heading, whatever its weight */
    return ((a->flags ^ b->flags) & PAGE_BOLD) && !large && a->chars > 3 && b->chars > 3;
}

static bool far_below(const struct forming *f, const struct layout_row *a, const struct layout_row *b)
{
    float step = b->baseline - a->baseline, size = fmaxf(a->size, b->size);
    float usual = f->column.leading > 0 && size < 1.3f * f->column.size ? f->column.leading : 1.25f * size;
    return step > fmaxf(1.3f * usual, 1.25f * size) || step < -0.5f * size;
}

/* The line ended though the next word had room. */
static bool ended_early(const struct forming *f, const struct layout_row *a, const struct layout_row *b)
{
    float room = f->column.end - row_end_edge(a), width = f->column.end - f->column.start;
    float word = first_word_width(f, b) + 0.3f * a->size;
    if (a->flags & PAGE_HYPHEN)
        return false;
    if (ends_sentence(row_last_code(f, a)))
        return room > word + 1.5f * a->size;
    return room > word + 0.3f * width && room > 6 * a->size;
}

/* First line of a paragraph: set in against the line before, which was not set in itself. */
static bool indented(const struct forming *f, const struct layout_row *a, const struct layout_row *b, bool a_is_first)
{
    float in = row_start_edge(b) - row_start_edge(a);
    if (in < 0.7f * b->size || in > 8 * b->size)
        return false;
    return !a_is_first || ends_sentence(row_last_code(f, a));
}

/* At the foot of the page, smaller than the body, and marked. */
static bool is_footnote(const struct forming *f, const struct layout_row *first)
{
    if (first->size > 0.92f * f->body_size || first->v0 < f->page_top + 0.55f * (f->page_bottom - f->page_top))
        return false;
    uint32_t bytes;
    enum layout_marker marker = row_marker(f, first);
    return marker == LAYOUT_MARKER_NOTE || marker == LAYOUT_MARKER_NUMBER || row_text(f, first, &bytes)[0] == '*';
}

static bool breaks(const struct forming *f, const struct layout_block *block, uint32_t b_index)
{
    const struct layout_row *rows = f->layout->rows, *b = &rows[b_index], *a = b - 1;
    if (a->region != b->region || far_below(f, a, b))
        return true;
    bool a_code = is_code(f, a), b_code = is_code(f, b);
    if (a_code || b_code)
        return a_code != b_code;
    if (block->kind == LAYOUT_TABLE || (is_cells(f, b) && is_cells(f, a)))
        return !(is_cells(f, a) && is_cells(f, b) && (block->kind == LAYOUT_TABLE || block->row_count == 1) &&
                 cells_align(f, a, b));
    if (new_style(f, a, b))
        return true;
    enum layout_marker marker = row_marker(f, b);
    if (block->kind == LAYOUT_FOOTNOTE)
        return is_footnote(f, b) && ends_sentence(row_last_code(f, a));
    if (marker == LAYOUT_MARKER_BULLET || marker == LAYOUT_MARKER_CAPTION)
        return true;
    if (marker == LAYOUT_MARKER_NUMBER && (ends_sentence(row_last_code(f, a)) || block->kind == LAYOUT_LIST_ITEM))
        return true;
    if (block->kind == LAYOUT_LIST_ITEM) /* continuation lines stand right of the marker */
        return row_start_edge(b) < row_start_edge(&rows[block->first_row]) - 0.5f * b->size ||
               (ended_early(f, a, b) && row_start_edge(b) < row_start_edge(&rows[block->first_row]) + 0.5f * b->size);
    if (centered(f, a) && centered(f, b))
        return false;
    return ended_early(f, a, b) || indented(f, a, b, block->row_count == 1);
}

/* ---- kinds ---- */

static uint32_t block_chars(const struct layout *layout, const struct layout_block *block)
{
    uint32_t chars = 0;
    for (uint32_t i = 0; i < block->row_count; i++)
        chars += layout->rows[block->first_row + i].chars;
    return chars;
}

static uint32_t level_of_size(const struct layout_style *style, float size)
{
    for (uint32_t level = 0; level < style->heading_count; level++) {
        if (size > style->heading_sizes[level] * 0.97f)
            return level + 1;
    }
    return style->heading_count + 1;
}

/* "2.1.3 Results" has three parts; 0 when it is no number in front of an upper-case word. */
static uint32_t number_parts(const char *text, uint32_t bytes)
{
    uint32_t at = 0, parts = 0;
    while (at < bytes && is_digit(text[at])) {
        uint32_t digits = 0;
        for (; at < bytes && is_digit(text[at]); at++)
            digits++;
        if (digits > 2)
            return 0;
        parts++;
        if (at < bytes && text[at] == '.')
            at++;
    }
    uint32_t after = spaces_at(text, bytes, at);
    return parts && after > at && after < bytes && text[after] >= 'A' && text[after] <= 'Z' ? parts : 0;
}

/* Is there more space above and below than between lines? The edges of a column count as space. */
static bool stands_alone(const struct forming *f, const struct layout_block *block)
{
    const struct layout *layout = f->layout;
    const struct layout_row *row = &layout->rows[block->first_row];
    bool above = block->first_row == 0 || row[-1].region != row->region || far_below(f, row - 1, row);
    bool below =
        block->first_row + 1 == layout->row_count || row[1].region != row->region || far_below(f, row, row + 1);
    return above && below;
}

/* Does the next line go on with this one in small letters? Then it is text whose size is not what it seems. */
static bool goes_on(const struct forming *f, const struct layout_row *row)
{
    uint32_t bytes, index = (uint32_t)(row - f->layout->rows);
    if (index + 1 >= f->layout->row_count || row[1].region != row->region || far_below(f, row, row + 1))
        return false;
    const char *text = row_text(f, row + 1, &bytes);
    return text[0] >= 'a' && text[0] <= 'z' && !ends_sentence(row_last_code(f, row));
}

static void try_heading(const struct forming *f, struct layout_block *block)
{
    const struct layout_row *first = &f->layout->rows[block->first_row];
    uint32_t bytes, chars = block_chars(f->layout, block);
    const char *text = row_text(f, first, &bytes);
    char head[HEAD_BYTES];
    uint32_t head_bytes = row_head(f, first, head);
    if (block->row_count > HEADING_ROWS_MAX || chars > HEADING_CHARS_MAX || chars < 2 ||
        !layout_has_letters(head, head_bytes))
        return;
    const struct layout_row *last = first + block->row_count - 1;
    bool lower = text[0] >= 'a' && text[0] <= 'z';
    if (first->size > 1.12f * f->body_size && (first->size > 1.3f * f->body_size || !(lower || goes_on(f, last)))) {
        block->kind = LAYOUT_HEADING;
        block->level = level_of_size(f->style, first->size);
        return;
    }
    uint32_t end = row_last_code(f, last);
    uint32_t parts = number_parts(head, head_bytes);
    if (parts && block->row_count == 1 && chars <= 80 && stands_alone(f, block) && end != '.' && end != ',' &&
        end != ';' && end != ':') {
        block->kind = LAYOUT_HEADING;
        block->level = f->style->heading_count + parts;
        return;
    }
    if (!(first->flags & PAGE_BOLD) || f->style->body_bold || first->size < 0.93f * f->body_size ||
        block->row_count > 2 || chars > BOLD_HEADING_CHARS_MAX || lower || end == '.' || end == ',' || end == ';' ||
        end == ':')
        return;
    block->kind = LAYOUT_HEADING;
    block->level = f->style->heading_count + 1 + (first->size < 0.98f * f->body_size);
}

static void classify(const struct forming *f, struct layout_block *block)
{
    const struct layout_row *first = &f->layout->rows[block->first_row];
    if (block->kind == LAYOUT_CODE || block->kind == LAYOUT_TABLE)
        return;
    if (block->kind == LAYOUT_CAPTION || block->kind == LAYOUT_FOOTNOTE)
        return;
    bool listed = block->kind == LAYOUT_LIST_ITEM;
    if (!listed || row_marker(f, first) == LAYOUT_MARKER_NUMBER) {
        enum layout_kind before = block->kind;
        try_heading(f, block);
        if (block->kind != LAYOUT_HEADING)
            block->kind = before;
        if (block->level > 6)
            block->level = 6;
    }
}

static enum layout_kind kind_of_start(const struct forming *f, uint32_t row_index, uint32_t end)
{
    const struct layout_row *row = &f->layout->rows[row_index];
    if (is_code(f, row))
        return LAYOUT_CODE;
    if (is_cells(f, row) && row_index + 1 < end && is_cells(f, row + 1) && row[1].region == row->region &&
        cells_align(f, row, row + 1))
        return LAYOUT_TABLE;
    if (is_footnote(f, row))
        return LAYOUT_FOOTNOTE;
    switch (row_marker(f, row)) {
    case LAYOUT_MARKER_BULLET:
    case LAYOUT_MARKER_NUMBER:
        return LAYOUT_LIST_ITEM;
    case LAYOUT_MARKER_CAPTION:
        return LAYOUT_CAPTION;
    default:
        return LAYOUT_PARAGRAPH;
    }
}

/* ---- boxes ---- */

int layout_add_block(struct layout *layout, enum layout_kind kind, uint32_t first_row, uint32_t row_count)
{
    if (!layout_grow((void **)&layout->blocks, sizeof *layout->blocks, layout->block_count, &layout->block_capacity))
        return -ENOMEM;
    layout->blocks[layout->block_count++] = (struct layout_block){
        .kind = kind, .first_row = first_row, .row_count = row_count, .region = layout->rows[first_row].region};
    return 0;
}

void layout_finish_block(const struct layout *layout, const struct page_content *content, struct layout_block *block)
{
    struct page_box box = {HUGE_VALF, HUGE_VALF, -HUGE_VALF, -HUGE_VALF};
    uint32_t right_to_left = 0;
    for (uint32_t r = block->first_row; r < block->first_row + block->row_count; r++) {
        const struct layout_row *row = &layout->rows[r];
        right_to_left += reversed(row);
        for (uint32_t i = row->first_item; i < row->first_item + row->item_count; i++) {
            const struct page_box *line = &content->lines[layout->items[i].line].box;
            box = (struct page_box){fminf(box.x0, line->x0), fminf(box.y0, line->y0), fmaxf(box.x1, line->x1),
                                    fmaxf(box.y1, line->y1)};
        }
    }
    block->box = box;
    block->size = layout->rows[block->first_row].size;
    block->flags = 2 * right_to_left > block->row_count ? PAGE_RIGHT_TO_LEFT : 0;
}

/* ---- sentences over a column break ---- */

static void mark_continuations(struct forming *f, uint32_t first_block)
{
    struct layout_block *blocks = f->layout->blocks, *last = NULL;
    for (uint32_t i = first_block; i < f->layout->block_count; i++) {
        struct layout_block *block = &blocks[i];
        if (block->kind == LAYOUT_FOOTNOTE || block->kind == LAYOUT_CAPTION)
            continue;
        if (last && block->kind == LAYOUT_PARAGRAPH && last->region != block->region &&
            (last->kind == LAYOUT_PARAGRAPH || last->kind == LAYOUT_LIST_ITEM) &&
            fabsf(last->size - block->size) < 0.6f) {
            const struct layout_row *a = &f->layout->rows[last->first_row + last->row_count - 1];
            const struct layout_row *b = &f->layout->rows[block->first_row];
            uint32_t bytes, after_bytes;
            const struct layout_item *item = &f->layout->items[a->first_item + a->item_count - 1];
            struct layout_row tail = *a;
            tail.first_item = (uint32_t)(item - f->layout->items);
            const char *before = row_text(f, &tail, &bytes), *after = row_text(f, b, &after_bytes);
            block->continues = (uint32_t)layout_text_continues(before, bytes, after, after_bytes);
        }
        last = block;
    }
}

/* The page's own body size when the document's is not known: the median over rows, by characters. */
static float page_body_size(struct layout *layout, uint32_t first_row)
{
    uint64_t total = 0, seen = 0;
    for (uint32_t r = first_row; r < layout->row_count; r++)
        total += layout->rows[r].chars;
    float size = 0, previous = -1;
    while (seen * 2 <= total) { /* next larger size; few distinct sizes in practice, bounded below */
        float next = HUGE_VALF;
        for (uint32_t r = first_row; r < layout->row_count; r++) {
            if (layout->rows[r].size > previous && layout->rows[r].size < next)
                next = layout->rows[r].size;
        }
        if (next == HUGE_VALF)
            break;
        next *= 1.1f; /* sizes within a tenth count as one, which bounds the rounds */
        for (uint32_t r = first_row; r < layout->row_count; r++) {
            if (layout->rows[r].size > previous && layout->rows[r].size <= next)
                seen += layout->rows[r].chars;
        }
        size = next / 1.1f;
        previous = next;
    }
    return size;
}

static int form_block(struct forming *f, uint32_t row, uint32_t end, uint32_t *ret_next)
{
    int status = layout_add_block(f->layout, kind_of_start(f, row, end), row, 1);
    if (status)
        return status;
    struct layout_block *block = &f->layout->blocks[f->layout->block_count - 1];
    uint32_t next = row + 1;
    while (next < end && !breaks(f, block, next)) {
        next++;
        block->row_count++;
    }
    classify(f, block);
    layout_finish_block(f->layout, f->content, block);
    *ret_next = next;
    return 0;
}

int layout_form_blocks(struct layout *layout, const struct page_content *content, const struct layout_style *style,
                       uint32_t first_row)
{
    uint32_t end = layout->row_count, first_block = layout->block_count;
    if (first_row == end)
        return 0;
    struct forming f = {
        .layout = layout, .content = content, .style = style, .page_top = HUGE_VALF, .page_bottom = -HUGE_VALF};
    f.body_size = style->body_size > 0 ? style->body_size : page_body_size(layout, first_row);
    for (uint32_t row = first_row; row < end; row++) {
        f.page_top = fminf(f.page_top, layout->rows[row].v0);
        f.page_bottom = fmaxf(f.page_bottom, layout->rows[row].v1);
    }
    for (uint32_t row = first_row; row < end;) {
        if (row == first_row || layout->rows[row].region != f.column.region)
            measure_column(&f, row, end);
        int status = form_block(&f, row, end, &row);
        if (status)
            return status;
    }
    mark_continuations(&f, first_block);
    return 0;
}
