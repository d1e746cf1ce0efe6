/* SPDX-License-Identifier: Apache-2.0 */
/* The machine's life, and what comes in: roots, children, answers, failures. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lineage/state.h"

int lineage_create(const struct sheaf_plan *plan, const struct lineage_effects *effects,
                   const struct lineage_memory *memory, struct lineage **ret_lineage)
{
    struct lineage *l = memory->allocate(memory->cookie, sizeof(*l));
    if (!l)
        return -ENOMEM;
    memset(l, 0, sizeof(*l));
    l->plan = plan;
    l->effects = *effects;
    l->memory = *memory;
    l->reserved_bytes = sizeof(*l);
    l->key_step = 1;
    if (layout_make(l)) {
        lineage_destroy(l);
        return -ENOMEM;
    }
    *ret_lineage = l;
    return 0;
}

static void failures_free(struct lineage *l, struct root_state *root)
{
    for (uint32_t next, cause = root->failure_first; cause != NONE; cause = next) {
        struct failure *failure = failure_at(l, cause);
        next = failure->next;
        text_give(l, failure->text, failure->length_bytes + 1);
        pool_give(&l->failures, cause - CAUSE_FIRST);
    }
    root->failure_first = NONE;
}

void lineage_destroy(struct lineage *l)
{
    if (!l)
        return;
    for (uint32_t i = 0; l->domains && i < l->domains[0].pool.used; i++)
        if (root_at(l, i)->index != UINT64_MAX)
            failures_free(l, root_at(l, i));
    queue_free(l, &l->queue);
    queue_free(l, &l->finals);
    queue_free(l, &l->demand);
    queue_free(l, &l->search);
    queue_free(l, &l->seen);
    while (l->blocks) {
        struct block *block = l->blocks;
        l->blocks = block->next;
        l->memory.release(l->memory.cookie, block, block->bytes);
    }
    l->memory.release(l->memory.cookie, l, sizeof(*l));
}

int lineage_admit(struct lineage *l, uint64_t tag, const struct value_ref *sources, uint32_t *ret_root)
{
    uint32_t root;
    struct entity *record = l->broken ? NULL : entity_make(l, 0, 0, NULL, 0, &root);
    if (!record)
        return -ENOMEM;
    struct root_state *state = root_at(l, root);
    state->index = l->next_root++;
    state->tag = tag;
    state->failure_first = state->failure_last = NONE;
    *ret_root = root;
    for (uint32_t i = 0; i < l->plan->source_count; i++)
        value_store(l, l->plan->sources[i], root, record, &sources[i]);
    entity_start(l, 0, root, record);
    return lineage_settle(l, root);
}

static void values_discard(struct lineage *l, const struct value_ref *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        l->effects.value_unused(l->effects.cookie, &values[i]);
}

int lineage_child(struct lineage *l, struct grain grain, uint32_t expansion, uint32_t ordinal,
                  const struct value_ref *values)
{
    const struct call_layout *c = &l->calls[grain.call];
    assert(expansion < c->expansions.count);
    if (l->broken)
        return -ENOMEM;
    uint32_t domain = c->expansions.numbers[expansion];
    const struct domain_layout *d = &l->domains[domain];
    struct entity *parent = entity_of(c->records, grain.entity);
    const struct grain_state *state = grain_of(c, parent);
    uint32_t count = expansion_of(d, parent)->count;
    if (state->phase != GRAIN_READY || state->flags & GRAIN_SHADOW || ordinal < count) {
        values_discard(l, values, d->expands.count);
        return 0;
    }
    if (ordinal > count || ordinal == ORDINAL_MAX) {
        values_discard(l, values, d->expands.count);
        return -EINVAL;
    }
    uint32_t child, index = 0;
    struct entity *record = entity_make(l, domain, grain.entity, parent, ordinal, &child);
    if (!record)
        return -ENOMEM;
    FOR_RANGE(d->expands, expand)
    {
        value_store(l, expand, child, record, &values[index++]);
    }
    entity_start(l, domain, child, record);
    if (changes_follow(l))
        return -ENOMEM;
    bool open = state->phase == GRAIN_READY; /* then the root is not complete; but it may not be needed any more */
    return open ? 0 : lineage_settle(l, record->root);
}

static void outputs_discard(struct lineage *l, uint32_t call, const struct value_ref *outputs)
{
    uint32_t index = 0;
    FOR_RANGE(l->calls[call].outputs, output)
    {
        if (l->ports[output].value != NONE)
            values_discard(l, &outputs[index], 1);
        index++;
    }
}

static int contract_fail(struct lineage *l, struct grain grain, const char *text)
{
    struct lineage_cause cause = {SHEAF_SCOPE_ITEM, SHEAF_CLASS_CONTRACT, text, (uint32_t)strlen(text), 0, 0};
    return lineage_fail(l, grain, &cause);
}

static bool counts_fall_short(const struct lineage *l, struct grain grain, const uint32_t *child_counts)
{
    uint32_t index = 0;
    FOR_RANGE(l->calls[grain.call].expansions, domain)
    {
        if (child_counts && child_counts[index++] < expansion_at(l, domain, grain.entity)->count)
            return true;
    }
    return false;
}

int lineage_answer(struct lineage *l, struct grain grain, const struct value_ref *outputs, const uint32_t *child_counts)
{
    if (l->broken)
        return -ENOMEM;
    struct call_layout *c = &l->calls[grain.call];
    struct entity *record = entity_of(c->records, grain.entity);
    struct grain_state *state = grain_of(c, record);
    assert(state->phase == GRAIN_READY || state->phase == GRAIN_SEALED);
    bool short_of = state->phase == GRAIN_READY && counts_fall_short(l, grain, child_counts);
    if (state->phase == GRAIN_SEALED || state->flags & GRAIN_SHADOW || short_of) {
        outputs_discard(l, grain.call, outputs);
        if (state->phase == GRAIN_SEALED)
            return 0;
        if (short_of) {
            int status = contract_fail(l, grain, "a later attempt closed its expansion with fewer children than exist");
            return status ? status : 1;
        }
        c->counts.discarded++;
        grain_seal(l, grain.call, grain.entity, record, LINEAGE_SUPPRESSED, state->cause);
        return lineage_settle(l, record->root);
    }
    uint32_t index = 0;
    FOR_RANGE(c->outputs, output)
    {
        if (l->ports[output].value != NONE)
            value_store(l, output, grain.entity, record, &outputs[index]);
        index++;
    }
    grain_seal(l, grain.call, grain.entity, record, LINEAGE_PRESENT, CAUSE_NONE);
    return lineage_settle(l, record->root);
}

static const char *scope_name(uint32_t scope)
{
    return scope == SHEAF_SCOPE_ITEM ? "item" : scope == SHEAF_SCOPE_GROUP ? "group" : "root";
}

/* A shadow counts only if it fails the root; everything else it does is discarded. */
static int shadow_fail(struct lineage *l, struct grain grain, const struct lineage_cause *cause)
{
    struct call_layout *c = &l->calls[grain.call];
    struct entity *record = entity_at(l, c->domain, grain.entity);
    uint32_t root = record->root, number = grain_of(c, record)->cause;
    if (cause->scope != SHEAF_SCOPE_ROOT) {
        c->counts.discarded++;
        grain_seal(l, grain.call, grain.entity, record, LINEAGE_SUPPRESSED, number);
        return lineage_settle(l, root);
    }
    if (failure_make(l, grain.call, grain.entity, c->domain, root, cause, &number))
        return -ENOMEM;
    grain_seal(l, grain.call, grain.entity, record, LINEAGE_FAILED, number);
    FOR_RANGE(c->outputs, output)
    {
        uint8_t *item = item_of(&l->ports[output], record);
        *item = (uint8_t)((*item & ~ITEM_OUTCOME) | LINEAGE_FAILED);
    }
    root_fail(l, root, number);
    return lineage_settle(l, root);
}

int lineage_fail(struct lineage *l, struct grain grain, const struct lineage_cause *cause)
{
    const struct call_layout *c = &l->calls[grain.call];
    struct entity *record = entity_at(l, c->domain, grain.entity);
    struct grain_state *state = grain_of(c, record);
    assert(state->phase == GRAIN_READY || state->phase == GRAIN_SEALED);
    if (l->broken)
        return -ENOMEM;
    if (state->phase == GRAIN_SEALED)
        return 0;
    uint32_t widest = l->plan->calls[grain.call].widest_failure, root = record->root, number;
    char text[96];
    struct lineage_cause breach = *cause;
    if ((uint32_t)cause->scope > widest) {
        snprintf(text, sizeof(text), "declared a %s failure, but states that it declares at most %s failures",
                 scope_name(cause->scope), scope_name(widest));
        breach.scope = SHEAF_SCOPE_ITEM;
        breach.class_id = SHEAF_CLASS_CONTRACT;
        breach.text = text;
        breach.length_bytes = (uint32_t)strlen(text);
        cause = &breach;
    }
    if (state->flags & GRAIN_SHADOW)
        return shadow_fail(l, grain, cause);
    if (failure_make(l, grain.call, grain.entity, c->domain, root, cause, &number))
        return -ENOMEM;
    grain_seal(l, grain.call, grain.entity, record, LINEAGE_FAILED, number);
    if (c->side_effect)
        root_at(l, root)->side_effect_failed = true;
    if (cause->scope == SHEAF_SCOPE_GROUP && c->group != NONE)
        barrier_commit(l, grain.call, grain.entity, number);
    if (cause->scope == SHEAF_SCOPE_ROOT)
        root_fail(l, root, number);
    return lineage_settle(l, root);
}

int lineage_fail_root(struct lineage *l, uint32_t root, const struct lineage_cause *cause)
{
    uint32_t number;
    if (l->broken)
        return -ENOMEM;
    if (root_at(l, root)->failed != CAUSE_NONE || root_at(l, root)->complete)
        return 0;
    if (failure_make(l, PLAN_NONE, root, 0, root, cause, &number))
        return -ENOMEM;
    root_fail(l, root, number);
    return lineage_settle(l, root);
}

int lineage_abandon_root(struct lineage *l, uint32_t root)
{
    struct root_state *state = root_at(l, root);
    if (l->broken)
        return -ENOMEM;
    assert(!state->abandoned);
    state->abandoned = true;
    l->domains[0].entities--;
    struct walk walk;
    for (bool more = walk_start(l, &walk, 0, root, NONE); more; more = walk_next(l, &walk, NONE))
        l->domains[walk.domain].entities--;
    if (state->complete) {
        root_tally(l, root, -1);
        return 0;
    }
    if (state->failed == CAUSE_NONE)
        root_fail(l, root, CAUSE_NOT_NEEDED);
    return lineage_settle(l, root);
}

bool lineage_is_ready(const struct lineage *l, struct grain grain)
{
    return grain_at(l, grain.call, grain.entity)->phase == GRAIN_READY;
}

int lineage_release_root(struct lineage *l, uint32_t root)
{
    struct root_state *state = root_at(l, root);
    if (!state->complete || state->unfinished)
        return -EBUSY;
    failures_free(l, state);
    state->index = UINT64_MAX;
    tree_release(l, root);
    return 0;
}
