/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of sections 3 and 4, one function each. Readings are worked out when first asked for, and kept. */
#include "tests/reference/evaluate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *keep(struct evaluation *e, json_t *value)
{
    json_array_append_new(e->keep, value);
    return value;
}

void causes_add(struct evaluation *e, json_t **set, const json_t *more)
{
    if (!*set)
        *set = keep(e, json_object());
    if (more)
        json_object_update(*set, (json_t *)(uintptr_t)more);
}

static void cause_add(struct evaluation *e, json_t **set, const char *cause)
{
    causes_add(e, set, NULL);
    json_object_set_new(*set, cause, json_true());
}

/* ---- Entities ---- */

struct node *node_make(struct evaluation *e, struct node *parent, uint32_t domain, uint32_t ordinal)
{
    const struct sheaf_plan *plan = e->plan;
    struct node *node = calloc(1, sizeof(*node));
    node->domain = domain;
    node->ordinal = ordinal;
    node->parent = parent;
    node->optional = parent && parent->optional;
    node->kids = calloc(plan->domain_count, sizeof(struct node **));
    for (int world = EARLY; world <= FINAL; world++) {
        node->items[world] = calloc(plan->port_count + 1, sizeof(struct reading));
        node->grains[world] = calloc(plan->call_count + 1, sizeof(struct reading));
    }
    node->runs = calloc(plan->call_count + 1, sizeof(struct run));
    node->needed = calloc(plan->port_count + 1, 1);
    node->next_made = e->made;
    e->made = node;
    return node;
}

static struct node *ancestor(const struct evaluation *e, struct node *node, uint32_t domain)
{
    while (node->domain != domain)
        node = node->parent;
    return node;
}

/* Number of children an Expansion of the Call into `domain` has, given the outputs of a run. */
static size_t children_of(const struct evaluation *e, uint32_t domain, const json_t *outputs)
{
    for (uint32_t i = 0; i < e->plan->port_count; i++)
        if (e->plan->ports[i].port_kind == PLAN_EXPAND && e->plan->ports[i].domain == domain)
            return json_array_size(json_array_get(outputs, e->plan->ports[i].slot));
    return 0;
}

/* An operator that declared its failure after emitting k children leaves exactly k, if it got the chance for sure. */
static bool children_are_certain(struct evaluation *e, struct node *node, uint32_t call)
{
    const struct reading *final = grain_read(e, node, call, FINAL);
    return !node->optional && final->may_fail && !final->may_suppress &&
           grain_run(e, node, call)->result.end == ROW_DECLARES;
}

struct node **node_kids(struct evaluation *e, struct node *node, uint32_t domain)
{
    if (node->kids[domain])
        return node->kids[domain];
    uint32_t maker = e->plan->domains[domain].call;
    const struct reading *final = grain_read(e, node, maker, FINAL);
    const struct run *run = grain_run(e, node, maker);
    size_t count = 0;
    bool optional = false;
    if (run->possible && final->outcome != 'D') {
        count = children_of(e, domain, run->result.outputs);
        optional = final->outcome == 'X' && !children_are_certain(e, node, maker);
        if (optional && run->emitted_max > count)
            count = run->emitted_max;
    }
    struct node **kids = calloc(count + 1, sizeof(*kids));
    for (size_t i = 0; i < count; i++) {
        kids[i] = node_make(e, node, domain, (uint32_t)i);
        kids[i]->optional = node->optional || optional;
    }
    node->kids[domain] = kids;
    return kids;
}

/* Under an Expansion that reads FAILED. */
bool node_is_doomed(struct evaluation *e, struct node *node)
{
    for (; node->parent; node = node->parent)
        if (grain_read(e, node->parent, e->plan->domains[node->domain].call, FINAL)->outcome == 'X')
            return true;
    return false;
}

static void doom_causes(struct evaluation *e, struct node *node, json_t **set)
{
    for (; node->parent; node = node->parent) {
        const struct reading *maker = grain_read(e, node->parent, e->plan->domains[node->domain].call, FINAL);
        if (maker->outcome == 'X') {
            causes_add(e, set, maker->fail_causes);
            causes_add(e, set, maker->suppress_causes);
        }
    }
}

/* ---- readings ---- */

static void become_bad(struct reading *reading)
{
    reading->outcome = 'X';
    reading->value = reading->errors = NULL;
}

/* Copies what an Item that is FAILED or SUPPRESSED may say. */
static void bad_copy(struct evaluation *e, struct reading *reading, const struct reading *from)
{
    become_bad(reading);
    reading->may_fail = reading->may_fail || from->may_fail;
    reading->may_suppress = reading->may_suppress || from->may_suppress;
    causes_add(e, &reading->fail_causes, from->fail_causes);
    causes_add(e, &reading->suppress_causes, from->suppress_causes);
}

/* SUPPRESSED because of another that is FAILED or SUPPRESSED. */
static void bad_follow(struct evaluation *e, struct reading *reading, const struct reading *from)
{
    become_bad(reading);
    reading->may_suppress = true;
    causes_add(e, &reading->suppress_causes, from->fail_causes);
    causes_add(e, &reading->suppress_causes, from->suppress_causes);
}

/* What it read early and cannot take back, or may have read first. */
static void keep_early(struct evaluation *e, struct reading *final, const struct reading *early)
{
    if (final->outcome == 'X' && early->outcome == 'X')
        bad_copy(e, final, early);
}

/* ---- Calls ---- */

static uint32_t input_of(const struct evaluation *e, uint32_t call, uint32_t index)
{
    return e->plan->call_ports[e->plan->calls[call].input_first + index];
}

bool inputs_all_present(struct evaluation *e, struct node *node, uint32_t call, enum world world)
{
    for (uint32_t i = 0; i < e->plan->calls[call].input_count; i++)
        if (item_read(e, node, input_of(e, call, i), world)->outcome != 'P')
            return false;
    return true;
}

static bool is_lost(enum row_end end)
{
    return end == ROW_RAISES || end == ROW_CRASHES || end == ROW_HANGS;
}

const struct run *grain_run(struct evaluation *e, struct node *node, uint32_t call)
{
    const struct plan_call *c = &e->plan->calls[call];
    struct run *run = &node->runs[call];
    enum world world = call_waits_for_final(e, call) ? FINAL : EARLY;
    if (run->known)
        return run;
    bool possible = inputs_all_present(e, node, call, world);
    run->known = true;
    run->possible = possible;
    if (!possible)
        return run;
    json_t *inputs = json_array();
    for (uint32_t i = 0; i < c->input_count; i++)
        json_array_append(inputs, item_read(e, node, input_of(e, call, i), world)->value);
    for (unsigned attempt = 0;; attempt++) {
        operator_run(c, inputs, attempt, &run->result);
        keep(e, run->result.outputs);
        size_t emitted = json_array_size(json_array_get(run->result.outputs, 0));
        if (c->expansion_count && emitted > run->emitted_max)
            run->emitted_max = emitted;
        if (!is_lost(run->result.end) || c->recovery != SHEAF_RECOVERY_RETRY || attempt >= c->retries)
            break;
    }
    json_decref(inputs);
    return run;
}

static enum sheaf_class class_of(enum row_end end)
{
    switch (end) {
    case ROW_CRASHES:
        return SHEAF_CLASS_CRASHED;
    case ROW_HANGS:
        return SHEAF_CLASS_TIMEOUT;
    case ROW_BREAKS:
    case ROW_BREAKS_ANSWER:
        return SHEAF_CLASS_CONTRACT;
    case ROW_ANSWERS:
    case ROW_DECLARES:
    case ROW_RAISES:
        break;
    }
    return SHEAF_CLASS_OPERATOR;
}

/* "class:text"; only what an operator says is fixed text. */
json_t *own_cause(struct evaluation *e, uint32_t call, const struct row_result *result)
{
    char cause[256];
    bool fixed = result->end == ROW_DECLARES || result->end == ROW_RAISES;
    json_t *set = keep(e, json_object());
    snprintf(cause, sizeof(cause), "%s:%s", sheaf_class_name(class_of(result->end)), fixed ? result->cause : "");
    json_object_set_new(set, cause, json_true());
    return set;
}

/* The table "Call inputs" of section 3. False: all inputs are PRESENT. */
static bool read_inputs(struct evaluation *e, struct node *node, uint32_t call, enum world world, struct reading *out)
{
    for (uint32_t i = 0; i < e->plan->calls[call].input_count; i++) {
        const struct reading *input = item_read(e, node, input_of(e, call, i), world);
        if (input->outcome == 'X')
            bad_follow(e, out, input);
        else if (input->outcome == 'D' && out->outcome != 'X')
            out->outcome = 'D';
    }
    return out->outcome != 0;
}

static void fail(struct evaluation *e, uint32_t call, const struct run *run, struct reading *out)
{
    become_bad(out);
    out->may_fail = true;
    causes_add(e, &out->fail_causes, own_cause(e, call, &run->result));
}

static bool declares_group(struct evaluation *e, struct node *node, uint32_t call)
{
    const struct run *run = grain_run(e, node, call);
    return run->possible && inputs_all_present(e, node, call, FINAL) && run->result.end == ROW_DECLARES &&
           run->result.scope == SHEAF_SCOPE_GROUP;
}

uint32_t group_declarers(struct evaluation *e, struct node *node, uint32_t call)
{
    uint32_t count = 0;
    if (!call_may_fail_group(e, call) || node_is_doomed(e, node))
        return 0;
    for (struct node **kid = node_kids(e, node->parent, node->domain); *kid; kid++)
        count += declares_group(e, *kid, call);
    return count;
}

/* All inputs are PRESENT and a barrier stands: nobody is PRESENT; who fails alone, or fails the group, is FAILED if it
 * got the chance, and the only one that fails the group did. */
static void read_behind_barrier(struct evaluation *e, struct node *node, uint32_t call, uint32_t declarers,
                                struct reading *out)
{
    const struct run *run = grain_run(e, node, call);
    become_bad(out);
    if (run->result.end != ROW_ANSWERS)
        fail(e, call, run, out);
    if (declarers == 1 && declares_group(e, node, call))
        return;
    out->may_suppress = true;
    for (struct node **kid = node_kids(e, node->parent, node->domain); *kid; kid++)
        if (declares_group(e, *kid, call))
            causes_add(e, &out->suppress_causes, own_cause(e, call, &grain_run(e, *kid, call)->result));
}

/* Siblings that may have failed the group before their inputs were taken back. */
static void early_barrier_causes(struct evaluation *e, struct node *node, uint32_t call, struct reading *out)
{
    if (!call_may_fail_group(e, call) || !out->may_suppress)
        return;
    for (struct node **kid = node_kids(e, node->parent, node->domain); *kid; kid++) {
        const struct run *run = grain_run(e, *kid, call);
        if (run->possible && run->result.end == ROW_DECLARES && run->result.scope == SHEAF_SCOPE_GROUP)
            causes_add(e, &out->suppress_causes, own_cause(e, call, &run->result));
    }
}

static void grain_read_early(struct evaluation *e, struct node *node, uint32_t call, struct reading *out)
{
    if (read_inputs(e, node, call, call_waits_for_final(e, call) ? FINAL : EARLY, out))
        return;
    const struct run *run = grain_run(e, node, call);
    if (run->result.end == ROW_ANSWERS)
        out->outcome = 'P';
    else
        fail(e, call, run, out);
}

static void grain_read_final(struct evaluation *e, struct node *node, uint32_t call, struct reading *out)
{
    const struct reading *early = grain_read(e, node, call, EARLY);
    if (node_is_doomed(e, node)) {
        read_inputs(e, node, call, FINAL, out);
        become_bad(out);
        out->may_suppress = true;
        doom_causes(e, node, &out->suppress_causes);
    } else if (!read_inputs(e, node, call, FINAL, out)) {
        const struct run *run = grain_run(e, node, call);
        uint32_t declarers = group_declarers(e, node, call);
        if (declarers)
            read_behind_barrier(e, node, call, declarers, out);
        else if (run->result.end == ROW_ANSWERS)
            out->outcome = 'P';
        else
            fail(e, call, run, out);
        return;
    }
    keep_early(e, out, early);
    early_barrier_causes(e, node, call, out);
}

const struct reading *grain_read(struct evaluation *e, struct node *node, uint32_t call, enum world world)
{
    struct reading *known = &node->grains[world][call], reading = {0};
    if (known->outcome)
        return known;
    if (world == EARLY)
        grain_read_early(e, node, call, &reading);
    else
        grain_read_final(e, node, call, &reading);
    *known = reading;
    return known;
}

/* ---- Ports ---- */

static void read_call_output(struct evaluation *e, struct node *node, const struct plan_port *p, enum world world,
                             struct reading *out)
{
    *out = *grain_read(e, node, p->call, world);
    if (out->outcome == 'P')
        out->value = json_array_get(grain_run(e, node, p->call)->result.outputs, p->slot);
}

static void read_expand(struct evaluation *e, struct node *node, const struct plan_port *p, struct reading *out)
{
    const struct run *run = grain_run(e, node->parent, p->call);
    out->outcome = 'P';
    out->value = json_array_get(json_array_get(run->result.outputs, p->slot), node->ordinal);
    if (!out->value) /* a child that only an earlier attempt has left behind: it is doomed, so only its number counts */
        out->value = keep(e, json_integer(node->ordinal));
}

static void read_filter(struct evaluation *e, struct node *node, const struct plan_port *p, enum world world,
                        struct reading *out)
{
    const struct reading *source = item_read(e, node, p->source, world);
    const struct reading *mask = item_read(e, node, p->mask, world);
    if (source->outcome != 'P')
        *out = *source;
    else if (mask->outcome != 'P')
        *out = *mask;
    else if (json_is_true(mask->value))
        *out = *source;
    else
        out->outcome = 'D';
    out->errors = NULL;
}

static json_t *coordinate(struct evaluation *e, const struct node *node)
{
    json_t *at = json_array();
    for (; node; node = node->parent)
        json_array_insert_new(at, 0, json_integer(node->ordinal));
    return keep(e, at);
}

/* One child of a gather. */
static void gather_child(struct evaluation *e, struct node *kid, const struct plan_port *p, enum world world,
                         struct reading *out)
{
    const struct reading *member = item_read(e, kid, p->members, world);
    const struct reading *value = item_read(e, kid, p->source, world);
    if (member->outcome == 'X' && !p->partial) {
        bad_follow(e, out, member);
    } else if (member->outcome == 'X') {
        if (out->errors)
            json_array_append(out->errors, coordinate(e, kid));
    } else if (member->outcome == 'P' && value->outcome == 'X') {
        bad_follow(e, out, value);
    } else if (member->outcome == 'P' && value->outcome == 'D') {
        become_bad(out);
        out->may_suppress = true;
        cause_add(e, &out->suppress_causes, "none:");
    } else if (member->outcome == 'P' && out->value) {
        json_array_append(out->value, value->value);
    }
}

static void read_gather(struct evaluation *e, struct node *node, const struct plan_port *p, enum world world,
                        struct reading *out)
{
    uint32_t domain = e->plan->ports[p->source].domain;
    const struct reading *maker = grain_read(e, node, e->plan->domains[domain].call, world);
    out->outcome = maker->outcome;
    if (out->outcome == 'D')
        return;
    if (maker->outcome == 'X') {
        bad_follow(e, out, maker);
    } else {
        out->value = keep(e, json_array());
        out->errors = p->partial ? keep(e, json_array()) : NULL;
    }
    /* Children of an Expansion that is to fail may have been seen before it did. */
    for (struct node **kid = node_kids(e, node, domain); *kid; kid++)
        gather_child(e, *kid, p, world, out);
}

/* Never resolves before it is final, so in an Entity under a failed Expansion not at all. */
static bool waits_for_final(const struct evaluation *e, uint32_t port)
{
    return e->plan->ports[port].partial && e->ports[port].at_risk;
}

static void read_table(struct evaluation *e, struct node *node, uint32_t port, enum world world, struct reading *out)
{
    const struct plan_port *p = &e->plan->ports[port];
    switch (p->port_kind) {
    case PLAN_SOURCE:
        out->outcome = 'P';
        out->value = json_array_get(e->columns[p->slot], node->ordinal);
        break;
    case PLAN_CALL_OUTPUT:
        read_call_output(e, node, p, world, out);
        break;
    case PLAN_EXPAND:
        read_expand(e, node, p, out);
        break;
    case PLAN_FILTER:
        read_filter(e, node, p, world, out);
        break;
    case PLAN_BROADCAST:
        *out = *item_read(e, ancestor(e, node, e->plan->ports[p->source].domain), p->source, world);
        out->errors = NULL;
        break;
    case PLAN_GATHER:
        read_gather(e, node, p, world, out);
        break;
    }
}

/* A gather that waits is SUPPRESSED early only by its Expansion, which cannot be taken back. */
static void read_waiting_early(struct evaluation *e, struct node *node, uint32_t port, struct reading *out)
{
    uint32_t domain = e->plan->ports[e->plan->ports[port].source].domain;
    const struct reading *maker = grain_read(e, node, e->plan->domains[domain].call, EARLY);
    if (maker->outcome == 'X')
        bad_follow(e, out, maker);
    else
        *out = *item_read(e, node, port, FINAL);
}

/* What an Item that is FAILED or SUPPRESSED in the end may have said before. A filter is no Grain: it is what the table
 * makes of its source, also when its mask had failed first. */
static void keep_early_item(struct evaluation *e, struct node *node, uint32_t port, struct reading *out)
{
    bool may_fail = out->may_fail || e->plan->ports[port].port_kind != PLAN_FILTER || node_is_doomed(e, node);
    if (waits_for_final(e, port)) {
        uint32_t domain = e->plan->ports[e->plan->ports[port].source].domain;
        if (grain_read(e, node, e->plan->domains[domain].call, EARLY)->outcome != 'X')
            return;
    }
    keep_early(e, out, item_read(e, node, port, EARLY));
    out->may_fail = out->may_fail && may_fail;
    const struct plan_port *p = &e->plan->ports[port];
    if (p->port_kind == PLAN_FILTER && item_read(e, node, p->source, EARLY)->outcome == 'P' &&
        item_read(e, node, p->mask, FINAL)->outcome == 'X')
        causes_add(e, &out->suppress_causes, item_read(e, node, p->mask, FINAL)->suppress_causes);
}

/* Every Item of an Entity under a FAILED Expansion is SUPPRESSED, or FAILED with its own Grain. */
static void read_doomed(struct evaluation *e, struct node *node, uint32_t port, struct reading *out)
{
    struct reading table = {0};
    become_bad(out);
    out->may_suppress = true;
    doom_causes(e, node, &out->suppress_causes);
    read_table(e, node, port, FINAL, &table);
    if (e->plan->ports[port].port_kind == PLAN_CALL_OUTPUT)
        bad_copy(e, out, &table);
    else if (table.outcome == 'X')
        bad_follow(e, out, &table);
}

const struct reading *item_read(struct evaluation *e, struct node *node, uint32_t port, enum world world)
{
    struct reading *known = &node->items[world][port], reading = {0};
    if (known->outcome)
        return known;
    if (world == EARLY && waits_for_final(e, port))
        read_waiting_early(e, node, port, &reading);
    else if (world == FINAL && node_is_doomed(e, node))
        read_doomed(e, node, port, &reading);
    else
        read_table(e, node, port, world, &reading);
    if (world == FINAL && reading.outcome == 'X')
        keep_early_item(e, node, port, &reading);
    *known = reading;
    return known;
}
