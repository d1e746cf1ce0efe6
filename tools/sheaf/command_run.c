/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `sheaf run`: sources into the engine, results out of it into the output tree, in one loop that waits on descriptors
 * only.
 *
 *     sources -> sheaf_run_submit -> ... -> sheaf_run_poll -> files and lines -> sheaf_tree_submit -> sheaf_tree_poll
 *                                                                                            ->
 * sheaf_result_acknowledge
 *
 * A result stays with the engine, its data in place, until the tree has made it durable; so whatever is too fast waits
 * where it is, and memory is bounded by the engine's window.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "pipeline.h"
#include "progress.h"
#include "roots.h"
#include "run_setup.h"
#include "signals.h"
#include "sources_list.h"

enum { SOURCES_A_TURN = 256 };

static double now(const struct run *run)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)(time.tv_sec - run->began.tv_sec) + (double)(time.tv_nsec - run->began.tv_nsec) / 1e9;
}

/* ---- sources ---- */

static void end_input(struct run *run)
{
    if (run->input_ended)
        return;
    run->input_ended = true;
    sheaf_run_close_input(run->run);
}

/* The source that the engine had no room for was never admitted: the next run takes it. */
static void drop_waiting(struct run *run)
{
    if (run->waiting == ROOT_NONE)
        return;
    run->counts.inputs--;
    roots_release(&run->roots, run->waiting);
    run->waiting = ROOT_NONE;
}

/* Stops the run for a reason of the whole run, which is said once. */
static void stop(struct run *run, int exit_code)
{
    if (run->exit_code == EXIT_OK)
        run->exit_code = exit_code;
    run->stopped = true;
    drop_waiting(run);
    end_input(run);
    sheaf_run_cancel(run->run);
}

/* What an earlier run says about a source; true if it needs no work now. */
static bool is_done(struct run *run, struct root *root)
{
    const char *line = NULL;
    struct sheaf_source_identity identity = {sizeof identity, 0, root->name, root->size_bytes, root->mtime_ns};
    enum sheaf_resume resume = sheaf_tree_lookup(run->tree, &identity, &line);
    if (resume == SHEAF_RESUME_DONE) {
        root_build_skipped(root, line, "done by an earlier run");
        return true;
    }
    if (run->retry_failed && resume != SHEAF_RESUME_FAILED) {
        root_build_skipped(root, NULL, "not a source that failed before, and --retry-failed was given");
        return true;
    }
    run->counts.changed += resume == SHEAF_RESUME_CHANGED;
    return false;
}

static int submit(struct run *run, uint32_t index, const char *path)
{
    struct sheaf_error error = SHEAF_ERROR_INIT;
    struct sheaf_value value = {.kind = SHEAF_FILE, .length_bytes = run->roots.items[index].size_bytes, .name = path};
    struct sheaf_submission submission = {sizeof submission, 1, &value, index};
    int status = sheaf_run_submit(run->run, &submission, NULL, &error);
    if (status == 0) {
        run->roots.in_engine++;
    } else if (status != -EAGAIN && !run->stopped) {
        progress_break(&run->progress);
        stop(run, complain_error(path, status, &error));
    }
    return status;
}

/* Takes one source as far as it goes. False when it must wait or there is none. */
static bool advance_source(struct run *run)
{
    if (run->waiting == ROOT_NONE) {
        struct source source;
        int status = run_next_source(run, &source);
        run->list_waits = status == SOURCES_WAIT;
        if (status == SOURCES_WAIT)
            return false;
        if (status == SOURCES_END) {
            end_input(run);
            return false;
        }
        if (status < 0) {
            progress_break(&run->progress);
            complain("files-from: %s: %s", settings_text(run->settings, SETTING_FILES_FROM),
                     sources_list_problem(status));
            stop(run, EXIT_RUN_FAILED);
            return false;
        }
        run->counts.inputs++;
        uint32_t index = roots_take(&run->roots, &source, now(run));
        struct root *root = &run->roots.items[index];
        if (is_done(run, root)) {
            roots_queue(&run->roots, index);
            return true;
        }
        if (source.problem != NULL) {
            root_build_failed(root, SHEAF_CLASS_UNREADABLE, source.problem);
            roots_queue(&run->roots, index);
            return true;
        }
        run->waiting = index;
    }
    if (submit(run, run->waiting, run->roots.items[run->waiting].path) < 0)
        return false;
    run->waiting = ROOT_NONE;
    return true;
}

static void pump_sources(struct run *run)
{
    run->list_waits = false;
    run->more_sources = false;
    for (int i = 0; !run->input_ended && run->roots.queue_first == ROOT_NONE; i++) {
        if (i == SOURCES_A_TURN) {
            run->more_sources = true;
            return;
        }
        if (!advance_source(run))
            return;
        if (run->roots.queue_first != ROOT_NONE) /* done and unreadable sources go straight there */
            run_pump_tree(run);
    }
}

/* ---- results ---- */

static void take_result(struct run *run, struct sheaf_result *result)
{
    struct sheaf_result_info info = {.size = sizeof info};
    sheaf_result_info(result, &info);
    uint32_t index = (uint32_t)info.tag;
    struct root *root = &run->roots.items[index];
    root->result = result;
    root_build(root, &run->outputs, now(run));
    run->roots.in_engine--;
    roots_queue(&run->roots, index);
}

static void pump_events(struct run *run)
{
    for (;;) {
        struct sheaf_event event = {.size = sizeof event};
        int status = sheaf_run_poll(run->run, &event);
        if (status < 0 && !run->broken) {
            progress_break(&run->progress);
            run->exit_code = complain_error("the engine", status, NULL);
            run->broken = true;
        }
        if (status < 0 || event.kind == SHEAF_EVENT_NONE)
            return;
        switch (event.kind) {
        case SHEAF_EVENT_ROOT:
            take_result(run, event.result);
            break;
        case SHEAF_EVENT_ABORT:
        case SHEAF_EVENT_FATAL:
            progress_break(&run->progress);
            complain("%s", event.message != NULL ? event.message : "the run was aborted");
            run->broken = event.kind == SHEAF_EVENT_FATAL;
            stop(run, EXIT_RUN_FAILED);
            break;
        case SHEAF_EVENT_END:
            run->ended = true;
            break;
        default:
            break;
        }
    }
}

/* ---- the tree ---- */

/* When it was, and how many pages were done by then. */
static void note_first_commit(struct run *run)
{
    struct sheaf_progress progress = {.size = sizeof progress};
    sheaf_run_progress(run->run, &progress);
    run->counts.first_commit_seconds = now(run);
    run->counts.first_commit_pages = progress.entities_done;
}

static void count(struct run *run, const struct root *root, bool written)
{
    struct report_counts *counts = &run->counts;
    enum sheaf_root_status status = written ? root->status : SHEAF_ROOT_FAILED;
    counts->ok += status == SHEAF_ROOT_OK;
    counts->partial += status == SHEAF_ROOT_PARTIAL;
    counts->filtered += status == SHEAF_ROOT_FILTERED;
    counts->failed += status == SHEAF_ROOT_FAILED;
    counts->skipped += status == SHEAF_ROOT_SKIPPED;
    counts->pages += written && root->has_pages ? root->pages : 0;
    if (written && (status == SHEAF_ROOT_OK || status == SHEAF_ROOT_PARTIAL) && counts->first_commit_seconds < 0)
        note_first_commit(run);
}

/* What is wrong with the place of one source's files (a folder is in the way, say), and not with the disk. */
static bool is_of_one_source(int status)
{
    static const int alone[] = {EISDIR, ENOTDIR, EEXIST, ENOTEMPTY, ENAMETOOLONG, ELOOP, EACCES, EPERM, EINVAL, EILSEQ};
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++) {
        if (status == -alone[i])
            return true;
    }
    return false;
}

/* Its files could not be written. It is committed again as failed, without any; where that is not enough, the run ends.
 * True: it is back in the queue. */
static bool refuse_root(struct run *run, uint32_t index, int status)
{
    struct root *root = &run->roots.items[index];
    bool has_files = root->file_count > 0;
    if ((!has_files || !is_of_one_source(status)) && run->exit_code != EXIT_RUN_FAILED) {
        progress_break(&run->progress);
        complain("%s: its files cannot be written to %s: %s; try another --output or free space", root->path,
                 settings_text(run->settings, SETTING_OUTPUT), sheaf_status_text(status));
        stop(run, EXIT_RUN_FAILED);
    }
    if (!has_files)
        return false;
    char message[128];
    snprintf(message, sizeof message, "its files cannot be written: %s", sheaf_status_text(status));
    root_refuse(root, message);
    roots_queue(&run->roots, index);
    return true;
}

static void finish_root(struct run *run, uint32_t index, int status)
{
    struct root *root = &run->roots.items[index];
    if (status < 0 && refuse_root(run, index, status))
        return;
    count(run, root, status == 0);
    if (root->result != NULL)
        sheaf_result_acknowledge(root->result);
    roots_release(&run->roots, index);
}

static void give_to_tree(struct run *run)
{
    struct roots *roots = &run->roots;
    while (roots->queue_first != ROOT_NONE) {
        uint32_t index = roots->queue_first;
        struct sheaf_error error = SHEAF_ERROR_INIT;
        struct sheaf_tree_commit commit;
        root_commit(&roots->items[index], index, &commit);
        int status = sheaf_tree_submit(run->tree, &commit, &error);
        if (status == -EAGAIN)
            return;
        roots->queue_first = roots->items[index].next;
        if (status == 0) {
            roots->in_tree++;
            if (run->counts.first_commit_seconds < 0)
                sheaf_tree_flush(run->tree); /* a first result is worth a group of its own */
            continue;
        }
        struct root *root = &roots->items[index];
        if (root->file_count == 0) { /* not even its line: nothing more can be done about this one */
            finish_root(run, index, status);
            continue;
        }
        root_refuse(root, error.message[0] != '\0' ? error.message : sheaf_status_text(status));
        root->next = roots->queue_first;
        if (roots->queue_first == ROOT_NONE)
            roots->queue_last = index;
        roots->queue_first = index;
    }
}

void run_pump_tree(struct run *run)
{
    uint64_t tag;
    int status;
    give_to_tree(run);
    while (sheaf_tree_poll(run->tree, &tag, &status) == 1) {
        run->roots.in_tree--;
        finish_root(run, (uint32_t)tag, status);
    }
    give_to_tree(run);
    if (run->input_ended && run->roots.in_engine == 0 && run->roots.in_tree > 0)
        sheaf_tree_flush(run->tree);
}

/* ---- signals and the loop ---- */

static struct progress_state state_of(struct run *run)
{
    struct progress_state state = {.counts = &run->counts, .input_ended = run->input_ended, .now_seconds = now(run)};
    state.engine.size = sizeof state.engine;
    sheaf_run_progress(run->run, &state.engine);
    return state;
}

static void pump_signals(struct run *run)
{
    int number;
    while ((number = signals_next()) != 0) {
        if (number == SIGNAL_STATE) {
            struct progress_state state = state_of(run);
            progress_tell(&run->progress, &state, run->run);
            continue;
        }
        progress_break(&run->progress);
        if (number == SIGNAL_TERMINATE || run->interrupted) {
            run->exit_code = number == SIGNAL_TERMINATE ? EXIT_TERMINATED : EXIT_INTERRUPTED;
            complain("stopping now; the same command goes on from here");
            run->interrupted = true;
            stop(run, run->exit_code);
            continue;
        }
        run->interrupted = true;
        run->exit_code = EXIT_INTERRUPTED;
        drop_waiting(run);
        end_input(run);
        complain("interrupted: finishing %u sources under way; once more to stop now", run->roots.in_engine);
    }
}

static void show_progress(struct run *run, bool at_end)
{
    if (run->progress.form == PROGRESS_NONE)
        return;
    struct progress_state state = state_of(run);
    progress_show(&run->progress, &state, at_end);
}

static void wait_for_work(struct run *run)
{
    struct pollfd ends[4] = {
        {sheaf_run_descriptor(run->run), POLLIN, 0},
        {sheaf_tree_descriptor(run->tree), POLLIN, 0},
        {signals_descriptor(), POLLIN, 0},
        {run->list_waits ? sources_descriptor(run->sources) : -1, POLLIN, 0},
    };
    int wait_ms = run->more_sources ? 0 : progress_wait_ms(&run->progress, now(run));
    poll(ends, sizeof ends / sizeof *ends, wait_ms);
}

static bool is_finished(const struct run *run)
{
    bool tree_idle = run->roots.queue_first == ROOT_NONE && run->roots.in_tree == 0;
    return tree_idle && (run->ended || run->broken);
}

static void loop(struct run *run)
{
    for (;;) {
        pump_signals(run);
        pump_events(run);
        run_pump_tree(run);
        pump_sources(run);
        pump_events(run);
        run_pump_tree(run);
        show_progress(run, false);
        if (is_finished(run))
            break;
        wait_for_work(run);
    }
    show_progress(run, true);
}

/* ---- the end ---- */

static void decide_exit(struct run *run)
{
    struct report_counts *counts = &run->counts;
    uint64_t accounted = counts->ok + counts->partial + counts->filtered + counts->failed + counts->skipped;
    if (run->broken && accounted < counts->inputs) { /* lost with the engine: not journalled, so run again next time */
        counts->failed += counts->inputs - accounted;
        accounted = counts->inputs;
    }
    uint64_t failures = counts->failed + counts->partial;
    if (run->exit_code == EXIT_OK && failures > 0 &&
        !settings_failures_allowed(run->settings, failures, counts->inputs))
        run->exit_code = EXIT_ROOTS;
    if (accounted != counts->inputs) {
        complain("ledger: %llu sources but %llu accounted for: this is an error of sheaf itself",
                 (unsigned long long)counts->inputs, (unsigned long long)accounted);
        run->exit_code = EXIT_RUN_FAILED;
    }
}

static void close_tree(struct run *run)
{
    struct sheaf_error error = SHEAF_ERROR_INIT;
    char *ledger = NULL;
    sheaf_run_ledger(run->run, &ledger);
    run->counts.wall_seconds = now(run);
    struct report_run report = {run->run_id,
                                run->settings->words.items[1],
                                sheaf_plan_fingerprint(run->pipeline.plan),
                                run->exit_code,
                                run->interrupted,
                                run->counts};
    char *json = report_run_json(&report, ledger);
    int status = sheaf_tree_close(run->tree, json, &error);
    run->tree = NULL;
    if (status < 0)
        run->exit_code = complain_error(settings_text(run->settings, SETTING_OUTPUT), status, &error);
    free(json);
    free(ledger);
}

static void say_summary(const struct run *run)
{
    const struct report_counts *counts = &run->counts;
    if (run->progress.form == PROGRESS_NONE || run->progress.form == PROGRESS_JSON)
        return;
    fprintf(stderr, "sheaf: %llu ok, %llu partial, %llu filtered, %llu failed, %llu skipped; %llu pages in %.1f s\n",
            (unsigned long long)counts->ok, (unsigned long long)counts->partial, (unsigned long long)counts->filtered,
            (unsigned long long)counts->failed, (unsigned long long)counts->skipped, (unsigned long long)counts->pages,
            counts->wall_seconds);
    if (counts->changed > 0)
        fprintf(stderr, "sheaf: %llu sources had changed since an earlier run and were done again\n",
                (unsigned long long)counts->changed);
    const char *output = settings_text(run->settings, SETTING_OUTPUT);
    if (counts->failed + counts->partial > 0)
        fprintf(stderr,
                "sheaf: why sources failed: %s/errors.jsonl; to run them again: the same command with --retry-failed\n",
                output);
}

int command_run(const struct settings *settings)
{
    struct run run = {.settings = settings, .waiting = ROOT_NONE};
    int code = run_set_up(&run);
    if (code == EXIT_OK) {
        loop(&run);
        decide_exit(&run);
        close_tree(&run);
        say_summary(&run);
        code = run.exit_code;
    }
    signals_restore(); /* all is committed and said: a signal may end the rest */
    run_tear_down(&run);
    return code;
}
