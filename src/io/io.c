/* SPDX-License-Identifier: Apache-2.0 */
#include "io/io_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define SLOT_NONE UINT32_MAX
#define RETRIES_MAX 1000u

static int fail(struct sheaf_error *error, int code, const char *text)
{
    if (error != NULL) {
        error->code = code;
        error->row = 0;
        snprintf(error->message, sizeof error->message, "%s", text);
    }
    return code;
}

/* What AUTO means: the environment's word, or AUTO. -EINVAL for a word that is neither. */
static int backend_wanted(enum sheaf_io_backend asked, enum sheaf_io_backend *ret_backend)
{
    const char *word = getenv("SHEAF_IO");

    *ret_backend = asked;
    if (asked != SHEAF_IO_AUTO || word == NULL || word[0] == '\0' || strcmp(word, "auto") == 0)
        return 0;
    if (strcmp(word, "uring") == 0)
        *ret_backend = SHEAF_IO_URING;
    else if (strcmp(word, "sync") == 0)
        *ret_backend = SHEAF_IO_SYNC;
    else
        return -EINVAL;
    return 0;
}

static int start_uring(struct io *io)
{
#ifdef SHEAF_HAVE_URING
    io->ops = &io_uring_ops;
    return io->ops->start(io);
#else
    snprintf(io->description, sizeof io->description, "this build has no io_uring");
    return -ENOSYS;
#endif
}

static int start_backend(struct io *io, struct sheaf_error *error)
{
    enum sheaf_io_backend wanted;
    char reason[IO_DESCRIPTION_BYTES] = "asked for";
    char text[IO_DESCRIPTION_BYTES + 100];

    if (backend_wanted(io->options.backend, &wanted) < 0)
        return fail(error, SHEAF_E_USAGE, "SHEAF_IO: unknown value, use uring, sync or auto");
    if (wanted != SHEAF_IO_SYNC) {
        int rc = start_uring(io);

        if (rc == 0)
            return 0;
        if (wanted == SHEAF_IO_URING) {
            snprintf(text, sizeof text, "io_uring: %s; allow it, or use SHEAF_IO=sync", io->description);
            return fail(error, SHEAF_E_ENVIRONMENT, text);
        }
        memcpy(reason, io->description, sizeof reason);
    }
    io->ops = &io_sync_ops;
    int rc = io->ops->start(io);
    if (rc < 0)
        return fail(error, rc, "I/O queue: out of memory");
    snprintf(io->description, sizeof io->description,
             "plain system calls (%.250s): same results, one operation at a time per I/O thread", reason);
    return 0;
}

static int allocate(struct io *io)
{
    io->slots = calloc(io->depth, sizeof *io->slots);
    io->ready = calloc(io->depth, sizeof *io->ready);
    if (io->slots == NULL || io->ready == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < io->depth; i++)
        io->slots[i].next = i + 1 < io->depth ? i + 1 : SLOT_NONE;
    io->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return io->wake_fd < 0 ? -errno : 0;
}

static void release(struct io *io)
{
    if (io->wake_fd >= 0)
        close(io->wake_fd);
    free(io->slots);
    free(io->ready);
    free(io);
}

int io_create(const struct io_options *options, struct io **ret_io, struct sheaf_error *error)
{
    struct io *io = calloc(1, sizeof *io);

    if (io == NULL)
        return fail(error, -ENOMEM, "I/O queue: out of memory");
    if (options != NULL)
        io->options = *options;
    io->wake_fd = -1;
    io->depth = io->options.depth == 0 ? IO_DEPTH_DEFAULT : io->options.depth;
    if (io->depth > IO_DEPTH_MAX)
        io->depth = IO_DEPTH_MAX;
    int rc = allocate(io);
    if (rc < 0)
        fail(error, rc, "I/O queue: no memory or no descriptor left; see ulimit -n");
    else
        rc = start_backend(io, error);
    if (rc < 0) {
        release(io);
        return rc;
    }
    *ret_io = io;
    return 0;
}

void io_destroy(struct io *io)
{
    struct io_completion completion;

    if (io == NULL)
        return;
    while (io->in_flight > 0 && io_reap(io, &completion, 1, IO_WAIT_FOREVER) >= 0)
        continue;
    io->ops->stop(io);
    release(io);
}

enum sheaf_io_backend io_backend(const struct io *io)
{
    return io->ops->backend;
}

const char *io_describe(const struct io *io)
{
    return io->description;
}

uint32_t io_in_flight(const struct io *io)
{
    return io->in_flight;
}

static void complete(struct io *io, uint32_t slot, int64_t result)
{
    assert(io->ready_count < io->depth);
    uint32_t at = (io->ready_first + io->ready_count) % io->depth;

    io->ready[at] = (struct io_completion){.tag = io->slots[slot].request.tag, .result = result};
    io->ready_count++;
    io->slots[slot].next = io->free_first;
    io->free_first = slot;
}

static bool transfers(const struct io_request *request)
{
    return request->opcode == IO_READ || request->opcode == IO_WRITE;
}

/* Starts the next piece. The fault hook may end pieces without doing them, hence the loop with io_piece_done. */
static void advance(struct io *io, uint32_t index)
{
    struct io_slot *slot = &io->slots[index];
    uint64_t left = transfers(&slot->request) ? slot->request.length_bytes - slot->done_bytes : 0;
    int64_t piece = left < IO_PIECE_BYTES ? (int64_t)left : (int64_t)IO_PIECE_BYTES;

    if (io->options.fault != NULL) {
        int64_t allowed = io->options.fault(io->options.fault_cookie, slot->request.opcode,
                                            slot->request.offset_bytes + slot->done_bytes, (uint64_t)piece);
        if (allowed < 0) {
            io_piece_done(io, index, allowed);
            return;
        }
        assert(allowed <= piece && (allowed > 0 || piece == 0));
        piece = allowed;
    }
    slot->piece_bytes = (uint32_t)piece;
    io->ops->issue(io, index);
}

void io_piece_done(struct io *io, uint32_t index, int64_t result)
{
    struct io_slot *slot = &io->slots[index];

    if ((result == -EINTR || result == -EAGAIN) && slot->retries++ < RETRIES_MAX) {
        advance(io, index);
        return;
    }
    if (result < 0 || !transfers(&slot->request)) {
        complete(io, index, result < 0 ? result : 0);
        return;
    }
    slot->retries = 0;
    slot->done_bytes += (uint64_t)result;
    assert(slot->done_bytes <= slot->request.length_bytes);
    if (slot->done_bytes == slot->request.length_bytes || (result == 0 && slot->request.opcode == IO_READ))
        complete(io, index, (int64_t)slot->done_bytes);
    else if (result == 0)
        complete(io, index, -EIO); /* a device that takes nothing and says nothing */
    else
        advance(io, index);
}

int io_submit(struct io *io, const struct io_request *request)
{
    if (request->opcode < IO_READ || request->opcode > IO_FDATASYNC ||
        (transfers(request) && request->length_bytes > INT64_MAX - request->offset_bytes))
        return -EINVAL;
    if (io->in_flight == io->depth)
        return -EAGAIN;
    uint32_t index = io->free_first;
    assert(index != SLOT_NONE);
    io->free_first = io->slots[index].next;
    io->slots[index] = (struct io_slot){.request = *request, .next = SLOT_NONE};
    io->in_flight++;
    if (transfers(request) && request->length_bytes == 0)
        complete(io, index, 0);
    else
        advance(io, index);
    return 0;
}

int io_flush(struct io *io)
{
    return io->ops->flush(io);
}

static uint32_t take_ready(struct io *io, struct io_completion *ret_completions, uint32_t max)
{
    uint32_t count = 0;

    while (count < max && io->ready_count > 0) {
        ret_completions[count++] = io->ready[io->ready_first];
        io->ready_first = (io->ready_first + 1) % io->depth;
        io->ready_count--;
        io->in_flight--;
    }
    return count;
}

static int64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int io_reap(struct io *io, struct io_completion *ret_completions, uint32_t max, int64_t wait_us)
{
    int64_t end_us = wait_us > 0 ? now_us() + wait_us : 0;

    for (;;) {
        int rc = io->ops->work(io, io->ready_count > 0 || io->woken ? 0 : wait_us);
        uint32_t count = take_ready(io, ret_completions, max);

        if (count > 0 || max == 0)
            return (int)count;
        if (rc < 0)
            return rc;
        if (wait_us == 0)
            return 0;
        if (io->woken) { /* a wake is used up only by a wait that it ended */
            io->woken = false;
            return 0;
        }
        if (wait_us > 0 && (wait_us = end_us - now_us()) <= 0)
            return 0;
    }
}

void io_wake(struct io *io)
{
    uint64_t one = 1;
    ssize_t written;

    do
        written = write(io->wake_fd, &one, sizeof one);
    while (written < 0 && errno == EINTR); /* EAGAIN: the count is full, so it is readable */
}

void io_take_wake(struct io *io)
{
    uint64_t count;

    if (read(io->wake_fd, &count, sizeof count) == (ssize_t)sizeof count)
        io->woken = true;
}
