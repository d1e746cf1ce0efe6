/* SPDX-License-Identifier: Apache-2.0 */
/* Signatures of the operators of simulated programs. None of them ever runs. */
#include <errno.h>
#include <string.h>

#include "program/registry.h"
#include "sim/experiment.h"

static int run(void *state, const struct sheaf_row *row, char *message)
{
    return -ENOSYS;
}

static int run_batch(void *state, const struct sheaf_batch *batch, char *message)
{
    return -ENOSYS;
}

static const struct sheaf_port number[] = {{"x", SHEAF_I64, 0, NULL}},
                               group[] = {{"children", SHEAF_I64, SHEAF_PORT_GROUP, NULL}},
                               list[] = {{"list", SHEAF_LIST_OF(SHEAF_I64, 1), 0, NULL}};

#define OPERATOR(symbol, called, in, out, ...)                                                                         \
    static const struct sheaf_operator symbol = {.size = sizeof(struct sheaf_operator),                                \
                                                 .name = called,                                                       \
                                                 .version = "1",                                                       \
                                                 .summary = "simulated",                                               \
                                                 .inputs = in,                                                         \
                                                 .input_count = 1,                                                     \
                                                 .outputs = out,                                                       \
                                                 .output_count = 1,                                                    \
                                                 __VA_ARGS__}

OPERATOR(expand, "sim.expand", number, group, .run = run);
OPERATOR(row, "sim.row", number, number, .run = run);
OPERATOR(batch, "sim.batch", number, number, .run_batch = run_batch, .flags = SHEAF_OPERATOR_BATCH);
OPERATOR(batch_group, "sim.batch_group", number, number, .run_batch = run_batch, .flags = SHEAF_OPERATOR_BATCH,
         .widest_failure = SHEAF_SCOPE_GROUP);
OPERATOR(assemble, "sim.assemble", list, number, .run = run);

static const struct sheaf_operator *const operators[] = {&expand, &row, &batch, &batch_group, &assemble};

static const struct sheaf_plugin plugin = {.size = sizeof(struct sheaf_plugin),
                                           .abi = SHEAF_OPERATOR_ABI,
                                           .name = "sim",
                                           .version = "1",
                                           .operators = operators,
                                           .operator_count = sizeof(operators) / sizeof(operators[0])};

int sim_registry_create(struct sheaf_registry **ret_registry)
{
    struct sheaf_registry *registry;
    int status = sheaf_registry_create(&registry);
    if (status)
        return status;
    status = registry_add_plugin(registry, &plugin, NULL, NULL);
    if (status)
        sheaf_registry_destroy(registry);
    else
        *ret_registry = registry;
    return status;
}

int sim_compile(struct sheaf_registry *registry, const char *text, struct sheaf_plan **ret_plan,
                struct sheaf_error *error)
{
    struct sheaf_program *program;
    int status = sheaf_program_create(registry, &program);
    if (status)
        return status;
    status = sheaf_program_parse(program, "simulation", text, strlen(text), NULL, 0, error);
    if (status == 0)
        status = sheaf_program_compile(program, ret_plan, error);
    sheaf_program_destroy(program);
    return status;
}
