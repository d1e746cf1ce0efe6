/* SPDX-License-Identifier: Apache-2.0 */
/* One run of `sheaf run`: its state, how it is put together and taken apart. */
#ifndef SHEAF_TOOL_RUN_SETUP_H
#define SHEAF_TOOL_RUN_SETUP_H

#include <time.h>

#include "pipeline.h"
#include "progress.h"
#include "roots.h"
#include "settings.h"

struct run {
    const struct settings *settings;
    struct pipeline pipeline;
    struct root_outputs outputs;
    struct sources *sources;
    struct sheaf_engine *engine;
    struct sheaf_run *run;
    struct sheaf_tree *tree;
    struct roots roots;
    struct progress progress;
    struct report_counts counts;
    struct timespec began;
    char run_id[64];
    struct source first; /* read before anything was made, to know that there is one */
    bool has_first;
    uint32_t waiting; /* a source the engine had no room for, or ROOT_NONE */
    int exit_code;
    bool retry_failed;
    bool list_waits;   /* the list of sources has nothing yet */
    bool more_sources; /* the turn was over, not the sources */
    bool input_ended, ended, stopped, broken, interrupted;
};

/* EXIT_OK, or another exit code after complaining; run_tear_down is due in both cases. */
int run_set_up(struct run *run);
void run_tear_down(struct run *run);

/* The next source, the one read ahead first: as sources_next. */
int run_next_source(struct run *run, struct source *ret_source);

void run_pump_tree(struct run *run);

#endif
