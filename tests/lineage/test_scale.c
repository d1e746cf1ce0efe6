/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scale of the lineage core on one core: a parent with very many children, very deep nesting, memory linear in what
 * lives, and how many transitions a second of CPU time it makes. SHEAF_TEST_CHILDREN: children of the one parent
 * (10000000 is what the project promises; the tests take fewer). A Grain makes four transitions: it becomes READY, is
 * claimed, runs, is SEALED.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lineage/lineage.h"
#include "sched/sched.h"
#include "tests/common/compiled_plan.h"

enum { LEVELS = 1200, STACK_BYTES = 128 * 1024 };

struct machine {
    struct sheaf_registry *registry;
    struct sheaf_plan *plan;
    struct lineage *lineage;
    struct sched *sched;
    uint32_t children; /* of every row that expands */
    uint32_t complete, completed;
    uint64_t grains, values_made, values_unused, most_bytes;
};

static void on_ready(void *cookie, struct grain grain)
{
    struct machine *m = cookie;
    assert_int_equal(sched_ready(m->sched, grain), 0);
}

static enum lineage_found on_cancel(void *cookie, struct grain grain)
{
    struct machine *m = cookie;
    return sched_cancel(m->sched, grain) ? LINEAGE_KEPT_OUT : LINEAGE_RUNNING;
}

static void on_value_unused(void *cookie, const struct value_ref *value)
{
    struct machine *m = cookie;
    m->values_unused++;
}

static void on_root_complete(void *cookie, uint32_t root)
{
    struct machine *m = cookie;
    m->complete = root;
    m->completed++;
}

static void machine_make(struct machine *m, const char *text, uint32_t children)
{
    struct lineage_effects effects = {m, on_ready, on_cancel, on_value_unused, on_root_complete};
    *m = (struct machine){.children = children};
    compiled_plan(text, &m->registry, &m->plan);
    assert_int_equal(lineage_create(m->plan, &effects, &lineage_heap, &m->lineage), 0);
    assert_int_equal(sched_create(m->plan, &lineage_heap, &m->sched), 0);
}

static void machine_drop(struct machine *m)
{
    lineage_destroy(m->lineage);
    sched_destroy(m->sched);
    sheaf_plan_destroy(m->plan);
    sheaf_registry_destroy(m->registry);
}

static void run_grain(struct machine *m, struct grain grain)
{
    const struct value_ref value = {.kind = SHEAF_I64, .offset = 1};
    const struct plan_call *call = &m->plan->calls[grain.call];
    struct lineage_value input;
    lineage_hold(m->lineage, grain);
    lineage_started(m->lineage, grain);
    assert_int_equal(lineage_input(m->lineage, grain, 0, &input), 0);
    for (uint32_t i = 0; call->expansion_count && i < m->children; i++)
        assert_int_equal(lineage_child(m->lineage, grain, 0, i, &value), 0);
    m->values_made += call->expansion_count ? m->children : 1;
    assert_int_equal(lineage_answer(m->lineage, grain, &value, NULL), 0);
    sched_done(m->sched, grain);
    lineage_release_hold(m->lineage, grain);
    m->grains++;
    if (m->grains % 1000 == 1 && lineage_live_bytes(m->lineage) > m->most_bytes)
        m->most_bytes = lineage_live_bytes(m->lineage);
}

/* One root from admission to release. */
static void run_root(struct machine *m)
{
    const struct value_ref value = {.kind = SHEAF_I64, .offset = 1};
    struct sched_row row;
    uint32_t root;
    bool moved = true;
    assert_int_equal(lineage_admit(m->lineage, 0, &value, &root), 0);
    m->values_made++;
    while (moved) {
        moved = false;
        for (uint32_t call = m->plan->call_count; call-- > 0;)
            while (sched_next(m->sched, call, 0, &row)) {
                run_grain(m, row.grain);
                moved = true;
            }
    }
    assert_int_equal(m->completed, 1);
    assert_int_equal(lineage_root_status(m->lineage, m->complete), LINEAGE_OK);
    assert_int_equal(lineage_release_root(m->lineage, m->complete), 0);
    assert_int_equal(lineage_live_bytes(m->lineage), 0);
    assert_int_equal(m->values_made, m->values_unused);
}

static const char wide_text[] = "sources: {s: {kind: i64}}\n"
                                "steps:\n"
                                "- {call: open, op: range, in: [s], out: [g]}\n"
                                "- {expand: [g], as: [c]}\n"
                                "- {call: work, op: neg, in: [c], out: [d]}\n"
                                "- {gather: [d], as: [l]}\n"
                                "- {call: close, op: sum, in: [l], out: [y]}\n"
                                "outputs: [y]\n";

/* Bytes a child, at most, while all of them live. */
static double run_wide(uint32_t children)
{
    struct machine m;
    struct timespec from, to;
    machine_make(&m, wide_text, children);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    run_root(&m);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    double seconds = (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
    double each = (double)m.most_bytes / children;
    print_message(
        "%u children: %.1f bytes each, values of 2 x %zu among them; %.2f million transitions a second of CPU\n",
        children, each, sizeof(struct value_ref), (double)m.grains * 4 / seconds / 1e6);
    assert_int_equal(m.grains, (uint64_t)children + 2);
    machine_drop(&m);
    return each;
}

static void test_one_parent_with_many_children(void **state)
{
    const char *text = getenv("SHEAF_TEST_CHILDREN");
    uint32_t children = text ? (uint32_t)strtoul(text, NULL, 10) : 300000;
    double small = run_wide(children / 10), large = run_wide(children);
    assert_true(large < small * 1.1 && large > small * 0.9);
    assert_true(large < 2 * sizeof(struct value_ref) + 64);
}

/* Down 1,200 levels by expand and up again by gather: lists do not nest so deep, so each is summed on its way. */
static char *deep_text(void)
{
    size_t bytes = LEVELS * 320, used = 0;
    char *text = malloc(bytes);
    assert_non_null(text);
    used += (size_t)snprintf(text, bytes, "sources: {c0: {kind: i64}}\nsteps:\n");
    for (unsigned i = 0; i < LEVELS; i++)
        used += (size_t)snprintf(text + used, bytes - used,
                                 "- {call: r%u, op: range, in: [c%u], out: [g%u]}\n"
                                 "- {expand: [g%u], as: [c%u]}\n"
                                 "- {gather: [%s%u], as: [l%u]}\n"
                                 "- {call: s%u, op: sum, in: [l%u], out: [u%u]}\n",
                                 i, i, i, i, i + 1, i + 1 < LEVELS ? "u" : "c", i + 1, i, i, i, i);
    used += (size_t)snprintf(text + used, bytes - used, "outputs: [u0]\n");
    assert_true(used < bytes);
    return text;
}

static void *run_on_a_small_stack(void *machine)
{
    run_root(machine);
    return NULL;
}

static void test_deep_nesting_needs_no_stack(void **state)
{
    struct machine m;
    pthread_attr_t attributes;
    pthread_t thread;
    char *text = deep_text();
    machine_make(&m, text, 1);
    assert_int_equal(m.plan->domain_count, LEVELS + 1);
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, STACK_BYTES), 0);
    assert_int_equal(pthread_create(&thread, &attributes, run_on_a_small_stack, &m), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
    print_message("%u levels with a stack of %d KiB: %llu Grains, %llu bytes at most\n", LEVELS, STACK_BYTES / 1024,
                  (unsigned long long)m.grains, (unsigned long long)m.most_bytes);
    assert_int_equal(m.grains, 2 * LEVELS);
    machine_drop(&m);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_parent_with_many_children),
                                       cmocka_unit_test(test_deep_nesting_needs_no_stack)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
