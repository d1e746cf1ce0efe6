/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shm/shape.h"
#include "worker/worker.h"

/* ---- rows as such ---- */

static uint32_t place(uint32_t *at, uint32_t count, size_t size)
{
    uint32_t placed = *at;
    *at += count * (uint32_t)size;
    return placed;
}

static struct row_layout plan_layout(const struct attach_hello *hello)
{
    struct row_layout layout = {0};
    for (uint32_t index = 0; index < hello->call_count; index++) {
        const struct attach_call *call = &hello->calls[index];
        layout.input_limit = call->input_count > layout.input_limit ? call->input_count : layout.input_limit;
        layout.output_limit = call->output_count > layout.output_limit ? call->output_count : layout.output_limit;
    }
    uint32_t at = 0;
    place(&at, layout.output_limit, sizeof(struct value_ref));
    layout.inputs_at = place(&at, layout.input_limit, sizeof(struct sheaf_value));
    layout.refs_at = place(&at, layout.input_limit, sizeof(struct value_ref));
    layout.rooms_at = place(&at, layout.input_limit, sizeof(struct view_room));
    layout.lists_at = place(&at, layout.input_limit, sizeof(struct sheaf_list));
    layout.appended_at = place(&at, layout.output_limit, sizeof(struct appended));
    layout.block_bytes = (at / CACHE_LINE_BYTES + 1) * CACHE_LINE_BYTES;
    return layout;
}

/* Zeroed, and at the beginning of a cache line. */
static void *make_lines(uint32_t count, size_t size)
{
    size_t bytes = (count * size / CACHE_LINE_BYTES + 1) * CACHE_LINE_BYTES;
    void *lines = aligned_alloc(CACHE_LINE_BYTES, bytes);
    if (lines != NULL)
        memset(lines, 0, bytes);
    return lines;
}

/* What stays the same for all rows that a struct is used for. */
static void row_open(struct sheaf_worker *worker, uint32_t index)
{
    struct worker_row *row = &worker->rows[index];
    char *block = worker->blocks + (size_t)index * worker->layout.block_bytes;
    row->worker = worker;
    row->text = worker->texts + (size_t)index * COMPLETION_TEXT_BYTES_MAX;
    row->outputs = (struct value_ref *)(void *)block;
    row->row.size = sizeof row->row;
    row->row.inputs = (struct sheaf_value *)(void *)(block + worker->layout.inputs_at);
    row->row.host_row = row;
}

int rows_open(struct sheaf_worker *worker)
{
    uint32_t limit = worker->lane.claims.row_count;
    worker->layout = plan_layout(&worker->hello);
    worker->rows = make_lines(limit, sizeof *worker->rows);
    worker->blocks = make_lines(limit, worker->layout.block_bytes);
    worker->texts = calloc(limit, COMPLETION_TEXT_BYTES_MAX);
    worker->free_rows = calloc(limit, sizeof *worker->free_rows);
    worker->claims = calloc(limit, sizeof *worker->claims);
    worker->claim_shards = calloc(limit, sizeof *worker->claim_shards);
    worker->batch.rows = calloc(limit, sizeof *worker->batch.rows);
    worker->batch.views = calloc(limit, sizeof *worker->batch.views);
    worker->batch.started = calloc(limit, sizeof *worker->batch.started);
    if (worker->rows == NULL || worker->blocks == NULL || worker->texts == NULL || worker->free_rows == NULL ||
        worker->claims == NULL || worker->claim_shards == NULL || worker->batch.rows == NULL ||
        worker->batch.views == NULL || worker->batch.started == NULL)
        return -ENOMEM;
    worker->row_limit = worker->free_count = limit;
    for (uint32_t at = 0; at < limit; at++) {
        worker->free_rows[at] = limit - 1 - at;
        row_open(worker, at);
    }
    return 0;
}

static char *part(const struct worker_row *row, uint32_t at_bytes)
{
    return (char *)row->outputs + at_bytes;
}

static struct view_room *row_room(const struct worker_row *row, uint32_t input)
{
    return (struct view_room *)(void *)part(row, row->worker->layout.rooms_at) + input;
}

static struct sheaf_list *row_list(const struct worker_row *row, uint32_t input)
{
    return (struct sheaf_list *)(void *)part(row, row->worker->layout.lists_at) + input;
}

struct appended *row_appended(const struct worker_row *row, uint32_t output)
{
    return (struct appended *)(void *)part(row, row->worker->layout.appended_at) + output;
}

struct value_ref *row_refs(const struct worker_row *row)
{
    const struct dispatch *dispatch = &row->claim.dispatch;
    if ((dispatch->flags & DISPATCH_OVERFLOW) != 0 || row->call->spec->input_count > DISPATCH_INPUTS_INLINE)
        return (struct value_ref *)(void *)part(row, row->worker->layout.refs_at);
    return (struct value_ref *)(uintptr_t)dispatch->inputs;
}

void row_prefetch(const struct sheaf_worker *worker, uint32_t at)
{
    const struct worker_row *row = &worker->rows[at]; /* nothing in it may be read: that would wait for it */
    __builtin_prefetch(row, 1);
    __builtin_prefetch(&row->call, 1);
    __builtin_prefetch(&row->claim.dispatch.number);
    __builtin_prefetch(worker->blocks + (size_t)at * worker->layout.block_bytes, 1);
}

static void row_done(struct worker_row *row)
{
    const struct row_layout *layout = &row->worker->layout;
    for (uint32_t at = 0; at < layout->input_limit; at++) {
        list_done(row_list(row, at));
        view_room_done(row_room(row, at));
    }
    for (uint32_t at = 0; at < layout->output_limit; at++)
        free(row_appended(row, at)->refs);
    free(row->memories);
}

void rows_close(struct sheaf_worker *worker)
{
    for (uint32_t at = 0; at < worker->row_limit; at++)
        row_done(&worker->rows[at]);
    free(worker->rows);
    free(worker->blocks);
    free(worker->texts);
    free(worker->free_rows);
    free(worker->claims);
    free(worker->claim_shards);
    free(worker->batch.rows);
    free(worker->batch.views);
    free(worker->batch.started);
}

bool is_group(const struct worker_call *call, uint32_t output)
{
    return output < 64 && (call->spec->group_outputs >> output & 1) != 0;
}

/* Whether the children of a group become Entities; if not, nobody expands it and it is read as a list. */
bool is_expanded(const struct worker_call *call, uint32_t output)
{
    return output < 64 && (call->spec->expanded_groups >> output & 1) != 0;
}

sheaf_kind element_kind(const struct worker_call *call, uint32_t output)
{
    sheaf_kind kind = call->spec->output_kinds[output];
    if (kind == SHEAF_NONE || SHEAF_KIND_DEPTH(kind) == 0)
        return SHEAF_NONE;
    return SHEAF_LIST_OF(SHEAF_KIND_BASE(kind), SHEAF_KIND_DEPTH(kind) - 1);
}

/* Coordinate and references of the inputs, from the block that the descriptor names. */
static int read_overflow(struct worker_row *row)
{
    const struct dispatch *dispatch = &row->claim.dispatch;
    uint64_t coordinate_bytes = dispatch->depth * sizeof(uint64_t);
    uint64_t refs_bytes = (uint64_t)dispatch->input_count * sizeof(struct value_ref);
    const char *block = payload_map_at(&row->worker->map, dispatch->overflow.segment, dispatch->overflow.offset,
                                       coordinate_bytes + refs_bytes);
    if (block == NULL || dispatch->overflow.offset % 8 != 0)
        return -EBADMSG;
    row->row.coordinate = (const uint64_t *)(const void *)block;
    memcpy(row_refs(row), block + coordinate_bytes, refs_bytes);
    return 0;
}

/* Inputs and Coordinate, from the descriptor or from the block it names. */
static int gather_inputs(struct worker_row *row)
{
    struct sheaf_worker *worker = row->worker;
    const struct dispatch *dispatch = &row->claim.dispatch;
    uint32_t count = row->call->spec->input_count;
    int status = dispatch->input_count == count ? 0 : -EBADMSG;
    row->row.coordinate = dispatch->coordinate;
    if (status == 0 && (dispatch->flags & DISPATCH_OVERFLOW) != 0)
        status = read_overflow(row);
    struct value_ref *refs = row_refs(row);
    if (status < 0) {
        memset(refs, 0, count * sizeof *refs); /* nothing is known of them */
        return status;
    }
    for (uint32_t at = 0; at < count; at++) {
        struct sheaf_value *value = (struct sheaf_value *)(uintptr_t)&row->row.inputs[at];
        status = value_view(&worker->map, &refs[at], row_list(row, at), row_room(row, at), value);
        if (status < 0)
            return status;
    }
    return 0;
}

/* The rows of a batch are of one shape by what the shard read; their headers may have been written over since. */
static bool shape_is_as_said(const struct worker_row *row)
{
    uint64_t shape = SHAPE_NONE;
    if ((row->call->spec->operator_flags & (SHEAF_OPERATOR_ONE_SHAPE | SHEAF_OPERATOR_DEVICE)) == 0)
        return true;
    for (uint32_t at = 0; at < row->call->spec->input_count; at++)
        if (row->row.inputs[at].kind == SHEAF_TENSOR && row->row.inputs[at].tensor != NULL)
            shape = shape_add(shape, at, row->row.inputs[at].tensor);
    return shape == row->claim.dispatch.shape;
}

/* A ring named a row of another Call: somebody wrote into it. The row is innocent and given back unrun; the shard looks
 * at its rings. */
static void misplaced(struct worker_row *row)
{
    struct lane_counters *counters = row->worker->lane.counters;
    row->unwanted = true;
    store_relaxed_u64(&counters->damaged, load_relaxed_u64(&counters->damaged) + 1);
    const struct board *board = &row->worker->links[row->shard].board;
    board_add_news(board, row->worker->hello.worker);
    event_count_bump(board->shard_events);
}

static void misfit(struct worker_row *row, int status)
{
    row->damaged = true;
    snprintf(row->text, COMPLETION_TEXT_BYTES_MAX, "%s: its inputs cannot be read: %s", row->call->spec->name,
             strerror(-status));
}

struct worker_row *row_make(struct sheaf_worker *worker, struct worker_call *call, uint32_t shard)
{
    assert(worker->free_count > 0); /* the claim page has a row for it, and there are as many of these */
    struct worker_row *row = &worker->rows[worker->free_rows[--worker->free_count]];
    assert(row->phase == ROW_FREE && row->memory_count == 0);
    const struct dispatch *dispatch = &row->claim.dispatch;
    row->call = call;
    row->shard = (uint8_t)shard;
    row->phase = ROW_CLAIMED;
    row->end = ROW_OPEN;
    row->damaged = row->spoiled = row->streamed = row->has_appended = row->breach = row->breach_of_columns =
        row->unwanted = row->yields = row->tells = false;
    row->started_ns = row->ended_ns = row->child_count = 0;
    row->row.attempt = dispatch->attempt;
    row->row.key = dispatch->key;
    row->row.parent_key = dispatch->parent_key;
    row->row.depth = dispatch->depth;
    row->row.input_count = call->spec->input_count;
    memset(row->outputs, 0, call->spec->output_count * sizeof *row->outputs);
    int status = 0;
    if (dispatch->call == call->spec->call)
        status = gather_inputs(row);
    else
        misplaced(row);
    if (status == 0 && !row->unwanted && !shape_is_as_said(row))
        status = -EBADMSG;
    if (status < 0)
        misfit(row, status);
    return row;
}

int row_start(struct worker_row *row)
{
    return row_start_at(row, now_ns());
}

int row_start_at(struct worker_row *row, uint64_t at_ns)
{
    assert(row->phase == ROW_CLAIMED);
    if (row->claim.cancelled || row->unwanted)
        return -ECANCELED;
    row->started_ns = at_ns;
    int status = claim_page_start(&row->worker->lane.claims, row->claim.row, row->claim.dispatch.grain,
                                  row->claim.dispatch.number, row->started_ns);
    if (status < 0)
        return -ECANCELED;
    row->phase = ROW_RUNNING;
    row->worker->has_run = true;
    row_check_inputs(row);
    return row->damaged || row->spoiled ? -EBADMSG : 0;
}

uint32_t rows_start_batch(struct sheaf_worker *worker, const struct sheaf_row ***ret_rows)
{
    struct worker_batch *batch = &worker->batch;
    uint32_t count = 0;
    orders_poll(worker);
    announce_going_on(worker); /* it may take long */
    uint64_t at_ns = now_ns();
    for (uint32_t at = 0; at < batch->count; at++)
        if (row_start_at(batch->rows[at], at_ns) == 0)
            batch->started[count++] = &batch->rows[at]->row;
    *ret_rows = batch->started;
    return count;
}

int row_breach(struct worker_row *row, const char *format, ...)
{
    if (row->breach)
        return -EINVAL;
    row->breach = true;
    int used = snprintf(row->text, COMPLETION_TEXT_BYTES_MAX, "%s: ", row->call->spec->operator_name);
    va_list values;
    va_start(values, format);
    if (used > 0 && (size_t)used < COMPLETION_TEXT_BYTES_MAX)
        vsnprintf(row->text + used, COMPLETION_TEXT_BYTES_MAX - (size_t)used, format, values);
    va_end(values);
    return -EINVAL;
}

/* ---- records ---- */

static struct completion record_for(const struct worker_row *row, enum completion_kind kind)
{
    return (struct completion){.kind = kind, .grain = row->claim.dispatch.grain, .number = row->claim.dispatch.number};
}

static void set_text(struct completion *record, const char *text)
{
    record->text = text;
    record->text_length_bytes = (uint32_t)strlen(text);
}

int row_write_children(struct worker_row *row, const struct value_ref *refs, uint64_t ordinal, uint32_t count)
{
    struct completion record = record_for(row, COMPLETION_CHILD);
    record.ordinal = ordinal;
    record.child_count = count;
    record.values = refs;
    record.value_count = row->call->group_count * count;
    return record_write(row->worker, row->shard, &record);
}

/* The values of one child of groups that were answered whole: nothing for groups that nobody expands. */
static void gather_child(const struct worker_row *row, uint32_t child, struct value_ref *ret_refs)
{
    const struct worker_call *call = row->call;
    for (uint32_t output = 0; output < call->spec->output_count; output++) {
        if (!is_group(call, output))
            continue;
        *ret_refs++ = is_expanded(call, output) ? row_appended(row, output)->refs[child] : (struct value_ref){0};
    }
}

/* Children of groups that were answered whole, all of one length, as many to a record as it takes. */
static void write_appended_children(struct worker_row *row)
{
    struct worker_call *call = row->call;
    uint32_t count = 0;
    if (row->streamed || !row->has_appended || call->spec->expanded_groups == 0)
        return;
    for (uint32_t output = 0; output < call->spec->output_count; output++)
        if (is_expanded(call, output))
            count = row_appended(row, output)->count;
    struct value_ref refs[COMPLETION_TOGETHER_MAX];
    uint32_t most = COMPLETION_TOGETHER_MAX / call->group_count;
    for (uint32_t first = 0; first < count; first += most) {
        uint32_t together = count - first < most ? count - first : most;
        for (uint32_t child = 0; child < together; child++)
            gather_child(row, first + child, &refs[child * call->group_count]);
        if (row_write_children(row, refs, first, together) < 0)
            return;
    }
    for (uint32_t output = 0; output < call->spec->output_count; output++)
        if (is_expanded(call, output))
            row_appended(row, output)->count = 0; /* the shard's now */
    row->child_count = count;
}

static struct completion answer_of(const struct worker_row *row)
{
    struct completion record = record_for(row, COMPLETION_ANSWER);
    record.child_count = row->child_count;
    record.run_ns = row->ended_ns - row->started_ns;
    if (row->tells) {
        record.closed = row->closed;
        record.rows_run = row->rows_run;
    }
    record.values = row->outputs;
    record.value_count = row->call->spec->output_count;
    return record;
}

static void give_outputs(struct worker_row *row)
{
    memset(row->outputs, 0, row->call->spec->output_count * sizeof *row->outputs); /* the shard's now */
}

static int write_answer(struct worker_row *row)
{
    struct completion record = answer_of(row);
    int status = record_write(row->worker, row->shard, &record);
    if (status == 0)
        give_outputs(row);
    return status;
}

static void write_fail(struct worker_row *row, uint32_t scope, uint32_t class_id, const char *text)
{
    struct completion record = record_for(row, COMPLETION_FAIL);
    record.child_count = row->child_count;
    record.run_ns = row->ended_ns - row->started_ns;
    if (row->tells) {
        record.closed = row->closed;
        record.rows_run = row->rows_run;
    }
    record.scope = scope;
    record.class_id = class_id;
    set_text(&record, text);
    record_write(row->worker, row->shard, &record);
}

static void write_raised(struct worker_row *row, uint32_t rows_run, uint32_t class_id, const char *text)
{
    struct completion record = record_for(row, COMPLETION_RAISED);
    record.run_ns = row->ended_ns - row->started_ns;
    record.closed = row->tells ? row->closed : BATCH_OPEN;
    record.rows_run = rows_run;
    record.class_id = class_id;
    set_text(&record, text);
    record_write(row->worker, row->shard, &record);
}

static void write_released(struct worker_row *row)
{
    struct completion record = record_for(row, COMPLETION_RELEASED);
    record_write(row->worker, row->shard, &record);
}

/* It found no memory and others are to go first. Only what it answered all the same counts. */
static bool gives_way(const struct worker_row *row)
{
    return row->yields && !row->breach && row->end != ROW_ANSWERED;
}

static void write_damaged(struct worker_row *row)
{
    struct completion record = record_for(row, COMPLETION_DAMAGED);
    record_write(row->worker, row->shard, &record);
}

/* What the row said, or did not say. */
static void write_own_end(struct worker_row *row)
{
    if (row->end == ROW_ANSWERED && !row->breach)
        write_appended_children(row);
    if (row->end == ROW_OPEN && !row->breach && !row->unwanted)
        row_breach(row, "the row was neither answered nor failed");
    if (row->breach)
        write_fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_CONTRACT, row->text);
    else if (row->end == ROW_FAILED)
        write_fail(row, row->scope, row->class_id, row->text);
    else if (row->end == ROW_OPEN)
        write_released(row);
    else if (write_answer(row) == -EMSGSIZE) {
        row_breach(row, "the answer has more values than a record takes");
        write_fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_CONTRACT, row->text);
    }
}

/* Frees what nobody was told of. */
static void drop_leftovers(struct worker_row *row)
{
    struct sheaf_worker *worker = row->worker;
    while (row->memory_count > 0)
        payload_free(worker, row->memories[--row->memory_count]);
    for (uint32_t output = 0; output < row->call->spec->output_count; output++) {
        unpublish(worker, &row->outputs[output]);
        struct appended *appended = row->has_appended ? row_appended(row, output) : NULL;
        while (appended != NULL && appended->count > 0)
            unpublish(worker, &appended->refs[--appended->count]);
    }
}

/* C7, and the row is free for another claim. The record must be visible. */
static void row_release(struct worker_row *row)
{
    struct sheaf_worker *worker = row->worker;
    claim_page_release(&worker->lane.claims, row->claim.row);
    row->phase = ROW_FREE;
    worker->free_rows[worker->free_count++] = (uint32_t)(row - worker->rows);
    if (worker->free_count == worker->row_limit && worker->descriptor_count > 0)
        descriptors_drop(worker, 0);
}

/* The operator may hold state under the row's keys from now on, unless it never saw them. */
static void note_state(struct worker_row *row)
{
    struct worker_call *call = row->call;
    uint64_t keys[2] = {(call->spec->operator_flags & SHEAF_OPERATOR_STATE_OF_ROW) != 0 ? row->row.key : 0,
                        (call->spec->operator_flags & SHEAF_OPERATOR_STATE_OF_PARENT) != 0 ? row->row.parent_key : 0};
    for (uint32_t at = 0; at < 2; at++)
        if (keys[at] != 0 && key_set_add(&call->open, keys[at]) < 0)
            row->worker->failure = -ENOMEM; /* state that nobody knows of could not be evicted */
}

/* So many rows took so long each. */
static void count_runs(struct sheaf_worker *worker, struct worker_call *call, uint32_t rows, uint64_t took_ns)
{
    struct lane_counters *counters = worker->lane.counters;
    for (uint32_t row = 0; row < rows; row++)
        call->mean_row_ns = call->mean_row_ns == 0 ? took_ns : (7 * call->mean_row_ns + took_ns) / 8;
    store_relaxed_u64(&counters->rows_run, load_relaxed_u64(&counters->rows_run) + rows);
    store_relaxed_u64(&counters->busy_ns, load_relaxed_u64(&counters->busy_ns) + rows * took_ns);
}

static const char *cause(const char *message)
{
    return message != NULL && message[0] != '\0' ? message : "the operator raised and gave no cause";
}

/* It ran, and on what it was to run on. */
static bool is_fit(const struct worker_row *row)
{
    return row->phase != ROW_CLAIMED && !row->damaged && !row->spoiled;
}

/* Its inputs may have become unfit to be read since it started. */
static void check_again(struct worker_row *row)
{
    bool ran = !row->damaged && !row->spoiled;
    row_check_inputs(row);
    if (ran && row->spoiled)
        note_state(row); /* the operator may keep what it made of them */
}

static void write_unfit(struct worker_row *row)
{
    if (row->spoiled)
        write_damaged(row);
    else
        write_raised(row, 1, SHEAF_CLASS_CONTRACT, row->text);
}

/* Its end. `raised`: what it ran in raised, and why; `yields`: without an answer it goes back. */
static void write_end(struct worker_row *row, bool yields, uint32_t rows_run, enum sheaf_class class_id,
                      const char *raised)
{
    if (row->phase == ROW_CLAIMED)
        write_released(row);
    else if (!is_fit(row))
        write_unfit(row);
    else if (yields && row->end != ROW_ANSWERED)
        write_released(row);
    else if (raised != NULL)
        write_raised(row, rows_run, class_id, raised);
    else
        write_own_end(row);
}

void row_finish(struct worker_row *row, int status, const char *message)
{
    struct sheaf_worker *worker = row->worker;
    assert(row->phase != ROW_FREE);
    row->ended_ns = now_ns();
    if (row->phase != ROW_CLAIMED)
        check_again(row);
    if (is_fit(row))
        note_state(row);
    write_end(row, gives_way(row), 1, SHEAF_CLASS_OPERATOR, status < 0 && !row->breach ? cause(message) : NULL);
    drop_leftovers(row);
    uint64_t at_ns = now_ns();
    record_commit(worker, row->shard); /* C6 */
    if (row->phase == ROW_RUNNING)
        count_runs(worker, row->call, 1, at_ns - row->started_ns);
    row_release(row); /* C7 */
}

/* A batch in which a row stayed open, or got a wrong number of values, raised as a whole: nobody knows whose fault it
 * is. With one row it is known. Returns what was wrong, or NULL. */
static const char *breach_of_batch(struct worker_row **rows, uint32_t count)
{
    uint32_t run = 0;
    const char *text = NULL;
    for (uint32_t at = 0; at < count; at++) {
        struct worker_row *row = rows[at];
        if (!is_fit(row))
            continue;
        run++;
        if (row->breach_of_columns)
            text = row->text;
        else if (row->end == ROW_OPEN && !row->unwanted && !row->breach && text == NULL)
            text = "the batch operator left rows without an answer";
    }
    return run > 1 ? text : NULL;
}

/* Rows of one batch ran from its first start to its one end. The first of them tells of the batch. Returns how many
 * ran. */
static uint32_t time_batch(struct worker_row **rows, uint32_t count, enum batch_close closed)
{
    uint64_t started_ns = UINT64_MAX, ended_ns = now_ns();
    struct worker_row *first = NULL;
    uint32_t run = 0;
    for (uint32_t at = 0; at < count; at++)
        if (rows[at]->phase == ROW_RUNNING && rows[at]->started_ns < started_ns)
            started_ns = rows[at]->started_ns;
    for (uint32_t at = 0; at < count; at++) {
        if (rows[at]->phase != ROW_RUNNING)
            continue;
        run += is_fit(rows[at]);
        rows[at]->started_ns = started_ns;
        rows[at]->ended_ns = ended_ns;
        if (first == NULL && is_fit(rows[at]))
            first = rows[at];
    }
    if (first != NULL) {
        first->tells = true;
        first->closed = closed;
        first->rows_run = run;
    }
    return run;
}

/* Rows that stand one after the other in a batch, whose answers share a record. */
struct together {
    struct worker_row **rows;
    struct completion_part parts[COMPLETION_TOGETHER_MAX];
    uint32_t count;
};

/* Whether all it says is an answer that can stand in one record with others. */
static bool may_share(const struct worker_row *row)
{
    return row->end == ROW_ANSWERED && !row->breach && row->child_count == 0 && row->call->spec->expanded_groups == 0 &&
           row->call->spec->output_count <= COMPLETION_TOGETHER_MAX;
}

static bool has_room_for(const struct together *together, const struct worker_row *row)
{
    uint32_t count = together->count + 1;
    return row->shard == together->rows[0]->shard && count <= COMPLETION_TOGETHER_MAX &&
           count * row->call->spec->output_count <= COMPLETION_TOGETHER_MAX;
}

static void write_together(struct together *together)
{
    uint32_t count = together->count;
    together->count = 0;
    if (count == 0)
        return;
    const struct worker_row *first = together->rows[0]; /* tells of the batch, if one of them does (time_batch) */
    struct completion record = answer_of(first);
    int status = record_write_rows(first->worker, first->shard, &record, together->parts, count);
    assert(status != -EMSGSIZE); /* any ring takes so many values */
    for (uint32_t at = 0; status == 0 && at < count; at++)
        give_outputs(together->rows[at]);
}

static void share(struct together *together, struct worker_row **row)
{
    const struct dispatch *dispatch = &(*row)->claim.dispatch;
    if (together->count > 0 && !has_room_for(together, *row))
        write_together(together);
    if (together->count == 0)
        together->rows = row;
    together->parts[together->count++] =
        (struct completion_part){dispatch_name(dispatch->grain, dispatch->number), (*row)->outputs};
}

void rows_finish_batch(struct sheaf_worker *worker, struct worker_row **rows, uint32_t count, int status,
                       const char *message)
{
    bool yields = false;
    for (uint32_t at = 0; at < count; at++)
        check_again(rows[at]);
    const char *raised = status < 0 ? cause(message) : breach_of_batch(rows, count);
    enum sheaf_class class_id = status < 0 ? SHEAF_CLASS_OPERATOR : SHEAF_CLASS_CONTRACT;
    uint32_t rows_run = time_batch(rows, count, worker->batch.closed);
    for (uint32_t at = 0; at < count; at++)
        yields |= gives_way(rows[at]);
    struct together together;
    together.count = 0;
    for (uint32_t at = 0; at < count; at++) {
        struct worker_row *row = rows[at];
        if (is_fit(row))
            note_state(row);
        if (is_fit(row) && raised == NULL && may_share(row)) {
            share(&together, &rows[at]);
            continue;
        }
        write_together(&together);
        write_end(row, yields, rows_run, class_id, raised);
    }
    write_together(&together);
    for (uint32_t at = 0; at < count; at++)
        drop_leftovers(rows[at]);
    uint64_t at_ns = now_ns();
    for (uint32_t shard = 0; shard < worker->hello.shard_count; shard++)
        record_commit(worker, shard); /* C6 for all */
    uint32_t ran = 0;
    uint64_t started_ns = at_ns;           /* of all that ran */
    for (uint32_t at = count; at-- > 0;) { /* so that the next batch uses them in the order in which they lie */
        if (rows[at]->phase == ROW_RUNNING) {
            ran++;
            started_ns = rows[at]->started_ns;
        }
        row_release(rows[at]); /* C7 */
    }
    if (ran > 0)
        count_runs(worker, rows[0]->call, ran, (at_ns - started_ns) / count);
}
