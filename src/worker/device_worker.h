/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker with a device: rows of Calls with SHEAF_OPERATOR_DEVICE go through it in batches, up to PIPELINE_DEPTH of
 * them in flight. The parts:
 *
 *     device_open.c    the device, the segments it may reach, the pipeline; its end when it fails
 *     device_batch.c   which rows go together; one batch on its way through the device
 *     device_calls.c   what operators call (struct sheaf_device)
 *     device_serve.c   the loop
 *
 * Rows that were claimed together are cut into batches by shape (rows of one batch have tensors of one dtype and shape)
 * and by device memory. A row is marked RUNNING when its batch goes on its way, all rows of a batch with the same time,
 * which is how the engine tells the batches of a process that died apart.
 *
 * A fault of the device ends the process: its context is lost. The engine starts another. Rows that the engine wants
 * run alone (DISPATCH batch numbers) go when nothing else is in flight.
 */
#ifndef SRC_WORKER_DEVICE_WORKER_H
#define SRC_WORKER_DEVICE_WORKER_H

#include "device/pipeline.h"
#include "worker/operators.h"
#include "worker/worker.h"

struct device_worker;

struct flight {
    struct sheaf_batch view; /* first: what operators give back */
    struct device_worker *on;
    const struct opened_operator *opened;
    struct pipeline_batch *batch;
    struct worker_row **rows; /* room for row_limit, as the next */
    const struct sheaf_row **views;
    uint32_t count;
    uint32_t input_count;
    struct sheaf_device_input *inputs; /* of input_capacity */
    uint64_t **tables;                 /* the same: offsets, then lengths, of row_limit rows at most */
    uint32_t input_capacity;
    const void **pointers; /* of pointer_capacity */
    uint32_t pointer_capacity;
    void *cookie;
    enum batch_close closed;
    bool alone;
};

/* Rows that were claimed and are not on their way yet, all of one Call, in order. */
struct device_queue {
    struct worker_row **rows; /* room for row_limit */
    uint32_t count;
    uint32_t index; /* of the Call among worker->calls */
    uint32_t batch_rows_max;
    enum batch_close closed;
    bool alone;
};

struct device_worker {
    struct sheaf_worker *worker;
    struct operators *operators;
    struct device *device;
    struct pinned *pinned;
    struct pipeline *pipeline;
    struct sheaf_device view; /* for operators */
    struct flight flights[PIPELINE_DEPTH];
    uint32_t depth;
    struct device_queue queue;
    uint64_t last_ns;  /* since_ns given last: each batch has its own */
    uint64_t ended_ns; /* when a batch ended last */
    bool failed_alone; /* for the last words */
};

/* ---- device_open.c ---- */

/* Before operators are opened, which may want the context. -errno and a line; a device that fails is told to the engine
 * by device_worker_fail, not by a refusal to serve. */
int device_worker_open(struct sheaf_worker *worker, struct device_worker *ret_on, char *line);
/* After operators took their device memory, before the sandbox closes: the pool, the streams, kernels of plug-ins. */
int device_worker_prepare(struct device_worker *on, struct operators *operators, char *line);
void device_worker_close(struct device_worker *on);
/* Last words about a status of the device, and the end of the process. */
_Noreturn void device_worker_fail(struct device_worker *on, int status);

/* ---- device_batch.c ---- */

/* Puts the next rows of the queue on their way, or ends those that cannot go. The queue is not empty and a slot is
 * free. */
void device_batch_launch(struct device_worker *on);
/* Waits for the oldest batch and ends its rows. */
void device_batch_finish(struct device_worker *on);

/* ---- device_calls.c ---- */

void device_calls_fill(struct device_worker *on);

/* ---- device_serve.c ---- */

/* Rows until the engine says stop, as serve in main.c. */
int device_serve(struct device_worker *on);

#endif
