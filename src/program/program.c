/* SPDX-License-Identifier: Apache-2.0 */
#include "program/program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int sheaf_program_create(const struct sheaf_registry *registry, struct sheaf_program **ret_program)
{
    if (!registry || !ret_program)
        return -EINVAL;
    struct sheaf_program *program = calloc(1, sizeof(*program));
    if (!program)
        return -ENOMEM;
    program->registry = registry;
    *ret_program = program;
    return 0;
}

void sheaf_program_destroy(struct sheaf_program *program)
{
    if (!program)
        return;
    memory_free(&program->memory);
    free(program->steps);
    free(program->outputs);
    free(program);
}

const char *program_step_word(enum step_kind kind)
{
    static const char *const words[] = {"source", "call", "expand", "gather", "broadcast", "filter"};
    return words[kind];
}

const char *program_step_name(const struct program_step *step)
{
    if (step->step_kind == STEP_CALL)
        return step->call.name;
    return step->output_count > 0 ? step->outputs[0] : "?";
}

/* Room for one more element in an array that doubles. */
static int grow(void **array, uint32_t count, uint32_t *capacity, size_t element_bytes)
{
    if (count < *capacity)
        return 0;
    if (count > UINT32_MAX / 4)
        return -ENOMEM;
    uint32_t wanted = *capacity ? *capacity * 2 : 32;
    void *larger = reallocarray(*array, wanted, element_bytes);
    if (!larger)
        return -ENOMEM;
    *array = larger;
    *capacity = wanted;
    return 0;
}

struct program_step *program_add_step(struct sheaf_program *program, enum step_kind kind, uint32_t input_count,
                                      uint32_t output_count)
{
    void *array = program->steps;
    if (grow(&array, program->step_count, &program->step_capacity, sizeof(*program->steps)) != 0)
        return NULL;
    program->steps = array;
    const char **inputs = memory_array(&program->memory, input_count, sizeof(*inputs));
    const char **outputs = memory_array(&program->memory, output_count, sizeof(*outputs));
    if (!inputs || !outputs)
        return NULL;
    struct program_step *step = &program->steps[program->step_count++];
    *step = (struct program_step){.step_kind = kind,
                                  .input_count = input_count,
                                  .output_count = output_count,
                                  .inputs = inputs,
                                  .outputs = outputs};
    return step;
}

int program_add_output(struct sheaf_program *program, const char *port, const char *file, uint32_t line)
{
    void *array = program->outputs;
    if (grow(&array, program->output_count, &program->output_capacity, sizeof(*program->outputs)) != 0)
        return -ENOMEM;
    program->outputs = array;
    const char *port_copy = memory_string(&program->memory, port);
    const char *file_copy = file ? memory_string(&program->memory, file) : NULL;
    if (!port_copy || (file && !file_copy))
        return -ENOMEM;
    program->outputs[program->output_count++] = (struct program_output){port_copy, file_copy, line};
    return 0;
}

int program_copy_value(struct memory *memory, const struct sheaf_option_value *value,
                       struct sheaf_option_value *ret_value)
{
    struct sheaf_option_value copy = *value;
    if (value->type == SHEAF_OPTION_TEXT) {
        if (!value->text)
            return -EINVAL;
        copy.text = memory_string(memory, value->text);
        if (!copy.text)
            return -ENOMEM;
    } else if (value->type == SHEAF_OPTION_I64_LIST) {
        int64_t *i64s = memory_array(memory, value->count, sizeof(*i64s));
        if (!i64s)
            return -ENOMEM;
        if (value->count > 0 && !value->i64s)
            return -EINVAL;
        if (value->count > 0)
            memcpy(i64s, value->i64s, value->count * sizeof(*i64s));
        copy.i64s = i64s;
    } else if (value->type == SHEAF_OPTION_TEXT_LIST) {
        const char **texts = memory_array(memory, value->count, sizeof(*texts));
        if (!texts)
            return -ENOMEM;
        for (uint32_t i = 0; i < value->count; i++) {
            if (!value->texts || !value->texts[i])
                return -EINVAL;
            texts[i] = memory_string(memory, value->texts[i]);
            if (!texts[i])
                return -ENOMEM;
        }
        copy.texts = texts;
    } else if (value->type < SHEAF_OPTION_BOOL || value->type > SHEAF_OPTION_TEXT_LIST) {
        return -EINVAL;
    }
    *ret_value = copy;
    return 0;
}

static int copy_names(struct memory *memory, const char **to, const char *const *from, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!from || !from[i] || !*from[i])
            return -EINVAL;
        to[i] = memory_string(memory, from[i]);
        if (!to[i])
            return -ENOMEM;
    }
    return 0;
}

/* Adds a step with copies of its names; `other` may be NULL. On failure no step is added. */
static int add_named(struct sheaf_program *program, enum step_kind kind, const char *const *inputs,
                     uint32_t input_count, const char *const *outputs, uint32_t output_count, const char *other,
                     struct program_step **ret_step)
{
    if (!program || (other && !*other))
        return -EINVAL;
    struct program_step *step = program_add_step(program, kind, input_count, output_count);
    if (!step)
        return -ENOMEM;
    int status = copy_names(&program->memory, step->inputs, inputs, input_count);
    if (status == 0)
        status = copy_names(&program->memory, step->outputs, outputs, output_count);
    if (status == 0 && other) {
        step->other = memory_string(&program->memory, other);
        status = step->other ? 0 : -ENOMEM;
    }
    if (status != 0) {
        program->step_count--;
        return status;
    }
    *ret_step = step;
    return 0;
}

int sheaf_program_source(struct sheaf_program *program, const char *port, sheaf_kind kind)
{
    struct program_step *step;
    int status = add_named(program, STEP_SOURCE, NULL, 0, &port, 1, NULL, &step);
    if (status == 0)
        step->kind = kind;
    return status;
}

static int copy_call(struct memory *memory, const struct sheaf_call *call, struct sheaf_call *ret_call)
{
    struct sheaf_call copy = {0};
    memcpy(&copy, call, call->size < sizeof(copy) ? call->size : sizeof(copy));
    copy.size = sizeof(copy);
    copy.inputs = copy.outputs = NULL;
    copy.name = memory_string(memory, call->name);
    copy.operator_name = memory_string(memory, call->operator_name);
    copy.pool = call->pool ? memory_string(memory, call->pool) : NULL;
    struct sheaf_named_option *options = memory_array(memory, call->option_count, sizeof(*options));
    if (!copy.name || !copy.operator_name || !options || (call->pool && !copy.pool))
        return -ENOMEM;
    for (uint32_t i = 0; i < call->option_count; i++) {
        if (!call->options || !call->options[i].name || !*call->options[i].name)
            return -EINVAL;
        options[i].name = memory_string(memory, call->options[i].name);
        if (!options[i].name)
            return -ENOMEM;
        int status = program_copy_value(memory, &call->options[i].value, &options[i].value);
        if (status != 0)
            return status;
    }
    copy.options = options;
    *ret_call = copy;
    return 0;
}

int sheaf_program_call(struct sheaf_program *program, const struct sheaf_call *call)
{
    if (!program || !call || call->size < offsetof(struct sheaf_call, batch_bytes) || !call->name || !*call->name ||
        !call->operator_name || !*call->operator_name || (call->pool && !*call->pool) ||
        (unsigned)call->recovery > SHEAF_RECOVERY_ABORT || (unsigned)call->place > SHEAF_PLACE_GPU)
        return -EINVAL;
    struct program_step *step;
    int status =
        add_named(program, STEP_CALL, call->inputs, call->input_count, call->outputs, call->output_count, NULL, &step);
    if (status != 0)
        return status;
    status = copy_call(&program->memory, call, &step->call);
    if (status != 0)
        program->step_count--;
    return status;
}

int sheaf_program_expand(struct sheaf_program *program, const char *const *groups, const char *const *as,
                         uint32_t count)
{
    struct program_step *step;
    if (count == 0)
        return -EINVAL;
    return add_named(program, STEP_EXPAND, groups, count, as, count, NULL, &step);
}

int sheaf_program_gather(struct sheaf_program *program, const char *const *values, const char *const *as,
                         uint32_t count, const char *members, enum sheaf_gather_mode mode)
{
    struct program_step *step;
    if (count == 0 || (unsigned)mode > SHEAF_GATHER_PARTIAL)
        return -EINVAL;
    int status = add_named(program, STEP_GATHER, values, count, as, count, members, &step);
    if (status == 0)
        step->mode = mode;
    return status;
}

int sheaf_program_broadcast(struct sheaf_program *program, const char *port, const char *like, const char *as)
{
    struct program_step *step;
    return like ? add_named(program, STEP_BROADCAST, &port, 1, &as, 1, like, &step) : -EINVAL;
}

int sheaf_program_filter(struct sheaf_program *program, const char *port, const char *mask, const char *as)
{
    struct program_step *step;
    return mask ? add_named(program, STEP_FILTER, &port, 1, &as, 1, mask, &step) : -EINVAL;
}

int sheaf_program_output(struct sheaf_program *program, const char *port, const char *file)
{
    if (!program || !port || !*port || (file && !*file))
        return -EINVAL;
    return program_add_output(program, port, file, 0);
}
