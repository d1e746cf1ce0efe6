/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.cu on the CPU: the same source, compiled for the host, block by block and phase by phase over the threads of a
 * block. It is what the backend `host` of a device runs, and how the tests execute device code where there is no GPU.
 * Internal.
 */
#ifndef SHEAF_KERNEL_DEVICE_HOST_H
#define SHEAF_KERNEL_DEVICE_HOST_H

#include <sheaf/operator.h>

#include "kernels/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Each with the arguments of its function, for sheaf_kernel.host. */
#define DEVICE_HOST_FUNCTION(name, type) void device_host_##name(const void *args, const struct sheaf_grid *grid);
KERNEL_FUNCTIONS(DEVICE_HOST_FUNCTION)
#undef DEVICE_HOST_FUNCTION

/* In which order this host thread runs blocks and threads from here on; 0, as at the beginning: ascending. Whatever
 * depends on it lacks a barrier or an atomic. For tests. */
void device_host_order(uint64_t order);

#ifdef __cplusplus
}
#endif
#endif
