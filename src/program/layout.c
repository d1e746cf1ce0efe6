/* SPDX-License-Identifier: Apache-2.0 */
/* The index arrays of a Plan, its Pools, and the warnings of rows 12 and 13. */
#include <stdio.h>
#include <string.h>

#include "program/compile.h"

/* Turns counts into firsts: `first` of each is the sum of the counts before. */
#define LAY_OUT(elements, element_count, first, count)                                                                 \
    for (uint32_t lay_i = 0, lay_sum = 0; lay_i < (element_count); lay_i++) {                                          \
        (elements)[lay_i].first = lay_sum;                                                                             \
        lay_sum += (elements)[lay_i].count;                                                                            \
    }

static int index_domains(struct compile *compile)
{
    struct sheaf_plan *plan = compile->plan;
    plan->domain_calls = memory_array(compile->memory, plan->call_count, sizeof(uint32_t));
    plan->domain_ports = memory_array(compile->memory, plan->port_count, sizeof(uint32_t));
    plan->domain_children = memory_array(compile->memory, plan->domain_count, sizeof(uint32_t));
    plan->call_expansions = memory_array(compile->memory, plan->domain_count, sizeof(uint32_t));
    uint32_t *children = memory_array(&compile->scratch, plan->domain_count, sizeof(uint32_t));
    uint32_t *expansions = memory_array(&compile->scratch, plan->call_count, sizeof(uint32_t));
    if (!plan->domain_calls || !plan->domain_ports || !plan->domain_children || !plan->call_expansions || !children ||
        !expansions)
        return compile_no_memory(compile);
    for (uint32_t i = 0; i < plan->domain_count; i++)
        plan->domains[i].port_count = plan->domains[i].column_count;
    LAY_OUT(plan->domains, plan->domain_count, call_first, call_count)
    LAY_OUT(plan->domains, plan->domain_count, port_first, port_count)
    LAY_OUT(plan->domains, plan->domain_count, child_first, child_count)
    LAY_OUT(plan->calls, plan->call_count, expansion_first, expansion_count)
    for (uint32_t i = 0; i < plan->call_count; i++)
        plan->domain_calls[plan->domains[plan->calls[i].domain].call_first + plan->calls[i].position] = i;
    for (uint32_t i = 0; i < plan->port_count; i++)
        plan->domain_ports[plan->domains[plan->ports[i].domain].port_first + plan->ports[i].column] = i;
    for (uint32_t i = 1; i < plan->domain_count; i++) {
        uint32_t parent = plan->domains[i].parent, call = plan->domains[i].call;
        plan->domain_children[plan->domains[parent].child_first + children[parent]++] = i;
        plan->call_expansions[plan->calls[call].expansion_first + expansions[call]++] = i;
    }
    return 0;
}

/* Calls `add` of every live reader's edge: reading Port or Call, and the Port it reads. */
static void each_edge(const struct compile *compile,
                      void (*add)(struct sheaf_plan *plan, uint32_t *last, uint32_t port, bool is_call,
                                  uint32_t reader),
                      uint32_t *last)
{
    struct sheaf_plan *plan = compile->plan;
    for (uint32_t i = 0; i < compile->unit_count; i++) {
        uint32_t index = compile->units[i].index;
        if (compile->units[i].is_call) {
            const struct plan_call *call = &plan->calls[index];
            for (uint32_t input = 0; call->live && input < call->input_count; input++)
                add(plan, last, plan->call_ports[call->input_first + input], true, index);
            continue;
        }
        const struct plan_port *port = &plan->ports[index];
        const uint32_t read[] = {port->port_kind == PLAN_EXPAND ? PLAN_NONE : port->source, port->members, port->mask};
        for (size_t j = 0; port->live && j < sizeof(read) / sizeof(read[0]); j++)
            if (read[j] != PLAN_NONE)
                add(plan, last, read[j], false, index);
    }
}

/* A reader's edges to one Port come one after the other or not at all in between for that Port: comparing with the
 * Port's last reader finds every repetition. */
static bool is_new(uint32_t *last, uint32_t port, bool is_call, uint32_t reader)
{
    uint32_t name = reader * 2 + is_call + 1;
    bool fresh = last[port] != name;
    last[port] = name;
    return fresh;
}

static void count_reader(struct sheaf_plan *plan, uint32_t *last, uint32_t port, bool is_call, uint32_t reader)
{
    plan->ports[port].reader_count += is_new(last, port, is_call, reader);
}

static void add_reader(struct sheaf_plan *plan, uint32_t *last, uint32_t port, bool is_call, uint32_t reader)
{
    struct plan_port *read = &plan->ports[port];
    if (is_new(last, port, is_call, reader))
        plan->readers[read->reader_first + read->reader_count++] = (struct plan_reader){is_call, reader};
}

static int index_readers(struct compile *compile)
{
    struct sheaf_plan *plan = compile->plan;
    uint32_t *last = memory_array(&compile->scratch, plan->port_count, sizeof(uint32_t));
    if (!last)
        return compile_no_memory(compile);
    each_edge(compile, count_reader, last);
    LAY_OUT(plan->ports, plan->port_count, reader_first, reader_count)
    uint32_t total = 0;
    for (uint32_t i = 0; i < plan->port_count; i++) {
        total += plan->ports[i].reader_count;
        plan->ports[i].reader_count = 0;
        last[i] = 0;
    }
    plan->readers = memory_array(compile->memory, total, sizeof(*plan->readers));
    if (!plan->readers)
        return compile_no_memory(compile);
    each_edge(compile, add_reader, last);
    return 0;
}

static const char *pool_name(const struct compile *compile, const struct sheaf_plan *plan, uint32_t call)
{
    const struct sheaf_call *given = &compile->program->steps[compile->call_steps[call]].call;
    if (plan->calls[call].device == PLAN_ANY_DEVICE)
        return "gpu";
    return given->pool ? given->pool : given->name;
}

/* A device has one process, so all Calls for devices share a Pool, whatever they call it. */
static bool shares_pool(const struct plan_pool *pool, const struct plan_call *call, const char *name)
{
    return call->device == pool->device && (call->device != PLAN_NO_DEVICE || strcmp(pool->name, name) == 0);
}

/* Calls of one Pool name share a Pool. Two rounds, so that Pools with a live Call come first. */
static int make_pools(struct compile *compile, struct sheaf_plan *plan)
{
    plan->pool_count = 0;
    plan->pools = memory_array(compile->memory, plan->call_count, sizeof(*plan->pools));
    plan->pool_calls = memory_array(compile->memory, plan->call_count, sizeof(uint32_t));
    if (!plan->pools || !plan->pool_calls)
        return compile_no_memory(compile);
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < plan->call_count; i++) {
            struct plan_call *call = &plan->calls[i];
            if (call->live != (round == 0))
                continue;
            const char *name = pool_name(compile, plan, i);
            uint32_t pool = 0;
            while (pool < plan->pool_count && !shares_pool(&plan->pools[pool], call, name))
                pool++;
            if (pool == plan->pool_count) {
                plan->pools[plan->pool_count].device = call->device;
                plan->pools[plan->pool_count++].name = memory_string(compile->memory, name);
                if (!plan->pools[pool].name)
                    return compile_no_memory(compile);
            }
            call->pool = pool;
            plan->pools[pool].call_count += call->live;
            if (call->live && call->replicas > plan->pools[pool].replicas)
                plan->pools[pool].replicas = call->replicas;
        }
    }
    LAY_OUT(plan->pools, plan->pool_count, call_first, call_count)
    uint32_t *filled = memory_array(&compile->scratch, plan->pool_count, sizeof(uint32_t));
    if (!filled)
        return compile_no_memory(compile);
    for (uint32_t i = 0; i < plan->call_count; i++)
        if (plan->calls[i].live)
            plan->pool_calls[plan->pools[plan->calls[i].pool].call_first + filled[plan->calls[i].pool]++] = i;
    return 0;
}

int compile_layout(struct compile *compile)
{
    int status = index_domains(compile);
    if (status == 0)
        status = index_readers(compile);
    return status == 0 ? make_pools(compile, compile->plan) : status;
}

int compile_on_host(struct compile *compile)
{
    const struct sheaf_plan *plan = compile->plan;
    uint32_t changed = 0;
    struct sheaf_plan *on_host = memory_array(compile->memory, 1, sizeof(*on_host));
    if (!on_host)
        return compile_no_memory(compile);
    *on_host = *plan;
    on_host->calls = memory_array(compile->memory, plan->call_count, sizeof(*on_host->calls));
    if (!on_host->calls)
        return compile_no_memory(compile);
    for (uint32_t i = 0; i < plan->call_count; i++) {
        struct plan_call *call = &on_host->calls[i];
        *call = plan->calls[i];
        if (call->device != PLAN_ANY_DEVICE || !call->op->run)
            continue;
        call->device = PLAN_NO_DEVICE;
        call->by_rows = true;
        call->batch = false;
        changed++;
    }
    int status = changed > 0 ? make_pools(compile, on_host) : 0;
    if (status == 0 && changed > 0)
        compile->plan->on_host = on_host;
    return status;
}

static int warn(struct compile *compile, uint32_t row, const struct program_step *step, const char *text)
{
    struct sheaf_plan *plan = compile->plan;
    const char *name = compile->program->text_name;
    char place[256] = "";
    if (name && step->line > 0)
        snprintf(place, sizeof(place), "%.200s:%u: ", name, step->line);
    else if (name)
        snprintf(place, sizeof(place), "%.200s: ", name);
    char *line = memory_print(compile->memory, "%s%s \"%s\": %s", place, program_step_word(step->step_kind),
                              program_step_name(step), text);
    if (!line)
        return compile_no_memory(compile);
    plan->warnings[plan->warning_count++] = (struct plan_warning){row, line};
    return 0;
}

/* Row 12: a Domain that no gather closes and that has no output in it or below it. */
static int warn_open_domains(struct compile *compile)
{
    const struct sheaf_plan *plan = compile->plan;
    bool *closed = memory_array(&compile->scratch, plan->domain_count, sizeof(*closed));
    bool *output_below = memory_array(&compile->scratch, plan->domain_count, sizeof(*output_below));
    if (!closed || !output_below)
        return compile_no_memory(compile);
    for (uint32_t i = 0; i < plan->port_count; i++)
        if (plan->ports[i].port_kind == PLAN_GATHER)
            closed[plan->ports[plan->ports[i].source].domain] = true;
    for (uint32_t i = 0; i < plan->output_count; i++)
        output_below[plan->ports[plan->outputs[i].port].domain] = true;
    for (uint32_t i = plan->domain_count; i-- > 1;)
        output_below[plan->domains[i].parent] |= output_below[i];
    for (uint32_t i = 1; i < plan->domain_count; i++) {
        if (closed[i] || output_below[i])
            continue;
        char text[320];
        snprintf(
            text, sizeof(text),
            "nothing closes its Domain \"%.100s\": gather a Port of it, or make one an output, or remove the expand",
            plan->domains[i].name);
        int status = warn(compile, 12, &compile->program->steps[compile->relations[i].step], text);
        if (status != 0)
            return status;
    }
    return 0;
}

int compile_warnings(struct compile *compile)
{
    struct sheaf_plan *plan = compile->plan;
    plan->warnings = memory_array(compile->memory, plan->domain_count + plan->call_count, sizeof(*plan->warnings));
    if (!plan->warnings)
        return compile_no_memory(compile);
    int status = warn_open_domains(compile);
    for (uint32_t i = 0; status == 0 && i < plan->call_count; i++) {
        const struct plan_call *call = &plan->calls[i];
        char text[320];
        snprintf(text, sizeof(text), "feeds no output, so it does not run%s%.100s%s",
                 call->output_count ? "; make \"" : "",
                 call->output_count ? plan->ports[plan->call_ports[call->output_first]].name : "",
                 call->output_count ? "\", or something made from it, an output, or remove the Call" : "");
        if (!call->live)
            status = warn(compile, 13, &compile->program->steps[compile->call_steps[i]], text);
    }
    return status;
}
