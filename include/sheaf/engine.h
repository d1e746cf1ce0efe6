/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine: worker processes on this machine, and runs of Plans on them.
 *
 * A host submits roots, polls for finished ones, reads their results in place and acknowledges them. Nothing here
 * blocks: back-pressure is a status, and one descriptor becomes readable when there is something to poll.
 *
 *     sheaf_engine_create -> sheaf_run_open -> submit* / poll* / acknowledge* -> close_input -> poll until END -> close
 *
 * Threads: one thread at a time per run. The engine keeps a few threads of its own and starts worker processes; it
 * installs no signal handler, changes no allocator, and leaves the host's own children alone. When the process dies,
 * its workers die with it and nothing stays behind.
 */
#ifndef SHEAF_ENGINE_H
#define SHEAF_ENGINE_H

#include <sheaf/program.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sheaf_engine;
struct sheaf_run;
struct sheaf_result; /* the outcome of one root */

/* Whether values are looked at for what a worker wrote over them after it had answered. CRASH: those of a worker that
 * crashed, once; it costs a hash of each value that is answered. ALWAYS: each time one is read, and results are copied.
 * What is damaged is made anew, root by root; a root that damages itself fails with class `contract`. */
enum sheaf_integrity { SHEAF_INTEGRITY_CRASH = 0, SHEAF_INTEGRITY_OFF, SHEAF_INTEGRITY_ALWAYS };

enum sheaf_io_backend { SHEAF_IO_AUTO = 0, SHEAF_IO_URING, SHEAF_IO_SYNC };

struct sheaf_engine_options {
    uint32_t size;
    uint32_t workers;         /* worker processes; 0: one per usable core */
    uint64_t memory_bytes;    /* the budget of section "Memory" in docs/ARCHITECTURE.md; 0: 3/4 of what may be used */
    enum sheaf_io_backend io; /* AUTO: io_uring where the kernel allows it, said through `log` when not */
    uint32_t row_timeout_ms;  /* default deadline of a row; 0: 60,000 */
    const char *worker_path;  /* the worker program; NULL: beside the library, or SHEAF_WORKER */
    const char *topology_xml; /* plan for this hwloc topology; NULL: this machine */
    const char *data_path;    /* data folder for operators; NULL: they look where systems keep it */
    uint32_t root_window;     /* most roots admitted at once; 0: chosen from memory and workers */
    uint32_t reserved;
    void *cookie; /* for the callbacks, which come from an engine thread and must not block */
    void (*log)(void *cookie, int level, const char *line);
    uint32_t
        workers_per_core; /* of `workers` 0: as many to a core as it has usable hardware threads, at most; 0: one */
    uint32_t worker_rows; /* a worker process is replaced after about so many rows; 0: 100,000 */
    const char *device;   /* for Calls that have kernels: auto (NULL), host, cuda, or cuda:0,3. auto and host also use
                             the CPU; cuda fails the run when no device is left */
    enum sheaf_integrity integrity;
    /* Deadline of a worker process from its start until it takes rows: its operators open meanwhile, and load what they
     * need. It is replaced then; after three in a row the run ends. 0: 300,000. */
    uint32_t start_timeout_ms;
};

/* Probes the machine and prepares; starts no worker. SHEAF_E_ENVIRONMENT when the machine cannot run it. */
SHEAF_API int sheaf_engine_create(const struct sheaf_engine_options *options, struct sheaf_engine **ret_engine,
                                  struct sheaf_error *error);
/* Ends every worker and waits for it. Runs must be closed before. NULL is fine. */
SHEAF_API void sheaf_engine_destroy(struct sheaf_engine *engine);

/* A table for people: the machine, or the one of `topology_xml`, and where shards, workers and memory of a run of
 * `plan` would be; `plan` NULL: of workers on every core and GPU. Free with free(). -ENOMEM. */
SHEAF_API int sheaf_engine_placement(const struct sheaf_engine *engine, const struct sheaf_plan *plan, char **ret_text);

/* In what order roots are begun. LARGEST_FIRST goes by `length_bytes` of the sources, of files too, among up to 65,536
 * roots that were submitted and are not acknowledged; it begins in earnest when input is closed or a submission is
 * refused. What takes longest then begins early; the first results come late. */
enum sheaf_root_order { SHEAF_ORDER_AS_SUBMITTED = 0, SHEAF_ORDER_LARGEST_FIRST };

struct sheaf_run_options {
    uint32_t size;
    uint32_t reserved;
    const char *run_id; /* NULL: made up */
    /* From here on since 0.2. */
    uint32_t unproven_rows; /* of a Call that may fail its group, so many rows of one parent are under way before the
                               first of them succeeded; 0: 20; UINT32_MAX: any number */
    enum sheaf_root_order order;
    const char *spill_path; /* folder on a disk for values that the budget does not hold; NULL: TMPDIR, or /var/tmp */
    /* Asked several times a second while sheaf_run_open waits for workers, by the thread that called it: other than 0
     * gives up, and it returns SHEAF_E_CLOSED with nothing left behind. NULL: nobody does. */
    int (*gives_up)(void *cookie);
    void *cookie;
};

/* Starts workers for the Plan's Pools. The Plan must outlive the run. One run at a time per engine (-EBUSY). */
SHEAF_API int sheaf_run_open(struct sheaf_engine *engine, const struct sheaf_plan *plan,
                             const struct sheaf_run_options *options, struct sheaf_run **ret_run,
                             struct sheaf_error *error);

/* One root: one value per source of the Plan. Values are copied; a `file` is given by `name`, its path, which is opened
 * and read when its turn comes (data NULL), or by bytes in memory (copied). */
struct sheaf_submission {
    uint32_t size;
    uint32_t value_count;
    const struct sheaf_value *values;
    uint64_t tag; /* the host's, comes back with the result */
};
/* 0; -EAGAIN: the window is full, poll first; SHEAF_E_CLOSED. `ret_root` (may be NULL): index of the root, counted up
 * from 0. */
SHEAF_API int sheaf_run_submit(struct sheaf_run *run, const struct sheaf_submission *submission, uint64_t *ret_root,
                               struct sheaf_error *error);
/* A list value for a submission, over `values` (copied; what they point to must stay until the list is destroyed). Give
 * it as `list` with the list's kind. It may be destroyed after the submit. */
SHEAF_API int sheaf_list_create(const struct sheaf_value *values, uint64_t count, struct sheaf_list **ret_list);
SHEAF_API void sheaf_list_destroy(struct sheaf_list *list);

/* No more roots will come. */
SHEAF_API void sheaf_run_close_input(struct sheaf_run *run);
/* Cancels every unfinished root: they finish as failed, class cancelled. */
SHEAF_API void sheaf_run_cancel(struct sheaf_run *run);

/* Readable (poll, epoll) while sheaf_run_poll may have something. The run's; do not close or read it. */
SHEAF_API int sheaf_run_descriptor(const struct sheaf_run *run);

enum sheaf_root_status {
    SHEAF_ROOT_OK = 0,
    SHEAF_ROOT_PARTIAL,
    SHEAF_ROOT_FILTERED,
    SHEAF_ROOT_FAILED,
    SHEAF_ROOT_SKIPPED
};
SHEAF_API const char *sheaf_root_status_name(enum sheaf_root_status status);

enum sheaf_event_kind {
    SHEAF_EVENT_NONE = 0,
    SHEAF_EVENT_ROOT,  /* a root is complete: `result` until acknowledged */
    SHEAF_EVENT_SPACE, /* a submit that was refused with -EAGAIN may work now */
    SHEAF_EVENT_ABORT, /* a Call with recovery `abort` failed: `message`; unfinished roots finish as cancelled */
    SHEAF_EVENT_FATAL, /* the engine cannot go on: `message`; close the run */
    SHEAF_EVENT_END,   /* input closed and every root acknowledged */
};
struct sheaf_event {
    uint32_t size;
    enum sheaf_event_kind kind;
    struct sheaf_result *result;
    const char *message; /* until the next poll */
};
/* The next event, or kind NONE. Never blocks. */
SHEAF_API int sheaf_run_poll(struct sheaf_run *run, struct sheaf_event *ret_event);

/* ---- results, readable in place until acknowledged ---- */

struct sheaf_result_info {
    uint32_t size;
    enum sheaf_root_status status;
    uint64_t root;
    uint64_t tag;
    uint64_t failure_count;    /* failures recorded for this root, see sheaf_result_failure */
    enum sheaf_class class_id; /* of the root cause when failed or partial, else NONE */
    uint32_t reserved;
    const char *message;  /* its text, or "" */
    uint64_t child_count; /* Entities one level below the root: the pages of a document */
};
SHEAF_API int sheaf_result_info(const struct sheaf_result *result, struct sheaf_result_info *ret_info);

enum sheaf_outcome { SHEAF_PENDING = 0, SHEAF_PRESENT, SHEAF_DROPPED, SHEAF_FAILED, SHEAF_SUPPRESSED };

/* One Item of an output Port. */
struct sheaf_item {
    uint32_t size;
    enum sheaf_outcome outcome;
    const uint64_t *coordinate;
    uint32_t depth;
    enum sheaf_class class_id; /* of the cause, when FAILED or SUPPRESSED */
    struct sheaf_value value;  /* when PRESENT */
    const char *cause;         /* "" when there is none */
};
/* Items of output `output` in order of Coordinate: 0 and an item, or -ENOENT past the end. */
SHEAF_API int sheaf_result_item(const struct sheaf_result *result, size_t output, size_t index,
                                struct sheaf_item *ret_item);

/* Reads a list value by cursor: 1 and an element, 0 at the end. Elements are valid until the result is acknowledged. */
SHEAF_API int sheaf_list_next(struct sheaf_list *list, struct sheaf_value *ret_value);
/* The ordinal under its parent that the element last given had: a gather leaves out members that are not PRESENT. In a
 * list that no gather made, its position. */
SHEAF_API uint64_t sheaf_list_ordinal(const struct sheaf_list *list);
SHEAF_API void sheaf_list_rewind(struct sheaf_list *list);
SHEAF_API int sheaf_list_error_next(struct sheaf_list *list, struct sheaf_list_error *ret_error);

/* A Grain that failed for itself, in order of Coordinate: 0, or -ENOENT past the end. */
struct sheaf_failure {
    uint32_t size;
    enum sheaf_class class_id;
    const uint64_t *coordinate;
    uint32_t depth;
    uint32_t attempt;
    const char *call;
    const char *operator_name;
    const char *operator_version;
    const char *message;
    uint64_t elapsed_us;
};
SHEAF_API int sheaf_result_failure(const struct sheaf_result *result, size_t index, struct sheaf_failure *ret_failure);

/* The host is done with the result (has stored it, say): its memory returns. */
SHEAF_API void sheaf_result_acknowledge(struct sheaf_result *result);

/* ---- what is going on ---- */

struct sheaf_progress {
    uint32_t size;
    uint32_t workers;
    uint64_t submitted, ok, partial, filtered, failed; /* roots */
    uint64_t entities;                                 /* child Entities made so far */
    uint64_t entities_done;                            /* Grains of the busiest child Domain that are sealed */
    uint64_t worker_deaths;
    uint64_t memory_bytes, memory_peak_bytes;
};
SHEAF_API int sheaf_run_progress(const struct sheaf_run *run, struct sheaf_progress *ret_progress);

struct sheaf_call_progress {
    uint32_t size;
    uint32_t running;       /* rows in operators now */
    const char *name;       /* the program's; as long as the run */
    uint64_t waiting, done; /* rows that are known and neither run nor done; rows that are done, or never will be run */
    uint64_t failed;        /* of those that are done */
    uint64_t oldest_us;     /* how long the row that runs longest has been running, by what its worker says */
};
/* Of Call number `call`, from 0 on; -ENOENT when the program has no more. */
SHEAF_API int sheaf_run_call_progress(const struct sheaf_run *run, uint32_t call,
                                      struct sheaf_call_progress *ret_progress);

/* The run's ledger as a JSON object (docs/OUTPUTS.md, run.json): per Domain and output, per Call, batches, memory, CPU
 * by process kind. Free with free(). Exact once END was polled. */
SHEAF_API int sheaf_run_ledger(const struct sheaf_run *run, char **ret_json);

/* Ends the run: cancels what is left, stops its workers. NULL is fine. */
SHEAF_API void sheaf_run_close(struct sheaf_run *run);

#ifdef __cplusplus
}
#endif
#endif
