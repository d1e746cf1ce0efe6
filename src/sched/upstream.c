/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/upstream.h"

#include <errno.h>
#include <string.h>

static void add_maker(struct upstream *upstream, uint32_t call, bool by_expansion)
{
    for (uint32_t i = 0; i < upstream->maker_count; i++)
        if (upstream->makers[i].call == call)
            return;
    if (upstream->maker_count < UPSTREAM_MAKERS_MAX)
        upstream->makers[upstream->maker_count++] = (struct upstream_maker){call, by_expansion};
}

/* A Call and all above it, which were found before: what a Call reads comes from Calls with lower numbers. */
static void add_above(struct upstream_map *map, struct upstream *upstream, uint32_t call, uint32_t words)
{
    upstream->above[call / 64] |= UINT64_C(1) << (call % 64);
    for (uint32_t word = 0; word < words; word++)
        upstream->above[word] |= map->calls[call].above[word];
}

enum reach { FAR_OFF = 1, NEAR = 2 }; /* behind a gather or a Call, or not */

/* One Port that is looked at: notes the Call it comes from, and marks the Ports it takes from. Those have lower
 * numbers. */
static void look_at(struct upstream_map *map, struct upstream *upstream, uint32_t port, uint8_t *marks, uint32_t words)
{
    const struct sheaf_plan *plan = map->plan;
    const struct plan_port *p = &plan->ports[port];
    uint8_t reach = marks[port];
    uint32_t call = PLAN_NONE;
    switch (p->port_kind) {
    case PLAN_SOURCE:
        return;
    case PLAN_CALL_OUTPUT:
    case PLAN_EXPAND:
        call = p->call;
        break;
    case PLAN_GATHER:
        marks[p->source] |= FAR_OFF;
        marks[p->members] |= FAR_OFF;
        return;
    case PLAN_FILTER:
        marks[p->mask] |= reach;
        marks[p->source] |= reach;
        return;
    case PLAN_BROADCAST:
        marks[p->source] |= plan->ports[p->source].domain == p->domain ? reach : FAR_OFF;
        call = plan->ports[p->source].domain == p->domain ? PLAN_NONE : plan->domains[p->domain].call;
        break;
    }
    if (call == PLAN_NONE)
        return;
    add_above(map, upstream, call, words);
    if (reach & NEAR)
        add_maker(upstream, call, p->port_kind != PLAN_CALL_OUTPUT);
}

static void find(struct upstream_map *map, uint32_t call, uint8_t *marks, uint32_t words)
{
    const struct sheaf_plan *plan = map->plan;
    const struct plan_call *plan_call = &plan->calls[call];
    memset(marks, 0, plan->port_count);
    for (uint32_t i = 0; i < plan_call->input_count; i++)
        marks[plan->call_ports[plan_call->input_first + i]] = NEAR;
    for (uint32_t port = plan->port_count; port-- > 0;)
        if (marks[port])
            look_at(map, &map->calls[call], port, marks, words);
}

static size_t calls_bytes(const struct upstream_map *map)
{
    return (map->plan->call_count + 1) * sizeof(*map->calls);
}

static size_t bits_bytes(const struct upstream_map *map)
{
    size_t words = map->plan->call_count / 64 + 1;
    return (map->plan->call_count + 1) * words * sizeof(uint64_t);
}

int upstream_open(struct upstream_map *map, const struct sheaf_plan *plan, const struct lineage_memory *memory)
{
    *map = (struct upstream_map){.plan = plan, .memory = *memory};
    uint32_t words = plan->call_count / 64 + 1;
    size_t marks_bytes = plan->port_count + 1;
    uint8_t *marks = memory->allocate(memory->cookie, marks_bytes);
    map->calls = memory->allocate(memory->cookie, calls_bytes(map));
    map->bits = memory->allocate(memory->cookie, bits_bytes(map));
    if (marks && map->calls && map->bits) {
        memset(map->calls, 0, calls_bytes(map));
        memset(map->bits, 0, bits_bytes(map));
        for (uint32_t call = 0; call < plan->call_count; call++) {
            map->calls[call].above = &map->bits[(size_t)call * words];
            find(map, call, marks, words);
        }
    }
    int result = marks && map->calls && map->bits ? 0 : -ENOMEM;
    if (marks)
        memory->release(memory->cookie, marks, marks_bytes);
    if (result < 0)
        upstream_close(map);
    return result;
}

void upstream_close(struct upstream_map *map)
{
    if (map->calls)
        map->memory.release(map->memory.cookie, map->calls, calls_bytes(map));
    if (map->bits)
        map->memory.release(map->memory.cookie, map->bits, bits_bytes(map));
    map->calls = NULL;
    map->bits = NULL;
}

double upstream_coming(const struct upstream_maker *maker, const struct upstream_state *state)
{
    double rows = (double)state->running + (state->queued < state->idle ? state->queued : state->idle);
    if (!maker->by_expansion)
        return rows;
    double all = state->children_mean * rows - (double)state->emitted;
    return all > rows ? all : rows; /* as long as it runs it may make one more */
}

void upstream_answered(struct upstream_children *children, uint64_t of_row)
{
    children->rows++;
    children->mean += ((double)of_row - children->mean) / (double)children->rows;
}
