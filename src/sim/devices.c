/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: which takes what, and how its dispatch goes on. */
#include <errno.h>
#include <stdlib.h>

#include "sim/state.h"

uint64_t service_us(struct sim *sim, double us)
{
    uint32_t jitter = sim->setup->jitter_percent;
    if (jitter)
        us *= 1 + ((double)sim_draw(sim, 20001) - 10000) / 10000 * jitter / 100;
    return us > 0 ? (uint64_t)(us + 0.5) : 0;
}

static const struct sim_service *service_of(const struct sim *sim, uint32_t call)
{
    return &sim->setup->services[call];
}

static double batch_us(const struct sim_service *service, uint32_t rows)
{
    if (service->table_us && rows < service->table_rows)
        return service->table_us[rows];
    return service->fixed_us + service->row_us * rows;
}

void row_end(struct sim *sim, struct device *device, struct sim_row *row, bool forget)
{
    bool running = row->state == ROW_RUNS;
    struct call_state *call = &sim->calls[device->call];
    row->state = ROW_IS_OVER;
    if (running) {
        call->running--;
        call->children.emitted -= row->emitted;
    }
    call->out--;
    *claim_of(sim, row->grain) = (struct claim){0, 0};
    if (forget && sim->setup->order == SIM_FIFO)
        sched_done(sim->sched, row->grain);
    lineage_release_hold(sim->lineage, row->grain);
}

/* Back on the stack of its pool; `lost`: after its worker was started anew. */
void device_idle(struct sim *sim, struct device *device, bool lost)
{
    struct pool_state *pool = &sim->pools[device->pool];
    device->count = device->at = 0;
    device->fresh = false;
    if (lost && sim->setup->restart_us) {
        device->restarts = true;
        device->rows_before = 0;
        pool->restarting++;
        event_push(sim, sim->now_us + sim->setup->restart_us, device->number);
        return;
    }
    if (lost)
        device->rows_before = 0;
    pool->idle[pool->idle_count++] = device->number;
}

/* ---- going on ---- */

static void step_batch(struct sim *sim, struct device *device)
{
    uint32_t started = 0;
    for (uint32_t i = 0; i < device->count; i++)
        started += device->rows[i].state == ROW_RUNS;
    if (started)
        policy_learn(&sim->calls[device->call].curve, device->count, sim->plan->calls[device->call].batch_rows,
                     sim->now_us - device->started_us);
    for (uint32_t i = 0; i < device->count; i++) {
        struct sim_row *row = &device->rows[i];
        if (row->state == ROW_RUNS && row->fault >= SIM_RAISES) {
            dispatch_lose(sim, device, NULL, (enum sim_fault)row->fault);
            return;
        }
    }
    for (uint32_t i = 0; i < device->count; i++)
        if (device->rows[i].state != ROW_IS_OVER)
            row_finish(sim, device, &device->rows[i]);
    device->rows_before += device->count;
    device_idle(sim, device, false);
}

/* A per-row operator: the next child, or the end of the row. */
static void step_rows(struct sim *sim, struct device *device)
{
    const struct sim_service *service = service_of(sim, device->call);
    while (device->at < device->count) {
        struct sim_row *row = &device->rows[device->at];
        if (row->state == ROW_CLAIMED) {
            row_start(sim, row);
            if (row->state == ROW_RUNS) {
                double us = service->fixed_us + service->row_us + (row->children ? service->child_us : 0);
                event_push(sim, sim->now_us + service_us(sim, us), device->number);
                return;
            }
        } else if (row->state == ROW_RUNS) {
            if (row_emit(sim, row) && row->emitted < row->children) {
                event_push(sim, sim->now_us + service_us(sim, service->child_us), device->number);
                return;
            }
            if (row->fault >= SIM_RAISES) {
                dispatch_lose(sim, device, row, (enum sim_fault)row->fault);
                return;
            }
            row_finish(sim, device, row);
            device->rows_before++;
        }
        if (row->state == ROW_IS_OVER)
            device->at++;
    }
    policy_learn(&sim->calls[device->call].curve, device->count, sim->plan->calls[device->call].batch_rows,
                 sim->now_us - device->started_us);
    device_idle(sim, device, false);
}

/* ---- taking ---- */

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

static void device_start(struct sim *sim, struct device *device, enum policy_close close)
{
    struct sim_call_result *result = &sim->result->calls[device->call];
    const struct sim_service *service = service_of(sim, device->call);
    result->batches++;
    result->rows += device->count;
    result->closes[close]++;
    device->whole = sim->plan->calls[device->call].batch;
    device->started_us = sim->now_us;
    device->at = 0;
    double us = 0;
    if (device->whole) {
        for (uint32_t i = 0; i < device->count; i++)
            row_start(sim, &device->rows[i]);
        us = batch_us(service, device->count);
    }
    device->until_us = sim->now_us + (uint64_t)us;
    if (sim->setup->trace)
        sim->setup->trace(sim->setup->trace_cookie,
                          &(struct sim_dispatch){sim->now_us, sim->now_us + (uint64_t)us, device->call, device->number,
                                                 device->count, close});
    if (device->whole)
        event_push(sim, sim->now_us + service_us(sim, us), device->number);
    else
        step_rows(sim, device);
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

/* Takes rows for an idle device of the pool. False: none of its Calls has any to give now. */
static bool device_take(struct sim *sim, struct pool_state *pool, uint32_t call, uint32_t wanted,
                        enum policy_close close)
{
    struct sched_row row;
    if (!rows_take(sim, call, &row))
        return false;
    struct device *device = &sim->devices[pool->idle[--pool->idle_count]];
    device->call = call;
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
        if (!isolated && sim->setup->order == SIM_FIFO && sched_queued(sim->sched, call) == 0)
            break;
    } while (!sim->error && rows_take(sim, call, &row));
    device_start(sim, device, close);
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
    uint64_t passed = 0;
    for (uint32_t round = 0; round < plan_pool->call_count; round++) {
        uint32_t best = PLAN_NONE, best_index = 0;
        for (uint32_t i = 0; i < plan_pool->call_count; i++) {
            uint32_t call = sim->plan->pool_calls[plan_pool->call_first + i];
            if (passed >> i & 1 || rows_ready(sim, call) == 0)
                continue;
            if (best == PLAN_NONE || sim->plan->calls[call].priority < sim->plan->calls[best].priority) {
                best = call;
                best_index = i;
            }
        }
        if (best == PLAN_NONE)
            return false;
        enum policy_close close;
        uint32_t wanted = rows_wanted(sim, best, &close);
        if (wanted && device_take(sim, pool, best, wanted, close))
            return true;
        *ret_waits = *ret_waits || wanted == 0;
        passed |= UINT64_C(1) << best_index;
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

void device_step(struct sim *sim, struct device *device)
{
    if (device->restarts) {
        device->restarts = false;
        sim->pools[device->pool].restarting--;
        device_idle(sim, device, false);
    } else if (device->whole) {
        step_batch(sim, device);
    } else {
        step_rows(sim, device);
    }
}
