/* SPDX-License-Identifier: Apache-2.0 */
/* The --input arguments: which exist, what they are called, and that none lies inside another. */
#ifndef SHEAF_TOOL_SOURCES_INPUTS_H
#define SHEAF_TOOL_SOURCES_INPUTS_H

#include "text.h"

struct input {
    char *path;     /* as given, without slashes at its end */
    char *name;     /* what its sources' names begin with ("" for a single folder), or a file's name */
    char *absolute; /* the folder it is in, resolved, and its own name */
    bool is_folder;
};

/* An argument that exists is taken literally, else it may be a glob. The same file twice counts once. */
int inputs_resolve(const struct text_list *arguments, struct input **ret_inputs, size_t *ret_count, struct text *error);
void inputs_free(struct input *inputs, size_t count);

/* The name of a listed path: the path without "./" and doubled slashes. */
void inputs_list_name(const char *path, struct text *ret_name);

#endif
