/* SPDX-License-Identifier: Apache-2.0 */
#include "settings_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct reader {
    const char *path;
    settings_file_take take;
    void *cookie;
    struct text *error;
    char *key; /* seen, its value not yet */
    int depth; /* 0 outside, 1 in the mapping */
};

static int take_scalar(struct reader *reader, const yaml_event_t *event)
{
    const char *word = (const char *)event->data.scalar.value;
    if (reader->key == NULL) {
        reader->key = must_copy(word);
        return 0;
    }
    struct text where = {0};
    text_addf(&where, "%s:%zu", reader->path, event->start_mark.line + 1);
    int is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (is_plain && strcmp(word, "true") == 0)
        word = "yes";
    else if (is_plain && strcmp(word, "false") == 0)
        word = "no";
    int status = reader->take(reader->cookie, reader->key, word, where.data, reader->error);
    text_free(&where);
    free(reader->key);
    reader->key = NULL;
    return status;
}

static int take_event(struct reader *reader, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        if (reader->depth == 0 && event->data.scalar.length == 0)
            return 0; /* an empty document */
        if (reader->depth == 1)
            return take_scalar(reader, event);
        break;
    case YAML_MAPPING_START_EVENT:
        if (reader->depth == 0) {
            reader->depth = 1;
            return 0;
        }
        break;
    case YAML_MAPPING_END_EVENT:
        reader->depth = 0;
        return 0;
    case YAML_SEQUENCE_START_EVENT:
    case YAML_ALIAS_EVENT:
        break;
    default:
        return 0;
    }
    text_addf(reader->error, "%s:%zu: want lines of the form `setting: value`", reader->path,
              event->start_mark.line + 1);
    return SHEAF_E_USAGE;
}

static int read_events(struct reader *reader, yaml_parser_t *parser)
{
    for (;;) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event)) {
            text_addf(reader->error, "%s:%zu: not YAML: %s", reader->path, parser->problem_mark.line + 1,
                      parser->problem != NULL ? parser->problem : "unreadable");
            return SHEAF_E_USAGE;
        }
        int status = take_event(reader, &event);
        bool at_end = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
        if (status < 0 || at_end)
            return status;
    }
}

int settings_file_read(const char *path, bool must_exist, settings_file_take take, void *cookie, struct text *error)
{
    FILE *file = fopen(path, "rbe");
    if (file == NULL) {
        if (errno == ENOENT && !must_exist)
            return 0;
        text_addf(error, "%s: the settings file cannot be read: %s", path, strerror(errno));
        return SHEAF_E_USAGE;
    }
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser)) {
        fclose(file);
        return -ENOMEM;
    }
    yaml_parser_set_input_file(&parser, file);
    struct reader reader = {path, take, cookie, error, NULL, 0};
    int status = read_events(&reader, &parser);
    free(reader.key);
    yaml_parser_delete(&parser);
    fclose(file);
    return status;
}
