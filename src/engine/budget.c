/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/budget.h"

#include <assert.h>

#include "engine/payload.h"

#define MIB (UINT64_C(1) << 20)
#define FIXED_BYTES (64 * MIB)        /* an engine with its rings and a window of documents */
#define SOURCES_MIN (16 * MIB)        /* one ordinary document at a time */
#define WORKER_BYTES_MIN (64 * MIB)   /* small operators; less than this is no worker */
#define HEAP_BYTES_GOOD (208 * MIB)   /* a page of 20 megapixels being read, with its models */
#define WORKER_BYTES_GOOD (320 * MIB) /* and the values that go with it */

uint64_t budget_minimum(uint32_t workers)
{
    return FIXED_BYTES + SOURCES_MIN + workers * WORKER_BYTES_MIN;
}

/* A part of the whole, but at least `least`, and no more than `most`. */
static uint64_t part_of(uint64_t total_bytes, uint32_t divisor, uint64_t least, uint64_t most)
{
    uint64_t part = total_bytes / divisor;
    part = part < least ? least : part;
    return part < most ? part : most;
}

uint32_t budget_workers(uint64_t total_bytes, uint32_t most)
{
    uint64_t taken =
        part_of(total_bytes, 32, FIXED_BYTES, UINT64_MAX) + part_of(total_bytes, 8, SOURCES_MIN, UINT64_MAX);
    uint64_t workers = total_bytes > taken ? (total_bytes - taken) / WORKER_BYTES_GOOD : 0;
    return workers < 1 ? 1 : workers < most ? (uint32_t)workers : most;
}

/* Neither it nor what it leaves of the share falls as the share grows. */
static uint64_t heap_share(uint64_t share)
{
    uint64_t most = share / 4 * 3;
    most = most < HEAP_BYTES_GOOD ? most : HEAP_BYTES_GOOD;
    return most > share / 2 ? most : share / 2;
}

struct budget budget_divide(uint64_t total_bytes, uint32_t workers)
{
    assert(total_bytes >= budget_minimum(workers));
    uint64_t count = workers > 0 ? workers : 1;
    uint64_t spare = total_bytes - workers * WORKER_BYTES_MIN; /* after the least for workers */
    uint64_t fixed = part_of(total_bytes, 32, FIXED_BYTES, spare - SOURCES_MIN);
    uint64_t sources = part_of(total_bytes, 8, SOURCES_MIN, spare - fixed);
    uint64_t heap = heap_share((total_bytes - fixed - sources) / count);
    uint64_t payload = (total_bytes - fixed - workers * heap) / PAYLOAD_CHUNK_BYTES * PAYLOAD_CHUNK_BYTES;
    return (struct budget){.total_bytes = total_bytes,
                           .fixed_bytes = fixed,
                           .payload_bytes = payload,
                           .largest_bytes = payload - SOURCES_MIN,
                           .source_bytes = sources,
                           .heap_bytes = heap,
                           .value_bytes = (payload - sources) / count / PAYLOAD_CHUNK_BYTES * PAYLOAD_CHUNK_BYTES};
}
