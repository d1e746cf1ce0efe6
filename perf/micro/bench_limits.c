/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine can do at most, whoever asks: memory copied and read by so many threads at once, and memory touched
 * that nobody has touched for a while. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "perf/micro/bench.h"
#include "shm/atomic.h"

enum { THREADS_MAX = 64, BLOCK_BYTES = 64 << 20 }; /* larger than caches */

struct mover {
    pthread_t thread;
    char *from, *to;
};

static void *move(void *context)
{
    struct mover *mover = context;
    memcpy(mover->to, mover->from, BLOCK_BYTES);
    return NULL;
}

static bool open_movers(struct mover *movers, int64_t count)
{
    bool opened = true;
    for (int64_t at = 0; at < count; at++) {
        movers[at].from = malloc(BLOCK_BYTES);
        movers[at].to = malloc(BLOCK_BYTES);
        opened = opened && movers[at].from && movers[at].to;
        if (movers[at].from)
            memset(movers[at].from, 1, BLOCK_BYTES);
        if (movers[at].to)
            memset(movers[at].to, 2, BLOCK_BYTES);
    }
    return opened;
}

/* Bytes a second are those that were copied: each is read once and written once. */
static void copy_memory(struct bench *bench)
{
    struct mover movers[THREADS_MAX] = {0};
    int64_t count = bench_argument(bench);
    if (!open_movers(movers, count))
        bench_fail(bench, "no memory");
    else
        while (bench_next(bench)) {
            for (int64_t at = 1; at < count; at++)
                pthread_create(&movers[at].thread, NULL, move, &movers[at]);
            move(&movers[0]);
            for (int64_t at = 1; at < count; at++)
                pthread_join(movers[at].thread, NULL);
        }
    bench_count_bytes(bench, bench_iterations(bench) * count * BLOCK_BYTES);
    for (int64_t at = 0; at < count; at++) {
        free(movers[at].from);
        free(movers[at].to);
    }
}
BENCH_WALL("limits/memory_copy", copy_memory, 1, 2, 8)

enum { PAGE_BYTES = 4096, COLD_PAGES = 8192, COLD_BYTES = COLD_PAGES * PAGE_BYTES };

/* A line of each of the pages, not in their order, nor always at the same place. */
static void touch_pages(volatile char *memory)
{
    for (size_t at = 0; at < COLD_PAGES; at++)
        memory[at * 4099 % COLD_PAGES * PAGE_BYTES + at * 64 % PAGE_BYTES]++;
}

/* After 50 ms in which the core had nothing to do: what a process finds that wakes up now and then. The argument: in
 * huge pages. */
static void touch_cold(struct bench *bench)
{
    const struct timespec pause = {.tv_nsec = 50000000};
    char *pages = aligned_alloc(HUGE_PAGE_BYTES, COLD_BYTES);
    if (!pages) {
        bench_fail(bench, "no memory");
        return;
    }
    (void)madvise(pages, COLD_BYTES, bench_argument(bench) ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    memset(pages, 1, COLD_BYTES);
    while (bench_next(bench)) {
        bench_pause(bench);
        nanosleep(&pause, NULL);
        bench_resume(bench);
        touch_pages(pages);
    }
    bench_count_items(bench, bench_iterations(bench) * COLD_PAGES);
    free(pages);
}
BENCH("limits/cold_page", touch_cold, 0, 1)
