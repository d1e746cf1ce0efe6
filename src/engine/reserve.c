/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room for what a row will make is reserved before the row is offered: its operator's estimate, or what it was found to
 * need when it had to give way. A row for which there is no room waits in its queue; but when nothing is out, one
 * always goes, whatever it needs: then it is alone, and what it cannot get then it could never get.
 */
#include "engine/shard.h"

enum { DEFAULT_BYTES = 64 << 10, CALL_INPUTS_MAX = 64 };

static uint64_t grain_key(struct grain grain)
{
    return (uint64_t)grain.call << 32 | grain.entity;
}

/* An estimate may look at kinds, numbers and lengths: there are no bytes here for it to trip over. */
static void outline(const struct shard *shard, struct grain grain, uint32_t index, struct sheaf_value *ret_value)
{
    struct lineage_value value;
    *ret_value = (struct sheaf_value){.kind = SHEAF_NONE};
    if (lineage_input(shard->lineage, grain, index, &value) < 0)
        return;
    if (value.is_list) {
        ret_value->kind = shard->plan->ports[value.list.port].kind;
        ret_value->length_bytes = lineage_list_count(shard->lineage, value.list);
        return;
    }
    ret_value->kind = value.value.kind;
    ret_value->length_bytes = value.value.length;
    if (value.value.segment == VALUE_INLINE)
        ret_value->i64 = (int64_t)value.value.offset;
}

uint64_t reserve_estimate(const struct shard *shard, struct grain grain)
{
    const struct plan_call *call = &shard->plan->calls[grain.call];
    struct sheaf_value inputs[CALL_INPUTS_MAX];
    uint32_t found = keymap_get(&shard->found_needs, grain_key(grain)); /* in chunks */
    if (found != KEYMAP_NONE)
        return (uint64_t)found * PAYLOAD_CHUNK_BYTES;
    if (!call->op->estimate || call->input_count > CALL_INPUTS_MAX)
        return DEFAULT_BYTES;
    for (uint32_t i = 0; i < call->input_count; i++)
        outline(shard, grain, i, &inputs[i]);
    return call->op->estimate(call->options, inputs, call->input_count);
}

/* Only shards write these sums: with one shard no other thread does, and an instruction that locks the line costs more
 * than all else here. */
static uint64_t add(const struct shard *shard, _Atomic uint64_t *sum, uint64_t by)
{
    if (shard->run->shard_count > 1)
        return atomic_fetch_add_explicit(sum, by, memory_order_relaxed);
    uint64_t before = atomic_load_explicit(sum, memory_order_relaxed);
    atomic_store_explicit(sum, before + by, memory_order_relaxed);
    return before;
}

static void subtract(const struct shard *shard, _Atomic uint64_t *sum, uint64_t by)
{
    add(shard, sum, -by);
}

bool reserve_take(struct shard *shard, struct grain grain, uint64_t bytes, bool at_once, struct reservation *ret_taken)
{
    struct sheaf_run *run = shard->run;
    uint64_t most = run->budget.payload_bytes - run->budget.source_bytes;
    uint64_t before = add(shard, &run->reserved_bytes, bytes);
    uint64_t values = payload_value_bytes(run->payload);
    bool fits = values <= most && before <= most - values && bytes <= most - values - before;
    bool alone = !fits && atomic_load_explicit(&run->rows_out, memory_order_relaxed) == 0;
    if (!fits && !alone && !at_once) {
        subtract(shard, &run->reserved_bytes, bytes);
        atomic_store_explicit(&shard->waits_for_room, true, memory_order_relaxed);
        return false;
    }
    bool gave_way = alone && keymap_get(&shard->found_needs, grain_key(grain)) != KEYMAP_NONE;
    *ret_taken = (struct reservation){.bytes = bytes, .alone = gave_way};
    add(shard, &run->rows_out, 1);
    if (gave_way)
        add(shard, &run->rows_alone, 1);
    return true;
}

void reserve_end(struct shard *shard, const struct reservation *taken)
{
    struct sheaf_run *run = shard->run;
    subtract(shard, &run->reserved_bytes, taken->bytes);
    if (taken->alone)
        subtract(shard, &run->rows_alone, 1);
    subtract(shard, &run->rows_out, 1);
    for (uint32_t i = 0; i < run->shard_count; i++) { /* our own looks again by itself */
        if (i != shard->number &&
            atomic_exchange_explicit(&run->shards[i]->waits_for_room, false, memory_order_relaxed))
            event_count_bump(run->shards[i]->board.shard_events);
    }
}

bool reserve_gave_way(struct shard *shard, uint32_t worker, struct grain grain)
{
    uint64_t bytes = atomic_exchange_explicit(&shard->run->workers[worker].yielded_bytes, 0, memory_order_relaxed);
    if (bytes > 0) /* a hint: without it the row only tries again sooner than it should */
        (void)keymap_set(&shard->found_needs, grain_key(grain), (uint32_t)(bytes / PAYLOAD_CHUNK_BYTES));
    return bytes > 0;
}

void reserve_over(struct shard *shard, uint32_t worker, struct grain grain)
{
    atomic_store_explicit(&shard->run->workers[worker].yielded_bytes, 0, memory_order_relaxed);
    if (shard->found_needs.count > 0)
        keymap_remove(&shard->found_needs, grain_key(grain));
}

/* Rows that a worker has claimed, running or not. */
static uint32_t rows_at(const struct sheaf_run *run, uint32_t worker)
{
    const struct claim_page *page = &run->workers[worker].lane.claims;
    uint32_t rows = 0;
    for (uint32_t i = 0; i < page->row_count; i++)
        rows += claim_page_read(page, i).state != CLAIM_FREE;
    return rows;
}

bool reserve_may_give_way(const struct sheaf_run *run, uint32_t worker)
{
    if (atomic_load_explicit(&run->rows_alone, memory_order_relaxed) > 0)
        return false;
    if (atomic_load_explicit(&run->rows_out, memory_order_relaxed) > rows_at(run, worker))
        return true;
    for (uint32_t i = 0; i < run->shard_count; i++) {
        if (atomic_load_explicit(&run->shards[i]->rows_queued, memory_order_relaxed) > 0)
            return true;
    }
    return false;
}
