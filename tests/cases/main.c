/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conformance [--engine real|sim] [--seed N] [--schedules N] [--workers N] [--case NAME] [--keep-going] [--verbose]
 *     [--random N] FILE...
 *
 * Runs conformance cases on the real engine through the public API, or in the simulator (lineage and scheduling alone,
 * under 20 random schedules or as many as --schedules says, and as many more drawn stepwise), and compares what comes
 * out with what the cases say. Every case is a run of its own; the seed decides its number of workers and its window,
 * or the schedules. Prints each case that fails with the difference, and last "N passed, N failed". Exit status: 0 all
 * pass, 1 some fail, 2 wrong usage, 77 no file.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cases/case.h"
#include "tests/common/case_compare.h"
#include "tests/common/case_files.h"
#include "tests/common/random_program.h"
#include "tests/reference/reference.h"

struct options {
    uint64_t seed;
    uint32_t workers; /* 0: 1 to 3, by the seed */
    uint32_t schedules, random;
    const char *only;
    bool keep_going, verbose, simulated;
};

struct tally {
    struct options options;
    struct sheaf_registry *registry;
    unsigned passed, failed;
};

/* One seed gives every case its own: what a case does must not depend on which others are run. */
static uint64_t seed_of(uint64_t seed, const char *name)
{
    uint64_t hash = seed ^ UINT64_C(14695981039346656037);
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(1099511628211);
    return hash ^ hash >> 29;
}

static bool abort_agrees(const json_t *spec, const struct observed *observed, char *why, size_t bytes)
{
    const json_t *wanted = json_object_get(spec, "abort");
    const char *cause = json_string_value(json_object_get(wanted, "cause"));
    if (!wanted != !observed->aborted) {
        snprintf(why, bytes, wanted ? "the run did not abort" : "the run aborted: %s", observed->cause);
        return false;
    }
    if (cause && strcmp(cause, observed->cause) != 0) {
        snprintf(why, bytes, "abort: wanted \"%s\", got \"%s\"", cause, observed->cause);
        return false;
    }
    if (wanted && observed->cause[0] == '\0') {
        snprintf(why, bytes, "the run aborted without a cause");
        return false;
    }
    return true;
}

static bool agrees(const json_t *spec, const struct observed *observed, char *why, size_t bytes)
{
    json_int_t refuse = json_integer_value(json_object_get(spec, "refuse"));
    json_t *none = json_array(), *warnings = json_object_get(spec, "warn");
    bool same = true;
    if (observed->end == CASE_BROKEN) {
        snprintf(why, bytes, "%s", observed->trouble);
        same = false;
    } else if (refuse || observed->end == CASE_REFUSED) {
        same = observed->end == CASE_REFUSED && observed->row == refuse;
        snprintf(why, bytes, "to be refused by row %lld, was refused by row %u: %s", (long long)refuse, observed->row,
                 observed->trouble);
    } else if (json_object_get(spec, "input_error") || observed->end == CASE_INPUT_ERROR) {
        same = json_object_get(spec, "input_error") && observed->end == CASE_INPUT_ERROR;
        snprintf(why, bytes, "an input error %s", same ? "" : "was wanted and not had, or had and not wanted");
    } else {
        same = json_agrees("warnings", warnings ? warnings : none, observed->warnings, why, bytes) &&
               abort_agrees(spec, observed, why, bytes) &&
               (observed->aborted ||
                (outputs_agree(json_object_get(spec, "expect"), observed->outputs, why, bytes) &&
                 json_agrees("roots", json_object_get(spec, "roots"), observed->roots, why, bytes) &&
                 dispatches_agree(json_object_get(spec, "dispatched"), observed->started, why, bytes)));
    }
    json_decref(none);
    return same;
}

static bool run_case(struct tally *tally, const json_t *spec)
{
    const char *name = json_string_value(json_object_get(spec, "name"));
    if (!name || (tally->options.only && strcmp(name, tally->options.only) != 0))
        return true;
    uint64_t seed = seed_of(tally->options.seed, name);
    struct case_setup setup = {
        .registry = tally->registry,
        .workers = tally->options.workers ? tally->options.workers : 1 + (uint32_t)(seed / 7 % 3),
        .seed = seed,
        .give_up_after_ms = 30000,
        .simulated = tally->options.simulated,
    };
    char why[2048] = "";
    bool same = true;
    if (tally->options.verbose)
        fprintf(stderr, "%s: %u workers\n", name, setup.workers);
    uint32_t drivers = setup.simulated ? 2 : 1;
    for (uint32_t i = 0; i < tally->options.schedules * drivers && same; i++) {
        struct observed observed;
        setup.seed = seed + i / drivers;
        setup.stepwise = i % drivers == 1;
        case_run(&setup, spec, &observed);
        same = agrees(spec, &observed, why, sizeof why);
        observed_clear(&observed);
        if (!same)
            printf("%s (%s), schedule %u%s: %s\n", name, json_string_value(json_object_get(spec, "why")), i / drivers,
                   setup.stepwise ? ", stepwise" : "", why);
    }
    fflush(stdout);
    tally->passed += same;
    tally->failed += !same;
    return same;
}

/* False: stop here. */
static bool run_file(struct tally *tally, const char *path)
{
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t capacity = 0;
    bool going = file != NULL;
    if (!file) {
        printf("%s: cannot be read\n", path);
        tally->failed++;
    }
    for (unsigned number = 1; going && getline(&line, &capacity, file) > 0; number++) {
        json_error_t error;
        json_t *spec = json_loads(line, 0, &error);
        if (!spec) {
            printf("%s:%u: no JSON: %s\n", path, number, error.text);
            tally->failed++;
        }
        going = (spec && run_case(tally, spec)) || tally->options.keep_going;
        json_decref(spec);
    }
    free(line);
    if (file)
        fclose(file);
    return going;
}

/* ---- random programs ---- */

static bool agrees_with_reference(const struct sheaf_plan *plan, const json_t *program, const struct observed *observed,
                                  char *why, size_t bytes)
{
    struct expected expected;
    json_t *columns[CASE_SOURCES_MAX];
    if (observed->end != CASE_RAN || observed->aborted) {
        snprintf(why, bytes, "it does not run: %.500s%.500s", observed->trouble, observed->cause);
        return false;
    }
    case_columns(plan, program, columns);
    reference_evaluate(plan, columns, &expected);
    bool same = expected_agrees(&expected, observed->outputs, observed->roots, NULL, why, bytes);
    expected_clear(&expected);
    return same;
}

static bool run_random(struct tally *tally, uint64_t seed)
{
    json_t *program = random_typed_program(seed);
    struct case_setup setup = {.registry = tally->registry,
                               .workers = tally->options.workers ? tally->options.workers : 1 + (uint32_t)(seed % 3),
                               .seed = seed,
                               .give_up_after_ms = 60000,
                               .simulated = tally->options.simulated};
    struct observed observed;
    struct sheaf_plan *plan = NULL;
    char why[2048] = "";
    case_run(&setup, program, &observed);
    bool same = case_compile(tally->registry, program, &plan, NULL) == 0 &&
                agrees_with_reference(plan, program, &observed, why, sizeof why);
    if (!same) {
        char *text = json_dumps(program, JSON_COMPACT | JSON_PRESERVE_ORDER);
        printf("random program of seed %llu: %s\n%s\n", (unsigned long long)seed, why, text);
        fflush(stdout);
        free(text);
    }
    tally->passed += same;
    tally->failed += !same;
    sheaf_plan_destroy(plan);
    observed_clear(&observed);
    json_decref(program);
    return same;
}

static int usage(void)
{
    fprintf(stderr, "usage: conformance [--engine real|sim] [--seed N] [--schedules N] [--workers N] [--case NAME]\n"
                    "                   [--keep-going] [--verbose] [--random N] FILE...\n"
                    "the operators: SHEAF_CONFORMANCE_OPS, the plug-in's path; the worker: SHEAF_WORKER\n");
    return 2;
}

static int parse(int argc, char **argv, struct options *ret_options)
{
    static const struct option longs[] = {
        {"engine", required_argument, NULL, 'e'},
        {"seed", required_argument, NULL, 's'},
        {"schedules", required_argument, NULL, 'n'},
        {"workers", required_argument, NULL, 'w'},
        {"case", required_argument, NULL, 'c'},
        {"keep-going", no_argument, NULL, 'k'},
        {"verbose", no_argument, NULL, 'v'},
        {"random", required_argument, NULL, 'r'},
        {NULL, 0, NULL, 0},
    };
    struct options options = {.seed = 1};
    for (int key; (key = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
        if (key == 's')
            options.seed = strtoull(optarg, NULL, 10);
        else if (key == 'w')
            options.workers = (uint32_t)strtoul(optarg, NULL, 10);
        else if (key == 'c')
            options.only = optarg;
        else if (key == 'k')
            options.keep_going = true;
        else if (key == 'v')
            options.verbose = true;
        else if (key == 'r')
            options.random = (uint32_t)strtoul(optarg, NULL, 10);
        else if (key == 'n')
            options.schedules = (uint32_t)strtoul(optarg, NULL, 10);
        else if (key == 'e' && strcmp(optarg, "sim") == 0)
            options.simulated = true;
        else if (key != 'e' || strcmp(optarg, "real") != 0)
            return -1;
    }
    if (options.schedules == 0)
        options.schedules = options.simulated ? 20 : 1;
    *ret_options = options;
    return optind;
}

/* The plug-in stands beside this program. */
static int load_operators(struct sheaf_registry *registry, const char *program)
{
    struct sheaf_error error = SHEAF_ERROR_INIT;
    const char *path = getenv("SHEAF_CONFORMANCE_OPS"), *slash = strrchr(program, '/');
    char beside[4096];
    snprintf(beside, sizeof beside, "%.*s/conformance_ops.so", slash ? (int)(slash - program) : 1,
             slash ? program : ".");
    int status = sheaf_registry_load(registry, path ? path : beside, &error);
    if (status < 0)
        fprintf(stderr, "conformance: %s\n", error.message);
    return status;
}

int main(int argc, char **argv)
{
    struct tally tally = {0};
    int first = parse(argc, argv, &tally.options);
    if (first < 0 || (first >= argc && tally.options.random == 0))
        return usage();
    bool any = tally.options.random > 0;
    for (int i = first; i < argc; i++) {
        FILE *file = fopen(argv[i], "re");
        any |= file != NULL;
        if (file)
            fclose(file);
    }
    if (!any) {
        fprintf(stderr, "skipped: %s is not there; set SHEAF_SHARED to the folder that holds conformance/\n",
                argv[first]);
        return 77;
    }
    if (sheaf_registry_create(&tally.registry) < 0 || load_operators(tally.registry, argv[0]) < 0)
        return 2;
    for (int i = first; i < argc && run_file(&tally, argv[i]); i++)
        ;
    for (uint32_t i = 0; i < tally.options.random; i++)
        if (!run_random(&tally, tally.options.seed + i) && !tally.options.keep_going)
            break;
    sheaf_registry_destroy(tally.registry);
    printf("%u passed, %u failed\n", tally.passed, tally.failed);
    return tally.failed > 0;
}
