/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/topo_internal.h"

#include <errno.h>
#include <hwloc.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "topo/cgroup.h"

static int SHEAF_PRINTF(3, 4) fail(struct sheaf_error *error, int code, const char *format, ...)
{
    if (error != NULL) {
        va_list values;

        va_start(values, format);
        vsnprintf(error->message, sizeof error->message, format, values);
        va_end(values);
        error->code = code;
        error->row = 0;
    }
    return code;
}

/* Plug-ins of hwloc, where they are installed, would start drivers in this process, ask an X server, and lose memory:
 * what the kernel says of PCI is enough, and the same everywhere. */
static void keep_from_drivers(hwloc_topology_t topology)
{
    static const char *const components[] = {"cuda", "nvml", "opencl", "gl", "rsmi", "levelzero", "pci"};

    for (size_t i = 0; i < sizeof components / sizeof *components; i++) /* fails for what is not installed */
        (void)hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, components[i]);
}

static int load(hwloc_topology_t *ret_topology, const char *xml, bool devices, struct sheaf_error *error)
{
    hwloc_topology_t topology;

    if (hwloc_topology_init(&topology) < 0)
        return fail(error, -ENOMEM, "hwloc: out of memory");
    keep_from_drivers(topology);
    int rc = 0;
    if (xml != NULL && xml[0] == '<')
        rc = hwloc_topology_set_xmlbuffer(topology, xml, (int)strlen(xml) + 1);
    else if (xml != NULL)
        rc = hwloc_topology_set_xml(topology, xml);
    if (rc == 0) {
        hwloc_topology_set_io_types_filter(topology,
                                           devices ? HWLOC_TYPE_FILTER_KEEP_IMPORTANT : HWLOC_TYPE_FILTER_KEEP_NONE);
        rc = hwloc_topology_load(topology);
    }
    if (rc < 0) {
        hwloc_topology_destroy(topology);
        return fail(error, SHEAF_E_ENVIRONMENT, "topology %.200s: cannot be loaded: %s; is it an hwloc XML file?",
                    xml == NULL     ? "of this machine"
                    : xml[0] == '<' ? "given as XML"
                                    : xml,
                    strerror(errno));
    }
    *ret_topology = topology;
    return 0;
}

/* The processing units this process may run on. hwloc has left out what the cpuset cgroup forbids already. */
static hwloc_bitmap_t usable_set(hwloc_topology_t topology, bool loaded)
{
    hwloc_bitmap_t set = hwloc_bitmap_dup(hwloc_topology_get_topology_cpuset(topology));
    hwloc_bitmap_t bound = hwloc_bitmap_alloc();

    if (set != NULL && bound != NULL && !loaded && hwloc_get_cpubind(topology, bound, HWLOC_CPUBIND_PROCESS) == 0 &&
        hwloc_bitmap_intersects(set, bound))
        hwloc_bitmap_and(set, set, bound);
    hwloc_bitmap_free(bound);
    return set;
}

static int allocate(struct topo *topo, hwloc_topology_t topology)
{
    size_t pu_max = (size_t)hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
    size_t node_max = (size_t)hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE) + 1;
    topo->cores = calloc(pu_max, sizeof *topo->cores);
    topo->pus = calloc(pu_max, sizeof *topo->pus);
    topo->nodes = calloc(node_max, sizeof *topo->nodes);
    return topo->cores == NULL || topo->pus == NULL || topo->nodes == NULL ? -ENOMEM : 0;
}

/* The node that an object belongs to: the first of those nearest to it that may be used. One that has none of its own
 * (its memory is forbidden to us, or there is none) looks further up. */
static hwloc_obj_t home_of(hwloc_topology_t topology, hwloc_obj_t object)
{
    while (object != NULL && (object->nodeset == NULL || hwloc_bitmap_iszero(object->nodeset)))
        object = object->parent;
    for (hwloc_obj_t node = NULL;
         object != NULL && (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != NULL;)
        if (hwloc_bitmap_isset(object->nodeset, node->os_index))
            return node;
    return hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, 0);
}

/* Adds a core of `node` out of its usable units. */
static void add_core(struct topo *topo, uint32_t node, hwloc_obj_t object, hwloc_const_bitmap_t usable)
{
    struct topo_machine *machine = &topo->machine;
    struct topo_core *core = &topo->cores[machine->core_count];
    int pu;

    *core = (struct topo_core){.node = node, .pu_first = machine->pu_count};
    for (pu = hwloc_bitmap_next(object->cpuset, -1); pu >= 0; pu = hwloc_bitmap_next(object->cpuset, pu))
        if (hwloc_bitmap_isset(usable, (unsigned)pu)) {
            topo->pus[machine->pu_count++] = (uint32_t)pu;
            core->pu_count++;
        }
    if (core->pu_count > 0) {
        machine->core_count++;
        topo->nodes[node].core_count++;
        topo->nodes[node].pu_count += core->pu_count;
    }
}

/* Machines whose kernel tells nothing of cores have processing units only. */
static hwloc_obj_type_t core_type(hwloc_topology_t topology)
{
    return hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
}

/* Takes the node in if it has usable cores, or else, in the second round, if it has none. */
static void add_node(struct topo *topo, hwloc_topology_t topology, hwloc_obj_t object, hwloc_const_bitmap_t usable,
                     bool with_cores)
{
    struct topo_machine *machine = &topo->machine;
    struct topo_node *node = &topo->nodes[machine->node_count];

    *node = (struct topo_node){
        .os_index = object->os_index,
        .core_first = machine->core_count,
        .pu_first = machine->pu_count,
        .memory_bytes = object->attr->numanode.local_memory,
    };
    for (hwloc_obj_t core = NULL;
         (core = hwloc_get_next_obj_by_type(topology, core_type(topology), core)) != NULL && with_cores;)
        if (hwloc_bitmap_intersects(core->cpuset, usable) && home_of(topology, core) == object)
            add_core(topo, machine->node_count, core, usable);
    if (with_cores && node->core_count == 0)
        return;
    machine->ram_bytes += node->memory_bytes;
    machine->home_count += with_cores;
    machine->node_count++;
}

static bool is_listed(const struct topo *topo, hwloc_obj_t node)
{
    for (uint32_t i = 0; i < topo->machine.node_count; i++)
        if (topo->nodes[i].os_index == node->os_index)
            return true;
    return false;
}

/* Nodes with usable cores first, then those that only have memory or whose cores another node has already. */
static void add_nodes(struct topo *topo, hwloc_topology_t topology, hwloc_const_bitmap_t usable)
{
    for (int with_cores = 1; with_cores >= 0; with_cores--)
        for (hwloc_obj_t node = NULL;
             (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != NULL;) {
            /* The memory of a GPU that the kernel shows as a node is not for us to give out. */
            bool of_gpu = node->subtype != NULL && strcmp(node->subtype, "GPUMemory") == 0;

            if (!of_gpu && !is_listed(topo, node))
                add_node(topo, topology, node, usable, with_cores);
        }
}

/* A node whose memory may be used (by hwloc, what the cpuset cgroup forbids is not listed): itself, or else the nearest
 * by the kernel's distances, or any. */
static uint32_t memory_node(const struct topo *topo, hwloc_topology_t topology, uint32_t index,
                            hwloc_const_bitmap_t allowed)
{
    const struct topo_machine *machine = &topo->machine;
    uint32_t best = index;
    uint64_t best_distance = UINT64_MAX;
    struct hwloc_distances_s *distances = NULL;
    unsigned count = 1;

    if (topo->nodes[index].memory_bytes > 0 && hwloc_bitmap_isset(allowed, topo->nodes[index].os_index))
        return index;
    if (hwloc_distances_get_by_type(topology, HWLOC_OBJ_NUMANODE, &count, &distances,
                                    HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) < 0 ||
        count == 0)
        distances = NULL;
    for (uint32_t i = 0; i < machine->node_count; i++) {
        hwloc_uint64_t there = UINT64_MAX - 1, back;

        if (topo->nodes[i].memory_bytes == 0 || !hwloc_bitmap_isset(allowed, topo->nodes[i].os_index))
            continue;
        hwloc_obj_t from = hwloc_get_numanode_obj_by_os_index(topology, topo->nodes[index].os_index);
        hwloc_obj_t to = hwloc_get_numanode_obj_by_os_index(topology, topo->nodes[i].os_index);
        if (distances != NULL)
            hwloc_distances_obj_pair_values(distances, from, to, &there, &back);
        if (there < best_distance) {
            best_distance = there;
            best = i;
        }
    }
    if (distances != NULL)
        hwloc_distances_release(topology, distances);
    return best;
}

/* The nodes that the memory policy of this process lets it use: all, unless something (numactl) bound it. */
static hwloc_bitmap_t allowed_nodes(hwloc_topology_t topology, bool loaded)
{
    hwloc_bitmap_t allowed = hwloc_bitmap_dup(hwloc_topology_get_topology_nodeset(topology));
    hwloc_bitmap_t bound = hwloc_bitmap_alloc();
    hwloc_membind_policy_t policy;

    if (allowed != NULL && bound != NULL && !loaded &&
        hwloc_get_membind(topology, bound, &policy, HWLOC_MEMBIND_THREAD | HWLOC_MEMBIND_BYNODESET) == 0 &&
        policy == HWLOC_MEMBIND_BIND && hwloc_bitmap_intersects(allowed, bound))
        hwloc_bitmap_and(allowed, allowed, bound);
    hwloc_bitmap_free(bound);
    return allowed;
}

static int choose_memory(struct topo *topo, hwloc_topology_t topology)
{
    hwloc_bitmap_t allowed = allowed_nodes(topology, topo->machine.loaded);

    if (allowed == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < topo->machine.node_count; i++)
        topo->nodes[i].memory_node = memory_node(topo, topology, i, allowed);
    hwloc_bitmap_free(allowed);
    return 0;
}

/* The node of a device: of those with cores, the one it is attached to. */
static uint32_t node_of(const struct topo *topo, hwloc_topology_t topology, hwloc_obj_t device)
{
    hwloc_obj_t home = home_of(topology, hwloc_get_non_io_ancestor_obj(topology, device));

    for (uint32_t i = 0; home != NULL && i < topo->machine.home_count; i++)
        if (topo->nodes[i].os_index == home->os_index)
            return i;
    return 0;
}

static enum topo_device_kind device_kind(hwloc_obj_t pci)
{
    unsigned base = pci->attr->pcidev.class_id >> 8;

    if (base == 0x03 && pci->attr->pcidev.vendor_id == 0x10de)
        return TOPO_GPU;
    if (pci->attr->pcidev.class_id == 0x0108)
        return TOPO_NVME;
    return base == 0x02 ? TOPO_NIC : 0;
}

static void copy(char *to, size_t bytes, const char *from)
{
    snprintf(to, bytes, "%s", from);
}

/* Name, model and size from the operating system's objects under the PCI device. */
static void describe_device(struct topo_device *device, hwloc_obj_t pci)
{
    const char *model = hwloc_obj_get_info_by_name(pci, "PCIDevice");

    copy(device->name, sizeof device->name, device->bus_id);
    if (model != NULL)
        copy(device->model, sizeof device->model, model);
    for (hwloc_obj_t os = pci->io_first_child; os != NULL; os = os->next_sibling) {
        const char *memory = hwloc_obj_get_info_by_name(os, "CUDAGlobalMemorySize");
        const char *size = hwloc_obj_get_info_by_name(os, "Size");

        if (os->type != HWLOC_OBJ_OS_DEVICE || os->name == NULL)
            continue;
        if (memory != NULL || size != NULL)
            device->size_bytes = strtoull(memory != NULL ? memory : size, NULL, 10) * 1024;
        /* "cuda0" is the name that counts; anything else stands until it is seen */
        if (strncmp(device->name, "cuda", 4) != 0 &&
            (strcmp(device->name, device->bus_id) == 0 || strncmp(os->name, "cuda", 4) == 0))
            copy(device->name, sizeof device->name, os->name);
    }
}

static int compare_devices(const void *left, const void *right)
{
    const struct topo_device *a = left, *b = right;

    return a->kind != b->kind ? (int)a->kind - (int)b->kind : strcmp(a->bus_id, b->bus_id);
}

static int add_devices(struct topo *topo, hwloc_topology_t topology)
{
    size_t device_max = 1;

    for (hwloc_obj_t device = NULL; (device = hwloc_get_next_pcidev(topology, device)) != NULL;)
        device_max++;
    topo->devices = calloc(device_max, sizeof *topo->devices);
    if (topo->devices == NULL)
        return -ENOMEM;
    for (hwloc_obj_t pci = NULL; (pci = hwloc_get_next_pcidev(topology, pci)) != NULL;) {
        struct topo_device *device = &topo->devices[topo->machine.device_count];
        enum topo_device_kind kind = device_kind(pci);

        if (kind == 0)
            continue;
        *device = (struct topo_device){.kind = kind, .node = node_of(topo, topology, pci)};
        snprintf(device->bus_id, sizeof device->bus_id, "%04x:%02x:%02x.%01x", pci->attr->pcidev.domain,
                 pci->attr->pcidev.bus, pci->attr->pcidev.dev, pci->attr->pcidev.func);
        describe_device(device, pci);
        topo->machine.device_count++;
        topo->machine.gpu_count += kind == TOPO_GPU;
    }
    qsort(topo->devices, topo->machine.device_count, sizeof *topo->devices, compare_devices);
    for (uint32_t i = 0; i < topo->machine.gpu_count; i++)
        if (strncmp(topo->devices[i].name, "cuda", 4) != 0)
            snprintf(topo->devices[i].name, sizeof topo->devices[i].name, "gpu%u", i);
    topo->machine.devices = topo->devices;
    return 0;
}

static void set_limits(struct topo *topo)
{
    struct topo_machine *machine = &topo->machine;
    struct cgroup_limits limits = {.memory_bytes = UINT64_MAX};

    if (!machine->loaded)
        cgroup_limits_own(&limits);
    machine->quota_cores = limits.quota_cores;
    machine->usable_cores = machine->core_count;
    if (limits.quota_cores > 0 && ceil(limits.quota_cores) < machine->core_count)
        machine->usable_cores = (uint32_t)ceil(limits.quota_cores);
    machine->memory_limit_bytes = machine->ram_bytes;
    copy(topo->memory_from, sizeof topo->memory_from, "RAM");
    if (limits.memory_bytes < machine->ram_bytes) {
        machine->memory_limit_bytes = limits.memory_bytes;
        copy(topo->memory_from, sizeof topo->memory_from, limits.memory_from);
    }
    machine->memory_limit_from = topo->memory_from;
}

static int read_topology(struct topo *topo, hwloc_topology_t topology, struct sheaf_error *error)
{
    hwloc_bitmap_t usable = usable_set(topology, topo->machine.loaded);

    if (usable == NULL || allocate(topo, topology) < 0) {
        hwloc_bitmap_free(usable);
        return fail(error, -ENOMEM, "topology: out of memory");
    }
    add_nodes(topo, topology, usable);
    hwloc_bitmap_free(usable);
    if (topo->machine.core_count == 0)
        return fail(error, SHEAF_E_ENVIRONMENT, "topology: no usable core in it");
    if (topo->machine.ram_bytes == 0 && !topo->machine.loaded) { /* no /sys: hwloc knows of no memory */
        topo->machine.ram_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
        topo->nodes[0].memory_bytes = topo->machine.ram_bytes;
    }
    if (choose_memory(topo, topology) < 0)
        return fail(error, -ENOMEM, "topology: out of memory");
    set_limits(topo);
    topo->machine.cores = topo->cores;
    topo->machine.nodes = topo->nodes;
    topo->machine.pus = topo->pus;
    return 0;
}

int topo_create(const char *xml, struct topo **ret_topo, struct sheaf_error *error)
{
    struct topo *topo = calloc(1, sizeof *topo);
    hwloc_topology_t topology = NULL;

    if (topo == NULL)
        return fail(error, -ENOMEM, "topology: out of memory");
    pthread_mutex_init(&topo->devices_lock, NULL);
    int rc = load(&topology, xml, xml != NULL, error);
    if (rc == 0) {
        topo->machine.loaded = !hwloc_topology_is_thissystem(topology);
        rc = read_topology(topo, topology, error);
        if (rc == 0 && xml != NULL && add_devices(topo, topology) < 0)
            rc = fail(error, -ENOMEM, "topology: out of memory");
        hwloc_topology_destroy(topology);
    }
    if (rc < 0) {
        topo_destroy(topo);
        return rc;
    }
    *ret_topo = topo;
    return 0;
}

int topo_find_devices(struct topo *topo, struct sheaf_error *error)
{
    hwloc_topology_t topology = NULL;
    int rc = 0;

    pthread_mutex_lock(&topo->devices_lock);
    if (topo->devices == NULL)
        rc = load(&topology, NULL, true, error);
    if (topology != NULL) {
        if (add_devices(topo, topology) < 0)
            rc = fail(error, -ENOMEM, "topology: out of memory");
        hwloc_topology_destroy(topology);
    }
    pthread_mutex_unlock(&topo->devices_lock);
    return rc;
}

void topo_destroy(struct topo *topo)
{
    if (topo == NULL)
        return;
    pthread_mutex_destroy(&topo->devices_lock);
    free(topo->cores);
    free(topo->nodes);
    free(topo->devices);
    free(topo->pus);
    free(topo);
}

const struct topo_machine *topo_machine(const struct topo *topo)
{
    return &topo->machine;
}
