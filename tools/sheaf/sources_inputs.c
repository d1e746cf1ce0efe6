/* SPDX-License-Identifier: Apache-2.0 */
#include "sources_inputs.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct inputs {
    struct input *items;
    size_t count, capacity;
};

void inputs_free(struct input *inputs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(inputs[i].path);
        free(inputs[i].name);
        free(inputs[i].absolute);
    }
    free(inputs);
}

void inputs_list_name(const char *path, struct text *ret_name)
{
    bool is_absolute = *path == '/';
    if (is_absolute)
        text_add(ret_name, "/", 1);
    bool is_first = true;
    while (*path != '\0') {
        size_t length = strcspn(path, "/");
        bool is_nothing = length == 0 || (length == 1 && path[0] == '.');
        if (!is_nothing) {
            if (!is_first)
                text_add(ret_name, "/", 1);
            text_add(ret_name, path, length);
            is_first = false;
        }
        path += length + (path[length] == '/');
    }
}

/* The folder the path lies in, resolved, and its last component; "." and ".." at the end are resolved too. */
static char *absolute_path(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *last = slash == NULL ? path : slash + 1;
    if (*last == '\0' || strcmp(last, ".") == 0 || strcmp(last, "..") == 0)
        return realpath(path, NULL);
    struct text folder = {0}, whole = {0};
    if (slash == NULL)
        text_adds(&folder, ".");
    else
        text_add(&folder, path, slash == path ? 1 : (size_t)(slash - path));
    char *resolved = realpath(folder.data, NULL);
    text_free(&folder);
    if (resolved == NULL)
        return NULL;
    text_addf(&whole, "%s/%s", strcmp(resolved, "/") == 0 ? "" : resolved, last);
    free(resolved);
    return whole.data;
}

static int input_add(struct inputs *inputs, const char *argument, struct text *error)
{
    struct stat info;
    struct text path = {0};
    text_adds(&path, argument);
    while (path.length > 1 && path.data[path.length - 1] == '/')
        path.data[--path.length] = '\0';
    char *absolute = stat(argument, &info) < 0 ? NULL : absolute_path(path.data);
    if (absolute == NULL) {
        text_addf(error, "input: %s: %s; try a path that exists", argument, strerror(errno));
        text_free(&path);
        return SHEAF_E_USAGE;
    }
    if (inputs->count == inputs->capacity) {
        inputs->capacity = inputs->capacity == 0 ? 8 : inputs->capacity * 2;
        inputs->items = must_resize(inputs->items, inputs->capacity * sizeof *inputs->items);
    }
    inputs->items[inputs->count++] = (struct input){path.data, NULL, absolute, S_ISDIR(info.st_mode)};
    return 0;
}

static int argument_add(struct inputs *inputs, const char *argument, struct text *error)
{
    struct stat info;
    if (*argument == '\0') {
        text_adds(error, "input: an empty path; try --input DIR");
        return SHEAF_E_USAGE;
    }
    if (lstat(argument, &info) == 0 || strpbrk(argument, "*?[") == NULL)
        return input_add(inputs, argument, error);
    glob_t found;
    int status = glob(argument, 0, NULL, &found);
    if (status != 0) {
        text_addf(error, "input: %s: %s", argument, status == GLOB_NOMATCH ? "nothing matches" : "cannot be searched");
        return status == GLOB_NOMATCH ? SHEAF_E_INPUT : SHEAF_E_USAGE;
    }
    status = 0;
    for (size_t i = 0; status == 0 && i < found.gl_pathc; i++) {
        if (lstat(found.gl_pathv[i], &info) == 0 && S_ISLNK(info.st_mode) && stat(found.gl_pathv[i], &info) < 0)
            continue; /* a dangling link that was not named itself */
        status = input_add(inputs, found.gl_pathv[i], error);
    }
    globfree(&found);
    return status;
}

/* Order of paths in which a folder stands directly before what it holds. */
static int by_path(const void *left, const void *right)
{
    const unsigned char *a = (const unsigned char *)(*(struct input *const *)left)->absolute;
    const unsigned char *b = (const unsigned char *)(*(struct input *const *)right)->absolute;
    while (*a != '\0' && *a == *b) {
        a++;
        b++;
    }
    int rank_a = *a == '/' ? 1 : *a == '\0' ? 0 : *a + 1, rank_b = *b == '/' ? 1 : *b == '\0' ? 0 : *b + 1;
    return rank_a - rank_b;
}

static bool lies_inside(const struct input *inner, const struct input *outer)
{
    size_t length = strlen(outer->absolute);
    bool is_top = strcmp(outer->absolute, "/") == 0;
    return outer->is_folder && strncmp(inner->absolute, outer->absolute, length) == 0 &&
           (is_top || inner->absolute[length] == '/');
}

/* Drops the second of two equal inputs, refuses nested ones: both would give one source twice. */
static int check_apart(struct inputs *inputs, struct text *error)
{
    struct input **order = must_allocate(inputs->count * sizeof *order);
    for (size_t i = 0; i < inputs->count; i++)
        order[i] = &inputs->items[i];
    qsort(order, inputs->count, sizeof *order, by_path);
    const struct input *outer = order[0];
    int status = 0;
    for (size_t i = 1; status == 0 && i < inputs->count; i++) {
        if (strcmp(order[i]->absolute, outer->absolute) == 0) {
            free(order[i]->path);
            order[i]->path = NULL; /* dropped below */
        } else if (lies_inside(order[i], outer)) {
            text_addf(error, "input: %s: lies inside %s, its files would be read twice; try one of them",
                      order[i]->path, outer->path);
            status = SHEAF_E_USAGE;
        } else {
            outer = order[i];
        }
    }
    free(order);
    size_t kept = 0;
    for (size_t i = 0; i < inputs->count; i++) {
        if (inputs->items[i].path == NULL)
            free(inputs->items[i].absolute);
        else
            inputs->items[kept++] = inputs->items[i];
    }
    inputs->count = kept;
    return status;
}

/* Length of the deepest folder that holds all inputs, with its slash. */
static size_t common_folder(const struct inputs *inputs)
{
    const char *first = inputs->items[0].absolute;
    size_t common = (size_t)(strrchr(first, '/') - first) + 1;
    for (size_t i = 1; i < inputs->count; i++) {
        const char *other = inputs->items[i].absolute;
        size_t same = 0, slash = 0;
        while (same < common && first[same] == other[same]) {
            same++;
            if (first[same - 1] == '/')
                slash = same;
        }
        common = slash;
    }
    return common;
}

int inputs_resolve(const struct text_list *arguments, struct input **ret_inputs, size_t *ret_count, struct text *error)
{
    struct inputs inputs = {0};
    int status = 0;
    for (size_t i = 0; status == 0 && i < arguments->count; i++)
        status = argument_add(&inputs, arguments->items[i], error);
    if (status == 0 && inputs.count > 0)
        status = check_apart(&inputs, error);
    if (status < 0) {
        inputs_free(inputs.items, inputs.count);
        return status;
    }
    size_t common = inputs.count > 0 ? common_folder(&inputs) : 0;
    for (size_t i = 0; i < inputs.count; i++) {
        bool is_alone = inputs.count == 1 && inputs.items[i].is_folder;
        inputs.items[i].name = must_copy(is_alone ? "" : inputs.items[i].absolute + common);
    }
    *ret_inputs = inputs.items;
    *ret_count = inputs.count;
    return 0;
}
