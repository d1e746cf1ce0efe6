/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BAR_WIDTH = 24 };

void progress_start(struct progress *progress, const char *word)
{
    *progress = (struct progress){0};
    const char *terminal = isatty(STDERR_FILENO) ? "bar" : "plain";
    if (strcmp(word, "auto") == 0)
        word = terminal;
    progress->form = strcmp(word, "bar") == 0     ? PROGRESS_BAR
                     : strcmp(word, "plain") == 0 ? PROGRESS_PLAIN
                     : strcmp(word, "json") == 0  ? PROGRESS_JSON
                                                  : PROGRESS_NONE;
    progress->next_seconds = progress->form == PROGRESS_PLAIN ? 5 : 0.2;
}

static double period_seconds(const struct progress *progress)
{
    return progress->form == PROGRESS_BAR ? 0.2 : progress->form == PROGRESS_JSON ? 1 : 5;
}

int progress_wait_ms(const struct progress *progress, double now_seconds)
{
    if (progress->form == PROGRESS_NONE)
        return -1;
    double wait = progress->next_seconds - now_seconds;
    return wait <= 0 ? 0 : (int)(wait * 1000) + 1;
}

static uint64_t finished(const struct report_counts *counts)
{
    return counts->ok + counts->partial + counts->filtered + counts->failed;
}

/* "1 h 02 min", "3 min 20 s", "12 s" */
static void say_duration(double seconds, char *ret_text, size_t bytes)
{
    unsigned long whole = seconds < 0 ? 0 : (unsigned long)(seconds + 0.5);
    if (whole >= 3600)
        snprintf(ret_text, bytes, "%lu h %02lu min", whole / 3600, whole / 60 % 60);
    else if (whole >= 60)
        snprintf(ret_text, bytes, "%lu min %02lu s", whole / 60, whole % 60);
    else
        snprintf(ret_text, bytes, "%lu s", whole);
}

/* What is common to the bar and plain lines. */
static void say_counts(const struct progress_state *state, struct text *line)
{
    const struct report_counts *counts = state->counts;
    uint64_t done = finished(counts), total = counts->inputs - counts->skipped;
    uint64_t pages = counts->pages > state->engine.entities_done ? counts->pages : state->engine.entities_done;
    text_addf(line, "%llu", (unsigned long long)done);
    text_addf(line, state->input_ended ? " of %llu" : " of %llu+", (unsigned long long)total);
    text_adds(line, total == 1 ? " document" : " documents");
    if (pages > 0 && state->now_seconds > 0)
        text_addf(line, ", %llu pages, %.1f pages/s", (unsigned long long)pages, (double)pages / state->now_seconds);
    if (counts->failed > 0)
        text_addf(line, ", %llu failed", (unsigned long long)counts->failed);
    if (counts->partial > 0)
        text_addf(line, ", %llu partial", (unsigned long long)counts->partial);
    if (counts->skipped > 0)
        text_addf(line, ", %llu skipped", (unsigned long long)counts->skipped);
    if (state->engine.worker_deaths > 0)
        text_addf(line, ", %llu workers replaced", (unsigned long long)state->engine.worker_deaths);
    if (state->input_ended && done > 0 && done < total) {
        char left[64];
        say_duration(state->now_seconds / (double)done * (double)(total - done), left, sizeof left);
        text_addf(line, ", %s left", left);
    }
}

static void show_bar(struct progress *progress, const struct progress_state *state, struct text *line)
{
    uint64_t done = finished(state->counts), total = state->counts->inputs - state->counts->skipped;
    size_t full = total == 0 ? 0 : (size_t)(done * BAR_WIDTH / total);
    text_adds(line, "\r[");
    for (size_t i = 0; i < BAR_WIDTH; i++)
        text_adds(line, i < full ? "#" : ".");
    text_adds(line, "] ");
    say_counts(state, line);
    text_adds(line, "\033[K");
    progress->line_open = true;
}

static void show_json(const struct progress_state *state, struct text *line)
{
    const struct report_counts *counts = state->counts;
    text_addf(line, "{\"seconds\":%.1f", state->now_seconds);
    text_add_member_number(line, "inputs", counts->inputs);
    text_add_member_number(line, "ok", counts->ok);
    text_add_member_number(line, "partial", counts->partial);
    text_add_member_number(line, "filtered", counts->filtered);
    text_add_member_number(line, "failed", counts->failed);
    text_add_member_number(line, "skipped", counts->skipped);
    text_add_member_number(line, "pages", counts->pages);
    text_add_member_number(line, "entities_done", state->engine.entities_done);
    text_add_member_number(line, "worker_deaths", state->engine.worker_deaths);
    text_add_member_number(line, "memory_bytes", state->engine.memory_bytes);
    text_addf(line, ",\"input_ended\":%s}\n", state->input_ended ? "true" : "false");
}

void progress_show(struct progress *progress, const struct progress_state *state, bool at_end)
{
    if (progress->form == PROGRESS_NONE || (!at_end && state->now_seconds < progress->next_seconds))
        return;
    progress->next_seconds = state->now_seconds + period_seconds(progress);
    struct text line = {0};
    if (progress->form == PROGRESS_BAR) {
        show_bar(progress, state, &line);
    } else if (progress->form == PROGRESS_JSON) {
        show_json(state, &line);
    } else {
        text_adds(&line, "sheaf: ");
        say_counts(state, &line);
        text_adds(&line, "\n");
    }
    fputs(text_string(&line), stderr);
    text_free(&line);
    if (at_end)
        progress_break(progress);
}

static void say_call(const struct sheaf_call_progress *call, struct text *lines)
{
    text_addf(lines, "sheaf:   %s: %llu done", call->name, (unsigned long long)call->done);
    if (call->failed > 0)
        text_addf(lines, " (%llu failed)", (unsigned long long)call->failed);
    text_addf(lines, ", %u running", call->running);
    if (call->running > 0)
        text_addf(lines, " (for up to %.1f s)", (double)call->oldest_us / 1e6);
    text_addf(lines, ", %llu waiting\n", (unsigned long long)call->waiting);
}

void progress_tell(struct progress *progress, const struct progress_state *state, const struct sheaf_run *run)
{
    struct text lines = {0};
    struct sheaf_call_progress call = {.size = sizeof call};
    char since[64];
    say_duration(state->now_seconds, since, sizeof since);
    text_adds(&lines, "sheaf: ");
    say_counts(state, &lines);
    text_addf(&lines, "\nsheaf:   %s, %u workers, memory %llu MiB for values (%llu MiB at most in all)\n", since,
              state->engine.workers, (unsigned long long)(state->engine.memory_bytes >> 20),
              (unsigned long long)(state->engine.memory_peak_bytes >> 20));
    for (uint32_t number = 0; sheaf_run_call_progress(run, number, &call) == 0; number++)
        say_call(&call, &lines);
    progress_break(progress);
    fputs(text_string(&lines), stderr);
    text_free(&lines);
}

void progress_break(struct progress *progress)
{
    if (progress->line_open)
        fputs("\n", stderr);
    progress->line_open = false;
}
