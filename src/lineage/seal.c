/* SPDX-License-Identifier: Apache-2.0 */
/* How Grains end, and how far a failure reaches: Expansions, barriers, roots (SEMANTICS sections 3 and 4). */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "lineage/state.h"

/* A READY Grain is not wanted any more: the engine says how far it had come. */
static void grain_cancel(struct lineage *l, uint32_t call, uint32_t entity)
{
    struct lineage_call_counts *counts = &l->calls[call].counts;
    switch (l->effects.cancel(l->effects.cookie, (struct grain){call, entity})) {
    case LINEAGE_KEPT_OUT:
        counts->kept_out++;
        break;
    case LINEAGE_SKIPPED:
        counts->skipped++;
        break;
    case LINEAGE_RUNNING:
        counts->discarded++;
        break;
    }
}

/* The bookkeeping of every way into SEALED. */
static inline void grain_close(struct lineage *l, uint32_t call, uint32_t entity, struct entity *record,
                               enum lineage_outcome outcome, uint32_t cause)
{
    struct call_layout *c = &l->calls[call];
    struct grain_state *grain = grain_of(c, record);
    struct root_state *root = root_at(l, record->root);
    assert(grain->phase == GRAIN_WAITING || grain->phase == GRAIN_READY);
    assert(root->unsealed > 0);
    grain->phase = GRAIN_SEALED;
    grain->outcome = (uint8_t)outcome;
    grain->cause = cause;
    root->unsealed--;
    root->trouble = root->trouble || outcome_is_bad(outcome);
    c->counts.sealed++;
    c->counts.failed += outcome == LINEAGE_FAILED;
    if (c->group != NONE)
        group_at(l, call, record->parent)->unsealed--;
    if (!grain->holds)
        grain_finish(l, call, entity, record);
}

/* An Entity under a FAILED Expansion: all Items read SUPPRESSED, except what its own Grains failed. Nobody outside
 * looks at them one by one, so no events. */
static void entity_doom(struct lineage *l, uint32_t domain, uint32_t entity, uint32_t cause)
{
    struct entity *record = entity_at(l, domain, entity);
    if (record->doomed)
        return;
    record->doomed = true;
    FOR_RANGE(l->domains[domain].calls, call)
    {
        struct grain_state *grain = grain_of(&l->calls[call], record);
        if (grain->phase == GRAIN_READY)
            grain_cancel(l, call, entity);
        if (grain->phase != GRAIN_SEALED) {
            grain_close(l, call, entity, record, LINEAGE_SUPPRESSED, cause);
        } else if (!outcome_is_bad((enum lineage_outcome)grain->outcome)) {
            l->calls[call].counts.discarded += grain->outcome == LINEAGE_PRESENT;
            grain->outcome = LINEAGE_SUPPRESSED;
            grain->cause = cause;
        }
    }
    FOR_RANGE(l->domains[domain].ports, port)
    {
        const struct port_layout *p = &l->ports[port];
        uint8_t *item = item_of(p, record);
        bool failed = (*item & ITEM_OUTCOME) == LINEAGE_FAILED;
        if (p->kind == PLAN_FILTER)
            failed = failed && item_outcome(l, p->source, entity) == LINEAGE_FAILED; /* whatever the mask says */
        else if (p->kind == PLAN_BROADCAST)
            failed = false;
        if (!failed)
            *item = (uint8_t)((*item & ~ITEM_OUTCOME) | LINEAGE_SUPPRESSED);
    }
}

/* Broadcasts into or below `domain` have lost readers under `parent`. */
static void demand_broadcasts(struct lineage *l, uint32_t domain, uint32_t parent)
{
    uint32_t base = l->domains[domain].parent;
    for (uint32_t i = domain; i < l->plan->domain_count; i++) {
        uint32_t up = i;
        while (up > domain)
            up = l->domains[up].parent;
        if (up != domain)
            continue;
        FOR_RANGE(l->domains[i].broadcasts, broadcast)
        {
            const struct port_layout *p = &l->ports[broadcast];
            if (l->domains[p->from].depth > l->domains[base].depth)
                continue;
            uint32_t ancestor = ancestor_of(l, base, parent, p->from);
            if (item_outcome(l, p->source, ancestor) == LINEAGE_UNRESOLVED)
                queue_push(l, &l->demand, p->source, ancestor, DEMAND_ITEM);
        }
    }
}

/* All Grains of a group of `call` under `parent` may be sealed now: their Items may be final. */
static void group_check(struct lineage *l, uint32_t call, uint32_t parent)
{
    uint32_t domain = l->calls[call].domain;
    if (group_at(l, call, parent)->unsealed || grain_at(l, l->domains[domain].call, parent)->phase != GRAIN_SEALED)
        return;
    const struct expansion *expansion = expansion_at(l, domain, parent);
    for (uint32_t child = expansion->count ? expansion->first : NONE; child != NONE;
         child = entity_at(l, domain, child)->next) {
        FOR_RANGE(l->calls[call].outputs, output)
        {
            final_check(l, output, child);
        }
    }
}

/* What the Expansions of a Grain read has changed. */
static void expansions_follow(struct lineage *l, uint32_t call, uint32_t entity)
{
    const struct grain_state *grain = grain_at(l, call, entity);
    FOR_RANGE(l->calls[call].expansions, domain)
    {
        if (outcome_is_bad(grain_reads(grain))) {
            struct walk walk;
            for (bool more = walk_start(l, &walk, l->calls[call].domain, entity, domain); more;
                 more = walk_next(l, &walk, domain))
                entity_doom(l, walk.domain, walk.entity, grain->cause);
            demand_broadcasts(l, domain, entity);
        }
        FOR_RANGE(l->domains[domain].gathers, gather)
        {
            gather_evaluate(l, gather, entity);
        }
    }
    if (grain->phase == GRAIN_SEALED) {
        FOR_RANGE(l->domains[l->calls[call].domain].groups, group)
        {
            if (l->domains[l->calls[group].domain].call == call)
                group_check(l, group, entity);
        }
    }
}

void grain_seal(struct lineage *l, uint32_t call, uint32_t entity, struct entity *record, enum lineage_outcome outcome,
                uint32_t cause)
{
    const struct call_layout *c = &l->calls[call];
    grain_close(l, call, entity, record, outcome, cause);
    FOR_RANGE(c->outputs, output)
    {
        item_set(l, output, entity, record, outcome);
        final_check(l, output, entity);
    }
    if (c->expansions.count)
        expansions_follow(l, call, entity);
    if (c->group != NONE)
        group_check(l, call, record->parent);
}

static void grain_inputs_lost(struct lineage *l, uint32_t call, uint32_t entity)
{
    FOR_RANGE(l->calls[call].inputs, input)
    {
        enum lineage_outcome outcome = item_outcome(l, input, entity);
        if (outcome == LINEAGE_UNRESOLVED || (l->ports[input].kind == PLAN_EXPAND && outcome == LINEAGE_PRESENT))
            queue_push(l, &l->demand, input, entity, DEMAND_ITEM);
    }
}

/* SUPPRESSED, in whatever phase it is; one that failed by itself stays FAILED. */
void grain_suppress(struct lineage *l, uint32_t call, uint32_t entity, uint32_t cause)
{
    struct call_layout *c = &l->calls[call];
    struct entity *record = entity_at(l, c->domain, entity);
    struct grain_state *grain = grain_of(c, record);
    if (grain->phase != GRAIN_SEALED) {
        if (grain->phase == GRAIN_READY)
            grain_cancel(l, call, entity);
        grain_seal(l, call, entity, record, LINEAGE_SUPPRESSED, cause);
        grain_inputs_lost(l, call, entity);
        return;
    }
    if (outcome_is_bad((enum lineage_outcome)grain->outcome))
        return;
    c->counts.discarded += grain->outcome == LINEAGE_PRESENT;
    grain->outcome = LINEAGE_SUPPRESSED;
    grain->cause = cause;
    FOR_RANGE(c->outputs, output)
    {
        item_set(l, output, entity, record, LINEAGE_SUPPRESSED);
    }
    expansions_follow(l, call, entity);
}

/* A Grain that may fail the root runs on behind a barrier, for that alone. */
static void grain_shadow(struct lineage *l, uint32_t call, uint32_t entity, uint32_t cause)
{
    const struct call_layout *c = &l->calls[call];
    struct entity *record = entity_at(l, c->domain, entity);
    struct grain_state *grain = grain_of(c, record);
    grain->flags |= GRAIN_SHADOW;
    grain->cause = cause;
    FOR_RANGE(c->outputs, output)
    {
        item_set(l, output, entity, record, LINEAGE_SUPPRESSED);
    }
    expansions_follow(l, call, entity);
}

/* `entity` has just failed its group: its siblings follow. Those that wait meet the barrier where they would be READY.
 */
void barrier_commit(struct lineage *l, uint32_t call, uint32_t entity, uint32_t cause)
{
    const struct call_layout *c = &l->calls[call];
    uint32_t parent = entity_at(l, c->domain, entity)->parent;
    struct group_state *group = group_at(l, call, parent);
    if (group->barrier != CAUSE_NONE)
        return;
    group->barrier = cause;
    const struct expansion *expansion = expansion_at(l, c->domain, parent);
    for (uint32_t child = expansion->first; child != NONE; child = entity_at(l, c->domain, child)->next) {
        const struct grain_state *grain = grain_at(l, call, child);
        if (grain->phase == GRAIN_SEALED && grain->outcome == LINEAGE_PRESENT)
            grain_suppress(l, call, child, cause);
        else if (grain->phase == GRAIN_READY && c->may_fail_root)
            grain_shadow(l, call, child, cause);
        else if (grain->phase == GRAIN_READY)
            grain_suppress(l, call, child, cause);
    }
}

static void entity_stop(struct lineage *l, uint32_t domain, uint32_t entity, uint32_t cause)
{
    struct entity *record = entity_at(l, domain, entity);
    FOR_RANGE(l->domains[domain].calls, call)
    {
        const struct grain_state *grain = grain_of(&l->calls[call], record);
        if (grain->phase == GRAIN_READY)
            grain_cancel(l, call, entity);
        if (grain->phase != GRAIN_SEALED)
            grain_close(l, call, entity, record, LINEAGE_SUPPRESSED, cause);
    }
}

/* Every Grain under the root that is not sealed is suppressed. Items are not touched: they read through `failed`. */
void root_fail(struct lineage *l, uint32_t root, uint32_t cause)
{
    struct root_state *state = root_at(l, root);
    if (state->failed != CAUSE_NONE || state->complete)
        return;
    state->failed = cause;
    entity_stop(l, 0, root, cause);
    struct walk walk;
    for (bool more = walk_start(l, &walk, 0, root, NONE); more; more = walk_next(l, &walk, NONE))
        entity_stop(l, walk.domain, walk.entity, cause);
    queue_clear(&l->queue);
    queue_clear(&l->finals);
    queue_clear(&l->demand);
}
