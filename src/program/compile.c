/* SPDX-License-Identifier: Apache-2.0 */
#include "program/compile.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/canonical.h"
#include "program/text.h"

/* "name:line: word \"thing\": text"; a line of 0 and a NULL word are left out. */
static int refuse_at(struct compile *compile, uint32_t row, uint32_t line, const char *word, const char *thing,
                     const char *format, va_list arguments)
{
    char text[1024], place[320] = "", subject[160] = "";
    vsnprintf(text, sizeof(text), format, arguments);
    const char *name = compile->program->text_name;
    if (name && line > 0)
        snprintf(place, sizeof(place), "%.200s:%u: ", name, line);
    else if (name)
        snprintf(place, sizeof(place), "%.200s: ", name);
    if (word)
        snprintf(subject, sizeof(subject), "%s \"%.100s\": ", word, thing);
    int code = row ? SHEAF_E_REFUSED : SHEAF_E_USAGE;
    return program_error(compile->error, code, row, "%s%s%s", place, subject, text);
}

int compile_refuse(struct compile *compile, uint32_t row, const struct program_step *step, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int status = refuse_at(compile, row, step ? step->line : 0, step ? program_step_word(step->step_kind) : NULL,
                           step ? program_step_name(step) : NULL, format, arguments);
    va_end(arguments);
    return status;
}

int compile_refuse_output(struct compile *compile, uint32_t row, const struct program_output *output,
                          const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int status = refuse_at(compile, row, output->line, "output", output->port, format, arguments);
    va_end(arguments);
    return status;
}

const char *compile_domain_text(const struct compile *compile, uint32_t domain, char text[DOMAIN_TEXT_BYTES])
{
    if (domain == 0)
        return "the root Domain";
    snprintf(text, DOMAIN_TEXT_BYTES, "the Domain of \"%.100s\"", compile->plan->domains[domain].name);
    return text;
}

int compile_no_memory(struct compile *compile)
{
    return program_error(compile->error, -ENOMEM, 0, "out of memory while compiling a program of %u steps",
                         compile->program->step_count);
}

uint32_t compile_port_of(const struct compile *compile, uint32_t step, uint32_t input)
{
    uint32_t at = compile->first_references[step] + input;
    assert(at < compile->first_references[step + 1]);
    uint32_t port = compile->names[compile->references[at]].port;
    assert(port < compile->plan->port_count); /* steps are compiled in the order of what they read */
    return port;
}

void compile_bind(struct compile *compile, uint32_t step, uint32_t slot, uint32_t port)
{
    bool is_call = compile->program->steps[step].step_kind == STEP_CALL;
    compile->names[compile->first_names[step] + is_call + slot].port = port;
}

struct plan_port *compile_add_port(struct compile *compile, enum plan_port_kind port_kind, sheaf_kind kind,
                                   uint32_t domain, const char *name)
{
    struct sheaf_plan *plan = compile->plan;
    uint32_t index = plan->port_count++;
    struct plan_port *port = &plan->ports[index];
    *port = (struct plan_port){
        .port_kind = port_kind,
        .kind = kind,
        .domain = domain,
        .column = plan->domains[domain].column_count++,
        .call = PLAN_NONE,
        .slot = PLAN_NONE,
        .source = PLAN_NONE,
        .members = PLAN_NONE,
        .mask = PLAN_NONE,
        .name = name,
    };
    if (!plan->domains[domain].name)
        plan->domains[domain].name = name;
    compile->units[compile->unit_count++] = (struct unit){false, index};
    return port;
}

bool compile_is_ancestor(const struct sheaf_plan *plan, uint32_t ancestor, uint32_t domain)
{
    while (domain > ancestor) /* a parent has a lower index */
        domain = plan->domains[domain].parent;
    return domain == ancestor;
}

static uint32_t hash_capacity(uint32_t count)
{
    uint32_t capacity = 16;
    while (capacity / 2 < count)
        capacity *= 2;
    return capacity;
}

static uint32_t *none_array(struct memory *memory, size_t count)
{
    uint32_t *array = memory_array(memory, count, sizeof(*array));
    if (array)
        memset(array, 0xff, count * sizeof(*array));
    return array;
}

struct counts {
    uint32_t names, references, ports, calls, call_ports, domains, sources;
};

static struct counts count_steps(const struct sheaf_program *program)
{
    struct counts counts = {.domains = 1};
    for (uint32_t i = 0; i < program->step_count; i++) {
        const struct program_step *step = &program->steps[i];
        bool is_call = step->step_kind == STEP_CALL;
        counts.names += step->output_count + is_call;
        counts.references += step->input_count + (step->other != NULL);
        counts.ports += step->output_count;
        counts.calls += is_call;
        counts.call_ports += is_call ? step->input_count + step->output_count : 0;
        counts.domains += step->step_kind == STEP_EXPAND;
        counts.sources += step->step_kind == STEP_SOURCE;
    }
    return counts;
}

/* Every array at its largest possible size, so that the passes only fill them. */
static int allocate(struct compile *compile)
{
    const struct sheaf_program *program = compile->program;
    struct sheaf_plan *plan = compile->plan;
    struct memory *scratch = &compile->scratch;
    struct counts counts = count_steps(program);

    plan->ports = memory_array(compile->memory, counts.ports, sizeof(*plan->ports));
    plan->domains = memory_array(compile->memory, counts.domains, sizeof(*plan->domains));
    plan->calls = memory_array(compile->memory, counts.calls, sizeof(*plan->calls));
    plan->sources = memory_array(compile->memory, counts.sources, sizeof(*plan->sources));
    plan->call_ports = memory_array(compile->memory, counts.call_ports, sizeof(*plan->call_ports));

    compile->name_mask = hash_capacity(counts.names) - 1;
    compile->port_mask = hash_capacity(counts.ports) - 1;
    compile->names = memory_array(scratch, counts.names, sizeof(*compile->names));
    compile->name_slots = none_array(scratch, compile->name_mask + 1);
    compile->first_names = memory_array(scratch, program->step_count, sizeof(uint32_t));
    compile->references = memory_array(scratch, counts.references, sizeof(uint32_t));
    compile->first_references = memory_array(scratch, program->step_count + 1, sizeof(uint32_t));
    compile->source_numbers = memory_array(scratch, program->step_count, sizeof(uint32_t));
    compile->order = memory_array(scratch, program->step_count, sizeof(uint32_t));
    compile->units = memory_array(scratch, counts.ports + counts.calls, sizeof(*compile->units));
    compile->port_slots = none_array(scratch, compile->port_mask + 1);
    compile->expanded = none_array(scratch, counts.ports);
    compile->relations = memory_array(scratch, counts.domains, sizeof(*compile->relations));
    compile->call_steps = memory_array(scratch, counts.calls, sizeof(uint32_t));
    compile->domain_distances = none_array(scratch, counts.domains);
    compile->port_distances = none_array(scratch, counts.ports);
    if (!plan->ports || !plan->domains || !plan->calls || !plan->sources || !plan->call_ports || !compile->names ||
        !compile->name_slots || !compile->first_names || !compile->references || !compile->first_references ||
        !compile->source_numbers || !compile->order || !compile->units || !compile->port_slots || !compile->expanded ||
        !compile->relations || !compile->call_steps || !compile->domain_distances || !compile->port_distances)
        return compile_no_memory(compile);
    plan->domain_count = 1;
    plan->domains[0] = (struct plan_domain){.parent = PLAN_NONE, .depth = 1, .call = PLAN_NONE};
    plan->source_count = counts.sources;
    return 0;
}

static int compile_step(struct compile *compile, uint32_t step)
{
    switch (compile->program->steps[step].step_kind) {
    case STEP_SOURCE:
        return compile_source(compile, step);
    case STEP_CALL:
        return compile_call(compile, step);
    case STEP_EXPAND:
        return compile_expand(compile, step);
    case STEP_GATHER:
        return compile_gather(compile, step);
    case STEP_BROADCAST:
        return compile_broadcast(compile, step);
    case STEP_FILTER:
        return compile_filter(compile, step);
    }
    return -EINVAL;
}

static int compile_passes(struct compile *compile)
{
    int status = allocate(compile);
    if (status == 0 && compile->plan->source_count == 0)
        status = compile_refuse(compile, 8, NULL, "the program has no source; declare at least one under \"sources\"");
    if (status == 0 && compile->program->output_count == 0)
        status =
            compile_refuse(compile, 8, NULL, "the program has no output; name at least one Port under \"outputs\"");
    if (status == 0)
        status = compile_resolve(compile);
    for (uint32_t i = 0; status == 0 && i < compile->program->step_count; i++)
        status = compile_step(compile, compile->order[i]);
    if (status == 0)
        status = compile_outputs(compile);
    if (status == 0)
        status = compile_liveness(compile);
    if (status == 0)
        status = compile_finality(compile);
    if (status == 0)
        status = compile_layout(compile);
    if (status == 0)
        status = compile_warnings(compile);
    if (status == 0 && plan_fingerprint(compile->plan) != 0)
        status = compile_no_memory(compile);
    return status == 0 ? compile_on_host(compile) : status;
}

int sheaf_program_compile(const struct sheaf_program *program, struct sheaf_plan **ret_plan, struct sheaf_error *error)
{
    if (!program || !ret_plan)
        return program_error(error, -EINVAL, 0, "program and ret_plan must be given");
    struct sheaf_plan *plan = calloc(1, sizeof(*plan));
    struct memory *memory = calloc(1, sizeof(*memory));
    if (!plan || !memory) {
        free(plan);
        free(memory);
        return program_error(error, -ENOMEM, 0, "out of memory");
    }
    plan->memory = memory;
    plan->registry = program->registry;
    struct compile compile = {.program = program, .plan = plan, .memory = memory, .error = error};
    int status = compile_passes(&compile);
    memory_free(&compile.scratch);
    if (status != 0) {
        sheaf_plan_destroy(plan);
        return status;
    }
    *ret_plan = plan;
    return 0;
}
