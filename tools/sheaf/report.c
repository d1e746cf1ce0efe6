/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <jansson.h>
#include <string.h>

void report_manifest(const struct report_entry *entry, struct text *ret_line)
{
    text_clear(ret_line);
    text_adds(ret_line, "{");
    text_add_member(ret_line, "source", entry->source);
    text_add_member(ret_line, "status", entry->status);
    text_adds(ret_line, ",\"outputs\":[");
    for (size_t i = 0; entry->outputs != NULL && i < entry->outputs->count; i++) {
        if (i > 0)
            text_adds(ret_line, ",");
        text_add_json(ret_line, entry->outputs->items[i], strlen(entry->outputs->items[i]));
    }
    text_adds(ret_line, "]");
    if (entry->has_pages)
        text_add_member_number(ret_line, "pages", entry->pages);
    if (entry->class_name != NULL) {
        text_add_member(ret_line, "class", entry->class_name);
        text_add_member(ret_line, "message", entry->message);
    }
    text_add_member_number(ret_line, "elapsed_ms", entry->elapsed_ms);
    text_adds(ret_line, "}");
}

/* The end of the JSON string that begins at `at`, behind its closing quote; NULL if it has none. */
static const char *string_end(const char *at)
{
    for (at++; *at != '\0' && *at != '"'; at++) {
        if (*at == '\\' && at[1] != '\0')
            at++;
    }
    return *at == '"' ? at + 1 : NULL;
}

/* Splits a line of ours: behind "source":... and "status":"...". False if it is not one. */
static bool split_line(const char *line, const char **ret_status, size_t *ret_length, const char **ret_rest)
{
    static const char source_key[] = "{\"source\":\"", status_key[] = ",\"status\":\"";
    if (line == NULL || strncmp(line, source_key, strlen(source_key)) != 0)
        return false;
    const char *at = string_end(line + strlen(source_key) - 1);
    if (at == NULL || strncmp(at, status_key, strlen(status_key)) != 0)
        return false;
    const char *status = at + strlen(status_key), *rest = string_end(status - 1);
    size_t rest_length = rest == NULL ? 0 : strlen(rest);
    if (rest_length == 0 || rest[rest_length - 1] != '}')
        return false;
    *ret_status = status;
    *ret_length = (size_t)(rest - status) - 1;
    *ret_rest = rest;
    return true;
}

void report_skipped(const char *source, const char *earlier_line, const char *message, struct text *ret_line)
{
    const char *status, *rest;
    size_t length;
    text_clear(ret_line);
    text_adds(ret_line, "{");
    text_add_member(ret_line, "source", source);
    text_add_member(ret_line, "status", "skipped");
    bool has_class = false;
    if (split_line(earlier_line, &status, &length, &rest)) {
        text_addf(ret_line, ",\"earlier\":\"%.*s\"", (int)length, status);
        text_add(ret_line, rest, strlen(rest) - 1);
        has_class = length != 2 || strncmp(status, "ok", 2) != 0; /* every line that is not `ok` has one */
    }
    if (!has_class) {
        text_add_member(ret_line, "class", "none");
        text_add_member(ret_line, "message", message);
    }
    text_adds(ret_line, "}");
}

void report_failure(const char *source, const uint64_t *root, const struct sheaf_failure *failure, struct text *lines)
{
    text_adds(lines, "{");
    text_add_member(lines, "source", source);
    if (root != NULL)
        text_add_member_number(lines, "root", *root);
    else
        text_adds(lines, ",\"root\":null");
    text_adds(lines, ",\"coordinate\":[");
    for (uint32_t i = 0; i < failure->depth; i++)
        text_addf(lines, "%s%llu", i > 0 ? "," : "", (unsigned long long)failure->coordinate[i]);
    text_adds(lines, "]");
    if (failure->depth >= 2)
        text_add_member_number(lines, "page", failure->coordinate[1] + 1);
    else
        text_adds(lines, ",\"page\":null");
    text_add_member(lines, "call", failure->call == NULL ? "" : failure->call);
    text_add_member(lines, "operator", failure->operator_name == NULL ? "" : failure->operator_name);
    text_add_member(lines, "version", failure->operator_version == NULL ? "" : failure->operator_version);
    text_add_member(lines, "class", sheaf_class_name(failure->class_id));
    text_add_member(lines, "message", failure->message == NULL ? "" : failure->message);
    text_add_member_number(lines, "attempt", failure->attempt);
    text_add_member_number(lines, "elapsed_ms", failure->elapsed_us / 1000);
    text_adds(lines, "}\n");
}

static void set_count(json_t *object, const char *key, uint64_t value)
{
    json_object_set_new(object, key, json_integer((json_int_t)value));
}

char *report_run_json(const struct report_run *run, const char *engine_ledger)
{
    const struct report_counts *counts = &run->counts;
    json_t *object = json_object();
    json_object_set_new(object, "sheaf", json_string(sheaf_version()));
    json_object_set_new(object, "run_id", json_string(run->run_id));
    json_object_set_new(object, "pipeline", json_string(run->pipeline));
    json_object_set_new(object, "fingerprint", json_string(run->fingerprint));
    json_t *ledger = engine_ledger == NULL ? NULL : json_loads(engine_ledger, 0, NULL);
    if (ledger != NULL)
        json_object_update(object, ledger);
    json_decref(ledger);
    set_count(object, "inputs", counts->inputs);
    set_count(object, "ok", counts->ok);
    set_count(object, "partial", counts->partial);
    set_count(object, "filtered", counts->filtered);
    set_count(object, "failed", counts->failed);
    set_count(object, "skipped", counts->skipped);
    set_count(object, "changed", counts->changed);
    set_count(object, "pages", counts->pages);
    json_object_set_new(object, "wall_s", json_real(counts->wall_seconds));
    set_count(object, "first_commit_pages", counts->first_commit_pages);
    json_object_set_new(object, "first_commit_s",
                        counts->first_commit_seconds < 0 ? json_null() : json_real(counts->first_commit_seconds));
    json_object_set_new(object, "interrupted", json_boolean(run->interrupted));
    json_object_set_new(object, "exit_code", json_integer(run->exit_code));
    char *text = json_dumps(object, JSON_INDENT(2) | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(6));
    json_decref(object);
    return text;
}
