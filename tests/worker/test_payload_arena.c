/* SPDX-License-Identifier: Apache-2.0 */
/* The payload heap over leased chunks: what is freed can be used again, and everything lies where it was leased. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "worker/payload_arena.h"

#define SEGMENT_BYTES ((uint64_t)64 << 20)
#define LIVE_MAX 64u

struct heap {
    struct segment segment;
    struct chunk_pages pages;
    struct payload_arena *arena;
};

static void heap_open(struct heap *heap, uint32_t chunk_count)
{
    memset(heap, 0, sizeof *heap);
    assert_int_equal(segment_create("test-payload", SEGMENT_BYTES, &heap->segment), 0);
    assert_int_equal(chunk_pages_add_segment(&heap->pages, 3, &heap->segment), 0);
    for (uint32_t chunk = 0; chunk < chunk_count; chunk++)
        assert_int_equal(chunk_pages_lease(&heap->pages, 3, chunk), 0);
    assert_int_equal(payload_arena_create(&heap->pages, &heap->arena), 0);
}

/* Taking what was leased needs no descriptor and no file: a sandboxed worker has neither to open. */
static void test_leased_chunks_are_only_touched(void **state)
{
    struct segment segment;
    assert_int_equal(segment_create("test-payload", SEGMENT_BYTES, &segment), 0);
    assert_int_equal(segment_commit(&segment, 0, CHUNK_BYTES), 0);
    struct segment mapped = segment;
    mapped.descriptor = -1;
    struct chunk_pages pages = {0};
    assert_int_equal(chunk_pages_add_segment(&pages, 3, &mapped), 0);
    assert_int_equal(chunk_pages_lease(&pages, 3, 0), 0);
    char *memory = chunk_pages_take(&pages, NULL, CHUNK_BYTES, CHUNK_PAGE_BYTES);
    assert_non_null(memory);
    memory[CHUNK_BYTES - 1] = 1;
    chunk_pages_done(&pages);
    segment_release(&segment);
}

static void heap_close(struct heap *heap)
{
    payload_arena_destroy(heap->arena);
    chunk_pages_done(&heap->pages);
    segment_release(&heap->segment);
}

static void test_leases(void **state)
{
    struct heap heap;
    heap_open(&heap, 1);
    assert_int_equal(chunk_pages_lease(&heap.pages, 3, 0), -EEXIST);
    assert_int_equal(chunk_pages_lease(&heap.pages, 3, 32), -ERANGE);
    assert_int_equal(chunk_pages_lease(&heap.pages, 4, 0), -ENOENT);
    /* More than one chunk: none to be had until the neighbour is leased. */
    assert_null(payload_arena_alloc(heap.arena, 3 << 20));
    assert_int_equal(chunk_pages_lease(&heap.pages, 3, 1), 0);
    char *memory = payload_arena_alloc(heap.arena, 3 << 20);
    assert_non_null(memory);
    assert_true(memory >= (char *)heap.segment.base &&
                memory + (3 << 20) <= (char *)heap.segment.base + 2 * CHUNK_BYTES);
    payload_arena_free(heap.arena, memory);
    payload_arena_purge(heap.arena);
    assert_int_equal(chunk_pages_idle_chunks(&heap.pages), 2);
    assert_int_equal(heap.pages.used_pages, 0);
    heap_close(&heap);
}

struct live {
    unsigned char *memory;
    uint32_t bytes;
    unsigned char mark;
};

static void check(const struct live *live)
{
    assert_int_equal(live->memory[0], live->mark);
    assert_int_equal(live->memory[live->bytes - 1], live->mark);
    assert_int_equal(live->memory[live->bytes / 2], live->mark);
}

/* Mixed sizes, mostly small, at most LIVE_MAX alive: 16 chunks must do for ever. */
static void test_freed_memory_is_used_again(void **state)
{
    struct heap heap;
    heap_open(&heap, 16);
    struct live lives[LIVE_MAX] = {0};
    unsigned seed = (unsigned)getpid();
    print_message("seed %u\n", seed);
    for (uint32_t round = 0; round < 100000; round++) {
        struct live *live = &lives[(uint32_t)rand_r(&seed) % LIVE_MAX];
        if (live->memory != NULL) {
            check(live);
            payload_arena_free(heap.arena, live->memory);
        }
        uint32_t size_class = (uint32_t)rand_r(&seed) % 100;
        uint32_t limit = size_class < 70 ? 4000 : size_class < 98 ? 100000 : 700000;
        live->bytes = 1 + (uint32_t)rand_r(&seed) % limit;
        live->mark = (unsigned char)round;
        live->memory = payload_arena_alloc(heap.arena, live->bytes);
        if (live->memory == NULL)
            payload_arena_purge(heap.arena), live->memory = payload_arena_alloc(heap.arena, live->bytes);
        assert_non_null(live->memory);
        assert_int_equal((uintptr_t)live->memory % PAYLOAD_ALIGNMENT, 0);
        assert_true(payload_arena_usable_bytes(heap.arena, live->memory) >= live->bytes);
        memset(live->memory, live->mark, live->bytes);
    }
    for (uint32_t at = 0; at < LIVE_MAX; at++)
        if (lives[at].memory != NULL) {
            check(&lives[at]);
            payload_arena_free(heap.arena, lives[at].memory);
        }
    payload_arena_purge(heap.arena);
    print_message("%u of 16 chunks idle afterwards\n", (unsigned)chunk_pages_idle_chunks(&heap.pages));
    heap_close(&heap);
}

static void test_resize_keeps_the_contents(void **state)
{
    struct heap heap;
    heap_open(&heap, 8);
    char *memory = payload_arena_alloc(heap.arena, 10);
    memcpy(memory, "0123456789", 10);
    for (size_t bytes = 10; bytes < 4000000; bytes *= 3) {
        memory = payload_arena_resize(heap.arena, memory, bytes);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % PAYLOAD_ALIGNMENT, 0);
        assert_memory_equal(memory, "0123456789", 10);
    }
    assert_null(payload_arena_resize(heap.arena, memory, SEGMENT_BYTES));
    memory = payload_arena_resize(heap.arena, memory, 5);
    assert_memory_equal(memory, "01234", 5);
    payload_arena_free(heap.arena, memory);
    heap_close(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leases),
        cmocka_unit_test(test_leased_chunks_are_only_touched),
        cmocka_unit_test(test_freed_memory_is_used_again),
        cmocka_unit_test(test_resize_keeps_the_contents),
    };
    return cmocka_run_group_tests_name("payload_arena", tests, NULL, NULL);
}
