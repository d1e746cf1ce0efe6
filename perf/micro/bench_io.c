/* SPDX-License-Identifier: Apache-2.0 */
/* Files: reads through the I/O queue (from the page cache, so the queue and not the disk), journal records. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/io.h"
#include "io/tree/journal.h"
#include "perf/micro/bench.h"

enum { FILE_BYTES = 8 << 20, DEPTH = 32 };

/* A file without a name that is full of something; -1 and the failure is said. */
static int open_file(struct bench *bench)
{
    char path[] = "/tmp/sheaf-bench-XXXXXX";
    static char block[1 << 16];
    int fd = mkstemp(path);
    if (fd < 0) {
        bench_fail(bench, "no temporary file");
        return -1;
    }
    unlink(path);
    memset(block, 'x', sizeof block);
    for (int at = 0; at < FILE_BYTES; at += (int)sizeof block) {
        if (write(fd, block, sizeof block) != (ssize_t)sizeof block) {
            bench_fail(bench, "no room for a temporary file");
            close(fd);
            return -1;
        }
    }
    return fd;
}

static int read_some(struct io *io, int fd, char *memory, uint64_t bytes, uint64_t *at)
{
    struct io_completion done[DEPTH];
    while (io_in_flight(io) < DEPTH) {
        struct io_request request = {.opcode = IO_READ,
                                     .fd = fd,
                                     .data = memory + io_in_flight(io) * bytes,
                                     .length_bytes = bytes,
                                     .offset_bytes = *at % (FILE_BYTES / bytes) * bytes};
        int status = io_submit(io, &request);
        if (status < 0)
            return status;
        ++*at;
    }
    return io_reap(io, done, DEPTH, IO_WAIT_FOREVER);
}

/* The argument is in bytes; one item is one read. */
static void reads(struct bench *bench, enum sheaf_io_backend backend)
{
    uint64_t bytes = (uint64_t)bench_argument(bench), at = 0;
    struct io_options options = {.backend = backend, .depth = DEPTH};
    struct io *io = NULL;
    char *memory = malloc(DEPTH * bytes);
    int fd = open_file(bench), done = 0;
    if (io_create(&options, &io, NULL) < 0 || !memory)
        bench_fail(bench, "this kernel refuses the queue");
    int64_t items = 0;
    while (fd >= 0 && io && memory && bench_next(bench)) {
        done = read_some(io, fd, memory, bytes, &at);
        if (done < 0) {
            bench_fail(bench, "a read failed");
            break;
        }
        items += done;
    }
    bench_count_items(bench, items);
    bench_count_bytes(bench, items * (int64_t)bytes);
    io_destroy(io);
    free(memory);
    if (fd >= 0)
        close(fd);
}

static void reads_by_ring(struct bench *bench)
{
    reads(bench, SHEAF_IO_URING);
}
BENCH("io/read_uring", reads_by_ring, 4096, 262144)

static void reads_by_call(struct bench *bench)
{
    reads(bench, SHEAF_IO_SYNC);
}
BENCH("io/read_sync", reads_by_call, 4096, 262144)

/* Records as a commit makes them: 64 roots, one write; the argument says whether it is synced, too. */
static void journal(struct bench *bench)
{
    enum { ROOTS = 64 };
    static const char line[] = "{\"source\":\"papers/2026/report.pdf\",\"bytes\":123456,\"status\":\"ok\"}";
    const char *const parts[] = {line, line};
    struct buffer buffer = {0};
    int fd = open_file(bench);
    while (fd >= 0 && bench_next(bench)) {
        int status = 0;
        buffer.length = 0;
        for (uint64_t root = 0; status == 0 && root < ROOTS; root++)
            status = journal_append(&buffer, JOURNAL_ROOT, JOURNAL_OK, root + 1, parts, 2);
        if (status || pwrite(fd, buffer.bytes, buffer.length, 0) != (ssize_t)buffer.length ||
            (bench_argument(bench) && fdatasync(fd))) {
            bench_fail(bench, "a group of records cannot be written");
            break;
        }
    }
    bench_count_items(bench, bench_iterations(bench) * ROOTS);
    buffer_clear(&buffer);
    if (fd >= 0)
        close(fd);
}
BENCH("journal/append_64", journal, 0, 1)
