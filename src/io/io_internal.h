/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the two backends of the I/O queue share. io.c keeps the requests and decides what the next piece of each is; a
 * backend only carries pieces: it is given one by `issue` and answers with io_piece_done from within `work`.
 */
#ifndef SRC_IO_IO_INTERNAL_H
#define SRC_IO_IO_INTERNAL_H

#include "io/io.h"

#define IO_DESCRIPTION_BYTES 400

struct io_slot {
    struct io_request request;
    uint64_t done_bytes;
    uint32_t piece_bytes; /* of the piece under way */
    uint32_t retries;     /* EINTR and EAGAIN in a row */
    uint32_t next;        /* in the free list, or the backend's queue */
};

struct io_backend_ops {
    enum sheaf_io_backend backend;
    /* 0, or a negative errno with the reason in io->description. */
    int (*start)(struct io *io);
    void (*stop)(struct io *io);
    /* Queues the piece of `slot`; may not fail: there is room for one piece per slot. */
    void (*issue)(struct io *io, uint32_t slot);
    int (*flush)(struct io *io);
    /* Hands over what is queued, and reports what is done; waits up to wait_us when nothing is. Sets io->woken. */
    int (*work)(struct io *io, int64_t wait_us);
};

struct io {
    const struct io_backend_ops *ops;
    void *state; /* the backend's */
    struct io_options options;
    uint32_t depth;
    uint32_t in_flight; /* taken and not yet reaped */
    uint32_t free_first;
    uint32_t ready_first, ready_count; /* ring of `depth` */
    int wake_fd;                       /* eventfd */
    bool woken;
    struct io_slot *slots;
    struct io_completion *ready;
    char description[IO_DESCRIPTION_BYTES];
};

extern const struct io_backend_ops io_sync_ops;
extern const struct io_backend_ops io_uring_ops;

/* The piece of `slot` ended with `result`: goes on with the next piece or completes the request. */
void io_piece_done(struct io *io, uint32_t slot, int64_t result);
/* The wake-up descriptor is readable: empties it. */
void io_take_wake(struct io *io);

#endif
