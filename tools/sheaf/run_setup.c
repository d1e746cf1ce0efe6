/* SPDX-License-Identifier: Apache-2.0 */
#include "run_setup.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "machine.h"
#include "signals.h"
#include "sources_list.h"

static const char *const levels[] = {"debug", "info", "warning", "error", NULL};

static int level_number(const char *word)
{
    int level = 0;
    while (levels[level] != NULL && strcmp(levels[level], word) != 0)
        level++;
    return level;
}

/* Called from a thread of the library: one write, no state but the settings, which nobody changes. */
static void on_log(void *cookie, int level, const char *line)
{
    const struct settings *settings = cookie;
    if (level >= level_number(settings_text(settings, SETTING_LOG_LEVEL)))
        complain("%s", line);
}

static int check_settings(const struct settings *settings)
{
    bool has_list = settings_given(settings, SETTING_FILES_FROM);
    if (settings->words.count < 2) {
        complain("run: which pipeline? try sheaf run documents --input DIR --output DIR");
        return EXIT_USAGE;
    }
    if (!has_list && settings->inputs.count == 0) {
        complain("run: no sources were named; try --input DIR or --files-from FILE");
        return EXIT_USAGE;
    }
    if (has_list && settings->inputs.count > 0) {
        complain("run: --input and --files-from together; try one of them");
        return EXIT_USAGE;
    }
    if (settings_given(settings, SETTING_TOPOLOGY)) {
        complain("run: --topology is of another machine; try sheaf plan");
        return EXIT_USAGE;
    }
    if (!settings_given(settings, SETTING_OUTPUT)) {
        complain("run: where do results go? try --output DIR");
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

static void name_own_output(struct run *run)
{
    struct stat info;
    if (stat(settings_text(run->settings, SETTING_OUTPUT), &info) == 0)
        sources_own_output(run->sources, &info);
}

/* Results among the sources would be sources of the next run. */
static int check_output_apart(const struct settings *settings)
{
    const char *output = settings_text(settings, SETTING_OUTPUT);
    struct stat own, input;
    if (stat(output, &own) < 0)
        return EXIT_OK;
    for (size_t i = 0; i < settings->inputs.count; i++) {
        if (stat(settings->inputs.items[i], &input) < 0 || input.st_dev != own.st_dev || input.st_ino != own.st_ino)
            continue;
        complain("output: %s is the input too, and results would become sources; try another --output", output);
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

int run_next_source(struct run *run, struct source *ret_source)
{
    if (run->has_first) {
        run->has_first = false;
        *ret_source = run->first;
        return SOURCES_ONE;
    }
    return sources_next(run->sources, ret_source);
}

/* Reads the first source, so that a run without any makes nothing. */
static int read_ahead(struct run *run)
{
    for (;;) {
        int status = sources_next(run->sources, &run->first);
        if (status == SOURCES_ONE) {
            run->has_first = true;
            return EXIT_OK;
        }
        if (status == SOURCES_END) {
            complain("input: there is nothing to do: no files were found (hidden ones are passed over); try another "
                     "--input");
            return EXIT_NO_INPUT;
        }
        if (status < 0) {
            complain("files-from: %s: %s", settings_text(run->settings, SETTING_FILES_FROM),
                     sources_list_problem(status));
            return EXIT_RUN_FAILED;
        }
        struct pollfd ends[2] = {{sources_descriptor(run->sources), POLLIN, 0}, {signals_descriptor(), POLLIN, 0}};
        poll(ends, 2, -1);
        int number = signals_next();
        if (number != 0 && number != SIGNAL_STATE)
            return number == SIGNAL_TERMINATE ? EXIT_TERMINATED : EXIT_INTERRUPTED;
    }
}

static int open_sources(struct run *run)
{
    const struct settings *settings = run->settings;
    struct sources_options options = {
        .inputs = &settings->inputs,
        .includes = &settings->includes,
        .excludes = &settings->excludes,
        .files_from = settings_given(settings, SETTING_FILES_FROM) ? settings_text(settings, SETTING_FILES_FROM) : NULL,
        .null_separated = settings_is(settings, SETTING_NULL, "yes"),
        .recursive = settings_is(settings, SETTING_RECURSIVE, "yes"),
    };
    struct text error = {0};
    int status = sources_open(&options, &run->sources, &error);
    if (status < 0)
        complain("%s", text_string(&error));
    text_free(&error);
    if (status < 0)
        return status == SHEAF_E_INPUT ? EXIT_NO_INPUT : EXIT_USAGE;
    name_own_output(run);
    return read_ahead(run);
}

static int open_tree(struct run *run)
{
    const struct settings *settings = run->settings;
    const char *directory = settings_text(settings, SETTING_OUTPUT);
    struct sheaf_error error = SHEAF_ERROR_INIT;
    char *description = NULL;
    sheaf_plan_describe(run->pipeline.plan, "text", &description);
    /* Not its first line, the fingerprint: what differs between two pipelines is said in the lines that do. */
    const char *rest = description == NULL ? NULL : strchr(description, '\n');
    struct sheaf_tree_options options = {
        .size = sizeof options,
        .durability = settings_is(settings, SETTING_DURABILITY, "none") ? SHEAF_DURABILITY_NONE : SHEAF_DURABILITY_FULL,
        .run_id = run->run_id,
        .fingerprint = sheaf_plan_fingerprint(run->pipeline.plan),
        .description = rest == NULL ? description : rest + 1,
        .restart = settings_is(settings, SETTING_RESTART, "yes"),
        .io = machine_options(settings).io,
        .cookie = (void *)(uintptr_t)settings,
        .log = on_log,
    };
    int status = sheaf_tree_open(directory, &options, &run->tree, &error);
    free(description);
    if (status < 0)
        return complain_error(directory, status, &error);
    name_own_output(run);
    return EXIT_OK;
}

/* A model may take minutes to load, or never come: a signal ends that. */
static int was_signalled(void *cookie)
{
    struct run *run = cookie;
    for (int number; run->exit_code == EXIT_OK && (number = signals_next()) != 0;) {
        if (number != SIGNAL_STATE)
            run->exit_code = number == SIGNAL_TERMINATE ? EXIT_TERMINATED : EXIT_INTERRUPTED;
    }
    return run->exit_code != EXIT_OK;
}

static int open_engine(struct run *run)
{
    const struct settings *settings = run->settings;
    struct sheaf_error error = SHEAF_ERROR_INIT;
    struct sheaf_engine_options options = machine_options(settings);
    options.cookie = (void *)(uintptr_t)settings;
    options.log = on_log;
    /* What memory does not hold goes where the results go: there is room, or the run ends anyway. */
    struct sheaf_run_options run_options = {.size = sizeof run_options,
                                            .run_id = run->run_id,
                                            .spill_path = settings_text(settings, SETTING_OUTPUT),
                                            .gives_up = was_signalled,
                                            .cookie = run};
    if (settings_is(settings, SETTING_ORDER, "largest-first"))
        run_options.order = SHEAF_ORDER_LARGEST_FIRST;
    int status = sheaf_engine_create(&options, &run->engine, &error);
    if (status == 0)
        status = sheaf_run_open(run->engine, run->pipeline.plan, &run_options, &run->run, &error);
    if (status == SHEAF_E_CLOSED && run->exit_code != EXIT_OK) {
        complain("stopped while workers were starting; the same command goes on from here");
        return run->exit_code;
    }
    return status == 0 ? EXIT_OK : complain_error("the engine cannot start", status, &error);
}

static int check_plan(struct run *run)
{
    struct sheaf_plan_port port = {.size = sizeof port};
    if (sheaf_plan_source_count(run->pipeline.plan) != 1 || sheaf_plan_source(run->pipeline.plan, 0, &port) < 0 ||
        port.kind != SHEAF_FILE) {
        complain("pipeline: %s: sheaf run feeds files: want one source, of kind file", run->pipeline.path.data);
        return EXIT_USAGE;
    }
    uint32_t row;
    const char *warning;
    for (size_t i = 0; (warning = sheaf_plan_warning(run->pipeline.plan, i, &row)) != NULL; i++)
        complain("pipeline: %s: warning: %s", run->pipeline.path.data, warning);
    return root_outputs_read(&run->outputs, run->pipeline.plan);
}

int run_set_up(struct run *run)
{
    struct timespec wall;
    clock_gettime(CLOCK_MONOTONIC, &run->began);
    clock_gettime(CLOCK_REALTIME, &wall);
    snprintf(run->run_id, sizeof run->run_id, "%lld.%09ld-%d", (long long)wall.tv_sec, wall.tv_nsec, (int)getpid());
    run->counts.first_commit_seconds = -1;
    run->retry_failed = settings_is(run->settings, SETTING_RETRY_FAILED, "yes");
    roots_start(&run->roots);
    int code = check_settings(run->settings);
    if (code == EXIT_OK)
        code = check_output_apart(run->settings);
    if (code == EXIT_OK && signals_install() < 0) {
        complain("signals: no pipe can be made: %s; try a higher limit of open files", strerror(errno));
        code = EXIT_ENVIRONMENT;
    }
    if (code == EXIT_OK)
        code = pipeline_load(&run->pipeline, run->settings, run->settings->words.items[1]);
    if (code == EXIT_OK)
        code = check_plan(run);
    if (code == EXIT_OK)
        code = open_sources(run);
    if (code == EXIT_OK)
        code = open_tree(run);
    if (code == EXIT_OK)
        code = open_engine(run);
    progress_start(&run->progress, settings_text(run->settings, SETTING_PROGRESS));
    return code;
}

void run_tear_down(struct run *run)
{
    sheaf_run_close(run->run);
    sheaf_engine_destroy(run->engine);
    sheaf_tree_close(run->tree, NULL, NULL);
    roots_free(&run->roots);
    free(run->outputs.items);
    sources_close(run->sources);
    pipeline_unload(&run->pipeline);
}
