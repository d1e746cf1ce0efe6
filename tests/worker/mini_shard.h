/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest engine a worker can work for: one shard, one worker process, no lineage. Tests push rows and read
 * records. Everything asserts (cmocka) and has a deadline; nothing sleeps.
 */
#ifndef TESTS_WORKER_MINI_SHARD_H
#define TESTS_WORKER_MINI_SHARD_H

#include <sys/types.h>

#include "shm/board.h"
#include "shm/completion_ring.h"
#include "shm/control_ring.h"
#include "shm/lane.h"
#include "worker/attach.h"
#include "worker/chunk_pages.h"

#define MINI_INPUTS 1u  /* the segment of inputs, written by the test */
#define MINI_OUTPUTS 2u /* the worker's own */
#define MINI_CALLS_MAX 8u
#define MINI_GRAINS 8192u

struct mini_call {
    const char *operator_name;
    uint32_t flags, batch_rows, widest_failure;
    uint32_t output_count;
    sheaf_kind output_kinds[4];
    uint64_t group_outputs, unexpanded; /* `unexpanded`: which of the groups nobody expands */
    uint32_t slots;
};

struct mini_options {
    uint32_t chunk_count;      /* leased from the start; 0: 4 */
    uint64_t outputs_bytes;    /* of the worker's segment; 0: 64 MiB */
    uint64_t limit_bytes;      /* payload_limit_bytes */
    uint32_t completion_bytes; /* 0: as large as one needs */
    uint32_t claim_rows;       /* 0: 64 */
    bool expect_error;         /* READY does not come */
    enum attach_integrity integrity;
};

struct mini {
    struct board board;
    struct lane lane;
    struct ready_producer producers[MINI_CALLS_MAX][BOARD_RINGS];
    struct spsc_writer orders;
    struct completion_reader records;
    struct completion record;  /* the last that was read */
    struct completion row;     /* the last that was taken of it */
    uint32_t part, parts_left; /* of it: rows, or children */
    uint32_t records_read;     /* but LOG */
    struct segment inputs, outputs;
    uint64_t inputs_used;
    uint32_t call_count, next_grain;
    uint32_t granted_chunks;
    pid_t pid;
    int socket;
    bool requests;                 /* the worker may ask over the socket, which wakes nobody here */
    char error[ATTACH_LINE_BYTES]; /* the worker's, when it was expected */
};

void mini_start(struct mini *mini, const struct mini_call *calls, uint32_t call_count,
                const struct mini_options *options);
/* Tells the worker to stop and checks that it left cleanly. */
void mini_stop(struct mini *mini);
/* For a worker that is dead: the wait status. */
int mini_reap(struct mini *mini);
void mini_release(struct mini *mini);

/* Values for inputs. */
struct value_ref mini_i64(int64_t number);
struct value_ref mini_text(struct mini *mini, const char *text);
struct value_ref mini_i64_list(struct mini *mini, const int64_t *numbers, uint32_t count, const char *error);
struct value_ref mini_file(struct mini *mini, const char *path, uint64_t source);

/* Pushes a row; the worker is told by mini_tell. Returns its grain; numbers are 1. */
uint32_t mini_push(struct mini *mini, uint32_t call, enum board_ring ring, struct value_ref input);
uint32_t mini_push_dispatch(struct mini *mini, enum board_ring ring, struct dispatch dispatch);
void mini_tell(struct mini *mini);
/* Until the worker has gone, or is going, to sleep. */
void mini_wait_idle(const struct mini *mini);

/* The next record, waiting for it; what shares one comes row by row, or child by child. */
struct completion mini_next(struct mini *mini);
/* The next record, which must be of that kind and grain. */
struct completion mini_expect(struct mini *mini, enum completion_kind kind, uint32_t grain);

void mini_order(struct mini *mini, enum control_kind kind, uint32_t segment, uint64_t value);
void mini_free(struct mini *mini, const struct value_ref *ref);
/* A value that is a number, checked. */
int64_t mini_i64_of(const struct completion *record, uint32_t at);
/* The bytes of a value in the worker's segment, checked. */
const void *mini_data(const struct mini *mini, const struct value_ref *ref);

#endif
