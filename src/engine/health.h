/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The health of devices, as the supervisor keeps it: what a process said of its device before it ended, how often each
 * device has failed, and which are retired. The supervisor's thread.
 */
#ifndef SRC_ENGINE_HEALTH_H
#define SRC_ENGINE_HEALTH_H

#include "engine/watch.h"
#include "worker/attach.h"

/* The last words of a process whose device failed (ATTACH_DEVICE_FAULT): it ends itself, and its death says the rest.
 */
void health_last_words(struct process *process, const struct attach_reply *reply);

/*
 * A process is dead: if its device failed, that is counted. A device that fails three times is retired, and the log
 * says so: by faults of its own, over the whole run; or by any faults in a row, with no batch done in between. What
 * happens to a batch that runs alone does not count: it is being taken apart, and if one of its rows is to blame it
 * fails again and again.
 */
void health_count_fault(struct sheaf_run *run, struct process *processes, uint32_t worker);

/* Workers of a Pool whose devices are not retired. */
uint32_t health_devices_left(const struct sheaf_run *run, const struct process *processes, uint32_t pool);

#endif
