/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's own record of the rows that are out, so that no worker can keep one for ever by what it writes into
 * memory that it can write. A worker's claim page says which rows it has, since when, and whether they wait; all of
 * that may be forged. So a few times a deadline, as the supervisor does, each shard looks where its rows are and keeps,
 * by its own clock, since when each is there. Honest workers pass unnoticed: the supervisor ends them by their pages
 * long before these bounds.
 *
 *   a row that is in no slot, in no page and, after a drain, in no ring   the Pool's rings are made anew (rebuild.c)
 *   a row that two pages name                                             the same
 *   a row that was claimed and stays half claimed                         the same
 *   a row RUNNING beyond twice its deadline                               its worker is killed: `timeout`
 *   a worker that has rows and runs none of them                          it is killed
 *   rows that wait while a worker that may take them has none             heads are put back, then it is killed
 *   an Entity that a worker does not give up when told to                 it is killed
 *   a worker that has no rows and does not say what memory it gives back  it is killed
 *
 * A row that waits for memory is excused as long as somebody else can go on; time without a core does not count
 * (watch.h).
 */
#include <stdlib.h>

#include "engine/shard.h"
#include "engine/supervisor.h"
#include "engine/watch.h"

#define PERIOD_NS_MIN UINT64_C(100000000)
#define SHOW_NS UINT64_C(500000000)
#define GRACE_NS UINT64_C(1000000000) /* an honest worker that the system does not let run is not to be hit */

/* By the engine's clock: what no honest row with that deadline needs in one place. */
static uint64_t bound_of(uint32_t timeout_ms)
{
    return GRACE_NS + 2 * UINT64_C(1000000) * timeout_ms;
}

static uint64_t row_bound(const struct shard *shard, uint32_t call)
{
    return bound_of(run_timeout_ms(shard->run, &shard->plan->calls[call]));
}

/* Of whatever a worker may be running first. */
static uint64_t longest_bound(const struct shard *shard)
{
    uint32_t longest_ms = 0;
    for (uint32_t call = 0; call < shard->plan->call_count; call++) {
        uint32_t timeout_ms = run_timeout_ms(shard->run, &shard->plan->calls[call]);
        longest_ms = timeout_ms > longest_ms ? timeout_ms : longest_ms;
    }
    return bound_of(longest_ms);
}

static struct claim_page const *page_of(const struct shard *shard, uint32_t worker)
{
    return &shard->run->workers[worker].lane.claims;
}

static uint32_t pool_of(const struct shard *shard, const struct slot *slot)
{
    return shard->plan->calls[slot->grain.call].pool;
}

static uint64_t worker_waited_ns(const struct shard *shard, uint32_t worker)
{
    return atomic_load_explicit(&shard->run->workers[worker].waited_ns, memory_order_relaxed);
}

/* What one look at everything finds. */
struct look {
    struct shard *shard;
    uint64_t now_ns, longest_ns; /* longest_bound */
};

/* What this audit and those before it saw of a row; at first nothing. */
static struct seen *seen_of(struct shard *shard, struct slot *slot)
{
    struct seen *seen = &shard->seen[slot - shard->slots];
    if (!slot->audited)
        *seen = (struct seen){0};
    slot->audited = true;
    return seen;
}

static bool over(struct shard *shard, struct slot *slot, uint64_t now_ns)
{
    const struct seen *seen = seen_of(shard, slot);
    uint64_t waited_ns = slot->seen_place == SEEN_RUNNING ? worker_waited_ns(shard, slot->seen_worker) : 0;
    waited_ns -= waited_ns < seen->waited_ns ? waited_ns : seen->waited_ns;
    return watch_own_ns(now_ns - seen->since_ns, waited_ns) > row_bound(shard, slot->grain.call);
}

static struct seen *see(const struct look *look, struct slot *slot, enum seen_place place, uint32_t worker,
                        uint32_t generation)
{
    struct seen *seen = seen_of(look->shard, slot);
    if (slot->seen_place != place || seen->since_ns == 0)
        seen->since_ns = look->now_ns;
    slot->seen_place = (uint8_t)(place & 7);
    slot->seen_worker = (uint16_t)worker;
    slot->seen_generation = generation;
    seen->missing = false;
    return seen;
}

void audit_restart(struct shard *shard, const struct slot *slot)
{
    if (slot->audited)
        shard->seen[slot - shard->slots].since_ns = 0;
}

bool audit_seen_with(const struct shard *shard, const struct slot *slot, uint32_t worker)
{
    return (slot->seen_place == SEEN_CLAIMED || slot->seen_place == SEEN_RUNNING) && slot->seen_worker == worker &&
           slot->seen_generation == shard->links[worker].generation;
}

/* Some process other than `worker` that still lives was seen with the row: it cannot have gone from one to the other.
 */
bool audit_seen_elsewhere(const struct shard *shard, const struct slot *slot, uint32_t worker)
{
    return slot->seen_worker != worker && shard->links[slot->seen_worker].attached &&
           audit_seen_with(shard, slot, slot->seen_worker);
}

/* ---- what the pages say ---- */

/* Whether a page row is one that is out: of this shard, or by the descriptor of another. */
static bool is_ours(struct shard *shard, const struct claim_row *row)
{
    const struct sheaf_run *run = shard->run;
    struct dispatch_glance glance;
    if (row->grain / run->slots_per_shard == shard->number)
        return slot_find(shard, row->grain, row->number) != NULL;
    return run_glance(run, row, &glance);
}

/* Some worker but `but` has a row that runs and waits for nothing. */
static bool another_runs(struct shard *shard, uint32_t but)
{
    for (uint32_t worker = 0; worker < shard->run->worker_count; worker++) {
        const struct claim_page *page = page_of(shard, worker);
        for (uint32_t i = 0; i < page->row_count && worker != but && shard->links[worker].attached; i++) {
            struct claim_row row = claim_page_read(page, i);
            if (row.state == CLAIM_RUNNING && !row.blocked && is_ours(shard, &row))
                return true;
        }
    }
    return false;
}

/* Some worker but `but` has no rows, and was asked for memory: it answers, or is ended (judge_returns). */
static bool another_owes(const struct shard *shard, uint32_t but)
{
    for (uint32_t worker = 0; worker < shard->run->worker_count; worker++) {
        if (worker != but && shard->links[worker].attached && shard->links[worker].free_since_ns != 0 &&
            atomic_load_explicit(&shard->run->workers[worker].owes_memory, memory_order_relaxed))
            return true;
    }
    return false;
}

/* A row says that it waits for memory. It may, while somebody can go on, or has yet to say what is left, or the host
 * has results that hold some. */
static bool may_wait(struct shard *shard, uint32_t worker)
{
    return atomic_load_explicit(&shard->run->results_out, memory_order_relaxed) > 0 || another_runs(shard, worker) ||
           another_owes(shard, worker);
}

static void see_row(struct look *look, uint32_t worker, const struct claim_row *row)
{
    struct shard *shard = look->shard;
    struct slot *slot = slot_find(shard, row->grain, row->number);
    struct link *link = &shard->links[worker];
    link->seen_rows = true;
    link->seen_running |= row->state == CLAIM_RUNNING;
    if (!slot || pool_of(shard, slot) != shard->run->workers[worker].pool)
        return;
    if (audit_seen_elsewhere(shard, slot, worker)) {
        rebuild_want(shard, pool_of(shard, slot), "two claim pages name one row");
        return;
    }
    enum seen_place place = row->state == CLAIM_RUNNING ? SEEN_RUNNING : SEEN_CLAIMED;
    struct seen *seen = see(look, slot, place, worker, link->generation);
    seen->audit = shard->audits;
    if (row->state != CLAIM_RUNNING)
        return;
    if (row->blocked && may_wait(shard, worker))
        seen->since_ns = look->now_ns;
    if (seen->since_ns == look->now_ns)
        seen->waited_ns = worker_waited_ns(shard, worker);
    else if (over(shard, slot, look->now_ns))
        supervisor_time_out(shard->run->supervisor, worker, link->generation, row->grain, row->number,
                            run_timeout_ms(shard->run, &shard->plan->calls[slot->grain.call]));
}

static void see_page(struct look *look, uint32_t worker)
{
    struct shard *shard = look->shard;
    struct link *link = &shard->links[worker];
    const struct claim_page *page = page_of(shard, worker);
    link->seen_rows = link->rows_done != link->rows_seen; /* between two looks */
    link->rows_seen = link->rows_done;
    link->seen_running = link->seen_rows;
    for (uint32_t i = 0; i < page->row_count && link->attached; i++) {
        struct claim_row row = claim_page_read(page, i);
        if (row.state != CLAIM_FREE && row.state != CLAIM_DAMAGED)
            see_row(look, worker, &row);
    }
    if (link->seen_rows || link->free_since_ns == 0)
        link->free_since_ns = link->seen_rows ? 0 : look->now_ns;
    shard->pools[shard->run->workers[worker].pool].some_free |= link->free_since_ns != 0;
    if (!link->seen_rows || link->seen_running)
        link->stuck_since_ns = 0;
    else if (link->stuck_since_ns == 0)
        link->stuck_since_ns = look->now_ns;
}

/* ---- rows that no page names ---- */

/* In no slot, in no page: after everything answered was taken in, it must have left the set of live claims. The order
 * matters: a row goes from slot to page to ring. */
static bool is_lost(struct shard *shard, struct slot *slot)
{
    const struct sheaf_run *run = shard->run;
    uint32_t number_of_slot = shard->slot_first + (uint32_t)(slot - shard->slots), pool = pool_of(shard, slot);
    uint64_t number = slot->number;
    if (slot_in_ring(shard, slot) != READY_GONE)
        return false;
    for (uint32_t i = 0; i < run->pool_count[pool]; i++) {
        if (claim_page_find(page_of(shard, run->pool_first[pool] + i), number_of_slot, number) != CLAIM_ROW_NONE)
            return false;
    }
    for (uint32_t i = 0; i < run->pool_count[pool]; i++)
        complete_drain(shard, run->pool_first[pool] + i);
    return slot->live && slot->number == number;
}

/* Lost only when it was nowhere the last time, too: a worker that ended the row may have been attached since, and only
 * then is its ring drained. */
static void see_missing(struct shard *shard, struct slot *slot)
{
    if (!is_lost(shard, slot))
        return;
    struct seen *seen = seen_of(shard, slot);
    if (seen->missing)
        rebuild_want(shard, pool_of(shard, slot), "a row that was offered is nowhere");
    else
        seen->missing = true;
}

static void see_slot(struct look *look, struct slot *slot)
{
    struct shard *shard = look->shard;
    switch (slot_in_ring(shard, slot)) {
    case READY_WAITING:
        see(look, slot, SEEN_WAITING, 0, 0);
        break;
    case READY_TAKEN:
        see(look, slot, SEEN_TAKEN, 0, 0);
        if (over(shard, slot, look->now_ns))
            rebuild_want(shard, pool_of(shard, slot), "a row stays half claimed");
        break;
    default:
        if (seen_of(shard, slot)->audit != shard->audits)
            see_missing(shard, slot);
        break;
    }
}

/* ---- workers that do not work ---- */

/* Whether a worker that may take the row has had nothing for so long. */
static bool stands_free(const struct look *look, const struct slot *slot, uint32_t worker, uint64_t free_ns)
{
    const struct shard *shard = look->shard;
    const struct link *link = &shard->links[worker];
    uint32_t home = shard->board.dispatches.slots[shard->slot_first + (uint32_t)(slot - shard->slots)].home;
    return link->attached && !link->killed && (home == DISPATCH_HOME_ANY || home == worker) &&
           link->free_since_ns != 0 && look->now_ns - link->free_since_ns > free_ns;
}

/* A spoiled head hides rows; who does not take them when they are shown is ended. */
static void judge_waiting(struct look *look, struct slot *slot)
{
    struct shard *shard = look->shard;
    const struct sheaf_run *run = shard->run;
    uint64_t waits_ns = look->now_ns - seen_of(shard, slot)->since_ns;
    uint32_t pool = pool_of(shard, slot);
    if (waits_ns <= SHOW_NS || !shard->pools[pool].some_free)
        return;
    for (uint32_t i = 0; i < run->pool_count[pool]; i++) {
        uint32_t worker = run->pool_first[pool] + i;
        if (stands_free(look, slot, worker, SHOW_NS))
            rebuild_show_rows(shard, pool);
        if (waits_ns > look->longest_ns && stands_free(look, slot, worker, look->longest_ns))
            supervisor_end_idle(run->supervisor, worker, shard->links[worker].generation, look->longest_ns);
    }
}

static void judge(struct look *look, struct slot *slot)
{
    struct shard *shard = look->shard;
    uint32_t worker = slot->seen_worker;
    const struct link *link = &shard->links[worker];
    if (slot->seen_place == SEEN_WAITING && batching_holds(shard, slot))
        seen_of(shard, slot)->since_ns = look->now_ns; /* nobody is to take it yet */
    else if (slot->seen_place == SEEN_WAITING)
        judge_waiting(look, slot);
    else if (slot->seen_place == SEEN_CLAIMED && audit_seen_with(shard, slot, worker) && link->stuck_since_ns != 0 &&
             look->now_ns - link->stuck_since_ns > look->longest_ns)
        supervisor_end_stuck(shard->run->supervisor, worker, link->generation);
}

/* An Entity that it was told to give up must come back, for the root's memory waits for it. */
static void judge_holds(struct look *look)
{
    struct shard *shard = look->shard;
    for (uint32_t i = 0; i < shard->hold_count; i++) {
        struct hold *hold = &shard->holds[i];
        if (!hold->used || !hold->evicting)
            continue;
        if (hold->evicting_since_ns == 0)
            hold->evicting_since_ns = look->now_ns;
        else if (look->now_ns - hold->evicting_since_ns > look->longest_ns)
            supervisor_end_idle(shard->run->supervisor, hold->worker, shard->links[hold->worker].generation,
                                look->longest_ns);
    }
}

/* Somebody's memory waits for the answer. Who has rows is judged by them. */
static void judge_returns(struct look *look)
{
    struct shard *shard = look->shard;
    for (uint32_t worker = 0; worker < shard->run->worker_count; worker++) {
        const struct link *link = &shard->links[worker];
        if (link->attached && !link->killed && link->returning && link->free_since_ns != 0 &&
            look->now_ns - link->free_since_ns > look->longest_ns &&
            look->now_ns - link->returning_since_ns > look->longest_ns)
            supervisor_end_idle(shard->run->supervisor, worker, link->generation, look->longest_ns);
    }
}

/* ---- all of it ---- */

static bool has_work(const struct shard *shard)
{
    bool returning = false;
    for (uint32_t worker = 0; worker < shard->run->worker_count; worker++)
        returning |= shard->links[worker].returning;
    return shard->slot_used > 0 || shard->hold_used > 0 || returning;
}

static bool is_open(const struct shard *shard, const struct slot *slot)
{
    return slot->live && !shard->pools[pool_of(shard, slot)].rebuilding;
}

uint64_t audit_period_ns(const struct sheaf_run *run)
{
    const char *forced = getenv("SHEAF_AUDIT_MS"); /* for tests: 0 looks at every step */
    if (forced)
        return strtoul(forced, NULL, 10) * UINT64_C(1000000);
    uint64_t period_ns = watch_thorough_ticks(run) * (uint64_t)watch_period_ms(run) * 1000000;
    return period_ns < PERIOD_NS_MIN ? PERIOD_NS_MIN : period_ns;
}

void audit_step(struct shard *shard)
{
    uint64_t now_ns = clock_now_ns();
    if (now_ns < shard->audit_at_ns)
        return;
    shard->audit_at_ns = now_ns + shard->audit_period_ns;
    if (!has_work(shard))
        return;
    struct look look = {.shard = shard, .now_ns = now_ns, .longest_ns = longest_bound(shard)};
    shard->audits++;
    complete_step(shard, true);
    for (uint32_t pool = 0; pool < shard->plan->pool_count; pool++)
        shard->pools[pool].some_free = false;
    for (uint32_t worker = 0; worker < shard->run->worker_count; worker++)
        see_page(&look, worker);
    for (uint32_t i = 0; i < shard->slots_real; i++) {
        if (is_open(shard, &shard->slots[i]))
            see_slot(&look, &shard->slots[i]);
        if (is_open(shard, &shard->slots[i])) /* still */
            judge(&look, &shard->slots[i]);
    }
    judge_holds(&look);
    judge_returns(&look);
}
