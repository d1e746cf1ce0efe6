/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work of a stated length, the same for the engine, for processes without one, and for the peers: a batch of n rows is
 * over `ns_per_batch + n * ns_per_row` after it was begun. It sleeps until then, by one absolute deadline; or, busy, it
 * runs a loop of so many steps, so that the instructions of both sides are the same.
 *
 * What was done when goes into a trace: a file that every process maps, one record per batch.
 */
#ifndef PERF_ENGINE_TIMING_H
#define PERF_ENGINE_TIMING_H

#include <stdint.h>

#include <sheaf/status.h>

struct timing_record {
    uint64_t start_ns, end_ns; /* CLOCK_MONOTONIC */
    uint32_t process, rows;
};

/* The file: zeroes, as long as the records need, made by whoever reads it. */
struct timing_trace {
    uint64_t used; /* records begun; atomic. Those past the end of the file were not kept */
    uint64_t reserved;
    struct timing_record records[];
};

struct timing_cost {
    int64_t ns_per_row, ns_per_batch;
    int64_t steps_per_us; /* of the busy loop; 0: sleep */
};

struct timing {
    struct timing_cost cost;
    struct timing_trace *trace;
    uint64_t trace_bytes, trace_capacity;
};

uint64_t timing_now_ns(void);
/* `trace` "" or NULL: none. A negative errno when it cannot be mapped. */
SHEAF_API int timing_open(struct timing *timing, const struct timing_cost *cost, const char *trace);
SHEAF_API void timing_close(struct timing *timing);
SHEAF_API void timing_work(struct timing *timing, uint32_t rows);
/* How many steps of the busy loop this machine does in a microsecond; asked once, and handed to all sides. */
int64_t timing_steps_per_us(void);

#endif
