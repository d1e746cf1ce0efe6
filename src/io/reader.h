/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads source files into memory that the engine chooses: paths in, filled memory out.
 *
 * Why: a shard never calls the kernel for files. Beside it stands one I/O thread that loops over reader_step; the
 * reader opens each source (a blocking call), asks `place` where its bytes shall go once the size is known, and reads
 * many files at once through one I/O queue. Inputs may change while they are read, so they are read, never mapped: a
 * file that shrinks, grows or is written meanwhile ends as an error result, never as SIGBUS and never as a mix of two
 * versions.
 *
 * Threads: reader_submit, reader_retry and reader_wake may be called by any thread; reader_step by one thread (the I/O
 * thread), on which both callbacks run. A result is reported exactly once per accepted request.
 *
 *     while (running) { reader_step(reader, IO_WAIT_FOREVER); }     // reader_wake ends the wait
 */
#ifndef SRC_IO_READER_H
#define SRC_IO_READER_H

#include "io/io.h"

struct reader;

enum reader_place_kind {
    READER_READ = 1, /* read the whole file into `memory`, which has room for size_bytes */
    READER_STREAM,   /* do not read: the result carries the open descriptor (a file too large for memory) */
    READER_LATER,    /* no room now: `place` is asked again after reader_retry */
    READER_REFUSE,   /* give up: class_id and message become the result */
};

struct reader_place {
    enum reader_place_kind kind;
    void *memory;              /* READ. Belongs to the reader until the result is reported */
    enum sheaf_class class_id; /* REFUSE */
    char message[256];         /* REFUSE: one line */
};

struct reader_result {
    uint64_t tag;
    const char *path;          /* until `done` returns */
    enum sheaf_class class_id; /* NONE: all is well */
    int code;                  /* 0, or the negative errno behind the class */
    uint64_t size_bytes;       /* 0 when it could not be opened */
    int64_t mtime_ns;
    void *memory;        /* as placed, also when reading failed: the callee's again. NULL when never placed */
    int fd;              /* STREAM: the callee closes it; else -1 */
    const char *message; /* one line, "" when all is well; until `done` returns */
};

struct reader_options {
    struct io_options io;
    uint32_t in_flight_max; /* files open at once; 0: the depth of the queue */
    uint32_t queued_max;    /* requests accepted and not yet opened; 0: 1024 */
    bool follow_links;      /* see io_source_open */
    void *cookie;
    /* Where the bytes of an opened source go. Returns nothing: everything is in ret_place. Must not block. */
    void (*place)(void *cookie, uint64_t tag, const char *path, uint64_t size_bytes, int64_t mtime_ns,
                  struct reader_place *ret_place);
    void (*done)(void *cookie, const struct reader_result *result);
};

/* Any thread. `place` and `done` must be given. */
int reader_create(const struct reader_options *options, struct reader **ret_reader, struct sheaf_error *error);
/* When no thread is in reader_step. Requests not yet reported are reported as CANCELLED here, reads in flight awaited
 * first. NULL is fine. */
void reader_destroy(struct reader *reader);

/* Asks for one file; the path is copied. -EAGAIN: the queue is full; -ENOMEM. Wakes the I/O thread. Any thread. */
int reader_submit(struct reader *reader, const char *path, uint64_t tag);
/* Room may have come back: ask `place` again for what was told LATER, in order. Wakes the I/O thread if there is
 * anything to read. Any thread. */
void reader_retry(struct reader *reader);
/* Makes the current or next waiting reader_step return. Any thread. */
void reader_wake(struct reader *reader);

/* Opens, submits, reaps and reports what it can; waits up to `wait_us` (IO_WAIT_FOREVER, 0: not at all) when there is
 * nothing to do. Returns the number of results reported, or a negative errno when the queue itself is broken. */
int reader_step(struct reader *reader, int64_t wait_us);

/* Requests accepted and not yet reported. Any thread. */
uint64_t reader_pending(struct reader *reader);
const char *reader_describe(const struct reader *reader); /* io_describe of its queue */

#endif
