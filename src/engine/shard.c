/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/shard.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device/pipeline.h"
#include "engine/place.h"
#include "engine/supervisor.h"

enum {
    RING_ROWS_MIN = 1024,  /* rows a READY ring holds: enough that a busy Pool never waits for the shard's next look */
    RING_ROWS_MAX = 8192,  /* more, for many workers with large batches, would cost more memory than looks */
    RING_ROWS_RETRY = 256, /* retries are rare, and what does not fit waits in its queue */
    OFFERED_MIN = 64,      /* rows of a Call offered at once, at least */
    OFFERED_PER_WORKER = 32,
    OVER_PART_OF_BATCH = 5, /* of what a batch takes its answer may wait so much for others */
    OVER_US_MAX = 100000,
    OVER_US_MIN = 2000,       /* a shorter sleep is not worth a timer, nor is a longer one to be noticed */
    OVER_BATCHES = 2,         /* expected meanwhile, at least */
    OVER_SILENT = 3,          /* sleeps that none came over: it is over */
    LOOK_AT_ALL_US = 1000000, /* as often as the supervisor bumps: who spoils the news of others costs that much */
    PAUSE_US = 100000,        /* longer ones between batches say nothing more */
};

/* ---- what the host is told ---- */

void shard_add_message(struct shard *shard, struct message *message)
{
    message->next = NULL;
    if (!shard->messages)
        shard->messages_end = &shard->messages;
    *shard->messages_end = message;
    shard->messages_end = &message->next;
}

/* What a step has brought to an end goes out together, and the host wakes once: to counts that know of it. */
static void tell_host(struct shard *shard, bool count)
{
    if (count || shard->messages)
        counts_publish(shard);
    if (shard->messages)
        run_tell_host(shard->run, shard->messages);
    shard->messages = NULL;
}

/* ---- what lineage tells ---- */

static void on_ready(void *cookie, struct grain grain)
{
    turn_ready(cookie, grain);
}

static enum lineage_found on_cancel(void *cookie, struct grain grain)
{
    return dispatch_cancel(cookie, grain);
}

static void on_unused(void *cookie, const struct value_ref *value)
{
    value_free(cookie, value);
}

static void on_complete(void *cookie, uint32_t root)
{
    struct shard *shard = cookie;
    if (shard->complete_count == shard->complete_capacity) {
        uint32_t capacity = shard->complete_capacity ? shard->complete_capacity * 2 : 64;
        uint32_t *larger = realloc(shard->complete, capacity * sizeof *larger);
        if (!larger) {
            shard_fail(shard, -ENOMEM, "completing a root");
            return;
        }
        shard->complete = larger;
        shard->complete_capacity = capacity;
    }
    shard->complete[shard->complete_count++] = root;
}

void shard_settle(struct shard *shard)
{
    while (shard->unhold_count > 0) {
        struct grain grain = shard->unhold[--shard->unhold_count];
        struct root *root = root_of(shard, lineage_root_of(shard->lineage, grain));
        lineage_release_hold(shard->lineage, grain);
        if (root->phase == ROOT_LEAVING)
            admit_leave(shard, root);
    }
    while (shard->complete_count > 0)
        admit_complete(shard, shard->complete[--shard->complete_count]);
}

void shard_fail(struct shard *shard, int status, const char *what)
{
    shard->stopping = true;
    tell_host(shard, false); /* they were there before */
    run_fail(shard->run, "%s: %s", what, sheaf_status_text(status));
}

/* ---- the thread ---- */

static void take_message(struct shard *shard, struct message *message)
{
    switch (message->kind) {
    case MESSAGE_SUBMIT:
        admit_submit(shard, ((struct message_submit *)message)->root);
        break;
    case MESSAGE_ACKNOWLEDGE: {
        struct sheaf_result *result = (struct sheaf_result *)message;
        struct root *root = result->root;
        result_free(result);
        admit_acknowledge(shard, root);
        return;
    }
    case MESSAGE_CANCEL:
        admit_cancel(shard, ((struct message_text *)message)->text);
        break;
    case MESSAGE_SOURCE:
        admit_source(shard, (struct message_source *)message);
        break;
    case MESSAGE_ATTACHED:
        recover_attached(shard, (struct message_worker *)message);
        break;
    case MESSAGE_DEATH:
        recover_death(shard, (struct message_worker *)message);
        break;
    case MESSAGE_RETIRED:
        recover_retired(shard, ((struct message_worker *)message)->worker);
        break;
    default:
        assert(message->kind == MESSAGE_STOP);
        shard->stopping = true;
        break;
    }
    free(message);
}

static uint32_t take_messages(struct shard *shard)
{
    uint32_t taken = 0;
    struct message *message = mailbox_take(&shard->inbox);
    while (message) {
        struct message *next = message->next;
        take_message(shard, message);
        taken++;
        message = next;
    }
    return taken;
}

/* ---- when to look without being told ---- */

void shard_note_batch(struct shard *shard, uint64_t run_ns)
{
    double run_us = (double)run_ns / 1000;
    shard->tells.count++;
    shard->tells.run_us += (run_us - shard->tells.run_us) / 8;
}

/* Batches come in clusters, so their number and the time they took are averaged apart: one of a pause and ten at once
 * are eleven in a pause. */
static void count_tells(struct shard *shard)
{
    struct tells *tells = &shard->tells;
    if (tells->count == 0)
        return;
    uint64_t since_us = shard->now_us - tells->last_us;
    since_us = since_us < PAUSE_US ? since_us : PAUSE_US;
    tells->batches += (tells->count - tells->batches) / 8;
    tells->span_us += ((double)since_us - tells->span_us) / 8;
    tells->last_us = shard->now_us;
    tells->count = 0;
}

/* Where batches end so often that several would wake this shard within a small part of what one takes, or within a
 * moment, it sleeps that long over all of them: to be woken costs more than to take a batch in. What short batches need
 * meanwhile is out already (dispatch.c), and a worker that finds no row bumps, if it is needed. 0: it wants to be woken
 * by the next. */
static uint64_t sleep_over_us(const struct shard *shard, uint64_t now_us)
{
    const struct tells *tells = &shard->tells;
    uint64_t over_us = (uint64_t)(tells->run_us / OVER_PART_OF_BATCH);
    over_us = over_us < OVER_US_MAX ? over_us : OVER_US_MAX;
    over_us = over_us > OVER_US_MIN ? over_us : OVER_US_MIN;
    bool many = tells->span_us * OVER_BATCHES <= (double)over_us * tells->batches;
    return many && now_us - tells->last_us < over_us * OVER_SILENT ? over_us : 0;
}

static bool has_ready_rows(const struct shard *shard)
{
    for (uint32_t call = 0; call < shard->plan->call_count; call++) {
        if (sched_ready_rows(shard->sched, call) > 0)
            return true;
    }
    return false;
}

/* There are rows for whoever asks, and nothing waits for memory: new roots, and room for them, are not urgent. */
static bool has_enough(const struct shard *shard)
{
    return shard->alone == ALONE_OPEN && !shard->retry_reads && has_ready_rows(shard) &&
           !atomic_load_explicit(&shard->waits_for_room, memory_order_relaxed) &&
           !atomic_load_explicit(&shard->run->memory_short, memory_order_relaxed);
}

/* What the host said in time waits until then: what this step's results make it say is for the next look. What cannot
 * wait bumps, after `seen` at the latest. */
static bool hears_host(struct shard *shard, uint32_t seen, uint64_t now_ns)
{
    uint64_t looks_ns = atomic_load_explicit(&shard->looks_ns, memory_order_relaxed);
    if (now_ns < looks_ns && seen == shard->heard && has_enough(shard))
        return false;
    shard->heard = seen;
    if (looks_ns != 0) /* as in `park`, which looks at the inbox before it takes this back */
        atomic_store_explicit(&shard->looks_ns, now_ns + shard->over_ns, memory_order_relaxed);
    return true;
}

/* Where it sleeps over news, what a round brought about too late for itself may wait like them; but not what somebody
 * waits for: memory, and orders that found no room. */
static bool may_rest(const struct shard *shard)
{
    uint64_t again = 0;
    for (uint32_t word = 0; word < shard_news_words(shard); word++)
        again |= shard->again[word];
    return again == 0 && shard->over_ns > 0 && has_enough(shard);
}

/* One round. True: another one is due at once. */
static bool step(struct shard *shard, uint32_t seen)
{
    uint64_t now_ns = clock_now_ns();
    shard->now_us = now_ns / 1000;
    uint32_t work = hears_host(shard, seen, now_ns) ? take_messages(shard) : 0;
    bool all = shard->now_us - shard->looked_us >= LOOK_AT_ALL_US;
    shard->looked_us = all ? shard->now_us : shard->looked_us;
    work += complete_step(shard, all);
    count_tells(shard);
    move_out_step(shard);
    admit_step(shard);
    dispatch_level(shard);
    shard->alone = alone_step(shard);
    batching_decide(shard);
    work += dispatch_step(shard);
    batching_settle(shard);
    dispatch_publish(shard);
    tell_host(shard, work > 0 || counts_are_stale(shard));
    shard->over_ns = sleep_over_us(shard, shard->now_us) * 1000;
    return work > 0 && !may_rest(shard);
}

/* `host`: what the host says counts too. */
static bool has_news(struct shard *shard, bool host)
{
    return (host && !mailbox_is_empty(&shard->inbox)) || board_has_news(&shard->board, shard_news_words(shard)) ||
           dispatch_has_room(shard);
}

static bool is_expanding(const struct shard *shard)
{
    for (uint32_t call = 0; call < shard->plan->call_count; call++) {
        if (shard->plan->calls[call].expansion_count > 0 && shard->live_of_call[call] > 0)
            return true;
    }
    return false;
}

/* Children may follow one that was taken without a word for so long, of rows that are out. */
static uint64_t until_child_look(struct shard *shard, uint64_t timeout_ns)
{
    uint64_t now_ns = clock_now_ns();
    if (shard->child_taken)
        shard->child_look_ns = now_ns + COMPLETION_CHILD_NS;
    shard->child_taken = false;
    if (shard->child_look_ns <= now_ns || !is_expanding(shard))
        return timeout_ns; /* and has_news looks now */
    uint64_t left_ns = shard->child_look_ns - now_ns;
    return left_ns < timeout_ns ? left_ns : timeout_ns;
}

/* Until when the host's word may wait, where news wait until `until_ns`: what was said to the host stands until then,
 * however often the shard wakes meanwhile. 0: it may not, or it has waited. `ret_kept`: the inbox need not be seen. */
static uint64_t host_may_wait(struct shard *shard, uint64_t now_ns, uint64_t until_ns, bool *ret_kept)
{
    uint64_t looks_ns = atomic_load_explicit(&shard->looks_ns, memory_order_relaxed);
    *ret_kept = looks_ns > now_ns;
    if (*ret_kept)
        return looks_ns < until_ns ? looks_ns : until_ns;
    return mailbox_is_empty(&shard->inbox) ? until_ns : 0;
}

/* Pools that are not ahead any more. A worker that read that they are may have gone to sleep without a word. */
static bool drop_ahead(struct shard *shard, const uint64_t *ahead)
{
    bool dropped = false;
    for (uint32_t pool = 0; pool < shard->plan->pool_count; pool++) {
        if (!board_pool_is_in(shard->pools_ahead, pool) || board_pool_is_in(ahead, pool))
            continue;
        shard->pools[pool].all_busy = false;
        dropped = true;
    }
    return dropped;
}

/* Says until when it sleeps over what workers and the host have for it: `ret_until_ns`, 0: it does not. False: it is to
 * look once more before it sleeps. */
static bool promise(struct shard *shard, uint64_t now_ns, uint64_t *ret_until_ns, bool *ret_kept)
{
    uint64_t ahead[BOARD_POOL_WORDS] = {0}, looks_ns = 0;
    uint64_t until_ns = shard->over_ns > 0 ? now_ns + shard->over_ns : 0;
    *ret_kept = false;
    if (until_ns > 0 && has_enough(shard)) {
        looks_ns = host_may_wait(shard, now_ns, until_ns, ret_kept);
        batching_ahead(shard, ahead);
    }
    bool dropped = drop_ahead(shard, ahead);
    memcpy(shard->pools_ahead, ahead, sizeof ahead);
    board_promise(&shard->board, until_ns, ahead);
    /* Relaxed: followed by the fence of event_count_announce and a look at the inbox; partner: shard_tell_in_time. */
    atomic_store_explicit(&shard->looks_ns, looks_ns, memory_order_relaxed);
    *ret_until_ns = looks_ns > 0 ? looks_ns : until_ns;
    if (dropped)
        fence_total(); /* partner: board_promised. Either the worker bumps, or recall.c sees that it is idle */
    return !dropped;
}

static void park(struct shard *shard, uint32_t seen, uint64_t timeout_ns)
{
    uint64_t now_ns = clock_now_ns(), retry_us;
    if (sched_next_retry_us(shard->sched, shard->offered_us, &retry_us)) {
        uint64_t retry_ns = retry_us * 1000 > now_ns ? retry_us * 1000 - now_ns : 0;
        timeout_ns = retry_ns < timeout_ns ? retry_ns : timeout_ns;
    }
    timeout_ns = until_child_look(shard, timeout_ns);
    uint64_t grant_ns = grant_wait_ns(shard);
    timeout_ns = grant_ns < timeout_ns ? grant_ns : timeout_ns;
    if (shard->slot_used > 0 || shard->hold_used > 0) {
        uint64_t audit_ns = shard->audit_at_ns > now_ns ? shard->audit_at_ns - now_ns : 0;
        timeout_ns = audit_ns < timeout_ns ? audit_ns : timeout_ns;
    }
    uint64_t until_ns;
    bool kept;
    if (!promise(shard, now_ns, &until_ns, &kept))
        return;
    timeout_ns = until_ns > 0 && until_ns - now_ns < timeout_ns ? until_ns - now_ns : timeout_ns;
    if (timeout_ns > 0 && event_count_announce(shard->board.shard_events, seen) && !has_news(shard, !kept))
        event_count_wait(shard->board.shard_events, seen, timeout_ns);
}

static void *shard_thread(void *argument)
{
    struct shard *shard = argument;
    place_thread(shard->run, shard->number, "sheaf-shard");
    while (!shard->stopping) {
        uint32_t seen = event_count_sample(shard->board.shard_events);
        audit_step(shard);
        if (step(shard, seen) || shard->stopping)
            continue;
        uint64_t wait_ns;
        if (recall_step(shard, &wait_ns) == 0)
            park(shard, seen, wait_ns);
    }
    tell_host(shard, false);
    return NULL;
}

void shard_tell(struct shard *shard, struct message *message)
{
    (void)mailbox_post(&shard->inbox, message); /* what is there already may have been told in time only */
    event_count_bump(shard->board.shard_events);
}

void shard_tell_in_time(struct shard *shard, struct message *message)
{
    if (!mailbox_post(&shard->inbox, message))
        return;    /* who posted the first has told, or it is in time for this one too */
    fence_total(); /* either the shard sees the message before it sleeps, or this thread what it said last */
    if (atomic_load_explicit(&shard->looks_ns, memory_order_relaxed) <= clock_now_ns())
        event_count_bump(shard->board.shard_events);
}

void shard_wake_all(const struct sheaf_run *run)
{
    for (uint32_t i = 0; i < run->shard_count; i++)
        event_count_bump(run->shards[i]->board.shard_events);
}

/* ---- life ---- */

/* READY and isolation rings have room for so many rows at least. */
static uint64_t ring_rows_min(void)
{
    const char *forced = getenv("SHEAF_RING_ROWS"); /* for tests: rings that are full all the time */
    uint64_t rows = forced ? strtoul(forced, NULL, 10) : RING_ROWS_MIN;
    return rows >= 2 && rows <= RING_ROWS_MIN ? rows : RING_ROWS_MIN;
}

/* Rows of the isolation ring: whole batches fit, several times over. */
static uint64_t isolation_rows(const struct shard *shard)
{
    uint64_t rows = ring_rows_min();
    for (uint32_t call = 0; call < shard->plan->call_count; call++) {
        uint64_t batches = 4 * (uint64_t)run_batch_rows(&shard->plan->calls[call]);
        rows = batches > rows ? batches : rows;
    }
    return rows;
}

uint64_t shard_ready_rows(const struct shard *shard)
{
    uint64_t rows = ring_rows_min();
    if (rows < RING_ROWS_MIN)
        return rows; /* as they are to be full */
    for (uint32_t call = 0; call < shard->plan->call_count; call++) {
        const struct plan_call *of = &shard->plan->calls[call];
        uint64_t batches = (uint64_t)run_batch_rows(of) * shard->run->pool_count[of->pool];
        rows = batches > rows ? batches : rows;
    }
    return rows < RING_ROWS_MAX ? rows : RING_ROWS_MAX;
}

static int create_board(struct shard *shard)
{
    const struct sheaf_plan *plan = shard->plan;
    uint64_t isolation = isolation_rows(shard), ready = shard_ready_rows(shard);
    struct board_shape shape = {
        .shard = shard->number,
        .call_count = plan->call_count ? plan->call_count : 1, /* a program may have no Call: then nobody works here */
        .pool_count = plan->pool_count ? plan->pool_count : 1,
        .ring_capacity = {[BOARD_RETRY] = RING_ROWS_RETRY,
                          [BOARD_READY] = power_of_two(ready > isolation ? ready : isolation),
                          [BOARD_ISOLATION] = power_of_two(isolation)},
        .dispatch_capacity = shard->run->slots_per_shard * shard->run->shard_count,
    };
    int result = board_create(&shape, place_shard_memory(shard->run, shard->number), &shard->board);
    if (result == 0)
        result = dispatch_commit_slots(shard);
    shard->rings = calloc((size_t)plan->call_count * BOARD_RINGS + 1, sizeof *shard->rings);
    if (result == 0 && !shard->rings)
        result = -ENOMEM;
    for (uint32_t i = 0; i < plan->call_count * BOARD_RINGS && result == 0; i++) {
        struct ready_ring ring = board_ring(&shard->board, i / BOARD_RINGS, (enum board_ring)(i % BOARD_RINGS));
        result = ready_producer_open(&shard->rings[i], &ring);
    }
    return result;
}

static void limit_offers(struct shard *shard)
{
    const struct sheaf_run *run = shard->run;
    for (uint32_t call = 0; call < shard->plan->call_count; call++) {
        const struct plan_call *plan_call = &shard->plan->calls[call];
        /* One batch that runs and one that waits; a device has several on their way. */
        uint64_t batches = run->workers[run->pool_first[plan_call->pool]].on_device ? PIPELINE_DEPTH + 2 : 2;
        uint64_t per_worker = plan_call->batch ? batches * run_batch_rows(plan_call) : OFFERED_PER_WORKER;
        uint64_t rows = per_worker * run->pool_count[plan_call->pool];
        rows = rows < OFFERED_MIN ? OFFERED_MIN : rows;
        shard->live_max[call] = (uint32_t)(rows < shard->slot_count / 2 ? rows : shard->slot_count / 2);
    }
}

/* Calls nearest to an output come first, as workers look at them. */
static int order_calls(struct shard *shard)
{
    const struct sheaf_plan *plan = shard->plan;
    shard->drain_order = calloc(plan->call_count + 1, sizeof *shard->drain_order);
    if (!shard->drain_order)
        return -ENOMEM;
    for (uint32_t call = 0; call < plan->call_count; call++) {
        uint32_t at = call;
        for (; at > 0 && plan->calls[shard->drain_order[at - 1]].priority > plan->calls[call].priority; at--)
            shard->drain_order[at] = shard->drain_order[at - 1];
        shard->drain_order[at] = call;
    }
    return 0;
}

static size_t slots_bytes(const struct shard *shard)
{
    return shard->slot_count * sizeof *shard->slots;
}

static int create_tables(struct shard *shard)
{
    uint32_t calls = shard->plan->call_count + 1; /* calloc of nothing may be NULL */
    shard->slots = tables_take(&shard->tables, slots_bytes(shard));
    shard->seen = calloc(shard->slot_count, sizeof *shard->seen);
    shard->live_of_call = calloc(calls, sizeof *shard->live_of_call);
    shard->live_max = calloc(calls, sizeof *shard->live_max);
    shard->counts = calloc(calls, sizeof *shard->counts);
    shard->pools = calloc(shard->plan->pool_count + 1, sizeof *shard->pools);
    shard->links = calloc(shard->run->worker_count + 1, sizeof *shard->links);
    shard->unhold = calloc(shard->slot_count, sizeof *shard->unhold);
    shard->unhold_capacity = shard->slot_count;
    shard->raised = raised_create();
    if (!shard->slots || !shard->seen || !shard->live_of_call || !shard->live_max || !shard->counts || !shard->pools ||
        !shard->links || !shard->unhold || !shard->raised)
        return -ENOMEM;
    limit_offers(shard);
    return order_calls(shard);
}

int shard_create(struct sheaf_run *run, uint32_t number, struct shard **ret_shard, struct sheaf_error *error)
{
    struct shard *shard = calloc(1, sizeof *shard);
    if (!shard)
        return -ENOMEM;
    shard->run = run;
    shard->plan = run->plan;
    shard->number = number;
    shard->slot_count = run->slots_per_shard;
    shard->slot_first = number * run->slots_per_shard;
    shard->free_hold = UINT32_MAX;
    shard->lineage_tables = (struct counted_tables){&shard->tables, &run->memory.of[MEMORY_LINEAGE]};
    shard->sched_tables = (struct counted_tables){&shard->tables, &run->memory.of[MEMORY_SCHEDULING]};
    shard->lineage_memory = memory_counted(&shard->lineage_tables);
    shard->sched_memory = memory_counted(&shard->sched_tables);
    shard->grants.turn = GRANT_NOBODY;
    shard->audit_period_ns = audit_period_ns(run);
    shard->board = (struct board){.open = SEGMENT_NONE, .notice = SEGMENT_NONE};
    mailbox_init(&shard->inbox, &run->memory.of[MEMORY_MESSAGES]);
    admission_open(&shard->admission, run->order, &shard->sched_memory);
    const struct lineage_effects effects = {.cookie = shard,
                                            .ready = on_ready,
                                            .cancel = on_cancel,
                                            .value_unused = on_unused,
                                            .root_complete = on_complete};
    int result = create_tables(shard);
    if (result == 0)
        result = counts_create(shard);
    if (result == 0)
        result = create_board(shard);
    if (result == 0)
        result = batching_create(shard);
    if (result == 0)
        result = turn_create(shard);
    if (result == 0)
        result = lineage_create(run->plan, &effects, &shard->lineage_memory, &shard->lineage);
    if (result == 0) /* workers know what they keep open by its key, whichever shard it is of */
        lineage_number_keys(shard->lineage, number, run->shard_count);
    if (result == 0 && run->integrity != SHEAF_INTEGRITY_OFF)
        lineage_keep_sources(shard->lineage);
    if (result == 0)
        result = sched_create(run->plan, &shard->sched_memory, &shard->sched);
    if (result == 0 && run->order != ADMISSION_AS_SUBMITTED)
        sched_keep_order(shard->sched);
    if (result == 0)
        result = hold_open_lanes(shard);
    if (result == 0)
        result = sources_create(run, shard, number, &shard->sources, error);
    if (result < 0) {
        shard_destroy(shard);
        return result;
    }
    *ret_shard = shard;
    return 0;
}

int shard_start(struct shard *shard)
{
    int result = thread_start(&shard->thread, shard_thread, shard);
    shard->started = result == 0;
    return result;
}

void shard_stop(struct shard *shard)
{
    if (!shard->started)
        return;
    struct message *message = calloc(1, sizeof *message);
    if (message) {
        message->kind = MESSAGE_STOP;
        shard_tell(shard, message);
    }
    pthread_join(shard->thread, NULL);
    shard->started = false;
}

static void free_roots(struct root *root)
{
    while (root) {
        struct root *next = root->next;
        root_free(root);
        root = next;
    }
}

/* What was still in the inbox when the shard stopped. */
static void drop_messages(struct shard *shard)
{
    struct message *message = mailbox_take(&shard->inbox);
    while (message) {
        struct message *next = message->next;
        if (message->kind == MESSAGE_ACKNOWLEDGE) {
            result_free((struct sheaf_result *)message);
        } else {
            if (message->kind == MESSAGE_SUBMIT)
                root_free(((struct message_submit *)message)->root);
            free(message);
        }
        message = next;
    }
}

static void free_slots(struct shard *shard)
{
    for (uint32_t i = 0; i < shard->slots_real; i++) {
        for (struct built *built = shard->slots[i].built, *next; built; built = next) {
            next = built->next;
            free(built);
        }
    }
    if (shard->slots)
        tables_give(&shard->tables, shard->slots, slots_bytes(shard));
    free(shard->seen);
}

void shard_destroy(struct shard *shard)
{
    if (!shard)
        return;
    assert(!shard->started);
    sources_destroy(shard->sources);
    for (uint64_t root; admission_take(&shard->admission, &root);)
        root_free((struct root *)(uintptr_t)root);
    admission_close(&shard->admission);
    free_roots(shard->admitted);
    lineage_destroy(shard->lineage);
    sched_destroy(shard->sched);
    for (uint32_t worker = 0; shard->links && worker < shard->run->worker_count; worker++) {
        if (shard->links[worker].attached)
            completion_reader_close(&shard->links[worker].completions);
        free(shard->links[worker].pending);
    }
    free_slots(shard);
    for (uint32_t i = 0; shard->rings && i < shard->plan->call_count * BOARD_RINGS; i++)
        ready_producer_close(&shard->rings[i]);
    board_release(&shard->board);
    drop_messages(shard);
    mailbox_fini(&shard->inbox);
    keymap_fini(&shard->hold_of);
    keymap_fini(&shard->home_of);
    raised_free(shard->raised);
    free(shard->rings);
    free(shard->links);
    free(shard->live_of_call);
    free(shard->live_max);
    free(shard->drain_order);
    keymap_fini(&shard->found_needs);
    free(shard->counts);
    counts_destroy(shard);
    batching_destroy(shard);
    turn_destroy(shard);
    free(shard->pools);
    free(shard->unhold);
    free(shard->complete);
    free(shard->holds);
    free(shard->cancel_text);
    tables_close(&shard->tables);
    free(shard);
}
