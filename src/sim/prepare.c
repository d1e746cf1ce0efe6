/* SPDX-License-Identifier: Apache-2.0 */
/* Before a run: what feeds what, which rows a Call emits, and the devices. */
#include <errno.h>
#include <stdlib.h>

#include "sim/state.h"

static void groups_find(const struct sim *sim, uint32_t call)
{
    const struct sheaf_plan *plan = sim->plan;
    const struct plan_call *c = &plan->calls[call];
    struct call_state *state = &sim->calls[call];
    for (uint32_t slot = 0; slot < c->output_count; slot++)
        for (uint32_t i = 0; i < plan->port_count; i++) {
            const struct plan_port *port = &plan->ports[i];
            if (port->port_kind != PLAN_EXPAND || port->source != plan->call_ports[c->output_first + slot])
                continue;
            state->expanded_slot[slot] = true;
            for (uint32_t j = 0; j < c->expansion_count; j++)
                if (plan->call_expansions[c->expansion_first + j] == port->domain)
                    state->groups[j].slots[state->groups[j].count++] = slot;
        }
}

void calls_prepare(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->plan->call_count; i++) {
        const struct plan_call *call = &sim->plan->calls[i];
        struct call_state *state = &sim->calls[i];
        bool reaches = call->widest_failure >= SHEAF_SCOPE_GROUP && call->domain != 0;
        state->pool = call->pool;
        state->expands = call->expansion_count > 0;
        gate_open(&state->gate, &lineage_heap, i, reaches ? sim->setup->dial : 0);
        groups_find(sim, i);
    }
}

/* ---- devices ---- */

static bool pool_copies(const struct sim *sim, uint32_t pool)
{
    for (uint32_t i = 0; i < sim->plan->call_count; i++)
        if (sim->calls[i].pool == pool && sim->setup->services[i].in_bytes + sim->setup->services[i].out_bytes > 0)
            return true;
    return false;
}

static int pool_prepare(struct sim *sim, uint32_t index)
{
    const struct sim_links *links = &sim->setup->links;
    struct pool_state *pool = &sim->pools[index];
    uint32_t lanes = pool_copies(sim, index) && links->in_flight ? links->in_flight : 1;
    uint32_t per_bridge = links->devices_per_bridge;
    pool->unit_first = sim->unit_count;
    pool->unit_count = sim->setup->devices_of_pool[index];
    pool->device_first = sim->device_count;
    pool->device_count = pool->unit_count * lanes;
    pool->idle = calloc(pool->device_count + 1, sizeof(uint32_t));
    pool->bridges_free_us = calloc(per_bridge ? pool->unit_count / per_bridge + 1 : 1, sizeof(double));
    if (!pool->idle || !pool->bridges_free_us)
        return -ENOMEM;
    for (uint32_t i = 0; i < pool->unit_count; i++) {
        bool slow = sim->setup->slow_factor && sim_draw(sim, 100) < sim->setup->slow_percent;
        sim->units[pool->unit_first + i] =
            (struct unit){.pool = index,
                          .lane_first = pool->device_first + i * lanes,
                          .lane_count = lanes,
                          .slowness = slow ? sim->setup->slow_factor : 1,
                          .bridge_free_us = per_bridge ? &pool->bridges_free_us[i / per_bridge] : NULL};
    }
    /* The first batch of every unit comes before the second of any. */
    for (uint32_t lane = lanes; lane-- > 0;)
        for (uint32_t i = pool->unit_count; i-- > 0;) {
            uint32_t number = pool->device_first + i * lanes + lane;
            pool->idle[pool->idle_count++] = number;
            sim->devices[number] = (struct device){.pool = index, .number = number, .unit = pool->unit_first + i};
        }
    sim->unit_count += pool->unit_count;
    sim->device_count += pool->device_count;
    return 0;
}

int pools_prepare(struct sim *sim)
{
    size_t units = 0, lanes = sim->setup->links.in_flight ? sim->setup->links.in_flight : 1;
    for (uint32_t i = 0; i < sim->plan->pool_count; i++)
        units += sim->setup->devices_of_pool[i];
    sim->units = calloc(units + 1, sizeof(*sim->units));
    sim->devices = calloc(units * lanes + 1, sizeof(*sim->devices));
    sim->free_in_us = calloc(units * lanes + 1, sizeof(*sim->free_in_us));
    int status = sim->units && sim->devices && sim->free_in_us ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < sim->plan->pool_count && status == 0; i++)
        status = pool_prepare(sim, i);
    return status;
}
