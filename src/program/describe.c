/* SPDX-License-Identifier: Apache-2.0 */
/* What a Plan looks like, for people. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/plan.h"
#include "program/text.h"

static const char *port_word(const struct plan_port *port)
{
    static const char *const words[] = {"source", "output of", "expand", "gather", "broadcast", "filter"};
    return port->port_kind == PLAN_GATHER && port->partial ? "partial gather" : words[port->port_kind];
}

static void write_port_text(FILE *to, const struct sheaf_plan *plan, const struct plan_port *port)
{
    char kind[KIND_TEXT_BYTES];
    fprintf(to, "    port %s: %s = %s", port->name, kind_text(port->kind, kind), port_word(port));
    if (port->port_kind == PLAN_CALL_OUTPUT)
        fprintf(to, " %s%s", plan->calls[port->call].name, port->group ? ", a group" : "");
    if (port->source != PLAN_NONE)
        fprintf(to, " %s", plan->ports[port->source].name);
    if (port->members != PLAN_NONE && port->members != port->source)
        fprintf(to, ", members %s", plan->ports[port->members].name);
    if (port->mask != PLAN_NONE)
        fprintf(to, ", mask %s", plan->ports[port->mask].name);
    fprintf(to, "%s%s\n", port->needs_final ? ", waits for final inputs" : "", port->live ? "" : ", not observed");
}

static const char *pool_on_host(const struct sheaf_plan *plan, const struct plan_call *call)
{
    const struct sheaf_plan *on_host = plan->on_host;
    return on_host->pools[on_host->calls[call - plan->calls].pool].name;
}

static void write_call_text(FILE *to, const struct sheaf_plan *plan, const struct plan_call *call)
{
    fprintf(to, "    call %s: %s %s (", call->name, call->op->name, call->op->version);
    for (uint32_t i = 0; i < call->input_count; i++)
        fprintf(to, "%s%s", i ? ", " : "", plan->ports[plan->call_ports[call->input_first + i]].name);
    fputs(") -> (", to);
    for (uint32_t i = 0; i < call->output_count; i++)
        fprintf(to, "%s%s", i ? ", " : "", plan->ports[plan->call_ports[call->output_first + i]].name);
    fprintf(to, "), pool %s", plan->pools[call->pool].name);
    if (call->device == PLAN_ANY_DEVICE && plan->on_host)
        fprintf(to, " (%s where there is no device)", pool_on_host(plan, call));
    fprintf(to, ", batch %u", call->batch_rows);
    if (call->batch_bytes)
        fprintf(to, " of at most %" PRIu64 " bytes", call->batch_bytes);
    if (call->timeout_ms)
        fprintf(to, ", timeout %u ms", call->timeout_ms);
    if (call->recovery == SHEAF_RECOVERY_RETRY)
        fprintf(to, ", %u retries", call->retries);
    if (call->recovery == SHEAF_RECOVERY_ABORT)
        fputs(", aborts the run", to);
    fprintf(to, "%s%s", call->side_effect ? ", side effect" : "", call->needs_final ? ", waits for final inputs" : "");
    if (call->live)
        fprintf(to, ", priority %u\n", call->priority);
    else
        fputs(", does not run\n", to);
}

static bool is_the_default(const struct sheaf_option *option, const struct sheaf_option_value *value)
{
    const struct sheaf_option_value *fallback = &option->fallback;
    if (option->required || value->type != fallback->type || value->count != fallback->count)
        return false;
    switch (value->type) {
    case SHEAF_OPTION_TEXT:
        return strcmp(value->text, fallback->text ? fallback->text : "") == 0;
    case SHEAF_OPTION_I64_LIST:
    case SHEAF_OPTION_TEXT_LIST:
        return value->count == 0;
    case SHEAF_OPTION_BOOL:
        return value->boolean == fallback->boolean;
    case SHEAF_OPTION_F64:
        return value->f64 <= fallback->f64 && value->f64 >= fallback->f64;
    default:
        return value->i64 == fallback->i64;
    }
}

/* Of a list only how long it is: it may be of passwords, and a description is printed and stored. */
static void write_option_value(FILE *to, const struct sheaf_option_value *value)
{
    switch (value->type) {
    case SHEAF_OPTION_BOOL:
        fputs(value->boolean ? "true" : "false", to);
        break;
    case SHEAF_OPTION_F64:
        fprintf(to, "%g", value->f64);
        break;
    case SHEAF_OPTION_TEXT:
        fprintf(to, "%s", value->text);
        break;
    case SHEAF_OPTION_I64_LIST:
    case SHEAF_OPTION_TEXT_LIST:
        fprintf(to, "a list of %u", value->count);
        break;
    default:
        fprintf(to, "%" PRId64, value->i64);
        break;
    }
}

/* What is not as the operator has it by itself. */
static void write_options(FILE *to, const struct plan_call *call)
{
    for (uint32_t i = 0; i < call->op->option_count; i++) {
        if (is_the_default(&call->op->options[i], &call->options[i]))
            continue;
        fprintf(to, "    option %s.%s: ", call->name, call->op->options[i].name);
        write_option_value(to, &call->options[i]);
        fputs("\n", to);
    }
}

static void write_text(FILE *to, const struct sheaf_plan *plan)
{
    fprintf(to, "plan %s\n", plan->fingerprint);
    for (uint32_t i = 0; i < plan->domain_count; i++) {
        const struct plan_domain *domain = &plan->domains[i];
        if (domain->parent == PLAN_NONE)
            fputs("  root domain\n", to);
        else
            fprintf(to, "  domain %s (depth %u): expands call %s, under %s%s\n", domain->name, domain->depth,
                    plan->calls[domain->call].name,
                    domain->parent == 0 ? "the root" : plan->domains[domain->parent].name,
                    domain->live ? "" : ", not observed");
        for (uint32_t j = 0; j < domain->port_count; j++)
            write_port_text(to, plan, &plan->ports[plan->domain_ports[domain->port_first + j]]);
        for (uint32_t j = 0; j < domain->call_count; j++) {
            write_call_text(to, plan, &plan->calls[plan->domain_calls[domain->call_first + j]]);
            write_options(to, &plan->calls[plan->domain_calls[domain->call_first + j]]);
        }
    }
    for (uint32_t i = 0; i < plan->output_count; i++)
        fprintf(to, "  output %s%s%s\n", plan->outputs[i].name, plan->outputs[i].file ? " in files " : "",
                plan->outputs[i].file ? plan->outputs[i].file : "");
    for (uint32_t i = 0; i < plan->warning_count; i++)
        fprintf(to, "  warning (row %u): %s\n", plan->warnings[i].row, plan->warnings[i].text);
}

static void write_dot_text(FILE *to, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putc('\\', to);
        putc((unsigned char)*text < ' ' ? ' ' : *text, to);
    }
}

static void write_dot_edge(FILE *to, uint32_t from, char sort, uint32_t index, const char *style)
{
    if (from != PLAN_NONE)
        fprintf(to, "  p%u -> %c%u%s;\n", from, sort, index, style);
}

static void write_dot_edges(FILE *to, const struct sheaf_plan *plan)
{
    for (uint32_t i = 0; i < plan->port_count; i++) {
        const struct plan_port *port = &plan->ports[i];
        if (port->port_kind == PLAN_CALL_OUTPUT)
            fprintf(to, "  c%u -> p%u;\n", port->call, i);
        write_dot_edge(to, port->source, 'p', i, "");
        if (port->members != port->source)
            write_dot_edge(to, port->members, 'p', i, " [style=dashed, label=members]");
        write_dot_edge(to, port->mask, 'p', i, " [style=dashed, label=mask]");
    }
    for (uint32_t i = 0; i < plan->call_count; i++)
        for (uint32_t j = 0; j < plan->calls[i].input_count; j++)
            write_dot_edge(to, plan->call_ports[plan->calls[i].input_first + j], 'c', i, "");
    for (uint32_t i = 0; i < plan->output_count; i++) {
        fprintf(to, "  o%u [shape=note, label=\"", i);
        write_dot_text(to, plan->outputs[i].file ? plan->outputs[i].file : plan->outputs[i].name);
        fprintf(to, "\"];\n  p%u -> o%u;\n", plan->outputs[i].port, i);
    }
}

static void write_dot(FILE *to, const struct sheaf_plan *plan)
{
    fputs("digraph plan {\n  rankdir=LR;\n  node [fontname=\"sans-serif\", fontsize=10];\n", to);
    for (uint32_t i = 0; i < plan->domain_count; i++) {
        const struct plan_domain *domain = &plan->domains[i];
        fprintf(to, "  subgraph cluster_%u {\n    label=\"", i);
        write_dot_text(to, i == 0 ? "root" : domain->name);
        fputs("\";\n", to);
        for (uint32_t j = 0; j < domain->port_count; j++) {
            uint32_t port = plan->domain_ports[domain->port_first + j];
            char kind[KIND_TEXT_BYTES];
            fprintf(to, "    p%u [shape=ellipse%s, label=\"", port, plan->ports[port].live ? "" : ", style=dotted");
            write_dot_text(to, plan->ports[port].name);
            fprintf(to, "\\n%s %s\"];\n", port_word(&plan->ports[port]), kind_text(plan->ports[port].kind, kind));
        }
        for (uint32_t j = 0; j < domain->call_count; j++) {
            uint32_t call = plan->domain_calls[domain->call_first + j];
            fprintf(to, "    c%u [shape=box%s, label=\"", call, plan->calls[call].live ? "" : ", style=dotted");
            write_dot_text(to, plan->calls[call].name);
            fprintf(to, "\\n%s\"];\n", plan->calls[call].op->name);
        }
        fputs("  }\n", to);
    }
    write_dot_edges(to, plan);
    fputs("}\n", to);
}

int sheaf_plan_describe(const struct sheaf_plan *plan, const char *format, char **ret_text)
{
    if (!plan || !format || !ret_text)
        return -EINVAL;
    bool dot = strcmp(format, "dot") == 0;
    if (!dot && strcmp(format, "text") != 0)
        return SHEAF_E_USAGE;
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    if (!to)
        return -ENOMEM;
    if (dot)
        write_dot(to, plan);
    else
        write_text(to, plan);
    if (fclose(to) != 0) {
        free(text);
        return -ENOMEM;
    }
    *ret_text = text;
    return 0;
}
