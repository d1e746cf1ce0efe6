/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Confluence: random programs, each played in several random orders. Whatever the order, the same Items are PRESENT
 * with the same values, the same gathers say the same, and roots have the same status. Which of FAILED and SUPPRESSED
 * an Item reads, and how many children a FAILED Expansion has, may differ. A failure prints the seed and the program.
 * SHEAF_TEST_SEED: the first program; SHEAF_TEST_PROGRAMS: how many.
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
#include "tests/common/operator_signatures.h"
#include "tests/common/random_program.h"
#include "tests/lineage/player.h"

enum { ORDERS = 6 };

/* What may not depend on the order: PRESENT and DROPPED entries, and that root-level ones are neither. */
static json_t *certain(const struct played *played)
{
    json_t *all = json_object(), *entries, *entry;
    const char *name;
    size_t i;
    json_object_set(all, "", played->roots);
    json_object_foreach(played->outputs, name, entries)
    {
        json_t *kept = json_array();
        json_array_foreach(entries, i, entry)
        {
            char letter = json_string_value(json_object_get(entry, "o"))[0];
            if (letter == 'P' || letter == 'D')
                json_array_append(kept, entry);
            else if (json_array_size(json_object_get(entry, "at")) == 1)
                json_array_append_new(kept, json_pack("{s:O}", "at", json_object_get(entry, "at")));
        }
        json_object_set_new(all, name, kept);
    }
    return all;
}

struct tally {
    struct sheaf_registry *registry;
    unsigned played, wrong;
    uint64_t grains;
};

static void show(uint64_t seed, unsigned order, const json_t *program, const json_t *first, const json_t *now,
                 const char *breach)
{
    char *text = json_dumps(program, JSON_COMPACT), *a = json_dumps(first, JSON_COMPACT),
         *b = json_dumps(now, JSON_COMPACT);
    print_error("seed %llu, order %u: %s\n%s\nfirst %s\nnow   %s\n", (unsigned long long)seed, order, breach, text,
                a ? a : "", b ? b : "");
    free(text);
    free(a);
    free(b);
}

static void play_orders(struct tally *tally, uint64_t seed, const json_t *program, const struct sheaf_plan *plan,
                        json_t *rows)
{
    json_t *first = NULL;
    bool wrong = false;
    for (unsigned order = 0; order < ORDERS && !wrong; order++) {
        struct played played;
        play(plan, &rows, seed * ORDERS + order + 1, &played);
        tally->grains += played.grains_sealed;
        json_t *now = certain(&played);
        wrong = played.breach[0] || (first && !json_equal(first, now));
        if (wrong)
            show(seed, order, program, first, now, played.breach);
        if (!first)
            first = json_incref(now);
        json_decref(now);
        played_clear(&played);
    }
    tally->played++;
    tally->wrong += wrong;
    json_decref(first);
}

static void one_program(struct tally *tally, uint64_t seed)
{
    struct sheaf_program *build;
    struct sheaf_plan *plan = NULL;
    json_t *rows, *program = random_program(seed, &rows);
    char *text = json_dumps(program, JSON_PRESERVE_ORDER);
    assert_non_null(text);
    assert_int_equal(sheaf_program_create(tally->registry, &build), 0);
    if (sheaf_program_parse(build, "random", text, strlen(text), NULL, 0, NULL) == 0)
        sheaf_program_compile(build, &plan, NULL);
    if (plan)
        play_orders(tally, seed, program, plan, rows);
    sheaf_plan_destroy(plan);
    sheaf_program_destroy(build);
    free(text);
    json_decref(program);
}

static void test_orders(void **state)
{
    const char *seed = getenv("SHEAF_TEST_SEED"), *count = getenv("SHEAF_TEST_PROGRAMS");
    uint64_t first = seed ? strtoull(seed, NULL, 10) : 1, programs = count ? strtoull(count, NULL, 10) : 2000;
    struct tally tally = {0};
    assert_int_equal(sheaf_registry_create(&tally.registry), 0);
    assert_int_equal(registry_add_plugin(tally.registry, &operator_signatures, NULL, NULL), 0);
    for (uint64_t i = 0; i < programs && tally.wrong < 5; i++)
        one_program(&tally, first + i);
    sheaf_registry_destroy(tally.registry);
    print_message("%u programs from seed %llu, %d orders each, %llu Grains: %u disagree\n", tally.played,
                  (unsigned long long)first, ORDERS, (unsigned long long)tally.grains, tally.wrong);
    assert_true(tally.played * 2 > programs);
    assert_int_equal(tally.wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_orders)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
