/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/hostile/play.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

enum { END_MS = 60000, PORTS = 1 };

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- what is left ---- */

/* Entries whose names begin with `prefix`. No folders: those in /dev/shm are of other tests that run meanwhile. */
static uint32_t count_entries(const char *folder, const char *prefix)
{
    DIR *stream = opendir(folder);
    struct dirent *entry;
    uint32_t count = 0;
    while (stream != NULL && (entry = readdir(stream)) != NULL)
        count += entry->d_type != DT_DIR && strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    if (stream != NULL)
        closedir(stream);
    return count;
}

static void check_nothing_left(uint32_t descriptors)
{
    int status;
    assert_int_equal(waitpid(-1, &status, WNOHANG | __WALL), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(count_entries("/proc/self/fd", ""), descriptors);
    assert_int_equal(count_entries("/dev/shm", "sheaf"), 0);
}

/* ---- the program ---- */

struct stage {
    struct sheaf_registry *registry;
    struct sheaf_plan *plan;
    struct sheaf_engine *engine;
    struct sheaf_run *run;
};

static void compile(struct stage *stage, const struct play *play)
{
    struct sheaf_error error = SHEAF_ERROR_INIT;
    struct sheaf_program *program;
    const char *inputs[] = {"in"}, *outputs[] = {"made"}, *children[] = {"child"};
    const char *name = play->operator_name != NULL ? play->operator_name : "hostile.row";
    bool expands = strcmp(name, "hostile.children") == 0, carries = strcmp(name, "hostile.carry") == 0;
    const char *checked[] = {"checked"};
    struct sheaf_call check = {.size = sizeof check,
                               .input_count = 1,
                               .output_count = 1,
                               .name = "check",
                               .operator_name = "hostile.check",
                               .pool = "all",
                               .inputs = outputs,
                               .outputs = checked};
    struct sheaf_call call = {.size = sizeof call,
                              .input_count = 1,
                              .output_count = 1,
                              .name = "act",
                              .operator_name = name,
                              .inputs = inputs,
                              .outputs = outputs,
                              .retries = play->retries,
                              .batch_rows = play->batch_rows,
                              .pool = "all",
                              .recovery = play->retries > 0 ? SHEAF_RECOVERY_RETRY : SHEAF_RECOVERY_FAIL,
                              .given = (play->retries > 0 ? SHEAF_GIVEN_RETRIES : 0u) |
                                       (play->batch_rows > 0 ? SHEAF_GIVEN_BATCH : 0u)};
    assert_int_equal(sheaf_registry_create(&stage->registry), 0);
    assert_int_equal(sheaf_registry_load(stage->registry, getenv("SHEAF_TEST_PLUGIN"), &error), 0);
    assert_int_equal(sheaf_program_create(stage->registry, &program), 0);
    assert_int_equal(sheaf_program_source(program, "in", SHEAF_I64), 0);
    assert_int_equal(sheaf_program_call(program, &call), 0);
    if (expands)
        assert_int_equal(sheaf_program_expand(program, outputs, children, PORTS), 0);
    if (carries)
        assert_int_equal(sheaf_program_call(program, &check), 0);
    assert_int_equal(sheaf_program_output(program, expands ? "child" : carries ? "checked" : "made", NULL), 0);
    if (sheaf_program_compile(program, &stage->plan, &error) != 0)
        fail_msg("%s", error.message);
    sheaf_program_destroy(program);
}

static void on_log(void *cookie, int level, const char *line)
{
    if (getenv("SHEAF_TEST_LOG") != NULL)
        fprintf(stderr, "    %d %s\n", level, line);
}

static void open_run(struct stage *stage, const struct play *play, struct play_end *end)
{
    struct sheaf_error error = SHEAF_ERROR_INIT;
    struct sheaf_engine_options options = {
        .size = sizeof options,
        .workers = play->workers > 0 ? play->workers : 2,
        .memory_bytes = play->memory_bytes > 0 ? play->memory_bytes : UINT64_C(1) << 30,
        .row_timeout_ms = play->row_timeout_ms > 0 ? play->row_timeout_ms : 20000,
        .root_window = play->window,
        .integrity = play->integrity,
        .worker_path = getenv("SHEAF_TEST_WORKER"),
        .log = on_log,
    };
    if (sheaf_engine_create(&options, &stage->engine, &error) != 0)
        fail_msg("%s", error.message);
    end->opened = sheaf_run_open(stage->engine, stage->plan, NULL, &stage->run, &error);
    if (end->opened != 0)
        snprintf(end->message, sizeof end->message, "%.500s", error.message);
}

/* ---- roots ---- */

static void take_result(struct sheaf_result *result, struct root_end *ends)
{
    struct sheaf_result_info info = {.size = sizeof info};
    struct sheaf_item item = {.size = sizeof item};
    assert_int_equal(sheaf_result_info(result, &info), 0);
    struct root_end *end = &ends[info.tag];
    *end = (struct root_end){.status = info.status, .class_id = info.class_id};
    snprintf(end->message, sizeof end->message, "%.200s", info.message);
    for (size_t index = 0; sheaf_result_item(result, 0, index, &item) == 0; index++) {
        if (item.outcome != SHEAF_PRESENT)
            continue;
        if (end->child_count++ == 0)
            end->value = SHEAF_KIND_BASE(item.value.kind) == SHEAF_BYTES && item.value.length_bytes >= 8
                             ? *(const int64_t *)item.value.data
                             : item.value.i64;
    }
    sheaf_result_acknowledge(result);
}

static void submit(struct sheaf_run *run, const int64_t *inputs, uint32_t count, uint32_t *submitted)
{
    for (; *submitted < count; ++*submitted) {
        struct sheaf_value value = {.kind = SHEAF_I64, .i64 = inputs[*submitted]};
        struct sheaf_submission submission = {
            .size = sizeof submission, .value_count = 1, .values = &value, .tag = *submitted};
        int status = sheaf_run_submit(run, &submission, NULL, NULL);
        if (status == -EAGAIN)
            return;
        assert_int_equal(status, 0);
    }
    sheaf_run_close_input(run);
}

/* Until END or FATAL; false: time is up. */
static bool drive(struct sheaf_run *run, const int64_t *inputs, uint32_t count, struct root_end *ends,
                  struct play_end *end)
{
    uint64_t until_ms = now_ms() + END_MS;
    uint32_t submitted = 0;
    for (;;) {
        struct sheaf_event event = {.size = sizeof event};
        if (submitted < count)
            submit(run, inputs, count, &submitted);
        assert_int_equal(sheaf_run_poll(run, &event), 0);
        switch (event.kind) {
        case SHEAF_EVENT_ROOT:
            take_result(event.result, ends);
            continue;
        case SHEAF_EVENT_FATAL:
            end->fatal = true;
            snprintf(end->message, sizeof end->message, "%.500s", event.message);
            return true;
        case SHEAF_EVENT_END:
            return true;
        default:
            break;
        }
        struct pollfd readable = {.fd = sheaf_run_descriptor(run), .events = POLLIN};
        uint64_t at_ms = now_ms();
        if (at_ms >= until_ms)
            return false;
        if (event.kind == SHEAF_EVENT_NONE)
            poll(&readable, 1, (int)(until_ms - at_ms));
    }
}

struct play_end play(const struct play *what, const int64_t *inputs, uint32_t count, struct root_end *ret_ends)
{
    struct stage stage = {NULL};
    struct play_end end = {0};
    uint32_t descriptors = count_entries("/proc/self/fd", "");
    uint64_t from_ms = now_ms();
    bool ended = true;
    compile(&stage, what);
    open_run(&stage, what, &end);
    if (end.opened == 0) {
        struct sheaf_progress progress = {.size = sizeof progress};
        ended = drive(stage.run, inputs, count, ret_ends, &end);
        sheaf_run_progress(stage.run, &progress);
        end.deaths = progress.worker_deaths;
        end.shared_bytes = progress.memory_peak_bytes;
        sheaf_run_close(stage.run);
    }
    sheaf_engine_destroy(stage.engine);
    sheaf_plan_destroy(stage.plan);
    sheaf_registry_destroy(stage.registry);
    end.elapsed_ms = now_ms() - from_ms;
    assert_true(ended);
    check_nothing_left(descriptors);
    return end;
}

/* ---- rows ---- */

int64_t act_input(int act, int64_t n)
{
    return (int64_t)act * ACT_STRIDE + n;
}

void mix(int64_t *ret_inputs, uint32_t count, int bad, uint32_t first, uint32_t step)
{
    for (uint32_t i = 0; i < count; i++)
        ret_inputs[i] = act_input(i >= first && (i - first) % step == 0 ? bad : ACT_GOOD, i);
}

uint32_t check_ends(const int64_t *inputs, const struct root_end *ends, uint32_t count, enum sheaf_class class_id)
{
    uint32_t bad = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct root_end *end = &ends[i];
        if (inputs[i] < ACT_STRIDE) {
            if (end->status != SHEAF_ROOT_OK || end->value != good_answer(inputs[i]))
                fail_msg("root %u: status %s, value %lld, %s: %s", i, sheaf_root_status_name(end->status),
                         (long long)end->value, sheaf_class_name(end->class_id), end->message);
            continue;
        }
        bad++;
        if (end->status != SHEAF_ROOT_FAILED || (class_id != SHEAF_CLASS_NONE && end->class_id != class_id))
            fail_msg("root %u, act %lld: status %s, value %lld, class %s and not %s: %s", i,
                     (long long)(inputs[i] / ACT_STRIDE), sheaf_root_status_name(end->status), (long long)end->value,
                     sheaf_class_name(end->class_id), sheaf_class_name(class_id), end->message);
    }
    return bad;
}
