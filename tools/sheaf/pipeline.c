/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

enum { PIPELINE_BYTES_MAX = 16 << 20 };

/* From the program's folder: the source tree of a build folder, a build folder with its own copy, an installation. */
static const char *const folders[] = {"../../pipelines", "../pipelines", "../share/sheaf/pipelines", NULL};

void program_folder(struct text *ret_folder)
{
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0)
        return;
    path[length] = '\0';
    char *slash = strrchr(path, '/');
    if (slash != NULL)
        text_add(ret_folder, path, slash == path ? 1 : (size_t)(slash - path));
}

static bool is_path(const char *word)
{
    const char *dot = strrchr(word, '.');
    return strchr(word, '/') != NULL ||
           (dot != NULL && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0 || strcmp(dot, ".json") == 0));
}

static bool find_named(const char *folder, const char *word, struct text *ret_path)
{
    text_clear(ret_path);
    text_addf(ret_path, "%s/%s.yaml", folder, word);
    return access(ret_path->data, R_OK) == 0;
}

bool pipeline_find(const struct settings *settings, const char *word, struct text *ret_path)
{
    if (is_path(word)) {
        text_adds(ret_path, word);
        return true;
    }
    if (settings_given(settings, SETTING_PIPELINES)) {
        if (find_named(settings_text(settings, SETTING_PIPELINES), word, ret_path))
            return true;
        complain("pipeline: %s: %s; try a path to a YAML file, or another --pipelines", ret_path->data,
                 strerror(errno));
        return false;
    }
    struct text program = {0}, folder = {0};
    bool found = false;
    program_folder(&program);
    for (size_t i = 0; !found && folders[i] != NULL; i++) {
        text_clear(&folder);
        text_addf(&folder, "%s/%s", text_string(&program), folders[i]);
        found = find_named(folder.data, word, ret_path);
    }
    text_free(&program);
    text_free(&folder);
    if (!found)
        complain("pipeline: %s: there is none of this name; try documents, or a path to a YAML file", word);
    return found;
}

static int read_text(const char *path, struct text *ret_text)
{
    FILE *file = fopen(path, "rbe");
    if (file == NULL)
        return -errno;
    char piece[16 << 10];
    size_t length;
    while ((length = fread(piece, 1, sizeof piece, file)) > 0 && ret_text->length < PIPELINE_BYTES_MAX)
        text_add(ret_text, piece, length);
    int status = ferror(file) ? -EIO : ret_text->length >= PIPELINE_BYTES_MAX ? -EFBIG : 0;
    fclose(file);
    return status;
}

static int compile(struct pipeline *pipeline, const struct settings *settings, const struct text *text)
{
    struct sheaf_error error = SHEAF_ERROR_INIT;
    struct sheaf_program *program = NULL;
    struct text_list overrides = {0};
    struct text unread = {0};
    if (settings_overrides(settings, &overrides, &unread) < 0) {
        complain("%s", text_string(&unread));
        text_free(&unread);
        text_list_free(&overrides);
        return EXIT_USAGE;
    }
    int status = sheaf_program_create(pipeline->registry, &program);
    if (status == 0)
        status = sheaf_program_parse(program, pipeline->path.data, text_string(text), text->length,
                                     (const char *const *)overrides.items, overrides.count, &error);
    if (status == 0)
        status = sheaf_program_compile(program, &pipeline->plan, &error);
    sheaf_program_destroy(program);
    text_list_free(&overrides);
    return status == 0 ? EXIT_OK : complain_error(pipeline->path.data, status, &error);
}

int pipeline_load(struct pipeline *pipeline, const struct settings *settings, const char *word)
{
    *pipeline = (struct pipeline){0};
    struct sheaf_error error = SHEAF_ERROR_INIT;
    struct text text = {0};
    if (!pipeline_find(settings, word, &pipeline->path))
        return EXIT_USAGE;
    int status = read_text(pipeline->path.data, &text);
    if (status < 0) {
        complain("pipeline: %s: %s; try sheaf run documents", pipeline->path.data, strerror(-status));
        text_free(&text);
        return EXIT_USAGE;
    }
    status = sheaf_registry_create(&pipeline->registry);
    if (status == 0)
        status = sheaf_registry_load_default(pipeline->registry, &error);
    int code = status == 0 ? compile(pipeline, settings, &text) : complain_error("operators", status, &error);
    if (status != 0 && code == EXIT_RUN_FAILED)
        code = EXIT_ENVIRONMENT; /* a plug-in that cannot be loaded is a missing piece */
    text_free(&text);
    return code;
}

void pipeline_unload(struct pipeline *pipeline)
{
    sheaf_plan_destroy(pipeline->plan);
    sheaf_registry_destroy(pipeline->registry);
    text_free(&pipeline->path);
    *pipeline = (struct pipeline){0};
}
