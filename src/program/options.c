/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a Call against the declaration of its operator (row 7). */
#include <inttypes.h>
#include <string.h>

#include "program/compile.h"
#include "program/registry_check.h"
#include "program/text.h"

static const char *type_text(enum sheaf_option_type type)
{
    static const char *const texts[] = {"?",    "bool",      "i64",        "f64",
                                        "text", "list<i64>", "list<text>", "bool, i64 or text"};
    return texts[type];
}

static int check_range(struct compile *compile, const struct program_step *step, const struct sheaf_option *option,
                       int64_t value)
{
    if (option_in_range(option, value))
        return 0;
    return compile_refuse(compile, 7, step, "option \"%s\" is %" PRId64 "; write one between %" PRId64 " and %" PRId64,
                          option->name, value, option->min, option->max);
}

/* Gives `value` the declared type where that loses nothing: an empty list, an i64 for an f64. */
static bool adapt(const struct sheaf_option *option, struct sheaf_option_value *value)
{
    if (value->type == option->type)
        return true;
    if (option->type == SHEAF_OPTION_SCALAR)
        return value->type == SHEAF_OPTION_BOOL || value->type == SHEAF_OPTION_I64 || value->type == SHEAF_OPTION_TEXT;
    if (option->type == SHEAF_OPTION_F64 && value->type == SHEAF_OPTION_I64) {
        *value = (struct sheaf_option_value){.type = SHEAF_OPTION_F64, .f64 = (double)value->i64};
        return true;
    }
    bool lists = (option->type == SHEAF_OPTION_I64_LIST || option->type == SHEAF_OPTION_TEXT_LIST) &&
                 (value->type == SHEAF_OPTION_I64_LIST || value->type == SHEAF_OPTION_TEXT_LIST);
    if (!lists || value->count > 0)
        return false;
    value->type = option->type;
    return true;
}

static int bind(struct compile *compile, const struct program_step *step, const struct sheaf_option *option,
                const struct sheaf_option_value *given, struct sheaf_option_value *ret_value)
{
    struct sheaf_option_value value = *given;
    if (!adapt(option, &value))
        return compile_refuse(compile, 7, step, "option \"%s\" is %s, but must be %s%s", option->name,
                              type_text(value.type), type_text(option->type),
                              option->type == SHEAF_OPTION_TEXT ? "; put the value in quotes" : "");
    int status = 0;
    if (value.type == SHEAF_OPTION_I64)
        status = check_range(compile, step, option, value.i64);
    for (uint32_t i = 0; status == 0 && value.type == SHEAF_OPTION_I64_LIST && i < value.count; i++)
        status = check_range(compile, step, option, value.i64s[i]);
    if (status != 0)
        return status;
    if (value.type == SHEAF_OPTION_TEXT && option->choices && !choices_contain(option->choices, value.text))
        return compile_refuse(compile, 7, step, "option \"%s\" is \"%s\"; choose one of %s", option->name, value.text,
                              option->choices);
    return program_copy_value(compile->memory, &value, ret_value) != 0 ? compile_no_memory(compile) : 0;
}

static const struct sheaf_named_option *find_given(const struct sheaf_call *call, const char *name)
{
    for (uint32_t i = 0; i < call->option_count; i++)
        if (strcmp(call->options[i].name, name) == 0)
            return &call->options[i];
    return NULL;
}

static int check_known(struct compile *compile, const struct program_step *step, const struct sheaf_operator *op)
{
    const struct sheaf_call *call = &step->call;
    for (uint32_t i = 0; i < call->option_count; i++) {
        const char *name = call->options[i].name;
        struct nearest nearest;
        nearest_start(&nearest, name);
        bool known = false;
        for (uint32_t j = 0; j < op->option_count; j++) {
            known |= strcmp(op->options[j].name, name) == 0;
            nearest_offer(&nearest, op->options[j].name);
        }
        if (!known)
            return compile_refuse(compile, 7, step, "operator \"%s\" has no option \"%s\"%s", op->name, name,
                                  nearest_hint(&nearest));
        if (find_given(call, name) != &call->options[i])
            return compile_refuse(compile, 7, step, "option \"%s\" is given twice; remove one", name);
    }
    return 0;
}

int compile_options(struct compile *compile, const struct program_step *step, const struct sheaf_operator *op,
                    const struct sheaf_option_value **ret_options)
{
    int status = check_known(compile, step, op);
    if (status != 0)
        return status;
    struct sheaf_option_value *values = memory_array(compile->memory, op->option_count, sizeof(*values));
    if (!values)
        return compile_no_memory(compile);
    for (uint32_t i = 0; i < op->option_count; i++) {
        const struct sheaf_option *option = &op->options[i];
        const struct sheaf_named_option *given = find_given(&step->call, option->name);
        if (!given && option->required)
            return compile_refuse(compile, 7, step, "operator \"%s\" needs option \"%s\" (%s)", op->name, option->name,
                                  type_text(option->type));
        status = given ? bind(compile, step, option, &given->value, &values[i]) : 0;
        if (status != 0)
            return status;
        if (!given)
            values[i] = option->fallback; /* static data of the plug-in */
    }
    *ret_options = values;
    return 0;
}
