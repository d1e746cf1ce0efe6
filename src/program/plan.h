/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Plan: a compiled Program, plain arrays and indices, immutable. Lineage, scheduling, the engine and the simulator
 * all read this and nothing else of src/program.
 *
 * Indices are uint32_t; PLAN_NONE is "none". Ports are interned: two names may denote one index. Domains, Ports and
 * Calls are each in a topological order: what a thing depends on has a lower index, Domain 0 is the root Domain.
 */
#ifndef SRC_PROGRAM_PLAN_H
#define SRC_PROGRAM_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include <sheaf/operator.h>
#include <sheaf/program.h>

#define PLAN_NONE UINT32_MAX

enum plan_port_kind { PLAN_SOURCE, PLAN_CALL_OUTPUT, PLAN_EXPAND, PLAN_GATHER, PLAN_BROADCAST, PLAN_FILTER };

struct plan_port {
    enum plan_port_kind port_kind;
    sheaf_kind kind; /* of its values; a group output: list of the child's kind */
    uint32_t domain;
    uint32_t column;  /* its column among the Ports of its Domain: 0, 1, ... dense per Domain */
    uint32_t call;    /* CALL_OUTPUT: its Call; EXPAND: the Call whose group it expands */
    uint32_t slot;    /* SOURCE: number of the source; CALL_OUTPUT: number of the output; EXPAND: number of the output
                         in `call`; GATHER: number among the values of its aligned gather */
    uint32_t source;  /* EXPAND: the group Port; GATHER: the value Port; BROADCAST, FILTER: the Port it takes from */
    uint32_t members; /* GATHER: the members Port (may equal source) */
    uint32_t mask;    /* FILTER: the mask Port */
    bool group;       /* CALL_OUTPUT: a group output */
    bool partial;     /* GATHER: mode */
    bool live;        /* some output or side effect observes it */
    bool needs_final; /* GATHER partial: waits for final inputs (SEMANTICS section 4, Final) */
    uint32_t reader_first, reader_count; /* into plan.readers: what to look at when an Item of this Port resolves */
    const char *name;                    /* the first name it was given */
};

/* Who reads a Port: a Call input or another Port (as value, mask or member). Only live readers are listed, each once
 * per Port. An EXPAND Port is no reader of its group: its Items come from the Expansion (plan_call.expansion_first). */
struct plan_reader {
    bool is_call;
    uint32_t index; /* Call or Port */
};

struct plan_domain {
    uint32_t parent;                   /* PLAN_NONE for the root Domain */
    uint32_t depth;                    /* root Domain: 1 */
    uint32_t call;                     /* the Call whose groups it expands, or PLAN_NONE */
    uint32_t column_count;             /* Ports in this Domain */
    uint32_t call_first, call_count;   /* into plan.domain_calls: the Calls whose Grains lie in this Domain */
    uint32_t port_first, port_count;   /* into plan.domain_ports, in order of column */
    uint32_t child_first, child_count; /* into plan.domain_children */
    bool live;
    const char *name; /* of the first Port in it */
};

/* Calls whose operators have kernels share Pools of their own: a device has one process. */
enum plan_device {
    PLAN_NO_DEVICE = 0,
    PLAN_HOST_DEVICE, /* `place: cpu`: kernels on the CPU, whatever there is */
    PLAN_ANY_DEVICE,  /* on devices, one process on each; on the host where there are none */
};

struct plan_call {
    const char *name;
    const struct sheaf_operator *op;
    const struct sheaf_option_value *options; /* one per declared option, defaults filled in */
    uint32_t domain;
    uint32_t position;                         /* its number among the Calls of its Domain: 0, 1, ... dense */
    uint32_t input_first, input_count;         /* into plan.call_ports: Ports */
    uint32_t output_first, output_count;       /* into plan.call_ports: Ports */
    uint32_t expansion_first, expansion_count; /* into plan.call_expansions: child Domains made from its groups */
    uint32_t pool;
    uint32_t batch_rows;  /* resolved: >= 1 */
    uint64_t batch_bytes; /* most input of a batch, 0: any */
    uint32_t replicas;    /* wanted worker processes of its Pool, 0: not said */
    uint32_t timeout_ms;  /* 0: the engine's default */
    uint32_t retries;
    uint32_t backoff_ms;
    enum sheaf_recovery recovery;
    enum sheaf_place place;
    enum plan_device device;
    enum sheaf_scope widest_failure;
    uint32_t priority; /* fewest Calls to an output: 0 is nearest. Drain first */
    bool batch;        /* sees the batch as a whole */
    bool by_rows;      /* of an operator for devices by its `run`, as if it were for none */
    bool side_effect;
    bool live;        /* false: never runs (row 13) */
    bool needs_final; /* its Grains wait for final inputs (SEMANTICS section 4) */
};

/* What its operator is to it: sheaf_operator.flags. */
static inline uint32_t plan_call_flags(const struct plan_call *call)
{
    const uint32_t of_devices = SHEAF_OPERATOR_BATCH | SHEAF_OPERATOR_DEVICE | SHEAF_OPERATOR_ONE_SHAPE;
    return call->by_rows ? call->op->flags & ~of_devices : call->op->flags;
}

/* Live Calls only; a Pool whose Calls are all dead has none, needs no worker and comes last. */
struct plan_pool {
    const char *name;
    uint32_t call_first, call_count; /* into plan.pool_calls */
    uint32_t replicas;               /* largest wanted by its Calls; 0: not said */
    enum plan_device device;         /* of all its Calls; at most one Pool has each but NO_DEVICE */
};

struct plan_output {
    uint32_t port;
    const char *name; /* as written */
    const char *file; /* pattern, or NULL */
};

struct sheaf_plan {
    uint32_t source_count, port_count, domain_count, call_count, pool_count, output_count, warning_count;
    struct plan_port *ports;
    struct plan_domain *domains;
    struct plan_call *calls;
    struct plan_pool *pools;
    struct plan_output *outputs;
    uint32_t *sources; /* Ports of the sources, in order of declaration */
    struct plan_reader *readers;
    uint32_t *call_ports, *call_expansions, *domain_calls, *domain_ports, *domain_children, *pool_calls;
    struct plan_warning {
        uint32_t row;
        const char *text;
    } * warnings;
    char fingerprint[65];
    /* The same where a run finds no device: Calls that can do without one are ordinary ones, in the Pools they name.
     * NULL: there are none. */
    const struct sheaf_plan *on_host;
    const struct sheaf_registry *registry;
    void *memory; /* owns everything above */
};

#endif
