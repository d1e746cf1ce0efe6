/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/common/random_program.h"

#include <string.h>

enum { PORTS_MAX = 64, DOMAINS_MAX = 8 };
enum port_type { TYPE_I64, TYPE_BOOL, TYPE_LIST, TYPE_GROUP, TYPE_OTHER };

struct author {
    uint64_t random;
    struct {
        enum port_type type;
        uint32_t domain;
    } ports[PORTS_MAX];
    uint32_t parents[DOMAINS_MAX];
    uint32_t port_count, domain_count;
    json_t *steps;
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

/* Half of the programs have one or two Pools for all Calls. Drawn last: what a program means does not depend on it. */
static void share_pools(struct author *a)
{
    uint32_t pools = draw(a, 4);
    size_t i;
    json_t *step;
    json_array_foreach(a->steps, i, step)
    {
        if ((pools == 1 || pools == 2) && json_object_get(step, "call"))
            json_object_set_new(step, "pool", json_string(draw(a, pools) ? "a" : "b"));
    }
}

json_t *random_program(uint64_t seed, json_t **ret_rows)
{
    struct author author, *a = &author;
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
    share_pools(a);
    *ret_rows = rows;
    return json_pack("{s:{s:{s:s,s:o}},s:o,s:o}", "sources", "p0", "kind", "i64", "rows", rows, "steps", a->steps,
                     "outputs", outputs);
}
