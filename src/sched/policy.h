/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batch policy: how many rows an idle device takes now, or whether it waits with nothing claimed. Pure decisions over
 * numbers; there is no timer, and no way to wait for ever: a device waits only while rows are *coming*, that is rows of
 * upstream Grains which run now, or which are READY with an idle worker of another process, and which nothing blocks.
 * Whoever counts `ready` and `coming` asks again whenever either changes.
 *
 *   - Take what is READY, at most a batch.
 *   - Wait while the rows still missing come so fast that the idle time costs less than the fixed cost a fuller batch
 *     saves.
 *   - When nothing more will come, what is left is split so that all devices end together instead of filling one.
 *   - The cost of a batch of n is measured per Call. Mostly it is fixed + per row; where a smaller batch is measured to
 *     be cheaper per row than a full one, that size is taken.
 *   - The isolation dial bounds how many siblings of one unproven parent are in flight before the first succeeds.
 *
 * Time is in microseconds and comes from the caller. The engine's shard calls this before it publishes `ready`,
 * `coming`, `go` and `batch_rows` of a Call; the simulator calls it when a device is idle. One thread per Call.
 */
#ifndef SRC_SCHED_POLICY_H
#define SRC_SCHED_POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* ---- the cost curve of one Call ---- */

enum { POLICY_SIZES = 5 }; /* sizes that are compared: all, 2/3, 1/2, 1/3 and 1/4 of a batch */

/* Zeroed at the start. Old samples fade. */
struct policy_curve {
    double weight, rows, rows_squared, cost, rows_cost; /* sums of a regression of cost over rows */
    uint32_t size_of[POLICY_SIZES];                     /* the size measured, 0: not yet */
    double row_cost_of[POLICY_SIZES];                   /* what a row of it cost in the mean of the last ones ... */
    uint32_t samples_of[POLICY_SIZES];                  /* ... of so many */
    double noise; /* how far single batches stray from the mean of their size: the square, as a part of the mean ... */
    uint32_t noise_samples; /* ... of so many, at most those that a mean remembers */
    uint64_t batches;
    uint32_t least_rows, most_rows; /* of the sizes seen */
};

/* A batch of `rows` took `cost_us`. `cap`: the largest batch of the Call. */
void policy_learn(struct policy_curve *curve, uint32_t rows, uint32_t cap, uint64_t cost_us);
/* False: only one size has been seen, and all of it is called `row_us`. */
bool policy_cost(const struct policy_curve *curve, double *ret_fixed_us, double *ret_row_us);
/* The size of batch to go for with `ready` rows READY: the cheapest per row that is known beyond doubt, or now and
 * then, where rows are plenty, one worth knowing. */
uint32_t policy_best_rows(const struct policy_curve *curve, uint32_t cap, uint32_t ready);

/* ---- arrivals of one Call ---- */

/* Zeroed at the start. The mean gap between rows that become READY. */
struct policy_arrivals {
    uint64_t last_us;
    double gap_us;
    uint64_t rows;
};

void policy_arrived(struct policy_arrivals *arrivals, uint32_t rows, uint64_t now_us);
/* Something upstream began to run after nothing did: the pause says nothing about gaps. */
void policy_resumed(struct policy_arrivals *arrivals, uint64_t now_us);
/* The gap to expect now: the mean, or more when none of the `running` rows that make them has come for longer. */
double policy_gap_us(const struct policy_arrivals *arrivals, uint32_t running, uint64_t now_us);

/* ---- the decision ---- */

/* Why a batch has no more rows than it has. The last three are not decided here: its next row would have made it too
 * large in bytes, the rows that wait are of other shapes, it was put together to find a culprit. */
enum policy_close {
    POLICY_FULL,
    POLICY_SPLIT,
    POLICY_NOTHING_COMING,
    POLICY_NOT_WORTH_WAITING,
    POLICY_BYTES,
    POLICY_SHAPE,
    POLICY_ISOLATION,
    POLICY_CLOSE_COUNT
};

struct policy_ask {
    uint32_t ready;   /* rows READY now */
    uint32_t coming;  /* rows on their way, by the definition above */
    uint32_t held;    /* rows that the isolation dial holds back: they count for the tail, nobody waits for them */
    uint32_t cap;     /* largest batch */
    uint32_t idle;    /* devices that could take a batch of this Call now, the asking one too */
    uint32_t devices; /* all that serve the Call */
    bool more;        /* rows may follow that are not coming yet: an open source, roots not admitted, work further up */
    double gap_us;    /* between rows that arrive */
    /* For the tail, or NULL: when each of the devices that are busy is expected to be free, from now. */
    const double *free_in_us;
    uint32_t free_count;
};

struct policy_answer {
    uint32_t rows;           /* 0: wait ... */
    uint32_t wanted;         /* ... until so many are READY, or it is asked again; else as many as it might have been */
    enum policy_close close; /* why no more than these */
};

struct policy_answer policy_decide(const struct policy_curve *curve, const struct policy_ask *ask);

const char *policy_close_name(enum policy_close close);

/* ---- isolation ---- */

/* May one more row of a parent be let to the devices? `in_flight`: siblings let through and not over. `dial` 0: off. */
bool policy_may_pass(uint32_t dial, bool proven, uint32_t in_flight);

#endif
