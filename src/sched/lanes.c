/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "sched/rows.h"

/* Opening a parent again costs about as much as so many of its rows: a worker that is ahead of another by less is still
 * the better place for a parent it has open. */
enum { OPENING_IN_ROWS = 32 };

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

static uint32_t rows_of(const struct lane *lane)
{
    return lane->ready.count + lane->out;
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
            best = rows_of(&lanes[lane]) < rows_of(&lanes[best]) ? lane : best;
        if (root->opener > queues->first_worker && own < queues->lane_count &&
            rows_of(&lanes[own]) <= rows_of(&lanes[best]) + OPENING_IN_ROWS)
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
