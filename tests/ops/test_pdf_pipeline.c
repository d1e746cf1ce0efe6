/* SPDX-License-Identifier: Apache-2.0 */
/* The documents pipeline compiles against the operators of the plug-in, and the plug-in says what the machine lacks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include <sheaf/program.h>

#include "host.h"

static struct sheaf_registry *registry;

static int registry_open(void **unused)
{
    struct sheaf_error error = SHEAF_ERROR_INIT;
    const char *path = getenv("SHEAF_DOCUMENTS_PLUGIN");
    assert_non_null(path);
    assert_int_equal(sheaf_registry_create(&registry), 0);
    if (sheaf_registry_load(registry, path, &error) != 0)
        print_message("%s\n", error.message);
    return error.code;
}

static int registry_close(void **unused)
{
    sheaf_registry_destroy(registry);
    return 0;
}

static struct sheaf_plan *compiled(const char *const *overrides, size_t count, struct sheaf_error *error)
{
    size_t bytes = 0;
    const char *path = getenv("SHEAF_DOCUMENTS_PIPELINE");
    uint8_t *text = path ? host_file_read(path, &bytes) : NULL;
    struct sheaf_program *program;
    struct sheaf_plan *plan = NULL;
    assert_non_null(text);
    assert_int_equal(sheaf_program_create(registry, &program), 0);
    if (sheaf_program_parse(program, "documents.yaml", (const char *)text, bytes, overrides, count, error) == 0)
        sheaf_program_compile(program, &plan, error);
    sheaf_program_destroy(program);
    free(text);
    return plan;
}

static void test_compiles(void **unused)
{
    static const char *const overrides[] = {"text.images=jpeg", "ocr.lang=eng+deu", "render.dpi=200",
                                            "encode.format=png"};
    static const struct {
        const char *name, *file;
        sheaf_kind kind;
    } outputs[] = {{"markdown", "{name}.md", SHEAF_BYTES},
                   {"json", "{name}.json", SHEAF_BYTES},
                   {"pictures", "{name}.pages/{2:05}.jpg", SHEAF_LIST_OF(SHEAF_BYTES, 1)}};
    struct sheaf_error error = SHEAF_ERROR_INIT;
    for (size_t given = 0; given <= 4; given += 4) {
        struct sheaf_plan *plan = compiled(overrides, given, &error);
        if (!plan)
            print_message("%s\n", error.message);
        assert_non_null(plan);
        assert_int_equal(sheaf_plan_source_count(plan), 1);
        assert_int_equal(sheaf_plan_output_count(plan), 3);
        for (size_t i = 0; i < 3; i++) {
            struct sheaf_plan_port port = {.size = sizeof port};
            assert_int_equal(sheaf_plan_output(plan, i, &port), 0);
            assert_string_equal(port.name, outputs[i].name);
            assert_string_equal(port.file, outputs[i].file);
            assert_int_equal(port.depth, 1);
            assert_int_equal(port.kind, outputs[i].kind);
        }
        assert_null(sheaf_plan_warning(plan, 0, NULL));
        sheaf_plan_destroy(plan);
    }
}

static void test_refuses_bad_options(void **unused)
{
    static const char *const bad[] = {"text.ocr=sometimes", "scan.dpi=3", "scan.colour=rgb"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct sheaf_error error = SHEAF_ERROR_INIT;
        assert_null(compiled(&bad[i], 1, &error));
        assert_true(error.message[0] != 0);
    }
}

static void count_report(void *cookie, int ok, const char *what, const char *hint)
{
    uint32_t *count = cookie;
    ++*count;
    assert_true(what && what[0]);
    assert_true(ok || (hint && hint[0]));
}

static void test_doctor(void **unused)
{
    uint32_t count = 0;
    const char *path;
    const struct sheaf_plugin *plugin = sheaf_registry_plugin(registry, 0, &path);
    assert_non_null(plugin);
    assert_string_equal(plugin->name, "documents");
    plugin->doctor(count_report, &count);
    assert_true(count >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_compiles), cmocka_unit_test(test_refuses_bad_options),
                                       cmocka_unit_test(test_doctor)};
    return cmocka_run_group_tests(tests, registry_open, registry_close);
}
