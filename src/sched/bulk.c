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
 * At the start of a run nothing is known of sizes, and a user waits for a first result: until one root is finished, the
 * first few roots get only a taste of their rows and the next ones none, and what moves up is of the smallest root
 * there is, so that a small one is out soon.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "sched/rows.h"

enum {
    LARGE_TIMES = 8,             /* this many times the usual number of children is far more */
    USUAL_MIN = 32,              /* where roots are tiny, or none is known yet */
    LOW_WATER_PER_WORKER = 32,   /* rows of a Pool that keep its workers from looking idle ... */
    LOW_WATER_BATCHES = 2,       /* ... or so many full batches, if that is more */
    TASTE_ROWS = 16,             /* rows of a root before any root is finished ... */
    TASTED_ROOTS_MIN = 8,        /* ... for so many roots, */
    TASTED_ROOTS_PER_WORKER = 8, /* and so many more for each worker */
    OTHERS_BEFORE = 256,         /* after so many other rows ... */
    MOVED_IN_TURN = 64,          /* ... so many move up in any case: a fifth of the work */
    LOOKED_AT_MAX = 16384,       /* of the rows put aside, to find a small root among them */
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

void sched_root_over(struct sched *sched, uint32_t root)
{
    struct bulk_root *state = bulk_root_of(sched, root);
    if (!state)
        return;
    sched->bulk.finished_any = sched->bulk.finished_any || state->children > 0;
    state->children = 0; /* the number may be used again; the sums keep what it was */
    state->children_log = 0;
    state->opener = state->lane = 0;
}

/* Children a root usually has: the geometric mean over the roots that were opened, which one giant hardly moves. */
static double usual_children(const struct bulk *bulk, const struct bulk_root *root)
{
    double log_sum = bulk->children_log_sum - root->children_log;
    uint64_t others = bulk->children_roots - (root->children_log > 0);
    double usual = others > 0 ? exp(log_sum / (double)others) : 0;
    return usual < USUAL_MIN ? USUAL_MIN : usual;
}

static bool has_its_share(const struct bulk *bulk, const struct bulk_root *root)
{
    if (bulk->off)
        return false;
    if (!bulk->finished_any)
        return bulk->children_roots > TASTED_ROOTS_MIN + TASTED_ROOTS_PER_WORKER * (uint64_t)bulk->workers ||
               root->queued >= TASTE_ROWS;
    return root->queued >= LARGE_TIMES * USUAL_MIN && root->queued >= LARGE_TIMES * usual_children(bulk, root);
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
    row_append(sched, grain.call, grain.entity, has_its_share(&sched->bulk, state) ? ROW_ASIDE : ROW_READY);
    return 0;
}

uint32_t sched_aside(const struct sched *sched, uint32_t call)
{
    return sched->calls[call].aside.count;
}

static uint32_t low_water(const struct sched *sched, const struct plan_pool *pool, uint32_t workers)
{
    uint64_t rows = LOW_WATER_PER_WORKER;
    for (uint32_t i = 0; i < pool->call_count; i++) {
        const struct plan_call *call = &sched->plan->calls[sched->plan->pool_calls[pool->call_first + i]];
        uint64_t batches = call->batch ? (uint64_t)LOW_WATER_BATCHES * call->batch_rows : 0;
        rows = batches > rows ? batches : rows;
    }
    rows *= workers;
    return rows < UINT32_MAX ? (uint32_t)rows : UINT32_MAX;
}

/* Among the rows put aside first: 1 + the root with the fewest children, the earlier of equals; 0: none. */
static uint32_t smallest_aside(struct sched *sched, uint32_t call)
{
    const struct row_list *aside = &sched->calls[call].aside;
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

/* In the order they came; until some root is finished those of the smallest root first, so that one is soon. */
static uint32_t move_up(struct sched *sched, uint32_t call, uint32_t rows)
{
    struct row_list *aside = &sched->calls[call].aside;
    uint32_t only = sched->bulk.finished_any ? 0 : smallest_aside(sched, call), moved = 0;
    uint32_t left = aside->count < LOOKED_AT_MAX ? aside->count : LOOKED_AT_MAX;
    for (uint32_t entity = aside->first, next; moved < rows && left > 0; entity = next, left--) {
        next = row_at(sched, call, entity)->next;
        if (only != 0 && row_at(sched, call, entity)->root != only)
            continue;
        row_remove(sched, call, entity);
        row_append(sched, call, entity, ROW_READY);
        moved++;
    }
    return moved;
}

uint32_t sched_level(struct sched *sched, uint32_t pool_number, uint32_t rows_out, uint32_t workers)
{
    const struct plan_pool *pool = &sched->plan->pools[pool_number];
    const uint32_t *calls = &sched->plan->pool_calls[pool->call_first];
    uint32_t rows = rows_out, aside = 0, low, moved = 0;
    for (uint32_t i = 0; i < pool->call_count; i++) {
        rows += sched_queued(sched, calls[i]) + sched_isolating(sched, calls[i]);
        aside += sched_aside(sched, calls[i]);
    }
    sched->bulk.workers = workers > sched->bulk.workers ? workers : sched->bulk.workers;
    if (aside == 0)
        return 0;
    low = low_water(sched, pool, workers);
    uint32_t want = rows < low ? low - rows : sched->bulk.taken_since >= OTHERS_BEFORE ? MOVED_IN_TURN : 0;
    for (uint32_t i = 0; i < pool->call_count && moved < want; i++)
        moved += move_up(sched, calls[i], want - moved);
    if (moved > 0)
        sched->bulk.taken_since = 0;
    return moved;
}
