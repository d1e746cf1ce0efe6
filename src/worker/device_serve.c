/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "worker/device_worker.h"

/* Rows of the worker's batch become the queue. */
static void take_claimed(struct device_worker *on)
{
    struct worker_batch *batch = &on->worker->batch;
    struct device_queue *queue = &on->queue;
    memcpy(queue->rows, batch->rows, batch->count * sizeof *queue->rows);
    queue->count = batch->count;
    queue->index = batch->index;
    queue->batch_rows_max = batch->count;
    queue->closed = batch->closed;
    queue->alone = on->worker->alone || (batch->count > 0 && batch->rows[0]->claim.dispatch.batch != 0);
    batch->count = 0;
    on->worker->inside = true; /* no eviction while rows are at hand */
}

/* Whether to take rows that would only wait here: not when devices that are idle would run them at once. */
static bool may_prefetch(const struct device_worker *on)
{
    const struct sheaf_worker *worker = on->worker;
    uint64_t ready = 0, batch = 1;
    for (uint32_t index = 0; index < worker->hello.call_count; index++) {
        const struct attach_call *spec = worker->calls[index].spec;
        for (uint32_t shard = 0; shard < worker->hello.shard_count; shard++)
            ready += load_relaxed_u32(&worker->links[shard].board.calls[spec->call].ready);
        batch = spec->batch_rows > batch ? spec->batch_rows : batch;
    }
    return worker->hello.pool_workers <= 1 || ready >= batch * worker->hello.pool_workers;
}

/* Rows into an empty queue: 1; 0: none now, and some are in flight; or the end. */
static int refill(struct device_worker *on)
{
    const struct sheaf_worker_claim *claim;
    bool idle = pipeline_in_flight(on->pipeline) == 0;
    if (!idle && (pipeline_in_flight(on->pipeline) == on->depth || !may_prefetch(on)))
        return 0;
    int status = idle ? sheaf_worker_claim(on->worker, -1, &claim) : claim_more(on->worker);
    if (status < 0 || (!idle && status == 0))
        return status == SHEAF_E_CLOSED && !idle ? 0 : status;
    take_claimed(on);
    return 1;
}

int device_serve(struct device_worker *on)
{
    for (;;) {
        int status = on->queue.count == 0 ? refill(on) : 1;
        if (status == SHEAF_E_CLOSED)
            return 0;
        if (status < 0)
            return status;
        uint32_t in_flight = pipeline_in_flight(on->pipeline);
        if (on->queue.count > 0 && in_flight < on->depth && (!on->queue.alone || in_flight == 0)) {
            device_batch_launch(on);
            if (!on->queue.alone || pipeline_in_flight(on->pipeline) == 0) {
                announce_due(on->worker, now_ns());
                continue;
            }
        }
        if (pipeline_in_flight(on->pipeline) > 0)
            device_batch_finish(on);
        announce(on->worker);
        if (on->worker->failure < 0)
            return on->worker->failure;
    }
}
