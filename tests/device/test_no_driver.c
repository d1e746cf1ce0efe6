/* SPDX-License-Identifier: Apache-2.0 */
/* A machine without a driver: said in one line; and the model's times, which need none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dlfcn.h>

#include "device/pipeline.h"
#include "tests/device/kernels.h"

static void test_no_driver(void **state)
{
    char line[DEVICE_LINE_BYTES] = "";
    struct device *device;
    if (dlopen("libcuda.so.1", RTLD_NOW) != NULL)
        skip();
    assert_int_equal(device_cuda_count(line), SHEAF_E_ENVIRONMENT);
    assert_non_null(strstr(line, "libcuda.so.1"));
    assert_null(strchr(line, '\n'));
    line[0] = '\0';
    assert_int_equal(device_open(SHEAF_DEVICE_CUDA, 0, &device, line), SHEAF_E_ENVIRONMENT);
    assert_non_null(strstr(line, "libcuda.so.1"));
}

enum { BATCHES = 100, BYTES = 1 << 20 };

static void put_batch(struct device *device, struct device_module *module, struct pipeline *pipeline, const void *bytes)
{
    struct pipeline_batch *batch = pipeline_begin(pipeline);
    static unsigned char back[BYTES];
    static const uint64_t offsets[1], lengths[1] = {BYTES};
    static int64_t sum;
    device_address in;
    assert_int_equal(pipeline_place(batch, BYTES, &in), 0);
    assert_int_equal(pipeline_copy_in(batch, in, bytes, BYTES), 0);
    assert_int_equal(pipeline_start(batch), 0);
    struct sum_argument argument = {
        .in = (const unsigned char *)(uintptr_t)in, .offsets = offsets, .lengths = lengths, .sums = &sum};
    struct sheaf_grid grid = {.blocks = {1, 1, 1}, .threads = {1, 1, 1}};
    assert_int_equal(device_launch(device, pipeline_stream(batch), module, "test_sum", &grid, &argument), 0);
    assert_int_equal(pipeline_fetch(batch, back, in, BYTES), 0);
    assert_int_equal(pipeline_submit(batch), 0);
}

/* Kernels that take longer than the copies beside them hide those: modelled, not measured. */
static double kernel_share(uint32_t depth)
{
    char line[DEVICE_LINE_BYTES];
    struct device *device;
    struct device_module *module;
    struct pipeline *pipeline;
    struct device_model model = {.copy_in_bytes_per_s = 1e9, .copy_out_bytes_per_s = 1e9, .kernel_fixed_s = 1.2e-3};
    struct pipeline_options options = {.depth = depth, .memory_bytes = 8 * BYTES, .staging_bytes = 2 * BYTES};
    struct device_sim_times times;
    assert_int_equal(device_open(SHEAF_DEVICE_SIM, 0, &device, line), 0);
    device_sim_set_model(device, &model);
    assert_int_equal(device_module_load(device, &test_kernels, &module), 0);
    assert_int_equal(pipeline_open(device, NULL, &options, &pipeline), 0);
    unsigned char *bytes = calloc(1, BYTES);
    for (uint32_t at = 0; at < BATCHES; at++) {
        if (pipeline_in_flight(pipeline) == depth) {
            assert_int_equal(pipeline_wait(pipeline_oldest(pipeline)), 0);
            pipeline_end(pipeline_oldest(pipeline));
        }
        put_batch(device, module, pipeline, bytes);
    }
    while (pipeline_in_flight(pipeline) > 0) {
        assert_int_equal(pipeline_wait(pipeline_oldest(pipeline)), 0);
        pipeline_end(pipeline_oldest(pipeline));
    }
    device_sim_times(device, &times);
    pipeline_close(pipeline);
    device_close(device);
    free(bytes);
    return times.kernel_s / times.now_s;
}

static void test_three_in_flight_hide_the_copies(void **state)
{
    assert_true(kernel_share(3) > 0.98);
    assert_true(kernel_share(2) < 0.98); /* in + kernel + out take longer than two kernels */
    assert_true(kernel_share(1) < 0.40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_driver),
        cmocka_unit_test(test_three_in_flight_hide_the_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
