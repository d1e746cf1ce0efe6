/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lineage/witness.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEAP_SEGMENT = 1 };

void witness_open(struct witness *w, const struct sheaf_plan *plan, json_t *const *columns, struct played *ret_played)
{
    uint32_t roots = plan->source_count ? (uint32_t)json_array_size(columns[0]) : 0;
    *ret_played = (struct played){
        .outputs = json_object(), .roots = json_array(), .dispatched = json_object(), .started = json_object()};
    *w = (struct witness){.plan = plan,
                          .columns = columns,
                          .out = ret_played,
                          .roots = roots,
                          .results = calloc(roots + 1, sizeof(json_t *))};
    for (uint32_t i = 0; i < plan->call_count; i++)
        json_object_set_new(ret_played->started, plan->calls[i].name, json_object());
}

void witness_close(struct witness *w)
{
    for (uint32_t i = 0; i < w->roots; i++)
        json_decref(w->results[i]);
    for (uint64_t i = 1; i <= w->value_count; i++) /* an aborted run leaves live ones */
        if (w->values[i] == 1)
            json_decref(w->held[i]);
    free(w->results);
    free(w->values);
    free(w->held);
}

void played_clear(struct played *played)
{
    json_decref(played->outputs);
    json_decref(played->roots);
    json_decref(played->dispatched);
    json_decref(played->started);
}

void witness_breach(struct witness *w, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    if (!w->out->breach[0])
        vsnprintf(w->out->breach, sizeof(w->out->breach), format, values);
    va_end(values);
}

/* ---- values ---- */

struct value_ref witness_value(struct witness *w, json_t *json)
{
    if (w->value_count + 1 >= w->value_capacity) {
        w->value_capacity = w->value_capacity ? w->value_capacity * 2 : 256;
        w->values = realloc(w->values, w->value_capacity);
        w->held = realloc(w->held, w->value_capacity * sizeof(*w->held));
    }
    w->values[++w->value_count] = 1;
    w->held[w->value_count] = NULL;
    struct value_ref ref = {.hash = w->value_count};
    if (json_is_boolean(json)) {
        ref.kind = SHEAF_BOOL;
        ref.offset = json_is_true(json);
    } else {
        ref.kind = SHEAF_ANY;
        ref.segment = HEAP_SEGMENT;
        ref.offset = (uint64_t)(uintptr_t)json_incref(json);
        w->held[w->value_count] = json;
    }
    return ref;
}

void witness_unused(struct witness *w, const struct value_ref *value)
{
    if (value->hash == 0 || value->hash > w->value_count || w->values[value->hash] != 1) {
        witness_breach(w, "value %llu is unused twice, or was never made", (unsigned long long)value->hash);
        return;
    }
    w->values[value->hash] = 2;
    if (value->segment == HEAP_SEGMENT)
        json_decref((json_t *)(uintptr_t)value->offset);
}

struct value_ref witness_source(struct witness *w, uint32_t root, uint32_t source)
{
    return witness_value(w, json_array_get(w->columns[source], root));
}

static json_t *value_json(struct witness *w, const struct lineage *lineage, const struct lineage_value *value)
{
    if (!value->is_list) {
        if (value->value.hash == 0 || w->values[value->value.hash] != 1) {
            witness_breach(w, "value %llu is read after it was unused", (unsigned long long)value->value.hash);
            return json_null();
        }
        if (value->value.segment != HEAP_SEGMENT)
            return json_boolean(value->value.offset);
        return json_incref((json_t *)(uintptr_t)value->value.offset);
    }
    json_t *list = json_array();
    struct lineage_cursor cursor;
    struct lineage_value element;
    lineage_list_open(lineage, value->list, &cursor);
    while (lineage_list_next(lineage, &cursor, &element))
        json_array_append_new(list, value_json(w, lineage, &element));
    if (json_array_size(list) != lineage_list_count(lineage, value->list))
        witness_breach(w, "a list does not have as many elements as it says");
    return list;
}

/* ---- rows ---- */

static char *coordinate_text(const struct lineage *lineage, uint32_t domain, uint32_t entity, char *text, size_t bytes)
{
    uint64_t at[32];
    uint32_t depth = lineage_coordinate(lineage, domain, entity, at, 32);
    int length = 0;
    for (uint32_t i = 0; i < depth && (size_t)length < bytes; i++)
        length += snprintf(text + length, bytes - (size_t)length, i ? ",%llu" : "%llu", (unsigned long long)at[i]);
    return text;
}

void witness_run(struct witness *w, const struct lineage *lineage, struct grain grain, uint32_t attempt,
                 struct row_result *ret_result)
{
    const struct plan_call *call = &w->plan->calls[grain.call];
    json_t *inputs = json_array();
    char at[256];
    for (uint32_t i = 0; i < call->input_count; i++) {
        struct lineage_value value;
        lineage_input(lineage, grain, i, &value);
        json_array_append_new(inputs, value_json(w, lineage, &value));
    }
    operator_run(call, inputs, attempt, ret_result);
    json_decref(inputs);
    json_object_set_new(json_object_get(w->out->started, call->name),
                        coordinate_text(lineage, call->domain, grain.entity, at, sizeof(at)), json_true());
}

uint32_t witness_children(const struct witness *w, uint32_t call, uint32_t expansion, const struct row_result *result)
{
    uint32_t domain = w->plan->call_expansions[w->plan->calls[call].expansion_first + expansion];
    for (uint32_t i = 0; i < w->plan->port_count; i++) {
        const struct plan_port *port = &w->plan->ports[i];
        if (port->port_kind == PLAN_EXPAND && port->domain == domain)
            return (uint32_t)json_array_size(json_array_get(result->outputs, port->slot));
    }
    return 0;
}

enum sheaf_class witness_class(enum row_end end)
{
    switch (end) {
    case ROW_CRASHES:
        return SHEAF_CLASS_CRASHED;
    case ROW_HANGS:
        return SHEAF_CLASS_TIMEOUT;
    case ROW_BREAKS:
    case ROW_BREAKS_ANSWER:
        return SHEAF_CLASS_CONTRACT;
    case ROW_ANSWERS:
    case ROW_DECLARES:
    case ROW_RAISES:
        break;
    }
    return SHEAF_CLASS_OPERATOR;
}

/* ---- results ---- */

static json_t *coordinate_json(const struct lineage *lineage, uint32_t domain, uint32_t entity)
{
    uint64_t at[32];
    uint32_t depth = lineage_coordinate(lineage, domain, entity, at, 32);
    json_t *json = json_array();
    for (uint32_t i = 0; i < depth; i++)
        json_array_append_new(json, json_integer((json_int_t)at[i]));
    return json;
}

static json_t *errors_json(struct witness *w, const struct lineage *lineage, const struct lineage_item *item)
{
    struct lineage_cursor cursor;
    struct lineage_list_error error;
    json_t *errors = json_array();
    lineage_list_open(lineage, item->value.list, &cursor);
    while (lineage_list_error_next(lineage, &cursor, &error)) {
        json_t *at = coordinate_json(lineage, item->domain, item->entity);
        json_array_append_new(at, json_integer((json_int_t)error.ordinal));
        json_array_append_new(errors, at);
        if (error.length_bytes == 0)
            witness_breach(w, "an error of a partial gather says nothing");
    }
    return errors;
}

static json_t *entry_json(struct witness *w, const struct lineage *lineage, uint32_t output,
                          const struct lineage_item *item)
{
    static const char *const letters[] = {"?", "P", "D", "F", "S"};
    json_t *entry = json_object();
    json_object_set_new(entry, "at", coordinate_json(lineage, item->domain, item->entity));
    json_object_set_new(entry, "o", json_string(letters[item->outcome]));
    if (item->outcome == LINEAGE_PRESENT) {
        json_object_set_new(entry, "v", value_json(w, lineage, &item->value));
        const struct plan_port *port = &w->plan->ports[w->plan->outputs[output].port];
        if (port->port_kind == PLAN_GATHER && port->partial) {
            json_t *errors = errors_json(w, lineage, item);
            if (item->partial != (json_array_size(errors) > 0))
                witness_breach(w, "a partial gather and its errors disagree");
            if (item->partial)
                json_object_set(entry, "errs", errors);
            json_decref(errors);
        }
    }
    if (item->outcome == LINEAGE_FAILED || item->outcome == LINEAGE_SUPPRESSED) {
        json_object_set_new(entry, "cause", json_stringn(item->cause, item->cause_length_bytes));
        json_object_set_new(entry, "class", json_string(sheaf_class_name(item->class_id)));
        if (item->cause_length_bytes == 0)
            witness_breach(w, "a failure without a cause");
    }
    return entry;
}

void witness_collect(struct witness *w, const struct lineage *lineage, uint32_t root)
{
    static const char *const names[] = {"ok", "partial", "filtered", "failed"};
    uint64_t index = lineage_root_tag(lineage, root);
    json_t *result = json_object();
    if (index != lineage_root_index(lineage, root))
        witness_breach(w, "a root has another's tag");
    for (uint32_t i = 0; i < w->plan->output_count; i++) {
        json_t *entries = json_array();
        struct lineage_item_cursor cursor;
        struct lineage_item item;
        lineage_items_open(lineage, root, i, &cursor);
        while (lineage_items_next(lineage, &cursor, &item))
            json_array_append_new(entries, entry_json(w, lineage, i, &item));
        json_object_set_new(result, w->plan->outputs[i].name, entries);
    }
    json_object_set_new(result, "", json_string(names[lineage_root_status(lineage, root)]));
    json_decref(w->results[index]);
    w->results[index] = result;
}

void witness_finish(struct witness *w)
{
    uint64_t live = 0;
    for (uint64_t i = 1; i <= w->value_count; i++)
        live += w->values[i] == 1;
    if (live)
        witness_breach(w, "%llu values were never unused", (unsigned long long)live);
    for (uint32_t i = 0; i < w->plan->output_count; i++) {
        json_t *all = json_array();
        for (uint32_t root = 0; root < w->roots; root++)
            json_array_extend(all, json_object_get(w->results[root], w->plan->outputs[i].name));
        json_object_set_new(w->out->outputs, w->plan->outputs[i].name, all);
    }
    for (uint32_t root = 0; root < w->roots; root++)
        json_array_append(w->out->roots, json_object_get(w->results[root], ""));
    for (uint32_t i = 0; i < w->plan->call_count; i++) {
        const char *name = w->plan->calls[i].name;
        json_object_set_new(w->out->dispatched, name,
                            json_integer((json_int_t)json_object_size(json_object_get(w->out->started, name))));
    }
}
