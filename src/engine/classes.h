/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What memory a run holds, by class: counted where it is taken and given back, or measured once a second, and compared
 * with what the process has. Counting is for any thread; each number is exact, together they are of about one moment.
 */
#ifndef SRC_ENGINE_CLASSES_H
#define SRC_ENGINE_CLASSES_H

#include <stdatomic.h>
#include <stdint.h>

#include "engine/tables.h"
#include "lineage/lineage.h"

enum memory_class {
    MEMORY_SOURCES,    /* real chunks of shards: sources, lists for workers */
    MEMORY_VALUES,     /* real chunks of workers */
    MEMORY_HEAPS,      /* private memory of workers, measured */
    MEMORY_RINGS,      /* boards and lanes */
    MEMORY_LINEAGE,    /* the engine's heap, as the next three */
    MEMORY_SCHEDULING, /* queues and what decides about them */
    MEMORY_RESULTS,    /* made for the host and not yet acknowledged */
    MEMORY_MESSAGES,   /* in mailboxes */
    MEMORY_CLASSES,
};

struct memory_count {
    _Atomic uint64_t now, peak;
};

struct memory_ledger {
    struct memory_count of[MEMORY_CLASSES];
    struct memory_count engine; /* private memory of this process, measured: the host's own is in it */
    struct memory_count all;    /* sources, values, heaps, rings and the engine's */
    uint64_t engine_before;     /* what the process had before the run */
    _Atomic uint64_t uncounted; /* most that the engine had on top of its four classes */
};

void memory_add(struct memory_count *count, uint64_t bytes);
void memory_sub(struct memory_count *count, uint64_t bytes);
void memory_set(struct memory_count *count, uint64_t bytes);
uint64_t memory_now(const struct memory_count *count);
uint64_t memory_peak(const struct memory_count *count);

/* Memory of `tables`, counted as it was asked for: what rounding and the ends of blocks lose is not in it. */
struct counted_tables {
    struct tables *tables;
    struct memory_count *count;
};
struct lineage_memory memory_counted(struct counted_tables *counted);

struct sheaf_run;
/* Before the run takes anything. */
void memory_start(struct sheaf_run *run);
/* Measures what is measured; `heap_bytes` of workers. The supervisor's thread. */
void memory_sample(struct sheaf_run *run, uint64_t heap_bytes, bool thorough);

const char *memory_class_name(enum memory_class class_id);

#endif
