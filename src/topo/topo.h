/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this machine offers, and where processes go: hwloc in, plain numbers out.
 *
 * Why: the supervisor computes placement once and everything else only reads numbers, so no hwloc type leaves topo.c
 * and a plan for an eight-GPU box can be made, printed and tested on a laptop. Objects are immutable after creation,
 * but for topo_find_devices, and may be shared by threads.
 *
 * Usable cores: those in the affinity of this process and in its cpuset cgroup, and of them as many as the cgroup v2
 * quota (cpu.max) pays for. Usable memory: nodes that the cpuset cgroup and the memory policy of this process allow;
 * the limit is the smallest of RAM, memory.max and memory.high of this process's cgroup and all above it. A loaded
 * topology (another machine's) counts as wholly usable; binding to it means nothing here.
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

/* A NUMA node. Nodes with usable cores are listed first; the others get no shard. A core without memory of its own
 * belongs to the nearest node. */
struct topo_node {
    uint32_t os_index; /* as the kernel numbers it: for mbind */
    uint32_t core_first, core_count;
    uint32_t pu_first, pu_count; /* into pus: those of its cores */
    uint32_t memory_node; /* into nodes: where memory for its cores is made; another one when it has none to give */
    uint64_t memory_bytes;
};

enum topo_device_kind { TOPO_GPU = 1, TOPO_NVME, TOPO_NIC };
struct topo_device {
    enum topo_device_kind kind;
    uint32_t node;       /* the nearest one with cores */
    uint64_t size_bytes; /* GPU: its memory, NVMe: its capacity; 0 unknown */
    char name[32];       /* "cuda0" or "gpu0", "nvme0n1", or the bus id */
    char bus_id[32];     /* "0000:12:00.0" */
    char model[64];
};

struct topo_machine {
    bool loaded; /* from XML: not this machine */
    uint32_t core_count, node_count, pu_count, device_count;
    uint32_t home_count;   /* nodes with usable cores: the first of nodes */
    uint32_t gpu_count;    /* the first of devices */
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
/* The devices of this machine: until then the machine has none. They are looked for only where somebody asks, because
 * it takes longer than all else: the registers of every PCI device are read, which on a virtual machine costs 10 ms.
 * A loaded topology has its devices from the start. Again: nothing. Errors as topo_create. Threads may call it at once;
 * what topo_machine gave is not to be read meanwhile. */
int topo_find_devices(struct topo *topo, struct sheaf_error *error);
const struct topo_machine *topo_machine(const struct topo *topo);

/* Workers of one Pool, as far as placement goes. */
struct topo_pool {
    const char *name;
    uint32_t worker_count;
    bool on_gpus;         /* worker i drives gpus[i] */
    const uint32_t *gpus; /* of machine devices, the first gpu_count; TOPO_NONE: a device that hwloc does not know */
};

#define TOPO_SHARDS_MAX 64u

/* A shard and its I/O thread: they float over the processing units of their node, near its drives and network cards. */
struct topo_shard {
    uint32_t node;
    uint32_t worker_count; /* at home there */
};

struct topo_worker {
    uint32_t pool;
    uint32_t shard; /* the first of its node: whose rows it prefers */
    uint32_t node;
    uint32_t core;
    uint32_t pu;  /* kernel number */
    uint32_t gpu; /* TOPO_NONE: a CPU worker */
    bool shared;  /* another worker has the same core */
};

struct topo_plan {
    uint32_t shard_count, worker_count, pool_count;
    bool binds; /* threads, workers and memory are kept on their nodes: there are several, and it is this machine */
    const struct topo_shard *shards;
    const struct topo_worker *workers; /* Pool by Pool */
};

/* How many workers a CPU Pool gets by default: one per usable core, or `per_core` where cores have so many usable
 * processing units, less `gpu_workers` cores; at least one. */
uint32_t topo_default_workers(const struct topo *topo, uint32_t per_core, uint32_t gpu_workers);

/*
 * Places the workers of all Pools. Workers on GPUs come first: each takes a core of the node its GPU is attached to,
 * from the last core down. The others are dealt out over nodes in proportion to the cores left, one to a core until
 * every core has one, then to the second processing units of cores, and so on round; so no core is given twice while
 * another is free. Siblings that no worker has are left to the shard and I/O threads of the node. A node without
 * workers gets no shard, unless `shards` (0: one per node) forces their number: then they are dealt out over the nodes.
 * -ENOMEM. Free with topo_plan_destroy.
 */
int topo_plan(const struct topo *topo, const struct topo_pool *pools, uint32_t pool_count, uint32_t shards,
              struct topo_plan **ret_plan);
void topo_plan_destroy(struct topo_plan *plan);

/* A table for people: machine, nodes, devices; and who is where, when a plan is given. Free with free(). */
int topo_describe(const struct topo *topo, const struct topo_pool *pools, const struct topo_plan *plan,
                  char **ret_text);

#endif
