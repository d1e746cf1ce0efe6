/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator: one run of a Plan over src/lineage and src/sched, the same core that the engine drives, with a virtual
 * clock instead of processes. Devices are numbers with a service-time model; what they answer is decided by a model of
 * the operators, not by running them: a source is a count, a Call that expands makes as many children as its input
 * says, every other Call passes its first input on. Everything that is random comes from one seed, so a run is a
 * function of its arguments. Nothing here knows a process, a file or the real time.
 *
 * Times it reports are simulated; whoever prints them says so.
 */
#ifndef SRC_SIM_SIM_H
#define SRC_SIM_SIM_H

#include "lineage/lineage.h"
#include "sched/policy.h"

/* How long a dispatch takes. */
struct sim_service {
    double fixed_us, row_us; /* of a batch of n: fixed + n * row; of per-row operators each row: fixed + row */
    double child_us;         /* a Call that expands: for each child it emits */
    const double *table_us;  /* or measured: table_us[n], n up to table_rows */
    uint32_t table_rows;
};

/* What a row does instead of answering. */
enum sim_fault { SIM_ANSWERS, SIM_FAILS_ITEM, SIM_FAILS_GROUP, SIM_FAILS_ROOT, SIM_RAISES, SIM_CRASHES, SIM_HANGS };

enum sim_order {
    SIM_FIFO,
    SIM_UNORDERED,    /* any READY row is as good as another */
    SIM_PARENT_BOUND, /* a batch holds rows of one parent, once its Expansion is closed or the batch is full */
};

struct sim_dispatch {
    uint64_t start_us, end_us;
    uint32_t call, device, rows;
    enum policy_close close;
};

struct sim_setup {
    const struct sheaf_plan *plan;
    const struct sim_service *services; /* per Call */
    const uint32_t *roots;              /* the count each root's first source carries */
    uint32_t root_count;
    uint32_t window; /* roots in flight, 0: all */
    uint32_t devices_of_pool[16];
    uint32_t dial;      /* isolation dial of Calls that may fail their group, 0: off */
    bool fixed_batches; /* no policy: what is READY, at most the Call's batch, at once */
    enum sim_order order;
    uint32_t jitter_percent; /* service times vary by so much, evenly, both ways */
    uint64_t restart_us;     /* of a lost worker */
    uint64_t seed;
    /* Asked once per start of a row; NULL: all rows answer. */
    enum sim_fault (*fault)(void *cookie, uint32_t call, const uint64_t *coordinate, uint32_t depth, uint32_t attempt);
    void *cookie;
    void (*trace)(void *cookie, const struct sim_dispatch *dispatch); /* or NULL */
    void *trace_cookie;
};

enum sim_idle { SIM_IDLE_STARVED, SIM_IDLE_WAITS, SIM_IDLE_HELD, SIM_IDLE_DRAINED, SIM_IDLE_RESTARTS, SIM_IDLE_COUNT };
const char *sim_idle_name(enum sim_idle idle);

struct sim_call_result {
    uint64_t batches, rows, isolation_batches;
    uint64_t closes[POLICY_CLOSE_COUNT];
    struct lineage_call_counts counts;
    double fixed_us, row_us; /* as the policy has learned them */
};

struct sim_pool_result {
    double busy_us;
    double idle_us[SIM_IDLE_COUNT];
};

struct sim_result {
    uint64_t makespan_us;
    uint64_t first_root_us; /* when the first root was complete */
    uint64_t roots_by_status[4];
    uint64_t grains;
    uint64_t values_made, values_unused; /* equal, or something leaks */
    struct sim_call_result *calls;       /* per Call */
    struct sim_pool_result pools[16];
};

/* 0; -EINVAL: a setup that cannot be; -EDEADLK: nothing moves and roots are left; -ENOMEM. */
int sim_run(const struct sim_setup *setup, struct sim_result *ret_result);
void sim_result_free(struct sim_result *result);

#endif
