/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor: the one thread that starts worker processes, watches their pidfds, sockets and output, ends those
 * that are over a deadline, and replaces those that died. Reclaiming waits for proof: a suspect is killed, its pidfd
 * fires, the shards take from its lane what is theirs, and only then is anything of it used again.
 */
#ifndef SRC_ENGINE_SUPERVISOR_H
#define SRC_ENGINE_SUPERVISOR_H

#include "engine/run.h"

/* Starts the thread and a process for every worker of the run, and waits until each Pool has one that is ready. On
 * failure nothing is left; SHEAF_E_ENVIRONMENT with the worker's own line when it cannot serve. */
int supervisor_start(struct sheaf_run *run, struct sheaf_error *error);

/* Asks the workers to end, kills those that do not within a moment, and ends the thread. The shards must have stopped.
 */
void supervisor_stop(struct supervisor *supervisor);

/* A shard took what it wanted from a dead worker. Any thread. */
struct recovered {
    bool to_blame; /* a row of it was running, or it had run some */
    bool moved_on; /* rows of the shard were run or charged since the last death under this worker number */
};
void supervisor_recovered(struct supervisor *supervisor, uint32_t worker, struct recovered how);

/* A worker broke the protocol: the process of that generation is killed, and its death sorts out the rest. Any thread;
 * `why` is copied. */
void supervisor_kill(struct supervisor *supervisor, uint32_t worker, uint32_t generation, const char *why);

/* A row is over its deadline by the engine's own clock, whatever its page says. Any thread. */
void supervisor_time_out(struct supervisor *supervisor, uint32_t worker, uint32_t generation, uint32_t grain,
                         uint64_t number, uint32_t timeout_ms);
/* It has rows and runs none of them. Any thread. */
void supervisor_end_stuck(struct supervisor *supervisor, uint32_t worker, uint32_t generation);
/* Rows or orders wait and the worker takes none: it is killed if it has been ready for `patience_ns`. Any thread. */
void supervisor_end_idle(struct supervisor *supervisor, uint32_t worker, uint32_t generation, uint64_t patience_ns);

/* CPU microseconds that workers, dead and alive, have used, and how many are alive. Any thread. */
uint64_t supervisor_worker_cpu_us(struct supervisor *supervisor, uint32_t *ret_alive);

#endif
