/* SPDX-License-Identifier: Apache-2.0 */
/* Sources and the structural operations (rows 1, 2, 3, 5, 6). Equal ones are the same Port. */
#include <string.h>
#include <xxhash.h>

#include "program/compile.h"
#include "program/text.h"

/* What makes two gathers, broadcasts or filters the same. */
struct identity {
    uint32_t port_kind, source, other, domain, partial;
};

static struct identity identity_of(const struct plan_port *port)
{
    uint32_t other = port->port_kind == PLAN_GATHER   ? port->members
                     : port->port_kind == PLAN_FILTER ? port->mask
                                                      : PLAN_NONE;
    return (struct identity){port->port_kind, port->source, other, port->domain, port->partial};
}

/* Binds an output of a step to the Port with this identity, making it if there is none. */
static int intern(struct compile *compile, uint32_t step_index, uint32_t slot, const struct identity *identity,
                  sheaf_kind kind)
{
    struct sheaf_plan *plan = compile->plan;
    uint32_t at = (uint32_t)XXH3_64bits(identity, sizeof(*identity)) & compile->port_mask;
    for (; compile->port_slots[at] != PLAN_NONE; at = (at + 1) & compile->port_mask) {
        struct identity known = identity_of(&plan->ports[compile->port_slots[at]]);
        if (memcmp(&known, identity, sizeof(known)) == 0) {
            compile_bind(compile, step_index, slot, compile->port_slots[at]);
            return 0;
        }
    }
    const char *name = memory_string(compile->memory, compile->program->steps[step_index].outputs[slot]);
    if (!name)
        return compile_no_memory(compile);
    uint32_t index = plan->port_count;
    compile->port_slots[at] = index;
    struct plan_port *port = compile_add_port(compile, identity->port_kind, kind, identity->domain, name);
    port->source = identity->source;
    port->partial = identity->partial;
    if (identity->port_kind == PLAN_GATHER) {
        port->members = identity->other;
        port->slot = slot;
    } else if (identity->port_kind == PLAN_FILTER) {
        port->mask = identity->other;
    }
    compile_bind(compile, step_index, slot, index);
    return 0;
}

int compile_source(struct compile *compile, uint32_t step_index)
{
    const struct program_step *step = &compile->program->steps[step_index];
    struct sheaf_plan *plan = compile->plan;
    if (!kind_is_concrete(step->kind))
        return compile_refuse(
            compile, 7, step,
            "no proper kind; write bool, i64, f64, text, bytes, tensor, record, file or list<...> of one");
    const char *name = memory_string(compile->memory, step->outputs[0]);
    if (!name)
        return compile_no_memory(compile);
    uint32_t index = plan->port_count;
    struct plan_port *port = compile_add_port(compile, PLAN_SOURCE, step->kind, 0, name);
    port->slot = compile->source_numbers[step_index];
    plan->sources[port->slot] = index;
    compile_bind(compile, step_index, 0, index);
    return 0;
}

static int check_pairs(struct compile *compile, const struct program_step *step)
{
    if (step->input_count > 0 && step->input_count == step->output_count)
        return 0;
    return compile_refuse(compile, 7, step,
                          "%u Ports are read, but %u names stand under \"as\"; give one name for each",
                          step->input_count, step->output_count);
}

static int refuse_no_group(struct compile *compile, const struct program_step *step, uint32_t input,
                           const struct plan_port *port)
{
    static const char *const words[] = {
        "a source", "an output of a Call, but no group", "an expanded Port", "a gather", "a broadcast", "a filter"};
    return compile_refuse(
        compile, 1, step,
        "\"%s\" is %s; only a group output of a Call can be expanded: feed it to an operator that splits "
        "it and expand that operator's output",
        step->inputs[input], words[port->port_kind]);
}

/* Row 1: groups of one Call, each once. */
static int check_groups(struct compile *compile, uint32_t step_index)
{
    const struct program_step *step = &compile->program->steps[step_index];
    const struct sheaf_plan *plan = compile->plan;
    uint32_t first = compile_port_of(compile, step_index, 0);
    for (uint32_t i = 0; i < step->input_count; i++) {
        uint32_t index = compile_port_of(compile, step_index, i);
        const struct plan_port *port = &plan->ports[index];
        if (port->port_kind != PLAN_CALL_OUTPUT || !port->group)
            return refuse_no_group(compile, step, i, port);
        if (port->call != plan->ports[first].call)
            return compile_refuse(
                compile, 1, step,
                "\"%s\" and \"%s\" are groups of two Calls, \"%s\" and \"%s\"; expand each in a step of its own",
                step->inputs[0], step->inputs[i], plan->calls[plan->ports[first].call].name,
                plan->calls[port->call].name);
        for (uint32_t j = 0; j < i; j++)
            if (compile_port_of(compile, step_index, j) == index)
                return compile_refuse(compile, 1, step, "\"%s\" and \"%s\" are the same Port; name it once",
                                      step->inputs[j], step->inputs[i]);
    }
    return 0;
}

/* Binds to an expansion of the same groups if there is one, and says so; row 2 if there is a different one. */
static int find_relation(struct compile *compile, uint32_t step_index, bool *ret_found)
{
    const struct program_step *step = &compile->program->steps[step_index];
    *ret_found = false;
    for (uint32_t i = 0; i < step->input_count; i++) {
        uint32_t domain = compile->expanded[compile_port_of(compile, step_index, i)];
        if (domain == PLAN_NONE)
            continue;
        const struct relation *relation = &compile->relations[domain];
        bool same = relation->count == step->input_count;
        for (uint32_t j = 0; same && j < relation->count; j++)
            same = relation->groups[j] == compile_port_of(compile, step_index, j);
        if (!same)
            return compile_refuse(
                compile, 2, step,
                "\"%s\" is already expanded in a different relation, by expand \"%s\"; expand the same "
                "groups in the same order, or read what that step made",
                step->inputs[i], program_step_name(&compile->program->steps[relation->step]));
        for (uint32_t j = 0; j < relation->count; j++)
            compile_bind(compile, step_index, j, relation->ports[j]);
        *ret_found = true;
        return 0;
    }
    return 0;
}

static int add_relation(struct compile *compile, uint32_t step_index)
{
    const struct program_step *step = &compile->program->steps[step_index];
    struct sheaf_plan *plan = compile->plan;
    uint32_t *groups = memory_array(&compile->scratch, step->input_count, sizeof(*groups));
    uint32_t *ports = memory_array(&compile->scratch, step->input_count, sizeof(*ports));
    if (!groups || !ports)
        return compile_no_memory(compile);
    uint32_t call = plan->ports[compile_port_of(compile, step_index, 0)].call;
    uint32_t domain = plan->domain_count++;
    uint32_t parent = plan->calls[call].domain;
    plan->domains[domain] =
        (struct plan_domain){.parent = parent, .depth = plan->domains[parent].depth + 1, .call = call};
    plan->domains[parent].child_count++;
    plan->calls[call].expansion_count++;
    for (uint32_t i = 0; i < step->input_count; i++) {
        const char *name = memory_string(compile->memory, step->outputs[i]);
        if (!name)
            return compile_no_memory(compile);
        groups[i] = compile_port_of(compile, step_index, i);
        ports[i] = plan->port_count;
        sheaf_kind list = plan->ports[groups[i]].kind;
        sheaf_kind kind = SHEAF_LIST_OF(SHEAF_KIND_BASE(list), SHEAF_KIND_DEPTH(list) - 1);
        struct plan_port *port = compile_add_port(compile, PLAN_EXPAND, kind, domain, name);
        port->call = call;
        port->slot = plan->ports[groups[i]].slot;
        port->source = groups[i];
        compile->expanded[groups[i]] = domain;
        compile_bind(compile, step_index, i, ports[i]);
    }
    compile->relations[domain] = (struct relation){groups, ports, step->input_count, step_index};
    return 0;
}

int compile_expand(struct compile *compile, uint32_t step_index)
{
    bool found;
    int status = check_pairs(compile, &compile->program->steps[step_index]);
    if (status == 0)
        status = check_groups(compile, step_index);
    if (status == 0)
        status = find_relation(compile, step_index, &found);
    return status != 0 || found ? status : add_relation(compile, step_index);
}

static int refuse_member(struct compile *compile, const struct program_step *step, const char *word, const char *name,
                         const struct plan_port *port, const struct plan_port *first)
{
    char port_text[DOMAIN_TEXT_BYTES], first_text[DOMAIN_TEXT_BYTES];
    const char *port_domain = compile_domain_text(compile, port->domain, port_text);
    const char *first_domain = compile_domain_text(compile, first->domain, first_text);
    if (compile_is_ancestor(compile->plan, port->domain, first->domain))
        return compile_refuse(compile, 3, step,
                              "%s \"%s\" lies in %s, value \"%s\" in %s; write {broadcast: %s, like: %s} and use that",
                              word, name, port_domain, step->inputs[0], first_domain, name, step->inputs[0]);
    return compile_refuse(
        compile, 3, step,
        "%s \"%s\" lies in %s, value \"%s\" in %s; gather Ports of one Domain, the others in a step of "
        "their own",
        word, name, port_domain, step->inputs[0], first_domain);
}

/* Row 3: values and members in one Domain, not the root one. */
static int check_gather(struct compile *compile, uint32_t step_index, uint32_t members)
{
    const struct program_step *step = &compile->program->steps[step_index];
    const struct sheaf_plan *plan = compile->plan;
    const struct plan_port *first = &plan->ports[compile_port_of(compile, step_index, 0)];
    for (uint32_t i = 0; i <= step->input_count; i++) {
        bool is_members = i == step->input_count;
        const struct plan_port *port = &plan->ports[is_members ? members : compile_port_of(compile, step_index, i)];
        const char *name = !is_members ? step->inputs[i] : step->other ? step->other : step->inputs[0];
        if (port->domain != first->domain)
            return refuse_member(compile, step, is_members ? "members" : "value", name, port, first);
        if (port->domain == 0)
            return compile_refuse(compile, 3, step,
                                  "\"%s\" lies in the root Domain and has no parent to gather to; read it as it is",
                                  name);
    }
    return 0;
}

int compile_gather(struct compile *compile, uint32_t step_index)
{
    const struct program_step *step = &compile->program->steps[step_index];
    const struct sheaf_plan *plan = compile->plan;
    int status = check_pairs(compile, step);
    if (status != 0)
        return status;
    uint32_t members = compile_port_of(compile, step_index, step->other ? step->input_count : 0);
    status = check_gather(compile, step_index, members);
    for (uint32_t i = 0; status == 0 && i < step->input_count; i++) {
        uint32_t value = compile_port_of(compile, step_index, i);
        sheaf_kind kind = plan->ports[value].kind;
        if (SHEAF_KIND_DEPTH(kind) == 255)
            return compile_refuse(compile, 7, step, "\"%s\" already nests 255 lists; flatten it before this gather",
                                  step->inputs[i]);
        struct identity identity = {PLAN_GATHER, value, members, plan->domains[plan->ports[value].domain].parent,
                                    step->mode == SHEAF_GATHER_PARTIAL};
        status =
            intern(compile, step_index, i, &identity, SHEAF_LIST_OF(SHEAF_KIND_BASE(kind), SHEAF_KIND_DEPTH(kind) + 1));
    }
    return status;
}

int compile_broadcast(struct compile *compile, uint32_t step_index)
{
    const struct program_step *step = &compile->program->steps[step_index];
    const struct sheaf_plan *plan = compile->plan;
    uint32_t source = compile_port_of(compile, step_index, 0);
    uint32_t target = plan->ports[compile_port_of(compile, step_index, 1)].domain;
    uint32_t domain = plan->ports[source].domain;
    if (!compile_is_ancestor(plan, domain, target)) {
        char texts[2][DOMAIN_TEXT_BYTES];
        bool down = compile_is_ancestor(plan, target, domain);
        return compile_refuse(
            compile, 5, step, "\"%s\" (%s) does not lie above \"%s\" (%s); %s", step->inputs[0],
            compile_domain_text(compile, domain, texts[0]), step->other, compile_domain_text(compile, target, texts[1]),
            down ? "a value goes up by gather, not by broadcast" : "gather it up to a common ancestor first");
    }
    if (domain == target) {
        compile_bind(compile, step_index, 0, source);
        return 0;
    }
    if (plan->ports[source].port_kind == PLAN_BROADCAST)
        source = plan->ports[source].source; /* chains collapse */
    struct identity identity = {PLAN_BROADCAST, source, PLAN_NONE, target, 0};
    return intern(compile, step_index, 0, &identity, plan->ports[source].kind);
}

int compile_filter(struct compile *compile, uint32_t step_index)
{
    const struct program_step *step = &compile->program->steps[step_index];
    const struct sheaf_plan *plan = compile->plan;
    uint32_t source = compile_port_of(compile, step_index, 0), mask = compile_port_of(compile, step_index, 1);
    const struct plan_port *value = &plan->ports[source], *decides = &plan->ports[mask];
    char kind[KIND_TEXT_BYTES], texts[2][DOMAIN_TEXT_BYTES];
    if (value->domain != decides->domain)
        return compile_refuse(compile, 6, step,
                              "\"%s\" (%s) and mask \"%s\" (%s) lie in different Domains; "
                              "broadcast or gather one of them into the other's Domain first",
                              step->inputs[0], compile_domain_text(compile, value->domain, texts[0]), step->other,
                              compile_domain_text(compile, decides->domain, texts[1]));
    if (decides->kind != SHEAF_BOOL)
        return compile_refuse(compile, 6, step,
                              "mask \"%s\" is %s, but must be bool; compute a bool from it with a Call and use that",
                              step->other, kind_text(decides->kind, kind));
    struct identity identity = {PLAN_FILTER, source, mask, value->domain, 0};
    return intern(compile, step_index, 0, &identity, value->kind);
}
