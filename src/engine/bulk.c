/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A root much larger than the others must not make them wait, and must not wait for ever itself.
 *
 * Rows go out drain first: those nearest to an output before those that open new roots. A document of ten thousand
 * pages would so keep every small one behind it from being opened. So rows of a root that has far more of them ready
 * than roots usually have children are put aside, and move up when the Pool would otherwise run out of other work, or
 * when enough other rows went before them. Roots of one size are never put aside: each is finished before the next is
 * begun.
 *
 * At the start of a run nothing is known of sizes, and a user waits for a first result: until one root is finished, the
 * first few roots get only a taste of their rows, so that a small one among them is out soon.
 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "engine/shard.h"

enum {
    LARGE_TIMES = 8,           /* this many times the usual number of children is far more */
    USUAL_MIN = 32,            /* where roots are tiny, or none is known yet */
    LOW_WATER_PER_WORKER = 32, /* rows of a Pool that keep its workers from looking idle */
    TASTE_ROWS = 16,           /* rows of a root before any root is finished ... */
    TASTED_ROOTS_MAX = 16,     /* ... for so many roots */
    OTHERS_BEFORE = 256,       /* after so many other rows ... */
    MOVED_IN_TURN = 64,        /* ... so many move up in any case: a fifth of the work */
};

#define ROW_NUMBERS (UINT32_C(1) << 31) /* more than can wait at once, and never KEYMAP_NONE */

struct bulk {
    struct grain *rows; /* a ring */
    uint32_t first, count, capacity;
    uint64_t first_number; /* rows are numbered as they come, modulo ROW_NUMBERS; this is the number of the first */
    struct keymap numbers; /* Grain -> low half of its number; another or none: taken back */
};

static uint64_t grain_key(struct grain grain)
{
    return (uint64_t)grain.call << 32 | grain.entity;
}

struct bulk *bulk_create(uint32_t calls)
{
    return calloc(calls + 1, sizeof(struct bulk));
}

void bulk_destroy(struct bulk *bulks, uint32_t calls)
{
    for (uint32_t call = 0; bulks && call < calls; call++) {
        free(bulks[call].rows);
        keymap_fini(&bulks[call].numbers);
    }
    free(bulks);
}

/* Children a root usually has: the geometric mean over the roots that were opened, which one giant hardly moves. */
static double usual_children(const struct shard *shard, const struct root *root)
{
    double log_sum = shard->children_log_sum - root->children_log;
    uint64_t others = shard->children_roots - (root->children_log > 0);
    double usual = others > 0 ? exp(log_sum / (double)others) : 0;
    return usual < USUAL_MIN ? USUAL_MIN : usual;
}

void bulk_count_child(struct shard *shard, struct root *root)
{
    double log_now = log(1 + (double)++root->children);
    shard->children_roots += root->children_log == 0;
    shard->children_log_sum += log_now - root->children_log;
    root->children_log = log_now;
}

static int append(struct bulk *bulk, struct grain grain)
{
    if (bulk->count == bulk->capacity) {
        uint32_t capacity = bulk->capacity ? bulk->capacity * 2 : 1024;
        struct grain *larger = malloc(capacity * sizeof *larger);
        if (!larger)
            return -ENOMEM;
        for (uint32_t i = 0; i < bulk->count; i++)
            larger[i] = bulk->rows[(bulk->first + i) & (bulk->capacity - 1)];
        free(bulk->rows);
        bulk->rows = larger;
        bulk->capacity = capacity;
        bulk->first = 0;
    }
    int result =
        keymap_set(&bulk->numbers, grain_key(grain), (uint32_t)((bulk->first_number + bulk->count) % ROW_NUMBERS));
    if (result == 0)
        bulk->rows[(bulk->first + bulk->count++) & (bulk->capacity - 1)] = grain;
    return result;
}

bool bulk_put_aside(struct shard *shard, struct grain grain)
{
    if (shard->plan->calls[grain.call].domain == 0)
        return false;
    struct root *root = root_of(shard, lineage_root_of(shard->lineage, grain));
    bool tasting = !shard->finished_any && shard->children_roots <= TASTED_ROOTS_MAX;
    double most = tasting ? TASTE_ROWS : LARGE_TIMES * usual_children(shard, root);
    if (root->rows_ready < most) {
        root->rows_ready++;
        return false;
    }
    if (append(&shard->bulk[grain.call], grain) < 0)
        return false; /* then it goes with the others */
    return true;
}

void bulk_row_gone(struct shard *shard, struct grain grain)
{
    struct root *root = root_of(shard, lineage_root_of(shard->lineage, grain));
    if (shard->plan->calls[grain.call].domain != 0 && root->rows_ready > 0)
        root->rows_ready--;
}

bool bulk_cancel(struct shard *shard, struct grain grain)
{
    struct bulk *bulk = &shard->bulk[grain.call];
    if (keymap_get(&bulk->numbers, grain_key(grain)) == KEYMAP_NONE)
        return false;
    keymap_remove(&bulk->numbers, grain_key(grain));
    return true;
}

uint32_t bulk_waiting(const struct shard *shard, uint32_t call)
{
    return shard->bulk[call].numbers.count;
}

/* Moves up to `rows` of a Call up; returns how many. What was taken back meanwhile is dropped. */
static uint32_t move_up(struct shard *shard, uint32_t call, uint32_t rows)
{
    struct bulk *bulk = &shard->bulk[call];
    uint32_t moved = 0;
    while (moved < rows && bulk->count > 0) {
        struct grain grain = bulk->rows[bulk->first];
        uint32_t number = (uint32_t)(bulk->first_number % ROW_NUMBERS);
        bulk->first = (bulk->first + 1) & (bulk->capacity - 1);
        bulk->first_number++;
        bulk->count--;
        if (keymap_get(&bulk->numbers, grain_key(grain)) != number)
            continue;
        keymap_remove(&bulk->numbers, grain_key(grain));
        root_of(shard, lineage_root_of(shard->lineage, grain))->rows_ready++;
        if (sched_ready(shard->sched, grain) < 0)
            shard_fail(shard, -ENOMEM, "queueing a row");
        moved++;
    }
    return moved;
}

static uint32_t rows_of_pool(const struct shard *shard, uint32_t pool)
{
    const struct plan_pool *calls = &shard->plan->pools[pool];
    uint32_t rows = 0;
    for (uint32_t i = 0; i < calls->call_count; i++) {
        uint32_t call = shard->plan->pool_calls[calls->call_first + i];
        rows += shard->live_of_call[call] + sched_queued(shard->sched, call) + sched_isolating(shard->sched, call);
    }
    return rows;
}

void bulk_step(struct shard *shard)
{
    for (uint32_t pool = 0; pool < shard->plan->pool_count; pool++) {
        const struct plan_pool *calls = &shard->plan->pools[pool];
        uint32_t rows = rows_of_pool(shard, pool), low = LOW_WATER_PER_WORKER * shard->run->pool_count[pool];
        uint32_t want = rows < low ? low - rows : 0;
        if (want == 0 && shard->rows_since_bulk >= OTHERS_BEFORE)
            want = MOVED_IN_TURN;
        uint32_t moved = 0;
        for (uint32_t i = 0; i < calls->call_count && moved < want; i++)
            moved += move_up(shard, shard->plan->pool_calls[calls->call_first + i], want - moved);
        if (moved > 0)
            shard->rows_since_bulk = 0;
    }
}
