/* SPDX-License-Identifier: Apache-2.0 */
/* What feeds what, and what is coming. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "sched/upstream.h"
#include "tests/common/compiled_plan.h"

static const char text[] = "sources: {x: {kind: i64}}\n"
                           "steps:\n"
                           "- {call: make, op: range, in: [x], out: [g]}\n"
                           "- {expand: [g], as: [c]}\n"
                           "- {call: test, op: is_even, in: [c], out: [even]}\n"
                           "- {call: work, op: neg, in: [c], out: [d]}\n"
                           "- {filter: d, mask: even, as: e}\n"
                           "- {call: last, op: neg, in: [e], out: [f]}\n"
                           "- {gather: [f], as: [l]}\n"
                           "- {call: total, op: sum, in: [l], out: [t]}\n"
                           "- {broadcast: t, like: c, as: u}\n"
                           "- {call: each, op: neg, in: [u], out: [v]}\n"
                           "outputs: [v]\n";

static uint32_t call_named(const struct sheaf_plan *plan, const char *name)
{
    for (uint32_t i = 0; i < plan->call_count; i++)
        if (strcmp(plan->calls[i].name, name) == 0)
            return i;
    fail_msg("no Call %s", name);
    return 0;
}

/* The makers of a Call, as "name" or "name*" by expansion, in order of number. */
static void check_makers(const struct upstream_map *map, const char *call, const char *wanted)
{
    const struct upstream *upstream = &map->calls[call_named(map->plan, call)];
    char found[128] = "";
    for (uint32_t number = 0; number < map->plan->call_count; number++)
        for (uint32_t i = 0; i < upstream->maker_count; i++) {
            if (upstream->makers[i].call != number)
                continue;
            strcat(strcat(found, map->plan->calls[number].name), upstream->makers[i].by_expansion ? "* " : " ");
        }
    assert_string_equal(found, wanted);
}

static void test_makers(void **state)
{
    struct sheaf_registry *registry;
    struct sheaf_plan *plan;
    struct upstream_map map;
    compiled_plan(text, &registry, &plan);
    assert_int_equal(upstream_open(&map, plan, &lineage_heap), 0);
    check_makers(&map, "make", "");
    check_makers(&map, "work", "make* ");
    check_makers(&map, "last", "test work ");
    check_makers(&map, "total", ""); /* nobody waits across a gather */
    check_makers(&map, "each", "make* ");
    static const char *const above_total[] = {"make", "test", "work", "last"};
    for (uint32_t i = 0; i < 4; i++)
        assert_true(upstream_leads_to(&map, call_named(plan, above_total[i]), call_named(plan, "total")));
    assert_true(upstream_leads_to(&map, call_named(plan, "total"), call_named(plan, "each")));
    assert_true(upstream_leads_to(&map, call_named(plan, "test"), call_named(plan, "each")));
    assert_false(upstream_leads_to(&map, call_named(plan, "total"), call_named(plan, "last")));
    assert_false(upstream_leads_to(&map, call_named(plan, "last"), call_named(plan, "last")));
    upstream_close(&map);
    sheaf_plan_destroy(plan);
    sheaf_registry_destroy(registry);
}

static void test_coming(void **state)
{
    static const struct upstream_maker one = {0, false}, many = {0, true};
    struct upstream_state does = {.queued = 5, .idle = 2, .running = 3, .emitted = 7, .children_mean = 10};
    assert_true(upstream_coming(&one, &does) == 5); /* what runs, and what an idle worker takes at once */
    assert_true(upstream_coming(&many, &does) == 43);
    does.emitted = 100; /* they have more than usual: each may make one more */
    assert_true(upstream_coming(&many, &does) == 5);
    does.running = does.idle = 0; /* rows without a worker are not coming */
    assert_true(upstream_coming(&one, &does) == 0);
    struct upstream_children children = {0};
    upstream_answered(&children, 4);
    upstream_answered(&children, 8);
    assert_true(children.mean == 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_makers), cmocka_unit_test(test_coming)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
