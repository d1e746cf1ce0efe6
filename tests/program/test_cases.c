/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles every conformance case: what must be refused is refused by the right row, everything else compiles with the
 * right warnings.
 */
#include <jansson.h>

#include "program/canonical.h"
#include "tests/common/case_files.h"
#include "tests/program/plan_check.h"

struct tally {
    struct sheaf_registry *registry;
    unsigned cases, wrong;
};

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
    size_t order[64], steps = json_array_size(json_object_get(spec, "steps"));
    assert_true(steps <= 64);
    for (size_t i = 0; i < steps; i++) {
        size_t j = (size_t)random() % (i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    char *text = case_program(spec, order);
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

static void check_case(void *cookie, const json_t *spec)
{
    struct tally *tally = cookie;
    const char *name = json_string_value(json_object_get(spec, "name"));
    uint32_t row = (uint32_t)json_integer_value(json_object_get(spec, "refuse"));
    struct sheaf_error error = SHEAF_ERROR_INIT;
    struct sheaf_plan *plan = NULL;
    int status = case_compile(tally->registry, spec, &plan, &error);
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
}

static void test_cases(void **state)
{
    unsigned seed = 20240229;
    srandom(seed);
    print_message("seed %u\n", seed);
    struct tally tally = {0};
    assert_int_equal(sheaf_registry_create(&tally.registry), 0);
    assert_int_equal(registry_add_plugin(tally.registry, &operator_signatures, NULL, NULL), 0);
    int cases = cases_each(check_case, &tally);
    sheaf_registry_destroy(tally.registry);
    if (cases == 0)
        skip();
    print_message("%u cases, %u disagree\n", tally.cases, tally.wrong);
    assert_true(cases > 0);
    assert_int_equal(tally.wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
