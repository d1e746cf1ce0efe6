/* SPDX-License-Identifier: Apache-2.0 */
/* Payload memory, the worker's side: values in leased chunks, as in the stock worker. */
#include "perf/micro/bench.h"
#include "worker/payload_arena.h"

#define CHUNKS 16u
#define LIVE 64u

struct heap {
    struct segment segment;
    struct chunk_pages pages;
    struct payload_arena *arena;
};

static bool open_heap(struct heap *heap)
{
    *heap = (struct heap){0};
    bool opened = segment_create("bench-payload", CHUNKS * CHUNK_BYTES, &heap->segment) == 0 &&
                  chunk_pages_add_segment(&heap->pages, 1, &heap->segment) == 0;
    for (uint32_t chunk = 0; opened && chunk < CHUNKS; chunk++)
        opened = chunk_pages_lease(&heap->pages, 1, chunk) == 0;
    return opened && payload_arena_create(&heap->pages, &heap->arena) == 0;
}

static void close_heap(struct heap *heap)
{
    payload_arena_destroy(heap->arena);
    chunk_pages_done(&heap->pages);
    segment_release(&heap->segment);
}

/* LIVE values of one size alive, the oldest freed for each new one: what a shard that reads on makes of it. */
static void alloc_and_free(struct bench *bench)
{
    struct heap heap;
    void *live[LIVE] = {0};
    if (!open_heap(&heap)) {
        bench_fail(bench, "no heap over chunks");
        return;
    }
    for (uint32_t at = 0; bench_next(bench); at = (at + 1) % LIVE) {
        if (live[at])
            payload_arena_free(heap.arena, live[at]);
        live[at] = payload_arena_alloc(heap.arena, (size_t)bench_argument(bench));
        if (!live[at]) {
            bench_fail(bench, "no memory for a value");
            break;
        }
    }
    for (uint32_t at = 0; at < LIVE; at++)
        if (live[at])
            payload_arena_free(heap.arena, live[at]);
    close_heap(&heap);
}
BENCH("payload_arena/alloc_and_free", alloc_and_free, 64, 4096, 65536, 262144)

/* Leasing a chunk to a process's allocator: bits in private memory. */
static void lease(struct bench *bench)
{
    struct heap heap = {0};
    if (segment_create("bench-payload", CHUNKS * CHUNK_BYTES, &heap.segment) < 0) {
        bench_fail(bench, "no segment");
        return;
    }
    while (bench_next(bench)) {
        struct chunk_pages pages = {0};
        bool leased = chunk_pages_add_segment(&pages, 1, &heap.segment) == 0;
        for (uint32_t chunk = 0; leased && chunk < CHUNKS; chunk++)
            leased = chunk_pages_lease(&pages, 1, chunk) == 0;
        chunk_pages_done(&pages);
        if (!leased) {
            bench_fail(bench, "a chunk cannot be leased");
            break;
        }
    }
    bench_count_items(bench, bench_iterations(bench) * CHUNKS);
    segment_release(&heap.segment);
}
BENCH("chunk_pages/lease", lease, 0)
