/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs, root statuses and starts of a whole run, root by root. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/reference/evaluate.h"

struct root_facts {
    bool failed, partial, dropped, present, side_effect_failed;
    json_t *failed_causes; /* of a root failure, or NULL */
};

typedef void (*visit_function)(struct evaluation *e, struct node *node, void *cookie);

/* Every Entity of a Domain under `node`, in order of Coordinate. */
static void visit(struct evaluation *e, struct node *node, uint32_t domain, visit_function function, void *cookie)
{
    if (node->domain == domain) {
        function(e, node, cookie);
        return;
    }
    for (uint32_t i = 1; i < e->plan->domain_count; i++)
        if (e->plan->domains[i].parent == node->domain && domain_is_within(e, domain, i))
            for (struct node **kid = node_kids(e, node, i); *kid; kid++)
                visit(e, *kid, domain, function, cookie);
}

static char *coordinate_text(const struct node *node, char *text, size_t bytes)
{
    uint32_t numbers[64], depth = 0;
    for (; node && depth < 64; node = node->parent)
        numbers[depth++] = node->ordinal;
    int length = 0;
    for (text[0] = '\0'; depth > 0 && (size_t)length < bytes; depth--)
        length += snprintf(text + length, bytes - (size_t)length, length ? ",%u" : "%u", numbers[depth - 1]);
    return text;
}

/* ---- root status ---- */

struct root_visit {
    struct root_facts *facts;
    uint32_t index; /* Port or Call */
};

static void see_root_failure(struct evaluation *e, struct node *node, void *cookie)
{
    struct root_visit *visit_of = cookie;
    if (node_is_doomed(e, node) || !inputs_all_present(e, node, visit_of->index, FINAL))
        return;
    const struct run *run = grain_run(e, node, visit_of->index);
    if (run->result.end == ROW_DECLARES && run->result.scope == SHEAF_SCOPE_ROOT)
        causes_add(e, &visit_of->facts->failed_causes, own_cause(e, visit_of->index, &run->result));
}

static void see_output(struct evaluation *e, struct node *node, void *cookie)
{
    struct root_visit *visit_of = cookie;
    char outcome = item_read(e, node, visit_of->index, FINAL)->outcome;
    visit_of->facts->failed |= outcome == 'X';
    visit_of->facts->dropped |= outcome == 'D';
    visit_of->facts->present |= outcome == 'P';
}

static void see_expansion(struct evaluation *e, struct node *node, void *cookie)
{
    struct root_visit *visit_of = cookie;
    char outcome = grain_read(e, node, visit_of->index, FINAL)->outcome;
    visit_of->facts->failed |= outcome == 'X';
    visit_of->facts->dropped |= outcome == 'D';
}

static void see_partial(struct evaluation *e, struct node *node, void *cookie)
{
    struct root_visit *visit_of = cookie;
    const struct reading *reading = item_read(e, node, visit_of->index, FINAL);
    visit_of->facts->partial |= reading->outcome == 'P' && json_array_size(reading->errors) > 0;
}

static void see_side_effect(struct evaluation *e, struct node *node, void *cookie)
{
    struct root_visit *visit_of = cookie;
    const struct reading *reading = grain_read(e, node, visit_of->index, FINAL);
    visit_of->facts->side_effect_failed |= reading->may_fail && !reading->may_suppress;
}

static void look(struct evaluation *e, struct node *root, struct root_facts *facts)
{
    struct root_visit visit_of = {facts, 0};
    for (uint32_t i = 0; i < e->plan->call_count; i++) {
        visit_of.index = i;
        if (e->calls[i].live && call_may_fail_root(e, i))
            visit(e, root, e->plan->calls[i].domain, see_root_failure, &visit_of);
        if (e->calls[i].live && e->plan->calls[i].op->flags & SHEAF_OPERATOR_SIDE_EFFECT)
            visit(e, root, e->plan->calls[i].domain, see_side_effect, &visit_of);
    }
    for (uint32_t i = 0; i < e->plan->output_count; i++) {
        visit_of.index = e->plan->outputs[i].port;
        uint32_t domain = e->plan->ports[visit_of.index].domain;
        visit(e, root, domain, see_output, &visit_of);
        for (; domain != 0; domain = e->plan->domains[domain].parent) {
            visit_of.index = e->plan->domains[domain].call;
            visit(e, root, e->plan->domains[domain].parent, see_expansion, &visit_of);
        }
    }
    for (uint32_t i = 0; i < e->plan->port_count; i++) {
        visit_of.index = i;
        if (e->plan->ports[i].port_kind == PLAN_GATHER && e->plan->ports[i].partial && e->ports[i].feeds_output)
            visit(e, root, e->plan->ports[i].domain, see_partial, &visit_of);
    }
}

static const char *status_of(const struct root_facts *facts)
{
    if (facts->failed || facts->failed_causes)
        return "failed";
    if (facts->partial)
        return "partial";
    if (!facts->present && facts->dropped)
        return "filtered";
    return facts->side_effect_failed ? "partial" : "ok";
}

/* ---- entries ---- */

struct entry_visit {
    const struct root_facts *facts;
    json_t *entries;
    uint32_t port;
};

static json_t *at_of(const struct node *node)
{
    json_t *at = json_array();
    for (; node; node = node->parent)
        json_array_insert_new(at, 0, json_integer(node->ordinal));
    return at;
}

static void entry_of_bad(const struct reading *reading, json_t *entry)
{
    const char *letters = !reading->may_fail ? "S" : reading->may_suppress ? "FS" : "F";
    json_object_set_new(entry, "o", json_string(letters));
    json_object_set(entry, "F", reading->fail_causes);
    json_object_set(entry, "S", reading->suppress_causes);
}

static void write_entry(struct evaluation *e, struct node *node, void *cookie)
{
    struct entry_visit *entry_visit = cookie;
    struct reading reading = *item_read(e, node, entry_visit->port, FINAL);
    json_t *entry = json_object(), *root_causes = entry_visit->facts->failed_causes;
    if (root_causes) {
        /* The failure may have come before a barrier that would have taken back what was read early. */
        const struct reading *early = item_read(e, node, entry_visit->port, EARLY);
        json_t *causes = NULL, *own = NULL;
        causes_add(e, &causes, reading.suppress_causes);
        causes_add(e, &causes, early->suppress_causes);
        causes_add(e, &causes, root_causes);
        causes_add(e, &own, reading.fail_causes);
        causes_add(e, &own, early->fail_causes);
        reading.may_fail = reading.may_fail || early->may_fail;
        reading.fail_causes = own;
        reading.outcome = 'X';
        reading.may_suppress = true;
        reading.suppress_causes = causes;
    }
    json_object_set_new(entry, "at", at_of(node));
    if (node->optional || (root_causes && node->parent))
        json_object_set_new(entry, "opt", json_true());
    if (reading.outcome == 'X') {
        entry_of_bad(&reading, entry);
    } else {
        json_object_set_new(entry, "o", json_string(reading.outcome == 'P' ? "P" : "D"));
        json_object_set(entry, "v", reading.value);
        if (json_array_size(reading.errors))
            json_object_set(entry, "errs", reading.errors);
    }
    json_array_append_new(entry_visit->entries, entry);
}

/* ---- starts ---- */

struct start_visit {
    const struct root_facts *facts;
    json_t *starts;
    uint32_t call;
};

static void write_start(struct evaluation *e, struct node *node, void *cookie)
{
    struct start_visit *start = cookie;
    char at[256];
    if (!grain_run(e, node, start->call)->possible)
        return;
    bool must = !start->facts->failed_causes && grain_must_start(e, node, start->call);
    json_object_set_new(start->starts, coordinate_text(node, at, sizeof(at)), json_boolean(must));
}

/* An output may be named twice. */
static bool named_before(const struct sheaf_plan *plan, uint32_t output)
{
    for (uint32_t i = 0; i < output; i++)
        if (strcmp(plan->outputs[i].name, plan->outputs[output].name) == 0)
            return true;
    return false;
}

static void evaluate_root(struct evaluation *e, uint32_t index, struct expected *out)
{
    struct node *root = node_make(e, NULL, 0, index);
    struct root_facts facts = {0};
    look(e, root, &facts);
    json_array_append_new(out->roots, json_string(status_of(&facts)));
    for (uint32_t i = 0; i < e->plan->output_count; i++) {
        const struct plan_output *output = &e->plan->outputs[i];
        struct entry_visit entries = {&facts, json_object_get(out->outputs, output->name), output->port};
        if (!named_before(e->plan, i))
            visit(e, root, e->plan->ports[output->port].domain, write_entry, &entries);
    }
    for (uint32_t i = 0; i < e->plan->call_count; i++) {
        struct start_visit starts = {&facts, json_object_get(out->starts, e->plan->calls[i].name), i};
        if (e->calls[i].live)
            visit(e, root, e->plan->calls[i].domain, write_start, &starts);
    }
}

static void nodes_free(struct evaluation *e)
{
    while (e->made) {
        struct node *node = e->made;
        e->made = node->next_made;
        for (uint32_t i = 0; i < e->plan->domain_count; i++)
            free(node->kids[i]);
        free(node->kids);
        for (int world = EARLY; world <= FINAL; world++) {
            free(node->items[world]);
            free(node->grains[world]);
        }
        free(node->runs);
        free(node->needed);
        free(node);
    }
}

void reference_evaluate(const struct sheaf_plan *plan, json_t *const *columns, struct expected *ret_expected)
{
    struct evaluation e = {.plan = plan, .columns = columns};
    uint32_t roots = plan->source_count ? (uint32_t)json_array_size(columns[0]) : 0;
    *ret_expected = (struct expected){json_object(), json_array(), json_object()};
    for (uint32_t i = 0; i < plan->output_count; i++)
        json_object_set_new(ret_expected->outputs, plan->outputs[i].name, json_array());
    for (uint32_t i = 0; i < plan->call_count; i++)
        json_object_set_new(ret_expected->starts, plan->calls[i].name, json_object());
    facts_find(&e);
    for (uint32_t i = 0; i < roots; i++) {
        e.keep = json_array();
        evaluate_root(&e, i, ret_expected);
        nodes_free(&e);
        json_decref(e.keep);
    }
    free(e.ports);
    free(e.calls);
}

void expected_clear(struct expected *expected)
{
    json_decref(expected->outputs);
    json_decref(expected->roots);
    json_decref(expected->starts);
}
