/* SPDX-License-Identifier: Apache-2.0 */
/* sheaf-sim, which `sheaf sim` becomes: published experiments in virtual time, over the engine's own lineage and
 * scheduling. A program of its own, because it is made of the library's insides. Every figure it prints is simulated,
 * and says so. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "command.h"
#include "sim/experiment.h"

struct sim_arguments {
    const char *experiment; /* NULL: all */
    bool json;
    FILE *trace;
    struct experiment_options options;
};

static bool number(const char *word, uint64_t max, uint64_t *ret_value)
{
    char *end;
    if (word == NULL || *word < '0' || *word > '9')
        return false;
    errno = 0;
    unsigned long long value = strtoull(word, &end, 10);
    if (*end != '\0' || errno != 0 || value > max)
        return false;
    *ret_value = value;
    return true;
}

static int usage(const char *flag, const char *value)
{
    complain("sim: %s %s: not understood; try sheaf help sim", flag, value == NULL ? "" : value);
    return EXIT_USAGE;
}

static bool known(const char *experiment)
{
    for (const char *const *name = experiment_names(); *name != NULL; name++)
        if (strcmp(*name, experiment) == 0)
            return true;
    return false;
}

/* E3 and E4 are E2 with a switch. */
static bool take_experiment(struct sim_arguments *arguments, const char *word)
{
    if (word == NULL)
        return false;
    arguments->experiment = word;
    if (strcmp(word, "E3") == 0 || strcmp(word, "E4") == 0) {
        arguments->options.order = word[1] == '3' ? SIM_PARENT_BOUND : SIM_UNORDERED;
        arguments->options.fixed_batches = word[1] == '3';
        arguments->experiment = "E2";
    }
    return strcmp(word, "all") == 0 || known(arguments->experiment);
}

static bool take_order(struct sim_arguments *arguments, const char *word)
{
    static const char *const names[] = {"fifo", "unordered", "parent"};
    for (unsigned i = 0; word != NULL && i < 3; i++)
        if (strcmp(names[i], word) == 0) {
            arguments->options.order = (enum sim_order)i;
            return true;
        }
    return false;
}

static bool take_number(struct sim_arguments *arguments, const char *flag, const char *word)
{
    struct experiment_options *options = &arguments->options;
    uint64_t value;
    if (!number(word, strcmp(flag, "--seed") == 0 ? UINT64_MAX : 1000000, &value))
        return false;
    if (strcmp(flag, "--seed") == 0)
        options->seed = value;
    else if (strcmp(flag, "--devices") == 0)
        options->devices = (uint32_t)value;
    else if (strcmp(flag, "--batch") == 0)
        options->batch = (uint32_t)value;
    else if (strcmp(flag, "--dial") == 0)
        options->dial = (uint32_t)value;
    else if (strcmp(flag, "--jitter") == 0 && value <= 100)
        options->jitter_percent = (uint32_t)value;
    else
        return false;
    return true;
}

static void write_dispatch(void *cookie, const struct sim_dispatch *dispatch)
{
    fprintf(cookie, "%llu,%llu,%u,%u,%u,%s\n", (unsigned long long)dispatch->start_us,
            (unsigned long long)dispatch->end_us, dispatch->call, dispatch->device, dispatch->rows,
            policy_close_name(dispatch->close));
}

static int open_trace(struct sim_arguments *arguments, const char *path)
{
    if (path == NULL)
        return usage("--trace", path);
    arguments->trace = fopen(path, "w");
    if (arguments->trace == NULL) {
        complain("sim: %s cannot be written: %s", path, strerror(errno));
        return EXIT_ENVIRONMENT;
    }
    fprintf(arguments->trace, "simulated_start_us,simulated_end_us,call,device,rows,closed\n");
    arguments->options.trace = write_dispatch;
    arguments->options.trace_cookie = arguments->trace;
    return EXIT_OK;
}

static int read_arguments(struct sim_arguments *arguments, int argc, char **argv)
{
    *arguments = (struct sim_arguments){.options = {.seed = 1, .dial = UINT32_MAX}};
    for (int i = 1; i < argc; i++) {
        const char *flag = argv[i], *word = i + 1 < argc ? argv[i + 1] : NULL;
        bool good;
        if (strcmp(flag, "--json") == 0) {
            arguments->json = true;
            continue;
        }
        if (strcmp(flag, "--fixed-batches") == 0) {
            arguments->options.fixed_batches = true;
            continue;
        }
        i++;
        if (strcmp(flag, "--experiment") == 0)
            good = take_experiment(arguments, word);
        else if (strcmp(flag, "--order") == 0)
            good = take_order(arguments, word);
        else if (strcmp(flag, "--trace") == 0 && arguments->trace == NULL) {
            int code = open_trace(arguments, word);
            if (code != EXIT_OK)
                return code;
            good = true;
        } else
            good = take_number(arguments, flag, word);
        if (!good)
            return usage(flag, word);
    }
    return EXIT_OK;
}

/* ---- text ---- */

static void print_line(const struct experiment_line *line)
{
    printf("  %-46s %10.2f s", line->name, line->makespan_s);
    if (line->bound_s > 0)
        printf(" (lower bound %.2f s, %.3f of it)", line->bound_s, line->makespan_s / line->bound_s);
    printf("\n    %llu batches of %llu rows, fill %.3f;", (unsigned long long)line->batches,
           (unsigned long long)line->rows, line->fill);
    for (unsigned i = 0; i < POLICY_CLOSE_COUNT; i++)
        if (line->closes[i] > 0)
            printf(" %llu %s,", (unsigned long long)line->closes[i], policy_close_name((enum policy_close)i));
    printf(" %llu only to isolate\n", (unsigned long long)line->isolation_batches);
    printf("    devices busy %.3f", line->busy);
    for (unsigned i = 0; i < SIM_IDLE_COUNT; i++)
        if (line->idle[i] >= 0.0005)
            printf(", %s %.3f", sim_idle_name((enum sim_idle)i), line->idle[i]);
    printf("\n    roots: %llu ok, %llu partial, %llu filtered, %llu failed;",
           (unsigned long long)line->roots_by_status[0], (unsigned long long)line->roots_by_status[1],
           (unsigned long long)line->roots_by_status[2], (unsigned long long)line->roots_by_status[3]);
    printf(" rows kept out %llu, skipped %llu, discarded %llu\n", (unsigned long long)line->kept_out,
           (unsigned long long)line->skipped, (unsigned long long)line->discarded);
}

static bool print_text(const struct experiment_report *report)
{
    bool reached = true;
    printf("%s, SIMULATED time: %s\n", report->name, report->shape);
    for (uint32_t i = 0; i < report->line_count; i++)
        print_line(&report->lines[i]);
    for (uint32_t i = 0; i < report->target_count; i++) {
        const struct experiment_target *target = &report->targets[i];
        reached = reached && target->reached;
        printf("  %s: %s: %.4f, wanted %s %.4g (simulated)\n", target->reached ? "reached" : "MISSED", target->text,
               target->value, target->at_least ? ">=" : "<=", target->wanted);
    }
    return reached;
}

/* ---- JSON ---- */

static json_t *line_json(const struct experiment_line *line)
{
    json_t *closes = json_object(), *idle = json_object();
    for (unsigned i = 0; i < POLICY_CLOSE_COUNT; i++)
        json_object_set_new(closes, policy_close_name((enum policy_close)i), json_integer((json_int_t)line->closes[i]));
    for (unsigned i = 0; i < SIM_IDLE_COUNT; i++)
        json_object_set_new(idle, sim_idle_name((enum sim_idle)i), json_real(line->idle[i]));
    return json_pack("{s:s,s:f,s:f,s:f,s:I,s:I,s:I,s:o,s:f,s:o,s:{s:I,s:I,s:I},s:{s:I,s:I,s:I,s:I}}", "name",
                     line->name, "makespan_s", line->makespan_s, "lower_bound_s", line->bound_s, "fill", line->fill,
                     "batches", (json_int_t)line->batches, "rows", (json_int_t)line->rows, "isolation_batches",
                     (json_int_t)line->isolation_batches, "closes", closes, "busy", line->busy, "idle", idle,
                     "suppressed", "kept_out", (json_int_t)line->kept_out, "skipped", (json_int_t)line->skipped,
                     "discarded", (json_int_t)line->discarded, "roots", "ok", (json_int_t)line->roots_by_status[0],
                     "partial", (json_int_t)line->roots_by_status[1], "filtered", (json_int_t)line->roots_by_status[2],
                     "failed", (json_int_t)line->roots_by_status[3]);
}

static bool print_json(const struct experiment_report *report, uint64_t seed)
{
    json_t *lines = json_array(), *targets = json_array();
    bool reached = true;
    for (uint32_t i = 0; i < report->line_count; i++)
        json_array_append_new(lines, line_json(&report->lines[i]));
    for (uint32_t i = 0; i < report->target_count; i++) {
        const struct experiment_target *target = &report->targets[i];
        reached = reached && target->reached;
        json_array_append_new(targets, json_pack("{s:s,s:f,s:s,s:f,s:b}", "what", target->text, "value", target->value,
                                                 "wanted", target->at_least ? ">=" : "<=", "than", target->wanted,
                                                 "reached", target->reached));
    }
    json_t *all = json_pack("{s:b,s:s,s:s,s:I,s:o,s:o}", "simulated", 1, "experiment", report->name, "shape",
                            report->shape, "seed", (json_int_t)seed, "runs", lines, "targets", targets);
    json_dumpf(all, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(8));
    fputc('\n', stdout);
    json_decref(all);
    return reached;
}

static int run_one(const struct sim_arguments *arguments, const char *name, bool *ret_reached)
{
    struct experiment_report *report = calloc(1, sizeof *report);
    if (report == NULL) {
        complain("sim: out of memory");
        return EXIT_ENVIRONMENT;
    }
    int status = experiment_run(name, &arguments->options, report);
    bool reached = false;
    if (status != 0)
        complain("sim: %s: %s", name, report->problem[0] ? report->problem : sheaf_status_text(status));
    else
        reached = arguments->json ? print_json(report, arguments->options.seed) : print_text(report);
    *ret_reached = *ret_reached && reached;
    free(report);
    return status == 0 ? EXIT_OK : EXIT_RUN_FAILED;
}

int main(int argc, char **argv)
{
    struct sim_arguments arguments;
    int code = read_arguments(&arguments, argc, argv);
    bool reached = true;
    const char *only = arguments.experiment;
    for (const char *const *name = experiment_names(); code == EXIT_OK && *name != NULL; name++)
        if (only == NULL || strcmp(only, "all") == 0 || strcmp(only, *name) == 0)
            code = run_one(&arguments, *name, &reached);
    if (arguments.trace != NULL && fclose(arguments.trace) != 0 && code == EXIT_OK) {
        complain("sim: the trace could not be written");
        code = EXIT_ENVIRONMENT;
    }
    if (fflush(stdout) != 0 && code == EXIT_OK) {
        complain("standard output cannot be written to");
        code = EXIT_RUN_FAILED;
    }
    return code == EXIT_OK && !reached ? EXIT_RUN_FAILED : code;
}
