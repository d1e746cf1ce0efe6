/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/view.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MESSAGE_BYTES_MAX 65536u

/* Another process may write `shared` now and after: what is read from `ret_copy` later must not be read there again. */
static void copy_once(void *ret_copy, const void *shared, size_t bytes)
{
    memcpy(ret_copy, shared, bytes);
    atomic_signal_fence(memory_order_seq_cst); /* the compiler may not go back to the original either */
}

/* ---- prefixes ---- */

static int room_reserve(struct payload_map *map, struct view_room *room, uint32_t bytes)
{
    if (bytes > room->capacity) {
        char *grown = realloc(room->bytes, bytes);
        if (grown == NULL)
            return -ENOMEM;
        room->bytes = grown;
        room->capacity = bytes;
    }
    if (room->link == NULL) {
        room->link = &map->rooms;
        room->next = map->rooms;
        if (room->next != NULL)
            room->next->link = &room->next;
        map->rooms = room;
    }
    return 0;
}

void view_room_done(struct view_room *room)
{
    if (room->link != NULL)
        *room->link = room->next;
    if (room->next != NULL)
        room->next->link = room->link;
    free(room->bytes);
    *room = (struct view_room){0};
}

/* Copies the prefix bytes of a reference, which must be 8-byte aligned. */
static int copy_prefix(struct payload_map *map, const struct value_ref *ref, struct view_room *room)
{
    if (ref->prefix > ref->offset || (ref->offset - ref->prefix) % 8 != 0)
        return -EBADMSG;
    const char *shared = payload_map_at(map, ref->segment, ref->offset - ref->prefix, ref->prefix);
    if (shared == NULL)
        return -EBADMSG;
    int status = room_reserve(map, room, ref->prefix);
    if (status < 0)
        return status;
    copy_once(room->bytes, shared, ref->prefix);
    room->used = ref->prefix;
    return 0;
}

static int view_bytes(struct payload_map *map, const struct value_ref *ref, struct view_room *room,
                      struct sheaf_value *ret_value)
{
    if (ref->prefix == 0)
        return 0;
    int status = copy_prefix(map, ref, room);
    if (status < 0)
        return status;
    if (memchr(room->bytes, 0, room->used) == NULL)
        return -EBADMSG;
    ret_value->name = room->bytes[0] != '\0' ? room->bytes : NULL;
    return 0;
}

static int view_tensor(struct payload_map *map, const struct value_ref *ref, struct view_room *room,
                       struct sheaf_value *ret_value)
{
    if (ref->prefix < sizeof(struct sheaf_tensor))
        return -EBADMSG;
    int status = copy_prefix(map, ref, room);
    if (status < 0)
        return status;
    const struct sheaf_tensor *tensor = (const struct sheaf_tensor *)(const void *)room->bytes;
    if (tensor->rank > 8 || tensor->dtype < SHEAF_U8 || tensor->dtype > SHEAF_DF64)
        return -EBADMSG;
    ret_value->tensor = tensor;
    return 0;
}

static int view_file(struct payload_map *map, const struct value_ref *ref, struct view_room *room,
                     struct sheaf_value *ret_value)
{
    struct file_prefix prefix;
    if (ref->segment == VALUE_INLINE || ref->prefix < sizeof prefix)
        return -EBADMSG;
    int status = copy_prefix(map, ref, room);
    if (status < 0)
        return status;
    memcpy(&prefix, room->bytes, sizeof prefix);
    if (prefix.path_bytes == 0 || prefix.path_bytes > room->used - sizeof prefix ||
        room->bytes[sizeof prefix + prefix.path_bytes - 1] != '\0')
        return -EBADMSG;
    ret_value->name = room->bytes + sizeof prefix;
    ret_value->length_bytes = ref->length;
    if ((prefix.flags & FILE_IN_MEMORY) == 0)
        return 0;
    ret_value->data = payload_map_at(map, ref->segment, ref->offset, ref->length);
    return ret_value->data != NULL ? 0 : -EBADMSG;
}

bool view_file_prefix(const struct payload_map *map, const struct sheaf_value *file, struct file_prefix *ret_prefix)
{
    for (const struct view_room *room = map->rooms; room != NULL && file->name != NULL; room = room->next) {
        struct file_prefix prefix;
        if (room->used <= sizeof prefix || file->name != room->bytes + sizeof prefix)
            continue;
        memcpy(&prefix, room->bytes, sizeof prefix);
        if (prefix.path_bytes > room->used - sizeof prefix || prefix.path_bytes != strlen(file->name) + 1)
            return false;
        *ret_prefix = prefix;
        return true;
    }
    return false;
}

/* ---- values ---- */

static int view_list(struct payload_map *map, const struct value_ref *ref, struct sheaf_list *list,
                     struct sheaf_value *ret_value)
{
    list->map = map;
    list->segment = ref->segment;
    list->count = list->error_count = 0;
    list->next = list->error_next = 0;
    list->element_kind = SHEAF_LIST_OF(SHEAF_KIND_BASE(ref->kind), SHEAF_KIND_DEPTH(ref->kind) - 1);
    ret_value->list = list;
    if (ref->segment == VALUE_INLINE) /* the empty list needs no memory */
        return ref->length == 0 ? 0 : -EBADMSG;
    const struct list_block *shared = payload_map_at(map, ref->segment, ref->offset, sizeof *shared);
    if (shared == NULL || ref->offset % 8 != 0)
        return -EBADMSG;
    struct list_block block;
    copy_once(&block, shared, sizeof block);
    uint64_t needed = sizeof block + (uint64_t)block.count * sizeof(struct value_ref) +
                      (uint64_t)block.error_count * sizeof(struct list_error_ref);
    if (block.count != ref->length || needed > block.bytes ||
        payload_map_at(map, ref->segment, ref->offset, block.bytes) == NULL)
        return -EBADMSG;
    list->refs = (const struct value_ref *)(const void *)(shared + 1);
    list->errors = (const struct list_error_ref *)(const void *)(list->refs + block.count);
    list->count = block.count;
    list->error_count = block.error_count;
    ret_value->length_bytes = block.count;
    return 0;
}

static int view_inline(const struct value_ref *ref, struct sheaf_value *ret_value)
{
    switch (SHEAF_KIND_BASE(ref->kind)) {
    case SHEAF_BOOL:
        ret_value->boolean = ref->offset != 0;
        return 0;
    case SHEAF_I64:
    case SHEAF_F64:
        ret_value->i64 = (int64_t)ref->offset; /* the same bits for f64 */
        return 0;
    case SHEAF_TEXT:
    case SHEAF_BYTES:
    case SHEAF_RECORD:
        ret_value->data = "";
        return ref->length == 0 && ref->prefix == 0 ? 0 : -EBADMSG;
    default:
        return -EBADMSG;
    }
}

int value_view(struct payload_map *map, const struct value_ref *ref, struct sheaf_list *list, struct view_room *room,
               struct sheaf_value *ret_value)
{
    uint32_t base = SHEAF_KIND_BASE(ref->kind);
    if (base < SHEAF_BOOL || base > SHEAF_FILE || ref->kind >> 16 != 0)
        return -EBADMSG;
    struct sheaf_value value = {.kind = ref->kind};
    int status = 0;
    if (SHEAF_KIND_DEPTH(ref->kind) > 0) {
        status = view_list(map, ref, list, &value);
    } else if (base == SHEAF_FILE) {
        status = view_file(map, ref, room, &value);
    } else if (ref->segment == VALUE_INLINE) {
        status = view_inline(ref, &value);
    } else if (base < SHEAF_TEXT) {
        status = -EBADMSG;
    } else {
        value.data = payload_map_at(map, ref->segment, ref->offset, ref->length);
        value.length_bytes = ref->length;
        if (value.data == NULL)
            status = -EBADMSG;
        else if (base == SHEAF_BYTES)
            status = view_bytes(map, ref, room, &value);
        else if (base == SHEAF_TENSOR)
            status = view_tensor(map, ref, room, &value);
    }
    if (status == 0)
        *ret_value = value;
    return status;
}

void list_done(struct sheaf_list *list)
{
    if (list == NULL)
        return;
    list_done(list->inner);
    free(list->inner);
    free(list->message);
    view_room_done(&list->room);
    list->inner = NULL;
    list->message = NULL;
}

int list_next(struct sheaf_list *list, struct sheaf_value *ret_value)
{
    if (list->next >= list->count)
        return 0;
    struct value_ref ref;
    copy_once(&ref, &list->refs[list->next], sizeof ref);
    if (SHEAF_KIND_DEPTH(ref.kind) > 0 && list->inner == NULL) {
        list->inner = calloc(1, sizeof *list->inner);
        if (list->inner == NULL)
            return -ENOMEM;
    }
    if (ref.kind != list->element_kind && SHEAF_KIND_BASE(list->element_kind) != SHEAF_ANY)
        return -EBADMSG;
    int status = value_view(list->map, &ref, list->inner, &list->room, ret_value);
    if (status < 0)
        return status;
    list->next++;
    return 1;
}

void list_rewind(struct sheaf_list *list)
{
    list->next = 0;
    list->error_next = 0;
}

int list_error_next(struct sheaf_list *list, struct sheaf_list_error *ret_error)
{
    if (list->error_next >= list->error_count)
        return 0;
    struct list_error_ref ref;
    copy_once(&ref, &list->errors[list->error_next], sizeof ref);
    if (ref.message_length > LIST_MESSAGE_BYTES_MAX)
        return -EBADMSG;
    const char *text = payload_map_at(list->map, list->segment, ref.message_offset, ref.message_length);
    char *message = text != NULL ? realloc(list->message, ref.message_length + 1) : NULL;
    if (message == NULL)
        return text == NULL ? -EBADMSG : -ENOMEM;
    memcpy(message, text, ref.message_length);
    message[ref.message_length] = '\0';
    list->message = message;
    *ret_error =
        (struct sheaf_list_error){.ordinal = ref.ordinal,
                                  .class_id = ref.class_id < SHEAF_CLASS_COUNT ? ref.class_id : SHEAF_CLASS_OPERATOR,
                                  .message = message};
    list->error_next++;
    return 1;
}
