/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays every conformance case in random orders and compares with what SEMANTICS.md says comes out. SHEAF_TEST_SEEDS:
 * orders per case; SHEAF_TEST_SEED: the first of them; SHEAF_TEST_CASE: only this case.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/registry.h"
#include "tests/common/case_compare.h"
#include "tests/common/operator_signatures.h"
#include "tests/lineage/player.h"

struct tally {
    struct sheaf_registry *registry;
    uint64_t seed;
    unsigned seeds, cases, passed, elsewhere;
};

static bool text_is(const json_t *entry, const char *key, const char *text)
{
    const char *value = json_string_value(json_object_get(entry, key));
    return value && strcmp(value, text) == 0;
}

static bool run_agrees(const json_t *spec, const struct played *played, char *why, size_t bytes)
{
    json_t *abort_spec = json_object_get(spec, "abort");
    if (played->breach[0]) {
        snprintf(why, bytes, "%s", played->breach);
        return false;
    }
    if (abort_spec || played->aborted) {
        const char *cause = json_string_value(json_object_get(abort_spec, "cause"));
        snprintf(why, bytes, "aborted: %d, %s", played->aborted, played->abort_cause);
        return abort_spec && played->aborted && (!cause || strcmp(cause, played->abort_cause) == 0);
    }
    return outputs_agree(json_object_get(spec, "expect"), played->outputs, why, bytes) &&
           json_agrees("roots", json_object_get(spec, "roots"), played->roots, why, bytes) &&
           dispatches_agree(json_object_get(spec, "dispatched"), played->dispatched, why, bytes);
}

static struct sheaf_plan *compile(struct tally *tally, const json_t *spec)
{
    static const char *const keys[] = {"sources", "steps", "outputs"};
    struct sheaf_program *program;
    struct sheaf_plan *plan = NULL;
    json_t *text = json_object();
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        json_object_set(text, keys[i], json_object_get(spec, keys[i]));
    char *dump = json_dumps(text, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    assert_int_equal(sheaf_program_create(tally->registry, &program), 0);
    if (sheaf_program_parse(program, "case", dump, strlen(dump), NULL, 0, NULL) == 0)
        sheaf_program_compile(program, &plan, NULL);
    sheaf_program_destroy(program);
    free(dump);
    json_decref(text);
    return plan;
}

static bool case_passes(struct tally *tally, const json_t *spec)
{
    const char *name = json_string_value(json_object_get(spec, "name"));
    struct sheaf_plan *plan = compile(tally, spec);
    char why[1024] = "does not compile";
    json_t *columns[16];
    bool passes = plan != NULL;
    uint64_t seed = tally->seed;
    for (uint32_t i = 0; plan && i < plan->source_count; i++)
        columns[i] = json_object_get(
            json_object_get(json_object_get(spec, "sources"), plan->ports[plan->sources[i]].name), "rows");
    for (unsigned i = 0; passes && i < tally->seeds; i++) {
        struct played played;
        seed = tally->seed + i;
        play(plan, columns, seed, &played);
        passes = run_agrees(spec, &played, why, sizeof(why));
        played_clear(&played);
    }
    if (!passes)
        print_error("%s, seed %llu: %s\n", name, (unsigned long long)seed, why);
    sheaf_plan_destroy(plan);
    return passes;
}

static void check_case(struct tally *tally, const json_t *spec)
{
    const char *only = getenv("SHEAF_TEST_CASE");
    if (only && !text_is(spec, "name", only))
        return;
    if (json_object_get(spec, "refuse") || json_object_get(spec, "input_error")) {
        tally->elsewhere++;
        return;
    }
    tally->cases++;
    tally->passed += case_passes(tally, spec);
}

static void check_file(struct tally *tally, const char *path)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, file) > 0) {
        json_t *spec = json_loads(line, 0, NULL);
        assert_non_null(spec);
        check_case(tally, spec);
        json_decref(spec);
    }
    free(line);
    fclose(file);
}

static void test_conformance(void **state)
{
    const glob_t *files = *state;
    const char *seeds = getenv("SHEAF_TEST_SEEDS"), *seed = getenv("SHEAF_TEST_SEED");
    struct tally tally = {.seeds = seeds ? (unsigned)atoi(seeds) : 8, .seed = seed ? strtoull(seed, NULL, 10) : 1};
    assert_int_equal(sheaf_registry_create(&tally.registry), 0);
    assert_int_equal(registry_add_plugin(tally.registry, &operator_signatures, NULL, NULL), 0);
    for (size_t i = 0; i < files->gl_pathc; i++)
        check_file(&tally, files->gl_pathv[i]);
    sheaf_registry_destroy(tally.registry);
    print_message("%u of %u cases pass in %u orders each, from seed %llu; %u are refused before they run\n",
                  tally.passed, tally.cases, tally.seeds, (unsigned long long)tally.seed, tally.elsewhere);
    assert_true(tally.cases > 0);
    assert_int_equal(tally.passed, tally.cases);
}

int main(void)
{
    const char *shared = getenv("SHEAF_SHARED"), *root = getenv("SHEAF_SOURCE_ROOT");
    char pattern[4096];
    glob_t files;
    snprintf(pattern, sizeof(pattern), "%s%s/conformance/handed/*.jsonl",
             shared ? shared
             : root ? root
                    : ".",
             shared ? "" : "/../shared");
    if (glob(pattern, 0, NULL, &files) != 0) {
        fprintf(stderr, "skipped: no conformance cases at %s; set SHEAF_SHARED\n", pattern);
        return 77;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(test_conformance, &files)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    globfree(&files);
    return failed;
}
