/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cases/case.h"

static json_t *value_json(const struct sheaf_value *value, struct observed *observed)
{
    if (SHEAF_KIND_DEPTH(value->kind) > 0) {
        json_t *array = json_array();
        struct sheaf_value element;
        while (sheaf_list_next(value->list, &element) > 0)
            json_array_append_new(array, value_json(&element, observed));
        if (json_array_size(array) != value->length_bytes)
            observed_trouble(observed, "a list says %llu elements and has %zu", (unsigned long long)value->length_bytes,
                             json_array_size(array));
        return array;
    }
    switch (value->kind) {
    case SHEAF_BOOL:
        return json_boolean(value->boolean);
    case SHEAF_I64:
        return json_integer(value->i64);
    case SHEAF_TEXT:
        return json_stringn(value->data, value->length_bytes);
    default:
        observed_trouble(observed, "a value of kind %#x, which no case has", value->kind);
        return json_null();
    }
}

static json_t *coordinate_json(const uint64_t *coordinate, uint32_t depth)
{
    json_t *at = json_array();
    for (uint32_t i = 0; i < depth; i++)
        json_array_append_new(at, json_integer((json_int_t)coordinate[i]));
    return at;
}

/* Coordinates of the members that a partial gather left out. */
static json_t *errors_json(const struct sheaf_item *item, struct observed *observed)
{
    json_t *errors = json_array();
    struct sheaf_list_error error;
    while (sheaf_list_error_next(item->value.list, &error) > 0) {
        json_t *at = coordinate_json(item->coordinate, item->depth);
        json_array_append_new(at, json_integer((json_int_t)error.ordinal));
        json_array_append_new(errors, at);
        if (!error.message || error.message[0] == '\0' || error.class_id == SHEAF_CLASS_NONE)
            observed_trouble(observed, "a member left out carries no cause or no class");
    }
    return errors;
}

static json_t *entry_json(const struct sheaf_plan_port *port, const struct sheaf_item *item, struct observed *observed)
{
    static const char *const outcomes[] = {"pending", "P", "D", "F", "S"};
    json_t *entry = json_object();
    json_object_set_new(entry, "at", coordinate_json(item->coordinate, item->depth));
    json_object_set_new(entry, "o", json_string(item->outcome < 5 ? outcomes[item->outcome] : "unknown"));
    if (item->outcome == SHEAF_PRESENT) {
        if (item->value.kind != port->kind)
            observed_trouble(observed, "%s has a value of kind %#x, its Port has %#x", port->name, item->value.kind,
                             port->kind);
        json_t *errors = port->partial ? errors_json(item, observed) : NULL;
        if (errors && json_array_size(errors) > 0)
            json_object_set(entry, "errs", errors);
        json_decref(errors);
        json_object_set_new(entry, "v", value_json(&item->value, observed));
    } else if (item->outcome == SHEAF_FAILED || item->outcome == SHEAF_SUPPRESSED) {
        json_object_set_new(entry, "class", json_string(sheaf_class_name(item->class_id)));
        json_object_set_new(entry, "cause", json_string(item->cause ? item->cause : ""));
    }
    return entry;
}

static void collect_status(const struct sheaf_result_info *info, struct observed *observed)
{
    if (!json_is_null(json_array_get(observed->roots, info->root))) {
        observed_trouble(observed, "root %llu came %s", (unsigned long long)info->root,
                         info->root < json_array_size(observed->roots) ? "twice" : "though nobody submitted it");
        return;
    }
    if (info->tag != info->root)
        observed_trouble(observed, "root %llu has the tag of root %llu", (unsigned long long)info->root,
                         (unsigned long long)info->tag);
    json_array_set_new(observed->roots, info->root, json_string(sheaf_root_status_name(info->status)));
}

/* An output may be named twice; its Items are taken down once. */
static bool named_before(const struct sheaf_plan *plan, size_t output, const char *name)
{
    struct sheaf_plan_port port = {.size = sizeof port};
    bool found = false;
    for (size_t i = 0; i < output && !found; i++) {
        sheaf_plan_output(plan, i, &port);
        found = strcmp(port.name, name) == 0;
    }
    return found;
}

void collect_result(const struct sheaf_plan *plan, const struct sheaf_result *result, struct observed *observed)
{
    struct sheaf_result_info info = {.size = sizeof info};
    sheaf_result_info(result, &info);
    collect_status(&info, observed);
    for (size_t output = 0; output < sheaf_plan_output_count(plan); output++) {
        struct sheaf_plan_port port = {.size = sizeof port};
        struct sheaf_item item = {.size = sizeof item};
        sheaf_plan_output(plan, output, &port);
        bool known = named_before(plan, output, port.name);
        for (size_t i = 0; !known && sheaf_result_item(result, output, i, &item) == 0; i++) {
            if (item.depth != port.depth || item.coordinate[0] != info.root)
                observed_trouble(observed, "an Item of %s lies elsewhere than its Port or root", port.name);
            json_array_append_new(json_object_get(observed->outputs, port.name), entry_json(&port, &item, observed));
        }
    }
}

/* ---- after the run ---- */

/* Its root, then its place among the entries as they came. */
struct place {
    json_int_t root;
    size_t position;
};

static int compare_places(const void *a, const void *b)
{
    const struct place *one = a, *other = b;
    if (one->root != other->root)
        return one->root < other->root ? -1 : 1;
    return one->position < other->position ? -1 : one->position > other->position;
}

/* Roots finish in any order. Within one the order must be that of Coordinates, and is left as it came. */
static void sort_entries(json_t *entries)
{
    size_t count = json_array_size(entries);
    struct place *places = calloc(count + 1, sizeof *places);
    json_t *sorted = json_array();
    for (size_t i = 0; places && i < count; i++) {
        const json_t *at = json_object_get(json_array_get(entries, i), "at");
        places[i] = (struct place){json_integer_value(json_array_get(at, 0)), i};
    }
    if (places)
        qsort(places, count, sizeof *places, compare_places);
    for (size_t i = 0; places && i < count; i++)
        json_array_append(sorted, json_array_get(entries, places[i].position));
    json_array_clear(entries);
    json_array_extend(entries, sorted);
    json_decref(sorted);
    free(places);
}

static json_int_t number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* docs/SEMANTICS.md section 4: every run and every output balances. */
static void check_balance(const json_t *ledger, struct observed *observed)
{
    size_t i;
    json_t *output;
    if (number(ledger, "inputs") != number(ledger, "ok") + number(ledger, "partial") + number(ledger, "filtered") +
                                        number(ledger, "failed") + number(ledger, "skipped"))
        observed_trouble(observed, "the ledger does not balance: inputs");
    json_array_foreach(json_object_get(ledger, "outputs"), i, output)
    {
        if (number(output, "entities") != number(output, "present") + number(output, "dropped") +
                                              number(output, "failed") + number(output, "suppressed"))
            observed_trouble(observed, "the ledger does not balance: output %zu", i);
    }
}

void collect_ledger(const char *text, struct observed *observed)
{
    json_t *ledger = json_loads(text, 0, NULL), *entries, *call;
    const char *name;
    size_t i;
    json_array_foreach(json_object_get(ledger, "calls"), i, call)
    {
        json_object_set(observed->started, json_string_value(json_object_get(call, "call")),
                        json_object_get(call, "started"));
    }
    json_object_foreach(observed->outputs, name, entries) sort_entries(entries);
    if (!ledger)
        observed_trouble(observed, "the ledger is no JSON");
    else if (observed->end == CASE_RAN)
        check_balance(ledger, observed);
    json_decref(ledger);
}
