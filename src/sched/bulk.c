/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A root much larger than the others must not make them wait, and must not wait for ever itself.
 *
 * Rows go out drain first: those nearest to an output before those that open new roots. A document of ten thousand
 * pages would so keep every small one behind it from being opened. So rows of a root that has far more of them queued
 * than roots usually have children are put aside, and move up when the Pool would otherwise run out of other work, or
 * when enough other rows went before them. Roots of one size are never put aside: each is finished before the next is
 * begun.
 *
 * That is decided where the children of a root come into a Pool. What the Pool makes of those it has begun is never put
 * aside: it is bounded by them, and it is what ends them. Put aside behind more that is begun it would only fill
 * memory.
 *
 * At the start of a run nothing is known of sizes, and a user waits for a first result: until one root is finished, the
 * first few roots get only a taste of their rows and the next ones none, and what moves up is of the smallest root
 * there is, so that a small one is out soon.
 *
 * Where a Call has lanes (lanes.c), each worker is kept from running dry by itself: with rows of the parents it has
 * open, not of those that another works on. There is no taste then, which would have every parent opened: those few
 * roots are opened, and all rows wait for what the smallest is.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "sched/rows.h"

enum {
    LARGE_TIMES = 8,            /* this many times the usual number of children is far more */
    USUAL_MIN = 32,             /* where roots are tiny, or none is known yet */
    LOW_WATER_PER_WORKER = 32,  /* rows of a Pool that keep its workers from looking idle ... */
    LOW_WATER_BATCHES = 2,      /* ... or so many full batches, if that is more */
    TASTE_ROWS = 16,            /* rows of a root before any root is finished ... */
    FIRST_ROOTS_MIN = 8,        /* ... for so many roots, */
    FIRST_ROOTS_PER_WORKER = 8, /* and so many more for each worker */
    OPENING_ROWS = 8,           /* rows that keep a worker from idling while these are read and opened */
    OTHERS_BEFORE = 256,        /* after so many other rows ... */
    MOVED_IN_TURN = 64,         /* ... so many move up in any case: a fifth of the work */
    LOOKED_AT_MAX = 16384,      /* of the rows put aside, to find a small root among them */
    ADOPTS_BELOW = 8,           /* rows of its own with which a worker waits for more of its own */
    FED_ROWS = 16,              /* rows of its own that let a worker do without a new root */
    ROOTS_MIN = 64,
};

struct bulk_root *bulk_root_of(struct sched *sched, uint32_t root)
{
    struct bulk *bulk = &sched->bulk;
    if (root >= bulk->capacity) {
        uint32_t capacity = bulk->capacity ? bulk->capacity : ROOTS_MIN;
        while (capacity <= root)
            capacity *= 2;
        struct bulk_root *larger = sched->memory.allocate(sched->memory.cookie, capacity * sizeof(*larger));
        if (!larger)
            return NULL;
        memset(larger, 0, capacity * sizeof(*larger));
        if (bulk->capacity) {
            memcpy(larger, bulk->roots, bulk->capacity * sizeof(*larger));
            sched->memory.release(sched->memory.cookie, bulk->roots, bulk->capacity * sizeof(*larger));
        }
        bulk->roots = larger;
        bulk->capacity = capacity;
    }
    return &bulk->roots[root];
}

/* Whether rows of the Call are there because its Pool has run others of their Entities, or of children of these. */
static bool goes_on(const struct sheaf_plan *plan, uint32_t call, uint8_t *marks)
{
    const struct plan_call *of = &plan->calls[call];
    memset(marks, 0, plan->port_count);
    for (uint32_t i = 0; i < of->input_count; i++)
        marks[plan->call_ports[of->input_first + i]] = 1;
    for (uint32_t i = plan->port_count; i-- > 0;) { /* Ports that one takes from have lower numbers */
        const struct plan_port *port = &plan->ports[i];
        if (!marks[i])
            continue;
        if (port->port_kind == PLAN_FILTER)
            marks[port->source] = marks[port->mask] = 1;
        bool gathers = port->port_kind == PLAN_GATHER;
        if (!gathers && port->port_kind != PLAN_CALL_OUTPUT)
            continue;
        uint32_t maker = gathers ? plan->domains[plan->ports[port->source].domain].call : port->call;
        if (plan->calls[maker].pool == of->pool)
            return true;
    }
    return false;
}

int bulk_open(struct sched *sched)
{
    size_t bytes = sched->plan->port_count + 1;
    uint8_t *marks = sched->memory.allocate(sched->memory.cookie, bytes);
    if (!marks)
        return -ENOMEM;
    for (uint32_t call = 0; call < sched->plan->call_count; call++)
        sched->calls[call].goes_on = goes_on(sched->plan, call, marks);
    sched->memory.release(sched->memory.cookie, marks, bytes);
    return 0;
}

void bulk_close(struct sched *sched)
{
    struct bulk *bulk = &sched->bulk;
    if (bulk->capacity)
        sched->memory.release(sched->memory.cookie, bulk->roots, bulk->capacity * sizeof(*bulk->roots));
    *bulk = (struct bulk){0};
}

void sched_child(struct sched *sched, uint32_t root)
{
    struct bulk *bulk = &sched->bulk;
    struct bulk_root *state = bulk_root_of(sched, root);
    if (!state)
        return; /* its size stays unknown: nothing but the order of work depends on it */
    double log_now = log(1 + (double)++state->children);
    bulk->children_roots += state->children_log == 0;
    bulk->children_log_sum += log_now - state->children_log;
    state->children_log = log_now;
}

/* Children a root usually has: the geometric mean over the roots that were opened, which one giant hardly moves. */
static double usual_children(const struct bulk *bulk, const struct bulk_root *root)
{
    double log_sum = bulk->children_log_sum - root->children_log;
    uint64_t others = bulk->children_roots - (root->children_log > 0);
    double usual = others > 0 ? exp(log_sum / (double)others) : 0;
    return usual < USUAL_MIN ? USUAL_MIN : usual;
}

static bool has_lanes(const struct sched *sched, uint32_t call)
{
    return sched->calls[call].lane_count > 1;
}

/* Roots that are opened before any is finished, for a small one to be among them. */
static uint64_t first_roots(const struct bulk *bulk)
{
    return FIRST_ROOTS_MIN + FIRST_ROOTS_PER_WORKER * (uint64_t)bulk->workers;
}

static bool has_its_share(const struct sched *sched, uint32_t call, const struct bulk_root *root)
{
    const struct bulk *bulk = &sched->bulk;
    if (bulk->off || sched->calls[call].goes_on)
        return false;
    if (!bulk->finished_any)
        return has_lanes(sched, call) || bulk->children_roots > first_roots(bulk) || root->queued >= TASTE_ROWS;
    return root->queued >= LARGE_TIMES * USUAL_MIN && root->queued >= LARGE_TIMES * usual_children(bulk, root);
}

static void release_row(struct sched *sched, uint32_t call, uint32_t entity)
{
    row_remove(sched, call, entity);
    row_append(sched, call, entity, ROW_READY);
}

/* What lanes put aside because nothing was known takes its place, but for roots that now are known to be large. */
static void sizes_are_known(struct sched *sched)
{
    sched->bulk.finished_any = true;
    for (uint32_t call = 0; call < sched->plan->call_count; call++) {
        for (uint32_t lane = 0; has_lanes(sched, call) && lane < sched->calls[call].lane_count; lane++) {
            uint32_t entity = sched->calls[call].lanes[lane].aside.first;
            for (uint32_t next; entity != NOBODY && sched->calls[call].lanes[lane].aside.count > 0; entity = next) {
                const struct row *row = row_at(sched, call, entity);
                next = row->next;
                if (!has_its_share(sched, call, &sched->bulk.roots[row->root - 1]))
                    release_row(sched, call, entity);
            }
        }
    }
}

void sched_root_over(struct sched *sched, uint32_t root)
{
    struct bulk_root *state = bulk_root_of(sched, root);
    if (!state)
        return;
    if (state->children > 0 && !sched->bulk.finished_any)
        sizes_are_known(sched);
    state->children = 0; /* the number may be used again; the sums keep what it was */
    state->children_log = 0;
    state->opener = state->lane = 0;
    state->begun = false;
}

void sched_keep_order(struct sched *sched)
{
    sched->bulk.off = true;
}

int sched_ready_in_turn(struct sched *sched, struct grain grain, uint32_t root)
{
    struct bulk_root *state = bulk_root_of(sched, root);
    struct row *row = row_at(sched, grain.call, grain.entity);
    if (!row || !state)
        return -ENOMEM;
    row_reset(row);
    row->root = root + 1;
    row->lane = (uint16_t)lane_of_root(sched, grain.call, state);
    row_append(sched, grain.call, grain.entity, has_its_share(sched, grain.call, state) ? ROW_ASIDE : ROW_READY);
    return 0;
}

uint32_t sched_aside(const struct sched *sched, uint32_t call)
{
    return sched->calls[call].aside_count;
}

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
        release_row(sched, call, entity);
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
    bool opened_enough = sched->bulk.children_roots >= first_roots(&sched->bulk);
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
