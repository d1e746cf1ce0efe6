/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/classes.h"

#include <assert.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/shard.h"
#include "engine/watch.h"

enum { BLOCK_BYTES = 512 /* of st_blocks */ };

static void raise_to(_Atomic uint64_t *peak, uint64_t bytes)
{
    uint64_t before = atomic_load_explicit(peak, memory_order_relaxed);
    while (before < bytes &&
           !atomic_compare_exchange_weak_explicit(peak, &before, bytes, memory_order_relaxed, memory_order_relaxed))
        ;
}

void memory_add(struct memory_count *count, uint64_t bytes)
{
    raise_to(&count->peak, atomic_fetch_add_explicit(&count->now, bytes, memory_order_relaxed) + bytes);
}

void memory_sub(struct memory_count *count, uint64_t bytes)
{
    uint64_t before = atomic_fetch_sub_explicit(&count->now, bytes, memory_order_relaxed);
    assert(before >= bytes);
    (void)before;
}

void memory_set(struct memory_count *count, uint64_t bytes)
{
    atomic_store_explicit(&count->now, bytes, memory_order_relaxed);
    raise_to(&count->peak, bytes);
}

uint64_t memory_now(const struct memory_count *count)
{
    return atomic_load_explicit(&count->now, memory_order_relaxed);
}

uint64_t memory_peak(const struct memory_count *count)
{
    return atomic_load_explicit(&count->peak, memory_order_relaxed);
}

static void *counted_allocate(void *cookie, size_t bytes)
{
    struct counted_tables *counted = cookie;
    void *memory = tables_take(counted->tables, bytes);
    if (memory)
        memory_add(counted->count, bytes);
    return memory;
}

static void counted_release(void *cookie, void *memory, size_t bytes)
{
    struct counted_tables *counted = cookie;
    memory_sub(counted->count, bytes);
    tables_give(counted->tables, memory, bytes);
}

struct lineage_memory memory_counted(struct counted_tables *counted)
{
    return (struct lineage_memory){.cookie = counted, .allocate = counted_allocate, .release = counted_release};
}

static uint64_t blocks_of(const struct segment *segment)
{
    struct stat status;
    if (segment->descriptor < 0 || fstat(segment->descriptor, &status) < 0)
        return 0;
    return (uint64_t)status.st_blocks * BLOCK_BYTES;
}

static uint64_t ring_bytes(const struct sheaf_run *run)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < run->shard_count; i++)
        bytes += blocks_of(&run->shards[i]->board.open) + blocks_of(&run->shards[i]->board.notice);
    for (uint32_t i = 0; i < run->worker_count; i++)
        bytes += blocks_of(&run->workers[i].lane.own) + blocks_of(&run->workers[i].lane.orders_segment);
    return bytes;
}

/* Of the engine's own classes. */
static uint64_t engine_counted(const struct sheaf_run *run)
{
    uint64_t bytes = 0;
    for (enum memory_class one = MEMORY_LINEAGE; one <= MEMORY_MESSAGES; one++)
        bytes += memory_now(&run->memory.of[one]);
    return bytes;
}

void memory_start(struct sheaf_run *run)
{
    run->memory.engine_before = process_private_bytes(getpid());
}

void memory_sample(struct sheaf_run *run, uint64_t heap_bytes, bool thorough)
{
    struct memory_ledger *ledger = &run->memory;
    uint64_t sources, values, engine = process_private_bytes(getpid());
    payload_real_by_kind(run->payload, &sources, &values);
    memory_set(&ledger->of[MEMORY_SOURCES], sources);
    memory_set(&ledger->of[MEMORY_VALUES], values);
    memory_set(&ledger->of[MEMORY_HEAPS], heap_bytes);
    if (thorough) /* they become real as they are first used, and then stay as they are */
        memory_set(&ledger->of[MEMORY_RINGS], ring_bytes(run));
    memory_set(&ledger->engine, engine);
    memory_set(&ledger->all, sources + values + heap_bytes + memory_now(&ledger->of[MEMORY_RINGS]) + engine);
    uint64_t counted = ledger->engine_before + engine_counted(run);
    raise_to(&ledger->uncounted, engine > counted ? engine - counted : 0);
}

const char *memory_class_name(enum memory_class class_id)
{
    static const char *const names[MEMORY_CLASSES] = {"sources", "values",     "heaps",   "rings",
                                                      "lineage", "scheduling", "results", "messages"};
    return names[class_id];
}
