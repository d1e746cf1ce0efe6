/* SPDX-License-Identifier: Apache-2.0 */
#include "emulate.h"

#include <cerrno>
#include <cstring>
#include <numeric>

struct dimensions {
    uint32_t x, y, z;
};

static thread_local dimensions gridDim, blockDim, blockIdx, threadIdx;
static thread_local uint64_t running_order;

/* The numbers below `count`, each once: ascending, or in the order that `order` makes of them. */
class sequence
{
  public:
    sequence(uint64_t count, uint64_t order) : count(count), at(0), step(1), offset(0)
    {
        if (order == 0 || count == 0)
            return;
        offset = order * 0x9E3779B97F4A7C15u % count;
        for (step = order % count; step == 0 || std::gcd(step, count) != 1;)
            step++;
    }
    bool next(uint64_t *ret)
    {
        if (at == count)
            return false;
        *ret = (at++ * step + offset) % count;
        return true;
    }

  private:
    uint64_t count, at, step, offset;
};

static dimensions place(uint64_t index, const dimensions &size)
{
    return {(uint32_t)(index % size.x), (uint32_t)(index / size.x % size.y), (uint32_t)(index / size.x / size.y)};
}

static uint64_t volume(const dimensions &size)
{
    return (uint64_t)size.x * size.y * size.z;
}

/* One phase: makes each thread of the block the running one in turn. */
class phase
{
  public:
    phase() : threads(volume(blockDim), running_order)
    {
    }
    bool next()
    {
        uint64_t index;
        if (!threads.next(&index))
            return false;
        threadIdx = place(index, blockDim);
        return true;
    }

  private:
    sequence threads;
};

/* Several threads of the host may emulate a device at once. */
template <class T> static T atomicAdd(T *to, T value)
{
    return __atomic_fetch_add(to, value, __ATOMIC_RELAXED);
}

#define DEVICE_FUNCTION(name, type) static void sheaf_##name(const type &args)
#define EACH_THREAD for (phase threads; threads.next();)
#define SHARED

#include "kernels/device.cu"

#define RUN_BLOCK(name, type)                                                                                          \
    static void run_##name(const void *args)                                                                           \
    {                                                                                                                  \
        type copy;                                                                                                     \
        memcpy(&copy, args, sizeof copy);                                                                              \
        sheaf_##name(copy);                                                                                            \
    }
KERNEL_FUNCTIONS(RUN_BLOCK)

#define BLOCK_ENTRY(name, type) {"sheaf_" #name, run_##name},
static const struct {
    const char *name;
    void (*run)(const void *args);
} functions[] = {KERNEL_FUNCTIONS(BLOCK_ENTRY)};

int kernel_emulate(const char *name, const uint32_t grid[3], const uint32_t block[3], const void *args, uint64_t order)
{
    for (const auto &function : functions) {
        if (strcmp(function.name, name) != 0)
            continue;
        gridDim = {grid[0], grid[1], grid[2]};
        blockDim = {block[0], block[1], block[2]};
        running_order = order;
        sequence blocks(volume(gridDim), order);
        for (uint64_t index; blocks.next(&index);) {
            blockIdx = place(index, gridDim);
            function.run(args);
        }
        return 0;
    }
    return -ENOENT;
}

int kernel_emulate_plan(const struct sheaf_kernel_plan *plan, uint64_t order)
{
    int status = 0;
    for (uint32_t i = 0; i < plan->step_count && status == 0; i++) {
        const struct sheaf_kernel_step *step = &plan->steps[i];
        if (step->function >= sheaf_kernel_function_count)
            return -EINVAL;
        status =
            kernel_emulate(sheaf_kernel_functions[step->function].name, step->grid, step->block, step->args, order);
    }
    return status;
}
