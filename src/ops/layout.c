/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/layout.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "ops/layout_internal.h"

enum { FRAME_COUNT = 5, FRAME_VERTICAL = 4 };

const char *layout_kind_name(enum layout_kind kind)
{
    static const char *const names[LAYOUT_KIND_COUNT] = {"paragraph", "heading",  "list-item", "code",   "table",
                                                         "caption",   "footnote", "aside",     "header", "footer"};
    return (unsigned)kind < LAYOUT_KIND_COUNT ? names[kind] : "paragraph";
}

void layout_fini(struct layout *layout)
{
    free(layout->items);
    free(layout->scratch);
    free(layout->rows);
    free(layout->blocks);
    free(layout->tasks);
    free(layout->groups);
    free(layout->numbers);
    *layout = (struct layout){0};
}

bool layout_grow(void **array, size_t element_bytes, uint32_t count, uint32_t *capacity)
{
    if (count < *capacity)
        return true;
    uint32_t next = *capacity ? *capacity * 2 : 64;
    void *moved = realloc(*array, next * element_bytes);
    if (!moved)
        return false;
    *array = moved;
    *capacity = next;
    return true;
}

/* Scratch arrays sized once per page for all that follows. */
static int reserve_items(struct layout *layout, uint32_t count)
{
    if (count <= layout->item_capacity)
        return 0;
    uint32_t capacity = count + count / 2 + 64;
    struct layout_item *items = realloc(layout->items, capacity * sizeof *items);
    if (items)
        layout->items = items;
    struct layout_item *scratch = realloc(layout->scratch, capacity * sizeof *scratch);
    if (scratch)
        layout->scratch = scratch;
    float *numbers = realloc(layout->numbers, capacity * sizeof *numbers);
    if (numbers)
        layout->numbers = numbers;
    if (!items || !scratch || !numbers)
        return -ENOMEM;
    layout->item_capacity = capacity;
    return 0;
}

static void turn_upright(struct layout_item *item, const struct page_content *content, const struct page_line *line)
{
    const struct page_box *box = &line->box;
    float width = content->width, height = content->height;
    switch (item->frame) {
    case 0:
        item->u0 = box->x0, item->u1 = box->x1, item->v0 = box->y0, item->v1 = box->y1;
        break;
    case 1:
    case FRAME_VERTICAL:
        item->u0 = box->y0, item->u1 = box->y1, item->v0 = width - box->x1, item->v1 = width - box->x0;
        break;
    case 2:
        item->u0 = width - box->x1, item->u1 = width - box->x0, item->v0 = height - box->y1,
        item->v1 = height - box->y0;
        break;
    default:
        item->u0 = height - box->y1, item->u1 = height - box->y0, item->v0 = box->x0, item->v1 = box->x1;
    }
}

/* Replaces the height of the box by what the letters cover: fonts' own ascents are no measure. */
static void trim_height(struct layout_item *item, float baseline, float size)
{
    float height = item->v1 - item->v0;
    bool plausible = size > 0.5f && baseline >= item->v0 - size && baseline <= item->v1 + size;
    if (item->frame == FRAME_VERTICAL || !plausible || (height > 0 && size > 4 * height)) {
        item->size = height > 0 ? height : 1;
        if (item->frame != FRAME_VERTICAL)
            item->size *= 0.9f;
        item->baseline = item->v1 - 0.2f * height;
        return;
    }
    item->size = size;
    item->baseline = baseline;
    item->v0 = baseline - 0.7f * size;
    item->v1 = baseline + 0.2f * size;
}

static uint32_t count_chars(const char *text, uint32_t bytes)
{
    uint32_t chars = 0;
    for (uint32_t i = 0; i < bytes; i++)
        chars += ((unsigned char)text[i] & 0xC0) != 0x80;
    return chars;
}

static void fill_item(struct layout_item *item, const struct page_content *content, uint32_t index)
{
    const struct page_line *line = &content->lines[index];
    *item = (struct layout_item){.line = index};
    item->frame = line->flags & PAGE_VERTICAL ? FRAME_VERTICAL : (line->flags & PAGE_TURN_MASK) >> PAGE_TURN_SHIFT;
    uint32_t common = PAGE_BOLD | PAGE_MONOSPACE | PAGE_ITALIC;
    float size = 0;
    uint32_t most = 0;
    for (uint32_t i = 0; i < line->span_count; i++) {
        const struct page_span *span = &content->spans[line->first_span + i];
        uint32_t chars = count_chars(content->text + span->text_offset, span->text_bytes);
        item->chars += chars;
        common &= span->flags;
        if (chars > most || (chars == most && span->font_size > size)) {
            most = chars;
            size = span->font_size;
        }
    }
    item->flags = common | (line->flags & (PAGE_RIGHT_TO_LEFT | PAGE_HYPHEN));
    turn_upright(item, content, line);
    trim_height(item, line->baseline, size);
}

static uint32_t fill_items(struct layout *layout, const struct page_content *content, const uint8_t *margin, int wanted)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < content->line_count; i++) {
        if ((margin ? margin[i] : 0) == wanted)
            fill_item(&layout->items[layout->item_count + count++], content, i);
    }
    return count;
}

/* Moves the items of each frame together, the frame with most text first; `counts` their numbers in that order. */
static uint32_t gather_frames(struct layout *layout, uint32_t first, uint32_t count, uint32_t counts[FRAME_COUNT])
{
    uint32_t chars[FRAME_COUNT] = {0}, frames = 0, at = 0;
    bool done[FRAME_COUNT] = {false};
    for (uint32_t i = 0; i < count; i++)
        chars[layout->items[first + i].frame] += layout->items[first + i].chars + 1;
    for (int round = 0; round < FRAME_COUNT; round++) {
        int best = -1;
        for (int frame = 0; frame < FRAME_COUNT; frame++) {
            if (!done[frame] && chars[frame] && (best < 0 || chars[frame] > chars[best]))
                best = frame;
        }
        if (best < 0)
            break;
        done[best] = true;
        uint32_t from = at;
        for (uint32_t i = 0; i < count; i++) {
            if (layout->items[first + i].frame == (uint32_t)best)
                layout->scratch[at++] = layout->items[first + i];
        }
        counts[frames++] = at - from;
    }
    assert(at == count);
    memcpy(layout->items + first, layout->scratch, count * sizeof *layout->items);
    return frames;
}

static int lay_out_margin(struct layout *layout, const struct page_content *content, const uint8_t *margin, int which,
                          enum layout_kind kind)
{
    if (!margin)
        return 0;
    uint32_t count = fill_items(layout, content, margin, which), first_row = layout->row_count;
    if (count == 0)
        return 0;
    uint32_t first = layout->item_count;
    layout->item_count += count;
    int status = layout_form_rows(layout, first, count);
    for (uint32_t row = first_row; row < layout->row_count && !status; row++) {
        layout->rows[row].region = layout->region_count++;
        status = layout_add_block(layout, kind, row, 1);
        if (!status)
            layout_finish_block(layout, content, &layout->blocks[layout->block_count - 1]);
    }
    return status;
}

static int lay_out_body(struct layout *layout, const struct page_content *content, const struct layout_style *style,
                        const uint8_t *margin)
{
    uint32_t count = fill_items(layout, content, margin, 0), first = layout->item_count, counts[FRAME_COUNT];
    if (count == 0)
        return 0;
    layout->item_count += count;
    uint32_t frames = gather_frames(layout, first, count, counts);
    int status = 0;
    for (uint32_t frame = 0; frame < frames && !status; frame++) {
        uint32_t first_row = layout->row_count, first_block = layout->block_count;
        status = layout_order(layout, first, counts[frame]);
        if (!status)
            status = layout_form_blocks(layout, content, style, first_row);
        for (uint32_t i = first_block; i < layout->block_count && frame > 0; i++)
            layout->blocks[i].kind = LAYOUT_ASIDE;
        first += counts[frame];
    }
    return status;
}

int layout_page(struct layout *layout, const struct page_content *content, const struct layout_style *style,
                const uint8_t *margin)
{
    layout->item_count = layout->row_count = layout->block_count = layout->region_count = layout->task_count = 0;
    int status = reserve_items(layout, content->line_count);
    if (!status)
        status = lay_out_margin(layout, content, margin, 1, LAYOUT_HEADER);
    if (!status)
        status = lay_out_body(layout, content, style, margin);
    if (!status)
        status = lay_out_margin(layout, content, margin, 2, LAYOUT_FOOTER);
    return status;
}

float layout_select(float *numbers, uint32_t count, uint32_t k)
{
    uint32_t low = 0, high = count - 1;
    while (low < high) { /* Hoare's selection; the middle as pivot keeps sorted input fast */
        float pivot = numbers[low + (high - low) / 2];
        uint32_t i = low, j = high;
        for (;;) {
            while (numbers[i] < pivot)
                i++;
            while (numbers[j] > pivot)
                j--;
            if (i >= j)
                break;
            float swap = numbers[i];
            numbers[i++] = numbers[j];
            numbers[j--] = swap;
        }
        if (k <= j)
            high = j;
        else
            low = j + 1;
    }
    return numbers[k];
}
