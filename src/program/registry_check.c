/* SPDX-License-Identifier: Apache-2.0 */
#include "program/registry_check.h"

#include <stdint.h>
#include <string.h>

#include "program/text.h"

enum { PORTS_MAX = 64, OPTIONS_MAX = 256, OPERATORS_MAX = 4096, NAME_BYTES_MAX = 128, SLOTS_MAX = 1 << 16 };

struct check {
    const char *where;
    const char *operator_name;
    struct sheaf_error *error;
};

static int malformed(const struct check *check, const char *what, const char *of)
{
    return program_error(check->error, SHEAF_E_ABI, 0,
                         "%s: operator \"%s\": %s%s%s%s; the plug-in's author must correct it", check->where,
                         check->operator_name, what, of ? " of \"" : "", of ? of : "", of ? "\"" : "");
}

/* Letters, digits, '_', '.', '-', starting with a letter: what can be written in YAML and as call.option=value. */
static bool name_is_good(const char *name)
{
    if (!name || !((*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z')))
        return false;
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");
    return name[length] == '\0' && length <= NAME_BYTES_MAX;
}

bool choices_contain(const char *choices, const char *text)
{
    size_t length = strlen(text);
    for (const char *at = choices; at; at = strchr(at, '|')) {
        at += *at == '|';
        size_t choice = strcspn(at, "|");
        if (choice == length && memcmp(at, text, length) == 0)
            return true;
    }
    return false;
}

bool option_in_range(const struct sheaf_option *option, int64_t value)
{
    return (option->min == 0 && option->max == 0) || (value >= option->min && value <= option->max);
}

static bool signature_kind_is_good(sheaf_kind kind)
{
    return kind_is_concrete(kind) || (kind >> 16 == 0 && SHEAF_KIND_BASE(kind) == SHEAF_ANY);
}

static int check_ports(const struct check *check, const struct sheaf_port *ports, uint32_t count, uint32_t flags_known,
                       const char *what)
{
    if (count > PORTS_MAX || (count > 0 && !ports))
        return malformed(check, "wrong number", what);
    for (uint32_t i = 0; i < count; i++) {
        if (!name_is_good(ports[i].name))
            return malformed(check, "a malformed name", what);
        if (!signature_kind_is_good(ports[i].kind))
            return malformed(check, "unknown kind", ports[i].name);
        if (ports[i].flags & ~flags_known)
            return malformed(check, "unknown flags", ports[i].name);
        if ((ports[i].flags & SHEAF_PORT_GROUP) && SHEAF_KIND_DEPTH(ports[i].kind) == 255)
            return malformed(check, "too deep a kind", ports[i].name);
        if (i > 0 && (ports[i - 1].flags & SHEAF_PORT_OPTIONAL) && !(ports[i].flags & SHEAF_PORT_OPTIONAL))
            return malformed(check, "an input that must be given after one that need not", ports[i].name);
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(ports[i].name, ports[j].name) == 0)
                return malformed(check, "second port", ports[i].name);
    }
    return 0;
}

/* A type variable in an output must be bound by an input that is always there, or by output_kind. */
static int check_variables(const struct check *check, const struct sheaf_operator *op)
{
    bool bound = op->output_kind != NULL;
    for (uint32_t i = 0; i < op->input_count; i++)
        bound |= SHEAF_KIND_BASE(op->inputs[i].kind) == SHEAF_ANY && !(op->inputs[i].flags & SHEAF_PORT_OPTIONAL);
    for (uint32_t i = 0; i < op->output_count; i++)
        if (SHEAF_KIND_BASE(op->outputs[i].kind) == SHEAF_ANY && !bound)
            return malformed(check, "a type variable that no input binds", op->outputs[i].name);
    return 0;
}

static bool fallback_is_good(const struct sheaf_option *option)
{
    const struct sheaf_option_value *value = &option->fallback;
    if (option->type == SHEAF_OPTION_SCALAR) {
        if (value->type != SHEAF_OPTION_BOOL && value->type != SHEAF_OPTION_I64 && value->type != SHEAF_OPTION_TEXT)
            return false;
    } else if (value->type != option->type) {
        return false;
    }
    switch (value->type) {
    case SHEAF_OPTION_TEXT:
        return value->text && (!option->choices || choices_contain(option->choices, value->text));
    case SHEAF_OPTION_I64:
        return option_in_range(option, value->i64);
    case SHEAF_OPTION_I64_LIST:
        return value->count == 0 || value->i64s;
    case SHEAF_OPTION_TEXT_LIST:
        for (uint32_t i = 0; i < value->count; i++)
            if (!value->texts || !value->texts[i])
                return false;
        return true;
    default:
        return true;
    }
}

static int check_options(const struct check *check, const struct sheaf_operator *op)
{
    if (op->option_count > OPTIONS_MAX || (op->option_count > 0 && !op->options))
        return malformed(check, "wrong number", "options");
    for (uint32_t i = 0; i < op->option_count; i++) {
        const struct sheaf_option *option = &op->options[i];
        if (!name_is_good(option->name))
            return malformed(check, "a malformed name", "options");
        if (option->type < SHEAF_OPTION_BOOL || option->type > SHEAF_OPTION_SCALAR)
            return malformed(check, "unknown type", option->name);
        if (option->min > option->max)
            return malformed(check, "empty range", option->name);
        if (option->choices && (option->type != SHEAF_OPTION_TEXT || !*option->choices))
            return malformed(check, "choices that do not go with the type", option->name);
        if (!option->required && !fallback_is_good(option))
            return malformed(check, "a default that the option itself would refuse", option->name);
        for (uint32_t j = 0; j < i; j++)
            if (strcmp(option->name, op->options[j].name) == 0)
                return malformed(check, "second option", option->name);
    }
    return 0;
}

static int check_operator(const struct check *check, const struct sheaf_operator *op)
{
    const uint32_t flags_known = SHEAF_OPERATOR_BATCH | SHEAF_OPERATOR_SIDE_EFFECT | SHEAF_OPERATOR_NONDETERMINISTIC |
                                 SHEAF_OPERATOR_STATE_OF_ROW | SHEAF_OPERATOR_STATE_OF_PARENT |
                                 SHEAF_OPERATOR_ENGINE_CODE | SHEAF_OPERATOR_DEVICE | SHEAF_OPERATOR_ONE_SHAPE;
    if (!op->version || !*op->version || strlen(op->version) > NAME_BYTES_MAX)
        return malformed(check, "no version, or a too long one", NULL);
    if (op->flags & ~flags_known)
        return malformed(check, "unknown flags", NULL);
    if (op->flags & SHEAF_OPERATOR_BATCH ? !op->run_batch : !op->run)
        return malformed(check, op->flags & SHEAF_OPERATOR_BATCH ? "no run_batch" : "no run", NULL);
    if ((op->flags & SHEAF_OPERATOR_DEVICE) &&
        (!(op->flags & SHEAF_OPERATOR_BATCH) || op->slots > 1 || op->size < sizeof(*op) || !op->finish_batch))
        return malformed(check, "DEVICE without BATCH and finish_batch, or with slots", NULL);
    if (op->widest_failure > SHEAF_SCOPE_ROOT)
        return malformed(check, "unknown widest_failure", NULL);
    if (op->slots > SLOTS_MAX || op->batch_rows > 1u << 20 || op->timeout_ms > 24u * 3600 * 1000)
        return malformed(check, "slots, batch_rows or timeout_ms out of range", NULL);
    if (op->slots > 1 && !(op->flags & SHEAF_OPERATOR_BATCH))
        return malformed(check, "slots without BATCH", NULL);
    if ((op->flags & SHEAF_OPERATOR_ONE_SHAPE || op->batch_kib) && !(op->flags & SHEAF_OPERATOR_BATCH))
        return malformed(check, "ONE_SHAPE or batch_kib without BATCH", NULL);
    if (op->input_count == 0)
        return malformed(check, "no inputs", NULL);
    int status = check_ports(check, op->inputs, op->input_count, SHEAF_PORT_OPTIONAL, "inputs");
    if (status == 0 && (op->inputs[0].flags & SHEAF_PORT_OPTIONAL))
        status = malformed(check, "a first input that need not be given", NULL);
    if (status == 0)
        status = check_ports(check, op->outputs, op->output_count, SHEAF_PORT_GROUP, "outputs");
    if (status == 0)
        status = check_variables(check, op);
    return status == 0 ? check_options(check, op) : status;
}

int plugin_check(const struct sheaf_plugin *plugin, const char *where, struct sheaf_error *error)
{
    if (!plugin)
        return program_error(error, SHEAF_E_ABI, 0, "%s: no descriptor", where);
    if (plugin->size < SHEAF_PLUGIN_SIZE_0_1 || plugin->abi != SHEAF_OPERATOR_ABI)
        return program_error(error, SHEAF_E_ABI, 0, "%s: built for operator ABI %u, this is %u; rebuild the plug-in",
                             where, plugin->size >= offsetof(struct sheaf_plugin, name) ? plugin->abi : 0,
                             SHEAF_OPERATOR_ABI);
    if (!name_is_good(plugin->name) || !plugin->version || !*plugin->version)
        return program_error(error, SHEAF_E_ABI, 0, "%s: the plug-in has no proper name or version", where);
    if (plugin->operator_count > OPERATORS_MAX || (plugin->operator_count > 0 && !plugin->operators))
        return program_error(error, SHEAF_E_ABI, 0, "%s: wrong number of operators", where);
    for (uint32_t i = 0; i < plugin->operator_count; i++) {
        const struct sheaf_operator *op = plugin->operators[i];
        if (!op || op->size < SHEAF_OPERATOR_SIZE_0_1)
            return program_error(error, SHEAF_E_ABI, 0,
                                 "%s: operator number %u is missing or of an older ABI; rebuild the plug-in", where, i);
        if (!name_is_good(op->name))
            return program_error(error, SHEAF_E_ABI, 0, "%s: operator number %u has a malformed name", where, i);
        struct check check = {where, op->name, error};
        int status = check_operator(&check, op);
        if (status != 0)
            return status;
    }
    return 0;
}
