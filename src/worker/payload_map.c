/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/payload_map.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/attach.h"

void payload_map_init(struct payload_map *map, int socket)
{
    *map = (struct payload_map){NULL, 0, socket, NULL};
}

void payload_map_done(struct payload_map *map)
{
    for (uint32_t number = 0; number < map->limit; number++) {
        if (map->segments[number] != NULL)
            segment_release(map->segments[number]);
        free(map->segments[number]);
    }
    free(map->segments);
    payload_map_init(map, -1);
}

static int grow(struct payload_map *map, uint32_t number)
{
    if (number < map->limit)
        return 0;
    struct segment **grown = realloc(map->segments, (number + 1) * sizeof *grown);
    if (grown == NULL)
        return -ENOMEM;
    memset(grown + map->limit, 0, (number + 1 - map->limit) * sizeof *grown);
    map->segments = grown;
    map->limit = number + 1;
    return 0;
}

int payload_map_add(struct payload_map *map, uint32_t number, int descriptor, bool writable)
{
    if (number == VALUE_INLINE || number > UINT16_MAX)
        return -EINVAL;
    int status = grow(map, number);
    if (status < 0)
        return status;
    if (map->segments[number] != NULL)
        return -EEXIST;
    struct segment *segment = malloc(sizeof *segment);
    if (segment == NULL)
        return -ENOMEM;
    status = segment_attach(descriptor, writable, segment);
    if (status == -EINVAL && !writable)
        status = segment_attach_file(descriptor, segment); /* what the engine has moved to disk */
    if (status < 0) {
        free(segment);
        return status;
    }
    map->segments[number] = segment;
    return 0;
}

void payload_map_drop_descriptors(struct payload_map *map)
{
    for (uint32_t number = 0; number < map->limit; number++)
        if (map->segments[number] != NULL)
            segment_drop_descriptor(map->segments[number]);
}

const struct segment *payload_map_segment(const struct payload_map *map, uint32_t number)
{
    return number < map->limit ? map->segments[number] : NULL;
}

static const struct segment *fetch(struct payload_map *map, uint32_t number)
{
    int descriptor = -1;
    if (map->socket < 0 || number == VALUE_INLINE || attach_request_segment(map->socket, number, &descriptor) < 0)
        return NULL;
    if (payload_map_add(map, number, descriptor, false) < 0) {
        close(descriptor);
        return NULL;
    }
    return map->segments[number];
}

const void *payload_map_at(struct payload_map *map, uint32_t number, uint64_t offset, uint64_t length_bytes)
{
    const struct segment *segment = payload_map_segment(map, number);
    if (segment == NULL)
        segment = fetch(map, number);
    return segment != NULL ? segment_at(segment, offset, length_bytes) : NULL;
}
