/* SPDX-License-Identifier: Apache-2.0 */
/* What a Plan says about a Program: interned Ports, Domains, kinds, liveness, finality, priorities, Pools. */
#include "program/canonical.h"
#include "tests/program/plan_check.h"

static struct sheaf_registry *registry;

static struct sheaf_plan *plan_of(const char *text)
{
    struct sheaf_plan *plan = must_compile(registry, text);
    check_plan(plan);
    return plan;
}

#define SOURCES "sources: {s: i64, b: bool}\noutputs: "
#define CHILD "\nsteps:\n- {call: f, op: range, in: s, out: g}\n- {expand: g, as: c}\n"

/* The same expression written twice is one Port. */
static void test_interning(void **state)
{
    struct sheaf_plan *plan = plan_of(SOURCES "[r, r2, q, x, x2, y, y2, z, z2]" CHILD "- {expand: g, as: c2}\n"
                                              "- {broadcast: b, like: c, as: y}\n"
                                              "- {broadcast: b, like: c2, as: y2}\n"
                                              "- {broadcast: y, like: c, as: z}\n"  /* same Domain: y itself */
                                              "- {broadcast: c, like: y, as: z2}\n" /* same Domain: c itself */
                                              "- {filter: c, mask: y, as: x}\n"
                                              "- {filter: c2, mask: z, as: x2}\n"
                                              "- {gather: x, as: r}\n"
                                              "- {gather: x2, members: x, as: r2}\n"
                                              "- {gather: x, mode: partial, as: q}\n");
    uint32_t outputs[9];
    for (int i = 0; i < 9; i++)
        outputs[i] = plan->outputs[i].port;
    assert_int_equal(outputs[0], outputs[1]);
    assert_int_not_equal(outputs[0], outputs[2]);
    assert_int_equal(outputs[3], outputs[4]);
    assert_int_equal(outputs[5], outputs[6]);
    assert_int_equal(outputs[5], outputs[7]);
    assert_int_equal(outputs[8], find_port(plan, "c"));
    assert_string_equal(plan->outputs[1].name, "r2"); /* as written */
    assert_int_equal(plan->port_count, 8);            /* s b g c y x r q */
    assert_int_equal(plan->domain_count, 2);
    sheaf_plan_destroy(plan);
}

/* A chain of broadcasts is one broadcast from its start. */
static void test_broadcast_chain(void **state)
{
    struct sheaf_plan *plan = plan_of(SOURCES "[y, z]" CHILD "- {call: h, op: range, in: c, out: u}\n"
                                              "- {expand: u, as: d}\n"
                                              "- {broadcast: b, like: c, as: x}\n"
                                              "- {broadcast: x, like: d, as: y}\n"
                                              "- {broadcast: b, like: d, as: z}\n");
    uint32_t port = plan->outputs[0].port;
    assert_int_equal(port, plan->outputs[1].port);
    assert_int_equal(plan->ports[port].source, find_port(plan, "b"));
    assert_int_equal(plan->domains[plan->ports[port].domain].depth, 3);
    assert_false(plan->ports[find_port(plan, "x")].live);
    sheaf_plan_destroy(plan);
}

static void test_kinds(void **state)
{
    struct sheaf_plan *plan =
        plan_of("sources: {s: 'list<list<file>>', n: i64}\noutputs: [p, h, r, k, q, w]\nsteps:\n"
                "- {call: f, op: split, in: s, out: g}\n- {expand: g, as: p}\n- {call: i, op: id, in: p, out: h}\n"
                "- {gather: h, as: r}\n- {call: j, op: flat, in: r, out: q}\n"
                "- {call: c, op: const, in: n, out: k, with: {value: true}}\n- {filter: n, mask: k, as: w}\n");
    static const struct {
        const char *name;
        sheaf_kind kind;
    } wanted[] = {{"g", SHEAF_LIST_OF(SHEAF_FILE, 2)},
                  {"p", SHEAF_LIST_OF(SHEAF_FILE, 1)},
                  {"h", SHEAF_LIST_OF(SHEAF_FILE, 1)},
                  {"r", SHEAF_LIST_OF(SHEAF_FILE, 2)},
                  {"q", SHEAF_LIST_OF(SHEAF_FILE, 1)},
                  {"k", SHEAF_BOOL},
                  {"w", SHEAF_I64}};
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        assert_int_equal(plan->ports[find_port(plan, wanted[i].name)].kind, wanted[i].kind);
    struct sheaf_plan_port port = {.size = sizeof(port)};
    assert_int_equal(sheaf_plan_output(plan, 0, &port), 0);
    assert_string_equal(port.name, "p");
    assert_int_equal(port.depth, 2);
    assert_int_equal(sheaf_plan_source(plan, 1, &port), 0);
    assert_string_equal(port.name, "n");
    assert_int_equal(sheaf_plan_source(plan, 2, &port), -2);
    sheaf_plan_destroy(plan);
}

/* Options in order of declaration, with defaults. */
static void test_options(void **state)
{
    struct sheaf_plan *plan =
        plan_of(SOURCES "y\nsteps: [{call: f, op: flaky, in: s, out: y, with: {how: crash, at: [3, -4]}}]");
    const struct sheaf_option_value *options = plan->calls[0].options;
    assert_int_equal(options[0].type, SHEAF_OPTION_I64_LIST);
    assert_int_equal(options[0].count, 2);
    assert_int_equal(options[0].i64s[1], -4);
    assert_int_equal(options[1].i64, 1);
    assert_string_equal(options[2].text, "crash");
    assert_string_equal(options[3].text, "");
    sheaf_plan_destroy(plan);
}

/* Everything that feeds an output or a side effect lives, and nothing else. */
static void test_liveness(void **state)
{
    struct sheaf_plan *plan =
        plan_of(SOURCES "x" CHILD "- {broadcast: b, like: c, as: x}\n" /* c is used by like only */
                        "- {call: m, op: neg, in: c, out: y}\n"
                        "- {call: n, op: neg, in: s, out: z}\n"
                        "- {call: o, op: tap, in: z, out: t}\n");
    assert_true(plan->calls[find_call(plan, "f")].live);
    assert_false(plan->calls[find_call(plan, "m")].live);
    assert_true(plan->calls[find_call(plan, "n")].live);
    assert_true(plan->calls[find_call(plan, "o")].live);
    assert_true(plan->ports[find_port(plan, "z")].live);
    assert_false(plan->ports[find_port(plan, "t")].live);
    assert_false(plan->ports[find_port(plan, "c")].live);
    assert_int_equal(plan->warning_count, 1);
    assert_int_equal(plan->calls[find_call(plan, "f")].priority, 0); /* it opens the Domain of x */
    assert_int_equal(plan->calls[find_call(plan, "n")].priority, 1);
    assert_int_equal(plan->calls[find_call(plan, "o")].priority, 0);
    sheaf_plan_destroy(plan);
}

static void test_priorities(void **state)
{
    struct sheaf_plan *plan = plan_of(SOURCES "[w, y]" CHILD "- {call: m, op: neg, in: c, out: y}\n"
                                              "- {gather: y, as: r}\n"
                                              "- {call: k, op: sum, in: r, out: v}\n"
                                              "- {call: e, op: neg, in: v, out: w}\n");
    static const struct {
        const char *call;
        uint32_t priority;
    } wanted[] = {{"e", 0}, {"k", 1}, {"m", 0}, {"f", 1}};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(plan->calls[find_call(plan, wanted[i].call)].priority, wanted[i].priority);
    sheaf_plan_destroy(plan);
    plan = plan_of(SOURCES "w\nsteps:\n- {call: d, op: neg, in: s, out: x}\n- {call: e, op: neg, in: x, out: y}\n"
                           "- {call: h, op: neg, in: y, out: w}\n");
    assert_int_equal(plan->calls[find_call(plan, "d")].priority, 2);
    sheaf_plan_destroy(plan);
}

#define FAILING "- {call: q, op: fail_group_if, in: c, out: y, with: {at: [1]}}\n"
#define FAIL_ROOT(in) "- {call: z, op: fail_root_if, in: " in ", out: z1, with: {at: [1]}}\n"

static void check_final(const char *steps, const char *output, bool partial, bool call)
{
    char text[2048];
    snprintf(text, sizeof(text), SOURCES "%s%s", output, steps);
    struct sheaf_plan *plan = plan_of(text);
    for (uint32_t i = 0; i < plan->port_count; i++)
        if (plan->ports[i].partial && plan->ports[i].needs_final != partial)
            fail_msg("Port %s: needs_final is not %d:\n%s", plan->ports[i].name, partial, text);
    for (uint32_t i = 0; i < plan->call_count; i++)
        if (plan->calls[i].needs_final != (call && strcmp(plan->calls[i].name, "z") == 0))
            fail_msg("Call %s: wrong needs_final:\n%s", plan->calls[i].name, text);
    sheaf_plan_destroy(plan);
}

static void test_finality(void **state)
{
    /* A partial gather waits where a group failure can still reach its members. */
    check_final(CHILD "- {gather: c, mode: partial, as: r}\n", "r", false, false);
    check_final(CHILD FAILING "- {gather: y, mode: partial, as: r}\n", "r", true, false);
    check_final(CHILD FAILING "- {gather: y, as: r}\n", "r", false, false);
    /* In the root Domain nobody has siblings. */
    check_final("\nsteps:\n- {call: q, op: fail_group_if, in: s, out: y, with: {at: []}}\n"
                "- {call: f, op: range, in: y, out: g}\n- {expand: g, as: c}\n- {gather: c, mode: partial, as: r}\n",
                "r", false, false);
    /* As a mask or as members it counts too. */
    check_final(CHILD FAILING "- {call: i, op: is_even, in: y, out: m}\n- {filter: c, mask: m, as: x}\n"
                              "- {gather: x, mode: partial, as: r}\n",
                "r", true, false);
    check_final(CHILD FAILING "- {gather: c, members: y, mode: partial, as: r}\n", "r", true, false);
    /* An Entity under an Expansion that reads FAILED reads S whatever the Port. */
    check_final(CHILD FAILING "- {call: h, op: range, in: y, out: u}\n- {expand: u, as: d}\n"
                              "- {broadcast: s, like: d, as: x}\n- {gather: x, mode: partial, as: r}\n",
                "r", true, false);
    /* A Call that may fail the root waits, with or without a gather before it; below the root also for the Expansion
     * above, which any Call can fail. */
    check_final("\nsteps:\n" FAIL_ROOT("s"), "z1", false, false);
    check_final(CHILD FAIL_ROOT("c"), "z1", false, true);
    check_final(CHILD FAILING FAIL_ROOT("y"), "z1", false, true);
    /* One that may fail its group waits only behind a gather. */
    check_final(CHILD FAILING "- {call: z, op: fail_group_if, in: y, out: w, with: {at: []}}\n", "w", false, false);
    check_final(CHILD "- {call: h, op: range, in: c, out: u}\n- {expand: u, as: d}\n"
                      "- {call: q, op: fail_group_if, in: d, out: y, with: {at: []}}\n- {gather: y, as: r}\n"
                      "- {call: k, op: sum, in: r, out: v}\n"
                      "- {call: z, op: fail_group_if, in: v, out: w, with: {at: []}}\n",
                "w", false, true);
}

static void test_pools(void **state)
{
    struct sheaf_plan *plan = plan_of(
        SOURCES
        "[x, y, z]\nsteps:\n- {call: d, op: neg, in: s, out: u}\n"
        "- {call: f, op: neg, in: s, out: x, pool: p, replicas: 2}\n"
        "- {call: h, op: neg, in: x, out: y, pool: p, replicas: 5, batch: 7, batch_bytes: 4096, timeout_ms: 9}\n"
        "- {call: k, op: neg, in: s, out: z, recovery: retry, retries: 3, backoff_ms: 4}\n");
    const struct plan_call *h = &plan->calls[find_call(plan, "h")], *k = &plan->calls[find_call(plan, "k")];
    assert_int_equal(plan->pool_count, 3);
    assert_int_equal(h->pool, plan->calls[find_call(plan, "f")].pool);
    assert_int_equal(plan->pools[h->pool].replicas, 5);
    assert_string_equal(plan->pools[h->pool].name, "p");
    assert_int_equal(plan->pools[h->pool].call_count, 2);
    assert_int_equal(plan->calls[find_call(plan, "d")].pool, 2); /* nobody needs it: last, without Calls */
    assert_int_equal(plan->pools[2].call_count, 0);
    assert_int_equal(h->batch_rows, 7);
    assert_int_equal(h->batch_bytes, 4096);
    assert_int_equal(k->batch_bytes, 0);
    assert_int_equal(h->timeout_ms, 9);
    assert_true(k->recovery == SHEAF_RECOVERY_RETRY && k->retries == 3 && k->backoff_ms == 4);
    sheaf_plan_destroy(plan);
}

/* The fingerprint follows what can change an output and nothing else. */
static void test_fingerprint(void **state)
{
    static const char *const variants[] = {
        /* 0 and 1 are equal: order of steps, batch, a dead Call */
        SOURCES "[y]" CHILD "- {call: m, op: flaky, in: c, out: y, with: {at: [1]}}\n",
        "sources: {s: i64, b: bool}\noutputs: [y]\nsteps:\n- {call: dead, op: neg, in: s, out: n}\n"
        "- {call: m, op: flaky, in: c, out: y, batch: 3, with: {at: [1]}}\n- {expand: g, as: c}\n"
        "- {call: f, op: range, in: s, out: g}\n",
        SOURCES "[y]" CHILD "- {call: m, op: flaky, in: c, out: y, with: {at: [2]}}\n",
        SOURCES "[y]" CHILD "- {call: m, op: crash_if, in: c, out: y, with: {at: [1]}}\n",
        SOURCES "[y, b]" CHILD "- {call: m, op: flaky, in: c, out: y, with: {at: [1]}}\n",
        SOURCES "[y]\nfiles: {y: '{name}-{2}'}" CHILD "- {call: m, op: flaky, in: c, out: y, with: {at: [1]}}\n",
        SOURCES "[y]" CHILD "- {call: m, op: flaky, in: c, out: y, with: {at: [1]}, timeout_ms: 5}\n",
    };
    char fingerprints[7][65];
    for (size_t i = 0; i < 7; i++) {
        struct sheaf_plan *plan = plan_of(variants[i]);
        strcpy(fingerprints[i], sheaf_plan_fingerprint(plan));
        sheaf_plan_destroy(plan);
    }
    assert_string_equal(fingerprints[0], fingerprints[1]);
    for (size_t i = 1; i < 7; i++)
        for (size_t j = i + 1; j < 7; j++)
            assert_string_not_equal(fingerprints[i], fingerprints[j]);
}

static void test_describe(void **state)
{
    struct sheaf_plan *plan =
        plan_of(SOURCES "[r]\nfiles: {r: '{name}-{2}.txt'}" CHILD "- {gather: c, mode: partial, as: r}\n");
    char *text;
    assert_int_equal(sheaf_plan_describe(plan, "text", &text), 0);
    assert_non_null(strstr(text, "port r: list<i64> = partial gather c"));
    assert_non_null(strstr(text, "call f: range 1 (s) -> (g)"));
    assert_null(strstr(text, "option f.")); /* none is given */
    assert_non_null(strstr(text, "domain c (depth 2)"));
    assert_non_null(strstr(text, "output r in files {name}-{2}.txt"));
    free(text);
    assert_int_equal(sheaf_plan_describe(plan, "dot", &text), 0);
    assert_non_null(strstr(text, "digraph plan {"));
    assert_string_equal(text + strlen(text) - 2, "}\n");
    free(text);
    assert_int_equal(sheaf_plan_describe(plan, "svg", &text), SHEAF_E_USAGE);
    assert_int_equal(plan_canonical_text(plan, &text), 0);
    assert_non_null(strstr(text, "call \"f\" op=\"range\" version=\"1\" in=\"s\" out=\"g\" cap=1000000 stream=false"));
    free(text);
    sheaf_plan_destroy(plan);
}

static int run(void *state, const struct sheaf_row *row, char *message)
{
    return -1;
}

/* An operator with what those of the conformance cases lack: one variable at two places, an input that may be left out,
 * ranges, and the other types of options. */
static const struct sheaf_port rich_inputs[] = {{"x", SHEAF_ANY, 0, NULL},
                                                {"xs", SHEAF_LIST_OF(SHEAF_ANY, 1), 0, NULL},
                                                {"extra", SHEAF_I64, SHEAF_PORT_OPTIONAL, NULL}};
static const struct sheaf_port rich_outputs[] = {{"y", SHEAF_LIST_OF(SHEAF_ANY, 2), 0, NULL}};
static const struct sheaf_option rich_options[] = {
    {.name = "n", .type = SHEAF_OPTION_I64, .fallback = {.type = SHEAF_OPTION_I64, .i64 = 3}, .min = 1, .max = 5},
    {.name = "rate", .type = SHEAF_OPTION_F64, .fallback = {.type = SHEAF_OPTION_F64, .f64 = 0.5}},
    {.name = "languages", .type = SHEAF_OPTION_TEXT_LIST, .fallback = {.type = SHEAF_OPTION_TEXT_LIST}},
    {.name = "bins", .type = SHEAF_OPTION_I64_LIST, .fallback = {.type = SHEAF_OPTION_I64_LIST}, .min = 0, .max = 9},
};
static const struct sheaf_operator rich = {
    .size = sizeof(rich),
    .name = "rich",
    .version = "2",
    .inputs = rich_inputs,
    .outputs = rich_outputs,
    .options = rich_options,
    .input_count = 3,
    .output_count = 1,
    .option_count = 4,
    .timeout_ms = 77,
    .batch_rows = 9,
    .run = run,
};
static const struct sheaf_operator *const rich_operators[] = {&rich};
static const struct sheaf_plugin rich_plugin = {
    .size = sizeof(rich_plugin),
    .abi = SHEAF_OPERATOR_ABI,
    .name = "rich",
    .version = "1",
    .operators = rich_operators,
    .operator_count = 1,
};

#define RICH "sources: {t: text, l: list<text>, i: i64}\noutputs: y\nsteps:\n- {call: f, op: rich, out: y, "

static void test_rich_operator(void **state)
{
    struct sheaf_plan *plan = plan_of(RICH "in: [t, l]}");
    const struct plan_call *call = &plan->calls[0];
    assert_int_equal(plan->ports[find_port(plan, "y")].kind, SHEAF_LIST_OF(SHEAF_TEXT, 2));
    assert_true(call->input_count == 2 && call->timeout_ms == 77 && call->batch_rows == 9);
    assert_true(call->options[0].i64 == 3 && call->options[1].f64 == 0.5 && call->options[2].count == 0);
    sheaf_plan_destroy(plan);

    plan = plan_of(RICH "in: [t, l, i], with: {n: 5, rate: 2, languages: [eng, '12'], bins: []}}");
    call = &plan->calls[0];
    assert_true(call->input_count == 3 && call->options[0].i64 == 5);
    assert_true(call->options[1].type == SHEAF_OPTION_F64 && call->options[1].f64 == 2.0);
    assert_string_equal(call->options[2].texts[1], "12");
    sheaf_plan_destroy(plan);

    static const struct {
        const char *text, *says;
    } wrong[] = {
        {RICH "in: [i, l]}", "Port \"l\" is list<text>, but input \"xs\" of operator \"rich\" must be list<i64>"},
        {RICH "in: [t]}", "\"xs\" is missing"},
        {RICH "in: [t, l, i, i]}", "too many"},
        {RICH "in: [t, l], with: {n: 6}}", "\"n\" is 6; write one between 1 and 5"},
        {RICH "in: [t, l], with: {bins: [1, 10]}}", "\"bins\" is 10"},
        {RICH "in: [t, l], with: {languages: [1]}}", "\"languages\" is list<i64>, but must be list<text>"},
        {RICH "in: [t, l], with: {rate: fast}}", "\"rate\" is text, but must be f64"},
        {RICH "in: [t, l], with: {n: 1, n: 2}}", "given twice"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct sheaf_error error;
        assert_int_equal(try_compile(registry, wrong[i].text, NULL, 0, &plan, &error), SHEAF_E_REFUSED);
        if (error.row != 7 || !strstr(error.message, wrong[i].says))
            fail_msg("row %u, \"%s\" does not say: %s", error.row, error.message, wrong[i].says);
    }
}

static int create(void **state)
{
    registry = test_registry();
    assert_int_equal(registry_add_plugin(registry, &rich_plugin, NULL, NULL), 0);
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
        cmocka_unit_test(test_interning), cmocka_unit_test(test_broadcast_chain), cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_options),   cmocka_unit_test(test_liveness),        cmocka_unit_test(test_priorities),
        cmocka_unit_test(test_finality),  cmocka_unit_test(test_pools),           cmocka_unit_test(test_fingerprint),
        cmocka_unit_test(test_describe),  cmocka_unit_test(test_rich_operator),
    };
    return cmocka_run_group_tests(tests, create, destroy);
}
