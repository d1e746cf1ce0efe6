/* SPDX-License-Identifier: Apache-2.0 */
/* `sheaf ops [NAME]`: the operators that are known, or all about one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "settings.h"

static void add_kind(struct text *text, sheaf_kind kind)
{
    static const char *const names[16] = {"none", "bool", "i64", "f64", "text", "bytes", "tensor", "record",
                                          "file", "?",    "?",   "?",   "?",    "?",     "?",      "any"};
    uint32_t depth = SHEAF_KIND_DEPTH(kind), base = SHEAF_KIND_BASE(kind);
    for (uint32_t i = 0; i < depth; i++)
        text_adds(text, "list<");
    text_adds(text, base < 16 ? names[base] : "?");
    for (uint32_t i = 0; i < depth; i++)
        text_adds(text, ">");
}

static void add_ports(struct text *text, const struct sheaf_port *ports, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        text_adds(text, i == 0 ? "" : ", ");
        if (ports[i].flags & SHEAF_PORT_GROUP)
            text_adds(text, "group ");
        add_kind(text, ports[i].kind);
    }
}

static const char *type_name(enum sheaf_option_type type)
{
    static const char *const names[] = {"?", "bool", "i64", "f64", "text", "list of i64", "list of text", "scalar"};
    return (unsigned)type < sizeof names / sizeof *names ? names[type] : "?";
}

static void add_value(struct text *text, const struct sheaf_option_value *value)
{
    switch (value->type) {
    case SHEAF_OPTION_BOOL:
        text_adds(text, value->boolean ? "true" : "false");
        break;
    case SHEAF_OPTION_I64:
        text_addf(text, "%lld", (long long)value->i64);
        break;
    case SHEAF_OPTION_F64:
        text_addf(text, "%g", value->f64);
        break;
    case SHEAF_OPTION_TEXT:
        text_add_json(text, value->text == NULL ? "" : value->text, value->text == NULL ? 0 : strlen(value->text));
        break;
    case SHEAF_OPTION_I64_LIST:
        text_adds(text, "[");
        for (uint32_t i = 0; i < value->count; i++)
            text_addf(text, "%s%lld", i > 0 ? ", " : "", (long long)value->i64s[i]);
        text_adds(text, "]");
        break;
    case SHEAF_OPTION_TEXT_LIST:
        text_adds(text, "[");
        for (uint32_t i = 0; i < value->count; i++) {
            text_adds(text, i > 0 ? ", " : "");
            text_add_json(text, value->texts[i], strlen(value->texts[i]));
        }
        text_adds(text, "]");
        break;
    default:
        break;
    }
}

static void add_options(struct text *text, const struct sheaf_operator *op)
{
    for (uint32_t i = 0; i < op->option_count; i++) {
        const struct sheaf_option *option = &op->options[i];
        text_addf(text, "  option %-16s %s", option->name, type_name(option->type));
        if (option->required) {
            text_adds(text, ", required");
        } else {
            text_adds(text, ", default ");
            add_value(text, &option->fallback);
        }
        if (option->min != 0 || option->max != 0)
            text_addf(text, ", %lld to %lld", (long long)option->min, (long long)option->max);
        if (option->choices != NULL)
            text_addf(text, ", %s", option->choices);
        text_addf(text, "\n    %s\n", option->summary == NULL ? "" : option->summary);
    }
}

static void add_flags(struct text *text, const struct sheaf_operator *op)
{
    static const char *const scopes[] = {"item", "group", "root"};
    text_addf(text, "  sees %s\n", op->flags & SHEAF_OPERATOR_BATCH ? "whole batches" : "one row at a time");
    if (op->flags & SHEAF_OPERATOR_DEVICE)
        text_addf(text, "  has kernels: runs on GPUs where there are any (--device)%s\n",
                  op->run != NULL ? "; else one row at a time" : "");
    if (op->flags & SHEAF_OPERATOR_SIDE_EFFECT)
        text_adds(text, "  has a side effect: runs even if nothing observes it\n");
    if (op->flags & SHEAF_OPERATOR_NONDETERMINISTIC)
        text_adds(text, "  the same input may give other bytes\n");
    text_addf(text, "  widest failure: %s\n", op->widest_failure < 3 ? scopes[op->widest_failure] : "?");
    if (op->timeout_ms > 0)
        text_addf(text, "  deadline of a row: %u ms\n", op->timeout_ms);
}

static void add_port_lines(struct text *text, const char *what, const struct sheaf_port *ports, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        text_addf(text, "  %s %-16s ", what, ports[i].name);
        add_ports(text, &ports[i], 1);
        text_addf(text, "%s\n", ports[i].flags & SHEAF_PORT_OPTIONAL ? ", may be left out" : "");
        if (ports[i].summary != NULL)
            text_addf(text, "    %s\n", ports[i].summary);
    }
}

static void add_whole(struct text *text, const struct sheaf_operator *op)
{
    text_addf(text, "%s, version %s\n  %s\n\n", op->name, op->version, op->summary);
    add_port_lines(text, "input ", op->inputs, op->input_count);
    add_port_lines(text, "output", op->outputs, op->output_count);
    add_options(text, op);
    add_flags(text, op);
}

static void add_short(struct text *text, const struct sheaf_operator *op)
{
    text_addf(text, "%-16s ", op->name);
    add_ports(text, op->inputs, op->input_count);
    text_adds(text, " -> ");
    add_ports(text, op->outputs, op->output_count);
    text_addf(text, "\n    %s\n", op->summary == NULL ? "" : op->summary);
}

static void add_json(struct text *text, const struct sheaf_operator *op)
{
    struct text kinds = {0};
    text_adds(text, "{");
    text_add_member(text, "name", op->name);
    text_add_member(text, "version", op->version);
    text_add_member(text, "summary", op->summary == NULL ? "" : op->summary);
    add_ports(&kinds, op->inputs, op->input_count);
    text_add_member(text, "inputs", text_string(&kinds));
    text_clear(&kinds);
    add_ports(&kinds, op->outputs, op->output_count);
    text_add_member(text, "outputs", text_string(&kinds));
    text_adds(text, "}\n");
    text_free(&kinds);
}

static int unknown(const struct sheaf_registry *registry, const char *name)
{
    size_t count = sheaf_registry_count(registry);
    const char **names = must_allocate((count + 1) * sizeof *names);
    for (size_t i = 0; i < count; i++)
        names[i] = sheaf_registry_operator(registry, i)->name;
    names[count] = NULL;
    const char *nearest = text_nearest(name, names);
    if (nearest != NULL)
        complain("ops: %s: no such operator; did you mean %s?", name, nearest);
    else
        complain("ops: %s: no such operator; try sheaf ops", name);
    free(names);
    return EXIT_USAGE;
}

static int print_operators(const struct sheaf_registry *registry, const struct settings *settings)
{
    struct text text = {0};
    if (settings_is(settings, SETTING_FORMAT, "dot")) {
        complain("ops: --format: 'dot' does not fit: want text|json");
        return EXIT_USAGE;
    }
    bool as_json = settings_is(settings, SETTING_FORMAT, "json");
    int code = EXIT_OK;
    if (settings->words.count > 1) {
        const struct sheaf_operator *op = sheaf_registry_find(registry, settings->words.items[1]);
        if (op == NULL)
            code = unknown(registry, settings->words.items[1]);
        else
            (as_json ? add_json : add_whole)(&text, op);
    } else {
        for (size_t i = 0; i < sheaf_registry_count(registry); i++)
            (as_json ? add_json : add_short)(&text, sheaf_registry_operator(registry, i));
    }
    fputs(text_string(&text), stdout);
    text_free(&text);
    return code;
}

int command_ops(const struct settings *settings)
{
    struct sheaf_error error = SHEAF_ERROR_INIT;
    struct sheaf_registry *registry = NULL;
    int status = sheaf_registry_create(&registry);
    if (status == 0)
        status = sheaf_registry_load_default(registry, &error);
    int code = status == 0 ? print_operators(registry, settings) : complain_error("operators", status, &error);
    if (status != 0 && code == EXIT_RUN_FAILED)
        code = EXIT_ENVIRONMENT;
    sheaf_registry_destroy(registry);
    return code;
}
