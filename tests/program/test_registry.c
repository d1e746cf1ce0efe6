/* SPDX-License-Identifier: Apache-2.0 */
/* Loading plug-ins, and refusing malformed ones. */
#include <errno.h>
#include <unistd.h>

#include "tests/program/program_test.h"

static int run(void *state, const struct sheaf_row *row, char *message)
{
    return -1;
}

static const struct sheaf_port good_ports[] = {{"x", SHEAF_ANY, 0, NULL}, {"y", SHEAF_I64, 0, NULL}};
static const struct sheaf_option good_options[] = {
    {.name = "n", .type = SHEAF_OPTION_I64, .fallback = {.type = SHEAF_OPTION_I64, .i64 = 3}, .min = 1, .max = 5},
    {.name = "how",
     .type = SHEAF_OPTION_TEXT,
     .fallback = {.type = SHEAF_OPTION_TEXT, .text = "b"},
     .choices = "a|b|cc"},
};

/* An operator to spoil, with its own copies of everything. */
struct specimen {
    struct sheaf_port inputs[2], outputs[2];
    struct sheaf_option options[2];
    struct sheaf_operator op;
    const struct sheaf_operator *ops[2];
    struct sheaf_plugin plugin;
};

static void make_specimen(struct specimen *specimen)
{
    memcpy(specimen->inputs, good_ports, sizeof(good_ports));
    memcpy(specimen->outputs, good_ports, sizeof(good_ports));
    memcpy(specimen->options, good_options, sizeof(good_options));
    specimen->op = (struct sheaf_operator){
        .size = sizeof(specimen->op),
        .name = "op",
        .version = "1",
        .inputs = specimen->inputs,
        .outputs = specimen->outputs,
        .options = specimen->options,
        .input_count = 2,
        .output_count = 2,
        .option_count = 2,
        .run = run,
    };
    specimen->ops[0] = specimen->ops[1] = &specimen->op;
    specimen->plugin = (struct sheaf_plugin){
        .size = sizeof(specimen->plugin),
        .abi = SHEAF_OPERATOR_ABI,
        .name = "p",
        .version = "1",
        .operators = specimen->ops,
        .operator_count = 1,
    };
}

/* Each spoils one thing. `says` is in the message, besides the name of the operator. */
#define SPOIL(number, statement, words)                                                                                \
    case number:                                                                                                       \
        statement;                                                                                                     \
        return words;

static const char *spoil(struct specimen *s, unsigned number)
{
    switch (number) {
        SPOIL(0, s->plugin.abi = 2, "ABI 2")
        SPOIL(1, s->plugin.size = 8, "ABI")
        SPOIL(2, s->plugin.operator_count = 2, "twice")
        SPOIL(3, s->op.size = 40, "older ABI")
        SPOIL(4, s->op.name = "a b", "malformed name")
        SPOIL(5, s->op.version = "", "version")
        SPOIL(6, s->op.run = NULL, "no run")
        SPOIL(7, s->op.flags = SHEAF_OPERATOR_BATCH, "no run_batch")
        SPOIL(8, s->op.flags = 1u << 31, "unknown flags")
        SPOIL(9, s->op.widest_failure = 3, "widest_failure")
        SPOIL(10, s->op.input_count = 0, "no inputs")
        SPOIL(11, s->op.input_count = 65, "wrong number of \"inputs\"")
        SPOIL(12, s->op.outputs = NULL, "wrong number of \"outputs\"")
        SPOIL(13, s->inputs[1].name = "x", "second port")
        SPOIL(14, s->inputs[1].kind = 9, "unknown kind")
        SPOIL(15, s->inputs[1].kind = SHEAF_NONE, "unknown kind")
        SPOIL(16, s->inputs[1].flags = SHEAF_PORT_GROUP, "unknown flags")
        SPOIL(17, s->inputs[0].flags = SHEAF_PORT_OPTIONAL, "after one that need not")
        SPOIL(18, s->inputs[0].kind = SHEAF_I64, "no input binds")
        SPOIL(19, s->op.options = NULL, "wrong number of \"options\"")
        SPOIL(20, s->options[1].name = "n", "second option")
        SPOIL(21, s->options[0].fallback.i64 = 6, "default")
        SPOIL(22, s->options[0].fallback.type = SHEAF_OPTION_BOOL, "default")
        SPOIL(23, s->options[1].fallback.text = "c", "default")
        SPOIL(24, s->options[1].fallback.text = NULL, "default")
        SPOIL(25, s->options[0].min = 9, "empty range")
        SPOIL(26, s->options[0].choices = "a", "choices")
        SPOIL(27, s->options[0].type = (enum sheaf_option_type)9, "unknown type")
        SPOIL(28, s->op.slots = 2, "slots without BATCH")
        SPOIL(29, s->op.batch_rows = UINT32_MAX, "out of range")
        SPOIL(30, s->op.batch_kib = 1, "without BATCH")
        SPOIL(31, s->op.flags |= SHEAF_OPERATOR_ONE_SHAPE, "without BATCH")
    default:
        return NULL;
    }
}

static void test_malformed(void **state)
{
    struct sheaf_registry *registry;
    struct specimen specimen;
    assert_int_equal(sheaf_registry_create(&registry), 0);
    for (unsigned i = 0;; i++) {
        make_specimen(&specimen);
        const char *says = spoil(&specimen, i);
        if (!says)
            break;
        struct sheaf_error error = SHEAF_ERROR_INIT;
        int status = registry_add_plugin(registry, &specimen.plugin, "p.so", &error);
        if (status != SHEAF_E_ABI || !strstr(error.message, says) || strncmp(error.message, "p.so: ", 6) != 0)
            fail_msg("number %u: %d, \"%s\" does not say: %s", i, status, error.message, says);
        assert_int_equal(sheaf_registry_count(registry), 0);
    }
    make_specimen(&specimen);
    assert_int_equal(registry_add_plugin(registry, &specimen.plugin, "p.so", NULL), 0);
    assert_string_equal(registry_plugin_path(registry, &specimen.op), "p.so");
    struct sheaf_error error = SHEAF_ERROR_INIT;
    assert_int_equal(registry_add_plugin(registry, &specimen.plugin, "q.so", &error), SHEAF_E_USAGE);
    assert_non_null(strstr(error.message, "\"op\" is already provided by p.so"));
    sheaf_registry_destroy(registry);
}

static void check_loaded(struct sheaf_registry *registry)
{
    const struct sheaf_operator *op = sheaf_registry_find(registry, "test.echo");
    assert_non_null(op);
    const char *path = registry_plugin_path(registry, op);
    assert_true(path && path[0] == '/');
    assert_non_null(strstr(path, "plugin_good.so"));
    assert_null(sheaf_registry_find(registry, "test.eco"));
}

static void test_loading(void **state)
{
    const char *folder = getenv("SHEAF_TEST_PLUGINS");
    assert_non_null(folder);
    char path[4096];
    struct sheaf_registry *registry;
    struct sheaf_error error = SHEAF_ERROR_INIT;
    assert_int_equal(sheaf_registry_create(&registry), 0);
    snprintf(path, sizeof(path), "%s/plugin_good.so", folder);
    assert_int_equal(sheaf_registry_load(registry, path, &error), 0);
    check_loaded(registry);
    assert_string_equal(sheaf_registry_plugin(registry, 0, NULL)->name, "test");
    assert_null(sheaf_registry_plugin(registry, 1, NULL));
    assert_int_equal(sheaf_registry_load(registry, path, &error), SHEAF_E_USAGE); /* the names are taken */
    snprintf(path, sizeof(path), "%s/../refused/plugin_abi.so", folder);
    assert_int_equal(sheaf_registry_load(registry, path, &error), SHEAF_E_ABI);
    assert_non_null(strstr(error.message, "does not serve operator ABI 1"));
    snprintf(path, sizeof(path), "%s/../refused/plugin_none.so", folder);
    assert_int_equal(sheaf_registry_load(registry, path, &error), SHEAF_E_ABI);
    assert_non_null(strstr(error.message, "does not export sheaf_plugin"));
    assert_int_equal(sheaf_registry_load(registry, "/nowhere/x.so", &error), -ENOENT);
    assert_int_equal(sheaf_registry_load(registry, "/proc/self/exe/..", &error), -ENOTDIR);
    assert_int_equal(sheaf_registry_count(registry), 1);
    sheaf_registry_destroy(registry);
}

/* SHEAF_PLUGINS: every folder of the list; the files of a folder that are no *.so are left alone. */
static void test_default(void **state)
{
    const char *folder = getenv("SHEAF_TEST_PLUGINS");
    char list[4096];
    struct sheaf_registry *registry;
    struct sheaf_error error = SHEAF_ERROR_INIT;
    assert_int_equal(sheaf_registry_create(&registry), 0);
    snprintf(list, sizeof(list), ":%s:", folder);
    setenv("SHEAF_PLUGINS", list, 1);
    assert_int_equal(sheaf_registry_load_default(registry, &error), 0);
    check_loaded(registry);
    setenv("SHEAF_PLUGINS", "/nowhere", 1);
    assert_int_equal(sheaf_registry_load_default(registry, &error), -ENOENT);
    assert_non_null(strstr(error.message, "/nowhere"));
    setenv("SHEAF_PLUGINS", "/proc/self/task", 1);
    assert_int_equal(sheaf_registry_load_default(registry, &error), SHEAF_E_ENVIRONMENT);
    assert_non_null(strstr(error.message, "no plug-in"));
    sheaf_registry_destroy(registry);

    /* Without the variable: the folder "ops" beside the image this code was loaded from. */
    unsetenv("SHEAF_PLUGINS");
    assert_int_equal(sheaf_registry_create(&registry), 0);
    if (sheaf_registry_load_default(registry, &error) != 0)
        fail_msg("%s", error.message);
    check_loaded(registry);
    sheaf_registry_destroy(registry);
    sheaf_registry_destroy(NULL);
}

static void test_status(void **state)
{
    assert_string_equal(sheaf_class_name(SHEAF_CLASS_MALFORMED), "malformed");
    assert_string_equal(sheaf_class_name(SHEAF_CLASS_NONE), "none");
    assert_string_equal(sheaf_class_name(SHEAF_CLASS_COUNT), "unknown");
    assert_string_equal(sheaf_class_name((enum sheaf_class) - 1), "unknown");
    for (unsigned i = 0; i < SHEAF_CLASS_COUNT; i++)
        assert_non_null(sheaf_class_name((enum sheaf_class)i));
    assert_string_equal(sheaf_status_text(SHEAF_E_CLOSED), "closed");
    assert_string_equal(sheaf_status_text(-ENOENT), "No such file or directory");
    assert_string_equal(sheaf_status_text(-4000), "unknown status");
    assert_string_equal(sheaf_version(), "0.1.0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_malformed), cmocka_unit_test(test_loading),
                                       cmocka_unit_test(test_default), cmocka_unit_test(test_status)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
