/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A byte ring of variable-size records from one process to one other.
 *
 * A record is a header (length, kind) and a payload, 8-byte aligned and never split: what does not fit before the end
 * of the ring starts at its beginning, after a filler. Reserved records become visible together, by one release store
 * of the write index at commit; a writer that dies before it leaves nothing behind. Neither side trusts the other's
 * index or bytes: each keeps its own position privately and checks what it reads; nonsense is -EBADMSG and the ring
 * then stays unusable.
 *
 * The three parts (write index, read index, data) are placed by the caller, so that a side can be given only a
 * read-only mapping of what it must not write. One thread writes, one thread reads. Waiting is not in here: see
 * event_count.h.
 */
#ifndef SHM_SPSC_RING_H
#define SHM_SPSC_RING_H

#include <stddef.h>

#include "shm/atomic.h"

#define SPSC_RING_BYTES_MIN 1024u
#define SPSC_RING_BYTES_MAX (1u << 30)

struct spsc_header {
    uint32_t length_bytes; /* of the payload, as the writer gave it */
    uint32_t kind;         /* 1 and up; 0 is the filler */
};
static_assert(sizeof(struct spsc_header) == 8, "part of the shared layout");

/* Where a ring lies in this process. Indices count bytes since the ring was made and never wrap in practice. */
struct spsc_ring {
    shared_u64 *write_index; /* stored by the writer */
    shared_u64 *read_index;  /* stored by the reader */
    unsigned char *data;     /* 8-byte aligned */
    uint32_t capacity_bytes; /* a power of two, SPSC_RING_BYTES_MIN and up */
};

struct spsc_writer {
    struct spsc_ring ring;
    uint64_t reserved;  /* end of what was reserved */
    uint64_t committed; /* end of what is visible */
    uint64_t read_seen; /* the reader's index when last looked at */
};

struct spsc_reader {
    struct spsc_ring ring;
    uint64_t position;   /* of the next record */
    uint64_t released;   /* what the writer may use again up to */
    uint64_t write_seen; /* the writer's index when last looked at */
    bool broken;
};

/* The longest payload that a ring of that capacity always takes in the end. */
static inline uint32_t spsc_payload_max(uint32_t capacity_bytes)
{
    return capacity_bytes / 2 - (uint32_t)sizeof(struct spsc_header);
}

/* Start a side over zeroed memory, or take over where the memory stands (a replacement of a dead side starts both
 * anew). */
void spsc_writer_open(struct spsc_writer *writer, const struct spsc_ring *ring);
void spsc_reader_open(struct spsc_reader *reader, const struct spsc_ring *ring);

/* Empty the ring for a new pair of sides. Nobody else may have it mapped in use. */
void spsc_ring_reset(const struct spsc_ring *ring);

/*
 * Room for one more record; fill *ret_payload (8-byte aligned) before the commit. -EAGAIN: no room now; -EMSGSIZE:
 * never; -EBADMSG: the read index is nonsense.
 */
int spsc_reserve(struct spsc_writer *writer, uint32_t kind, uint32_t length_bytes, void **ret_payload);

/* Forget what was reserved since the last commit. */
void spsc_abandon(struct spsc_writer *writer);

/* Make everything reserved visible at once. */
void spsc_commit(struct spsc_writer *writer);

/*
 * The next record, which stays in place until spsc_release. 0; -EAGAIN: none; -EBADMSG: no record of ours stands there.
 * The payload is memory the writer can still change: copy it, then check the copy.
 */
int spsc_next(struct spsc_reader *reader, struct spsc_header *ret_header, const void **ret_payload);

/* Whether there is a record or a broken ring to look at: the look before parking. */
bool spsc_pending(struct spsc_reader *reader);

/*
 * Where the payload of a record lies that comes `records` after the next, if all of these have payloads of
 * `length_bytes`. NULL: not yet committed when the writer's index was last looked at. A hint: they may be of other
 * lengths, and what stands there may be no record. Good for fetching what will be read soon.
 */
const void *spsc_ahead(const struct spsc_reader *reader, uint32_t length_bytes, uint32_t records);

/* Give the room of everything that was read back to the writer. Once per batch. */
void spsc_release(struct spsc_reader *reader);

#endif
