/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "program/parse.h"

static const char *const call_keys[] = {"call",     "op",       "in",         "out",         "with",
                                        "batch",    "replicas", "pool",       "timeout_ms",  "place",
                                        "recovery", "retries",  "backoff_ms", "batch_bytes", NULL};
static const char *const expand_keys[] = {"expand", "as", NULL};
static const char *const gather_keys[] = {"gather", "as", "members", "mode", NULL};
static const char *const broadcast_keys[] = {"broadcast", "like", "as", NULL};
static const char *const filter_keys[] = {"filter", "mask", "as", NULL};
static const char *const *const step_keys[] = {
    [STEP_CALL] = call_keys,           [STEP_EXPAND] = expand_keys, [STEP_GATHER] = gather_keys,
    [STEP_BROADCAST] = broadcast_keys, [STEP_FILTER] = filter_keys,
};

/* Which sort of step a mapping is: by the one key that names a sort. */
static int find_kind(struct yaml_reader *reader, yaml_node_t *node, enum step_kind *ret_kind)
{
    int found = 0;
    for (enum step_kind kind = STEP_CALL; kind <= STEP_FILTER; kind++) {
        if (!yaml_lookup(reader, node, program_step_word(kind)))
            continue;
        *ret_kind = kind;
        found++;
    }
    if (found == 1)
        return 0;
    if (found > 1)
        return yaml_fail(reader, 0, node,
                         "a step is one of call, expand, gather, broadcast, filter; make two steps of this");
    size_t position = 0;
    const char *key = "";
    yaml_node_t *key_node = NULL, *value = NULL;
    int status = yaml_next_pair(reader, node, &position, &key, &key_node, &value);
    if (status < 0)
        return status;
    struct nearest nearest;
    nearest_start(&nearest, key);
    for (enum step_kind kind = STEP_CALL; kind <= STEP_FILTER; kind++)
        nearest_offer(&nearest, program_step_word(kind));
    return yaml_fail(reader, 0, node, "a step needs one of the keys call, expand, gather, broadcast, filter%s",
                     nearest_hint(&nearest));
}

static int read_names(struct yaml_reader *reader, yaml_node_t *node, const char *what, uint32_t count,
                      const char **names)
{
    for (uint32_t i = 0; i < count; i++) {
        const char *text;
        int status = yaml_text(reader, yaml_element(reader, node, i), what, &text);
        if (status != 0)
            return status;
        names[i] = memory_string(&reader->program->memory, text);
        if (!names[i])
            return yaml_no_memory(reader);
    }
    return 0;
}

/* The value under `key`, which must be there. */
static int need(struct yaml_reader *reader, yaml_node_t *node, const char *key, yaml_node_t **ret_value)
{
    *ret_value = yaml_lookup(reader, node, key);
    return *ret_value ? 0 : yaml_fail(reader, 0, node, "the step needs the key \"%s\"", key);
}

static int read_word(struct yaml_reader *reader, yaml_node_t *node, const char *key, const char **ret_word)
{
    yaml_node_t *value = yaml_lookup(reader, node, key);
    const char *text;
    if (!value)
        return 0;
    int status = yaml_text(reader, value, key, &text);
    if (status != 0)
        return status;
    *ret_word = memory_string(&reader->program->memory, text);
    return *ret_word ? 0 : yaml_no_memory(reader);
}

/* The number of a word among `words`, which ends with NULL. */
static int read_choice(struct yaml_reader *reader, yaml_node_t *node, const char *key, const char *const *words,
                       uint32_t *ret_number)
{
    yaml_node_t *value = yaml_lookup(reader, node, key);
    const char *text;
    if (!value)
        return 0;
    int status = yaml_text(reader, value, key, &text);
    if (status != 0)
        return status;
    struct nearest nearest;
    nearest_start(&nearest, text);
    uint32_t number = 0;
    while (words[number] && strcmp(words[number], text) != 0)
        nearest_offer(&nearest, words[number++]);
    if (!words[number])
        return yaml_fail(reader, 0, value, "\"%s\" cannot be \"%.100s\"%s", key, text, nearest_hint(&nearest));
    *ret_number = number;
    return 0;
}

/* Adds a step that reads the names under one key and defines those under another. */
static int add_step(struct yaml_reader *reader, yaml_node_t *node, enum step_kind kind, const char *input_key,
                    const char *output_key, struct program_step **ret_step)
{
    yaml_node_t *inputs, *outputs;
    uint32_t input_count, output_count;
    int status = need(reader, node, input_key, &inputs);
    if (status == 0)
        status = need(reader, node, output_key, &outputs);
    if (status == 0)
        status = yaml_count(reader, inputs, input_key, &input_count);
    if (status == 0)
        status = yaml_count(reader, outputs, output_key, &output_count);
    if (status != 0)
        return status;
    if ((kind == STEP_BROADCAST || kind == STEP_FILTER) && (input_count != 1 || output_count != 1))
        return yaml_fail(reader, 0, node, "\"%s\" and \"%s\" are one Port each here", input_key, output_key);
    if (kind != STEP_CALL && (input_count == 0 || output_count == 0))
        return yaml_fail(reader, 0, node, "\"%s\" must not be empty", input_count == 0 ? input_key : output_key);
    struct program_step *step = program_add_step(reader->program, kind, input_count, output_count);
    if (!step)
        return yaml_no_memory(reader);
    step->line = yaml_line(node);
    status = read_names(reader, inputs, input_key, input_count, step->inputs);
    if (status == 0)
        status = read_names(reader, outputs, output_key, output_count, step->outputs);
    *ret_step = step;
    return status;
}

static int read_options(struct yaml_reader *reader, yaml_node_t *node, struct sheaf_call *call)
{
    yaml_node_t *with = yaml_lookup(reader, node, "with");
    if (!with)
        return 0;
    if (with->type != YAML_MAPPING_NODE)
        return yaml_fail(reader, 0, with, "\"with\" must be a mapping of options");
    size_t count = (size_t)(with->data.mapping.pairs.top - with->data.mapping.pairs.start), position = 0;
    struct sheaf_named_option *options = memory_array(&reader->program->memory, count, sizeof(*options));
    if (!options)
        return yaml_no_memory(reader);
    call->options = options;
    const char *key = NULL;
    yaml_node_t *key_node = NULL, *value = NULL;
    int status;
    while ((status = yaml_next_pair(reader, with, &position, &key, &key_node, &value)) == 1) {
        struct sheaf_named_option *option = &options[call->option_count];
        option->name = memory_string(&reader->program->memory, key);
        if (!option->name)
            return yaml_no_memory(reader);
        status = yaml_option_value(reader, value, key, &option->value);
        if (status != 0)
            return status;
        call->option_count++;
    }
    return status;
}

static int read_number(struct yaml_reader *reader, yaml_node_t *node, const char *key, uint32_t flag,
                       struct sheaf_call *call, int64_t *ret_number)
{
    yaml_node_t *value = yaml_lookup(reader, node, key);
    if (!value)
        return 0;
    call->given |= flag;
    return yaml_i64(reader, value, key, ret_number);
}

static int read_call(struct yaml_reader *reader, yaml_node_t *node, struct sheaf_call *call)
{
    static const char *const recoveries[] = {"fail", "retry", "abort", NULL};
    static const char *const places[] = {"auto", "cpu", "gpu", NULL};
    uint32_t recovery = SHEAF_RECOVERY_FAIL, place = SHEAF_PLACE_AUTO;
    yaml_node_t *operator_node;
    int status = need(reader, node, "op", &operator_node);
    if (status == 0)
        status = read_word(reader, node, "op", &call->operator_name);
    if (status == 0)
        status = read_word(reader, node, "pool", &call->pool);
    if (status == 0)
        status = read_options(reader, node, call);
    if (status == 0)
        status = read_number(reader, node, "batch", SHEAF_GIVEN_BATCH, call, &call->batch_rows);
    if (status == 0)
        status = read_number(reader, node, "batch_bytes", SHEAF_GIVEN_BATCH_BYTES, call, &call->batch_bytes);
    if (status == 0)
        status = read_number(reader, node, "replicas", SHEAF_GIVEN_REPLICAS, call, &call->replicas);
    if (status == 0)
        status = read_number(reader, node, "timeout_ms", SHEAF_GIVEN_TIMEOUT, call, &call->timeout_ms);
    if (status == 0)
        status = read_number(reader, node, "retries", SHEAF_GIVEN_RETRIES, call, &call->retries);
    if (status == 0)
        status = read_number(reader, node, "backoff_ms", SHEAF_GIVEN_BACKOFF, call, &call->backoff_ms);
    if (status == 0)
        status = read_choice(reader, node, "recovery", recoveries, &recovery);
    if (status == 0)
        status = read_choice(reader, node, "place", places, &place);
    call->recovery = (enum sheaf_recovery)recovery;
    call->place = (enum sheaf_place)place;
    return status;
}

static int parse_call(struct yaml_reader *reader, yaml_node_t *node)
{
    struct sheaf_call call = {.size = sizeof(call)};
    struct program_step *step;
    int status = read_word(reader, node, "call", &call.name);
    reader->step_name = call.name;
    if (status == 0)
        status = read_call(reader, node, &call);
    if (status == 0)
        status = add_step(reader, node, STEP_CALL, "in", "out", &step);
    if (status == 0)
        step->call = call;
    return status;
}

static int parse_structural(struct yaml_reader *reader, yaml_node_t *node, enum step_kind kind)
{
    static const char *const modes[] = {"strict", "partial", NULL};
    const char *other_key = kind == STEP_GATHER ? "members" : kind == STEP_BROADCAST ? "like" : "mask";
    yaml_node_t *as = yaml_lookup(reader, node, "as"), *other;
    uint32_t mode = SHEAF_GATHER_STRICT, count = 0;
    if (as && as->type != YAML_MAPPING_NODE && yaml_count(reader, as, "as", &count) == 0 && count > 0) {
        const yaml_node_t *first = yaml_element(reader, as, 0);
        reader->step_name = first->type == YAML_SCALAR_NODE ? (const char *)first->data.scalar.value : NULL;
    }
    struct program_step *step;
    int status = add_step(reader, node, kind, program_step_word(kind), "as", &step);
    if (status == 0 && kind == STEP_GATHER)
        status = read_choice(reader, node, "mode", modes, &mode);
    if (status == 0 && (kind == STEP_BROADCAST || kind == STEP_FILTER))
        status = need(reader, node, other_key, &other);
    if (status == 0 && kind != STEP_EXPAND)
        status = read_word(reader, node, other_key, &step->other);
    if (status == 0)
        step->mode = (enum sheaf_gather_mode)mode;
    return status;
}

int parse_step(struct yaml_reader *reader, yaml_node_t *node)
{
    enum step_kind kind = STEP_CALL;
    if (node->type != YAML_MAPPING_NODE)
        return yaml_fail(reader, 0, node, "a step must be a mapping like {expand: [pages], as: [page]}");
    int status = find_kind(reader, node, &kind);
    if (status != 0)
        return status;
    reader->step_word = program_step_word(kind);
    reader->step_name = NULL;
    char what[32];
    snprintf(what, sizeof(what), "a%s %s", kind == STEP_EXPAND ? "n" : "", reader->step_word);
    status = yaml_check_keys(reader, node, what, step_keys[kind]);
    if (status == 0)
        status = kind == STEP_CALL ? parse_call(reader, node) : parse_structural(reader, node, kind);
    reader->step_word = reader->step_name = NULL;
    return status;
}
