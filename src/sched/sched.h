/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scheduling decisions: what goes next, and what becomes of rows whose dispatch went wrong. Decisions only: the caller
 * owns rings, workers and clocks, and passes the time in. One thread calls it. Memory is linear in the Entities alive
 * at once.
 *
 * Per Call there are three queues, served in this order: retries whose back-off is over, READY rows (FIFO by the time
 * they became READY), isolation batches (halves of a batch that raised, and single rows that must run alone). Rows of a
 * root that is much larger than the others may be put aside before they join the READY ones. A row is in one of these
 * or with the caller ("out"). Every row handed out by sched_next ends in exactly one of sched_done
 * (answered, failed by declaration, or sealed), sched_requeue_uncharged, or a place in sched_failed.
 *
 * Recovery (SEMANTICS section 5): an attempt is charged only to a row that was marked RUNNING or that was alone. A
 * batch that raised without a known culprit is halved; each half is one isolation batch that must be dispatched whole
 * and alone.
 */
#ifndef SRC_SCHED_SCHED_H
#define SRC_SCHED_SCHED_H

#include "lineage/lineage.h"

struct sched;

int sched_create(const struct sheaf_plan *plan, const struct lineage_memory *memory, struct sched **ret_sched);
void sched_destroy(struct sched *sched);

/* ---- queues ---- */

enum sched_queue { SCHED_RETRY, SCHED_READY, SCHED_ISOLATION };

struct sched_row {
    struct grain grain;
    enum sched_queue queue;
    uint32_t attempt;    /* charged attempts so far: what the operator sees */
    uint32_t worker;     /* that it is meant for, where its Call has lanes, else LINEAGE_NOBODY */
    uint32_t batch;      /* SCHED_ISOLATION: rows of one batch come one after another under one number; else 0 */
    uint32_t batch_left; /* rows of that batch still to come after this one */
    bool fresh_worker;   /* must run alone in a worker that has run nothing yet */
    uint32_t home;       /* then: the worker that died over it, whose replacement is to take it */
    uint32_t follower;   /* Entity that was next in its queue, LINEAGE_NOBODY: none; to be fetched */
};

/* A Grain became READY. -ENOMEM. */
int sched_ready(struct sched *sched, struct grain grain);
/* The same for a Grain under `root` (its number in lineage): put aside if that root has its share of rows queued, until
 * sched_level moves it up. */
int sched_ready_in_turn(struct sched *sched, struct grain grain, uint32_t root);
/*
 * A Call whose operator keeps state per parent gets a lane for each worker of its Pool: `count` workers from
 * `first_worker` on. Rows of one root wait in one lane, and the lane with the fewest rows out is served first, so every
 * worker has rows of its own parents at hand, where one queue would give all of them rows of the same parent, for which
 * each then builds the same state. A root gets the lane of the worker that opened it, or the shortest when that is much
 * shorter; a worker that would run dry gets whole roots of the longest lane, and when all of these are begun a share of
 * one. A lane is a wish: who takes a row is not decided here. Set before the first row; -ENOMEM.
 */
int sched_set_lanes(struct sched *sched, uint32_t call, uint32_t first_worker, uint32_t count);
/* What a row of a Call takes, as measured: whether a parent is worth opening in one more worker. 0: not known. */
void sched_set_row_us(struct sched *sched, uint32_t call, uint64_t row_us);
/* `worker` made the first child of the root. */
void sched_opened_by(struct sched *sched, uint32_t root, uint32_t worker);
/* 1 and the next row of the Call, or 0. Once the first row of an isolation batch has been taken its others come next.
 */
int sched_next(struct sched *sched, uint32_t call, uint64_t now_us, struct sched_row *ret_row);
/* The same from the isolation batches alone, which otherwise come last. */
int sched_next_isolated(struct sched *sched, uint32_t call, struct sched_row *ret_row);
/* READY rows and retries, those whose back-off is not over too; isolation rows. */
uint32_t sched_queued(const struct sched *sched, uint32_t call);
uint32_t sched_ready_rows(const struct sched *sched, uint32_t call); /* of these the READY ones alone */
uint32_t sched_isolating(const struct sched *sched, uint32_t call);
/* True: what sched_next gives now is READY or a retry; false: it is nothing, or begins or goes on with an isolation
 * batch, which must not be mixed with other rows. */
bool sched_due(const struct sched *sched, uint32_t call, uint64_t now_us);
/* When the next back-off of any Call ends after `after_us`: 1 and the time, or 0 if none does. Retries that were due by
 * then and have not been taken wait for a worker, not for time. */
int sched_next_retry_us(const struct sched *sched, uint64_t after_us, uint64_t *ret_us);
/* A Grain is suppressed. True: it was queued here and is taken out (KEPT_OUT). False: it is out, ask the rings. It is
 * forgotten here in both cases: it must not be requeued or passed to sched_failed any more. */
bool sched_cancel(struct sched *sched, struct grain grain);
/* A row that is out is over: answered, failed for good, or its late result came in. Harmless for one that is forgotten
 * already, as long as its Entity lives. */
void sched_done(struct sched *sched, struct grain grain);
/* A row that is out comes back without blame: recalled, its worker lost while it was only claimed. Front of the READY
 * queue; a row that must run alone goes to the isolation queue again. */
void sched_requeue_uncharged(struct sched *sched, struct grain grain);

/* Of the Calls `calls`, the one to serve first: drain first (fewest Calls to an output), then lowest number. PLAN_NONE:
 * none has anything to give now. */
uint32_t sched_pick(const struct sched *sched, const uint32_t *calls, uint32_t count, uint64_t now_us);

/* ---- roots much larger than the others (bulk.c, level.c) ---- */

/* From now on none of its rows is put aside: roots were put in order by somebody who knows them. */
void sched_keep_order(struct sched *sched);
/* A root was given more children; a root is complete, and its number may be used again. */
void sched_children(struct sched *sched, uint32_t root, uint32_t count);
void sched_root_over(struct sched *sched, uint32_t root);
/* Rows of a Call that are put aside. */
uint32_t sched_aside(const struct sched *sched, uint32_t call);
/* Moves rows of a Pool up that were put aside: as many as each of its workers needs not to run dry, or some because it
 * is their turn; evens out lanes. `rows_out`: rows of its Calls that are with the caller. Returns how many. */
uint32_t sched_level(struct sched *sched, uint32_t pool, uint32_t rows_out, uint32_t workers);
/* Where Calls of the Pool have lanes: whether each worker has enough in its own not to need a new root. One that is
 * opened all the same is one more parent to keep open, or to open again later. */
bool sched_is_fed(const struct sched *sched, uint32_t pool);

/* ---- recovery ---- */

enum sched_event {
    SCHED_RAISED,    /* run or run_batch returned an error, or answered too few rows or columns (class contract) */
    SCHED_CRASHED,   /* the worker died (class crashed or oom) */
    SCHED_TIMED_OUT, /* over the deadline: the worker was killed */
};

enum sched_verdict {
    SCHED_SEAL_FAILED, /* fail it in lineage with the class given; sched_attempt still tells its attempt */
    SCHED_SEAL_ABORT,  /* the same, and the Call's policy stops the run */
    SCHED_RETRIED,     /* charged, queued again */
    SCHED_REQUEUED,    /* innocent, queued again */
    SCHED_ISOLATING,   /* queued again in an isolation batch */
};

#define SCHED_UNKNOWN UINT32_MAX

struct sched_loss {
    enum sched_event event;
    enum sheaf_class class_id;
    uint32_t call;
    uint32_t culprit;     /* index into the rows: the one marked RUNNING (per-row operators), or SCHED_UNKNOWN */
    uint32_t worker;      /* CRASHED: its number */
    uint32_t rows_before; /* CRASHED: rows this worker had run before these */
    bool in_company;      /* CRASHED: rows that ran elsewhere may have done it, also to one that was alone there */
    uint32_t rows_run; /* rows that ran together in this dispatch, suppressed ones too; 0: not known. A batch operator's
                          row that is left over from more is not guilty yet. Per-row operators with an unknown culprit:
                          several were RUNNING (`slots`), each is run alone; 0: none was, they are innocent */
};

/*
 * A dispatch of `count` rows of one Call went wrong. Leave out rows that are suppressed, answered or not started and
 * cancelled. CLAIMED rows of a dead worker may be passed along: they are innocent. ret_verdicts[i] is for entities[i].
 * For a batch operator that was run as a whole the culprit is SCHED_UNKNOWN, also when one row is left: what counts is
 * rows_run.
 */
int sched_failed(struct sched *sched, const struct sched_loss *loss, const uint32_t *entities, uint32_t count,
                 uint64_t now_us, enum sched_verdict *ret_verdicts);

/* Rows that are out and were one batch when something went wrong that may have been another's doing: they go again as
 * one isolation batch, alone, and nobody is charged. */
void sched_isolate(struct sched *sched, uint32_t call, const uint32_t *entities, uint32_t count);

/* Charged attempts of a row so far. */
uint32_t sched_attempt(const struct sched *sched, struct grain grain);
/* A number of the caller's beside a row that was READY: which claim it has now. 0 until it is set; forgotten when the
 * row is done or cancelled, or when the claim is over before a newer one was set. */
void sched_set_claim(struct sched *sched, struct grain grain, uint32_t claim);
void sched_claim_over(struct sched *sched, struct grain grain, uint32_t claim);
uint32_t sched_claim(const struct sched *sched, struct grain grain);
/* Its row will be looked at soon: it is fetched into the cache. Any Grain that was ever READY. */
void sched_prefetch(const struct sched *sched, struct grain grain);
/* Dispatches made only to isolate culprits. */
uint64_t sched_isolation_batches(const struct sched *sched, uint32_t call);

/* ---- admission ---- */

struct sched_window {
    uint64_t roots_max; /* roots in flight */
    uint64_t bytes_max; /* 0: not limited */
};

/* May one more root of about `root_bytes` be admitted? The first root always may. */
bool sched_may_admit(const struct sched_window *window, uint64_t roots, uint64_t bytes, uint64_t root_bytes);

#endif
