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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/registry.h"
#include "tests/common/case_compare.h"
#include "tests/common/case_files.h"
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

static bool case_passes(struct tally *tally, const json_t *spec)
{
    const char *name = json_string_value(json_object_get(spec, "name"));
    struct sheaf_plan *plan = NULL;
    char why[1024] = "does not compile";
    json_t *columns[CASE_SOURCES_MAX];
    case_compile(tally->registry, spec, &plan, NULL);
    bool passes = plan && case_columns(plan, spec, columns);
    uint64_t seed = tally->seed;
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

static void check_case(void *cookie, const json_t *spec)
{
    struct tally *tally = cookie;
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

static void test_conformance(void **state)
{
    const char *seeds = getenv("SHEAF_TEST_SEEDS"), *seed = getenv("SHEAF_TEST_SEED");
    struct tally tally = {.seeds = seeds ? (unsigned)atoi(seeds) : 8, .seed = seed ? strtoull(seed, NULL, 10) : 1};
    assert_int_equal(sheaf_registry_create(&tally.registry), 0);
    assert_int_equal(registry_add_plugin(tally.registry, &operator_signatures, NULL, NULL), 0);
    int cases = cases_each(check_case, &tally);
    sheaf_registry_destroy(tally.registry);
    if (cases == 0)
        skip();
    print_message("%u of %u cases pass in %u orders each, from seed %llu; %u are refused before they run\n",
                  tally.passed, tally.cases, tally.seeds, (unsigned long long)tally.seed, tally.elsewhere);
    assert_true(cases > 0);
    assert_int_equal(tally.passed, tally.cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_conformance)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
