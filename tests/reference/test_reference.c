/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random programs, each run over src/lineage and src/sched in random orders, with random batches, crashes, hangs,
 * retries and lost workers, and compared with the reference evaluator. Two drivers run them: a player that draws every
 * step, and the simulator with its devices, budgets and batch policy. A failure prints the seed and the program.
 * SHEAF_TEST_SEED: the first program; SHEAF_TEST_PROGRAMS: how many; SHEAF_TEST_ORDERS: runs of each by each driver.
 * Both generators of random_program.h take the seed.
 */
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
#include "tests/common/random_program.h"
#include "tests/lineage/player.h"
#include "tests/reference/reference.h"
#include "tests/sim/simulated.h"

struct tally {
    struct sheaf_registry *registry;
    uint64_t orders, programs, played, wrong, grains;
};

static const struct {
    const char *name;
    void (*run)(const struct sheaf_plan *plan, json_t *const *columns, uint64_t seed, struct played *ret_played);
} drivers[] = {{"player", play}, {"simulator", simulate}};
enum { DRIVERS = sizeof(drivers) / sizeof(drivers[0]) };

static void show(uint64_t seed, uint64_t order, const char *driver, const json_t *program, const char *why)
{
    char *text = json_dumps(program, JSON_COMPACT | JSON_PRESERVE_ORDER);
    fprintf(stderr, "seed %llu, order %llu, %s: %s\n%s\n", (unsigned long long)seed, (unsigned long long)order, driver,
            why, text);
    free(text);
}

static bool run_agrees(struct tally *tally, uint64_t seed, uint64_t order, size_t driver, const json_t *program,
                       const struct sheaf_plan *plan, json_t *const *columns, const struct expected *expected)
{
    struct played played;
    char why[2048] = "";
    drivers[driver].run(plan, columns, seed * 1000 + order, &played);
    snprintf(why, sizeof(why), "%s", played.breach);
    bool agrees =
        !played.breach[0] && expected_agrees(expected, played.outputs, played.roots, played.started, why, sizeof(why));
    if (!agrees)
        show(seed, order, drivers[driver].name, program, why);
    tally->grains += played.grains_sealed;
    tally->played++;
    played_clear(&played);
    return agrees;
}

static void play_one(struct tally *tally, uint64_t seed, const json_t *program, const struct sheaf_plan *plan)
{
    json_t *columns[CASE_SOURCES_MAX];
    struct expected expected;
    bool agrees = true;
    case_columns(plan, program, columns);
    reference_evaluate(plan, columns, &expected);
    for (uint64_t i = 0; i < tally->orders * DRIVERS && agrees; i++)
        agrees = run_agrees(tally, seed, i / DRIVERS, i % DRIVERS, program, plan, columns, &expected);
    tally->programs++;
    tally->wrong += !agrees;
    expected_clear(&expected);
}

/* Releases the program. */
static void one_program(struct tally *tally, uint64_t seed, json_t *program)
{
    struct sheaf_plan *plan = NULL;
    if (case_compile(tally->registry, program, &plan, NULL) == 0)
        play_one(tally, seed, program, plan);
    sheaf_plan_destroy(plan);
    json_decref(program);
}

static json_t *plain_program(uint64_t seed)
{
    json_t *rows;
    return random_program(seed, &rows);
}

static uint64_t setting(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : fallback;
}

/* Programs that once disagreed in one order out of many. */
static void test_found_before(void **state)
{
    static const uint64_t seeds[] = {26,      832,     5179,    11902,   13511,   14451,    1003967,  1034686, 1062784,
                                     1151359, 1171845, 1215438, 2065195, 5141129, 10287311, 30003838, 40698150};
    struct tally tally = {.orders = 200};
    assert_int_equal(sheaf_registry_create(&tally.registry), 0);
    assert_int_equal(registry_add_plugin(tally.registry, &operator_signatures, NULL, NULL), 0);
    for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++)
        one_program(&tally, seeds[i], plain_program(seeds[i]));
    sheaf_registry_destroy(tally.registry);
    assert_int_equal(tally.wrong, 0);
    assert_int_equal(tally.programs, sizeof(seeds) / sizeof(seeds[0]));
}

static void check_programs(json_t *(*make)(uint64_t seed))
{
    uint64_t first = setting("SHEAF_TEST_SEED", 1), programs = setting("SHEAF_TEST_PROGRAMS", 20000);
    struct tally tally = {.orders = setting("SHEAF_TEST_ORDERS", 1)};
    assert_int_equal(sheaf_registry_create(&tally.registry), 0);
    assert_int_equal(registry_add_plugin(tally.registry, &operator_signatures, NULL, NULL), 0);
    for (uint64_t i = 0; i < programs && tally.wrong < 5; i++)
        one_program(&tally, first + i, make(first + i));
    sheaf_registry_destroy(tally.registry);
    print_message("%llu programs from seed %llu, %llu runs, %llu Grains: %llu disagree with the reference\n",
                  (unsigned long long)tally.programs, (unsigned long long)first, (unsigned long long)tally.played,
                  (unsigned long long)tally.grains, (unsigned long long)tally.wrong);
    assert_int_equal(tally.wrong, 0);
    assert_true(programs < 100 || tally.programs * 2 > programs);
}

static void test_programs(void **state)
{
    check_programs(plain_program);
}

static void test_typed_programs(void **state)
{
    check_programs(random_typed_program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_found_before), cmocka_unit_test(test_programs),
                                       cmocka_unit_test(test_typed_programs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
