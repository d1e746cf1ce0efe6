/* SPDX-License-Identifier: Apache-2.0 */
/* Placement: this machine, invented machines, an eight-GPU box, and what cgroups take away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <hwloc.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "topo/cgroup.h"
#include "topo/topo.h"

static struct topo *take(hwloc_topology_t topology)
{
    struct topo *topo;
    char *xml;
    int length;

    assert_int_equal(hwloc_topology_export_xmlbuffer(topology, &xml, &length, 0), 0);
    assert_int_equal(topo_create(xml, &topo, NULL), 0);
    hwloc_free_xmlbuffer(topology, xml);
    return topo;
}

static hwloc_topology_t synthesize(const char *description)
{
    hwloc_topology_t topology;

    assert_int_equal(hwloc_topology_init(&topology), 0);
    assert_int_equal(hwloc_topology_set_synthetic(topology, description), 0);
    assert_int_equal(hwloc_topology_load(topology), 0);
    return topology;
}

/* A machine that hwloc makes up from a description. */
static struct topo *invent(const char *description)
{
    hwloc_topology_t topology = synthesize(description);
    struct topo *topo = take(topology);

    hwloc_topology_destroy(topology);
    return topo;
}

/* What must hold for every machine: cores, and units in them, stand once and node by node. */
static void check_machine(const struct topo_machine *machine)
{
    uint32_t core = 0, pu = 0;

    assert_true(machine->home_count >= 1 && machine->home_count <= machine->node_count);
    for (uint32_t i = 0; i < machine->node_count; i++) {
        const struct topo_node *node = &machine->nodes[i];

        assert_true(i < machine->home_count ? node->core_count > 0 : node->core_count == 0);
        assert_true(node->memory_node < machine->node_count);
        if (node->memory_bytes > 0)
            assert_int_equal(node->memory_node, i);
        else
            assert_true(machine->nodes[node->memory_node].memory_bytes > 0 || machine->ram_bytes == 0);
        assert_int_equal(node->core_first, core);
        assert_int_equal(node->pu_first, pu);
        for (uint32_t end = core + node->core_count; core < end; core++) {
            assert_int_equal(machine->cores[core].node, i);
            assert_int_equal(machine->cores[core].pu_first, pu);
            assert_true(machine->cores[core].pu_count > 0);
            pu += machine->cores[core].pu_count;
        }
        assert_int_equal(node->pu_first + node->pu_count, pu);
    }
    assert_int_equal(core, machine->core_count);
    assert_int_equal(pu, machine->pu_count);
    for (uint32_t i = 0; i < machine->pu_count; i++)
        for (uint32_t j = 0; j < i; j++)
            assert_int_not_equal(machine->pus[i], machine->pus[j]);
}

/* A worker is on a unit of its core, on its node, near its GPU, and at home in a shard of its node if there is one. */
static void check_worker(const struct topo_machine *machine, const struct topo_plan *plan,
                         const struct topo_pool *pools, const struct topo_worker *worker, uint32_t index_in_pool)
{
    const struct topo_core *core = &machine->cores[worker->core];
    bool found = false, home = false;

    assert_true(worker->core < machine->core_count && worker->shard < plan->shard_count);
    assert_int_equal(core->node, worker->node);
    for (uint32_t k = 0; k < core->pu_count; k++)
        found |= machine->pus[core->pu_first + k] == worker->pu;
    assert_true(found);
    for (uint32_t i = 0; i < plan->shard_count; i++)
        home |= plan->shards[i].node == worker->node;
    assert_true(!home || plan->shards[worker->shard].node == worker->node);
    assert_int_equal(worker->gpu, pools[worker->pool].on_gpus ? pools[worker->pool].gpus[index_in_pool] : TOPO_NONE);
    if (worker->gpu != TOPO_NONE)
        assert_int_equal(worker->node, machine->devices[worker->gpu].node);
}

/* Nodes of CPU workers are as crowded as one another, but for one worker; a node full of GPUs is left alone. */
static void check_balance(const struct topo_machine *machine, const struct topo_plan *plan)
{
    for (uint32_t a = 0; a < machine->home_count; a++)
        for (uint32_t b = 0; b < machine->home_count; b++) {
            uint64_t on_a = 0, on_b = 0, cpu_on_a = 0;

            for (uint32_t i = 0; i < plan->worker_count; i++) {
                on_a += plan->workers[i].node == a;
                on_b += plan->workers[i].node == b;
                cpu_on_a += plan->workers[i].node == a && plan->workers[i].gpu == TOPO_NONE;
            }
            /* the last one dealt to a would not have been better off on b */
            if (cpu_on_a > 0)
                assert_true(on_a * machine->nodes[b].core_count <= (on_b + 1) * machine->nodes[a].core_count);
        }
}

/* No core twice while another is free. Workers on GPUs have no choice of node, and may crowd theirs. */
static void check_cores(const struct topo_machine *machine, const struct topo_plan *plan)
{
    uint32_t *load = calloc(machine->core_count, sizeof *load);

    for (uint32_t i = 0; i < plan->worker_count; i++)
        load[plan->workers[i].core]++;
    for (uint32_t i = 0; i < plan->worker_count; i++) {
        const struct topo_worker *worker = &plan->workers[i];

        assert_int_equal(worker->shared, load[worker->core] > 1);
        for (uint32_t core = 0; worker->shared && core < machine->core_count; core++)
            if (worker->gpu == TOPO_NONE || machine->cores[core].node == worker->node)
                assert_true(load[core] > 0);
    }
    free(load);
}

/* Who drives a GPU has a core to itself, unless its node has more of them than cores beside. */
static void check_drivers(const struct topo_machine *machine, const struct topo_plan *plan,
                          const struct topo_pool *pools)
{
    for (uint32_t i = 0; i < plan->worker_count; i++) {
        uint32_t node = plan->workers[i].node, drivers = 0;

        for (uint32_t j = 0; j < plan->worker_count; j++)
            drivers += plan->workers[j].node == node && pools[plan->workers[j].pool].on_gpus;
        if (pools[plan->workers[i].pool].on_gpus && drivers < machine->nodes[node].core_count)
            assert_false(plan->workers[i].shared);
    }
}

static void check_plan(const struct topo *topo, const struct topo_plan *plan, const struct topo_pool *pools,
                       uint32_t forced_shards)
{
    const struct topo_machine *machine = topo_machine(topo);
    uint32_t worker = 0, at_home = 0;
    char *text;

    check_machine(machine);
    for (uint32_t pool = 0; pool < plan->pool_count; pool++)
        for (uint32_t i = 0; i < pools[pool].worker_count; i++, worker++) {
            assert_int_equal(plan->workers[worker].pool, pool);
            check_worker(machine, plan, pools, &plan->workers[worker], i);
        }
    assert_int_equal(worker, plan->worker_count);
    check_balance(machine, plan);
    check_cores(machine, plan);
    check_drivers(machine, plan, pools);
    for (uint32_t i = 0; i < plan->shard_count; i++) {
        assert_true(plan->shards[i].node < machine->home_count);
        assert_true(plan->shards[i].worker_count > 0 || forced_shards > 0 || plan->worker_count == 0);
        at_home += plan->shards[i].worker_count;
        for (uint32_t j = 0; forced_shards == 0 && j < i; j++)
            assert_int_not_equal(plan->shards[i].node, plan->shards[j].node);
    }
    assert_int_equal(at_home, plan->worker_count);
    assert_true(plan->shard_count >= 1 && (forced_shards == 0 || plan->shard_count == forced_shards));
    assert_int_equal(plan->binds, !machine->loaded && machine->home_count > 1);
    assert_int_equal(topo_describe(topo, pools, plan, &text), 0);
    free(text);
}

static void check_plans(const struct topo *topo)
{
    for (uint32_t workers = 0; workers < 3 * topo_machine(topo)->pu_count + 3; workers++) {
        struct topo_pool pool = {.name = "all", .worker_count = workers};
        struct topo_plan *plan;

        assert_int_equal(topo_plan(topo, &pool, 1, 0, &plan), 0);
        assert_int_equal(plan->worker_count, workers);
        check_plan(topo, plan, &pool, 0);
        topo_plan_destroy(plan);
    }
}

static void test_this_machine(void **state)
{
    struct sheaf_error error = SHEAF_ERROR_INIT;
    struct topo *topo;
    cpu_set_t affinity;

    assert_int_equal(topo_create(NULL, &topo, &error), 0);
    assert_int_equal(topo_find_devices(topo, &error), 0);
    const struct topo_machine *machine = topo_machine(topo);
    assert_int_equal(sched_getaffinity(0, sizeof affinity, &affinity), 0);
    assert_false(machine->loaded);
    assert_int_equal(machine->pu_count, CPU_COUNT(&affinity));
    for (uint32_t i = 0; i < machine->pu_count; i++)
        assert_true(CPU_ISSET(machine->pus[i], &affinity));
    assert_true(machine->usable_cores >= 1 && machine->usable_cores <= machine->core_count);
    assert_true(machine->memory_limit_bytes > 0 && machine->memory_limit_bytes <= machine->ram_bytes);
    check_plans(topo);
    topo_destroy(topo);
}

/* One processing unit allowed: one core, one worker. */
static void test_affinity(void **state)
{
    cpu_set_t before, one;
    struct topo *topo;
    int pu = 0;

    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &before))
            pu = i; /* the last one */
    CPU_ZERO(&one);
    CPU_SET(pu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(topo_create(NULL, &topo, NULL), 0);
    assert_int_equal(topo_find_devices(topo, NULL), 0);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    assert_int_equal(topo_machine(topo)->core_count, 1);
    assert_int_equal(topo_machine(topo)->pus[0], pu);
    check_plans(topo);
    topo_destroy(topo);
}

static void test_invented(void **state)
{
    static const char *const machines[] = {"pu:1", "numa:1 core:4 pu:2", "pack:2 [numa] core:3 pu:2",
                                           "pack:4 [numa] core:2 pu:1", "pack:2 numa:2 core:5 pu:4"};
    static const uint32_t shards[] = {1, 1, 2, 4, 4};

    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        struct topo *topo = invent(machines[i]);
        struct topo_pool pool = {.name = "all", .worker_count = topo_default_workers(topo, 1, 0)};
        struct topo_plan *plan;

        assert_true(topo_machine(topo)->loaded);
        assert_int_equal(pool.worker_count, topo_machine(topo)->core_count);
        assert_int_equal(topo_default_workers(topo, 64, 0), topo_machine(topo)->pu_count);
        assert_int_equal(topo_plan(topo, &pool, 1, 0, &plan), 0);
        assert_int_equal(plan->shard_count, shards[i]);
        topo_plan_destroy(plan);
        check_plans(topo);
        topo_destroy(topo);
    }
}

static uint64_t random_state;

static uint32_t below(uint32_t bound)
{
    random_state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    uint64_t x = random_state;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((x ^ (x >> 31)) % bound);
}

/* Takes processing units away, as an affinity or a cpuset does, and whole nodes of memory, as cpuset.mems does. */
static void restrict_at_random(hwloc_topology_t topology)
{
    for (int by_node = 0; by_node < 2; by_node++) {
        hwloc_const_bitmap_t all =
            by_node ? hwloc_topology_get_topology_nodeset(topology) : hwloc_topology_get_topology_cpuset(topology);
        hwloc_bitmap_t left = hwloc_bitmap_alloc();

        for (int i = hwloc_bitmap_first(all); i >= 0; i = hwloc_bitmap_next(all, i))
            if (below(3) > 0)
                hwloc_bitmap_set(left, (unsigned)i);
        if (below(2) == 0 && !hwloc_bitmap_iszero(left))
            assert_int_equal(hwloc_topology_restrict(topology, left, by_node ? HWLOC_RESTRICT_FLAG_BYNODESET : 0), 0);
        hwloc_bitmap_free(left);
    }
}

/* Any machine, any part of it, any Pools: the plan keeps its promises. SHEAF_SEED=N plays one again. */
static void test_any_machine(void **state)
{
    const char *given = getenv("SHEAF_SEED");
    uint64_t first = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)getpid() * 1000;

    for (uint64_t seed = first; seed < first + (given != NULL ? 1 : 150); seed++) {
        char description[128];
        uint32_t gpus[4] = {TOPO_NONE, TOPO_NONE, TOPO_NONE, TOPO_NONE};

        random_state = seed;
        snprintf(description, sizeof description, "pack:%u %s%u core:%u pu:%u", 1 + below(3),
                 below(2) ? "[numa] l3:" : "numa:", 1 + below(3), 1 + below(5), 1 + below(3));
        print_message("SHEAF_SEED=%llu %s\n", (unsigned long long)seed, description);
        hwloc_topology_t topology = synthesize(description);
        restrict_at_random(topology);
        uint32_t units = (uint32_t)hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
        struct topo *topo = take(topology);
        hwloc_topology_destroy(topology);
        assert_int_equal(topo_machine(topo)->pu_count, units); /* none is lost with the memory of its node */
        struct topo_pool pools[3] = {{.name = "a", .worker_count = below(2 * units)},
                                     {.name = "b", .worker_count = below(5), .on_gpus = true, .gpus = gpus},
                                     {.name = "c", .worker_count = below(units)}};
        uint32_t forced = below(3) == 0 ? 1 + below(TOPO_SHARDS_MAX) : 0;
        struct topo_plan *plan;
        assert_int_equal(topo_plan(topo, pools, below(4), forced, &plan), 0);
        check_plan(topo, plan, pools, forced);
        topo_plan_destroy(plan);
        topo_destroy(topo);
    }
}

static struct topo *load_eight_gpus(void)
{
    const char *shared = getenv("SHEAF_SHARED");
    char path[4096];
    struct topo *topo;

    snprintf(path, sizeof path, "%s/hgx-8gpu.xml", shared != NULL ? shared : "../shared");
    if (access(path, R_OK) != 0) {
        print_message("skipped: no %s\n", path);
        skip();
    }
    assert_int_equal(topo_create(path, &topo, NULL), 0);
    return topo;
}

static void check_gpu(const struct topo_machine *machine, const struct topo_plan *plan, uint32_t index)
{
    const struct topo_device *device = &machine->devices[index];
    const struct topo_worker *worker = &plan->workers[88 + index];
    char name[16];

    snprintf(name, sizeof name, "cuda%u", index);
    assert_string_equal(device->name, name);
    assert_string_equal(device->model, "GH100 [H200 SXM 141GB]");
    assert_int_equal(device->size_bytes, 147849216ull << 10);
    assert_int_equal(device->node, index / 4);
    assert_int_equal(worker->gpu, index);
    assert_int_equal(worker->node, index / 4);
    assert_int_equal(worker->shard, index / 4);
    assert_int_equal(machine->nodes[worker->node].memory_node, index / 4); /* its pinned memory is on its node */
    assert_false(worker->shared);
}

/* Two sockets, eight GPUs, eight NVMe drives: a shard per socket, every GPU at its own, no core given twice. */
static void test_eight_gpus(void **state)
{
    struct topo *topo = load_eight_gpus();
    const struct topo_machine *machine = topo_machine(topo);
    uint32_t gpus[8] = {0, 1, 2, 3, 4, 5, 6, 7}, nvme[2] = {0, 0}, nic[2] = {0, 0};
    struct topo_pool pools[2] = {{.name = "cores", .worker_count = topo_default_workers(topo, 1, 8)},
                                 {.name = "gpus", .worker_count = 8, .on_gpus = true, .gpus = gpus}};
    struct topo_plan *plan;
    char *text;

    assert_int_equal(machine->core_count, 96);
    assert_int_equal(machine->pu_count, 192);
    assert_int_equal(machine->ram_bytes, 2ull << 40);
    assert_int_equal(machine->gpu_count, 8);
    assert_int_equal(pools[0].worker_count, 88);
    assert_int_equal(topo_plan(topo, pools, 2, 0, &plan), 0);
    assert_int_equal(plan->shard_count, 2);
    assert_int_equal(plan->worker_count, 96);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(plan->shards[i].node, i);
        assert_int_equal(plan->shards[i].worker_count, 48);
    }
    for (uint32_t i = 0; i < 8; i++)
        check_gpu(machine, plan, i);
    for (uint32_t i = 0; i < plan->worker_count; i++)
        for (uint32_t j = 0; j < i; j++)
            assert_int_not_equal(plan->workers[i].core, plan->workers[j].core);
    for (uint32_t i = 0; i < machine->device_count; i++) {
        nvme[machine->devices[i].node] += machine->devices[i].kind == TOPO_NVME;
        nic[machine->devices[i].node] += machine->devices[i].kind == TOPO_NIC;
    }
    assert_int_equal(nvme[0], 4);
    assert_int_equal(nvme[1], 4);
    assert_true(nic[0] > 0 && nic[1] > 0);
    check_plan(topo, plan, pools, 0);
    assert_int_equal(topo_describe(topo, pools, plan, &text), 0);
    assert_non_null(strstr(text, "cuda7"));
    assert_non_null(strstr(text, "0-95")); /* both threads of each core of the first socket, for the shard's threads */
    free(text);
    topo_plan_destroy(plan);
    topo_destroy(topo);
}

/* Cores whose own memory is forbidden stay in use, with memory of the node next to them. */
static void test_forbidden_memory(void **state)
{
    hwloc_topology_t topology = synthesize("pack:2 numa:2 core:2 pu:2");
    hwloc_bitmap_t left = hwloc_bitmap_alloc();

    hwloc_bitmap_set(left, 0);
    hwloc_bitmap_set(left, 2);
    assert_int_equal(hwloc_topology_restrict(topology, left, HWLOC_RESTRICT_FLAG_BYNODESET), 0);
    struct topo *topo = take(topology);
    const struct topo_machine *machine = topo_machine(topo);
    assert_int_equal(machine->node_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(machine->nodes[i].os_index, 2 * i);
        assert_int_equal(machine->nodes[i].core_count, 4); /* of its package */
        assert_int_equal(machine->pus[machine->nodes[i].pu_first], 8 * i);
    }
    topo_destroy(topo);
    hwloc_bitmap_free(left);
    hwloc_topology_destroy(topology);
}

static void test_bad_xml(void **state)
{
    struct sheaf_error error = SHEAF_ERROR_INIT;
    struct topo *topo = NULL;

    assert_int_equal(topo_create("/nonexistent.xml", &topo, &error), SHEAF_E_ENVIRONMENT);
    assert_non_null(strstr(error.message, "/nonexistent.xml"));
    assert_null(topo);
}

static void put(const char *folder, const char *name, const char *text)
{
    char path[256];

    snprintf(path, sizeof path, "%s%s", folder, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* The tightest value between the own group and the root counts. */
static void test_cgroup(void **state)
{
    char folder[64] = "/tmp/sheaf-cgroup-XXXXXX", path[128], command[128];
    struct cgroup_limits limits;

    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/a/b", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    cgroup_limits_read(folder, "/a/b", &limits);
    assert_true(limits.quota_cores == 0 && limits.memory_bytes == UINT64_MAX && limits.memory_from[0] == '\0');
    put(folder, "/a/b/memory.max", "max\n");
    put(folder, "/a/memory.max", "4000000\n");
    put(folder, "/a/b/memory.high", "3000000\n");
    put(folder, "/memory.max", "5000000\n");
    put(folder, "/a/b/cpu.max", "max 100000\n");
    put(folder, "/a/cpu.max", "150000 100000\n");
    cgroup_limits_read(folder, "/a/b", &limits);
    assert_true(limits.quota_cores == 1.5);
    assert_int_equal(limits.memory_bytes, 3000000);
    snprintf(path, sizeof path, "%s/a/b/memory.high", folder);
    assert_string_equal(limits.memory_from, path);
    cgroup_limits_read(folder, "/a", &limits);
    assert_int_equal(limits.memory_bytes, 4000000);
    cgroup_limits_read(folder, "", &limits);
    assert_int_equal(limits.memory_bytes, 5000000);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_this_machine),     cmocka_unit_test(test_affinity),   cmocka_unit_test(test_invented),
        cmocka_unit_test(test_any_machine),      cmocka_unit_test(test_eight_gpus), cmocka_unit_test(test_bad_xml),
        cmocka_unit_test(test_forbidden_memory), cmocka_unit_test(test_cgroup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
