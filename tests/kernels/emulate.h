/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the functions of kernels/device.cu on the CPU: the same source, compiled for the host, block by block and phase
 * by phase over the threads of a block. `order` picks the order of blocks and threads (0: ascending): whatever depends
 * on it lacks a barrier or an atomic.
 */
#ifndef TESTS_KERNELS_EMULATE_H
#define TESTS_KERNELS_EMULATE_H

#include <stdint.h>

#include "kernels/table.h"

#ifdef __cplusplus
extern "C" {
#endif

/* By the function's name, as cuLaunchKernel: `args` is the struct that parameters[0] points to. -ENOENT: no such one.
 */
int kernel_emulate(const char *name, const uint32_t grid[3], const uint32_t block[3], const void *args, uint64_t order);
/* All steps of a plan, whose addresses are the host's. */
int kernel_emulate_plan(const struct sheaf_kernel_plan *plan, uint64_t order);

#ifdef __cplusplus
}
#endif
#endif
