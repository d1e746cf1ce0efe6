/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/sched.h"

#include <assert.h>
#include <errno.h>

#include "sched/rows.h"

static const struct row *row_peek(const struct sched *sched, uint32_t call, uint32_t entity)
{
    return row_at((struct sched *)(uintptr_t)sched, call, entity);
}

int sched_ready(struct sched *sched, struct grain grain)
{
    struct row *row = row_at(sched, grain.call, grain.entity);
    if (!row)
        return -ENOMEM;
    row_reset(row);
    row_append(sched, grain.call, grain.entity, ROW_READY);
    return 0;
}

static bool retry_is_due(const struct sched *sched, uint32_t call, uint64_t now_us)
{
    const struct row_list *retry = &sched->calls[call].retry;
    return retry->count && row_peek(sched, call, retry->first)->due_us <= now_us;
}

/* Opens the isolation batch at the head of its queue: counts its rows. */
static void batch_open(struct sched *sched, uint32_t call)
{
    struct call_queues *queues = &sched->calls[call];
    uint32_t entity = queues->isolation.first;
    queues->batch_open = row_at(sched, call, entity)->batch;
    queues->batch_left = 0;
    queues->isolation_batches++;
    for (; entity != NOBODY && row_at(sched, call, entity)->batch == queues->batch_open;
         entity = row_at(sched, call, entity)->next)
        queues->batch_left++;
}

static void take(struct sched *sched, uint32_t call, uint32_t entity, enum sched_queue queue, struct sched_row *ret_row)
{
    struct row *row = row_at(sched, call, entity);
    struct call_queues *queues = &sched->calls[call];
    uint32_t follower = row->next;
    row_remove(sched, call, row);
    row_out(sched, call, row);
    uint32_t second = follower == NOBODY ? NOBODY : row_at(sched, call, follower)->next;
    if (second != NOBODY)
        __builtin_prefetch(row_at(sched, call, second), 1);
    sched->bulk.taken_since += queue == SCHED_READY;
    *ret_row = (struct sched_row){.grain = {call, entity}, .queue = queue, .attempt = row->attempt};
    ret_row->follower = follower;
    ret_row->worker = NOBODY;
    if (has_lanes(sched, call)) {
        ret_row->worker = queues->first_worker + row->lane;
        if (row->root)
            sched->bulk.roots[row->root - 1].begun = true;
    }
    if (queue != SCHED_ISOLATION)
        return;
    ret_row->batch = row->batch;
    ret_row->batch_left = --queues->batch_left;
    ret_row->fresh_worker = row->alone;
    ret_row->home = row->home;
    if (queues->batch_left == 0)
        queues->batch_open = 0;
}

int sched_next_isolated(struct sched *sched, uint32_t call, struct sched_row *ret_row)
{
    struct call_queues *queues = &sched->calls[call];
    if (!queues->isolation.count)
        return 0;
    if (!queues->batch_open)
        batch_open(sched, call);
    take(sched, call, queues->isolation.first, SCHED_ISOLATION, ret_row);
    return 1;
}

int sched_next(struct sched *sched, uint32_t call, uint64_t now_us, struct sched_row *ret_row)
{
    struct call_queues *queues = &sched->calls[call];
    if (!queues->batch_open && retry_is_due(sched, call, now_us)) {
        take(sched, call, queues->retry.first, SCHED_RETRY, ret_row);
        return 1;
    }
    if (!queues->batch_open && queues->ready_count) {
        take(sched, call, lane_to_serve(queues)->ready.first, SCHED_READY, ret_row);
        return 1;
    }
    return sched_next_isolated(sched, call, ret_row);
}

uint32_t sched_queued(const struct sched *sched, uint32_t call)
{
    return sched->calls[call].ready_count + sched->calls[call].retry.count;
}

uint32_t sched_ready_rows(const struct sched *sched, uint32_t call)
{
    return sched->calls[call].ready_count;
}

bool sched_due(const struct sched *sched, uint32_t call, uint64_t now_us)
{
    const struct call_queues *queues = &sched->calls[call];
    return !queues->batch_open && (queues->ready_count || retry_is_due(sched, call, now_us));
}

uint32_t sched_isolating(const struct sched *sched, uint32_t call)
{
    return sched->calls[call].isolation.count;
}

/* Back-offs of one Call are all equally long, so its retries are in order of their time. */
static uint64_t next_retry_us(const struct sched *sched, uint32_t call, uint64_t after_us)
{
    const struct row_list *retry = &sched->calls[call].retry;
    uint32_t entity = retry->count && row_peek(sched, call, retry->last)->due_us > after_us ? retry->first : NOBODY;
    while (entity != NOBODY && row_peek(sched, call, entity)->due_us <= after_us)
        entity = row_peek(sched, call, entity)->next;
    return entity == NOBODY ? UINT64_MAX : row_peek(sched, call, entity)->due_us;
}

int sched_next_retry_us(const struct sched *sched, uint64_t after_us, uint64_t *ret_us)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t call = 0; call < sched->plan->call_count; call++) {
        uint64_t due = next_retry_us(sched, call, after_us);
        least = due < least ? due : least;
    }
    if (least == UINT64_MAX)
        return 0;
    *ret_us = least;
    return 1;
}

bool sched_cancel(struct sched *sched, struct grain grain)
{
    struct call_queues *queues = &sched->calls[grain.call];
    struct row *row = row_at(sched, grain.call, grain.entity);
    if (row->place == ROW_OUT || row->place == ROW_NOWHERE) {
        row_in(sched, grain.call, row);
        *row = (struct row){0};
        return false;
    }
    if (row->place == ROW_ISOLATION && row->batch == queues->batch_open && --queues->batch_left == 0)
        queues->batch_open = 0;
    row_remove(sched, grain.call, row);
    *row = (struct row){0};
    return true;
}

void sched_done(struct sched *sched, struct grain grain)
{
    struct row *row = row_at(sched, grain.call, grain.entity);
    assert(row->place == ROW_OUT || row->place == ROW_NOWHERE);
    row_in(sched, grain.call, row);
    *row = (struct row){0};
}

void sched_requeue_uncharged(struct sched *sched, struct grain grain)
{
    const struct row *row = row_at(sched, grain.call, grain.entity);
    assert(row->place == ROW_OUT);
    if (row->alone) /* it has not had its run alone */
        row_isolate(sched, grain.call, grain.entity, row_new_batch(sched));
    else
        row_prepend(sched, grain.call, grain.entity, ROW_READY);
}

uint32_t sched_pick(const struct sched *sched, const uint32_t *calls, uint32_t count, uint64_t now_us)
{
    uint32_t best = PLAN_NONE;
    for (uint32_t i = 0; i < count; i++) {
        const struct call_queues *queues = &sched->calls[calls[i]];
        if (!queues->ready_count && !queues->isolation.count && !retry_is_due(sched, calls[i], now_us))
            continue;
        uint32_t priority = sched->plan->calls[calls[i]].priority;
        if (best == PLAN_NONE || priority < sched->plan->calls[best].priority ||
            (priority == sched->plan->calls[best].priority && calls[i] < best))
            best = calls[i];
    }
    return best;
}

uint32_t sched_attempt(const struct sched *sched, struct grain grain)
{
    return row_peek(sched, grain.call, grain.entity)->attempt;
}

void sched_set_claim(struct sched *sched, struct grain grain, uint32_t claim)
{
    row_at(sched, grain.call, grain.entity)->claim = claim;
}

void sched_claim_over(struct sched *sched, struct grain grain, uint32_t claim)
{
    struct row *row = row_at(sched, grain.call, grain.entity);
    if (row->claim == claim)
        row->claim = 0;
}

uint32_t sched_claim(const struct sched *sched, struct grain grain)
{
    return row_peek(sched, grain.call, grain.entity)->claim;
}

void sched_prefetch(const struct sched *sched, struct grain grain)
{
    __builtin_prefetch(row_peek(sched, grain.call, grain.entity), 1);
}

uint64_t sched_isolation_batches(const struct sched *sched, uint32_t call)
{
    return sched->calls[call].isolation_batches;
}

bool sched_may_admit(const struct sched_window *window, uint64_t roots, uint64_t bytes, uint64_t root_bytes)
{
    if (roots == 0)
        return true;
    return roots < window->roots_max && (window->bytes_max == 0 || bytes + root_bytes <= window->bytes_max);
}
