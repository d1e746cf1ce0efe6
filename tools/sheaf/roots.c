/* SPDX-License-Identifier: Apache-2.0 */
#include "roots.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "pattern.h"

enum { NAME_BYTES_MAX = 8192 };

void roots_start(struct roots *roots)
{
    *roots = (struct roots){.free_first = ROOT_NONE, .queue_first = ROOT_NONE, .queue_last = ROOT_NONE};
}

static void root_clear(struct root *root)
{
    free(root->path);
    free(root->name);
    text_list_free(&root->paths);
    text_list_free(&root->scalars);
    root->path = root->name = NULL;
    root->result = NULL;
    root->file_count = 0;
    root->has_pages = false;
    root->pages = 0;
    text_clear(&root->manifest_line);
    text_clear(&root->error_lines);
}

void roots_free(struct roots *roots)
{
    for (uint32_t i = 0; i < roots->capacity; i++) {
        root_clear(&roots->items[i]);
        free(roots->items[i].files);
        text_free(&roots->items[i].manifest_line);
        text_free(&roots->items[i].error_lines);
    }
    free(roots->items);
    roots_start(roots);
}

static void roots_grow(struct roots *roots)
{
    uint32_t capacity = roots->capacity == 0 ? 64 : roots->capacity * 2;
    roots->items = must_resize(roots->items, capacity * sizeof *roots->items);
    for (uint32_t i = capacity; i-- > roots->capacity;) {
        roots->items[i] = (struct root){.next = roots->free_first};
        roots->free_first = i;
    }
    roots->capacity = capacity;
}

uint32_t roots_take(struct roots *roots, const struct source *source, double now_seconds)
{
    if (roots->free_first == ROOT_NONE)
        roots_grow(roots);
    uint32_t index = roots->free_first;
    struct root *root = &roots->items[index];
    roots->free_first = root->next;
    root->path = must_copy(source->path);
    root->name = must_copy(source->name[0] != '\0' ? source->name : source->path);
    root->size_bytes = source->size_bytes;
    root->mtime_ns = source->mtime_ns;
    root->began_seconds = now_seconds;
    root->next = ROOT_NONE;
    return index;
}

void roots_release(struct roots *roots, uint32_t index)
{
    root_clear(&roots->items[index]);
    roots->items[index].next = roots->free_first;
    roots->free_first = index;
}

void roots_queue(struct roots *roots, uint32_t index)
{
    roots->items[index].next = ROOT_NONE;
    if (roots->queue_first == ROOT_NONE)
        roots->queue_first = index;
    else
        roots->items[roots->queue_last].next = index;
    roots->queue_last = index;
}

int root_outputs_read(struct root_outputs *outputs, const struct sheaf_plan *plan)
{
    size_t count = sheaf_plan_output_count(plan);
    *outputs = (struct root_outputs){must_allocate(count * sizeof *outputs->items), count};
    for (size_t i = 0; i < count; i++) {
        struct sheaf_plan_port port = {.size = sizeof port};
        const char *reason = "";
        int status = sheaf_plan_output(plan, i, &port);
        assert(status == 0);
        outputs->items[i] = (struct root_output){i, port.depth, port.kind, port.name, port.file};
        if (port.file == NULL)
            continue;
        status = pattern_check(port.file, port.depth + SHEAF_KIND_DEPTH(port.kind), &reason);
        if (status == 0 && (SHEAF_KIND_DEPTH(port.kind) > 1 || SHEAF_KIND_BASE(port.kind) == SHEAF_TENSOR)) {
            reason = "a nested list or a tensor cannot be written to files; make it text, bytes or a list of them";
            status = SHEAF_E_USAGE;
        }
        if (status < 0) {
            complain("pipeline: output %s: '%s': %s", port.name, port.file, reason);
            return EXIT_USAGE;
        }
    }
    return EXIT_OK;
}

/* The bytes a value is written as. Scalars become text in `scalars`. */
static int value_bytes(const struct sheaf_value *value, struct text_list *scalars, const void **ret_data,
                       size_t *ret_length)
{
    struct text text = {0};
    switch (value->kind) {
    case SHEAF_TEXT:
    case SHEAF_BYTES:
    case SHEAF_RECORD:
        *ret_data = value->data;
        *ret_length = value->length_bytes;
        return 0;
    case SHEAF_BOOL:
        text_adds(&text, value->boolean ? "true\n" : "false\n");
        break;
    case SHEAF_I64:
        text_addf(&text, "%lld\n", (long long)value->i64);
        break;
    case SHEAF_F64:
        text_addf(&text, "%.17g\n", value->f64);
        break;
    default:
        return -ENOTSUP;
    }
    text_list_add(scalars, text.data);
    *ret_data = scalars->items[scalars->count - 1];
    *ret_length = text.length;
    text_free(&text);
    return 0;
}

static void add_file(struct root *root, const void *data, size_t length)
{
    if (root->file_count == root->file_capacity) {
        root->file_capacity = root->file_capacity == 0 ? 4 : root->file_capacity * 2;
        root->files = must_resize(root->files, root->file_capacity * sizeof *root->files);
    }
    const char *path = root->paths.items[root->paths.count - 1];
    root->files[root->file_count++] = (struct sheaf_tree_file){path, data, length};
}

/* One file: a value and the numbers that name it. */
static int build_file(struct root *root, const struct root_output *output, const char *name,
                      const struct sheaf_value *value, const uint64_t *coordinate, uint32_t depth)
{
    struct text path = {0};
    const void *data;
    size_t length;
    pattern_expand(output->pattern, name, coordinate, depth, &path);
    if (value->kind == SHEAF_BYTES)
        pattern_fit_media_type(&path, value->name);
    int status = value_bytes(value, &root->scalars, &data, &length);
    if (status == 0) {
        text_list_add(&root->paths, path.data);
        add_file(root, data, length);
    }
    text_free(&path);
    return status;
}

/* A list: one file per element, named by the ordinal that the element has under its parent. */
static int build_list(struct root *root, const struct root_output *output, const char *name,
                      const struct sheaf_item *item)
{
    uint64_t *coordinate = must_allocate((item->depth + 1) * sizeof *coordinate);
    memcpy(coordinate, item->coordinate, item->depth * sizeof *coordinate);
    struct sheaf_value element;
    int status = 0;
    sheaf_list_rewind(item->value.list);
    while (status == 0 && sheaf_list_next(item->value.list, &element)) {
        coordinate[item->depth] = sheaf_list_ordinal(item->value.list);
        status = build_file(root, output, name, &element, coordinate, item->depth + 1);
    }
    free(coordinate);
    return status;
}

static int build_output(struct root *root, const struct root_output *output, const char *name)
{
    int status = 0;
    struct sheaf_item item = {.size = sizeof item};
    for (size_t index = 0; status == 0 && sheaf_result_item(root->result, output->index, index, &item) == 0; index++) {
        if (item.outcome != SHEAF_PRESENT)
            continue;
        if (SHEAF_KIND_DEPTH(item.value.kind) > 0)
            status = build_list(root, output, name, &item);
        else
            status = build_file(root, output, name, &item.value, item.coordinate, item.depth);
    }
    return status;
}

static int build_files(struct root *root, const struct root_outputs *outputs)
{
    char name[NAME_BYTES_MAX];
    int status = sheaf_tree_name(root->name, name, sizeof name);
    for (size_t i = 0; status == 0 && i < outputs->count; i++) {
        if (outputs->items[i].pattern != NULL)
            status = build_output(root, &outputs->items[i], name);
    }
    return status;
}

static void build_errors(struct root *root, uint64_t root_index, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        struct sheaf_failure failure = {.size = sizeof failure};
        if (sheaf_result_failure(root->result, i, &failure) < 0)
            break;
        report_failure(root->path, &root_index, &failure, &root->error_lines);
    }
}

void root_refuse(struct root *root, const char *message)
{
    root->file_count = 0;
    text_list_free(&root->paths);
    text_clear(&root->manifest_line);
    root_build_failed(root, SHEAF_CLASS_IO, message);
}

int root_build(struct root *root, const struct root_outputs *outputs, double now_seconds)
{
    struct sheaf_result_info info = {.size = sizeof info};
    int status = sheaf_result_info(root->result, &info);
    assert(status == 0);
    root->status = info.status;
    bool write = info.status == SHEAF_ROOT_OK || info.status == SHEAF_ROOT_PARTIAL;
    status = write ? build_files(root, outputs) : 0;
    if (status < 0) {
        root_refuse(root, sheaf_status_text(status));
        return status;
    }
    build_errors(root, info.root, info.failure_count);
    bool is_ok = info.status == SHEAF_ROOT_OK, is_filtered = info.status == SHEAF_ROOT_FILTERED;
    struct report_entry entry = {
        .source = root->path,
        .status = sheaf_root_status_name(info.status),
        .outputs = &root->paths,
        .has_pages = write,
        .pages = info.child_count,
        .class_name = is_ok ? NULL : sheaf_class_name(info.class_id),
        .message = info.message != NULL && info.message[0] != '\0' ? info.message
                   : is_filtered                                   ? "filtered out by the pipeline"
                                                                   : "no cause was given",
        .elapsed_ms = (uint64_t)((now_seconds - root->began_seconds) * 1000),
    };
    root->has_pages = entry.has_pages;
    root->pages = entry.pages;
    report_manifest(&entry, &root->manifest_line);
    return 0;
}

void root_build_failed(struct root *root, enum sheaf_class class_id, const char *message)
{
    struct sheaf_result_info info = {.size = sizeof info};
    bool begun = root->result != NULL && sheaf_result_info(root->result, &info) == 0;
    struct sheaf_failure failure = {.size = sizeof failure,
                                    .class_id = class_id,
                                    .coordinate = &info.root,
                                    .depth = begun ? 1 : 0,
                                    .message = message};
    struct report_entry entry = {
        .source = root->path, .status = "failed", .class_name = sheaf_class_name(class_id), .message = message};
    root->status = SHEAF_ROOT_FAILED;
    root->has_pages = false;
    report_manifest(&entry, &root->manifest_line);
    text_clear(&root->error_lines);
    report_failure(root->path, begun ? &info.root : NULL, &failure, &root->error_lines);
}

void root_build_skipped(struct root *root, const char *earlier_line, const char *message)
{
    root->status = SHEAF_ROOT_SKIPPED;
    report_skipped(root->path, earlier_line, message, &root->manifest_line);
}

void root_commit(const struct root *root, uint32_t index, struct sheaf_tree_commit *ret_commit)
{
    *ret_commit = (struct sheaf_tree_commit){
        .size = sizeof *ret_commit,
        .file_count = (uint32_t)root->file_count,
        .files = root->files,
        .identity = {sizeof ret_commit->identity, 0, root->name, root->size_bytes, root->mtime_ns},
        .status = sheaf_root_status_name(root->status),
        .manifest_line = root->manifest_line.data,
        .error_lines = root->error_lines.length > 0 ? root->error_lines.data : NULL,
        .tag = index,
    };
}
