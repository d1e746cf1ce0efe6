/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The published experiments as simulations: page lists, programs, service times and devices as the published shapes
 * have them, and what is known about the least time they can take.
 */
#ifndef SRC_SIM_EXPERIMENT_H
#define SRC_SIM_EXPERIMENT_H

#include <stddef.h>

#include "sim/sim.h"

/* ---- page lists ---- */

enum page_list { LIST_C48, LIST_C368, LIST_C160, LIST_CBIG, LIST_CMIX, LIST_CTAIL, LIST_CTOP8, LIST_COUNT };

/* Pages per document, in order; free() it. NULL: no memory. */
uint32_t *page_list_make(enum page_list list, uint32_t *ret_documents, uint64_t *ret_pages);
const char *page_list_name(enum page_list list);

/* ---- programs ---- */

/* Compiles one of the simulator's programs. The registry must outlive the Plan. */
int sim_compile(struct sheaf_registry *registry, const char *text, struct sheaf_plan **ret_plan,
                struct sheaf_error *error);
int sim_registry_create(struct sheaf_registry **ret_registry);

/* ---- experiments ---- */

/* Told of every run before it begins, and of every dispatch. */
struct experiment_trace {
    void *cookie;
    void (*run)(void *cookie, const char *name, const struct sheaf_plan *plan);
    void (*dispatch)(void *cookie, const struct sim_dispatch *dispatch);
};

struct experiment_options {
    /* What every run starts from: seed, spread, slow devices, losses, faults by chance, budget, links. */
    struct sim_setup setup;
    uint32_t devices;           /* 0: the experiment's own */
    uint32_t batch;             /* 0: the experiment's own */
    uint32_t dial;              /* UINT32_MAX: the experiment's own */
    uint32_t roots;             /* 0: the experiment's own; "scale" alone has a choice */
    double in_bytes, out_bytes; /* of a page to and from its device */
    bool fixed_batches;         /* --policy fixed */
    enum sim_order order;       /* E3, E4 */
    struct experiment_trace trace;
};

/* One run of an experiment. */
struct experiment_line {
    char name[96];
    double makespan_s, bound_s;
    bool bound_is_path; /* the longest row decides, not the work */
    double fill;        /* of the Call that matters */
    uint64_t batches, rows, isolation_batches;
    uint64_t kept_out, skipped, discarded;
    uint64_t roots_by_status[4];
    uint64_t closes[POLICY_CLOSE_COUNT];
    double busy, idle[SIM_IDLE_COUNT];         /* shares of its Pool's time */
    double computing, copying_in, copying_out; /* of the makespan, a device in the mean */
    uint64_t grains, losses, spilled;
};

enum { EXPERIMENT_LINES = 24, EXPERIMENT_TARGETS = 12 };

struct experiment_report {
    const char *name, *shape;
    struct experiment_line lines[EXPERIMENT_LINES];
    uint32_t line_count;
    struct experiment_target {
        char text[128];
        double value, wanted;
        bool at_least, reached;
    } targets[EXPERIMENT_TARGETS];
    uint32_t target_count;
    char problem[1200]; /* why it could not be run */
};

/* Names of the published ones, NULL at the end; "scale" is there besides. */
const char *const *experiment_names(void);
bool experiment_exists(const char *name);
/* 0; -ENOENT: no such experiment; what sim_run says. */
int experiment_run(const char *name, const struct experiment_options *options, struct experiment_report *ret_report);

#endif
