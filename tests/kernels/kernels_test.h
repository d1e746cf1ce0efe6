/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of kernels share: the same call on every instruction set and by device code, which runs on the CPU. */
#ifndef TESTS_KERNELS_KERNELS_TEST_H
#define TESTS_KERNELS_KERNELS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/rows.h"
#include "kernels/table.h"
#include "pictures.h"

typedef int (*picture_call)(const void *cookie, const struct sheaf_image *in, struct sheaf_image *out);
typedef int (*picture_plan)(const void *cookie, const struct sheaf_image *in, struct sheaf_image *out,
                            struct sheaf_kernel_plan *plan);

/* Runs all steps of a plan, whose addresses are the host's, its threads in an order (kernels/device_host.h). */
void plan_run(const struct sheaf_kernel_plan *plan, uint64_t order);

/* Runs a call that makes a picture of a picture with the fastest loops into `out`, and checks that all other loops, and
 * device code in two orders of its threads, make the same, and that nothing is written into gaps. */
void picture_everywhere(picture_call call, picture_plan plan, const void *cookie, const struct sheaf_image *in,
                        struct sheaf_image *out);

/* The same for a call whose result is `bytes` at `result`; of a device's, the first `compared` count. */
typedef int (*value_call)(const void *cookie, const struct sheaf_image *in, void *result);
typedef int (*value_plan)(const void *cookie, const struct sheaf_image *in, void *result,
                          struct sheaf_kernel_plan *plan);
void value_everywhere(value_call call, value_plan plan, const void *cookie, const struct sheaf_image *in, void *result,
                      size_t bytes, size_t compared);

#endif
