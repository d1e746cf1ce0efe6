/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which Grains an output can still observe (SEMANTICS section 4, Liveness). An Item is observed if it is an output, or
 * if something that is not FAILED or SUPPRESSED yet reads it and is observed. That only ever shrinks, so what a search
 * finds unobserved is marked for good, and no search goes there again.
 */
#include "lineage/state.h"

/* One Item; Entities a broadcast may reach later; this and the following Entities of a broadcast (plus how many Items
 * had been seen when the step before it began). */
enum { SEARCH_ITEM, SEARCH_FUTURE, SEARCH_BELOW };

static void search_push(struct lineage *l, uint32_t port, uint32_t entity)
{
    const uint8_t *item = item_at(l, port, entity);
    if (!(*item & ITEM_UNNEEDED) && !outcome_is_bad((enum lineage_outcome)(*item & ITEM_OUTCOME)))
        queue_push(l, &l->search, port, entity, SEARCH_ITEM);
}

/* True: observed for sure. Else what observes the Grain is on the stack. */
static bool search_grain(struct lineage *l, uint32_t call, uint32_t entity)
{
    const struct call_layout *c = &l->calls[call];
    if (c->side_effect || c->may_fail_root || c->group_observed)
        return true;
    FOR_RANGE(c->outputs, output)
    {
        search_push(l, output, entity);
    }
    FOR_RANGE(c->expansions, domain)
    {
        if (l->domains[domain].observed)
            return true;
        FOR_RANGE(l->domains[domain].gathers, gather)
        {
            search_push(l, gather, entity);
        }
    }
    FOR_RANGE(c->group_gathers, group_gather)
    {
        search_push(l, group_gather, entity_at(l, c->domain, entity)->parent);
    }
    return false;
}

/* Entities that a broadcast will reach when they exist: observed as far as the Grains that make them. */
static bool search_future(struct lineage *l, const struct port_layout *p, uint32_t source_entity)
{
    for (uint32_t domain = p->domain; domain != p->from; domain = l->domains[domain].parent) {
        uint32_t above = l->domains[domain].parent, maker = l->domains[domain].call;
        for (uint32_t entity = below_first(l, above, p->from, source_entity); entity != NONE;
             entity = below_next(l, above, p->from, entity))
            if (grain_at(l, maker, entity)->phase != GRAIN_SEALED && search_grain(l, maker, entity))
                return true;
    }
    return false;
}

/* A broadcast that reaches nobody, though nothing failed: an Expansion below has no children. No output Item observes
 * what feeds it, but the status of the root does where a partial gather lies between: whether that left a member out
 * counts. */
static bool search_nobody(const struct lineage *l, const struct port_layout *p, uint32_t source_entity)
{
    if (!p->partial_above || !p->feeds_output || below_first(l, p->domain, p->from, source_entity) != NONE)
        return false;
    for (uint32_t domain = p->domain; domain != p->from; domain = l->domains[domain].parent) {
        uint32_t above = l->domains[domain].parent;
        for (uint32_t entity = below_first(l, above, p->from, source_entity); entity != NONE;
             entity = below_next(l, above, p->from, entity))
            if (outcome_is_bad(grain_reads(grain_at(l, l->domains[domain].call, entity))))
                return false;
    }
    return true;
}

static uint32_t *broadcast_hint(const struct lineage *l, uint32_t port, uint32_t source_entity)
{
    const struct port_layout *p = &l->ports[port];
    return (uint32_t *)(void *)(record_at(l, p->from, source_entity) + p->hint);
}

/* A new Entity under one that is not the last may stand before the hint. */
void broadcast_hint_reset(struct lineage *l, uint32_t port, uint32_t entity)
{
    const struct port_layout *p = &l->ports[port];
    if (l->domains[p->domain].depth > l->domains[p->from].depth + 1)
        *broadcast_hint(l, port, ancestor_of(l, p->domain, entity, p->from)) = 0;
}

static uint32_t seen_count(const struct lineage *l)
{
    return (uint32_t)(l->seen.end - l->seen.front);
}

static bool search_readers(struct lineage *l, uint32_t port, uint32_t entity)
{
    const struct port_layout *p = &l->ports[port];
    for (uint32_t i = 0; i < p->reader_count; i++) {
        const struct reader *reader = &p->readers[i];
        switch (reader->kind) {
        case READ_CALL:
            if (!outcome_is_bad((enum lineage_outcome)grain_at(l, reader->index, entity)->outcome) &&
                search_grain(l, reader->index, entity))
                return true;
            break;
        case READ_FILTER:
            search_push(l, reader->index, entity);
            break;
        case READ_GATHER:
            search_push(l, reader->index, entity_at(l, p->domain, entity)->parent);
            break;
        case READ_BROADCAST: {
            uint32_t first = *broadcast_hint(l, reader->index, entity);
            first = first ? first - 1 : below_first(l, l->ports[reader->index].domain, p->domain, entity);
            queue_push(l, &l->search, reader->index, entity, SEARCH_FUTURE);
            if (first != NONE)
                queue_push(l, &l->search, reader->index, first, SEARCH_BELOW + seen_count(l));
            break;
        }
        case READ_EXPAND:
            break;
        }
    }
    return false;
}

static bool search_step(struct lineage *l)
{
    struct queue *stack = &l->search;
    struct event top = *--stack->end;
    const struct port_layout *p = &l->ports[top.port];
    if (top.kind == SEARCH_FUTURE)
        return search_future(l, p, top.entity) || search_nobody(l, p, top.entity);
    if (top.kind >= SEARCH_BELOW) {
        /* All that was seen since the step before is explored to its ends: unneeded for good, whatever else is found.
         */
        uint32_t next = below_next(l, p->domain, p->from, top.entity);
        l->seen.end = l->seen.front + (top.kind - SEARCH_BELOW);
        *broadcast_hint(l, top.port, ancestor_of(l, p->domain, top.entity, p->from)) = top.entity + 1;
        if (next != NONE)
            queue_push(l, stack, top.port, next, SEARCH_BELOW + seen_count(l));
        search_push(l, top.port, top.entity);
        return false;
    }
    uint8_t *item = item_at(l, top.port, top.entity);
    if (*item & ITEM_UNNEEDED)
        return false;
    *item |= ITEM_UNNEEDED;
    queue_push(l, &l->seen, top.port, top.entity, 0);
    return p->output || search_readers(l, top.port, top.entity);
}

/* Runs the search that is on the stack; takes the marks back if an observer was found. */
static bool search_run(struct lineage *l, bool found)
{
    while (!found && !queue_is_empty(&l->search) && !l->broken)
        found = search_step(l);
    for (const struct event *seen = l->seen.front; found && seen != l->seen.end; seen++)
        *item_at(l, seen->port, seen->entity) &= (uint8_t)~ITEM_UNNEEDED;
    queue_clear(&l->search);
    queue_clear(&l->seen);
    return found;
}

bool grain_is_needed(struct lineage *l, uint32_t call, uint32_t entity)
{
    return search_run(l, search_grain(l, call, entity));
}

static void grain_demand(struct lineage *l, uint32_t call, uint32_t entity)
{
    if (grain_at(l, call, entity)->phase != GRAIN_SEALED && !grain_is_needed(l, call, entity))
        grain_suppress(l, call, entity, CAUSE_NOT_NEEDED);
}

static void children_demand(struct lineage *l, uint32_t port, uint32_t entity)
{
    const struct port_layout *p = &l->ports[port];
    const struct expansion *expansion = expansion_at(l, p->from, entity);
    grain_demand(l, l->domains[p->from].call, entity);
    for (uint32_t child = expansion->count ? expansion->first : NONE; child != NONE;
         child = entity_at(l, p->from, child)->next) {
        if (item_outcome(l, p->members, child) == LINEAGE_UNRESOLVED)
            queue_push(l, &l->demand, p->members, child, DEMAND_ITEM);
        if (p->source != p->members && item_outcome(l, p->source, child) == LINEAGE_UNRESOLVED)
            queue_push(l, &l->demand, p->source, child, DEMAND_ITEM);
    }
}

static bool item_is_needed(struct lineage *l, uint32_t port, uint32_t entity)
{
    if (*item_at(l, port, entity) & ITEM_UNNEEDED)
        return false;
    search_push(l, port, entity);
    return search_run(l, false);
}

/* A reader of an Item is gone. If it was the last observer, what still works for the Item alone is suppressed. */
void demand_check(struct lineage *l, const struct event *lost)
{
    const struct port_layout *p = &l->ports[lost->port];
    if (lost->kind == DEMAND_CHILDREN) {
        children_demand(l, lost->port, lost->entity);
        return;
    }
    if (p->kind == PLAN_EXPAND) {
        grain_demand(l, p->call, entity_at(l, p->domain, lost->entity)->parent);
        return;
    }
    if (item_outcome(l, lost->port, lost->entity) != LINEAGE_UNRESOLVED)
        return;
    if (p->kind == PLAN_CALL_OUTPUT) {
        grain_demand(l, p->call, lost->entity);
        return;
    }
    if (item_is_needed(l, lost->port, lost->entity))
        return;
    if (p->kind == PLAN_GATHER) {
        children_demand(l, lost->port, lost->entity);
    } else if (p->kind == PLAN_BROADCAST) {
        queue_push(l, &l->demand, p->source, ancestor_of(l, p->domain, lost->entity, p->from), DEMAND_ITEM);
    } else if (p->kind == PLAN_FILTER) {
        queue_push(l, &l->demand, p->source, lost->entity, DEMAND_ITEM);
        queue_push(l, &l->demand, p->mask, lost->entity, DEMAND_ITEM);
    }
}
