/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading order: rows, groups of rows with a common gap, columns.
 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "ops/layout_internal.h"

enum { GAPS_MAX = 64 };

#define SAME_BASELINE 0.12f /* of the size of type: what the eye takes for one line */

/* A strip no item of the group enters; `left`, `right`: some item of the group lies there. */
struct gap {
    float u0, u1;
    uint32_t left, right;
};

struct gaps {
    struct gap at[GAPS_MAX];
    uint32_t count;
};

static int compare_by_height(const void *left, const void *right)
{
    const struct layout_item *a = left, *b = right;
    float difference = (a->v0 + a->v1) - (b->v0 + b->v1);
    if (difference != 0)
        return difference < 0 ? -1 : 1;
    if (a->u0 != b->u0)
        return a->u0 < b->u0 ? -1 : 1;
    return a->line < b->line ? -1 : a->line > b->line;
}

static int compare_along(const void *left, const void *right)
{
    const struct layout_item *a = left, *b = right;
    if (a->u0 != b->u0)
        return a->u0 < b->u0 ? -1 : 1;
    return a->line < b->line ? -1 : a->line > b->line;
}

/* Is the item on the height of the row that ends in `row`? */
static bool on_height(const struct layout_row *row, const struct layout_item *item)
{
    float overlap = fminf(row->v1, item->v1) - fmaxf(row->v0, item->v0);
    float least = fminf(row->v1 - row->v0, item->v1 - item->v0);
    return overlap > 0.5f * least || (least <= 0 && overlap >= 0);
}

static void row_start(struct layout_row *row, const struct layout_item *item, uint32_t index)
{
    *row = (struct layout_row){.first_item = index,
                               .item_count = 1,
                               .chars = item->chars,
                               .flags = item->flags,
                               .u0 = item->u0,
                               .v0 = item->v0,
                               .u1 = item->u1,
                               .v1 = item->v1,
                               .baseline = item->baseline,
                               .size = item->size};
}

static void row_add(struct layout_row *row, const struct layout_item *item)
{
    row->item_count++;
    if (item->chars > row->chars) { /* the longer item says what the row is like */
        row->size = item->size;
        row->baseline = item->baseline;
        row->v0 = item->v0;
        row->v1 = item->v1;
    }
    uint32_t common = row->flags & item->flags & (PAGE_BOLD | PAGE_ITALIC | PAGE_MONOSPACE);
    uint32_t direction = (item->chars > row->chars ? item->flags : row->flags) & PAGE_RIGHT_TO_LEFT;
    row->flags = common | direction;
    row->chars += item->chars;
    row->u0 = fminf(row->u0, item->u0);
    row->u1 = fmaxf(row->u1, item->u1);
}

/* Items of a row along it; hyphen of the row is that of its last item. */
static void row_finish(struct layout *layout, struct layout_row *row)
{
    struct layout_item *items = layout->items + row->first_item;
    if (row->item_count > 1)
        qsort(items, row->item_count, sizeof *items, compare_along);
    if (row->flags & PAGE_RIGHT_TO_LEFT) {
        for (uint32_t i = 0, j = row->item_count - 1; i < j; i++, j--) {
            struct layout_item swap = items[i];
            items[i] = items[j];
            items[j] = swap;
        }
    }
    row->flags &= ~(uint32_t)PAGE_HYPHEN;
    row->flags |= items[row->item_count - 1].flags & PAGE_HYPHEN;
}

int layout_form_rows(struct layout *layout, uint32_t first, uint32_t count)
{
    qsort(layout->items + first, count, sizeof *layout->items, compare_by_height);
    struct layout_row *row = NULL;
    for (uint32_t i = first; i < first + count; i++) {
        const struct layout_item *item = &layout->items[i];
        if (row && on_height(row, item)) {
            row_add(row, item);
            continue;
        }
        if (row)
            row_finish(layout, row);
        if (!layout_grow((void **)&layout->rows, sizeof *layout->rows, layout->row_count, &layout->row_capacity))
            return -ENOMEM;
        row = &layout->rows[layout->row_count++];
        row_start(row, item, i);
    }
    if (row)
        row_finish(layout, row);
    return 0;
}

/* ---- gaps ---- */

static void gaps_add(struct gaps *gaps, float u0, float u1, float least)
{
    if (u1 - u0 >= least && gaps->count < GAPS_MAX)
        gaps->at[gaps->count++] = (struct gap){u0, u1, 0, 0};
}

/* What a row leaves free, the outside included. Items may overlap. */
static void row_gaps(const struct layout *layout, const struct layout_row *row, float least, struct gaps *gaps)
{
    float edge = -HUGE_VALF;
    gaps->count = 0;
    bool reversed = row->flags & PAGE_RIGHT_TO_LEFT;
    for (uint32_t i = 0; i < row->item_count; i++) {
        uint32_t index = row->first_item + (reversed ? row->item_count - 1 - i : i);
        const struct layout_item *item = &layout->items[index];
        gaps_add(gaps, edge, item->u0, least);
        edge = fmaxf(edge, item->u1);
    }
    gaps_add(gaps, edge, HUGE_VALF, least);
}

static void gaps_see(struct gaps *gaps, const struct layout_row *row)
{
    for (uint32_t i = 0; i < gaps->count; i++) {
        gaps->at[i].left += row->u0 < gaps->at[i].u0;
        gaps->at[i].right += row->u1 > gaps->at[i].u1;
    }
}

static void gaps_intersect(const struct gaps *a, const struct gaps *b, float least, struct gaps *both)
{
    both->count = 0;
    for (uint32_t i = 0, j = 0; i < a->count && j < b->count;) {
        float u0 = fmaxf(a->at[i].u0, b->at[j].u0), u1 = fminf(a->at[i].u1, b->at[j].u1);
        if (u1 - u0 >= least && both->count < GAPS_MAX)
            both->at[both->count++] = (struct gap){u0, u1, a->at[i].left, a->at[i].right};
        if (a->at[i].u1 < b->at[j].u1)
            i++;
        else
            j++;
    }
}

static bool gaps_inside(const struct gaps *gaps)
{
    for (uint32_t i = 0; i < gaps->count; i++) {
        if (gaps->at[i].left && gaps->at[i].right)
            return true;
    }
    return false;
}

static float widest_inside(const struct gaps *gaps)
{
    float widest = 0;
    for (uint32_t i = 0; i < gaps->count; i++) {
        if (gaps->at[i].left && gaps->at[i].right)
            widest = fmaxf(widest, gaps->at[i].u1 - gaps->at[i].u0);
    }
    return widest;
}

/* ---- do two sides read like columns? ---- */

struct side {
    float u0, u1, width_sum, size;
    uint32_t rows, items, full, chars;
};

static void side_add(struct side *side, float u0, float u1, uint32_t items, uint32_t chars)
{
    if (items == 0)
        return;
    side->u0 = side->rows ? fminf(side->u0, u0) : u0;
    side->u1 = side->rows ? fmaxf(side->u1, u1) : u1;
    side->width_sum += u1 - u0;
    side->rows++;
    side->items += items;
    side->chars += chars;
}

/* Rows with something on both sides, and those of them where both stand on one baseline, as cells of a table do. */
struct together {
    uint32_t both, aligned;
};

static void measure_sides(const struct layout *layout, const struct layout_row *rows, uint32_t count,
                          const struct gap *gap, struct side sides[2], struct together *ret_together)
{
    *ret_together = (struct together){0};
    for (uint32_t r = 0; r < count; r++) {
        float u0[2] = {HUGE_VALF, HUGE_VALF}, u1[2] = {-HUGE_VALF, -HUGE_VALF};
        uint32_t items[2] = {0}, chars[2] = {0};
        float baseline[2] = {0};
        for (uint32_t i = 0; i < rows[r].item_count; i++) {
            const struct layout_item *item = &layout->items[rows[r].first_item + i];
            int which = item->u0 + item->u1 > gap->u0 + gap->u1;
            u0[which] = fminf(u0[which], item->u0);
            u1[which] = fmaxf(u1[which], item->u1);
            baseline[which] = item->baseline;
            items[which]++;
            chars[which] += item->chars;
        }
        side_add(&sides[0], u0[0], u1[0], items[0], chars[0]);
        side_add(&sides[1], u0[1], u1[1], items[1], chars[1]);
        if (items[0] == 0 || items[1] == 0)
            continue;
        ret_together->both++;
        ret_together->aligned += fabsf(baseline[0] - baseline[1]) < SAME_BASELINE * rows[r].size;
    }
}

static bool is_running_text(const struct side *side)
{
    return side->chars >= 18 * side->rows && side->width_sum >= 0.55f * (side->u1 - side->u0) * (float)side->rows;
}

/* Text of a column fills its width and is made of words; cells of a table are short and stand side by side. A list
 * beside a column of text is none of its cells when most of its lines stand on baselines of their own. */
static bool reads_like_columns(const struct layout *layout, const struct layout_row *rows, uint32_t count,
                               const struct gap *gap, float size)
{
    struct side sides[2] = {0};
    struct together together;
    measure_sides(layout, rows, count, gap, sides, &together);
    const struct side *left = &sides[0], *right = &sides[1];
    if (left->rows < 2 || right->rows < 2)
        return false;
    float left_width = left->u1 - left->u0, right_width = right->u1 - right->u0;
    bool left_runs = is_running_text(left), right_runs = is_running_text(right);
    if (left_runs && right_runs && left->rows + right->rows >= 6)
        return true;
    uint32_t fewer = left->rows < right->rows ? left->rows : right->rows;
    uint32_t like_cells = left_runs || right_runs ? together.aligned : together.both;
    bool independent = like_cells * 2 < fewer && fewer >= 4;
    return independent && left_width >= 6 * size && right_width >= 6 * size;
}

static const struct gap *choose_gap(const struct layout *layout, const struct layout_row *rows, uint32_t count,
                                    const struct gaps *gaps, float size)
{
    const struct gap *best = NULL;
    for (uint32_t i = 0; i < gaps->count; i++) {
        const struct gap *gap = &gaps->at[i];
        if (!gap->left || !gap->right || (best && gap->u1 - gap->u0 <= best->u1 - best->u0))
            continue;
        if (reads_like_columns(layout, rows, count, gap, size))
            best = gap;
    }
    return best;
}

/* ---- groups ---- */

static int push_task(struct layout *layout, uint32_t first, uint32_t count, uint32_t depth, uint32_t emit)
{
    if (count == 0)
        return 0;
    if (!layout_grow((void **)&layout->tasks, sizeof *layout->tasks, layout->task_count, &layout->task_capacity))
        return -ENOMEM;
    layout->tasks[layout->task_count++] = (struct layout_task){first, count, depth, emit};
    return 0;
}

/* Items left of the gap first, in place; returns how many. */
static uint32_t partition(struct layout *layout, uint32_t first, uint32_t count, const struct gap *gap)
{
    uint32_t left = 0, right = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct layout_item *item = &layout->items[first + i];
        if (item->u0 + item->u1 > gap->u0 + gap->u1)
            layout->scratch[right++] = *item;
        else
            layout->items[first + left++] = *item;
    }
    memcpy(layout->items + first + left, layout->scratch, right * sizeof *layout->items);
    return left;
}

static bool mostly_right_to_left(const struct layout_row *rows, uint32_t count)
{
    uint32_t right_to_left = 0;
    for (uint32_t r = 0; r < count; r++)
        right_to_left += (rows[r].flags & PAGE_RIGHT_TO_LEFT) != 0;
    return 2 * right_to_left > count;
}

static const struct layout_item *group_items(const struct layout *layout, const struct layout_row *rows,
                                             const struct layout_group *group, uint32_t *ret_count)
{
    const struct layout_row *first = rows + group->first_row, *last = first + group->row_count - 1;
    *ret_count = last->first_item + last->item_count - first->first_item;
    return layout->items + first->first_item;
}

/* Turns a group of rows into tasks: cut in two, or final. */
static int group_to_tasks(struct layout *layout, const struct layout_row *rows, const struct layout_group *group,
                          uint32_t depth)
{
    uint32_t items, first = rows[group->first_row].first_item;
    (void)group_items(layout, rows, group, &items);
    if (!group->cut)
        return push_task(layout, first, items, depth, 1);
    struct gap gap = {group->u0, group->u1, 1, 1};
    bool reversed = mostly_right_to_left(rows + group->first_row, group->row_count);
    uint32_t left = partition(layout, first, items, &gap);
    assert(left > 0 && left < items);
    if (reversed) { /* the right column is read first: swap the two ranges */
        memcpy(layout->scratch, layout->items + first, left * sizeof *layout->items);
        memmove(layout->items + first, layout->items + first + left, (items - left) * sizeof *layout->items);
        memcpy(layout->items + first + items - left, layout->scratch, left * sizeof *layout->items);
        left = items - left;
    }
    int status = push_task(layout, first, left, depth + 1, 0);
    return status ? status : push_task(layout, first + left, items - left, depth + 1, 0);
}

static int close_group(struct layout *layout, const struct layout_row *rows, uint32_t first, uint32_t count,
                       const struct gaps *gaps, float size, uint32_t depth)
{
    if (!layout_grow((void **)&layout->groups, sizeof *layout->groups, layout->group_count, &layout->group_capacity))
        return -ENOMEM;
    const struct gap *gap = depth < LAYOUT_DEPTH_MAX ? choose_gap(layout, rows + first, count, gaps, size) : NULL;
    layout->groups[layout->group_count++] =
        (struct layout_group){first, count, gap != NULL, gap ? gap->u0 : 0, gap ? gap->u1 : 0};
    return 0;
}

/* An ornamental heading of one column that reaches through the gap by little. */
static bool leans_out(const struct layout_item *item, float beyond)
{
    return beyond > 0 && beyond < 1.5f * item->size && item->u1 - item->u0 > 6 * item->size;
}

/* Does the neighbour belong to the columns of `group`? It does when the gap runs on through it: an equation in one
 * column ends a group, the columns go on. Narrows the gap to what both leave free. */
static bool joins(const struct layout *layout, const struct layout_row *rows, struct layout_group *group,
                  const struct layout_group *neighbour, float least)
{
    uint32_t count;
    const struct layout_item *items = group_items(layout, rows, neighbour, &count);
    float u0 = group->u0, u1 = group->u1;
    if (neighbour->cut && (neighbour->u1 < u0 + least || neighbour->u0 > u1 - least))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        if (items[i].u0 + items[i].u1 > group->u0 + group->u1)
            u1 = leans_out(&items[i], group->u0 - items[i].u0) ? u1 : fminf(u1, items[i].u0);
        else
            u0 = leans_out(&items[i], items[i].u1 - group->u1) ? u0 : fmaxf(u0, items[i].u1);
    }
    if (u1 - u0 < least)
        return false;
    group->u0 = u0;
    group->u1 = u1;
    return true;
}

static bool near_by(const struct layout_row *rows, const struct layout_group *above, const struct layout_group *below,
                    float size)
{
    return rows[below->first_row].v0 - rows[above->first_row + above->row_count - 1].v1 < 3 * size;
}

/* Joins groups that are parts of the same columns, in place. */
static void join_groups(struct layout *layout, const struct layout_row *rows, float size, float least)
{
    struct layout_group *groups = layout->groups;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < layout->group_count; i++) {
        struct layout_group group = groups[i];
        while (group.cut && kept > 0 && near_by(rows, &groups[kept - 1], &group, size) &&
               joins(layout, rows, &group, &groups[kept - 1], least)) {
            kept--;
            group.first_row = groups[kept].first_row;
            group.row_count += groups[kept].row_count;
        }
        if (!group.cut && kept > 0 && groups[kept - 1].cut && near_by(rows, &groups[kept - 1], &group, size) &&
            joins(layout, rows, &groups[kept - 1], &group, least))
            groups[kept - 1].row_count += group.row_count;
        else
            groups[kept++] = group;
    }
    layout->group_count = kept;
}

static float median_size(struct layout *layout, uint32_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        layout->numbers[i] = layout->items[first + i].size;
    return layout_select(layout->numbers, count, count / 2);
}

/* Does the group with gaps `live` end before a row with gaps `own`? `both` is what would stay. A gap that appears with
 * the row starts a group of its own unless most of it was free above. */
static bool gap_ends(const struct gaps *live, const struct gaps *own, const struct gaps *both)
{
    float widest = widest_inside(own);
    if (gaps_inside(live))
        return !gaps_inside(both);
    return widest > 0 && widest_inside(both) < 0.6f * widest;
}

/* Sweeps over rows and closes a group wherever the gap that runs through it ends. Tasks come out in reading order. */
static int sweep(struct layout *layout, const struct layout_row *rows, uint32_t count, float size, uint32_t depth)
{
    float least = fmaxf(0.8f * size, 2);
    struct gaps live, own, both;
    uint32_t start = 0;
    int status = 0;
    layout->group_count = 0;
    row_gaps(layout, &rows[0], least, &live);
    gaps_see(&live, &rows[0]);
    for (uint32_t r = 1; r < count && !status; r++) {
        row_gaps(layout, &rows[r], least, &own);
        gaps_intersect(&live, &own, least, &both);
        gaps_see(&both, &rows[r]);
        gaps_see(&own, &rows[r]);
        if (gap_ends(&live, &own, &both)) {
            status = close_group(layout, rows, start, r - start, &live, size, depth);
            start = r;
            live = own;
        } else {
            live = both;
        }
    }
    if (!status)
        status = close_group(layout, rows, start, count - start, &live, size, depth);
    join_groups(layout, rows, size, least);
    for (uint32_t i = 0; i < layout->group_count && !status; i++)
        status = group_to_tasks(layout, rows, &layout->groups[i], depth);
    return status;
}

static void reverse_tasks(struct layout *layout, uint32_t from)
{
    for (uint32_t i = from, j = layout->task_count; i + 1 < j; i++) {
        j--;
        struct layout_task swap = layout->tasks[i];
        layout->tasks[i] = layout->tasks[j];
        layout->tasks[j] = swap;
    }
}

/* A final range goes on with the region before it when it lies below it at the same depth of cuts. */
static bool same_region(const struct layout *layout, const struct layout_task *task, uint32_t first_row)
{
    if (first_row == layout->order_first_row || layout->order_depth != task->depth)
        return false;
    const struct layout_row *before = &layout->rows[first_row - 1], *after = &layout->rows[first_row];
    return after->v0 > before->v0 && after->u0 < before->u1 && before->u0 < after->u1;
}

static void emit_rows(struct layout *layout, const struct layout_task *task, uint32_t first_row)
{
    if (!same_region(layout, task, first_row))
        layout->region_count++;
    for (uint32_t row = first_row; row < layout->row_count; row++)
        layout->rows[row].region = layout->region_count - 1;
    layout->order_depth = task->depth;
}

static int run_task(struct layout *layout, const struct layout_task *task)
{
    uint32_t first_row = layout->row_count;
    int status = layout_form_rows(layout, task->first, task->count);
    if (status)
        return status;
    if (task->emit) {
        emit_rows(layout, task, first_row);
        return 0;
    }
    float size = median_size(layout, task->first, task->count);
    uint32_t from = layout->task_count;
    status = sweep(layout, layout->rows + first_row, layout->row_count - first_row, size, task->depth);
    layout->row_count = first_row; /* rows are formed again when the range is final */
    reverse_tasks(layout, from);
    return status;
}

int layout_order(struct layout *layout, uint32_t first, uint32_t count)
{
    int status = push_task(layout, first, count, 0, 0);
    layout->order_first_row = layout->row_count;
    while (layout->task_count && !status) {
        struct layout_task task = layout->tasks[--layout->task_count];
        status = run_task(layout, &task);
    }
    return status;
}
