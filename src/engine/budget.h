/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How one budget in bytes is divided.
 *
 *   fixed     the engine itself: code, lineage, rings, boards, journal
 *   sources   files read and not yet done with; more are read when some are
 *   workers   each an equal share: three quarters for its own heap (libraries, models, pages being rendered), a quarter
 * for the values it makes. A worker that needs more for values waits until some are freed; it gets more than its share
 *             only when nobody else can go on either, for otherwise the run would stand still
 *
 * Pure: numbers in, numbers out.
 */
#ifndef SRC_ENGINE_BUDGET_H
#define SRC_ENGINE_BUDGET_H

#include <stdint.h>

struct budget {
    uint64_t total_bytes;
    uint64_t fixed_bytes;
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
