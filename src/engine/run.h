/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the threads of one run share, and the messages between them.
 *
 *     host thread --SUBMIT, ACKNOWLEDGE, ...--> shard --RESULT, ...--> host thread
 *     shard --path--> I/O thread --SOURCE--> shard
 *     supervisor --ATTACHED, DEATH--> shard --recovered, kill--> supervisor
 *
 * Everything else has one owner: lineage, scheduling, slots and results under way are the shard's alone, processes the
 * supervisor's. The fields of struct sheaf_run are written before the threads start and only read afterwards, unless
 * their comment says otherwise.
 */
#ifndef SRC_ENGINE_RUN_H
#define SRC_ENGINE_RUN_H

#include <stdatomic.h>

#include <sheaf/engine.h>

#include "device/device.h"
#include "engine/budget.h"
#include "engine/classes.h"
#include "engine/devices.h"
#include "engine/mailbox.h"
#include "engine/payload.h"
#include "program/plan.h"
#include "sched/admission.h"
#include "shm/board.h"
#include "shm/lane.h"
#include "topo/topo.h"

struct sheaf_engine {
    struct sheaf_engine_options options;
    struct topo *topo;
    char *worker_path;
    char *data_path;
    uint64_t memory_bytes;
    uint32_t worker_count;
    struct sheaf_run *run; /* the one that is open */
};

/* A worker number: its place for the whole run, whichever process fills it. */
struct worker {
    uint32_t number;
    uint32_t pool;
    uint32_t node; /* into the topology's nodes: "own node first" */
    struct lane lane;
    _Atomic uint64_t past_busy_ns, past_idle_ns; /* of processes that were here before */
    _Atomic uint64_t waited_ns;     /* for a core, by the process that is there: written by the supervisor (watch.c) */
    _Atomic uint64_t frees;         /* values it was told to free: any shard's thread */
    _Atomic bool owes_memory;       /* it was asked to give back what it does not use, and has not answered */
    _Atomic uint64_t yielded_bytes; /* what it wanted when its row was told to give way; 0: it was not */
    bool on_device;                 /* serves Calls for devices: on a device of the run, or on the host in its place */
    uint32_t device; /* into the run's devices; TOPO_NONE: the host. The supervisor's once the run is open */
};

struct shard;
struct spill;
struct supervisor;

struct sheaf_run {
    struct sheaf_engine *engine;
    const struct sheaf_plan *plan;
    int (*gives_up)(void *cookie); /* the host, while the run opens; NULL: it does not */
    void *gives_up_cookie;
    char run_id[64];
    uint64_t started_ns;

    struct topo_plan *placement;
    struct budget budget;
    enum sheaf_integrity integrity;
    struct payload *payload;
    uint32_t worker_count;
    struct devices *devices; /* NULL: no Call is for one */
    struct worker *workers;
    uint32_t *pool_first, *pool_count; /* per Pool: its workers */
    uint32_t shard_count;
    struct shard **shards;
    uint32_t unproven_rows; /* the isolation dial, 0: off */
    enum admission_order order;
    uint32_t slots_per_shard; /* shard s describes rows in dispatch slots [s * this, (s + 1) * this) */
    struct supervisor *supervisor;
    /* Memory, over all shards (grant.c, reserve.c). */
    _Atomic uint64_t reserved_bytes; /* for rows that are out */
    _Atomic uint64_t rows_out;       /* offered, claimed or running */
    _Atomic uint64_t rows_alone;     /* of them, that were offered because nothing else was out, and had given way */
    _Atomic uint64_t results_out;    /* roots that are complete and not yet gone */
    const char *spill_folder;        /* while the run opens */
    struct spill *spill;             /* NULL: there is no place for one */
    /* Shard 0 asks all shards to move values there (move_out.c): a round, what it wants, and what comes of it. */
    _Atomic uint64_t spill_round, spill_wanted_bytes, spill_moved_bytes;
    _Atomic uint32_t spill_shards_left;
    _Atomic bool lists_short;          /* a row is not offered for want of room for its lists, and no row is out */
    _Atomic bool memory_short;         /* some worker cannot go on: nothing new comes in */
    _Atomic uint64_t recycled;         /* workers that ended by themselves and were replaced */
    _Atomic uint64_t deaths, replaced; /* workers lost; workers started in place of others */
    _Atomic uint32_t exclusive;        /* 1 + the shard that has all to itself for roots begun again; 0: none */
    _Atomic uint64_t alone;            /* who may offer rows: alone.c */
    _Atomic uint32_t roots_live;       /* being read, or in lineage and not complete */
    struct memory_ledger memory;       /* any thread */

    /* The host's side: only the host's thread, unless said. */
    struct mailbox inbox;  /* from shards and supervisor */
    int inbox_fd;          /* eventfd: something was posted */
    _Atomic uint64_t told; /* times that others have written there, counted before they do; any thread */
    uint64_t heard;        /* of these, how many were read */
    bool readable;         /* the host has written there itself and not read it since */
    struct message *taken; /* messages taken and not yet polled */
    uint64_t submitted, acknowledged;
    uint64_t space_after; /* acknowledged roots before memory that a submit wanted can have come back */
    uint64_t finished[5]; /* by enum sheaf_root_status */
    uint32_t window;
    uint64_t submitted_max; /* roots submitted and not acknowledged: the window, or more to choose from */
    bool closed, want_space, ended;
    _Atomic bool input_closed; /* the same as `closed`, for shards */
    _Atomic bool input_full;   /* the host was told to wait */
    char *message;             /* text of the event polled last */
};

/* A process-private copy of a list, for results. */
struct sheaf_list {
    uint64_t count, error_count;
    struct sheaf_value *values;
    struct sheaf_list_error *errors;
    uint64_t *ordinals;        /* NULL: positions */
    uint64_t next, error_next; /* cursors */
};

/* The outcome of one root, made by the shard when the root is complete, immutable, read by the host. */
struct sheaf_result {
    struct message message;
    struct sheaf_run *run;
    struct root *root; /* the shard's */
    uint32_t shard;
    struct sheaf_result_info info;
    struct sheaf_item **items; /* per output */
    size_t *item_counts;
    struct sheaf_failure *failures;
    size_t failure_count;
    struct block *memory; /* owns all of it */
    uint64_t counted_bytes;
    bool damaged; /* some value was not what was answered */
};

enum message_kind {
    /* to a shard */
    MESSAGE_SUBMIT = 1,
    MESSAGE_ACKNOWLEDGE, /* struct sheaf_result */
    MESSAGE_CANCEL,
    MESSAGE_SOURCE,
    MESSAGE_ATTACHED,
    MESSAGE_DEATH,
    MESSAGE_RETIRED, /* struct message_worker: no process of that number will come */
    MESSAGE_STOP,
    /* to the host */
    MESSAGE_RESULT, /* struct sheaf_result */
    MESSAGE_ABORT,
    MESSAGE_FATAL,
};

struct message_text { /* ABORT, FATAL, CANCEL (text may be empty) */
    struct message message;
    char text[1024];
};

enum worker_end {
    WORKER_STOPPED, /* by itself, or from outside */
    WORKER_CRASHED,
    WORKER_OOM,
    WORKER_TIMED_OUT,
    WORKER_BREACH, /* killed for what it, or another of its Pool, wrote into shared memory */
    WORKER_DEVICE, /* its device failed, and with it the process: `fault` */
    WORKER_STUCK,  /* its page names rows and none that runs: any of them may be the one that wrote it */
};

struct message_worker { /* ATTACHED, DEATH, RETIRED */
    struct message message;
    uint32_t worker;
    uint32_t generation; /* ATTACHED: of the process that comes */
    enum worker_end end;
    uint32_t grain; /* TIMED_OUT: the row that was over its deadline, as its claim page named it */
    uint64_t number;
    enum device_fault fault; /* DEVICE */
    bool on_gpu;             /* DEATH: it drove one */
    char text[256];          /* how it died, for causes */
};

/* Posts a chain of messages to the host and wakes it. Any thread. */
void run_tell_host(struct sheaf_run *run, struct message *first);
/* Stops everything with one line; the host sees EVENT_FATAL. Any thread. */
void run_fail(struct sheaf_run *run, const char *format, ...) SHEAF_PRINTF(2, 3);
/* One line for the engine's log callback. Any thread. */
void run_log(const struct sheaf_run *run, int level, const char *format, ...) SHEAF_PRINTF(3, 4);

/* The deadline of a row of a Call: what the host says, else the Call or its operator, else 60 s. */
uint32_t run_timeout_ms(const struct sheaf_run *run, const struct plan_call *call);
/* The deadline of a worker process for becoming ready: what the host says, else 300 s. */
uint32_t run_start_timeout_ms(const struct sheaf_run *run);

/* What a claim page's row is about; false: it is of no dispatch of now. Any thread. */
bool run_glance(const struct sheaf_run *run, const struct claim_row *row, struct dispatch_glance *ret_glance);

/* A thread of the engine: it takes none of the host's signals. 0 or a negative errno. */
int thread_start(pthread_t *ret_thread, void *(*body)(void *), void *argument);

/* The smallest power of two that is not below `at_least`, which is at most 2^31. */
static inline uint32_t power_of_two(uint64_t at_least)
{
    uint32_t power = 1;
    while (power < at_least)
        power *= 2;
    return power;
}

/* Rows that are given to a worker as one batch: what the Plan says, as far as a claim page has room. */
uint32_t run_batch_rows(const struct plan_call *call);

/* CLOCK_MONOTONIC. */
uint64_t clock_now_ns(void);

/* Result blocks: memory freed all at once. NULL when memory is out. */
void *block_alloc(struct block **blocks, size_t bytes);
void block_free(struct block *blocks);

#endif
