/* SPDX-License-Identifier: Apache-2.0 */
#include "device/pipeline.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 16 };
#define STAGING_BYTES (UINT64_C(4) << 20)
#define MEMORY_BYTES_MIN (UINT64_C(1) << 20)
#define GAP_BYTES DEVICE_ALIGNMENT /* between rows that are still one copy */

/* Pinned memory through which small things go, from its beginning to its end. `run` is what one copy will take. */
struct staging {
    unsigned char *memory;
    uint64_t bytes, used;
    uint64_t run_first, run_bytes;
    device_address run_address;
};

struct fetched {
    void *to;
    device_address from;
    uint64_t bytes;
    const unsigned char *staged; /* where it arrives; NULL: at `to` */
};

enum stage { STAGE_FREE = 0, STAGE_FILLING, STAGE_STARTED, STAGE_SUBMITTED, STAGE_DONE };

struct pipeline_batch {
    struct pipeline *pipeline;
    enum stage stage;
    uint64_t order; /* counted up by begin */
    device_address memory;
    uint64_t used_bytes;
    struct staging in, out;
    struct device_event *copied_in, *computed, *copied_out;
    struct fetched *fetches;
    uint32_t fetch_count, fetch_capacity, fetch_next; /* next: not yet on its way */
};

struct pipeline {
    struct device *device;
    struct pinned *pinned;
    uint64_t direct_bytes, batch_bytes;
    device_address memory;
    struct device_stream *in, *compute, *out;
    struct pipeline_batch batches[DEPTH_MAX];
    uint32_t depth, in_flight;
    uint64_t began;
};

/* ---- life ---- */

/* One allocation for all slots; less than wanted when the device has less. */
static int take_memory(struct pipeline *pipeline, uint64_t wanted_bytes)
{
    uint64_t bytes = wanted_bytes;
    if (bytes == 0) {
        int status = device_free_bytes(pipeline->device, &bytes);
        if (status < 0)
            return status;
        bytes /= 2;
    }
    int status = -ENOMEM;
    for (; bytes >= MEMORY_BYTES_MIN && status == -ENOMEM; bytes = status == -ENOMEM ? bytes / 2 : bytes)
        status = device_alloc(pipeline->device, bytes, &pipeline->memory);
    pipeline->batch_bytes = bytes / pipeline->depth / DEVICE_ALIGNMENT * DEVICE_ALIGNMENT;
    return status;
}

static int open_batch(struct pipeline *pipeline, uint32_t slot, uint64_t staging_bytes)
{
    struct pipeline_batch *batch = &pipeline->batches[slot];
    void *in = NULL, *out = NULL;
    batch->pipeline = pipeline;
    batch->memory = pipeline->memory + slot * pipeline->batch_bytes;
    int status = device_host_alloc(pipeline->device, staging_bytes, &in);
    if (status == 0)
        status = device_host_alloc(pipeline->device, staging_bytes, &out);
    batch->in = (struct staging){.memory = in, .bytes = staging_bytes};
    batch->out = (struct staging){.memory = out, .bytes = staging_bytes};
    if (status == 0)
        status = device_event_create(pipeline->device, &batch->copied_in);
    if (status == 0)
        status = device_event_create(pipeline->device, &batch->computed);
    if (status == 0)
        status = device_event_create(pipeline->device, &batch->copied_out);
    return status;
}

int pipeline_open(struct device *device, struct pinned *pinned, const struct pipeline_options *options,
                  struct pipeline **ret_pipeline)
{
    struct pipeline *pipeline = calloc(1, sizeof *pipeline);
    if (pipeline == NULL)
        return -ENOMEM;
    pipeline->device = device;
    pipeline->pinned = pinned;
    pipeline->depth = options->depth == 0 ? PIPELINE_DEPTH : options->depth > DEPTH_MAX ? DEPTH_MAX : options->depth;
    pipeline->direct_bytes = options->direct_bytes != 0 ? options->direct_bytes : PIPELINE_DIRECT_BYTES;
    uint64_t staging_bytes = options->staging_bytes != 0 ? options->staging_bytes : STAGING_BYTES;
    int status = device_stream_create(device, &pipeline->in);
    if (status == 0)
        status = device_stream_create(device, &pipeline->compute);
    if (status == 0)
        status = device_stream_create(device, &pipeline->out);
    if (status == 0)
        status = take_memory(pipeline, options->memory_bytes);
    for (uint32_t slot = 0; status == 0 && slot < pipeline->depth; slot++)
        status = open_batch(pipeline, slot, staging_bytes);
    if (status < 0) {
        pipeline_close(pipeline);
        return status;
    }
    *ret_pipeline = pipeline;
    return 0;
}

static void close_batch(struct device *device, struct pipeline_batch *batch)
{
    struct device_event *events[] = {batch->copied_in, batch->computed, batch->copied_out};
    for (size_t at = 0; at < sizeof events / sizeof *events; at++)
        if (events[at] != NULL)
            (void)device_event_destroy(device, events[at]);
    if (batch->in.memory != NULL)
        (void)device_host_free(device, batch->in.memory);
    if (batch->out.memory != NULL)
        (void)device_host_free(device, batch->out.memory);
    free(batch->fetches);
}

void pipeline_close(struct pipeline *pipeline)
{
    if (pipeline == NULL)
        return;
    struct device_stream *streams[] = {pipeline->in, pipeline->compute, pipeline->out};
    for (size_t at = 0; at < sizeof streams / sizeof *streams; at++) {
        if (streams[at] == NULL)
            continue;
        (void)device_stream_wait_idle(pipeline->device, streams[at]); /* nothing reads what is freed below */
        (void)device_stream_destroy(pipeline->device, streams[at]);
    }
    for (uint32_t slot = 0; slot < pipeline->depth; slot++)
        close_batch(pipeline->device, &pipeline->batches[slot]);
    if (pipeline->memory != 0)
        (void)device_free(pipeline->device, pipeline->memory);
    free(pipeline);
}

uint32_t pipeline_depth(const struct pipeline *pipeline)
{
    return pipeline->depth;
}

uint64_t pipeline_batch_bytes(const struct pipeline *pipeline)
{
    return pipeline->batch_bytes;
}

uint32_t pipeline_in_flight(const struct pipeline *pipeline)
{
    return pipeline->in_flight;
}

struct pipeline_batch *pipeline_begin(struct pipeline *pipeline)
{
    for (uint32_t slot = 0; slot < pipeline->depth; slot++) {
        struct pipeline_batch *batch = &pipeline->batches[slot];
        if (batch->stage != STAGE_FREE)
            continue;
        batch->stage = STAGE_FILLING;
        batch->order = pipeline->began++;
        batch->used_bytes = 0;
        batch->in.used = batch->in.run_bytes = batch->out.used = 0;
        batch->fetch_count = batch->fetch_next = 0;
        pipeline->in_flight++;
        return batch;
    }
    return NULL;
}

struct pipeline_batch *pipeline_oldest(const struct pipeline *pipeline)
{
    const struct pipeline_batch *oldest = NULL;
    for (uint32_t slot = 0; slot < pipeline->depth; slot++) {
        const struct pipeline_batch *batch = &pipeline->batches[slot];
        if (batch->stage != STAGE_FREE && (oldest == NULL || batch->order < oldest->order))
            oldest = batch;
    }
    return (struct pipeline_batch *)(uintptr_t)oldest;
}

void pipeline_end(struct pipeline_batch *batch)
{
    assert(batch->stage != STAGE_FREE && batch->stage != STAGE_SUBMITTED);
    batch->stage = STAGE_FREE;
    batch->pipeline->in_flight--;
}

/* ---- the way in ---- */

int pipeline_place(struct pipeline_batch *batch, uint64_t bytes, device_address *ret_address)
{
    uint64_t room = batch->pipeline->batch_bytes - batch->used_bytes;
    if (bytes > room)
        return -ENOMEM;
    *ret_address = batch->memory + batch->used_bytes;
    uint64_t taken = device_aligned(bytes, DEVICE_ALIGNMENT);
    batch->used_bytes += taken < room ? taken : room;
    return 0;
}

/* Sends the run that was gathered last. */
static int flush_run(struct pipeline_batch *batch, struct device_stream *stream)
{
    struct staging *in = &batch->in;
    uint64_t bytes = in->run_bytes;
    in->run_bytes = 0;
    return device_copy_in(batch->pipeline->device, stream, in->run_address, in->memory + in->run_first, bytes);
}

/* Staging is full: it is emptied to the device before it is filled again. */
static int drain_staging(struct pipeline_batch *batch, struct device_stream *stream)
{
    int status = flush_run(batch, stream);
    if (status == 0)
        status = device_stream_wait_idle(batch->pipeline->device, stream);
    batch->in.used = 0;
    return status;
}

/* Gathers bytes, as part of the copy before them when they follow it on the device. */
static int stage_in(struct pipeline_batch *batch, struct device_stream *stream, device_address to,
                    const unsigned char *from, uint64_t bytes)
{
    struct staging *in = &batch->in;
    int status = 0;
    while (bytes > 0 && status == 0) {
        uint64_t gap = to - (in->run_address + in->run_bytes);
        bool follows =
            in->run_bytes > 0 && to >= in->run_address + in->run_bytes && gap < GAP_BYTES && in->used + gap < in->bytes;
        if (!follows) {
            status = flush_run(batch, stream);
            in->run_first = in->used = device_aligned(in->used, 16);
            in->run_address = to;
            gap = 0;
        }
        if (status == 0 && in->used + gap >= in->bytes) {
            status = drain_staging(batch, stream);
            in->run_first = gap = 0;
            in->run_address = to;
        }
        if (status < 0)
            break;
        uint64_t room = in->bytes - in->used - gap, part = bytes < room ? bytes : room;
        memset(in->memory + in->used, 0, gap);
        memcpy(in->memory + in->used + gap, from, part);
        in->used += gap + part;
        in->run_bytes += gap + part;
        to += part;
        from += part;
        bytes -= part;
    }
    return status;
}

static int copy_direct(struct pipeline_batch *batch, device_address to, const unsigned char *from, uint64_t bytes)
{
    struct pipeline *pipeline = batch->pipeline;
    int status = 0;
    while (bytes > 0 && status == 0) {
        uint64_t room = pinned_in_piece(pipeline->pinned, from), part = bytes < room ? bytes : room;
        status = device_copy_in(pipeline->device, pipeline->in, to, from, part);
        to += part;
        from += part;
        bytes -= part;
    }
    return status;
}

int pipeline_copy_in(struct pipeline_batch *batch, device_address to, const void *from, uint64_t bytes)
{
    struct pipeline *pipeline = batch->pipeline;
    assert(batch->stage == STAGE_FILLING);
    if (pipeline->pinned != NULL && bytes >= pipeline->direct_bytes) {
        int reached = pinned_reaches(pipeline->pinned, from, bytes, false);
        if (reached < 0)
            return reached;
        if (reached == 1)
            return copy_direct(batch, to, from, bytes);
    }
    return stage_in(batch, pipeline->in, to, from, bytes);
}

int pipeline_start(struct pipeline_batch *batch)
{
    struct pipeline *pipeline = batch->pipeline;
    assert(batch->stage == STAGE_FILLING);
    int status = flush_run(batch, pipeline->in);
    if (status == 0)
        status = device_event_record(pipeline->device, batch->copied_in, pipeline->in);
    if (status == 0)
        status = device_stream_wait_event(pipeline->device, pipeline->compute, batch->copied_in);
    batch->stage = STAGE_STARTED;
    return status;
}

/* ---- on the device ---- */

struct device_stream *pipeline_stream(const struct pipeline_batch *batch)
{
    return batch->pipeline->compute;
}

int pipeline_upload(struct pipeline_batch *batch, device_address to, const void *from, uint64_t bytes)
{
    assert(batch->stage == STAGE_STARTED && batch->in.run_bytes == 0);
    if (batch->in.bytes - batch->in.used < bytes + 16) {
        /* What lies in staging may be on its way on either stream. */
        int status = device_stream_wait_idle(batch->pipeline->device, batch->pipeline->in);
        if (status == 0)
            status = device_stream_wait_idle(batch->pipeline->device, batch->pipeline->compute);
        if (status < 0)
            return status;
        batch->in.used = 0;
    }
    int status = stage_in(batch, batch->pipeline->compute, to, from, bytes);
    return status == 0 ? flush_run(batch, batch->pipeline->compute) : status;
}

int pipeline_fetch(struct pipeline_batch *batch, void *to, device_address from, uint64_t bytes)
{
    assert(batch->stage == STAGE_STARTED);
    if (batch->fetch_count == batch->fetch_capacity) {
        uint32_t capacity = batch->fetch_capacity != 0 ? 2 * batch->fetch_capacity : 64;
        struct fetched *grown = realloc(batch->fetches, capacity * sizeof *grown);
        if (grown == NULL)
            return -ENOMEM;
        batch->fetches = grown;
        batch->fetch_capacity = capacity;
    }
    batch->fetches[batch->fetch_count++] = (struct fetched){.to = to, .from = from, .bytes = bytes};
    return 0;
}

/* ---- the way out ---- */

/* 1: on its way straight to where it belongs; 0: it must be staged. */
static int fetch_direct(struct pipeline *pipeline, const struct fetched *fetch)
{
    if (pipeline->pinned == NULL || fetch->bytes < pipeline->direct_bytes)
        return 0;
    int reached = pinned_reaches(pipeline->pinned, fetch->to, fetch->bytes, true);
    unsigned char *to = fetch->to;
    uint64_t bytes = reached == 1 ? fetch->bytes : 0;
    device_address from = fetch->from;
    while (bytes > 0 && reached == 1) {
        uint64_t room = pinned_in_piece(pipeline->pinned, to), part = bytes < room ? bytes : room;
        int status = device_copy_out(pipeline->device, pipeline->out, to, from, part);
        reached = status < 0 ? status : 1;
        to += part;
        from += part;
        bytes -= part;
    }
    return reached;
}

/* How many of the fetches from `first` on lie one after another on the device and fit into `room` together. */
static uint32_t run_of(const struct pipeline_batch *batch, uint32_t first, uint64_t room, uint64_t *ret_bytes)
{
    const struct fetched *fetches = batch->fetches;
    uint64_t bytes = fetches[first].bytes;
    uint32_t next = first + 1;
    for (; next < batch->fetch_count; next++) {
        device_address end = fetches[first].from + bytes;
        uint64_t gap = fetches[next].from - end;
        if (fetches[next].from < end || gap >= GAP_BYTES || bytes + gap + fetches[next].bytes > room ||
            fetches[next].bytes >= batch->pipeline->direct_bytes)
            break;
        bytes += gap + fetches[next].bytes;
    }
    *ret_bytes = bytes;
    return next - first;
}

/* A fetch that no staging holds: through it piece by piece, waiting. */
static int fetch_in_pieces(struct pipeline_batch *batch, const struct fetched *fetch)
{
    struct pipeline *pipeline = batch->pipeline;
    int status = 0;
    for (uint64_t at = 0; at < fetch->bytes && status == 0;) {
        uint64_t rest = fetch->bytes - at, part = rest < batch->out.bytes ? rest : batch->out.bytes;
        status = device_copy_out(pipeline->device, pipeline->out, batch->out.memory, fetch->from + at, part);
        if (status == 0)
            status = device_stream_wait_idle(pipeline->device, pipeline->out);
        if (status == 0)
            memcpy((unsigned char *)fetch->to + at, batch->out.memory, part);
        at += part;
    }
    return status;
}

/* Puts fetches on the stream until staging is full. */
static int send_fetches(struct pipeline_batch *batch)
{
    struct pipeline *pipeline = batch->pipeline;
    struct staging *out = &batch->out;
    while (batch->fetch_next < batch->fetch_count) {
        struct fetched *fetch = &batch->fetches[batch->fetch_next];
        int direct = fetch_direct(pipeline, fetch);
        if (direct < 0)
            return direct;
        if (direct == 1 || fetch->bytes == 0) {
            batch->fetch_next++;
            continue;
        }
        uint64_t room = out->bytes - out->used, bytes;
        if (fetch->bytes > room)
            return 0; /* another round when this one was waited for */
        uint32_t count = run_of(batch, batch->fetch_next, room, &bytes);
        int status = device_copy_out(pipeline->device, pipeline->out, out->memory + out->used, fetch->from, bytes);
        if (status < 0)
            return status;
        for (uint32_t at = 0; at < count; at++)
            fetch[at].staged = out->memory + out->used + (fetch[at].from - fetch->from);
        uint64_t used = device_aligned(out->used + bytes, 16);
        out->used = used < out->bytes ? used : out->bytes;
        batch->fetch_next += count;
    }
    return 0;
}

int pipeline_submit(struct pipeline_batch *batch)
{
    struct pipeline *pipeline = batch->pipeline;
    assert(batch->stage == STAGE_STARTED);
    int status = device_event_record(pipeline->device, batch->computed, pipeline->compute);
    if (status == 0)
        status = device_stream_wait_event(pipeline->device, pipeline->out, batch->computed);
    if (status == 0)
        status = send_fetches(batch);
    if (status == 0)
        status = device_event_record(pipeline->device, batch->copied_out, pipeline->out);
    batch->stage = STAGE_SUBMITTED;
    if (status < 0) { /* something was asked for that cannot be: what is under way ends first, if it can */
        (void)device_stream_wait_idle(pipeline->device, pipeline->compute);
        (void)device_stream_wait_idle(pipeline->device, pipeline->out);
        batch->stage = STAGE_DONE;
    }
    return status;
}

int pipeline_query(struct pipeline_batch *batch)
{
    return batch->stage == STAGE_SUBMITTED ? device_event_query(batch->pipeline->device, batch->copied_out) : 1;
}

/* From staging to where it belongs. */
static void unpack(struct pipeline_batch *batch)
{
    for (uint32_t at = 0; at < batch->fetch_next; at++) {
        struct fetched *fetch = &batch->fetches[at];
        if (fetch->staged != NULL)
            memcpy(fetch->to, fetch->staged, fetch->bytes);
        fetch->staged = NULL;
    }
    batch->out.used = 0;
}

int pipeline_wait(struct pipeline_batch *batch)
{
    struct pipeline *pipeline = batch->pipeline;
    assert(batch->stage == STAGE_SUBMITTED);
    int status = device_event_wait(pipeline->device, batch->copied_out);
    if (status == 0)
        unpack(batch);
    while (status == 0 && batch->fetch_next < batch->fetch_count) {
        const struct fetched *fetch = &batch->fetches[batch->fetch_next];
        if (fetch->bytes > batch->out.bytes) {
            status = fetch_in_pieces(batch, fetch);
            batch->fetch_next++;
            continue;
        }
        status = send_fetches(batch);
        if (status == 0)
            status = device_stream_wait_idle(pipeline->device, pipeline->out);
        if (status == 0)
            unpack(batch);
    }
    batch->stage = STAGE_DONE;
    return status;
}
