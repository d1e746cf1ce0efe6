/* SPDX-License-Identifier: Apache-2.0 */
/* How long things take: service times and what they stray by, copies, deadlines, and the least the whole can take. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "sim/state.h"

double batch_us(const struct sim_service *service, uint32_t rows)
{
    if (service->table_us && rows < service->table_rows)
        return service->table_us[rows];
    return service->fixed_us + service->row_us * rows;
}

/* Above 0, at most 1. */
static double draw_part(struct sim *sim)
{
    return ((double)sim_draw(sim, 1u << 30) + 1) / (1u << 30);
}

static double strays(struct sim *sim)
{
    double by = sim->setup->spread_percent / 100.0;
    switch (sim->setup->spread) {
    case SIM_EVEN:
        return by > 0 ? 1 + ((double)sim_draw(sim, 20001) - 10000) / 10000 * by : 1;
    case SIM_EXPONENTIAL:
        return -log(draw_part(sim));
    case SIM_LOGNORMAL: {
        double normal = sqrt(-2 * log(draw_part(sim))) * cos(6.283185307179586 * draw_part(sim));
        return exp(by * normal - by * by / 2);
    }
    }
    return 1;
}

uint64_t service_us(struct sim *sim, const struct device *device, double us)
{
    us *= strays(sim) * sim->units[device->unit].slowness;
    return us > 0 ? (uint64_t)(us + 0.5) : 0;
}

uint64_t deadline_us(const struct sim *sim, uint32_t call)
{
    uint64_t stated = sim->plan->calls[call].timeout_ms * UINT64_C(1000);
    return stated ? stated : sim->setup->deadline_us;
}

/* ---- copies ---- */

uint64_t copy_until_us(struct sim *sim, const struct device *device, double bytes, bool in)
{
    const struct sim_links *links = &sim->setup->links;
    struct unit *unit = &sim->units[device->unit];
    double rate = in ? links->in_bytes_us : links->out_bytes_us, begin = (double)sim->now_us;
    double *link_free_us = in ? &unit->in_free_us : &unit->out_free_us;
    double link_us = links->copy_us + (rate > 0 ? bytes / rate : 0);
    begin = fmax(begin, *link_free_us);
    if (unit->bridge_free_us && links->bridge_bytes_us > 0) {
        double bridge_us = bytes / links->bridge_bytes_us;
        begin = fmax(begin, *unit->bridge_free_us);
        *unit->bridge_free_us = begin + bridge_us;
        link_us = fmax(link_us, bridge_us);
    }
    *link_free_us = begin + link_us;
    struct sim_pool_result *result = &sim->result->pools[device->pool];
    *(in ? &result->in_us : &result->out_us) += link_us;
    return (uint64_t)ceil(*link_free_us);
}

/* ---- the lower bound ---- */

/* The least time one row of a Call takes; of one that expands, until its first child. */
static double least_us(const struct sim *sim, uint32_t call, bool first_child)
{
    const struct sim_service *service = &sim->setup->services[call];
    double us = sim->plan->calls[call].batch ? batch_us(service, 1) : service->fixed_us + service->row_us;
    return us + (first_child ? service->child_us : 0);
}

/* Per Call: the least time from the start of the run to its first row. Makers have lower numbers. */
static void find_before(const struct sim *sim, double *before_us)
{
    for (uint32_t i = 0; i < sim->plan->call_count; i++) {
        const struct upstream *upstream = &sim->upstream.calls[i];
        before_us[i] = 0;
        for (uint32_t j = 0; j < upstream->maker_count; j++) {
            const struct upstream_maker *maker = &upstream->makers[j];
            double us = before_us[maker->call] + least_us(sim, maker->call, maker->by_expansion);
            before_us[i] = fmax(before_us[i], us);
        }
    }
}

/* The least time from the end of a Call's last row to the end of the run: the shortest way on, which may be none: the
 * last child of one that expands may have been there before. */
static double after_call_us(const struct sim *sim, const double *after_port_us, uint32_t call)
{
    const struct plan_call *c = &sim->plan->calls[call];
    double least = c->expansion_count ? 0 : INFINITY;
    for (uint32_t i = 0; i < c->output_count; i++)
        least = fmin(least, after_port_us[sim->plan->call_ports[c->output_first + i]]);
    return least < INFINITY ? least : 0;
}

/* The same per Port, from when its last Item is there. What reads a Port has a higher number. */
static void find_after(const struct sim *sim, double *after_port_us)
{
    for (uint32_t i = sim->plan->port_count; i-- > 0;) {
        const struct plan_port *port = &sim->plan->ports[i];
        after_port_us[i] = INFINITY;
        for (uint32_t j = 0; j < port->reader_count; j++) {
            const struct plan_reader *reader = &sim->plan->readers[port->reader_first + j];
            double us = reader->is_call
                            ? least_us(sim, reader->index, false) + after_call_us(sim, after_port_us, reader->index)
                            : after_port_us[reader->index];
            after_port_us[i] = fmin(after_port_us[i], us);
        }
    }
    for (uint32_t i = 0; i < sim->plan->output_count; i++)
        after_port_us[sim->plan->outputs[i].port] = 0;
}

/* What `rows` of a Call cost a device at least, in batches as full as the Call allows. */
static double least_work_us(const struct sim *sim, uint32_t call, double rows)
{
    const struct sim_service *service = &sim->setup->services[call];
    uint32_t cap = sim->plan->calls[call].batch_rows;
    if (!sim->plan->calls[call].batch)
        return rows * (service->fixed_us + service->row_us);
    if (!service->table_us)
        return rows * service->row_us + ceil(rows / cap) * service->fixed_us;
    double row_us = INFINITY;
    for (uint32_t n = 1; n <= cap && n < service->table_rows; n++)
        row_us = fmin(row_us, service->table_us[n] / n);
    return rows * row_us;
}

static double links_us(const struct sim *sim, const struct pool_state *pool, double in_bytes, double out_bytes)
{
    const struct sim_links *links = &sim->setup->links;
    double us = 0;
    if (links->in_bytes_us > 0)
        us = fmax(us, in_bytes / links->in_bytes_us / pool->unit_count);
    if (links->out_bytes_us > 0)
        us = fmax(us, out_bytes / links->out_bytes_us / pool->unit_count);
    if (links->bridge_bytes_us > 0 && links->devices_per_bridge) {
        double bridges = ceil((double)pool->unit_count / links->devices_per_bridge);
        us = fmax(us, (in_bytes + out_bytes) / links->bridge_bytes_us / bridges);
    }
    return us;
}

static double pool_bound_us(const struct sim *sim, uint32_t index, const double *before_us, const double *after_us)
{
    const struct pool_state *pool = &sim->pools[index];
    double work = 0, in = 0, out = 0, before = INFINITY, after = INFINITY, devices = 0;
    for (uint32_t i = 0; i < sim->plan->call_count; i++) {
        double rows = (double)sim->result->calls[i].counts.started;
        if (sim->calls[i].pool != index || rows == 0)
            continue;
        work += least_work_us(sim, i, rows) + sim->calls[i].children_us;
        in += rows * sim->setup->services[i].in_bytes;
        out += rows * sim->setup->services[i].out_bytes;
        before = fmin(before, before_us[i]);
        after = fmin(after, after_us[i]);
    }
    for (uint32_t i = 0; i < pool->unit_count; i++)
        devices += 1 / sim->units[pool->unit_first + i].slowness;
    return before < INFINITY ? before + fmax(work / devices, links_us(sim, pool, in, out)) + after : 0;
}

int bound_find(const struct sim *sim, struct sim_bound *ret_bound)
{
    const struct sheaf_plan *plan = sim->plan;
    double *us = calloc(plan->call_count * 2 + plan->port_count + 1, sizeof(*us));
    if (!us)
        return -ENOMEM;
    double *before = us, *after = before + plan->call_count, *after_port = after + plan->call_count;
    find_before(sim, before);
    find_after(sim, after_port);
    for (uint32_t i = 0; i < plan->call_count; i++)
        after[i] = after_call_us(sim, after_port, i);
    for (uint32_t i = 0; i < plan->pool_count; i++)
        ret_bound->work_us = fmax(ret_bound->work_us, pool_bound_us(sim, i, before, after));
    for (uint32_t i = 0; i < plan->call_count; i++)
        if (sim->result->calls[i].counts.started)
            ret_bound->path_us = fmax(ret_bound->path_us, before[i] + sim->calls[i].longest_row_us + after[i]);
    free(us);
    return 0;
}
