/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which gathers and Calls wait for final inputs (docs/SEMANTICS.md section 4, Final): one walk along the order of
 * units.
 *
 * An Item is at risk when it derives from a Call that may declare group failures: a barrier may still turn it into S.
 * It derives from its own Port's chain and from the Expansions above its Entity, because an Entity under an Expansion
 * that reads FAILED reads S whatever the Port. What is never at risk needs no waiting.
 */
#include "program/compile.h"

enum { AT_RISK = 1, GATHERED = 2 }; /* derives from a group-failing Call; comes through a gather */

/* In the root Domain nobody has siblings, so a group failure there is an item failure. */
static bool may_fail_groups(const struct plan_call *call)
{
    return call->widest_failure >= SHEAF_SCOPE_GROUP && call->domain != 0;
}

struct marks {
    unsigned char *ports, *calls;
};

/* Marks of a Domain: those of the Call whose Grains open its Entities. */
static unsigned char domain_marks(const struct sheaf_plan *plan, const struct marks *marks, uint32_t domain)
{
    return plan->domains[domain].call == PLAN_NONE ? 0 : marks->calls[plan->domains[domain].call];
}

static void visit_port(struct sheaf_plan *plan, const struct marks *marks, uint32_t index)
{
    struct plan_port *port = &plan->ports[index];
    unsigned char mark = domain_marks(plan, marks, port->domain);
    if (port->port_kind == PLAN_CALL_OUTPUT)
        mark |= marks->calls[port->call];
    if (port->source != PLAN_NONE)
        mark |= marks->ports[port->source];
    if (port->members != PLAN_NONE)
        mark |= marks->ports[port->members];
    if (port->mask != PLAN_NONE)
        mark |= marks->ports[port->mask];
    port->needs_final = port->partial && (mark & AT_RISK);
    marks->ports[index] = mark | (port->port_kind == PLAN_GATHER ? GATHERED : 0);
}

static void visit_call(struct sheaf_plan *plan, const struct marks *marks, uint32_t index)
{
    struct plan_call *call = &plan->calls[index];
    unsigned char mark = domain_marks(plan, marks, call->domain);
    for (uint32_t i = 0; i < call->input_count; i++)
        mark |= marks->ports[plan->call_ports[call->input_first + i]];
    bool may_fail_root = call->widest_failure == SHEAF_SCOPE_ROOT;
    bool waits = may_fail_root || (may_fail_groups(call) && (mark & GATHERED));
    /* Below the root an Expansion above may still fail, whatever its Call may declare: whether a root failure under it
     * counts must not depend on who comes first. */
    call->needs_final = (waits && (mark & AT_RISK)) || (may_fail_root && call->domain != 0);
    marks->calls[index] = mark | (may_fail_groups(call) ? AT_RISK : 0);
}

int compile_finality(struct compile *compile)
{
    struct sheaf_plan *plan = compile->plan;
    struct marks marks = {memory_array(&compile->scratch, plan->port_count, 1),
                          memory_array(&compile->scratch, plan->call_count, 1)};
    if (!marks.ports || !marks.calls)
        return compile_no_memory(compile);
    for (uint32_t i = 0; i < compile->unit_count; i++) {
        const struct unit *unit = &compile->units[i];
        if (unit->is_call)
            visit_call(plan, &marks, unit->index);
        else
            visit_port(plan, &marks, unit->index);
    }
    return 0;
}
