/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/device_host.h"

#include <string.h>

struct dimensions {
    uint32_t x, y, z;
};

static thread_local dimensions gridDim, blockDim, blockIdx, threadIdx;
static thread_local uint64_t running_order;

static uint64_t common_factor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The numbers below `count`, each once: ascending, or in the order that `order` makes of them. */
class sequence
{
  public:
    sequence(uint64_t count, uint64_t order) : count(count), at(0), step(1), offset(0)
    {
        if (order == 0 || count == 0)
            return;
        offset = order * 0x9E3779B97F4A7C15u % count;
        for (step = order % count; step == 0 || common_factor(step, count) != 1;)
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

/* Several threads of the host may be devices at once. */
template <class T> static T atomicAdd(T *to, T value)
{
    return __atomic_fetch_add(to, value, __ATOMIC_RELAXED);
}

#define DEVICE_FUNCTION(name, type) static void sheaf_##name(const type &args)
#define EACH_THREAD for (phase threads; threads.next();)
#define SHARED
#define UNROLL
#define ROLLED

#include "kernels/device.cu"

void device_host_order(uint64_t order)
{
    running_order = order;
}

#define DEVICE_HOST_FUNCTION(name, type)                                                                               \
    void device_host_##name(const void *args, const struct sheaf_grid *grid)                                           \
    {                                                                                                                  \
        type copy;                                                                                                     \
        memcpy(&copy, args, sizeof copy);                                                                              \
        gridDim = {grid->blocks[0], grid->blocks[1], grid->blocks[2]};                                                 \
        blockDim = {grid->threads[0], grid->threads[1], grid->threads[2]};                                             \
        sequence blocks(volume(gridDim), running_order);                                                               \
        for (uint64_t index; blocks.next(&index);) {                                                                   \
            blockIdx = place(index, gridDim);                                                                          \
            sheaf_##name(copy);                                                                                        \
        }                                                                                                              \
    }
KERNEL_FUNCTIONS(DEVICE_HOST_FUNCTION)
