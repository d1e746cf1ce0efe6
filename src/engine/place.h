/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the parts of a run are: how many workers each Pool has, which node each shard and worker is on, and the binding
 * of threads, processes and memory to those nodes.
 *
 * On a machine with one NUMA node nothing is bound: the system's scheduler knows better. With several, a worker that
 * has a core to itself is kept on it, one that shares keeps to its node; shard and I/O threads keep to theirs; the
 * segments of each are made of its node's memory. A topology of another machine places, and binds nothing.
 */
#ifndef SRC_ENGINE_PLACE_H
#define SRC_ENGINE_PLACE_H

#include <sched.h>

#include "engine/run.h"

/* Decides it: pool_first, pool_count, worker_count, shard_count and placement of the run. SHEAF_E_USAGE: more
 * workers than can be; -ENOMEM. */
int place_run(struct sheaf_run *run, struct sheaf_error *error);

/* The NUMA node for memory of a shard or worker, as the kernel numbers it, or SEGMENT_ANY_NODE. */
int place_shard_memory(const struct sheaf_run *run, uint32_t shard);
int place_worker_memory(const struct sheaf_run *run, uint32_t worker);

/* The processing units that a worker's process is to keep to. False: any. */
bool place_worker_cores(const struct sheaf_run *run, uint32_t worker, cpu_set_t *ret_cores);

/* Keeps the calling thread to a shard's node and names it. */
void place_thread(const struct sheaf_run *run, uint32_t shard, const char *name);

#endif
