/* SPDX-License-Identifier: Apache-2.0 */
/* Every row of the refusal table: the row's number, and a line that names the step, the Port and the repair. */
#include "tests/program/program_test.h"

struct refusal {
    uint32_t row;
    const char *text;
    const char *says[4]; /* all of these stand in the message */
};

#define SOURCE "sources: {s: i64, l: list<i64>, b: bool, t: text}\n"
#define CHILD SOURCE "steps:\n- {call: f, op: range, in: s, out: g}\n- {expand: g, as: c}\n"
#define TWO CHILD "- {call: f2, op: range, in: s, out: g2}\n- {expand: g2, as: d}\n"

static const struct refusal refusals[] = {
    {1,
     SOURCE "steps:\n- {expand: l, as: c}\noutputs: c",
     {"t.yaml:3: expand \"c\"", "\"l\" is a source", "splits it"}},
    {1, CHILD "- {expand: c, as: d}\noutputs: d", {"expand \"d\"", "\"c\" is an expanded Port"}},
    {1, CHILD "- {gather: c, as: r}\n- {expand: r, as: d}\noutputs: d", {"expand \"d\"", "\"r\" is a gather"}},
    {1, CHILD "- {broadcast: g, like: c, as: d}\n- {expand: d, as: e}\noutputs: e", {"\"e\"", "\"d\" is a broadcast"}},
    {1, SOURCE "steps: [{filter: l, mask: b, as: x}, {expand: x, as: e}]\noutputs: e", {"\"e\"", "\"x\" is a filter"}},
    {1,
     SOURCE "steps: [{call: f, op: id, in: l, out: x}, {expand: x, as: e}]\noutputs: e",
     {"\"e\"", "\"x\"", "no group"}},
    {1, TWO "- {expand: [g, g2], as: [u, v]}\noutputs: u", {"expand \"u\"", "\"g\" and \"g2\"", "\"f\" and \"f2\""}},
    {1, CHILD "- {expand: [g, g], as: [u, v]}\noutputs: u", {"expand \"u\"", "\"g\"", "name it once"}},
    {2,
     SOURCE
     "steps:\n- {call: f, op: pair_expand, in: s, out: [g, h]}\n- {expand: g, as: a}\n- {expand: [g, h], as: [x, y]}\n"
     "outputs: [a, x]",
     {"t.yaml:5: expand \"x\"", "\"g\" is already expanded", "expand \"a\""}},
    {2,
     SOURCE "steps:\n- {call: f, op: pair_expand, in: s, out: [g, h]}\n- {expand: [g, h], as: [a, b2]}\n"
            "- {expand: [h, g], as: [x, y]}\noutputs: [a, x]",
     {"expand \"x\"", "same groups in the same order"}},
    {3, SOURCE "steps: [{gather: s, as: r}]\noutputs: r", {"gather \"r\"", "\"s\" lies in the root Domain"}},
    {3,
     CHILD "- {gather: c, members: b, as: r}\noutputs: r",
     {"gather \"r\"", "members \"b\" lies in the root Domain", "{broadcast: b, like: c}"}},
    {3,
     TWO "- {gather: [c, d], as: [r, q]}\noutputs: r",
     {"gather \"r\"", "value \"d\" lies in the Domain of \"d\"", "step of their own"}},
    {4,
     CHILD "- {call: a, op: add, in: [s, c], out: z}\noutputs: z",
     {"call \"a\"", "{broadcast: s, like: c}", "gather \"c\""}},
    {4,
     CHILD "- {call: a, op: add, in: [c, s], out: z}\noutputs: z",
     {"call \"a\"", "{broadcast: s, like: c}", "gather \"c\""}},
    {4, TWO "- {call: a, op: add, in: [c, d], out: z}\noutputs: z", {"call \"a\"", "\"c\" and \"d\"", "gather both"}},
    {5, CHILD "- {broadcast: c, like: s, as: x}\noutputs: x", {"broadcast \"x\"", "\"c\"", "goes up by gather"}},
    {5, TWO "- {broadcast: c, like: d, as: x}\noutputs: x", {"broadcast \"x\"", "\"c\"", "\"d\"", "common ancestor"}},
    {6, CHILD "- {filter: c, mask: b, as: x}\noutputs: x", {"filter \"x\"", "mask \"b\"", "broadcast or gather"}},
    {6, SOURCE "steps: [{filter: s, mask: s, as: x}]\noutputs: x", {"filter \"x\"", "mask \"s\" is i64", "bool"}},
    {6, CHILD "- {filter: s, mask: g, as: x}\noutputs: [x, c]", {"filter \"x\"", "mask \"g\" is list<i64>", "bool"}},
    {7,
     SOURCE "steps: [{call: f, op: neg, in: b, out: x}]\noutputs: x",
     {"call \"f\"", "Port \"b\" is bool", "must be i64"}},
    {7,
     SOURCE "steps: [{call: f, op: len, in: s, out: x}]\noutputs: x",
     {"call \"f\"", "Port \"s\" is i64", "list<any>"}},
    {7,
     SOURCE "steps: [{call: f, op: rnage, in: s, out: x}]\noutputs: x",
     {"call \"f\"", "\"rnage\"", "did you mean \"range\"?"}},
    {7,
     SOURCE "steps: [{call: f, op: add, in: s, out: x}]\noutputs: x",
     {"call \"f\"", "needs 2 inputs", "\"y\" is missing"}},
    {7, SOURCE "steps: [{call: f, op: neg, in: [s, b], out: x}]\noutputs: x", {"call \"f\"", "\"b\" is too many"}},
    {7,
     SOURCE "steps: [{call: f, op: minmax, in: [s, s], out: x}]\noutputs: x",
     {"call \"f\"", "has 2 outputs, 1 are named"}},
    {7,
     SOURCE "steps: [{call: f, op: nap, in: s, out: x}]\noutputs: x",
     {"call \"f\"", "needs option \"at\" (list<i64>)"}},
    {7,
     SOURCE "steps: [{call: f, op: range, in: s, out: x, with: {cup: 1}}]\noutputs: x",
     {"call \"f\"", "\"cup\"", "\"cap\"?"}},
    {7,
     SOURCE "steps: [{call: f, op: range, in: s, out: x, with: {cap: true}}]\noutputs: x",
     {"call \"f\"", "\"cap\" is bool", "must be i64"}},
    {7,
     SOURCE "steps: [{call: f, op: range, in: s, out: x, with: {stream: 1}}]\noutputs: x",
     {"call \"f\"", "\"stream\" is i64", "must be bool"}},
    {7,
     SOURCE "steps: [{call: f, op: join, in: l, out: x}]\noutputs: x",
     {"call \"f\"", "\"l\" is list<i64>", "list<text>"}},
    {7,
     SOURCE "steps: [{call: f, op: nap, in: s, out: x, with: {at: [1, a]}}]\noutputs: x",
     {"t.yaml:2: call \"f\"", "\"at\"", "only i64 or only text"}},
    {7,
     SOURCE "steps: [{call: f, op: nap, in: s, out: x, with: {at: null}}]\noutputs: x",
     {"t.yaml:2", "\"at\" is null"}},
    {7,
     SOURCE "steps: [{call: f, op: flaky, in: s, out: x, with: {at: [], how: crsh}}]\noutputs: x",
     {"call \"f\"", "\"how\" is \"crsh\"", "raise|crash"}},
    {7, CHILD "- {expand: g, as: [x, y]}\noutputs: x", {"expand \"x\"", "2 names", "one name for each"}},
    {8, SOURCE "steps: [{call: f, op: id, in: [], out: x}]\noutputs: x", {"call \"f\"", "no inputs", "give it"}},
    {8, "steps: []\noutputs: x", {"no source", "\"sources\""}},
    {8, SOURCE "steps: []\noutputs: []", {"no output", "\"outputs\""}},
    {9,
     SOURCE "steps:\n- {call: f, op: add, in: [s, y], out: x}\n- {call: h, op: neg, in: x, out: y}\noutputs: x",
     {"a cycle", "\"f\"", "\"h\"", "->"}},
    {9, SOURCE "steps: [{call: f, op: neg, in: x, out: x}]\noutputs: x", {"call \"f\"", "a cycle: \"f\" -> \"f\""}},
    {9,
     SOURCE "steps: [{call: f, op: neg, in: s, out: x}, {call: h, op: neg, in: s, out: x}]\noutputs: x",
     {"call \"h\"", "\"x\" is defined twice", "call \"f\""}},
    {9,
     SOURCE "steps: [{call: s, op: neg, in: s, out: x}]\noutputs: x",
     {"call \"s\"", "\"s\" is defined twice", "source"}},
    {9,
     SOURCE "steps: [{call: f, op: neg, in: pagse, out: pages}]\noutputs: pages",
     {"\"pagse\"", "did you mean \"pages\"?"}},
    {9, SOURCE "steps: [{call: f, op: neg, in: s, out: x}]\noutputs: f", {"output \"f\": this is a Call", "outputs"}},
    {9,
     SOURCE "steps: [{call: f, op: neg, in: s, out: page}]\noutputs: pag",
     {"t.yaml:3: output \"pag\"", "did you mean \"page\"?"}},
    {9,
     SOURCE "steps: [{call: f, op: neg, in: s, out: x}, {call: h, op: neg, in: f, out: y}]\noutputs: y",
     {"\"h\"", "\"f\" is a Call"}},
    {10,
     SOURCE "steps: [{call: f, op: neg, in: s, out: x, batch: 0}]\noutputs: x",
     {"call \"f\"", "\"batch\" is 0", "1048576"}},
    {10, SOURCE "steps: [{call: f, op: neg, in: s, out: x, batch: 1048577}]\noutputs: x", {"call \"f\"", "\"batch\""}},
    {10,
     SOURCE "steps: [{call: f, op: neg, in: s, out: x, replicas: 4097}]\noutputs: x",
     {"call \"f\"", "\"replicas\"", "4096"}},
    {10,
     SOURCE "steps: [{call: f, op: neg, in: s, out: x, timeout_ms: 86400001}]\noutputs: x",
     {"\"timeout_ms\"", "86400000"}},
    {10, SOURCE "steps: [{call: f, op: neg, in: s, out: x, timeout_ms: -1}]\noutputs: x", {"\"timeout_ms\" is -1"}},
    {10,
     SOURCE "steps: [{call: f, op: neg, in: s, out: x, recovery: retry, retries: 1001}]\noutputs: x",
     {"\"retries\" is 1001", "1000"}},
    {10,
     SOURCE "steps: [{call: f, op: neg, in: s, out: x, recovery: retry, retries: 1, backoff_ms: 86400001}]\noutputs: x",
     {"\"backoff_ms\"", "86400000"}},
    {10,
     SOURCE "steps: [{call: f, op: neg, in: s, out: x, recovery: retry}]\noutputs: x",
     {"without a retry", "\"retries\""}},
    {10,
     SOURCE "steps: [{call: f, op: neg, in: s, out: x, recovery: abort, retries: 2}]\noutputs: x",
     {"\"f\"", "\"abort\""}},
    {10, SOURCE "steps: [{call: f, op: neg, in: s, out: x, retries: 2}]\noutputs: x", {"\"f\"", "recovery: retry"}},
    {11,
     SOURCE "steps: [{call: f, op: neg, in: s, out: x, place: gpu}]\noutputs: x",
     {"call \"f\"", "\"neg\"", "place: cpu"}},
};

static void test_refusals(void **state)
{
    struct sheaf_registry *registry = test_registry();
    uint32_t rows = 0;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        const struct refusal *refusal = &refusals[i];
        struct sheaf_plan *plan;
        struct sheaf_error error;
        int status = try_compile(registry, refusal->text, NULL, 0, &plan, &error);
        if (status != SHEAF_E_REFUSED || error.row != refusal->row)
            fail_msg("status %d, row %u instead of %u: %s\n%s", status, error.row, refusal->row, error.message,
                     refusal->text);
        assert_null(plan);
        assert_int_equal(error.code, status);
        for (size_t j = 0; j < 4 && refusal->says[j]; j++)
            if (!strstr(error.message, refusal->says[j]))
                fail_msg("row %u: \"%s\" does not say: %s", refusal->row, error.message, refusal->says[j]);
        rows |= 1u << refusal->row;
    }
    assert_int_equal(rows, 0xffe); /* every row from 1 to 11 */
    sheaf_registry_destroy(registry);
}

static void test_warnings(void **state)
{
    struct sheaf_registry *registry = test_registry();
    struct sheaf_plan *plan = must_compile(registry, CHILD "- {call: n, op: len, in: g, out: x}\noutputs: x");
    uint32_t row = 0;
    const char *text = sheaf_plan_warning(plan, 0, &row);
    assert_int_equal(row, 12);
    assert_non_null(strstr(text, "t.yaml:4: expand \"c\""));
    assert_non_null(strstr(text, "Domain \"c\""));
    assert_null(sheaf_plan_warning(plan, 1, NULL));
    sheaf_plan_destroy(plan);

    plan = must_compile(registry, SOURCE
                        "steps: [{call: f, op: neg, in: s, out: x}, {call: h, op: neg, in: x, out: y}]\noutputs: x");
    text = sheaf_plan_warning(plan, 0, &row);
    assert_int_equal(row, 13);
    assert_non_null(strstr(text, "call \"h\""));
    assert_non_null(strstr(text, "\"y\""));
    assert_null(sheaf_plan_warning(plan, 1, NULL));
    assert_false(plan->calls[find_call(plan, "h")].live);
    sheaf_plan_destroy(plan);

    /* A gather closes a Domain though nobody reads it, and so does an output below. */
    plan = must_compile(registry, CHILD "- {gather: c, as: r}\noutputs: s");
    assert_int_equal(plan->warning_count, 1);
    assert_int_equal(plan->warnings[0].row, 13);
    sheaf_plan_destroy(plan);
    plan = must_compile(registry, CHILD "- {call: f2, op: range, in: c, out: g2}\n- {expand: g2, as: d}\noutputs: d");
    assert_int_equal(plan->warning_count, 0);
    sheaf_plan_destroy(plan);
    sheaf_registry_destroy(registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_refusals), cmocka_unit_test(test_warnings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
