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
#include "tests/lineage/player.h"

enum { PORTS_MAX = 64, DOMAINS_MAX = 8, ORDERS = 6 };
enum port_type { TYPE_I64, TYPE_BOOL, TYPE_LIST, TYPE_GROUP, TYPE_OTHER };

struct author {
    uint64_t random;
    struct {
        enum port_type type;
        uint32_t domain;
    } ports[PORTS_MAX];
    uint32_t parents[DOMAINS_MAX];
    uint32_t port_count, domain_count;
    json_t *steps, *rows;
};

static uint32_t draw(struct author *a, uint32_t below)
{
    a->random ^= a->random << 13;
    a->random ^= a->random >> 7;
    a->random ^= a->random << 17;
    return (uint32_t)((a->random >> 32) % below);
}

/* A Port of the type, in `domain` unless that is UINT32_MAX; UINT32_MAX: there is none. Later ones are likelier. */
static uint32_t pick(struct author *a, enum port_type type, uint32_t domain)
{
    uint32_t found = UINT32_MAX;
    for (uint32_t i = 0; i < a->port_count; i++)
        if (a->ports[i].type == type && (domain == UINT32_MAX || a->ports[i].domain == domain) &&
            (found == UINT32_MAX || draw(a, 5) < 3))
            found = i;
    return found;
}

static uint32_t pick_any(struct author *a, uint32_t domain)
{
    uint32_t found = UINT32_MAX, seen = 0;
    for (uint32_t i = 0; i < a->port_count; i++)
        if (a->ports[i].type != TYPE_GROUP && a->ports[i].domain == domain && draw(a, ++seen) == 0)
            found = i;
    return found;
}

static json_t *name_of(uint32_t port)
{
    return json_sprintf("p%u", port);
}

static json_t *names_of(uint32_t first, uint32_t second)
{
    json_t *names = json_array();
    json_array_append_new(names, name_of(first));
    if (second != UINT32_MAX)
        json_array_append_new(names, name_of(second));
    return names;
}

static uint32_t port_add(struct author *a, enum port_type type, uint32_t domain)
{
    a->ports[a->port_count].type = type;
    a->ports[a->port_count].domain = domain;
    return a->port_count++;
}

static json_t *some_values(struct author *a)
{
    json_t *values = json_array();
    for (uint32_t i = 0; i < 5; i++)
        if (draw(a, 5) == 0)
            json_array_append_new(values, json_integer((json_int_t)i - 1));
    return values;
}

static const struct shape {
    const char *name;
    uint32_t weight, inputs;
    enum port_type input, output;
    const char *options; /* a: at, i: item_at, c: cap, s: stream, k: k, g: how group, r: retried */
} shapes[] = {
    {"id", 2, 1, TYPE_I64, TYPE_I64, ""},
    {"neg", 1, 1, TYPE_I64, TYPE_I64, ""},
    {"add", 3, 2, TYPE_I64, TYPE_I64, ""},
    {"lt", 2, 2, TYPE_I64, TYPE_BOOL, ""},
    {"is_even", 3, 1, TYPE_I64, TYPE_BOOL, ""},
    {"even_or_fail", 2, 1, TYPE_I64, TYPE_BOOL, "a"},
    {"sum", 3, 1, TYPE_LIST, TYPE_I64, ""},
    {"len", 1, 1, TYPE_LIST, TYPE_I64, ""},
    {"sum", 2, 1, TYPE_GROUP, TYPE_I64, ""},
    {"range", 8, 1, TYPE_I64, TYPE_GROUP, "cs"},
    {"tap", 1, 1, TYPE_I64, TYPE_I64, ""},
    {"fail_item_if", 4, 1, TYPE_I64, TYPE_I64, "a"},
    {"fail_group_if", 12, 1, TYPE_I64, TYPE_I64, "ai"},
    {"fail_root_if", 3, 1, TYPE_I64, TYPE_I64, "agi"},
    {"raise_if", 2, 1, TYPE_I64, TYPE_I64, "a"},
    {"crash_if", 2, 1, TYPE_I64, TYPE_I64, "a"},
    {"hang_if", 1, 1, TYPE_I64, TYPE_I64, "a"},
    {"bad_rows_if", 1, 1, TYPE_I64, TYPE_I64, "a"},
    {"flaky", 2, 1, TYPE_I64, TYPE_I64, "ar"},
    {"flaky_range", 2, 1, TYPE_I64, TYPE_GROUP, "acr"},
    {"emit_then_fail", 3, 1, TYPE_I64, TYPE_GROUP, "ack"},
};

static json_t *options_of(struct author *a, const struct shape *shape)
{
    static const char *const hows[] = {"item", "group", "raise", "crash"};
    json_t *with = json_object();
    for (const char *at = shape->options; *at; at++) {
        if (*at == 'a')
            json_object_set_new(with, "at", some_values(a));
        else if (*at == 'i')
            json_object_set_new(with, "item_at", some_values(a));
        else if (*at == 'g')
            json_object_set_new(with, "group_at", some_values(a));
        else if (*at == 'c')
            json_object_set_new(with, "cap", json_integer(1 + draw(a, 4)));
        else if (*at == 's')
            json_object_set_new(with, "stream", json_boolean(draw(a, 2)));
        else if (*at == 'k') {
            json_object_set_new(with, "k", json_integer(draw(a, 3)));
            json_object_set_new(with, "how", json_string(hows[draw(a, 4)]));
        }
    }
    return with;
}

static void write_call(struct author *a)
{
    uint32_t total = 0, count = sizeof(shapes) / sizeof(shapes[0]), index = 0;
    for (uint32_t i = 0; i < count; i++)
        total += shapes[i].weight;
    for (uint32_t left = draw(a, total); left >= shapes[index].weight; index++)
        left -= shapes[index].weight;
    const struct shape *shape = &shapes[index];
    uint32_t first = pick(a, shape->input, UINT32_MAX), second = UINT32_MAX;
    if (first == UINT32_MAX)
        return;
    uint32_t domain = a->ports[first].domain;
    if (shape->inputs == 2)
        second = pick(a, shape->input, domain);
    uint32_t out = port_add(a, shape->output, domain);
    json_t *call = json_object();
    json_object_set_new(call, "call", json_sprintf("f%u", out));
    json_object_set_new(call, "op", json_string(shape->name));
    json_object_set_new(call, "in", names_of(first, second));
    json_object_set_new(call, "out", names_of(out, UINT32_MAX));
    json_object_set_new(call, "with", options_of(a, shape));
    json_object_set_new(call, "batch", json_integer(1 + draw(a, 4)));
    if (strchr(shape->options, 'r') && draw(a, 2)) {
        json_object_set_new(call, "recovery", json_string("retry"));
        json_object_set_new(call, "retries", json_integer(1 + draw(a, 2)));
    }
    json_array_append_new(a->steps, call);
}

static void write_expand(struct author *a)
{
    uint32_t group = pick(a, TYPE_GROUP, UINT32_MAX);
    if (group == UINT32_MAX || a->domain_count == DOMAINS_MAX)
        return;
    uint32_t domain = a->domain_count++;
    a->parents[domain] = a->ports[group].domain;
    a->ports[group].type = TYPE_LIST; /* from here on read as a list */
    json_array_append_new(a->steps, json_pack("{s:o,s:o}", "expand", names_of(group, UINT32_MAX), "as",
                                              names_of(port_add(a, TYPE_I64, domain), UINT32_MAX)));
}

static void write_gather(struct author *a)
{
    uint32_t domain = a->domain_count < 2 ? 0 : 1 + draw(a, a->domain_count - 1);
    uint32_t value = UINT32_MAX;
    if (domain)
        value = draw(a, 3) ? pick(a, TYPE_I64, domain) : pick_any(a, domain);
    if (value == UINT32_MAX)
        return;
    enum port_type type = a->ports[value].type == TYPE_I64 ? TYPE_LIST : TYPE_OTHER;
    json_t *step =
        json_pack("{s:o,s:s}", "gather", names_of(value, UINT32_MAX), "mode", draw(a, 3) ? "partial" : "strict");
    if (draw(a, 3) == 0)
        json_object_set_new(step, "members", name_of(pick_any(a, domain)));
    json_object_set_new(step, "as", names_of(port_add(a, type, a->parents[domain]), UINT32_MAX));
    json_array_append_new(a->steps, step);
}

static void write_broadcast(struct author *a)
{
    uint32_t domain = a->domain_count < 2 ? 0 : 1 + draw(a, a->domain_count - 1);
    if (domain == 0)
        return;
    uint32_t above = a->parents[domain];
    while (above != 0 && draw(a, 2))
        above = a->parents[above];
    uint32_t source = draw(a, 3) ? pick(a, TYPE_I64, above) : pick_any(a, above), like = pick_any(a, domain);
    if (source == UINT32_MAX || like == UINT32_MAX)
        return;
    json_array_append_new(a->steps, json_pack("{s:o,s:o,s:o}", "broadcast", name_of(source), "like", name_of(like),
                                              "as", name_of(port_add(a, a->ports[source].type, domain))));
}

static void write_filter(struct author *a)
{
    uint32_t mask = pick(a, TYPE_BOOL, UINT32_MAX);
    uint32_t source = mask == UINT32_MAX ? UINT32_MAX : pick_any(a, a->ports[mask].domain);
    if (source == UINT32_MAX)
        return;
    json_array_append_new(a->steps, json_pack("{s:o,s:o,s:o}", "filter", name_of(source), "mask", name_of(mask), "as",
                                              name_of(port_add(a, a->ports[source].type, a->ports[source].domain))));
}

static json_t *write_program(struct author *a, uint64_t seed)
{
    *a = (struct author){.random = seed * 0x9E3779B97F4A7C15ull + 1, .domain_count = 1, .steps = json_array()};
    json_t *rows = json_array(), *outputs = json_array();
    for (uint32_t i = 0, count = 1 + draw(a, 3); i < count; i++)
        json_array_append_new(rows, json_integer((json_int_t)draw(a, 5)));
    port_add(a, TYPE_I64, 0);
    for (uint32_t i = 0, count = 8 + draw(a, 36); i < count; i++) {
        static void (*const writers[])(struct author *) = {write_call,   write_call,   write_call,
                                                           write_call,   write_expand, write_broadcast,
                                                           write_filter, write_gather, write_gather};
        writers[draw(a, 9)](a);
    }
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t port = draw(a, a->port_count);
        json_array_append_new(outputs, name_of(i < 2 ? a->port_count - 1 - draw(a, (a->port_count + 2) / 3) : port));
    }
    a->rows = rows;
    return json_pack("{s:{s:{s:s,s:o}},s:o,s:o}", "sources", "p0", "kind", "i64", "rows", rows, "steps", a->steps,
                     "outputs", outputs);
}

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
    struct author author;
    struct sheaf_program *build;
    struct sheaf_plan *plan = NULL;
    json_t *program = write_program(&author, seed);
    char *text = json_dumps(program, JSON_PRESERVE_ORDER);
    assert_non_null(text);
    assert_int_equal(sheaf_program_create(tally->registry, &build), 0);
    if (sheaf_program_parse(build, "random", text, strlen(text), NULL, 0, NULL) == 0)
        sheaf_program_compile(build, &plan, NULL);
    if (plan)
        play_orders(tally, seed, program, plan, author.rows);
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
