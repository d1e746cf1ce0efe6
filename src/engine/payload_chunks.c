/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks: made real, leased to the processes of a worker number, given back. */
#include <assert.h>

#include "engine/payload_internal.h"

uint32_t payload_unreal_run(const struct payload_segment *segment, uint32_t from, uint32_t most, uint32_t *ret_first)
{
    uint32_t best = 0;
    for (uint32_t chunk = from; chunk < segment->chunk_count && best < most;) {
        if (chunk_is_real(segment, chunk)) {
            chunk++;
            continue;
        }
        uint32_t first = chunk;
        while (chunk < segment->chunk_count && chunk - first < most && !chunk_is_real(segment, chunk))
            chunk++;
        if (chunk - first > best) {
            best = chunk - first;
            *ret_first = first;
        }
    }
    return best;
}

static bool within_limit(const struct payload *payload, uint64_t more)
{
    uint64_t bytes = atomic_load_explicit(&payload->bytes, memory_order_relaxed);
    return more <= payload->limit_bytes && bytes <= payload->limit_bytes - more;
}

static void commit_huge(struct payload_segment *segment, uint64_t offset, uint64_t bytes, int *ret_status)
{
    /* Huge pages first: they are cleared where they stand. Made of small ones they would be cleared and then copied.
     * Where memory is short, committing decides. */
    bool huge_first = bytes <= segment_memory_available() / 2;
    if (huge_first)
        segment_advise_huge(&segment->memory, offset, bytes);
    *ret_status = segment_commit(&segment->memory, offset, bytes);
    if (*ret_status == 0 && !huge_first)
        segment_advise_huge(&segment->memory, offset, bytes);
}

bool payload_make_real(struct payload *payload, struct payload_segment *segment, uint32_t first, uint32_t count)
{
    uint64_t offset = first * PAYLOAD_CHUNK_BYTES, bytes = count * PAYLOAD_CHUNK_BYTES;
    if (!within_limit(payload, bytes))
        return false;
    int status;
    commit_huge(segment, offset, bytes, &status);
    if (status < 0) {
        (void)segment_decommit(&segment->memory, offset, bytes); /* what huge pages took before */
        return false;
    }
    for (uint32_t chunk = first; chunk < first + count; chunk++) {
        assert(!chunk_is_real(segment, chunk));
        atomic_store_explicit(&segment->real[chunk], 1, memory_order_relaxed);
    }
    segment->real_count += count;
    if (first + count > atomic_load_explicit(&segment->reach, memory_order_relaxed))
        atomic_store_explicit(&segment->reach, first + count, memory_order_relaxed);
    uint64_t total = atomic_fetch_add_explicit(&payload->bytes, bytes, memory_order_relaxed) + bytes;
    if (total > atomic_load_explicit(&payload->bytes_peak, memory_order_relaxed))
        atomic_store_explicit(&payload->bytes_peak, total, memory_order_relaxed);
    return true;
}

void payload_make_unreal(struct payload *payload, struct payload_segment *segment, uint32_t chunk)
{
    assert(chunk_is_real(segment, chunk));
    if (payload->keeps_real || segment_decommit(&segment->memory, chunk * PAYLOAD_CHUNK_BYTES, PAYLOAD_CHUNK_BYTES) < 0)
        return; /* then it stays, and is counted */
    atomic_store_explicit(&segment->real[chunk], 0, memory_order_relaxed);
    segment->real_count--;
    atomic_fetch_sub_explicit(&payload->bytes, PAYLOAD_CHUNK_BYTES, memory_order_relaxed);
}

static bool make_or_trim(struct payload *payload, struct payload_segment *segment, uint32_t first, uint32_t count)
{
    return payload_make_real(payload, segment, first, count) ||
           (payload_trim_runs(payload) > 0 && payload_make_real(payload, segment, first, count));
}

void payload_real_by_kind(struct payload *payload, uint64_t *ret_shards, uint64_t *ret_workers)
{
    uint64_t chunks[2] = {0, 0};
    pthread_mutex_lock(&payload->lock);
    for (uint32_t i = 0; i < payload->shard_count + payload->worker_count; i++)
        chunks[i >= payload->shard_count] += payload->segments[i].real_count;
    pthread_mutex_unlock(&payload->lock);
    *ret_shards = chunks[0] * PAYLOAD_CHUNK_BYTES;
    *ret_workers = chunks[1] * PAYLOAD_CHUNK_BYTES;
}

bool payload_has_room(struct payload *payload, uint64_t bytes)
{
    pthread_mutex_lock(&payload->lock);
    bool room = within_limit(payload, bytes) || (payload_trim_runs(payload) > 0 && within_limit(payload, bytes));
    pthread_mutex_unlock(&payload->lock);
    return room;
}

uint32_t payload_back(struct payload *payload, uint32_t worker, uint32_t chunks)
{
    struct payload_segment *segment = payload_segment_of(payload, payload_worker_segment(payload, worker));
    uint32_t first, run;
    pthread_mutex_lock(&payload->lock);
    while (segment->real_count < chunks) {
        run = payload_unreal_run(segment, 0, chunks - segment->real_count, &first);
        if (run == 0 || !make_or_trim(payload, segment, first, run))
            break;
    }
    uint32_t real = segment->real_count;
    pthread_mutex_unlock(&payload->lock);
    return real;
}

uint32_t payload_grow(struct payload *payload, uint32_t worker, uint32_t most, uint32_t *ret_first)
{
    struct payload_segment *segment = payload_segment_of(payload, payload_worker_segment(payload, worker));
    pthread_mutex_lock(&payload->lock);
    uint32_t run = payload_unreal_run(segment, 0, most, ret_first);
    if (run > 0 && !make_or_trim(payload, segment, *ret_first, run))
        run = 0;
    pthread_mutex_unlock(&payload->lock);
    return run;
}

bool payload_keeps_real(const struct payload *payload)
{
    return payload->keeps_real;
}

uint32_t payload_leased(struct payload *payload, uint32_t worker)
{
    struct payload_segment *segment = payload_segment_of(payload, payload_worker_segment(payload, worker));
    pthread_mutex_lock(&payload->lock);
    uint32_t leased = segment->real_count - segment->stale_count;
    pthread_mutex_unlock(&payload->lock);
    return leased;
}

const void *payload_real_at(const struct payload *payload, uint32_t worker, uint64_t offset, uint64_t bytes)
{
    const struct payload_segment *segment = payload_segment_of(payload, payload_worker_segment(payload, worker));
    const void *memory = segment_at(&segment->memory, offset, bytes);
    for (uint64_t at = offset / PAYLOAD_CHUNK_BYTES; memory && at * PAYLOAD_CHUNK_BYTES < offset + bytes; at++) {
        if (!chunk_is_real(segment, (uint32_t)at))
            return NULL;
    }
    return memory;
}

bool payload_give_back(struct payload *payload, uint32_t worker, uint64_t chunk)
{
    struct payload_segment *segment = payload_segment_of(payload, payload_worker_segment(payload, worker));
    pthread_mutex_lock(&payload->lock);
    bool ours = chunk < segment->chunk_count && chunk_is_real(segment, (uint32_t)chunk) && segment->leased &&
                !atomic_load_explicit(&segment->stale[chunk], memory_order_relaxed) &&
                atomic_load_explicit(&segment->live[chunk], memory_order_relaxed) == 0;
    if (ours)
        payload_make_unreal(payload, segment, (uint32_t)chunk);
    pthread_mutex_unlock(&payload->lock);
    return ours;
}

uint32_t payload_lease(struct payload *payload, uint32_t worker, uint32_t *ret_chunks, uint32_t capacity)
{
    struct payload_segment *segment = payload_segment_of(payload, payload_worker_segment(payload, worker));
    uint32_t count = 0;
    pthread_mutex_lock(&payload->lock);
    assert(!segment->leased);
    segment->leased = segment->occupied = true;
    uint32_t reach = atomic_load_explicit(&segment->reach, memory_order_relaxed);
    for (uint32_t chunk = 0; chunk < reach && count < capacity; chunk++) {
        if (chunk_is_real(segment, chunk) && !segment->stale[chunk])
            ret_chunks[count++] = chunk;
    }
    pthread_mutex_unlock(&payload->lock);
    return count;
}

void payload_orphan(struct payload *payload, uint32_t worker)
{
    struct payload_segment *segment = payload_segment_of(payload, payload_worker_segment(payload, worker));
    pthread_mutex_lock(&payload->lock);
    segment->occupied = false;
    pthread_mutex_unlock(&payload->lock);
}

void payload_end_lease(struct payload *payload, uint32_t worker, uint32_t keep)
{
    struct payload_segment *segment = payload_segment_of(payload, payload_worker_segment(payload, worker));
    pthread_mutex_lock(&payload->lock);
    segment->leased = segment->occupied = false;
    uint32_t reach = atomic_load_explicit(&segment->reach, memory_order_relaxed), kept = 0;
    for (uint32_t chunk = 0; chunk < reach; chunk++) {
        if (!chunk_is_real(segment, chunk))
            continue;
        /* Marked before it is looked at: a value that goes meanwhile is seen here, or sees the mark. */
        segment->stale_count += !segment->stale[chunk];
        atomic_store_explicit(&segment->stale[chunk], 1, memory_order_seq_cst);
        if (atomic_load_explicit(&segment->live[chunk], memory_order_seq_cst) != 0)
            continue;
        segment->stale_count--;
        atomic_store_explicit(&segment->stale[chunk], 0, memory_order_seq_cst);
        if (++kept > keep && !payload->keeps_real)
            payload_make_unreal(payload, segment, chunk);
    }
    pthread_mutex_unlock(&payload->lock);
}
