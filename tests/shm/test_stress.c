/* SPDX-License-Identifier: Apache-2.0 */
/* Real worker processes on a small ring, with everything the protocol allows going on at once. */
#include "cmocka_all.h"

#include <stdlib.h>
#include <time.h>

#include "world.h"

#define TIME_OUT_NS (UINT64_C(20) * 1000000000u)

static uint64_t choose_seed(void)
{
    const char *given = getenv("SHEAF_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
    print_message("SHEAF_TEST_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static void check(struct world_options options)
{
    options.seed = choose_seed();
    struct world *world = world_open(&options);
    for (uint32_t worker = 0; worker < options.workers; worker++)
        world_start(world, worker, NULL, 0);
    bool over = world_run(world, TIME_OUT_NS);
    const char *verdict = world_verdict(world);
    print_message("deaths %u, recalled %u, cancels that found only a record %u\n", world->deaths, world->recalled,
                  world->cancel_races);
    world_close(world);
    if (verdict)
        fail_msg("%s", verdict);
    assert_true(over);
}

static void every_row_runs_once(void **state)
{
    check((struct world_options){.grains = 4000, .workers = 3, .ring_capacity = 64, .batch_rows = 8});
}

static void a_ring_of_two_is_enough(void **state)
{
    check((struct world_options){.grains = 500, .workers = 2, .ring_capacity = 2, .batch_rows = 1});
}

static void cancels_recalls_and_raises(void **state)
{
    check((struct world_options){.grains = 3000,
                                 .workers = 3,
                                 .ring_capacity = 16,
                                 .batch_rows = 8,
                                 .cancel_percent = 60,
                                 .recall_percent = 60,
                                 .raise_percent = 10});
}

static void all_of_it_and_deaths(void **state)
{
    check((struct world_options){.grains = 1500,
                                 .workers = 3,
                                 .ring_capacity = 16,
                                 .batch_rows = 8,
                                 .cancel_percent = 20,
                                 .recall_percent = 60,
                                 .raise_percent = 10,
                                 .kills_max = 40});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_runs_once),
        cmocka_unit_test(a_ring_of_two_is_enough),
        cmocka_unit_test(cancels_recalls_and_raises),
        cmocka_unit_test(all_of_it_and_deaths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
