/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the simulator. */
#ifndef SRC_SIM_STATE_H
#define SRC_SIM_STATE_H

#include "sched/gate.h"
#include "sched/sched.h"
#include "sched/upstream.h"
#include "sim/sim.h"

enum row_state { ROW_CLAIMED, ROW_RUNS, ROW_IS_OVER };

struct sim_row {
    struct grain grain;
    uint32_t attempt, emitted, children;
    uint8_t state, fault;
    bool cancelled;
};

struct device {
    uint32_t pool, number;
    uint32_t call, count, at;
    uint32_t rows_before;          /* since it was started */
    uint64_t started_us, until_us; /* of a batch: as expected */
    bool whole, restarts, fresh;
    struct sim_row *rows;
    uint32_t capacity;
};

struct event {
    uint64_t at_us, order;
    uint32_t device;
};

struct pool_state {
    uint32_t device_first, device_count;
    uint32_t *idle; /* a stack */
    uint32_t idle_count, restarting;
    enum sim_idle why;
};

/* Ready rows of a Call when the order is not FIFO. */
struct side_queue {
    uint32_t *entities;
    uint32_t count, capacity, head;
    struct bucket {
        uint32_t *entities;
        uint32_t count, capacity;
        bool closed;
    } * buckets; /* PARENT_BOUND: per parent Entity */
    uint32_t bucket_capacity;
    uint32_t *order; /* parents, in the order in which they were closed or filled a batch */
    uint32_t order_count, order_capacity, order_head;
};

struct call_state {
    uint32_t pool;
    bool expands;
    uint32_t out;     /* rows that devices hold ... */
    uint32_t running; /* ... and run */
    struct upstream_children children;
    uint32_t queued; /* rows in the side queue */
    struct policy_curve curve;
    struct policy_arrivals arrivals;
    struct gate gate;
    struct side_queue side;
    struct claim {
        uint32_t device, row; /* device + 1; 0: nowhere */
    } * claims;
    uint32_t claim_capacity;
};

struct sim {
    const struct sim_setup *setup;
    const struct sheaf_plan *plan;
    struct sim_result *result;
    struct lineage *lineage;
    struct sched *sched;
    struct upstream_map upstream;
    struct call_state *calls;
    struct pool_state *pools;
    struct device *devices;
    uint32_t device_count;
    struct event *heap;
    uint32_t heap_count, heap_capacity;
    uint64_t now_us, order, random;
    uint32_t admitted, done;
    uint32_t *complete;
    uint32_t complete_count, complete_capacity;
    double *free_in_us; /* scratch, one per device */
    int error;
};

/* events.c */
uint32_t sim_draw(struct sim *sim, uint32_t below);
void *sim_grow(struct sim *sim, void *array, uint32_t *capacity, uint32_t needed, size_t bytes_each);
void event_push(struct sim *sim, uint64_t at_us, uint32_t device);
bool event_pop(struct sim *sim, struct event *ret_event);

/* rows.c: where rows wait. */
void on_ready(void *cookie, struct grain grain);
enum lineage_found on_cancel(void *cookie, struct grain grain);
void gate_row_over(struct sim *sim, struct grain grain, bool succeeded);
void expansion_closed(struct sim *sim, uint32_t call, uint32_t parent);
uint32_t rows_ready(const struct sim *sim, uint32_t call);
bool rows_take(struct sim *sim, uint32_t call, struct sched_row *ret_row);
struct policy_ask rows_ask(struct sim *sim, uint32_t call);
struct claim *claim_of(struct sim *sim, struct grain grain);

/* devices.c */
void devices_assign(struct sim *sim);
void device_step(struct sim *sim, struct device *device);
void row_end(struct sim *sim, struct device *device, struct sim_row *row, bool forget);
void device_idle(struct sim *sim, struct device *device, bool lost);
uint64_t service_us(struct sim *sim, double us);

/* answers.c: what a row that ran says, and what becomes of a dispatch that is lost. */
void row_start(struct sim *sim, struct sim_row *row);
void row_finish(struct sim *sim, struct device *device, struct sim_row *row);
bool row_emit(struct sim *sim, struct sim_row *row);
void dispatch_lose(struct sim *sim, struct device *device, struct sim_row *guilty, enum sim_fault fault);

#endif
