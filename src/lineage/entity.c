/* SPDX-License-Identifier: Apache-2.0 */
/* Records: making Entities, walking over them, and when their values are unused. */
#include <assert.h>
#include <errno.h>

#include "lineage/state.h"

/* Of a stored Port, seen from an Entity of `domain` in or below its top Domain. `*entity` becomes the top Entity. */
static uint32_t *readers_counter(const struct lineage *l, const struct port_layout *p, uint32_t domain,
                                 const struct entity *record, uint32_t *entity)
{
    while (domain != p->top) {
        *entity = record->parent;
        domain = l->domains[domain].parent;
        record = entity_at(l, domain, *entity);
    }
    return field_of(record, p->counter);
}

static void grain_make(struct lineage *l, uint32_t call, uint32_t entity, struct entity *record)
{
    struct call_layout *c = &l->calls[call];
    grain_of(c, record)->phase = GRAIN_WAITING;
    c->counts.grains++;
    if (c->group != NONE)
        group_at(l, call, record->parent)->unsealed++;
    FOR_RANGE(c->readings, port)
    {
        uint32_t top = entity;
        ++*readers_counter(l, &l->ports[port], c->domain, record, &top);
    }
}

static void entity_link(struct lineage *l, const struct domain_layout *d, struct entity *parent, uint32_t entity)
{
    struct expansion *expansion = expansion_of(d, parent);
    if (expansion->count++ == 0)
        expansion->first = entity;
    else
        entity_of(&d->pool, expansion->last)->next = entity;
    expansion->last = entity;
    FOR_RANGE(d->gathers, gather)
    {
        const struct port_layout *p = &l->ports[gather];
        uint32_t slots = p->source == p->members ? 1 : 2;
        struct gather_state *state = gather_of(p, parent);
        state->left += slots;
        if (p->tracked)
            state->not_final += slots;
    }
}

/* NULL: no memory. A root has no parent. */
struct entity *entity_make(struct lineage *l, uint32_t domain, uint32_t parent, struct entity *parent_record,
                           uint32_t ordinal, uint32_t *ret_entity)
{
    struct domain_layout *d = &l->domains[domain];
    uint32_t entity;
    struct entity *record = pool_take(l, &d->pool, &entity);
    if (!record)
        return NULL;
    record->key = l->last_key += l->key_step;
    record->parent = parent;
    record->root = parent_record ? parent_record->root : entity;
    record->ordinal = ordinal & ORDINAL_MAX;
    record->next = NONE;
    d->entities++;
    if (parent_record)
        entity_link(l, d, parent_record, entity);
    struct root_state *root = root_at(l, record->root);
    root->unsealed += d->calls.count;
    root->unfinished += d->calls.count;
    FOR_RANGE(d->calls, call)
    {
        grain_make(l, call, entity, record);
    }
    *ret_entity = entity;
    return record;
}

/* Its stored Items have their values: let everything look at them. */
void entity_start(struct lineage *l, uint32_t domain, uint32_t entity, struct entity *record)
{
    FOR_RANGE(l->domains[domain].given, port)
    {
        item_set(l, port, entity, record, LINEAGE_PRESENT);
    }
    FOR_RANGE(l->domains[domain].broadcasts, broadcast)
    {
        broadcast_hint_reset(l, broadcast, entity);
        broadcast_evaluate(l, broadcast, entity);
    }
}

/* ---- values ---- */

static void value_report(struct lineage *l, const struct port_layout *p, struct entity *record)
{
    uint8_t *item = item_of(p, record);
    if ((*item & (ITEM_STORED | ITEM_UNUSED)) != ITEM_STORED)
        return;
    *item |= ITEM_UNUSED;
    l->effects.value_unused(l->effects.cookie, value_of(p, record));
}

void value_store(struct lineage *l, uint32_t port, uint32_t entity, struct entity *record,
                 const struct value_ref *value)
{
    const struct port_layout *p = &l->ports[port];
    *value_of(p, record) = *value;
    *item_of(p, record) |= ITEM_STORED;
    if (p->counted && *readers_counter(l, p, p->domain, record, &entity) == 0)
        value_report(l, p, record);
}

/* The last Grain that could read values of the Port in or below its top Entity is finished. */
static void values_sweep(struct lineage *l, const struct port_layout *p, uint32_t top)
{
    for (uint32_t entity = below_first(l, p->domain, p->top, top); entity != NONE;
         entity = below_next(l, p->domain, p->top, entity))
        value_report(l, p, entity_of(p->records, entity));
}

/* It is sealed and not held, which happens once: it reads nothing any more. */
void grain_finish(struct lineage *l, uint32_t call, uint32_t entity, struct entity *record)
{
    const struct call_layout *c = &l->calls[call];
    struct root_state *root = root_at(l, record->root);
    assert(root->unfinished > 0);
    root->unfinished--;
    FOR_RANGE(c->readings, port)
    {
        const struct port_layout *p = &l->ports[port];
        uint32_t top = entity, *counter = readers_counter(l, p, c->domain, record, &top);
        assert(*counter > 0);
        if (--*counter > 0 || !p->counted) /* a source that is kept is not counted */
            continue;
        if (p->domain == c->domain && p->top == c->domain)
            value_report(l, p, record);
        else
            values_sweep(l, p, top);
    }
}

void lineage_hold(struct lineage *l, struct grain grain)
{
    struct grain_state *state = grain_at(l, grain.call, grain.entity);
    assert(state->phase == GRAIN_READY && state->holds < UINT8_MAX);
    state->holds++;
}

void lineage_release_hold(struct lineage *l, struct grain grain)
{
    const struct call_layout *c = &l->calls[grain.call];
    struct entity *record = entity_of(c->records, grain.entity);
    struct grain_state *state = grain_of(c, record);
    assert(state->holds > 0);
    if (--state->holds == 0 && state->phase == GRAIN_SEALED)
        grain_finish(l, grain.call, grain.entity, record);
}

void lineage_started(struct lineage *l, struct grain grain)
{
    struct grain_state *state = grain_at(l, grain.call, grain.entity);
    assert(state->holds > 0);
    if (state->flags & GRAIN_STARTED)
        return;
    state->flags |= GRAIN_STARTED;
    l->calls[grain.call].counts.started++;
}

/* ---- walks ---- */

static uint32_t child_toward(const struct lineage *l, uint32_t domain, uint32_t level)
{
    while (l->domains[domain].parent != level)
        domain = l->domains[domain].parent;
    return domain;
}

static uint32_t below_search(const struct lineage *l, uint32_t domain, uint32_t above, uint32_t level, uint32_t current,
                             bool down)
{
    for (;;) {
        if (down) {
            if (level == domain)
                return current;
            uint32_t child = child_toward(l, domain, level);
            const struct expansion *expansion = expansion_at(l, child, current);
            if (expansion->count) {
                level = child;
                current = expansion->first;
                continue;
            }
        }
        for (down = false; !down;) {
            if (level == above)
                return NONE;
            const struct entity *header = entity_at(l, level, current);
            down = header->next != NONE;
            current = down ? header->next : header->parent;
            level = down ? level : l->domains[level].parent;
        }
    }
}

uint32_t below_first(const struct lineage *l, uint32_t domain, uint32_t above, uint32_t entity)
{
    return below_search(l, domain, above, above, entity, true);
}

uint32_t below_next(const struct lineage *l, uint32_t domain, uint32_t above, uint32_t current)
{
    uint32_t next = domain == above ? NONE : entity_at(l, domain, current)->next;
    if (next != NONE)
        return next;
    return below_search(l, domain, above, domain, current, false);
}

/* Steps into the first non-empty Expansion of the current Entity from child Domain number `position` on. */
static bool walk_down(const struct lineage *l, struct walk *walk, uint32_t position, uint32_t only)
{
    const struct domain_layout *d = &l->domains[walk->domain];
    for (uint32_t i = position; i < d->children.count; i++) {
        uint32_t child = d->children.numbers[i];
        if (walk->domain == walk->base_domain && only != NONE && child != only)
            continue;
        const struct expansion *expansion = expansion_at(l, child, walk->entity);
        if (expansion->count) {
            walk->domain = child;
            walk->entity = expansion->first;
            return true;
        }
    }
    return false;
}

bool walk_next(const struct lineage *l, struct walk *walk, uint32_t only)
{
    if (walk_down(l, walk, 0, only))
        return true;
    while (walk->domain != walk->base_domain) {
        const struct entity *header = entity_at(l, walk->domain, walk->entity);
        if (header->next != NONE) {
            walk->entity = header->next;
            return true;
        }
        uint32_t position = l->domains[walk->domain].child_position + 1;
        walk->domain = l->domains[walk->domain].parent;
        walk->entity = header->parent;
        if (walk_down(l, walk, position, only))
            return true;
    }
    return false;
}

bool walk_start(const struct lineage *l, struct walk *walk, uint32_t domain, uint32_t entity, uint32_t only)
{
    *walk = (struct walk){domain, domain, entity};
    return walk_next(l, walk, only);
}

/* ---- release ---- */

/* All below it is gone already: what remains of its values is unused, its children's records are free. */
static void entity_release(struct lineage *l, uint32_t domain, uint32_t entity)
{
    const struct domain_layout *d = &l->domains[domain];
    struct entity *record = entity_at(l, domain, entity);
    FOR_RANGE(d->stored, port)
    {
        bool returned = l->ports[port].kept && root_at(l, entity)->abandoned; /* a source: in the root's own Domain */
        if (!returned)
            value_report(l, &l->ports[port], record);
    }
    FOR_RANGE(d->children, child)
    {
        const struct expansion *expansion = expansion_of(&l->domains[child], record);
        if (expansion->count)
            pool_give_chain(&l->domains[child].pool, expansion->first, expansion->last, expansion->count);
    }
}

/* The first child Domain from number `position` on with children of the Entity that must be looked at one by one. */
static uint32_t child_to_release(const struct lineage *l, uint32_t domain, uint32_t entity, uint32_t position)
{
    const struct range *children = &l->domains[domain].children;
    for (uint32_t i = position; i < children->count; i++) {
        uint32_t child = children->numbers[i];
        if (!l->domains[child].quiet && expansion_at(l, child, entity)->count)
            return child;
    }
    return NONE;
}

/* Children before parents: the chain of siblings, along which it goes, is given back as a whole with their parent. */
void tree_release(struct lineage *l, uint32_t root)
{
    uint32_t domain = 0, entity = root, position = 0;
    for (;;) {
        uint32_t child = child_to_release(l, domain, entity, position);
        if (child != NONE) {
            entity = expansion_at(l, child, entity)->first;
            domain = child;
            position = 0;
            continue;
        }
        entity_release(l, domain, entity);
        if (domain == 0)
            break;
        const struct entity *header = entity_at(l, domain, entity);
        bool last = header->next == NONE;
        entity = last ? header->parent : header->next;
        position = last ? l->domains[domain].child_position + 1 : 0;
        domain = last ? l->domains[domain].parent : domain;
    }
    pool_give(&l->domains[0].pool, root);
}

void lineage_number_keys(struct lineage *l, uint32_t number, uint32_t count)
{
    assert(l->last_key == 0 && number < count);
    l->last_key = number;
    l->key_step = count;
}

void lineage_keep_sources(struct lineage *l)
{
    for (uint32_t i = 0; i < l->plan->source_count; i++) {
        struct port_layout *p = &l->ports[l->plan->sources[i]];
        p->kept = true;
        p->counted = false;
    }
}

static void entity_visit(const struct lineage *l, uint32_t domain, uint32_t entity, lineage_visit *visit, void *cookie)
{
    FOR_RANGE(l->domains[domain].stored, port)
    {
        if ((*item_at(l, port, entity) & (ITEM_STORED | ITEM_UNUSED)) == ITEM_STORED)
            visit(cookie, value_at(l, port, entity));
    }
}

void lineage_values(const struct lineage *l, uint32_t root, lineage_visit *visit, void *cookie)
{
    struct walk walk;
    entity_visit(l, 0, root, visit, cookie);
    for (bool more = walk_start(l, &walk, 0, root, NONE); more; more = walk_next(l, &walk, NONE))
        entity_visit(l, walk.domain, walk.entity, visit, cookie);
}
