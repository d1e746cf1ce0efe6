/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/lend.h"

#include <errno.h>

#include "engine/shard.h"
#include "engine/spill.h"

static int lend_source(const struct sheaf_run *run, uint64_t source, int *ret_fd)
{
    if (source_shard(source) >= run->shard_count)
        return -ENOENT;
    return sources_descriptor(run->shards[source_shard(source)]->sources, source, ret_fd);
}

/* Of bytes in its own memory: a worker asks for nothing else, and may lie only about what it could write anyway. On
 * disk, since nobody would count a file in memory. */
static int lend_copy(const struct sheaf_run *run, uint32_t worker, const struct attach_reply *request, int *ret_fd)
{
    if (request->copy.segment != payload_worker_segment(run->payload, worker))
        return -EINVAL;
    const void *data = payload_real_at(run->payload, worker, request->number, request->copy.bytes);
    if (!data)
        return -EINVAL;
    return run->spill ? spill_file(run->spill, data, request->copy.bytes, ret_fd) : -EOPNOTSUPP;
}

int lend_descriptor(const struct sheaf_run *run, uint32_t worker, const struct attach_reply *request, int *ret_fd)
{
    return request->kind == ATTACH_REQUEST_COPY ? lend_copy(run, worker, request, ret_fd)
                                                : lend_source(run, request->number, ret_fd);
}
