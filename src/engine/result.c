/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/shard.h"
#include "shm/value_hash.h"

/* Most results are small, and there are many: their blocks begin small and grow. */
enum { BLOCK_BYTES_MIN = 512, BLOCK_BYTES_MAX = 16384, BLOCK_ALIGNMENT = 16 };

struct block {
    struct block *next;
    size_t used, bytes;
    max_align_t memory[];
};

static size_t next_block_bytes(const struct block *last, size_t wanted)
{
    size_t size = last ? last->bytes * 4 : BLOCK_BYTES_MIN;
    size = size < BLOCK_BYTES_MAX ? size : BLOCK_BYTES_MAX;
    return wanted > size ? wanted : size;
}

void *block_alloc(struct block **blocks, size_t bytes)
{
    bytes = (bytes + BLOCK_ALIGNMENT - 1) / BLOCK_ALIGNMENT * BLOCK_ALIGNMENT;
    if (!*blocks || (*blocks)->bytes - (*blocks)->used < bytes) {
        size_t size = next_block_bytes(*blocks, bytes);
        struct block *block = malloc(sizeof *block + size);
        if (!block)
            return NULL;
        *block = (struct block){.next = *blocks, .bytes = size};
        *blocks = block;
    }
    void *memory = (char *)(*blocks)->memory + (*blocks)->used;
    (*blocks)->used += bytes;
    return memory;
}

void block_free(struct block *blocks)
{
    while (blocks) {
        struct block *next = blocks->next;
        free(blocks);
        blocks = next;
    }
}

static uint64_t block_bytes(const struct block *blocks)
{
    uint64_t bytes = 0;
    for (; blocks; blocks = blocks->next)
        bytes += sizeof *blocks + blocks->bytes;
    return bytes;
}

static char *copy_text(struct block **blocks, const char *text, size_t bytes)
{
    char *copy = block_alloc(blocks, bytes + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    return copy;
}

/* ---- values ---- */

/* What stands before the data: copied, because a worker could still change it. */
static int copy_prefix(struct block **blocks, const struct value_ref *ref, const char *data, struct sheaf_value *value)
{
    const char *prefix = data - ref->prefix;
    uint32_t base = SHEAF_KIND_BASE(ref->kind);
    size_t skip = base == SHEAF_FILE ? sizeof(struct file_prefix) : 0;
    if (base == SHEAF_TENSOR && ref->prefix >= sizeof(struct sheaf_tensor)) {
        struct sheaf_tensor *tensor = block_alloc(blocks, sizeof *tensor);
        if (!tensor)
            return -ENOMEM;
        memcpy(tensor, prefix, sizeof *tensor);
        value->tensor = tensor;
    } else if (base != SHEAF_TENSOR && ref->prefix > skip) {
        value->name = copy_text(blocks, prefix + skip, strnlen(prefix + skip, ref->prefix - skip));
        if (!value->name)
            return -ENOMEM;
    }
    return 0;
}

/* Memory in which references are followed: the segment itself, or a private copy of one value. */
struct window {
    uint16_t segment;
    uint64_t offset, bytes;
    const char *base;
};

static const void *window_at(const struct window *window, uint64_t offset, uint64_t bytes)
{
    if (offset < window->offset || bytes > window->bytes || offset - window->offset > window->bytes - bytes)
        return NULL;
    return window->base + (offset - window->offset);
}

static const void *read_window(void *context, uint16_t segment, uint64_t offset, uint64_t bytes)
{
    const struct window *window = context;
    return segment == window->segment ? window_at(window, offset, bytes) : NULL;
}

/* -ERANGE: it does not lie where it should, or is not what was answered. */
static int open_window(const struct sheaf_run *run, struct block **blocks, const struct value_ref *ref,
                       struct window *ret_window)
{
    const struct segment *memory = payload_segment(run->payload, ref->segment);
    struct window window = {ref->segment, 0, memory->size_bytes, memory->base};
    struct value_ref damaged;
    uint64_t start, bytes;
    if (run->integrity == SHEAF_INTEGRITY_ALWAYS && ref->hash != 0) {
        if (!value_hash_range(ref, read_window, &window, &start, &bytes))
            return -ERANGE;
        char *copy = block_alloc(blocks, bytes);
        if (!copy)
            return -ENOMEM;
        memcpy(copy, window.base + start, bytes);
        window = (struct window){ref->segment, start, bytes, copy};
        if (!value_hash_holds(ref, read_window, &window, &damaged))
            return -ERANGE;
    }
    *ret_window = window;
    return 0;
}

static int view_leaf(const struct window *window, struct block **blocks, const struct value_ref *ref,
                     struct sheaf_value *ret_value)
{
    struct sheaf_value value = {.kind = ref->kind, .length_bytes = ref->length};
    if (ref->segment == VALUE_INLINE) {
        value.i64 = (int64_t)ref->offset;
        value.length_bytes = 0; /* a worker may have written something else into an element of its list */
        uint32_t base = SHEAF_KIND_BASE(ref->kind);
        if (base != SHEAF_BOOL && base != SHEAF_I64 && base != SHEAF_F64)
            value.data = "";
        *ret_value = value;
        return 0;
    }
    uint64_t start, bytes;
    if (!value_hash_range(ref, read_window, (void *)(uintptr_t)window, &start, &bytes))
        return -ERANGE;
    const char *data = (const char *)window_at(window, start, bytes) + ref->prefix;
    value.data = bytes < ref->length ? NULL : data; /* a file that is read by descriptor */
    int result = copy_prefix(blocks, ref, data, &value);
    *ret_value = value;
    return result;
}

/* ---- lists: copied as cursors over private arrays; nested ones through a work list, for they may nest deeply ---- */

struct todo {
    struct todo *next;
    bool in_lineage;
    struct lineage_list list;
    struct value_ref ref; /* a list a worker made */
    struct window window; /* and where it and its elements are read */
    struct sheaf_list *to;
};

struct copying {
    struct shard *shard;
    uint64_t elements; /* of workers' lists so far */
    struct block **blocks;
    struct todo *todo;
};

static int plan_list(struct copying *copying, sheaf_kind kind, const struct todo *what, uint64_t count,
                     struct sheaf_value *ret_value)
{
    struct sheaf_list *list = block_alloc(copying->blocks, sizeof *list);
    struct todo *todo = block_alloc(copying->blocks, sizeof *todo);
    if (!list || !todo)
        return -ENOMEM;
    *list = (struct sheaf_list){0};
    *todo = *what;
    todo->to = list;
    todo->next = copying->todo;
    copying->todo = todo;
    *ret_value = (struct sheaf_value){.kind = kind, .list = list, .length_bytes = count};
    return 0;
}

static int empty_list(struct copying *copying, sheaf_kind kind, struct sheaf_value *ret_value)
{
    struct sheaf_list *list = block_alloc(copying->blocks, sizeof *list);
    if (!list)
        return -ENOMEM;
    *list = (struct sheaf_list){0};
    *ret_value = (struct sheaf_value){.kind = kind, .list = list};
    return 0;
}

/* `window` NULL: lineage names the value, it is no element of a worker's list. */
static int copy_value(struct copying *copying, const struct lineage_value *from, const struct window *window,
                      struct sheaf_value *ret_value)
{
    struct shard *shard = copying->shard;
    if (from->is_list) {
        struct todo what = {.in_lineage = true, .list = from->list};
        return plan_list(copying, shard->plan->ports[from->list.port].kind, &what,
                         lineage_list_count(shard->lineage, from->list), ret_value);
    }
    struct window own = {0};
    if (!window && from->value.segment != VALUE_INLINE) {
        int result = open_window(shard->run, copying->blocks, &from->value, &own);
        if (result < 0)
            return result;
    }
    window = window ? window : &own;
    if (SHEAF_KIND_DEPTH(from->value.kind) == 0)
        return view_leaf(window, copying->blocks, &from->value, ret_value);
    if (from->value.segment == VALUE_INLINE)
        return empty_list(copying, from->value.kind, ret_value);
    struct todo what = {.in_lineage = false, .ref = from->value, .window = *window};
    return plan_list(copying, from->value.kind, &what, from->value.length, ret_value);
}

static int copy_errors(struct copying *copying, const struct todo *todo)
{
    struct shard *shard = copying->shard;
    struct lineage_cursor cursor;
    struct lineage_list_error error;
    struct sheaf_list *list = todo->to;
    lineage_list_open(shard->lineage, todo->list, &cursor);
    while (lineage_list_error_next(shard->lineage, &cursor, &error))
        list->error_count++;
    list->errors = block_alloc(copying->blocks, (list->error_count + 1) * sizeof *list->errors);
    if (!list->errors)
        return -ENOMEM;
    lineage_list_open(shard->lineage, todo->list, &cursor);
    for (uint64_t i = 0; lineage_list_error_next(shard->lineage, &cursor, &error); i++) {
        const char *text = copy_text(copying->blocks, error.text, error.length_bytes);
        if (!text)
            return -ENOMEM;
        list->errors[i] =
            (struct sheaf_list_error){.ordinal = error.ordinal, .class_id = error.class_id, .message = text};
    }
    return 0;
}

static int copy_lineage_list(struct copying *copying, const struct todo *todo)
{
    struct shard *shard = copying->shard;
    struct sheaf_list *list = todo->to;
    struct lineage_cursor cursor;
    struct lineage_value value;
    list->count = lineage_list_count(shard->lineage, todo->list);
    list->values = block_alloc(copying->blocks, (list->count + 1) * sizeof *list->values);
    list->ordinals = block_alloc(copying->blocks, (list->count + 1) * sizeof *list->ordinals);
    if (!list->values || !list->ordinals)
        return -ENOMEM;
    lineage_list_open(shard->lineage, todo->list, &cursor);
    for (uint64_t i = 0; lineage_list_next(shard->lineage, &cursor, &value); i++) {
        list->ordinals[i] = cursor.ordinal;
        int result = copy_value(copying, &value, NULL, &list->values[i]);
        if (result < 0)
            return result;
    }
    return copy_errors(copying, todo);
}

/* Every reference in a worker's block is checked: it must stay within the window the block lies in. */
static int copy_block_list(struct copying *copying, const struct todo *todo)
{
    struct sheaf_list *list = todo->to;
    uint64_t bytes = sizeof(struct list_block) + todo->ref.length * sizeof(struct value_ref);
    const struct list_block *block =
        todo->ref.length > UINT32_MAX ? NULL : window_at(&todo->window, todo->ref.offset, bytes);
    /* References may name one list many times over: no honest list has more elements than its window has room for. */
    copying->elements += todo->ref.length;
    if (!block || todo->ref.offset % _Alignof(struct list_block) != 0 ||
        copying->elements > todo->window.bytes / sizeof(struct value_ref))
        return -ERANGE;
    const struct value_ref *elements = (const struct value_ref *)(block + 1);
    list->values = block_alloc(copying->blocks, (todo->ref.length + 1) * sizeof *list->values);
    if (!list->values)
        return -ENOMEM;
    for (uint64_t i = 0; i < todo->ref.length; i++) {
        struct lineage_value value = {.is_list = false, .value = elements[i]};
        if (SHEAF_KIND_DEPTH(value.value.kind) >= SHEAF_KIND_DEPTH(todo->ref.kind))
            return -ERANGE; /* a list that names itself would never end */
        int result = copy_value(copying, &value, &todo->window, &list->values[i]);
        if (result < 0)
            return result;
        list->count++;
    }
    return 0;
}

static int copy_whole(struct copying *copying, const struct lineage_value *from, struct sheaf_value *ret_value)
{
    int result = copy_value(copying, from, NULL, ret_value);
    while (result == 0 && copying->todo) {
        struct todo *todo = copying->todo;
        copying->todo = todo->next;
        result = todo->in_lineage ? copy_lineage_list(copying, todo) : copy_block_list(copying, todo);
    }
    copying->todo = NULL;
    return result;
}

/* ---- a result ---- */

static const enum sheaf_outcome outcomes[] = {[LINEAGE_UNRESOLVED] = SHEAF_PENDING,
                                              [LINEAGE_PRESENT] = SHEAF_PRESENT,
                                              [LINEAGE_DROPPED] = SHEAF_DROPPED,
                                              [LINEAGE_FAILED] = SHEAF_FAILED,
                                              [LINEAGE_SUPPRESSED] = SHEAF_SUPPRESSED};

static const enum sheaf_root_status statuses[] = {[LINEAGE_OK] = SHEAF_ROOT_OK,
                                                  [LINEAGE_PARTIAL] = SHEAF_ROOT_PARTIAL,
                                                  [LINEAGE_FILTERED] = SHEAF_ROOT_FILTERED,
                                                  [LINEAGE_ROOT_FAILED] = SHEAF_ROOT_FAILED};

static uint64_t *copy_coordinate(struct shard *shard, struct block **blocks, uint64_t root_index, uint32_t domain,
                                 uint32_t entity)
{
    uint32_t depth = shard->plan->domains[domain].depth;
    uint64_t *coordinate = block_alloc(blocks, depth * sizeof *coordinate);
    if (!coordinate)
        return NULL;
    lineage_coordinate(shard->lineage, domain, entity, coordinate, depth);
    coordinate[0] = root_index;
    return coordinate;
}

static int copy_item(struct shard *shard, struct root *root, struct sheaf_result *result,
                     const struct lineage_item *from, struct sheaf_item *ret_item)
{
    struct block **blocks = &result->memory;
    struct sheaf_item item = {.size = sizeof item,
                              .outcome = outcomes[from->outcome],
                              .coordinate = copy_coordinate(shard, blocks, root->index, from->domain, from->entity),
                              .depth = shard->plan->domains[from->domain].depth,
                              .class_id = from->class_id,
                              .cause = ""};
    if (!item.coordinate)
        return -ENOMEM;
    if (from->cause && (item.outcome == SHEAF_FAILED || item.outcome == SHEAF_SUPPRESSED)) {
        item.cause = copy_text(blocks, from->cause, from->cause_length_bytes);
        if (!item.cause)
            return -ENOMEM;
    }
    if (item.outcome == SHEAF_PRESENT) {
        struct copying copying = {.shard = shard, .blocks = blocks};
        int status = copy_whole(&copying, &from->value, &item.value);
        if (status == -ERANGE) { /* a worker changed it after it was accepted */
            result->damaged = true;
            item.outcome = SHEAF_FAILED;
            item.class_id = SHEAF_CLASS_CONTRACT;
            item.cause = "the value was changed in shared memory after it was answered";
        } else if (status < 0) {
            return status;
        }
    }
    *ret_item = item;
    return 0;
}

static int copy_output(struct shard *shard, struct root *root, struct sheaf_result *result, uint32_t output)
{
    struct lineage_item_cursor cursor;
    struct lineage_item item;
    size_t count = 0;
    lineage_items_open(shard->lineage, root->lineage_root, output, &cursor);
    while (lineage_items_next(shard->lineage, &cursor, &item))
        count++;
    result->items[output] = block_alloc(&result->memory, (count + 1) * sizeof *result->items[output]);
    if (!result->items[output])
        return -ENOMEM;
    lineage_items_open(shard->lineage, root->lineage_root, output, &cursor);
    while (lineage_items_next(shard->lineage, &cursor, &item)) {
        int status = copy_item(shard, root, result, &item, &result->items[output][result->item_counts[output]++]);
        if (status < 0)
            return status;
    }
    return 0;
}

static int compare_failures(const void *left, const void *right)
{
    const struct sheaf_failure *a = left, *b = right;
    for (uint32_t i = 0; i < a->depth && i < b->depth; i++) {
        if (a->coordinate[i] != b->coordinate[i])
            return a->coordinate[i] < b->coordinate[i] ? -1 : 1;
    }
    if (a->depth != b->depth)
        return a->depth < b->depth ? -1 : 1;
    return strcmp(a->call, b->call);
}

static int copy_failure(struct shard *shard, struct root *root, struct sheaf_result *result,
                        const struct lineage_failure *from)
{
    const struct plan_call *call = from->call == PLAN_NONE ? NULL : &shard->plan->calls[from->call];
    uint32_t domain = call ? call->domain : 0;
    struct sheaf_failure failure = {
        .size = sizeof failure,
        .class_id = from->class_id,
        .coordinate =
            copy_coordinate(shard, &result->memory, root->index, domain, call ? from->entity : root->lineage_root),
        .depth = shard->plan->domains[domain].depth,
        .attempt = from->attempt,
        .call = call ? call->name : "",
        .operator_name = call ? call->op->name : "",
        .operator_version = call ? call->op->version : "",
        .message = copy_text(&result->memory, from->text, from->length_bytes),
        .elapsed_us = from->elapsed_us,
    };
    if (!failure.coordinate || !failure.message)
        return -ENOMEM;
    result->failures[result->failure_count++] = failure;
    return 0;
}

static int copy_failures(struct shard *shard, struct root *root, struct sheaf_result *result)
{
    uint32_t position = 0;
    size_t count = 0;
    struct lineage_failure failure;
    while (lineage_failures_next(shard->lineage, root->lineage_root, &position, &failure))
        count++;
    result->failures = block_alloc(&result->memory, (count + 1) * sizeof *result->failures);
    if (!result->failures)
        return -ENOMEM;
    position = 0;
    while (lineage_failures_next(shard->lineage, root->lineage_root, &position, &failure)) {
        int status = copy_failure(shard, root, result, &failure);
        if (status < 0)
            return status;
    }
    qsort(result->failures, result->failure_count, sizeof *result->failures, compare_failures);
    return 0;
}

/* Class and message of the root: those of the first output Item that has a cause, else of the first failure. */
static void choose_cause(struct sheaf_result *result, uint32_t output_count)
{
    if (result->info.status != SHEAF_ROOT_FAILED && result->info.status != SHEAF_ROOT_PARTIAL)
        return;
    for (uint32_t output = 0; output < output_count; output++) {
        for (size_t i = 0; i < result->item_counts[output]; i++) {
            const struct sheaf_item *item = &result->items[output][i];
            if (item->outcome != SHEAF_FAILED && item->outcome != SHEAF_SUPPRESSED)
                continue;
            result->info.class_id = item->class_id;
            result->info.message = item->cause;
            return;
        }
    }
    if (result->failure_count > 0) {
        result->info.class_id = result->failures[0].class_id;
        result->info.message = result->failures[0].message;
    }
}

/* Items that could not be copied: lineage does not know of them. */
static void lower_status(struct sheaf_result *result, uint32_t output_count)
{
    result->info.status = SHEAF_ROOT_FAILED;
    for (uint32_t output = 0; output < output_count; output++) {
        for (size_t i = 0; i < result->item_counts[output]; i++) {
            if (result->items[output][i].outcome == SHEAF_PRESENT)
                result->info.status = SHEAF_ROOT_PARTIAL;
        }
    }
}

struct sheaf_result *result_make(struct shard *shard, struct root *root, bool *ret_damaged)
{
    uint32_t outputs = shard->plan->output_count;
    struct sheaf_result *result = calloc(1, sizeof *result);
    if (!result)
        return NULL;
    result->run = shard->run;
    result->root = root;
    result->shard = shard->number;
    result->info =
        (struct sheaf_result_info){.size = sizeof result->info,
                                   .status = statuses[lineage_root_status(shard->lineage, root->lineage_root)],
                                   .root = root->index,
                                   .tag = root->tag,
                                   .message = "",
                                   .child_count = lineage_root_children(shard->lineage, root->lineage_root)};
    result->items = block_alloc(&result->memory, (outputs + 1) * sizeof *result->items);
    result->item_counts = block_alloc(&result->memory, (outputs + 1) * sizeof *result->item_counts);
    int status = result->items && result->item_counts ? 0 : -ENOMEM;
    if (status == 0)
        memset(result->item_counts, 0, outputs * sizeof *result->item_counts);
    for (uint32_t output = 0; output < outputs && status == 0; output++)
        status = copy_output(shard, root, result, output);
    if (status == 0)
        status = copy_failures(shard, root, result);
    if (status < 0) {
        result_free(result);
        return NULL;
    }
    *ret_damaged = result->damaged;
    if (result->damaged && result->info.status != SHEAF_ROOT_FAILED)
        lower_status(result, outputs);
    result->counted_bytes = sizeof *result + block_bytes(result->memory);
    memory_add(&shard->run->memory.of[MEMORY_RESULTS], result->counted_bytes);
    result->info.failure_count = result->failure_count;
    choose_cause(result, outputs);
    return result;
}

void result_free(struct sheaf_result *result)
{
    if (!result)
        return;
    memory_sub(&result->run->memory.of[MEMORY_RESULTS], result->counted_bytes);
    block_free(result->memory);
    free(result);
}
