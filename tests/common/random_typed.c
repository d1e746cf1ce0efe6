/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tests/common/random_program.h"

enum { PORTS_MAX = 96, DOMAINS_MAX = 8, DEPTH_MAX = 3 };

/* A kind is a base, 'i', 'b' or 't', in so many lists. */
struct port {
    char base;
    uint8_t depth;
    bool small, group; /* small: an i64 that may count children without a cap; group: may be expanded, and is a list */
    uint32_t domain, partner; /* partner: 1 + the other group of the same Call */
};

struct author {
    uint64_t random;
    struct port ports[PORTS_MAX];
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

/*
 * Inputs: i b t a kind; n a small i64; l list<i64>; s list<text>; k any kind; L any list; M a list of lists.
 * Outputs besides: K the kind of k; X an element of L; G a group of i64; E a group of elements of L.
 * Options: a at, i item_at, g group_at, c cap, s stream, k k, h how it fails, f how it is flaky, b how it breaks, e
 * emit, r perhaps retried, v value, p sep, t timeout.
 */
static const struct shape {
    const char *name;
    uint32_t weight;
    const char *inputs, *outputs, *options;
} shapes[] = {
    {"id", 2, "k", "K", ""},
    {"add", 2, "ii", "i", ""},
    {"mul", 1, "ii", "i", ""},
    {"neg", 1, "i", "i", ""},
    {"lt", 2, "ii", "b", ""},
    {"is_even", 3, "i", "b", ""},
    {"not", 1, "b", "b", ""},
    {"and", 1, "bb", "b", ""},
    {"len", 2, "L", "n", ""},
    {"sum", 2, "l", "i", ""},
    {"flat", 2, "M", "X", ""},
    {"to_text", 1, "i", "t", ""},
    {"concat", 1, "tt", "t", ""},
    {"join", 2, "s", "t", "p"},
    {"const", 1, "k", "i", "v"},
    {"minmax", 2, "ii", "ii", ""},
    {"nap", 1, "i", "i", "a"},
    {"range", 6, "i", "G", "cs"},
    {"split", 6, "L", "E", "s"},
    {"pair_expand", 4, "n", "GG", "w"},
    {"tap", 1, "k", "K", ""},
    {"divmod", 2, "ii", "ii", ""},
    {"fail_item_if", 2, "i", "i", "a"},
    {"even_or_fail", 2, "i", "b", "a"},
    {"fail_group_if", 6, "i", "i", "ai"},
    {"fail_root_if", 2, "i", "i", "agi"},
    {"raise_if", 2, "i", "i", "a"},
    {"crash_if", 1, "i", "i", "a"},
    {"hang_if", 1, "i", "i", "at"},
    {"bad_rows_if", 3, "i", "i", "ab"},
    {"flaky", 2, "i", "i", "akfr"},
    {"flaky_range", 2, "i", "G", "acker"},
    {"emit_then_fail", 2, "i", "G", "ackh"},
};

static bool fits(const struct port *port, char pattern)
{
    switch (pattern) {
    case 'i':
        return port->base == 'i' && port->depth == 0;
    case 'n':
        return port->base == 'i' && port->depth == 0 && port->small;
    case 'b':
        return port->base == 'b' && port->depth == 0;
    case 't':
        return port->base == 't' && port->depth == 0;
    case 'l':
        return port->base == 'i' && port->depth == 1;
    case 's':
        return port->base == 't' && port->depth == 1;
    case 'L':
        return port->depth >= 1;
    case 'M':
        return port->depth >= 2;
    default:
        return true;
    }
}

/* A Port that fits, in `domain` unless that is UINT32_MAX; UINT32_MAX: there is none. Later ones are likelier. */
static uint32_t pick(struct author *a, char pattern, uint32_t domain)
{
    uint32_t found = UINT32_MAX;
    for (uint32_t i = 0; i < a->port_count; i++)
        if (fits(&a->ports[i], pattern) && (domain == UINT32_MAX || a->ports[i].domain == domain) &&
            (found == UINT32_MAX || draw(a, 5) < 3))
            found = i;
    return found;
}

static json_t *name_of(uint32_t port)
{
    return json_sprintf("p%u", port);
}

static uint32_t port_add(struct author *a, struct port port)
{
    a->ports[a->port_count] = port;
    return a->port_count++;
}

/* ---- Calls ---- */

static json_t *some_values(struct author *a)
{
    json_t *values = json_array();
    for (uint32_t i = 0; i < 5; i++)
        if (draw(a, 5) == 0)
            json_array_append_new(values, json_integer((json_int_t)i - 1));
    return values;
}

static void write_option(struct author *a, char option, json_t *with, json_t *call)
{
    static const char *const fails[] = {"item", "group", "raise", "crash"}, *const breaks[] = {"rows", "columns",
                                                                                               "kind"};
    switch (option) {
    case 'a':
        json_object_set_new(with, "at", some_values(a));
        break;
    case 'i':
        json_object_set_new(with, "item_at", some_values(a));
        break;
    case 'g':
        json_object_set_new(with, "group_at", some_values(a));
        break;
    case 'w':
        json_object_set_new(with, "skew_at", some_values(a));
        break;
    case 'c':
        json_object_set_new(with, "cap", json_integer(1 + draw(a, 4)));
        break;
    case 's':
        json_object_set_new(with, "stream", json_boolean(draw(a, 2)));
        break;
    case 'k':
        json_object_set_new(with, "k", json_integer(draw(a, 3)));
        break;
    case 'e':
        json_object_set_new(with, "emit", json_integer(draw(a, 3)));
        break;
    case 'h':
        json_object_set_new(with, "how", json_string(fails[draw(a, 4)]));
        break;
    case 'f':
        json_object_set_new(with, "how", json_string(draw(a, 2) ? "raise" : "crash"));
        break;
    case 'b':
        json_object_set_new(with, "how", json_string(breaks[draw(a, 3)]));
        break;
    case 'v':
        json_object_set_new(with, "value", json_integer((json_int_t)draw(a, 4)));
        break;
    case 'p':
        json_object_set_new(with, "sep", json_string(draw(a, 2) ? "" : "ü "));
        break;
    case 't':
        json_object_set_new(call, "timeout_ms", json_integer(1000));
        break;
    case 'r':
        if (draw(a, 2)) {
            json_object_set_new(call, "recovery", json_string("retry"));
            json_object_set_new(call, "retries", json_integer(1 + draw(a, 2)));
            json_object_set_new(call, "backoff_ms", json_integer(1 + draw(a, 20)));
        }
        break;
    }
}

static struct port output_of(char pattern, const struct port *input)
{
    struct port port = {.base = 'i', .domain = input->domain};
    switch (pattern) {
    case 'b':
    case 't':
        port.base = pattern;
        break;
    case 'n':
        port.small = true;
        break;
    case 'K':
        port =
            (struct port){.base = input->base, .depth = input->depth, .small = input->small, .domain = input->domain};
        break;
    case 'X':
        port.base = input->base;
        port.depth = (uint8_t)(input->depth - 1);
        break;
    case 'G':
        port.depth = 1;
        port.group = true;
        break;
    case 'E':
        port.base = input->base;
        port.depth = input->depth;
        port.group = true;
        break;
    }
    return port;
}

static void write_call(struct author *a)
{
    uint32_t total = 0, count = sizeof(shapes) / sizeof(shapes[0]), index = 0;
    for (uint32_t i = 0; i < count; i++)
        total += shapes[i].weight;
    for (uint32_t left = draw(a, total); left >= shapes[index].weight; index++)
        left -= shapes[index].weight;
    const struct shape *shape = &shapes[index];
    uint32_t first = pick(a, shape->inputs[0], UINT32_MAX);
    if (first == UINT32_MAX || a->port_count + 2 > PORTS_MAX)
        return;
    const struct port input = a->ports[first];
    json_t *call = json_object(), *in = json_array(), *out = json_array(), *with = json_object();
    json_array_append_new(in, name_of(first));
    if (shape->inputs[1])
        json_array_append_new(in, name_of(pick(a, shape->inputs[1], input.domain)));
    json_object_set_new(call, "call", json_sprintf("f%u", a->port_count));
    for (const char *pattern = shape->outputs; *pattern; pattern++)
        json_array_append_new(out, name_of(port_add(a, output_of(*pattern, &input))));
    if (strcmp(shape->outputs, "GG") == 0) {
        a->ports[a->port_count - 1].partner = a->port_count - 1;
        a->ports[a->port_count - 2].partner = a->port_count;
    }
    json_object_set_new(call, "op", json_string(shape->name));
    json_object_set_new(call, "in", in);
    json_object_set_new(call, "out", out);
    for (const char *option = shape->options; *option; option++)
        write_option(a, *option, with, call);
    json_object_set_new(call, "with", with);
    json_object_set_new(call, "batch", json_integer(1 + draw(a, 4)));
    json_array_append_new(a->steps, call);
}

/* ---- structural operations ---- */

static void write_expand(struct author *a)
{
    uint32_t groups[2] = {UINT32_MAX, UINT32_MAX}, seen = 0;
    for (uint32_t i = 0; i < a->port_count; i++)
        if (a->ports[i].group && draw(a, ++seen) == 0)
            groups[0] = i;
    if (seen == 0 || a->domain_count == DOMAINS_MAX || a->port_count + 2 > PORTS_MAX)
        return;
    uint32_t partner = a->ports[groups[0]].partner, domain = a->domain_count++;
    if (partner && a->ports[partner - 1].group && draw(a, 3))
        groups[1] = partner - 1;
    a->parents[domain] = a->ports[groups[0]].domain;
    json_t *from = json_array(), *as = json_array();
    for (uint32_t i = 0; i < 2 && groups[i] != UINT32_MAX; i++) {
        struct port *group = &a->ports[groups[i]];
        group->group = false; /* from here on read as a list */
        json_array_append_new(from, name_of(groups[i]));
        json_array_append_new(as, name_of(port_add(a, (struct port){.base = group->base,
                                                                    .depth = (uint8_t)(group->depth - 1),
                                                                    .small = group->base == 'i' && group->depth == 1,
                                                                    .domain = domain})));
    }
    json_array_append_new(a->steps, json_pack("{s:o,s:o}", "expand", from, "as", as));
}

static void write_gather(struct author *a)
{
    uint32_t domain = a->domain_count < 2 ? 0 : 1 + draw(a, a->domain_count - 1);
    if (domain == 0 || a->port_count + 3 > PORTS_MAX)
        return;
    json_t *from = json_array(), *as = json_array();
    for (uint32_t count = 1 + draw(a, 2); count > 0; count--) {
        uint32_t value = pick(a, 'k', domain);
        if (a->ports[value].depth >= DEPTH_MAX)
            continue;
        json_array_append_new(from, name_of(value));
        json_array_append_new(as, name_of(port_add(a, (struct port){.base = a->ports[value].base,
                                                                    .depth = (uint8_t)(a->ports[value].depth + 1),
                                                                    .domain = a->parents[domain]})));
    }
    if (json_array_size(from) == 0) {
        json_decref(from);
        json_decref(as);
        return;
    }
    json_t *step = json_pack("{s:o,s:o,s:s}", "gather", from, "as", as, "mode", draw(a, 2) ? "partial" : "strict");
    if (draw(a, 3) == 0)
        json_object_set_new(step, "members", name_of(pick(a, 'k', domain)));
    json_array_append_new(a->steps, step);
}

static void write_broadcast(struct author *a)
{
    uint32_t domain = a->domain_count < 2 ? 0 : 1 + draw(a, a->domain_count - 1);
    if (domain == 0 || a->port_count == PORTS_MAX)
        return;
    uint32_t above = draw(a, 8) ? a->parents[domain] : domain;
    while (above != 0 && draw(a, 2))
        above = a->parents[above];
    uint32_t source = pick(a, 'k', above), like = pick(a, 'k', domain);
    struct port port = a->ports[source];
    port.domain = domain;
    port.group = port.group && above == domain; /* then it is the same Port */
    json_array_append_new(a->steps, json_pack("{s:o,s:o,s:o}", "broadcast", name_of(source), "like", name_of(like),
                                              "as", name_of(a->port_count)));
    port.group = false;
    port.partner = 0;
    port_add(a, port);
}

static void write_filter(struct author *a)
{
    uint32_t mask = pick(a, 'b', UINT32_MAX);
    if (mask == UINT32_MAX || a->port_count == PORTS_MAX)
        return;
    uint32_t source = pick(a, 'k', a->ports[mask].domain);
    struct port port = a->ports[source];
    port.group = false;
    port.partner = 0;
    json_array_append_new(a->steps, json_pack("{s:o,s:o,s:o}", "filter", name_of(source), "mask", name_of(mask), "as",
                                              name_of(port_add(a, port))));
}

/* ---- the whole ---- */

static json_t *numbers(struct author *a)
{
    json_t *list = json_array();
    for (uint32_t count = draw(a, 4); count > 0; count--)
        json_array_append_new(list, json_integer((json_int_t)draw(a, 6) - 1));
    return list;
}

static json_t *lists(struct author *a)
{
    json_t *list = json_array();
    for (uint32_t count = draw(a, 4); count > 0; count--)
        json_array_append_new(list, numbers(a));
    return list;
}

static json_t *write_sources(struct author *a)
{
    static const char *const texts[] = {"", "a", "日本", "x y"};
    json_t *rows[3] = {json_array(), json_array(), json_array()};
    for (uint32_t count = 1 + draw(a, 3); count > 0; count--) {
        json_array_append_new(rows[0], json_integer((json_int_t)draw(a, 5)));
        json_array_append_new(rows[1], lists(a));
        json_array_append_new(rows[2], json_string(texts[draw(a, 4)]));
    }
    port_add(a, (struct port){.base = 'i', .small = true});
    port_add(a, (struct port){.base = 'i', .depth = 2});
    port_add(a, (struct port){.base = 't'});
    return json_pack("{s:{s:s,s:o},s:{s:s,s:o},s:{s:s,s:o}}", "p0", "kind", "i64", "rows", rows[0], "p1", "kind",
                     "list<list<i64>>", "rows", rows[1], "p2", "kind", "text", "rows", rows[2]);
}

json_t *random_typed_program(uint64_t seed)
{
    static void (*const writers[])(struct author *) = {write_call,   write_call,      write_call,   write_call,
                                                       write_expand, write_broadcast, write_filter, write_gather};
    struct author author, *a = &author;
    *a = (struct author){.random = seed * 0x9E3779B97F4A7C15ull + 1, .domain_count = 1, .steps = json_array()};
    json_t *sources = write_sources(a), *outputs = json_array();
    for (uint32_t i = 0, count = 8 + draw(a, 40); i < count && a->port_count + 3 < PORTS_MAX; i++)
        writers[draw(a, 8)](a);
    for (uint32_t i = 0; i < 5; i++)
        json_array_append_new(
            outputs, name_of(i < 3 ? a->port_count - 1 - draw(a, (a->port_count + 2) / 3) : draw(a, a->port_count)));
    return json_pack("{s:o,s:o,s:o}", "sources", sources, "steps", a->steps, "outputs", outputs);
}
