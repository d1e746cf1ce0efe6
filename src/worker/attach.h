/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a worker process meets the engine: one socket, one hello, one answer, then a few requests.
 *
 * The engine makes a SOCK_SEQPACKET socketpair (attach_pair), starts `sheaf-worker --attach FD` (or any other program
 * that speaks this) with one end, and sends one hello: what to map, what to serve. Descriptors travel by SCM_RIGHTS, at
 * most ATTACH_FDS_PER_MESSAGE in a message; the facts travel as MessagePack in a sealed memfd, so that a hello has no
 * length limit and can be read by a person. The worker answers READY after every operator has been opened, or one line
 * that says why not. From then on the socket carries only what shared memory cannot: descriptors of sources, and
 * payload segments that came into being after the hello.
 *
 * All functions return 0 or a negative errno / SHEAF_E status. A closed other end is -EPIPE. Both sides must be of one
 * build or at least of one ATTACH_VERSION: another version is SHEAF_E_ABI. What a worker sends is input: the engine's
 * half checks lengths and types and never blocks on a worker when the socket is O_NONBLOCK (-EAGAIN).
 *
 * Threads: one per end at a time. Nothing here is async-signal-safe.
 */
#ifndef SRC_WORKER_ATTACH_H
#define SRC_WORKER_ATTACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sheaf/operator.h>

#define ATTACH_VERSION 4u
#define ATTACH_FDS_PER_MESSAGE 250u /* the kernel's SCM_MAX_FD is 253 */
#define ATTACH_LINE_BYTES 1024u     /* longest error line, with its NUL */

enum attach_integrity { ATTACH_INTEGRITY_OFF = 0, ATTACH_INTEGRITY_CRASH, ATTACH_INTEGRITY_ALWAYS };

/* One shard's board (shm/board.h). */
struct attach_shard {
    int open_fd;   /* of board.open, read-write */
    int notice_fd; /* of board.notice, read-only */
    uint32_t node; /* NUMA node, for "own node first" */
};

/* One payload segment, by the number that value references use (1..65535). `own`: this worker may write its leased
 * chunks there, and its fd is writable; every other fd is read-only. */
struct attach_segment {
    int fd;
    uint32_t number;
    bool own;
};

/* One leased chunk of CHUNK_BYTES: number `chunk` (offset / CHUNK_BYTES) of own segment `segment`. */
struct attach_chunk {
    uint32_t segment;
    uint32_t chunk;
};

/* One Call to serve. Calls stand in order of priority: the first is served first (drain first). */
struct attach_call {
    uint32_t call;           /* index of the Call in the Plan */
    const char *name;        /* of the Call, for error lines */
    const char *plugin_path; /* absolute path of the shared object */
    const char *operator_name;
    const struct sheaf_option_value *options; /* in the order of the declaration, defaults filled in */
    uint32_t option_count;
    uint32_t batch_rows;     /* >= 1 */
    uint64_t batch_bytes;    /* most input of a batch, 0: any */
    uint32_t timeout_ms;     /* of a row, or of a dispatch of a batch operator; 0: none. For information: the engine
                                enforces it */
    uint32_t operator_flags; /* sheaf_operator.flags, for workers that load no plug-in */
    uint32_t widest_failure; /* plan_call.widest_failure */
    uint32_t slots;          /* sheaf_operator.slots */
    uint32_t input_count;
    uint32_t output_count;
    uint64_t group_outputs; /* bit i: output i is a group (SHEAF_PORT_GROUP); groups stand among the first 64 outputs */
    uint64_t expanded_groups; /* of those, the ones whose children become Entities; the others are answered as lists */
    const sheaf_kind *output_kinds; /* [output_count]: as plan_port.kind (a group: list of the child's kind), checked
                                       against every answer; SHEAF_NONE: not checked. NULL from a sender: none is */
    uint64_t memory_budget_bytes;   /* goes into sheaf_open; 0: not limited */
};

struct attach_hello {
    uint32_t worker;     /* number of the worker: its lane's, and the one claim words name it by */
    uint32_t generation; /* how often this number was used before */
    uint32_t pool;       /* it parks on pool_events[pool] in the board of shard 0 */
    uint32_t node;       /* NUMA node the worker is pinned to */
    bool crowded;        /* processes outnumber cores: never spin */
    enum attach_integrity integrity;
    uint64_t payload_limit_bytes; /* most payload bytes this worker may ever lease; 0: not limited */
    uint64_t heap_limit_bytes;    /* private memory over which the engine ends it; 0: not limited */
    bool on_device;               /* serves Calls with SHEAF_OPERATOR_DEVICE, on this device: */
    uint32_t device_backend;      /* enum sheaf_device_backend */
    uint32_t device_ordinal;      /* of the machine; the process sees it as number 0 */
    uint32_t pool_workers;        /* processes of its Pool, it too */
    uint32_t memory_segments; /* payload segments up to this number are memory; those beyond are files: never pinned */
    const char *run_id;
    const char *data_path; /* data folder for operators, or NULL */

    int lane_own_fd;    /* of lane.own, read-write */
    int lane_orders_fd; /* of lane.orders_segment, read-only */
    uint32_t shard_count;
    const struct attach_shard *shards;
    uint32_t segment_count;
    const struct attach_segment *segments;
    uint32_t chunk_count;
    const struct attach_chunk *chunks;
    uint32_t call_count;
    const struct attach_call *calls;

    void *memory; /* receiver only: owns all that the pointers above refer to; freed by attach_hello_free */
};

/* ---- the engine's half ---- */

/* A socketpair: [0] stays with the engine (non-blocking), [1] is the worker's (blocking). Both are close-on-exec: what
 * another thread of the host executes meanwhile gets neither; the child that is to have [1] moves it with dup2. */
int attach_pair(int ret_sockets[2]);

/* Sends the hello. Descriptors are duplicated by the kernel: the caller keeps its own. Waits for room in the socket at
 * most `timeout_ms` in all (-1: without end), -ETIMEDOUT: the worker does not read. */
int attach_send_hello(int socket, const struct attach_hello *hello, int timeout_ms);

enum attach_reply_kind {
    ATTACH_READY = 1,          /* every operator is open, the sandbox is closed */
    ATTACH_ERROR,              /* the worker cannot serve: `line` says why; it exits */
    ATTACH_REQUEST_DESCRIPTOR, /* answer with attach_answer_descriptor(socket, number, fd, 0) */
    ATTACH_DEVICE_FAULT,       /* its device failed: `number` is an ATTACH_FAULT; it exits */
    ATTACH_REQUEST_COPY,       /* `copy` says of what, `number` its offset: answer with a file that holds those bytes */
    ATTACH_REQUEST_SEGMENT, /* `number` is a payload segment that was not in the hello: answer with its read-only fd */
};

struct attach_reply {
    enum attach_reply_kind kind;
    int32_t status;  /* ERROR: a negative status, SHEAF_E_ENVIRONMENT for what the installation lacks */
    uint64_t number; /* REQUEST_*: the source (struct file_prefix.source) or the segment */
    struct {
        uint32_t segment;
        uint64_t bytes;
    } copy;
    char line[ATTACH_LINE_BYTES]; /* ERROR: one line, NUL-terminated, no control characters */
};

/* What the worker says next. -EAGAIN: nothing now (non-blocking socket); -EPIPE: it closed the socket; -EPROTO:
 * nonsense. */
int attach_receive_reply(int socket, struct attach_reply *ret_reply);

/* Answers a request: a descriptor (the caller keeps its own) and status 0, or fd -1 and a negative errno. */
int attach_answer_descriptor(int socket, uint64_t number, int fd, int status);

/* ---- the worker's half ---- */

/* Receives the hello (blocking). Descriptors come close-on-exec and belong to the caller; attach_hello_free frees the
 * text but closes none. `ret_line` (ATTACH_LINE_BYTES) gets a line on failure. */
int attach_receive_hello(int socket, struct attach_hello *ret_hello, char *ret_line);
void attach_hello_free(struct attach_hello *hello);
/* Closes every descriptor of a received hello that is not -1. */
void attach_hello_close(struct attach_hello *hello);

int attach_send_ready(int socket);
int attach_send_error(int socket, int status, const char *line);
/* The last words of a process whose device failed: an enum device_fault, and whether what ran there ran alone. */
#define ATTACH_FAULT(kind, alone) ((uint64_t)(kind) | (uint64_t)(alone) << 8)
#define ATTACH_FAULT_KIND(number) ((uint32_t)((number)&0xff))
#define ATTACH_FAULT_ALONE(number) (((number) >> 8 & 1) != 0)
int attach_send_device_fault(int socket, uint64_t fault, const char *line);

/* Asks for the descriptor of a source, blocking until the answer is there. The descriptor is the caller's, read-only.
 */
int attach_request_descriptor(int socket, uint64_t source, int *ret_fd);
/* Asks for a file of bytes in a payload segment: a worker makes no files, not even in memory, where nobody counts them.
 */
int attach_request_copy(int socket, uint32_t segment, uint64_t offset, uint64_t bytes, int *ret_fd);
/* Asks for a payload segment that was not in the hello. */
int attach_request_segment(int socket, uint32_t number, int *ret_fd);

#endif
