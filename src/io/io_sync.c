/* SPDX-License-Identifier: Apache-2.0 */
/* The I/O queue over plain system calls: pieces wait in a list and are done, in order, by whoever reaps. */
#include "io/io_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define SLOT_NONE UINT32_MAX

struct sync_state {
    uint32_t first, last; /* pieces to do, linked through slot.next */
};

static int sync_start(struct io *io)
{
    struct sync_state *state = malloc(sizeof *state);

    if (state == NULL)
        return -ENOMEM;
    state->first = state->last = SLOT_NONE;
    io->state = state;
    return 0;
}

static void sync_stop(struct io *io)
{
    free(io->state);
}

static void sync_issue(struct io *io, uint32_t slot)
{
    struct sync_state *state = io->state;

    io->slots[slot].next = SLOT_NONE;
    if (state->last == SLOT_NONE)
        state->first = slot;
    else
        io->slots[state->last].next = slot;
    state->last = slot;
}

static int sync_flush(struct io *io)
{
    return 0;
}

static int64_t do_piece(const struct io_slot *slot)
{
    const struct io_request *request = &slot->request;
    char *data = (char *)request->data + slot->done_bytes;
    off_t offset = (off_t)(request->offset_bytes + slot->done_bytes);
    int64_t result = -1;

    switch (request->opcode) {
    case IO_READ:
        result = pread(request->fd, data, slot->piece_bytes, offset);
        break;
    case IO_WRITE:
        result = pwrite(request->fd, data, slot->piece_bytes, offset);
        break;
    case IO_FSYNC:
        result = fsync(request->fd);
        break;
    case IO_FDATASYNC:
        result = fdatasync(request->fd);
        break;
    }
    return result < 0 ? -errno : result;
}

static int wait_for_wake(struct io *io, int64_t wait_us)
{
    struct pollfd poll_wake = {.fd = io->wake_fd, .events = POLLIN};
    struct timespec time = {.tv_sec = wait_us / 1000000, .tv_nsec = wait_us % 1000000 * 1000};

    int rc = ppoll(&poll_wake, 1, wait_us < 0 ? NULL : &time, NULL);
    if (rc > 0)
        io_take_wake(io);
    return rc < 0 && errno != EINTR ? -errno : 0;
}

static int sync_work(struct io *io, int64_t wait_us)
{
    struct sync_state *state = io->state;

    if (state->first == SLOT_NONE)
        return wait_us == 0 ? 0 : wait_for_wake(io, wait_us);
    while (state->first != SLOT_NONE && io->ready_count == 0) {
        uint32_t slot = state->first;

        state->first = io->slots[slot].next;
        if (state->first == SLOT_NONE)
            state->last = SLOT_NONE;
        io_piece_done(io, slot, do_piece(&io->slots[slot]));
    }
    return 0;
}

const struct io_backend_ops io_sync_ops = {
    .backend = SHEAF_IO_SYNC,
    .start = sync_start,
    .stop = sync_stop,
    .issue = sync_issue,
    .flush = sync_flush,
    .work = sync_work,
};
