/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/place.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static_assert(TOPO_SHARDS_MAX <= LANE_SHARDS_MAX, "a plan has no more shards than a lane has rings");

/* A program may wish for more workers than the memory of this machine holds: the largest Pool gives one up, until they
 * fit. What the host itself asked for is not touched. */
static uint32_t shrink_pools(const struct sheaf_engine *engine, const struct sheaf_plan *plan, uint32_t *counts,
                             uint32_t wanted)
{
    while (wanted > READY_RING_WORKERS_MAX || budget_minimum(wanted) > engine->memory_bytes) {
        uint32_t largest = PLAN_NONE;
        for (uint32_t pool = 0; pool < plan->pool_count; pool++) {
            if (plan->pools[pool].device == PLAN_ANY_DEVICE || plan->pools[pool].replicas == 0 ||
                counts[pool] <= engine->worker_count)
                continue;
            if (largest == PLAN_NONE || counts[pool] > counts[largest])
                largest = pool;
        }
        if (largest == PLAN_NONE)
            break;
        counts[largest]--;
        wanted--;
    }
    return wanted;
}

static bool pool_is_live(const struct sheaf_plan *plan, uint32_t pool)
{
    bool live = false;
    for (uint32_t i = 0; i < plan->pools[pool].call_count; i++)
        live |= plan->calls[plan->pool_calls[plan->pools[pool].call_first + i]].live;
    return live;
}

/* Workers of a CPU Pool that does not say how many. Those that nobody asked for leave the cores of workers on devices
 * alone. */
static uint32_t usual_count(const struct sheaf_engine *engine, const struct sheaf_plan *plan, uint32_t device_count)
{
    uint32_t on_devices = 0;
    for (uint32_t pool = 0; pool < plan->pool_count; pool++)
        if (plan->pools[pool].device == PLAN_ANY_DEVICE && pool_is_live(plan, pool))
            on_devices += device_count;
    uint32_t left = topo_default_workers(engine->topo, engine->options.workers_per_core, on_devices);
    return engine->options.workers == 0 && left < engine->worker_count ? left : engine->worker_count;
}

/* Deals the engine's workers out to the Pools: a Pool that says how many gets that many, the others the engine's
 * number. `ret_wanted`: how many the program wishes for; returned: how many there are. */
static uint32_t deal_workers(const struct sheaf_engine *engine, const struct sheaf_plan *plan, uint32_t device_count,
                             uint32_t *counts, uint32_t *ret_wanted)
{
    uint32_t wanted = 0, usual = usual_count(engine, plan, device_count);
    for (uint32_t pool = 0; pool < plan->pool_count; pool++) {
        bool live = pool_is_live(plan, pool);
        counts[pool] = !live ? 0 : plan->pools[pool].replicas ? plan->pools[pool].replicas : usual;
        if (live && plan->pools[pool].device == PLAN_ANY_DEVICE && device_count > 0)
            counts[pool] = device_count;
        wanted += counts[pool];
    }
    *ret_wanted = wanted;
    return shrink_pools(engine, plan, counts, wanted);
}

/* What placement wants to know of the Pools. Free with free(). */
static struct topo_pool *describe_pools(const struct sheaf_plan *plan, const uint32_t *counts, const uint32_t *gpus)
{
    struct topo_pool *pools = calloc(plan->pool_count + 1, sizeof *pools);
    for (uint32_t pool = 0; pools && pool < plan->pool_count; pool++)
        pools[pool] = (struct topo_pool){.name = plan->pools[pool].name,
                                         .worker_count = counts[pool],
                                         .on_gpus = gpus && plan->pools[pool].device == PLAN_ANY_DEVICE,
                                         .gpus = gpus};
    return pools;
}

static uint32_t forced_shards(void)
{
    const char *forced = getenv("SHEAF_SHARDS"); /* for tests: several shards on a machine with one node */
    unsigned long wanted = forced ? strtoul(forced, NULL, 10) : 0;
    return wanted < TOPO_SHARDS_MAX ? (uint32_t)wanted : TOPO_SHARDS_MAX;
}

/* Where the topology has each device of the run. NULL: there is none; free with free(). */
static int find_gpus(const struct sheaf_run *run, uint32_t **ret_gpus, struct sheaf_error *error)
{
    const struct topo_machine *machine = topo_machine(run->engine->topo);
    uint32_t count = run->devices ? run->devices->count : 0;
    int result = count > 0 ? topo_find_devices(run->engine->topo, error) : 0;
    uint32_t *gpus = count > 0 ? calloc(count, sizeof *gpus) : NULL;
    if (result < 0) {
        free(gpus);
        return result;
    }
    if (count > 0 && !gpus)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        gpus[i] = TOPO_NONE;
        for (uint32_t j = 0; j < machine->gpu_count; j++)
            if (strcasecmp(machine->devices[j].bus_id, run->devices->found[i].bus_id) == 0)
                gpus[i] = j;
    }
    *ret_gpus = gpus;
    return 0;
}

int place_run(struct sheaf_run *run, struct sheaf_error *error)
{
    const struct sheaf_plan *plan = run->plan;
    uint32_t *gpus;
    run->pool_first = calloc(plan->pool_count + 1, sizeof *run->pool_first);
    run->pool_count = calloc(plan->pool_count + 1, sizeof *run->pool_count);
    if (!run->pool_first || !run->pool_count)
        return -ENOMEM;
    uint32_t wanted,
        count = deal_workers(run->engine, plan, run->devices ? run->devices->count : 0, run->pool_count, &wanted);
    if (count < wanted)
        run_log(run, 2, "the program wishes for %u workers; the memory budget of %llu MiB has room for %u", wanted,
                (unsigned long long)(run->engine->memory_bytes >> 20), count);
    if (count > READY_RING_WORKERS_MAX) {
        if (error)
            snprintf(error->message, sizeof error->message, "%u workers: at most %u can be; try fewer", count,
                     READY_RING_WORKERS_MAX);
        return SHEAF_E_USAGE;
    }
    for (uint32_t pool = 0; pool < plan->pool_count; pool++) {
        run->pool_first[pool] = run->worker_count;
        run->worker_count += run->pool_count[pool];
    }
    int result = find_gpus(run, &gpus, error);
    if (result < 0)
        return result;
    struct topo_pool *pools = describe_pools(plan, run->pool_count, gpus);
    if (!pools) {
        free(gpus);
        return -ENOMEM;
    }
    result = topo_plan(run->engine->topo, pools, plan->pool_count, forced_shards(), &run->placement);
    free(pools);
    free(gpus);
    if (result == 0)
        run->shard_count = run->placement->shard_count;
    return result;
}

static const struct topo_node *node_at(const struct sheaf_run *run, uint32_t node)
{
    return &topo_machine(run->engine->topo)->nodes[node];
}

static int memory_of(const struct sheaf_run *run, uint32_t node)
{
    if (!run->placement->binds)
        return SEGMENT_ANY_NODE;
    return (int)node_at(run, node_at(run, node)->memory_node)->os_index;
}

int place_shard_memory(const struct sheaf_run *run, uint32_t shard)
{
    return memory_of(run, run->placement->shards[shard].node);
}

int place_worker_memory(const struct sheaf_run *run, uint32_t worker)
{
    return memory_of(run, run->placement->workers[worker].node);
}

static bool cores_of(const struct sheaf_run *run, uint32_t node, cpu_set_t *ret_cores)
{
    const struct topo_node *place = node_at(run, node);
    CPU_ZERO(ret_cores);
    for (uint32_t i = 0; i < place->pu_count; i++)
        CPU_SET(topo_machine(run->engine->topo)->pus[place->pu_first + i], ret_cores);
    return CPU_COUNT(ret_cores) > 0; /* none: all are beyond what the set can name */
}

bool place_worker_cores(const struct sheaf_run *run, uint32_t worker, cpu_set_t *ret_cores)
{
    const struct topo_worker *place = &run->placement->workers[worker];
    if (!run->placement->binds)
        return false;
    if (place->shared)
        return cores_of(run, place->node, ret_cores);
    CPU_ZERO(ret_cores);
    CPU_SET(place->pu, ret_cores);
    return CPU_COUNT(ret_cores) > 0;
}

void place_thread(const struct sheaf_run *run, uint32_t shard, const char *name)
{
    char text[16];
    cpu_set_t cores;
    snprintf(text, sizeof text, "%.10s-%u", name, shard);
    pthread_setname_np(pthread_self(), text);
    if (run->placement->binds && cores_of(run, run->placement->shards[shard].node, &cores))
        (void)pthread_setaffinity_np(pthread_self(), sizeof cores, &cores); /* refused: it runs anywhere */
}

/* ---- for people ---- */

/* Without a program: the CPU workers there would be, and one on each GPU. */
static int describe_machine(const struct sheaf_engine *engine, char **ret_text)
{
    const struct topo_machine *machine = topo_machine(engine->topo);
    uint32_t *gpus = calloc(machine->gpu_count + 1, sizeof *gpus);
    if (!gpus)
        return -ENOMEM;
    for (uint32_t i = 0; i < machine->gpu_count; i++)
        gpus[i] = i;
    uint32_t left = topo_default_workers(engine->topo, engine->options.workers_per_core, machine->gpu_count);
    const struct topo_pool pools[] = {
        {.name = "on cores", .worker_count = engine->worker_count < left ? engine->worker_count : left},
        {.name = "on GPUs", .worker_count = machine->gpu_count, .on_gpus = true, .gpus = gpus}};
    struct topo_plan *placement = NULL;
    int result = topo_plan(engine->topo, pools, 2, 0, &placement);
    if (result == 0)
        result = topo_describe(engine->topo, pools, placement, ret_text);
    topo_plan_destroy(placement);
    free(gpus);
    return result;
}

int sheaf_engine_placement(const struct sheaf_engine *engine, const struct sheaf_plan *plan, char **ret_text)
{
    int result = topo_find_devices(engine->topo, NULL);
    if (result < 0)
        return result;
    if (!plan)
        return describe_machine(engine, ret_text);
    /* The devices that the topology knows: no driver is asked, and the plan may be for another machine. */
    const char *word = engine->options.device;
    uint32_t known = word && strcmp(word, "host") == 0 ? 0 : topo_machine(engine->topo)->gpu_count;
    plan = known == 0 && plan->on_host ? plan->on_host : plan;
    uint32_t wanted, *counts = calloc(plan->pool_count + 1, sizeof *counts), *gpus = calloc(known + 1, sizeof *gpus);
    if (!counts || !gpus) {
        free(counts);
        free(gpus);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < known; i++)
        gpus[i] = i;
    deal_workers(engine, plan, known, counts, &wanted);
    struct topo_pool *pools = describe_pools(plan, counts, known > 0 ? gpus : NULL);
    struct topo_plan *placement = NULL;
    result = pools ? topo_plan(engine->topo, pools, plan->pool_count, forced_shards(), &placement) : -ENOMEM;
    if (result == 0)
        result = topo_describe(engine->topo, pools, placement, ret_text);
    topo_plan_destroy(placement);
    free(pools);
    free(counts);
    free(gpus);
    return result;
}
