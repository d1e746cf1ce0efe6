/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small orders from a shard to a worker: an SPSC byte ring whose data and write index lie in memory the worker only
 * reads, and whose read index lies in the worker's own lane.
 *
 * The shard never waits for room: what does not fit it keeps and offers again when it next looks at the worker. A
 * worker that may be parked on the event count of its Pool is woken by bumping that; one that waits for room or memory
 * waits on the event count of its lane.
 */
#ifndef SHM_CONTROL_RING_H
#define SHM_CONTROL_RING_H

#include "shm/spsc_ring.h"

enum control_kind {
    CONTROL_FREE = 1, /* the value whose memory begins at `value` of segment `segment` has no reader left */
    CONTROL_EVICT,    /* drop what operators keep under key `value`, then send EVICTED */
    CONTROL_CHUNK,    /* chunk number `value` is granted (of segment `segment`), or one of the words below */
    CONTROL_UNWANTED, /* the result of grain `segment`, dispatch number `value`, is not wanted any more: it may stop
                         early */
    CONTROL_RETURN,   /* give chunks that are not in use back until `value` are left, then say CHUNK with NO_CHUNK */
    CONTROL_STOP,     /* end after the rows at hand: nothing more is claimed */
    CONTROL_KINDS,
};

#define CONTROL_NO_CHUNK UINT64_MAX    /* no more: the row's own size is beyond the budget */
#define CONTROL_YIELD (UINT64_MAX - 1) /* no more now: the row at hand goes back, as if it had not been started */

struct control {
    enum control_kind kind;
    uint32_t segment;
    uint64_t value;
};

/* Shard: write and commit one order. -EAGAIN: no room now; -EBADMSG: the worker's read index is nonsense. */
int control_write(struct spsc_writer *writer, const struct control *order);

/* Worker: the next order, released at once. -EAGAIN: none; -EBADMSG: the ring is damaged, exit. */
int control_read(struct spsc_reader *reader, struct control *ret_order);

#endif
