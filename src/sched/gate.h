/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The isolation dial of a Call: at most `dial` siblings of one unproven parent are let through to the ready queue
 * before the first of them succeeds; the others are held here, in order. The first is the one that was let through
 * before all others that are not over: what a later one says that happens to be done sooner, in another batch, is no
 * proof, for the first may still fail them all. Worth it only where a failure reaches siblings. One thread; memory is
 * linear in the Entities alive at once.
 */
#ifndef SRC_SCHED_GATE_H
#define SRC_SCHED_GATE_H

#include "lineage/lineage.h"

enum gate_place {
    GATE_NOWHERE,
    GATE_HELD,
    GATE_PASSED,    /* let through while its parent was unproven, and not over ... */
    GATE_SUCCEEDED, /* ... or over, but one before it is not */
};

struct gate_row {
    uint32_t previous, next;
    enum gate_place place;
};

struct gate_parent {
    uint64_t key; /* of the parent that has this number now */
    struct gate_list {
        uint32_t first, last;
    } held_rows, passed_rows;
    uint32_t held, passed; /* passed: let through and not over */
    bool proven;
};

struct gate {
    struct lineage_memory memory;
    struct gate_row *rows;       /* by Entity of the Call's Domain */
    struct gate_parent *parents; /* by Entity of the parent Domain */
    uint32_t row_capacity, parent_capacity;
    uint32_t call, dial;
    uint64_t held;
};

void gate_open(struct gate *gate, const struct lineage_memory *memory, uint32_t call, uint32_t dial);
void gate_close(struct gate *gate);

/* A row became READY. 1: let through; 0: held; -ENOMEM. `parent_key` tells parents with one number apart. */
int gate_ready(struct gate *gate, uint32_t entity, uint32_t parent, uint64_t parent_key);
/* A row that was let through is over, and `succeeded` or not. Then gate_next gives rows to let through. */
void gate_over(struct gate *gate, uint32_t entity, uint32_t parent, uint64_t parent_key, bool succeeded);
/* 1 and the next held row of the parent that may go, or 0. */
int gate_next(struct gate *gate, uint32_t parent, uint32_t *ret_entity);
/* A row is suppressed. True: it was held here and is taken out. */
bool gate_cancel(struct gate *gate, uint32_t entity, uint32_t parent);

#endif
