/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The launch table: what a device runs for a call of kernels.h.
 *
 * sheaf_plan_X takes what sheaf_kernel_X takes, checks it in the same way, and writes the launches into a plan instead
 * of running anything. Addresses in descriptors, of results and of scratch memory are the device's. The launches of a
 * plan run one after the other on one stream; with an operator's device, for example:
 *
 *     struct sheaf_kernel_plan plan = {.scratch = address, .scratch_bytes = bytes};
 *     status = sheaf_plan_resize(&in, &out, SHEAF_FILTER_AREA, &plan);
 *     for (i = 0; i < plan.step_count && status == 0; i++) {
 *         const struct sheaf_kernel_step *step = &plan.steps[i];
 *         const char *name = sheaf_device_kernels.kernels[step->function].name;
 *         status = device->launch(batch, name, &step->grid, step->args);
 *     }
 *
 * None uses dynamic shared memory. A plan may be run again while its addresses hold; nothing of it points into host
 * memory, so it can be captured.
 */
#ifndef SHEAF_KERNEL_TABLE_H
#define SHEAF_KERNEL_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include <sheaf/operator.h>

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SHEAF_KERNEL_ARGS_BYTES_MAX = 512, SHEAF_KERNEL_STEPS_MAX = 12 };

/*
 * All functions, for sheaf_plugin.kernels. The image is a fatbin, embedded in this build: SASS for sm_90, and PTX that
 * later devices compile; NULL where it was built without nvcc. On the backend `host` the same source runs, compiled for
 * the CPU, thread after thread: right, and slower than kernels.h, which a CPU had better call instead.
 */
extern const struct sheaf_kernels sheaf_device_kernels;
/* One line about the image: what it is for and its size, or why there is none. */
const char *sheaf_device_kernels_text(void);

struct sheaf_kernel_step {
    uint32_t function; /* index into sheaf_device_kernels.kernels */
    uint32_t args_bytes;
    struct sheaf_grid grid;
    uint64_t args[SHEAF_KERNEL_ARGS_BYTES_MAX / sizeof(uint64_t)];
};

/* `scratch` is memory of the device for values between steps, 16-byte aligned; it needs no contents. Where it does not
 * suffice, a function returns -ENOSPC with `scratch_bytes` as it must be; most need none. -E2BIG: no more steps fit.
 * Steps are appended, so that calls can be chained; the scratch memory of chained calls is shared, which is right as
 * they run in order. */
struct sheaf_kernel_plan {
    uint64_t scratch;
    uint64_t scratch_bytes;
    uint32_t step_count;
    uint32_t reserved;
    struct sheaf_kernel_step steps[SHEAF_KERNEL_STEPS_MAX];
};

int sheaf_plan_convert(const struct sheaf_image *in, const struct sheaf_image *out, struct sheaf_kernel_plan *plan);
int sheaf_plan_resize(const struct sheaf_image *in, const struct sheaf_image *out, uint32_t filter,
                      struct sheaf_kernel_plan *plan);
int sheaf_plan_letterbox(const struct sheaf_image *in, const struct sheaf_image *out, uint32_t filter,
                         const uint8_t fill[4], struct sheaf_kernel_plan *plan);
int sheaf_plan_rotate(const struct sheaf_image *in, const struct sheaf_image *out, int32_t slope, uint8_t fill,
                      struct sheaf_kernel_plan *plan);
int sheaf_plan_tensor(const struct sheaf_image *in, uint32_t width, uint32_t height,
                      const struct sheaf_normalise *normalise, void *out, uint64_t out_bytes,
                      struct sheaf_kernel_plan *plan);
int sheaf_plan_threshold(const struct sheaf_image *in, const struct sheaf_image *out, uint32_t threshold,
                         struct sheaf_kernel_plan *plan);
int sheaf_plan_sauvola(const struct sheaf_image *in, const struct sheaf_image *out, uint32_t radius, uint32_t k_256,
                       struct sheaf_kernel_plan *plan);
/* Results below are at addresses of the device, aligned to their types. The threshold may be NULL. */
int sheaf_plan_otsu(const struct sheaf_image *in, const struct sheaf_image *out, uint32_t *threshold,
                    struct sheaf_kernel_plan *plan);
int sheaf_plan_histogram(const struct sheaf_image *in, uint32_t *counts, struct sheaf_kernel_plan *plan);
int sheaf_plan_histogram_distance(const uint32_t *a, const uint32_t *b, uint32_t *distance,
                                  struct sheaf_kernel_plan *plan);
/* `sum` and `squares`, or `sum` alone, as the first members of the host's structs: the counts are known beforehand. */
int sheaf_plan_sharpness(const struct sheaf_image *in, struct sheaf_sharpness *sharpness,
                         struct sheaf_kernel_plan *plan);
int sheaf_plan_ssim(const struct sheaf_image *a, const struct sheaf_image *b, struct sheaf_ssim *ssim,
                    struct sheaf_kernel_plan *plan);
int sheaf_plan_skew(const struct sheaf_image *in, uint32_t threshold, uint32_t max_slope, struct sheaf_skew *skew,
                    struct sheaf_kernel_plan *plan);
/* The same with the threshold that sheaf_otsu_threshold finds for the picture's histogram. */
int sheaf_plan_skew_otsu(const struct sheaf_image *in, uint32_t max_slope, struct sheaf_skew *skew,
                         struct sheaf_kernel_plan *plan);
int sheaf_plan_dhash(const struct sheaf_image *in, uint64_t *hash, struct sheaf_kernel_plan *plan);
int sheaf_plan_phash(const struct sheaf_image *in, uint64_t *hash, struct sheaf_kernel_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
