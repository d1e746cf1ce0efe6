/* SPDX-License-Identifier: Apache-2.0 */
/* Inside payload.c, payload_chunks.c, payload_runs.c and payload_stray.c. */
#ifndef SRC_ENGINE_PAYLOAD_INTERNAL_H
#define SRC_ENGINE_PAYLOAD_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/payload.h"

enum { PAGE_BYTES = 4096, PAGES_PER_CHUNK = PAYLOAD_CHUNK_BYTES / PAGE_BYTES, PAGES_PER_WORD = 64 };
enum { WORDS_PER_CHUNK = PAGES_PER_CHUNK / PAGES_PER_WORD };

struct payload_segment {
    struct segment memory;
    int read_only;
    uint32_t chunk_count;
    _Atomic uint32_t reach; /* chunks from here on were never real; grows under the lock */
    uint32_t real_count;    /* under the lock, as the next */
    uint32_t stale_count;   /* of them, with values of a dead process */
    _Atomic uint8_t *real;  /* per chunk, written under the lock: it is memory */
    _Atomic uint32_t *live; /* per chunk: values that touch it (worker segments) */
    _Atomic uint8_t *stale; /* per chunk, written under the lock: holds values of a dead process */
    bool leased;            /* under the lock */
    bool occupied;          /* the process that leases it is there; under the lock */
    uint64_t *free_pages;   /* shard segments, under the lock: a bit per page that is real and not in use */
    uint64_t page_hint;     /* where the last search ended */
};

struct payload {
    pthread_mutex_t lock;
    uint32_t shard_count, worker_count;
    uint32_t segment_count;           /* shards, workers, and the spill */
    struct payload_segment *segments; /* [number - 1] */
    int bind_status;
    bool keeps_real;
    uint64_t limit_bytes; /* UINT64_MAX: none */
    _Atomic uint64_t bytes, bytes_peak, shard_bytes, live_chunks;
};

struct payload_segment *payload_segment_of(const struct payload *payload, uint16_t number);

/* payload_chunks.c; under the lock. */
/* The first run of at most `most` chunks that are not real; returns its length, 0: all are. */
uint32_t payload_unreal_run(const struct payload_segment *segment, uint32_t from, uint32_t most, uint32_t *ret_first);
/* Makes a run of chunks real. False: over the limit, or the system has no memory. */
bool payload_make_real(struct payload *payload, struct payload_segment *segment, uint32_t first, uint32_t count);
void payload_make_unreal(struct payload *payload, struct payload_segment *segment, uint32_t chunk);

/* payload_runs.c; under the lock: chunks of shard segments without a page in use go back to the system. Returns how
 * many did. */
uint32_t payload_trim_runs(struct payload *payload);

/* Whether a chunk is memory. Exact under the lock; without it, for chunks that whoever asks was told of. */
static inline bool chunk_is_real(const struct payload_segment *segment, uint64_t chunk)
{
    return atomic_load_explicit(&segment->real[chunk], memory_order_relaxed);
}

#endif
