/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/worker.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/crash_point.h"

static int refuse(struct sheaf_error *error, int status, const char *line)
{
    if (error != NULL) {
        error->code = status;
        snprintf(error->message, sizeof error->message, "%.1000s", line);
    }
    return status;
}

/* ---- attaching ---- */

static int attach_lane(struct sheaf_worker *worker)
{
    struct attach_hello *hello = &worker->hello;
    int status = lane_attach(hello->lane_own_fd, hello->lane_orders_fd, &worker->lane);
    if (status < 0)
        return status;
    hello->lane_own_fd = hello->lane_orders_fd = -1; /* the lane's now */
    if (worker->lane.shape.worker != hello->worker || worker->lane.shape.shard_count != hello->shard_count)
        return -EBADMSG;
    return 0;
}

static int attach_shards(struct sheaf_worker *worker)
{
    struct attach_hello *hello = &worker->hello;
    if (hello->shard_count == 0)
        return -EBADMSG;
    worker->links = calloc(hello->shard_count, sizeof *worker->links);
    worker->shard_order = calloc(hello->shard_count, sizeof *worker->shard_order);
    if (worker->links == NULL || worker->shard_order == NULL)
        return -ENOMEM;
    struct attach_shard *shards = (struct attach_shard *)(uintptr_t)hello->shards; /* our own copy */
    uint32_t ordered = 0;
    for (uint32_t shard = 0; shard < hello->shard_count; shard++) {
        struct shard_link *link = &worker->links[shard];
        int status = board_attach(shards[shard].open_fd, shards[shard].notice_fd, &link->board);
        if (status < 0)
            return status;
        shards[shard].open_fd = shards[shard].notice_fd = -1;
        struct spsc_ring records = lane_completion_ring(&worker->lane, shard);
        struct spsc_ring orders = lane_control_ring(&worker->lane, shard);
        spsc_writer_open(&link->records, &records);
        spsc_reader_open(&link->orders, &orders);
        if (shards[shard].node == hello->node)
            worker->shard_order[ordered++] = shard;
    }
    for (uint32_t shard = 0; shard < hello->shard_count; shard++)
        if (shards[shard].node != hello->node)
            worker->shard_order[ordered++] = shard;
    return hello->pool < worker->links[0].board.shape.pool_count ? 0 : -EBADMSG;
}

static int attach_payload(struct sheaf_worker *worker)
{
    struct attach_hello *hello = &worker->hello;
    struct attach_segment *segments = (struct attach_segment *)(uintptr_t)hello->segments; /* our own copy */
    payload_map_init(&worker->map, worker->socket);
    for (uint32_t at = 0; at < hello->segment_count; at++) {
        struct attach_segment *segment = &segments[at];
        int status = payload_map_add(&worker->map, segment->number, segment->fd, segment->own);
        if (status < 0)
            return status;
        segment->fd = -1;
        if (segment->own)
            status = chunk_pages_add_segment(&worker->pages, segment->number,
                                             payload_map_segment(&worker->map, segment->number));
        if (status < 0)
            return status;
    }
    for (uint32_t at = 0; at < hello->chunk_count; at++) {
        int status = chunk_pages_lease(&worker->pages, hello->chunks[at].segment, hello->chunks[at].chunk);
        if (status < 0)
            return status;
    }
    return payload_arena_create(&worker->pages, &worker->arena);
}

static int attach_calls(struct sheaf_worker *worker)
{
    const struct attach_hello *hello = &worker->hello;
    worker->calls = calloc(hello->call_count + 1, sizeof *worker->calls);
    if (worker->calls == NULL)
        return -ENOMEM;
    for (uint32_t index = 0; index < hello->call_count; index++) {
        struct worker_call *call = &worker->calls[index];
        call->spec = &hello->calls[index];
        for (uint32_t shard = 0; shard < hello->shard_count; shard++)
            if (call->spec->call >= worker->links[shard].board.shape.call_count)
                return -EBADMSG;
        if (call->spec->output_count > COMPLETION_VALUES_MAX)
            return -EBADMSG;
        uint32_t flags = call->spec->operator_flags;
        call->batch = (flags & SHEAF_OPERATOR_BATCH) != 0;
        call->stateful = (flags & (SHEAF_OPERATOR_STATE_OF_ROW | SHEAF_OPERATOR_STATE_OF_PARENT)) != 0;
        for (uint32_t output = 0; output < call->spec->output_count; output++)
            call->group_count += is_group(call, output);
    }
    return 0;
}

static int attach_parts(struct sheaf_worker *worker)
{
    int status = attach_lane(worker);
    if (status == 0)
        status = attach_shards(worker);
    if (status == 0)
        status = attach_payload(worker);
    if (status == 0)
        status = attach_calls(worker);
    if (status == 0)
        status = rows_open(worker);
    return status;
}

int sheaf_worker_attach(int socket, struct sheaf_worker **ret_worker, struct sheaf_error *error)
{
    char line[ATTACH_LINE_BYTES];
    struct sheaf_worker *worker = calloc(1, sizeof *worker);
    if (worker == NULL)
        return refuse(error, -ENOMEM, "attach: out of memory");
    worker->socket = -1;
    worker->lane = (struct lane){.own = SEGMENT_NONE, .orders_segment = SEGMENT_NONE};
    worker->mean_gap_ns = 1000000;
    worker->return_down_to = UINT64_MAX;
    payload_map_init(&worker->map, -1);
    int status = attach_receive_hello(socket, &worker->hello, line);
    if (status < 0) {
        free(worker);
        return refuse(error, status, line);
    }
    worker->socket = socket;
    SHEAF_CRASH_IDENTITY(worker->hello.worker, worker->hello.generation);
    status = attach_parts(worker);
    if (status < 0) {
        worker->socket = -1; /* stays the caller's */
        sheaf_worker_detach(worker);
        snprintf(line, sizeof line, "attach: what the engine sent cannot be mapped: %s",
                 status == -EBADMSG ? "it is of another version or damaged; use worker and library of one build"
                                    : strerror(-status));
        return refuse(error, status, line);
    }
    worker->batch.worker = worker;
    host_adopt(worker);
    *ret_worker = worker;
    return 0;
}

void sheaf_worker_detach(struct sheaf_worker *worker)
{
    if (worker == NULL)
        return;
    host_adopt(NULL);
    park_done(worker);
    if (worker->rows != NULL)
        rows_close(worker);
    for (uint32_t index = 0; worker->calls != NULL && index < worker->hello.call_count; index++)
        key_set_done(&worker->calls[index].open);
    free(worker->calls);
    descriptors_done(worker);
    free(worker->evictions);
    payload_arena_destroy(worker->arena);
    chunk_pages_done(&worker->pages);
    payload_map_done(&worker->map);
    for (uint32_t shard = 0; worker->links != NULL && shard < worker->hello.shard_count; shard++)
        if (worker->links[shard].board.open.base != NULL)
            board_release(&worker->links[shard].board);
    free(worker->links);
    free(worker->shard_order);
    if (worker->lane.own.base != NULL)
        lane_release(&worker->lane);
    attach_hello_close(&worker->hello);
    attach_hello_free(&worker->hello);
    if (worker->socket >= 0)
        close(worker->socket);
    free(worker);
}

void worker_drop_descriptors(struct sheaf_worker *worker)
{
    segment_drop_descriptor(&worker->lane.own);
    segment_drop_descriptor(&worker->lane.orders_segment);
    for (uint32_t shard = 0; shard < worker->hello.shard_count; shard++) {
        segment_drop_descriptor(&worker->links[shard].board.open);
        segment_drop_descriptor(&worker->links[shard].board.notice);
    }
    payload_map_drop_descriptors(&worker->map);
}

/* ---- the public functions ---- */

uint32_t sheaf_worker_call_count(const struct sheaf_worker *worker)
{
    return worker->hello.call_count;
}

int sheaf_worker_call(const struct sheaf_worker *worker, uint32_t index, struct sheaf_worker_call *ret_call)
{
    if (index >= worker->hello.call_count)
        return -ENOENT;
    const struct attach_call *spec = worker->calls[index].spec;
    struct sheaf_worker_call call = {
        .size = sizeof call,
        .call = spec->call,
        .name = spec->name,
        .plugin_path = spec->plugin_path,
        .operator_name = spec->operator_name,
        .options = spec->options,
        .option_count = spec->option_count,
        .operator_flags = spec->operator_flags,
        .input_count = spec->input_count,
        .output_count = spec->output_count,
        .output_kinds = spec->output_kinds,
        .group_outputs = spec->group_outputs,
        .batch_rows = spec->batch_rows,
        .timeout_ms = spec->timeout_ms,
        .slots = spec->slots,
        .memory_budget_bytes = spec->memory_budget_bytes,
        .expanded_groups = spec->expanded_groups,
    };
    *ret_call = call;
    return 0;
}

const char *sheaf_worker_data_path(const struct sheaf_worker *worker)
{
    return worker->hello.data_path;
}

const char *sheaf_worker_run_id(const struct sheaf_worker *worker)
{
    return worker->hello.run_id;
}

const struct sheaf_host *sheaf_worker_host(const struct sheaf_worker *worker)
{
    (void)worker;
    return &worker_host;
}

void sheaf_worker_on_evict(struct sheaf_worker *worker, void (*evict)(void *cookie, uint32_t index, uint64_t key),
                           void *cookie)
{
    worker->evict = evict;
    worker->evict_cookie = cookie;
}

int sheaf_worker_ready(struct sheaf_worker *worker, int status, const char *line)
{
    if (status < 0)
        return attach_send_error(worker->socket, status, line != NULL ? line : "the worker gave no reason");
    store_release_u64(&worker->lane.counters->state, LANE_READY);
    SHEAF_CRASH_POINT("lane.ready");
    return attach_send_ready(worker->socket);
}

int sheaf_worker_claim(struct sheaf_worker *worker, int timeout_ms, const struct sheaf_worker_claim **ret_claim)
{
    worker->inside = false;
    int status = claim_wait(worker, timeout_ms);
    if (status < 0)
        return status;
    struct worker_batch *batch = &worker->batch;
    for (uint32_t at = 0; at < batch->count; at++)
        batch->views[at] = &batch->rows[at]->row;
    worker->inside = true; /* no eviction while rows are at hand */
    worker->claim = (struct sheaf_worker_claim){.size = sizeof worker->claim,
                                                .index = batch->index,
                                                .row_count = batch->count,
                                                .rows = batch->views,
                                                .host_batch = batch};
    *ret_claim = &worker->claim;
    return 0;
}

static struct worker_row *own_row(struct sheaf_worker *worker, const struct sheaf_row *row)
{
    struct worker_row *own = row != NULL ? row->host_row : NULL;
    return own != NULL && own->worker == worker && own->phase != ROW_FREE ? own : NULL;
}

int sheaf_worker_start(struct sheaf_worker *worker, const struct sheaf_row *row)
{
    struct worker_row *own = own_row(worker, row);
    if (own == NULL || own->phase != ROW_CLAIMED)
        return -EINVAL;
    orders_poll(worker);
    if (own->call->mean_row_ns == 0 || own->call->mean_row_ns >= ANNOUNCE_NS)
        announce_wanted(worker, now_ns()); /* it may take long */
    return row_start(own);
}

int sheaf_worker_finish(struct sheaf_worker *worker, const struct sheaf_row *row, int status, const char *message)
{
    struct worker_row *own = own_row(worker, row);
    if (own == NULL)
        return -EINVAL;
    row_finish(own, status, message);
    announce_due(worker, now_ns());
    return worker->failure;
}

int sheaf_worker_finish_batch(struct sheaf_worker *worker, const struct sheaf_worker_claim *claim, int status,
                              const char *message)
{
    struct worker_batch *batch = claim->host_batch;
    if (batch == NULL || batch->worker != worker)
        return -EINVAL;
    rows_finish_batch(worker, batch->rows, batch->count, status, message);
    batch->count = 0;
    struct lane_counters *counters = worker->lane.counters;
    store_relaxed_u64(&counters->batches, load_relaxed_u64(&counters->batches) + 1);
    announce_going_on(worker);
    return worker->failure;
}
