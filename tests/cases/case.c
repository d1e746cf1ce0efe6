/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/cases/case.h"
#include "tests/common/case_files.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/common/case_files.h"

enum { SOURCES_MAX = 16 };

void observed_trouble(struct observed *observed, const char *format, ...)
{
    if (observed->end == CASE_BROKEN)
        return;
    observed->end = CASE_BROKEN;
    va_list values;
    va_start(values, format);
    vsnprintf(observed->trouble, sizeof observed->trouble, format, values);
    va_end(values);
}

void observed_clear(struct observed *observed)
{
    json_decref(observed->warnings);
    json_decref(observed->outputs);
    json_decref(observed->roots);
    json_decref(observed->started);
}

/* ---- compiling ---- */

static void collect_warnings(const struct sheaf_plan *plan, struct observed *observed)
{
    uint32_t row, rows = 0;
    for (size_t i = 0; sheaf_plan_warning(plan, i, &row); i++)
        rows |= 1u << row;
    for (row = 0; row < 32; row++)
        if (rows >> row & 1)
            json_array_append_new(observed->warnings, json_integer(row));
}

static struct sheaf_plan *compile(const struct case_setup *setup, const json_t *spec, struct observed *observed)
{
    struct sheaf_error error = SHEAF_ERROR_INIT;
    struct sheaf_program *program;
    struct sheaf_plan *plan = NULL;
    char *text = case_program(spec, NULL);
    int status = sheaf_program_create(setup->registry, &program);
    if (status == 0)
        status = sheaf_program_parse(program, "case", text, strlen(text), NULL, 0, &error);
    if (status == 0)
        status = sheaf_program_compile(program, &plan, &error);
    sheaf_program_destroy(program);
    free(text);
    if (status == SHEAF_E_REFUSED) {
        observed->end = CASE_REFUSED;
        observed->row = error.row;
        snprintf(observed->trouble, sizeof observed->trouble, "%s", error.message);
    } else if (status < 0) {
        observed_trouble(observed, "the program is not compiled: %s", error.message);
    } else {
        collect_warnings(plan, observed);
    }
    return plan;
}

/* ---- values ---- */

/* Lists made for one submit, inner ones before what holds them. */
struct made {
    struct made *next;
    struct sheaf_list *list;
};

static int keep_list(struct made **made, struct sheaf_list *list)
{
    struct made *last = malloc(sizeof *last);
    if (!last)
        return -ENOMEM;
    *last = (struct made){*made, list};
    *made = last;
    return 0;
}

static void destroy_lists(struct made *made)
{
    while (made) {
        struct made *next = made->next;
        sheaf_list_destroy(made->list);
        free(made);
        made = next;
    }
}

/* JSON to a value of `kind`. */
static int make_value(const json_t *json, sheaf_kind kind, struct made **made, struct sheaf_value *ret_value)
{
    *ret_value = (struct sheaf_value){.kind = kind};
    if (SHEAF_KIND_DEPTH(kind) > 0) {
        size_t count = json_array_size(json);
        struct sheaf_value *elements = calloc(count + 1, sizeof *elements);
        sheaf_kind element_kind = SHEAF_LIST_OF(SHEAF_KIND_BASE(kind), SHEAF_KIND_DEPTH(kind) - 1);
        int status = elements ? 0 : -ENOMEM;
        for (size_t i = 0; i < count && status == 0; i++)
            status = make_value(json_array_get(json, i), element_kind, made, &elements[i]);
        if (status == 0)
            status = sheaf_list_create(elements, count, &ret_value->list);
        if (status == 0)
            status = keep_list(made, ret_value->list);
        ret_value->length_bytes = count;
        free(elements);
        return status;
    }
    switch (kind) {
    case SHEAF_BOOL:
        ret_value->boolean = json_is_true(json);
        return 0;
    case SHEAF_I64:
        ret_value->i64 = json_integer_value(json);
        return 0;
    default:
        ret_value->data = json_string_value(json);
        ret_value->length_bytes = json_string_length(json);
        return 0;
    }
}

/* ---- submitting ---- */

struct input {
    const json_t *columns[SOURCES_MAX];
    sheaf_kind kinds[SOURCES_MAX];
    uint32_t source_count;
    size_t shortest, longest; /* rows */
};

static void read_input(const struct sheaf_plan *plan, const json_t *spec, struct input *ret_input)
{
    struct input input = {.source_count = (uint32_t)sheaf_plan_source_count(plan), .shortest = SIZE_MAX};
    for (uint32_t i = 0; i < input.source_count && i < SOURCES_MAX; i++) {
        struct sheaf_plan_port port = {.size = sizeof port};
        sheaf_plan_source(plan, i, &port);
        input.columns[i] = json_object_get(json_object_get(json_object_get(spec, "sources"), port.name), "rows");
        input.kinds[i] = port.kind;
        size_t rows = json_array_size(input.columns[i]);
        input.shortest = rows < input.shortest ? rows : input.shortest;
        input.longest = rows > input.longest ? rows : input.longest;
    }
    *ret_input = input;
}

/* Submits row `row`: as many values as there are columns that long. */
static int submit(struct sheaf_run *run, const struct input *input, size_t row, struct sheaf_error *error)
{
    struct sheaf_value values[SOURCES_MAX];
    struct made *made = NULL;
    uint32_t count = 0;
    int status = 0;
    for (uint32_t i = 0; i < input->source_count && status == 0; i++)
        if (row < json_array_size(input->columns[i]))
            status = make_value(json_array_get(input->columns[i], row), input->kinds[i], &made, &values[count++]);
    struct sheaf_submission submission = {
        .size = sizeof submission, .value_count = count, .values = values, .tag = row};
    if (status == 0)
        status = sheaf_run_submit(run, &submission, NULL, error);
    destroy_lists(made);
    return status;
}

/* ---- running ---- */

/* Takes in what there is; true once END came or nothing more can. */
static bool take_events(struct sheaf_run *run, const struct sheaf_plan *plan, bool *space, struct observed *observed)
{
    struct sheaf_event event = {.size = sizeof event};
    while (sheaf_run_poll(run, &event) == 0 && event.kind != SHEAF_EVENT_NONE) {
        switch (event.kind) {
        case SHEAF_EVENT_ROOT:
            collect_result(plan, event.result, observed);
            sheaf_result_acknowledge(event.result);
            break;
        case SHEAF_EVENT_SPACE:
            *space = true;
            break;
        case SHEAF_EVENT_ABORT:
            if (!observed->aborted)
                snprintf(observed->cause, sizeof observed->cause, "%s", event.message);
            observed->aborted = true;
            break;
        case SHEAF_EVENT_FATAL:
            observed_trouble(observed, "the engine gave up: %s", event.message);
            return true;
        default:
            return true;
        }
    }
    return false;
}

static void wait_for_event(struct sheaf_run *run, const struct case_setup *setup, struct observed *observed)
{
    struct pollfd wait = {.fd = sheaf_run_descriptor(run), .events = POLLIN};
    int ready = poll(&wait, 1, (int)setup->give_up_after_ms);
    if (ready == 0)
        observed_trouble(observed, "stuck: nothing was heard of the run for %u ms", setup->give_up_after_ms);
}

static void drive(struct sheaf_run *run, const struct case_setup *setup, const struct sheaf_plan *plan,
                  const struct input *input, struct observed *observed)
{
    struct sheaf_error error = SHEAF_ERROR_INIT;
    size_t next = 0;
    bool space = true, closed = false, over = false;
    while (!over && observed->end != CASE_BROKEN) {
        while (space && next < input->longest && !observed->aborted) {
            int status = submit(run, input, next, &error);
            space = status == 0;
            next += status == 0;
            if (status == SHEAF_E_CLOSED)
                next = input->longest; /* an abort that was not polled yet */
            else if (status < 0 && status != -EAGAIN)
                observed_trouble(observed, "row %zu is not taken: %d, %s", next, status, error.message);
        }
        if ((next == input->longest || observed->aborted) && !closed) {
            closed = true;
            sheaf_run_close_input(run);
        }
        over = take_events(run, plan, &space, observed);
        if (!over && !(space && next < input->longest))
            wait_for_event(run, setup, observed);
    }
}

/* A row that lacks a value is refused, and nothing is admitted. */
static void submit_short_row(struct sheaf_run *run, const struct input *input, struct observed *observed)
{
    struct sheaf_error error = SHEAF_ERROR_INIT;
    struct sheaf_progress progress = {.size = sizeof progress};
    int status = submit(run, input, input->longest - 1, &error);
    sheaf_run_progress(run, &progress);
    if (status == SHEAF_E_INPUT && progress.submitted == 0 && error.message[0] != '\0')
        observed->end = CASE_INPUT_ERROR;
    else
        observed_trouble(observed, "a row that lacks a value: status %d, %llu roots taken", status,
                         (unsigned long long)progress.submitted);
}

static void run_plan(const struct case_setup *setup, const struct sheaf_plan *plan, const struct input *input,
                     struct observed *observed)
{
    struct sheaf_engine_options options = {.size = sizeof options,
                                           .workers = setup->workers,
                                           .memory_bytes = UINT64_C(4) << 30,
                                           .worker_path = setup->worker_path,
                                           .root_window = setup->seed % 3 == 0 ? 1 + (uint32_t)(setup->seed % 7) : 0};
    struct sheaf_error error = SHEAF_ERROR_INIT;
    struct sheaf_engine *engine;
    struct sheaf_run *run;
    int status = sheaf_engine_create(&options, &engine, &error);
    if (status < 0) {
        observed_trouble(observed, "no engine: %s", error.message);
        return;
    }
    status = sheaf_run_open(engine, plan, NULL, &run, &error);
    if (status < 0) {
        observed_trouble(observed, "no run: %s", error.message);
    } else {
        char *ledger = NULL;
        if (input->shortest < input->longest)
            submit_short_row(run, input, observed);
        else
            drive(run, setup, plan, input, observed);
        if (sheaf_run_ledger(run, &ledger) == 0)
            collect_ledger(ledger, observed);
        free(ledger);
        sheaf_run_close(run);
    }
    sheaf_engine_destroy(engine);
}

void case_run(const struct case_setup *setup, const json_t *spec, struct observed *ret_observed)
{
    struct observed *observed = ret_observed;
    *observed = (struct observed){.end = CASE_RAN,
                                  .warnings = json_array(),
                                  .outputs = json_object(),
                                  .roots = json_array(),
                                  .started = json_object()};
    struct sheaf_plan *plan = compile(setup, spec, observed);
    if (!plan)
        return;
    if (setup->simulated) {
        case_simulate(setup, plan, spec, observed);
        sheaf_plan_destroy(plan);
        return;
    }
    struct input input;
    read_input(plan, spec, &input);
    for (size_t i = 0; i < input.longest; i++)
        json_array_append_new(observed->roots, json_null());
    for (size_t i = 0; i < sheaf_plan_output_count(plan); i++) {
        struct sheaf_plan_port port = {.size = sizeof port};
        sheaf_plan_output(plan, i, &port);
        json_object_set_new(observed->outputs, port.name, json_array());
    }
    run_plan(setup, plan, &input, observed);
    sheaf_plan_destroy(plan);
}
