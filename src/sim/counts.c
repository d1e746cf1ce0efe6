/* SPDX-License-Identifier: Apache-2.0 */
/* What operators do when nobody says: numbers are counts, and rows fail by the hash of their Coordinate. */
#include "sim/state.h"

static struct value_ref number(uint64_t value)
{
    return (struct value_ref){.kind = SHEAF_I64, .offset = value};
}

static struct value_ref count_source(void *cookie, uint32_t root, uint32_t source)
{
    const struct sim *sim = cookie;
    (void)source;
    return number(sim->setup->roots[root]);
}

static uint64_t first_input(const struct lineage *lineage, struct grain grain)
{
    struct lineage_value value;
    lineage_input(lineage, grain, 0, &value);
    return value.is_list ? 0 : value.value.offset;
}

/* Whatever the schedule, the same row of the same attempt does the same. */
static enum sim_fault fault_by_chance(const struct sim *sim, uint32_t call, const uint64_t *at, uint32_t depth,
                                      uint32_t attempt)
{
    const struct sim_setup *setup = sim->setup;
    uint64_t hash = setup->seed * 0x9E3779B97F4A7C15ull + call * 0x2545F4914F6CDD1Dull + attempt;
    for (uint32_t i = 0; i < depth; i++)
        hash = (hash ^ hash >> 29 ^ at[i]) * 0xBF58476D1CE4E5B9ull;
    uint32_t part = (uint32_t)((hash ^ hash >> 31) % 1000000);
    if (part < setup->raises_per_million)
        return SIM_RAISES;
    part -= setup->raises_per_million;
    if (part < setup->crashes_per_million)
        return SIM_CRASHES;
    part -= setup->crashes_per_million;
    return part < setup->hangs_per_million ? SIM_HANGS : SIM_ANSWERS;
}

static void count_start(void *cookie, const struct lineage *lineage, struct grain grain, uint32_t attempt,
                        struct sim_saying *ret_saying)
{
    struct sim *sim = cookie;
    const struct plan_call *call = &sim->plan->calls[grain.call];
    uint64_t at[16], value = first_input(lineage, grain);
    ret_saying->token = (uintptr_t)value;
    ret_saying->text = "simulated failure";
    ret_saying->class_id = SHEAF_CLASS_OPERATOR;
    for (uint32_t i = 0; i < call->expansion_count; i++)
        ret_saying->children[i] = (uint32_t)value;
    if (!sim->setup->fault && !sim->setup->raises_per_million && !sim->setup->crashes_per_million &&
        !sim->setup->hangs_per_million)
        return;
    uint32_t depth = lineage_coordinate(lineage, call->domain, grain.entity, at, 16);
    at[0] = lineage_root_tag(lineage, lineage_root_of(lineage, grain)); /* its number, in whatever order it came */
    ret_saying->fault = sim->setup->fault ? sim->setup->fault(sim->setup->cookie, grain.call, at, depth, attempt)
                                          : fault_by_chance(sim, grain.call, at, depth, attempt);
}

static struct value_ref count_child(void *cookie, const struct sim_saying *saying, struct grain grain, uint32_t slot,
                                    uint32_t ordinal)
{
    return number(ordinal);
}

static struct value_ref count_output(void *cookie, const struct sim_saying *saying, struct grain grain, uint32_t slot)
{
    return number(saying->token);
}

struct sim_operators counting_operators(struct sim *sim)
{
    return (struct sim_operators){
        .cookie = sim, .source = count_source, .start = count_start, .child = count_child, .output = count_output};
}
