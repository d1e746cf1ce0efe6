/* SPDX-License-Identifier: Apache-2.0 */
/* The YAML and JSON forms, overrides, and the building functions. */
#include <errno.h>

#include "tests/program/plan_check.h"

static struct sheaf_registry *registry;

/* Every error of the text names the line, and the nearest word where there is one. */
static void test_errors(void **state)
{
    static const struct {
        const char *text, *says[3];
    } wrong[] = {
        {"", {"t.yaml: ", "empty"}},
        {"# nothing\n", {"t.yaml: ", "empty"}},
        {"- a\n", {"t.yaml:1: ", "mapping"}},
        {"sources: {s: i64\noutputs: [s]\n", {"t.yaml:2", "not valid YAML"}},
        {"sources: {s: i64}\noutputs: s\n---\nsources: {}\n", {"t.yaml:4", "second document"}},
        {"sources: {s: i64}\nsteps: []\n\noutput: s\n",
         {"t.yaml:4: unknown key \"output\" in the program", "\"outputs\"?"}},
        {"sources: {s: i64}\nsources: {t: i64}\noutputs: s\n", {"t.yaml:2: key \"sources\" stands twice"}},
        {"sources: {s: i64,\n t: txt}\noutputs: s\n", {"t.yaml:2: source \"t\": unknown kind \"txt\""}},
        {"sources: {s: list<i64}\noutputs: s\n", {"t.yaml:1: source \"s\": unknown kind \"list<i64\""}},
        {"sources:\n  s: {kind: i64, row: []}\noutputs: s\n",
         {"t.yaml:2: source \"s\": unknown key \"row\"", "\"rows\"?"}},
        {"sources: [s]\noutputs: s\n", {"t.yaml:1: \"sources\" must be a mapping"}},
        {"sources: {s: i64}\nsteps: {a: b}\noutputs: s\n", {"t.yaml:2: \"steps\" must be a list"}},
        {"sources: {s: i64}\nsteps:\n- expnd: g\n  as: c\noutputs: s\n",
         {"t.yaml:3: a step needs one of", "\"expand\"?"}},
        {"sources: {s: i64}\nsteps:\n- {expand: g, gather: c, as: x}\noutputs: s\n", {"t.yaml:3: ", "two steps"}},
        {"sources: {s: i64}\nsteps:\n- call: f\n  op: neg\n  in: s\n  otu: x\noutputs: s\n",
         {"t.yaml:6: call", "unknown key \"otu\" in a call", "\"out\"?"}},
        {"sources: {s: i64}\nsteps:\n- {call: f, in: s, out: x}\noutputs: s\n",
         {"t.yaml:3: call \"f\": ", "key \"op\""}},
        {"sources: {s: i64}\nsteps:\n- {call: f, op: neg, out: x}\noutputs: s\n",
         {"t.yaml:3: call \"f\": ", "key \"in\""}},
        {"sources: {s: i64}\nsteps:\n- {gather: s, as: r, mode: partal}\noutputs: s\n",
         {"t.yaml:3: gather \"r\": \"mode\" cannot be \"partal\"", "\"partial\"?"}},
        {"sources: {s: i64}\nsteps:\n- {call: f, op: neg, in: s, out: x, batch: many}\noutputs: s\n",
         {"t.yaml:3: call \"f\": \"batch\" must be a whole number"}},
        {"sources: {s: i64}\nsteps:\n- {call: f, op: neg, in: s, out: x, batch: '3'}\noutputs: s\n", {"whole number"}},
        {"sources: {s: i64}\nsteps:\n- {call: f, op: neg, in: s, out: x, recovery: rtry}\noutputs: s\n",
         {"\"retry\"?"}},
        {"sources: {s: i64}\nsteps:\n- {call: f, op: neg, in: s, out: x, with: [a]}\noutputs: s\n",
         {"\"with\" must be a mapping"}},
        {"sources: {s: i64}\nsteps:\n- {filter: [s, s], mask: s, as: x}\noutputs: s\n",
         {"filter \"x\"", "one Port each"}},
        {"sources: {s: i64}\nsteps:\n- {filter: s, as: x}\noutputs: s\n",
         {"filter \"x\": the step needs the key \"mask\""}},
        {"sources: {s: i64}\nsteps:\n- {gather: [], as: x}\noutputs: s\n",
         {"gather \"x\": \"gather\" must not be empty"}},
        {"sources: {s: i64}\noutputs: {s: a}\n", {"t.yaml:2: \"outputs\" must be a list"}},
        {"sources: {s: i64}\noutputs: s\nfiles: {t: a}\n", {"t.yaml:3: \"files\" names \"t\", which is no output"}},
        {"sources: {s: i64}\noutputs: s\nfiles: {s: /tmp}\n", {"output \"s\": file pattern \"/tmp\": ", "absolute"}},
        {"sources: {s: i64}\noutputs: s\nfiles: {s: '../{name}'}\n", {"t.yaml:2", "\"..\""}},
        {"sources: {s: i64}\noutputs: s\nfiles: {s: a}\n", {"needs {name}"}},
        {"sources: {s: i64}\noutputs: s\nfiles: {s: '{name}{2}'}\n", {"a depth that"}},
        {"sources: {s: i64}\noutputs: s\nfiles: {s: '{nme}'}\n", {"{k:0w}"}},
        {"sources: {s: i64}\noutputs: s\nfiles: {s: '{name}}'}\n", {"without \"{\""}},
        {"sources: {s: i64, t: i64}\noutputs: [s, t]\nfiles: {s: '{name}', t: '{name}'}\n", {"another output"}},
        {"sources: {s: i64}\nsteps:\n- {call: f, op: range, in: s, out: g}\n- {expand: g, as: c}\noutputs: c\nfiles: "
         "{c: '{name}'}\n",
         {"t.yaml:5: output \"c\"", "every depth"}},
        {"sources: {\"s\\0t\": i64}\noutputs: s\n", {"NUL"}},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct sheaf_plan *plan;
        struct sheaf_error error;
        int status = try_compile(registry, wrong[i].text, NULL, 0, &plan, &error);
        if (status != SHEAF_E_USAGE || error.row != 0)
            fail_msg("status %d, row %u: %s\n%s", status, error.row, error.message, wrong[i].text);
        for (size_t j = 0; j < 3 && wrong[i].says[j]; j++)
            if (!strstr(error.message, wrong[i].says[j]))
                fail_msg("\"%s\" does not say: %s", error.message, wrong[i].says[j]);
    }
}

static const char *const yaml_form =
    "name: squares\n"
    "description: |\n  The squares of the numbers below n,\n  put together again.\n"
    "sources:\n  n: i64            # one number per root\n"
    "steps:\n"
    "  - call: count\n    op: range\n    in: n\n    out: [numbers]\n    with: {cap: 0x10}\n"
    "  - expand: numbers\n    as: number\n"
    "  - {call: square, op: mul, in: [number, number], out: squared}\n"
    "  - {call: label, op: join, in: texts, out: line, with: {sep: no}}\n"
    "  - {call: write, op: to_text, in: squared, out: word}\n"
    "  - {gather: word, as: texts}\n"
    "outputs: [line, word]\n"
    "files:\n  line: \"{name}.txt\"\n  word: \"{name}/{2:04}.txt\"\n";

static const char *const json_form =
    "{\"sources\": {\"n\": {\"kind\": \"i64\", \"rows\": [1, 2]}}, \"steps\": ["
    "{\"call\":\"count\",\"op\":\"range\",\"in\":[\"n\"],\"out\":[\"numbers\"],\"with\":{\"cap\":16}},\n"
    "\t{\"expand\": [\"numbers\"], \"as\": [\"number\"]},"
    "{\"call\": \"square\", \"op\": \"mul\", \"in\": [\"number\", \"number\"], \"out\": [\"squared\"]},"
    "{\"call\": \"label\", \"op\": \"join\", \"in\": [\"texts\"], \"out\": [\"line\"], \"with\": {\"sep\": "
    "\"n\\u006f\"}},"
    "{\"call\": \"write\", \"op\": \"to_text\", \"in\": [\"squared\"], \"out\": [\"word\"]},"
    "{\"gather\": [\"word\"], \"as\": [\"texts\"]}], \"outputs\": [\"line\", \"word\"],"
    "\"files\": {\"line\": \"{name}.txt\", \"word\": \"{name}/{2:04}.txt\"}}";

static void test_forms_agree(void **state)
{
    struct sheaf_plan *yaml = must_compile(registry, yaml_form), *json = must_compile(registry, json_form);
    check_plan(yaml);
    assert_string_equal(yaml->fingerprint, json->fingerprint);
    assert_string_equal(yaml->outputs[1].file, "{name}/{2:04}.txt");
    assert_string_equal(yaml->calls[find_call(yaml, "label")].options[0].text, "no"); /* no boolean */
    assert_int_equal(yaml->calls[find_call(yaml, "count")].options[0].i64, 16);
    sheaf_plan_destroy(json);
    sheaf_plan_destroy(yaml);
}

static void test_overrides(void **state)
{
    const char *text =
        "sources: {s: i64}\noutputs: x\nsteps:\n- {call: a.b, op: flaky, in: s, out: y, with: {at: [1], tag: t}}\n"
        "- {call: r, op: range, in: y, out: x}\n";
    const char *const overrides[] = {"a.b.at=2,-3", "a.b.tag=a=b", "r.stream=true", "r.cap=7",
                                     "?r.cap=8",    "?q.cap=1",    "?r.cup=1"};
    struct sheaf_plan *plan;
    struct sheaf_error error;
    assert_int_equal(try_compile(registry, text, overrides, 7, &plan, &error), 0);
    const struct sheaf_option_value *flaky = plan->calls[find_call(plan, "a.b")].options;
    const struct sheaf_option_value *range = plan->calls[find_call(plan, "r")].options;
    assert_true(flaky[0].count == 2 && flaky[0].i64s[0] == 2 && flaky[0].i64s[1] == -3);
    assert_string_equal(flaky[3].text, "a=b");
    assert_true(range[0].i64 == 8 && range[1].boolean);
    sheaf_plan_destroy(plan);

    static const struct {
        const char *override, *says;
    } wrong[] = {
        {"r.cap", "call.option=value"},
        {"q.cap=1", "no Call \"q\""},
        {"r.cup=1", "did you mean \"cap\"?"},
        {"r.cap=x", "takes a whole number"},
        {"a.b.at=1,x", "separated by commas"},
        {"r.stream=1", "true or false"},
        {"=", "call.option=value"},
        {"?r.cap=x", "takes a whole number"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(try_compile(registry, text, &wrong[i].override, 1, &plan, &error), SHEAF_E_USAGE);
        if (!strstr(error.message, wrong[i].says) ||
            !strstr(error.message, wrong[i].override + (wrong[i].override[0] == '?')))
            fail_msg("\"%s\" does not say: %s", error.message, wrong[i].says);
    }
}

/* The same program by calls: the same Plan. */
static void test_building(void **state)
{
    struct sheaf_program *program;
    assert_int_equal(sheaf_program_create(registry, &program), 0);
    const char *n = "n", *numbers = "numbers", *number = "number", *squared = "squared", *texts = "texts",
               *line = "line", *word = "word";
    const char *twice[] = {"number", "number"};
    struct sheaf_named_option cap = {"cap", {.type = SHEAF_OPTION_I64, .i64 = 16}};
    struct sheaf_named_option sep = {"sep", {.type = SHEAF_OPTION_TEXT, .text = "no"}};
    struct sheaf_call calls[] = {
        {.name = "write", .operator_name = "to_text", .inputs = &squared, .outputs = &word},
        {.name = "label",
         .operator_name = "join",
         .inputs = &texts,
         .outputs = &line,
         .options = &sep,
         .option_count = 1},
        {.name = "square", .operator_name = "mul", .inputs = twice, .outputs = &squared},
        {.name = "count",
         .operator_name = "range",
         .inputs = &n,
         .outputs = &numbers,
         .options = &cap,
         .option_count = 1},
    };
    for (size_t i = 0; i < 4; i++) {
        calls[i].size = sizeof(calls[i]);
        calls[i].input_count = i == 2 ? 2 : 1;
        calls[i].output_count = 1;
        assert_int_equal(sheaf_program_call(program, &calls[i]), 0);
    }
    assert_int_equal(sheaf_program_source(program, n, SHEAF_I64), 0);
    assert_int_equal(sheaf_program_gather(program, &word, &texts, 1, NULL, SHEAF_GATHER_STRICT), 0);
    assert_int_equal(sheaf_program_expand(program, &numbers, &number, 1), 0);
    assert_int_equal(sheaf_program_output(program, "line", "{name}.txt"), 0);
    assert_int_equal(sheaf_program_output(program, "word", "{name}/{2:04}.txt"), 0);

    /* What cannot be recorded leaves no step behind. */
    assert_int_equal(sheaf_program_source(program, "", SHEAF_I64), -EINVAL);
    assert_int_equal(sheaf_program_source(NULL, "a", SHEAF_I64), -EINVAL);
    assert_int_equal(sheaf_program_filter(program, "a", NULL, "b"), -EINVAL);
    assert_int_equal(sheaf_program_broadcast(program, "a", "", "b"), -EINVAL);
    assert_int_equal(sheaf_program_gather(program, &word, &texts, 1, NULL, (enum sheaf_gather_mode)7), -EINVAL);
    calls[0].operator_name = NULL;
    assert_int_equal(sheaf_program_call(program, &calls[0]), -EINVAL);

    struct sheaf_plan *built, *parsed = must_compile(registry, yaml_form);
    struct sheaf_error error = SHEAF_ERROR_INIT;
    if (sheaf_program_compile(program, &built, &error) != 0)
        fail_msg("%s", error.message);
    sheaf_program_destroy(program); /* the Plan stands alone */
    check_plan(built);
    assert_string_equal(built->fingerprint, parsed->fingerprint);
    assert_string_equal(built->ports[0].name, "n");
    sheaf_plan_destroy(parsed);
    sheaf_plan_destroy(built);
}

/* Deep and wide programs: no recursion, no square of their size that hurts. */
static void test_large(void **state)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    fputs("sources: {c0: i64, b: bool}\nsteps:\n", to);
    for (int i = 0; i < 1200; i++)
        fprintf(to, "- {call: f%d, op: range, in: c%d, out: g%d}\n- {expand: g%d, as: c%d}\n", i, i, i, i, i + 1);
    fputs("- {broadcast: b, like: c1200, as: y}\n- {filter: c1200, mask: y, as: x}\noutputs: x\n", to);
    fclose(to);
    struct sheaf_plan *plan = must_compile(registry, text);
    check_plan(plan);
    assert_int_equal(plan->domain_count, 1201);
    assert_int_equal(plan->domains[plan->ports[plan->outputs[0].port].domain].depth, 1201);
    sheaf_plan_destroy(plan);
    free(text);

    to = open_memstream(&text, &bytes);
    fputs("sources: {p0: i64}\nsteps:\n", to);
    for (int i = 4999; i >= 0; i--) /* the last one first */
        fprintf(to, "- {call: f%d, op: add, in: [p%d, p%d], out: p%d}\n", i, i, i / 2, i + 1);
    fputs("outputs: p5000\n", to);
    fclose(to);
    plan = must_compile(registry, text);
    check_plan(plan);
    assert_int_equal(plan->call_count, 5000);
    assert_int_equal(plan->calls[0].priority, 11); /* f4999 reads p2499, its maker p1249, ... f0 p0 */
    sheaf_plan_destroy(plan);
    free(text);

    to = open_memstream(&text, &bytes); /* 300 gathers of one value nest too deep */
    fputs("sources: {c0: i64}\nsteps:\n", to);
    for (int i = 0; i < 300; i++)
        fprintf(to, "- {call: f%d, op: range, in: c%d, out: g%d}\n- {expand: g%d, as: c%d}\n", i, i, i, i, i + 1);
    fputs("- {gather: c300, as: r300}\n", to);
    for (int i = 300; i > 1; i--)
        fprintf(to, "- {gather: r%d, as: r%d}\n", i, i - 1);
    fputs("outputs: r1\n", to);
    fclose(to);
    struct sheaf_error error;
    assert_int_equal(try_compile(registry, text, NULL, 0, &plan, &error), SHEAF_E_REFUSED);
    assert_int_equal(error.row, 7);
    assert_non_null(strstr(error.message, "255 lists"));
    free(text);
}

static int create(void **state)
{
    registry = test_registry();
    return 0;
}

static int destroy(void **state)
{
    sheaf_registry_destroy(registry);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors),   cmocka_unit_test(test_forms_agree), cmocka_unit_test(test_overrides),
        cmocka_unit_test(test_building), cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests(tests, create, destroy);
}
