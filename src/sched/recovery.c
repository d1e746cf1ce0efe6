/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of the rows of a dispatch that raised, crashed its worker or ran over its deadline. */
#include <assert.h>

#include "sched/rows.h"
#include "sched/sched.h"

/* The row is known to be guilty. Its attempts stay readable when it is sealed. */
static enum sched_verdict blame(struct sched *sched, const struct sched_loss *loss, uint32_t entity, uint64_t now_us)
{
    const struct plan_call *call = &sched->plan->calls[loss->call];
    struct row *row = row_at(sched, loss->call, entity);
    bool contract = loss->class_id == SHEAF_CLASS_CONTRACT;
    if (loss->event == SCHED_CRASHED && (loss->in_company || (loss->rows_before > 0 && !row->alone))) {
        /* The damage may be older than the row that shows it: once more, alone, in a fresh worker. */
        row->alone = true;
        row->home = (uint16_t)loss->worker;
        row_isolate(sched, loss->call, entity, row_new_batch(sched));
        return SCHED_ISOLATING;
    }
    if (!contract && call->recovery == SHEAF_RECOVERY_RETRY && row->attempt < call->retries) {
        row->attempt++;
        row->alone = false; /* its next attempt may meet a damaged worker, too */
        row->due_us = now_us + (uint64_t)call->backoff_ms * 1000;
        row_append(sched, loss->call, entity, ROW_RETRY);
        return SCHED_RETRIED;
    }
    row_in(sched, loss->call, row);
    return !contract && call->recovery == SHEAF_RECOVERY_ABORT ? SCHED_SEAL_ABORT : SCHED_SEAL_FAILED;
}

/* Several rows were RUNNING at once (`slots`): each once more, alone. */
static void isolate_each(struct sched *sched, const struct sched_loss *loss, const uint32_t *entities, uint32_t count,
                         enum sched_verdict *ret_verdicts)
{
    for (uint32_t i = 0; i < count; i++) {
        struct row *row = row_at(sched, loss->call, entities[i]);
        row->alone = loss->event == SCHED_CRASHED;
        row->home = (uint16_t)loss->worker;
        row_isolate(sched, loss->call, entities[i], row_new_batch(sched));
        ret_verdicts[i] = SCHED_ISOLATING;
    }
}

static void bisect(struct sched *sched, uint32_t call, const uint32_t *entities, uint32_t count,
                   enum sched_verdict *ret_verdicts)
{
    uint32_t batch = row_new_batch(sched), half = (count + 1) / 2;
    for (uint32_t i = 0; i < count; i++) {
        if (i == half)
            batch = row_new_batch(sched);
        row_isolate(sched, call, entities[i], batch);
        ret_verdicts[i] = SCHED_ISOLATING;
    }
}

int sched_failed(struct sched *sched, const struct sched_loss *loss, const uint32_t *entities, uint32_t count,
                 uint64_t now_us, enum sched_verdict *ret_verdicts)
{
    bool whole = sched->plan->calls[loss->call].batch && loss->culprit == SCHED_UNKNOWN;
    for (uint32_t i = 0; i < count; i++)
        assert(row_at(sched, loss->call, entities[i])->place == ROW_OUT);
    /* A row left over from a dispatch of several was not alone: the culprit may be one that is suppressed by now. */
    if (whole && (count > 1 || loss->rows_run > 1)) {
        bisect(sched, loss->call, entities, count, ret_verdicts);
        return 0;
    }
    if (loss->culprit == SCHED_UNKNOWN && !whole && loss->rows_run > 1) {
        isolate_each(sched, loss, entities, count, ret_verdicts);
        return 0;
    }
    uint32_t culprit = whole ? 0 : loss->culprit;
    for (uint32_t i = count; i-- > 0;) {
        if (i == culprit) {
            ret_verdicts[i] = blame(sched, loss, entities[i], now_us);
        } else {
            row_prepend(sched, loss->call, entities[i], ROW_READY);
            ret_verdicts[i] = SCHED_REQUEUED;
        }
    }
    return 0;
}

void sched_isolate(struct sched *sched, uint32_t call, const uint32_t *entities, uint32_t count)
{
    uint32_t batch = row_new_batch(sched);
    for (uint32_t i = 0; i < count; i++) {
        assert(row_at(sched, call, entities[i])->place == ROW_OUT);
        row_isolate(sched, call, entities[i], batch);
    }
}
