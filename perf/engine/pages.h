/* SPDX-License-Identifier: Apache-2.0 */
/*
 * perf_pages: documents that are nothing but a number of pages, through the engine or through processes without one.
 * The two sides have the same work (timing.h) and the same report.
 */
#ifndef PERF_ENGINE_PAGES_H
#define PERF_ENGINE_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "timing.h"

struct job {
    const char *program; /* sleep: pages take time; paint: pages are payload; read: rows are the roots themselves */
    const char *plugin;  /* perf_operators.so */
    const char *trace;   /* or NULL */
    const char *text;    /* what `list` was given as */
    uint32_t *pages;     /* per document */
    uint32_t documents;
    uint64_t page_count;
    uint32_t workers, batch, openers;
    struct timing_cost cost;
    int64_t bytes, fail_every;
    uint64_t memory_bytes;
    uint32_t window;
    bool events;
};

/* What both sides measure. */
struct outcome {
    double wall_s; /* from before anything was started until all is over and waited for */
    double run_s;  /* from when the workers could be given work until the last result */
    double cpu_s;  /* of this process and all its children, user and system */
    json_t *more;  /* an object with what only one side has */
};

/* 0, or 1 after a line on standard error. */
int pages_engine(const struct job *job, struct outcome *ret_outcome);
int pages_twin(const struct job *job, struct outcome *ret_outcome);

double pages_now_s(void);

#endif
