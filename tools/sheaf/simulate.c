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

/* A trace being written: what Chrome's tracing page and Perfetto read. */
struct trace_file {
    FILE *file; /* NULL: none is wanted */
    const struct sheaf_plan *plan;
    unsigned runs;
    bool any;
};

struct sim_arguments {
    const char *experiment; /* NULL: all */
    bool json;
    uint32_t seeds; /* runs under so many seeds, 0: one */
    struct trace_file trace;
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
    return strcmp(word, "all") == 0 || experiment_exists(arguments->experiment);
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

/* "A:B", two numbers. */
static bool take_pair(const char *word, uint64_t max, uint32_t *ret_first, uint32_t *ret_second)
{
    const char *colon = word == NULL ? NULL : strchr(word, ':');
    char first[32];
    uint64_t a, b;
    if (colon == NULL || (size_t)(colon - word) >= sizeof first)
        return false;
    snprintf(first, sizeof first, "%.*s", (int)(colon - word), word);
    if (!number(first, max, &a) || !number(colon + 1, max, &b))
        return false;
    *ret_first = (uint32_t)a;
    *ret_second = (uint32_t)b;
    return true;
}

static bool take_spread(struct sim_setup *setup, const char *word)
{
    uint64_t percent;
    if (word != NULL && strcmp(word, "exponential") == 0) {
        setup->spread = SIM_EXPONENTIAL;
        return true;
    }
    if (word == NULL || strncmp(word, "lognormal:", 10) != 0 || !number(word + 10, 300, &percent))
        return false;
    setup->spread = SIM_LOGNORMAL;
    setup->spread_percent = (uint32_t)percent;
    return true;
}

static bool take_bridge(struct sim_links *links, const char *word)
{
    uint32_t rate, devices;
    if (!take_pair(word, 100000000, &rate, &devices) || devices == 0)
        return false;
    links->bridge_bytes_us = rate;
    links->devices_per_bridge = devices;
    return true;
}

enum number_kind { NUMBER_32, NUMBER_64, NUMBER_MS, NUMBER_REAL }; /* MS: milliseconds, kept as microseconds */

static bool take_number(struct experiment_options *options, const char *flag, const char *word)
{
    struct sim_setup *setup = &options->setup;
    const struct {
        const char *flag;
        enum number_kind kind;
        void *target;
        uint64_t max;
    } numbers[] = {
        {"--seed", NUMBER_64, &setup->seed, UINT64_MAX},
        {"--devices", NUMBER_32, &options->devices, 1000000},
        {"--batch", NUMBER_32, &options->batch, 1000000},
        {"--dial", NUMBER_32, &options->dial, 1000000},
        {"--roots", NUMBER_32, &options->roots, 100000000},
        {"--jitter", NUMBER_32, &setup->spread_percent, 100},
        {"--raises", NUMBER_32, &setup->raises_per_million, 1000000},
        {"--crashes", NUMBER_32, &setup->crashes_per_million, 1000000},
        {"--hangs", NUMBER_32, &setup->hangs_per_million, 1000000},
        {"--losses", NUMBER_32, &setup->loss_per_million, 1000000},
        {"--children", NUMBER_32, &setup->children_max, UINT32_MAX},
        {"--in-flight", NUMBER_32, &setup->links.in_flight, 64},
        {"--restart-ms", NUMBER_MS, &setup->restart_us, 86400000},
        {"--deadline-ms", NUMBER_MS, &setup->deadline_us, 86400000},
        {"--copy-in", NUMBER_REAL, &options->in_bytes, UINT32_MAX},
        {"--copy-out", NUMBER_REAL, &options->out_bytes, UINT32_MAX},
        {"--link", NUMBER_REAL, &setup->links.in_bytes_us, 100000000},
    };
    unsigned i = 0, count = sizeof numbers / sizeof numbers[0];
    uint64_t value;
    while (i < count && strcmp(numbers[i].flag, flag) != 0)
        i++;
    if (i == count || !number(word, numbers[i].max, &value))
        return false;
    if (numbers[i].kind == NUMBER_32)
        *(uint32_t *)numbers[i].target = (uint32_t)value;
    else if (numbers[i].kind == NUMBER_REAL)
        *(double *)numbers[i].target = (double)value;
    else
        *(uint64_t *)numbers[i].target = numbers[i].kind == NUMBER_MS ? value * 1000 : value;
    setup->links.out_bytes_us = setup->links.in_bytes_us; /* --link is both ways */
    return true;
}

static bool take_option(struct sim_arguments *arguments, const char *flag, const char *word)
{
    struct sim_setup *setup = &arguments->options.setup;
    if (strcmp(flag, "--experiment") == 0)
        return take_experiment(arguments, word);
    if (strcmp(flag, "--order") == 0)
        return take_order(arguments, word);
    if (strcmp(flag, "--spread") == 0)
        return take_spread(setup, word);
    if (strcmp(flag, "--bridge") == 0)
        return take_bridge(&setup->links, word);
    if (strcmp(flag, "--seeds") == 0) {
        uint64_t seeds = 0;
        bool good = number(word, 100000, &seeds) && seeds > 0;
        arguments->seeds = (uint32_t)seeds;
        return good;
    }
    if (strcmp(flag, "--slow") == 0)
        return take_pair(word, 1000000, &setup->slow_percent, &setup->slow_factor);
    return take_number(&arguments->options, flag, word);
}

/* ---- trace ---- */

/* Every Pool of every run is a process of the trace, every device a thread. */
enum { POOLS_OF_A_RUN = 64 };

static void trace_comma(struct trace_file *trace)
{
    fputs(trace->any ? ",\n" : "\n", trace->file);
    trace->any = true;
}

static void trace_run(void *cookie, const char *name, const struct sheaf_plan *plan)
{
    struct trace_file *trace = cookie;
    trace->plan = plan;
    trace->runs++;
    for (uint32_t i = 0; i < plan->pool_count; i++) {
        trace_comma(trace);
        fprintf(trace->file,
                "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%u,\"args\":{\"name\":\"%s: %s (simulated)\"}}",
                trace->runs * POOLS_OF_A_RUN + i, name, plan->pools[i].name);
    }
}

static void trace_dispatch(void *cookie, const struct sim_dispatch *dispatch)
{
    struct trace_file *trace = cookie;
    trace_comma(trace);
    fprintf(trace->file,
            "{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":%llu,\"dur\":%llu,"
            "\"args\":{\"rows\":%u,\"closed\":\"%s\"}}",
            trace->plan->calls[dispatch->call].name, dispatch->lost ? "lost" : "dispatch",
            trace->runs * POOLS_OF_A_RUN + dispatch->pool, dispatch->device, (unsigned long long)dispatch->start_us,
            (unsigned long long)(dispatch->end_us - dispatch->start_us), dispatch->rows,
            policy_close_name(dispatch->close));
}

static int trace_open(struct sim_arguments *arguments, const char *path)
{
    struct trace_file *trace = &arguments->trace;
    if (path == NULL || trace->file != NULL)
        return usage("--trace", path);
    trace->file = fopen(path, "we");
    if (trace->file == NULL) {
        complain("sim: %s cannot be written: %s", path, strerror(errno));
        return EXIT_ENVIRONMENT;
    }
    fputs("{\"displayTimeUnit\":\"ms\",\"otherData\":{\"simulated\":true},\"traceEvents\":[", trace->file);
    arguments->options.trace = (struct experiment_trace){trace, trace_run, trace_dispatch};
    return EXIT_OK;
}

static int trace_close(struct trace_file *trace)
{
    if (trace->file == NULL)
        return EXIT_OK;
    fputs("\n]}\n", trace->file);
    if (fclose(trace->file) == 0)
        return EXIT_OK;
    complain("sim: the trace could not be written");
    return EXIT_ENVIRONMENT;
}

static int read_arguments(struct sim_arguments *arguments, int argc, char **argv)
{
    *arguments = (struct sim_arguments){.options = {.setup = {.seed = 1}, .dial = UINT32_MAX}};
    for (int i = 1; i < argc; i++) {
        const char *flag = argv[i], *word = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(flag, "--json") == 0) {
            arguments->json = true;
        } else if (strcmp(flag, "--largest-first") == 0) {
            arguments->options.setup.largest_first = true;
        } else if (strcmp(flag, "--fixed-batches") == 0) {
            arguments->options.fixed_batches = true;
        } else if (strcmp(flag, "--trace") == 0) {
            int code = trace_open(arguments, word);
            if (code != EXIT_OK)
                return code;
            i++;
        } else if (take_option(arguments, flag, word)) {
            i++;
        } else {
            return usage(flag, word);
        }
    }
    return EXIT_OK;
}

/* ---- text ---- */

static void print_line(const struct experiment_line *line)
{
    printf("  %-46s %10.2f s", line->name, line->makespan_s);
    if (line->bound_s > 0)
        printf(" (lower bound %.2f s by %s, %.3f of it)", line->bound_s,
               line->bound_is_path ? "the longest row" : "work", line->makespan_s / line->bound_s);
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
    if (line->copying_in + line->copying_out > 0)
        printf("\n    of a device's time: computes %.3f, copies in %.3f, out %.3f", line->computing, line->copying_in,
               line->copying_out);
    printf("\n    roots: %llu ok, %llu partial, %llu filtered, %llu failed;",
           (unsigned long long)line->roots_by_status[0], (unsigned long long)line->roots_by_status[1],
           (unsigned long long)line->roots_by_status[2], (unsigned long long)line->roots_by_status[3]);
    printf(" rows kept out %llu, skipped %llu, discarded %llu\n", (unsigned long long)line->kept_out,
           (unsigned long long)line->skipped, (unsigned long long)line->discarded);
    if (line->losses + line->spilled > 0)
        printf("    workers lost %llu, children spilled %llu\n", (unsigned long long)line->losses,
               (unsigned long long)line->spilled);
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
    return json_pack(
        "{s:s,s:f,s:f,s:s,s:f,s:I,s:I,s:I,s:I,s:o,s:f,s:o,s:f,s:f,s:f,s:I,s:I,s:{s:I,s:I,s:I},s:{s:I,s:I,s:I,s:I}}",
        "name", line->name, "makespan_s", line->makespan_s, "lower_bound_s", line->bound_s, "bound_by",
        line->bound_is_path ? "the longest row" : "work", "fill", line->fill, "grains", (json_int_t)line->grains,
        "batches", (json_int_t)line->batches, "rows", (json_int_t)line->rows, "isolation_batches",
        (json_int_t)line->isolation_batches, "closes", closes, "busy", line->busy, "idle", idle, "computing",
        line->computing, "copying_in", line->copying_in, "copying_out", line->copying_out, "workers_lost",
        (json_int_t)line->losses, "spilled", (json_int_t)line->spilled, "suppressed", "kept_out",
        (json_int_t)line->kept_out, "skipped", (json_int_t)line->skipped, "discarded", (json_int_t)line->discarded,
        "roots", "ok", (json_int_t)line->roots_by_status[0], "partial", (json_int_t)line->roots_by_status[1],
        "filtered", (json_int_t)line->roots_by_status[2], "failed", (json_int_t)line->roots_by_status[3]);
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

/* ---- many seeds ---- */

/* One target over many seeds. */
struct spread_of {
    double sum, least, most;
    unsigned reached;
};

/* What counts is the mean: of two runs that differ in their chance, too, a single ratio says little. */
static bool print_spread(const struct sim_arguments *arguments, const struct experiment_report *report,
                         const struct spread_of *spreads)
{
    uint64_t first = arguments->options.setup.seed;
    json_t *targets = json_array();
    bool all = true;
    if (!arguments->json)
        printf("%s, SIMULATED time, seeds %llu to %llu: %s\n", report->name, (unsigned long long)first,
               (unsigned long long)(first + arguments->seeds - 1), report->shape);
    for (uint32_t i = 0; i < report->target_count; i++) {
        const struct experiment_target *target = &report->targets[i];
        double mean = spreads[i].sum / arguments->seeds;
        bool reached = target->at_least ? mean >= target->wanted : mean <= target->wanted;
        all = all && reached;
        if (arguments->json)
            json_array_append_new(targets, json_pack("{s:s,s:f,s:f,s:f,s:s,s:f,s:b,s:i}", "what", target->text, "mean",
                                                     mean, "least", spreads[i].least, "most", spreads[i].most, "wanted",
                                                     target->at_least ? ">=" : "<=", "than", target->wanted, "reached",
                                                     reached, "seeds_reached", (int)spreads[i].reached));
        else
            printf("  %s: %s: mean %.4f (%.4f to %.4f), wanted %s %.4g; reached by %u of %u seeds (simulated)\n",
                   reached ? "reached" : "MISSED", target->text, mean, spreads[i].least, spreads[i].most,
                   target->at_least ? ">=" : "<=", target->wanted, spreads[i].reached, arguments->seeds);
    }
    if (arguments->json) {
        json_t *whole = json_pack("{s:b,s:s,s:I,s:i,s:O}", "simulated", 1, "experiment", report->name, "seed",
                                  (json_int_t)first, "seeds", (int)arguments->seeds, "targets", targets);
        json_dumpf(whole, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(8));
        fputc('\n', stdout);
        json_decref(whole);
    }
    json_decref(targets);
    return all;
}

static int run_seeds(const struct sim_arguments *arguments, const char *name, struct experiment_report *report,
                     bool *ret_reached)
{
    struct experiment_options options = arguments->options;
    struct spread_of spreads[EXPERIMENT_TARGETS] = {{0}};
    for (uint32_t seed = 0; seed < arguments->seeds; seed++, options.setup.seed++) {
        int status = experiment_run(name, &options, report);
        if (status != 0)
            return status;
        for (uint32_t i = 0; i < report->target_count; i++) {
            double value = report->targets[i].value;
            spreads[i].sum += value;
            spreads[i].least = seed == 0 || value < spreads[i].least ? value : spreads[i].least;
            spreads[i].most = seed == 0 || value > spreads[i].most ? value : spreads[i].most;
            spreads[i].reached += report->targets[i].reached;
        }
    }
    *ret_reached = print_spread(arguments, report, spreads);
    return 0;
}

static int run_one(const struct sim_arguments *arguments, const char *name, bool *ret_reached)
{
    struct experiment_report *report = calloc(1, sizeof *report);
    if (report == NULL) {
        complain("sim: out of memory");
        return EXIT_ENVIRONMENT;
    }
    bool reached = false;
    int status = arguments->seeds ? run_seeds(arguments, name, report, &reached)
                                  : experiment_run(name, &arguments->options, report);
    if (status != 0)
        complain("sim: %s: %s", name, report->problem[0] ? report->problem : sheaf_status_text(status));
    else if (arguments->seeds == 0)
        reached = arguments->json ? print_json(report, arguments->options.setup.seed) : print_text(report);
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
    bool all = only == NULL || strcmp(only, "all") == 0;
    for (const char *const *name = experiment_names(); all && code == EXIT_OK && *name != NULL; name++)
        code = run_one(&arguments, *name, &reached);
    if (!all && code == EXIT_OK)
        code = run_one(&arguments, only, &reached);
    int closed = trace_close(&arguments.trace);
    code = code == EXIT_OK ? closed : code;
    if (fflush(stdout) != 0 && code == EXIT_OK) {
        complain("standard output cannot be written to");
        code = EXIT_RUN_FAILED;
    }
    return code == EXIT_OK && !reached ? EXIT_RUN_FAILED : code;
}
