/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What feeds a Call, and how many rows are *coming* to it: rows of upstream Grains that are RUNNING now, or READY with
 * an idle worker of another process, and that nothing blocks. Numbers in, numbers out: whoever drives sched counts what
 * its processes or devices do.
 *
 * A Call's makers are the Calls whose answers or children make its rows READY. Nobody waits across a gather, which
 * wants many answers for one row: what is behind one only says that more may follow.
 */
#ifndef SRC_SCHED_UPSTREAM_H
#define SRC_SCHED_UPSTREAM_H

#include "lineage/lineage.h"

enum { UPSTREAM_MAKERS_MAX = 8 }; /* further ones only say that more may follow */

struct upstream_maker {
    uint32_t call;
    bool by_expansion; /* each of its rows makes any number of this Call's rows */
};

struct upstream {
    struct upstream_maker makers[UPSTREAM_MAKERS_MAX];
    uint32_t maker_count;
    uint64_t *above; /* a bit per Call: all that lead here, makers and what is behind gathers too */
};

/* Of every Call of a Plan. */
struct upstream_map {
    const struct sheaf_plan *plan;
    struct lineage_memory memory;
    struct upstream *calls;
    uint64_t *bits;
};

int upstream_open(struct upstream_map *map, const struct sheaf_plan *plan, const struct lineage_memory *memory);
void upstream_close(struct upstream_map *map);

static inline bool upstream_leads_to(const struct upstream_map *map, uint32_t from, uint32_t to)
{
    return map->calls[to].above[from / 64] >> (from % 64) & 1;
}

/* What a maker does now, as its driver counts it. */
struct upstream_state {
    uint32_t queued;      /* READY, with no worker */
    uint32_t idle;        /* workers of its Pool that are idle, besides the one that asks */
    uint32_t running;     /* RUNNING rows that nothing blocks */
    uint64_t emitted;     /* children so far of the rows that run */
    double children_mean; /* of rows that ended */
};

/* Rows that one maker has on their way. */
double upstream_coming(const struct upstream_maker *maker, const struct upstream_state *state);

/* How many children rows of a Call have. */
struct upstream_children {
    uint64_t emitted; /* by rows that are not over: kept by the driver */
    uint64_t rows;    /* that were answered */
    double mean;
};

/* A row with so many children was answered. */
void upstream_answered(struct upstream_children *children, uint64_t of_row);

#endif
