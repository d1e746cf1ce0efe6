/* SPDX-License-Identifier: Apache-2.0 */
/* What has to be worked out whatever the timing: the certain part of "Liveness" in section 4. */
#include "tests/reference/evaluate.h"

static bool any_needed_below(struct evaluation *e, struct node *node, uint32_t port)
{
    uint32_t domain = e->plan->ports[port].domain;
    if (node->domain == domain)
        return item_is_needed(e, node, port);
    for (uint32_t i = 0; i < e->plan->domain_count; i++) {
        if (e->plan->domains[i].parent != node->domain || i == 0 || !domain_is_within(e, domain, i))
            continue;
        for (struct node **kid = node_kids(e, node, i); *kid; kid++)
            if (any_needed_below(e, *kid, port))
                return true;
    }
    return false;
}

static bool gather_needs(struct evaluation *e, struct node *kid, uint32_t gather, uint32_t port)
{
    const struct plan_port *p = &e->plan->ports[gather];
    if (item_read(e, kid->parent, gather, FINAL)->outcome == 'X')
        return false;
    if (p->members != port && item_read(e, kid, p->members, FINAL)->outcome != 'P')
        return false;
    return item_is_needed(e, kid->parent, gather);
}

static bool read_by_port(struct evaluation *e, struct node *node, uint32_t port, uint32_t reader)
{
    const struct plan_port *p = &e->plan->ports[reader];
    switch (p->port_kind) {
    case PLAN_FILTER:
        if (p->source != port && (p->mask != port || item_read(e, node, p->source, FINAL)->outcome != 'P'))
            return false;
        return item_is_needed(e, node, reader);
    case PLAN_BROADCAST:
        return p->source == port && any_needed_below(e, node, reader);
    case PLAN_GATHER:
        return (p->source == port || p->members == port) && gather_needs(e, node, reader, port);
    case PLAN_SOURCE:
    case PLAN_CALL_OUTPUT:
    case PLAN_EXPAND:
        break;
    }
    return false;
}

static bool domain_is_observed(struct evaluation *e, struct node *node, uint32_t domain)
{
    for (uint32_t i = 0; i < e->plan->output_count; i++)
        if (domain_is_within(e, e->plan->ports[e->plan->outputs[i].port].domain, domain))
            return true;
    for (uint32_t i = 0; i < e->plan->port_count; i++) {
        const struct plan_port *p = &e->plan->ports[i];
        if (p->port_kind == PLAN_GATHER && e->plan->ports[p->source].domain == domain &&
            item_read(e, node, i, FINAL)->outcome != 'X' && item_is_needed(e, node, i))
            return true;
        if (domain_is_within(e, p->domain, domain) && any_needed_below(e, node, i))
            return true;
    }
    return false;
}

static bool outputs_needed(struct evaluation *e, struct node *node, uint32_t call)
{
    const struct plan_call *c = &e->plan->calls[call];
    for (uint32_t i = 0; i < c->output_count; i++)
        if (item_is_needed(e, node, e->plan->call_ports[c->output_first + i]))
            return true;
    return false;
}

static bool grain_is_observed(struct evaluation *e, struct node *node, uint32_t call)
{
    const struct plan_call *c = &e->plan->calls[call];
    if (!e->calls[call].live)
        return false;
    if ((c->op->flags & SHEAF_OPERATOR_SIDE_EFFECT) || call_may_fail_root(e, call) || outputs_needed(e, node, call))
        return true;
    for (uint32_t i = 0; i < c->expansion_count; i++)
        if (domain_is_observed(e, node, e->plan->call_expansions[c->expansion_first + i]))
            return true;
    if (call_may_fail_group(e, call))
        for (struct node **kid = node_kids(e, node->parent, node->domain); *kid; kid++)
            if (outputs_needed(e, *kid, call))
                return true;
    return false;
}

static bool read_by_call(struct evaluation *e, struct node *node, uint32_t port, uint32_t call)
{
    const struct plan_call *c = &e->plan->calls[call];
    bool reads = false;
    for (uint32_t i = 0; i < c->input_count; i++) {
        uint32_t input = e->plan->call_ports[c->input_first + i];
        reads = reads || input == port;
        if (item_read(e, node, input, FINAL)->outcome == 'X')
            return false;
    }
    return reads && grain_is_observed(e, node, call);
}

bool item_is_needed(struct evaluation *e, struct node *node, uint32_t port)
{
    if (node->needed[port])
        return node->needed[port] == 'y';
    bool needed = false;
    if (!node_is_doomed(e, node)) {
        for (uint32_t i = 0; i < e->plan->output_count; i++)
            needed = needed || e->plan->outputs[i].port == port;
        for (uint32_t i = 0; i < e->plan->port_count && !needed; i++)
            needed = read_by_port(e, node, port, i);
        for (uint32_t i = 0; i < e->plan->call_count && !needed; i++)
            needed = e->plan->calls[i].domain == node->domain && read_by_call(e, node, port, i);
    }
    node->needed[port] = needed ? 'y' : 'n';
    return needed;
}

/* A Grain that may fail the root runs on behind a barrier; of the others only one that raised it alone is sure to. */
bool grain_must_start(struct evaluation *e, struct node *node, uint32_t call)
{
    if (node_is_doomed(e, node) || !inputs_all_present(e, node, call, FINAL) || !grain_is_observed(e, node, call))
        return false;
    const struct run *run = grain_run(e, node, call);
    uint32_t declarers = group_declarers(e, node, call);
    bool alone = declarers == 1 && run->result.end == ROW_DECLARES && run->result.scope == SHEAF_SCOPE_GROUP;
    return declarers == 0 || alone || call_may_fail_root(e, call);
}
