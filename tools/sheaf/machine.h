/* SPDX-License-Identifier: Apache-2.0 */
/* What the settings say about the machine, for the engine. */
#ifndef SHEAF_TOOL_MACHINE_H
#define SHEAF_TOOL_MACHINE_H

#include <sheaf/engine.h>

#include "settings.h"

/* Options of an engine. What they refer to is the settings'. */
struct sheaf_engine_options machine_options(const struct settings *settings);

/* Prints where shards, workers and memory of a run of `plan` (NULL: of any) would be. An exit code. */
int machine_print(const struct settings *settings, const struct sheaf_plan *plan);

#endif
