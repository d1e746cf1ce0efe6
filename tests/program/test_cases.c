/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles every conformance case: what must be refused is refused by the right row, everything else compiles with the
 * right warnings. Reads the cases of conformance/handed below SHEAF_SHARED; skipped where that folder is absent.
 */
#include <glob.h>
#include <jansson.h>

#include "program/canonical.h"
#include "tests/program/plan_check.h"

struct tally {
    struct sheaf_registry *registry;
    unsigned cases, wrong;
};

/* The program alone, as text, without the input and the expectation; its steps in a random order if wanted. */
static char *program_text(const json_t *spec, bool shuffled)
{
    json_t *program = json_object();
    json_t *steps = json_object_get(spec, "steps");
    for (size_t i = json_array_size(steps); shuffled && i > 1; i--) {
        size_t j = (size_t)random() % i;
        json_t *one = json_incref(json_array_get(steps, i - 1));
        json_array_set(steps, i - 1, json_array_get(steps, j));
        json_array_set_new(steps, j, one);
    }
    static const char *const keys[] = {"sources", "steps", "outputs"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        json_object_set(program, keys[i], json_object_get(spec, keys[i]));
    char *text = json_dumps(program, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    json_decref(program);
    return text;
}

static void check_warnings(struct tally *tally, const json_t *spec, const struct sheaf_plan *plan)
{
    unsigned wanted = 0, got = 0;
    size_t index;
    json_t *row;
    json_array_foreach(json_object_get(spec, "warn"), index, row) wanted |= 1u << json_integer_value(row);
    for (uint32_t i = 0; i < plan->warning_count; i++)
        got |= 1u << plan->warnings[i].row;
    if (wanted == got)
        return;
    tally->wrong++;
    print_error("%s: warnings %#x, wanted %#x\n", json_string_value(json_object_get(spec, "name")), got, wanted);
}

/* Whatever the order of the steps, the Plan is the same. */
static void check_order(struct tally *tally, const json_t *spec, const struct sheaf_plan *plan)
{
    char *text = program_text(spec, true);
    struct sheaf_plan *other = must_compile(tally->registry, text);
    char *wanted, *got;
    assert_int_equal(plan_canonical_text(plan, &wanted), 0);
    assert_int_equal(plan_canonical_text(other, &got), 0);
    assert_string_equal(got, wanted);
    assert_int_equal(other->port_count, plan->port_count);
    for (uint32_t i = 0; i < plan->port_count; i++)
        assert_string_equal(other->ports[i].name, plan->ports[i].name);
    free(wanted);
    free(got);
    sheaf_plan_destroy(other);
    free(text);
}

static void check_case(struct tally *tally, const json_t *spec)
{
    const char *name = json_string_value(json_object_get(spec, "name"));
    uint32_t row = (uint32_t)json_integer_value(json_object_get(spec, "refuse"));
    struct sheaf_error error = SHEAF_ERROR_INIT;
    struct sheaf_program *program;
    struct sheaf_plan *plan = NULL;
    char *text = program_text(spec, false);
    assert_int_equal(sheaf_program_create(tally->registry, &program), 0);
    int status = sheaf_program_parse(program, name, text, strlen(text), NULL, 0, &error);
    if (status == 0)
        status = sheaf_program_compile(program, &plan, &error);
    tally->cases++;
    if (status != (row ? SHEAF_E_REFUSED : 0) || (row && error.row != row)) {
        tally->wrong++;
        print_error("%s: status %d, row %u, wanted row %u: %s\n", name, status, error.row, row, error.message);
    } else if (status == 0) {
        check_warnings(tally, spec, plan);
        check_plan(plan);
        check_order(tally, spec, plan);
    } else if (getenv("SHEAF_TEST_SHOW")) {
        print_message("%2u %s\n", error.row, error.message);
    }
    sheaf_plan_destroy(plan);
    sheaf_program_destroy(program);
    free(text);
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

static void test_cases(void **state)
{
    const glob_t *files = *state;
    unsigned seed = 20240229;
    srandom(seed);
    print_message("seed %u\n", seed);
    struct tally tally = {0};
    assert_int_equal(sheaf_registry_create(&tally.registry), 0);
    assert_int_equal(registry_add_plugin(tally.registry, &operator_signatures, NULL, NULL), 0);
    for (size_t i = 0; i < files->gl_pathc; i++)
        check_file(&tally, files->gl_pathv[i]);
    sheaf_registry_destroy(tally.registry);
    print_message("%u cases, %u disagree\n", tally.cases, tally.wrong);
    assert_true(tally.cases > 0);
    assert_int_equal(tally.wrong, 0);
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
    const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(test_cases, &files)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    globfree(&files);
    return failed;
}
