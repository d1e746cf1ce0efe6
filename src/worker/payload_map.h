/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The payload segments this process has mapped, by number. A reference that came from another process is turned into an
 * address only here, after its bounds were checked. A segment that was not in the hello is asked for when it is first
 * named. For the one thread of a worker.
 */
#ifndef SRC_WORKER_PAYLOAD_MAP_H
#define SRC_WORKER_PAYLOAD_MAP_H

#include <stdint.h>

#include "shm/segment.h"
#include "shm/value_ref.h"

struct view_room;

struct payload_map {
    struct segment **segments; /* by number; NULL: not mapped */
    uint32_t limit;            /* numbers are below it */
    int socket;                /* to ask for segments; -1: there is nobody to ask */
    struct view_room *rooms;   /* private copies that views into these segments point to (view.h) */
};

void payload_map_init(struct payload_map *map, int socket);
void payload_map_done(struct payload_map *map);

/* Takes the descriptor over from success on. -EINVAL, -EEXIST, -ENOMEM, or of segment_attach. */
int payload_map_add(struct payload_map *map, uint32_t number, int descriptor, bool writable);

/* Closes the descriptors of what is mapped now; the mappings stay. */
void payload_map_drop_descriptors(struct payload_map *map);

/* The mapped segment, or NULL. */
const struct segment *payload_map_segment(const struct payload_map *map, uint32_t number);

/* The address of [offset, offset + length) in segment `number`, or NULL when that is not memory we may read. */
const void *payload_map_at(struct payload_map *map, uint32_t number, uint64_t offset, uint64_t length_bytes);

#endif
