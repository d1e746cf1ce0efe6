/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading a YAML document node by node, with messages that name the text and the line. On top of libyaml's document
 * API, which resolves aliases and keeps marks; the meaning of plain scalars (true, 12, 1.5, text) is that of YAML 1.2's
 * core schema, so "no" and "on" are text.
 */
#ifndef SRC_PROGRAM_YAML_READER_H
#define SRC_PROGRAM_YAML_READER_H

#include <yaml.h>

#include "program/program.h"
#include "program/text.h"

struct yaml_reader {
    struct sheaf_program *program;
    const char *name; /* of the text */
    yaml_document_t *document;
    struct sheaf_error *error;
    const char *step_word; /* the step being read, for messages; NULL outside */
    const char *step_name;
};

/* SHEAF_E_USAGE (row 0) or SHEAF_E_REFUSED (another row), with name, line and step put in front. `node` NULL: no line.
 */
int yaml_fail(struct yaml_reader *reader, uint32_t row, const yaml_node_t *node, const char *format, ...)
    SHEAF_PRINTF(4, 5);
int yaml_no_memory(struct yaml_reader *reader);
uint32_t yaml_line(const yaml_node_t *node);

/* Iterates a mapping: key as text (in the document's memory) and value node. Returns 1, 0 at the end, or a status. */
int yaml_next_pair(struct yaml_reader *reader, const yaml_node_t *mapping, size_t *position, const char **ret_key,
                   yaml_node_t **ret_key_node, yaml_node_t **ret_value);
/* The value under a key of a mapping, or NULL. */
yaml_node_t *yaml_lookup(struct yaml_reader *reader, const yaml_node_t *mapping, const char *key);
/* Refuses a mapping with an unknown key (naming the nearest known one) or a key that stands twice. `keys` ends with
 * NULL. */
int yaml_check_keys(struct yaml_reader *reader, const yaml_node_t *mapping, const char *what, const char *const *keys);

/* A scalar as text, not empty and without NUL; in the document's memory. */
int yaml_text(struct yaml_reader *reader, const yaml_node_t *node, const char *what, const char **ret_text);
/* A sequence has `count` elements; a scalar counts as a sequence of one. */
int yaml_count(struct yaml_reader *reader, const yaml_node_t *node, const char *what, uint32_t *ret_count);
/* Element `index` of the same. */
yaml_node_t *yaml_element(struct yaml_reader *reader, yaml_node_t *node, uint32_t index);
/* A plain i64. */
int yaml_i64(struct yaml_reader *reader, const yaml_node_t *node, const char *what, int64_t *ret_value);
/* An option's value: a scalar by the core schema, or a list of i64 or of text; copied into the Program's memory. What
 * no option can be is refused by row 7. */
int yaml_option_value(struct yaml_reader *reader, yaml_node_t *node, const char *option,
                      struct sheaf_option_value *ret_value);

/* What a plain scalar means; false for null and for integers that do not fit. `ret_value`'s text is `text` itself. */
bool yaml_plain_value(const char *text, struct sheaf_option_value *ret_value);

#endif
