/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lineage/state.h"

enum { SLAB_BYTES = 32 * 1024, TEXT_BYTES_MIN = 32, TEXT_CLASSES = 8, QUEUE_EVENTS_MIN = 64 };

static void *heap_allocate(void *cookie, size_t bytes)
{
    (void)cookie;
    return malloc(bytes); /* tidy: allowed, it is the caller's choice of memory */
}

static void heap_release(void *cookie, void *memory, size_t bytes)
{
    (void)cookie;
    (void)bytes;
    free(memory); /* tidy: allowed, see above */
}

const struct lineage_memory lineage_heap = {NULL, heap_allocate, heap_release};

/* Zeroed; released with the whole machine. */
void *memory_take(struct lineage *l, size_t bytes)
{
    size_t whole = sizeof(struct block) + bytes;
    struct block *block = l->memory.allocate(l->memory.cookie, whole);
    if (!block) {
        l->broken = true;
        return NULL;
    }
    memset(block, 0, whole);
    block->next = l->blocks;
    block->bytes = whole;
    l->blocks = block;
    l->reserved_bytes += whole;
    return block + 1;
}

static int pool_grow(struct lineage *l, struct pool *pool)
{
    if (pool->chunk_count == pool->chunk_capacity) {
        uint32_t capacity = pool->chunk_capacity ? pool->chunk_capacity * 2 : 8;
        uintptr_t *chunks = memory_take(l, capacity * sizeof(*chunks));
        if (!chunks)
            return -ENOMEM;
        if (pool->chunk_count)
            memcpy(chunks, pool->chunks, pool->chunk_count * sizeof(*chunks)); /* the old table is left where it is */
        pool->chunks = chunks;
        pool->chunk_capacity = capacity;
    }
    uint8_t *chunk = memory_take(l, (size_t)POOL_CHUNK_RECORDS * pool->stride);
    if (!chunk)
        return -ENOMEM;
    uint32_t first = pool->chunk_count * POOL_CHUNK_RECORDS;
    pool->chunks[pool->chunk_count++] = (uintptr_t)chunk - (uintptr_t)first * pool->stride;
    return 0;
}

/* A number that was never given out. */
void *pool_take_new(struct lineage *l, struct pool *pool, uint32_t *ret_number)
{
    uint32_t number = pool->used;
    if (number == NONE || (number / POOL_CHUNK_RECORDS == pool->chunk_count && pool_grow(l, pool)))
        return NULL;
    pool->used++;
    pool->live++;
    *ret_number = number;
    return pool_at(pool, number);
}

void pool_give(struct pool *pool, uint32_t number)
{
    pool_give_chain(pool, number, number, 1);
}

/* `count` records, from `first` by `next` to `last`. */
void pool_give_chain(struct pool *pool, uint32_t first, uint32_t last, uint32_t count)
{
    *pool_next(pool, last) = pool->free;
    pool->free = first;
    pool->live -= count;
}

void queue_free(struct lineage *l, struct queue *queue)
{
    size_t bytes = (size_t)(queue->limit - queue->events) * sizeof(*queue->events);
    if (queue->events)
        l->memory.release(l->memory.cookie, queue->events, bytes);
    l->reserved_bytes -= bytes;
}

int queue_grow(struct lineage *l, struct queue *queue)
{
    size_t count = (size_t)(queue->end - queue->front);
    size_t wanted =
        count * 2 < QUEUE_EVENTS_MIN ? QUEUE_EVENTS_MIN : count * 2; /* fewer than before, if most are over */
    struct event *events = l->memory.allocate(l->memory.cookie, wanted * sizeof(*events));
    if (!events) {
        l->broken = true;
        return -ENOMEM;
    }
    if (count)
        memcpy(events, queue->front, count * sizeof(*events));
    queue_free(l, queue);
    l->reserved_bytes += wanted * sizeof(*events);
    *queue = (struct queue){events, events + count, events, events + wanted};
    return 0;
}

static uint32_t text_class(uint32_t bytes)
{
    uint32_t index = 0;
    while (index < TEXT_CLASSES && (uint32_t)TEXT_BYTES_MIN << index < bytes)
        index++;
    return index;
}

/* Small texts come from slabs by powers of two, large ones (over 4 KiB) from the caller's memory one by one. */
char *text_take(struct lineage *l, uint32_t bytes)
{
    uint32_t index = text_class(bytes);
    if (index == TEXT_CLASSES) {
        char *text = l->memory.allocate(l->memory.cookie, bytes);
        l->broken = l->broken || !text;
        l->text_bytes += text ? bytes : 0;
        l->reserved_bytes += text ? bytes : 0;
        return text;
    }
    uint32_t rounded = (uint32_t)TEXT_BYTES_MIN << index;
    struct text_free *text = l->texts[index];
    if (text) {
        l->texts[index] = text->next;
    } else {
        if (l->slab_left < rounded) {
            l->slab = memory_take(l, SLAB_BYTES);
            l->slab_left = l->slab ? SLAB_BYTES : 0;
            if (!l->slab)
                return NULL;
        }
        text = (struct text_free *)(void *)l->slab;
        l->slab += rounded;
        l->slab_left -= rounded;
    }
    l->text_bytes += rounded;
    return (char *)text;
}

void text_give(struct lineage *l, char *text, uint32_t bytes)
{
    uint32_t index = text_class(bytes);
    if (index == TEXT_CLASSES) {
        l->memory.release(l->memory.cookie, text, bytes);
        l->text_bytes -= bytes;
        l->reserved_bytes -= bytes;
        return;
    }
    struct text_free *node = (struct text_free *)(void *)text;
    node->next = l->texts[index];
    l->texts[index] = node;
    l->text_bytes -= (uint32_t)TEXT_BYTES_MIN << index;
}
