/* SPDX-License-Identifier: Apache-2.0 */
#include "sources.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sources_inputs.h"
#include "sources_list.h"

/* A folder being walked. Its stream is closed once all its names are here, so depth costs no descriptors. */
struct folder {
    DIR *stream;
    struct text_list names;
    size_t next;
    size_t path_length, name_length; /* of the texts up to this folder */
};

struct sources {
    struct sources_options options;
    struct input *inputs;
    size_t input_count, next_input;
    struct sources_list *list;
    struct folder *folders; /* a stack */
    size_t folder_count, folder_capacity;
    struct text path, name, problem;
    bool have_output;
    dev_t output_device;
    ino_t output_inode;
    struct sources_counts counts;
};

int sources_open(const struct sources_options *options, struct sources **ret_sources, struct text *error)
{
    struct sources *sources = must_allocate(sizeof *sources);
    *sources = (struct sources){.options = *options};
    int status;
    if (options->files_from != NULL)
        status = sources_list_open(options->files_from, options->null_separated, &sources->list, error);
    else
        status = inputs_resolve(options->inputs, &sources->inputs, &sources->input_count, error);
    if (status < 0) {
        sources_close(sources);
        return status;
    }
    *ret_sources = sources;
    return 0;
}

static void folder_pop(struct sources *sources)
{
    struct folder *folder = &sources->folders[--sources->folder_count];
    if (folder->stream != NULL)
        closedir(folder->stream);
    text_list_free(&folder->names);
}

void sources_close(struct sources *sources)
{
    if (sources == NULL)
        return;
    while (sources->folder_count > 0)
        folder_pop(sources);
    free(sources->folders);
    inputs_free(sources->inputs, sources->input_count);
    sources_list_close(sources->list);
    text_free(&sources->path);
    text_free(&sources->name);
    text_free(&sources->problem);
    free(sources);
}

void sources_own_output(struct sources *sources, const struct stat *folder)
{
    sources->have_output = true;
    sources->output_device = folder->st_dev;
    sources->output_inode = folder->st_ino;
}

void sources_count(const struct sources *sources, struct sources_counts *ret_counts)
{
    *ret_counts = sources->counts;
}

int sources_descriptor(const struct sources *sources)
{
    return sources->list == NULL ? -1 : sources_list_descriptor(sources->list);
}

static int give(struct sources *sources, const struct stat *info, const char *problem, struct source *ret_source)
{
    *ret_source =
        (struct source){.path = text_string(&sources->path), .name = text_string(&sources->name), .problem = problem};
    if (info != NULL) {
        ret_source->size_bytes = info->st_size < 0 ? 0 : (uint64_t)info->st_size;
        ret_source->mtime_ns = (int64_t)info->st_mtim.tv_sec * 1000000000 + info->st_mtim.tv_nsec;
    }
    sources->counts.found++;
    return SOURCES_ONE;
}

static const char *say(struct sources *sources, const char *what, int error_number)
{
    text_clear(&sources->problem);
    text_addf(&sources->problem, "%s: %s", what, strerror(error_number));
    return sources->problem.data;
}

/* A source that was named itself: links are followed, and it counts whatever it is. */
static int give_named(struct sources *sources, struct source *ret_source)
{
    struct stat info;
    if (stat(text_string(&sources->path), &info) < 0) {
        size_t length = sources->path.length;
        bool dos = length > 0 && sources->path.data[length - 1] == '\r';
        return give(sources, NULL,
                    say(sources,
                        dos ? "its name ends in a carriage return, as lines from Windows do" : "cannot be opened",
                        errno),
                    ret_source);
    }
    if (S_ISDIR(info.st_mode))
        return give(sources, NULL, "is a folder; give folders by --input", ret_source);
    if (!S_ISREG(info.st_mode))
        return give(sources, NULL, "is not a regular file", ret_source);
    return give(sources, &info, NULL, ret_source);
}

static int by_bytes(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* The next names of a folder, sorted; closes the stream at its end. A read error ends the folder, as an end does. */
static int folder_fill(struct sources *sources, struct folder *folder)
{
    text_list_free(&folder->names);
    folder->next = 0;
    struct dirent *entry;
    errno = 0;
    while (folder->names.count < SOURCES_SORTED && (entry = readdir(folder->stream)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (entry->d_name[0] == '.') {
            sources->counts.hidden++;
            continue;
        }
        text_list_add(&folder->names, entry->d_name);
    }
    int status = folder->names.count < SOURCES_SORTED ? -errno : 0;
    if (folder->names.count < SOURCES_SORTED) {
        closedir(folder->stream);
        folder->stream = NULL;
    }
    if (folder->names.count > 0)
        qsort(folder->names.items, folder->names.count, sizeof(char *), by_bytes);
    return status;
}

/* Begins the folder that `path` names. */
static int folder_push(struct sources *sources)
{
    DIR *stream = opendir(text_string(&sources->path));
    if (stream == NULL)
        return -errno;
    if (sources->folder_count == sources->folder_capacity) {
        sources->folder_capacity = sources->folder_capacity == 0 ? 16 : sources->folder_capacity * 2;
        sources->folders = must_resize(sources->folders, sources->folder_capacity * sizeof *sources->folders);
    }
    struct folder *folder = &sources->folders[sources->folder_count++];
    *folder = (struct folder){stream, {0}, 0, sources->path.length, sources->name.length};
    return folder_fill(sources, folder);
}

static void cut(struct text *text, size_t length)
{
    if (text->data != NULL) {
        text->length = length;
        text->data[length] = '\0';
    }
}

static void add_component(struct text *text, const char *component)
{
    if (text->length > 0 && text->data[text->length - 1] != '/')
        text_add(text, "/", 1);
    text_adds(text, component);
}

static bool matches(const struct text_list *globs, const char *name)
{
    for (size_t i = 0; globs != NULL && i < globs->count; i++) {
        if (fnmatch(globs->items[i], name, 0) == 0)
            return true;
    }
    return false;
}

static bool is_wanted(const struct sources_options *options, const char *name)
{
    bool has_includes = options->includes != NULL && options->includes->count > 0;
    return (!has_includes || matches(options->includes, name)) && !matches(options->excludes, name);
}

enum { PASSED = -1000000 }; /* this entry is no source; no errno */

/* Whether results lie in the folder that `path` names: ours, of a run before, or of another one. */
static bool is_output(struct sources *sources, const struct stat *folder)
{
    if (sources->have_output && folder->st_dev == sources->output_device && folder->st_ino == sources->output_inode)
        return true;
    struct stat journal;
    size_t length = sources->path.length;
    text_adds(&sources->path, "/.sheaf/journal");
    bool found = lstat(sources->path.data, &journal) == 0 && S_ISREG(journal.st_mode);
    cut(&sources->path, length);
    return found;
}

static int visit_folder(struct sources *sources, const struct stat *info, struct source *ret_source)
{
    if (is_output(sources, info)) {
        sources->counts.outputs++;
        return PASSED;
    }
    if (!sources->options.recursive)
        return PASSED;
    int status = folder_push(sources);
    return status == 0 ? PASSED : give(sources, NULL, say(sources, "the folder cannot be read", -status), ret_source);
}

/* One entry of a folder: `path` and `name` are set. */
static int visit(struct sources *sources, const char *component, struct source *ret_source)
{
    struct stat info;
    const char *path = text_string(&sources->path);
    if (lstat(path, &info) < 0)
        return give(sources, NULL, say(sources, "cannot be opened", errno), ret_source);
    if (S_ISDIR(info.st_mode))
        return visit_folder(sources, &info, ret_source);
    if (!is_wanted(&sources->options, component)) {
        sources->counts.excluded++;
        return PASSED;
    }
    if (S_ISLNK(info.st_mode)) {
        if (stat(path, &info) < 0)
            return give(sources, NULL, say(sources, "the link leads nowhere", errno), ret_source);
        if (S_ISDIR(info.st_mode)) {
            sources->counts.folder_links++;
            return PASSED;
        }
    }
    if (!S_ISREG(info.st_mode)) {
        sources->counts.special++;
        return PASSED;
    }
    return give(sources, &info, NULL, ret_source);
}

static int walk(struct sources *sources, struct source *ret_source)
{
    while (sources->folder_count > 0) {
        struct folder *folder = &sources->folders[sources->folder_count - 1];
        if (folder->next == folder->names.count) {
            if (folder->stream == NULL) {
                folder_pop(sources);
                continue;
            }
            cut(&sources->path, folder->path_length);
            cut(&sources->name, folder->name_length);
            int status = folder_fill(sources, folder);
            if (status < 0)
                return give(sources, NULL, say(sources, "the folder cannot be read", -status), ret_source);
            continue;
        }
        cut(&sources->path, folder->path_length);
        cut(&sources->name, folder->name_length);
        const char *component = folder->names.items[folder->next++];
        add_component(&sources->path, component);
        add_component(&sources->name, component);
        int status = visit(sources, component, ret_source); /* may push: `folder` is not used after it */
        if (status != PASSED)
            return status;
    }
    return SOURCES_END;
}

static int next_of_list(struct sources *sources, struct source *ret_source)
{
    const char *line;
    int status = sources_list_next(sources->list, &line);
    if (status != SOURCES_ONE)
        return status;
    text_clear(&sources->path);
    text_clear(&sources->name);
    text_adds(&sources->path, line);
    inputs_list_name(line, &sources->name);
    return give_named(sources, ret_source);
}

int sources_next(struct sources *sources, struct source *ret_source)
{
    if (sources->list != NULL)
        return next_of_list(sources, ret_source);
    for (;;) {
        int status = walk(sources, ret_source);
        if (status != SOURCES_END || sources->next_input == sources->input_count)
            return status;
        const struct input *input = &sources->inputs[sources->next_input++];
        text_clear(&sources->path);
        text_clear(&sources->name);
        text_adds(&sources->path, input->path);
        text_adds(&sources->name, input->name);
        if (!input->is_folder)
            return give_named(sources, ret_source);
        status = folder_push(sources);
        if (status < 0)
            return give(sources, NULL, say(sources, "the folder cannot be read", -status), ret_source);
    }
}
