/* SPDX-License-Identifier: Apache-2.0 */
/* Which version of rows.c the host runs. */
#include <stdatomic.h>
#include <stddef.h>

#include "kernels/rows.h"

extern const struct kernel_rows kernel_rows_baseline;
#if defined(__x86_64__)
extern const struct kernel_rows kernel_rows_v3, kernel_rows_v4, kernel_rows_v4_vbmi;
#endif

/* Slowest first. */
static const struct kernel_rows *variant(uint32_t i)
{
    switch (i) {
    case 0:
        return &kernel_rows_baseline;
#if defined(__x86_64__)
    case 1:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma")
                   ? &kernel_rows_v3
                   : NULL;
    case 2:
        return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                       __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512cd")
                   ? &kernel_rows_v4
                   : NULL;
    case 3:
        return __builtin_cpu_supports("avx512vbmi") && variant(2) ? &kernel_rows_v4_vbmi : NULL;
#endif
    default:
        return NULL;
    }
}

const struct kernel_rows *kernel_rows_at(uint32_t i)
{
    return variant(i);
}

/* Every thread finds the same, so it does not matter which of them writes it; relaxed, since it points to constants. */
static _Atomic(const struct kernel_rows *) chosen;

const struct kernel_rows *kernel_rows(void)
{
    const struct kernel_rows *rows = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (rows)
        return rows;
    for (uint32_t i = 0; variant(i); i++)
        rows = variant(i);
    atomic_store_explicit(&chosen, rows, memory_order_relaxed);
    return rows;
}

void kernel_rows_force(const struct kernel_rows *rows)
{
    atomic_store_explicit(&chosen, rows, memory_order_relaxed);
}

const char *sheaf_kernel_host_variant(void)
{
    return kernel_rows()->name;
}
