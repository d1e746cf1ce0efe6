/* SPDX-License-Identifier: Apache-2.0 */
/* Which device takes what, and why one idles. */
#include "sim/state.h"

static void device_claim(struct sim *sim, struct device *device, const struct sched_row *row)
{
    device->rows = sim_grow(sim, device->rows, &device->capacity, device->count, sizeof(*device->rows));
    if (sim->error)
        return;
    device->rows[device->count] = (struct sim_row){.grain = row->grain, .attempt = row->attempt};
    lineage_hold(sim->lineage, row->grain);
    *claim_of(sim, row->grain) = (struct claim){device->number + 1, device->count};
    device->count++;
    sim->calls[row->grain.call].out++;
}

static uint32_t rows_wanted(struct sim *sim, uint32_t call, enum policy_close *ret_close)
{
    struct policy_ask ask = rows_ask(sim, call);
    *ret_close = ask.ready >= ask.cap ? POLICY_FULL : POLICY_NOTHING_COMING;
    if (sim->setup->fixed_batches || sim->setup->order == SIM_PARENT_BOUND || ask.cap == 1)
        return ask.ready < ask.cap ? ask.ready : ask.cap;
    struct policy_answer answer = policy_decide(&sim->calls[call].curve, &ask);
    *ret_close = answer.close;
    return answer.rows;
}

static struct device *idle_pick(struct sim *sim, struct pool_state *pool)
{
    uint32_t *last = &pool->idle[--pool->idle_count];
    if (sim->setup->shuffled) {
        uint32_t index = sim_draw(sim, pool->idle_count + 1), number = pool->idle[index];
        pool->idle[index] = *last;
        *last = number;
    }
    return &sim->devices[*last];
}

/* Takes rows for an idle device of the pool. False: none of its Calls has any to give now. */
static bool device_take(struct sim *sim, struct pool_state *pool, uint32_t call, uint32_t wanted,
                        enum policy_close close)
{
    struct sched_row row;
    if (!rows_take(sim, call, &row))
        return false;
    struct device *device = idle_pick(sim, pool);
    device->call = call;
    device->close = close;
    device->count = 0;
    if (row.fresh_worker)
        device->rows_before = 0;
    if (row.queue == SCHED_ISOLATION)
        sim->result->calls[call].isolation_batches++;
    do {
        device_claim(sim, device, &row);
        bool isolated = row.queue == SCHED_ISOLATION;
        if (isolated ? row.batch_left == 0 : device->count >= wanted)
            break;
        if (!isolated && sim->setup->order == SIM_FIFO && !sched_due(sim->sched, call, sim->now_us))
            break;
    } while (!sim->error && rows_take(sim, call, &row));
    struct sim_call_result *result = &sim->result->calls[call];
    result->batches++;
    result->rows += device->count;
    result->closes[close]++;
    device_start(sim, device);
    return true;
}

static enum sim_idle idle_reason(const struct sim *sim, const struct pool_state *pool, bool waits)
{
    if (waits)
        return SIM_IDLE_WAITS;
    uint32_t index = (uint32_t)(pool - sim->pools);
    bool above = sim->admitted < sim->setup->root_count;
    for (uint32_t i = 0; i < sim->plan->call_count; i++) {
        if (sim->calls[i].pool != index)
            continue;
        if (sim->calls[i].gate.held)
            return SIM_IDLE_HELD;
        for (uint32_t j = 0; j < sim->upstream.calls[i].maker_count; j++) {
            uint32_t maker = sim->upstream.calls[i].makers[j].call;
            above = above || sim->calls[maker].running || rows_ready(sim, maker);
        }
    }
    return above ? SIM_IDLE_STARVED : SIM_IDLE_DRAINED;
}

/* Drain first: of the Calls of the pool that have rows, the one nearest to the outputs that does not wait. */
static bool pool_serve(struct sim *sim, struct pool_state *pool, const struct plan_pool *plan_pool, bool *ret_waits)
{
    uint64_t serving = ++sim->serving;
    for (uint32_t round = 0; round < plan_pool->call_count; round++) {
        uint32_t best = PLAN_NONE;
        for (uint32_t i = 0; i < plan_pool->call_count; i++) {
            uint32_t call = sim->plan->pool_calls[plan_pool->call_first + i];
            if (sim->calls[call].passed == serving || rows_ready(sim, call) == 0)
                continue;
            if (best == PLAN_NONE || sim->plan->calls[call].priority < sim->plan->calls[best].priority)
                best = call;
        }
        if (best == PLAN_NONE)
            return false;
        enum policy_close close;
        uint32_t wanted = rows_wanted(sim, best, &close);
        if (wanted && device_take(sim, pool, best, wanted, close))
            return true;
        *ret_waits = *ret_waits || wanted == 0;
        sim->calls[best].passed = serving;
    }
    return false;
}

/* Rows of roots much larger than the others move up as a Pool needs them. */
static void pool_level(struct sim *sim, uint32_t pool)
{
    const struct plan_pool *calls = &sim->plan->pools[pool];
    uint32_t out = 0;
    for (uint32_t i = 0; i < calls->call_count; i++)
        out += sim->calls[sim->plan->pool_calls[calls->call_first + i]].out;
    sched_level(sim->sched, pool, out, sim->pools[pool].device_count);
}

void devices_assign(struct sim *sim)
{
    bool moved = true;
    while (moved && !sim->error) {
        moved = false;
        for (uint32_t i = 0; i < sim->plan->pool_count; i++) {
            struct pool_state *pool = &sim->pools[i];
            bool waits = false;
            pool_level(sim, i);
            while (pool->idle_count && pool_serve(sim, pool, &sim->plan->pools[i], &waits))
                moved = true;
            pool->why = idle_reason(sim, pool, waits);
        }
    }
}
