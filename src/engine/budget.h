/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How one budget in bytes is divided.
 *
 *   fixed     the engine itself: lineage, queues, results, rings, boards, journal; a 32nd of the budget, at least 64
 * MiB heaps     of workers (libraries, models, pages being worked on): an equal limit for each, which none can exceed.
 *             Three quarters of a worker's share, until that is what a page of 20 megapixels needs, and no less than
 *             that or half of the share beyond
 *   payload   what is left: sources, an eighth of the budget, and values, where each worker has an equal share. One
 * that needs more than its share waits until others go on or nobody can; then what is idle elsewhere is taken for it
 * (grant.c)
 *
 * Fixed, heaps and payload are limits that are kept, not estimates: together they are the budget.
 *
 * Pure: numbers in, numbers out.
 */
#ifndef SRC_ENGINE_BUDGET_H
#define SRC_ENGINE_BUDGET_H

#include <stdint.h>

struct budget {
    uint64_t total_bytes;
    uint64_t fixed_bytes;
    uint64_t payload_bytes; /* sources and values */
    uint64_t largest_bytes; /* most that one row may want of it */
    uint64_t source_bytes;
    uint64_t heap_bytes;  /* of one worker */
    uint64_t value_bytes; /* of one worker, in whole chunks */
};

/* Workers that a budget feeds well, at least 1 and at most `most`. */
uint32_t budget_workers(uint64_t total_bytes, uint32_t most);

/* The least budget with which `workers` can work at all. */
uint64_t budget_minimum(uint32_t workers);

/* The division; total_bytes must not be below the minimum. */
struct budget budget_divide(uint64_t total_bytes, uint32_t workers);

#endif
