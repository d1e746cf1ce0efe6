/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payload memory that a worker made real where it was given none. Every worker maps every segment, and to touch a hole,
 * even to read it, makes it real; so the blocks of each segment are compared with what the engine gave, and the process
 * whose page tables show such a page is ended. It is over its share, as one whose heap has grown is.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/watch.h"

enum { PAGE_BYTES = 4096, PAGES_PER_CHUNK = PAYLOAD_CHUNK_BYTES / PAGE_BYTES };

/* One mapping of the segment in some process. */
struct mapping {
    unsigned long long from, to, offset;
};

static bool has_page(int pagemap, const struct mapping *mapping, uint64_t offset)
{
    static const uint64_t present = UINT64_C(1) << 63, swapped = UINT64_C(1) << 62;
    uint64_t pages[PAGES_PER_CHUNK];
    if (offset < mapping->offset || offset + PAYLOAD_CHUNK_BYTES > mapping->offset + (mapping->to - mapping->from))
        return false;
    uint64_t first = (mapping->from + (offset - mapping->offset)) / PAGE_BYTES;
    ssize_t got = pread(pagemap, pages, sizeof pages, (off_t)(first * sizeof pages[0]));
    for (size_t i = 0; got > 0 && i < (size_t)got / sizeof pages[0]; i++) {
        if (pages[i] & (present | swapped))
            return true;
    }
    return false;
}

/* Whether a process has touched any of these chunks of the segment that is called `label`. */
static bool has_touched(pid_t pid, const char *label, const struct payload_stray *stray)
{
    char path[64], line[512], name[64];
    struct mapping mapping;
    bool touched = false;
    snprintf(path, sizeof path, "/proc/%d/pagemap", (int)pid);
    int pagemap = open(path, O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    FILE *maps = pagemap >= 0 ? fopen(path, "re") : NULL;
    snprintf(name, sizeof name, "/memfd:%s (", label);
    while (maps && !touched && fgets(line, sizeof line, maps)) {
        if (!strstr(line, name) || sscanf(line, "%llx-%llx %*s %llx", &mapping.from, &mapping.to, &mapping.offset) != 3)
            continue;
        for (uint32_t i = 0; i < stray->count && !touched; i++)
            touched = has_page(pagemap, &mapping, stray->chunks[i] * PAYLOAD_CHUNK_BYTES);
    }
    if (maps)
        fclose(maps);
    if (pagemap >= 0)
        close(pagemap);
    return touched;
}

static void end_who_touched(struct sheaf_run *run, struct process *processes, const char *label, uint64_t bytes,
                            const struct payload_stray *stray)
{
    for (uint32_t worker = 0; worker < run->worker_count; worker++) {
        struct process *process = &processes[worker];
        if (process->phase == PHASE_READY && !process->killed && has_touched(process->child.pid, label, stray))
            process_kill(process, WORKER_OOM, "the worker used %llu MiB of shared memory that it was not given",
                         (unsigned long long)(bytes >> 20));
    }
}

void watch_stray(struct sheaf_run *run, struct process *processes)
{
    struct payload_stray stray;
    for (uint32_t i = 0; i < run->shard_count + run->worker_count; i++) {
        uint16_t number = (uint16_t)(1 + i);
        uint64_t bytes = payload_find_stray(run->payload, number, &stray);
        if (bytes == 0)
            continue;
        char label[PAYLOAD_LABEL_BYTES];
        payload_label(run->payload, number, label);
        if (bytes >= PAYLOAD_CHUNK_BYTES) /* less is not worth a process, and goes back all the same */
            end_who_touched(run, processes, label, bytes, &stray);
        payload_end_stray(run->payload, number);
        run_log(run, 1, "%llu KiB of %s were used without having been given, and are taken back",
                (unsigned long long)(bytes >> 10), label);
    }
}
