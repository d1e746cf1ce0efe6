/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of the fatbin: which thread computes what. What is computed is in arithmetic.h.
 *
 * A body is a sequence of phases, EACH_THREAD { ... }: all threads of a block run one, then there is a barrier. Nothing
 * but SHARED variables lives from one phase to the next; `continue` ends a thread's part of a phase. So the same bodies
 * can be run on a CPU by a loop over the threads of each phase (device_host.cc).
 */
#include "kernels/kernels.h"
#include "kernels/launch.h"

#if defined(__CUDACC__)
#define DEVICE_FUNCTION(name, type) extern "C" __global__ void sheaf_##name(const __grid_constant__ type args)
#define EACH_THREAD for (bool once = true; once; once = false, __syncthreads())
#define SHARED __shared__
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")
#endif

/* The pixel of this thread in a grid over a picture. */
#define PIXEL_X (blockIdx.x * blockDim.x + threadIdx.x)
#define PIXEL_Y (blockIdx.y * blockDim.y + threadIdx.y)

/* Adds up a SHARED array with an element for each thread of a block in a row, into its first. */
#define BLOCK_SUM(sums)                                                                                                \
    for (uint32_t half = PLAN_BLOCK_THREADS / 2; half > 0; half /= 2)                                                  \
        EACH_THREAD                                                                                                    \
        {                                                                                                              \
            if (threadIdx.x < half)                                                                                    \
                (sums)[threadIdx.x] += (sums)[threadIdx.x + half];                                                     \
        }

#include "kernels/device_load.cuh"

#include "kernels/device_convert.cuh"
#include "kernels/device_resize.cuh"

#include "kernels/device_measure.cuh"
