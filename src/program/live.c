/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is observed, and how far it is from an output: one walk against the order of units.
 *
 * A thing has a distance once something observes it: the fewest Calls between it and an output (or a side effect, which
 * counts as one). A Call feeds every Port of the Domains its expands make and of the Domains below those, so a Domain
 * has a distance too, the least of all that is observed in it or below.
 */
#include "program/compile.h"

static void observe(uint32_t *distance, uint32_t reached)
{
    if (reached < *distance)
        *distance = reached;
}

static void visit_port(struct compile *compile, uint32_t index)
{
    struct plan_port *port = &compile->plan->ports[index];
    uint32_t distance = compile->port_distances[index];
    if (distance == PLAN_NONE)
        return;
    port->live = true;
    observe(&compile->domain_distances[port->domain], distance);
    if (port->source != PLAN_NONE)
        observe(&compile->port_distances[port->source], distance);
    if (port->members != PLAN_NONE)
        observe(&compile->port_distances[port->members], distance);
    if (port->mask != PLAN_NONE)
        observe(&compile->port_distances[port->mask], distance);
}

static void visit_call(struct compile *compile, uint32_t index, const uint32_t *first_expansions,
                       const uint32_t *expansions)
{
    const struct sheaf_plan *plan = compile->plan;
    struct plan_call *call = &compile->plan->calls[index];
    uint32_t distance = call->side_effect ? 0 : PLAN_NONE;
    for (uint32_t i = 0; i < call->output_count; i++)
        observe(&distance, compile->port_distances[plan->call_ports[call->output_first + i]]);
    /* Only where no data of the Call is observed: else whatever opens a Domain would rank with what runs in it. */
    bool through_domain = distance == PLAN_NONE;
    for (uint32_t i = first_expansions[index]; through_domain && i < first_expansions[index + 1]; i++)
        observe(&distance, compile->domain_distances[expansions[i]]);
    call->priority = distance;
    call->live = distance != PLAN_NONE;
    if (!call->live)
        return;
    observe(&compile->domain_distances[call->domain], distance);
    for (uint32_t i = 0; i < call->input_count; i++)
        observe(&compile->port_distances[plan->call_ports[call->input_first + i]], distance + 1);
}

/* The Domains each Call makes, as one array. */
static int index_expansions(struct compile *compile, uint32_t **ret_firsts, uint32_t **ret_expansions)
{
    const struct sheaf_plan *plan = compile->plan;
    uint32_t *firsts = memory_array(&compile->scratch, plan->call_count + 2, sizeof(*firsts));
    uint32_t *expansions = memory_array(&compile->scratch, plan->domain_count, sizeof(*expansions));
    if (!firsts || !expansions)
        return compile_no_memory(compile);
    for (uint32_t call = 0; call < plan->call_count; call++)
        firsts[call + 2] = firsts[call + 1] + plan->calls[call].expansion_count;
    for (uint32_t domain = 1; domain < plan->domain_count; domain++)
        expansions[firsts[plan->domains[domain].call + 1]++] = domain;
    *ret_firsts = firsts;
    *ret_expansions = expansions;
    return 0;
}

int compile_liveness(struct compile *compile)
{
    struct sheaf_plan *plan = compile->plan;
    uint32_t *firsts = NULL, *expansions = NULL;
    int status = index_expansions(compile, &firsts, &expansions);
    if (status != 0)
        return status;
    for (uint32_t i = 0; i < plan->output_count; i++)
        compile->port_distances[plan->outputs[i].port] = 0;
    for (uint32_t i = compile->unit_count; i-- > 0;) {
        const struct unit *unit = &compile->units[i];
        if (unit->is_call)
            visit_call(compile, unit->index, firsts, expansions);
        else
            visit_port(compile, unit->index);
    }
    for (uint32_t domain = 0; domain < plan->domain_count; domain++)
        plan->domains[domain].live = compile->domain_distances[domain] != PLAN_NONE;
    plan->domains[0].live = true;
    return 0;
}
