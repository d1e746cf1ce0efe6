/* SPDX-License-Identifier: Apache-2.0 */
/* Values of the host, copied into a shard's payload segment. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/shard.h"

enum { PREFIX_ALIGNMENT = 64 };

static struct value_ref scalar_ref(const struct sheaf_value *value)
{
    bool boolean = SHEAF_KIND_BASE(value->kind) == SHEAF_BOOL;
    return (struct value_ref){.kind = value->kind, .offset = boolean ? value->boolean != 0 : (uint64_t)value->i64};
}

static size_t name_bytes(const struct sheaf_value *value)
{
    return value->name ? strlen(value->name) + 1 : 0;
}

/* Bytes before the data, as shm/value_ref.h says. */
static uint64_t prefix_bytes(const struct sheaf_value *value)
{
    uint64_t bytes = 0;
    switch (SHEAF_KIND_BASE(value->kind)) {
    case SHEAF_FILE:
        bytes = sizeof(struct file_prefix) + (value->name ? name_bytes(value) : 1);
        break;
    case SHEAF_TENSOR:
        bytes = sizeof(struct sheaf_tensor);
        break;
    case SHEAF_BYTES:
        bytes = name_bytes(value);
        break;
    default:
        break;
    }
    return (bytes + PREFIX_ALIGNMENT - 1) / PREFIX_ALIGNMENT * PREFIX_ALIGNMENT;
}

static void write_leaf(char *memory, uint64_t prefix, const struct sheaf_value *value)
{
    uint32_t base = SHEAF_KIND_BASE(value->kind);
    memset(memory, 0, prefix);
    if (base == SHEAF_FILE) {
        struct file_prefix *file = (struct file_prefix *)memory;
        file->flags = FILE_IN_MEMORY;
        file->path_bytes = (uint32_t)(value->name ? name_bytes(value) : 1);
        memcpy(file + 1, value->name ? value->name : "", file->path_bytes);
    } else if (base == SHEAF_TENSOR) {
        memcpy(memory, value->tensor, sizeof *value->tensor);
    } else if (base == SHEAF_BYTES && value->name) {
        memcpy(memory, value->name, name_bytes(value));
    }
    if (value->length_bytes)
        memcpy(memory + prefix, value->data, value->length_bytes);
}

static bool leaf_is_sound(const struct sheaf_value *value)
{
    return prefix_bytes(value) <= UINT16_MAX && (value->data || value->length_bytes == 0) &&
           (SHEAF_KIND_BASE(value->kind) != SHEAF_TENSOR || value->tensor);
}

int leaf_copy_in(struct payload *payload, uint32_t shard, const struct sheaf_value *value, struct value_ref *ret_ref)
{
    if (value_is_scalar(value->kind)) {
        *ret_ref = scalar_ref(value);
        return 0;
    }
    if (!leaf_is_sound(value))
        return -EINVAL;
    uint64_t prefix = prefix_bytes(value), offset;
    int result = payload_run_alloc(payload, shard, prefix + value->length_bytes, &offset);
    if (result < 0)
        return result;
    write_leaf(payload_shard_at(payload, shard, offset), prefix, value);
    *ret_ref = (struct value_ref){.kind = value->kind,
                                  .segment = payload_shard_segment(payload, shard),
                                  .prefix = (uint16_t)prefix,
                                  .offset = offset + prefix,
                                  .length = value->length_bytes};
    return 0;
}

/* ---- lists: a work list instead of recursion, once to count and once to write ---- */

struct nested {
    const struct sheaf_list *list;
    struct value_ref *place; /* NULL while counting */
};

struct work {
    struct nested *items;
    size_t count, capacity;
    uint64_t used; /* bytes of the run */
    char *memory;  /* NULL while counting */
    uint64_t offset;
    uint16_t segment;
};

static int push(struct work *work, const struct sheaf_list *list, struct value_ref *place)
{
    if (work->count == work->capacity) {
        size_t capacity = work->capacity ? work->capacity * 2 : 16;
        struct nested *larger = realloc(work->items, capacity * sizeof *larger);
        if (!larger)
            return -ENOMEM;
        work->items = larger;
        work->capacity = capacity;
    }
    work->items[work->count++] = (struct nested){list, place};
    return 0;
}

static uint64_t take(struct work *work, uint64_t bytes)
{
    uint64_t at = work->used;
    work->used += (bytes + PREFIX_ALIGNMENT - 1) / PREFIX_ALIGNMENT * PREFIX_ALIGNMENT;
    return at;
}

static int place_value(struct work *work, const struct sheaf_value *value, struct value_ref *place)
{
    if (SHEAF_KIND_DEPTH(value->kind) > 0) {
        if (place)
            place->kind = value->kind;
        return value->list ? push(work, value->list, place) : -EINVAL;
    }
    if (value_is_scalar(value->kind)) {
        if (place)
            *place = scalar_ref(value);
        return 0;
    }
    if (!leaf_is_sound(value))
        return -EINVAL;
    uint64_t prefix = prefix_bytes(value), at = take(work, prefix + value->length_bytes);
    if (!place)
        return 0;
    write_leaf(work->memory + at, prefix, value);
    *place = (struct value_ref){.kind = value->kind,
                                .segment = work->segment,
                                .prefix = (uint16_t)prefix,
                                .offset = work->offset + at + prefix,
                                .length = value->length_bytes};
    return 0;
}

static int walk(struct work *work, const struct sheaf_list *top, struct value_ref *top_place)
{
    int result = push(work, top, top_place);
    while (result == 0 && work->count > 0) {
        struct nested next = work->items[--work->count];
        uint64_t bytes = sizeof(struct list_block) + next.list->count * sizeof(struct value_ref),
                 at = take(work, bytes);
        struct value_ref *elements = NULL;
        if (work->memory) {
            struct list_block *block = (struct list_block *)(work->memory + at);
            *block = (struct list_block){.count = (uint32_t)next.list->count, .bytes = bytes};
            elements = (struct value_ref *)(block + 1);
            next.place->segment = work->segment;
            next.place->offset = work->offset + at;
            next.place->length = next.list->count;
        }
        for (uint64_t i = 0; i < next.list->count && result == 0; i++)
            result = place_value(work, &next.list->values[i], elements ? &elements[i] : NULL);
    }
    return result;
}

int list_copy_in(struct payload *payload, uint32_t shard, const struct sheaf_value *value, struct value_ref *ret_ref)
{
    struct work work = {0};
    struct value_ref ref = {.kind = value->kind};
    if (!value->list)
        return -EINVAL;
    int result = walk(&work, value->list, NULL);
    uint64_t bytes = work.used;
    if (result == 0)
        result = payload_run_alloc(payload, shard, bytes, &work.offset);
    if (result == 0) {
        work.memory = payload_shard_at(payload, shard, work.offset);
        memset(work.memory, 0, bytes);
        work.segment = payload_shard_segment(payload, shard);
        work.used = work.count = 0;
        result = walk(&work, value->list, &ref);
        /* The first block stands at the start of the run and stands for all of it: that is what is freed. */
        ((struct list_block *)work.memory)->bytes = bytes;
    }
    free(work.items);
    if (result == 0)
        *ret_ref = ref;
    return result;
}

int sheaf_list_create(const struct sheaf_value *values, uint64_t count, struct sheaf_list **ret_list)
{
    if (count > UINT32_MAX)
        return -EINVAL;
    struct sheaf_list *list = calloc(1, sizeof *list + count * sizeof *values);
    if (!list)
        return -ENOMEM;
    list->count = count;
    list->values = (struct sheaf_value *)(list + 1);
    if (count)
        memcpy(list->values, values, count * sizeof *values);
    *ret_list = list;
    return 0;
}

void sheaf_list_destroy(struct sheaf_list *list)
{
    free(list);
}
