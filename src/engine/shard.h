/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shard: one thread that owns the lineage of its roots, decides what runs next, offers it on its board and takes in
 * what workers answer. It is the only writer of everything in struct shard; others reach it through its inbox.
 *
 *   shard.c     the thread: one step is inbox, completions, dispatch, publish; then park
 *   admit.c     submitted roots: reading their sources, entering lineage, leaving again
 *   turn.c      READY rows on their way to a queue
 *   dispatch.c  rows onto the board and off again
 *   batching.c  how many rows workers are to take at once, and when they wait
 *   weigh.c     what a row of a batch weighs
 *   lists.c     gathered lists as blocks that workers can read
 *   complete.c  records of workers
 *   recover.c   what a dead worker leaves behind
 *   alone.c     suspects of damage to shared memory, run with nothing else out in any shard
 *   audit.c     where rows are by the engine's own clock, and workers that keep them
 *   rebuild.c   rings that do not check out, made anew
 *   recall.c    rows of a worker that is stuck in a long one, while others idle
 *   grant.c     chunks for workers
 *   reserve.c   room for what rows will make
 *   move_out.c  values to disk
 *   hold.c      state that workers keep per Entity, and what must stay readable for it
 *   integrity.c values that were written over after they were answered
 *   result.c    a complete root, copied out for the host
 *   counts.c    what it counted, copied out for other threads
 *
 * A dispatch slot is one row offered to workers: a push of a Grain takes a slot, and with it a dispatch number that no
 * other push of that slot had. The set of slots in use is the set of live claims (PROTOCOL: `live`): a slot leaves it
 * by exactly one record, by being cancelled in its ring, or by the death of the worker that has it.
 */
#ifndef SRC_ENGINE_SHARD_H
#define SRC_ENGINE_SHARD_H

#include "engine/keymap.h"
#include "engine/run.h"
#include "engine/source.h"
#include "engine/supervisor.h"
#include "lineage/lineage.h"
#include "sched/admission.h"
#include "sched/policy.h"
#include "sched/sched.h"
#include "shm/completion_ring.h"
#include "shm/control_ring.h"

/* A list or overflow block in the shard's payload segment. */
struct built {
    struct built *next;
    uint64_t offset, bytes;
};

/* Where the engine itself last saw a row, and since when by its own clock. */
enum seen_place { SEEN_NOWHERE, SEEN_WAITING, SEEN_TAKEN, SEEN_CLAIMED, SEEN_RUNNING };
struct seen {
    uint64_t since_ns;  /* 0: from the next look on */
    uint64_t waited_ns; /* by then, of the worker for a core */
    uint32_t audit;     /* number of the look */
    bool missing;       /* it was nowhere */
};

/* Room for what a row will make: reserve.c. */
struct reservation {
    uint64_t bytes;
    bool alone; /* nothing else was out when it was offered, and it had given way before */
};

/* One cache line: where rows end seldom each finds it cold. What only the audit knows of a row is apart. */
struct slot {
    uint64_t number; /* of the push that has it now, or had it last */
    uint64_t position;
    struct grain grain;
    struct built *built; /* blocks made for this row */
    uint64_t offered_us;
    uint64_t reserved_bytes;
    union {
        uint32_t next_free; /* while it is not live */
        uint32_t batch;     /* isolation batch, or 0 */
    };
    uint32_t children;        /* emitted by this claim */
    uint32_t seen_generation; /* with seen_worker, CLAIMED and RUNNING: whose page names it */
    uint16_t seen_worker;
    uint8_t seen_place : 3; /* enum seen_place */
    uint8_t ring : 2;       /* enum board_ring */
    bool live : 1;
    bool homed : 1;          /* was offered to one worker first: counted in its Pool */
    bool recalled : 1;       /* the Grain was queued again: the worker owes us only the release */
    bool unwanted : 1;       /* the Grain is sealed: what comes is discarded */
    bool started : 1;        /* was seen running when it was cancelled; to be counted when the claim ends */
    bool single : 1;         /* an isolation batch of this row alone */
    bool alone : 1;          /* nothing else was out in any shard when it was offered: alone.c */
    bool reserved_alone : 1; /* struct reservation */
    bool audited : 1;        /* shard.seen says more */
};
static_assert(sizeof(struct slot) == CACHE_LINE_BYTES, "one cache line");

enum root_phase { ROOT_WAITING, ROOT_READING, ROOT_LIVE, ROOT_COMPLETE, ROOT_LEAVING };

struct root {
    struct root *next, *previous; /* in shard.admitted */
    uint64_t index;
    uint64_t tag;
    uint64_t bytes; /* of its sources, as the host says; 0: not known */
    uint32_t lineage_root;
    enum root_phase phase;
    uint32_t source_count;
    uint32_t reads_left;
    uint32_t begun_again; /* how often */
    bool again;           /* it leaves lineage to be begun again */
    bool ahead;           /* admitted, and no row of it was offered yet */
    struct root *next_aside;
    uint32_t first_hold;       /* chain through struct hold.next_of_root */
    enum sheaf_class class_id; /* why a source could not be read */
    char *message;
    uint64_t *source_ids; /* per source: what a worker asks its descriptor by, 0: none */
    char **paths;         /* per source: to be read, or NULL */
    struct value_ref *sources;
};

struct message_submit {
    struct message message;
    struct root *root;
};

/* What a worker has open: its inputs are held until it says EVICTED. */
struct hold {
    uint64_t key;
    uint32_t worker;
    struct grain grain;
    struct root *root;
    uint32_t next_of_root, previous_of_root;
    bool used, evicting;
    uint64_t evicting_since_ns; /* as audit.c saw it; 0: not yet */
};

/* The shard's ends of a worker's lane. */
struct link {
    bool retired; /* no process of this number will come */
    bool attached;
    bool killed;         /* for a breach: nothing more is read before its death */
    uint32_t generation; /* of the process that is there */
    struct completion_reader completions;
    struct spsc_writer control;
    struct control *pending; /* orders that found no room, in order: a ring buffer */
    uint32_t pending_first, pending_count, pending_capacity;
    uint64_t rows_done;          /* by the process that is there now */
    uint64_t refused;            /* what it last wanted and cannot have, as the next two: shard 0, grant.c */
    uint64_t frees_seen;         /* of struct worker, when it was asked to give chunks back */
    bool returning;              /* it was, and has not answered yet ... */
    uint64_t returning_since_ns; /* ... since */
    uint64_t damaged;            /* of the lane's counter, when last looked at */
    bool awaits_rebuild;         /* dead and recovered; its replacement waits for the rings */
    struct recovered death;      /* what is said of it */
    uint64_t progress;           /* of the shard, at the last death */
    /* audit.c: */
    bool seen_rows, seen_running; /* in its page, or by what it reported */
    uint64_t rows_seen;           /* rows_done at the last look */
    uint64_t free_since_ns;       /* no look has found a row with it since; 0: one has */
    uint64_t stuck_since_ns;      /* it has rows and runs none since; 0: not so */
};

/* grant.c, shard 0 */
#define GRANT_NOBODY UINT32_MAX
enum grant_stage { GRANT_TAKE_BACK, GRANT_TAKEN, GRANT_SPILL, GRANT_AWAIT };
struct grants {
    uint32_t turn; /* the worker for which memory is being found */
    enum grant_stage stage;
    uint64_t still_since_ns; /* nothing moves since then; 0: it does */
};

struct pool_state {
    bool has_lanes;  /* some of its Calls have (src/sched/lanes.c) */
    bool pushed;     /* rows were offered since its event count was bumped */
    bool rebuilding; /* its workers are being killed so that its rings can be made anew */
    bool some_free;  /* the last audit found no row with one of its workers */
    bool all_busy;   /* recall.c has seen none idle, and one that becomes so has news, unless the Pool is ahead */
    uint32_t homed;  /* rows out that were offered to one worker first */
};

struct call_counts {
    uint64_t rows, batches, raised, retried, isolated, run_ns;
    uint64_t closes[POLICY_CLOSE_COUNT]; /* of batches */
    uint64_t waited_us;                  /* idle workers beside rows that they leave for a fuller batch */
    double fixed_us, row_us;             /* what a batch costs, as learned */
    uint32_t full_ring;                  /* 1 + the ring that had no room for the Call's next row; 0: none */
};

/* What may be offered: anything; nothing, for some shard has, or is to have, everything to itself; one isolation batch.
 */
enum alone_says { ALONE_OPEN, ALONE_HELD, ALONE_MINE };

/* shard.c: records that tell of a batch, in moving means. */
struct tells {
    uint32_t count; /* in this step */
    uint64_t last_us;
    double batches, span_us; /* lately: of a step that had any, and since the one before it */
    double run_us;           /* what a batch takes */
};

struct batching;    /* batching.c */
struct counted;     /* counts.c */
struct raised_rows; /* complete.c: rows of one batch that raised, being collected */

struct shard {
    struct sheaf_run *run;
    const struct sheaf_plan *plan;
    uint32_t number;
    pthread_t thread;
    bool started, stopping, cancelled;
    bool child_taken;       /* since the last park */
    bool careful;           /* rows that run in isolation may have damaged shared memory */
    bool alone_used;        /* something was offered in this round of alone.c ... */
    bool alone_drained;     /* ... which began with nothing out */
    enum alone_says alone;  /* what this step may offer */
    uint32_t heard;         /* the sample at which the inbox was taken in last */
    uint64_t over_ns;       /* for so long it sleeps over news after this step, 0: it does not */
    uint64_t child_look_ns; /* until then children may come untold (COMPLETION_CHILD_NS) */
    struct tells tells;     /* batches that workers told of, for how long to sleep over more of them */
    uint64_t offered_us;    /* rows that were due then were offered, as far as there was room */
    char *cancel_text;

    struct mailbox inbox;
    struct sources *sources;
    struct board board;
    struct ready_producer *rings;           /* [call * BOARD_RINGS + ring] */
    struct link *links;                     /* per worker */
    uint64_t again[BOARD_NEWS_WORDS];       /* one bit per worker: looked at in the next step, news or not */
    uint64_t pools_ahead[BOARD_POOL_WORDS]; /* as promised last */

    struct tables tables;
    struct counted_tables lineage_tables, sched_tables;
    struct lineage_memory lineage_memory, sched_memory; /* of these */
    struct lineage *lineage;
    struct sched *sched;
    struct admission admission; /* roots that wait */
    struct root *admitted;
    struct root *aside; /* begun again and to be alone; also in `admitted` */
    uint64_t admitted_count;
    uint64_t ahead_bytes; /* of roots that are ahead */
    uint64_t now_us;      /* at the start of the step */
    uint64_t looked_us;   /* at all workers, news or not */
    uint32_t reading;     /* roots whose sources are being read */

    struct slot *slots;
    struct seen *seen;   /* per slot; means something if the slot says so */
    uint32_t slots_real; /* slots that are there, and whose descriptors are real memory */
    uint32_t slot_first, slot_count, slot_used, free_slot; /* slot number = slot_first + index */
    uint32_t *live_of_call, *live_max;                     /* per Call: rows offered, and how many may be */
    struct hold *holds;
    uint32_t hold_count, hold_used, free_hold;
    struct keymap hold_of; /* key * workers + worker -> hold */
    struct keymap home_of; /* key -> worker that has it open */
    struct raised_rows *raised;
    struct batching *batching;
    struct gate *gates; /* per Call: turn.c */

    /* Collected during a lineage event, acted on after it: lineage may not be called from its own effects. */
    struct grain *unhold;
    uint32_t unhold_count, unhold_capacity;
    uint32_t *complete;
    uint32_t complete_count, complete_capacity;

    struct message *messages, **messages_end; /* of this step, to the host */

    struct call_counts *counts; /* per Call */
    struct counted *counted;    /* counts.c: what other threads may see of these and of lineage's */
    struct pool_state *pools;   /* per Pool */
    bool retry_reads;           /* memory came back while reads wait for it */
    uint64_t audit_at_ns;       /* when to look next */
    uint64_t audit_period_ns;
    uint32_t audits; /* looks so far */
    uint64_t losses; /* of rows, to the deaths of their workers */
    struct grants grants;
    uint64_t spill_round;         /* that this shard has done its part of */
    struct keymap found_needs;    /* Grain -> chunks it wanted when it had to give way */
    uint32_t *drain_order;        /* Calls, nearest to an output first */
    _Atomic uint64_t rows_queued; /* not offered yet */
    _Atomic bool waits_for_room;  /* some of them because of memory */
    _Atomic uint64_t looks_ns;    /* it looks at its inbox by then, and needs nothing of the host before; 0: no */
    _Atomic uint64_t quiet_for;   /* the word of alone.c in whose round nothing of this shard is out */
};

/* Words of the news that have a worker. */
static inline uint32_t shard_news_words(const struct shard *shard)
{
    return (shard->run->worker_count + 63) / 64;
}

/* ---- shard.c ---- */
int shard_create(struct sheaf_run *run, uint32_t number, struct shard **ret_shard, struct sheaf_error *error);
int shard_start(struct shard *shard);
void shard_stop(struct shard *shard); /* waits for its thread */
void shard_destroy(struct shard *shard);
/* Posts a message and wakes the shard. Any thread. */
void shard_tell(struct shard *shard, struct message *message);
/* The same for what can wait until the shard looks by itself, if it has said that it will. Any thread. */
void shard_tell_in_time(struct shard *shard, struct message *message);
/* Something changed that all shards look at. Any thread. */
void shard_wake_all(const struct sheaf_run *run);

/* Rows for which a READY ring has room, at least: enough for busy workers until the shard looks again, and a batch for
 * each worker of a Pool: from the start on they end theirs at about the same time. */
uint64_t shard_ready_rows(const struct shard *shard);
/* A record told of a batch that ran so long. */
void shard_note_batch(struct shard *shard, uint64_t run_ns);
/* After every lineage event: acts on what its effects collected. */
void shard_settle(struct shard *shard);
/* A message to the host, a result or that the run is to end: it goes at the end of the step. */
void shard_add_message(struct shard *shard, struct message *message);
/* Gives up the run: memory is out, or an internal rule is broken. */
void shard_fail(struct shard *shard, int status, const char *what);

/* ---- admit.c ---- */
void admit_submit(struct shard *shard, struct root *root);
void admit_source(struct shard *shard, struct message_source *message);
/* A row of the root goes out. */
void admit_begun(struct shard *shard, struct root *root);
void admit_step(struct shard *shard); /* starts reads and admits as far as the window allows */
void admit_cancel(struct shard *shard, const char *text);
void admit_complete(struct shard *shard, uint32_t lineage_root); /* makes the result, for the end of the step */
void admit_acknowledge(struct shard *shard, struct root *root);
/* A value of it is damaged: it is begun anew, or fails if it was too often. It is LIVE. */
void admit_again(struct shard *shard, struct root *root);
void admit_leave(struct shard *shard, struct root *root); /* tries to release it; again when a hold went */
struct root *root_of(const struct shard *shard, uint32_t lineage_root);
void root_free(struct root *root);

/* ---- dispatch.c ---- */
/* Makes some more slots, and their descriptors real memory. */
int dispatch_commit_slots(struct shard *shard);
void dispatch_level(struct shard *shard);    /* lets rows move up that were put aside */
uint32_t dispatch_step(struct shard *shard); /* offers rows; returns how many */
void dispatch_publish(struct shard *shard);  /* wakes Pools that got rows; states overflow */
enum lineage_found dispatch_cancel(struct shard *shard, struct grain grain);
/* The live slot that a record or claim names, or NULL: stale or invented. */
struct slot *slot_find(struct shard *shard, uint32_t number_of_slot, uint64_t number);
/* A record for it comes soon: it is fetched into the cache; and once it is there, what it leads to. Any number. */
void slot_prefetch(const struct shard *shard, uint32_t number_of_slot);
void slot_prefetch_row(struct shard *shard, uint32_t number_of_slot);
/* It leaves the set of live claims. Its hold on inputs is released when shard_settle runs. */
void slot_release(struct shard *shard, struct slot *slot);
void slot_release_keeping_hold(struct shard *shard, struct slot *slot);

/* Where the row of a live slot is, as far as its ring knows. */
enum ready_found slot_in_ring(struct shard *shard, const struct slot *slot);
/* Rows of a Call that are not out: queued, to be run apart, or put aside. */
uint32_t dispatch_waiting(const struct shard *shard, uint32_t call);
/* Whether a row that found its ring full could be offered now. */
bool dispatch_has_room(const struct shard *shard);

/* ---- turn.c ---- */
int turn_create(struct shard *shard);
void turn_destroy(struct shard *shard);
void turn_ready(struct shard *shard, struct grain grain);
/* After lineage was told of a row's end, or when it takes one back that was let through. */
void turn_over(struct shard *shard, struct grain grain, bool succeeded);
bool turn_cancel(struct shard *shard, struct grain grain); /* true: it was held back, and is no more */
uint32_t turn_held(const struct shard *shard, uint32_t call);

/* ---- batching.c ---- */
int batching_create(struct shard *shard);
void batching_destroy(struct shard *shard);
void batching_row_ready(struct shard *shard, uint32_t call);
void batching_row_offered(struct shard *shard, struct slot *slot);
void batching_row_weighs(struct shard *shard, uint32_t call, uint64_t bytes);
void batching_children(struct shard *shard, struct slot *slot, uint32_t count);
void batching_claim_over(struct shard *shard, const struct slot *slot);
void batching_answered(struct shard *shard, uint32_t call, uint64_t children);
/* A record that tells of its batch: why it was closed, how long it took. */
void batching_learn(struct shard *shard, const struct slot *slot, const struct completion *record);
/* Before rows are pushed: how many are to be taken at once, and whether to wait. */
void batching_decide(struct shard *shard);
/* After it: what could not be pushed is not waited for. */
void batching_settle(struct shard *shard);
/* Nobody takes a row of this Call yet: one more needs to wake nobody. */
bool batching_waits(const struct shard *shard, uint32_t call);
/* Pools that have no rows here and make rows for Calls of which plenty wait, beside what is out: what their workers end
 * is not urgent, nor that they have nothing to do. Who waits for a gather, or across Domains, is not looked at. */
void batching_ahead(const struct shard *shard, uint64_t ret_ahead[BOARD_POOL_WORDS]);
/* Workers leave this row alone for now, as they are told. */
bool batching_holds(const struct shard *shard, const struct slot *slot);

/* ---- weigh.c ---- */
/* Fills in what a batch Call's row weighs and its shape. */
void weigh_row(struct shard *shard, const struct value_ref *inputs, struct dispatch *dispatch);

/* ---- lists.c ---- */
/* Makes a block for a gathered list; `built` gets what is to be freed with built_free. */
int list_build(struct shard *shard, struct lineage_list list, struct built **built, struct value_ref *ret_ref);
int built_alloc(struct shard *shard, struct built **built, uint64_t bytes, uint64_t *ret_offset);
void built_free(struct shard *shard, struct built *built);

/* Copies a host's list into one page run of a shard's segment. The host's thread. */
int list_copy_in(struct payload *payload, uint32_t shard, const struct sheaf_value *value, struct value_ref *ret_ref);
/* The same for a value that is no list. */
int leaf_copy_in(struct payload *payload, uint32_t shard, const struct sheaf_value *value, struct value_ref *ret_ref);

/* ---- complete.c ---- */
/* Takes in what workers wrote that have news, or all of them, which a worker that spoils the news cannot keep from it;
 * returns the number of records. */
uint32_t complete_step(struct shard *shard, bool all);
/* The next step looks at the worker whether it has news or not. */
void complete_again(struct shard *shard, uint32_t worker);
void complete_drain(struct shard *shard, uint32_t worker);
struct raised_rows *raised_create(void);
void raised_free(struct raised_rows *raised);
/* Gives back the memory of a value that has no reader. */
void value_free(struct shard *shard, const struct value_ref *ref);
/* The worker did what no worker of ours does: it is killed, once. */
void link_kill(struct shard *shard, uint32_t worker, const char *why);
void link_order(struct shard *shard, uint32_t worker, enum control_kind kind, uint32_t segment, uint64_t value);
void link_flush(struct shard *shard, uint32_t worker);
/* A row that was not offered fails: what it would make, this budget could never hold. */
void complete_refuse(struct shard *shard, struct grain grain, uint64_t bytes);
/* What sched says of rows of one Call whose dispatch went wrong, carried out. */
void complete_failed(struct shard *shard, const struct sched_loss *loss, const uint32_t *entities, uint32_t count,
                     const char *text, uint32_t text_bytes, uint64_t elapsed_us);

/* ---- grant.c ---- */
/* What a worker wants and may have; shard 0. True: something is open, and to be looked at in every step. */
bool grant_look(struct shard *shard, uint32_t worker);
/* Memory is being found for somebody: what any worker does may matter. */
bool grant_concerns_all(const struct shard *shard);
/* When to look again although nothing happens: somebody waits and nobody else goes on. */
uint64_t grant_wait_ns(const struct shard *shard);
/* A shard has no room for what a row is to read, and perhaps nothing is out that would make some. */
void grant_press(struct shard *shard);
/* Shard 0, once a round. */
void grant_step(struct shard *shard);
/* It gave a chunk back, or (CONTROL_NO_CHUNK) said that these were all. */
void grant_returned(struct shard *shard, uint32_t worker, uint64_t chunk);
/* It is dead. */
void grant_left(struct shard *shard, uint32_t worker);

/* ---- reserve.c ---- */
/* Bytes that a row of the Grain will make. */
uint64_t reserve_estimate(const struct shard *shard, struct grain grain);
/* Takes that room for a row that is about to be offered. False: it has to wait, unless it must go `at_once`. */
bool reserve_take(struct shard *shard, struct grain grain, uint64_t bytes, bool at_once, struct reservation *ret_taken);
void reserve_end(struct shard *shard, const struct reservation *taken);
/* A worker released a row. True: because it was told to give way. */
bool reserve_gave_way(struct shard *shard, uint32_t worker, struct grain grain);
/* A row of a worker ended for good. */
void reserve_over(struct shard *shard, uint32_t worker, struct grain grain);
/* Whether others could go on if the rows of a worker went back. */
bool reserve_may_give_way(const struct sheaf_run *run, uint32_t worker);

/* ---- move_out.c ---- */
/* Moves values to disk, about so many bytes; returns how many. */
uint64_t move_out(struct shard *shard, uint64_t wanted_bytes);
/* Does so if shard 0 has asked for it. */
void move_out_step(struct shard *shard);

/* ---- recover.c ---- */
void recover_attached(struct shard *shard, const struct message_worker *message);
void recover_retired(struct shard *shard, uint32_t worker);
void recover_death(struct shard *shard, const struct message_worker *message);
/* A row goes back to its queue without blame, and its slot is free. */
void recover_give_back(struct shard *shard, struct slot *slot);

/* ---- alone.c ---- */
/* Once a step, before rows are offered. */
enum alone_says alone_step(struct shard *shard);

/* ---- audit.c ---- */
/* How often to look: a few times a deadline, as the supervisor does (watch.h), but not more than ten times a second. */
uint64_t audit_period_ns(const struct sheaf_run *run);
/* Looks where all rows are, when it is time to; `shard->audit_at_ns` says when the next look is due. */
void audit_step(struct shard *shard);
/* The process that `worker` is now was seen with the row. */
bool audit_seen_with(const struct shard *shard, const struct slot *slot, uint32_t worker);
/* Another process, which still lives, was: whoever else names the row has forged it. */
bool audit_seen_elsewhere(const struct shard *shard, const struct slot *slot, uint32_t worker);
/* A child came of the row: its deadline starts again. */
void audit_restart(struct shard *shard, const struct slot *slot);

/* ---- rebuild.c ---- */
/* Something a worker can write does not check out: the Pool's workers are replaced and its rings made anew. */
void rebuild_want(struct shard *shard, uint32_t pool, const char *why);
/* Whether all rings check out, while no row is out; what does not is made anew. Heads are put back. */
bool rebuild_rings_hold(struct shard *shard);
/* A dead worker was recovered: true if its replacement has to wait (then rebuild.c tells the supervisor). */
bool rebuild_delays(struct shard *shard, uint32_t worker);
/* Looks at rings when a worker reports words that do not check out. */
void rebuild_check_damage(struct shard *shard, uint32_t worker);
/* Ends the claim of a row that may have done damage: it runs once more alone, in the replacement of `worker`, and fails
 * if it comes here again. */
void rebuild_suspect(struct shard *shard, struct slot *slot, uint32_t worker);
/* Heads, which hide rows when they are spoiled, are put back, and the Pool's workers look again. */
void rebuild_show_rows(struct shard *shard, uint32_t pool);

/* ---- recall.c ---- */
/* A worker that has news may be idle. */
void recall_look(struct shard *shard, uint32_t worker);
/* Takes rows from workers that are stuck; returns how many. `ret_wait_ns`: when to look again. */
uint32_t recall_step(struct shard *shard, uint64_t *ret_wait_ns);

/* ---- hold.c ---- */
/* The row of a slot ended on `worker`: true if that worker now has the Entity open and the slot's hold is kept for it.
 */
bool hold_take(struct shard *shard, uint32_t worker, const struct slot *slot);
void hold_evicted(struct shard *shard, uint32_t worker, uint64_t key);
void hold_evict_root(struct shard *shard, struct root *root);
void hold_drop_worker(struct shard *shard, uint32_t worker);
/* Lanes (sched.h) for the Calls that keep state per parent; -ENOMEM. */
int hold_open_lanes(struct shard *shard);
/* The worker that a row is offered to first, or DISPATCH_HOME_ANY. */
uint32_t hold_home(const struct shard *shard, const struct sched_row *row);

/* ---- integrity.c ---- */
/* Whether the inputs of a live slot are what their producers answered; if not, its root is begun anew. */
bool integrity_row(struct shard *shard, const struct slot *slot);
/* Looks at all that a dead worker made. */
void integrity_sweep(struct shard *shard, uint32_t worker);
/* Whether a value is what was answered, or nobody can tell. */
bool integrity_holds(const struct shard *shard, const struct value_ref *ref);

/* ---- counts.c ---- */
/* What must be nothing once every root was acknowledged and every worker has answered. */
struct counts_left {
    uint64_t claims, holds, roots, entities;
};
int counts_create(struct shard *shard);
void counts_destroy(struct shard *shard);
/* The shard's thread: after a step in which something happened, and before the host is told of a root, so that what the
 * host reads then covers that root. */
void counts_publish(struct shard *shard);
/* Something was taken in beside the steps that say so: by a look of the audit. The shard's thread. */
bool counts_are_stale(const struct shard *shard);
/* As published last. Any thread. */
uint64_t counts_entities(const struct shard *shard, uint32_t domain);
void counts_output(const struct shard *shard, uint32_t output, struct lineage_output_counts *ret_counts);
void counts_call(const struct shard *shard, uint32_t call, struct lineage_call_counts *ret_grains,
                 struct call_counts *ret_work); /* either may be NULL */
void counts_left_over(const struct shard *shard, struct counts_left *ret_left);

/* ---- result.c ---- */
/* NULL: memory is out. `ret_damaged`: some value could not be copied as it was answered; its Item says FAILED. */
struct sheaf_result *result_make(struct shard *shard, struct root *root, bool *ret_damaged);
void result_free(struct sheaf_result *result);

#endif
