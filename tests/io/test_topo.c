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

/* The XML of a machine that hwloc makes up from a description. */
static struct topo *invent(const char *description)
{
    hwloc_topology_t topology;
    struct topo *topo;
    char *xml;
    int length;

    assert_int_equal(hwloc_topology_init(&topology), 0);
    assert_int_equal(hwloc_topology_set_synthetic(topology, description), 0);
    assert_int_equal(hwloc_topology_load(topology), 0);
    assert_int_equal(hwloc_topology_export_xmlbuffer(topology, &xml, &length, 0), 0);
    assert_int_equal(topo_create(xml, &topo, NULL), 0);
    hwloc_free_xmlbuffer(topology, xml);
    hwloc_topology_destroy(topology);
    return topo;
}

/* What must hold for every plan. */
static void check_plan(const struct topo *topo, const struct topo_plan *plan)
{
    const struct topo_machine *machine = topo_machine(topo);
    uint32_t *load = calloc(machine->core_count, sizeof *load), next = 0, least = UINT32_MAX, most = 0;

    for (uint32_t i = 0; i < plan->shard_count; i++) {
        const struct topo_shard *shard = &plan->shards[i];

        assert_int_equal(shard->worker_first, next);
        next += shard->worker_count;
        assert_true(machine->nodes[shard->node].core_count > 0);
        for (uint32_t j = 0; j < shard->worker_count; j++) {
            const struct topo_worker *worker = &plan->workers[shard->worker_first + j];
            const struct topo_core *core = &machine->cores[worker->core];
            bool found = false;

            assert_int_equal(worker->shard, i);
            assert_int_equal(worker->node, shard->node);
            assert_int_equal(core->node, worker->node);
            for (uint32_t k = 0; k < core->pu_count; k++)
                found |= machine->pus[core->pu_first + k] == worker->pu;
            assert_true(found);
            load[worker->core]++;
        }
    }
    assert_int_equal(next, plan->worker_count);
    for (uint32_t i = 0; i < plan->worker_count; i++)
        assert_int_equal(plan->workers[i].shared, load[plan->workers[i].core] > 1);
    for (uint32_t i = 0; i < machine->core_count; i++) {
        least = load[i] < least ? load[i] : least;
        most = load[i] > most ? load[i] : most;
    }
    if (plan->worker_count <= machine->core_count)
        assert_true(most <= 1); /* no core twice while another is free */
    else
        assert_true(least >= 1);
    free(load);
}

static void check_plans(const struct topo *topo)
{
    for (uint32_t workers = 0; workers < 3 * topo_machine(topo)->pu_count + 3; workers++) {
        struct topo_plan *plan;

        assert_int_equal(topo_plan(topo, workers, &plan), 0);
        assert_int_equal(plan->worker_count, workers == 0 ? topo_machine(topo)->usable_cores : workers);
        check_plan(topo, plan);
        topo_plan_destroy(plan);
    }
}

static void test_this_machine(void **state)
{
    struct sheaf_error error = SHEAF_ERROR_INIT;
    struct topo *topo;
    cpu_set_t affinity;

    assert_int_equal(topo_create(NULL, &topo, &error), 0);
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
        struct topo_plan *plan;

        assert_true(topo_machine(topo)->loaded);
        assert_int_equal(topo_plan(topo, 0, &plan), 0);
        assert_int_equal(plan->shard_count, shards[i]);
        topo_plan_destroy(plan);
        check_plans(topo);
        topo_destroy(topo);
    }
}

/* Two sockets, eight GPUs, eight NVMe drives: a shard per socket, every GPU at its own. */
static void test_eight_gpus(void **state)
{
    const char *shared = getenv("SHEAF_SHARED");
    char path[4096], *text;
    struct topo *topo;
    struct topo_plan *plan;
    unsigned nvme = 0;

    snprintf(path, sizeof path, "%s/hgx-8gpu.xml", shared != NULL ? shared : "../shared");
    if (access(path, R_OK) != 0) {
        print_message("skipped: no %s\n", path);
        skip();
    }
    assert_int_equal(topo_create(path, &topo, NULL), 0);
    const struct topo_machine *machine = topo_machine(topo);
    assert_int_equal(machine->core_count, 96);
    assert_int_equal(machine->pu_count, 192);
    assert_int_equal(machine->ram_bytes, 2ull << 40);
    assert_int_equal(topo_plan(topo, 0, &plan), 0);
    assert_int_equal(plan->shard_count, 2);
    assert_int_equal(plan->worker_count, 96);
    assert_int_equal(plan->shards[0].worker_count, 48);
    assert_int_equal(plan->shards[1].worker_count, 48);
    assert_int_equal(plan->gpu_count, 8);
    for (uint32_t i = 0; i < 8; i++) {
        const struct topo_gpu *gpu = &plan->gpus[i];
        const struct topo_device *device = &machine->devices[gpu->device];
        char name[16];

        snprintf(name, sizeof name, "cuda%u", i);
        assert_string_equal(device->name, name);
        assert_string_equal(device->model, "GH100 [H200 SXM 141GB]");
        assert_int_equal(device->size_bytes, 147849216ull << 10);
        assert_int_equal(gpu->node, i / 4);
        assert_int_equal(gpu->shard, i / 4);
        assert_int_equal(machine->cores[gpu->core].node, gpu->node);
        for (uint32_t j = 0; j < i; j++)
            assert_int_not_equal(plan->gpus[j].core, gpu->core);
    }
    for (uint32_t i = 0; i < machine->device_count; i++)
        nvme += machine->devices[i].kind == TOPO_NVME && strncmp(machine->devices[i].name, "nvme", 4) == 0;
    assert_int_equal(nvme, 8);
    check_plan(topo, plan);
    assert_int_equal(topo_describe(topo, plan, &text), 0);
    assert_non_null(strstr(text, "cuda7"));
    assert_non_null(strstr(text, "shard 1"));
    free(text);
    topo_plan_destroy(plan);
    topo_destroy(topo);
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
        cmocka_unit_test(test_this_machine), cmocka_unit_test(test_affinity), cmocka_unit_test(test_invented),
        cmocka_unit_test(test_eight_gpus),   cmocka_unit_test(test_bad_xml),  cmocka_unit_test(test_cgroup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
