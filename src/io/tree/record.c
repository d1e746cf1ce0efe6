/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first line of a journal record. Paths are bytes and JSON is UTF-8: a path that is not UTF-8 is an object
 * {"bytes": ...} in which '%' and every byte over 126 is written as %XX.
 */
#include "io/tree/tree.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *encode_path(const char *path)
{
    json_t *text = json_string(path); /* NULL when it is not UTF-8 */

    if (text != NULL)
        return text;
    static const char digits[] = "0123456789ABCDEF";
    char *escaped = malloc(strlen(path) * 3 + 1), *to = escaped;
    if (escaped == NULL)
        return NULL;
    for (const unsigned char *from = (const unsigned char *)path; *from != '\0'; from++) {
        bool plain = *from != '%' && *from <= 126;

        *to++ = plain ? (char)*from : '%';
        if (!plain) {
            *to++ = digits[*from >> 4];
            *to++ = digits[*from & 15];
        }
    }
    *to = '\0';
    json_t *object = json_pack("{s:s}", "bytes", escaped);
    free(escaped);
    return object;
}

/* A new string, or NULL. */
static char *decode_path(const json_t *encoded)
{
    const char *escaped = json_string_value(json_object_get(encoded, "bytes"));
    unsigned byte;

    if (json_is_string(encoded))
        return strdup(json_string_value(encoded));
    if (escaped == NULL)
        return NULL;
    char *path = malloc(strlen(escaped) + 1), *to = path;
    if (path == NULL)
        return NULL;
    for (const char *from = escaped; *from != '\0'; from++)
        if (from[0] == '%' && from[1] != '\0' && from[2] != '\0' && sscanf(from + 1, "%2x", &byte) == 1) {
            *to++ = (char)byte;
            from += 2;
        } else {
            *to++ = *from;
        }
    *to = '\0';
    return path;
}

static const char *state_name(enum journal_state state)
{
    static const char *const names[] = {"ok", "partial", "filtered", "failed", "retracted"};

    return names[state];
}

static json_t *describe_files(const struct tree_root *root)
{
    json_t *files = json_array();
    char hash[17];

    for (uint32_t i = 0; i < root->file_count; i++) {
        const struct tree_file *file = &root->files[i];

        snprintf(hash, sizeof hash, "%016llx", (unsigned long long)file->hash);
        json_t *entry = json_pack("{s:o, s:I, s:s, s:I}", "path", encode_path(file->path), "bytes",
                                  (json_int_t)file->length_bytes, "xxh3", hash, "mtime_ns", (json_int_t)file->mtime_ns);
        if (json_array_append_new(files, entry) < 0) { /* also when entry or files is NULL */
            json_decref(files);
            return NULL;
        }
    }
    return files;
}

char *record_describe(const struct tree_root *root, const char *run_id)
{
    json_t *record = json_pack("{s:o, s:I, s:I, s:s, s:o, s:o}", "source", encode_path(root->path), "bytes",
                               (json_int_t)root->size_bytes, "mtime_ns", (json_int_t)root->mtime_ns, "status",
                               state_name(root->state), "run", encode_path(run_id), "files", describe_files(root));
    char *line = record == NULL ? NULL : json_dumps(record, JSON_COMPACT);

    json_decref(record);
    return line;
}

static int parse_file(const json_t *encoded, struct record_file *file)
{
    const char *hash = json_string_value(json_object_get(encoded, "xxh3"));

    file->path = decode_path(json_object_get(encoded, "path"));
    if (file->path == NULL || hash == NULL || tree_path_problem(file->path) != NULL)
        return -EBADMSG;
    file->length_bytes = (uint64_t)json_integer_value(json_object_get(encoded, "bytes"));
    file->mtime_ns = json_integer_value(json_object_get(encoded, "mtime_ns"));
    file->hash = strtoull(hash, NULL, 16);
    return 0;
}

static int parse_files(const json_t *files, struct record *record)
{
    size_t count = json_array_size(files);
    int rc = 0;

    record->files = calloc(count + 1, sizeof *record->files);
    if (record->files == NULL)
        return -ENOMEM;
    while (record->file_count < count && rc == 0) {
        rc = parse_file(json_array_get(files, record->file_count), &record->files[record->file_count]);
        record->file_count++;
    }
    return rc;
}

int record_parse(const char *text, struct record *ret_record)
{
    struct record record = {0};
    size_t length = strcspn(text, "\n");
    json_t *object = json_loadb(text, length, 0, NULL);

    if (object == NULL)
        return -EBADMSG;
    record.path = decode_path(json_object_get(object, "source"));
    record.size_bytes = (uint64_t)json_integer_value(json_object_get(object, "bytes"));
    record.mtime_ns = json_integer_value(json_object_get(object, "mtime_ns"));
    int rc = record.path == NULL ? -EBADMSG : parse_files(json_object_get(object, "files"), &record);
    json_decref(object);
    if (rc < 0) {
        record_clear(&record);
        return rc;
    }
    record.manifest_line = text + length + (text[length] == '\n');
    record.manifest_length = strcspn(record.manifest_line, "\n");
    record.error_lines = record.manifest_line + record.manifest_length;
    record.error_lines += *record.error_lines == '\n';
    *ret_record = record;
    return 0;
}

void record_clear(struct record *record)
{
    for (size_t i = 0; i < record->file_count; i++)
        free(record->files[i].path);
    free(record->files);
    free(record->path);
    *record = (struct record){0};
}

char *record_describe_header(const char *run_id, const char *fingerprint, const char *description)
{
    json_t *header =
        json_pack("{s:i, s:o, s:o}", "journal", 1, "run", encode_path(run_id), "fingerprint", encode_path(fingerprint));

    if (header != NULL && description != NULL)
        json_object_set_new(header, "description", json_string(description)); /* left out when it is not UTF-8 */
    char *line = header == NULL ? NULL : json_dumps(header, JSON_COMPACT);
    json_decref(header);
    return line;
}

int record_parse_header(const char *text, char **ret_fingerprint, char **ret_description)
{
    json_t *header = json_loadb(text, strcspn(text, "\n"), 0, NULL);
    const char *description = json_string_value(json_object_get(header, "description"));
    char *fingerprint = decode_path(json_object_get(header, "fingerprint"));
    bool good = fingerprint != NULL && json_integer_value(json_object_get(header, "journal")) == 1;

    if (good) {
        *ret_fingerprint = fingerprint;
        *ret_description = description == NULL ? NULL : strdup(description);
    } else {
        free(fingerprint);
    }
    json_decref(header);
    return good ? 0 : -EBADMSG;
}
