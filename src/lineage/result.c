/* SPDX-License-Identifier: Apache-2.0 */
/* What a complete root gave: status, Items of outputs, failures; and the sums over all of them. */
#include "lineage/state.h"

bool lineage_root_is_complete(const struct lineage *l, uint32_t root)
{
    return root_at(l, root)->complete;
}

/* A failed root reads SUPPRESSED wherever it does not read FAILED. */
static enum lineage_outcome result_outcome(const struct lineage *l, uint32_t root, uint32_t port, uint32_t entity)
{
    enum lineage_outcome outcome = item_outcome(l, port, entity);
    if (root_at(l, root)->failed != CAUSE_NONE && outcome != LINEAGE_FAILED)
        return LINEAGE_SUPPRESSED;
    return outcome;
}

struct root_facts {
    bool failed, partial, dropped, present;
};

/* The Expansions from the root down to `domain`. */
static void facts_of_expansions(const struct lineage *l, uint32_t root, uint32_t domain, struct root_facts *facts)
{
    for (; domain != 0; domain = l->domains[domain].parent) {
        uint32_t maker = l->domains[domain].call, parent = l->domains[domain].parent;
        for (uint32_t entity = below_first(l, parent, 0, root); entity != NONE;
             entity = below_next(l, parent, 0, entity)) {
            enum lineage_outcome outcome = grain_reads(grain_at(l, maker, entity));
            facts->failed = facts->failed || outcome_is_bad(outcome);
            facts->dropped = facts->dropped || outcome == LINEAGE_DROPPED;
        }
    }
}

static void facts_of_output(const struct lineage *l, uint32_t root, uint32_t port, struct root_facts *facts)
{
    uint32_t domain = l->ports[port].domain;
    for (uint32_t entity = below_first(l, domain, 0, root); entity != NONE; entity = below_next(l, domain, 0, entity)) {
        enum lineage_outcome outcome = result_outcome(l, root, port, entity);
        facts->failed = facts->failed || outcome_is_bad(outcome);
        facts->dropped = facts->dropped || outcome == LINEAGE_DROPPED;
        facts->present = facts->present || outcome == LINEAGE_PRESENT;
    }
    facts_of_expansions(l, root, domain, facts);
}

static bool gather_left_out(const struct lineage *l, uint32_t root, uint32_t port)
{
    uint32_t domain = l->ports[port].domain;
    for (uint32_t entity = below_first(l, domain, 0, root); entity != NONE; entity = below_next(l, domain, 0, entity))
        if (item_outcome(l, port, entity) == LINEAGE_PRESENT && *item_at(l, port, entity) & ITEM_PARTIAL)
            return true;
    return false;
}

enum lineage_status lineage_root_status(const struct lineage *l, uint32_t root)
{
    const struct root_state *state = root_at(l, root);
    struct root_facts facts = {.failed = state->failed != CAUSE_NONE};
    for (uint32_t i = 0; i < l->plan->output_count && !facts.failed; i++)
        facts_of_output(l, root, l->plan->outputs[i].port, &facts);
    if (facts.failed)
        return LINEAGE_ROOT_FAILED;
    for (uint32_t i = 0; i < l->plan->port_count && state->trouble && !facts.partial; i++)
        if (l->ports[i].kind == PLAN_GATHER && l->ports[i].live && l->ports[i].partial && l->ports[i].feeds_output)
            facts.partial = gather_left_out(l, root, i);
    if (facts.partial)
        return LINEAGE_PARTIAL;
    if (!facts.present && facts.dropped)
        return LINEAGE_FILTERED;
    return state->side_effect_failed ? LINEAGE_PARTIAL : LINEAGE_OK;
}

void lineage_items_open(const struct lineage *l, uint32_t root, uint32_t output, struct lineage_item_cursor *ret_cursor)
{
    uint32_t port = l->plan->outputs[output].port;
    *ret_cursor = (struct lineage_item_cursor){root, port, below_first(l, l->ports[port].domain, 0, root)};
}

int lineage_items_next(const struct lineage *l, struct lineage_item_cursor *cursor, struct lineage_item *ret_item)
{
    uint32_t port = cursor->port, entity = cursor->entity, domain = l->ports[port].domain;
    if (entity == NONE)
        return 0;
    cursor->entity = below_next(l, domain, 0, entity);
    *ret_item = (struct lineage_item){
        .outcome = result_outcome(l, cursor->root, port, entity), .domain = domain, .entity = entity};
    if (ret_item->outcome == LINEAGE_PRESENT) {
        port_value(l, port, entity, entity_at(l, domain, entity), &ret_item->value);
        ret_item->partial = (*item_at(l, port, entity) & ITEM_PARTIAL) != 0;
    } else if (outcome_is_bad(ret_item->outcome)) {
        bool own = outcome_is_bad(item_outcome(l, port, entity));
        uint32_t cause = own ? item_cause(l, port, entity) : root_at(l, cursor->root)->failed;
        ret_item->cause = cause_text(l, cause, &ret_item->cause_length_bytes, &ret_item->class_id);
    }
    return 1;
}

int lineage_failures_next(const struct lineage *l, uint32_t root, uint32_t *position,
                          struct lineage_failure *ret_failure)
{
    uint32_t cause = *position == 0 ? root_at(l, root)->failure_first : *position;
    if (cause == NONE)
        return 0;
    const struct failure *failure = failure_at(l, cause);
    *position = failure->next;
    *ret_failure = (struct lineage_failure){failure->call,
                                            failure->entity,
                                            (enum sheaf_scope)failure->scope,
                                            (enum sheaf_class)failure->class_id,
                                            failure->text,
                                            failure->length_bytes,
                                            failure->attempt,
                                            failure->elapsed_us};
    return 1;
}

/* Adds a complete root to the sums of the outputs, or takes it out again. */
void root_tally(struct lineage *l, uint32_t root, int64_t sign)
{
    uint64_t one = (uint64_t)sign;
    for (uint32_t i = 0; i < l->plan->output_count; i++) {
        struct lineage_output_counts *counts = &l->output_counts[i];
        uint32_t port = l->plan->outputs[i].port, domain = l->ports[port].domain;
        for (uint32_t entity = below_first(l, domain, 0, root); entity != NONE;
             entity = below_next(l, domain, 0, entity)) {
            enum lineage_outcome outcome = result_outcome(l, root, port, entity);
            counts->entities += one;
            counts->present += outcome == LINEAGE_PRESENT ? one : 0;
            counts->dropped += outcome == LINEAGE_DROPPED ? one : 0;
            counts->failed += outcome == LINEAGE_FAILED ? one : 0;
            counts->suppressed += outcome == LINEAGE_SUPPRESSED ? one : 0;
        }
    }
}

void lineage_output_counts(const struct lineage *l, uint32_t output, struct lineage_output_counts *ret_counts)
{
    *ret_counts = l->output_counts[output];
}

void lineage_call_counts(const struct lineage *l, uint32_t call, struct lineage_call_counts *ret_counts)
{
    *ret_counts = l->calls[call].counts;
}

uint64_t lineage_entity_count(const struct lineage *l, uint32_t domain)
{
    return l->domains[domain].entities;
}

uint64_t lineage_live_entities(const struct lineage *l)
{
    uint64_t live = 0;
    for (uint32_t i = 0; i < l->plan->domain_count; i++)
        live += l->domains[i].pool.live;
    return live;
}

uint64_t lineage_live_roots(const struct lineage *l)
{
    return l->domains[0].pool.live;
}

uint64_t lineage_live_bytes(const struct lineage *l)
{
    uint64_t bytes = l->text_bytes + (uint64_t)l->failures.live * l->failures.stride;
    for (uint32_t i = 0; i < l->plan->domain_count; i++)
        bytes += (uint64_t)l->domains[i].pool.live * l->domains[i].pool.stride;
    return bytes;
}

uint64_t lineage_reserved_bytes(const struct lineage *l)
{
    return l->reserved_bytes;
}
