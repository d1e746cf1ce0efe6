/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches on their way through a device: while one is computed, the next is copied in and the last is copied out.
 *
 *     begin -> place, copy_in ... -> start -> [the operator: alloc, upload, launch on the stream, fetch] -> submit
 *           -> wait -> [the operator reads what it fetched] -> end
 *
 * There are three streams, one for each direction of copies and one for computing, and two events per batch that order
 * them: computing waits until the batch's copies in are over, its copies out wait until it is computed. A slot (device
 * memory, staging memory, events) is used again only after its batch was waited for, so nothing else needs an order.
 *
 * Rows below `direct_bytes` are gathered in pinned staging memory and go over in one copy; larger ones go straight from
 * where they lie, if that memory can be pinned (pinned.h). All device memory is one allocation, an equal part per slot.
 *
 * One thread. 0 or the device's negative status: after a sticky one nothing here works any more.
 */
#ifndef SRC_DEVICE_PIPELINE_H
#define SRC_DEVICE_PIPELINE_H

#include "device/device.h"
#include "device/pinned.h"

#define PIPELINE_DEPTH 3u
#define PIPELINE_DIRECT_BYTES (128u << 10) /* a copy call costs what packing that much does */

struct pipeline;
struct pipeline_batch;

struct pipeline_options {
    uint32_t depth;         /* batches in flight, 0: PIPELINE_DEPTH */
    uint64_t memory_bytes;  /* of the device for all slots, 0: half of what is free */
    uint64_t staging_bytes; /* of pinned memory, per slot and direction, 0: 4 MiB */
    uint64_t direct_bytes;  /* 0: PIPELINE_DIRECT_BYTES */
};

/* `pinned` may be NULL: then everything is staged. Both must outlive it. */
int pipeline_open(struct device *device, struct pinned *pinned, const struct pipeline_options *options,
                  struct pipeline **ret_pipeline);
void pipeline_close(struct pipeline *pipeline);
uint32_t pipeline_depth(const struct pipeline *pipeline);
/* Device memory of one batch. */
uint64_t pipeline_batch_bytes(const struct pipeline *pipeline);
uint32_t pipeline_in_flight(const struct pipeline *pipeline);

/* A free slot, or NULL. */
struct pipeline_batch *pipeline_begin(struct pipeline *pipeline);
/* The batch that began first of those that have not ended, or NULL. */
struct pipeline_batch *pipeline_oldest(const struct pipeline *pipeline);

/* Device memory for this batch. -ENOMEM: there is no more; not a fault. */
int pipeline_place(struct pipeline_batch *batch, uint64_t bytes, device_address *ret_address);
/* A copy into it. `from` must stay as it is until the batch was waited for. */
int pipeline_copy_in(struct pipeline_batch *batch, device_address to, const void *from, uint64_t bytes);
/* All copies in are on their way; what is put on the stream from here on comes after them. */
int pipeline_start(struct pipeline_batch *batch);

struct device_stream *pipeline_stream(const struct pipeline_batch *batch);
/* From host memory, which is read before it returns, ordered on the stream. */
int pipeline_upload(struct pipeline_batch *batch, device_address to, const void *from, uint64_t bytes);
/* Remembers a copy out. */
int pipeline_fetch(struct pipeline_batch *batch, void *to, device_address from, uint64_t bytes);

/* Nothing more goes on the stream: the copies out follow. After a failure the batch is to be ended, not waited for. */
int pipeline_submit(struct pipeline_batch *batch);
/* 1: pipeline_wait would not sleep; 0. */
int pipeline_query(struct pipeline_batch *batch);
/* Sleeps until all of it is over and what was fetched is where it should be. */
int pipeline_wait(struct pipeline_batch *batch);
/* The slot is free. A batch that was begun and not submitted may be ended too, when nothing was put on a stream for it
 * or it was waited for. */
void pipeline_end(struct pipeline_batch *batch);

#endif
