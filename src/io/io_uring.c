/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The I/O queue over io_uring. The ring is made disabled and enabled by the first thread that uses it, which
 * SINGLE_ISSUER then remembers as its owner. Flags that this kernel does not know are left out one by one; none newer
 * than the liburing this is built with is used, because those change layouts that the library does not know. A wake is
 * a one-shot poll of the eventfd, never a read: after the ring is closed no memory of ours may still be written.
 */
#include "io/io_internal.h"

#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define USER_DATA_WAKE UINT64_MAX

struct uring_state {
    struct io_uring ring;
    bool enabled;
    bool wake_armed;
};

static const struct {
    unsigned flags;
    const char *name;
} flag_sets[] = {
    {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, "single issuer, deferred completions"},
    {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN, "single issuer, cooperative completions"},
    {IORING_SETUP_COOP_TASKRUN, "cooperative completions"},
    {0, "no optional flags"},
};

static void explain_refusal(struct io *io, int rc)
{
    const char *why = rc == -ENOSYS   ? "the kernel or a container's seccomp profile has no io_uring"
                      : rc == -EINVAL ? "the kernel's io_uring is too old"
                      : rc == -ENOMEM ? "not enough memory or RLIMIT_MEMLOCK for the ring"
                                      : "the kernel does not allow io_uring here";
    char word = '0';
    FILE *file = rc == -EPERM ? fopen("/proc/sys/kernel/io_uring_disabled", "re") : NULL;

    if (file != NULL) {
        if (fread(&word, 1, 1, file) == 1 && word != '0')
            why = "sysctl kernel.io_uring_disabled forbids it";
        else
            why = "denied, probably by a container's seccomp profile";
        fclose(file);
    }
    snprintf(io->description, sizeof io->description, "%s: io_uring_setup: %s", why, strerror(-rc));
}

static int uring_start(struct io *io)
{
    struct uring_state *state = calloc(1, sizeof *state);
    int rc = -EINVAL;
    size_t i;

    if (state == NULL) {
        snprintf(io->description, sizeof io->description, "out of memory");
        return -ENOMEM;
    }
    for (i = 0; i < sizeof flag_sets / sizeof *flag_sets && rc == -EINVAL; i++) {
        struct io_uring_params params = {.flags = flag_sets[i].flags | IORING_SETUP_R_DISABLED | IORING_SETUP_CLAMP};

        rc = io_uring_queue_init_params(io->depth + 1, &state->ring, &params); /* one piece per slot, one wake */
    }
    if (rc == 0 && !(state->ring.features & IORING_FEAT_EXT_ARG)) {
        io_uring_queue_exit(&state->ring);
        rc = -EINVAL;
    }
    if (rc < 0) {
        explain_refusal(io, rc);
        free(state);
        return rc;
    }
    io->state = state;
    snprintf(io->description, sizeof io->description, "io_uring (%s), %u operations in flight", flag_sets[i - 1].name,
             io->depth);
    return 0;
}

static void uring_stop(struct io *io)
{
    struct uring_state *state = io->state;

    io_uring_queue_exit(&state->ring);
    free(state);
}

static int enable(struct uring_state *state)
{
    if (state->enabled)
        return 0;
    /* liburing 2.3 declares io_uring_enable_rings but does not export it. */
    if (syscall(SYS_io_uring_register, state->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0) < 0)
        return -errno;
    state->enabled = true;
    return 0;
}

static void uring_issue(struct io *io, uint32_t index)
{
    struct uring_state *state = io->state;
    struct io_slot *slot = &io->slots[index];
    const struct io_request *request = &slot->request;
    char *data = (char *)request->data + slot->done_bytes;
    uint64_t offset = request->offset_bytes + slot->done_bytes;
    struct io_uring_sqe *sqe = io_uring_get_sqe(&state->ring);

    assert(sqe != NULL); /* the ring has an entry per slot and one for the wake */
    switch (request->opcode) {
    case IO_READ:
        io_uring_prep_read(sqe, request->fd, data, slot->piece_bytes, offset);
        break;
    case IO_WRITE:
        io_uring_prep_write(sqe, request->fd, data, slot->piece_bytes, offset);
        break;
    case IO_FSYNC:
        io_uring_prep_fsync(sqe, request->fd, 0);
        break;
    case IO_FDATASYNC:
        io_uring_prep_fsync(sqe, request->fd, IORING_FSYNC_DATASYNC);
        break;
    }
    io_uring_sqe_set_data64(sqe, index);
}

static void arm_wake(struct io *io)
{
    struct uring_state *state = io->state;

    if (state->wake_armed)
        return;
    struct io_uring_sqe *sqe = io_uring_get_sqe(&state->ring);
    assert(sqe != NULL);
    io_uring_prep_poll_add(sqe, io->wake_fd, POLLIN);
    io_uring_sqe_set_data64(sqe, USER_DATA_WAKE);
    state->wake_armed = true;
}

static int uring_flush(struct io *io)
{
    struct uring_state *state = io->state;
    int rc = enable(state);

    if (rc == 0)
        rc = io_uring_submit(&state->ring);
    return rc < 0 ? rc : 0;
}

static void harvest(struct io *io)
{
    struct uring_state *state = io->state;
    struct io_uring_cqe *cqe;

    while (io_uring_peek_cqe(&state->ring, &cqe) == 0) {
        uint64_t user_data = io_uring_cqe_get_data64(cqe);
        int result = cqe->res;

        io_uring_cqe_seen(&state->ring, cqe);
        if (user_data == USER_DATA_WAKE) {
            state->wake_armed = false;
            io_take_wake(io);
        } else {
            assert(user_data < io->depth);
            io_piece_done(io, (uint32_t)user_data, result);
        }
    }
}

static int uring_work(struct io *io, int64_t wait_us)
{
    struct uring_state *state = io->state;
    struct __kernel_timespec time = {.tv_sec = wait_us / 1000000, .tv_nsec = wait_us % 1000000 * 1000};
    struct io_uring_cqe *cqe;
    int rc = enable(state);

    if (rc < 0)
        return rc;
    if (wait_us == 0) {
        rc = io_uring_submit_and_get_events(&state->ring);
    } else {
        arm_wake(io);
        rc = io_uring_submit_and_wait_timeout(&state->ring, &cqe, 1, wait_us < 0 ? NULL : &time, NULL);
    }
    harvest(io);
    return rc < 0 && rc != -ETIME && rc != -EINTR && rc != -EAGAIN && rc != -EBUSY ? rc : 0;
}

const struct io_backend_ops io_uring_ops = {
    .backend = SHEAF_IO_URING,
    .start = uring_start,
    .stop = uring_stop,
    .issue = uring_issue,
    .flush = uring_flush,
    .work = uring_work,
};
