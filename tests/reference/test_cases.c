/* SPDX-License-Identifier: Apache-2.0 */
/* The reference evaluator against the conformance cases: two readings of docs/SEMANTICS.md that know nothing of each
 * other. Where they differ one of them is wrong, whatever the engine does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/registry.h"
#include "tests/common/case_files.h"
#include "tests/common/operator_signatures.h"
#include "tests/reference/reference.h"

struct tally {
    struct sheaf_registry *registry;
    unsigned checked, wrong;
};

static const char *letters_of(const json_t *entry)
{
    const char *letters = json_string_value(json_object_get(entry, "o"));
    return letters ? letters : "?";
}

/* The text is among the causes an F or S may name, or they leave it free. */
static bool allows_cause(const json_t *want, const char *letter, const char *cause)
{
    const char *key;
    json_t *set = json_object_get(want, letter), *value;
    json_object_foreach(set, key, value)
    {
        const char *text = strchr(key, ':');
        if (text && (text[1] == '\0' || strcmp(text + 1, cause) == 0))
            return true;
    }
    return false;
}

/* `want`: of the case; `have`: of the reference, which is content with less where what is sure takes a closer look:
 * whether an Entity below a failed Expansion is there for certain, which row fails a root, how many Grains are started.
 */
static bool entry_agrees(const json_t *want, const json_t *have)
{
    const char *letters = letters_of(want), *cause = json_string_value(json_object_get(want, "cause"));
    if (strspn(letters, letters_of(have)) != strlen(letters) ||
        (json_is_true(json_object_get(want, "opt")) && !json_is_true(json_object_get(have, "opt"))))
        return false;
    const json_t *errors = json_object_get(want, "errs");
    if (letters[0] == 'P')
        return json_equal(json_object_get(want, "v"), json_object_get(have, "v")) &&
               (json_equal(errors, json_object_get(have, "errs")) || (!errors && !json_object_get(have, "errs")));
    for (; cause && *letters; letters++)
        if (!allows_cause(have, (const char[]){*letters, '\0'}, cause))
            return false;
    return true;
}

static bool output_agrees(const json_t *wanted, const json_t *got, char *why, size_t bytes)
{
    size_t i;
    json_t *want;
    if (json_array_size(wanted) != json_array_size(got)) {
        snprintf(why, bytes, "%zu entries, not %zu", json_array_size(got), json_array_size(wanted));
        return false;
    }
    json_array_foreach(wanted, i, want)
    {
        json_t *have = json_array_get(got, i);
        if (json_equal(json_object_get(want, "at"), json_object_get(have, "at")) && entry_agrees(want, have))
            continue;
        char *a = json_dumps(want, JSON_COMPACT), *b = json_dumps(have, JSON_COMPACT);
        snprintf(why, bytes, "the case says %.300s, the reference %.300s", a, b);
        free(a);
        free(b);
        return false;
    }
    return true;
}

static bool starts_agree(const json_t *range, const json_t *starts)
{
    const char *at;
    json_t *must;
    json_int_t least = 0, most = (json_int_t)json_object_size(starts);
    json_object_foreach((json_t *)(uintptr_t)starts, at, must) least += json_is_true(must);
    return least <= json_integer_value(json_array_get(range, 1)) &&
           most >= json_integer_value(json_array_get(range, 0));
}

static bool agrees(const json_t *spec, const struct expected *expected, char *why, size_t bytes)
{
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(spec, "expect"), name, value)
    {
        if (!output_agrees(value, json_object_get(expected->outputs, name), why, bytes))
            return false;
    }
    if (!json_equal(json_object_get(spec, "roots"), expected->roots)) {
        snprintf(why, bytes, "roots differ");
        return false;
    }
    json_object_foreach(json_object_get(spec, "dispatched"), name, value)
    {
        if (starts_agree(value, json_object_get(expected->starts, name)))
            continue;
        char *text = json_dumps(json_object_get(expected->starts, name), JSON_COMPACT);
        snprintf(why, bytes, "Grains of %s that are started: %.400s", name, text);
        free(text);
        return false;
    }
    return true;
}

static void check_case(void *cookie, const json_t *spec)
{
    struct tally *tally = cookie;
    struct sheaf_plan *plan = NULL;
    struct expected expected;
    json_t *columns[CASE_SOURCES_MAX];
    char why[1024] = "";
    if (!json_object_get(spec, "expect") || case_compile(tally->registry, spec, &plan, NULL) != 0 ||
        !case_columns(plan, spec, columns))
        return;
    reference_evaluate(plan, columns, &expected);
    tally->checked++;
    if (!agrees(spec, &expected, why, sizeof(why))) {
        tally->wrong++;
        print_error("%s: %s\n", json_string_value(json_object_get(spec, "name")), why);
    }
    expected_clear(&expected);
    sheaf_plan_destroy(plan);
}

static void test_cases(void **state)
{
    struct tally tally = {0};
    assert_int_equal(sheaf_registry_create(&tally.registry), 0);
    assert_int_equal(registry_add_plugin(tally.registry, &operator_signatures, NULL, NULL), 0);
    int cases = cases_each(check_case, &tally);
    sheaf_registry_destroy(tally.registry);
    if (cases == 0)
        skip();
    print_message("%u cases, %u disagree\n", tally.checked, tally.wrong);
    assert_true(tally.checked > 0);
    assert_int_equal(tally.wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
