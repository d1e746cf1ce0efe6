/* SPDX-License-Identifier: Apache-2.0 */
/* From a Plan to record layouts and flat tables: what reads what, what must be counted where. Runs once, at creation.
 */
#include <errno.h>
#include <string.h>

#include "lineage/state.h"

struct builder {
    struct lineage *l;
    uint32_t capacity, count; /* of l->numbers */
    uint8_t *marks, *read;    /* scratch, one per Port */
    uint32_t *stack;          /* scratch, Ports */
    uint32_t stack_count;
};

static void number_push(struct builder *b, struct range *range, uint32_t number)
{
    struct lineage *l = b->l;
    if (b->count == b->capacity) {
        uint32_t capacity = b->capacity ? b->capacity * 2 : 256;
        uint32_t *numbers = memory_take(l, capacity * sizeof(*numbers)); /* ranges that are done stay where they are */
        if (!numbers)
            return;
        if (b->count)
            memcpy(numbers, l->numbers, b->count * sizeof(*numbers));
        l->numbers = numbers;
        b->capacity = capacity;
    }
    l->numbers[b->count++] = number;
    range->count++;
    range->numbers = l->numbers + b->count - range->count;
}

static void mark_push(struct builder *b, uint32_t port)
{
    if (port == NONE || b->marks[port])
        return;
    b->marks[port] = 1;
    b->stack[b->stack_count++] = port;
}

static void marks_clear(struct builder *b)
{
    memset(b->marks, 0, b->l->plan->port_count);
    b->stack_count = 0;
}

static bool port_has_item(const struct lineage *l, uint32_t port)
{
    const struct port_layout *p = &l->ports[port];
    if (p->kind == PLAN_SOURCE || p->kind == PLAN_EXPAND)
        return p->kind == PLAN_SOURCE || l->calls[p->call].live;
    return p->kind == PLAN_CALL_OUTPUT ? l->calls[p->call].live : p->live;
}

static bool port_is_stored(const struct lineage *l, uint32_t port)
{
    const struct port_layout *p = &l->ports[port];
    if (!port_has_item(l, port))
        return false;
    return p->kind == PLAN_SOURCE || p->kind == PLAN_EXPAND || (p->kind == PLAN_CALL_OUTPUT && p->source == NONE);
}

static void copy_ports(struct lineage *l)
{
    const struct sheaf_plan *plan = l->plan;
    for (uint32_t i = 0; i < plan->port_count; i++) {
        const struct plan_port *from = &plan->ports[i];
        struct port_layout *p = &l->ports[i];
        *p = (struct port_layout){.records = &l->domains[from->domain].pool,
                                  .kind = from->port_kind,
                                  .domain = from->domain,
                                  .item = NONE,
                                  .value = NONE,
                                  .gather = NONE,
                                  .counter = NONE,
                                  .top = from->domain,
                                  .source = from->source,
                                  .members = from->members,
                                  .mask = from->mask,
                                  .call = from->call,
                                  .from = NONE,
                                  .live = from->live,
                                  .partial = from->partial,
                                  .needs_final = from->needs_final};
        if (from->port_kind == PLAN_CALL_OUTPUT)
            p->source = NONE; /* the EXPAND Port over it, below */
        if (from->port_kind == PLAN_GATHER || from->port_kind == PLAN_BROADCAST)
            p->from = plan->ports[from->source].domain;
    }
    for (uint32_t i = 0; i < plan->port_count; i++)
        if (l->ports[i].kind == PLAN_EXPAND)
            l->ports[l->ports[i].source].source = i;
    for (uint32_t i = 0; i < plan->output_count; i++)
        l->ports[plan->outputs[i].port].output = true;
}

static void copy_calls(struct builder *b)
{
    struct lineage *l = b->l;
    const struct sheaf_plan *plan = l->plan;
    for (uint32_t i = 0; i < plan->call_count; i++) {
        const struct plan_call *from = &plan->calls[i];
        struct call_layout *c = &l->calls[i];
        *c = (struct call_layout){.records = &l->domains[from->domain].pool,
                                  .domain = from->domain,
                                  .grain = NONE,
                                  .group = NONE,
                                  .live = from->live,
                                  .side_effect = from->side_effect,
                                  .needs_final = from->needs_final,
                                  .may_fail_root = from->widest_failure == SHEAF_SCOPE_ROOT,
                                  .may_fail_group = from->widest_failure >= SHEAF_SCOPE_GROUP && from->domain != 0};
        for (uint32_t j = 0; j < from->input_count; j++)
            number_push(b, &c->inputs, plan->call_ports[from->input_first + j]);
        for (uint32_t j = 0; j < from->output_count; j++)
            number_push(b, &c->outputs, plan->call_ports[from->output_first + j]);
        for (uint32_t j = 0; j < from->expansion_count; j++)
            number_push(b, &c->expansions, plan->call_expansions[from->expansion_first + j]);
    }
}

static void copy_domains(struct builder *b)
{
    struct lineage *l = b->l;
    const struct sheaf_plan *plan = l->plan;
    for (uint32_t i = 0; i < plan->domain_count; i++) {
        struct domain_layout *d = &l->domains[i];
        d->parent = plan->domains[i].parent;
        d->depth = plan->domains[i].depth;
        d->call = plan->domains[i].call;
        d->expansion = NONE;
        d->pool.free = NONE;
        for (uint32_t j = 0; j < plan->call_count; j++)
            if (l->calls[j].domain == i && l->calls[j].live)
                number_push(b, &d->calls, j);
        for (uint32_t j = 1; j < plan->domain_count; j++)
            if (plan->domains[j].parent == i && l->calls[plan->domains[j].call].live) {
                l->domains[j].child_position = d->children.count;
                number_push(b, &d->children, j);
            }
        for (uint32_t j = 0; j < plan->port_count; j++)
            if (l->ports[j].domain == i && port_has_item(l, j))
                number_push(b, &d->ports, j);
        /* In the order of the Call's outputs, which is how values of children come. */
        if (i != 0)
            FOR_RANGE(l->calls[d->call].outputs, group)
            {
                uint32_t expand = l->ports[group].source;
                if (expand != NONE && l->ports[expand].domain == i && l->calls[d->call].live)
                    number_push(b, &d->expands, expand);
            }
        for (uint32_t j = 0; j < plan->port_count; j++)
            if (l->ports[j].domain == i && l->ports[j].kind == PLAN_BROADCAST && l->ports[j].live)
                number_push(b, &d->broadcasts, j);
        for (uint32_t j = 0; j < plan->port_count; j++)
            if (l->ports[j].from == i && l->ports[j].kind == PLAN_GATHER && l->ports[j].live)
                number_push(b, &d->gathers, j);
        for (uint32_t j = 0; j < plan->call_count; j++)
            if (l->calls[j].live && l->calls[j].may_fail_group && plan->domains[l->calls[j].domain].parent == i)
                number_push(b, &d->groups, j);
    }
}

static bool call_reads(const struct lineage *l, uint32_t call, uint32_t port)
{
    FOR_RANGE(l->calls[call].inputs, input)
    {
        if (input == port)
            return true;
    }
    return false;
}

/* Writes the readers of one Port at `out` (NULL: only counts them). */
static uint32_t readers_of(const struct lineage *l, uint32_t port, struct reader *out)
{
    uint32_t count = 0;
    struct reader ignored, *to = out ? out : &ignored;
#define READER(a_kind, a_index) (*to = (struct reader){a_kind, a_index}, to += out ? 1 : 0, count++)
    for (uint32_t j = 0; j < l->plan->call_count; j++)
        if (l->calls[j].live && call_reads(l, j, port))
            READER(READ_CALL, j);
    for (uint32_t j = 0; j < l->plan->port_count; j++) {
        const struct port_layout *q = &l->ports[j];
        if (!q->live)
            continue;
        if (q->kind == PLAN_FILTER && (q->source == port || q->mask == port))
            READER(READ_FILTER, j);
        if (q->kind == PLAN_GATHER && (q->source == port || q->members == port))
            READER(READ_GATHER, j);
        if (q->kind == PLAN_BROADCAST && q->source == port)
            READER(READ_BROADCAST, j);
    }
    const struct port_layout *p = &l->ports[port];
    if (p->kind == PLAN_CALL_OUTPUT && l->calls[p->call].live && l->calls[p->call].outputs.numbers[0] == port)
        FOR_RANGE(l->calls[p->call].expansions, domain)
        {
            READER(READ_EXPAND, domain);
        }
#undef READER
    return count;
}

static int make_readers(struct lineage *l)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < l->plan->port_count; i++)
        count += l->ports[i].reader_count = readers_of(l, i, NULL);
    l->readers = memory_take(l, (count + 1) * sizeof(*l->readers));
    if (!l->readers)
        return -ENOMEM;
    struct reader *next = l->readers;
    for (uint32_t i = 0; i < l->plan->port_count; i++) {
        struct port_layout *p = &l->ports[i];
        p->readers = next;
        next += readers_of(l, i, next);
        p->gatherer = p->reader_count == 1 && p->readers->kind == READ_GATHER ? p->readers->index : NONE;
    }
    return 0;
}

/* Marks everything the marked Ports derive from, Expansions above them too. */
static void mark_upstream(struct builder *b)
{
    struct lineage *l = b->l;
    for (uint32_t next = 0; next < b->stack_count; next++) {
        struct port_layout *p = &l->ports[b->stack[next]];
        if (p->kind == PLAN_CALL_OUTPUT) {
            FOR_RANGE(l->calls[p->call].inputs, input)
            {
                mark_push(b, input);
            }
            continue;
        }
        if (p->kind != PLAN_SOURCE)
            mark_push(b, p->source);
        if (p->kind == PLAN_FILTER)
            mark_push(b, p->mask);
        if (p->kind == PLAN_GATHER)
            mark_push(b, p->members);
        uint32_t below = p->kind == PLAN_GATHER ? p->from : p->domain;
        if ((p->kind == PLAN_GATHER || p->kind == PLAN_BROADCAST || p->kind == PLAN_EXPAND) && below != 0)
            mark_push(b, l->calls[l->domains[below].call].outputs.numbers[0]);
    }
}

/* What a Port derives from has lower numbers. */
static bool derives_from_partial(const struct lineage *l, uint32_t port)
{
    const struct port_layout *p = &l->ports[port];
    bool derives = p->kind == PLAN_GATHER && p->partial;
    const uint32_t from[] = {p->source, p->mask, p->members};
    for (uint32_t i = 0; i < 3; i++)
        derives = derives || (from[i] != NONE && l->ports[from[i]].partial_above);
    if (p->kind == PLAN_CALL_OUTPUT || p->kind == PLAN_EXPAND)
        FOR_RANGE(l->calls[p->call].inputs, input)
        {
            derives = derives || l->ports[input].partial_above;
        }
    return derives;
}

/* Ports whose finality somebody waits for, directly or through what they derive from; and Ports outputs derive from. */
static void mark_ports(struct builder *b)
{
    struct lineage *l = b->l;
    marks_clear(b);
    for (uint32_t i = 0; i < l->plan->call_count; i++) {
        if (!l->calls[i].live || !l->calls[i].needs_final)
            continue;
        FOR_RANGE(l->calls[i].inputs, input)
        {
            mark_push(b, input);
        }
    }
    for (uint32_t i = 0; i < l->plan->port_count; i++)
        if (l->ports[i].live && l->ports[i].kind == PLAN_GATHER && l->ports[i].needs_final)
            mark_push(b, i);
    mark_upstream(b);
    for (uint32_t i = 0; i < b->stack_count; i++)
        l->ports[b->stack[i]].tracked = true;
    marks_clear(b);
    for (uint32_t i = 0; i < l->plan->port_count; i++)
        if (l->ports[i].output)
            mark_push(b, i);
    mark_upstream(b);
    for (uint32_t i = 0; i < b->stack_count; i++)
        l->ports[b->stack[i]].feeds_output = true;
    for (uint32_t i = 0; i < l->plan->port_count; i++)
        l->ports[i].partial_above = derives_from_partial(l, i);
}

/* All Ports through which a Call can see values of `port`: structural operations, and the group list over an expand. */
static void reach_structural(struct builder *b, uint32_t port)
{
    struct lineage *l = b->l;
    marks_clear(b);
    mark_push(b, port);
    for (uint32_t next = 0; next < b->stack_count; next++) {
        const struct port_layout *p = &l->ports[b->stack[next]];
        for (uint32_t r = 0; r < p->reader_count; r++) {
            const struct reader *reader = &p->readers[r];
            if (reader->kind == READ_FILTER || reader->kind == READ_GATHER || reader->kind == READ_BROADCAST)
                mark_push(b, reader->index);
        }
        if (p->kind == PLAN_EXPAND)
            mark_push(b, p->source);
    }
}

static void readings_mark(struct lineage *l, uint8_t *reading, uint32_t call, uint32_t top)
{
    reading[call] = 1;
    for (uint32_t d = l->calls[call].domain; d != top && l->domains[d].depth > l->domains[top].depth;
         d = l->domains[d].parent)
        reading[l->domains[d].call] = 1;
}

/* A live Call sees values through this Port, or through what takes them on from it. */
static bool port_is_read(const struct builder *b, uint32_t port)
{
    const struct lineage *l = b->l;
    const struct port_layout *p = &l->ports[port];
    for (uint32_t r = 0; r < p->reader_count; r++) {
        const struct reader *reader = &p->readers[r];
        if (reader->kind == READ_CALL || (reader->kind != READ_EXPAND && b->read[reader->index]))
            return true;
    }
    return false;
}

/* Of the marked Ports. */
static void mark_read(struct builder *b)
{
    memset(b->read, 0, b->l->plan->port_count);
    for (bool more = true; more;) {
        more = false;
        for (uint32_t i = b->stack_count; i-- > 0;) {
            uint32_t port = b->stack[i];
            if (b->read[port] || !port_is_read(b, port))
                continue;
            b->read[port] = 1;
            more = true;
        }
    }
}

/* Who must be finished before the values of a stored Port are unused. False: an output shows them. */
static bool readings_of(struct builder *b, uint32_t port, uint8_t *reading)
{
    struct lineage *l = b->l;
    reach_structural(b, port);
    mark_read(b);
    memset(reading, 0, l->plan->call_count);
    uint32_t top = l->ports[port].domain;
    for (uint32_t i = 0; i < b->stack_count; i++) {
        uint32_t domain = l->ports[b->stack[i]].domain;
        if (b->read[b->stack[i]] && l->domains[domain].depth < l->domains[top].depth)
            top = domain;
        if (l->ports[b->stack[i]].output)
            return false;
    }
    l->ports[port].top = top;
    for (uint32_t i = 0; i < b->stack_count; i++)
        for (uint32_t j = 0; j < l->plan->call_count; j++)
            if (l->calls[j].live && call_reads(l, j, b->stack[i]))
                readings_mark(l, reading, j, top);
    return true;
}

static int make_readings(struct builder *b)
{
    struct lineage *l = b->l;
    uint32_t calls = l->plan->call_count;
    /* One byte per (stored Port, Call): the Call counts as a reader. */
    uint8_t *matrix = memory_take(l, (size_t)l->plan->port_count * calls + 1);
    if (!matrix)
        return -ENOMEM;
    for (uint32_t i = 0; i < l->plan->port_count; i++) {
        if (!port_is_stored(l, i))
            continue;
        l->ports[i].counted = readings_of(b, i, matrix + (size_t)i * calls);
        if (!l->ports[i].counted)
            memset(matrix + (size_t)i * calls, 0, calls);
    }
    for (uint32_t j = 0; j < l->plan->domain_count; j++)
        for (uint32_t i = 0; i < l->plan->port_count; i++)
            if (l->ports[i].counted && l->ports[i].top == j)
                number_push(b, &l->domains[j].tops, i);
    for (uint32_t j = 0; j < calls; j++)
        for (uint32_t i = 0; i < l->plan->port_count; i++)
            if (matrix[(size_t)i * calls + j])
                number_push(b, &l->calls[j].readings, i);
    return 0;
}

static void mark_observed_domains(struct lineage *l)
{
    for (uint32_t i = 0; i < l->plan->port_count; i++)
        if (l->ports[i].output)
            l->domains[l->ports[i].domain].observed = true;
    for (uint32_t i = 0; i < l->plan->call_count; i++)
        if (l->calls[i].live && (l->calls[i].side_effect || l->calls[i].may_fail_root))
            l->domains[l->calls[i].domain].observed = true;
    for (uint32_t i = l->plan->domain_count; i-- > 1;)
        if (l->domains[i].observed)
            l->domains[l->domains[i].parent].observed = true;
}

static void group_call_reach(struct builder *b, struct call_layout *group, uint32_t call)
{
    struct lineage *l = b->l;
    struct call_layout *c = &l->calls[call];
    group->group_observed = group->group_observed || c->side_effect || c->may_fail_root;
    FOR_RANGE(c->outputs, output)
    {
        mark_push(b, output);
    }
    FOR_RANGE(c->expansions, domain)
    {
        group->group_observed = group->group_observed || l->domains[domain].observed;
        FOR_RANGE(l->domains[domain].gathers, gather)
        {
            mark_push(b, gather);
        }
    }
}

/* Through what the Items of a group can be observed: inside it for sure, or by gathers to its parent. */
static void make_groups(struct builder *b)
{
    struct lineage *l = b->l;
    for (uint32_t i = 0; i < l->plan->call_count; i++) {
        struct call_layout *group = &l->calls[i];
        if (!group->live || !group->may_fail_group)
            continue;
        marks_clear(b);
        group_call_reach(b, group, i);
        for (uint32_t next = 0; next < b->stack_count; next++) {
            const struct port_layout *p = &l->ports[b->stack[next]];
            if (p->kind == PLAN_GATHER && p->from == group->domain)
                continue;
            group->group_observed = group->group_observed || p->output;
            for (uint32_t r = 0; r < p->reader_count; r++) {
                const struct reader *reader = &p->readers[r];
                if (reader->kind == READ_CALL)
                    group_call_reach(b, group, reader->index);
                else if (reader->kind != READ_EXPAND)
                    mark_push(b, reader->index);
            }
        }
        for (uint32_t next = 0; next < b->stack_count; next++)
            if (l->ports[b->stack[next]].kind == PLAN_GATHER && l->ports[b->stack[next]].from == group->domain)
                number_push(b, &group->group_gathers, b->stack[next]);
    }
}

/* Which Ports have values in the records of a Domain, and whether these have all been reported when a root is over. */
static void make_stored(struct builder *b, uint32_t domain)
{
    struct lineage *l = b->l;
    struct domain_layout *d = &l->domains[domain];
    d->quiet = domain != 0 && d->children.count == 0;
    for (uint32_t i = 0; i < l->plan->port_count; i++) {
        if (l->ports[i].domain != domain || !port_is_stored(l, i))
            continue;
        number_push(b, &d->stored, i);
        d->quiet = d->quiet && l->ports[i].counted;
    }
    FOR_RANGE(d->stored, port)
    {
        if (l->ports[port].kind == PLAN_SOURCE || l->ports[port].kind == PLAN_EXPAND)
            number_push(b, &d->given, port);
    }
}

static uint32_t place(uint32_t *stride, size_t bytes)
{
    uint32_t offset = *stride;
    *stride += (uint32_t)bytes;
    return offset;
}

/* What changes comes first, close together; values, which are written and read as a whole, come last. */
static void make_record(struct lineage *l, uint32_t domain)
{
    struct domain_layout *d = &l->domains[domain];
    uint32_t stride = sizeof(struct entity) + (domain == 0 ? sizeof(struct root_state) : 0);
    FOR_RANGE(d->calls, call)
    {
        l->calls[call].grain = place(&stride, sizeof(struct grain_state));
    }
    FOR_RANGE(d->tops, top)
    {
        l->ports[top].counter = place(&stride, sizeof(uint32_t));
    }
    FOR_RANGE(d->children, child)
    {
        l->domains[child].expansion = place(&stride, sizeof(struct expansion));
    }
    FOR_RANGE(d->groups, group)
    {
        l->calls[group].group = place(&stride, sizeof(struct group_state));
    }
    FOR_RANGE(d->ports, gather)
    {
        if (l->ports[gather].kind == PLAN_GATHER)
            l->ports[gather].gather =
                place(&stride, l->ports[gather].tracked ? sizeof(struct gather_state) : sizeof(uint32_t) * 2);
    }
    for (uint32_t i = 0; i < l->plan->port_count; i++)
        if (l->ports[i].kind == PLAN_BROADCAST && l->ports[i].live && l->ports[i].from == domain)
            l->ports[i].hint = place(&stride, sizeof(uint32_t));
    FOR_RANGE(d->ports, item)
    {
        l->ports[item].item = place(&stride, 1);
    }
    d->pool.cleared = stride = (stride + 7) & ~7u;
    FOR_RANGE(d->stored, port)
    {
        l->ports[port].value = place(&stride, sizeof(struct value_ref));
    }
    d->pool.stride = stride;
}

static int make_tables(struct lineage *l)
{
    const struct sheaf_plan *plan = l->plan;
    uint32_t depth = 1;
    for (uint32_t i = 0; i < plan->domain_count; i++)
        depth = plan->domains[i].depth > depth ? plan->domains[i].depth : depth;
    l->ports = memory_take(l, (plan->port_count + 1) * sizeof(*l->ports));
    l->calls = memory_take(l, (plan->call_count + 1) * sizeof(*l->calls));
    l->domains = memory_take(l, (plan->domain_count + 1) * sizeof(*l->domains));
    l->output_counts = memory_take(l, (plan->output_count + 1) * sizeof(*l->output_counts));
    l->coordinate_a = memory_take(l, depth * sizeof(uint64_t));
    l->coordinate_b = memory_take(l, depth * sizeof(uint64_t));
    return l->broken ? -ENOMEM : 0;
}

int layout_make(struct lineage *l)
{
    struct builder b = {.l = l};
    if (make_tables(l))
        return -ENOMEM;
    b.marks = memory_take(l, l->plan->port_count + 1);
    b.read = memory_take(l, l->plan->port_count + 1);
    b.stack = memory_take(l, (l->plan->port_count + 1) * sizeof(uint32_t));
    if (!b.marks || !b.read || !b.stack)
        return -ENOMEM;
    copy_ports(l);
    copy_calls(&b);
    if (l->broken)
        return -ENOMEM;
    copy_domains(&b);
    if (l->broken || make_readers(l))
        return -ENOMEM;
    mark_ports(&b);
    if (make_readings(&b))
        return -ENOMEM;
    mark_observed_domains(l);
    make_groups(&b);
    for (uint32_t i = 0; i < l->plan->domain_count; i++)
        make_stored(&b, i);
    if (l->broken)
        return -ENOMEM;
    for (uint32_t i = 0; i < l->plan->domain_count; i++)
        make_record(l, i);
    l->failures.stride = l->failures.cleared = sizeof(struct failure);
    l->failures.free = NONE;
    return 0;
}
