/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host for operators without an engine: `struct sheaf_host` over malloc, one row at a time, in this process. For
 * tests and measurements of operators.
 *
 *     void *state = host_open(&operator_pdf_open, given, count, error);
 *     struct host_run run;
 *     host_run(&operator_pdf_open, state, &row, inputs, 1, &run);    row: key, parent_key
 *     ... run.answered, run.outputs[i], run.children[j], run.failed, run.class_id, run.message ...
 *     host_run_fini(&run);
 *
 * It is strict: answering twice, answering a wrong kind or count, or emitting to an operator without group outputs ends
 * the test.
 */
#ifndef TESTS_OPS_HOST_H
#define TESTS_OPS_HOST_H

#include <stddef.h>
#include <stdint.h>

#include <sheaf/operator.h>

enum { HOST_OUTPUTS_MAX = 8, HOST_MESSAGE_BYTES = 1024 };

/* An option given by name; the others have their defaults. */
struct host_option {
    const char *name;
    struct sheaf_option_value value;
};

/* A list for an input: host_list_value makes a value of it. */
struct sheaf_list {
    const struct sheaf_value *values;
    uint64_t count, at;
    const struct sheaf_list_error *errors;
    uint64_t error_count, error_at;
};

struct host_keys {
    uint64_t key, parent_key;
};

struct host_run {
    int status; /* what `run` returned */
    int answered, failed;
    enum sheaf_scope scope;
    enum sheaf_class class_id;
    char message[HOST_MESSAGE_BYTES];             /* of the failure, or what `run` wrote */
    struct sheaf_value outputs[HOST_OUTPUTS_MAX]; /* copies; valid until host_run_fini */
    struct sheaf_value *children;                 /* of the first group output, copies */
    uint64_t child_count;
    char log[HOST_MESSAGE_BYTES]; /* the last line logged */
    uint32_t log_count;

    /* settings and private */
    int cancel_after; /* >= 0: `cancelled` is true after so many calls of it; set by host_run to -1 */
    const struct sheaf_operator *operator;
    void **memory;
    size_t memory_count;
    int descriptor;
    struct sheaf_row row;
    uint64_t coordinate[2];
};

/* Opens an operator; NULL and a line in `error` (512 bytes) when it does not. */
void *host_open(const struct sheaf_operator *operator, const struct host_option * given, size_t count, char *error);
void host_close(const struct sheaf_operator *operator, void * state);

/* Runs one row. */
void host_run(const struct sheaf_operator *operator, void * state, struct host_keys keys,
              const struct sheaf_value *inputs, uint32_t count, struct host_run *ret_run);
/* Runs `count` rows of one input as a batch on a device that is the CPU: its memory is filled with rubbish and held to
 * `memory_bytes`, fetched bytes come after run_batch. What run_batch returned. */
int host_run_batch(const struct sheaf_operator *operator, void * state, const struct sheaf_kernels *kernels,
                   uint64_t memory_bytes, const struct sheaf_value *inputs, uint32_t count, struct host_run *ret_runs);
void host_run_fini(struct host_run *run);

/* Reads a whole file into memory of malloc; NULL when it cannot be read. Never NULL for an empty file. */
uint8_t *host_file_read(const char *path, size_t *ret_bytes);
/* A file value: in memory (`data` not NULL) or by descriptor. `path` must outlive it. */
struct sheaf_value host_file_value(const char *path, const void *data, size_t bytes);
struct sheaf_value host_list_value(struct sheaf_list *list, sheaf_kind element);

/* A path below the corpus handed out with the project: SHEAF_SHARED or ../shared. NULL: there is none. Static memory.
 */
const char *host_corpus_path(const char *relative);

#endif
