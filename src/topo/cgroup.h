/* SPDX-License-Identifier: Apache-2.0 */
/* What the cgroups (v2) of this process allow: the tightest values on the way from its own group up to the root. */
#ifndef SRC_TOPO_CGROUP_H
#define SRC_TOPO_CGROUP_H

#include <stddef.h>
#include <stdint.h>

struct cgroup_limits {
    double quota_cores;    /* of cpu.max; 0: no limit */
    uint64_t memory_bytes; /* of memory.max and memory.high; UINT64_MAX: no limit */
    char memory_from[256]; /* the file that sets it, "" when none does */
};

/* `mount`: where cgroup2 is mounted; `group`: the group's path below it, starting with '/'. Files that cannot be read
 * set no limit: a controller may be absent. */
void cgroup_limits_read(const char *mount, const char *group, struct cgroup_limits *ret_limits);

/* The same for this process; no limits when it is in no cgroup2. */
void cgroup_limits_own(struct cgroup_limits *ret_limits);

#endif
