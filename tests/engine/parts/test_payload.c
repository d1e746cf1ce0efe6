/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "engine/payload.h"

enum { CHUNKS = 16 };

static struct payload *make(void)
{
    struct payload_options options = {
        .shard_count = 1, .worker_count = 2, .segment_bytes = CHUNKS * PAYLOAD_CHUNK_BYTES};
    struct payload *payload;
    assert_int_equal(payload_create(&options, &payload), 0);
    return payload;
}

static uint32_t freed_chunks[CHUNKS], freed_count;

static void note_freed(void *cookie, uint32_t chunk)
{
    (void)cookie;
    freed_chunks[freed_count++] = chunk;
}

static struct value_ref value_at(const struct payload *payload, uint32_t worker, uint64_t offset, uint64_t length)
{
    return (struct value_ref){
        .kind = SHEAF_BYTES, .segment = payload_worker_segment(payload, worker), .offset = offset, .length = length};
}

/* A page that somebody touched where nothing was made real. */
static void test_memory_that_nobody_gave(void **state)
{
    struct payload *payload = make();
    struct payload_stray stray;
    uint16_t number = payload_worker_segment(payload, 1);
    char *memory = payload_segment(payload, number)->base;
    assert_int_equal(payload_back(payload, 1, 3), 3);
    assert_int_equal(payload_find_stray(payload, number, &stray), 0);
    memory[5 * PAYLOAD_CHUNK_BYTES + 12345] = 1;
    memory[15 * PAYLOAD_CHUNK_BYTES] = 1;
    assert_true(payload_find_stray(payload, number, &stray) >= 2 * 4096);
    assert_int_equal(stray.count, 2);
    assert_int_equal(stray.chunks[0], 5);
    assert_int_equal(stray.chunks[1], 15);
    payload_end_stray(payload, number);
    assert_int_equal(payload_find_stray(payload, number, &stray), 0);
    assert_int_equal(stray.count, 0);
    assert_int_equal(payload_real_bytes(payload), 3 * PAYLOAD_CHUNK_BYTES);
    payload_destroy(payload);
}

static void test_runs_do_not_overlap(void **state)
{
    (void)state;
    uint64_t seed = (uint64_t)time(NULL) | 1;
    printf("seed %llu\n", (unsigned long long)seed);
    srand((unsigned)seed);
    struct payload *payload = make();
    struct {
        uint64_t offset, bytes;
    } runs[64] = {{0}};
    for (uint32_t step = 0; step < 20000; step++) {
        uint32_t i = (uint32_t)rand() % 64;
        if (runs[i].bytes) {
            const unsigned char *memory = payload_shard_at(payload, 0, runs[i].offset);
            assert_int_equal(memory[0], i);
            assert_int_equal(memory[runs[i].bytes - 1], i);
            payload_run_free(payload, 0, runs[i].offset, runs[i].bytes);
            runs[i].bytes = 0;
            continue;
        }
        uint64_t bytes = 1 + (uint64_t)rand() % (rand() % 8 ? 20000 : 900000);
        if (payload_run_alloc(payload, 0, bytes, &runs[i].offset) < 0)
            continue;
        runs[i].bytes = bytes;
        memset(payload_shard_at(payload, 0, runs[i].offset), (int)i, bytes);
    }
    for (uint32_t i = 0; i < 64; i++) {
        if (runs[i].bytes)
            payload_run_free(payload, 0, runs[i].offset, runs[i].bytes);
    }
    assert_int_equal(payload_shard_bytes(payload), 0);
    payload_destroy(payload);
}

static void test_runs_end_with_the_segment(void **state)
{
    (void)state;
    struct payload *payload = make();
    uint64_t offset;
    assert_int_equal(payload_run_alloc(payload, 0, CHUNKS * PAYLOAD_CHUNK_BYTES + 1, &offset), -ENOMEM);
    assert_int_equal(payload_run_alloc(payload, 0, CHUNKS * PAYLOAD_CHUNK_BYTES, &offset), 0);
    uint64_t second;
    assert_int_equal(payload_run_alloc(payload, 0, 1, &second), -ENOMEM);
    payload_run_free(payload, 0, offset, CHUNKS * PAYLOAD_CHUNK_BYTES);
    assert_int_equal(payload_run_alloc(payload, 0, 1, &second), 0);
    payload_destroy(payload);
}

/* What a dead process leaves goes to its successor: chunks without values at once, the others with their last value. */
static void test_chunks_survive_their_owner(void **state)
{
    (void)state;
    struct payload *payload = make();
    uint32_t chunks[CHUNKS];
    freed_count = 0;
    assert_int_equal(payload_back(payload, 0, 4), 4);
    assert_int_equal(payload_lease(payload, 0, chunks, CHUNKS), 4);
    struct value_ref first = value_at(payload, 0, PAYLOAD_CHUNK_BYTES + 100, 50);
    struct value_ref spanning = value_at(payload, 0, 3 * PAYLOAD_CHUNK_BYTES - 10, 20);
    assert_int_equal(payload_retain(payload, &first), 0);
    assert_int_equal(payload_retain(payload, &spanning), 0);
    payload_end_lease(payload, 0, CHUNKS);
    assert_int_equal(payload_lease(payload, 0, chunks, CHUNKS), 1); /* 1, 2 and 3 hold values */
    assert_int_equal(chunks[0], 0);
    assert_int_equal(payload_release(payload, &first, note_freed, NULL), PAYLOAD_FREED);
    assert_int_equal(freed_count, 1);
    assert_int_equal(freed_chunks[0], 1);
    assert_int_equal(payload_release(payload, &spanning, note_freed, NULL), PAYLOAD_FREED);
    assert_int_equal(freed_count, 3);
    payload_destroy(payload);
}

/* Between the death of a process and the end of its lease nobody is there to be told of a chunk. */
static void test_what_a_dead_process_has_is_not_handed_on(void **state)
{
    (void)state;
    struct payload *payload = make();
    uint32_t chunks[CHUNKS];
    freed_count = 0;
    payload_back(payload, 0, 2);
    payload_lease(payload, 0, chunks, CHUNKS);
    struct value_ref ref = value_at(payload, 0, PAYLOAD_CHUNK_BYTES + 100, 50);
    assert_int_equal(payload_retain(payload, &ref), 0);
    payload_end_lease(payload, 0, CHUNKS);
    payload_lease(payload, 0, chunks, CHUNKS);
    payload_orphan(payload, 0); /* the second one has died, and what the first left is freed now */
    assert_int_equal(payload_release(payload, &ref, note_freed, NULL), PAYLOAD_FREED);
    assert_int_equal(freed_count, 0);
    payload_end_lease(payload, 0, 0);
    assert_int_equal(payload_lease(payload, 0, chunks, CHUNKS), 0);
    assert_int_equal(payload_retain(payload, &ref), -ERANGE); /* it is no memory any more */
    payload_destroy(payload);
}

static void test_values_of_the_living_are_freed_by_their_owner(void **state)
{
    (void)state;
    struct payload *payload = make();
    uint32_t chunks[CHUNKS];
    freed_count = 0;
    payload_back(payload, 1, 2);
    payload_lease(payload, 1, chunks, CHUNKS);
    struct value_ref ref = value_at(payload, 1, 64, 10);
    assert_int_equal(payload_retain(payload, &ref), 0);
    assert_int_equal(payload_release(payload, &ref, note_freed, NULL), PAYLOAD_OWNER_FREES);
    assert_int_equal(freed_count, 0);
    payload_destroy(payload);
}

static void test_nothing_outside_is_believed(void **state)
{
    (void)state;
    struct payload *payload = make();
    payload_back(payload, 0, 1);
    struct value_ref beyond_real = value_at(payload, 0, PAYLOAD_CHUNK_BYTES - 4, 8);
    struct value_ref beyond_segment = value_at(payload, 0, CHUNKS * PAYLOAD_CHUNK_BYTES - 4, 8);
    struct value_ref wrapping = value_at(payload, 0, 64, UINT64_MAX - 8);
    struct value_ref no_segment = {.kind = SHEAF_BYTES, .segment = 77, .offset = 64, .length = 1};
    struct value_ref of_shard = {.kind = SHEAF_BYTES, .segment = payload_shard_segment(payload, 0), .length = 1};
    struct value_ref prefix = value_at(payload, 0, 16, 4);
    prefix.prefix = 64;
    assert_int_equal(payload_retain(payload, &beyond_real), -ERANGE);
    assert_int_equal(payload_retain(payload, &beyond_segment), -ERANGE);
    assert_int_equal(payload_retain(payload, &wrapping), -ERANGE);
    assert_int_equal(payload_retain(payload, &no_segment), -ERANGE);
    assert_int_equal(payload_retain(payload, &of_shard), -ERANGE);
    assert_int_equal(payload_retain(payload, &prefix), -ERANGE);
    assert_null(payload_view(payload, &wrapping));
    assert_null(payload_view(payload, &no_segment));
    payload_destroy(payload);
}

/* The extent of a list is fixed when it is accepted: what its worker writes there later changes nothing. */
static void test_a_list_cannot_change_its_extent(void **state)
{
    (void)state;
    struct payload *payload = make();
    uint32_t chunks[CHUNKS];
    freed_count = 0;
    payload_back(payload, 0, 3);
    payload_lease(payload, 0, chunks, CHUNKS);
    struct value_ref ref = value_at(payload, 0, 128, 1);
    ref.kind = SHEAF_LIST_OF(SHEAF_I64, 1);
    struct list_block *block = (struct list_block *)((char *)payload_segment(payload, ref.segment)->base + 128);
    *block = (struct list_block){.count = 1, .bytes = PAYLOAD_CHUNK_BYTES + 4096};
    assert_int_equal(payload_retain(payload, &ref), 0);
    block->bytes = 48;
    payload_end_lease(payload, 0, CHUNKS);
    assert_int_equal(payload_lease(payload, 0, chunks, CHUNKS), 1);
    assert_int_equal(chunks[0], 2);
    assert_int_equal(payload_release(payload, &ref, note_freed, NULL), PAYLOAD_FREED);
    assert_int_equal(freed_count, 2);
    block->bytes = UINT64_MAX;
    assert_int_equal(payload_retain(payload, &ref), -ERANGE);
    payload_destroy(payload);
}

/* The limit is one for all segments, and what is given back counts no more and reads as nothing. */
static void test_the_limit_is_for_all(void **state)
{
    (void)state;
    struct payload_options options = {.shard_count = 1,
                                      .worker_count = 2,
                                      .segment_bytes = CHUNKS * PAYLOAD_CHUNK_BYTES,
                                      .limit_bytes = 6 * PAYLOAD_CHUNK_BYTES};
    struct payload *payload;
    uint32_t chunks[CHUNKS], first;
    uint64_t offset;
    assert_int_equal(payload_create(&options, &payload), 0);
    assert_int_equal(payload_back(payload, 0, 2), 2);
    assert_int_equal(payload_lease(payload, 0, chunks, CHUNKS), 2);
    assert_int_equal(payload_grow(payload, 0, 5, &first), 0);
    assert_int_equal(payload_grow(payload, 0, 2, &first), 2);
    assert_int_equal(payload_leased(payload, 0), 4);
    assert_int_equal(payload_run_alloc(payload, 0, 2 * PAYLOAD_CHUNK_BYTES, &offset), 0);
    assert_false(payload_has_room(payload, 1));
    uint64_t more;
    assert_int_equal(payload_run_alloc(payload, 0, 1, &more), -ENOMEM);
    /* A shard's unused chunks are given to whoever needs them; a worker's are its own until it says so. */
    payload_run_free(payload, 0, offset, 2 * PAYLOAD_CHUNK_BYTES);
    assert_int_equal(payload_grow(payload, 0, 2, &first), 2);
    assert_int_equal(payload_back(payload, 1, 1), 0);
    struct value_ref ref = value_at(payload, 0, PAYLOAD_CHUNK_BYTES + 64, 10);
    assert_int_equal(payload_retain(payload, &ref), 0);
    assert_int_equal(payload_value_bytes(payload), PAYLOAD_CHUNK_BYTES);
    assert_false(payload_give_back(payload, 0, 1)); /* a value is there */
    assert_false(payload_give_back(payload, 0, 9)); /* it is not real */
    assert_false(payload_give_back(payload, 1, 0)); /* nor leased */
    assert_true(payload_give_back(payload, 0, 5));
    assert_false(payload_give_back(payload, 0, 5));
    assert_true(payload_has_room(payload, PAYLOAD_CHUNK_BYTES));
    assert_false(payload_has_room(payload, PAYLOAD_CHUNK_BYTES + 1));
    assert_int_equal(payload_back(payload, 1, 1), 1);
    payload_release(payload, &ref, note_freed, NULL);
    assert_int_equal(payload_value_bytes(payload), 0);
    payload_destroy(payload);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_do_not_overlap),
        cmocka_unit_test(test_runs_end_with_the_segment),
        cmocka_unit_test(test_memory_that_nobody_gave),
        cmocka_unit_test(test_chunks_survive_their_owner),
        cmocka_unit_test(test_what_a_dead_process_has_is_not_handed_on),
        cmocka_unit_test(test_values_of_the_living_are_freed_by_their_owner),
        cmocka_unit_test(test_nothing_outside_is_believed),
        cmocka_unit_test(test_the_limit_is_for_all),
        cmocka_unit_test(test_a_list_cannot_change_its_extent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
