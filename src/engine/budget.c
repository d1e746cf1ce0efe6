/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/budget.h"

#include <assert.h>

#include "engine/payload.h"

#define MIB (UINT64_C(1) << 20)
#define FIXED_BYTES (64 * MIB)        /* an engine with its libraries, rings and a window of documents */
#define SOURCES_MIN (16 * MIB)        /* one ordinary document at a time */
#define WORKER_BYTES_MIN (64 * MIB)   /* small operators; less than this is no worker */
#define WORKER_BYTES_GOOD (320 * MIB) /* a page of 20 megapixels being rendered and read, with its models */

uint64_t budget_minimum(uint32_t workers)
{
    return FIXED_BYTES + SOURCES_MIN + workers * WORKER_BYTES_MIN;
}

static uint64_t source_share(uint64_t total_bytes)
{
    uint64_t share = total_bytes / 8;
    return share < SOURCES_MIN ? SOURCES_MIN : share;
}

uint32_t budget_workers(uint64_t total_bytes, uint32_t most)
{
    uint64_t taken = FIXED_BYTES + source_share(total_bytes);
    uint64_t workers = total_bytes > taken ? (total_bytes - taken) / WORKER_BYTES_GOOD : 0;
    return workers < 1 ? 1 : workers < most ? (uint32_t)workers : most;
}

struct budget budget_divide(uint64_t total_bytes, uint32_t workers)
{
    assert(total_bytes >= budget_minimum(workers));
    uint64_t most_for_sources = total_bytes - FIXED_BYTES - workers * WORKER_BYTES_MIN;
    uint64_t sources = source_share(total_bytes);
    sources = sources < most_for_sources ? sources : most_for_sources;
    uint64_t share = (total_bytes - FIXED_BYTES - sources) / (workers > 0 ? workers : 1);
    uint64_t values = share / 4 / PAYLOAD_CHUNK_BYTES * PAYLOAD_CHUNK_BYTES;
    return (struct budget){.total_bytes = total_bytes,
                           .fixed_bytes = FIXED_BYTES,
                           .source_bytes = sources,
                           .heap_bytes = share - values,
                           .value_bytes = values};
}
