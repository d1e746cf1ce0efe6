/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What attach.c and attach_hello.c share: one message on the socket, with its descriptors, and the text of a hello.
 * Nobody else includes this.
 */
#ifndef SRC_WORKER_ATTACH_WIRE_H
#define SRC_WORKER_ATTACH_WIRE_H

#include <msgpack.h>

#include "worker/attach.h"

#define WIRE_MAGIC 0x66656853u /* "Shef" */

enum wire_kind {
    WIRE_HELLO = 1,   /* number: bytes of text; the first descriptor is the text; fd_total says how many will come */
    WIRE_DESCRIPTORS, /* more descriptors of the hello */
    WIRE_READY,
    WIRE_ERROR, /* status, line */
    WIRE_WANT_DESCRIPTOR,
    WIRE_WANT_SEGMENT,
    WIRE_WANT_COPY,    /* number: offset; line: "SEGMENT BYTES" */
    WIRE_ANSWER,       /* status, number; one descriptor when status is 0 */
    WIRE_DEVICE_FAULT, /* number: what and how; line */
};

/* A message travels up to the end of its line, its NUL included. */
struct wire_message {
    uint32_t magic;
    uint32_t version;
    uint32_t kind;
    int32_t status;
    uint64_t number;
    uint32_t fd_total;
    char line[ATTACH_LINE_BYTES];
};
static_assert(offsetof(struct wire_message, line) == 28, "the fixed part of every message");

/* Sends one message with `fd_count` <= ATTACH_FDS_PER_MESSAGE descriptors. Kind and content are the caller's. */
int wire_send(int socket, struct wire_message *message, const int *fds, uint32_t fd_count);

/* Receives one message; at most `fd_limit` descriptors (more is -EPROTO, and they are closed). */
int wire_receive(int socket, struct wire_message *ret_message, int *ret_fds, uint32_t fd_limit, uint32_t *ret_fd_count);

/* Packs a hello. `fds` has room for hello_fd_limit(hello) descriptors and gets those the text refers to, in order. */
uint32_t hello_fd_limit(const struct attach_hello *hello);
int hello_pack(const struct attach_hello *hello, msgpack_sbuffer *buffer, int *fds, uint32_t *ret_fd_count);

/* The reverse. On success the hello owns its own memory and has taken over all descriptors; -EPROTO otherwise. */
int hello_unpack(const char *text, size_t text_bytes, const int *fds, uint32_t fd_count,
                 struct attach_hello *ret_hello);

#endif
