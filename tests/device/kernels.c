/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/device/kernels.h"

#include <dlfcn.h>

static void fault(void)
{
    enum { ILLEGAL_ADDRESS = 700 };
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void (*function)(int) = NULL;
    if (driver != NULL)
        *(void **)(&function) = dlsym(driver, "fake_cuda_fault");
    if (function == NULL)
        __builtin_trap();
    function(ILLEGAL_ADDRESS);
}

unsigned char mix(unsigned char byte, uint64_t salt, uint64_t at)
{
    return (unsigned char)((byte ^ (unsigned char)salt) * 7u + at * 3u + 1u);
}

static void run_mix(const void *argument, const struct sheaf_grid *grid)
{
    const struct mix_argument *mixing = argument;
    for (uint32_t row = 0; row < grid->blocks[0]; row++) {
        uint64_t first = mixing->offsets[row], bytes = mixing->offsets[row + 1] - first;
        for (uint64_t at = 0; at < bytes; at++)
            mixing->out[first + at] = mix(mixing->in[first + at], mixing->salts[row], at);
    }
}

static void run_sum(const void *argument, const struct sheaf_grid *grid)
{
    const struct sum_argument *summing = argument;
    for (uint32_t row = 0; row < grid->blocks[0]; row++) {
        int64_t sum = 0;
        const unsigned char *in = summing->in + summing->offsets[row];
        if (summing->fault != 0 && summing->lengths[row] > 0 && in[0] == summing->fault)
            fault();
        for (uint64_t at = 0; at < summing->lengths[row]; at++)
            sum += in[at];
        summing->sums[row] = sum;
    }
}

static const struct sheaf_kernel kernels[] = {
    {.name = "test_mix", .argument_bytes = sizeof(struct mix_argument), .host = run_mix},
    {.name = "test_sum", .argument_bytes = sizeof(struct sum_argument), .host = run_sum},
};

const struct sheaf_kernels test_kernels = {.size = sizeof(struct sheaf_kernels),
                                           .kernel_count = sizeof kernels / sizeof *kernels,
                                           .kernels = kernels,
                                           .image = "FAKE",
                                           .image_bytes = 4};
