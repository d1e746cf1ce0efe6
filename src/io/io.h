/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An I/O queue: one interface over io_uring and over plain system calls, with the same results.
 *
 * Why: page and frame reads, spill and commits want many operations in flight from one thread, and containers may deny
 * io_uring. A queue belongs to one thread, the first that submits or reaps (it may be created and, when nothing is in
 * flight, destroyed by another); only io_wake may be called by others. Queues hold no locks and start no threads.
 *
 * A request covers its whole range: the queue splits it into pieces of at most IO_PIECE_BYTES, goes on after short
 * reads and writes, and reports once. Pieces of one request run one after another; different requests run in any order.
 * Memory named by a request belongs to the queue until its completion was reaped, also when the request fails.
 * Opens, renames and other name operations are ordinary calls of the owner (measured: as fast as linked opens).
 *
 * SHEAF_IO=uring|sync in the environment decides where the caller says SHEAF_IO_AUTO.
 */
#ifndef SRC_IO_IO_H
#define SRC_IO_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sheaf/engine.h>
#include <sheaf/status.h>

/* Large enough that a piece costs far more than its submission, small enough that one file cannot hold a slow disk for
 * long. */
#define IO_PIECE_BYTES ((size_t)4 << 20)
#define IO_DEPTH_DEFAULT 64u
#define IO_DEPTH_MAX 4096u

struct io;

enum io_opcode {
    IO_READ = 1,  /* result: bytes read, fewer than asked only at the end of the file */
    IO_WRITE,     /* result: bytes written, always all */
    IO_FSYNC,     /* result: 0. Also for folders */
    IO_FDATASYNC, /* result: 0 */
};

struct io_request {
    enum io_opcode opcode;
    int fd; /* stays open until the completion */
    void *data;
    uint64_t length_bytes; /* READ, WRITE: 0 is allowed */
    uint64_t offset_bytes;
    uint64_t tag; /* the caller's, comes back */
};

struct io_completion {
    uint64_t tag;
    int64_t result; /* as said at the opcode, or a negative errno */
};

struct io_options {
    enum sheaf_io_backend backend;
    uint32_t depth; /* requests in flight at most; 0: IO_DEPTH_DEFAULT */
    /* Test hook, NULL outside tests: called before each piece; returns how many of `length_bytes` to transfer (at least
     * 1 unless length_bytes is 0), or a negative errno that the piece ends with instead of being done. */
    int64_t (*fault)(void *cookie, enum io_opcode opcode, uint64_t offset_bytes, uint64_t length_bytes);
    void *fault_cookie;
};

/* `options` NULL: all defaults. SHEAF_E_ENVIRONMENT: io_uring was asked for by name and this kernel or build refuses
 * it. AUTO falls back to plain system calls and says why in io_describe. */
int io_create(const struct io_options *options, struct io **ret_io, struct sheaf_error *error);
/* Waits for what is in flight, then frees. NULL is fine. */
void io_destroy(struct io *io);

/* SHEAF_IO_URING or SHEAF_IO_SYNC. */
enum sheaf_io_backend io_backend(const struct io *io);
/* One line: which backend, why, and what that costs. The queue's. */
const char *io_describe(const struct io *io);

/* Takes a request; -EAGAIN: `depth` are in flight, reap first. -EINVAL: no such opcode. What is wrong with the
 * operation itself is told by its completion. Nothing reaches the kernel before io_reap or io_flush. */
int io_submit(struct io *io, const struct io_request *request);
/* Hands what was submitted to the kernel without waiting (plain system calls: does nothing). */
int io_flush(struct io *io);
uint32_t io_in_flight(const struct io *io);

#define IO_WAIT_FOREVER (-1)
/* Submits what is queued and takes up to `max` completions. With none ready it waits up to `wait_us` (0: not at all)
 * for one, or for io_wake. Returns their number, 0 when woken or out of time, or a negative errno. */
int io_reap(struct io *io, struct io_completion *ret_completions, uint32_t max, int64_t wait_us);

/* Makes the current or next waiting io_reap return. Any thread, any number of times. */
void io_wake(struct io *io);

/* ---- sources ---- */

/* An input file that was opened for reading. The caller closes fd. */
struct io_source {
    int fd;
    uint64_t size_bytes;
    int64_t mtime_ns;
};

struct io_source_problem {
    enum sheaf_class class_id; /* UNREADABLE, EMPTY, UNSUPPORTED or IO */
    int code;                  /* negative errno */
    char message[256];         /* one line that starts with the path */
};

/*
 * Opens with O_RDONLY | O_CLOEXEC | O_NOCTTY and, unless `follow`, O_NOFOLLOW: a path whose last component is a
 * symbolic link is refused, because whoever lists a folder decides about links and passes on what they lead to. A FIFO
 * never blocks the call. Anything but a regular file is UNSUPPORTED (a folder too), a file of 0 bytes EMPTY, all else
 * UNREADABLE. 0, or the negative errno of ret_problem.
 */
int io_source_open(const char *path, bool follow, struct io_source *ret_source, struct io_source_problem *ret_problem);

/* 0 while size and mtime are what they were at the open, else -ESTALE with class IO: a file that changed under its
 * reader is never passed on as if it were whole. */
int io_source_verify(const char *path, const struct io_source *source, struct io_source_problem *ret_problem);

#endif
