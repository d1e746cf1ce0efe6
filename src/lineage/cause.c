/* SPDX-License-Identifier: Apache-2.0 */
/* Why Items are FAILED or SUPPRESSED. Only Grains and gathers store a cause; the others are followed to one. */
#include <errno.h>
#include <string.h>

#include "lineage/state.h"

int failure_make(struct lineage *l, uint32_t call, uint32_t entity, uint32_t domain, uint32_t root,
                 const struct lineage_cause *cause, uint32_t *ret_cause)
{
    const char *text = cause->text;
    uint32_t length = cause->length_bytes, number;
    if (!text || length == 0) {
        text = sheaf_class_name(cause->class_id);
        length = (uint32_t)strlen(text);
    }
    if (!pool_take(l, &l->failures, &number))
        return -ENOMEM;
    char *copy = text_take(l, length + 1);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, text, length);
    copy[length] = '\0';
    number += CAUSE_FIRST;
    *failure_at(l, number) = (struct failure){.call = call,
                                              .entity = entity,
                                              .domain = domain,
                                              .next = NONE,
                                              .attempt = cause->attempt,
                                              .length_bytes = length,
                                              .scope = (uint8_t)cause->scope,
                                              .class_id = (uint8_t)cause->class_id,
                                              .elapsed_us = cause->elapsed_us,
                                              .text = copy};
    struct root_state *state = root_at(l, root);
    if (state->failure_first == NONE)
        state->failure_first = number;
    else
        failure_at(l, state->failure_last)->next = number;
    state->failure_last = number;
    *ret_cause = number;
    return 0;
}

/* Of two causes the one with the lower Coordinate; texts of our own have none and lose. */
uint32_t cause_lower(const struct lineage *l, uint32_t a, uint32_t b)
{
    if (a == b || b < CAUSE_FIRST)
        return a != CAUSE_NONE ? a : b;
    if (a < CAUSE_FIRST)
        return b;
    const struct failure *fa = failure_at(l, a), *fb = failure_at(l, b);
    uint32_t depth_a = lineage_coordinate(l, fa->domain, fa->entity, l->coordinate_a, UINT32_MAX);
    uint32_t depth_b = lineage_coordinate(l, fb->domain, fb->entity, l->coordinate_b, UINT32_MAX);
    for (uint32_t i = 0; i < depth_a && i < depth_b; i++)
        if (l->coordinate_a[i] != l->coordinate_b[i])
            return l->coordinate_a[i] < l->coordinate_b[i] ? a : b;
    if (depth_a != depth_b)
        return depth_a < depth_b ? a : b;
    return fa->call <= fb->call ? a : b;
}

/* Of an Entity below a FAILED Expansion, or of a failed root. */
static uint32_t doom_cause(const struct lineage *l, uint32_t domain, uint32_t entity)
{
    uint32_t root = entity_at(l, domain, entity)->root;
    while (domain != 0) {
        uint32_t maker = l->domains[domain].call;
        entity = entity_at(l, domain, entity)->parent;
        domain = l->domains[domain].parent;
        const struct grain_state *grain = grain_at(l, maker, entity);
        if (outcome_is_bad(grain_reads(grain)))
            return grain->cause;
    }
    return root_at(l, root)->failed;
}

/* Of an Item that is FAILED or SUPPRESSED. */
uint32_t item_cause(const struct lineage *l, uint32_t port, uint32_t entity)
{
    for (;;) {
        const struct port_layout *p = &l->ports[port];
        uint32_t next = NONE, next_entity = entity;
        switch (p->kind) {
        case PLAN_CALL_OUTPUT:
            if (outcome_is_bad(grain_reads(grain_at(l, p->call, entity))))
                return grain_at(l, p->call, entity)->cause;
            break;
        case PLAN_GATHER:
            if (gather_at(l, port, entity)->cause != CAUSE_NONE)
                return gather_at(l, port, entity)->cause;
            break;
        case PLAN_FILTER:
            if (outcome_is_bad(item_outcome(l, p->source, entity)))
                next = p->source;
            else if (outcome_is_bad(item_outcome(l, p->mask, entity)))
                next = p->mask;
            break;
        case PLAN_BROADCAST:
            /* Nobody may have needed what it copies, once the Expansion had failed. */
            if (entity_at(l, p->domain, entity)->doomed)
                break;
            next_entity = ancestor_of(l, p->domain, entity, p->from);
            if (outcome_is_bad(item_outcome(l, p->source, next_entity)))
                next = p->source;
            break;
        case PLAN_SOURCE:
        case PLAN_EXPAND:
            break;
        }
        if (next == NONE)
            return doom_cause(l, p->domain, entity);
        port = next;
        entity = next_entity;
    }
}

/* The text of a cause and its class. Never empty. */
const char *cause_text(const struct lineage *l, uint32_t cause, uint32_t *ret_length, enum sheaf_class *ret_class)
{
    static const char dropped[] = "a value was dropped under a member that is present";
    static const char not_needed[] = "not needed: no output can observe it";
    if (cause < CAUSE_FIRST) {
        const char *text = cause == CAUSE_DROPPED_VALUE ? dropped : not_needed;
        *ret_length = (uint32_t)strlen(text);
        *ret_class = SHEAF_CLASS_NONE;
        return text;
    }
    const struct failure *failure = failure_at(l, cause);
    *ret_length = failure->length_bytes;
    *ret_class = (enum sheaf_class)failure->class_id;
    return failure->text;
}
