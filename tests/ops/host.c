/* SPDX-License-Identifier: Apache-2.0 */
#include "host.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct host_run *run_of(const struct sheaf_row *row)
{
    assert(row && row->host_row);
    return row->host_row;
}

static void *keep(struct host_run *run, void *memory)
{
    run->memory = realloc(run->memory, (run->memory_count + 1) * sizeof *run->memory);
    assert(run->memory && memory);
    run->memory[run->memory_count++] = memory;
    return memory;
}

static void *on_alloc(const struct sheaf_row *row, size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    return memory ? keep(run_of(row), memory) : NULL;
}

static void *on_resize(const struct sheaf_row *row, void *memory, size_t bytes)
{
    struct host_run *run = run_of(row);
    for (size_t i = 0; i < run->memory_count; i++) {
        if (run->memory[i] != memory)
            continue;
        void *moved = realloc(memory, bytes + 1);
        if (moved)
            run->memory[i] = moved;
        return moved;
    }
    assert(!"resize of memory that is not the row's");
    return NULL;
}

static struct sheaf_value copy(struct host_run *run, const struct sheaf_value *value)
{
    struct sheaf_value made = *value;
    assert(SHEAF_KIND_DEPTH(value->kind) == 0);
    switch (value->kind) {
    case SHEAF_TENSOR:
        made.tensor = memcpy(keep(run, malloc(sizeof *made.tensor)), value->tensor, sizeof *made.tensor);
        /* fall through */
    case SHEAF_TEXT:
    case SHEAF_BYTES:
    case SHEAF_RECORD:
        assert(value->data || value->length_bytes == 0);
        made.data = keep(run, malloc(value->length_bytes + 1));
        if (value->length_bytes)
            memcpy((void *)made.data, value->data, value->length_bytes);
        if (value->name)
            made.name = keep(run, strdup(value->name));
        break;
    default:
        break;
    }
    return made;
}

static int on_emit(const struct sheaf_row *row, const struct sheaf_value *values, uint32_t count)
{
    struct host_run *run = run_of(row);
    assert(!run->answered && !run->failed && count == 1);
    run->children = realloc(run->children, (run->child_count + 1) * sizeof *run->children);
    assert(run->children);
    run->children[run->child_count++] = copy(run, &values[0]);
    return 0;
}

static int on_append(const struct sheaf_row *row, uint32_t port, const struct sheaf_value *value)
{
    return on_emit(row, value, 1);
}

static int on_answer(const struct sheaf_row *row, const struct sheaf_value *values, uint32_t count)
{
    struct host_run *run = run_of(row);
    assert(!run->answered && !run->failed && count == run->operator->output_count);
    for (uint32_t i = 0; i < count; i++) {
        const struct sheaf_port *port = &run->operator->outputs[i];
        assert(port->flags & SHEAF_PORT_GROUP ? values[i].kind == SHEAF_NONE : values[i].kind == port->kind);
        run->outputs[i] = copy(run, &values[i]);
    }
    run->answered = 1;
    return 0;
}

static int on_fail(const struct sheaf_row *row, enum sheaf_scope scope, enum sheaf_class class_id, const char *format,
                   ...)
{
    struct host_run *run = run_of(row);
    assert(!run->answered && !run->failed && scope <= run->operator->widest_failure);
    va_list values;
    va_start(values, format);
    vsnprintf(run->message, sizeof run->message, format, values);
    va_end(values);
    assert(run->message[0]);
    run->failed = 1;
    run->scope = scope;
    run->class_id = class_id ? class_id : SHEAF_CLASS_OPERATOR;
    return 0;
}

static int on_list_next(struct sheaf_list *list, struct sheaf_value *ret_value)
{
    if (list->at == list->count)
        return 0;
    *ret_value = list->values[list->at++];
    return 1;
}

static void on_list_rewind(struct sheaf_list *list)
{
    list->at = list->error_at = 0;
}

static int on_list_error_next(struct sheaf_list *list, struct sheaf_list_error *ret_error)
{
    if (list->error_at == list->error_count)
        return 0;
    *ret_error = list->errors[list->error_at++];
    return 1;
}

static int on_file_descriptor(const struct sheaf_row *row, const struct sheaf_value *file, int *ret_fd)
{
    struct host_run *run = run_of(row);
    assert(file->kind == SHEAF_FILE);
    /* Left open on purpose: it belongs to the value, which outlives the row. */
    run->descriptor = open(file->name, O_RDONLY | O_CLOEXEC);
    if (run->descriptor < 0)
        return -errno;
    *ret_fd = run->descriptor;
    return 0;
}

static void on_log(const struct sheaf_row *row, int level, const char *format, ...)
{
    if (!row)
        return;
    struct host_run *run = run_of(row);
    va_list values;
    va_start(values, format);
    vsnprintf(run->log, sizeof run->log, format, values);
    va_end(values);
    run->log_count++;
}

static int on_cancelled(const struct sheaf_row *row)
{
    struct host_run *run = run_of(row);
    return run->cancel_after >= 0 && run->cancel_after-- == 0;
}

static const struct sheaf_host host = {
    .size = sizeof host,
    .version = SHEAF_OPERATOR_ABI,
    .alloc = on_alloc,
    .resize = on_resize,
    .emit = on_emit,
    .append = on_append,
    .answer = on_answer,
    .fail = on_fail,
    .list_next = on_list_next,
    .list_rewind = on_list_rewind,
    .list_error_next = on_list_error_next,
    .file_descriptor = on_file_descriptor,
    .log = on_log,
    .cancelled = on_cancelled,
};

void *host_open(const struct sheaf_operator *operator, const struct host_option * given, size_t count, char *error)
{
    static char stateless;
    struct sheaf_option_value values[32];
    assert(operator->option_count <= 32);
    for (uint32_t i = 0; i < operator->option_count; i++)
        values[i] = operator->options[i].fallback;
    for (size_t g = 0; g < count; g++) {
        uint32_t i = 0;
        while (i < operator->option_count && strcmp(operator->options[i].name, given[g].name) != 0)
            i++;
        assert(i < operator->option_count);
        values[i] = given[g].value;
    }
    void *state = &stateless;
    struct sheaf_open open = {.size = sizeof open,
                              .option_count = operator->option_count,
                              .host = &host,
                              .options = values,
                              .error = error,
                              .error_bytes = 512};
    error[0] = 0;
    if (operator->open && operator->open(&open, &state) < 0)
        return NULL;
    return state;
}

void host_close(const struct sheaf_operator *operator, void * state)
{
    if (operator->close && state)
        operator->close(state);
}

static void begin(struct host_run *run, const struct sheaf_operator *operator, struct host_keys keys,
                  const struct sheaf_value *inputs, uint32_t count)
{
    *run = (struct host_run){.cancel_after = -1, .operator= operator, .descriptor = - 1 };
    run->row = (struct sheaf_row){.size = sizeof run->row,
                                  .key = keys.key,
                                  .parent_key = keys.parent_key,
                                  .coordinate = run->coordinate,
                                  .depth = 1,
                                  .input_count = count,
                                  .inputs = inputs,
                                  .host_row = run};
}

void host_run(const struct sheaf_operator *operator, void * state, struct host_keys keys,
              const struct sheaf_value *inputs, uint32_t count, struct host_run *ret_run)
{
    struct host_run *run = ret_run;
    char message[512] = "";
    begin(run, operator, keys, inputs, count);
    run->status = operator->run(state, &run->row, message);
    if (run->status < 0 && !run->failed)
        memcpy(run->message, message, sizeof message);
    assert(run->status < 0 || run->answered || run->failed);
}

/* ---- batches ---- */

struct host_device {
    struct sheaf_batch batch; /* first */
    const struct sheaf_kernels *kernels;
    unsigned char *memory;
    uint64_t bytes, used;
    struct {
        void *to;
        const void *from;
        uint64_t bytes;
    } fetches[8];
    uint32_t fetch_count;
};

static struct host_device *device_of(const struct sheaf_batch *batch)
{
    return (struct host_device *)(uintptr_t)batch;
}

static void *device_alloc(const struct sheaf_batch *batch, uint64_t bytes)
{
    struct host_device *device = device_of(batch);
    uint64_t whole = (bytes + 255) / 256 * 256;
    if (whole > device->bytes - device->used)
        return NULL;
    device->used += whole;
    return device->memory + device->used - whole;
}

static int device_launch(const struct sheaf_batch *batch, const char *kernel, const struct sheaf_grid *grid,
                         const void *argument)
{
    const struct sheaf_kernels *kernels = device_of(batch)->kernels;
    for (uint32_t i = 0; i < kernels->kernel_count; i++) {
        if (strcmp(kernels->kernels[i].name, kernel) != 0)
            continue;
        kernels->kernels[i].host(argument, grid);
        return 0;
    }
    return -ENOENT;
}

static int device_upload(const struct sheaf_batch *batch, void *to, const void *from, uint64_t bytes)
{
    memcpy(to, from, bytes);
    return 0;
}

static int device_fetch(const struct sheaf_batch *batch, void *to, const void *from, uint64_t bytes)
{
    struct host_device *device = device_of(batch);
    assert(device->fetch_count < sizeof device->fetches / sizeof *device->fetches);
    device->fetches[device->fetch_count].to = to;
    device->fetches[device->fetch_count].from = from;
    device->fetches[device->fetch_count++].bytes = bytes;
    return 0;
}

int host_run_batch(const struct sheaf_operator *operator, void * state, const struct sheaf_kernels *kernels,
                   uint64_t memory_bytes, const struct sheaf_value *inputs, uint32_t count, struct host_run *ret_runs)
{
    static const struct sheaf_device calls = {.size = sizeof calls,
                                              .alloc = device_alloc,
                                              .launch = device_launch,
                                              .upload = device_upload,
                                              .fetch = device_fetch};
    const struct sheaf_row *rows[64];
    const void *devices[64];
    char message[512] = "";
    void *cookie = NULL;
    struct host_device device = {.kernels = kernels, .bytes = memory_bytes, .memory = aligned_alloc(256, memory_bytes)};
    assert(count <= 64 && device.memory);
    memset(device.memory, 0xa5, memory_bytes);
    for (uint32_t i = 0; i < count; i++) {
        begin(&ret_runs[i], operator,(struct host_keys){i + 1, 1}, &inputs[i], 1);
        rows[i] = &ret_runs[i].row;
        unsigned char *copy = device_alloc(&device.batch, inputs[i].length_bytes);
        assert(copy);
        memcpy(copy, inputs[i].data, inputs[i].length_bytes);
        devices[i] = copy;
    }
    device.batch = (struct sheaf_batch){.size = sizeof device.batch,
                                        .row_count = count,
                                        .rows = rows,
                                        .devices = devices,
                                        .device = &calls,
                                        .cookie = &cookie};
    int status = operator->run_batch(state, &device.batch, message);
    for (uint32_t i = 0; i < device.fetch_count && status == 0; i++)
        memcpy(device.fetches[i].to, device.fetches[i].from, device.fetches[i].bytes);
    if (status == 0)
        status = operator->finish_batch(state, &device.batch, message);
    for (uint32_t i = 0; i < count && status == 0; i++)
        assert(ret_runs[i].answered || ret_runs[i].failed);
    free(device.memory);
    return status;
}

void host_run_fini(struct host_run *run)
{
    for (size_t i = 0; i < run->memory_count; i++)
        free(run->memory[i]);
    free(run->memory);
    free(run->children);
    run->memory = NULL;
    run->children = NULL;
    run->memory_count = 0;
}

uint8_t *host_file_read(const char *path, size_t *ret_bytes)
{
    struct stat about;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    uint8_t *data = NULL;
    if (descriptor >= 0 && fstat(descriptor, &about) == 0 && (data = malloc((size_t)about.st_size + 1)) &&
        read(descriptor, data, (size_t)about.st_size) != about.st_size) {
        free(data);
        data = NULL;
    }
    if (descriptor >= 0)
        close(descriptor);
    if (data)
        *ret_bytes = (size_t)about.st_size;
    return data;
}

struct sheaf_value host_file_value(const char *path, const void *data, size_t bytes)
{
    return (struct sheaf_value){.kind = SHEAF_FILE, .data = data, .length_bytes = bytes, .name = path};
}

struct sheaf_value host_list_value(struct sheaf_list *list, sheaf_kind element)
{
    return (struct sheaf_value){.kind = element + SHEAF_LIST_OF(0, 1), .list = list, .length_bytes = list->count};
}

const char *host_corpus_path(const char *relative)
{
    static char path[4096];
    const char *shared = getenv("SHEAF_SHARED");
    snprintf(path, sizeof path, "%s/corpus/handed/%s", shared && *shared ? shared : "../shared", relative);
    return access(path, R_OK) == 0 ? path : NULL;
}
