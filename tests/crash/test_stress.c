/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many items through the real engine while workers are killed, in small rings: an operator that gives back what it got,
 * so that all there is to do is claiming, answering, clearing away after the dead, and starting again.
 *
 *     test_stress [items [kills [workers]]]     CRASH_SEED picks the moments
 *
 * Every root must come back with all its items, in order, and nothing may be left over.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "job.h"

enum { ITEMS_PER_ROOT = 500 };

static const char *const program =
    "name: stress\n"
    "sources: {root: i64}\n"
    "steps:\n"
    "  - {call: spread, op: crash.spread, in: [root], out: [children], pool: all, recovery: retry, retries: 50}\n"
    "  - {expand: [children], as: [child]}\n"
    "  - {call: echo, op: crash.id, in: [child], out: [item], pool: all, recovery: retry, retries: 50}\n"
    "  - {gather: [item], as: [items]}\n"
    "outputs: [items]\n";

/* Kills a worker whenever so many roots more are done; which one, the seed says. */
struct killing {
    uint64_t every, next, kills;
    uint32_t random;
};

static void kill_one(void *cookie, uint64_t done)
{
    struct killing *killing = cookie;
    pid_t workers[JOB_CHILDREN_MAX];
    if (killing->every == 0 || done < killing->next)
        return;
    killing->next = done + killing->every;
    uint32_t count = job_children(workers, true);
    killing->random = killing->random * 1664525u + 1013904223u;
    if (count > 0 && kill(workers[(killing->random >> 8) % count], SIGKILL) == 0)
        killing->kills++;
}

static uint64_t argument(int count, char **arguments, int index, uint64_t usual)
{
    return count > index ? strtoull(arguments[index], NULL, 10) : usual;
}

int main(int argument_count, char **arguments)
{
    uint64_t items = argument(argument_count, arguments, 1, 50000), roots = items / ITEMS_PER_ROOT;
    uint64_t kills = argument(argument_count, arguments, 2, 10);
    const char *seed = getenv("CRASH_SEED");
    struct killing killing = {.random = seed ? (uint32_t)strtoul(seed, NULL, 10) : (uint32_t)time(NULL)};
    killing.every = killing.next = kills > 0 ? roots / (kills + 1) : 0;
    printf("CRASH_SEED=%u\n", killing.random);
    struct job_options options = {.plugin = getenv("CRASH_PLUGIN"),
                                  .worker = getenv("CRASH_WORKER"),
                                  .program = program,
                                  .workers = (uint32_t)argument(argument_count, arguments, 3, 2),
                                  .roots = roots,
                                  .memory_bytes = UINT64_C(512) << 20,
                                  .window = 16,
                                  .items_per_root = ITEMS_PER_ROOT,
                                  .each = kill_one,
                                  .cookie = &killing};
    struct job_outcome outcome;
    job_run(&options, &outcome);
    if (outcome.problem[0])
        printf("%s\n", outcome.problem);
    double seconds = (double)outcome.wall_us / 1e6, rows = (double)items;
    printf("%" PRIu64 " items, %u workers, %" PRIu64 " kills, %" PRIu64 " deaths: %.2f s, %.0f items/s; CPU per item: "
           "engine %.2f us, workers %.2f us\n",
           items, options.workers, killing.kills, outcome.deaths, seconds, rows / seconds,
           (double)outcome.engine_cpu_us / rows, (double)outcome.worker_cpu_us / rows);
    bool failed = outcome.problem[0] != '\0' || killing.kills < kills / 2 || (kills > 0 && outcome.deaths == 0);
    job_free(&outcome);
    return failed;
}
