/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Google Benchmark for bodies in C. A file registers itself:
 *
 *     static void claim(struct bench *bench)
 *     {
 *         ... set up for bench_argument(bench) ...
 *         while (bench_next(bench))
 *             ... what is measured ...
 *         bench_count_items(bench, rows);
 *         ... tear down ...
 *     }
 *     BENCH("ready ring/claim", claim, 1, 8, 32)   one run per argument; at least one, 0 where none is wanted
 *
 * and is named in perf/meson.build. BENCH_WALL is for bodies that use several threads. The program takes Google
 * Benchmark's options (--benchmark_filter=...,
 * --benchmark_format).
 */
#ifndef PERF_MICRO_BENCH_H
#define PERF_MICRO_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bench; /* one run of one body */

bool bench_next(struct bench *bench);
int64_t bench_argument(const struct bench *bench);
int64_t bench_iterations(const struct bench *bench); /* after the loop */
void bench_pause(struct bench *bench);               /* costs a microsecond: around big preparations only */
void bench_resume(struct bench *bench);
void bench_count_items(struct bench *bench, int64_t items); /* in all: gives items/s */
void bench_count_bytes(struct bench *bench, int64_t bytes);
void bench_fail(struct bench *bench, const char *why); /* the run counts as failed; leave the body */

struct bench_entry {
    const char *name;
    void (*body)(struct bench *bench);
    const int64_t *arguments;
    int argument_count;
    bool wall; /* rates by the clock on the wall: for bodies that use several threads */
    struct bench_entry *next;
};
void bench_register(struct bench_entry *entry);

#ifndef __cplusplus
#define BENCH(bench_name, function, ...) BENCH_ENTRY(bench_name, function, false, __VA_ARGS__)
#define BENCH_WALL(bench_name, function, ...) BENCH_ENTRY(bench_name, function, true, __VA_ARGS__)
#define BENCH_ENTRY(bench_name, function, by_wall, ...)                                                                \
    static const int64_t function##_arguments[] = {__VA_ARGS__};                                                       \
    static struct bench_entry function##_entry = {                                                                     \
        bench_name, function, function##_arguments, sizeof(function##_arguments) / sizeof(int64_t), by_wall, 0};       \
    __attribute__((constructor)) static void function##_register(void)                                                 \
    {                                                                                                                  \
        bench_register(&function##_entry);                                                                             \
    }
#endif

#ifdef __cplusplus
}
#endif
#endif
