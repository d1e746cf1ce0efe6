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
 * there is, so that a small one is out soon. Where a Call has lanes (lanes.c) there is no taste, which would have every
 * parent opened: those few roots are opened, and all rows wait for what the smallest is.
 *
 * When rows move up is level.c.
 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "sched/rows.h"

enum {
    LARGE_TIMES = 8,            /* this many times the usual number of children is far more */
    USUAL_MIN = 32,             /* where roots are tiny, or none is known yet */
    TASTE_ROWS = 16,            /* rows of a root before any root is finished ... */
    FIRST_ROOTS_MIN = 8,        /* ... for so many roots, */
    FIRST_ROOTS_PER_WORKER = 8, /* and so many more for each worker */
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

void sched_children(struct sched *sched, uint32_t root, uint32_t count)
{
    struct bulk *bulk = &sched->bulk;
    struct bulk_root *state = bulk_root_of(sched, root);
    if (!state)
        return; /* its size stays unknown: nothing but the order of work depends on it */
    state->children += count;
    double log_now = log(1 + (double)state->children);
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

uint64_t bulk_first_roots(const struct bulk *bulk)
{
    return FIRST_ROOTS_MIN + FIRST_ROOTS_PER_WORKER * (uint64_t)bulk->workers;
}

static bool has_its_share(const struct sched *sched, uint32_t call, const struct bulk_root *root)
{
    const struct bulk *bulk = &sched->bulk;
    if (bulk->off || sched->calls[call].goes_on)
        return false;
    if (!bulk->finished_any)
        return has_lanes(sched, call) || bulk->children_roots > bulk_first_roots(bulk) || root->queued >= TASTE_ROWS;
    return root->queued >= LARGE_TIMES * USUAL_MIN && root->queued >= LARGE_TIMES * usual_children(bulk, root);
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
                    row_move_up(sched, call, entity);
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
