/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker half: how a process that is not the stock worker serves the Calls of a run.
 *
 * The engine starts the process with one end of a socket and tells it what to serve. It claims rows, reads their inputs
 * in place, answers them through `struct sheaf_host` (operator.h) exactly as an operator does, and finishes them:
 *
 *     sheaf_worker_attach -> [open what the Calls need] -> sheaf_worker_ready
 *     -> claim -> for each row: start -> (host->answer | host->fail | ...) -> finish   ... until SHEAF_E_CLOSED
 *     -> sheaf_worker_detach
 *
 * A row that was started and never finished belongs to this process until it dies: the engine then finds it in the
 * claim page and charges it. Every row of a claim must be finished, also one that start refused.
 *
 * Threads: one thread for everything here. Processes: a worker must not fork. All functions return 0 or a negative
 * status. Since 0.1.
 */
#ifndef SHEAF_WORKER_H
#define SHEAF_WORKER_H

#include <sheaf/operator.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sheaf_worker;

/* A Call to serve. The pointers live as long as the worker. */
struct sheaf_worker_call {
    uint32_t size;
    uint32_t call;           /* its index in the Plan */
    const char *name;        /* of the Call */
    const char *plugin_path; /* what the stock worker would load */
    const char *operator_name;
    const struct sheaf_option_value *options; /* in the order of the declaration, defaults filled in */
    uint32_t option_count;
    uint32_t operator_flags; /* SHEAF_OPERATOR_* */
    uint32_t input_count;
    uint32_t output_count;
    const sheaf_kind *output_kinds; /* SHEAF_NONE: any; a group has kind list of its child's kind */
    uint64_t group_outputs;         /* bit i: output i is a group */
    uint32_t batch_rows;
    uint32_t timeout_ms;
    uint32_t slots;
    uint32_t reserved;
    uint64_t memory_budget_bytes;
    uint64_t expanded_groups; /* of group_outputs, those whose children become Entities; the others are read as lists */
};

/* Receives what to serve over `socket` and maps it. The socket belongs to the worker from success on. SHEAF_E_ABI when
 * the engine is of another version. */
SHEAF_API int sheaf_worker_attach(int socket, struct sheaf_worker **ret_worker, struct sheaf_error *error);
/* Unmaps and closes everything. What was claimed and not finished stays with the engine as lost. NULL is fine. */
SHEAF_API void sheaf_worker_detach(struct sheaf_worker *worker);

SHEAF_API uint32_t sheaf_worker_call_count(const struct sheaf_worker *worker);
/* Call number `index`, in order of priority. -ENOENT past the end. */
SHEAF_API int sheaf_worker_call(const struct sheaf_worker *worker, uint32_t index, struct sheaf_worker_call *ret_call);
/* The installation's data folder, or NULL. */
SHEAF_API const char *sheaf_worker_data_path(const struct sheaf_worker *worker);
SHEAF_API const char *sheaf_worker_run_id(const struct sheaf_worker *worker);

/* What rows are read and answered by. `take` and `wait` want the `host_batch` of a claim. */
SHEAF_API const struct sheaf_host *sheaf_worker_host(const struct sheaf_worker *worker);

/* For Calls that keep state: called between rows with the number of the Call (as in sheaf_worker_call) and a key whose
 * state must go. Needed when a Call has SHEAF_OPERATOR_STATE_OF_ROW or _PARENT. */
SHEAF_API void sheaf_worker_on_evict(struct sheaf_worker *worker,
                                     void (*evict)(void *cookie, uint32_t index, uint64_t key), void *cookie);

/* Everything is open: rows may come. Or, with a negative status, one line that says why this process cannot serve. */
SHEAF_API int sheaf_worker_ready(struct sheaf_worker *worker, int status, const char *line);

/* Rows of one Call. Valid until the next claim. */
struct sheaf_worker_claim {
    uint32_t size;
    uint32_t index; /* number of the Call, as in sheaf_worker_call */
    uint32_t row_count;
    uint32_t reserved;
    const struct sheaf_row *const *rows;
    void *host_batch;
};

/* Waits for rows: at most `timeout_ms` (-1: without end; -ETIMEDOUT). SHEAF_E_CLOSED: the engine wants the worker to
 * end. Rows of the claim before must be finished. */
SHEAF_API int sheaf_worker_claim(struct sheaf_worker *worker, int timeout_ms,
                                 const struct sheaf_worker_claim **ret_claim);

/* Just before a row runs. -ECANCELED: it is not wanted any more; -EBADMSG: its inputs are damaged: do not run it,
 * finish it. */
SHEAF_API int sheaf_worker_start(struct sheaf_worker *worker, const struct sheaf_row *row);

/* Ends one row. `status` 0: it was answered or failed through the host; negative: it raised, with `message` as the
 * cause (may be NULL). The engine is told by the next claim at the latest. */
SHEAF_API int sheaf_worker_finish(struct sheaf_worker *worker, const struct sheaf_row *row, int status,
                                  const char *message);
/* Ends all rows of a claim that were run as one batch: as finish, but a raise is everybody's. */
SHEAF_API int sheaf_worker_finish_batch(struct sheaf_worker *worker, const struct sheaf_worker_claim *claim, int status,
                                        const char *message);

#ifdef __cplusplus
}
#endif
#endif
