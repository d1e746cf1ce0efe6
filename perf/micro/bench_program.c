/* SPDX-License-Identifier: Apache-2.0 */
/* From text to Plan: a program of the size of the documents pipeline, and one with many steps. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/micro/bench.h"
#include "program/registry.h"

static int refuse(void *state, const struct sheaf_row *row, char *message)
{
    message[0] = '\0';
    return -1;
}

static const struct sheaf_port number[] = {{.name = "x", .kind = SHEAF_I64}};
static const struct sheaf_operator same = {.size = sizeof same,
                                           .name = "bench.same",
                                           .version = "1",
                                           .summary = "for measuring",
                                           .inputs = number,
                                           .input_count = 1,
                                           .outputs = number,
                                           .output_count = 1,
                                           .run = refuse};
static const struct sheaf_operator *const operators[] = {&same};
static const struct sheaf_plugin plugin = {.size = sizeof plugin,
                                           .abi = SHEAF_OPERATOR_ABI,
                                           .name = "bench",
                                           .version = "1",
                                           .operators = operators,
                                           .operator_count = 1};

/* Calls one after the other. Free it. */
static char *chain(int64_t calls)
{
    size_t room = (size_t)calls * 80 + 100, used;
    char *text = malloc(room);
    if (!text)
        return NULL;
    used = (size_t)snprintf(text, room, "sources: {p0: i64}\nsteps:\n");
    for (int64_t at = 0; at < calls; at++)
        used += (size_t)snprintf(text + used, room - used, "- {call: c%lld, op: bench.same, in: p%lld, out: p%lld}\n",
                                 (long long)at, (long long)at, (long long)at + 1);
    snprintf(text + used, room - used, "outputs: [p%lld]\n", (long long)calls);
    return text;
}

static int compile(const struct sheaf_registry *registry, const char *text)
{
    struct sheaf_program *program = NULL;
    struct sheaf_plan *plan = NULL;
    int status = sheaf_program_create(registry, &program);
    status = status ? status : sheaf_program_parse(program, "bench", text, strlen(text), NULL, 0, NULL);
    status = status ? status : sheaf_program_compile(program, &plan, NULL);
    sheaf_plan_destroy(plan);
    sheaf_program_destroy(program);
    return status;
}

static void parse_and_compile(struct bench *bench)
{
    struct sheaf_registry *registry = NULL;
    char *text = chain(bench_argument(bench));
    int status = sheaf_registry_create(&registry);
    status = status ? status : registry_add_plugin(registry, &plugin, NULL, NULL);
    if (status || !text)
        bench_fail(bench, "cannot make the registry");
    while (!status && text && bench_next(bench)) {
        if (compile(registry, text)) {
            bench_fail(bench, "does not compile");
            break;
        }
    }
    bench_count_items(bench, bench_iterations(bench) * bench_argument(bench));
    sheaf_registry_destroy(registry);
    free(text);
}
BENCH("program/parse_and_compile", parse_and_compile, 8, 64, 1000)
