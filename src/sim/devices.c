/* SPDX-License-Identifier: Apache-2.0 */
/* How a dispatch goes on: a batch is copied in, computed and copied back; a per-row operator goes from row to row and
 * child to child. */
#include "sim/state.h"

#define FOREVER UINT64_MAX
enum { HANG_US = 60 * 1000 * 1000 };

void row_end(struct sim *sim, struct device *device, struct sim_row *row, bool forget)
{
    struct call_state *call = &sim->calls[device->call];
    if (row->state == ROW_RUNS) {
        call->running--;
        call->children.emitted -= row->emitted;
        if (sim->operators.over)
            sim->operators.over(sim->operators.cookie, &row->saying);
    }
    row->state = ROW_IS_OVER;
    call->out--;
    *claim_of(sim, row->grain) = (struct claim){0, 0};
    if (forget && sim->setup->order == SIM_FIFO)
        sched_done(sim->sched, row->grain);
    lineage_release_hold(sim->lineage, row->grain);
}

static void trace(struct sim *sim, const struct device *device)
{
    struct sim_dispatch dispatch = {device->started_us,
                                    sim->now_us,
                                    device->call,
                                    device->pool,
                                    device->number - sim->pools[device->pool].device_first,
                                    device->count,
                                    device->close,
                                    device->lost};
    if (sim->setup->trace)
        sim->setup->trace(sim->setup->trace_cookie, &dispatch);
}

/* Its dispatch is over: back on the stack of its Pool; `lost`: after its worker was started anew. */
void device_idle(struct sim *sim, struct device *device, bool lost)
{
    struct pool_state *pool = &sim->pools[device->pool];
    trace(sim, device);
    device->count = device->at = 0;
    device->timed_out = device->lost = false;
    if (lost) {
        device->rows_before = 0;
        sim->result->pools[device->pool].losses++;
    }
    if (lost && sim->setup->restart_us) {
        device->restarts = true;
        pool->restarting++;
        event_push(sim, sim->now_us + sim->setup->restart_us, device->number);
        return;
    }
    pool->idle[pool->idle_count++] = device->number;
}

static bool lost_by_chance(struct sim *sim)
{
    return sim->setup->loss_per_million && sim_draw(sim, 1000000) < sim->setup->loss_per_million;
}

/* It goes on after `us`, or never (FOREVER), unless it is killed at its deadline before that. */
static void device_waits(struct sim *sim, struct device *device, uint64_t us)
{
    uint64_t deadline = deadline_us(sim, device->call);
    if (deadline == 0 && us == FOREVER)
        deadline = HANG_US;
    device->timed_out = deadline != 0 && us > deadline;
    event_push(sim, sim->now_us + (device->timed_out ? deadline : us), device->number);
}

/* ---- batch operators ---- */

static void batch_compute(struct sim *sim, struct device *device)
{
    struct unit *unit = &sim->units[device->unit];
    uint64_t us = service_us(sim, device, batch_us(&sim->setup->services[device->call], device->count));
    unit->computes = true;
    device->phase = DISPATCH_COMPUTES;
    for (uint32_t i = 0; i < device->count; i++) {
        row_start(sim, &device->rows[i]);
        if (device->rows[i].state == ROW_RUNS && device->rows[i].saying.fault == SIM_HANGS)
            us = FOREVER;
    }
    device->computes_us = sim->now_us;
    device_waits(sim, device, us);
}

/* A unit computes one batch after the other, in the order in which they were copied in. */
static void unit_next(struct sim *sim, struct unit *unit)
{
    struct device *first = NULL;
    for (uint32_t i = 0; i < unit->lane_count; i++) {
        struct device *device = &sim->devices[unit->lane_first + i];
        if (device->count && device->whole && device->phase == DISPATCH_QUEUES &&
            (!first || device->queued_order < first->queued_order))
            first = device;
    }
    if (first)
        batch_compute(sim, first);
}

static void batch_is_in(struct sim *sim, struct device *device)
{
    device->phase = DISPATCH_QUEUES;
    device->queued_order = sim->order++;
    if (!sim->units[device->unit].computes)
        unit_next(sim, &sim->units[device->unit]);
}

static void batch_answer(struct sim *sim, struct device *device)
{
    for (uint32_t i = 0; i < device->count; i++)
        if (device->rows[i].state != ROW_IS_OVER)
            row_finish(sim, device, &device->rows[i]);
    device->rows_before += device->count;
    device_idle(sim, device, false);
}

static void batch_computed(struct sim *sim, struct device *device)
{
    struct unit *unit = &sim->units[device->unit];
    uint64_t us = sim->now_us - device->computes_us;
    uint32_t started = 0, raised = device->count;
    unit->computes = false;
    sim->result->pools[device->pool].computing_us += (double)us;
    for (uint32_t i = 0; i < device->count; i++) {
        started += device->rows[i].state == ROW_RUNS;
        if (device->rows[i].state == ROW_RUNS && device->rows[i].saying.fault >= SIM_RAISES && raised == device->count)
            raised = i;
    }
    if (started && !device->timed_out)
        policy_learn(&sim->calls[device->call].curve, device->count, sim->plan->calls[device->call].batch_rows, us);
    double bytes = sim->setup->services[device->call].out_bytes * device->count;
    if (device->timed_out) {
        dispatch_lose(sim, device, NULL, SIM_HANGS);
    } else if (raised < device->count) {
        dispatch_lose(sim, device, NULL, device->rows[raised].saying.fault);
    } else if (lost_by_chance(sim)) {
        dispatch_lose(sim, device, NULL, SIM_ANSWERS);
    } else if (bytes > 0) {
        device->phase = DISPATCH_COPIES_OUT;
        event_push(sim, copy_until_us(sim, device, bytes, false), device->number);
    } else {
        batch_answer(sim, device);
    }
    unit_next(sim, unit);
}

static void step_batch(struct sim *sim, struct device *device)
{
    if (device->phase == DISPATCH_COPIES_IN)
        batch_is_in(sim, device);
    else if (device->phase == DISPATCH_COMPUTES)
        batch_computed(sim, device);
    else
        batch_answer(sim, device);
}

/* ---- per-row operators ---- */

/* Its row has no budget to emit. Rows behind it are recalled: the one that everybody waits for may be among them. */
static void device_block(struct sim *sim, struct device *device)
{
    device->blocked = true;
    sim->blocked++;
    sim->pools[device->pool].blocked++;
    sim->calls[device->call].running--;
    sim->calls[device->call].children.emitted -= device->rows[device->at].emitted;
    for (uint32_t i = device->count; i-- > device->at + 1;) {
        struct sim_row *row = &device->rows[i];
        bool cancelled = row->cancelled;
        if (!cancelled)
            sched_requeue_uncharged(sim->sched, row->grain);
        row_end(sim, device, row, cancelled);
        if (cancelled)
            gate_row_over(sim, row->grain, false);
    }
    device->count = device->at + 1;
}

/* The next child of a RUNNING row, if it may emit. False: it has emitted all, and goes on to its end now. */
static bool row_goes_on(struct sim *sim, struct device *device, struct sim_row *row)
{
    if (!row_may_emit(sim, device, row)) {
        device_block(sim, device);
        return true;
    }
    if (!row->saying.at_once && row_emit(sim, row) && row->emitted < row->children) {
        device_waits(sim, device, service_us(sim, device, sim->setup->services[device->call].child_us));
        return true;
    }
    if (row->saying.fault != SIM_HANGS || row->cancelled)
        return false;
    device_waits(sim, device, FOREVER);
    return true;
}

/* What is left of the dispatch may go on; false: the dispatch is over, or its next step has been set. */
static bool step_row(struct sim *sim, struct device *device)
{
    const struct sim_service *service = &sim->setup->services[device->call];
    struct sim_row *row = &device->rows[device->at];
    if (row->state == ROW_CLAIMED) {
        row_start(sim, row);
        if (row->state == ROW_RUNS) {
            double us =
                service->fixed_us + service->row_us + (row->children && !row->saying.at_once ? service->child_us : 0);
            device_waits(sim, device, service_us(sim, device, us));
            return false;
        }
    } else if (row->state == ROW_RUNS) {
        if (device->timed_out) {
            dispatch_lose(sim, device, row, SIM_HANGS);
            return false;
        }
        if (row_goes_on(sim, device, row))
            return false;
        if (row->saying.fault >= SIM_RAISES && !row->cancelled) {
            dispatch_lose(sim, device, row, row->saying.fault);
            return false;
        }
        if (lost_by_chance(sim)) {
            dispatch_lose(sim, device, NULL, SIM_ANSWERS);
            return false;
        }
        row_finish(sim, device, row);
        device->rows_before++;
    }
    device->at += row->state == ROW_IS_OVER;
    return true;
}

static void step_rows(struct sim *sim, struct device *device)
{
    while (device->at < device->count)
        if (!step_row(sim, device))
            return;
    uint64_t us = sim->now_us - device->started_us;
    policy_learn(&sim->calls[device->call].curve, device->count, sim->plan->calls[device->call].batch_rows, us);
    sim->result->pools[device->pool].computing_us += (double)us;
    device_idle(sim, device, false);
}

/* ---- both ---- */

void device_start(struct sim *sim, struct device *device)
{
    const struct sim_service *service = &sim->setup->services[device->call];
    device->whole = sim->plan->calls[device->call].batch;
    device->started_us = device->until_us = sim->now_us;
    device->at = 0;
    if (!device->whole) {
        step_rows(sim, device);
        return;
    }
    double bytes = service->in_bytes * device->count;
    uint64_t until_us = bytes > 0 ? copy_until_us(sim, device, bytes, true) : sim->now_us;
    device->until_us = until_us + (uint64_t)batch_us(service, device->count);
    device->phase = DISPATCH_COPIES_IN;
    if (bytes > 0)
        event_push(sim, until_us, device->number);
    else
        batch_is_in(sim, device);
}

void device_step(struct sim *sim, struct device *device)
{
    if (device->restarts) {
        device->restarts = false;
        sim->pools[device->pool].restarting--;
        sim->pools[device->pool].idle[sim->pools[device->pool].idle_count++] = device->number;
    } else if (device->whole) {
        step_batch(sim, device);
    } else {
        step_rows(sim, device);
    }
}

/* A device whose row was blocked looks again. */
void device_wake(struct sim *sim, struct device *device)
{
    if (!device->blocked)
        return;
    device->blocked = false;
    sim->blocked--;
    sim->pools[device->pool].blocked--;
    sim->calls[device->call].running++;
    sim->calls[device->call].children.emitted += device->rows[device->at].emitted;
    event_push(sim, sim->now_us, device->number);
}
