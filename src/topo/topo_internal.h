/* SPDX-License-Identifier: Apache-2.0 */
/* What topo.c (reads hwloc) and plan.c, describe.c (read numbers only) share. */
#ifndef SRC_TOPO_TOPO_INTERNAL_H
#define SRC_TOPO_TOPO_INTERNAL_H

#include <pthread.h>

#include "topo/topo.h"

struct topo {
    struct topo_machine machine;
    struct topo_core *cores;
    struct topo_node *nodes;
    struct topo_device *devices;  /* NULL: not looked for yet */
    pthread_mutex_t devices_lock; /* while they are */
    uint32_t *pus;
    char memory_from[256];
};

#endif
