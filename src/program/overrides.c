/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "program/parse.h"
#include "program/registry_check.h"

/* The Call whose name stands before a dot of `text`, and where the option's name starts. Names may hold dots
 * themselves. */
static struct program_step *find_call(struct sheaf_program *program, const char *text, const char *end,
                                      const char **ret_option)
{
    for (uint32_t i = 0; i < program->step_count; i++) {
        struct program_step *step = &program->steps[i];
        if (step->step_kind != STEP_CALL)
            continue;
        size_t length = strlen(step->call.name);
        if ((size_t)(end - text) <= length + 1 || text[length] != '.' || memcmp(text, step->call.name, length) != 0)
            continue;
        *ret_option = text + length + 1;
        return step;
    }
    return NULL;
}

static int fail_unknown_call(const struct sheaf_program *program, const char *text, struct sheaf_error *error)
{
    char call[96];
    snprintf(call, sizeof(call), "%.*s", (int)strcspn(text, ".="), text);
    struct nearest nearest;
    nearest_start(&nearest, call);
    for (uint32_t i = 0; i < program->step_count; i++)
        if (program->steps[i].step_kind == STEP_CALL)
            nearest_offer(&nearest, program->steps[i].call.name);
    return program_error(error, SHEAF_E_USAGE, 0, "override \"%.200s\": %s has no Call \"%s\"%s", text,
                         program->text_name ? program->text_name : "the program", call, nearest_hint(&nearest));
}

static const struct sheaf_option *find_option(const struct sheaf_operator *op, const char *name,
                                              struct nearest *nearest)
{
    nearest_start(nearest, name);
    for (uint32_t i = 0; i < op->option_count; i++) {
        if (strcmp(op->options[i].name, name) == 0)
            return &op->options[i];
        nearest_offer(nearest, op->options[i].name);
    }
    return NULL;
}

/* The elements of "a,b,c", cut in place; none for "". */
static int split_list(struct memory *memory, char *text, enum sheaf_option_type type,
                      struct sheaf_option_value *ret_value)
{
    uint32_t count = *text != '\0';
    for (const char *at = text; *at; at++)
        count += *at == ',';
    int64_t *i64s = memory_array(memory, count, sizeof(*i64s));
    const char **texts = memory_array(memory, count, sizeof(*texts));
    if (!i64s || !texts)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        texts[i] = strsep(&text, ",");
        struct sheaf_option_value value;
        if (type == SHEAF_OPTION_TEXT_LIST)
            continue;
        if (!yaml_plain_value(texts[i], &value) || value.type != SHEAF_OPTION_I64)
            return -EINVAL;
        i64s[i] = value.i64;
    }
    *ret_value = (struct sheaf_option_value){.type = type, .count = count};
    if (type == SHEAF_OPTION_I64_LIST)
        ret_value->i64s = i64s;
    else
        ret_value->texts = texts;
    return 0;
}

/* Reads a value as the type the option declares. -EINVAL: it is none. `text` is in `memory` and may be cut. */
static int read_value(struct memory *memory, const struct sheaf_option *option, char *text,
                      struct sheaf_option_value *ret_value)
{
    struct sheaf_option_value value = {.type = SHEAF_OPTION_TEXT, .text = text};
    if (option->type == SHEAF_OPTION_I64_LIST || option->type == SHEAF_OPTION_TEXT_LIST)
        return split_list(memory, text, option->type, ret_value);
    if (option->type != SHEAF_OPTION_TEXT && !yaml_plain_value(text, &value)) {
        if (option->type != SHEAF_OPTION_SCALAR)
            return -EINVAL;
        value = (struct sheaf_option_value){.type = SHEAF_OPTION_TEXT, .text = text};
    }
    bool fits = value.type == option->type || (option->type == SHEAF_OPTION_F64 && value.type == SHEAF_OPTION_I64) ||
                (option->type == SHEAF_OPTION_SCALAR && value.type != SHEAF_OPTION_F64);
    if (!fits)
        return -EINVAL;
    *ret_value = value;
    return 0;
}

static int set_option(struct memory *memory, struct sheaf_call *call, const char *name,
                      const struct sheaf_option_value *value)
{
    struct sheaf_named_option *options = memory_array(memory, call->option_count + 1, sizeof(*options));
    if (!options)
        return -ENOMEM;
    uint32_t count = 0;
    for (uint32_t i = 0; i < call->option_count; i++)
        if (strcmp(call->options[i].name, name) != 0)
            options[count++] = call->options[i];
    options[count++] = (struct sheaf_named_option){name, *value};
    call->options = options;
    call->option_count = count;
    return 0;
}

static const char *example(enum sheaf_option_type type)
{
    switch (type) {
    case SHEAF_OPTION_BOOL:
        return "true or false";
    case SHEAF_OPTION_I64:
        return "a whole number";
    case SHEAF_OPTION_F64:
        return "a number";
    case SHEAF_OPTION_I64_LIST:
        return "whole numbers separated by commas";
    default:
        return "true, false, a whole number or text";
    }
}

/* The compiler looks at values, too, but it names the line of the text, where this one does not stand. */
static int check_value(const struct sheaf_option *option, const struct sheaf_option_value *value, const char *text,
                       struct sheaf_error *error)
{
    const int64_t *numbers = value->type == SHEAF_OPTION_I64 ? &value->i64 : value->i64s;
    uint32_t count = value->type == SHEAF_OPTION_I64 ? 1 : value->type == SHEAF_OPTION_I64_LIST ? value->count : 0;
    for (uint32_t i = 0; i < count; i++)
        if (!option_in_range(option, numbers[i]))
            return program_error(error, SHEAF_E_USAGE, 0,
                                 "override \"%.200s\": write a whole number between %" PRId64 " and %" PRId64, text,
                                 option->min, option->max);
    if (value->type == SHEAF_OPTION_TEXT && option->choices && !choices_contain(option->choices, value->text))
        return program_error(error, SHEAF_E_USAGE, 0, "override \"%.200s\": choose one of %s", text, option->choices);
    return 0;
}

int override_option(struct sheaf_program *program, const char *text, struct sheaf_error *error)
{
    bool where_there_is_one = text && *text == '?';
    text += where_there_is_one;
    const char *equals = text ? strchr(text, '=') : NULL;
    if (!equals || equals == text)
        return program_error(error, SHEAF_E_USAGE, 0, "override \"%.200s\": write call.option=value", text ? text : "");
    const char *option_at;
    struct program_step *step = find_call(program, text, equals, &option_at);
    if (!step)
        return where_there_is_one ? 0 : fail_unknown_call(program, text, error);
    const char *name = memory_bytes(&program->memory, option_at, (size_t)(equals - option_at));
    char *value_text = memory_string(&program->memory, equals + 1);
    if (!name || !value_text)
        return program_error(error, -ENOMEM, 0, "out of memory");
    const struct sheaf_operator *op = sheaf_registry_find(program->registry, step->call.operator_name);
    if (!op)
        return program_error(error, SHEAF_E_USAGE, 0,
                             "override \"%.200s\": Call \"%s\" uses the unknown operator \"%s\"", text, step->call.name,
                             step->call.operator_name);
    struct nearest nearest;
    const struct sheaf_option *option = find_option(op, name, &nearest);
    if (!option && where_there_is_one)
        return 0;
    if (!option)
        return program_error(error, SHEAF_E_USAGE, 0, "override \"%.200s\": operator \"%s\" has no option \"%s\"%s",
                             text, op->name, name, nearest_hint(&nearest));
    struct sheaf_option_value value;
    int status = read_value(&program->memory, option, value_text, &value);
    if (status == -EINVAL)
        return program_error(error, SHEAF_E_USAGE, 0, "override \"%.200s\": option \"%s\" takes %s", text, name,
                             example(option->type));
    if (status == 0)
        status = check_value(option, &value, text, error);
    if (status == SHEAF_E_USAGE)
        return status;
    if (status == 0)
        status = set_option(&program->memory, &step->call, name, &value);
    return status == 0 ? 0 : program_error(error, status, 0, "out of memory");
}
