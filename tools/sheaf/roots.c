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
    *outputs = (struct root_outputs){must_allocate(count * sizeof *outputs->items), count, count};
    for (size_t i = 0; i < count; i++) {
        struct sheaf_plan_port port = {.size = sizeof port};
        const char *reason = "";
        int status = sheaf_plan_output(plan, i, &port);
        assert(status == 0);
        outputs->items[i] = (struct root_output){i, port.depth, port.kind, port.name, port.file};
        if (port.depth == 2 && outputs->page_output == count)
            outputs->page_output = i;
        if (port.file == NULL)
            continue;
        status = pattern_check(port.file, port.depth, &reason);
        if (status == 0 && (SHEAF_KIND_DEPTH(port.kind) > 0 || SHEAF_KIND_BASE(port.kind) == SHEAF_TENSOR)) {
            reason = "a list or tensor cannot be a file; make it text or bytes";
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

/* The items of one output: files, and how many items there are. */
static int build_output(struct root *root, const struct root_output *output, const char *name, bool write,
                        uint64_t *ret_count)
{
    struct text path = {0};
    int status = 0;
    size_t index;
    for (index = 0; status == 0; index++) {
        struct sheaf_item item = {.size = sizeof item};
        if (sheaf_result_item(root->result, output->index, index, &item) < 0)
            break;
        if (!write || output->pattern == NULL || item.outcome != SHEAF_PRESENT)
            continue;
        const void *data;
        size_t length;
        text_clear(&path);
        pattern_expand(output->pattern, name, item.coordinate, item.depth, &path);
        if (item.value.kind == SHEAF_BYTES)
            pattern_fit_media_type(&path, item.value.name);
        status = value_bytes(&item.value, &root->scalars, &data, &length);
        if (status == 0) {
            text_list_add(&root->paths, path.data);
            add_file(root, data, length);
        }
    }
    text_free(&path);
    *ret_count = index;
    return status;
}

static int build_files(struct root *root, const struct root_outputs *outputs, bool write)
{
    char name[NAME_BYTES_MAX];
    int status = sheaf_tree_name(root->name, name, sizeof name);
    for (size_t i = 0; status == 0 && i < outputs->count; i++) {
        uint64_t count;
        status = build_output(root, &outputs->items[i], name, write, &count);
        if (i == outputs->page_output) {
            root->has_pages = true;
            root->pages = count;
        }
    }
    return status;
}

static void build_errors(struct root *root, uint64_t root_index, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        struct sheaf_failure failure = {.size = sizeof failure};
        if (sheaf_result_failure(root->result, i, &failure) < 0)
            break;
        report_failure(root->path, root_index, &failure, &root->error_lines);
    }
}

void root_refuse(struct root *root, const char *message)
{
    root->file_count = 0;
    text_list_free(&root->paths);
    root_build_failed(root, SHEAF_CLASS_IO, message);
}

int root_build(struct root *root, const struct root_outputs *outputs, double now_seconds)
{
    struct sheaf_result_info info = {.size = sizeof info};
    int status = sheaf_result_info(root->result, &info);
    assert(status == 0);
    root->status = info.status;
    bool write = info.status == SHEAF_ROOT_OK || info.status == SHEAF_ROOT_PARTIAL;
    status = build_files(root, outputs, write);
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
        .has_pages = root->has_pages && info.status != SHEAF_ROOT_FAILED,
        .pages = root->pages,
        .class_name = is_ok ? NULL : sheaf_class_name(info.class_id),
        .message = info.message != NULL && info.message[0] != '\0' ? info.message
                   : is_filtered                                   ? "filtered out by the pipeline"
                                                                   : "no cause was given",
        .elapsed_ms = (uint64_t)((now_seconds - root->began_seconds) * 1000),
    };
    root->has_pages = entry.has_pages;
    report_manifest(&entry, &root->manifest_line);
    return 0;
}

void root_build_failed(struct root *root, enum sheaf_class class_id, const char *message)
{
    uint64_t coordinate = 0;
    struct sheaf_failure failure = {
        .size = sizeof failure, .class_id = class_id, .coordinate = &coordinate, .message = message};
    struct report_entry entry = {
        .source = root->path, .status = "failed", .class_name = sheaf_class_name(class_id), .message = message};
    root->status = SHEAF_ROOT_FAILED;
    root->has_pages = false;
    report_manifest(&entry, &root->manifest_line);
    text_clear(&root->error_lines);
    report_failure(root->path, 0, &failure, &root->error_lines);
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
