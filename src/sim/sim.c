/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/state.h"

enum { SOURCES_MAX = 16, STILL_MAX = 100000 };

const char *sim_idle_name(enum sim_idle idle)
{
    static const char *const names[SIM_IDLE_COUNT] = {
        "starved", "waits for a fuller batch", "held by the dial", "drained", "restarts", "blocked for want of budget"};
    return (unsigned)idle < SIM_IDLE_COUNT ? names[idle] : "unknown";
}

static void on_value_unused(void *cookie, const struct value_ref *value)
{
    struct sim *sim = cookie;
    sim->result->values_unused++;
    if (sim->operators.unused)
        sim->operators.unused(sim->operators.cookie, value);
}

static void on_root_complete(void *cookie, uint32_t root)
{
    struct sim *sim = cookie;
    sim->complete = sim_grow(sim, sim->complete, &sim->complete_capacity, sim->complete_count, sizeof(uint32_t));
    if (sim->error)
        return;
    sim->complete[sim->complete_count++] = root;
    sim->is_complete[lineage_root_index(sim->lineage, root)] = true;
    while (sim->lowest < sim->setup->root_count && sim->is_complete[sim->lowest])
        sim->lowest++;
    sim->room = true;
}

/* All wait from the start. */
static int roots_prepare(struct sim *sim)
{
    const struct sim_setup *setup = sim->setup;
    int status = 0;
    admission_open(&sim->admission, setup->largest_first ? ADMISSION_LARGEST_FIRST : ADMISSION_AS_SUBMITTED,
                   &lineage_heap);
    for (uint32_t root = 0; root < setup->root_count && status == 0; root++)
        status = admission_add(&sim->admission, root, setup->roots ? setup->roots[root] : 0);
    if (setup->largest_first)
        sched_keep_order(sim->sched);
    return status;
}

static int prepare(struct sim *sim)
{
    struct lineage_effects effects = {sim, on_ready, on_cancel, on_value_unused, on_root_complete};
    sim->calls = calloc(sim->plan->call_count + 1, sizeof(*sim->calls));
    sim->pools = calloc(sim->plan->pool_count + 1, sizeof(*sim->pools));
    sim->result->calls = calloc(sim->plan->call_count + 1, sizeof(*sim->result->calls));
    sim->result->pools = calloc(sim->plan->pool_count + 1, sizeof(*sim->result->pools));
    sim->is_complete = calloc((size_t)sim->setup->root_count + 1, sizeof(*sim->is_complete));
    sim->operators = sim->setup->operators ? *sim->setup->operators : counting_operators(sim);
    if (!sim->calls || !sim->pools || !sim->result->calls || !sim->result->pools || !sim->is_complete)
        return -ENOMEM;
    calls_prepare(sim);
    int status = pools_prepare(sim);
    if (status == 0)
        status = upstream_open(&sim->upstream, sim->plan, &lineage_heap);
    if (status == 0)
        status = sched_create(sim->plan, &lineage_heap, &sim->sched);
    if (status == 0)
        status = roots_prepare(sim);
    return status ? status : lineage_create(sim->plan, &effects, &lineage_heap, &sim->lineage);
}

/* ---- roots ---- */

static void roots_admit(struct sim *sim)
{
    const struct sim_setup *setup = sim->setup;
    struct value_ref sources[SOURCES_MAX];
    uint64_t next;
    while (!sim->error && (setup->window == 0 || sim->admitted - sim->done < setup->window) &&
           admission_take(&sim->admission, &next)) {
        for (uint32_t i = 0; i < sim->plan->source_count; i++)
            sources[i] = sim->operators.source(sim->operators.cookie, (uint32_t)next, i);
        sim->result->values_made += sim->plan->source_count;
        uint32_t root;
        sim->admitted++;
        sim->still = 0;
        int status = lineage_admit(sim->lineage, next, sources, &root);
        sim->error = sim->error ? sim->error : status;
    }
}

static void roots_release(struct sim *sim)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < sim->complete_count; i++) {
        uint32_t root = sim->complete[i];
        sched_root_over(sim->sched, root);
        enum lineage_status status = lineage_root_status(sim->lineage, root);
        if (sim->operators.complete)
            sim->operators.complete(sim->operators.cookie, sim->lineage, root);
        if (lineage_release_root(sim->lineage, root)) {
            sim->complete[kept++] = root;
            continue;
        }
        sim->room = true;
        if (sim->done++ == 0)
            sim->result->first_root_us = sim->now_us;
        sim->result->roots_by_status[status]++;
    }
    sim->complete_count = kept;
}

/* ---- the run ---- */

static void time_passes(struct sim *sim, uint64_t to_us)
{
    double passed = (double)(to_us - sim->now_us);
    for (uint32_t i = 0; i < sim->plan->pool_count; i++) {
        const struct pool_state *pool = &sim->pools[i];
        struct sim_pool_result *result = &sim->result->pools[i];
        result->idle_us[pool->why] += passed * pool->idle_count;
        result->idle_us[SIM_IDLE_RESTARTS] += passed * pool->restarting;
        result->idle_us[SIM_IDLE_BLOCKED] += passed * pool->blocked;
        result->busy_us += passed * (pool->device_count - pool->idle_count - pool->restarting - pool->blocked);
    }
    sim->now_us = to_us;
}

static void all_at_this_moment(struct sim *sim)
{
    struct event event;
    while (!sim->error && !sim->result->aborted && sim->heap_count && sim->heap[0].at_us == sim->now_us &&
           event_pop(sim, &event)) {
        sim->still++;
        device_step(sim, &sim->devices[event.device]);
    }
}

/* Rows that had no budget look again once a root is complete or gone. */
static void blocked_wake(struct sim *sim)
{
    for (uint32_t i = 0; sim->room && sim->blocked && i < sim->device_count; i++)
        device_wake(sim, &sim->devices[i]);
    sim->room = false;
}

/* Complete roots go, others come in their place, and idle devices take what there is. */
static void moment_end(struct sim *sim)
{
    uint32_t done;
    do {
        done = sim->done;
        roots_admit(sim);
        devices_assign(sim);
        roots_release(sim);
    } while (!sim->error && sim->done != done);
}

static int run(struct sim *sim)
{
    uint64_t still_max = STILL_MAX + 100 * (uint64_t)sim->device_count;
    moment_end(sim);
    while (!sim->error && !sim->result->aborted && sim->done < sim->setup->root_count) {
        uint64_t next = sim->heap_count ? sim->heap[0].at_us : UINT64_MAX, retry;
        if (sched_next_retry_us(sim->sched, sim->now_us, &retry) && retry < next)
            next = retry;
        if (next == UINT64_MAX)
            return -EDEADLK;
        if (sim->still > still_max)
            return -ELOOP;
        time_passes(sim, next);
        all_at_this_moment(sim);
        moment_end(sim);
        blocked_wake(sim);
    }
    return sim->error;
}

/* What must hold when all roots are gone. */
static bool ledger_balances(const struct sim *sim)
{
    bool balances = lineage_live_entities(sim->lineage) == 0 && lineage_live_bytes(sim->lineage) == 0 &&
                    sim->result->values_made == sim->result->values_unused;
    for (uint32_t i = 0; i < sim->plan->call_count; i++) {
        const struct lineage_call_counts *counts = &sim->result->calls[i].counts;
        balances = balances && counts->grains == counts->sealed && counts->started <= counts->grains;
    }
    for (uint32_t i = 0; i < sim->plan->output_count; i++) {
        struct lineage_output_counts counts;
        lineage_output_counts(sim->lineage, i, &counts);
        balances = balances && counts.entities == counts.present + counts.dropped + counts.failed + counts.suppressed;
    }
    return balances;
}

static int report(struct sim *sim)
{
    struct sim_result *result = sim->result;
    result->makespan_us = sim->now_us;
    for (uint32_t i = 0; i < sim->plan->call_count; i++) {
        struct sim_call_result *call = &result->calls[i];
        lineage_call_counts(sim->lineage, i, &call->counts);
        result->grains += call->counts.grains;
        policy_cost(&sim->calls[i].curve, &call->fixed_us, &call->row_us);
    }
    if (!result->aborted && !ledger_balances(sim))
        return -EBADE;
    return bound_find(sim, &result->bound);
}

/* A run that was given up leaves rows behind. */
static void rows_drop(struct sim *sim, const struct device *device)
{
    for (uint32_t i = 0; i < device->count; i++)
        if (device->rows[i].state == ROW_RUNS && sim->operators.over)
            sim->operators.over(sim->operators.cookie, &device->rows[i].saying);
}

static void clean_up(struct sim *sim)
{
    for (uint32_t i = 0; sim->calls && i < sim->plan->call_count; i++) {
        struct call_state *call = &sim->calls[i];
        gate_close(&call->gate);
        for (uint32_t j = 0; j < call->side.bucket_capacity; j++)
            free(call->side.buckets[j].entities);
        free(call->side.buckets);
        free(call->side.entities);
        free(call->side.order);
        free(call->claims);
    }
    for (uint32_t i = 0; sim->pools && i < sim->plan->pool_count; i++) {
        free(sim->pools[i].idle);
        free(sim->pools[i].bridges_free_us);
    }
    for (uint32_t i = 0; sim->devices && i < sim->device_count; i++) {
        rows_drop(sim, &sim->devices[i]);
        free(sim->devices[i].rows);
    }
    lineage_destroy(sim->lineage);
    sched_destroy(sim->sched);
    upstream_close(&sim->upstream);
    admission_close(&sim->admission);
    free(sim->calls);
    free(sim->pools);
    free(sim->devices);
    free(sim->units);
    free(sim->is_complete);
    free(sim->free_in_us);
    free(sim->heap);
    free(sim->complete);
}

bool sim_may_lose(const struct sim_setup *setup)
{
    return setup->operators || setup->raises_per_million || setup->crashes_per_million || setup->hangs_per_million ||
           setup->loss_per_million || setup->deadline_us;
}

static bool setup_is_sound(const struct sim_setup *setup)
{
    const struct sheaf_plan *plan = setup->plan;
    if (plan->source_count > SOURCES_MAX)
        return false;
    for (uint32_t i = 0; i < plan->pool_count; i++)
        if (plan->pools[i].call_count && !setup->devices_of_pool[i])
            return false;
    for (uint32_t i = 0; i < plan->call_count; i++) {
        const struct plan_call *call = &plan->calls[i];
        bool copies = setup->services[i].in_bytes > 0 || setup->services[i].out_bytes > 0;
        if (call->output_count > SIM_EXPANSIONS_MAX || call->expansion_count > SIM_EXPANSIONS_MAX ||
            (copies && !call->batch))
            return false;
    }
    return (setup->operators || setup->roots) && !(sim_may_lose(setup) && setup->order != SIM_FIFO);
}

int sim_run(const struct sim_setup *setup, struct sim_result *ret_result)
{
    struct sim sim = {
        .setup = setup, .plan = setup->plan, .result = ret_result, .random = setup->seed * 0x9E3779B97F4A7C15ull + 1};
    if (!setup_is_sound(setup))
        return -EINVAL;
    memset(ret_result, 0, sizeof(*ret_result));
    int status = prepare(&sim);
    if (status == 0)
        status = run(&sim);
    if (status == 0)
        status = report(&sim);
    clean_up(&sim);
    if (status)
        sim_result_free(ret_result);
    return status;
}

void sim_result_free(struct sim_result *result)
{
    free(result->calls);
    free(result->pools);
    result->calls = NULL;
    result->pools = NULL;
}
