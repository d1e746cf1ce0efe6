/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A board: the two segments through which one shard offers work to all workers.
 *
 * `open` is written by the workers too: slots and heads of the ready rings, the event counts. `notice` is written by
 * the shard and mapped read-only by workers: tails and epochs, the words `ready`, `coming`, `go` and `overflow` of each
 * Call, when the shard looks by itself, and the dispatch table. `notice` begins with a header, from which every process
 * computes the same layout.
 *
 * A worker parks on ONE event count: that of its Pool. With several shards it is the one in the board of shard 0, which
 * all shards and the supervisor bump. Each shard sleeps on the `shard` event count of its own board, which workers bump
 * after they committed records, when they want memory, and when they find a ring empty while its `overflow` is set.
 * Which workers have written something stands in `news`, one bit each, so that a shard that wakes looks at those only.
 */
#ifndef SHM_BOARD_H
#define SHM_BOARD_H

#include "shm/dispatch.h"
#include "shm/event_count.h"
#include "shm/ready_ring.h"
#include "shm/segment.h"

#define BOARD_MAGIC UINT64_C(0x3164726f62666873) /* "shfbord1" */
#define BOARD_VERSION 3u
#define BOARD_CALLS_MAX 1024u
#define BOARD_POOLS_MAX 256u
#define BOARD_NEWS_WORDS (READY_RING_WORKERS_MAX / 64)
#define BOARD_POOL_WORDS (BOARD_POOLS_MAX / 64) /* a bit for each Pool */

/* The rings of a Call, in the order in which a worker serves them. */
enum board_ring { BOARD_RETRY, BOARD_READY, BOARD_ISOLATION, BOARD_RINGS };

struct board_shape {
    uint32_t shard;
    uint32_t call_count;
    uint32_t pool_count;
    uint32_t ring_capacity[BOARD_RINGS]; /* of each ring of every Call: powers of two */
    uint32_t dispatch_capacity;          /* Grains that can be described at once: g is below it */
    uint32_t reserved;
};

struct board_header {
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;
    struct board_shape shape;
    uint64_t open_bytes;
    uint64_t notice_bytes;
};
static_assert(sizeof(struct board_header) == 64,
              "part of the shared layout, without holes: headers are compared whole");

/* Why a batch has no more rows than it has: said by `go`, and by the worker with the batch. */
enum batch_close {
    BATCH_OPEN, /* go: leave fewer than batch_rows alone */
    BATCH_FULL,
    BATCH_SPLIT,
    BATCH_NOTHING_COMING,
    BATCH_NOT_WORTH_WAITING,
    BATCH_BYTES,
    BATCH_SHAPE,
    BATCH_ISOLATION,
    BATCH_CLOSES
};

/* What the shard says about a Call. Relaxed hints, except that the shard stores `overflow` before it parks. */
struct board_call {
    shared_u32 ready;      /* rows queued by the shard or offered in the rings, running ones included */
    shared_u32 coming;     /* batch Calls, when last decided: rows of upstream Grains on their way here */
    shared_u32 go;         /* batch Calls: enum batch_close, why fewer than batch_rows may be taken now */
    shared_u32 overflow;   /* 1: work waits for room in a ring: who finds it empty bumps the shard */
    shared_u32 batch_rows; /* how many rows to take at once now; 0: the plan's, or fewer */
    uint32_t reserved[27];
};
static_assert(sizeof(struct board_call) == FALSE_SHARING_BYTES, "part of the shared layout");

/* What the shard says of itself. */
struct board_shard {
    shared_u64 looks_ns; /* it looks at the news by itself no later than then (CLOCK_MONOTONIC); 0: only when bumped */
    shared_u64 ahead[BOARD_POOL_WORDS]; /* Pools that are ahead of those they work for (board_promise) */
    uint64_t reserved[11];
};
static_assert(sizeof(struct board_shard) == FALSE_SHARING_BYTES, "part of the shared layout");

struct board_layout {
    uint64_t shard_events_at, news_at, pool_events_at, slots_at; /* in open */
    uint64_t slots_stride[BOARD_RINGS];                          /* bytes of one ring of each kind */
    uint64_t call_stride;                                        /* bytes of all rings of one Call */
    uint64_t open_bytes;
    uint64_t shard_at, calls_at, rings_at, dispatches_at; /* in notice */
    uint64_t notice_bytes;
};

struct board {
    struct segment open;
    struct segment notice;
    struct board_shape shape;
    struct board_layout layout;
    struct dispatch_table dispatches;
    struct board_shard *shard;
    struct board_call *calls;
    struct event_count *shard_events;
    struct event_count *pool_events; /* pool_count of them */
    shared_u64 *news;                /* BOARD_NEWS_WORDS: bit w % 64 of word w / 64 is worker w's */
};

static inline bool board_pool_is_in(const uint64_t *pools, uint32_t pool)
{
    return (pools[pool / 64] >> pool % 64 & 1) != 0;
}

static inline void board_pool_add(uint64_t *pools, uint32_t pool)
{
    pools[pool / 64] |= UINT64_C(1) << pool % 64;
}

/* Where things lie. -EINVAL: a shape that cannot be. */
int board_plan(const struct board_shape *shape, struct board_layout *ret_layout);

/*
 * The shard: make both segments, on a NUMA node if it can be had (SEGMENT_ANY_NODE: anywhere). Rings and words are
 * committed at once, the dispatch table by board_commit_dispatches. -EINVAL, -ENOMEM, -ENOSPC, -EMFILE. The rings still
 * want ready_producer_open.
 */
int board_create(const struct board_shape *shape, int node, struct board *ret_board);

/* The shard: make the slots of grains below `grain_count` usable (rounded up; a large table in huge pages). Idempotent.
 * -ENOSPC, -ENOMEM, -ERANGE.
 */
int board_commit_dispatches(const struct board *board, uint32_t grain_count);

/* A worker: map what came by descriptor; owned by the board from success on. -EBADMSG: not of this version or damaged.
 */
int board_attach(int open_descriptor, int notice_descriptor, struct board *ret_board);

void board_release(struct board *board);

/* A worker, N1: the shard is to look at it: after it has published what there is to see (C6), before it bumps. */
void board_add_news(const struct board *board, uint32_t worker);

/* The shard, N2: the bits of one word, which are cleared; before it looks at those workers. */
uint64_t board_take_news(const struct board *board, uint32_t word);

/* Whether there is a bit in the first so many words: the shard's look before it parks. */
bool board_has_news(const struct board *board, uint32_t words);

/*
 * N3, the shard, before it announces its sleep: until when it sleeps at most; 0: until it is bumped. A worker that has
 * added news and goes on with more work need not bump a shard that has promised to look (board_promised). It bumps
 * before it sleeps, unless its Pool is `ahead` (BOARD_POOL_WORDS words): there is nothing for it,
 * and of the rows that it makes plenty wait.
 */
void board_promise(const struct board *board, uint64_t looks_ns, const uint64_t *ahead);

/* A worker, after board_add_news: whether the shard looks by itself after `now_ns`, so that who goes on need not bump
 * it; or, with `pool`, who goes to sleep there. */
bool board_promised(const struct board *board, uint64_t now_ns);
bool board_promised_pool(const struct board *board, uint64_t now_ns, uint32_t pool);

/* The view of one ring; `call` and `kind` in bounds (asserted). */
struct ready_ring board_ring(const struct board *board, uint32_t call, enum board_ring kind);

#endif
