/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of reading a program from text: steps (parse_steps.c) and overrides of options (overrides.c). */
#ifndef SRC_PROGRAM_PARSE_H
#define SRC_PROGRAM_PARSE_H

#include "program/yaml_reader.h"

/* Reads one element of "steps" and adds it to the Program. */
int parse_step(struct yaml_reader *reader, yaml_node_t *node);

/* Sets an option of a Call from "call.option=value"; the operator's declaration says how to read the value. */
int override_option(struct sheaf_program *program, const char *text, struct sheaf_error *error);

#endif
