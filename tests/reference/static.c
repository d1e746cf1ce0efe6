/* SPDX-License-Identifier: Apache-2.0 */
/* Liveness, finality and reach of a program, each by going round until nothing changes. */
#include <stdlib.h>

#include "tests/reference/evaluate.h"

static bool set(bool *flag, bool value)
{
    bool changed = value && !*flag;
    *flag = *flag || value;
    return changed;
}

bool domain_is_within(const struct evaluation *e, uint32_t domain, uint32_t above)
{
    while (domain != above && domain != 0)
        domain = e->plan->domains[domain].parent;
    return domain == above;
}

/* Nobody in the root Domain has siblings. */
bool call_may_fail_group(const struct evaluation *e, uint32_t call)
{
    return e->plan->calls[call].op->widest_failure >= SHEAF_SCOPE_GROUP && e->plan->calls[call].domain != 0;
}

bool call_may_fail_root(const struct evaluation *e, uint32_t call)
{
    return e->plan->calls[call].op->widest_failure == SHEAF_SCOPE_ROOT;
}

/* One that may fail its group has to wait only where a barrier can still reach its inputs: an open Expansion above them
 * that fails takes the whole group with it. */
bool call_waits_for_final(const struct evaluation *e, uint32_t call)
{
    const struct plan_call *c = &e->plan->calls[call];
    bool gathered = false, at_risk = false;
    for (uint32_t i = 0; i < c->input_count; i++) {
        const struct facts *input = &e->ports[e->plan->call_ports[c->input_first + i]];
        gathered = gathered || input->gathered;
        at_risk = at_risk || input->at_risk;
    }
    return call_may_fail_root(e, call) || (call_may_fail_group(e, call) && gathered && at_risk);
}

/* The Ports a Port takes from directly. */
static uint32_t port_sources(const struct plan_port *p, uint32_t *ret_sources)
{
    uint32_t count = 0;
    if (p->source != PLAN_NONE && p->port_kind != PLAN_EXPAND)
        ret_sources[count++] = p->source;
    if (p->port_kind == PLAN_GATHER)
        ret_sources[count++] = p->members;
    if (p->port_kind == PLAN_FILTER)
        ret_sources[count++] = p->mask;
    return count;
}

/* Something live is in the Domain or below it. */
static bool domain_is_live(const struct evaluation *e, uint32_t domain)
{
    for (uint32_t i = 0; i < e->plan->port_count; i++)
        if (e->ports[i].live && domain_is_within(e, e->plan->ports[i].domain, domain))
            return true;
    for (uint32_t i = 0; i < e->plan->call_count; i++)
        if (e->calls[i].live && domain_is_within(e, e->plan->calls[i].domain, domain))
            return true;
    return false;
}

static bool spread_live(struct evaluation *e)
{
    bool changed = false;
    for (uint32_t i = 0; i < e->plan->port_count; i++) {
        const struct plan_port *p = &e->plan->ports[i];
        uint32_t sources[2], count = port_sources(p, sources);
        for (uint32_t j = 0; e->ports[i].live && j < count; j++)
            changed |= set(&e->ports[sources[j]].live, true);
        if (p->port_kind == PLAN_CALL_OUTPUT)
            changed |= set(&e->calls[p->call].live, e->ports[i].live);
    }
    for (uint32_t i = 1; i < e->plan->domain_count; i++)
        changed |= set(&e->calls[e->plan->domains[i].call].live, domain_is_live(e, i));
    for (uint32_t i = 0; i < e->plan->call_count; i++) {
        const struct plan_call *c = &e->plan->calls[i];
        for (uint32_t j = 0; e->calls[i].live && j < c->input_count; j++)
            changed |= set(&e->ports[e->plan->call_ports[c->input_first + j]].live, true);
    }
    return changed;
}

/* Downstream: comes through a gather; derives from a Call that may fail groups. */
static bool spread_down(struct evaluation *e)
{
    bool changed = false;
    for (uint32_t i = 0; i < e->plan->port_count; i++) {
        const struct plan_port *p = &e->plan->ports[i];
        struct facts *facts = &e->ports[i];
        uint32_t sources[2], count = port_sources(p, sources), maker = e->plan->domains[p->domain].call;
        for (uint32_t j = 0; j < count; j++) {
            changed |= set(&facts->at_risk, e->ports[sources[j]].at_risk);
            changed |= set(&facts->gathered, e->ports[sources[j]].gathered);
        }
        uint32_t call = p->port_kind == PLAN_CALL_OUTPUT ? p->call : maker;
        for (int round = 0; round < 2; round++, call = maker) {
            if (call == PLAN_NONE)
                continue;
            changed |= set(&facts->at_risk, e->calls[call].at_risk);
            changed |= set(&facts->gathered, e->calls[call].gathered);
        }
        changed |= set(&facts->gathered, p->port_kind == PLAN_GATHER);
    }
    for (uint32_t i = 0; i < e->plan->call_count; i++) {
        const struct plan_call *c = &e->plan->calls[i];
        changed |= set(&e->calls[i].at_risk, call_may_fail_group(e, i));
        for (uint32_t j = 0; j < c->input_count; j++) {
            const struct facts *input = &e->ports[e->plan->call_ports[c->input_first + j]];
            changed |= set(&e->calls[i].at_risk, input->at_risk);
            changed |= set(&e->calls[i].gathered, input->gathered);
        }
    }
    return changed;
}

/* Upstream: an output depends on it, through values, masks, members and the Domains it lies in. */
static bool spread_up(struct evaluation *e)
{
    bool changed = false;
    for (uint32_t i = 0; i < e->plan->port_count; i++) {
        const struct plan_port *p = &e->plan->ports[i];
        uint32_t sources[2], count = port_sources(p, sources), maker = e->plan->domains[p->domain].call;
        for (uint32_t j = 0; e->ports[i].feeds_output && j < count; j++)
            changed |= set(&e->ports[sources[j]].feeds_output, true);
        if (p->port_kind == PLAN_CALL_OUTPUT)
            changed |= set(&e->calls[p->call].feeds_output, e->ports[i].feeds_output);
        if (maker != PLAN_NONE)
            changed |= set(&e->calls[maker].feeds_output, e->ports[i].feeds_output);
        if (p->port_kind == PLAN_GATHER)
            changed |= set(&e->calls[e->plan->domains[e->plan->ports[p->source].domain].call].feeds_output,
                           e->ports[i].feeds_output);
    }
    for (uint32_t i = 0; i < e->plan->call_count; i++) {
        const struct plan_call *c = &e->plan->calls[i];
        for (uint32_t j = 0; e->calls[i].feeds_output && j < c->input_count; j++)
            changed |= set(&e->ports[e->plan->call_ports[c->input_first + j]].feeds_output, true);
    }
    return changed;
}

void facts_find(struct evaluation *e)
{
    e->ports = calloc(e->plan->port_count + 1, sizeof(*e->ports));
    e->calls = calloc(e->plan->call_count + 1, sizeof(*e->calls));
    for (uint32_t i = 0; i < e->plan->output_count; i++)
        e->ports[e->plan->outputs[i].port].live = e->ports[e->plan->outputs[i].port].feeds_output = true;
    for (uint32_t i = 0; i < e->plan->call_count; i++)
        e->calls[i].live = (e->plan->calls[i].op->flags & SHEAF_OPERATOR_SIDE_EFFECT) != 0;
    while (spread_live(e) | spread_down(e) | spread_up(e))
        ;
}
