/* SPDX-License-Identifier: Apache-2.0 */
#include "program/canonical.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "program/text.h"

/* Quoted, so that no name or text can look like the syntax around it. */
static void write_text(FILE *to, const char *text)
{
    putc('"', to);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fprintf(to, "\\%c", *text);
        else if ((unsigned char)*text < ' ')
            fprintf(to, "\\x%02x", (unsigned char)*text);
        else
            putc(*text, to);
    }
    putc('"', to);
}

static void write_value(FILE *to, const struct sheaf_option_value *value)
{
    switch (value->type) {
    case SHEAF_OPTION_BOOL:
        fputs(value->boolean ? "true" : "false", to);
        break;
    case SHEAF_OPTION_I64:
        fprintf(to, "%" PRId64, value->i64);
        break;
    case SHEAF_OPTION_F64:
        fprintf(to, "%a", value->f64);
        break;
    case SHEAF_OPTION_TEXT:
        write_text(to, value->text);
        break;
    case SHEAF_OPTION_I64_LIST:
    case SHEAF_OPTION_TEXT_LIST:
        putc('[', to);
        for (uint32_t i = 0; i < value->count; i++) {
            if (i > 0)
                putc(',', to);
            if (value->type == SHEAF_OPTION_I64_LIST)
                fprintf(to, "%" PRId64, value->i64s[i]);
            else
                write_text(to, value->texts[i]);
        }
        putc(']', to);
        break;
    default:
        break;
    }
}

static void write_port_name(FILE *to, const struct sheaf_plan *plan, const char *key, uint32_t port)
{
    if (port == PLAN_NONE)
        return;
    fprintf(to, " %s=", key);
    write_text(to, plan->ports[port].name);
}

static void write_call(FILE *to, const struct sheaf_plan *plan, const struct plan_call *call)
{
    static const char *const recoveries[] = {"fail", "retry", "abort"};
    fputs("call ", to);
    write_text(to, call->name);
    fputs(" op=", to);
    write_text(to, call->op->name);
    fputs(" version=", to);
    write_text(to, call->op->version);
    for (uint32_t i = 0; i < call->input_count; i++)
        write_port_name(to, plan, "in", plan->call_ports[call->input_first + i]);
    for (uint32_t i = 0; i < call->output_count; i++)
        write_port_name(to, plan, "out", plan->call_ports[call->output_first + i]);
    for (uint32_t i = 0; i < call->op->option_count; i++) {
        fprintf(to, " %s=", call->op->options[i].name);
        write_value(to, &call->options[i]);
    }
    fprintf(to, " recovery=%s retries=%u timeout_ms=%u\n", recoveries[call->recovery], call->retries, call->timeout_ms);
}

static void write_port(FILE *to, const struct sheaf_plan *plan, const struct plan_port *port)
{
    static const char *const words[] = {"source", "output", "expand", "gather", "broadcast", "filter"};
    char kind[KIND_TEXT_BYTES];
    if (port->port_kind == PLAN_CALL_OUTPUT)
        return; /* named by its Call */
    fprintf(to, "%s ", words[port->port_kind]);
    write_text(to, port->name);
    fprintf(to, " kind=%s", kind_text(port->kind, kind));
    if (port->port_kind == PLAN_SOURCE)
        fprintf(to, " number=%u", port->slot);
    write_port_name(to, plan, "from", port->source);
    write_port_name(to, plan, "members", port->members);
    write_port_name(to, plan, "mask", port->mask);
    if (port->port_kind == PLAN_BROADCAST) {
        fputs(" domain=", to);
        write_text(to, plan->domains[port->domain].name);
    }
    if (port->port_kind == PLAN_GATHER)
        fprintf(to, " mode=%s", port->partial ? "partial" : "strict");
    putc('\n', to);
}

/* Aligned groups share a Domain: the Domain's name ties the expands together. */
static void write_domain(FILE *to, const struct sheaf_plan *plan, const struct plan_domain *domain)
{
    fputs("domain ", to);
    write_text(to, domain->name);
    fputs(" call=", to);
    write_text(to, plan->calls[domain->call].name);
    for (uint32_t i = 0; i < domain->port_count; i++) {
        uint32_t port = plan->domain_ports[domain->port_first + i];
        if (plan->ports[port].port_kind == PLAN_EXPAND)
            write_port_name(to, plan, "group", plan->ports[port].source);
    }
    putc('\n', to);
}

static void write_plan(FILE *to, const struct sheaf_plan *plan)
{
    for (uint32_t i = 0; i < plan->port_count; i++)
        if (plan->ports[i].live || plan->ports[i].port_kind == PLAN_SOURCE)
            write_port(to, plan, &plan->ports[i]);
    for (uint32_t i = 0; i < plan->call_count; i++)
        if (plan->calls[i].live)
            write_call(to, plan, &plan->calls[i]);
    for (uint32_t i = 1; i < plan->domain_count; i++)
        if (plan->domains[i].live)
            write_domain(to, plan, &plan->domains[i]);
    for (uint32_t i = 0; i < plan->output_count; i++) {
        fputs("output ", to);
        write_text(to, plan->outputs[i].name);
        write_port_name(to, plan, "port", plan->outputs[i].port);
        if (plan->outputs[i].file) {
            fputs(" file=", to);
            write_text(to, plan->outputs[i].file);
        }
        putc('\n', to);
    }
}

int plan_canonical_text(const struct sheaf_plan *plan, char **ret_text)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    if (!to)
        return -ENOMEM;
    write_plan(to, plan);
    if (fclose(to) != 0) {
        free(text);
        return -ENOMEM;
    }
    *ret_text = text;
    return 0;
}

int plan_fingerprint(struct sheaf_plan *plan)
{
    char *text;
    int status = plan_canonical_text(plan, &text);
    if (status != 0)
        return status;
    size_t bytes = strlen(text);
    XXH128_hash_t first = XXH3_128bits_withSeed(text, bytes, 0);
    XXH128_hash_t second = XXH3_128bits_withSeed(text, bytes, UINT64_C(0x9e3779b97f4a7c15));
    free(text);
    snprintf(plan->fingerprint, sizeof(plan->fingerprint), "%016" PRIx64 "%016" PRIx64 "%016" PRIx64 "%016" PRIx64,
             (uint64_t)first.high64, (uint64_t)first.low64, (uint64_t)second.high64, (uint64_t)second.low64);
    return 0;
}
