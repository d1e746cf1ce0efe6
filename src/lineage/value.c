/* SPDX-License-Identifier: Apache-2.0 */
/* What Items hold: leaf values, lists by cursor, and the names of Entities. */
#include <assert.h>
#include <errno.h>

#include "lineage/state.h"

/* Of a PRESENT Item: follows views to where the value is stored, or names the list. */
void port_value(const struct lineage *l, uint32_t port, uint32_t entity, const struct entity *record,
                struct lineage_value *ret_value)
{
    for (;;) {
        const struct port_layout *p = &l->ports[port];
        if (p->kind == PLAN_BROADCAST) {
            entity = ancestor_of(l, p->domain, entity, p->from);
            record = entity_at(l, p->from, entity);
        } else if (p->kind != PLAN_FILTER) {
            ret_value->is_list = p->value == NONE;
            if (ret_value->is_list)
                ret_value->list = (struct lineage_list){port, entity};
            else
                ret_value->value = *value_of(p, record);
            return;
        }
        port = p->source;
    }
}

int lineage_input(const struct lineage *l, struct grain grain, uint32_t index, struct lineage_value *ret_value)
{
    const struct call_layout *c = &l->calls[grain.call];
    if (index >= c->inputs.count)
        return -EINVAL;
    port_value(l, c->inputs.numbers[index], grain.entity, entity_of(c->records, grain.entity), ret_value);
    return 0;
}

static uint32_t first_child(const struct lineage *l, uint32_t domain, uint32_t parent)
{
    const struct expansion *expansion = expansion_at(l, domain, parent);
    return expansion->count ? expansion->first : NONE;
}

void lineage_list_open(const struct lineage *l, struct lineage_list list, struct lineage_cursor *ret_cursor)
{
    /* Either a gather over `source`, or a group output whose children are the EXPAND Port `source`. */
    uint32_t port = l->ports[list.port].source;
    uint32_t child = first_child(l, l->ports[port].domain, list.entity);
    *ret_cursor = (struct lineage_cursor){list, port, child, child};
}

static bool is_element(const struct lineage *l, const struct lineage_cursor *cursor, const struct entity *child)
{
    const struct port_layout *list = &l->ports[cursor->list.port];
    return list->kind != PLAN_GATHER || outcome_of(&l->ports[list->members], child) == LINEAGE_PRESENT;
}

int lineage_list_next(const struct lineage *l, struct lineage_cursor *cursor, struct lineage_value *ret_value)
{
    uint32_t domain = l->ports[cursor->port].domain;
    while (cursor->child != NONE) {
        uint32_t child = cursor->child;
        const struct entity *record = entity_at(l, domain, child);
        cursor->child = record->next;
        if (is_element(l, cursor, record)) {
            port_value(l, cursor->port, child, record, ret_value);
            cursor->ordinal = record->ordinal;
            return 1;
        }
    }
    return 0;
}

int lineage_list_error_next(const struct lineage *l, struct lineage_cursor *cursor,
                            struct lineage_list_error *ret_error)
{
    const struct port_layout *list = &l->ports[cursor->list.port];
    uint32_t domain = l->ports[cursor->port].domain;
    while (list->kind == PLAN_GATHER && list->partial && cursor->error != NONE) {
        uint32_t child = cursor->error;
        cursor->error = entity_at(l, domain, child)->next;
        if (!outcome_is_bad(item_outcome(l, list->members, child)))
            continue;
        enum sheaf_class class_id;
        ret_error->text = cause_text(l, item_cause(l, list->members, child), &ret_error->length_bytes, &class_id);
        ret_error->class_id = class_id;
        ret_error->ordinal = entity_at(l, domain, child)->ordinal;
        return 1;
    }
    return 0;
}

uint32_t lineage_list_count(const struct lineage *l, struct lineage_list list)
{
    struct lineage_cursor cursor;
    lineage_list_open(l, list, &cursor);
    uint32_t count = 0, domain = l->ports[cursor.port].domain;
    while (cursor.child != NONE) {
        const struct entity *record = entity_at(l, domain, cursor.child);
        count += is_element(l, &cursor, record);
        cursor.child = record->next;
    }
    return count;
}

uint64_t lineage_entity_key(const struct lineage *l, uint32_t domain, uint32_t entity)
{
    return entity_at(l, domain, entity)->key;
}

uint32_t lineage_parent_of(const struct lineage *l, uint32_t domain, uint32_t entity)
{
    return entity_at(l, domain, entity)->parent;
}

uint64_t lineage_parent_key(const struct lineage *l, uint32_t domain, uint32_t entity)
{
    if (domain == 0)
        return 0;
    return entity_at(l, l->domains[domain].parent, entity_at(l, domain, entity)->parent)->key;
}

uint32_t lineage_coordinate(const struct lineage *l, uint32_t domain, uint32_t entity, uint64_t *buffer,
                            uint32_t capacity)
{
    uint32_t depth = l->domains[domain].depth;
    if (depth > capacity)
        return depth;
    for (uint32_t at = depth; at-- > 1; domain = l->domains[domain].parent) {
        const struct entity *header = entity_at(l, domain, entity);
        buffer[at] = header->ordinal;
        entity = header->parent;
    }
    buffer[0] = root_at(l, entity)->index;
    return depth;
}

uint32_t lineage_root_of(const struct lineage *l, struct grain grain)
{
    return entity_at(l, l->calls[grain.call].domain, grain.entity)->root;
}

uint64_t lineage_root_index(const struct lineage *l, uint32_t root)
{
    return root_at(l, root)->index;
}

uint64_t lineage_root_children(const struct lineage *l, uint32_t root)
{
    uint64_t children = 0;
    for (uint32_t domain = 1; domain < l->plan->domain_count; domain++) {
        if (l->domains[domain].parent == 0 &&
            l->domains[domain].expansion != NONE) /* of a Call that never runs: none */
            children += expansion_at(l, domain, root)->count;
    }
    return children;
}

uint64_t lineage_root_tag(const struct lineage *l, uint32_t root)
{
    return root_at(l, root)->tag;
}
