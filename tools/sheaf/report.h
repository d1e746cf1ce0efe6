/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of manifest.jsonl and errors.jsonl, and run.json. */
#ifndef SHEAF_TOOL_REPORT_H
#define SHEAF_TOOL_REPORT_H

#include <sheaf/engine.h>

#include "text.h"

/* What a manifest line says about one source. */
struct report_entry {
    const char *source;
    const char *status;
    const struct text_list *outputs; /* NULL: none */
    bool has_pages;
    uint64_t pages;
    const char *class_name; /* for anything not ok */
    const char *message;
    uint64_t elapsed_ms; /* from submission to completion: the one field that differs from run to run */
};
void report_manifest(const struct report_entry *entry, struct text *ret_line);
/* The line for a source that an earlier run has done: that run's line with status `skipped` and `earlier`, its status.
 */
void report_skipped(const char *source, const char *earlier_line, const char *message, struct text *ret_line);

/* One line of errors.jsonl, with its end. `call` and the operator may be NULL: the source itself is at fault. `root`:
 * its number, NULL for one that never reached the engine. */
void report_failure(const char *source, const uint64_t *root, const struct sheaf_failure *failure, struct text *lines);

/* What the program counted itself. */
struct report_counts {
    uint64_t inputs, ok, partial, filtered, failed, skipped, pages, changed;
    uint64_t first_commit_pages;               /* done when the first source was committed */
    double wall_seconds, first_commit_seconds; /* first_commit < 0: nothing was committed */
};
struct report_run {
    const char *run_id, *pipeline, *fingerprint;
    int exit_code;
    bool interrupted;
    struct report_counts counts;
};
/* The engine's ledger (a JSON object or NULL) with our counts laid over it. Free with free(). */
char *report_run_json(const struct report_run *run, const char *engine_ledger);

#endif
