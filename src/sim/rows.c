/* SPDX-License-Identifier: Apache-2.0 */
/* Where READY rows wait: the isolation dial's gate, then the queues of src/sched, or a queue of another order. */
#include <errno.h>
#include <stdlib.h>

#include "sim/state.h"

static uint32_t parent_of(const struct sim *sim, struct grain grain, uint64_t *ret_key)
{
    uint32_t domain = sim->plan->calls[grain.call].domain;
    *ret_key = lineage_parent_key(sim->lineage, domain, grain.entity);
    return lineage_parent_of(sim->lineage, domain, grain.entity);
}

struct claim *claim_of(struct sim *sim, struct grain grain)
{
    struct call_state *call = &sim->calls[grain.call];
    call->claims = sim_grow(sim, call->claims, &call->claim_capacity, grain.entity, sizeof(*call->claims));
    return &call->claims[grain.entity];
}

/* ---- other orders ---- */

static void order_push(struct sim *sim, struct side_queue *side, uint32_t parent)
{
    side->order = sim_grow(sim, side->order, &side->order_capacity, side->order_count, sizeof(*side->order));
    side->order[side->order_count++] = parent;
}

static void bucket_add(struct sim *sim, uint32_t call, uint32_t parent, uint32_t entity)
{
    struct side_queue *side = &sim->calls[call].side;
    side->buckets = sim_grow(sim, side->buckets, &side->bucket_capacity, parent, sizeof(*side->buckets));
    struct bucket *bucket = &side->buckets[parent];
    bucket->entities = sim_grow(sim, bucket->entities, &bucket->capacity, bucket->count, sizeof(uint32_t));
    bucket->entities[bucket->count++] = entity;
    if (bucket->closed || bucket->count % sim->plan->calls[call].batch_rows == 0)
        order_push(sim, side, parent);
}

static void side_add(struct sim *sim, struct grain grain)
{
    struct side_queue *side = &sim->calls[grain.call].side;
    uint64_t key;
    sim->calls[grain.call].queued++;
    if (sim->setup->order == SIM_PARENT_BOUND && sim->plan->calls[grain.call].domain != 0) {
        bucket_add(sim, grain.call, parent_of(sim, grain, &key), grain.entity);
        return;
    }
    side->entities = sim_grow(sim, side->entities, &side->capacity, side->count, sizeof(uint32_t));
    side->entities[side->count++] = grain.entity;
}

static bool remove_from(uint32_t *entities, uint32_t *count, uint32_t entity)
{
    for (uint32_t i = 0; i < *count; i++) {
        if (entities[i] != entity)
            continue;
        for (; i + 1 < *count; i++)
            entities[i] = entities[i + 1];
        --*count;
        return true;
    }
    return false;
}

static bool side_cancel(struct sim *sim, struct grain grain)
{
    struct side_queue *side = &sim->calls[grain.call].side;
    uint64_t key;
    uint32_t parent = parent_of(sim, grain, &key);
    bool bound = sim->setup->order == SIM_PARENT_BOUND && sim->plan->calls[grain.call].domain != 0;
    bool found = bound ? parent < side->bucket_capacity &&
                             remove_from(side->buckets[parent].entities, &side->buckets[parent].count, grain.entity)
                       : remove_from(side->entities, &side->count, grain.entity);
    sim->calls[grain.call].queued -= found;
    return found;
}

/* The Expansion of (call, parent) is closed: what waits below it may go, however few. */
void expansion_closed(struct sim *sim, uint32_t call, uint32_t parent)
{
    if (sim->setup->order != SIM_PARENT_BOUND)
        return;
    for (uint32_t i = 0; i < sim->plan->call_count; i++) {
        uint32_t domain = sim->plan->calls[i].domain;
        struct side_queue *side = &sim->calls[i].side;
        if (domain == 0 || sim->plan->domains[domain].call != call)
            continue;
        side->buckets = sim_grow(sim, side->buckets, &side->bucket_capacity, parent, sizeof(*side->buckets));
        side->buckets[parent].closed = true;
        if (side->buckets[parent].count)
            order_push(sim, side, parent);
    }
}

static bool side_take(struct sim *sim, uint32_t call, uint32_t *ret_entity)
{
    struct side_queue *side = &sim->calls[call].side;
    if (sim->setup->order == SIM_PARENT_BOUND && sim->plan->calls[call].domain != 0) {
        while (side->order_head < side->order_count && side->buckets[side->order[side->order_head]].count == 0)
            side->order_head++;
        if (side->order_head == side->order_count)
            return false;
        struct bucket *bucket = &side->buckets[side->order[side->order_head]];
        *ret_entity = bucket->entities[0];
        remove_from(bucket->entities, &bucket->count, *ret_entity);
        return true;
    }
    if (side->count == 0)
        return false;
    uint32_t index = sim->setup->order == SIM_UNORDERED ? sim_draw(sim, side->count) : 0;
    *ret_entity = side->entities[index];
    side->entities[index] = side->entities[--side->count];
    return true;
}

/* ---- effects of lineage ---- */

static void let_through(struct sim *sim, struct grain grain)
{
    policy_arrived(&sim->calls[grain.call].arrivals, 1, sim->now_us);
    if (sim->setup->order != SIM_FIFO)
        side_add(sim, grain);
    else if (sim->plan->calls[grain.call].domain == 0
                 ? sched_ready(sim->sched, grain)
                 : sched_ready_in_turn(sim->sched, grain, lineage_root_of(sim->lineage, grain)))
        sim->error = -ENOMEM;
}

void on_ready(void *cookie, struct grain grain)
{
    struct sim *sim = cookie;
    uint64_t key = 0;
    uint32_t parent = sim->plan->calls[grain.call].domain ? parent_of(sim, grain, &key) : 0;
    int passes = gate_ready(&sim->calls[grain.call].gate, grain.entity, parent, key);
    if (passes < 0)
        sim->error = passes;
    else if (passes)
        let_through(sim, grain);
}

/* A row that had been let through is over for good; its siblings may be next. */
void gate_row_over(struct sim *sim, struct grain grain, bool succeeded)
{
    struct gate *gate = &sim->calls[grain.call].gate;
    uint64_t key;
    if (gate->dial == 0)
        return;
    uint32_t parent = parent_of(sim, grain, &key), entity;
    gate_over(gate, grain.entity, parent, key, succeeded);
    while (gate_next(gate, parent, &entity))
        let_through(sim, (struct grain){grain.call, entity});
}

enum lineage_found on_cancel(void *cookie, struct grain grain)
{
    struct sim *sim = cookie;
    uint64_t key = 0;
    uint32_t parent = sim->plan->calls[grain.call].domain ? parent_of(sim, grain, &key) : 0;
    if (gate_cancel(&sim->calls[grain.call].gate, grain.entity, parent))
        return LINEAGE_KEPT_OUT;
    if (sim->setup->order != SIM_FIFO ? side_cancel(sim, grain) : sched_cancel(sim->sched, grain)) {
        gate_row_over(sim, grain, false);
        return LINEAGE_KEPT_OUT;
    }
    struct claim *claim = claim_of(sim, grain);
    struct sim_row *row = &sim->devices[claim->device - 1].rows[claim->row];
    row->cancelled = true;
    device_wake(sim, &sim->devices[claim->device - 1]);
    return row->state == ROW_CLAIMED ? LINEAGE_SKIPPED : LINEAGE_RUNNING;
}

/* ---- counts ---- */

uint32_t rows_ready(const struct sim *sim, uint32_t call)
{
    const struct side_queue *side = &sim->calls[call].side;
    if (sim->setup->order == SIM_FIFO)
        return sched_queued(sim->sched, call) + sched_isolating(sim->sched, call);
    if (sim->setup->order == SIM_UNORDERED || sim->plan->calls[call].domain == 0)
        return side->count;
    for (uint32_t i = side->order_head; i < side->order_count; i++) {
        uint32_t count = side->buckets[side->order[i]].count;
        if (count)
            return count;
    }
    return 0;
}

bool rows_take(struct sim *sim, uint32_t call, struct sched_row *ret_row)
{
    uint32_t entity;
    if (sim->setup->order == SIM_FIFO)
        return sched_next(sim->sched, call, sim->now_us, ret_row) == 1;
    if (!side_take(sim, call, &entity))
        return false;
    sim->calls[call].queued--;
    *ret_row = (struct sched_row){.grain = {call, entity}, .queue = SCHED_READY};
    return true;
}

static uint32_t idle_elsewhere(const struct sim *sim, uint32_t call, uint32_t maker)
{
    const struct pool_state *pool = &sim->pools[sim->calls[maker].pool];
    bool same = sim->calls[call].pool == sim->calls[maker].pool;
    return pool->idle_count > same ? pool->idle_count - same : 0;
}

static double coming_from(const struct sim *sim, uint32_t call, const struct upstream_maker *maker)
{
    const struct call_state *state = &sim->calls[maker->call];
    const struct upstream_state does = {.queued = rows_ready(sim, maker->call),
                                        .idle = idle_elsewhere(sim, call, maker->call),
                                        .running = state->running,
                                        .emitted = state->children.emitted,
                                        .children_mean = state->children.mean};
    return upstream_coming(maker, &does);
}

/* READY, whether or not they may go now. */
static uint32_t rows_waiting(const struct sim *sim, uint32_t call)
{
    return rows_ready(sim, call) + sched_aside(sim->sched, call) + (uint32_t)sim->calls[call].gate.held;
}

/* More than what is coming already: something further up may still lead here. */
static bool more_above(const struct sim *sim, uint32_t call)
{
    const struct upstream *upstream = &sim->upstream.calls[call];
    if (sim->admitted < sim->setup->root_count)
        return true;
    for (uint32_t i = 0; i < call; i++) {
        if (!upstream_leads_to(&sim->upstream, i, call))
            continue;
        bool makes = false;
        for (uint32_t j = 0; j < upstream->maker_count; j++)
            makes = makes || upstream->makers[j].call == i;
        if (makes ? rows_waiting(sim, i) > idle_elsewhere(sim, call, i) : rows_waiting(sim, i) || sim->calls[i].running)
            return true;
    }
    return false;
}

/* When the busy devices of a pool are expected to be free. */
static uint32_t busy_until(struct sim *sim, const struct pool_state *pool)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < pool->device_count; i++) {
        const struct device *device = &sim->devices[pool->device_first + i];
        if (device->count)
            sim->free_in_us[count++] = device->until_us > sim->now_us ? (double)(device->until_us - sim->now_us) : 0;
    }
    return count;
}

struct policy_ask rows_ask(struct sim *sim, uint32_t call)
{
    const struct call_state *state = &sim->calls[call];
    const struct pool_state *pool = &sim->pools[state->pool];
    double coming = 0;
    uint32_t running = 0;
    for (uint32_t i = 0; i < sim->upstream.calls[call].maker_count; i++) {
        const struct upstream_maker *maker = &sim->upstream.calls[call].makers[i];
        coming += coming_from(sim, call, maker);
        running += sim->calls[maker->call].running;
    }
    bool more = more_above(sim, call);
    return (struct policy_ask){.ready = rows_ready(sim, call),
                               .coming = coming > 1e9 ? 1000000000u : (uint32_t)coming,
                               .held = (uint32_t)state->gate.held + sched_aside(sim->sched, call),
                               .cap = sim->plan->calls[call].batch_rows,
                               .idle = pool->idle_count,
                               .devices = pool->device_count,
                               .more = more,
                               .gap_us = policy_gap_us(&state->arrivals, running, sim->now_us),
                               .free_in_us = sim->free_in_us,
                               .free_count = more ? 0 : busy_until(sim, pool)};
}
