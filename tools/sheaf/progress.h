/* SPDX-License-Identifier: Apache-2.0 */
/* Progress on standard error: a bar on a terminal, plain lines or JSON lines otherwise, or nothing. */
#ifndef SHEAF_TOOL_PROGRESS_H
#define SHEAF_TOOL_PROGRESS_H

#include "report.h"

enum progress_form { PROGRESS_NONE, PROGRESS_BAR, PROGRESS_PLAIN, PROGRESS_JSON };

struct progress {
    enum progress_form form;
    double next_seconds; /* when the next line is due */
    bool line_open;      /* the bar stands on an unfinished line */
};

/* `word` as --progress takes it. */
void progress_start(struct progress *progress, const char *word);
/* Milliseconds until the next line is due, -1 if never: no timer runs when nothing is shown. */
int progress_wait_ms(const struct progress *progress, double now_seconds);

struct progress_state {
    const struct report_counts *counts;
    struct sheaf_progress engine;
    bool input_ended; /* the number of sources is known */
    double now_seconds;
};
/* Shows a line if one is due, or in any case at the end. */
void progress_show(struct progress *progress, const struct progress_state *state, bool at_end);
/* The state of the run in a few lines, whatever --progress says: documents, memory, and one line per Call. */
void progress_tell(struct progress *progress, const struct progress_state *state, const struct sheaf_run *run);
/* Leaves the bar's line, so that something else can be printed. */
void progress_break(struct progress *progress);

#endif
