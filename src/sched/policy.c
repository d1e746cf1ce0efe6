/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/policy.h"

#include <math.h>

/* A sample's weight after one more. */
static const double FADE = 0.98;
/* A size is worth a try if the straight line says it costs at most this much more per row than the best known. */
static const double TRY_WITHIN = 1.005;
/* A smaller batch has to be measured better by so much, and by so many times what chance may explain. */
static const double BETTER_BY = 0.98;
static const double SURE_TIMES = 2;
enum {
    TRY_AGAIN_BATCHES = 128, /* tries come at least so many batches apart, once every size was tried */
    TRY_FROM_BATCHES =
        4,             /* and only where so many full batches are READY: elsewhere a smaller one leaves a gap behind */
    MEAN_SAMPLES = 10, /* a mean forgets after about so many */
};
/* What a batch is taken to cost whatever its size, before one was measured: so long a first batch may wait. */
static const double UNKNOWN_FIXED_US = 1e6;

static uint32_t size_number(uint32_t cap, uint32_t index)
{
    static const uint32_t parts[POLICY_SIZES][2] = {{1, 1}, {2, 3}, {1, 2}, {1, 3}, {1, 4}};
    uint64_t rows = (uint64_t)cap * parts[index][0] / parts[index][1];
    return rows ? (uint32_t)rows : 1;
}

/* One more sample of a size. The first ones weigh alike, later ones fade. */
static void learn_size(struct policy_curve *curve, uint32_t index, uint32_t rows, double row_cost)
{
    double *mean = &curve->row_cost_of[index];
    if (curve->size_of[index] != rows)
        curve->samples_of[index] = 0;
    curve->size_of[index] = rows;
    uint32_t samples = ++curve->samples_of[index];
    double weight = samples < MEAN_SAMPLES ? 1.0 / samples : 1.0 / MEAN_SAMPLES;
    if (samples > 1 && *mean > 0) {
        double strays = (row_cost - *mean) / *mean;
        curve->noise_samples += curve->noise_samples < 2 * MEAN_SAMPLES;
        curve->noise += (strays * strays - curve->noise) / curve->noise_samples;
    }
    *mean = samples > 1 ? *mean + (row_cost - *mean) * weight : row_cost;
}

/* The variance of a size's mean, as a part of it. */
static double doubt(const struct policy_curve *curve, uint32_t index)
{
    uint32_t samples = curve->samples_of[index];
    return curve->noise / (samples < 2 * MEAN_SAMPLES ? samples : 2 * MEAN_SAMPLES);
}

/* Is it cheaper than a full batch by more than chance may explain? */
static bool surely_better(const struct policy_curve *curve, uint32_t index)
{
    double margin = SURE_TIMES * sqrt(doubt(curve, index) + doubt(curve, 0));
    return curve->row_cost_of[index] < curve->row_cost_of[0] * fmin(BETTER_BY, 1 - margin);
}

void policy_learn(struct policy_curve *curve, uint32_t rows, uint32_t cap, uint64_t cost_us)
{
    double n = rows, cost = (double)cost_us;
    if (rows == 0)
        return;
    curve->weight = curve->weight * FADE + 1;
    curve->rows = curve->rows * FADE + n;
    curve->rows_squared = curve->rows_squared * FADE + n * n;
    curve->cost = curve->cost * FADE + cost;
    curve->rows_cost = curve->rows_cost * FADE + n * cost;
    if (curve->batches++ == 0 || rows < curve->least_rows)
        curve->least_rows = rows;
    if (rows > curve->most_rows)
        curve->most_rows = rows;
    for (uint32_t i = 0; i < POLICY_SIZES; i++)
        if (size_number(cap, i) == rows)
            learn_size(curve, i, rows, cost / n);
}

bool policy_cost(const struct policy_curve *curve, double *ret_fixed_us, double *ret_row_us)
{
    double spread = curve->weight * curve->rows_squared - curve->rows * curve->rows;
    *ret_fixed_us = 0;
    *ret_row_us = curve->rows > 0 ? curve->cost / curve->rows : 0;
    if (curve->least_rows == curve->most_rows || spread <= 1e-9 * curve->rows * curve->rows)
        return false;
    double row = (curve->weight * curve->rows_cost - curve->rows * curve->cost) / spread;
    double fixed = (curve->cost - row * curve->rows) / curve->weight;
    if (fixed < 0) /* the line through the origin */
        return true;
    if (row < 0) {
        *ret_fixed_us = curve->cost / curve->weight;
        *ret_row_us = 0;
        return true;
    }
    *ret_fixed_us = fixed;
    *ret_row_us = row;
    return true;
}

/* Another look at a size that was measured: at once if it seems better and may not be, later if it was almost as
 * good, for that may have changed. */
static bool look_again(const struct policy_curve *curve, uint32_t index)
{
    if (curve->row_cost_of[index] < curve->row_cost_of[0] * BETTER_BY && !surely_better(curve, index))
        return true;
    return curve->batches % TRY_AGAIN_BATCHES == index * 16 &&
           curve->row_cost_of[index] <= curve->row_cost_of[0] * TRY_WITHIN;
}

/* A size that has not been measured and that the straight line does not rule out; 0: none. */
static uint32_t worth_trying(const struct policy_curve *curve, uint32_t cap)
{
    double fixed, row;
    bool known = policy_cost(curve, &fixed, &row);
    double full = row + fixed / cap;
    for (uint32_t i = 1; i < POLICY_SIZES; i++) {
        uint32_t size = size_number(cap, i);
        bool stale = curve->size_of[i] != size || look_again(curve, i);
        if (stale && size < cap && (!known || row + fixed / size <= full * TRY_WITHIN))
            return size;
    }
    return 0;
}

uint32_t policy_best_rows(const struct policy_curve *curve, uint32_t cap, uint32_t ready)
{
    uint32_t best = 0;
    if (cap < 2 || curve->batches < 4)
        return cap;
    bool time_to_try = curve->batches % (curve->least_rows == curve->most_rows ? 64 : 8) == 0;
    if (time_to_try && ready >= (uint64_t)TRY_FROM_BATCHES * cap) {
        uint32_t size = worth_trying(curve, cap);
        if (size)
            return size;
    }
    if (curve->size_of[0] != cap)
        return cap;
    for (uint32_t i = 1; i < POLICY_SIZES; i++)
        if (curve->size_of[i] == size_number(cap, i) && surely_better(curve, i) &&
            (best == 0 || curve->row_cost_of[i] < curve->row_cost_of[best]))
            best = i;
    return best ? curve->size_of[best] : cap;
}

void policy_resumed(struct policy_arrivals *arrivals, uint64_t now_us)
{
    arrivals->last_us = now_us;
}

void policy_arrived(struct policy_arrivals *arrivals, uint32_t rows, uint64_t now_us)
{
    if (rows == 0)
        return;
    if (arrivals->rows > 0) {
        double gap = (double)(now_us - arrivals->last_us) / rows;
        double weight = rows < 32 ? rows / 32.0 : 1;
        arrivals->gap_us = arrivals->rows == 1 ? gap : arrivals->gap_us * (1 - weight) + gap * weight;
    }
    arrivals->rows += rows;
    arrivals->last_us = now_us;
}

double policy_gap_us(const struct policy_arrivals *arrivals, uint32_t running, uint64_t now_us)
{
    if (arrivals->rows == 0 || now_us <= arrivals->last_us)
        return arrivals->gap_us;
    double since_us = (double)(now_us - arrivals->last_us) / (running ? running : 1);
    return since_us > arrivals->gap_us ? since_us : arrivals->gap_us;
}

/* How many rows all devices together can take if all of them end at `level_us` from now. */
static double rows_until(const struct policy_ask *ask, double level_us, double fixed, double row)
{
    double rows = level_us > fixed ? (level_us - fixed) / row * ask->idle : 0;
    for (uint32_t i = 0; ask->free_in_us && i < ask->free_count; i++)
        if (level_us > ask->free_in_us[i] + fixed)
            rows += (level_us - ask->free_in_us[i] - fixed) / row;
    return rows;
}

/* The share of one idle device in what is left, if all devices are to end together. */
static uint32_t tail_share(const struct policy_curve *curve, const struct policy_ask *ask, double left)
{
    double fixed, row;
    policy_cost(curve, &fixed, &row);
    if (row <= 0) { /* nothing known: evenly */
        fixed = 0;
        row = 1;
    }
    double low = 0, high = fixed + row * left;
    for (int i = 0; i < 50; i++) {
        double middle = (low + high) / 2;
        if (rows_until(ask, middle, fixed, row) < left)
            low = middle;
        else
            high = middle;
    }
    double share = ceil((high - fixed) / row - 1e-6);
    return share < 1 ? 1 : share > ask->cap ? ask->cap : (uint32_t)share;
}

/* Do the missing rows come so fast that a device that idles for them loses less than the fixed cost they save? Of
 * `missing` rows that join this batch, each saves its part of the fixed cost of another. */
static bool waiting_pays(const struct policy_curve *curve, const struct policy_ask *ask, uint32_t size)
{
    double fixed, row;
    if (!policy_cost(curve, &fixed, &row))
        fixed = curve->batches ? row * size / 2 : UNKNOWN_FIXED_US; /* until more is known: half of a batch */
    return ask->gap_us * size < fixed;
}

struct policy_answer policy_decide(const struct policy_curve *curve, const struct policy_ask *ask)
{
    uint32_t size = policy_best_rows(curve, ask->cap, ask->ready);
    double left = (double)ask->ready + ask->coming + ask->held;
    if (!ask->more && left > 0 && left < (double)size * (ask->devices ? ask->devices : 1)) {
        uint32_t share = tail_share(curve, ask, left);
        if (share < size && share <= ask->ready)
            return (struct policy_answer){share, share, POLICY_SPLIT};
        size = share < size ? share : size;
    }
    if (ask->ready >= size)
        return (struct policy_answer){size, size, POLICY_FULL};
    if (ask->coming == 0)
        return (struct policy_answer){ask->ready, size, POLICY_NOTHING_COMING};
    if (ask->ready == 0 || waiting_pays(curve, ask, size))
        return (struct policy_answer){0, size, POLICY_FULL};
    return (struct policy_answer){ask->ready, size, POLICY_NOT_WORTH_WAITING};
}

const char *policy_close_name(enum policy_close close)
{
    static const char *const names[POLICY_CLOSE_COUNT] = {
        "full", "split evenly", "nothing coming", "not worth waiting", "bytes", "shape", "isolation"};
    return (unsigned)close < POLICY_CLOSE_COUNT ? names[close] : "unknown";
}

bool policy_may_pass(uint32_t dial, bool proven, uint32_t in_flight)
{
    return dial == 0 || proven || in_flight < dial;
}
