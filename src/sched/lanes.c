/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "sched/rows.h"

/* Opening a parent again costs about as much as so many of its rows: a worker that is ahead of another by less is still
 * the better place for a parent it has open. */
enum {
    OPENING_IN_ROWS = 32,
    REPAYS_US = 20000,    /* opening a parent costs milliseconds: less work than this is left where it is */
    UNKNOWN_US = 2000,    /* what a row is taken to cost before one was measured */
    LOOKED_AT_MAX = 1024, /* rows of a lane, to find a root that is not begun */
};

int sched_set_lanes(struct sched *sched, uint32_t call, uint32_t first_worker, uint32_t count)
{
    struct call_queues *queues = &sched->calls[call];
    assert(count > 0 && count <= UINT16_MAX && queues->ready_count == 0);
    struct lane *lanes = sched->memory.allocate(sched->memory.cookie, count * sizeof(*lanes));
    if (!lanes)
        return -ENOMEM;
    memset(lanes, 0, count * sizeof(*lanes));
    lanes_close(sched, call);
    queues->lanes = lanes;
    queues->lane_count = count;
    queues->first_worker = first_worker;
    return 0;
}

void lanes_close(struct sched *sched, uint32_t call)
{
    struct call_queues *queues = &sched->calls[call];
    if (queues->lanes)
        sched->memory.release(sched->memory.cookie, queues->lanes, queues->lane_count * sizeof(*queues->lanes));
    queues->lanes = NULL;
}

void sched_opened_by(struct sched *sched, uint32_t root, uint32_t worker)
{
    struct bulk_root *state = bulk_root_of(sched, root);
    if (state && state->opener == 0) /* a hint: without it another worker opens the parent */
        state->opener = worker + 1;
}

uint32_t lane_of_root(const struct sched *sched, uint32_t call, struct bulk_root *root)
{
    const struct call_queues *queues = &sched->calls[call];
    if (queues->lane_count == 1)
        return 0;
    if (root->lane == 0) {
        const struct lane *lanes = queues->lanes;
        uint32_t best = 0, own = root->opener - 1 - queues->first_worker;
        for (uint32_t lane = 1; lane < queues->lane_count; lane++)
            best = lane_rows(&lanes[lane]) < lane_rows(&lanes[best]) ? lane : best;
        if (root->opener > queues->first_worker && own < queues->lane_count &&
            lane_rows(&lanes[own]) <= lane_rows(&lanes[best]) + OPENING_IN_ROWS)
            best = own;
        root->lane = best + 1;
    }
    return (root->lane - 1) % queues->lane_count; /* Calls of several Pools may serve one root */
}

struct lane *lane_to_serve(const struct call_queues *queues)
{
    struct lane *best = NULL;
    for (uint32_t i = 0; i < queues->lane_count; i++) {
        struct lane *lane = &queues->lanes[i];
        if (lane->ready.count > 0 && (!best || lane->out < best->out))
            best = lane;
    }
    return best;
}

void sched_set_row_us(struct sched *sched, uint32_t call, uint64_t row_us)
{
    sched->calls[call].row_us = row_us;
}

static uint32_t rows_waiting(const struct lane *lane)
{
    return lane->ready.count + lane->aside.count;
}

static void move_over(struct sched *sched, uint32_t call, uint32_t entity, uint32_t lane)
{
    struct row *row = row_at(sched, call, entity);
    row_remove(sched, call, row);
    row->lane = (uint16_t)lane;
    row_prepend(sched, call, entity, ROW_ASIDE); /* taken from the end: the order stays */
}

/* Whole roots that nobody has begun, from the end of a list, until `rows` or more are moved. */
static uint32_t take_whole(struct sched *sched, uint32_t call, const struct row_list *list, uint32_t lane,
                           uint32_t rows)
{
    uint32_t moved = 0, entity = list->last, lane_count = sched->calls[call].lane_count;
    for (uint32_t seen = 0, previous; entity != NOBODY && list->count > 0 && seen < LOOKED_AT_MAX; seen++) {
        const struct row *row = row_at(sched, call, entity);
        struct bulk_root *root = &sched->bulk.roots[row->root - 1];
        bool moves = root->lane != 0 && (root->lane - 1) % lane_count == lane;
        if (!moves && moved >= rows)
            break;
        if (!moves && !root->begun) {
            root->lane = lane + 1;
            moves = true;
        }
        previous = row->previous;
        if (moves) {
            move_over(sched, call, entity, lane);
            moved++;
        }
        entity = previous;
    }
    return moved;
}

static uint32_t take_share(struct sched *sched, uint32_t call, const struct row_list *list, uint32_t lane,
                           uint32_t rows)
{
    uint32_t moved = 0;
    rows = rows < list->count / 2 ? rows : list->count / 2;
    for (; moved < rows; moved++)
        move_over(sched, call, list->last, lane);
    return moved;
}

uint32_t lane_adopt(struct sched *sched, uint32_t call, uint32_t lane, uint32_t rows)
{
    struct call_queues *queues = &sched->calls[call];
    struct lane *longest = &queues->lanes[0];
    for (uint32_t i = 1; i < queues->lane_count; i++)
        longest = rows_waiting(&queues->lanes[i]) > rows_waiting(longest) ? &queues->lanes[i] : longest;
    uint64_t row_us = queues->row_us ? queues->row_us : UNKNOWN_US;
    if (longest == &queues->lanes[lane] || rows_waiting(longest) * row_us < REPAYS_US)
        return 0;
    const struct row_list *lists[] = {&longest->aside, &longest->ready};
    uint32_t moved = 0;
    for (uint32_t i = 0; i < 2 && moved == 0; i++)
        moved = take_whole(sched, call, lists[i], lane, rows);
    for (uint32_t i = 0; i < 2 && moved == 0; i++)
        moved = take_share(sched, call, lists[i], lane, rows);
    return moved;
}
