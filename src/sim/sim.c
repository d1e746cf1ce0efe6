/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/state.h"

const char *sim_idle_name(enum sim_idle idle)
{
    static const char *const names[SIM_IDLE_COUNT] = {"starved", "waits for a fuller batch", "held by the dial",
                                                      "drained", "restarts"};
    return (unsigned)idle < SIM_IDLE_COUNT ? names[idle] : "unknown";
}

static void on_value_unused(void *cookie, const struct value_ref *value)
{
    struct sim *sim = cookie;
    sim->result->values_unused++;
}

static void on_root_complete(void *cookie, uint32_t root)
{
    struct sim *sim = cookie;
    sim->complete = sim_grow(sim, sim->complete, &sim->complete_capacity, sim->complete_count, sizeof(uint32_t));
    if (!sim->error)
        sim->complete[sim->complete_count++] = root;
}

static void calls_prepare(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->plan->call_count; i++) {
        const struct plan_call *call = &sim->plan->calls[i];
        struct call_state *state = &sim->calls[i];
        bool reaches = call->widest_failure >= SHEAF_SCOPE_GROUP && call->domain != 0;
        state->pool = call->pool;
        state->expands = call->expansion_count > 0;
        gate_open(&state->gate, &lineage_heap, i, reaches ? sim->setup->dial : 0);
    }
}

static int pools_prepare(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->plan->pool_count; i++)
        sim->device_count += sim->setup->devices_of_pool[i];
    sim->devices = calloc(sim->device_count + 1, sizeof(*sim->devices));
    sim->free_in_us = calloc(sim->device_count + 1, sizeof(*sim->free_in_us));
    if (!sim->devices || !sim->free_in_us)
        return -ENOMEM;
    uint32_t number = 0;
    for (uint32_t i = 0; i < sim->plan->pool_count; i++) {
        struct pool_state *pool = &sim->pools[i];
        pool->device_first = number;
        pool->device_count = sim->setup->devices_of_pool[i];
        pool->idle = calloc(pool->device_count + 1, sizeof(uint32_t));
        if (!pool->idle)
            return -ENOMEM;
        for (uint32_t j = pool->device_count; j-- > 0;)
            pool->idle[pool->idle_count++] = number + j;
        for (uint32_t j = 0; j < pool->device_count; j++, number++)
            sim->devices[number] = (struct device){.pool = i, .number = number};
    }
    return 0;
}

static int prepare(struct sim *sim)
{
    struct lineage_effects effects = {sim, on_ready, on_cancel, on_value_unused, on_root_complete};
    sim->calls = calloc(sim->plan->call_count + 1, sizeof(*sim->calls));
    sim->pools = calloc(sim->plan->pool_count + 1, sizeof(*sim->pools));
    sim->result->calls = calloc(sim->plan->call_count + 1, sizeof(*sim->result->calls));
    if (!sim->calls || !sim->pools || !sim->result->calls || pools_prepare(sim))
        return -ENOMEM;
    calls_prepare(sim);
    int status = upstream_open(&sim->upstream, sim->plan, &lineage_heap);
    if (status == 0)
        status = sched_create(sim->plan, &lineage_heap, &sim->sched);
    return status ? status : lineage_create(sim->plan, &effects, &lineage_heap, &sim->lineage);
}

/* ---- roots ---- */

static void roots_admit(struct sim *sim)
{
    const struct sim_setup *setup = sim->setup;
    struct value_ref sources[16];
    while (!sim->error && sim->admitted < setup->root_count &&
           (setup->window == 0 || sim->admitted - sim->done < setup->window)) {
        for (uint32_t i = 0; i < sim->plan->source_count; i++)
            sources[i] = (struct value_ref){.kind = SHEAF_I64, .offset = setup->roots[sim->admitted]};
        sim->result->values_made += sim->plan->source_count;
        uint32_t root;
        sim->admitted++;
        int status = lineage_admit(sim->lineage, sim->admitted - 1, sources, &root);
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
        if (lineage_release_root(sim->lineage, root)) {
            sim->complete[kept++] = root;
            continue;
        }
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
        result->busy_us += passed * (pool->device_count - pool->idle_count - pool->restarting);
    }
    sim->now_us = to_us;
}

static void all_at_this_moment(struct sim *sim)
{
    struct event event;
    while (!sim->error && sim->heap_count && sim->heap[0].at_us == sim->now_us && event_pop(sim, &event))
        device_step(sim, &sim->devices[event.device]);
}

static int run(struct sim *sim)
{
    roots_admit(sim);
    devices_assign(sim);
    while (!sim->error && sim->done < sim->setup->root_count) {
        uint64_t next = sim->heap_count ? sim->heap[0].at_us : UINT64_MAX, retry;
        if (sched_next_retry_us(sim->sched, &retry) && retry < next)
            next = retry > sim->now_us ? retry : sim->now_us;
        if (next == UINT64_MAX)
            return -EDEADLK;
        time_passes(sim, next);
        all_at_this_moment(sim);
        roots_release(sim);
        roots_admit(sim);
        devices_assign(sim);
        roots_release(sim);
    }
    return sim->error;
}

static void report(struct sim *sim)
{
    struct sim_result *result = sim->result;
    result->makespan_us = sim->now_us;
    for (uint32_t i = 0; i < sim->plan->call_count; i++) {
        struct sim_call_result *call = &result->calls[i];
        lineage_call_counts(sim->lineage, i, &call->counts);
        result->grains += call->counts.grains;
        policy_cost(&sim->calls[i].curve, &call->fixed_us, &call->row_us);
    }
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
    for (uint32_t i = 0; sim->pools && i < sim->plan->pool_count; i++)
        free(sim->pools[i].idle);
    for (uint32_t i = 0; sim->devices && i < sim->device_count; i++)
        free(sim->devices[i].rows);
    lineage_destroy(sim->lineage);
    sched_destroy(sim->sched);
    upstream_close(&sim->upstream);
    free(sim->calls);
    free(sim->pools);
    free(sim->devices);
    free(sim->free_in_us);
    free(sim->heap);
    free(sim->complete);
}

static bool setup_is_sound(const struct sim_setup *setup)
{
    if (setup->plan->pool_count > 16 || setup->plan->source_count > 16)
        return false;
    for (uint32_t i = 0; i < setup->plan->pool_count; i++)
        if (setup->plan->pools[i].call_count > 64 || (setup->plan->pools[i].call_count && !setup->devices_of_pool[i]))
            return false;
    return true;
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
        report(&sim);
    clean_up(&sim);
    if (status)
        sim_result_free(ret_result);
    return status;
}

void sim_result_free(struct sim_result *result)
{
    free(result->calls);
    result->calls = NULL;
}
