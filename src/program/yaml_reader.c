/* SPDX-License-Identifier: Apache-2.0 */
#include "program/yaml_reader.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t yaml_line(const yaml_node_t *node)
{
    return (uint32_t)node->start_mark.line + 1;
}

int yaml_fail(struct yaml_reader *reader, uint32_t row, const yaml_node_t *node, const char *format, ...)
{
    char text[1024], line[16] = "", step[160] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (node)
        snprintf(line, sizeof(line), ":%u", yaml_line(node));
    if (reader->step_word)
        snprintf(step, sizeof(step), "%s \"%.100s\": ", reader->step_word, reader->step_name ? reader->step_name : "?");
    return program_error(reader->error, row ? SHEAF_E_REFUSED : SHEAF_E_USAGE, row, "%.200s%s: %s%s", reader->name,
                         line, step, text);
}

int yaml_no_memory(struct yaml_reader *reader)
{
    return program_error(reader->error, -ENOMEM, 0, "%.200s: out of memory", reader->name);
}

static const char *scalar(const yaml_node_t *node)
{
    const char *text = (const char *)node->data.scalar.value;
    return strlen(text) == node->data.scalar.length ? text : NULL; /* NULL: holds a NUL */
}

int yaml_text(struct yaml_reader *reader, const yaml_node_t *node, const char *what, const char **ret_text)
{
    if (node->type != YAML_SCALAR_NODE)
        return yaml_fail(reader, 0, node, "%s must be a word, not a list or a mapping", what);
    const char *text = scalar(node);
    if (!text || !*text)
        return yaml_fail(reader, 0, node, "%s is empty or holds a NUL character", what);
    *ret_text = text;
    return 0;
}

int yaml_next_pair(struct yaml_reader *reader, const yaml_node_t *mapping, size_t *position, const char **ret_key,
                   yaml_node_t **ret_key_node, yaml_node_t **ret_value)
{
    const yaml_node_pair_t *pair = mapping->data.mapping.pairs.start + *position;
    if (pair >= mapping->data.mapping.pairs.top)
        return 0;
    yaml_node_t *key = yaml_document_get_node(reader->document, pair->key);
    int status = yaml_text(reader, key, "a key", ret_key);
    if (status != 0)
        return status;
    ++*position;
    *ret_key_node = key;
    *ret_value = yaml_document_get_node(reader->document, pair->value);
    return 1;
}

yaml_node_t *yaml_lookup(struct yaml_reader *reader, const yaml_node_t *mapping, const char *key)
{
    const yaml_node_pair_t *pair = mapping->data.mapping.pairs.start;
    for (; pair < mapping->data.mapping.pairs.top; pair++) {
        const yaml_node_t *node = yaml_document_get_node(reader->document, pair->key);
        const char *text = node->type == YAML_SCALAR_NODE ? scalar(node) : NULL;
        if (text && strcmp(text, key) == 0)
            return yaml_document_get_node(reader->document, pair->value);
    }
    return NULL;
}

int yaml_check_keys(struct yaml_reader *reader, const yaml_node_t *mapping, const char *what, const char *const *keys)
{
    uint32_t seen = 0;
    size_t position = 0;
    const char *key = NULL;
    yaml_node_t *key_node = NULL, *value = NULL;
    int status;
    while ((status = yaml_next_pair(reader, mapping, &position, &key, &key_node, &value)) == 1) {
        struct nearest nearest;
        nearest_start(&nearest, key);
        uint32_t number = 0;
        while (keys[number] && strcmp(keys[number], key) != 0)
            nearest_offer(&nearest, keys[number++]);
        if (!keys[number])
            return yaml_fail(reader, 0, key_node, "unknown key \"%.100s\" in %s%s", key, what, nearest_hint(&nearest));
        if (seen & 1u << number)
            return yaml_fail(reader, 0, key_node, "key \"%s\" stands twice in %s; remove one", key, what);
        seen |= 1u << number;
    }
    return status;
}

int yaml_count(struct yaml_reader *reader, const yaml_node_t *node, const char *what, uint32_t *ret_count)
{
    if (node->type == YAML_MAPPING_NODE)
        return yaml_fail(reader, 0, node, "%s must be a list, not a mapping", what);
    *ret_count = 1;
    if (node->type == YAML_SEQUENCE_NODE)
        *ret_count = (uint32_t)(node->data.sequence.items.top - node->data.sequence.items.start);
    return 0;
}

yaml_node_t *yaml_element(struct yaml_reader *reader, yaml_node_t *node, uint32_t index)
{
    if (node->type != YAML_SEQUENCE_NODE)
        return node;
    return yaml_document_get_node(reader->document, node->data.sequence.items.start[index]);
}

/* 1: an integer, in `ret_value`; 0: none; -ERANGE: it does not fit. */
static int read_integer(const char *text, int64_t *ret_value)
{
    const char *digits = text + (*text == '-' || *text == '+');
    int base = 10;
    if (digits == text && text[0] == '0' && (text[1] == 'x' || text[1] == 'o')) {
        base = text[1] == 'x' ? 16 : 8;
        digits = text + 2;
    }
    const char *known = base == 16 ? "0123456789abcdefABCDEF" : base == 8 ? "01234567" : "0123456789";
    if (!*digits || digits[strspn(digits, known)] != '\0')
        return 0;
    errno = 0;
    long long value = strtoll(base == 10 ? text : digits, NULL, base);
    if (errno == ERANGE)
        return -ERANGE;
    *ret_value = value;
    return 1;
}

static bool is_float(const char *text)
{
    text += *text == '-' || *text == '+';
    size_t whole = strspn(text, "0123456789");
    text += whole;
    size_t part = 0;
    if (*text == '.') {
        part = strspn(text + 1, "0123456789");
        text += 1 + part;
    }
    if (whole + part == 0)
        return false;
    if (*text == 'e' || *text == 'E') {
        text++;
        text += *text == '-' || *text == '+';
        size_t exponent = strspn(text, "0123456789");
        if (exponent == 0)
            return false;
        text += exponent;
    }
    return *text == '\0';
}

bool yaml_plain_value(const char *text, struct sheaf_option_value *ret_value)
{
    struct sheaf_option_value value = {.type = SHEAF_OPTION_BOOL};
    if (!*text || strcmp(text, "~") == 0 || strcmp(text, "null") == 0)
        return false;
    int integer = read_integer(text, &value.i64);
    if (integer < 0)
        return false;
    if (integer == 1) {
        value.type = SHEAF_OPTION_I64;
    } else if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        value.boolean = *text == 't';
    } else if (is_float(text)) {
        value.type = SHEAF_OPTION_F64;
        value.f64 = strtod(text, NULL);
    } else {
        value.type = SHEAF_OPTION_TEXT;
        value.text = text;
    }
    *ret_value = value;
    return true;
}

int yaml_i64(struct yaml_reader *reader, const yaml_node_t *node, const char *what, int64_t *ret_value)
{
    const char *text = node->type == YAML_SCALAR_NODE ? scalar(node) : NULL;
    if (!text || node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE || read_integer(text, ret_value) != 1)
        return yaml_fail(reader, 0, node, "\"%s\" must be a whole number", what);
    return 0;
}

static int scalar_value(struct yaml_reader *reader, const yaml_node_t *node, const char *option,
                        struct sheaf_option_value *ret_value)
{
    const char *text = node->type == YAML_SCALAR_NODE ? scalar(node) : NULL;
    if (!text)
        return yaml_fail(reader, 7, node, "option \"%s\" must be a scalar or a flat list of them, without NUL", option);
    if (node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) {
        *ret_value = (struct sheaf_option_value){.type = SHEAF_OPTION_TEXT, .text = text};
        return 0;
    }
    if (!yaml_plain_value(text, ret_value))
        return yaml_fail(reader, 7, node, "option \"%s\" is %s; give a value, in quotes if it is text", option,
                         strpbrk(text, "0123456789") ? "a number that does not fit an i64" : "null");
    return 0;
}

static int list_value(struct yaml_reader *reader, yaml_node_t *node, const char *option,
                      struct sheaf_option_value *ret_value)
{
    uint32_t count = 0;
    yaml_count(reader, node, option, &count);
    int64_t *i64s = memory_array(&reader->program->memory, count, sizeof(*i64s));
    const char **texts = memory_array(&reader->program->memory, count, sizeof(*texts));
    if (!i64s || !texts)
        return yaml_no_memory(reader);
    enum sheaf_option_type type = SHEAF_OPTION_I64;
    for (uint32_t i = 0; i < count; i++) {
        struct sheaf_option_value value;
        yaml_node_t *element = yaml_element(reader, node, i);
        int status = scalar_value(reader, element, option, &value);
        if (status != 0)
            return status;
        if (i == 0)
            type = value.type;
        if (value.type != type || (type != SHEAF_OPTION_I64 && type != SHEAF_OPTION_TEXT))
            return yaml_fail(reader, 7, element,
                             "option \"%s\" must list only i64 or only text (texts like 12 in quotes)", option);
        if (type == SHEAF_OPTION_I64)
            i64s[i] = value.i64;
        else
            texts[i] = value.text;
    }
    *ret_value = (struct sheaf_option_value){.count = count};
    if (type == SHEAF_OPTION_I64) {
        ret_value->type = SHEAF_OPTION_I64_LIST;
        ret_value->i64s = i64s;
    } else {
        ret_value->type = SHEAF_OPTION_TEXT_LIST;
        ret_value->texts = texts;
    }
    return 0;
}

int yaml_option_value(struct yaml_reader *reader, yaml_node_t *node, const char *option,
                      struct sheaf_option_value *ret_value)
{
    struct sheaf_option_value value;
    int status = node->type == YAML_SEQUENCE_NODE ? list_value(reader, node, option, &value)
                                                  : scalar_value(reader, node, option, &value);
    if (status != 0)
        return status;
    return program_copy_value(&reader->program->memory, &value, ret_value) != 0 ? yaml_no_memory(reader) : 0;
}
