/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of segments that is real although nobody made it so: to touch a hole is enough, even to read it. */
#include <sys/stat.h>
#include <unistd.h>

#include "engine/payload_internal.h"

/* The first chunk from `chunk` on that has memory and is not real; chunk_count when there is none. */
static uint64_t next_stray(const struct payload_segment *segment, uint64_t chunk)
{
    while (chunk < segment->chunk_count) {
        off_t data = lseek(segment->memory.descriptor, (off_t)(chunk * PAYLOAD_CHUNK_BYTES), SEEK_DATA);
        if (data < 0)
            return segment->chunk_count;
        chunk = (uint64_t)data / PAYLOAD_CHUNK_BYTES;
        if (!chunk_is_real(segment, chunk))
            return chunk;
        chunk++;
    }
    return segment->chunk_count;
}

/* Under the lock what is real by our count is real, all of it, and nothing is on its way. */
static uint64_t excess(const struct payload_segment *segment)
{
    enum { BLOCK_BYTES = 512 }; /* of st_blocks, whatever the file system's are */
    struct stat info;
    uint64_t given = segment->real_count * PAYLOAD_CHUNK_BYTES;
    if (fstat(segment->memory.descriptor, &info) < 0)
        return 0;
    uint64_t bytes = (uint64_t)info.st_blocks * BLOCK_BYTES;
    return bytes > given ? bytes - given : 0;
}

uint64_t payload_find_stray(struct payload *payload, uint16_t number, struct payload_stray *ret_stray)
{
    const struct payload_segment *segment = payload_segment_of(payload, number);
    ret_stray->count = 0;
    pthread_mutex_lock(&payload->lock);
    uint64_t bytes = excess(segment), chunk = bytes > 0 ? next_stray(segment, 0) : segment->chunk_count;
    for (; chunk < segment->chunk_count && ret_stray->count < PAYLOAD_STRAY_MAX; chunk = next_stray(segment, chunk + 1))
        ret_stray->chunks[ret_stray->count++] = (uint32_t)chunk;
    pthread_mutex_unlock(&payload->lock);
    return bytes;
}

void payload_end_stray(struct payload *payload, uint16_t number)
{
    const struct payload_segment *segment = payload_segment_of(payload, number);
    pthread_mutex_lock(&payload->lock);
    for (uint64_t chunk = next_stray(segment, 0); chunk < segment->chunk_count; chunk = next_stray(segment, chunk + 1))
        (void)segment_decommit(&segment->memory, chunk * PAYLOAD_CHUNK_BYTES, PAYLOAD_CHUNK_BYTES);
    pthread_mutex_unlock(&payload->lock);
}
