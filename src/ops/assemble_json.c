/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/assemble_json.h"

#include <errno.h>
#include <msgpack.h>
#include <stdio.h>

#include "ops/page_utf8.h"

static void append_key(struct buffer *out, const char *key)
{
    buffer_append_char(out, '"');
    buffer_append_text(out, key);
    buffer_append(out, "\":", 2);
}

static void append_string(struct buffer *out, const char *text)
{
    buffer_append_json(out, text, strlen(text));
}

/* A name, which is bytes: those that are no UTF-8 as \udcXX, as in the manifest. */
static void append_path(struct buffer *out, const char *path)
{
    size_t length = strlen(path), from = 0;
    buffer_append_char(out, '"');
    for (size_t at = 0; at < length;) {
        uint32_t bytes;
        int valid = 1;
        utf8_read(path + at, length - at, &bytes, &valid);
        if (!valid) {
            char escape[8];
            snprintf(escape, sizeof escape, "\\udc%02x", (unsigned char)path[at]);
            buffer_append_json_inside(out, path + from, at - from);
            buffer_append_text(out, escape);
            from = at + bytes;
        }
        at += bytes;
    }
    buffer_append_json_inside(out, path + from, length - from);
    buffer_append_char(out, '"');
}

static void append_metadata(struct buffer *out, const msgpack_object_map *map)
{
    bool first = true;
    buffer_append_char(out, '{');
    for (uint32_t i = 0; i < map->size; i++) {
        const msgpack_object *key = &map->ptr[i].key, *value = &map->ptr[i].val;
        bool text = value->type == MSGPACK_OBJECT_STR && utf8_valid(value->via.str.ptr, value->via.str.size);
        bool number = value->type == MSGPACK_OBJECT_POSITIVE_INTEGER, boolean = value->type == MSGPACK_OBJECT_BOOLEAN;
        if (key->type != MSGPACK_OBJECT_STR || !utf8_valid(key->via.str.ptr, key->via.str.size) ||
            !(text || number || boolean) || (key->via.str.size == 5 && !memcmp(key->via.str.ptr, "pages", 5)))
            continue;
        if (!first)
            buffer_append_char(out, ',');
        first = false;
        buffer_append_json(out, key->via.str.ptr, key->via.str.size);
        buffer_append_char(out, ':');
        if (text)
            buffer_append_json(out, value->via.str.ptr, value->via.str.size);
        else if (number)
            buffer_append_unsigned(out, value->via.u64);
        else
            buffer_append_text(out, value->via.boolean ? "true" : "false");
    }
    buffer_append_char(out, '}');
}

static uint64_t page_count_of(const msgpack_object_map *map)
{
    for (uint32_t i = 0; i < map->size; i++) {
        const msgpack_object *key = &map->ptr[i].key, *value = &map->ptr[i].val;
        if (key->type == MSGPACK_OBJECT_STR && key->via.str.size == 5 && !memcmp(key->via.str.ptr, "pages", 5) &&
            value->type == MSGPACK_OBJECT_POSITIVE_INTEGER)
            return value->via.u64;
    }
    return 0;
}

/* The names of status.h: a plug-in calls nothing of the library. */
const char *assemble_class_name(enum sheaf_class class_id)
{
    static const char *const names[SHEAF_CLASS_COUNT] = {
        "none",    "unreadable", "encrypted", "malformed", "unsupported", "empty", "too_large", "resource_exhausted",
        "timeout", "crashed",    "oom",       "contract",  "operator",    "gpu",   "io",        "cancelled"};
    return (unsigned)class_id < SHEAF_CLASS_COUNT ? names[class_id] : "unknown";
}

static void append_error(struct buffer *out, const struct assemble_error *error)
{
    append_key(out, "stage");
    static const char *const stages[] = {"page", "ocr", "image"};
    append_string(out, stages[error->stage]);
    buffer_append_char(out, ',');
    append_key(out, "class");
    append_string(out, assemble_class_name(error->class_id));
    buffer_append_char(out, ',');
    append_key(out, "message");
    append_string(out, error->message ? error->message : "");
}

static void append_errors(struct buffer *out, const struct assemble_error *errors, size_t count)
{
    buffer_append_char(out, '[');
    for (size_t i = 0; i < count; i++) {
        buffer_append_text(out, i ? ",{" : "{");
        append_key(out, "page");
        buffer_append_unsigned(out, errors[i].page);
        buffer_append_char(out, ',');
        append_error(out, &errors[i]);
        buffer_append_char(out, '}');
    }
    buffer_append_char(out, ']');
}

int assemble_json_begin(struct buffer *out, const void *info, size_t info_bytes, const struct assemble_error *errors,
                        size_t error_count, uint64_t *ret_page_count)
{
    msgpack_unpacked unpacked;
    size_t offset = 0;
    if (!record_counts_plausible(info, info_bytes))
        return -EBADMSG;
    msgpack_unpacked_init(&unpacked);
    msgpack_unpack_return got = msgpack_unpack_next(&unpacked, info, info_bytes, &offset);
    if (got != MSGPACK_UNPACK_SUCCESS || unpacked.data.type != MSGPACK_OBJECT_MAP) {
        msgpack_unpacked_destroy(&unpacked);
        return got == MSGPACK_UNPACK_NOMEM_ERROR ? -ENOMEM : -EBADMSG;
    }
    *ret_page_count = page_count_of(&unpacked.data.via.map);
    buffer_append_char(out, '{');
    append_key(out, "page_count");
    buffer_append_unsigned(out, *ret_page_count);
    buffer_append_char(out, ',');
    append_key(out, "status");
    append_string(out, error_count ? "partial" : "ok");
    buffer_append_char(out, ',');
    append_key(out, "metadata");
    append_metadata(out, &unpacked.data.via.map);
    buffer_append_char(out, ',');
    append_key(out, "errors");
    append_errors(out, errors, error_count);
    buffer_append_char(out, ',');
    append_key(out, "pages");
    buffer_append_char(out, '[');
    msgpack_unpacked_destroy(&unpacked);
    return 0;
}

static void append_number(struct buffer *out, const char *key, float value)
{
    append_key(out, key);
    buffer_append_hundredths(out, value);
    buffer_append_char(out, ',');
}

static void append_count(struct buffer *out, const char *key, uint32_t value)
{
    append_key(out, key);
    buffer_append_unsigned(out, value);
    buffer_append_char(out, ',');
}

static void append_page_facts(struct buffer *out, const struct page_content *content, uint32_t near_duplicate_of)
{
    append_count(out, "number", content->number);
    append_number(out, "width", content->width);
    append_number(out, "height", content->height);
    append_count(out, "rotation", content->rotation);
    append_key(out, "source");
    append_string(out, page_source_name(content->source));
    buffer_append_char(out, ',');
    if (content->confidence >= 0) {
        append_number(out, "confidence", content->confidence);
    } else {
        append_key(out, "confidence");
        buffer_append_text(out, "null,");
    }
    append_count(out, "fonts_substituted", content->fonts_substituted);
    append_count(out, "unmapped_characters", content->unmapped);
    append_key(out, "image");
    if (content->image_path[0])
        append_path(out, content->image_path);
    else
        buffer_append_text(out, "null");
    buffer_append_char(out, ',');
    if (content->truncated) {
        append_key(out, "truncated");
        buffer_append_text(out, "true,");
    }
    if (content->skew != 0)
        append_number(out, "skew", content->skew);
    if (content->has_look) {
        char look[33];
        snprintf(look, sizeof look, "%016llx%016llx", (unsigned long long)content->look[0],
                 (unsigned long long)content->look[1]);
        append_key(out, "look");
        append_string(out, look);
        buffer_append_char(out, ',');
    }
    if (near_duplicate_of > 0)
        append_count(out, "near_duplicate_of", near_duplicate_of);
}

static void append_box(struct buffer *out, const struct page_box *box)
{
    const float numbers[4] = {box->x0, box->y0, box->x1, box->y1};
    append_key(out, "box");
    for (int i = 0; i < 4; i++) {
        buffer_append_char(out, i ? ',' : '[');
        buffer_append_hundredths(out, numbers[i]);
    }
    buffer_append_char(out, ']');
}

static void append_block(struct buffer *out, const struct layout_block *block, const char *text, size_t bytes)
{
    buffer_append_char(out, '{');
    append_key(out, "kind");
    append_string(out, layout_kind_name(block->kind));
    buffer_append_char(out, ',');
    if (block->kind == LAYOUT_HEADING)
        append_count(out, "level", block->level);
    if (block->continues) {
        append_key(out, "continues");
        buffer_append_text(out, "true,");
    }
    append_box(out, &block->box);
    buffer_append_char(out, ',');
    append_number(out, "font_size", block->size);
    append_key(out, "text");
    buffer_append_json(out, text, bytes);
    buffer_append_char(out, '}');
}

/* All blocks' text as one JSON string, blocks apart by an empty line. */
static void append_page_text(struct buffer *out, const struct buffer *texts, const size_t *ends, uint32_t count)
{
    append_key(out, "text");
    size_t from = 0;
    buffer_append_char(out, '"');
    bool any = false;
    for (uint32_t i = 0; i < count && !out->failed; i++) {
        if (ends[i] > from) {
            if (any)
                buffer_append_text(out, "\\n\\n");
            any = true;
            size_t at = out->length;
            buffer_append_json(out, texts->data + from, ends[i] - from);
            if (!out->failed) { /* the string's own quotes go */
                memmove(out->data + at, out->data + at + 1, out->length - at - 2);
                out->length -= 2;
            }
        }
        from = ends[i];
    }
    buffer_append_text(out, "\",");
}

void assemble_json_page(struct buffer *out, bool first, const struct page_content *content, uint32_t near_duplicate_of,
                        const struct layout *layout, const struct buffer *texts, const size_t *ends)
{
    buffer_append_text(out, first ? "\n{" : ",\n{");
    append_page_facts(out, content, near_duplicate_of);
    append_page_text(out, texts, ends, layout->block_count);
    append_key(out, "blocks");
    buffer_append_char(out, '[');
    size_t from = 0;
    for (uint32_t i = 0; i < layout->block_count; i++) {
        if (i)
            buffer_append_char(out, ',');
        append_block(out, &layout->blocks[i], ends[i] > from ? texts->data + from : "", ends[i] - from);
        from = ends[i];
    }
    buffer_append_text(out, "]}");
}

void assemble_json_failed_page(struct buffer *out, bool first, const struct assemble_error *error)
{
    buffer_append_text(out, first ? "\n{" : ",\n{");
    append_count(out, "number", error->page);
    append_key(out, "error");
    buffer_append_char(out, '{');
    append_error(out, error);
    buffer_append_text(out, "}}");
}

void assemble_json_end(struct buffer *out)
{
    buffer_append_text(out, "\n]}\n");
}
