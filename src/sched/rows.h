/* SPDX-License-Identifier: Apache-2.0 */
/* Inside sched: one record per (Call, Entity) that was ever READY, in blocks that double, linked into the Call's
 * queues. */
#ifndef SRC_SCHED_ROWS_H
#define SRC_SCHED_ROWS_H

#include <assert.h>

#include "sched/sched.h"

#define NOBODY LINEAGE_NOBODY
#define ROWS_FIRST_BLOCK 64u

enum row_place { ROW_NOWHERE, ROW_RETRY, ROW_READY, ROW_ASIDE, ROW_ISOLATION, ROW_OUT };

/* Two to a cache line: a row is looked at when it becomes READY, when it goes out and when it is done, each time cold.
 */
struct row {
    union {
        uint64_t due_us; /* ROW_RETRY, in which nothing is to run apart */
        struct {
            uint32_t batch; /* ROW_ISOLATION */
            uint16_t home;  /* `alone`: the worker that died over it */
        };
    };
    uint32_t previous, next;
    uint32_t attempt;
    uint32_t root;  /* 1 + the root whose share it counts in; 0: none */
    uint32_t claim; /* the caller's */
    uint16_t lane;  /* of its Call's READY rows; kept while it is out */
    uint8_t place;
    bool alone; /* was, or is to be, run alone in a fresh worker after a crash that may not be its own */
};
static_assert(sizeof(struct row) == 32, "half a cache line");

struct row_list {
    uint32_t first, last, count;
};

/* Rows meant for one worker: READY, put aside, and how many are out. */
struct lane {
    struct row_list ready, aside;
    uint32_t out;
    /* The smallest root that has rows aside, 1 + its number, 0: to be found; its children then, and roots opened then.
     */
    uint32_t smallest;
    uint64_t smallest_children, smallest_of;
};

struct call_queues {
    uintptr_t blocks[27]; /* of each the address that row 0 would have if it lay before them; 0: not there yet */
    struct row_list retry, isolation;
    struct lane *lanes;
    uint32_t lane_count, first_worker; /* lane i is for worker first_worker + i */
    uint32_t ready_count, aside_count; /* in all lanes */
    uint64_t row_us;                   /* what a row takes; 0: not known */
    bool goes_on;                      /* with what its Pool has begun: none of its rows is put aside */
    uint32_t batch_open;               /* isolation batch being handed out, 0: none */
    uint32_t batch_left;
    uint64_t isolation_batches;
};

/* bulk.c, level.c: how large roots are, and how much of each is queued. */
struct bulk_root {
    uint64_t children;
    double children_log; /* log(1 + children) */
    uint32_t queued;     /* rows in READY queues */
    uint32_t opener;     /* 1 + the worker that made its first child, 0: none yet */
    uint32_t lane;       /* 1 + its lane, 0: none yet */
    bool begun;          /* a row of it was taken from a lane: its worker has the parent open */
};

struct bulk {
    struct bulk_root *roots; /* by number of the root */
    uint32_t capacity;
    uint32_t workers;     /* of the largest Pool */
    uint32_t taken_since; /* READY rows handed out since some were moved up */
    double children_log_sum;
    uint64_t children_roots; /* roots that had a child */
    bool finished_any;       /* some root with children is over */
    bool off;                /* no row is put aside */
};

struct sched {
    const struct sheaf_plan *plan;
    struct lineage_memory memory;
    struct call_queues *calls;
    uint32_t last_batch;
    struct bulk bulk;
};

bool rows_make_block(struct sched *sched, uint32_t call, uint32_t block);
/* NULL only when the row's block cannot be allocated; a row once seen is always found. */
static inline struct row *row_at(struct sched *sched, uint32_t call, uint32_t entity)
{
    uint32_t block = 25u - (uint32_t)__builtin_clz(entity + ROWS_FIRST_BLOCK);
    const uintptr_t *of_block = &sched->calls[call].blocks[block];
    if (__builtin_expect(!*of_block, 0) && !rows_make_block(sched, call, block))
        return NULL;
    return (struct row *)(*of_block + (uintptr_t)entity * sizeof(struct row));
}
static inline void row_reset(struct row *row)
{
    assert(row->place == ROW_NOWHERE);
    *row = (struct row){0};
}
/* A row goes out, or is out no longer (harmless for one that is not). Queueing a row that is out ends that, too. */
void row_out(struct sched *sched, uint32_t call, struct row *row);
void row_in(struct sched *sched, uint32_t call, struct row *row);
void row_append(struct sched *sched, uint32_t call, uint32_t entity, enum row_place place);
void row_prepend(struct sched *sched, uint32_t call, uint32_t entity, enum row_place place);
void row_remove(struct sched *sched, uint32_t call, struct row *row);
/* A row that is aside becomes READY. */
void row_move_up(struct sched *sched, uint32_t call, uint32_t entity);

/* To the tail of the isolation queue, as part of a batch; and a number for a new batch. */
void row_isolate(struct sched *sched, uint32_t call, uint32_t entity, uint32_t batch);
uint32_t row_new_batch(struct sched *sched);

/* NULL: memory is out. */
struct bulk_root *bulk_root_of(struct sched *sched, uint32_t root);
int bulk_open(struct sched *sched);
void bulk_close(struct sched *sched);
/* Roots that are opened before any is finished, for a small one to be among them. */
uint64_t bulk_first_roots(const struct bulk *bulk);

/* lanes.c: the lane for a row of the root; the lane to serve next, if any row is READY. */
uint32_t lane_of_root(const struct sched *sched, uint32_t call, struct bulk_root *root);
struct lane *lane_to_serve(const struct call_queues *queues);
static inline bool has_lanes(const struct sched *sched, uint32_t call)
{
    return sched->calls[call].lane_count > 1;
}
/* READY and out. */
static inline uint32_t lane_rows(const struct lane *lane)
{
    return lane->ready.count + lane->out;
}
/* A lane that has no row to move up gets up to `rows` that wait in the longest one, if that repays: those of roots that
 * are not begun there, whole roots then, else a share of what is begun. They are aside in their new lane. Returns how
 * many. */
uint32_t lane_adopt(struct sched *sched, uint32_t call, uint32_t lane, uint32_t rows);
void lanes_close(struct sched *sched, uint32_t call);

#endif
