/* SPDX-License-Identifier: Apache-2.0 */
/* What operators call. Every function checks that its row is one that runs: an operator may get anything wrong. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/worker.h"

/* `log` takes no row for lines about none: the one thing that cannot reach its worker through an argument. */
static _Thread_local struct sheaf_worker *thread_worker;

void host_adopt(struct sheaf_worker *worker)
{
    thread_worker = worker;
}

/* The row behind what an operator passed, or NULL: it passed a pointer that is none of ours, or a copy of a row that is
 * over and whose place another one has. (A worker that was attached on another thread is taken at its word.) */
static struct worker_row *row_behind(const struct sheaf_row *row)
{
    struct worker_row *own = row != NULL ? row->host_row : NULL;
    if (own == NULL)
        return NULL;
    if (thread_worker != NULL) {
        uint64_t at = (uint64_t)(uintptr_t)own - (uint64_t)(uintptr_t)thread_worker->rows;
        if (at >= thread_worker->row_limit * sizeof *own || at % sizeof *own != 0)
            return NULL;
    }
    return own->phase != ROW_FREE && own->row.key == row->key ? own : NULL;
}

/* As row_behind, when the operator may use it now. */
static struct worker_row *open_row(const struct sheaf_row *row)
{
    struct worker_row *own = row_behind(row);
    return own != NULL && own->phase == ROW_RUNNING && own->end == ROW_OPEN ? own : NULL;
}

/* ---- memory ---- */

static int note_memory(struct worker_row *row, void *memory)
{
    if (row->memory_count == row->memory_capacity) {
        uint32_t capacity = 2 * row->memory_capacity + 8;
        void **grown = realloc(row->memories, capacity * sizeof *grown);
        if (grown == NULL)
            return -ENOMEM;
        row->memories = grown;
        row->memory_capacity = capacity;
    }
    row->memories[row->memory_count++] = memory;
    return 0;
}

static void *host_alloc(const struct sheaf_row *public_row, size_t bytes)
{
    struct worker_row *row = open_row(public_row);
    void *memory = row != NULL ? payload_new(row, bytes, payload_usual_headroom(bytes)) : NULL;
    if (memory == NULL)
        return NULL;
    if (note_memory(row, memory) < 0) {
        payload_free(row->worker, memory);
        return NULL;
    }
    return memory;
}

static void *host_resize(const struct sheaf_row *public_row, void *memory, size_t bytes)
{
    if (memory == NULL)
        return host_alloc(public_row, bytes);
    struct worker_row *row = open_row(public_row);
    for (uint32_t at = row != NULL ? row->memory_count : 0; at > 0; at--) {
        if (row->memories[at - 1] != memory)
            continue;
        void *moved = payload_resize(row, memory, bytes);
        if (moved != NULL)
            row->memories[at - 1] = moved;
        return moved;
    }
    return NULL;
}

/* ---- answers ---- */

static const char *kind_text(sheaf_kind kind, char *room, size_t room_bytes)
{
    static const char *const names[] = {"nothing", "bool", "i64", "f64", "text", "bytes", "tensor", "record", "file"};
    uint32_t base = SHEAF_KIND_BASE(kind), depth = SHEAF_KIND_DEPTH(kind);
    const char *name = base < sizeof names / sizeof names[0] ? names[base] : "an unknown kind";
    if (depth == 0)
        snprintf(room, room_bytes, "%s", name);
    else
        snprintf(room, room_bytes, "list of %s, depth %u", name, depth);
    return room;
}

/* Publishes a value for `output`. A wrong kind or value breaks the contract; no memory is the operator's to answer for.
 */
static int publish_for(struct worker_row *row, uint32_t output, sheaf_kind wanted, const struct sheaf_value *value,
                       struct value_ref *ret_ref)
{
    char is[64], should[64];
    if (wanted != SHEAF_NONE && value->kind != wanted)
        return row_breach(row, "output %u is %s and must be %s", output, kind_text(value->kind, is, sizeof is),
                          kind_text(wanted, should, sizeof should));
    int status = publish_value(row, value, ret_ref);
    if (status == -EINVAL || status == -EBADMSG)
        return row_breach(row, "output %u (%s) is no proper value", output, kind_text(value->kind, is, sizeof is));
    return status;
}

static void restart_deadline(struct worker_row *row, uint64_t at_ns)
{
    struct lane_counters *counters = row->worker->lane.counters;
    claim_page_count_child(&row->worker->lane.claims, row->claim.row, at_ns);
    store_relaxed_u64(&counters->children, load_relaxed_u64(&counters->children) + 1);
}

/* One more element of a list under way; its reference is the row's from now on. */
static int append_ref(struct worker_row *row, uint32_t output, struct value_ref *ref)
{
    struct appended *appended = row_appended(row, output);
    row->has_appended = true;
    if (appended->count == appended->capacity) {
        uint32_t capacity = 2 * appended->capacity + 16;
        struct value_ref *grown = realloc(appended->refs, capacity * sizeof *grown);
        if (grown == NULL)
            return -ENOMEM;
        appended->refs = grown;
        appended->capacity = capacity;
    }
    appended->refs[appended->count++] = *ref;
    *ref = (struct value_ref){0};
    return 0;
}

/* The values of a child, one per group. Those of groups that nobody expands are kept for the list that is answered. */
static int publish_child(struct worker_row *row, const struct sheaf_value *values, struct value_ref *ret_refs)
{
    struct worker_call *call = row->call;
    uint32_t at = 0;
    int status = 0;
    bool first = !row->streamed;
    row->streamed = true;
    for (uint32_t output = 0; output < call->spec->output_count && status == 0; output++) {
        if (!is_group(call, output))
            continue;
        if (first && row->has_appended && row_appended(row, output)->count > 0)
            return row_breach(row, "output %u is both appended to and emitted", output);
        status = publish_for(row, output, element_kind(call, output), &values[at], &ret_refs[at]);
        if (status == 0 && !is_expanded(call, output))
            status = append_ref(row, output, &ret_refs[at]);
        at++;
    }
    return status;
}

static int host_emit(const struct sheaf_row *public_row, const struct sheaf_value *values, uint32_t count)
{
    struct worker_row *row = open_row(public_row);
    if (row == NULL)
        return -EINVAL;
    struct worker_call *call = row->call;
    if (count == 0 || count != call->group_count) {
        row->breach_of_columns = true;
        return row_breach(row, "emit with %u values; it has %u group outputs", count, call->group_count);
    }
    struct value_ref refs[64] = {0};
    int status = publish_child(row, values, refs);
    if (status == 0 && call->spec->expanded_groups != 0)
        status = row_write_children(row, refs, row->child_count, 1);
    if (status < 0) {
        for (uint32_t done = 0; done < count; done++)
            unpublish(row->worker, &refs[done]);
        return status;
    }
    uint64_t at_ns = now_ns();
    row->child_count++;
    record_commit(row->worker, row->shard);
    restart_deadline(row, at_ns);
    announce_child(row->worker, row->shard, at_ns);
    return must_end_now(row->worker) ? -ECANCELED : 0;
}

static int host_append(const struct sheaf_row *public_row, uint32_t output, const struct sheaf_value *value)
{
    struct worker_row *row = open_row(public_row);
    if (row == NULL)
        return -EINVAL;
    struct worker_call *call = row->call;
    if (output >= call->spec->output_count) {
        row->breach_of_columns = true;
        return row_breach(row, "append to output %u; it has %u", output, call->spec->output_count);
    }
    if (is_group(call, output) && row->streamed)
        return row_breach(row, "output %u is both emitted and appended to", output);
    if (!is_group(call, output) && element_kind(call, output) == SHEAF_NONE &&
        call->spec->output_kinds[output] != SHEAF_NONE)
        return row_breach(row, "append to output %u, which is no list", output);
    struct value_ref ref = {0};
    int status = publish_for(row, output, element_kind(call, output), value, &ref);
    if (status == 0)
        status = append_ref(row, output, &ref);
    unpublish(row->worker, &ref); /* what was appended is not here any more */
    return status;
}

/* Groups that are answered whole: their lengths must agree. */
static int check_groups(struct worker_row *row)
{
    uint32_t first = UINT32_MAX;
    if (!row->has_appended) /* none has any */
        return 0;
    for (uint32_t output = 0; output < row->call->spec->output_count; output++) {
        if (!is_group(row->call, output))
            continue;
        if (first == UINT32_MAX)
            first = output;
        uint32_t count = row_appended(row, output)->count, of_first = row_appended(row, first)->count;
        if (count != of_first)
            return row_breach(row, "its groups differ in length: output %u has %u children, output %u has %u", first,
                              of_first, output, count);
    }
    return 0;
}

/* One output of an answer. */
static int answer_output(struct worker_row *row, uint32_t output, const struct sheaf_value *value)
{
    struct worker_call *call = row->call;
    sheaf_kind wanted = call->spec->output_kinds[output];
    if (is_group(call, output)) {
        if (value->kind != SHEAF_NONE)
            return row_breach(row, "output %u is a group: emit or append its children", output);
        return is_expanded(call, output) ? 0
                                         : publish_list(row, wanted, row_appended(row, output), &row->outputs[output]);
    }
    struct appended *appended = row_appended(row, output);
    uint32_t count = row->has_appended ? appended->count : 0;
    if (value->kind == SHEAF_NONE && (count > 0 || SHEAF_KIND_DEPTH(wanted) > 0)) {
        sheaf_kind kind = wanted;
        if (kind == SHEAF_NONE)
            kind = appended->refs[0].kind + SHEAF_LIST_OF(0, 1);
        return publish_list(row, kind, appended, &row->outputs[output]);
    }
    if (count > 0)
        return row_breach(row, "output %u is both appended to and answered", output);
    return publish_for(row, output, wanted, value, &row->outputs[output]);
}

/* Rows of a batch are mostly answered one after the other, in the order in which they lie. */
static void expect_next(const struct worker_row *row)
{
    enum { ROWS_AHEAD = 4 };
    const struct sheaf_worker *worker = row->worker;
    if (!row->call->batch)
        return;
    bool first = row == worker->batch.rows[0]; /* nobody has asked for those behind it */
    uint32_t at = (uint32_t)(row - worker->rows), last = at + ROWS_AHEAD;
    for (at = first ? at + 1 : last; at <= last && at < worker->row_limit; at++)
        row_prefetch(worker, at);
}

static int host_answer(const struct sheaf_row *public_row, const struct sheaf_value *values, uint32_t count)
{
    struct worker_row *row = open_row(public_row);
    if (row == NULL) {
        struct worker_row *answered = row_behind(public_row);
        if (answered != NULL && answered->phase == ROW_RUNNING)
            return row_breach(answered, "the row was answered twice");
        return -EINVAL;
    }
    expect_next(row);
    if (count != row->call->spec->output_count) {
        row->breach_of_columns = true;
        return row_breach(row, "an answer of %u values; it has %u outputs", count, row->call->spec->output_count);
    }
    if (!row->streamed && check_groups(row) < 0)
        return -EINVAL;
    for (uint32_t output = 0; output < count; output++) {
        int status = answer_output(row, output, &values[output]);
        if (status < 0) {
            /* No memory: the operator may still fail the row; it starts from nothing. */
            for (uint32_t done = 0; done <= output; done++)
                unpublish(row->worker, &row->outputs[done]);
            return status;
        }
    }
    row->end = ROW_ANSWERED;
    return 0;
}

/* A text that was cut short ends with a whole character. */
static void cut_character(char *text)
{
    size_t end = strlen(text);
    while (end > 0 && ((unsigned char)text[end - 1] & 0xc0) == 0x80)
        end--;
    if (end > 0 && (unsigned char)text[end - 1] >= 0xc0)
        text[end - 1] = '\0';
}

static int host_fail(const struct sheaf_row *public_row, enum sheaf_scope scope, enum sheaf_class class_id,
                     const char *format, ...)
{
    struct worker_row *row = open_row(public_row);
    if (row == NULL) {
        struct worker_row *ended = row_behind(public_row);
        if (ended != NULL && ended->phase == ROW_RUNNING)
            return row_breach(ended, "the row was failed after it had been answered or failed");
        return -EINVAL;
    }
    if ((uint32_t)scope > row->call->spec->widest_failure)
        return row_breach(row, "it failed with scope %u and declares at most %u", (uint32_t)scope,
                          row->call->spec->widest_failure);
    if ((uint32_t)class_id >= SHEAF_CLASS_COUNT)
        return row_breach(row, "it failed with class %u, which does not exist", (uint32_t)class_id);
    row->scope = scope;
    row->class_id = class_id != SHEAF_CLASS_NONE ? class_id : SHEAF_CLASS_OPERATOR;
    va_list values;
    va_start(values, format);
    if (!row->breach &&
        vsnprintf(row->text, COMPLETION_TEXT_BYTES_MAX, format, values) >= (int)COMPLETION_TEXT_BYTES_MAX)
        cut_character(row->text);
    va_end(values);
    row->end = ROW_FAILED;
    return 0;
}

/* ---- the rest ---- */

static int host_file_descriptor(const struct sheaf_row *public_row, const struct sheaf_value *file, int *ret_fd)
{
    struct worker_row *row = open_row(public_row);
    return row != NULL ? source_descriptor(row, file, ret_fd) : -EINVAL;
}

static void host_log(const struct sheaf_row *public_row, int level, const char *format, ...)
{
    struct worker_row *row = row_behind(public_row);
    struct sheaf_worker *worker = row != NULL ? row->worker : thread_worker;
    if (worker == NULL)
        return;
    char text[COMPLETION_TEXT_BYTES_MAX];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(text, sizeof text, format, values);
    va_end(values);
    if (length < 0)
        return;
    struct completion record = {
        .kind = COMPLETION_LOG,
        .grain = row != NULL ? row->claim.dispatch.grain : COMPLETION_NO_GRAIN,
        .number = row != NULL ? row->claim.dispatch.number : 0,
        .level = level < 0   ? 0
                 : level > 2 ? 2
                             : (uint32_t)level,
        .text = text,
        .text_length_bytes = (size_t)length < sizeof text ? (uint32_t)length : (uint32_t)sizeof text - 1,
    };
    uint32_t shard = row != NULL ? row->shard : 0;
    record_write(worker, shard, &record);
    record_commit(worker, shard);
}

static int host_cancelled(const struct sheaf_row *public_row)
{
    struct worker_row *row = row_behind(public_row);
    if (row == NULL || row->phase != ROW_RUNNING)
        return 1;
    orders_poll(row->worker);
    return row->unwanted || must_end_now(row->worker);
}

/* ---- slots ---- */

/* Publishes the rows of the batch that are answered, and keeps the others. */
static void flush_answered(struct worker_batch *batch)
{
    uint32_t kept = 0;
    for (uint32_t at = 0; at < batch->count; at++) {
        struct worker_row *row = batch->rows[at];
        if (row->phase == ROW_RUNNING && row->end == ROW_OPEN && !row->breach)
            batch->rows[kept++] = row;
        else
            row_finish(row, 0, NULL);
    }
    batch->count = kept;
    announce(batch->worker);
}

static int host_take(void *host_batch, const struct sheaf_row **ret_row)
{
    struct worker_batch *batch = host_batch;
    if (batch == NULL)
        return -EINVAL;
    flush_answered(batch);
    orders_poll(batch->worker);
    claim_note_suspects(batch->worker);
    if (batch->worker->stop || batch->worker->alone || must_end_now(batch->worker))
        return SHEAF_E_CLOSED;
    struct worker_row *row;
    while (claim_one(batch->worker, batch->index, &row) > 0) {
        if (row_start(row) < 0) {
            row_finish(row, 0, NULL);
            continue;
        }
        batch->rows[batch->count++] = row;
        *ret_row = &row->row;
        return 1;
    }
    return 0;
}

static int host_wait(void *host_batch, int fd, int timeout_ms)
{
    struct worker_batch *batch = host_batch;
    if (batch == NULL)
        return -EINVAL;
    struct sheaf_worker *worker = batch->worker;
    flush_answered(batch);
    uint64_t until_ns = timeout_ms < 0 ? 0 : now_ns() + (uint64_t)timeout_ms * 1000000u;
    for (;;) {
        uint32_t seen = event_count_sample(pool_events(worker));
        orders_poll(worker);
        claim_note_suspects(worker);
        if (worker->stop || worker->alone || must_end_now(worker))
            return SHEAF_E_CLOSED;
        if (claim_has(worker, batch->index))
            return 0;
        struct pollfd readable = {.fd = fd, .events = POLLIN};
        if (fd >= 0 && poll(&readable, 1, 0) > 0)
            return 0;
        if (until_ns != 0 && now_ns() >= until_ns)
            return 0;
        if (!park_announce(worker, seen))
            continue;
        claim_note_suspects(worker);
        if (!worker->stop && !claim_has(worker, batch->index))
            park(worker, seen, fd, until_ns);
    }
}

const struct sheaf_host worker_host = {
    .size = sizeof(struct sheaf_host),
    .version = SHEAF_OPERATOR_ABI,
    .alloc = host_alloc,
    .resize = host_resize,
    .emit = host_emit,
    .append = host_append,
    .answer = host_answer,
    .fail = host_fail,
    .list_next = list_next,
    .list_rewind = list_rewind,
    .list_error_next = list_error_next,
    .file_descriptor = host_file_descriptor,
    .log = host_log,
    .cancelled = host_cancelled,
    .take = host_take,
    .wait = host_wait,
};
