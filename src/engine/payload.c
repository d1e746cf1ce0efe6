/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/payload_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct payload_segment *payload_segment_of(const struct payload *payload, uint16_t number)
{
    assert(number >= 1 && number <= payload->segment_count);
    return &payload->segments[number - 1];
}

/* Segment `index` counts shards first, then workers. */
static void write_label(uint32_t shard_count, uint32_t index, char ret_label[PAYLOAD_LABEL_BYTES])
{
    bool of_shard = index < shard_count;
    snprintf(ret_label, PAYLOAD_LABEL_BYTES, of_shard ? "sheaf-shard-%u" : "sheaf-worker-%u",
             of_shard ? index : index - shard_count);
}

void payload_label(const struct payload *payload, uint16_t number, char ret_label[PAYLOAD_LABEL_BYTES])
{
    write_label(payload->shard_count, number - 1u, ret_label);
}

/* `ret_bind`: whether it could be put on its node. */
static int segment_open(struct payload_segment *segment, const struct payload_options *options, uint32_t index,
                        int *ret_bind)
{
    bool of_shard = index < options->shard_count;
    char label[PAYLOAD_LABEL_BYTES];
    write_label(options->shard_count, index, label);
    segment->chunk_count = (uint32_t)((options->segment_bytes + PAYLOAD_CHUNK_BYTES - 1) / PAYLOAD_CHUNK_BYTES);
    segment->read_only = -1;
    segment->memory = (struct segment)SEGMENT_NONE;
    int result = segment_create(label, segment->chunk_count * PAYLOAD_CHUNK_BYTES, &segment->memory);
    if (result < 0)
        return result;
    *ret_bind = segment_bind(&segment->memory, options->nodes ? options->nodes[index] : SEGMENT_ANY_NODE);
    result = segment_open_read_only(&segment->memory, &segment->read_only);
    if (result < 0)
        return result;
    segment->real = calloc(segment->chunk_count, sizeof *segment->real);
    if (!segment->real)
        return -ENOMEM;
    if (of_shard) {
        segment->free_pages = calloc((size_t)segment->chunk_count * WORDS_PER_CHUNK, sizeof(uint64_t));
        return segment->free_pages ? 0 : -ENOMEM;
    }
    segment->live = calloc(segment->chunk_count, sizeof *segment->live);
    segment->stale = calloc(segment->chunk_count, 1);
    return segment->live && segment->stale ? 0 : -ENOMEM;
}

int payload_create(const struct payload_options *options, struct payload **ret_payload)
{
    uint64_t count = (uint64_t)options->shard_count + options->worker_count, all = count + (options->spill != NULL);
    if (count == 0 || all > PAYLOAD_SEGMENTS_MAX || options->segment_bytes == 0)
        return -EINVAL;
    struct payload *payload = calloc(1, sizeof *payload);
    if (!payload)
        return -ENOMEM;
    pthread_mutex_init(&payload->lock, NULL);
    payload->segments = calloc(all, sizeof *payload->segments);
    payload->shard_count = options->shard_count;
    payload->worker_count = options->worker_count;
    payload->keeps_real = options->keeps_real;
    payload->limit_bytes = options->limit_bytes ? options->limit_bytes : UINT64_MAX;
    int result = payload->segments ? 0 : -ENOMEM;
    while (result == 0 && payload->segment_count < count) {
        uint32_t index = payload->segment_count++;
        int bound = 0;
        result = segment_open(&payload->segments[index], options, index, &bound);
        if (bound < 0)
            payload->bind_status = bound;
    }
    if (result < 0) {
        payload_destroy(payload);
        return result;
    }
    if (options->spill)
        payload->segments[payload->segment_count++] =
            (struct payload_segment){.memory = *options->spill, .read_only = options->spill_read_only};
    *ret_payload = payload;
    return 0;
}

int payload_bind_status(const struct payload *payload)
{
    return payload->bind_status;
}

void payload_destroy(struct payload *payload)
{
    if (!payload)
        return;
    uint32_t own = payload->segment_count - (payload_spill_segment(payload) != 0);
    for (uint32_t i = 0; payload->segments && i < own; i++) {
        struct payload_segment *segment = &payload->segments[i];
        if (segment->read_only >= 0)
            close(segment->read_only);
        segment_release(&segment->memory);
        free(segment->real);
        free(segment->live);
        free(segment->stale);
        free(segment->free_pages);
    }
    free(payload->segments);
    pthread_mutex_destroy(&payload->lock);
    free(payload);
}

uint32_t payload_segment_count(const struct payload *payload)
{
    return payload->segment_count;
}

uint16_t payload_shard_segment(const struct payload *payload, uint32_t shard)
{
    assert(shard < payload->shard_count);
    return (uint16_t)(1 + shard);
}

uint16_t payload_worker_segment(const struct payload *payload, uint32_t worker)
{
    assert(worker < payload->worker_count);
    return (uint16_t)(1 + payload->shard_count + worker);
}

uint16_t payload_spill_segment(const struct payload *payload)
{
    uint32_t own = payload->shard_count + payload->worker_count;
    return payload->segment_count > own ? (uint16_t)payload->segment_count : 0;
}

const struct segment *payload_segment(const struct payload *payload, uint16_t number)
{
    return &payload_segment_of(payload, number)->memory;
}

int payload_read_only(const struct payload *payload, uint16_t number)
{
    return payload_segment_of(payload, number)->read_only;
}

uint64_t payload_real_bytes(const struct payload *payload)
{
    return atomic_load_explicit(&payload->bytes, memory_order_relaxed);
}

uint64_t payload_real_bytes_peak(const struct payload *payload)
{
    return atomic_load_explicit(&payload->bytes_peak, memory_order_relaxed);
}

uint64_t payload_shard_bytes(const struct payload *payload)
{
    return atomic_load_explicit(&payload->shard_bytes, memory_order_relaxed);
}

uint64_t payload_value_bytes(const struct payload *payload)
{
    return atomic_load_explicit(&payload->live_chunks, memory_order_relaxed) * PAYLOAD_CHUNK_BYTES;
}

uint64_t payload_live_values(const struct payload *payload)
{
    uint64_t live = 0;
    for (uint32_t i = payload->shard_count; i < payload->shard_count + payload->worker_count; i++) {
        const struct payload_segment *segment = &payload->segments[i];
        uint32_t reach = atomic_load_explicit(&segment->reach, memory_order_relaxed);
        for (uint32_t chunk = 0; chunk < reach; chunk++)
            live += atomic_load_explicit(&segment->live[chunk], memory_order_relaxed);
    }
    return live;
}

/* ---- values ---- */

/* [start, start + bytes) of a reference in its segment, or false when it does not lie inside. The bytes of a list are
 * those of its header: the rest is checked as it is read. */
static bool ref_range(const struct payload *payload, const struct value_ref *ref, uint64_t *ret_start,
                      uint64_t *ret_bytes)
{
    if (ref->segment == VALUE_INLINE || ref->segment > payload->segment_count)
        return false;
    bool list = SHEAF_KIND_DEPTH(ref->kind) != 0;
    uint32_t prefix = list ? 0 : ref->prefix; /* of a list: see payload_retain */
    if (ref->offset < prefix || ref->length > UINT64_MAX - prefix)
        return false;
    *ret_start = ref->offset - prefix;
    *ret_bytes = list ? sizeof(struct list_block) : ref->length + prefix;
    return segment_at(payload_segment(payload, ref->segment), *ret_start, *ret_bytes) != NULL;
}

const void *payload_view(const struct payload *payload, const struct value_ref *ref)
{
    uint64_t start, bytes;
    if (!ref_range(payload, ref, &start, &bytes))
        return NULL;
    return (const char *)payload_segment(payload, ref->segment)->base + ref->offset;
}

static uint32_t chunk_at(uint64_t offset)
{
    return (uint32_t)(offset / PAYLOAD_CHUNK_BYTES);
}

/* The chunks an accepted reference touches. */
static void chunks_of(const struct value_ref *ref, uint32_t *ret_first, uint32_t *ret_last)
{
    bool list = SHEAF_KIND_DEPTH(ref->kind) != 0;
    uint64_t start = ref->offset - (list ? 0 : ref->prefix);
    *ret_first = chunk_at(start);
    *ret_last = list ? *ret_first + ref->prefix : chunk_at(ref->offset + (ref->length ? ref->length - 1 : 0));
}

int payload_retain(struct payload *payload, struct value_ref *ref)
{
    if (ref->segment == VALUE_INLINE)
        return 0;
    uint64_t start, bytes;
    if (ref->segment <= payload->shard_count || ref->segment == payload_spill_segment(payload) ||
        !ref_range(payload, ref, &start, &bytes))
        return -ERANGE;
    struct payload_segment *segment = payload_segment_of(payload, ref->segment);
    if (SHEAF_KIND_DEPTH(ref->kind) != 0) {
        const struct list_block *block = segment_at(&segment->memory, ref->offset, sizeof *block);
        uint64_t block_bytes = block->bytes;
        if (block_bytes < sizeof *block || !segment_at(&segment->memory, ref->offset, block_bytes))
            return -ERANGE;
        if (ref->offset % _Alignof(struct list_block) != 0)
            return -ERANGE;
        uint32_t beyond = chunk_at(ref->offset + block_bytes - 1) - chunk_at(ref->offset);
        if (beyond > UINT16_MAX)
            return -ERANGE;
        ref->prefix = (uint16_t)beyond;
    }
    uint32_t first, last;
    chunks_of(ref, &first, &last);
    for (uint32_t chunk = first; chunk <= last; chunk++) {
        if (!chunk_is_real(segment, chunk))
            return -ERANGE;
    }
    for (uint32_t chunk = first; chunk <= last; chunk++) {
        if (atomic_fetch_add_explicit(&segment->live[chunk], 1, memory_order_relaxed) == 0)
            atomic_fetch_add_explicit(&payload->live_chunks, 1, memory_order_relaxed);
    }
    return 0;
}

/* The last value of a chunk left by a dead process is gone: true when the chunk goes to a process that is there now. */
static bool chunk_freed(struct payload *payload, struct payload_segment *segment, uint32_t chunk)
{
    bool handed_on = false;
    pthread_mutex_lock(&payload->lock);
    if (segment->stale[chunk] && atomic_load_explicit(&segment->live[chunk], memory_order_relaxed) == 0) {
        segment->stale[chunk] = 0;
        segment->stale_count--;
        handed_on = segment->occupied;
    }
    pthread_mutex_unlock(&payload->lock);
    return handed_on;
}

enum payload_gone payload_release(struct payload *payload, const struct value_ref *ref,
                                  void (*freed)(void *cookie, uint32_t chunk), void *cookie)
{
    assert(ref->segment > payload->shard_count);
    struct payload_segment *segment = payload_segment_of(payload, ref->segment);
    enum payload_gone gone = PAYLOAD_OWNER_FREES;
    uint32_t first, last;
    chunks_of(ref, &first, &last);
    for (uint32_t chunk = first; chunk <= last; chunk++) {
        /* Total order, partner: payload_end_lease. Either it sees that this was the last value, or we see `stale`. */
        uint32_t before = atomic_fetch_sub_explicit(&segment->live[chunk], 1, memory_order_seq_cst);
        assert(before > 0);
        if (before == 1)
            atomic_fetch_sub_explicit(&payload->live_chunks, 1, memory_order_relaxed);
        if (!atomic_load_explicit(&segment->stale[chunk], memory_order_seq_cst))
            continue;
        gone = PAYLOAD_FREED;
        if (before == 1 && chunk_freed(payload, segment, chunk))
            freed(cookie, chunk);
    }
    return gone;
}

bool payload_is_stale(const struct payload *payload, const struct value_ref *ref)
{
    uint32_t first, last;
    chunks_of(ref, &first, &last);
    return atomic_load_explicit(&payload_segment_of(payload, ref->segment)->stale[first], memory_order_relaxed) != 0;
}
