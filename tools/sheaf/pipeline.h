/* SPDX-License-Identifier: Apache-2.0 */
/* From a pipeline's name or file to a Plan: find it, load operators, parse it with the overrides, compile. */
#ifndef SHEAF_TOOL_PIPELINE_H
#define SHEAF_TOOL_PIPELINE_H

#include <sheaf/program.h>

#include "settings.h"

struct pipeline {
    struct sheaf_registry *registry;
    struct sheaf_plan *plan;
    struct text path;
};

/* EXIT_OK, or another exit code after complaining. `word` is a name ("documents") or a path to a file. */
int pipeline_load(struct pipeline *pipeline, const struct settings *settings, const char *word);
void pipeline_unload(struct pipeline *pipeline);

/* Where the text of a pipeline lies; false after complaining. */
bool pipeline_find(const struct settings *settings, const char *word, struct text *ret_path);
/* The folder of the running program, without a slash at its end; empty if it cannot be known. */
void program_folder(struct text *ret_folder);

#endif
