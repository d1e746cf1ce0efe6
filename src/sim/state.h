/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the simulator. */
#ifndef SRC_SIM_STATE_H
#define SRC_SIM_STATE_H

#include "sched/admission.h"
#include "sched/gate.h"
#include "sched/sched.h"
#include "sched/upstream.h"
#include "sim/sim.h"

enum row_state { ROW_CLAIMED, ROW_RUNS, ROW_IS_OVER };

struct sim_row {
    struct grain grain;
    uint32_t attempt, emitted, children; /* children: of the Expansion that has most */
    uint8_t state;
    bool cancelled;
    struct sim_saying saying;
};

/* Of a dispatch of a batch operator. */
enum dispatch_phase { DISPATCH_COPIES_IN, DISPATCH_QUEUES, DISPATCH_COMPUTES, DISPATCH_COPIES_OUT };

/* A worker process. */
struct device {
    uint32_t pool, number;
    uint32_t unit; /* what it computes on; others may, too, if batches are in flight at once */
    uint32_t call, count, at;
    uint32_t rows_before;          /* since it was started */
    uint64_t started_us, until_us; /* of a batch: as expected */
    uint64_t queued_order, computes_us;
    enum dispatch_phase phase;
    enum policy_close close;
    bool whole, restarts, timed_out, blocked, lost;
    struct sim_row *rows;
    uint32_t capacity;
};

/* What computes, with its links. */
struct unit {
    uint32_t pool, lane_first, lane_count;
    bool computes;
    double slowness;
    double in_free_us, out_free_us;
    double *bridge_free_us; /* of its bridge, or NULL */
};

struct event {
    uint64_t at_us, order;
    uint32_t device;
};

struct pool_state {
    uint32_t device_first, device_count;
    uint32_t unit_first, unit_count;
    uint32_t *idle; /* a stack */
    uint32_t idle_count, restarting, blocked;
    double *bridges_free_us;
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
    struct {
        uint32_t count, slots[SIM_EXPANSIONS_MAX];
    } groups[SIM_EXPANSIONS_MAX]; /* per Expansion: the outputs that are expanded by it */
    bool expanded_slot[SIM_EXPANSIONS_MAX];
    double longest_row_us, children_us; /* by the model; children_us: of all rows */
    uint32_t out;                       /* rows that devices hold ... */
    uint32_t running; /* ... and run, those whose emitting blocks left out: nobody waits for what they would make */
    struct upstream_children children;
    uint32_t queued; /* rows in the side queue */
    uint64_t passed; /* the look for work in which it had nothing to give */
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
    struct unit *units;
    uint32_t unit_count;
    struct sim_operators operators;
    struct event *heap;
    uint32_t heap_count, heap_capacity;
    uint64_t now_us, order, random;
    struct admission admission;
    uint32_t admitted, done;
    uint32_t *complete;
    uint32_t complete_count, complete_capacity;
    bool *is_complete;  /* per root, in order of admission */
    uint32_t lowest;    /* the first that is not */
    uint32_t blocked;   /* devices */
    bool room;          /* something that blocks may have gone */
    uint64_t serving;   /* looks for work so far */
    uint64_t still;     /* events since something was done for good */
    double *free_in_us; /* scratch, one per device */
    int error;
};

/* prepare.c */
void calls_prepare(struct sim *sim);
int pools_prepare(struct sim *sim);

/* events.c */
uint32_t sim_draw(struct sim *sim, uint32_t below);
void *sim_grow(struct sim *sim, void *array, uint32_t *capacity, uint32_t needed, size_t bytes_each);
void event_push(struct sim *sim, uint64_t at_us, uint32_t device);
bool event_pop(struct sim *sim, struct event *ret_event);

/* counts.c: what operators do when nobody says. */
struct sim_operators counting_operators(struct sim *sim);

/* rows.c: where rows wait. */
void on_ready(void *cookie, struct grain grain);
enum lineage_found on_cancel(void *cookie, struct grain grain);
void gate_row_over(struct sim *sim, struct grain grain, bool succeeded);
void expansion_closed(struct sim *sim, uint32_t call, uint32_t parent);
uint32_t rows_ready(const struct sim *sim, uint32_t call);
bool rows_take(struct sim *sim, uint32_t call, struct sched_row *ret_row);
struct policy_ask rows_ask(struct sim *sim, uint32_t call);
struct claim *claim_of(struct sim *sim, struct grain grain);

/* assign.c: which device takes what. */
void devices_assign(struct sim *sim);

/* devices.c: how a dispatch goes on. */
void device_start(struct sim *sim, struct device *device);
void device_step(struct sim *sim, struct device *device);
void device_wake(struct sim *sim, struct device *device);
void row_end(struct sim *sim, struct device *device, struct sim_row *row, bool forget);
void device_idle(struct sim *sim, struct device *device, bool lost);

/* service.c: how long things take. */
double batch_us(const struct sim_service *service, uint32_t rows);
/* What `us` of the model becomes on a device. */
uint64_t service_us(struct sim *sim, const struct device *device, double us);
uint64_t deadline_us(const struct sim *sim, uint32_t call); /* 0: none */
/* When a copy that begins now is over. */
uint64_t copy_until_us(struct sim *sim, const struct device *device, double bytes, bool in);
int bound_find(const struct sim *sim, struct sim_bound *ret_bound);

/* answers.c: what a row that ran says, and what becomes of a dispatch that is lost. */
void row_start(struct sim *sim, struct sim_row *row);
void row_finish(struct sim *sim, struct device *device, struct sim_row *row);
/* May it emit now? The lowest unfinished root always may, and the last worker of a Pool that does not wait. */
bool row_may_emit(struct sim *sim, const struct device *device, const struct sim_row *row);
bool row_emit(struct sim *sim, struct sim_row *row);
/* `guilty`: the row that was running, NULL for a whole batch. SIM_ANSWERS: nobody's fault. */
void dispatch_lose(struct sim *sim, struct device *device, struct sim_row *guilty, enum sim_fault fault);

#endif
