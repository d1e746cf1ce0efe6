/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#include "engine/spill.h"

enum { VALUES = 48, BYTES_MAX = 40000 };

static struct spill *make(void)
{
    static const char *const folders[] = {".", "/var/tmp", NULL};
    struct spill *spill;
    if (spill_create(folders, &spill) < 0) {
        print_message("no folder here is on a disk\n");
        skip();
    }
    return spill;
}

static uint64_t blocks(const struct spill *spill)
{
    struct stat status;
    assert_int_equal(fstat(spill_read_only(spill), &status), 0);
    return (uint64_t)status.st_blocks * 512;
}

/* Whatever is put and freed in whatever order: what is there stays as it is, and what is gone takes no room. */
static void test_values_do_not_overlap(void **state)
{
    (void)state;
    struct spill *spill = make();
    const struct segment *memory = spill_segment(spill);
    uint64_t seed = (uint64_t)time(NULL);
    print_message("seed %llu\n", (unsigned long long)seed);
    srand((unsigned)seed);
    struct {
        uint64_t offset, bytes;
    } values[VALUES] = {{0}};
    static unsigned char data[BYTES_MAX];
    for (uint32_t step = 0; step < 3000; step++) {
        uint32_t i = (uint32_t)rand() % VALUES;
        if (values[i].bytes > 0) {
            const unsigned char *at = segment_at(memory, values[i].offset, values[i].bytes);
            assert_non_null(at);
            for (uint64_t byte = 0; byte < values[i].bytes; byte += 97)
                assert_int_equal(at[byte], i);
            assert_int_equal(at[values[i].bytes - 1], i);
            spill_free(spill, values[i].offset, values[i].bytes);
            values[i].bytes = 0;
            continue;
        }
        values[i].bytes = 1 + (uint64_t)rand() % BYTES_MAX;
        memset(data, (int)i, values[i].bytes);
        assert_int_equal(spill_put(spill, data, values[i].bytes, &values[i].offset), 0);
    }
    for (uint32_t i = 0; i < VALUES; i++) {
        if (values[i].bytes > 0)
            spill_free(spill, values[i].offset, values[i].bytes);
    }
    /* All of it is one gap again: it begins at the beginning. */
    uint64_t offset;
    assert_int_equal(spill_put(spill, data, BYTES_MAX, &offset), 0);
    assert_int_equal(offset, 0);
    spill_free(spill, offset, BYTES_MAX);
    assert_true(blocks(spill) < BYTES_MAX);
    assert_in_range(spill_bytes_peak(spill), BYTES_MAX, VALUES * (uint64_t)(BYTES_MAX + 4096));
    spill_destroy(spill);
}

static void test_memory_is_no_place(void **state)
{
    (void)state;
    static const char *const folders[] = {"/dev/shm", "/nowhere/at/all", NULL};
    struct spill *spill = NULL;
    assert_true(spill_create(folders, &spill) < 0);
    assert_null(spill);
}

static void test_full(void **state)
{
    (void)state;
    struct spill *spill = make();
    uint64_t offset;
    assert_int_equal(spill_put(spill, "", spill_segment(spill)->size_bytes + 1, &offset), -ENOSPC);
    assert_int_equal(spill_put(spill, "x", 1, &offset), 0);
    spill_free(spill, offset, 1);
    spill_destroy(spill);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_do_not_overlap),
        cmocka_unit_test(test_memory_is_no_place),
        cmocka_unit_test(test_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
