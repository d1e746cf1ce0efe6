/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/topo_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static double gib(uint64_t bytes)
{
    return (double)bytes / (double)(1u << 30);
}

static void print_machine(FILE *out, const struct topo_machine *machine)
{
    static const char *const kinds[] = {"", "GPU", "NVMe", "NIC"};

    fprintf(out, "machine  %u cores (%u usable), %u processing units, %u NUMA node%s%s\n", machine->core_count,
            machine->usable_cores, machine->pu_count, machine->node_count, machine->node_count == 1 ? "" : "s",
            machine->loaded ? " (loaded topology, not this machine)" : "");
    if (machine->quota_cores > 0)
        fprintf(out, "quota    %.2f CPUs (cpu.max)\n", machine->quota_cores);
    fprintf(out, "memory   %.1f GiB, limit %.1f GiB (%s)\n", gib(machine->ram_bytes), gib(machine->memory_limit_bytes),
            machine->memory_limit_from);
    for (uint32_t i = 0; i < machine->node_count; i++)
        fprintf(out, "node %-3u %4u cores  %8.1f GiB\n", machine->nodes[i].os_index, machine->nodes[i].core_count,
                gib(machine->nodes[i].memory_bytes));
    for (uint32_t i = 0; i < machine->device_count; i++) {
        const struct topo_device *device = &machine->devices[i];

        fprintf(out, "%-4s     %-10s %-14s node %-3u", kinds[device->kind], device->name, device->bus_id,
                machine->nodes[device->node].os_index);
        if (device->size_bytes > 0)
            fprintf(out, " %8.1f GiB", gib(device->size_bytes));
        fprintf(out, "  %s\n", device->model);
    }
}

static void print_plan(FILE *out, const struct topo_machine *machine, const struct topo_plan *plan)
{
    for (uint32_t i = 0; i < plan->shard_count; i++) {
        const struct topo_shard *shard = &plan->shards[i];

        fprintf(out, "shard %-2u node %-3u %u workers on processing units", i, machine->nodes[shard->node].os_index,
                shard->worker_count);
        for (uint32_t j = 0; j < shard->worker_count && j < 16; j++)
            fprintf(out, " %u%s", plan->workers[shard->worker_first + j].pu,
                    plan->workers[shard->worker_first + j].shared ? "*" : "");
        fprintf(out, "%s\n", shard->worker_count > 16 ? " ..." : "");
    }
    for (uint32_t i = 0; i < plan->gpu_count; i++)
        fprintf(out, "gpu %-4u %-10s shard %u, node %u, processing unit %u\n", i,
                machine->devices[plan->gpus[i].device].name, plan->gpus[i].shard,
                machine->nodes[plan->gpus[i].node].os_index, plan->gpus[i].pu);
    if (plan->worker_count > machine->usable_cores)
        fprintf(out, "note     %u workers on %u usable cores: some share one (*)\n", plan->worker_count,
                machine->usable_cores);
}

int topo_describe(const struct topo *topo, const struct topo_plan *plan, char **ret_text)
{
    char *text = NULL;
    size_t text_bytes;
    FILE *out = open_memstream(&text, &text_bytes);

    if (out == NULL)
        return -ENOMEM;
    print_machine(out, &topo->machine);
    if (plan != NULL)
        print_plan(out, &topo->machine, plan);
    if (fclose(out) != 0) {
        free(text);
        return -ENOMEM;
    }
    *ret_text = text;
    return 0;
}
