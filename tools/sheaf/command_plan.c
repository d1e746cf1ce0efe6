/* SPDX-License-Identifier: Apache-2.0 */
/* `sheaf check`: does the pipeline compile? `sheaf plan`: what it looks like, and what a run over these inputs would
 * do. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "command.h"
#include "machine.h"
#include "pipeline.h"
#include "roots.h"

static int load(struct pipeline *pipeline, const struct settings *settings)
{
    if (settings->words.count < 2) {
        complain("%s: which pipeline? try sheaf %s documents", settings->words.items[0], settings->words.items[0]);
        return EXIT_USAGE;
    }
    return pipeline_load(pipeline, settings, settings->words.items[1]);
}

static void print_warnings(const struct pipeline *pipeline)
{
    uint32_t row = 0;
    const char *warning;
    for (size_t i = 0; (warning = sheaf_plan_warning(pipeline->plan, i, &row)) != NULL; i++)
        complain("pipeline: %s: warning: %s", pipeline->path.data, warning);
}

int command_check(const struct settings *settings)
{
    struct pipeline pipeline = {0};
    struct root_outputs outputs = {0};
    int code = load(&pipeline, settings);
    if (code == EXIT_OK) {
        print_warnings(&pipeline);
        code = root_outputs_read(&outputs, pipeline.plan);
    }
    if (code == EXIT_OK)
        printf("%s: fine, fingerprint %s\n", pipeline.path.data, sheaf_plan_fingerprint(pipeline.plan));
    free(outputs.items);
    pipeline_unload(&pipeline);
    return code;
}

/* Goes through the sources as a run would, without reading them. */
static int print_sources(const struct settings *settings)
{
    struct sources_options options = {
        .inputs = &settings->inputs,
        .includes = &settings->includes,
        .excludes = &settings->excludes,
        .files_from = settings_given(settings, SETTING_FILES_FROM) ? settings_text(settings, SETTING_FILES_FROM) : NULL,
        .null_separated = settings_is(settings, SETTING_NULL, "yes"),
        .recursive = settings_is(settings, SETTING_RECURSIVE, "yes"),
    };
    struct sources *sources = NULL;
    struct sources_counts counts;
    struct source source;
    struct text error = {0};
    uint64_t bytes = 0, unreadable = 0;
    int status = sources_open(&options, &sources, &error);
    if (status < 0) {
        complain("%s", text_string(&error));
        text_free(&error);
        return status == SHEAF_E_INPUT ? EXIT_NO_INPUT : EXIT_USAGE;
    }
    struct stat output;
    if (settings_given(settings, SETTING_OUTPUT) && stat(settings_text(settings, SETTING_OUTPUT), &output) == 0)
        sources_own_output(sources, &output);
    while ((status = sources_next(sources, &source)) != SOURCES_END && status > 0) {
        if (status == SOURCES_WAIT) {
            struct pollfd end = {sources_descriptor(sources), POLLIN, 0};
            poll(&end, 1, -1);
            continue;
        }
        bytes += source.size_bytes;
        unreadable += source.problem != NULL;
    }
    sources_count(sources, &counts);
    printf("\nsources: %llu, %.1f MiB\n", (unsigned long long)counts.found, (double)bytes / (1 << 20));
    printf("  not readable: %llu\n", (unsigned long long)unreadable);
    printf("  passed over: %llu hidden, %llu excluded, %llu links to folders, %llu not regular, %llu output folders\n",
           (unsigned long long)counts.hidden, (unsigned long long)counts.excluded,
           (unsigned long long)counts.folder_links, (unsigned long long)counts.special,
           (unsigned long long)counts.outputs);
    sources_close(sources);
    return counts.found == 0 ? EXIT_NO_INPUT : EXIT_OK;
}

int command_plan(const struct settings *settings)
{
    struct pipeline pipeline = {0};
    struct root_outputs outputs = {0};
    if (settings_is(settings, SETTING_FORMAT, "json")) {
        complain("plan: --format: 'json' does not fit: want text|dot");
        return EXIT_USAGE;
    }
    int code = load(&pipeline, settings);
    const char *form = settings_is(settings, SETTING_FORMAT, "dot") ? "dot" : "text";
    if (code == EXIT_OK) {
        char *text = NULL;
        print_warnings(&pipeline);
        int status = sheaf_plan_describe(pipeline.plan, form, &text);
        code =
            status < 0 ? complain_error(pipeline.path.data, status, NULL) : root_outputs_read(&outputs, pipeline.plan);
        if (text != NULL)
            fputs(text, stdout);
        free(text);
    }
    for (size_t i = 0; code == EXIT_OK && form[0] == 't' && i < outputs.count; i++) {
        const struct root_output *output = &outputs.items[i];
        printf("%s%s -> %s\n", i == 0 ? "\nfiles:\n  " : "  ", output->port,
               output->pattern == NULL ? "(no file)" : output->pattern);
    }
    if (code == EXIT_OK && form[0] == 't')
        code = machine_print(settings, pipeline.plan);
    bool has_sources = settings->inputs.count > 0 || settings_given(settings, SETTING_FILES_FROM);
    if (code == EXIT_OK && form[0] == 't' && has_sources)
        code = print_sources(settings);
    free(outputs.items);
    pipeline_unload(&pipeline);
    return code;
}
