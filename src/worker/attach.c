/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/attach.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "worker/attach_wire.h"

int attach_pair(int ret_sockets[2])
{
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
        return -errno;
    int engine_flags = fcntl(sockets[0], F_GETFL);
    if (engine_flags < 0 || fcntl(sockets[0], F_SETFL, engine_flags | O_NONBLOCK) < 0) {
        int status = -errno;
        close(sockets[0]);
        close(sockets[1]);
        return status;
    }
    ret_sockets[0] = sockets[0];
    ret_sockets[1] = sockets[1];
    return 0;
}

/* ---- one message ---- */

union fd_control {
    struct cmsghdr header;
    char space[CMSG_SPACE(ATTACH_FDS_PER_MESSAGE * sizeof(int))];
};

int wire_send(int socket, struct wire_message *message, const int *fds, uint32_t fd_count)
{
    assert(fd_count <= ATTACH_FDS_PER_MESSAGE);
    message->magic = WIRE_MAGIC;
    message->version = ATTACH_VERSION;
    message->line[ATTACH_LINE_BYTES - 1] = '\0';
    size_t bytes = offsetof(struct wire_message, line) + strlen(message->line) + 1;
    struct iovec vector = {message, bytes};
    struct msghdr header = {.msg_iov = &vector, .msg_iovlen = 1};
    union fd_control control;
    if (fd_count > 0) {
        memset(&control, 0, sizeof control);
        header.msg_control = &control;
        header.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(rights), fds, fd_count * sizeof(int));
    }
    ssize_t sent;
    do
        sent = sendmsg(socket, &header, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        return errno == ECONNRESET ? -EPIPE : -errno;
    return (size_t)sent == bytes ? 0 : -EPROTO;
}

static void close_all(const int *fds, uint32_t fd_count)
{
    for (uint32_t at = 0; at < fd_count; at++)
        close(fds[at]);
}

/* Takes the descriptors out of a received control block: all of them, so that none leaks. */
static uint32_t collect_fds(struct msghdr *header, int *ret_fds)
{
    uint32_t count = 0;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part != NULL; part = CMSG_NXTHDR(header, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        uint32_t here = (uint32_t)((part->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        assert(count + here <= ATTACH_FDS_PER_MESSAGE);
        memcpy(ret_fds + count, CMSG_DATA(part), here * sizeof(int));
        count += here;
    }
    return count;
}

int wire_receive(int socket, struct wire_message *ret_message, int *ret_fds, uint32_t fd_limit, uint32_t *ret_fd_count)
{
    struct wire_message message;
    memset(&message, 0, sizeof message);
    struct iovec vector = {&message, sizeof message};
    union fd_control control;
    struct msghdr header = {
        .msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t received;
    do
        received = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
    while (received < 0 && errno == EINTR);
    if (received < 0)
        return errno == ECONNRESET ? -EPIPE : -errno;
    if (received == 0)
        return -EPIPE;
    int fds[ATTACH_FDS_PER_MESSAGE];
    uint32_t fd_count = collect_fds(&header, fds);
    int status = 0;
    if ((size_t)received <= offsetof(struct wire_message, line) || message.magic != WIRE_MAGIC ||
        (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || fd_count > fd_limit)
        status = -EPROTO;
    else if (message.version != ATTACH_VERSION)
        status = SHEAF_E_ABI;
    if (status < 0) {
        close_all(fds, fd_count);
        return status;
    }
    message.line[ATTACH_LINE_BYTES - 1] = '\0';
    *ret_message = message;
    if (fd_count > 0)
        memcpy(ret_fds, fds, fd_count * sizeof(int));
    *ret_fd_count = fd_count;
    return 0;
}

/* ---- the hello ---- */

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* As wire_send, but waits for room in a non-blocking socket until `deadline_ms` (-1: without end). */
static int send_patiently(int socket, struct wire_message *message, const int *fds, uint32_t fd_count,
                          int64_t deadline_ms)
{
    for (;;) {
        int status = wire_send(socket, message, fds, fd_count);
        /* ETOOMANYREFS: too many descriptors are in flight; room comes when the worker reads. */
        if (status != -EAGAIN && status != -ETOOMANYREFS)
            return status;
        int64_t left_ms = deadline_ms < 0 ? -1 : deadline_ms - now_ms();
        if (deadline_ms >= 0 && left_ms <= 0)
            return -ETIMEDOUT;
        struct pollfd room = {.fd = socket, .events = POLLOUT};
        int tick_ms = status == -ETOOMANYREFS ? 1 : left_ms > 1000 || left_ms < 0 ? 1000 : (int)left_ms;
        if (poll(&room, status == -ETOOMANYREFS ? 0 : 1, tick_ms) < 0 && errno != EINTR)
            return -errno;
    }
}

/* The text as a sealed memfd: the receiver may map it without fear of it shrinking. */
static int text_to_memfd(const char *text, size_t text_bytes, int *ret_fd)
{
    int fd = memfd_create("sheaf-hello", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    for (size_t done = 0; done < text_bytes;) {
        ssize_t written = write(fd, text + done, text_bytes - done);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            int status = written < 0 ? -errno : -EIO;
            close(fd);
            return status;
        }
        done += (size_t)written;
    }
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0) {
        int status = -errno;
        close(fd);
        return status;
    }
    *ret_fd = fd;
    return 0;
}

static int send_packed(int socket, const int *fds, uint32_t fd_total, uint64_t text_bytes, int timeout_ms)
{
    int64_t deadline_ms = timeout_ms < 0 ? -1 : now_ms() + timeout_ms;
    struct wire_message message = {.kind = WIRE_HELLO, .number = text_bytes, .fd_total = fd_total};
    for (uint32_t done = 0; done < fd_total;) {
        uint32_t count = fd_total - done < ATTACH_FDS_PER_MESSAGE ? fd_total - done : ATTACH_FDS_PER_MESSAGE;
        int status = send_patiently(socket, &message, fds + done, count, deadline_ms);
        if (status < 0)
            return status;
        done += count;
        message.kind = WIRE_DESCRIPTORS;
    }
    return 0;
}

int attach_send_hello(int socket, const struct attach_hello *hello, int timeout_ms)
{
    int *fds = malloc((hello_fd_limit(hello) + 1) * sizeof *fds);
    if (fds == NULL)
        return -ENOMEM;
    msgpack_sbuffer text;
    msgpack_sbuffer_init(&text);
    uint32_t fd_count = 0;
    int status = hello_pack(hello, &text, fds + 1, &fd_count);
    if (status == 0)
        status = text_to_memfd(text.data, text.size, &fds[0]);
    if (status == 0) {
        status = send_packed(socket, fds, fd_count + 1, text.size, timeout_ms);
        close(fds[0]);
    }
    msgpack_sbuffer_destroy(&text);
    free(fds);
    return status;
}

/* Receives all messages of a hello. On success `*ret_fds` (malloc) holds fd_total descriptors. */
static int receive_descriptors(int socket, struct wire_message *ret_first, int **ret_fds)
{
    int part[ATTACH_FDS_PER_MESSAGE];
    uint32_t part_count = 0;
    int status = wire_receive(socket, ret_first, part, ATTACH_FDS_PER_MESSAGE, &part_count);
    if (status < 0)
        return status;
    uint32_t total = ret_first->fd_total, count = 0;
    int *fds = NULL;
    if (ret_first->kind != WIRE_HELLO || total == 0 || part_count > total)
        status = -EPROTO;
    else if ((fds = malloc(total * sizeof *fds)) == NULL)
        status = -ENOMEM;
    while (status == 0) {
        memcpy(fds + count, part, part_count * sizeof *fds);
        count += part_count;
        part_count = 0;
        if (count == total)
            break;
        struct wire_message more;
        status = wire_receive(socket, &more, part, ATTACH_FDS_PER_MESSAGE, &part_count);
        if (status == 0 && (more.kind != WIRE_DESCRIPTORS || part_count == 0 || part_count > total - count))
            status = -EPROTO;
    }
    if (status < 0) {
        close_all(part, part_count);
        if (fds != NULL)
            close_all(fds, count);
        free(fds);
        return status;
    }
    *ret_fds = fds;
    return 0;
}

int attach_receive_hello(int socket, struct attach_hello *ret_hello, char *ret_line)
{
    struct wire_message first;
    int *fds = NULL;
    int status = receive_descriptors(socket, &first, &fds);
    if (status < 0) {
        snprintf(ret_line, ATTACH_LINE_BYTES, "attach: no hello from the engine on descriptor %d: %s", socket,
                 status == SHEAF_E_ABI ? "it is of another version; use worker and library of one build"
                                       : strerror(-status));
        return status;
    }
    void *text = mmap(NULL, first.number, PROT_READ, MAP_PRIVATE, fds[0], 0);
    if (text == MAP_FAILED) {
        status = -errno;
    } else {
        status = hello_unpack(text, first.number, fds + 1, first.fd_total - 1, ret_hello);
        munmap(text, first.number);
    }
    if (status < 0) {
        close_all(fds + 1, first.fd_total - 1);
        snprintf(ret_line, ATTACH_LINE_BYTES, "attach: the hello of the engine cannot be read: %s", strerror(-status));
    }
    close(fds[0]);
    free(fds);
    return status;
}

/* ---- replies and requests ---- */

int attach_send_ready(int socket)
{
    struct wire_message message = {.kind = WIRE_READY};
    return wire_send(socket, &message, NULL, 0);
}

/* Keeps a line one line. */
static void copy_line(char *ret_line, const char *line)
{
    snprintf(ret_line, ATTACH_LINE_BYTES, "%s", line);
    for (char *at = ret_line; *at != '\0'; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            *at = ' ';
}

int attach_send_error(int socket, int status, const char *line)
{
    struct wire_message message = {.kind = WIRE_ERROR, .status = status};
    copy_line(message.line, line);
    return wire_send(socket, &message, NULL, 0);
}

int attach_send_device_fault(int socket, uint64_t fault, const char *line)
{
    struct wire_message message = {.kind = WIRE_DEVICE_FAULT, .number = fault};
    copy_line(message.line, line);
    return wire_send(socket, &message, NULL, 0);
}

int attach_receive_reply(int socket, struct attach_reply *ret_reply)
{
    struct wire_message message;
    uint32_t fd_count = 0;
    int status = wire_receive(socket, &message, NULL, 0, &fd_count);
    if (status < 0)
        return status;
    struct attach_reply reply = {.status = message.status, .number = message.number};
    switch (message.kind) {
    case WIRE_READY:
        reply.kind = ATTACH_READY;
        break;
    case WIRE_ERROR:
        reply.kind = ATTACH_ERROR;
        if (reply.status >= 0)
            reply.status = -EPROTO;
        break;
    case WIRE_DEVICE_FAULT:
        reply.kind = ATTACH_DEVICE_FAULT;
        break;
    case WIRE_WANT_DESCRIPTOR:
        reply.kind = ATTACH_REQUEST_DESCRIPTOR;
        break;
    case WIRE_WANT_SEGMENT:
        reply.kind = ATTACH_REQUEST_SEGMENT;
        break;
    case WIRE_WANT_COPY:
        reply.kind = ATTACH_REQUEST_COPY;
        if (sscanf(message.line, "%" SCNu32 " %" SCNu64, &reply.copy.segment, &reply.copy.bytes) != 2)
            return -EPROTO;
        break;
    default:
        return -EPROTO;
    }
    copy_line(reply.line, message.line);
    *ret_reply = reply;
    return 0;
}

int attach_answer_descriptor(int socket, uint64_t number, int fd, int status)
{
    assert((fd >= 0) == (status == 0) && status <= 0);
    struct wire_message message = {.kind = WIRE_ANSWER, .status = status, .number = number};
    return wire_send(socket, &message, &fd, fd >= 0 ? 1 : 0);
}

static int request(int socket, enum wire_kind kind, uint64_t number, const char *line, int *ret_fd)
{
    struct wire_message message = {.kind = kind, .number = number};
    copy_line(message.line, line);
    int status = wire_send(socket, &message, NULL, 0);
    if (status < 0)
        return status;
    int fd = -1;
    uint32_t fd_count = 0;
    status = wire_receive(socket, &message, &fd, 1, &fd_count);
    if (status < 0)
        return status;
    if (message.kind != WIRE_ANSWER || message.number != number || message.status > 0 ||
        (fd_count == 1) != (message.status == 0)) {
        close_all(&fd, fd_count);
        return -EPROTO;
    }
    if (message.status < 0)
        return message.status;
    *ret_fd = fd;
    return 0;
}

int attach_request_descriptor(int socket, uint64_t source, int *ret_fd)
{
    return request(socket, WIRE_WANT_DESCRIPTOR, source, "", ret_fd);
}

int attach_request_segment(int socket, uint32_t number, int *ret_fd)
{
    return request(socket, WIRE_WANT_SEGMENT, number, "", ret_fd);
}

int attach_request_copy(int socket, uint32_t segment, uint64_t offset, uint64_t bytes, int *ret_fd)
{
    char line[64];
    snprintf(line, sizeof line, "%" PRIu32 " %" PRIu64, segment, bytes);
    return request(socket, WIRE_WANT_COPY, offset, line, ret_fd);
}
