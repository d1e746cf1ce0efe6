/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/topo_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct plan_memory {
    struct topo_plan plan; /* first: what callers hold */
    struct topo_shard *shards;
    struct topo_worker *workers;
    struct topo_gpu *gpus;
};

/* The share of node `node`: cumulative rounding, so that shares add up to `workers` whatever the sizes are. */
static uint32_t share_before(const struct topo_machine *machine, uint32_t node, uint32_t workers)
{
    uint64_t cores = machine->nodes[node].core_first; /* cores of the nodes before it */

    return (uint32_t)((cores * workers + machine->core_count / 2) / machine->core_count);
}

static uint32_t nodes_with_cores(const struct topo_machine *machine)
{
    uint32_t count = 0;

    while (count < machine->node_count && machine->nodes[count].core_count > 0)
        count++;
    return count;
}

/* Worker number k of a node: core k, and after the last core round again on the next processing unit. */
static struct topo_worker place_worker(const struct topo_machine *machine, uint32_t shard, uint32_t k, uint32_t count)
{
    const struct topo_node *node = &machine->nodes[shard];
    uint32_t core = node->core_first + k % node->core_count;
    uint32_t unit = k / node->core_count % machine->cores[core].pu_count;
    bool shared = k >= node->core_count || k + node->core_count < count;

    return (struct topo_worker){shard, shard, core, machine->pus[machine->cores[core].pu_first + unit], shared};
}

static void place_workers(const struct topo_machine *machine, struct plan_memory *memory)
{
    struct topo_plan *plan = &memory->plan;

    for (uint32_t shard = 0; shard < plan->shard_count; shard++) {
        const struct topo_node *node = &machine->nodes[shard];
        uint32_t first = share_before(machine, shard, plan->worker_count);
        uint32_t last =
            shard + 1 < plan->shard_count ? share_before(machine, shard + 1, plan->worker_count) : plan->worker_count;
        uint32_t pu_first = machine->cores[node->core_first].pu_first;
        const struct topo_core *core_last = &machine->cores[node->core_first + node->core_count - 1];

        memory->shards[shard] = (struct topo_shard){shard, first, last - first, pu_first,
                                                    core_last->pu_first + core_last->pu_count - pu_first};
        for (uint32_t i = first; i < last; i++)
            memory->workers[i] = place_worker(machine, shard, i - first, last - first);
    }
}

static uint32_t count_gpus(const struct topo_machine *machine)
{
    uint32_t count = 0;

    while (count < machine->device_count && machine->devices[count].kind == TOPO_GPU) /* they are first */
        count++;
    return count;
}

static void place_gpus(const struct topo_machine *machine, struct plan_memory *memory)
{
    for (uint32_t i = 0; i < memory->plan.gpu_count; i++) {
        uint32_t node = machine->devices[i].node, before = 0;

        for (uint32_t j = 0; j < i; j++)
            before += machine->devices[j].node == node;
        uint32_t core = machine->nodes[node].core_first + machine->nodes[node].core_count - 1 -
                        before % machine->nodes[node].core_count;
        memory->gpus[i] = (struct topo_gpu){i, node, node, core, machine->pus[machine->cores[core].pu_first]};
    }
}

int topo_plan(const struct topo *topo, uint32_t workers, struct topo_plan **ret_plan)
{
    const struct topo_machine *machine = &topo->machine;
    struct plan_memory *memory = calloc(1, sizeof *memory);

    if (memory == NULL)
        return -ENOMEM;
    memory->plan.shard_count = nodes_with_cores(machine);
    memory->plan.worker_count = workers == 0 ? machine->usable_cores : workers;
    memory->plan.gpu_count = count_gpus(machine);
    assert(memory->plan.shard_count > 0);
    memory->shards = calloc(memory->plan.shard_count, sizeof *memory->shards);
    memory->workers = calloc(memory->plan.worker_count, sizeof *memory->workers);
    memory->gpus = calloc(memory->plan.gpu_count + 1, sizeof *memory->gpus);
    if (memory->shards == NULL || memory->workers == NULL || memory->gpus == NULL) {
        topo_plan_destroy(&memory->plan);
        return -ENOMEM;
    }
    place_workers(machine, memory);
    place_gpus(machine, memory);
    memory->plan.shards = memory->shards;
    memory->plan.workers = memory->workers;
    memory->plan.gpus = memory->gpus;
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
    free(memory->gpus);
    free(memory);
}
