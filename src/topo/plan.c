/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/topo_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct plan_memory {
    struct topo_plan plan; /* first: what callers hold */
    struct topo_shard *shards;
    struct topo_worker *workers;
    uint32_t *of_core;   /* per core: its workers */
    uint32_t *dealt;     /* per node: CPU workers */
    uint32_t *of_device; /* per node: workers on GPUs */
};

/* The node whose cores would be the least crowded with one worker more. */
static uint32_t least_crowded(const struct topo_machine *machine, const struct plan_memory *memory)
{
    uint32_t best = 0;

    for (uint32_t node = 1; node < machine->home_count; node++) {
        uint64_t here = memory->dealt[node] + memory->of_device[node] + 1;
        uint64_t there = memory->dealt[best] + memory->of_device[best] + 1;

        if (here * machine->nodes[best].core_count < there * machine->nodes[node].core_count)
            best = node;
    }
    return best;
}

static void give_core(const struct topo_machine *machine, struct plan_memory *memory, struct topo_worker *worker,
                      uint32_t core, uint32_t unit)
{
    assert(machine->cores[core].node == worker->node);
    worker->core = core;
    worker->pu = machine->pus[machine->cores[core].pu_first + unit % machine->cores[core].pu_count];
    memory->of_core[core]++;
}

static void place_on_gpu(const struct topo_machine *machine, struct plan_memory *memory, struct topo_worker *worker)
{
    /* One that hwloc does not know may be anywhere: like a CPU worker, where there is room. */
    worker->node = worker->gpu != TOPO_NONE ? machine->devices[worker->gpu].node : least_crowded(machine, memory);
    const struct topo_node *node = &machine->nodes[worker->node];
    uint32_t k = memory->of_device[worker->node]++;

    give_core(machine, memory, worker, node->core_first + node->core_count - 1 - k % node->core_count,
              k / node->core_count);
}

/* On the cores that workers on GPUs leave, or on all when they leave none. */
static void place_on_core(const struct topo_machine *machine, struct plan_memory *memory, struct topo_worker *worker)
{
    worker->node = least_crowded(machine, memory);
    const struct topo_node *node = &machine->nodes[worker->node];
    uint32_t kept = memory->of_device[worker->node], k = memory->dealt[worker->node]++;
    uint32_t left = kept < node->core_count ? node->core_count - kept : node->core_count;

    give_core(machine, memory, worker, node->core_first + k % left, k / left);
}

/* Workers on GPUs first: they have no choice. */
static void place_workers(const struct topo_machine *machine, const struct topo_pool *pools, struct plan_memory *memory)
{
    for (int on_gpus = 1; on_gpus >= 0; on_gpus--) {
        struct topo_worker *worker = memory->workers;

        for (uint32_t pool = 0; pool < memory->plan.pool_count; pool++) {
            for (uint32_t i = 0; i < pools[pool].worker_count; i++, worker++) {
                if (pools[pool].on_gpus != on_gpus)
                    continue;
                worker->pool = pool;
                worker->gpu = on_gpus ? pools[pool].gpus[i] : TOPO_NONE;
                assert(!on_gpus || worker->gpu == TOPO_NONE || worker->gpu < machine->gpu_count);
                if (on_gpus)
                    place_on_gpu(machine, memory, worker);
                else
                    place_on_core(machine, memory, worker);
            }
        }
    }
    for (uint32_t i = 0; i < memory->plan.worker_count; i++)
        memory->workers[i].shared = memory->of_core[memory->workers[i].core] > 1;
}

/* One per node that has workers; forced, shard s is on the s-th of those nodes, round and round. */
static void place_shards(const struct topo_machine *machine, uint32_t forced, struct plan_memory *memory)
{
    struct topo_plan *plan = &memory->plan;
    uint32_t nodes[TOPO_SHARDS_MAX], count = 0;

    for (uint32_t node = 0; node < machine->home_count && count < TOPO_SHARDS_MAX; node++)
        if (memory->dealt[node] + memory->of_device[node] > 0)
            nodes[count++] = node;
    if (count == 0)
        nodes[count++] = 0; /* no workers: a program without Calls has a shard all the same */
    plan->shard_count = forced == 0 ? count : forced < TOPO_SHARDS_MAX ? forced : TOPO_SHARDS_MAX;
    for (uint32_t i = 0; i < plan->shard_count; i++)
        memory->shards[i].node = nodes[i % count];
    for (uint32_t i = 0; i < plan->worker_count; i++) {
        struct topo_worker *worker = &memory->workers[i];

        worker->shard = worker->node % plan->shard_count; /* of a node without one: any */
        for (uint32_t shard = plan->shard_count; shard-- > 0;)
            if (memory->shards[shard].node == worker->node)
                worker->shard = shard;
        memory->shards[worker->shard].worker_count++;
    }
}

static int allocate(const struct topo_machine *machine, struct plan_memory *memory)
{
    memory->shards = calloc(TOPO_SHARDS_MAX, sizeof *memory->shards);
    memory->workers = calloc((size_t)memory->plan.worker_count + 1, sizeof *memory->workers);
    memory->of_core = calloc(machine->core_count, sizeof *memory->of_core);
    memory->dealt = calloc(machine->node_count, sizeof *memory->dealt);
    memory->of_device = calloc(machine->node_count, sizeof *memory->of_device);
    memory->plan.shards = memory->shards;
    memory->plan.workers = memory->workers;
    return memory->shards && memory->workers && memory->of_core && memory->dealt && memory->of_device ? 0 : -ENOMEM;
}

uint32_t topo_default_workers(const struct topo *topo, uint32_t per_core, uint32_t gpu_workers)
{
    const struct topo_machine *machine = &topo->machine;
    uint32_t cores = machine->core_count > gpu_workers ? machine->core_count - gpu_workers : 0, workers = 0;

    for (uint32_t i = 0; i < cores; i++)
        workers += machine->cores[i].pu_count < per_core ? machine->cores[i].pu_count : per_core;
    if (machine->usable_cores < machine->core_count) { /* the quota counts processing units */
        uint32_t paid = machine->usable_cores > gpu_workers ? machine->usable_cores - gpu_workers : 0;
        workers = workers < paid ? workers : paid;
    }
    return workers > 0 ? workers : 1;
}

int topo_plan(const struct topo *topo, const struct topo_pool *pools, uint32_t pool_count, uint32_t shards,
              struct topo_plan **ret_plan)
{
    const struct topo_machine *machine = &topo->machine;
    struct plan_memory *memory = calloc(1, sizeof *memory);

    if (memory == NULL)
        return -ENOMEM;
    memory->plan.pool_count = pool_count;
    for (uint32_t pool = 0; pool < pool_count; pool++)
        memory->plan.worker_count += pools[pool].worker_count;
    memory->plan.binds = !machine->loaded && machine->home_count > 1;
    if (allocate(machine, memory) < 0) {
        topo_plan_destroy(&memory->plan);
        return -ENOMEM;
    }
    place_workers(machine, pools, memory);
    place_shards(machine, shards, memory);
    *ret_plan = &memory->plan;
    return 0;
}

void topo_plan_destroy(struct topo_plan *plan)
{
    struct plan_memory *memory = (struct plan_memory *)plan;

    if (memory == NULL)
        return;
    free(memory->shards);
    free(memory->workers);
    free(memory->of_core);
    free(memory->dealt);
    free(memory->of_device);
    free(memory);
}
