/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When rows that were put aside (bulk.c) move up: as many as keep a Pool's workers from running dry, or some when
 * enough others went before them. Where a Call has lanes (lanes.c), each worker is kept from running dry by itself:
 * with rows of the parents it has open, not of those that another works on.
 */
#include "sched/rows.h"

enum {
    LOW_WATER_PER_WORKER = 32, /* rows of a Pool that keep its workers from looking idle ... */
    LOW_WATER_BATCHES = 2,     /* ... or so many full batches, if that is more */
    OPENING_ROWS = 8,          /* rows that keep a worker from idling while the first roots are read and opened */
    OTHERS_BEFORE = 256,       /* after so many other rows ... */
    MOVED_IN_TURN = 64,        /* ... so many move up in any case: a fifth of the work */
    LOOKED_AT_MAX = 16384,     /* of the rows put aside, to find a small root among them */
    ADOPTS_BELOW = 8,          /* rows of its own with which a worker waits for more of its own */
    FED_ROWS = 16,             /* rows of its own that let a worker do without a new root */
};

/* Rows that keep one worker of the Pool from looking idle. */
static uint32_t low_water(const struct sched *sched, const struct plan_pool *pool)
{
    uint64_t rows = LOW_WATER_PER_WORKER;
    for (uint32_t i = 0; i < pool->call_count; i++) {
        const struct plan_call *call = &sched->plan->calls[sched->plan->pool_calls[pool->call_first + i]];
        uint64_t batches = call->batch ? (uint64_t)LOW_WATER_BATCHES * call->batch_rows : 0;
        rows = batches > rows ? batches : rows;
    }
    return rows < UINT32_MAX ? (uint32_t)rows : UINT32_MAX;
}

/* Among the rows put aside first: 1 + the root with the fewest children, the earlier of equals; 0: none. */
static uint32_t smallest_aside(struct sched *sched, uint32_t call, const struct row_list *aside)
{
    uint32_t smallest = 0, entity = aside->first;
    for (uint32_t seen = 0; seen < aside->count && seen < LOOKED_AT_MAX; seen++) {
        const struct row *row = row_at(sched, call, entity);
        const struct bulk_root *roots = sched->bulk.roots;
        if (smallest == 0 || roots[row->root - 1].children < roots[smallest - 1].children)
            smallest = row->root;
        entity = row->next;
    }
    return smallest;
}

/* The same, looked for only when it may be another: a look goes through all rows. */
static uint32_t smallest_of(struct sched *sched, uint32_t call, struct lane *lane)
{
    const struct bulk *bulk = &sched->bulk;
    if (lane->smallest == 0 || lane->smallest_of != bulk->children_roots ||
        bulk->roots[lane->smallest - 1].children >= 2 * lane->smallest_children) {
        lane->smallest = smallest_aside(sched, call, &lane->aside);
        lane->smallest_of = bulk->children_roots;
        lane->smallest_children = lane->smallest ? bulk->roots[lane->smallest - 1].children : 0;
    }
    return lane->smallest;
}

/* Up to `rows` rows of one root, 0: of any, in the order they came. */
static uint32_t move_up_of(struct sched *sched, uint32_t call, const struct row_list *aside, uint32_t only,
                           uint32_t rows)
{
    uint32_t left = aside->count < LOOKED_AT_MAX ? aside->count : LOOKED_AT_MAX, moved = 0;
    for (uint32_t entity = aside->first, next; moved < rows && left > 0; entity = next, left--) {
        next = row_at(sched, call, entity)->next;
        if (only != 0 && row_at(sched, call, entity)->root != only)
            continue;
        row_move_up(sched, call, entity);
        moved++;
    }
    return moved;
}

/* In the order they came; until some root is finished those of the smallest root first, so that one is soon. */
static uint32_t move_up(struct sched *sched, uint32_t call, uint32_t number, uint32_t rows)
{
    struct lane *lane = &sched->calls[call].lanes[number];
    if (sched->bulk.finished_any || lane->aside.count == 0)
        return move_up_of(sched, call, &lane->aside, 0, rows);
    uint32_t moved = move_up_of(sched, call, &lane->aside, smallest_of(sched, call, lane), rows);
    if (moved < rows)
        lane->smallest = 0; /* no more of it: the next time another */
    return moved;
}

/* What a Pool's workers have to do. */
struct level {
    const uint32_t *calls;
    uint32_t call_count, workers;
    uint64_t rows;     /* queued or out */
    uint64_t in_lanes; /* of these, and what is meant for nobody: */
    uint64_t shared;
    uint32_t aside;
};

/* Workers that have lanes: all of the Pool, or none. */
static uint32_t lanes_of(const struct sched *sched, const struct level *level)
{
    for (uint32_t i = 0; i < level->call_count; i++)
        if (has_lanes(sched, level->calls[i]))
            return sched->calls[level->calls[i]].lane_count;
    return 0;
}

static uint64_t rows_of_worker(const struct sched *sched, const struct level *level, uint32_t worker)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < level->call_count; i++)
        if (has_lanes(sched, level->calls[i]))
            rows += lane_rows(&sched->calls[level->calls[i]].lanes[worker]);
    return rows;
}

static void look(const struct sched *sched, struct level *level, uint32_t rows_out)
{
    level->rows = rows_out;
    for (uint32_t i = 0; i < level->call_count; i++) {
        uint32_t call = level->calls[i];
        level->rows += sched_queued(sched, call) + sched_isolating(sched, call);
        level->aside += sched_aside(sched, call);
        for (uint32_t worker = 0; has_lanes(sched, call) && worker < sched->calls[call].lane_count; worker++)
            level->in_lanes += lane_rows(&sched->calls[call].lanes[worker]);
    }
    level->shared = level->rows > level->in_lanes ? level->rows - level->in_lanes : 0;
}

/* How many rows each worker is to have, those of others it shares in counted too. */
static uint32_t rows_to_have(const struct sched *sched, const struct level *level, uint32_t low, uint64_t *ret_shared)
{
    bool looks_for_small = !sched->bulk.finished_any && !sched->bulk.off && lanes_of(sched, level) > 0;
    bool opened_enough = sched->bulk.children_roots >= bulk_first_roots(&sched->bulk);
    *ret_shared = looks_for_small && opened_enough ? 0 : level->shared / level->workers;
    return looks_for_small && !opened_enough && low > OPENING_ROWS ? OPENING_ROWS : low;
}

/* Moves up to `rows` that are aside in the worker's lanes. */
static uint32_t feed_worker(struct sched *sched, const struct level *level, uint32_t worker, uint32_t rows)
{
    uint32_t moved = 0;
    for (uint32_t i = 0; i < level->call_count && moved < rows; i++)
        if (has_lanes(sched, level->calls[i]))
            moved += move_up(sched, level->calls[i], worker, rows - moved);
    return moved;
}

/* The same out of others' lanes. */
static uint32_t adopt(struct sched *sched, const struct level *level, uint32_t worker, uint32_t rows)
{
    uint32_t moved = 0;
    for (uint32_t i = 0; i < level->call_count && moved < rows; i++) {
        uint32_t call = level->calls[i];
        if (has_lanes(sched, call) && lane_adopt(sched, call, worker, rows - moved) > 0)
            moved += move_up(sched, call, worker, rows - moved);
    }
    return moved;
}

/* Each worker that has lanes is kept from running dry. One that has little left, and no root to open, gets of what
 * others have. */
static uint32_t feed_workers(struct sched *sched, const struct level *level, uint32_t low, uint64_t shared)
{
    uint32_t lane_count = lanes_of(sched, level), moved = 0;
    for (uint32_t worker = 0; worker < lane_count; worker++) {
        uint64_t rows = rows_of_worker(sched, level, worker) + shared;
        if (rows >= low)
            continue;
        uint32_t fed = feed_worker(sched, level, worker, low - (uint32_t)rows);
        if (rows + fed < ADOPTS_BELOW && level->shared < level->workers)
            fed += adopt(sched, level, worker, FED_ROWS - (uint32_t)rows - fed);
        moved += fed;
    }
    return moved;
}

bool sched_is_fed(const struct sched *sched, uint32_t pool_number)
{
    const struct plan_pool *pool = &sched->plan->pools[pool_number];
    struct level level = {.calls = &sched->plan->pool_calls[pool->call_first], .call_count = pool->call_count};
    uint32_t lane_count = lanes_of(sched, &level);
    for (uint32_t worker = 0; worker < lane_count; worker++)
        if (rows_of_worker(sched, &level, worker) < FED_ROWS)
            return false;
    return lane_count > 0;
}

static uint32_t move_up_any(struct sched *sched, uint32_t call, uint32_t rows)
{
    uint32_t moved = 0;
    for (uint32_t lane = 0; lane < sched->calls[call].lane_count && moved < rows; lane++)
        moved += move_up(sched, call, lane, rows - moved);
    return moved;
}

uint32_t sched_level(struct sched *sched, uint32_t pool_number, uint32_t rows_out, uint32_t workers)
{
    const struct plan_pool *pool = &sched->plan->pools[pool_number];
    struct level level = {.calls = &sched->plan->pool_calls[pool->call_first],
                          .call_count = pool->call_count,
                          .workers = workers > 0 ? workers : 1};
    sched->bulk.workers = workers > sched->bulk.workers ? workers : sched->bulk.workers;
    look(sched, &level, rows_out);
    if (level.aside == 0 && level.in_lanes == 0)
        return 0;
    uint64_t shared;
    uint32_t low = rows_to_have(sched, &level, low_water(sched, pool), &shared);
    uint32_t fed = feed_workers(sched, &level, low, shared), moved = fed, want = 0;
    if (level.rows + fed < (uint64_t)low * level.workers)
        want = (uint32_t)((uint64_t)low * level.workers - level.rows - fed);
    else if (fed == 0 && sched->bulk.taken_since >= OTHERS_BEFORE)
        want = MOVED_IN_TURN;
    for (uint32_t i = 0; i < pool->call_count && moved < fed + want; i++)
        moved += move_up_any(sched, level.calls[i], fed + want - moved);
    if (moved > 0)
        sched->bulk.taken_since = 0;
    return moved;
}
