/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks of payload memory, the engine's side: made real, leased to a worker, given back; and page runs of a shard. */
#include "engine/payload.h"
#include "perf/micro/bench.h"

#define CHUNKS_MAX 64u

static struct payload *open_payload(struct bench *bench)
{
    struct payload_options options = {
        .shard_count = 1, .worker_count = 1, .segment_bytes = CHUNKS_MAX * PAYLOAD_CHUNK_BYTES};
    struct payload *payload;
    if (payload_create(&options, &payload) < 0) {
        bench_fail(bench, "no payload memory");
        return NULL;
    }
    return payload;
}

/* A chunk that was never there: cleared by the system, in one huge page where it has them. */
static void back_chunk(struct bench *bench)
{
    struct payload *payload = open_payload(bench);
    uint32_t chunks = 0;
    while (payload && bench_next(bench)) {
        if (chunks == CHUNKS_MAX) {
            bench_pause(bench);
            payload_destroy(payload);
            payload = open_payload(bench);
            chunks = 0;
            bench_resume(bench);
            if (!payload)
                return;
        }
        chunks++;
        if (payload_back(payload, 0, chunks) != chunks) {
            bench_fail(bench, "no memory for a chunk");
            break;
        }
    }
    bench_count_bytes(bench, bench_iterations(bench) * (int64_t)PAYLOAD_CHUNK_BYTES);
    if (payload)
        payload_destroy(payload);
}
BENCH("payload/back_chunk", back_chunk, 0)

/* Worker after worker of one number takes the chunks over that are real already. */
static void lease_chunks(struct bench *bench)
{
    struct payload *payload = open_payload(bench);
    uint32_t chunks = (uint32_t)bench_argument(bench), leased[CHUNKS_MAX];
    if (!payload)
        return;
    if (payload_back(payload, 0, chunks) != chunks)
        bench_fail(bench, "no memory for chunks");
    while (bench_next(bench)) {
        if (payload_lease(payload, 0, leased, CHUNKS_MAX) != chunks) {
            bench_fail(bench, "chunks are missing");
            break;
        }
        payload_end_lease(payload, 0, CHUNKS_MAX);
    }
    bench_count_items(bench, bench_iterations(bench) * chunks);
    payload_destroy(payload);
}
BENCH("payload/lease_and_end", lease_chunks, 1, 8, 64)

/* What a source or a list block takes. The argument is in bytes. */
static void page_run(struct bench *bench)
{
    struct payload *payload = open_payload(bench);
    uint64_t offset, bytes = (uint64_t)bench_argument(bench);
    while (payload && bench_next(bench)) {
        if (payload_run_alloc(payload, 0, bytes, &offset) < 0) {
            bench_fail(bench, "no memory for a run");
            break;
        }
        payload_run_free(payload, 0, offset, bytes);
    }
    if (payload)
        payload_destroy(payload);
}
BENCH("payload/run_alloc_and_free", page_run, 4096, 1048576)
