/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way of a READY row to its queue. First the isolation dial (src/sched/gate.h): of a Call that may fail its group,
 * only so many rows of one parent are let through before the first of them succeeds, so that a parent that is bad as a
 * whole costs those few. Then fairness between roots (src/sched/bulk.c). A row that was let through is over when
 * lineage is told of its end, or when lineage took it back.
 */
#include <errno.h>
#include <stdlib.h>

#include "engine/shard.h"
#include "sched/gate.h"

int turn_create(struct shard *shard)
{
    const struct sheaf_plan *plan = shard->plan;
    shard->gates = calloc(plan->call_count + 1, sizeof *shard->gates);
    if (!shard->gates)
        return -ENOMEM;
    for (uint32_t call = 0; call < plan->call_count; call++) {
        bool reaches = plan->calls[call].widest_failure >= SHEAF_SCOPE_GROUP && plan->calls[call].domain != 0;
        gate_open(&shard->gates[call], &shard->sched_memory, call, reaches ? shard->run->unproven_rows : 0);
    }
    return 0;
}

void turn_destroy(struct shard *shard)
{
    for (uint32_t call = 0; shard->gates && call < shard->plan->call_count; call++)
        gate_close(&shard->gates[call]);
    free(shard->gates);
    shard->gates = NULL;
}

static void queue(struct shard *shard, struct grain grain)
{
    int result = shard->plan->calls[grain.call].domain == 0
                     ? sched_ready(shard->sched, grain)
                     : sched_ready_in_turn(shard->sched, grain, lineage_root_of(shard->lineage, grain));
    if (result < 0)
        shard_fail(shard, -ENOMEM, "queueing a row");
    batching_row_ready(shard, grain.call);
}

static uint32_t parent_of(const struct shard *shard, struct grain grain, uint64_t *ret_key)
{
    uint32_t domain = shard->plan->calls[grain.call].domain;
    *ret_key = lineage_parent_key(shard->lineage, domain, grain.entity);
    return lineage_parent_of(shard->lineage, domain, grain.entity);
}

void turn_ready(struct shard *shard, struct grain grain)
{
    struct gate *gate = &shard->gates[grain.call];
    uint64_t key;
    int passes = 1;
    if (gate->dial != 0) {
        uint32_t parent = parent_of(shard, grain, &key);
        passes = gate_ready(gate, grain.entity, parent, key);
    }
    if (passes < 0)
        shard_fail(shard, passes, "holding a row back");
    else if (passes > 0)
        queue(shard, grain);
}

void turn_over(struct shard *shard, struct grain grain, bool succeeded)
{
    struct gate *gate = &shard->gates[grain.call];
    uint64_t key;
    uint32_t next;
    if (gate->dial == 0)
        return;
    uint32_t parent = parent_of(shard, grain, &key);
    gate_over(gate, grain.entity, parent, key, succeeded);
    while (gate_next(gate, parent, &next))
        queue(shard, (struct grain){grain.call, next});
}

bool turn_cancel(struct shard *shard, struct grain grain)
{
    struct gate *gate = &shard->gates[grain.call];
    uint64_t key;
    return gate->dial != 0 && gate_cancel(gate, grain.entity, parent_of(shard, grain, &key));
}

uint32_t turn_held(const struct shard *shard, uint32_t call)
{
    return (uint32_t)shard->gates[call].held;
}
