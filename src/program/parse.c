/* SPDX-License-Identifier: Apache-2.0 */
#include "program/parse.h"

#include <errno.h>
#include <string.h>

static int parse_source(struct yaml_reader *reader, const char *port, yaml_node_t *key_node, yaml_node_t *value)
{
    static const char *const keys[] = {"kind", "rows",
                                       NULL}; /* rows: the input of a test case, no part of the program */
    reader->step_word = "source";
    reader->step_name = port;
    yaml_node_t *kind_node = value;
    if (value->type == YAML_MAPPING_NODE) {
        int status = yaml_check_keys(reader, value, "a source", keys);
        if (status != 0)
            return status;
        kind_node = yaml_lookup(reader, value, "kind");
        if (!kind_node)
            return yaml_fail(reader, 0, value, "the source needs the key \"kind\"");
    }
    const char *text;
    sheaf_kind kind;
    int status = yaml_text(reader, kind_node, "kind", &text);
    if (status != 0)
        return status;
    if (kind_parse(text, &kind) != 0)
        return yaml_fail(
            reader, 0, kind_node,
            "unknown kind \"%.100s\"; write bool, i64, f64, text, bytes, tensor, record, file or list<...> of one",
            text);
    if (sheaf_program_source(reader->program, port, kind) != 0)
        return yaml_no_memory(reader);
    reader->program->steps[reader->program->step_count - 1].line = yaml_line(key_node);
    reader->step_word = NULL;
    return 0;
}

static int parse_sources(struct yaml_reader *reader, yaml_node_t *sources)
{
    if (sources->type != YAML_MAPPING_NODE)
        return yaml_fail(reader, 0, sources, "\"sources\" must be a mapping of Port names to kinds");
    size_t position = 0;
    const char *port = NULL;
    yaml_node_t *key_node = NULL, *value = NULL;
    int status;
    while ((status = yaml_next_pair(reader, sources, &position, &port, &key_node, &value)) == 1) {
        status = parse_source(reader, port, key_node, value);
        if (status != 0)
            return status;
    }
    return status;
}

static int parse_steps(struct yaml_reader *reader, yaml_node_t *steps)
{
    if (steps->type != YAML_SEQUENCE_NODE)
        return yaml_fail(reader, 0, steps, "\"steps\" must be a list");
    uint32_t count;
    int status = yaml_count(reader, steps, "steps", &count);
    for (uint32_t i = 0; status == 0 && i < count; i++)
        status = parse_step(reader, yaml_element(reader, steps, i));
    return status;
}

static int parse_outputs(struct yaml_reader *reader, yaml_node_t *outputs)
{
    uint32_t count;
    int status = yaml_count(reader, outputs, "\"outputs\"", &count);
    for (uint32_t i = 0; status == 0 && i < count; i++) {
        yaml_node_t *node = yaml_element(reader, outputs, i);
        const char *port;
        status = yaml_text(reader, node, "an output", &port);
        if (status == 0 && program_add_output(reader->program, port, NULL, yaml_line(node)) != 0)
            status = yaml_no_memory(reader);
    }
    return status;
}

static int set_file(struct yaml_reader *reader, const char *port, yaml_node_t *key_node, yaml_node_t *value)
{
    struct sheaf_program *program = reader->program;
    struct nearest nearest;
    nearest_start(&nearest, port);
    const char *pattern;
    int status = yaml_text(reader, value, "a file pattern", &pattern);
    if (status != 0)
        return status;
    for (uint32_t i = 0; i < program->output_count; i++) {
        struct program_output *output = &program->outputs[i];
        nearest_offer(&nearest, output->port);
        if (strcmp(output->port, port) != 0)
            continue;
        if (output->file)
            return yaml_fail(reader, 0, key_node, "\"%s\" stands twice in \"files\"; remove one", port);
        output->file = memory_string(&program->memory, pattern);
        return output->file ? 0 : yaml_no_memory(reader);
    }
    return yaml_fail(reader, 0, key_node, "\"files\" names \"%.100s\", which is no output%s", port,
                     nearest_hint(&nearest));
}

static int parse_files(struct yaml_reader *reader, yaml_node_t *files)
{
    if (files->type != YAML_MAPPING_NODE)
        return yaml_fail(reader, 0, files, "\"files\" must be a mapping of outputs to file patterns");
    size_t position = 0;
    const char *port = NULL;
    yaml_node_t *key_node = NULL, *value = NULL;
    int status;
    while ((status = yaml_next_pair(reader, files, &position, &port, &key_node, &value)) == 1) {
        status = set_file(reader, port, key_node, value);
        if (status != 0)
            return status;
    }
    return status;
}

static int parse_document(struct yaml_reader *reader)
{
    static const char *const keys[] = {"name", "description", "sources", "steps", "outputs", "files", NULL};
    yaml_node_t *root = yaml_document_get_root_node(reader->document);
    if (!root)
        return yaml_fail(reader, 0, NULL, "the text is empty; a program has sources, steps and outputs");
    if (root->type != YAML_MAPPING_NODE)
        return yaml_fail(reader, 0, root, "a program is a mapping with the keys sources, steps and outputs");
    int status = yaml_check_keys(reader, root, "the program", keys);
    static const struct {
        const char *key;
        int (*parse)(struct yaml_reader *reader, yaml_node_t *node);
    } parts[] = {
        {"sources", parse_sources}, {"steps", parse_steps}, {"outputs", parse_outputs}, {"files", parse_files}};
    for (size_t i = 0; status == 0 && i < sizeof(parts) / sizeof(parts[0]); i++) {
        yaml_node_t *node = yaml_lookup(reader, root, parts[i].key);
        status = node ? parts[i].parse(reader, node) : 0; /* what is missing the compiler says */
    }
    for (size_t i = 0; status == 0 && i < 2; i++) {
        const char *text;
        const yaml_node_t *node = yaml_lookup(reader, root, keys[i]);
        status = node ? yaml_text(reader, node, keys[i], &text) : 0;
    }
    return status;
}

static int fail_syntax(struct yaml_reader *reader, const yaml_parser_t *parser)
{
    if (parser->error == YAML_MEMORY_ERROR)
        return yaml_no_memory(reader);
    bool marked = parser->error == YAML_SCANNER_ERROR || parser->error == YAML_PARSER_ERROR ||
                  parser->error == YAML_COMPOSER_ERROR;
    if (marked)
        return program_error(reader->error, SHEAF_E_USAGE, 0, "%.200s:%zu:%zu: not valid YAML: %s", reader->name,
                             parser->problem_mark.line + 1, parser->problem_mark.column + 1,
                             parser->problem ? parser->problem : "syntax error");
    return program_error(reader->error, SHEAF_E_USAGE, 0, "%.200s: not valid YAML at byte %zu: %s", reader->name,
                         parser->problem_offset, parser->problem ? parser->problem : "unreadable");
}

/* A second document, or what is no YAML after the first, is an error too. */
static int check_end(struct yaml_reader *reader, yaml_parser_t *parser)
{
    yaml_document_t rest;
    if (!yaml_parser_load(parser, &rest))
        return fail_syntax(reader, parser);
    const yaml_node_t *root = yaml_document_get_root_node(&rest);
    int status = root ? yaml_fail(reader, 0, root, "a second document; a program is one document") : 0;
    yaml_document_delete(&rest);
    return status;
}

static int parse_text(struct yaml_reader *reader, const char *text, size_t length_bytes)
{
    yaml_parser_t parser;
    yaml_document_t document;
    if (!yaml_parser_initialize(&parser))
        return yaml_no_memory(reader);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, length_bytes);
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    if (!yaml_parser_load(&parser, &document)) {
        int status = fail_syntax(reader, &parser);
        yaml_parser_delete(&parser);
        return status;
    }
    reader->document = &document;
    int status = parse_document(reader);
    if (status == 0)
        status = check_end(reader, &parser);
    yaml_document_delete(&document);
    yaml_parser_delete(&parser);
    return status;
}

int sheaf_program_parse(struct sheaf_program *program, const char *name, const char *text, size_t length_bytes,
                        const char *const *overrides, size_t override_count, struct sheaf_error *error)
{
    if (!program || !text || (override_count > 0 && !overrides))
        return program_error(error, -EINVAL, 0, "program, text and overrides must be given");
    program->text_name = memory_string(&program->memory, name && *name ? name : "program");
    if (!program->text_name)
        return program_error(error, -ENOMEM, 0, "out of memory");
    struct yaml_reader reader = {.program = program, .name = program->text_name, .error = error};
    int status = parse_text(&reader, text, length_bytes);
    for (size_t i = 0; status == 0 && i < override_count; i++)
        status = override_option(program, overrides[i], error);
    return status;
}
