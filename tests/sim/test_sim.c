/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator: page lists are exactly as published, a run is a function of its seed, nothing leaks, and every
 * experiment reaches its target. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "sim/experiment.h"

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void check_list(enum page_list list, uint32_t documents, uint64_t pages)
{
    uint32_t count;
    uint64_t sum;
    free(page_list_make(list, &count, &sum));
    assert_int_equal(count, documents);
    assert_int_equal(sum, pages);
}

static void test_page_lists(void **state)
{
    check_list(LIST_C48, 48, 992);
    check_list(LIST_C368, 368, 7072);
    check_list(LIST_C160, 160, 3584);
    check_list(LIST_CBIG, 3689, 174744);
    check_list(LIST_CMIX, 128, 2758);
    check_list(LIST_CTAIL, 1885, 45507);
    check_list(LIST_CTOP8, 8, 2928);
}

static uint64_t sum_of(const uint32_t *pages, uint32_t from, uint32_t to)
{
    uint64_t sum = 0;
    for (uint32_t i = from; i < to; i++)
        sum += pages[i];
    return sum;
}

static void test_cbig(void **state)
{
    static const uint32_t top[] = {427, 395, 390, 376, 374, 334, 322, 310, 302, 298,
                                   295, 293, 287, 280, 276, 274, 273, 272, 270, 263};
    uint32_t count;
    uint64_t sum;
    uint32_t *pages = page_list_make(LIST_CBIG, &count, &sum);
    uint64_t books = sum_of(pages, 0, 1689), papers = sum_of(pages, 1689, count);
    assert_true(books / 1689 > 75 && papers / 2000 < 25);
    qsort(pages, count, sizeof(*pages), compare);
    assert_int_equal(pages[0], 1);
    assert_int_equal(pages[1844], 24);
    assert_int_equal(pages[3319], 125);
    assert_int_equal(pages[3320], 125);
    assert_int_equal(pages[3503], 162);
    assert_int_equal(pages[3504], 162);
    assert_int_equal(pages[3651], 236);
    assert_int_equal(pages[3652], 236);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(pages[count - 1 - i], top[i]);
    assert_true(pages[1785] <= 23 && pages[1786] > 23);
    assert_int_equal(sum_of(pages, 0, 1786), 21894);
    assert_true(pages[3590] >= 192 && pages[3589] < 192);
    assert_int_equal(sum_of(pages, 3590, count), 23613);
    free(pages);
}

static void check_experiment(const char *name)
{
    struct experiment_options options = {.setup = {.seed = 1}, .dial = UINT32_MAX};
    struct experiment_report *report = calloc(1, sizeof(*report));
    assert_non_null(report);
    int status = experiment_run(name, &options, report);
    if (status)
        print_error("%s: %s\n", name, report->problem);
    assert_int_equal(status, 0);
    assert_true(report->target_count > 0);
    for (uint32_t i = 0; i < report->line_count; i++) {
        assert_true(report->lines[i].bound_s == 0 || report->lines[i].makespan_s >= report->lines[i].bound_s * 0.999);
    }
    for (uint32_t i = 0; i < report->target_count; i++) {
        const struct experiment_target *target = &report->targets[i];
        if (!target->reached)
            print_error("%s: %s is %g, wanted %g\n", name, target->text, target->value, target->wanted);
        assert_true(target->reached);
    }
    free(report);
}

static void test_targets(void **state)
{
    for (const char *const *name = experiment_names(); *name; name++)
        check_experiment(*name);
}

static void test_a_seed_is_a_run(void **state)
{
    struct experiment_report *reports = calloc(3, sizeof(*reports));
    assert_non_null(reports);
    for (uint64_t i = 0; i < 3; i++) {
        struct experiment_options options = {.setup = {.seed = i < 2 ? 7 : 8, .spread_percent = 20},
                                             .dial = UINT32_MAX};
        assert_int_equal(experiment_run("E2", &options, &reports[i]), 0);
    }
    assert_true(reports[0].lines[0].makespan_s == reports[1].lines[0].makespan_s);
    assert_true(reports[0].lines[0].makespan_s != reports[2].lines[0].makespan_s);
    free(reports);
}

/* ---- everything that can go wrong, at once ---- */

static enum sim_fault some_faults(void *cookie, uint32_t call, const uint64_t *at, uint32_t depth, uint32_t attempt)
{
    uint64_t hash = (at[0] * 31 + (depth > 1 ? at[1] : 99)) * 0x9E3779B97F4A7C15ull + call;
    static const enum sim_fault faults[] = {SIM_FAILS_ITEM, SIM_FAILS_GROUP, SIM_RAISES, SIM_CRASHES, SIM_HANGS};
    hash ^= hash >> 31;
    if (hash % 23 != 0 || (depth == 1 && hash % 2))
        return SIM_ANSWERS;
    enum sim_fault fault = faults[hash / 23 % 5];
    return fault == SIM_FAILS_GROUP && depth == 1 ? SIM_FAILS_ITEM : fault;
}

static const char rough_text[] =
    "sources: {d: {kind: i64}}\n"
    "steps:\n"
    "- {call: render, op: sim.expand, in: [d], out: [g], batch: 2, pool: render, recovery: retry, retries: 1}\n"
    "- {expand: [g], as: [p]}\n"
    "- {call: look, op: sim.batch_group, in: [p], out: [q], batch: 7, pool: gpu}\n"
    "- {call: read, op: sim.batch, in: [q], out: [t], batch: 5, pool: gpu}\n"
    "- {call: note, op: sim.row, in: [q], out: [n], batch: 3, pool: render}\n"
    "- {gather: [t], mode: partial, as: [l]}\n"
    "- {gather: [n], as: [m]}\n"
    "- {call: put, op: sim.assemble, in: [l], out: [o], pool: gpu}\n"
    "outputs: [o, m]\n";

static void test_faults_lose_nothing(void **state)
{
    struct sheaf_registry *registry;
    struct sheaf_plan *plan;
    struct sheaf_error error = SHEAF_ERROR_INIT;
    uint32_t roots[60], faulty = 0;
    struct sim_service services[8];
    assert_int_equal(sim_registry_create(&registry), 0);
    int status = sim_compile(registry, rough_text, &plan, &error);
    if (status)
        print_error("%s\n", error.message);
    assert_int_equal(status, 0);
    for (uint32_t i = 0; i < 60; i++)
        roots[i] = i % 19;
    for (uint32_t i = 0; i < 8; i++)
        services[i] = (struct sim_service){.fixed_us = 300, .row_us = 100, .child_us = 50};
    for (uint64_t seed = 1; seed <= 200; seed++) {
        const uint32_t devices[] = {1 + seed % 4, 1 + seed % 5};
        struct sim_result result;
        struct sim_setup setup = {.plan = plan,
                                  .services = services,
                                  .roots = roots,
                                  .root_count = 60,
                                  .window = (uint32_t)(seed % 3) * 5,
                                  .devices_of_pool = devices,
                                  .dial = (uint32_t)(seed % 4),
                                  .spread_percent = 50,
                                  .restart_us = 700,
                                  .seed = seed,
                                  .fault = some_faults};
        assert_int_equal(sim_run(&setup, &result), 0);
        assert_int_equal(result.values_made, result.values_unused);
        uint64_t ended = 0;
        for (uint32_t i = 0; i < 4; i++)
            ended += result.roots_by_status[i];
        assert_int_equal(ended, 60);
        if (seed > 1)
            assert_int_equal(result.roots_by_status[3], faulty); /* whatever the schedule */
        faulty = (uint32_t)result.roots_by_status[3];
        assert_true(faulty > 0 && faulty < 60);
        sim_result_free(&result);
    }
    sheaf_plan_destroy(plan);
    sheaf_registry_destroy(registry);
}

/* ---- devices ---- */

static const char batch_text[] = "sources: {d: {kind: i64}}\n"
                                 "steps:\n"
                                 "- {call: page, op: sim.batch, in: [d], out: [o], batch: 10, pool: gpu}\n"
                                 "outputs: [o]\n";
static const char expand_text[] = "sources: {d: {kind: i64}}\n"
                                  "steps:\n"
                                  "- {call: open, op: sim.expand, in: [d], out: [g], batch: 4, pool: cpu}\n"
                                  "- {expand: [g], as: [p]}\n"
                                  "- {call: page, op: sim.row, in: [p], out: [o], batch: 2, pool: cpu}\n"
                                  "- {gather: [o], as: [l]}\n"
                                  "outputs: [l]\n";

/* `setup` over roots that each carry `count`. */
static int run_text(const char *text, struct sim_setup setup, uint32_t count, struct sim_result *ret_result)
{
    struct sheaf_registry *registry;
    struct sheaf_plan *plan;
    uint32_t roots[64];
    assert_int_equal(sim_registry_create(&registry), 0);
    assert_int_equal(sim_compile(registry, text, &plan, NULL), 0);
    assert_true(setup.root_count <= 64);
    for (uint32_t i = 0; i < setup.root_count; i++)
        roots[i] = count;
    setup.plan = plan;
    setup.roots = roots;
    setup.fixed_batches = true;
    int status = sim_run(&setup, ret_result);
    sheaf_plan_destroy(plan);
    sheaf_registry_destroy(registry);
    return status;
}

/* Runs it without policy, and gives the makespan, which the bound must not exceed. */
static uint64_t makespan(const char *text, struct sim_setup setup)
{
    struct sim_result result;
    assert_int_equal(run_text(text, setup, 1, &result), 0);
    uint64_t us = result.makespan_us;
    assert_true(result.bound.work_us <= (double)us && result.bound.path_us <= (double)us);
    sim_result_free(&result);
    return us;
}

/* A batch takes 1000 us; its copies 1000 us in and 500 us out. */
static void test_copies(void **state)
{
    struct sim_service service = {.row_us = 100, .in_bytes = 1000, .out_bytes = 500};
    uint32_t devices = 1;
    struct sim_setup setup = {.services = &service,
                              .root_count = 30,
                              .devices_of_pool = &devices,
                              .links = {.in_bytes_us = 10, .out_bytes_us = 10}};
    assert_int_equal(makespan(batch_text, setup), 3 * 2500);
    setup.links.in_flight = 3; /* the next is copied while one is computed */
    assert_int_equal(makespan(batch_text, setup), 1000 + 3 * 1000 + 500);
    setup.links.copy_us = 7;
    assert_int_equal(makespan(batch_text, setup), 1007 * 3 + 1000 + 507);
    /* Two devices behind one bridge: what one copies the other waits for. */
    devices = 2;
    setup.root_count = 40;
    setup.links = (struct sim_links){.bridge_bytes_us = 10, .devices_per_bridge = 2};
    service.out_bytes = 0;
    assert_int_equal(makespan(batch_text, setup), 5000);
    setup.links.devices_per_bridge = 1;
    assert_int_equal(makespan(batch_text, setup), 4000);
}

static void test_slow_devices_and_spreads(void **state)
{
    struct sim_service service = {.fixed_us = 1000};
    uint32_t devices = 1;
    struct sim_setup setup = {.services = &service, .root_count = 60, .devices_of_pool = &devices};
    assert_int_equal(makespan(batch_text, setup), 6000);
    setup.slow_percent = 100;
    setup.slow_factor = 4;
    assert_int_equal(makespan(batch_text, setup), 24000);
    setup.slow_percent = 0;
    for (enum sim_spread spread = SIM_EVEN; spread <= SIM_LOGNORMAL; spread++) {
        uint64_t sum = 0, least = UINT64_MAX, most = 0;
        for (setup.seed = 1; setup.seed <= 400; setup.seed++) {
            struct sim_result result;
            setup.spread = spread;
            setup.spread_percent = 50;
            assert_int_equal(run_text(batch_text, setup, 1, &result), 0);
            sum += result.makespan_us;
            least = result.makespan_us < least ? result.makespan_us : least;
            most = result.makespan_us > most ? result.makespan_us : most;
            sim_result_free(&result);
        }
        assert_in_range(sum / 400, 5700, 6300); /* the mean is the model's */
        assert_true(least < 5500 && most > 6500);
    }
}

static enum sim_fault first_hangs(void *cookie, uint32_t call, const uint64_t *at, uint32_t depth, uint32_t attempt)
{
    return at[0] == 0 ? SIM_HANGS : SIM_ANSWERS;
}

/* Ten rows hang once together, then in halves, until the one is alone; every time costs a deadline and a restart. */
static void test_a_hang_ends_at_its_deadline(void **state)
{
    struct sim_service service = {.row_us = 10};
    const uint32_t devices = 1;
    struct sim_result result;
    struct sim_setup setup = {.services = &service,
                              .root_count = 10,
                              .devices_of_pool = &devices,
                              .deadline_us = 5000,
                              .restart_us = 200,
                              .fault = first_hangs};
    assert_int_equal(run_text(batch_text, setup, 1, &result), 0);
    assert_int_equal(result.roots_by_status[LINEAGE_ROOT_FAILED], 1);
    assert_int_equal(result.pools[0].losses, 5); /* 10, 5, 3, 2, 1 */
    assert_int_equal(result.makespan_us, 5 * 5200 + 9 * 10);
    sim_result_free(&result);
}

/* Whoever may not emit is passed by the lowest root, and by somebody where all workers would wait. */
static void test_a_budget_of_children_is_no_deadlock(void **state)
{
    struct sim_service services[2] = {{.fixed_us = 10, .child_us = 5}, {.row_us = 50}};
    for (uint32_t devices = 1; devices <= 4; devices++)
        for (uint32_t budget = 1; budget <= 3; budget++) {
            struct sim_result result;
            struct sim_setup setup = {.services = services,
                                      .root_count = 20,
                                      .devices_of_pool = &devices,
                                      .children_max = budget,
                                      .shuffled = true,
                                      .seed = devices * 10 + budget};
            assert_int_equal(run_text(expand_text, setup, 7, &result), 0);
            assert_int_equal(result.roots_by_status[LINEAGE_OK], 20);
            assert_true(result.spilled > 0);
            assert_true((result.pools[0].idle_us[SIM_IDLE_BLOCKED] > 0) == (devices > 1));
            sim_result_free(&result);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_page_lists),
        cmocka_unit_test(test_cbig),
        cmocka_unit_test(test_targets),
        cmocka_unit_test(test_a_seed_is_a_run),
        cmocka_unit_test(test_faults_lose_nothing),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_slow_devices_and_spreads),
        cmocka_unit_test(test_a_hang_ends_at_its_deadline),
        cmocka_unit_test(test_a_budget_of_children_is_no_deadlock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
