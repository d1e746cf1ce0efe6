/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payload memory: where values lie, and who may write where.
 *
 * Four files: payload.c (segments, values), payload_chunks.c, payload_runs.c, payload_stray.c.
 *
 * There is one segment per shard (sources read by the engine, list blocks, overflow of descriptors) and one per worker
 * number (what its operators produce). Each is one memfd for life, sparse and as large as the budget; it is made real
 * chunk by chunk (2 MiB), backed by huge pages where the system has them. What is real in all segments together never
 * exceeds `limit_bytes`; below that it stays real, since touching memory anew costs more than using it. At the limit,
 * shards give back what they do not use at once, and workers when they are asked to (grant.c). A worker number's
 * successor leases the same segment, so nothing is mapped or registered anew anywhere when a worker dies.
 * Segment numbers, which value references use: shard s has 1 + s, worker w has 1 + shards + w.
 *
 * (One segment per writer rather than one memfd per 64 MiB: every process maps every segment once, when it starts, and
 * no descriptor travels later.)
 *
 * Each chunk counts the live values that touch it. When a worker dies, chunks without a live value are free for its
 * successor at once, the others when their last value goes. A worker allocates inside its chunks by itself.
 *
 * Threads: any thread of the engine may call anything here.
 */
#ifndef SRC_ENGINE_PAYLOAD_H
#define SRC_ENGINE_PAYLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sheaf/value.h>

#include "shm/segment.h"
#include "shm/value_ref.h"

#define PAYLOAD_CHUNK_BYTES (UINT64_C(2) << 20)
#define PAYLOAD_SEGMENTS_MAX UINT16_MAX

struct payload;

struct payload_options {
    uint32_t shard_count;
    uint32_t worker_count;
    uint64_t segment_bytes; /* virtual size of each segment; rounded up to chunks */
    uint64_t limit_bytes;   /* most that is ever real in all of them together; 0: not limited */
    bool
        keeps_real; /* what is real stays so: devices may have pinned it, and would read pages that are none any more */
    const struct segment *spill; /* one more segment, of others, for reading; NULL: there is none */
    int spill_read_only;
    const int *nodes; /* NUMA node of each segment, shards first, or SEGMENT_ANY_NODE; NULL: any for all */
};

int payload_create(const struct payload_options *options, struct payload **ret_payload);
void payload_destroy(struct payload *payload);
/* 0, or why segments could not be bound to their nodes: a negative errno. */
int payload_bind_status(const struct payload *payload);

uint32_t payload_segment_count(const struct payload *payload); /* segments are numbered 1..count */
uint16_t payload_shard_segment(const struct payload *payload, uint32_t shard);
uint16_t payload_worker_segment(const struct payload *payload, uint32_t worker);
uint16_t payload_spill_segment(const struct payload *payload); /* the last, or 0 */
const struct segment *payload_segment(const struct payload *payload, uint16_t number);
/* A read-only descriptor of a segment, the payload's own. */
int payload_read_only(const struct payload *payload, uint16_t number);

/* Bytes that are real now, in all segments, and the most there ever were. */
uint64_t payload_real_bytes(const struct payload *payload);
uint64_t payload_real_bytes_peak(const struct payload *payload);
/* Of shards, and of workers. */
void payload_real_by_kind(struct payload *payload, uint64_t *ret_shards, uint64_t *ret_workers);
/* Bytes of live values in shard segments (page runs in use). */
uint64_t payload_shard_bytes(const struct payload *payload);
/* Of chunks of workers that hold a value. */
uint64_t payload_value_bytes(const struct payload *payload);
/* Sum over the chunks of workers of the live values that touch each: nothing once all values are gone. */
uint64_t payload_live_values(const struct payload *payload);

/* ---- values ---- */

/* The data of a reference, or NULL when any of it (prefix included) lies outside. Inline values have none. */
const void *payload_view(const struct payload *payload, const struct value_ref *ref);

/* A value in a worker's segment is accepted: its chunks stay until the matching payload_release. -ERANGE: some of it
 * lies elsewhere. A list's `prefix` is set to the number of chunks it reaches beyond its first: what is counted here
 * must not depend on memory that the worker can change later. */
int payload_retain(struct payload *payload, struct value_ref *ref);

enum payload_gone {
    PAYLOAD_OWNER_FREES, /* tell the worker: its allocator still has the value */
    PAYLOAD_FREED,       /* its process is dead: nobody needs to be told */
};
/* The value is gone. `freed` is called for each chunk of a dead process that this makes free for the one that leases
 * the segment now: tell it. While nobody leases it, the next lease finds such chunks by itself. */
enum payload_gone payload_release(struct payload *payload, const struct value_ref *ref,
                                  void (*freed)(void *cookie, uint32_t chunk), void *cookie);

/* Whether a process that is dead made it. */
bool payload_is_stale(const struct payload *payload, const struct value_ref *ref);

/* ---- leases of workers ---- */

/* Whether so many bytes could be made real; what shards do not use is given back if it takes that. */
bool payload_has_room(struct payload *payload, uint64_t bytes);

/* Makes chunks of a worker's segment real until `chunks` are. Returns how many are real then: fewer when memory is
 * short. */
uint32_t payload_back(struct payload *payload, uint32_t worker, uint32_t chunks);

/* Chunks that the process there may use. */
uint32_t payload_leased(struct payload *payload, uint32_t worker);

/* Makes a run of at most `most` more chunks real, the longest there is. Returns its length; 0: there is no room. */
uint32_t payload_grow(struct payload *payload, uint32_t worker, uint32_t most, uint32_t *ret_first);

/* Bytes in chunks of a worker's segment that are real, or NULL. */
const void *payload_real_at(const struct payload *payload, uint32_t worker, uint64_t offset, uint64_t bytes);

/* The process that leases the chunk does not use it: it is no memory any more. False: it is not its to give, or some
 * value is there. */
bool payload_give_back(struct payload *payload, uint32_t worker, uint64_t chunk);

bool payload_keeps_real(const struct payload *payload);

/* A new process of this number starts: its chunks (without those that still hold a predecessor's values). Returns how
 * many of `capacity` were written. */
uint32_t payload_lease(struct payload *payload, uint32_t worker, uint32_t *ret_chunks, uint32_t capacity);

/* The process is proven dead: before any shard is told. What becomes free from then on is its successor's, who finds it
 * in its lease; handed on it would reach the successor too, even where the end of the lease has made it unreal. */
void payload_orphan(struct payload *payload, uint32_t worker);

/* The process is proven dead and every shard has taken from it what is to be taken. Of the chunks that hold no value,
 * `keep` stay real for its successor. */
void payload_end_lease(struct payload *payload, uint32_t worker, uint32_t keep);

/* ---- memory that nobody gave ---- */

enum { PAYLOAD_STRAY_MAX = 64, PAYLOAD_LABEL_BYTES = 32 };

/* Some chunks that are not real and have memory all the same. */
struct payload_stray {
    uint32_t count;
    uint32_t chunks[PAYLOAD_STRAY_MAX];
};

/* Bytes of memory that a segment has beyond what was made real there; 0: as it should be. */
uint64_t payload_find_stray(struct payload *payload, uint16_t number, struct payload_stray *ret_stray);
/* They are holes again. */
void payload_end_stray(struct payload *payload, uint16_t number);
/* As processes' maps name the segment of a shard or worker. */
void payload_label(const struct payload *payload, uint16_t number, char ret_label[PAYLOAD_LABEL_BYTES]);

/* ---- page runs in a shard's segment ---- */

/* `bytes` of memory there, page-aligned. -ENOMEM. */
int payload_run_alloc(struct payload *payload, uint32_t shard, uint64_t bytes, uint64_t *ret_offset);
/* Gives back what payload_run_alloc gave, with the same `bytes`. */
void payload_run_free(struct payload *payload, uint32_t shard, uint64_t offset, uint64_t bytes);
void *payload_shard_at(const struct payload *payload, uint32_t shard, uint64_t offset);

#endif
