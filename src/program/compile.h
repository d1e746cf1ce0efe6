/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compiler, from the inside: what its passes share.
 *
 *     names and order (resolve.c)  every name is defined once, every reference known, no cycle; steps get a canonical
 * order Calls (calls.c, options.c)   operator, options, kinds, Domain, settings structure (structure.c)      expand,
 * gather, broadcast, filter: interned Ports and Domains liveness (live.c)            what an output or side effect
 * observes, distance to outputs finality (final.c)           which gathers and Calls wait for final inputs layout
 * (layout.c)            indices of the Plan: columns, readers, Pools, warnings
 *
 * Everything here runs on one thread, allocates from two memories (the Plan's and a scratch one), and never recurses,
 * so the depth of a program costs no stack. A pass returns 0 or a negative status with the error filled in.
 */
#ifndef SRC_PROGRAM_COMPILE_H
#define SRC_PROGRAM_COMPILE_H

#include "program/memory.h"
#include "program/plan.h"
#include "program/program.h"
#include "program/text.h"

/* A defined name. `slot` is the number among the step's outputs, NAME_OF_CALL for the Call itself. */
#define NAME_OF_CALL UINT32_MAX
struct name_entry {
    const char *name;
    uint32_t step, slot;
    uint32_t port; /* once its step is compiled */
};

/* Calls and Ports in one topological order: the order in which they were made. */
struct unit {
    bool is_call;
    uint32_t index;
};

/* The expand that made a Domain. */
struct relation {
    const uint32_t *groups; /* Ports */
    const uint32_t *ports;  /* the Ports they were expanded to */
    uint32_t count;
    uint32_t step;
};

struct compile {
    const struct sheaf_program *program;
    struct sheaf_plan *plan;
    struct memory *memory; /* the Plan's */
    struct memory scratch;
    struct sheaf_error *error;

    struct name_entry *names;
    uint32_t *name_slots;       /* open hash of names, PLAN_NONE: free */
    uint32_t *first_names;      /* per step: its first name; a Call's own name comes first */
    uint32_t *references;       /* names that steps read: inputs, then the other one */
    uint32_t *first_references; /* per step, and one past the end */
    uint32_t *source_numbers;   /* per step that is a source */
    uint32_t *order;            /* steps, canonical */
    uint32_t name_count, name_mask;

    struct unit *units;
    uint32_t unit_count;
    uint32_t *port_slots; /* open hash of gathers, broadcasts and filters */
    uint32_t port_mask;
    uint32_t *expanded;         /* per Port: the Domain it is expanded to, or PLAN_NONE */
    struct relation *relations; /* per Domain */
    uint32_t *call_steps;       /* per Call */
    uint32_t call_port_count;   /* in plan->call_ports so far */
    uint32_t *domain_distances; /* per Domain, live.c */
    uint32_t *port_distances;   /* per Port, live.c */
};

/* Refuses the program by a row of docs/SEMANTICS.md section 6, naming text, line and step. `step` NULL: the program. */
int compile_refuse(struct compile *compile, uint32_t row, const struct program_step *step, const char *format, ...)
    SHEAF_PRINTF(4, 5);
/* The same about an output; row 0 is SHEAF_E_USAGE. */
int compile_refuse_output(struct compile *compile, uint32_t row, const struct program_output *output,
                          const char *format, ...) SHEAF_PRINTF(4, 5);
int compile_no_memory(struct compile *compile);
/* "the root Domain", or "the Domain of \"page\"" written to `text`. */
#define DOMAIN_TEXT_BYTES 128
const char *compile_domain_text(const struct compile *compile, uint32_t domain, char text[DOMAIN_TEXT_BYTES]);

/* resolve.c */
int compile_resolve(struct compile *compile);
/* The entry of a name, or NULL. */
struct name_entry *compile_find_name(const struct compile *compile, const char *name);
/* The defined Port name nearest to a wrong one, for messages: start `nearest` with the wrong name. */
void compile_offer_ports(const struct compile *compile, struct nearest *nearest);

/* The Port that input `input` of step number `step` means; input == input_count is the other one. */
uint32_t compile_port_of(const struct compile *compile, uint32_t step, uint32_t input);
/* Output `slot` of a step is this Port. */
void compile_bind(struct compile *compile, uint32_t step, uint32_t slot, uint32_t port);
/* A new Port in a Domain, with every index field "none". */
struct plan_port *compile_add_port(struct compile *compile, enum plan_port_kind port_kind, sheaf_kind kind,
                                   uint32_t domain, const char *name);
/* Is `ancestor` the Domain or above it? */
bool compile_is_ancestor(const struct sheaf_plan *plan, uint32_t ancestor, uint32_t domain);

/* options.c: binds what a Call gives to what its operator declares. */
int compile_options(struct compile *compile, const struct program_step *step, const struct sheaf_operator *op,
                    const struct sheaf_option_value **ret_options);
/* calls.c */
int compile_call(struct compile *compile, uint32_t step);
/* settings.c: row 10 and 11, and the resolved numbers. */
int compile_settings(struct compile *compile, const struct program_step *step, struct plan_call *call);
/* structure.c */
int compile_source(struct compile *compile, uint32_t step);
int compile_expand(struct compile *compile, uint32_t step);
int compile_gather(struct compile *compile, uint32_t step);
int compile_broadcast(struct compile *compile, uint32_t step);
int compile_filter(struct compile *compile, uint32_t step);
/* outputs.c */
int compile_outputs(struct compile *compile);
/* live.c */
int compile_liveness(struct compile *compile);
/* final.c */
int compile_finality(struct compile *compile);
/* layout.c */
int compile_layout(struct compile *compile);
/* sheaf_plan.on_host, of a Plan that is complete. */
int compile_on_host(struct compile *compile);
int compile_warnings(struct compile *compile);

#endif
