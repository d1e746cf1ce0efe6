/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of the roots that wait is admitted next, and how many may be in flight. As submitted, or the largest first:
 * then what takes longest begins early, and no large one is left alone at the end. Largest of those that wait, so hosts
 * may submit far more roots than are in flight; those of unknown size come last. Equal ones go in their order.
 */
#ifndef SRC_SCHED_ADMISSION_H
#define SRC_SCHED_ADMISSION_H

#include "lineage/lineage.h"

enum admission_order { ADMISSION_AS_SUBMITTED, ADMISSION_LARGEST_FIRST };

struct admission_root {
    uint64_t root; /* the caller's name of it */
    uint64_t size, number;
};

struct admission {
    struct lineage_memory memory;
    enum admission_order order;
    struct admission_root *heap; /* the next one on top */
    uint32_t count, capacity;
    uint64_t added;
};

void admission_open(struct admission *admission, enum admission_order order, const struct lineage_memory *memory);
void admission_close(struct admission *admission);

int admission_add(struct admission *admission, uint64_t root, uint64_t size); /* 0 or -ENOMEM */
bool admission_take(struct admission *admission, uint64_t *ret_root);         /* false: none waits */

/* Most roots in flight now. While more may be submitted, what comes later may be larger than all that waits: only as
 * many go as keep `workers` from idling. */
uint64_t admission_roots_max(const struct admission *admission, uint64_t window, uint32_t workers, bool more);

#endif
