/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/greet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/shard.h"
#include "program/registry.h"
#include "worker/attach.h"

enum { HELLO_TIMEOUT_MS = 10000, WORKER_ROWS = 100000 };

/* The Calls of a Pool in the order they are served: drain first, so nearest to an output comes first. */
static int compare_calls(const void *left, const void *right, void *plan_calls)
{
    const struct attach_call *a = left, *b = right;
    const struct plan_call *calls = plan_calls;
    if (calls[a->call].priority != calls[b->call].priority)
        return calls[a->call].priority < calls[b->call].priority ? -1 : 1;
    return a->call < b->call ? -1 : 1;
}

static void describe_call(const struct sheaf_run *run, uint32_t index, struct attach_call *ret_call, sheaf_kind *kinds)
{
    const struct sheaf_plan *plan = run->plan;
    const struct plan_call *call = &plan->calls[index];
    *ret_call = (struct attach_call){
        .call = index,
        .name = call->name,
        .plugin_path = registry_plugin_path(plan->registry, call->op),
        .operator_name = call->op->name,
        .options = call->options,
        .option_count = call->op->option_count,
        .batch_rows = run_batch_rows(call),
        .batch_bytes = call->batch_bytes,
        .timeout_ms = call->timeout_ms,
        .operator_flags = plan_call_flags(call),
        .widest_failure = call->widest_failure,
        .slots = call->op->slots,
        .input_count = call->input_count,
        .output_count = call->output_count,
        .output_kinds = kinds,
    };
    for (uint32_t i = 0; i < call->output_count; i++) {
        kinds[i] = plan->ports[plan->call_ports[call->output_first + i]].kind;
        if (i < 64 && call->op->outputs[i].flags & SHEAF_PORT_GROUP)
            ret_call->group_outputs |= UINT64_C(1) << i;
    }
    for (uint32_t i = 0; i < plan->port_count; i++) {
        const struct plan_port *port = &plan->ports[i];
        if (port->port_kind == PLAN_EXPAND && port->call == index && port->slot < 64)
            ret_call->expanded_groups |= UINT64_C(1) << port->slot;
    }
}

/* The Calls that a worker of a Pool serves. Free with free_calls. */
static struct attach_call *list_calls(const struct sheaf_run *run, uint32_t pool, uint32_t *ret_count)
{
    const struct sheaf_plan *plan = run->plan;
    const struct plan_pool *plan_pool = &plan->pools[pool];
    uint32_t outputs = 0, count = 0;
    for (uint32_t i = 0; i < plan_pool->call_count; i++)
        outputs += plan->calls[plan->pool_calls[plan_pool->call_first + i]].output_count;
    struct attach_call *calls = calloc(plan_pool->call_count + 1, sizeof *calls);
    sheaf_kind *kinds = calloc(outputs + 1, sizeof *kinds), *next = kinds;
    if (!calls || !kinds) {
        free(calls);
        free(kinds);
        return NULL;
    }
    for (uint32_t i = 0; i < plan_pool->call_count; i++) {
        uint32_t index = plan->pool_calls[plan_pool->call_first + i];
        if (!plan->calls[index].live)
            continue;
        describe_call(run, index, &calls[count++], next);
        next += plan->calls[index].output_count;
    }
    qsort_r(calls, count, sizeof *calls, compare_calls, plan->calls);
    calls[plan_pool->call_count].output_kinds = kinds; /* behind the last: what free_calls frees */
    *ret_count = count;
    return calls;
}

static void free_calls(const struct sheaf_run *run, uint32_t pool, struct attach_call *calls)
{
    if (!calls)
        return;
    free((void *)(uintptr_t)calls[run->plan->pools[pool].call_count].output_kinds);
    free(calls);
}

static struct attach_shard *list_shards(const struct sheaf_run *run, int *notices)
{
    struct attach_shard *shards = calloc(run->shard_count, sizeof *shards);
    for (uint32_t i = 0; shards && i < run->shard_count; i++) {
        notices[i] = -1;
        segment_open_read_only(&run->shards[i]->board.notice, &notices[i]);
        shards[i] = (struct attach_shard){.open_fd = run->shards[i]->board.open.descriptor,
                                          .notice_fd = notices[i],
                                          .node = run->placement->shards[i].node};
    }
    return shards;
}

static struct attach_segment *list_segments(const struct sheaf_run *run, uint32_t worker)
{
    uint32_t count = payload_segment_count(run->payload);
    struct attach_segment *segments = calloc(count, sizeof *segments);
    for (uint32_t i = 0; segments && i < count; i++) {
        uint16_t number = (uint16_t)(i + 1);
        bool own = number == payload_worker_segment(run->payload, worker);
        segments[i] = (struct attach_segment){.fd = own ? payload_segment(run->payload, number)->descriptor
                                                        : payload_read_only(run->payload, number),
                                              .number = number,
                                              .own = own};
    }
    return segments;
}

static struct attach_chunk *list_chunks(struct sheaf_run *run, uint32_t worker, uint32_t *ret_count)
{
    uint32_t real = payload_back(run->payload, worker, 0); /* nobody is there who could be given more meanwhile */
    uint32_t *numbers = calloc(real + 1, sizeof *numbers);
    if (!numbers)
        return NULL;
    uint32_t count = payload_lease(run->payload, worker, numbers, real);
    struct attach_chunk *chunks = calloc(count + 1, sizeof *chunks);
    for (uint32_t i = 0; chunks && i < count; i++)
        chunks[i] = (struct attach_chunk){.segment = payload_worker_segment(run->payload, worker), .chunk = numbers[i]};
    free(numbers);
    *ret_count = count;
    return chunks;
}

int greet_prepare(struct sheaf_run *run, uint32_t worker, struct greeting *ret_greeting)
{
    struct greeting greeting = {.chunks = list_chunks(run, worker, &greeting.chunk_count)};
    if (!greeting.chunks)
        return -ENOMEM;
    struct lane *lane = &run->workers[worker].lane;
    store_release_u64(&lane->orders->granted_chunks, greeting.chunk_count);
    uint32_t rows = run->engine->options.worker_rows;
    store_release_u32(&lane->orders->rows_max, rows ? rows : WORKER_ROWS);
    *ret_greeting = greeting;
    return 0;
}

static enum attach_integrity integrity_of_hello(enum sheaf_integrity integrity)
{
    static const enum attach_integrity of[] = {[SHEAF_INTEGRITY_OFF] = ATTACH_INTEGRITY_OFF,
                                               [SHEAF_INTEGRITY_CRASH] = ATTACH_INTEGRITY_CRASH,
                                               [SHEAF_INTEGRITY_ALWAYS] = ATTACH_INTEGRITY_ALWAYS};
    return of[integrity];
}

int greet_send(struct sheaf_run *run, uint32_t worker, uint32_t generation, int socket, struct greeting *greeting)
{
    const struct worker *who = &run->workers[worker];
    int orders = -1, result = -ENOMEM, notices[LANE_SHARDS_MAX];
    uint32_t call_count = 0;
    struct attach_call *calls = list_calls(run, who->pool, &call_count);
    struct attach_shard *shards = list_shards(run, notices);
    struct attach_segment *segments = list_segments(run, worker);
    if (calls && shards && segments)
        result = segment_open_read_only(&who->lane.orders_segment, &orders);
    if (result == 0) {
        struct attach_hello hello = {
            .worker = worker,
            .generation = generation,
            .pool = who->pool,
            .node = who->node,
            .crowded = run->worker_count + run->shard_count > topo_machine(run->engine->topo)->usable_cores,
            .integrity = integrity_of_hello(run->integrity),
            .heap_limit_bytes = run->budget.heap_bytes,
            .on_device = who->on_device,
            .device_backend = who->device != TOPO_NONE ? SHEAF_DEVICE_CUDA : SHEAF_DEVICE_HOST,
            .device_ordinal = who->device != TOPO_NONE ? run->devices->found[who->device].ordinal : 0,
            .pool_workers = run->pool_count[who->pool],
            .memory_segments = payload_segment_count(run->payload) - (payload_spill_segment(run->payload) != 0),
            .run_id = run->run_id,
            .data_path = run->engine->data_path,
            .lane_own_fd = who->lane.own.descriptor,
            .lane_orders_fd = orders,
            .shard_count = run->shard_count,
            .shards = shards,
            .segment_count = payload_segment_count(run->payload),
            .segments = segments,
            .chunk_count = greeting->chunk_count,
            .chunks = greeting->chunks,
            .call_count = call_count,
            .calls = calls,
        };
        result = attach_send_hello(socket, &hello, HELLO_TIMEOUT_MS);
    }
    for (uint32_t i = 0; shards && i < run->shard_count; i++) {
        if (notices[i] >= 0)
            close(notices[i]);
    }
    if (orders >= 0)
        close(orders);
    free_calls(run, who->pool, calls);
    free(shards);
    free(segments);
    free(greeting->chunks);
    greeting->chunks = NULL;
    return result;
}
