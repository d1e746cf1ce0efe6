/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small world for the protocol: one shard (the test process), real worker processes over real segments, and a
 * scoreboard on which every row that runs is counted. The shard keeps its books exactly as the protocol says (the set
 * of live (g, d), accept, cancel, recall, recovery), so that a test only chooses what goes wrong and then asks
 * world_verdict.
 */
#ifndef TESTS_SHM_WORLD_H
#define TESTS_SHM_WORLD_H

#include <sys/types.h>

#include "shm/board.h"
#include "shm/completion_ring.h"
#include "shm/lane.h"

#define WORLD_WORKERS_MAX 4u
#define WORLD_GRAINS_MAX 4096u

enum world_state { WORLD_WAITING, WORLD_DISPATCHED, WORLD_SEALED };

struct world_grain {
    enum world_state state;
    uint64_t number;   /* of the last dispatch */
    uint64_t position; /* of the last dispatch */
    uint64_t live;     /* bit i: dispatch first_number + i is live */
    uint32_t charged;
    bool cancelled; /* sealed by cancel */
    bool never_run; /* cancelled before it can have started */
};

/* Shared with the workers, written by them. */
struct world_score {
    shared_u32 running[WORLD_GRAINS_MAX]; /* worker + 1 while a row of the grain runs */
    shared_u32 runs[WORLD_GRAINS_MAX];
    shared_u32 breaches; /* two rows of one grain at once, or another promise broken */
    shared_u32 stop;
};

struct world_options {
    uint32_t grains, workers, ring_capacity, batch_rows;
    uint32_t cancel_percent, recall_percent, raise_percent; /* of shard turns; of rows */
    uint32_t kills_max;                                     /* random SIGKILLs by the shard */
    uint64_t seed;
};

struct world {
    struct world_options options;
    struct board board;
    struct ready_producer producer;
    struct lane lanes[WORLD_WORKERS_MAX];
    struct completion_reader readers[WORLD_WORKERS_MAX];
    pid_t processes[WORLD_WORKERS_MAX];
    struct segment score_segment;
    struct world_score *score;
    struct world_grain grains[WORLD_GRAINS_MAX];
    uint64_t random;
    uint64_t first_number;
    uint32_t next, sealed, deaths, recalled, cancel_races, double_seals, alarms;
};

struct world *world_open(const struct world_options *options);

/* Start worker `worker`; with `crash_name` (crash builds only) it dies at that passage of that point. */
void world_start(struct world *world, uint32_t worker, const char *crash_name, uint32_t passage);

/* Be the shard until all grains are sealed and released, or `timeout_ns` of doing so is over. True when all are. */
bool world_run(struct world *world, uint64_t timeout_ns);

/* Cancel one grain, by the protocol. */
void world_cancel(struct world *world, uint32_t grain);

/* P1 to P3 for one grain; false when the ring is full. */
bool world_push(struct world *world, uint32_t grain);

/* Recovery of worker `worker`, which is dead. */
void world_recover(struct world *world, uint32_t worker);

/* Stops the workers; NULL when every promise was kept, else what was broken. */
const char *world_verdict(struct world *world);

void world_close(struct world *world);

#endif
