/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "shm/crash_point.h"
#include "shm/value_hash.h"
#include "worker/worker.h"

#define PREFIX_BYTES_MAX 8192u

/* What stands before a value's data. */
struct prefix {
    uint32_t bytes; /* 0: nothing; else a multiple of 8 */
    struct file_prefix file;
    const void *text; /* media type or path, NUL-terminated */
    uint32_t text_bytes;
    const struct sheaf_tensor *tensor;
};

static uint64_t align_up(uint64_t number, uint64_t alignment)
{
    return (number + alignment - 1) & ~(alignment - 1);
}

static uint64_t hash_of(const struct sheaf_worker *worker, const void *start, uint64_t bytes)
{
    return worker->hello.integrity != ATTACH_INTEGRITY_OFF ? value_hash(start, bytes) : 0;
}

static void locate(const struct sheaf_worker *worker, const void *data, struct value_ref *ret_ref)
{
    uint32_t number = 0;
    uint64_t offset = 0;
    int status = chunk_pages_locate(&worker->pages, data, &number, &offset);
    assert(status == 0);
    (void)status;
    ret_ref->segment = (uint16_t)number;
    ret_ref->offset = offset;
}

/* ---- prefixes ---- */

static int plan_prefix(struct worker_row *row, const struct sheaf_value *value, struct prefix *ret_prefix)
{
    struct prefix prefix = {0};
    struct file_prefix source;
    switch (SHEAF_KIND_BASE(value->kind)) {
    case SHEAF_BYTES:
        prefix.text = value->name;
        break;
    case SHEAF_TENSOR:
        if (value->tensor == NULL || value->tensor->rank > 8 || value->tensor->dtype < SHEAF_U8 ||
            value->tensor->dtype > SHEAF_DF64)
            return -EINVAL;
        prefix.tensor = value->tensor;
        prefix.bytes = sizeof *value->tensor;
        break;
    case SHEAF_FILE:
        prefix.text = value->name != NULL ? value->name : "";
        /* A file that came as an input keeps its source, so that a reader can still ask for its descriptor. */
        if (view_file_prefix(&row->worker->map, value, &source))
            prefix.file.source = source.source;
        if (prefix.file.source == 0 && value->data == NULL && value->length_bytes > 0)
            return -EINVAL; /* neither bytes nor a way to them */
        prefix.bytes = sizeof prefix.file;
        break;
    default:
        break;
    }
    if (prefix.text != NULL) {
        prefix.text_bytes = (uint32_t)strnlen(prefix.text, PREFIX_BYTES_MAX) + 1;
        if (prefix.text_bytes > PREFIX_BYTES_MAX)
            return -EINVAL;
        prefix.bytes = (uint32_t)align_up(prefix.bytes + prefix.text_bytes, 8);
    }
    if (SHEAF_KIND_BASE(value->kind) == SHEAF_FILE) {
        prefix.file.flags = prefix.file.source == 0 ? FILE_IN_MEMORY : 0;
        prefix.file.path_bytes = prefix.text_bytes;
    }
    *ret_prefix = prefix;
    return 0;
}

/* Writes the prefix at the beginning of `room`, which may be longer than it needs. */
static void write_prefix(char *room, const struct sheaf_value *value, const struct prefix *prefix)
{
    if (SHEAF_KIND_BASE(value->kind) == SHEAF_FILE) {
        memcpy(room, &prefix->file, sizeof prefix->file);
        room += sizeof prefix->file;
    }
    if (prefix->tensor != NULL)
        memcpy(room, prefix->tensor, sizeof *prefix->tensor);
    if (prefix->text != NULL)
        memcpy(room, prefix->text, prefix->text_bytes);
}

/* Bytes that travel with the value: none for a file that readers get by descriptor. */
static uint64_t carried_bytes(const struct sheaf_value *value, const struct prefix *prefix)
{
    bool elsewhere = SHEAF_KIND_BASE(value->kind) == SHEAF_FILE && (prefix->file.flags & FILE_IN_MEMORY) == 0;
    return elsewhere ? 0 : value->length_bytes;
}

static bool is_plausible(const struct sheaf_value *value)
{
    uint32_t base = SHEAF_KIND_BASE(value->kind);
    if (base < SHEAF_BOOL || base > SHEAF_FILE || value->kind >> 16 != 0)
        return false;
    if (SHEAF_KIND_DEPTH(value->kind) > 0)
        return value->list != NULL;
    return value_is_scalar(value->kind) || base == SHEAF_FILE || value->data != NULL || value->length_bytes == 0;
}

/* A value that needs no memory. */
static bool publish_inline(const struct sheaf_value *value, struct value_ref *ret_ref)
{
    struct value_ref ref = {.kind = value->kind, .segment = VALUE_INLINE};
    uint32_t base = SHEAF_KIND_BASE(value->kind);
    if (value->kind == SHEAF_BOOL)
        ref.offset = value->boolean != 0;
    else if (value_is_scalar(value->kind))
        ref.offset = (uint64_t)value->i64;
    else if (SHEAF_KIND_DEPTH(value->kind) > 0 || value->length_bytes > 0 || base == SHEAF_TENSOR ||
             base == SHEAF_FILE || (base == SHEAF_BYTES && value->name != NULL))
        return false;
    *ret_ref = ref;
    return true;
}

/* ---- lists: everything in one block ---- */

/* Where the next thing goes. `base` NULL: only measure. */
struct layout {
    struct worker_row *row;
    char *base;
    uint64_t used, limit_bytes;
    struct value_ref at; /* segment and offset of base */
};

/* Whether it may be written up to `end`: a list in another's memory may have grown since it was measured. */
static bool fits(const struct layout *layout, uint64_t end)
{
    return layout->base == NULL || end <= layout->limit_bytes;
}

static int lay_value(struct layout *layout, const struct sheaf_value *value, struct value_ref *ret_ref);

static int lay_errors(struct layout *layout, struct sheaf_list *list, uint64_t errors_at)
{
    struct sheaf_list_error error;
    int status;
    for (uint32_t at = 0; (status = list_error_next(list, &error)) > 0; at++) {
        struct list_error_ref ref = {.ordinal = error.ordinal, .class_id = error.class_id};
        ref.message_length = (uint32_t)strlen(error.message);
        ref.message_offset = layout->at.offset + layout->used;
        if (!fits(layout, layout->used + ref.message_length))
            return -EBADMSG;
        if (layout->base != NULL) {
            memcpy(layout->base + errors_at + at * sizeof ref, &ref, sizeof ref);
            memcpy(layout->base + layout->used, error.message, ref.message_length);
        }
        layout->used += ref.message_length;
    }
    return status;
}

static int lay_list(struct layout *layout, sheaf_kind kind, struct sheaf_list *list, struct value_ref *ret_ref)
{
    uint64_t block_at = align_up(layout->used, 16), refs_at = block_at + sizeof(struct list_block);
    uint64_t errors_at = refs_at + list->count * sizeof(struct value_ref);
    layout->used = errors_at + list->error_count * sizeof(struct list_error_ref);
    if (!fits(layout, layout->used))
        return -EBADMSG;
    list_rewind(list);
    struct sheaf_value element;
    int status;
    for (uint32_t at = 0; (status = list_next(list, &element)) > 0; at++) {
        struct value_ref ref;
        status = lay_value(layout, &element, &ref);
        if (status < 0)
            return status;
        if (layout->base != NULL)
            memcpy(layout->base + refs_at + at * sizeof ref, &ref, sizeof ref);
    }
    if (status == 0)
        status = lay_errors(layout, list, errors_at);
    list_rewind(list);
    if (status < 0)
        return status;
    struct list_block block = {list->count, list->error_count, layout->used - block_at};
    if (layout->base != NULL)
        memcpy(layout->base + block_at, &block, sizeof block);
    *ret_ref = (struct value_ref){
        .kind = kind, .segment = layout->at.segment, .offset = layout->at.offset + block_at, .length = list->count};
    return 0;
}

static int lay_value(struct layout *layout, const struct sheaf_value *value, struct value_ref *ret_ref)
{
    if (!is_plausible(value))
        return -EINVAL;
    if (publish_inline(value, ret_ref))
        return 0;
    if (SHEAF_KIND_DEPTH(value->kind) > 0)
        return lay_list(layout, value->kind, value->list, ret_ref);
    struct prefix prefix;
    int status = plan_prefix(layout->row, value, &prefix);
    if (status < 0)
        return status;
    uint64_t alignment = value->kind == SHEAF_TENSOR ? PAYLOAD_ALIGNMENT : 16;
    uint64_t data_at = align_up(layout->used + prefix.bytes, alignment), bytes = carried_bytes(value, &prefix);
    if (!fits(layout, data_at + bytes))
        return -EBADMSG;
    if (layout->base != NULL) {
        write_prefix(layout->base + data_at - prefix.bytes, value, &prefix);
        if (bytes > 0)
            memcpy(layout->base + data_at, value->data, bytes);
    }
    layout->used = data_at + bytes;
    *ret_ref = (struct value_ref){.kind = value->kind,
                                  .segment = layout->at.segment,
                                  .prefix = (uint16_t)prefix.bytes,
                                  .offset = layout->at.offset + data_at,
                                  .length = value->length_bytes};
    return 0;
}

/* Measures with `lay`, allocates, lays. */
typedef int lay_function(struct layout *layout, void *context, struct value_ref *ret_ref);

static int publish_block(struct worker_row *row, lay_function *lay, void *context, struct value_ref *ret_ref)
{
    struct layout layout = {.row = row};
    struct value_ref ref;
    int status = lay(&layout, context, &ref);
    if (status < 0)
        return status;
    uint64_t bytes = layout.used;
    char *base = payload_new(row, bytes, PAYLOAD_ALIGNMENT);
    if (base == NULL)
        return -ENOMEM;
    layout = (struct layout){.row = row, .base = base, .limit_bytes = bytes};
    locate(row->worker, base, &layout.at);
    status = lay(&layout, context, &ref);
    if (status < 0) {
        payload_free(row->worker, base);
        return status;
    }
    SHEAF_CRASH_POINT("payload.block_written");
    ref.hash = hash_of(row->worker, base, bytes);
    *ret_ref = ref;
    return 0;
}

static int lay_whole_list(struct layout *layout, void *context, struct value_ref *ret_ref)
{
    const struct sheaf_value *value = context;
    return lay_list(layout, value->kind, value->list, ret_ref);
}

int publish_list(struct worker_row *row, sheaf_kind kind, struct appended *elements, struct value_ref *ret_ref)
{
    struct value_ref ref = {.kind = kind, .segment = VALUE_INLINE}; /* the empty list */
    int status = 0;
    if (elements->count > 0) {
        struct sheaf_list list = {.map = &row->worker->map,
                                  .refs = elements->refs,
                                  .count = elements->count,
                                  .element_kind = SHEAF_LIST_OF(SHEAF_KIND_BASE(kind), SHEAF_KIND_DEPTH(kind) - 1)};
        struct sheaf_value value = {.kind = kind, .list = &list};
        status = publish_block(row, lay_whole_list, &value, &ref);
        list_done(&list);
    }
    for (uint32_t at = 0; at < elements->count; at++)
        unpublish(row->worker, &elements->refs[at]);
    elements->count = 0;
    if (status == 0)
        *ret_ref = ref;
    return status;
}

/* ---- single values ---- */

/* Takes alloc()ed memory out of the row's books. False: `data` is not the start of such memory. */
static bool take_over(struct worker_row *row, const void *data)
{
    for (uint32_t at = row->memory_count; at > 0; at--) {
        if (row->memories[at - 1] != data)
            continue;
        row->memories[at - 1] = row->memories[--row->memory_count];
        return true;
    }
    return false;
}

int publish_value(struct worker_row *row, const struct sheaf_value *value, struct value_ref *ret_ref)
{
    if (!is_plausible(value))
        return -EINVAL;
    if (publish_inline(value, ret_ref))
        return 0;
    if (SHEAF_KIND_DEPTH(value->kind) > 0) {
        struct sheaf_value copy = *value;
        return publish_block(row, lay_whole_list, &copy, ret_ref);
    }
    struct prefix prefix;
    int status = plan_prefix(row, value, &prefix);
    if (status < 0)
        return status;
    uint64_t bytes = carried_bytes(value, &prefix);
    char *data = NULL;
    if (bytes > 0 && take_over(row, value->data)) {
        data = (char *)(uintptr_t)value->data;
        if (bytes > payload_bytes(row->worker, data))
            status = -EINVAL;
    }
    uint32_t room = data != NULL && payload_headroom(data) > PAYLOAD_HEAD_BYTES
                        ? payload_headroom(data) - PAYLOAD_HEAD_BYTES - 8
                        : 0;
    if (status == 0 && (data == NULL || prefix.bytes > room)) {
        uint32_t headroom = PAYLOAD_HEAD_BYTES;
        if (prefix.bytes > 0)
            headroom += (uint32_t)align_up(prefix.bytes + 8, PAYLOAD_ALIGNMENT);
        char *copy = payload_new(row, bytes, headroom);
        if (copy != NULL && bytes > 0)
            memcpy(copy, value->data, bytes);
        if (data != NULL)
            payload_free(row->worker, data);
        data = copy;
        if (copy == NULL)
            return -ENOMEM;
    }
    if (status < 0) {
        payload_free(row->worker, data);
        return status;
    }
    struct value_ref ref = {.kind = value->kind, .length = value->length_bytes};
    if (prefix.bytes > 0)
        ref.prefix = (uint16_t)(payload_headroom(data) - PAYLOAD_HEAD_BYTES);
    write_prefix(data - ref.prefix, value, &prefix);
    SHEAF_CRASH_POINT("payload.written");
    locate(row->worker, data, &ref);
    ref.hash = hash_of(row->worker, data - ref.prefix, ref.prefix + bytes);
    *ret_ref = ref;
    return 0;
}

void unpublish(struct sheaf_worker *worker, struct value_ref *ref)
{
    if (ref->kind != SHEAF_NONE && ref->segment != VALUE_INLINE)
        (void)payload_free_at(worker, ref->segment, ref->offset);
    ref->kind = SHEAF_NONE;
    ref->segment = VALUE_INLINE;
}
