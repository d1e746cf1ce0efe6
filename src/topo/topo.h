/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this machine offers, and where processes go: hwloc in, plain numbers out.
 *
 * Why: the supervisor computes placement once and everything else only reads numbers, so no hwloc type leaves topo.c
 * and a plan for an eight-GPU box can be made, printed and tested on a laptop. Objects are immutable after creation and
 * may be shared by threads.
 *
 * Usable cores: those in the affinity of this process, and of them as many as the cgroup v2 quota (cpu.max) pays for.
 * The memory limit is the smallest of RAM, memory.max and memory.high of this process's cgroup and all above it. A
 * loaded topology (another machine's) counts as wholly usable; binding to it means nothing here.
 */
#ifndef SRC_TOPO_TOPO_H
#define SRC_TOPO_TOPO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sheaf/status.h>

struct topo;

#define TOPO_NONE UINT32_MAX

/* A physical core with at least one usable processing unit. Ordered by node, then by hwloc's logical order. */
struct topo_core {
    uint32_t node;     /* into nodes */
    uint32_t pu_first; /* into pus: its usable processing units */
    uint32_t pu_count;
};

/* A NUMA node. Nodes without usable cores are listed after the others; they get no shard. */
struct topo_node {
    uint32_t os_index; /* as the kernel numbers it: for mbind */
    uint32_t core_first, core_count;
    uint64_t memory_bytes;
};

enum topo_device_kind { TOPO_GPU = 1, TOPO_NVME, TOPO_NIC };
struct topo_device {
    enum topo_device_kind kind;
    uint32_t node;       /* the nearest one with cores */
    uint64_t size_bytes; /* GPU: its memory, NVMe: its capacity; 0 unknown */
    char name[32];       /* "cuda0", "nvme0n1", or the bus id */
    char bus_id[32];     /* "0000:12:00.0" */
    char model[64];
};

struct topo_machine {
    bool loaded; /* from XML: not this machine */
    uint32_t core_count, node_count, pu_count, device_count;
    uint32_t usable_cores; /* core_count, or fewer by the quota: the default number of workers */
    double quota_cores;    /* cpu.max as a number of CPUs; 0: none */
    uint64_t ram_bytes;
    uint64_t memory_limit_bytes;
    const char *memory_limit_from; /* "RAM", or the cgroup file that sets it */
    const struct topo_core *cores;
    const struct topo_node *nodes;
    const uint32_t *pus;               /* kernel numbers of processing units: for sched_setaffinity */
    const struct topo_device *devices; /* by kind, then by bus id */
};

/* `xml`: NULL for this machine; else a path of an hwloc XML file, or the XML itself when it starts with '<'.
 * SHEAF_E_ENVIRONMENT with a message when it cannot be loaded. */
int topo_create(const char *xml, struct topo **ret_topo, struct sheaf_error *error);
void topo_destroy(struct topo *topo);
const struct topo_machine *topo_machine(const struct topo *topo);

/* A shard: one per NUMA node with cores. Its threads float over the node's processing units. */
struct topo_shard {
    uint32_t node;
    uint32_t worker_first, worker_count; /* into workers */
    uint32_t pu_first, pu_count;         /* into machine pus: all of the node's */
};

struct topo_worker {
    uint32_t shard;
    uint32_t node;
    uint32_t core;
    uint32_t pu; /* kernel number to pin to */
    bool shared; /* another worker has the same core */
};

/* A GPU's process: on the cores of its node. */
struct topo_gpu {
    uint32_t device; /* into machine devices */
    uint32_t shard;
    uint32_t node;
    uint32_t core, pu; /* a core of the node for its process, counted from the node's last core down */
};

struct topo_plan {
    uint32_t shard_count, worker_count, gpu_count;
    const struct topo_shard *shards;
    const struct topo_worker *workers; /* ordered by shard */
    const struct topo_gpu *gpus;       /* ordered as devices */
};

/* Places `workers` (0: usable_cores) processes: dealt over nodes in proportion to their cores, no core twice before
 * every core has one, then the second processing unit of cores, and so on round. -ENOMEM. Free with topo_plan_destroy.
 */
int topo_plan(const struct topo *topo, uint32_t workers, struct topo_plan **ret_plan);
void topo_plan_destroy(struct topo_plan *plan);

/* A table for people: nodes, cores, memory and its limit, devices, and the plan when given. Free with free(). */
int topo_describe(const struct topo *topo, const struct topo_plan *plan, char **ret_text);

#endif
