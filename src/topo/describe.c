/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/topo_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static double gib(uint64_t bytes)
{
    return (double)bytes / (double)(1u << 30);
}

static int compare_numbers(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

    return a < b ? -1 : a > b;
}

/* As the kernel writes lists of processing units: 0-3,8, and 0-6:2 for every second one. Sorts them. */
static void print_list(FILE *out, uint32_t *numbers, uint32_t count)
{
    qsort(numbers, count, sizeof *numbers, compare_numbers);
    for (uint32_t i = 0, run; i < count; i += run) {
        uint32_t step = i + 1 < count ? numbers[i + 1] - numbers[i] : 0;

        for (run = 1; i + run < count && numbers[i + run] - numbers[i + run - 1] == step;)
            run++;
        if (run == 2 && step != 1)
            run = 1;
        fprintf(out, "%s%u", i == 0 ? "" : ",", numbers[i]);
        if (run > 1)
            fprintf(out, "-%u", numbers[i + run - 1]);
        if (run > 1 && step != 1)
            fprintf(out, ":%u", step);
    }
}

static void print_machine(FILE *out, const struct topo_machine *machine)
{
    fprintf(out, "machine  %u cores (%u usable), %u processing units, %u NUMA node%s%s\n", machine->core_count,
            machine->usable_cores, machine->pu_count, machine->node_count, machine->node_count == 1 ? "" : "s",
            machine->loaded ? " (loaded topology, not this machine)" : "");
    if (machine->quota_cores > 0)
        fprintf(out, "quota    %.2f CPUs (cpu.max)\n", machine->quota_cores);
    fprintf(out, "memory   %.1f GiB, limit %.1f GiB (%s)\n", gib(machine->ram_bytes), gib(machine->memory_limit_bytes),
            machine->memory_limit_from);
}

/* The first shard of a node. */
static uint32_t shard_of(const struct topo_plan *plan, uint32_t node)
{
    for (uint32_t i = 0; plan != NULL && i < plan->shard_count; i++)
        if (plan->shards[i].node == node)
            return i;
    return TOPO_NONE;
}

static void print_nodes(FILE *out, const struct topo_machine *machine, const struct topo_plan *plan)
{
    uint32_t *numbers = calloc(machine->pu_count, sizeof *numbers);

    fprintf(out, "\n%-5s %6s %12s  %-6s %-12s %s\n", "node", "cores", "memory", "shard", "memory on",
            "threads of the shard on");
    for (uint32_t i = 0; i < machine->node_count && numbers != NULL; i++) {
        const struct topo_node *node = &machine->nodes[i];
        uint32_t shard = shard_of(plan, i);
        char name[16] = "-";

        if (shard != TOPO_NONE)
            snprintf(name, sizeof name, "%u", shard);
        fprintf(out, "%-5u %6u %8.1f GiB  %-6s ", node->os_index, node->core_count, gib(node->memory_bytes), name);
        if (shard != TOPO_NONE && machine->home_count > 1) {
            fprintf(out, "node %-7u ", machine->nodes[node->memory_node].os_index);
            for (uint32_t j = 0; j < node->pu_count; j++)
                numbers[j] = machine->pus[node->pu_first + j];
            print_list(out, numbers, node->pu_count);
        } else {
            fputs(shard == TOPO_NONE ? "-            -" : "any          any: one node, nothing is bound", out);
        }
        fputc('\n', out);
    }
    free(numbers);
}

static void print_pools(FILE *out, const struct topo_machine *machine, const struct topo_pool *pools,
                        const struct topo_plan *plan)
{
    uint32_t *numbers = calloc((size_t)plan->worker_count + 1, sizeof *numbers);

    fprintf(out, "\n%-16s %-5s %7s  %s\n", "pool", "node", "workers",
            machine->home_count > 1 ? "on processing units" : "for processing units");
    for (uint32_t pool = 0; pool < plan->pool_count && numbers != NULL; pool++)
        for (uint32_t node = 0; node < machine->home_count; node++) {
            uint32_t count = 0;

            for (uint32_t i = 0; i < plan->worker_count; i++)
                if (plan->workers[i].pool == pool && plan->workers[i].node == node)
                    numbers[count++] = plan->workers[i].pu;
            if (count == 0)
                continue;
            fprintf(out, "%-16s %-5u %7u  ", pools[pool].name, machine->nodes[node].os_index, count);
            print_list(out, numbers, count);
            fputc('\n', out);
        }
    free(numbers);
}

/* The processing unit of the worker that drives a GPU. */
static uint32_t pu_of(const struct topo_plan *plan, uint32_t device)
{
    for (uint32_t i = 0; plan != NULL && i < plan->worker_count; i++)
        if (plan->workers[i].gpu == device)
            return plan->workers[i].pu;
    return TOPO_NONE;
}

static void print_devices(FILE *out, const struct topo_machine *machine, const struct topo_plan *plan)
{
    static const char *const kinds[] = {"", "GPU", "NVMe", "NIC"};

    if (machine->device_count > 0)
        fprintf(out, "\n%-7s %-12s %-13s %-5s %-6s %-8s %12s  %s\n", "device", "name", "bus", "node", "shard", "worker",
                "size", "model");
    for (uint32_t i = 0; i < machine->device_count; i++) {
        const struct topo_device *device = &machine->devices[i];
        uint32_t shard = shard_of(plan, device->node), pu = pu_of(plan, i);
        char near[16] = "-", on[16] = "", size[24] = "";

        if (shard != TOPO_NONE)
            snprintf(near, sizeof near, "%u", shard);
        if (pu != TOPO_NONE)
            snprintf(on, sizeof on, "on %u", pu);
        if (device->size_bytes > 0)
            snprintf(size, sizeof size, "%.1f GiB", gib(device->size_bytes));
        fprintf(out, "%-7s %-12s %-13s %-5u %-6s %-8s %12s  %s\n", kinds[device->kind], device->name, device->bus_id,
                machine->nodes[device->node].os_index, near, on, size, device->model[0] != '\0' ? device->model : "-");
    }
}

static void print_notes(FILE *out, const struct topo_plan *plan)
{
    uint32_t shared = 0;

    for (uint32_t i = 0; i < plan->worker_count; i++)
        shared += plan->workers[i].shared;
    if (shared > 0)
        fprintf(out, "\n%u of %u workers share a core with another\n", shared, plan->worker_count);
}

int topo_describe(const struct topo *topo, const struct topo_pool *pools, const struct topo_plan *plan, char **ret_text)
{
    char *text = NULL;
    size_t text_bytes;
    FILE *out = open_memstream(&text, &text_bytes);

    if (out == NULL)
        return -ENOMEM;
    print_machine(out, &topo->machine);
    print_nodes(out, &topo->machine, plan);
    if (plan != NULL)
        print_pools(out, &topo->machine, pools, plan);
    print_devices(out, &topo->machine, plan);
    if (plan != NULL)
        print_notes(out, plan);
    if (fclose(out) != 0) {
        free(text);
        return -ENOMEM;
    }
    *ret_text = text;
    return 0;
}
