/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "worker/device_worker.h"

enum { MESSAGE_BYTES = 512, STRIDE_ALIGNMENT = 16 };

/* ---- which rows go together ---- */

/* Values whose bytes go to the device. Of a file only what is in memory does. */
static bool has_data(const struct sheaf_value *value)
{
    uint32_t base = SHEAF_KIND_BASE(value->kind);
    bool bulk =
        base == SHEAF_TEXT || base == SHEAF_BYTES || base == SHEAF_TENSOR || base == SHEAF_RECORD || base == SHEAF_FILE;
    return SHEAF_KIND_DEPTH(value->kind) == 0 && bulk && value->data != NULL;
}

static bool is_tensor(const struct sheaf_value *value)
{
    return value->kind == SHEAF_TENSOR && value->tensor != NULL;
}

static bool same_shape(const struct sheaf_row *a, const struct sheaf_row *b)
{
    for (uint32_t at = 0; at < a->input_count; at++) {
        const struct sheaf_value *left = &a->inputs[at], *right = &b->inputs[at];
        if (is_tensor(left) != is_tensor(right) || has_data(left) != has_data(right))
            return false;
        if (is_tensor(left) &&
            (left->tensor->dtype != right->tensor->dtype || left->tensor->rank != right->tensor->rank ||
             memcmp(left->tensor->shape, right->tensor->shape, left->tensor->rank * sizeof(uint64_t)) != 0))
            return false;
    }
    return true;
}

/* Device memory of a row: its inputs, its place in the tables, and what the operator says it needs beside them. */
static uint64_t row_bytes(const struct opened_operator *opened, const struct sheaf_row *row)
{
    uint64_t bytes = DEVICE_ALIGNMENT; /* rounding of what the operator takes */
    for (uint32_t at = 0; at < row->input_count; at++)
        bytes += device_aligned(row->inputs[at].length_bytes, DEVICE_ALIGNMENT) * has_data(&row->inputs[at]) +
                 2 * sizeof(uint64_t);
    return bytes + (opened->op->device_bytes != NULL ? opened->op->device_bytes(opened->state, row) : 0);
}

/* Whether it does not go into any batch. */
static bool is_too_large(const struct device_worker *on, const struct opened_operator *opened,
                         const struct worker_row *row)
{
    uint64_t beside = 4 * DEVICE_ALIGNMENT * ((uint64_t)row->row.input_count + 1);
    return row_bytes(opened, &row->row) + beside > on->view.memory_bytes;
}

/* Each batch starts at a time of its own. */
static void next_start(struct device_worker *on)
{
    uint64_t at_ns = now_ns();
    on->last_ns = at_ns > on->last_ns ? at_ns : on->last_ns + 1;
}

/* A batch of one, by the CPU, while others are on the device. */
static void run_here(struct device_worker *on, const struct opened_operator *opened, struct worker_row *row)
{
    struct sheaf_worker *worker = on->worker;
    char message[MESSAGE_BYTES] = "";
    next_start(on);
    int status = row->phase == ROW_RUNNING ? 0 : row_start_at(row, on->last_ns);
    if (status == 0)
        status = opened->op->run(opened->state, &row->row, message);
    message[MESSAGE_BYTES - 1] = '\0';
    worker->batch.closed = on->queue.closed;
    rows_finish_batch(worker, &row, 1, status, message);
    announce_due(worker, now_ns());
}

/* Rows that no batch takes, and all where the CPU stands in for a device, if the operator can do without one. */
static void run_rows_here(struct device_worker *on, const struct opened_operator *opened)
{
    struct device_queue *queue = &on->queue;
    uint32_t count = queue->count, kept = 0;
    bool all = device_info(on->device)->backend == SHEAF_DEVICE_HOST;
    for (uint32_t at = 0; at < count && opened->op->run != NULL; at++) {
        if (all || is_too_large(on, opened, queue->rows[at]))
            run_here(on, opened, queue->rows[at]);
        else
            queue->rows[kept++] = queue->rows[at];
    }
    queue->count = opened->op->run != NULL ? kept : count;
}

/* Ends a row that does not go: unwanted, damaged, or larger than a batch may be. */
static void end_now(struct worker_row *row)
{
    row_finish(row, 0, NULL);
}

static void fail_too_large(const struct device_worker *on, const struct opened_operator *opened, struct worker_row *row)
{
    worker_host.fail(&row->row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_RESOURCE_EXHAUSTED,
                     "the row needs %llu MiB of device memory, more than the %llu MiB of a batch",
                     (unsigned long long)(row_bytes(opened, &row->row) >> 20),
                     (unsigned long long)(on->view.memory_bytes >> 20));
}

/* Marks the row RUNNING if it may go. */
static bool start(struct device_worker *on, const struct opened_operator *opened, struct worker_row *row)
{
    if (row->phase == ROW_RUNNING)
        return true; /* of a batch that did not fit */
    if (row_start_at(row, on->last_ns) < 0)
        return false;
    if (!is_too_large(on, opened, row))
        return true;
    fail_too_large(on, opened, row);
    return false;
}

/* Moves rows from the queue into the flight, as many as fit together. */
static void cut(struct device_worker *on, struct flight *flight)
{
    struct device_queue *queue = &on->queue;
    uint32_t looked_at = queue->count, kept = 0;
    uint64_t room = on->view.memory_bytes, used;
    flight->count = 0;
    used = 4 * DEVICE_ALIGNMENT * (flight->input_count + 1);
    for (uint32_t at = 0; at < looked_at; at++) {
        struct worker_row *row = queue->rows[at];
        uint64_t bytes = row_bytes(flight->opened, &row->row);
        bool goes = flight->count < queue->batch_rows_max &&
                    (flight->count == 0 || (used + bytes <= room && same_shape(&flight->rows[0]->row, &row->row)));
        if (!goes) {
            queue->rows[kept++] = row;
            continue;
        }
        if (!start(on, flight->opened, row)) {
            end_now(row);
            continue;
        }
        used += bytes;
        flight->rows[flight->count] = row;
        flight->views[flight->count++] = &row->row;
    }
    queue->count = kept;
}

/* ---- one batch ---- */

static int reserve(struct flight *flight, uint32_t input_count, uint32_t row_limit)
{
    if (flight->input_capacity < input_count) {
        flight->inputs = realloc(flight->inputs, input_count * sizeof *flight->inputs);
        flight->tables = realloc(flight->tables, input_count * sizeof *flight->tables);
        if (flight->inputs == NULL || flight->tables == NULL)
            return -ENOMEM;
        for (; flight->input_capacity < input_count; flight->input_capacity++) {
            flight->tables[flight->input_capacity] = calloc(row_limit, 2 * sizeof(uint64_t));
            if (flight->tables[flight->input_capacity] == NULL)
                return -ENOMEM;
        }
    }
    uint32_t pointers = input_count * row_limit;
    if (flight->pointer_capacity < pointers) {
        free((void *)flight->pointers);
        flight->pointers = calloc(pointers, sizeof *flight->pointers);
        flight->pointer_capacity = flight->pointers != NULL ? pointers : 0;
    }
    return flight->pointers != NULL || pointers == 0 ? 0 : -ENOMEM;
}

/* Where each row's input lies behind the first: one after another, without gaps when they are of one length that is
 * whole words. Returns the end. */
static uint64_t lay_out(struct flight *flight, uint32_t input)
{
    uint64_t *offsets = flight->tables[input], *lengths = offsets + flight->count, end = 0;
    bool alike = true;
    for (uint32_t row = 0; row < flight->count; row++) {
        lengths[row] = flight->views[row]->inputs[input].length_bytes;
        offsets[row] = end;
        end += device_aligned(lengths[row], STRIDE_ALIGNMENT);
        alike &= lengths[row] == lengths[0];
    }
    flight->inputs[input].offsets = offsets;
    flight->inputs[input].lengths = lengths;
    flight->inputs[input].stride_bytes = alike ? device_aligned(lengths[0], STRIDE_ALIGNMENT) : 0;
    return end;
}

static int send_input(struct flight *flight, uint32_t input)
{
    device_address base, table;
    struct sheaf_device_input *place = &flight->inputs[input];
    *place = (struct sheaf_device_input){0};
    for (uint32_t row = 0; row < flight->count; row++)
        flight->pointers[row * flight->input_count + input] = NULL;
    if (!has_data(&flight->views[0]->inputs[input]))
        return 0;
    uint64_t bytes = lay_out(flight, input), table_bytes = 2 * flight->count * sizeof(uint64_t);
    int status = pipeline_place(flight->batch, bytes > 0 ? bytes : 1, &base);
    if (status == 0)
        status = pipeline_place(flight->batch, table_bytes, &table);
    if (status == 0)
        status = pipeline_copy_in(flight->batch, table, flight->tables[input], table_bytes);
    if (status < 0)
        return status;
    place->base = (void *)(uintptr_t)base;
    place->device_offsets = (const uint64_t *)(uintptr_t)table;
    place->device_lengths = place->device_offsets + flight->count;
    for (uint32_t row = 0; row < flight->count && status == 0; row++) {
        device_address at = base + place->offsets[row];
        flight->pointers[row * flight->input_count + input] = (const void *)(uintptr_t)at;
        status = pipeline_copy_in(flight->batch, at, flight->views[row]->inputs[input].data, place->lengths[row]);
    }
    return status;
}

static int send_inputs(struct flight *flight)
{
    int status = reserve(flight, flight->input_count, flight->on->worker->row_limit);
    for (uint32_t input = 0; input < flight->input_count && status == 0; input++)
        status = send_input(flight, input);
    return status == 0 ? pipeline_start(flight->batch) : status;
}

static void fail_on_fault(struct flight *flight, int status)
{
    flight->on->failed_alone = flight->alone;
    if (device_fault_of(status) != DEVICE_FAULT_NONE)
        device_worker_fail(flight->on, status);
}

static void end_flight(struct flight *flight)
{
    flight->count = 0;
    pipeline_end(flight->batch);
    flight->batch = NULL;
}

/* Ends the batch's rows and its flight. */
static void land(struct flight *flight, int status, const char *message)
{
    struct sheaf_worker *worker = flight->on->worker;
    struct lane_counters *counters = worker->lane.counters;
    uint64_t at_ns = now_ns();
    /* Rows wait while batches before theirs are on the device: that is not what they take. */
    for (uint32_t at = 0; at < flight->count; at++)
        if (flight->rows[at]->started_ns < flight->on->ended_ns)
            flight->rows[at]->started_ns = flight->on->ended_ns;
    flight->on->ended_ns = at_ns;
    worker->batch.closed = flight->closed;
    rows_finish_batch(worker, flight->rows, flight->count, status, message);
    store_relaxed_u64(&counters->batches, load_relaxed_u64(&counters->batches) + 1);
    end_flight(flight);
}

/* A batch that took more device memory than its rows said: its rows go again, in halves. One row alone has failed. */
static void put_back(struct flight *flight)
{
    struct device_queue *queue = &flight->on->queue;
    uint32_t count = flight->count;
    if (count == 1 && flight->opened->op->run != NULL) {
        struct worker_row *row = flight->rows[0];
        end_flight(flight);
        run_here(flight->on, flight->opened, row);
        return;
    }
    if (count == 1) {
        worker_host.fail(flight->views[0], SHEAF_SCOPE_ITEM, SHEAF_CLASS_RESOURCE_EXHAUSTED,
                         "the row needs more device memory than the %llu MiB of a batch",
                         (unsigned long long)(flight->on->view.memory_bytes >> 20));
        land(flight, 0, NULL);
        return;
    }
    memmove(queue->rows + count, queue->rows, queue->count * sizeof *queue->rows);
    memcpy(queue->rows, flight->rows, count * sizeof *queue->rows);
    queue->count += count;
    queue->batch_rows_max = (count + 1) / 2;
    end_flight(flight);
}

/* Nothing that was put on the streams for this batch is under way any more, whatever the operator did. */
static void settle(struct flight *flight)
{
    int status = pipeline_submit(flight->batch);
    if (status == 0)
        status = pipeline_wait(flight->batch);
    fail_on_fault(flight, status);
}

static struct flight *free_flight(struct device_worker *on)
{
    struct flight *flight = on->flights;
    while (flight->batch != NULL)
        flight++;
    assert(flight < on->flights + on->depth);
    return flight;
}

static void fill_view(struct flight *flight)
{
    flight->cookie = NULL;
    flight->view =
        (struct sheaf_batch){.size = sizeof flight->view,
                             .row_count = flight->count,
                             .rows = flight->views,
                             .stream = device_stream_native(flight->on->device, pipeline_stream(flight->batch)),
                             .devices = flight->pointers,
                             .device = &flight->on->view,
                             .inputs = flight->inputs,
                             .cookie = &flight->cookie};
}

void device_batch_launch(struct device_worker *on)
{
    struct flight *flight = free_flight(on);
    char message[MESSAGE_BYTES] = "";
    flight->opened = &on->operators->opened[on->queue.index];
    run_rows_here(on, flight->opened);
    if (on->queue.count == 0)
        return;
    next_start(on);
    flight->input_count = on->worker->calls[on->queue.index].spec->input_count;
    flight->closed = on->queue.closed;
    flight->alone = on->queue.alone;
    cut(on, flight);
    if (flight->count == 0)
        return;
    flight->batch = pipeline_begin(on->pipeline);
    int status = send_inputs(flight);
    fail_on_fault(flight, status);
    fill_view(flight);
    if (status == 0)
        status = flight->opened->op->run_batch(flight->opened->state, &flight->view, message);
    message[MESSAGE_BYTES - 1] = '\0';
    if (status == 0) {
        status = pipeline_submit(flight->batch);
        fail_on_fault(flight, status);
        if (status < 0)
            land(flight, status, device_last_error(on->device));
        return;
    }
    settle(flight);
    if (status == -ENOMEM)
        put_back(flight);
    else
        land(flight, status, message);
}

void device_batch_finish(struct device_worker *on)
{
    struct pipeline_batch *oldest = pipeline_oldest(on->pipeline);
    struct flight *flight = on->flights;
    char message[MESSAGE_BYTES] = "";
    while (flight->batch != oldest)
        flight++;
    fail_on_fault(flight, pipeline_wait(oldest));
    int status = flight->opened->op->finish_batch(flight->opened->state, &flight->view, message);
    message[MESSAGE_BYTES - 1] = '\0';
    land(flight, status, message);
    /* The deadline of a batch is its own: it starts when the one before it is done. */
    next_start(on);
    struct pipeline_batch *next = pipeline_oldest(on->pipeline);
    for (uint32_t slot = 0; slot < on->depth && next != NULL; slot++)
        if (on->flights[slot].batch == next)
            for (uint32_t at = 0; at < on->flights[slot].count; at++)
                claim_page_set_blocked(&on->worker->lane.claims, on->flights[slot].rows[at]->claim.row, false,
                                       on->last_ns);
}
