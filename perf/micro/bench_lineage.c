/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lineage transitions: documents that open into pages, a Call per page, a gather and a Call per document. One item is
 * one Grain from its creation over READY, claim and answer to SEALED, with its values, inputs and release.
 */
#include <stdlib.h>

#include "lineage/lineage.h"
#include "perf/micro/bench.h"
#include "program/registry.h"
#include "sched/sched.h"

static int refuse(void *state, const struct sheaf_row *row, char *message)
{
    message[0] = '\0';
    return -1;
}

static const struct sheaf_port scalar[] = {{.name = "x", .kind = SHEAF_I64}};
static const struct sheaf_port group[] = {{.name = "pages", .kind = SHEAF_I64, .flags = SHEAF_PORT_GROUP}};
static const struct sheaf_port list[] = {{.name = "pages", .kind = SHEAF_LIST_OF(SHEAF_I64, 1)}};

#define OPERATOR(operator_name, in, out)                                                                               \
    {                                                                                                                  \
        .size = sizeof(struct sheaf_operator), .name = operator_name, .version = "1", .summary = "for measuring",      \
        .inputs = in, .input_count = 1, .outputs = out, .output_count = 1, .run = refuse                               \
    }
static const struct sheaf_operator open_operator = OPERATOR("bench.open", scalar, group);
static const struct sheaf_operator page_operator = OPERATOR("bench.page", scalar, scalar);
static const struct sheaf_operator assemble_operator = OPERATOR("bench.assemble", list, scalar);
static const struct sheaf_operator *const operators[] = {&open_operator, &page_operator, &assemble_operator};
static const struct sheaf_plugin plugin = {.size = sizeof(plugin),
                                           .abi = SHEAF_OPERATOR_ABI,
                                           .name = "bench",
                                           .version = "1",
                                           .operators = operators,
                                           .operator_count = 3};

static const char program_text[] = "sources: {document: {kind: i64}}\n"
                                   "steps:\n"
                                   "- {call: open, op: bench.open, in: [document], out: [pages]}\n"
                                   "- {expand: [pages], as: [page]}\n"
                                   "- {call: read, op: bench.page, in: [page], out: [text]}\n"
                                   "- {gather: [text], as: [texts], mode: partial}\n"
                                   "- {call: assemble, op: bench.assemble, in: [texts], out: [result]}\n"
                                   "outputs: [result]\n";

struct machine {
    struct sheaf_registry *registry;
    struct sheaf_plan *plan;
    struct lineage *lineage;
    struct sched *sched;
    bool scheduled; /* through the queues of sched, too */
    struct grain *ready;
    uint32_t ready_count, complete;
};

static void on_ready(void *cookie, struct grain grain)
{
    struct machine *m = cookie;
    if (m->scheduled)
        sched_ready(m->sched, grain);
    else
        m->ready[m->ready_count++] = grain;
}

static enum lineage_found on_cancel(void *cookie, struct grain grain)
{
    (void)cookie;
    (void)grain;
    return LINEAGE_KEPT_OUT;
}

static void on_value_unused(void *cookie, const struct value_ref *value)
{
    (void)cookie;
    (void)value;
}

static void on_root_complete(void *cookie, uint32_t root)
{
    struct machine *m = cookie;
    m->complete = root;
}

static int machine_make(struct machine *m, bool scheduled, int64_t pages)
{
    struct sheaf_program *program = NULL;
    struct lineage_effects effects = {m, on_ready, on_cancel, on_value_unused, on_root_complete};
    *m = (struct machine){.scheduled = scheduled, .ready = calloc((size_t)pages + 8, sizeof(struct grain))};
    int status = sheaf_registry_create(&m->registry);
    status = status ? status : registry_add_plugin(m->registry, &plugin, NULL, NULL);
    status = status ? status : sheaf_program_create(m->registry, &program);
    status =
        status ? status : sheaf_program_parse(program, "bench", program_text, sizeof(program_text) - 1, NULL, 0, NULL);
    status = status ? status : sheaf_program_compile(program, &m->plan, NULL);
    status = status ? status : lineage_create(m->plan, &effects, &lineage_heap, &m->lineage);
    status = status ? status : sched_create(m->plan, &lineage_heap, &m->sched);
    sheaf_program_destroy(program);
    return status;
}

static void machine_drop(struct machine *m)
{
    lineage_destroy(m->lineage);
    sched_destroy(m->sched);
    sheaf_plan_destroy(m->plan);
    sheaf_registry_destroy(m->registry);
    free(m->ready);
}

static bool next_grain(struct machine *m, struct grain *ret_grain)
{
    struct sched_row row;
    if (!m->scheduled) {
        if (m->ready_count == 0)
            return false;
        *ret_grain = m->ready[--m->ready_count];
        return true;
    }
    for (uint32_t call = m->plan->call_count; call-- > 0;)
        if (sched_next(m->sched, call, 0, &row)) {
            *ret_grain = row.grain;
            return true;
        }
    return false;
}

/* One document of `pages` pages from admission to release; returns its Grains. */
static int64_t document(struct machine *m, int64_t pages)
{
    const struct value_ref value = {.kind = SHEAF_I64, .offset = 1};
    uint32_t root;
    struct grain grain;
    lineage_admit(m->lineage, 0, &value, &root);
    while (next_grain(m, &grain)) {
        struct lineage_value input;
        lineage_hold(m->lineage, grain);
        lineage_input(m->lineage, grain, 0, &input);
        if (m->plan->calls[grain.call].expansion_count)
            for (uint32_t i = 0; i < pages; i++)
                lineage_child(m->lineage, grain, 0, i, &value);
        lineage_answer(m->lineage, grain, &value, NULL);
        if (m->scheduled)
            sched_done(m->sched, grain);
        lineage_release_hold(m->lineage, grain);
    }
    lineage_release_root(m->lineage, m->complete);
    return pages + 2;
}

static void run(struct bench *bench, bool scheduled)
{
    struct machine m;
    int64_t grains = 0, pages = bench_argument(bench);
    if (machine_make(&m, scheduled, pages))
        bench_fail(bench, "cannot make the Plan");
    else
        while (bench_next(bench))
            grains += document(&m, pages);
    bench_count_items(bench, grains);
    machine_drop(&m);
}

static void transitions(struct bench *bench)
{
    run(bench, false);
}
BENCH("lineage/grain", transitions, 1, 16, 1000, 100000)

static void scheduled_transitions(struct bench *bench)
{
    run(bench, true);
}
BENCH("lineage and sched/grain", scheduled_transitions, 16, 1000)

/* ---- gather ---- */

static void answer_one(struct machine *m, struct grain grain)
{
    const struct value_ref value = {.kind = SHEAF_I64, .offset = 1};
    lineage_hold(m->lineage, grain);
    lineage_answer(m->lineage, grain, &value, NULL);
    lineage_release_hold(m->lineage, grain);
}

/* A document of which all children but one have answered. */
static void begin_gather(struct machine *m, int64_t children)
{
    const struct value_ref value = {.kind = SHEAF_I64, .offset = 1};
    struct grain grain;
    uint32_t root;
    lineage_admit(m->lineage, 0, &value, &root);
    grain = m->ready[--m->ready_count]; /* the Call that opens */
    lineage_hold(m->lineage, grain);
    for (int64_t i = 0; i < children; i++)
        lineage_child(m->lineage, grain, 0, (uint32_t)i, &value);
    lineage_answer(m->lineage, grain, &value, NULL);
    lineage_release_hold(m->lineage, grain);
    while (m->ready_count > 1)
        answer_one(m, m->ready[--m->ready_count]);
}

/* The last child answers, the list is there, every element of it is read, the document is over. One item is a child. */
static void gather(struct bench *bench)
{
    struct machine m;
    struct lineage_value input, element;
    struct lineage_cursor cursor;
    int64_t children = bench_argument(bench), elements = 0;
    if (machine_make(&m, false, children)) {
        bench_fail(bench, "cannot make the Plan");
        machine_drop(&m);
        return;
    }
    while (bench_next(bench)) {
        bench_pause(bench);
        begin_gather(&m, children);
        bench_resume(bench);
        answer_one(&m, m.ready[--m.ready_count]);
        struct grain assemble = m.ready[--m.ready_count];
        lineage_hold(m.lineage, assemble);
        lineage_input(m.lineage, assemble, 0, &input);
        lineage_list_open(m.lineage, input.list, &cursor);
        while (lineage_list_next(m.lineage, &cursor, &element))
            elements++;
        const struct value_ref value = {.kind = SHEAF_I64, .offset = 1};
        lineage_answer(m.lineage, assemble, &value, NULL);
        lineage_release_hold(m.lineage, assemble);
        bench_pause(bench);
        lineage_release_root(m.lineage, m.complete);
        bench_resume(bench);
    }
    if (elements != children * bench_iterations(bench))
        bench_fail(bench, "elements are missing");
    bench_count_items(bench, elements);
    machine_drop(&m);
}
BENCH("lineage/gather", gather, 10, 1000, 100000, 1000000, 10000000)
