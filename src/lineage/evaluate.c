/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of SEMANTICS section 3: what an Item reads, given what it is made of. */
#include <assert.h>
#include <errno.h>

#include "lineage/state.h"

/* Outcomes only rise: a second resolution may only suppress what was PRESENT or DROPPED. What only copies follows even
 * from FAILED: it had copied its mask's failure before a barrier took its source. */
void item_change(struct lineage *l, uint32_t port, uint32_t entity, struct entity *record, enum lineage_outcome outcome)
{
    const struct port_layout *p = &l->ports[port];
    enum lineage_outcome old = outcome_of(p, record);
    bool follows = (p->kind == PLAN_FILTER || p->kind == PLAN_BROADCAST) && outcome == LINEAGE_SUPPRESSED;
    if (old == outcome || (outcome_is_bad(old) && !follows))
        return;
    assert(outcome == LINEAGE_SUPPRESSED);
    uint8_t *item = item_of(p, record);
    *item = (uint8_t)((*item & ~ITEM_OUTCOME) | outcome);
    root_at(l, record->root)->trouble = true;
    if (p->reader_count)
        queue_push(l, &l->queue, port, entity, EVENT_CHANGED);
    final_check(l, port, entity);
}

/* ---- finality ---- */

static bool item_is_final(const struct lineage *l, uint32_t port, uint32_t entity)
{
    return (*item_at(l, port, entity) & ITEM_FINAL) != 0;
}

/* The Expansion that made an Entity of `domain` under `parent` can no longer fail by a barrier, and is closed. */
static bool expansion_is_final(const struct lineage *l, uint32_t domain, uint32_t parent)
{
    const struct call_layout *c = &l->calls[l->domains[domain].call];
    return item_is_final(l, c->outputs.numbers[0], parent);
}

static bool group_is_sealed(const struct lineage *l, uint32_t call, uint32_t parent)
{
    uint32_t maker = l->domains[l->calls[call].domain].call;
    return group_at(l, call, parent)->unsealed == 0 && grain_at(l, maker, parent)->phase == GRAIN_SEALED;
}

static bool inputs_are_final(const struct lineage *l, uint32_t call, uint32_t entity)
{
    FOR_RANGE(l->calls[call].inputs, input)
    {
        if (!item_is_final(l, input, entity))
            return false;
    }
    return true;
}

static bool final_holds(const struct lineage *l, uint32_t port, uint32_t entity)
{
    const struct port_layout *p = &l->ports[port];
    enum lineage_outcome outcome = item_outcome(l, port, entity);
    if (outcome == LINEAGE_UNRESOLVED)
        return false;
    if (outcome_is_bad(outcome))
        return true;
    uint32_t parent = entity_at(l, p->domain, entity)->parent;
    switch (p->kind) {
    case PLAN_SOURCE:
        return true;
    case PLAN_EXPAND:
        return expansion_is_final(l, p->domain, parent);
    case PLAN_CALL_OUTPUT:
        return inputs_are_final(l, p->call, entity) &&
               (l->calls[p->call].group == NONE || group_is_sealed(l, p->call, parent));
    case PLAN_FILTER:
        return item_is_final(l, p->source, entity) &&
               (item_outcome(l, p->source, entity) != LINEAGE_PRESENT || item_is_final(l, p->mask, entity));
    case PLAN_BROADCAST:
        return item_is_final(l, p->source, ancestor_of(l, p->domain, entity, p->from)) &&
               expansion_is_final(l, p->domain, parent);
    case PLAN_GATHER:
        return gather_at(l, port, entity)->not_final == 0 && expansion_is_final(l, p->from, entity);
    }
    return false;
}

void tracked_check(struct lineage *l, uint32_t port, uint32_t entity)
{
    if (item_is_final(l, port, entity) || !final_holds(l, port, entity))
        return;
    *item_at(l, port, entity) |= ITEM_FINAL;
    if (l->ports[port].reader_count)
        queue_push(l, &l->finals, port, entity, EVENT_FINAL);
}

static void grain_final_check(struct lineage *l, uint32_t call, uint32_t entity)
{
    FOR_RANGE(l->calls[call].outputs, output)
    {
        final_check(l, output, entity);
    }
}

/* The Expansions of (call, parent) into `domain` became final. */
static void expansion_final(struct lineage *l, uint32_t domain, uint32_t parent)
{
    const struct domain_layout *d = &l->domains[domain];
    const struct expansion *expansion = expansion_at(l, domain, parent);
    for (uint32_t child = expansion->count ? expansion->first : NONE; child != NONE;
         child = entity_at(l, domain, child)->next) {
        FOR_RANGE(d->expands, expand)
        {
            final_check(l, expand, child);
        }
        FOR_RANGE(d->broadcasts, broadcast)
        {
            final_check(l, broadcast, child);
        }
    }
    FOR_RANGE(d->gathers, gather)
    {
        final_check(l, gather, parent);
        gather_evaluate(l, gather, parent);
    }
}

static void gather_child_final(struct lineage *l, uint32_t port, uint32_t parent)
{
    if (!l->ports[port].tracked)
        return;
    struct gather_state *state = gather_at(l, port, parent);
    assert(state->not_final > 0);
    if (--state->not_final == 0) {
        gather_evaluate(l, port, parent);
        final_check(l, port, parent);
    }
}

/* ---- Calls ---- */

enum inputs_read { INPUTS_WAIT, INPUTS_PRESENT, INPUTS_DROPPED, INPUTS_BAD };

static enum inputs_read inputs_read(const struct lineage *l, const struct call_layout *c, const struct entity *record)
{
    enum inputs_read read = INPUTS_PRESENT;
    FOR_RANGE(c->inputs, input)
    {
        enum lineage_outcome outcome = outcome_of(&l->ports[input], record);
        if (outcome_is_bad(outcome))
            return INPUTS_BAD;
        if (outcome == LINEAGE_UNRESOLVED)
            read = INPUTS_WAIT;
        else if (outcome == LINEAGE_DROPPED && read != INPUTS_WAIT)
            read = INPUTS_DROPPED;
    }
    return read;
}

static uint32_t inputs_cause(const struct lineage *l, uint32_t call, uint32_t entity)
{
    uint32_t cause = CAUSE_NONE;
    FOR_RANGE(l->calls[call].inputs, input)
    {
        if (outcome_is_bad(item_outcome(l, input, entity)))
            cause = cause_lower(l, cause, item_cause(l, input, entity));
    }
    return cause;
}

static void grain_become_ready(struct lineage *l, uint32_t call, uint32_t entity, struct entity *record)
{
    struct call_layout *c = &l->calls[call];
    struct grain_state *grain = grain_of(c, record);
    if (c->needs_final && !inputs_are_final(l, call, entity))
        return;
    uint32_t barrier = c->group == NONE ? CAUSE_NONE : group_at(l, call, record->parent)->barrier;
    if (barrier != CAUSE_NONE && !c->may_fail_root) {
        c->counts.kept_out++;
        grain_suppress(l, call, entity, barrier);
        return;
    }
    if (root_at(l, record->root)->trouble && !grain_is_needed(l, call, entity)) {
        c->counts.kept_out++;
        grain_suppress(l, call, entity, CAUSE_NOT_NEEDED);
        return;
    }
    grain->phase = GRAIN_READY;
    if (barrier != CAUSE_NONE) {
        grain->flags |= GRAIN_SHADOW;
        grain->cause = barrier;
        FOR_RANGE(c->outputs, output)
        {
            item_set(l, output, entity, record, LINEAGE_SUPPRESSED);
        }
    }
    l->effects.ready(l->effects.cookie, (struct grain){call, entity});
}

static void grain_evaluate(struct lineage *l, uint32_t call, uint32_t entity, struct entity *record)
{
    const struct call_layout *c = &l->calls[call];
    const struct grain_state *grain = grain_of(c, record);
    if (outcome_is_bad(grain_reads(grain)))
        return;
    switch (inputs_read(l, c, record)) {
    case INPUTS_WAIT:
        return;
    case INPUTS_BAD:
        grain_suppress(l, call, entity, inputs_cause(l, call, entity));
        return;
    case INPUTS_DROPPED:
        if (grain->phase == GRAIN_WAITING)
            grain_seal(l, call, entity, record, LINEAGE_DROPPED, CAUSE_NONE);
        return;
    case INPUTS_PRESENT:
        if (grain->phase == GRAIN_WAITING)
            grain_become_ready(l, call, entity, record);
        return;
    }
}

/* ---- structural operations ---- */

/* A mask is a bool, and bools lie in the reference itself: it is readable even when the value has no reader left. */
static bool mask_is_true(const struct lineage *l, uint32_t port, uint32_t entity)
{
    for (;;) {
        const struct port_layout *p = &l->ports[port];
        if (p->kind == PLAN_BROADCAST)
            entity = ancestor_of(l, p->domain, entity, p->from);
        else if (p->kind != PLAN_FILTER)
            return value_at(l, port, entity)->offset != 0;
        port = p->source;
    }
}

static void filter_evaluate(struct lineage *l, uint32_t port, uint32_t entity, struct entity *record)
{
    const struct port_layout *p = &l->ports[port];
    enum lineage_outcome source = outcome_of(&l->ports[p->source], record);
    if (source == LINEAGE_UNRESOLVED)
        return;
    enum lineage_outcome mask = outcome_of(&l->ports[p->mask], record);
    if (source != LINEAGE_PRESENT) {
        item_set(l, port, entity, record, source);
        if (mask == LINEAGE_UNRESOLVED)
            queue_push(l, &l->demand, p->mask, entity, DEMAND_ITEM);
    } else if (mask == LINEAGE_PRESENT) {
        item_set(l, port, entity, record, mask_is_true(l, p->mask, entity) ? LINEAGE_PRESENT : LINEAGE_DROPPED);
    } else if (mask != LINEAGE_UNRESOLVED) {
        item_set(l, port, entity, record, mask);
    }
}

void broadcast_evaluate(struct lineage *l, uint32_t port, uint32_t entity)
{
    const struct port_layout *p = &l->ports[port];
    enum lineage_outcome outcome = item_outcome(l, p->source, ancestor_of(l, p->domain, entity, p->from));
    if (outcome != LINEAGE_UNRESOLVED)
        item_set(l, port, entity, entity_at(l, p->domain, entity), outcome);
}

static void broadcast_source_event(struct lineage *l, uint32_t port, uint32_t source_entity, bool final)
{
    const struct port_layout *p = &l->ports[port];
    for (uint32_t entity = below_first(l, p->domain, p->from, source_entity); entity != NONE;
         entity = below_next(l, p->domain, p->from, entity)) {
        if (final)
            final_check(l, port, entity);
        else
            broadcast_evaluate(l, port, entity);
    }
}

/* What one child says about a strict gather, or about the values under PRESENT members. */
static bool child_spoils(const struct lineage *l, const struct port_layout *p, const struct entity *child)
{
    enum lineage_outcome member = outcome_of(&l->ports[p->members], child);
    if (outcome_is_bad(member))
        return !p->partial;
    return member == LINEAGE_PRESENT && outcome_of(&l->ports[p->source], child) > LINEAGE_PRESENT;
}

/* Suppresses a gather; its cause is the lowest among what its children and its Expansion say now. */
void gather_suppress(struct lineage *l, uint32_t port, uint32_t entity)
{
    const struct port_layout *p = &l->ports[port];
    uint32_t maker = l->domains[p->from].call;
    const struct grain_state *grain = grain_at(l, maker, entity);
    const struct expansion *expansion = expansion_at(l, p->from, entity);
    uint32_t cause = CAUSE_NONE;
    if (outcome_is_bad(grain_reads(grain)))
        cause = grain->cause;
    for (uint32_t child = cause == CAUSE_NONE && expansion->count ? expansion->first : NONE; child != NONE;
         child = entity_at(l, p->from, child)->next) {
        if (!child_spoils(l, p, entity_at(l, p->from, child)))
            continue;
        uint32_t by = outcome_is_bad(item_outcome(l, p->members, child)) ? p->members : p->source;
        bool dropped = item_outcome(l, by, child) == LINEAGE_DROPPED;
        cause = cause_lower(l, cause, dropped ? CAUSE_DROPPED_VALUE : item_cause(l, by, child));
    }
    struct entity *record = entity_at(l, p->domain, entity);
    gather_of(p, record)->cause = cause == CAUSE_NONE ? CAUSE_DROPPED_VALUE : cause;
    item_set(l, port, entity, record, LINEAGE_SUPPRESSED);
    if (gather_of(p, record)->left)
        queue_push(l, &l->demand, port, entity, DEMAND_CHILDREN);
}

/* Where nothing in the root is FAILED or SUPPRESSED, all that can spoil a gather is a value that was dropped under a
 * member of another Port: then no child is looked at. */
static void gather_complete(struct lineage *l, uint32_t port, uint32_t entity)
{
    const struct port_layout *p = &l->ports[port];
    struct entity *record = entity_at(l, p->domain, entity);
    const struct expansion *expansion = expansion_of(&l->domains[p->from], record);
    bool left_out = false, harmless = p->members == p->source && !root_at(l, record->root)->trouble;
    for (uint32_t child = expansion->count && !harmless ? expansion->first : NONE; child != NONE;) {
        const struct entity *child_record = entity_at(l, p->from, child);
        if (child_spoils(l, p, child_record)) {
            gather_suppress(l, port, entity);
            return;
        }
        left_out = left_out || outcome_is_bad(outcome_of(&l->ports[p->members], child_record));
        child = child_record->next;
    }
    if (left_out)
        *item_of(p, record) |= ITEM_PARTIAL;
    item_set(l, port, entity, record, LINEAGE_PRESENT);
}

void gather_evaluate(struct lineage *l, uint32_t port, uint32_t entity)
{
    const struct port_layout *p = &l->ports[port];
    enum lineage_outcome made = grain_reads(grain_at(l, l->domains[p->from].call, entity));
    enum lineage_outcome outcome = item_outcome(l, port, entity);
    if (outcome_is_bad(outcome) || made == LINEAGE_UNRESOLVED)
        return;
    if (outcome_is_bad(made)) {
        gather_suppress(l, port, entity);
    } else if (outcome == LINEAGE_UNRESOLVED) {
        struct gather_state *state = gather_at(l, port, entity);
        if (made == LINEAGE_DROPPED)
            item_set(l, port, entity, entity_at(l, p->domain, entity), LINEAGE_DROPPED);
        else if (state->left == 0 &&
                 (!p->needs_final || (state->not_final == 0 && expansion_is_final(l, p->from, entity))))
            gather_complete(l, port, entity);
    }
}

/* A member or value resolved (`first`) or changed. */
static void gather_child_event(struct lineage *l, uint32_t port, const struct entity *child, bool first)
{
    const struct port_layout *p = &l->ports[port];
    uint32_t parent = child->parent;
    const struct entity *record = entity_of(p->records, parent);
    struct gather_state *state = gather_of(p, record);
    if (first) {
        assert(state->left > 0);
        state->left--;
    }
    enum lineage_outcome outcome = outcome_of(p, record);
    if (outcome_is_bad(outcome))
        return;
    bool by_member = !p->partial && outcome_is_bad(outcome_of(&l->ports[p->members], child));
    if (by_member || (outcome == LINEAGE_PRESENT && child_spoils(l, p, child)))
        gather_suppress(l, port, parent);
    else if (state->left == 0)
        gather_evaluate(l, port, parent);
}

/* ---- the loop ---- */

static void event_deliver(struct lineage *l, const struct event *event)
{
    const struct port_layout *p = &l->ports[event->port];
    struct entity *record = entity_of(p->records, event->entity);
    bool final = event->kind == EVENT_FINAL;
    for (uint32_t i = 0; i < p->reader_count; i++) {
        const struct reader *reader = &p->readers[i];
        switch (reader->kind) {
        case READ_CALL:
            grain_evaluate(l, reader->index, event->entity, record);
            if (final)
                grain_final_check(l, reader->index, event->entity);
            break;
        case READ_FILTER:
            if (final)
                final_check(l, reader->index, event->entity);
            else
                filter_evaluate(l, reader->index, event->entity, record);
            break;
        case READ_GATHER:
            if (final)
                gather_child_final(l, reader->index, record->parent);
            else
                gather_child_event(l, reader->index, record, event->kind == EVENT_RESOLVED);
            break;
        case READ_BROADCAST:
            broadcast_source_event(l, reader->index, event->entity, final);
            break;
        case READ_EXPAND:
            if (final)
                expansion_final(l, reader->index, event->entity);
            break;
        }
    }
}

/* Runs until nothing changes any more. That an Item is final is heard only when every change has been: a barrier makes
 * its siblings final before what they now read has reached anybody. */
int changes_follow(struct lineage *l)
{
    while (!l->broken) {
        if (!queue_is_empty(&l->queue) || !queue_is_empty(&l->finals)) {
            struct event event = queue_pop(queue_is_empty(&l->queue) ? &l->finals : &l->queue);
            event_deliver(l, &event);
        } else if (!queue_is_empty(&l->demand)) {
            struct event lost = queue_pop(&l->demand);
            demand_check(l, &lost);
        } else {
            return 0;
        }
    }
    return -ENOMEM;
}

/* Runs until nothing changes any more, then sees whether the root is complete. */
int lineage_settle(struct lineage *l, uint32_t root)
{
    if (changes_follow(l))
        return -ENOMEM;
    struct root_state *state = root_at(l, root);
    if (state->unsealed == 0 && !state->complete) {
        state->complete = true;
        if (!state->abandoned)
            root_tally(l, root, 1);
        l->effects.root_complete(l->effects.cookie, root);
    }
    return 0;
}
