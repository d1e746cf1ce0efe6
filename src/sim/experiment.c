/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/experiment.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND 1e6

/* Documents: render each in one worker, recognise pages in batches, put them together. %s: what a page's failure does;
 * %u: the largest batch. */
static const char documents_text[] =
    "sources: {d: {kind: i64}}\n"
    "steps:\n"
    "- {call: render, op: sim.expand, in: [d], out: [g], batch: 1, pool: render}\n"
    "- {expand: [g], as: [p]}\n"
    "- {call: page, op: %s, in: [p], out: [t], batch: %u, pool: gpu}\n"
    "- {gather: [t], as: [l]}\n"
    "- {call: assemble, op: sim.assemble, in: [l], out: [o], batch: 1, pool: assemble}\n"
    "outputs: [o]\n";

/* Two steps per page; the third blank is the Pool of the first. */
static const char two_step_text[] =
    "sources: {d: {kind: i64}}\n"
    "steps:\n"
    "- {call: render, op: sim.expand, in: [d], out: [g], batch: 1, pool: render}\n"
    "- {expand: [g], as: [p]}\n"
    "- {call: first, op: %s, in: [p], out: [e], batch: %u, pool: %s}\n"
    "- {call: page, op: sim.batch, in: [e], out: [t], batch: %u, pool: gpu}\n"
    "- {gather: [t], as: [l]}\n"
    "- {call: assemble, op: sim.assemble, in: [l], out: [o], batch: 1, pool: assemble}\n"
    "outputs: [o]\n";

/* Pages alone: what becomes of one says nothing about the others. */
static const char pages_text[] = "sources: {d: {kind: i64}}\n"
                                 "steps:\n"
                                 "- {call: render, op: sim.expand, in: [d], out: [g], batch: 1, pool: render}\n"
                                 "- {expand: [g], as: [p]}\n"
                                 "- {call: page, op: %s, in: [p], out: [t], batch: %u, pool: gpu}\n"
                                 "outputs: [t]\n";

struct scene {
    const char *text, *op;
    enum page_list list;
    uint32_t roots, children; /* instead of a list */
    bool without_first;       /* the first document is left out */
    const char *first_pool;
    uint32_t first_devices;
    uint32_t batch, devices, renderers, assemblers, window, dial;
    struct sim_service render, first, page, assemble;
    uint32_t poisoned_pages; /* page 0 of documents with at least so many pages fails its group; 0: none */
    uint32_t raising_page;   /* 1 more than the page that raises; 0: none */
    bool fixed_batches;
    enum sim_order order;
};

struct bench {
    const struct experiment_options *options;
    struct experiment_report *report;
    int status;
};

struct poison {
    const struct scene *scene;
    const uint32_t *pages;
    uint32_t page_call;
};

static enum sim_fault fault_of(void *cookie, uint32_t call, const uint64_t *at, uint32_t depth, uint32_t attempt)
{
    const struct poison *poison = cookie;
    if (call != poison->page_call || depth != 2)
        return SIM_ANSWERS;
    if (poison->scene->raising_page && at[1] + 1 == poison->scene->raising_page)
        return SIM_RAISES;
    bool poisoned = poison->scene->poisoned_pages && poison->pages[at[0]] >= poison->scene->poisoned_pages;
    return poisoned && at[1] == 0 ? SIM_FAILS_GROUP : SIM_ANSWERS;
}

static uint32_t call_named(const struct sheaf_plan *plan, const char *name)
{
    for (uint32_t i = 0; i < plan->call_count; i++)
        if (strcmp(plan->calls[i].name, name) == 0)
            return i;
    return PLAN_NONE;
}

static void summarise(const struct sheaf_plan *plan, const struct sim_result *result, uint32_t call, uint32_t devices,
                      struct experiment_line *line)
{
    const struct sim_call_result *page = &result->calls[call];
    const struct sim_pool_result *pool = &result->pools[plan->calls[call].pool];
    line->makespan_s = (double)result->makespan_us / SECOND;
    line->batches = page->batches;
    line->rows = page->rows;
    line->isolation_batches = page->isolation_batches;
    line->fill = page->batches ? (double)page->rows / ((double)page->batches * plan->calls[call].batch_rows) : 0;
    line->kept_out = page->counts.kept_out;
    line->skipped = page->counts.skipped;
    line->discarded = page->counts.discarded;
    line->bound_is_path = result->bound.path_us > result->bound.work_us;
    line->bound_s = fmax(result->bound.work_us, result->bound.path_us) / SECOND;
    line->grains = result->grains;
    line->spilled = result->spilled;
    for (uint32_t i = 0; i < plan->pool_count; i++)
        line->losses += result->pools[i].losses;
    memcpy(line->roots_by_status, result->roots_by_status, sizeof(line->roots_by_status));
    memcpy(line->closes, page->closes, sizeof(line->closes));
    double all = pool->busy_us;
    for (uint32_t i = 0; i < SIM_IDLE_COUNT; i++)
        all += pool->idle_us[i];
    line->busy = all > 0 ? pool->busy_us / all : 0;
    for (uint32_t i = 0; i < SIM_IDLE_COUNT; i++)
        line->idle[i] = all > 0 ? pool->idle_us[i] / all : 0;
    double units = (double)result->makespan_us * devices;
    line->computing = units > 0 ? pool->computing_us / units : 0;
    line->copying_in = units > 0 ? pool->in_us / units : 0;
    line->copying_out = units > 0 ? pool->out_us / units : 0;
}

static uint32_t *scene_roots(const struct scene *scene, uint32_t *ret_count, uint64_t *ret_pages)
{
    if (!scene->roots)
        return page_list_make(scene->list, ret_count, ret_pages);
    uint32_t *roots = calloc(scene->roots, sizeof(*roots));
    for (uint32_t i = 0; roots && i < scene->roots; i++)
        roots[i] = scene->children;
    *ret_count = scene->roots;
    *ret_pages = (uint64_t)scene->roots * scene->children;
    return roots;
}

/* The setup that all runs start from, made this scene's. `services`: one per Call; `devices`: per Pool. */
static struct sim_setup scene_setup(const struct experiment_options *options, const struct scene *scene,
                                    const struct sheaf_plan *plan, struct sim_service *services, uint32_t *devices)
{
    struct sim_setup setup = options->setup;
    setup.plan = plan;
    setup.services = services;
    setup.devices_of_pool = devices;
    setup.window = scene->window;
    setup.dial = options->dial != UINT32_MAX ? options->dial : scene->dial;
    setup.fixed_batches = scene->fixed_batches || options->fixed_batches;
    setup.order = options->order != SIM_FIFO ? options->order : scene->order;
    setup.fault = scene->poisoned_pages || scene->raising_page ? fault_of : NULL;
    setup.trace = options->trace.dispatch;
    setup.trace_cookie = options->trace.cookie;
    for (uint32_t i = 0; i < plan->call_count; i++) {
        const char *name = plan->calls[i].name;
        services[i] = strcmp(name, "render") == 0  ? scene->render
                      : strcmp(name, "first") == 0 ? scene->first
                      : strcmp(name, "page") == 0  ? scene->page
                                                   : scene->assemble;
        if (plan->calls[i].batch && strcmp(name, "page") == 0) {
            services[i].in_bytes = options->in_bytes;
            services[i].out_bytes = options->out_bytes;
        }
    }
    for (uint32_t i = 0; i < plan->pool_count; i++)
        devices[i] = strcmp(plan->pools[i].name, "render") == 0  ? scene->renderers
                     : strcmp(plan->pools[i].name, "gpu") == 0   ? scene->devices
                     : strcmp(plan->pools[i].name, "first") == 0 ? scene->first_devices
                                                                 : scene->assemblers;
    return setup;
}

static int scene_simulate(const struct bench *bench, const struct scene *scene, const struct sheaf_plan *plan,
                          const uint32_t *roots, uint32_t root_count, struct experiment_line *line)
{
    const struct experiment_trace *trace = &bench->options->trace;
    struct sim_service services[8];
    struct sim_result result;
    uint32_t devices[8], page = call_named(plan, "page");
    struct poison poison = {scene, roots, page};
    struct sim_setup setup = scene_setup(bench->options, scene, plan, services, devices);
    setup.roots = roots;
    setup.root_count = root_count;
    setup.cookie = &poison;
    if (trace->run)
        trace->run(trace->cookie, line->name, plan);
    int status = sim_run(&setup, &result);
    if (status)
        return status;
    summarise(plan, &result, page, scene->devices, line);
    sim_result_free(&result);
    return 0;
}

/* Runs one scene and adds its line. */
static struct experiment_line *scene_run(struct bench *bench, const struct scene *scene, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static struct experiment_line *scene_run(struct bench *bench, const struct scene *given, const char *format, ...)
{
    struct experiment_report *report = bench->report;
    struct experiment_line *line = &report->lines[report->line_count];
    struct scene scene = *given;
    struct sheaf_registry *registry = NULL;
    struct sheaf_plan *plan = NULL;
    struct sheaf_error error = SHEAF_ERROR_INIT;
    char text[2048];
    uint32_t count = 0;
    uint64_t pages = 0;
    va_list values;
    memset(line, 0, sizeof(*line));
    va_start(values, format);
    vsnprintf(line->name, sizeof(line->name), format, values);
    va_end(values);
    if (bench->status)
        return line;
    scene.batch = bench->options->batch ? bench->options->batch : scene.batch;
    snprintf(text, sizeof(text), scene.text, scene.op, scene.batch, scene.first_pool ? scene.first_pool : "gpu",
             scene.batch);
    uint32_t *roots = scene_roots(&scene, &count, &pages);
    int status = roots ? sim_registry_create(&registry) : -ENOMEM;
    if (status == 0)
        status = sim_compile(registry, text, &plan, &error);
    if (status == 0)
        status = scene_simulate(bench, &scene, plan, roots + scene.without_first, count - scene.without_first, line);
    if (status)
        snprintf(report->problem, sizeof(report->problem), "%s: %s", line->name,
                 error.message[0] ? error.message : sheaf_status_text(status));
    sheaf_plan_destroy(plan);
    sheaf_registry_destroy(registry);
    free(roots);
    bench->status = status;
    if (report->line_count < EXPERIMENT_LINES - 1)
        report->line_count++;
    return line;
}

static void target(struct bench *bench, bool at_least, double value, double wanted, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
static void target(struct bench *bench, bool at_least, double value, double wanted, const char *format, ...)
{
    if (bench->report->target_count == EXPERIMENT_TARGETS || bench->status)
        return;
    struct experiment_target *t = &bench->report->targets[bench->report->target_count++];
    va_list values;
    va_start(values, format);
    vsnprintf(t->text, sizeof(t->text), format, values);
    va_end(values);
    t->value = value;
    t->wanted = wanted;
    t->at_least = at_least;
    t->reached = at_least ? value >= wanted : value <= wanted;
}

/* ---- the experiments ---- */

static struct scene recognition(enum page_list list, uint32_t devices, uint32_t batch)
{
    return (struct scene){.text = documents_text,
                          .op = "sim.batch",
                          .list = list,
                          .batch = batch,
                          .devices = devices,
                          .renderers = devices,
                          .assemblers = devices,
                          .render = {.child_us = 0.058 * SECOND},
                          .page = {.fixed_us = 2.5 * SECOND, .row_us = 0.26 * SECOND},
                          .assemble = {.row_us = 0.9 * SECOND}};
}

static struct scene video(uint32_t roots, uint32_t children, uint32_t devices)
{
    return (struct scene){.text = two_step_text,
                          .op = "sim.batch",
                          .roots = roots,
                          .children = children,
                          .batch = 16,
                          .devices = devices,
                          .renderers = devices,
                          .assemblers = devices,
                          .render = {.child_us = 0.01 * SECOND},
                          .first = {.fixed_us = 0.175 * SECOND, .row_us = 0.0231 * SECOND},
                          .page = {.fixed_us = 0.093 * SECOND, .row_us = 0.386 * SECOND},
                          .assemble = {.row_us = 0.01 * SECOND}};
}

static void run_e2(struct bench *bench)
{
    uint32_t devices = bench->options->devices ? bench->options->devices : 4;
    struct scene scene = recognition(LIST_C368, devices, 64);
    bool alone = bench->options->order != SIM_FIFO || sim_may_lose(&bench->options->setup);
    struct experiment_line *line = scene_run(bench, &scene, "C368, %u devices, cap 64", devices);
    if (alone) /* other orders know no recovery */
        return;
    target(bench, false, line->makespan_s / line->bound_s, 1.02, "makespan over its lower bound");
    target(bench, true, line->fill, 0.97, "fill");
    scene.fixed_batches = true;
    scene.order = SIM_PARENT_BOUND;
    struct experiment_line *bound = scene_run(bench, &scene, "E3: batches bound to one parent");
    /* 368 batches cost 689.7 s by the fits themselves, 1.30 times what 111 cost. */
    target(bench, true, bound->makespan_s / line->makespan_s, 1.28, "E3: slower by batches bound to one parent");
    scene.order = SIM_UNORDERED;
    scene.fixed_batches = false;
    scene_run(bench, &scene, "E4: unordered ready queues");
}

static void run_e5(struct bench *bench)
{
    static const uint32_t caps[] = {4, 8, 16, 64};
    for (uint32_t i = 0; i < 4; i++) {
        struct scene scene = recognition(LIST_CMIX, bench->options->devices ? bench->options->devices : 32, caps[i]);
        scene.op = "sim.batch_group";
        scene.dial = 20;
        scene_run(bench, &scene, "CMIX, cap %u, healthy", caps[i]);
        scene.without_first = true;
        struct experiment_line *absent = scene_run(bench, &scene, "CMIX, cap %u, the poisoned one absent", caps[i]);
        scene.without_first = false;
        scene.poisoned_pages = 293;
        struct experiment_line *poisoned = scene_run(bench, &scene, "CMIX, cap %u, page 0 of 293 poisoned", caps[i]);
        target(bench, true, 2758 - (double)poisoned->rows, 250, "cap %u: pages kept out of 292", caps[i]);
        target(bench, false, poisoned->makespan_s / absent->makespan_s, 1.02,
               "cap %u: healthy pages, wall poisoned over absent", caps[i]);
    }
}

static void run_e6(struct bench *bench)
{
    static const uint32_t caps[] = {8, 16, 32, 64};
    uint32_t devices = bench->options->devices ? bench->options->devices : 32;
    double best = INFINITY;
    for (uint32_t i = 0; i < 4; i++) {
        struct scene scene = recognition(LIST_CMIX, devices, caps[i]);
        scene.fixed_batches = true;
        best = fmin(best, scene_run(bench, &scene, "CMIX, fixed cap %u", caps[i])->makespan_s);
    }
    struct scene scene = recognition(LIST_CMIX, devices, 64);
    struct experiment_line *line = scene_run(bench, &scene, "CMIX, automatic, at most 64");
    target(bench, false, line->makespan_s / best, 1.02, "automatic over the best fixed cap");
}

static void run_e7(struct bench *bench)
{
    struct scene scene = recognition(LIST_CTAIL, bench->options->devices ? bench->options->devices : 4, 48);
    scene.op = "sim.batch_group";
    scene.dial = 20;
    scene.render.child_us = 0.001 * SECOND;
    scene.page = (struct sim_service){.row_us = 0.05 * SECOND};
    scene.assemble.row_us = 0.001 * SECOND;
    struct experiment_line *healthy = scene_run(bench, &scene, "CTAIL, 50 ms a page, cap 48, healthy");
    scene.poisoned_pages = 192;
    struct experiment_line *line = scene_run(bench, &scene, "CTAIL, page 0 of the top 99 poisoned");
    line->bound_s = (21894 + 99) * 0.05 / scene.devices;
    target(bench, false, line->makespan_s, 300, "poisoned makespan, s");
    target(bench, false, healthy->makespan_s, 568.8 * 1.02, "healthy makespan, s");
}

static void run_e9(struct bench *bench)
{
    struct scene scene = video(256, 4, bench->options->devices ? bench->options->devices : 2);
    scene.window = 8;
    scene.renderers = 4;
    scene.first_pool = "first";
    scene.first_devices = 1;
    struct experiment_line *line =
        scene_run(bench, &scene, "256 videos x 4 frames, 8 admitted, %u devices", scene.devices);
    target(bench, false, (double)line->batches, 68, "batches of the caption Call (64 are full)");
    scene.fixed_batches = true;
    scene_run(bench, &scene, "the same, what is READY at once");
}

static void scaling(struct bench *bench, struct scene (*make)(uint32_t devices), uint32_t small, uint32_t large,
                    double wanted)
{
    double spans[2];
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t devices = i ? large : small;
        struct scene scene = make(devices);
        struct experiment_line *line = scene_run(bench, &scene, "%u devices", devices);
        spans[i] = line->makespan_s;
        target(bench, true, line->bound_s / line->makespan_s, 0.985, "%u devices: lower bound over makespan", devices);
    }
    target(bench, true, spans[0] / spans[1], wanted, "speed-up from %u to %u devices", small, large);
}

static struct scene scaled_documents(uint32_t devices)
{
    return recognition(LIST_CBIG, devices, 64);
}

static struct scene scaled_video(uint32_t devices)
{
    return video(76116 / 4, 4, devices);
}

static void run_e10(struct bench *bench)
{
    scaling(bench, scaled_documents, 4, 64, 15.7);
}

static void run_e11(struct bench *bench)
{
    scaling(bench, scaled_video, 8, 64, 7.88);
}

/* Layout is measured at 1, 4, 8 and 12 pages; between them a straight line. */
static const double layout_us[13] = {0,      26667,  38355,  50042,  61728,  74868, 88007,
                                     101146, 114286, 132888, 151490, 170086, 188679};

static void run_e12(struct bench *bench)
{
    struct scene scene = recognition(LIST_C160, bench->options->devices ? bench->options->devices : 4, 12);
    scene.text = two_step_text;
    scene.render.child_us = 0.001 * SECOND;
    scene.first = (struct sim_service){.table_us = layout_us, .table_rows = 13};
    scene.page = (struct sim_service){.row_us = 0.05 * SECOND};
    scene.assemble.row_us = 0.001 * SECOND;
    struct experiment_line *automatic = scene_run(bench, &scene, "C160, layout then OCR, automatic");
    scene.fixed_batches = true;
    struct experiment_line *crossing = scene_run(bench, &scene, "fixed: 12 pages across parents");
    scene.order = SIM_PARENT_BOUND;
    struct experiment_line *bound = scene_run(bench, &scene, "fixed: 12 pages of one parent");
    double better = fmin(crossing->makespan_s, bound->makespan_s);
    target(bench, false, automatic->makespan_s / better, 1.01, "automatic over the better fixed policy");
}

static void run_e13(struct bench *bench)
{
    struct scene scene = recognition(LIST_C48, 1, 64);
    scene.text = pages_text;
    scene.roots = 1;
    scene.children = 64;
    scene.render.child_us = 0.001 * SECOND;
    struct experiment_line *healthy = scene_run(bench, &scene, "batch operator, 64 rows, none raises");
    scene.raising_page = 38;
    struct experiment_line *line = scene_run(bench, &scene, "batch operator, row 37 raises");
    target(bench, false, (double)(line->batches - healthy->batches), 13, "batch operator: extra dispatches");
    scene.op = "sim.row";
    scene.page.fixed_us = 0;
    scene.raising_page = 0;
    healthy = scene_run(bench, &scene, "per-row operator, 64 rows, none raises");
    scene.raising_page = 38;
    line = scene_run(bench, &scene, "per-row operator, row 37 raises");
    target(bench, false, (double)(line->batches - healthy->batches), 1, "per-row operator: extra dispatches");
}

static void run_scale(struct bench *bench)
{
    const struct experiment_options *options = bench->options;
    struct scene scene = recognition(LIST_C48, options->devices ? options->devices : 10000, 64);
    scene.roots = options->roots ? options->roots : 100000;
    scene.children = 98;
    scene.window = scene.devices * 2;
    scene.renderers = scene.assemblers = scene.devices / 10 ? scene.devices / 10 : 1;
    scene.render.child_us = 0.005 * SECOND;
    scene.assemble.row_us = 0.05 * SECOND;
    struct experiment_line *line =
        scene_run(bench, &scene, "%u documents of %u pages, %u devices", scene.roots, scene.children, scene.devices);
    target(bench, true, line->bound_s / line->makespan_s, 0.9, "lower bound over makespan");
}

static const struct {
    const char *name, *shape;
    void (*run)(struct bench *bench);
} experiments[] = {
    {"E2", "C368: render, recognise in batches, assemble", run_e2},
    {"E5", "CMIX: the first page of the largest document fails its group", run_e5},
    {"E6", "CMIX: the automatic policy against fixed batch sizes", run_e6},
    {"E7", "CTAIL: the first page of each of the 99 largest documents fails its group", run_e7},
    {"E9", "a small admission window and a Call that gains little from batches", run_e9},
    {"E10", "CBIG: scaling of recognition", run_e10},
    {"E11", "scaling of 76,116 video frames", run_e11},
    {"E12", "operators that do not gain from batches", run_e12},
    {"E13", "one culprit in a batch of 64", run_e13},
    {"scale", "not a published one: as many devices and rows as a planner may want", run_scale},
};
enum { EXPERIMENTS = sizeof(experiments) / sizeof(experiments[0]) };

const char *const *experiment_names(void)
{
    static const char *const names[] = {"E2", "E5", "E6", "E7", "E9", "E10", "E11", "E12", "E13", NULL};
    return names;
}

bool experiment_exists(const char *name)
{
    for (uint32_t i = 0; i < EXPERIMENTS; i++)
        if (strcmp(experiments[i].name, name) == 0)
            return true;
    return false;
}

int experiment_run(const char *name, const struct experiment_options *options, struct experiment_report *ret_report)
{
    for (uint32_t i = 0; i < EXPERIMENTS; i++) {
        if (strcmp(experiments[i].name, name) != 0)
            continue;
        *ret_report = (struct experiment_report){.name = experiments[i].name, .shape = experiments[i].shape};
        struct bench bench = {options, ret_report, 0};
        experiments[i].run(&bench);
        return bench.status;
    }
    return -ENOENT;
}
