/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/shard.h"
#include "engine/supervisor.h"

void recover_attached(struct shard *shard, const struct message_worker *message)
{
    struct link *link = &shard->links[message->worker];
    const struct lane *lane = &shard->run->workers[message->worker].lane;
    assert(!link->attached);
    struct spsc_ring completions = lane_completion_ring(lane, shard->number);
    struct spsc_ring control = lane_control_ring(lane, shard->number);
    int result = completion_reader_open(&link->completions, &completions);
    if (result < 0) {
        shard_fail(shard, result, "attaching to a worker");
        return;
    }
    spsc_writer_open(&link->control, &control);
    link->attached = true;
    link->retired = false;
    link->killed = false;
    link->generation = message->generation;
    link->refused = 0;
    link->rows_done = 0;
    link->damaged = 0;
    link->rows_seen = link->free_since_ns = link->stuck_since_ns = 0;
    link->returning = false;
    complete_again(shard, message->worker); /* its news may have been taken before it was attached */
    link_flush(shard, message->worker);
    if (shard->pools[shard->run->workers[message->worker].pool].rebuilding)
        link_kill(shard, message->worker, "its Pool's rings are being made anew");
}

struct recovery {
    struct shard *shard;
    const struct message_worker *death;
    char text[320];
};

/* Innocent: its row was claimed, not running, or runs on a worker that died for another row. */
void recover_give_back(struct shard *shard, struct slot *slot)
{
    if (!slot->unwanted)
        sched_requeue_uncharged(shard->sched, slot->grain);
    slot_release(shard, slot);
    shard_settle(shard);
}

static void give_back_claimed(void *cookie, uint32_t grain, uint64_t number)
{
    struct shard *shard = cookie;
    struct slot *slot = slot_find(shard, grain, number);
    if (slot)
        recover_give_back(shard, slot);
}

static void sweep_rings(struct shard *shard, uint32_t worker)
{
    uint32_t pool = shard->run->workers[worker].pool;
    const struct plan_pool *calls = &shard->plan->pools[pool];
    for (uint32_t i = 0; i < calls->call_count; i++) {
        uint32_t call = shard->plan->pool_calls[calls->call_first + i];
        for (uint32_t ring = 0; ring < BOARD_RINGS; ring++)
            ready_ring_sweep(&shard->rings[(size_t)call * BOARD_RINGS + ring], worker, give_back_claimed, shard);
    }
}

/* A deadline bounds one row, or the one dispatch of a batch operator. */
static bool is_guilty(const struct message_worker *death, const struct plan_call *call, const struct claim_row *row)
{
    if (row->state != CLAIM_RUNNING)
        return death->end == WORKER_STUCK;
    switch (death->end) {
    case WORKER_TIMED_OUT:
        if (call->batch && call->op->slots <= 1)
            return true;
        return row->grain == death->grain && row->number == death->number;
    case WORKER_CRASHED:
    case WORKER_OOM:
    case WORKER_BREACH:
    case WORKER_STUCK:
    case WORKER_STOPPED:
    case WORKER_DEVICE:
        return true;
    default:
        return false;
    }
}

/* Where a first run elsewhere is owed even to a row that was the first to run there. */
static bool is_doubtful(enum worker_end end)
{
    return end == WORKER_BREACH || end == WORKER_STUCK || end == WORKER_STOPPED;
}

/* Rows the process had run: as this shard saw, or as it counted itself, those of other shards and failed ones too. */
static uint32_t rows_before(const struct shard *shard, const struct message_worker *death)
{
    uint64_t seen = shard->links[death->worker].rows_done;
    uint64_t counted = load_relaxed_u64(&shard->run->workers[death->worker].lane.counters->rows_run);
    uint64_t most = seen > counted ? seen : counted;
    return (uint32_t)(most < UINT32_MAX ? most : UINT32_MAX - 1) + is_doubtful(death->end);
}

/* The rows that were RUNNING are the suspects: one for a per-row operator, the batch for a batch operator. `rows_run`
 * counts those that are suppressed by now, too. */
static void charge(struct recovery *recovery, const struct claim_row *rows, uint32_t count, uint32_t rows_run)
{
    static const struct {
        enum sched_event event;
        enum sheaf_class class_id;
    } blame[] = {[WORKER_STOPPED] = {SCHED_CRASHED, SHEAF_CLASS_TIMEOUT},
                 [WORKER_CRASHED] = {SCHED_CRASHED, SHEAF_CLASS_CRASHED},
                 [WORKER_OOM] = {SCHED_CRASHED, SHEAF_CLASS_OOM},
                 [WORKER_BREACH] = {SCHED_CRASHED, SHEAF_CLASS_CONTRACT},
                 [WORKER_STUCK] = {SCHED_CRASHED, SHEAF_CLASS_CONTRACT},
                 [WORKER_DEVICE] = {SCHED_CRASHED, SHEAF_CLASS_GPU},
                 [WORKER_TIMED_OUT] = {SCHED_TIMED_OUT, SHEAF_CLASS_TIMEOUT}};
    struct shard *shard = recovery->shard;
    uint32_t entities[CLAIM_ROWS_MAX], suspects = 0, call = PLAN_NONE;
    uint64_t since_ns = UINT64_MAX;
    bool single = false, in_company = false;
    for (uint32_t i = 0; i < count; i++) {
        struct slot *slot = slot_find(shard, rows[i].grain, rows[i].number);
        if (!slot)
            continue;
        (void)integrity_row(shard, slot); /* damaged inputs are not its fault: then its root goes, and it is unwanted */
        if (slot->unwanted || (suspects > 0 && slot->grain.call != call)) {
            recover_give_back(shard, slot);
            continue;
        }
        call = slot->grain.call;
        entities[suspects++] = slot->grain.entity;
        since_ns = rows[i].since_ns < since_ns ? rows[i].since_ns : since_ns;
        single = slot->single;
        in_company |= !slot->alone;
        slot_release(shard, slot);
    }
    if (suspects == 0)
        return;
    uint64_t now_ns = clock_now_ns();
    /* Where rows run one at a time the page may name more only if it was written over; so it is with a row that was
     * offered as a batch of its own: it must not be split without end. */
    if (single || (!shard->plan->calls[call].batch && shard->plan->calls[call].op->slots <= 1))
        rows_run = suspects;
    /* A row over its deadline is named; of several that were RUNNING in a crash (`slots`) nobody knows. */
    bool known = !shard->plan->calls[call].batch && (rows_run == 1 || recovery->death->end == WORKER_TIMED_OUT);
    struct sched_loss loss = {
        .event = blame[recovery->death->end].event,
        .class_id = blame[recovery->death->end].class_id,
        .call = call,
        .culprit = known ? 0 : SCHED_UNKNOWN,
        .rows_run = rows_run,
        .in_company = in_company && recovery->death->end == WORKER_BREACH,
        /* who did the damage is not known: each suspect gets a run alone first */
        .worker = recovery->death->worker,
        .rows_before = recovery->death->end == WORKER_DEVICE ? 0 : rows_before(shard, recovery->death),
    };
    shard->careful |= recovery->death->end == WORKER_BREACH;
    shard->losses++;
    complete_failed(shard, &loss, entities, suspects, recovery->text, (uint32_t)strlen(recovery->text),
                    since_ns < now_ns ? (now_ns - since_ns) / 1000 : 0);
    shard_settle(shard);
}

/* ---- workers with a device: several batches in flight ---- */

/* The batch goes again as it was, when nothing else is in flight. */
static void isolate(struct recovery *recovery, const struct claim_row *rows, uint32_t count)
{
    struct shard *shard = recovery->shard;
    uint32_t entities[CLAIM_ROWS_MAX], kept = 0, call = PLAN_NONE;
    for (uint32_t i = 0; i < count; i++) {
        struct slot *slot = slot_find(shard, rows[i].grain, rows[i].number);
        if (!slot)
            continue;
        if (slot->unwanted || (kept > 0 && slot->grain.call != call)) {
            recover_give_back(shard, slot);
            continue;
        }
        call = slot->grain.call;
        entities[kept++] = slot->grain.entity;
        slot_release(shard, slot);
    }
    if (kept == 0)
        return;
    sched_isolate(shard->sched, call, entities, kept);
    shard->counts[call].isolated += kept;
    shard_settle(shard);
}

static int compare_starts(const void *left, const void *right)
{
    const struct claim_row *a = left, *b = right;
    return (a->since_ns > b->since_ns) - (a->since_ns < b->since_ns);
}

/* Whether the page names rows that started at another time. */
static bool others_ran(const struct claim_page *page, uint64_t since_ns)
{
    for (uint32_t i = 0; i < page->row_count; i++) {
        struct claim_row row = claim_page_read(page, i);
        if (row.state == CLAIM_RUNNING && row.since_ns != since_ns)
            return true;
    }
    return false;
}

static bool was_isolated(struct shard *shard, const struct claim_row *rows, uint32_t count)
{
    const struct slot *slot = count > 0 ? slot_find(shard, rows[0].grain, rows[0].number) : NULL;
    return slot && slot->batch != 0;
}

/* Rows that started together are one batch. Which of several in flight made the device fail nobody knows, and it may
 * have been none of them: each goes again alone, and only one that fails then is taken apart. What is the device's own
 * fault is no row's. */
static void judge_batches(struct recovery *recovery, struct claim_row *rows, uint32_t count, uint32_t running)
{
    struct shard *shard = recovery->shard;
    const struct message_worker *death = recovery->death;
    const struct claim_page *page = &shard->run->workers[death->worker].lane.claims;
    if (death->end == WORKER_DEVICE && device_fault_is_device(death->fault)) {
        for (uint32_t i = 0; i < count; i++)
            give_back_claimed(shard, rows[i].grain, rows[i].number);
        return;
    }
    if (was_isolated(shard, rows, count)) { /* nothing ran beside it */
        charge(recovery, rows, count, running);
        return;
    }
    bool by_device = death->end == WORKER_DEVICE || (death->end == WORKER_TIMED_OUT && death->on_gpu);
    qsort(rows, count, sizeof *rows, compare_starts);
    for (uint32_t first = 0, next; first < count; first = next) {
        for (next = first + 1; next < count && rows[next].since_ns == rows[first].since_ns;)
            next++;
        if (by_device || others_ran(page, rows[first].since_ns))
            isolate(recovery, &rows[first], next - first);
        else
            charge(recovery, &rows[first], next - first, running);
    }
}

/* Rows are only read: with several shards each takes its own, and the lane is reset as a whole before its next use.
 * True: some row was running. */
static bool sweep_page(struct recovery *recovery)
{
    struct shard *shard = recovery->shard;
    const struct claim_page *page = &shard->run->workers[recovery->death->worker].lane.claims;
    struct claim_row guilty[CLAIM_ROWS_MAX];
    uint32_t guilty_count = 0, running = 0;
    for (uint32_t i = 0; i < page->row_count; i++) {
        struct claim_row row = claim_page_read(page, i);
        running += row.state == CLAIM_RUNNING; /* of other shards too */
        struct slot *slot =
            row.state == CLAIM_FREE || row.state == CLAIM_DAMAGED ? NULL : slot_find(shard, row.grain, row.number);
        if (!slot || audit_seen_elsewhere(shard, slot, recovery->death->worker))
            continue;
        if (row.state == CLAIM_RUNNING)
            lineage_started(shard->lineage, slot->grain);
        if (is_guilty(recovery->death, &shard->plan->calls[slot->grain.call], &row))
            guilty[guilty_count++] = row;
        else
            recover_give_back(shard, slot);
    }
    if (shard->run->workers[recovery->death->worker].on_device)
        judge_batches(recovery, guilty, guilty_count, running);
    else
        charge(recovery, guilty, guilty_count, running);
    return running > 0;
}

/* Rows that it was seen with and that its page does not name any more: it wiped out their traces. */
static bool sweep_seen(struct recovery *recovery)
{
    struct shard *shard = recovery->shard;
    struct claim_row guilty[CLAIM_ROWS_MAX];
    uint32_t guilty_count = 0;
    for (uint32_t i = 0; i < shard->slots_real; i++) {
        struct slot *slot = &shard->slots[i];
        if (!slot->live || !audit_seen_with(shard, slot, recovery->death->worker))
            continue;
        struct claim_row row = {.state = slot->seen_place == SEEN_RUNNING ? CLAIM_RUNNING : CLAIM_CLAIMED,
                                .grain = shard->slot_first + i,
                                .number = slot->number,
                                .since_ns = shard->seen[i].since_ns};
        const struct plan_call *call = &shard->plan->calls[slot->grain.call];
        if (guilty_count < CLAIM_ROWS_MAX && is_guilty(recovery->death, call, &row))
            guilty[guilty_count++] = row;
        else
            recover_give_back(shard, slot);
    }
    charge(recovery, guilty, guilty_count, guilty_count);
    return guilty_count > 0;
}

/* Suspects that wait for a process of that number are offered to any. */
void recover_retired(struct shard *shard, uint32_t worker)
{
    shard->links[worker].retired = true;
    for (uint32_t i = 0; i < shard->slots_real; i++) {
        struct slot *slot = &shard->slots[i];
        uint32_t number = shard->slot_first + i;
        const struct dispatch *described = &shard->board.dispatches.slots[number]; /* only shards can write there */
        if (!slot->live || !(described->flags & DISPATCH_ALONE) || described->home != worker)
            continue;
        struct ready_producer *ring = &shard->rings[(size_t)slot->grain.call * BOARD_RINGS + slot->ring];
        if (ready_ring_cancel(ring, number, slot->number, slot->position) == READY_CANCEL_DONE)
            recover_give_back(shard, slot);
    }
}

/* Over values of others: not one that was stopped, or ended for its memory or its deadline. */
static bool may_have_written(enum worker_end end)
{
    return end == WORKER_CRASHED || end == WORKER_BREACH || end == WORKER_STUCK;
}

/* Rows came to something since the last death under that number. Each row does so a bounded number of times. */
static bool has_moved_on(struct shard *shard, struct link *link)
{
    uint64_t progress = shard->losses;
    for (uint32_t call = 0; call < shard->plan->call_count; call++)
        progress += shard->counts[call].rows + shard->counts[call].raised;
    bool moved_on = progress != link->progress;
    link->progress = progress;
    return moved_on;
}

void recover_death(struct shard *shard, const struct message_worker *message)
{
    struct link *link = &shard->links[message->worker];
    struct recovery recovery = {.shard = shard, .death = message};
    memcpy(recovery.text, message->text, sizeof message->text);
    bool to_blame = false;
    if (link->attached) {
        complete_drain(shard, message->worker);
        sweep_rings(shard, message->worker);
        if (may_have_written(message->end))
            integrity_sweep(shard, message->worker);
        to_blame = sweep_page(&recovery) || link->rows_done > 0;
        to_blame |= sweep_seen(&recovery);
        completion_reader_close(&link->completions);
    }
    link->attached = false;
    grant_left(shard, message->worker);
    link->pending_count = 0;
    hold_drop_worker(shard, message->worker);
    link->death = (struct recovered){.to_blame = to_blame, .moved_on = has_moved_on(shard, link)};
    if (!rebuild_delays(shard, message->worker))
        supervisor_recovered(shard->run->supervisor, message->worker, link->death);
}
