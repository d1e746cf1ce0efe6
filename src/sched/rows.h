/* SPDX-License-Identifier: Apache-2.0 */
/* Inside sched: one record per (Call, Entity) that was ever READY, in blocks that double, linked into the Call's
 * queues. */
#ifndef SRC_SCHED_ROWS_H
#define SRC_SCHED_ROWS_H

#include "sched/sched.h"

#define NOBODY UINT32_MAX

enum row_place { ROW_NOWHERE, ROW_RETRY, ROW_READY, ROW_ISOLATION, ROW_OUT };

struct row {
    uint64_t due_us; /* ROW_RETRY */
    uint32_t previous, next;
    uint32_t attempt;
    uint32_t batch; /* ROW_ISOLATION */
    uint8_t place;
    bool alone;    /* was, or is to be, run alone in a fresh worker after a crash that may not be its own */
    uint16_t home; /* then: the worker that died over it */
};

struct row_list {
    uint32_t first, last, count;
};

struct call_queues {
    uint8_t *blocks[27];
    struct row_list retry, ready, isolation;
    uint32_t batch_open; /* isolation batch being handed out, 0: none */
    uint32_t batch_left;
    uint64_t isolation_batches;
};

struct sched {
    const struct sheaf_plan *plan;
    struct lineage_memory memory;
    struct call_queues *calls;
    uint32_t last_batch;
};

/* NULL only when the row's block cannot be allocated; a row once seen is always found. */
struct row *row_at(struct sched *sched, uint32_t call, uint32_t entity);
void row_append(struct sched *sched, uint32_t call, uint32_t entity, enum row_place place);
void row_prepend(struct sched *sched, uint32_t call, uint32_t entity, enum row_place place);
void row_remove(struct sched *sched, uint32_t call, uint32_t entity);

/* To the tail of the isolation queue, as part of a batch; and a number for a new batch. */
void row_isolate(struct sched *sched, uint32_t call, uint32_t entity, uint32_t batch);
uint32_t row_new_batch(struct sched *sched);

#endif
