/* SPDX-License-Identifier: Apache-2.0 */
/* The pipelines that are shipped compile with the operators that are shipped, without a warning. */
#include <glob.h>

#include "tests/program/plan_check.h"

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char *text = NULL;
    size_t capacity = 0;
    assert_true(getdelim(&text, &capacity, '\0', file) > 0);
    fclose(file);
    return text;
}

static void test_pipelines(void **state)
{
    char pattern[4096];
    glob_t files;
    struct sheaf_registry *registry;
    struct sheaf_error error = SHEAF_ERROR_INIT;
    assert_int_equal(sheaf_registry_create(&registry), 0);
    if (sheaf_registry_load_default(registry, &error) != 0)
        fail_msg("%s", error.message);
    snprintf(pattern, sizeof(pattern), "%s/pipelines/*.yaml", getenv("SHEAF_SOURCE_ROOT"));
    assert_int_equal(glob(pattern, 0, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        char *text = read_text(files.gl_pathv[i]);
        struct sheaf_plan *plan = must_compile(registry, text);
        check_plan(plan);
        if (plan->warning_count > 0)
            fail_msg("%s: %s", files.gl_pathv[i], plan->warnings[0].text);
        sheaf_plan_destroy(plan);
        free(text);
    }
    globfree(&files);
    sheaf_registry_destroy(registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pipelines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
