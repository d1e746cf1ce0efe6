/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sheaf-gpu-check: what a GPU does for Sheaf, as one table. tools/gpu-check runs it.
 *
 *     cases.c    every kernel: the same bytes as on the host? how near to the speed of a copy on the device?
 *     rates.c    batches through src/device/pipeline.h: copies against plain pinned ones, overlap, cost per batch
 *     engine.c   small rows through the whole engine: what a batch costs
 *     operator.c the operator that it runs, a plug-in
 *     driver.c   the plain copies that those are held against, straight from the driver
 *     main.c     opens the device, prints
 *
 * Only a real GPU is timed. On the driver of the tests, which is told by a symbol of its own, the kernels are checked
 * and no time is printed: it would be an invention. All that measures runs there too, but briefly, and what it would
 * say is thrown away.
 */
#ifndef PERF_GPU_H
#define PERF_GPU_H

#include <stdio.h>

#include "device/pipeline.h"
#include "kernels/table.h"

struct gpu {
    struct device *device;
    struct device_stream *stream;
    struct device_module *module;
    bool is_real;
    FILE *times;          /* where figures go: nowhere, unless it is real */
    unsigned wrong, slow; /* kernels that differ from the host; figures below what they should reach */
};

/* Ends the program with one line when a status is negative. */
void gpu_must(const struct gpu *gpu, int status, const char *what);
double gpu_now_s(void);
double gpu_thread_s(void); /* CPU time of this thread */

/* ---- driver.c ---- */

/* Whether libcuda.so.1 is a driver of GPUs, and not that of the tests. */
bool driver_is_real(void);
/* Gigabytes a second, read and written counted, of plain copies from device to device; 0: the driver has none. */
double driver_copy_on_device(const struct gpu *gpu);
enum driver_direction { DRIVER_IN, DRIVER_OUT };
/* Gigabytes a second of plain copies between pinned memory and the device. */
double driver_copy_pinned(const struct gpu *gpu, enum driver_direction direction);

/* ---- cases.c, rates.c: on the open device ---- */

void cases_run(struct gpu *gpu, double device_copy);
void rates_run(struct gpu *gpu);

/* ---- engine.c ---- */

/* The device must be closed: the engine has its own process on it. */
void engine_run(struct gpu *gpu);

#endif
