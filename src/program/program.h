/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Program as it was written: a list of steps with names, nothing resolved and nothing checked.
 *
 * The builder (program.c) and the reader of YAML (parse.c) append steps; the compiler (compile.c) reads them. Every
 * string lives in the Program's memory. Only these three may touch the struct.
 */
#ifndef SRC_PROGRAM_PROGRAM_H
#define SRC_PROGRAM_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sheaf/program.h>

#include "program/memory.h"

/* In the order in which steps of one level stand in a Plan. */
enum step_kind { STEP_SOURCE, STEP_CALL, STEP_EXPAND, STEP_GATHER, STEP_BROADCAST, STEP_FILTER };

struct program_step {
    enum step_kind step_kind;
    uint32_t line;        /* in the text it was read from; 0: built by calls */
    uint32_t input_count; /* Call: inputs; expand: groups; gather: values; broadcast, filter: the one Port */
    uint32_t output_count;
    const char **inputs;
    const char **outputs; /* names it defines */
    const char *other;    /* gather: members or NULL; broadcast: like; filter: mask */
    sheaf_kind kind;      /* source */
    enum sheaf_gather_mode mode;
    struct sheaf_call call; /* Call: everything else; its inputs and outputs are the arrays above */
};

struct program_output {
    const char *port;
    const char *file; /* pattern, or NULL */
    uint32_t line;
};

struct sheaf_program {
    const struct sheaf_registry *registry;
    struct memory memory;
    struct program_step *steps;
    struct program_output *outputs;
    uint32_t step_count, step_capacity;
    uint32_t output_count, output_capacity;
    const char *text_name; /* of the text it was read from, for messages; or NULL */
};

/* A new zeroed step at the end, or NULL. Valid until the next one is added. */
struct program_step *program_add_step(struct sheaf_program *program, enum step_kind kind, uint32_t input_count,
                                      uint32_t output_count);
int program_add_output(struct sheaf_program *program, const char *port, const char *file, uint32_t line);
/* A copy of an option value whose lists and texts live in `memory`. */
int program_copy_value(struct memory *memory, const struct sheaf_option_value *value,
                       struct sheaf_option_value *ret_value);
/* The name of a step in messages: the Call's, else of the first Port it defines. */
const char *program_step_name(const struct program_step *step);
/* "call", "expand", ... */
const char *program_step_word(enum step_kind kind);

#endif
