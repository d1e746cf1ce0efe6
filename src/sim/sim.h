/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator: one run of a Plan over src/lineage and src/sched, the same core that the engine drives, with a virtual
 * clock instead of processes. Devices are numbers with a service-time model, links that copy to and from them, a speed
 * and a worker that may be lost. What rows answer is asked of a table of operators; without one it is a model: a source
 * is a count, a Call that expands makes as many children as its input says, every other Call passes its first input on.
 * Everything that is random comes from one seed, so a run is a function of its arguments. Nothing here knows a process,
 * a file or the real time.
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
    double in_bytes, out_bytes; /* per row of a batch operator: what is copied to its device and back */
};

/* How far a service time strays from the model. Its mean is always what the model says. */
enum sim_spread {
    SIM_EVEN,        /* by at most spread_percent, both ways */
    SIM_EXPONENTIAL, /* memoryless */
    SIM_LOGNORMAL,   /* a long tail: sigma is spread_percent / 100 */
};

/*
 * Copies to and from devices. Each device has one link in and one link out; the devices of one host bridge share what
 * it carries, in both directions together. A copy takes a bridge for its bytes over the bridge's bandwidth, first come
 * first served, and its own link for as long as the slower of the two needs. 0: so fast that it takes no time.
 */
struct sim_links {
    double in_bytes_us, out_bytes_us, bridge_bytes_us; /* bandwidths: bytes a microsecond are MB a second */
    double copy_us;                                    /* of a copy of any size */
    uint32_t devices_per_bridge;                       /* 0: there is no bridge */
    uint32_t in_flight; /* batches of one device that are copied, computed and copied back at once; 0: one */
};

/* What a row does instead of answering. */
enum sim_fault {
    SIM_ANSWERS,
    SIM_FAILS_ITEM,
    SIM_FAILS_GROUP,
    SIM_FAILS_ROOT,
    SIM_RAISES, /* from here on the whole dispatch is lost */
    SIM_BREAKS, /* a broken contract that looks like a raise: a row or a column too few */
    SIM_CRASHES,
    SIM_HANGS, /* until the deadline of its Call */
};

enum { SIM_EXPANSIONS_MAX = 8 };

/* What one row is going to say, settled when it starts. */
struct sim_saying {
    enum sim_fault fault;
    enum sheaf_class class_id;             /* of a failure that it declares, raises or breaks */
    const char *text;                      /* of any failure; lives until `over` */
    uint32_t children[SIM_EXPANSIONS_MAX]; /* per Expansion of its Call; before a failure, too */
    bool at_once;                          /* they come with the answer, not one by one */
    uintptr_t token;                       /* whatever the table of operators wants */
};

/* What operators do. NULL where nothing is to be done. */
struct sim_operators {
    void *cookie;
    struct value_ref (*source)(void *cookie, uint32_t root, uint32_t source);
    void (*start)(void *cookie, const struct lineage *lineage, struct grain grain, uint32_t attempt,
                  struct sim_saying *ret_saying);
    struct value_ref (*child)(void *cookie, const struct sim_saying *saying, struct grain grain, uint32_t slot,
                              uint32_t ordinal);
    struct value_ref (*output)(void *cookie, const struct sim_saying *saying, struct grain grain, uint32_t slot);
    void (*over)(void *cookie, struct sim_saying *saying);
    void (*unused)(void *cookie, const struct value_ref *value);
    void (*complete)(void *cookie, const struct lineage *lineage, uint32_t root); /* before it is released */
};

enum sim_order {
    SIM_FIFO,
    SIM_UNORDERED,    /* any READY row is as good as another */
    SIM_PARENT_BOUND, /* a batch holds rows of one parent, once its Expansion is closed or the batch is full */
};

/* One dispatch, told when it is over. */
struct sim_dispatch {
    uint64_t start_us, end_us;
    uint32_t call, pool, device, rows;
    enum policy_close close;
    bool lost; /* raised, timed out, or its worker died */
};

struct sim_setup {
    const struct sheaf_plan *plan;
    const struct sim_service *services; /* per Call */
    uint32_t root_count;
    uint32_t window;                 /* roots in flight, 0: all */
    const uint32_t *devices_of_pool; /* per Pool */
    uint32_t dial;                   /* isolation dial of Calls that may fail their group, 0: off */
    bool largest_first;              /* roots with the largest counts are admitted first, as the engine can */
    bool fixed_batches;              /* no policy: what is READY, at most the Call's batch, at once */
    bool shuffled;                   /* what happens at one moment happens in any order, on any idle device */
    enum sim_order order;
    enum sim_spread spread;
    uint32_t spread_percent;            /* 0, even: exact */
    uint32_t slow_percent, slow_factor; /* so many devices take so many times as long; factor 0: none */
    uint32_t loss_per_million;          /* dispatches after which the worker is lost to nobody's fault */
    uint32_t children_max;              /* live child Entities before emitting blocks, 0: no budget */
    uint64_t restart_us;                /* of a lost worker */
    uint64_t deadline_us;               /* of Calls that state no timeout; 0: none, and a hang lasts a minute */
    struct sim_links links;
    uint64_t seed;

    const struct sim_operators *operators; /* or NULL, and: */
    const uint32_t *roots;                 /* the count each root's first source carries */
    uint32_t raises_per_million, crashes_per_million, hangs_per_million; /* rows, by their Coordinate and attempt */
    /* Asked once per start of a row; NULL: as above. */
    enum sim_fault (*fault)(void *cookie, uint32_t call, const uint64_t *coordinate, uint32_t depth, uint32_t attempt);
    void *cookie;

    void (*trace)(void *cookie, const struct sim_dispatch *dispatch); /* or NULL */
    void *trace_cookie;
};

enum sim_idle {
    SIM_IDLE_STARVED,
    SIM_IDLE_WAITS,
    SIM_IDLE_HELD,
    SIM_IDLE_DRAINED,
    SIM_IDLE_RESTARTS,
    SIM_IDLE_BLOCKED, /* its row may not emit: no budget */
    SIM_IDLE_COUNT
};
const char *sim_idle_name(enum sim_idle idle);

struct sim_call_result {
    uint64_t batches, rows, isolation_batches;
    uint64_t closes[POLICY_CLOSE_COUNT];
    struct lineage_call_counts counts;
    double fixed_us, row_us; /* as the policy has learned them */
};

/* Sums over the devices of a Pool. With several batches in flight, each counts as a device in busy and idle. */
struct sim_pool_result {
    double busy_us;
    double idle_us[SIM_IDLE_COUNT];
    double computing_us, in_us, out_us; /* devices, their links in, their links out */
    uint64_t losses;                    /* workers started anew */
};

/* Nothing is faster, in the mean, for the rows that ran; the larger of the two. */
struct sim_bound {
    double work_us; /* the fullest Pool's work over its devices, copies over links, behind the first row, before the
                       last */
    double path_us; /* the longest row between the shortest way to it and the shortest way on */
};

struct sim_result {
    uint64_t makespan_us;
    uint64_t first_root_us; /* when the first root was complete */
    uint64_t roots_by_status[4];
    uint64_t grains;
    uint64_t values_made, values_unused; /* equal, or something leaks */
    uint64_t spilled;                    /* children emitted beyond the budget, because somebody has to go on */
    bool aborted;                        /* a Call with recovery `abort` lost a row; nothing but abort_cause is meant */
    char abort_cause[160];
    struct sim_bound bound;
    struct sim_call_result *calls; /* per Call */
    struct sim_pool_result *pools; /* per Pool */
};

/* Dispatches may be lost: raises, crashes, hangs, deadlines. Orders other than FIFO are there to be compared, and know
 * no recovery. */
bool sim_may_lose(const struct sim_setup *setup);

/*
 * 0, also for a run that aborted; -EINVAL: a setup that cannot be; -EDEADLK: nothing moves and roots are left; -ELOOP:
 * much moves and nothing is ever done; -EBADE: the ledger does not balance at the end, or Entities are left; -ENOMEM.
 */
int sim_run(const struct sim_setup *setup, struct sim_result *ret_result);
void sim_result_free(struct sim_result *result);

#endif
