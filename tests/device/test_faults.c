/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong on a device and how it is told: errors that the driver of the tests injects, one kind per device. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/pipeline.h"
#include "tests/device/kernels.h"

static struct device *open_device(uint32_t ordinal)
{
    char line[DEVICE_LINE_BYTES];
    struct device *device;
    if (device_open(SHEAF_DEVICE_CUDA, ordinal, &device, line) < 0)
        fail_msg("%s", line);
    return device;
}

static int launch_and_wait(struct device *device)
{
    struct device_module *module;
    struct device_stream *stream;
    struct sum_argument none = {0};
    uint64_t offsets[2] = {0};
    struct sheaf_grid grid = {.blocks = {1, 1, 1}, .threads = {1, 1, 1}};
    none.in = (const unsigned char *)"";
    none.offsets = none.lengths = offsets;
    none.sums = (int64_t[]){0};
    assert_int_equal(device_stream_create(device, &stream), 0);
    assert_int_equal(device_module_load(device, &test_kernels, &module), 0);
    assert_int_equal(device_launch(device, stream, module, "test_sum", &grid, &none), 0);
    return device_stream_wait_idle(device, stream);
}

/* A fault is told by the first call that waits for it, and by every one after it. */
static void fails(uint32_t ordinal, int status, enum device_fault fault, const char *words, bool innocent)
{
    struct device *device = open_device(ordinal);
    uint64_t bytes;
    assert_int_equal(launch_and_wait(device), status);
    assert_int_equal(device_fault_of(status), fault);
    assert_int_equal(device_fault_is_device(fault), innocent);
    assert_non_null(strstr(device_last_error(device), words));
    assert_int_equal(device_free_bytes(device, &bytes), status);
    device_close(device);
}

static void test_sticky_faults(void **state)
{
    fails(1, -EFAULT, DEVICE_FAULT_ILLEGAL, "CUDA_ERROR_ILLEGAL_ADDRESS", false);
    fails(2, -EIO, DEVICE_FAULT_ECC, "CUDA_ERROR_ECC_UNCORRECTABLE", true);
    fails(3, -ENODEV, DEVICE_FAULT_LOST, "CUDA_ERROR_UNKNOWN", true);
    fails(4, -ETIME, DEVICE_FAULT_DEADLINE, "CUDA_ERROR_LAUNCH_TIMEOUT", false);
}

/* A result that this version does not know is the work's if it comes of waiting for it, and else the call's. */
static void test_a_fault_without_a_name(void **state)
{
    struct device *device = open_device(7);
    uint64_t bytes;
    assert_int_equal(launch_and_wait(device), -EFAULT);
    assert_int_equal(device_free_bytes(device, &bytes), -EINVAL);
    device_close(device);
}

/* Less memory than wished is no fault: the pool is smaller. */
static void test_memory_that_is_short(void **state)
{
    struct device *device = open_device(0);
    struct pipeline *pipeline;
    struct pipeline_options options = {.memory_bytes = UINT64_C(1) << 40, .staging_bytes = 4096};
    device_address address;
    assert_int_equal(device_alloc(device, UINT64_C(1) << 40, &address), -ENOMEM);
    assert_int_equal(pipeline_open(device, NULL, &options, &pipeline), 0);
    assert_true(pipeline_batch_bytes(pipeline) >= (UINT64_C(8) << 20) / 3);
    assert_int_equal(launch_and_wait(device), 0);
    pipeline_close(pipeline);
    device_close(device);
}

static void test_a_device_that_does_not_open(void **state)
{
    char line[DEVICE_LINE_BYTES];
    struct device *device;
    assert_int_equal(device_open(SHEAF_DEVICE_CUDA, 5, &device, line), -EIO);
    assert_non_null(strstr(line, "CUDA_ERROR_ECC_UNCORRECTABLE"));
    assert_int_equal(device_open(SHEAF_DEVICE_CUDA, 8, &device, line), -ENODEV);
    assert_non_null(strstr(line, "CUDA_ERROR_INVALID_DEVICE"));
    assert_int_equal(device_cuda_count(line), 8);
}

/* What comes back changed is found before any row is on the device. */
static void test_self_test(void **state)
{
    struct device *device = open_device(6);
    assert_int_equal(device_self_test(device), 0);
    assert_true(device_self_test(device) < 0);
    device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sticky_faults),
        cmocka_unit_test(test_a_fault_without_a_name),
        cmocka_unit_test(test_memory_that_is_short),
        cmocka_unit_test(test_a_device_that_does_not_open),
        cmocka_unit_test(test_self_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
