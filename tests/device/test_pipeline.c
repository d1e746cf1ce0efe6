/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches through the pipeline: what comes out is what a loop on the CPU makes of what went in, whatever the sizes of
 * rows, where they lie, how many batches are in flight and how long anything takes. SHEAF_TEST_DEVICE says which
 * backend; SHEAF_TEST_SEED repeats a run.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/pipeline.h"
#include "tests/device/kernels.h"

enum { ROWS_MAX = 40, SEGMENT_BYTES = 24 << 20, DEPTH = 3 };

/* One segment as the engine has them: a writable view of a producer, and the read-only one of a device's process. */
struct segment {
    unsigned char *writable, *read_only;
    uint64_t used;
};

struct expected {
    uint32_t rows;
    const unsigned char *in[ROWS_MAX];
    unsigned char *out[ROWS_MAX];
    uint64_t bytes[ROWS_MAX], salts[ROWS_MAX];
    int64_t sums[ROWS_MAX];
    bool read_back; /* into memory of the segment */
};

struct bench {
    struct device *device;
    struct device_module *module;
    struct pinned *pinned;
    struct pipeline *pipeline;
    struct segment inputs, outputs;
    uint64_t random;
    struct expected expected[DEPTH];
};

static enum sheaf_device_backend backend_wanted(void)
{
    const char *word = getenv("SHEAF_TEST_DEVICE");
    if (word != NULL && strcmp(word, "cuda") == 0)
        return SHEAF_DEVICE_CUDA;
    return word != NULL && strcmp(word, "sim") == 0 ? SHEAF_DEVICE_SIM : SHEAF_DEVICE_HOST;
}

static uint64_t draw(struct bench *bench, uint64_t below)
{
    bench->random = bench->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (bench->random >> 33) % below;
}

static struct segment map_segment(void)
{
    int fd = memfd_create("test-segment", MFD_CLOEXEC);
    assert_true(fd >= 0 && ftruncate(fd, SEGMENT_BYTES) == 0);
    struct segment segment = {.writable = mmap(NULL, SEGMENT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0),
                              .read_only = mmap(NULL, SEGMENT_BYTES, PROT_READ, MAP_SHARED, fd, 0)};
    assert_true(segment.writable != MAP_FAILED && segment.read_only != MAP_FAILED);
    close(fd);
    return segment;
}

static int set_up(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);
    char line[DEVICE_LINE_BYTES];
    const char *seed = getenv("SHEAF_TEST_SEED");
    assert_non_null(bench);
    bench->random = seed != NULL ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL);
    print_message("SHEAF_TEST_SEED=%llu\n", (unsigned long long)bench->random);
    if (device_open(backend_wanted(), 0, &bench->device, line) < 0)
        fail_msg("%s", line);
    assert_int_equal(device_self_test(bench->device), 0);
    assert_int_equal(device_module_load(bench->device, &test_kernels, &bench->module), 0);
    assert_int_equal(pinned_open(bench->device, UINT64_C(1) << 30, &bench->pinned), 0);
    bench->inputs = map_segment();
    bench->outputs = map_segment();
    assert_int_equal(pinned_add(bench->pinned, bench->inputs.read_only, SEGMENT_BYTES, true), 0);
    assert_int_equal(pinned_add(bench->pinned, bench->outputs.writable, SEGMENT_BYTES, false), 0);
    *state = bench;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *bench = *state;
    pipeline_close(bench->pipeline);
    pinned_close(bench->pinned);
    device_close(bench->device);
    struct segment *segments[] = {&bench->inputs, &bench->outputs};
    for (size_t at = 0; at < 2; at++) {
        munmap(segments[at]->writable, SEGMENT_BYTES);
        munmap(segments[at]->read_only, SEGMENT_BYTES);
    }
    free(bench);
    return 0;
}

static void open_pipeline(struct bench *bench, uint64_t memory_bytes, uint64_t staging_bytes)
{
    struct pipeline_options options = {.memory_bytes = memory_bytes, .staging_bytes = staging_bytes};
    pipeline_close(bench->pipeline);
    bench->pipeline = NULL;
    assert_int_equal(pipeline_open(bench->device, bench->pinned, &options, &bench->pipeline), 0);
    assert_int_equal(pipeline_depth(bench->pipeline), DEPTH);
}

/* ---- a batch ---- */

static void make_rows(struct bench *bench, struct expected *batch, uint64_t row_bytes_max)
{
    batch->rows = 1 + (uint32_t)draw(bench, ROWS_MAX);
    batch->read_back = draw(bench, 2) == 0;
    uint64_t bytes_max = draw(bench, 8) == 0 ? row_bytes_max : 1 + draw(bench, 3000);
    for (uint32_t row = 0; row < batch->rows; row++) {
        uint64_t bytes = 1 + draw(bench, bytes_max);
        if (bench->inputs.used + bytes + 64 > SEGMENT_BYTES)
            bench->inputs.used = bench->outputs.used = 0; /* only finished batches lie there: they are small */
        unsigned char *in = bench->inputs.writable + bench->inputs.used;
        for (uint64_t at = 0; at < bytes; at++)
            in[at] = (unsigned char)draw(bench, 200);
        batch->in[row] = bench->inputs.read_only + bench->inputs.used;
        batch->out[row] = bench->outputs.writable + bench->outputs.used;
        batch->bytes[row] = bytes;
        batch->salts[row] = draw(bench, 1 << 20);
        bench->inputs.used += (bytes + 63) / 64 * 64;
        bench->outputs.used = bench->inputs.used;
    }
}

static void copy_rows(struct pipeline_batch *flight, const struct expected *batch, device_address in, uint64_t *offsets)
{
    for (uint32_t row = 0; row < batch->rows; row++)
        assert_int_equal(pipeline_copy_in(flight, in + offsets[row], batch->in[row], batch->bytes[row]), 0);
    assert_int_equal(pipeline_start(flight), 0);
}

static void run_batch(struct bench *bench, struct expected *batch)
{
    struct pipeline_batch *flight = pipeline_begin(bench->pipeline);
    uint64_t offsets[ROWS_MAX + 1] = {0};
    device_address in, out, on_device, lengths, salts, sums;
    assert_non_null(flight);
    for (uint32_t row = 0; row < batch->rows; row++)
        offsets[row + 1] = offsets[row] + batch->bytes[row];
    assert_int_equal(pipeline_place(flight, offsets[batch->rows], &in), 0);
    assert_int_equal(pipeline_place(flight, offsets[batch->rows], &out), 0);
    assert_int_equal(pipeline_place(flight, sizeof offsets, &on_device), 0);
    assert_int_equal(pipeline_place(flight, sizeof batch->bytes, &lengths), 0);
    assert_int_equal(pipeline_place(flight, sizeof batch->salts, &salts), 0);
    assert_int_equal(pipeline_place(flight, sizeof batch->sums, &sums), 0);
    copy_rows(flight, batch, in, offsets);
    assert_int_equal(pipeline_upload(flight, on_device, offsets, (batch->rows + 1) * sizeof *offsets), 0);
    assert_int_equal(pipeline_upload(flight, lengths, batch->bytes, batch->rows * sizeof *batch->bytes), 0);
    assert_int_equal(pipeline_upload(flight, salts, batch->salts, batch->rows * sizeof *batch->salts), 0);
    struct mix_argument mixing = {(const unsigned char *)(uintptr_t)in, (unsigned char *)(uintptr_t)out,
                                  (const uint64_t *)(uintptr_t)on_device, (const uint64_t *)(uintptr_t)salts};
    struct sum_argument summing = {.in = (const unsigned char *)(uintptr_t)in,
                                   .offsets = (const uint64_t *)(uintptr_t)on_device,
                                   .lengths = (const uint64_t *)(uintptr_t)lengths,
                                   .sums = (int64_t *)(uintptr_t)sums};
    struct sheaf_grid grid = {.blocks = {batch->rows, 1, 1}, .threads = {256, 1, 1}};
    struct device_stream *stream = pipeline_stream(flight);
    assert_int_equal(device_launch(bench->device, stream, bench->module, "test_mix", &grid, &mixing), 0);
    assert_int_equal(device_launch(bench->device, stream, bench->module, "test_sum", &grid, &summing), 0);
    for (uint32_t row = 0; row < batch->rows; row++) {
        if (!batch->read_back)
            batch->out[row] = malloc(batch->bytes[row]);
        assert_int_equal(pipeline_fetch(flight, batch->out[row], out + offsets[row], batch->bytes[row]), 0);
    }
    assert_int_equal(pipeline_fetch(flight, batch->sums, sums, batch->rows * sizeof *batch->sums), 0);
    assert_int_equal(pipeline_submit(flight), 0);
}

static void check_batch(struct bench *bench, struct expected *batch)
{
    struct pipeline_batch *flight = pipeline_oldest(bench->pipeline);
    assert_int_equal(pipeline_wait(flight), 0);
    for (uint32_t row = 0; row < batch->rows; row++) {
        int64_t sum = 0;
        for (uint64_t at = 0; at < batch->bytes[row]; at++) {
            sum += batch->in[row][at];
            if (batch->out[row][at] != mix(batch->in[row][at], batch->salts[row], at))
                fail_msg("row %u of %u is wrong at byte %llu of %llu", row, batch->rows, (unsigned long long)at,
                         (unsigned long long)batch->bytes[row]);
        }
        if (!batch->read_back)
            free(batch->out[row]);
        assert_int_equal(batch->sums[row], sum);
    }
    pipeline_end(flight);
}

static void run_many(struct bench *bench, uint32_t batches, uint64_t row_bytes_max)
{
    uint32_t begun = 0, checked = 0;
    while (checked < batches) {
        while (begun < batches && begun - checked < DEPTH) {
            struct expected *batch = &bench->expected[begun++ % DEPTH];
            make_rows(bench, batch, row_bytes_max);
            run_batch(bench, batch);
        }
        check_batch(bench, &bench->expected[checked++ % DEPTH]);
    }
    assert_int_equal(pipeline_in_flight(bench->pipeline), 0);
}

/* ---- tests ---- */

static void test_small_and_large_rows(void **state)
{
    struct bench *bench = *state;
    open_pipeline(bench, UINT64_C(36) << 20, 0);
    run_many(bench, 120, 140 << 10);
}

/* Each piece once, read-only memory where the device can, never more than the limit. */
static void test_what_is_pinned(void **state)
{
    struct bench *bench = *state;
    bool reads = device_info(bench->device)->reads_read_only;
    unsigned char *in = bench->inputs.read_only, *out = bench->outputs.writable;
    assert_int_equal(pinned_reaches(bench->pinned, out + 100, 200, true), 1);
    assert_int_equal(pinned_reaches(bench->pinned, out, PINNED_PIECE_BYTES, true), 1);
    assert_int_equal(pinned_bytes(bench->pinned), PINNED_PIECE_BYTES);
    assert_int_equal(pinned_reaches(bench->pinned, out + PINNED_PIECE_BYTES - 1, 2, false), 1);
    assert_int_equal(pinned_bytes(bench->pinned), 2 * PINNED_PIECE_BYTES);
    assert_int_equal(pinned_in_piece(bench->pinned, out + PINNED_PIECE_BYTES - 1), 1);
    assert_int_equal(pinned_reaches(bench->pinned, in, 1, false), reads);
    assert_int_equal(pinned_reaches(bench->pinned, in, 1, true), 0);
    assert_int_equal(pinned_reaches(bench->pinned, in + SEGMENT_BYTES - 1, 2, false), 0);
    assert_int_equal(pinned_reaches(bench->pinned, bench, 1, true), 0);
    struct pinned *little;
    assert_int_equal(pinned_open(bench->device, PINNED_PIECE_BYTES, &little), 0);
    assert_int_equal(pinned_add(little, out + 4 * PINNED_PIECE_BYTES, 3 * PINNED_PIECE_BYTES, false), 0);
    assert_int_equal(pinned_reaches(little, out + 4 * PINNED_PIECE_BYTES, 1, true), 1);
    assert_int_equal(pinned_reaches(little, out + 5 * PINNED_PIECE_BYTES, 1, true), 0);
    pinned_close(little);
}

/* Every staging buffer overflows, and copies cross pieces of pinned memory. */
static void test_little_staging(void **state)
{
    struct bench *bench = *state;
    open_pipeline(bench, UINT64_C(36) << 20, 20000);
    run_many(bench, 40, 140 << 10);
}

static void test_a_batch_that_does_not_fit(void **state)
{
    struct bench *bench = *state;
    device_address first, second;
    open_pipeline(bench, UINT64_C(3) << 20, 0);
    struct pipeline_batch *flight = pipeline_begin(bench->pipeline);
    assert_int_equal(pipeline_batch_bytes(bench->pipeline), 1 << 20);
    assert_int_equal(pipeline_place(flight, 1 << 19, &first), 0);
    assert_int_equal(pipeline_place(flight, (1 << 19) + 1, &second), -ENOMEM);
    assert_int_equal(pipeline_place(flight, 1 << 19, &second), 0);
    assert_int_equal(second - first, 1 << 19);
    pipeline_end(flight);
}

static void test_depth(void **state)
{
    struct bench *bench = *state;
    struct pipeline_batch *flights[DEPTH];
    open_pipeline(bench, UINT64_C(3) << 20, 0);
    for (int at = 0; at < DEPTH; at++)
        assert_non_null(flights[at] = pipeline_begin(bench->pipeline));
    assert_null(pipeline_begin(bench->pipeline));
    assert_ptr_equal(pipeline_oldest(bench->pipeline), flights[0]);
    pipeline_end(flights[1]);
    assert_ptr_equal(pipeline_begin(bench->pipeline), flights[1]);
    assert_ptr_equal(pipeline_oldest(bench->pipeline), flights[0]);
    for (int at = 0; at < DEPTH; at++)
        pipeline_end(flights[at]);
}

static void test_launches_that_cannot_be(void **state)
{
    struct bench *bench = *state;
    struct device_stream *stream;
    struct sum_argument argument = {0};
    struct sheaf_grid grid = {.blocks = {1, 1, 1}, .threads = {2000, 1, 1}};
    assert_int_equal(device_stream_create(bench->device, &stream), 0);
    assert_int_equal(device_launch(bench->device, stream, bench->module, "test_sum", &grid, &argument), -EINVAL);
    grid.threads[0] = 0;
    assert_int_equal(device_launch(bench->device, stream, bench->module, "test_sum", &grid, &argument), -EINVAL);
    grid.threads[0] = 1;
    assert_int_equal(device_launch(bench->device, stream, bench->module, "no_such", &grid, &argument), -ENOENT);
    assert_non_null(strstr(device_last_error(bench->device), "no_such"));
    assert_int_equal(device_stream_destroy(bench->device, stream), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_small_and_large_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_pinned, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_little_staging, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_batch_that_does_not_fit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_depth, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_launches_that_cannot_be, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
