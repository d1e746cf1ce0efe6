/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lane: the two segments between one worker and the engine.
 *
 * `own` is written by the worker (and by the shard, for cancel and recall): its claim page, a completion ring towards
 * each shard, the read indices of its control rings, its event count, its counters. `orders` is written by the engine
 * and mapped read-only by the worker: a control ring from each shard, what memory it was granted, the stop word. Both
 * begin with the same header, from which both sides compute the same layout; an attach refuses a header that differs
 * from what was asked.
 *
 * The engine makes a lane, hands the worker the two descriptors, and keeps both mapped. A replacement of a dead worker
 * gets the same lane after recovery: lane_reset.
 */
#ifndef SHM_LANE_H
#define SHM_LANE_H

#include "shm/claim_page.h"
#include "shm/event_count.h"
#include "shm/segment.h"
#include "shm/spsc_ring.h"

#define LANE_MAGIC UINT64_C(0x31656e616c666873) /* "shflane1" */
#define LANE_VERSION 2u
#define LANE_SHARDS_MAX 64u

struct lane_shape {
    uint32_t worker; /* its id: what ready-ring slots name it by */
    uint32_t shard_count;
    uint32_t claim_rows;
    uint32_t completion_bytes; /* of each completion ring: a power of two */
    uint32_t control_bytes;    /* of each control ring: a power of two */
    uint32_t reserved;
};

/* At the start of both segments; never changes. */
struct lane_header {
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;
    struct lane_shape shape;
    uint64_t own_bytes;
    uint64_t orders_bytes;
};
static_assert(sizeof(struct lane_header) == 56, "part of the shared layout, without holes: headers are compared whole");

/* Written by the worker, read by the supervisor: hints, none is relied on. */
struct lane_counters {
    shared_u64 rows_run;
    shared_u64 batches;
    shared_u64 busy_ns;
    shared_u64 idle_ns;
    shared_u64 rss_bytes;
    shared_u64 heap_bytes;
    shared_u64
        wanted_chunks;   /* how many it wants in all (LANE_CHUNKS), and in the bits above the number of the wish: two
                            for the same number differ. Rises when it runs out; then it bumps the shard and waits */
    shared_u64 state;    /* enum lane_state */
    shared_u64 damaged;  /* ring words that did not check out: the shard should look */
    shared_u64 children; /* emitted in all */
    uint64_t reserved[6];
};
static_assert(sizeof(struct lane_counters) == 128, "part of the shared layout");

#define LANE_CHUNKS_BITS 32
#define LANE_CHUNKS(wanted) ((wanted) & ((UINT64_C(1) << LANE_CHUNKS_BITS) - 1))

enum lane_state {
    LANE_STARTING = 0,
    LANE_READY, /* opened, sealed, claiming */
    LANE_IDLE,  /* parked: nothing to do */
    LANE_BUSY,
    LANE_WAITING_MEMORY,
    LANE_ENDING,
};

/* Written by the engine, read by the worker. */
struct lane_orders {
    shared_u64 granted_chunks; /* how many it may use in all */
    shared_u32 stop;           /* 1: end after the rows at hand; 2: end now */
    shared_u32 rows_max;       /* after so many rows a process ends, to be replaced; 0: never */
    uint32_t reserved[28];
};
static_assert(sizeof(struct lane_orders) == 128, "part of the shared layout");

struct lane_layout {
    uint64_t counters_at, events_at, claims_at; /* in own */
    uint64_t completion_indices_at,
        completion_data_at;   /* in own; FALSE_SHARING_BYTES * 2 and completion_bytes per shard */
    uint64_t control_read_at; /* in own; FALSE_SHARING_BYTES per shard */
    uint64_t own_bytes;
    uint64_t orders_at, control_write_at, control_data_at; /* in orders */
    uint64_t orders_bytes;
};

/* A process's view. The engine has both segments writable; in a worker writes to what `orders` holds would fault. */
struct lane {
    struct segment own;
    struct segment orders_segment;
    struct lane_shape shape;
    struct lane_layout layout;
    struct claim_page claims;
    struct event_count *events;
    struct lane_counters *counters;
    struct lane_orders *orders;
};

/* Where things lie. -EINVAL: a shape that cannot be. */
int lane_plan(const struct lane_shape *shape, struct lane_layout *ret_layout);

/* The engine: make both segments, committed, on a NUMA node if it can be had (SEGMENT_ANY_NODE: anywhere). -EINVAL,
 * -ENOMEM, -ENOSPC, -EMFILE. */
int lane_create(const struct lane_shape *shape, int node, struct lane *ret_lane);

/*
 * The engine: after recovery of a dead worker, everything as new. Every shard then opens its reader and writer of this
 * lane again.
 */
void lane_reset(struct lane *lane);

/*
 * The worker: map what came by descriptor (both are owned by the lane from success on). -EBADMSG: the headers are not
 * of this version or do not fit the segments.
 */
int lane_attach(int own_descriptor, int orders_descriptor, struct lane *ret_lane);

void lane_release(struct lane *lane);

/* The ring between this lane and shard number `shard` (below shape.shard_count, asserted). */
struct spsc_ring lane_completion_ring(const struct lane *lane, uint32_t shard);
struct spsc_ring lane_control_ring(const struct lane *lane, uint32_t shard);

#endif
