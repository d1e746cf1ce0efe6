/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "pages.h"
#include "sim/experiment.h"

static const char usage_text[] =
    "use: perf_pages engine|twin [--list NAME[/K] | --documents N --pages N] [--workers N] [--batch N] [options]\n"
    "     perf_pages counts [--list NAME[/K]] | lists | steps\n"
    "\n"
    "Pages that take a stated time, through the engine or through processes without one; a JSON object comes out.\n"
    "  --list NAME[/K]     a page list of the experiments (C48 ... CTOP8); of it every K-th document\n"
    "  --documents, --pages  so many documents of so many pages each\n"
    "  --ns-per-row, --ns-per-batch, --steps-per-us   what a batch costs (steps: busy instead of asleep)\n"
    "  --program sleep|paint, --bytes N   pages that take time, or pages that are so many bytes\n"
    "  --openers N         worker processes that open and close documents (1)\n"
    "  --fail-every N      the first page of every N-th document fails\n"
    "  --trace FILE, --events   times of batches, times of documents\n"
    "  --plugin FILE, --memory BYTES, --window N\n"
    "counts: pages of each document; lists: the page lists with their sums; steps: steps of the busy loop in a "
    "microsecond here\n";

double pages_now_s(void)
{
    return (double)timing_now_ns() * 1e-9;
}

static double cpu_s(int whose)
{
    struct rusage used;
    getrusage(whose, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

/* ---- the documents ---- */

static bool find_list(const char *name, size_t length, enum page_list *ret_list)
{
    for (int list = 0; list < LIST_COUNT; list++) {
        const char *known = page_list_name((enum page_list)list);
        if (strlen(known) == length && strncmp(known, name, length) == 0) {
            *ret_list = (enum page_list)list;
            return true;
        }
    }
    return false;
}

static bool take_list(struct job *job, const char *text)
{
    enum page_list list;
    const char *slash = strchr(text, '/');
    uint32_t every = slash ? (uint32_t)strtoul(slash + 1, NULL, 10) : 1, kept = 0;
    if (every == 0 || !find_list(text, slash ? (size_t)(slash - text) : strlen(text), &list))
        return false;
    free(job->pages);
    job->text = text;
    job->pages = page_list_make(list, &job->documents, &job->page_count);
    if (!job->pages)
        return false;
    job->page_count = 0;
    for (uint32_t at = 0; at < job->documents; at += every) {
        job->pages[kept++] = job->pages[at];
        job->page_count += job->pages[at];
    }
    job->documents = kept;
    return true;
}

static bool make_even(struct job *job, uint32_t documents, uint32_t pages)
{
    if (job->pages)
        return true;
    job->text = "even";
    job->pages = calloc(documents, sizeof *job->pages);
    job->documents = documents;
    job->page_count = (uint64_t)documents * pages;
    for (uint32_t at = 0; job->pages && at < documents; at++)
        job->pages[at] = pages;
    return job->pages != NULL;
}

static int print_lists(void)
{
    for (int list = 0; list < LIST_COUNT; list++) {
        uint32_t documents = 0;
        uint64_t pages = 0;
        free(page_list_make((enum page_list)list, &documents, &pages));
        printf("%s %u %llu\n", page_list_name((enum page_list)list), documents, (unsigned long long)pages);
    }
    return 0;
}

static int print_counts(const struct job *job)
{
    for (uint32_t at = 0; at < job->documents; at++)
        printf("%u\n", job->pages[at]);
    return 0;
}

/* ---- arguments ---- */

enum {
    OPTION_LIST = 1,
    OPTION_PROGRAM,
    OPTION_PLUGIN,
    OPTION_TRACE,
    OPTION_EVENTS,
    OPTION_NUMBERS, /* from here on: a number, and where it goes */
};
enum {
    DOCUMENTS,
    PAGES,
    WORKERS,
    BATCH,
    NS_PER_ROW,
    NS_PER_BATCH,
    STEPS_PER_US,
    BYTES,
    OPENERS,
    FAIL_EVERY,
    MEMORY,
    WINDOW,
    NUMBERS
};
static const char *const number_names[NUMBERS] = {"documents",  "pages",        "workers",      "batch",
                                                  "ns-per-row", "ns-per-batch", "steps-per-us", "bytes",
                                                  "openers",    "fail-every",   "memory",       "window"};

static bool read_arguments(int count, char **words, struct job *job)
{
    int64_t numbers[NUMBERS] = {[DOCUMENTS] = 100,       [PAGES] = 10,   [WORKERS] = 2, [BATCH] = 64,
                                [NS_PER_ROW] = 10000000, [BYTES] = 4096, [OPENERS] = 1};
    struct option options[OPTION_NUMBERS + NUMBERS] = {{"list", 1, NULL, OPTION_LIST},
                                                       {"program", 1, NULL, OPTION_PROGRAM},
                                                       {"plugin", 1, NULL, OPTION_PLUGIN},
                                                       {"trace", 1, NULL, OPTION_TRACE},
                                                       {"events", 0, NULL, OPTION_EVENTS}};
    for (int i = 0; i < NUMBERS; i++)
        options[OPTION_NUMBERS - 1 + i] = (struct option){number_names[i], 1, NULL, OPTION_NUMBERS + i};
    for (int found; (found = getopt_long(count, words, "", options, NULL)) != -1;) {
        char *end = NULL;
        if (found == OPTION_LIST && !take_list(job, optarg))
            return false;
        if (found == OPTION_PROGRAM)
            job->program = optarg;
        else if (found == OPTION_PLUGIN)
            job->plugin = optarg;
        else if (found == OPTION_TRACE)
            job->trace = optarg;
        else if (found == OPTION_EVENTS)
            job->events = true;
        else if (found >= OPTION_NUMBERS && found < OPTION_NUMBERS + NUMBERS)
            numbers[found - OPTION_NUMBERS] = strtoll(optarg, &end, 10);
        if (found == '?' || (end && *end != '\0'))
            return false;
    }
    job->workers = (uint32_t)numbers[WORKERS];
    job->batch = (uint32_t)numbers[BATCH];
    job->openers = (uint32_t)numbers[OPENERS];
    job->cost = (struct timing_cost){numbers[NS_PER_ROW], numbers[NS_PER_BATCH], numbers[STEPS_PER_US]};
    job->bytes = numbers[BYTES];
    job->fail_every = numbers[FAIL_EVERY];
    job->memory_bytes = (uint64_t)numbers[MEMORY];
    job->window = (uint32_t)numbers[WINDOW];
    return optind == count - 1 && make_even(job, (uint32_t)numbers[DOCUMENTS], (uint32_t)numbers[PAGES]) &&
           job->batch > 0 && job->workers > 0;
}

static int report(const struct job *job, const char *side, struct outcome *outcome)
{
    json_t *all =
        json_pack("{s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:f,s:f,s:f,s:o}", "side", side, "list", job->text, "documents",
                  (json_int_t)job->documents, "pages", (json_int_t)job->page_count, "workers", (json_int_t)job->workers,
                  "batch", (json_int_t)job->batch, "ns_per_row", (json_int_t)job->cost.ns_per_row, "ns_per_batch",
                  (json_int_t)job->cost.ns_per_batch, "steps_per_us", (json_int_t)job->cost.steps_per_us, "wall_s",
                  outcome->wall_s, "run_s", outcome->run_s, "cpu_s", outcome->cpu_s, "more", outcome->more);
    if (!all)
        return 1;
    json_dumpf(all, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(all);
    return 0;
}

int main(int count, char **words)
{
    struct job job = {.program = "sleep", .plugin = PERF_OPERATORS};
    struct outcome outcome = {0};
    if (!read_arguments(count, words, &job)) {
        fputs(usage_text, stderr);
        return 2;
    }
    const char *side = words[optind];
    int status = 2;
    if (strcmp(side, "lists") == 0)
        return print_lists();
    if (strcmp(side, "counts") == 0)
        return print_counts(&job);
    if (strcmp(side, "steps") == 0)
        return printf("%lld\n", (long long)timing_steps_per_us()) < 0;
    if (strcmp(side, "engine") == 0)
        status = pages_engine(&job, &outcome);
    else if (strcmp(side, "twin") == 0)
        status = pages_twin(&job, &outcome);
    else
        fputs(usage_text, stderr);
    outcome.cpu_s = cpu_s(RUSAGE_SELF) + cpu_s(RUSAGE_CHILDREN);
    if (status == 0)
        status = report(&job, side, &outcome);
    free(job.pages);
    return status;
}
