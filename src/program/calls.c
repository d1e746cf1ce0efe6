/* SPDX-License-Identifier: Apache-2.0 */
/* Calls: operator, kinds, and the one Domain of their inputs (rows 4, 7, 8). */
#include "program/compile.h"
#include "program/text.h"

static int find_operator(struct compile *compile, const struct program_step *step, const struct sheaf_operator **ret_op)
{
    const struct sheaf_registry *registry = compile->program->registry;
    const char *name = step->call.operator_name;
    *ret_op = sheaf_registry_find(registry, name);
    if (*ret_op)
        return 0;
    struct nearest nearest;
    nearest_start(&nearest, name);
    for (size_t i = 0; i < sheaf_registry_count(registry); i++)
        nearest_offer(&nearest, sheaf_registry_operator(registry, i)->name);
    return compile_refuse(compile, 7, step, "unknown operator \"%s\"%s", name,
                          nearest.best ? nearest_hint(&nearest)
                                       : "; no plug-in that is loaded has it, and SHEAF_PLUGINS names their folders");
}

static int check_counts(struct compile *compile, const struct program_step *step, const struct sheaf_operator *op)
{
    uint32_t needed = 0;
    while (needed < op->input_count && !(op->inputs[needed].flags & SHEAF_PORT_OPTIONAL))
        needed++;
    if (step->input_count == 0)
        return compile_refuse(compile, 8, step, "the Call has no inputs, so it has no Domain; give it at least \"%s\"",
                              op->inputs[0].name);
    if (step->input_count < needed)
        return compile_refuse(compile, 7, step, "operator \"%s\" needs %u inputs, %u are given; \"%s\" is missing",
                              op->name, needed, step->input_count, op->inputs[step->input_count].name);
    if (step->input_count > op->input_count)
        return compile_refuse(compile, 7, step, "operator \"%s\" takes %u inputs, %u are given; \"%s\" is too many",
                              op->name, op->input_count, step->input_count, step->inputs[op->input_count]);
    if (step->output_count != op->output_count)
        return compile_refuse(compile, 7, step, "operator \"%s\" has %u outputs, %u are named; name each of them once",
                              op->name, op->output_count, step->output_count);
    return 0;
}

/* Row 4: says which step would bring the two into one Domain. */
static int refuse_domains(struct compile *compile, const struct program_step *step, uint32_t first, uint32_t second)
{
    const struct sheaf_plan *plan = compile->plan;
    const struct plan_port *a = &plan->ports[first], *b = &plan->ports[second];
    char first_text[DOMAIN_TEXT_BYTES], second_text[DOMAIN_TEXT_BYTES];
    const char *a_domain = compile_domain_text(compile, a->domain, first_text);
    const char *b_domain = compile_domain_text(compile, b->domain, second_text);
    if (compile_is_ancestor(plan, b->domain, a->domain)) {
        const struct plan_port *swap = a;
        a = b;
        b = swap;
    }
    if (compile_is_ancestor(plan, a->domain, b->domain))
        return compile_refuse(compile, 4, step,
                              "inputs \"%s\" and \"%s\" lie in two Domains (%s and %s); write "
                              "{broadcast: %s, like: %s} and read that, or gather \"%s\"",
                              plan->ports[first].name, plan->ports[second].name, a_domain, b_domain, a->name, b->name,
                              b->name);
    return compile_refuse(compile, 4, step,
                          "inputs \"%s\" and \"%s\" lie in Domains that never align (%s and %s); gather both up "
                          "to a common Domain first",
                          a->name, b->name, a_domain, b_domain);
}

/* Matches a declared kind, which may hold the type variable, with an actual one. */
static bool unify(sheaf_kind declared, sheaf_kind actual, sheaf_kind *variable)
{
    if (SHEAF_KIND_BASE(declared) != SHEAF_ANY)
        return declared == actual;
    if (SHEAF_KIND_DEPTH(actual) < SHEAF_KIND_DEPTH(declared))
        return false;
    sheaf_kind inner = SHEAF_LIST_OF(SHEAF_KIND_BASE(actual), SHEAF_KIND_DEPTH(actual) - SHEAF_KIND_DEPTH(declared));
    if (*variable == SHEAF_NONE)
        *variable = inner;
    return *variable == inner;
}

/* The declared kind with the variable put in; SHEAF_NONE when it nests too deep or nothing binds the variable. */
static sheaf_kind substitute(sheaf_kind declared, sheaf_kind variable)
{
    if (SHEAF_KIND_BASE(declared) != SHEAF_ANY)
        return declared;
    uint32_t depth = SHEAF_KIND_DEPTH(declared) + SHEAF_KIND_DEPTH(variable);
    if (variable == SHEAF_NONE || depth > 255)
        return SHEAF_NONE;
    return SHEAF_LIST_OF(SHEAF_KIND_BASE(variable), depth);
}

static int check_inputs(struct compile *compile, uint32_t step_index, const struct sheaf_operator *op,
                        sheaf_kind *ret_variable)
{
    const struct program_step *step = &compile->program->steps[step_index];
    const struct sheaf_plan *plan = compile->plan;
    uint32_t first = compile_port_of(compile, step_index, 0);
    sheaf_kind variable = SHEAF_NONE;
    for (uint32_t i = 0; i < step->input_count; i++) {
        uint32_t port = compile_port_of(compile, step_index, i);
        if (plan->ports[port].domain != plan->ports[first].domain)
            return refuse_domains(compile, step, first, port);
    }
    for (uint32_t i = 0; i < step->input_count; i++) {
        uint32_t port = compile_port_of(compile, step_index, i);
        char actual[KIND_TEXT_BYTES], declared[KIND_TEXT_BYTES];
        sheaf_kind expected = op->inputs[i].kind;
        if (unify(expected, plan->ports[port].kind, &variable))
            continue;
        if (variable != SHEAF_NONE && SHEAF_KIND_BASE(expected) == SHEAF_ANY &&
            substitute(expected, variable) != SHEAF_NONE)
            expected = substitute(expected, variable);
        return compile_refuse(compile, 7, step, "Port \"%s\" is %s, but input \"%s\" of operator \"%s\" must be %s",
                              step->inputs[i], kind_text(plan->ports[port].kind, actual), op->inputs[i].name, op->name,
                              kind_text(expected, declared));
    }
    *ret_variable = variable;
    return 0;
}

static int output_kind(struct compile *compile, const struct program_step *step, const struct plan_call *call,
                       uint32_t output, sheaf_kind variable, sheaf_kind *ret_kind)
{
    const struct sheaf_operator *op = call->op;
    sheaf_kind kind = op->output_kind ? op->output_kind(call->options, output) : SHEAF_NONE;
    if (kind == SHEAF_NONE)
        kind = substitute(op->outputs[output].kind, variable);
    bool group = op->outputs[output].flags & SHEAF_PORT_GROUP;
    if (!kind_is_concrete(kind) || (group && SHEAF_KIND_DEPTH(kind) == 255))
        return compile_refuse(compile, 7, step,
                              "output \"%s\" of operator \"%s\" has no proper kind here: lists nest at most 255 deep",
                              step->outputs[output], op->name);
    *ret_kind = group ? SHEAF_LIST_OF(SHEAF_KIND_BASE(kind), SHEAF_KIND_DEPTH(kind) + 1) : kind;
    return 0;
}

static int add_outputs(struct compile *compile, uint32_t step_index, uint32_t call_index, sheaf_kind variable)
{
    const struct program_step *step = &compile->program->steps[step_index];
    struct sheaf_plan *plan = compile->plan;
    struct plan_call *call = &plan->calls[call_index];
    call->output_first = compile->call_port_count;
    call->output_count = step->output_count;
    for (uint32_t i = 0; i < step->output_count; i++) {
        sheaf_kind kind = SHEAF_NONE;
        int status = output_kind(compile, step, call, i, variable, &kind);
        if (status != 0)
            return status;
        uint32_t index = plan->port_count;
        const char *name = memory_string(compile->memory, step->outputs[i]);
        if (!name)
            return compile_no_memory(compile);
        struct plan_port *port = compile_add_port(compile, PLAN_CALL_OUTPUT, kind, call->domain, name);
        port->call = call_index;
        port->slot = i;
        port->group = call->op->outputs[i].flags & SHEAF_PORT_GROUP;
        plan->call_ports[compile->call_port_count++] = index;
        compile_bind(compile, step_index, i, index);
    }
    return 0;
}

int compile_call(struct compile *compile, uint32_t step_index)
{
    const struct program_step *step = &compile->program->steps[step_index];
    struct sheaf_plan *plan = compile->plan;
    uint32_t index = plan->call_count;
    struct plan_call *call = &plan->calls[index];
    sheaf_kind variable = SHEAF_NONE;
    *call = (struct plan_call){.name = memory_string(compile->memory, step->call.name)};
    if (!call->name)
        return compile_no_memory(compile);
    int status = find_operator(compile, step, &call->op);
    if (status == 0)
        status = check_counts(compile, step, call->op);
    if (status == 0)
        status = check_inputs(compile, step_index, call->op, &variable);
    if (status == 0)
        status = compile_options(compile, step, call->op, &call->options);
    if (status == 0)
        status = compile_settings(compile, step, call);
    if (status != 0)
        return status;
    plan->call_count++;
    compile->call_steps[index] = step_index;
    compile->units[compile->unit_count++] = (struct unit){true, index};
    call->domain = plan->ports[compile_port_of(compile, step_index, 0)].domain;
    call->position = plan->domains[call->domain].call_count++;
    call->widest_failure = call->op->widest_failure;
    call->side_effect = call->op->flags & SHEAF_OPERATOR_SIDE_EFFECT;
    call->input_first = compile->call_port_count;
    call->input_count = step->input_count;
    for (uint32_t i = 0; i < step->input_count; i++)
        plan->call_ports[compile->call_port_count++] = compile_port_of(compile, step_index, i);
    return add_outputs(compile, step_index, index, variable);
}
