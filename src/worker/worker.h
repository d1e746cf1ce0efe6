/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker from the inside: what it has mapped, what it serves, the rows it holds. The parts:
 *
 *     worker.c   attach, detach, the public functions of include/sheaf/worker.h
 *     claim.c    which rows to take next, and parking when there are none
 *     row.c      the life of a row: made from a claim, started, finished with exactly one record
 *     host.c     what operators call (struct sheaf_host)
 *     publish.c  from an operator's value to a reference in shared memory
 *     payload.c  memory for values: the lease, waiting for more of it
 *     orders.c   what shards say: free, evict, chunk, stop; records to them; announcing
 *     operators.c, sandbox.c, main.c   the stock worker: plug-ins, the sandbox, the loop
 *
 * One thread. All shared words are touched through shm/.
 */
#ifndef SRC_WORKER_WORKER_H
#define SRC_WORKER_WORKER_H

#include <sheaf/worker.h>

#include "shm/board.h"
#include "shm/completion_ring.h"
#include "shm/control_ring.h"
#include "shm/lane.h"
#include "worker/attach.h"
#include "worker/key_set.h"
#include "worker/payload_arena.h"
#include "worker/payload_map.h"
#include "worker/view.h"

#define ROW_MESSAGE_BYTES 512u /* of sheaf_operator.run, with its NUL */

/* One shard as seen from here. */
struct shard_link {
    struct board board;
    struct spsc_writer records;
    struct spsc_reader orders;
    bool unannounced;      /* records were committed that the shard was not told of */
    uint64_t announced_ns; /* when it was told last */
    uint64_t child_ns;     /* when it was told of a child last */
};

struct worker_call {
    const struct attach_call *spec;
    uint32_t group_count;
    bool stateful, batch;
    struct key_set open;  /* keys whose state the operator holds here */
    uint64_t mean_row_ns; /* moving mean of what a row takes; 0: not known */
};

struct appended {
    struct value_ref *refs;
    uint32_t count, capacity;
};

enum row_phase { ROW_FREE = 0, ROW_CLAIMED, ROW_RUNNING };
enum row_end { ROW_OPEN = 0, ROW_ANSWERED, ROW_FAILED };

/*
 * Rows of a batch are touched one after the other at its start and at its end, and in between for so long that nothing
 * of them is left in any cache. So what every row needs at its end is together, in three cache lines, and in the
 * beginning of a block of its own (struct worker.blocks) that has its values; and what its claim needs is in two more.
 */
struct worker_row {
    _Alignas(CACHE_LINE_BYTES) struct sheaf_row row; /* what the operator sees; host_row points back here */
    struct sheaf_worker *worker;
    struct worker_call *call;
    uint64_t started_ns, ended_ns;
    uint64_t child_count;
    struct value_ref *outputs; /* the beginning of its block */
    uint32_t memory_count;     /* of `memories` */
    uint8_t shard;
    uint8_t phase;            /* enum row_phase */
    uint8_t end;              /* enum row_end */
    bool damaged;             /* its inputs do not check out */
    bool spoiled;             /* or are not what was answered (integrity.c) */
    bool streamed;            /* emit was called */
    bool has_appended;        /* append was called, or a list is kept of what was emitted */
    bool breach;              /* the operator broke the contract: `text` says how */
    bool breach_of_columns;   /* a wrong number of values: a batch raises for it */
    bool unwanted;            /* the shard discards the result */
    bool yields;              /* it was told to give way: without an answer it goes back */
    bool tells;               /* `closed` and `rows_run` count: it is the one row of its batch that tells of it */
    struct ready_claim claim; /* with the copied descriptor */
    /* From here on: not for every row. */
    enum batch_close closed; /* of its batch */
    uint32_t rows_run;       /* rows of the batch that ran */
    void **memories;         /* alloc()ed and referred to by nothing yet */
    uint32_t memory_capacity;
    uint32_t scope, class_id;
    char *text; /* of a failure or breach; room for COMPLETION_TEXT_BYTES_MAX, apart: rarely used, and rows lie close */
};
static_assert(offsetof(struct worker_row, call) == CACHE_LINE_BYTES, "what the operator sees is one cache line");
static_assert(offsetof(struct worker_row, claim.dispatch.grain) < 3 * CACHE_LINE_BYTES,
              "what its record says of a row is in the third");
static_assert(offsetof(struct worker_row, claim.dispatch.inputs[1]) <= 5 * CACHE_LINE_BYTES,
              "a row with one input is five cache lines, and its values");
static_assert(LANE_SHARDS_MAX <= UINT8_MAX, "a shard's number fits");

/* Where in the block of a row its parts are, each for as many inputs or outputs as any Call of the worker has. Its
 * beginning is a struct value_ref for each output; of one output and one input what a scalar needs is one cache line.
 */
struct row_layout {
    uint32_t inputs_at;   /* struct sheaf_value, for each input */
    uint32_t refs_at;     /* struct value_ref, for each input; of rows whose descriptor has no room for them */
    uint32_t rooms_at;    /* struct view_room, for each input, as the next */
    uint32_t lists_at;    /* struct sheaf_list */
    uint32_t appended_at; /* struct appended, for each output */
    uint32_t block_bytes; /* a multiple of CACHE_LINE_BYTES */
    uint32_t input_limit, output_limit;
};

/* A descriptor handed to an operator: until its row ends (tag 0) or the state under `tag` is evicted. */
struct source_descriptor {
    uint64_t source, tag;
    int fd;
};

struct worker_batch {
    struct sheaf_worker *worker;
    uint32_t index; /* of the Call among worker->calls */
    uint32_t count;
    enum batch_close closed;          /* of a batch operator's: why it has no more rows */
    enum batch_close cut;             /* while it is claimed: some row was left for its shape, or for its bytes */
    uint64_t shape, bytes;            /* of the rows claimed so far */
    struct worker_row **rows;         /* room for row_limit */
    const struct sheaf_row **views;   /* of all, as the next */
    const struct sheaf_row **started; /* of those that were started */
};

struct eviction {
    uint32_t shard;
    uint64_t key;
};

struct sheaf_worker {
    int socket;
    struct attach_hello hello;
    struct lane lane;
    struct shard_link *links;
    uint32_t *shard_order; /* own node first */
    struct payload_map map;
    struct chunk_pages pages;
    struct payload_arena *arena;
    uint64_t live_bytes, live_count;
    bool chunk_refused, yield; /* no more chunks; and the row gives way to others */
    uint64_t wishes;           /* numbers them */
    uint64_t missing_chunks;   /* what the row at hand waits for, on top of the lease; 0: it does not */
    uint64_t return_down_to;   /* chunks to keep, when others need some; UINT64_MAX: nobody does */
    struct worker_call *calls;

    struct worker_row *rows; /* row_limit of them, as the next five */
    char *blocks;
    char *texts;
    uint32_t *free_rows;         /* the last one is used next */
    struct ready_claim **claims; /* of the claiming at hand: those of the rows that are used next */
    uint32_t *claim_shards;      /* where each of the claims comes from */
    uint32_t claim_count;
    struct row_layout layout;
    uint32_t row_limit, free_count;
    struct worker_batch batch;
    struct sheaf_worker_claim claim;

    struct source_descriptor *descriptors;
    uint32_t descriptor_count, descriptor_capacity;

    struct eviction *evictions; /* that came while an operator ran */
    uint32_t eviction_count, eviction_capacity;
    void (*evict)(void *cookie, uint32_t index, uint64_t key);
    void *evict_cookie;
    bool inside; /* an operator is running */

    bool has_run;              /* some row was started in this process */
    bool outlived;             /* a row waits here that must run in a process that has run none */
    bool alone;                /* what was claimed last must run alone */
    bool stop;                 /* nothing more is claimed */
    int failure;               /* negative: a ring of the engine is damaged, or a record cannot be written: end */
    uint64_t mean_gap_ns;      /* between parking and news */
    uint64_t foreign_since_ns; /* rows at home elsewhere have been left alone since; 0: there were none */
    bool foreign_seen;         /* in the last look */
    struct fd_watch *watch;    /* host.wait with a descriptor */
};

uint64_t now_ns(void);

/* --- worker.c --- */

/* Closes every descriptor of shared memory: all of it is mapped. */
void worker_drop_descriptors(struct sheaf_worker *worker);

/* --- orders.c --- */

/* Takes in what the shards say. Evictions wait while an operator is inside. */
void orders_poll(struct sheaf_worker *worker);
/* The engine wants this process gone, or it cannot go on. */
bool must_end_now(const struct sheaf_worker *worker);

/* Writes one record to `shard`, waiting for room; not visible before record_commit. Negative: worker->failure. */
int record_write(struct sheaf_worker *worker, uint32_t shard, const struct completion *record);
int record_write_rows(struct sheaf_worker *worker, uint32_t shard, const struct completion *record,
                      const struct completion_part *parts, uint32_t count);
void record_commit(struct sheaf_worker *worker, uint32_t shard);
/* Waking a shard costs more than reading a short record: it is told of finished rows this often, and of what is left
 * before this worker sleeps or starts a row that may take longer. So a result waits for that time and one row at most,
 * and the shard finds rows of several pages at once. */
#define ANNOUNCE_NS 5000000u
/* Bumps the shards that have records they were not told of: all; those that have not promised to look, for a worker
 * that goes on; those that have not, or need this Pool before, for one that sleeps or may take long (board_promise); or
 * of these those not told for ANNOUNCE_NS. */
void announce(struct sheaf_worker *worker);
void announce_going_on(struct sheaf_worker *worker);
void announce_wanted(struct sheaf_worker *worker, uint64_t at_ns);
void announce_due(struct sheaf_worker *worker, uint64_t at_ns);
/* The same for a child that was just committed, after `before_ns`; see COMPLETION_CHILD_NS. */
void announce_child(struct sheaf_worker *worker, uint32_t shard, uint64_t before_ns);

/* --- payload.c --- */

#define PAYLOAD_HEAD_BYTES PAYLOAD_ALIGNMENT /* of every headroom; what is more is room for a prefix */

/* Memory with `headroom_bytes` (a multiple of 64, at least PAYLOAD_HEAD_BYTES) before it, waiting for more chunks if
 * need be. NULL: none to be had. */
void *payload_new(struct worker_row *row, size_t bytes, uint32_t headroom_bytes);
void *payload_resize(struct worker_row *row, void *memory, size_t bytes);
void payload_free(struct sheaf_worker *worker, void *memory);
/* Says how many chunks are wanted in all: the lease and what is missing. */
void payload_say_wish(struct sheaf_worker *worker);
/* Usable bytes, and the room before them. */
size_t payload_bytes(const struct sheaf_worker *worker, const void *memory);
uint32_t payload_headroom(const void *memory);
/* Room that host.alloc leaves before memory of that size. */
uint32_t payload_usual_headroom(size_t bytes);
/* Frees the value whose memory (its prefix, or else its data) begins there. -ENOENT: nothing of ours does. */
int payload_free_at(struct sheaf_worker *worker, uint32_t segment, uint64_t offset);

/* --- publish.c --- */

/* Turns a value of the row's operator into a reference: takes alloc()ed memory over, copies anything else. -EINVAL: not
 * a value; -EBADMSG: a damaged list; -ENOMEM. */
int publish_value(struct worker_row *row, const struct sheaf_value *value, struct value_ref *ret_ref);
/* One list of published elements, whose memory is freed. */
int publish_list(struct worker_row *row, sheaf_kind kind, struct appended *elements, struct value_ref *ret_ref);
/* Frees the memory of a published value that was told to nobody. */
void unpublish(struct sheaf_worker *worker, struct value_ref *ref);

/* --- row.c --- */

/* Rows of the worker; one for each row of the claim page. 0, -ENOMEM. */
int rows_open(struct sheaf_worker *worker);
void rows_close(struct sheaf_worker *worker);
/* The row for the oldest of worker->claims that has none yet. */
struct worker_row *row_make(struct sheaf_worker *worker, struct worker_call *call, uint32_t shard);
/* The references of its inputs; its Call says how many. */
struct value_ref *row_refs(const struct worker_row *row);
struct appended *row_appended(const struct worker_row *row, uint32_t output);
/* Row `at` of the worker will be answered soon. */
void row_prefetch(const struct sheaf_worker *worker, uint32_t at);
/* C5. 0; -ECANCELED: not wanted any more, -EBADMSG: its inputs are damaged: finish it without running it. */
int row_start(struct worker_row *row);
int row_start_at(struct worker_row *row, uint64_t at_ns);
/* C5 for the rows of worker->batch, as of one moment. Returns how many are to be run: `ret_rows`, good until the next
 * batch. */
uint32_t rows_start_batch(struct sheaf_worker *worker, const struct sheaf_row ***ret_rows);
/* C6 and C7 for one row that was run alone. */
void row_finish(struct worker_row *row, int status, const char *message);
/* C6 and C7 for rows that were run together. */
void rows_finish_batch(struct sheaf_worker *worker, struct worker_row **rows, uint32_t count, int status,
                       const char *message);
/* Notes a broken contract; the first one counts. Returns -EINVAL. */
int row_breach(struct worker_row *row, const char *format, ...) SHEAF_PRINTF(2, 3);
/* One CHILD record, of `count` children from `ordinal` on. Not visible before record_commit. */
int row_write_children(struct worker_row *row, const struct value_ref *refs, uint64_t ordinal, uint32_t count);
bool is_group(const struct worker_call *call, uint32_t output);
bool is_expanded(const struct worker_call *call, uint32_t output);
/* The kind of one child or element of `output`; SHEAF_NONE: any. */
sheaf_kind element_kind(const struct worker_call *call, uint32_t output);

/* --- integrity.c --- */
/* Sets row->spoiled if an input is not what its producer answered. */
void row_check_inputs(struct worker_row *row);

/* --- host.c --- */

extern const struct sheaf_host worker_host;
/* The worker of this thread: for log lines about no row. */
void host_adopt(struct sheaf_worker *worker);

/* --- descriptors.c --- */

int source_descriptor(struct worker_row *row, const struct sheaf_value *file, int *ret_fd);
void descriptors_drop(struct sheaf_worker *worker, uint64_t tag); /* 0: those of finished rows */
void descriptors_done(struct sheaf_worker *worker);

/* --- claim.c --- */

/* Fills worker->batch: at least one row, or -ETIMEDOUT, or SHEAF_E_CLOSED, or worker->failure. */
int claim_wait(struct sheaf_worker *worker, int timeout_ms);
/* One more row of Call `index`, without waiting: 1 and a row, or 0. */
int claim_one(struct sheaf_worker *worker, uint32_t index, struct worker_row **ret_row);
/* Rows into worker->batch without waiting, while others are at hand: 1; 0: none; SHEAF_E_CLOSED, or worker->failure. */
int claim_more(struct sheaf_worker *worker);
/* Whether claim_one would find a row. */
bool claim_has(struct sheaf_worker *worker, uint32_t index);
/* Ends the claiming (worker->stop) if a row waits for this worker that must run in a fresh process, and this is none
 * any more: its replacement takes the row before anything else. */
void claim_note_suspects(struct sheaf_worker *worker);

/* --- park.c --- */

struct event_count *pool_events(const struct sheaf_worker *worker);
/* Tells shards that wait for room in a ring, then announces that this worker may sleep. False: there was news. */
bool park_announce(struct sheaf_worker *worker, uint32_t seen);
/* Sleeps until news, `fd` is readable (-1: none) or `until_ns` (0: without end). Positive: fd is readable. */
int park(struct sheaf_worker *worker, uint32_t seen, int fd, uint64_t until_ns);
void park_done(struct sheaf_worker *worker);

#endif
