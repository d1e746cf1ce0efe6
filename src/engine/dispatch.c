/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "engine/shard.h"

static uint32_t slot_number(const struct shard *shard, const struct slot *slot)
{
    return shard->slot_first + (uint32_t)(slot - shard->slots);
}

static struct ready_producer *ring_of(struct shard *shard, uint32_t call, enum board_ring ring)
{
    return &shard->rings[(size_t)call * BOARD_RINGS + ring];
}

enum ready_found slot_in_ring(struct shard *shard, const struct slot *slot)
{
    return ready_ring_find(ring_of(shard, slot->grain.call, (enum board_ring)slot->ring), slot_number(shard, slot),
                           slot->number, slot->position);
}

/* Rows of batches so short that the usual number of them would be done while this shard sleeps over their answers
 * (shard.c): as many as last through two such sleeps, as far as the ring goes. */
static uint32_t rows_ahead(const struct shard *shard, uint32_t call)
{
    enum { AHEAD_NS = 5000000 };
    const struct call_counts *counts = &shard->counts[call];
    const struct plan_call *plan_call = &shard->plan->calls[call];
    if (!plan_call->batch || counts->run_ns == 0)
        return 0;
    double rows = (double)AHEAD_NS * (double)counts->rows / (double)counts->run_ns;
    rows *= shard->run->pool_count[plan_call->pool];
    uint32_t most = shard->rings[(size_t)call * BOARD_RINGS + BOARD_READY].ring.capacity;
    return rows < most ? (uint32_t)rows : most;
}

/* How many rows of a Call may be out now. Parents are opened as workers need them, not all that there are: what a
 * worker keeps open is bounded, and a parent that is opened again costs as much again. */
static uint32_t live_max(const struct shard *shard, uint32_t call)
{
    enum { OPENINGS_PER_WORKER = 2 };
    const struct plan_call *plan_call = &shard->plan->calls[call];
    uint32_t most = shard->live_max[call], ahead = rows_ahead(shard, call);
    most = ahead > most ? ahead : most;
    if (plan_call->domain != 0 || plan_call->expansion_count == 0 || !shard->pools[plan_call->pool].has_lanes)
        return most;
    if (sched_is_fed(shard->sched, plan_call->pool))
        return 0;
    uint32_t openings = OPENINGS_PER_WORKER * shard->run->pool_count[plan_call->pool];
    return openings < most ? openings : most;
}

bool dispatch_has_room(const struct shard *shard)
{
    if (shard->alone != ALONE_OPEN)
        return false; /* it is not room that is waited for */
    for (uint32_t call = 0; call < shard->plan->call_count; call++) {
        uint32_t ring = shard->counts[call].full_ring;
        bool wanted = ring != 0 && shard->live_of_call[call] < live_max(shard, call) &&
                      sched_queued(shard->sched, call) + sched_isolating(shard->sched, call) > 0;
        if (wanted && ready_ring_has_room(&shard->rings[(size_t)call * BOARD_RINGS + ring - 1]))
            return true;
    }
    return false;
}

/* ---- slots ---- */

int dispatch_commit_slots(struct shard *shard)
{
    enum { STEP = 1024 };
    uint32_t wanted = shard->slots_real + STEP < shard->slot_count ? shard->slots_real + STEP : shard->slot_count;
    int result = board_commit_dispatches(&shard->board, shard->slot_first + wanted);
    for (uint32_t i = shard->slots_real; i < wanted && result == 0; i++)
        shard->slots[i] = (struct slot){.next_free = i + 1 < shard->slot_count ? i + 1 : UINT32_MAX};
    if (result == 0)
        shard->slots_real = wanted;
    return result;
}

/* The one that is taken next. */
static void prefetch_free_slot(const struct shard *shard)
{
    if (shard->free_slot >= shard->slots_real)
        return;
    __builtin_prefetch(&shard->slots[shard->free_slot], 1);
    dispatch_prefetch(&shard->board.dispatches, shard->slot_first + shard->free_slot);
}

static struct slot *slot_take(struct shard *shard, struct grain grain)
{
    if (shard->free_slot == UINT32_MAX || (shard->free_slot >= shard->slots_real && dispatch_commit_slots(shard) < 0))
        return NULL;
    struct slot *slot = &shard->slots[shard->free_slot];
    sched_set_claim(shard->sched, grain, 1 + shard->free_slot);
    shard->free_slot = slot->next_free;
    shard->slot_used++;
    shard->live_of_call[grain.call]++;
    assert(!slot->live && !slot->built);
    *slot = (struct slot){.number = dispatch_next_number(slot->number), .grain = grain, .live = true};
    prefetch_free_slot(shard);
    return slot;
}

struct slot *slot_find(struct shard *shard, uint32_t number_of_slot, uint64_t number)
{
    if (number_of_slot < shard->slot_first || number_of_slot - shard->slot_first >= shard->slots_real)
        return NULL;
    struct slot *slot = &shard->slots[number_of_slot - shard->slot_first];
    return slot->live && slot->number == number ? slot : NULL;
}

void slot_prefetch(const struct shard *shard, uint32_t number_of_slot)
{
    if (number_of_slot - shard->slot_first < shard->slots_real)
        __builtin_prefetch(&shard->slots[number_of_slot - shard->slot_first], 1);
}

void slot_prefetch_row(struct shard *shard, uint32_t number_of_slot)
{
    if (number_of_slot - shard->slot_first >= shard->slots_real)
        return;
    const struct slot *slot = &shard->slots[number_of_slot - shard->slot_first];
    if (!slot->live)
        return;
    ready_ring_prefetch(ring_of(shard, slot->grain.call, slot->ring), slot->position);
    sched_prefetch(shard->sched, slot->grain);
    lineage_prefetch(shard->lineage, slot->grain);
}

void slot_release_keeping_hold(struct shard *shard, struct slot *slot)
{
    assert(slot->live);
    if (slot->started)
        lineage_started(shard->lineage, slot->grain);
    batching_claim_over(shard, slot);
    shard->pools[shard->plan->calls[slot->grain.call].pool].homed -= slot->homed;
    slot->homed = false;
    built_free(shard, slot->built);
    slot->built = NULL;
    reserve_end(shard, &(struct reservation){slot->reserved_bytes, slot->reserved_alone});
    /* A Grain that is pushed again while an unwanted claim of it lives has a newer slot: leave that one known. */
    uint32_t index = (uint32_t)(slot - shard->slots);
    sched_claim_over(shard->sched, slot->grain, 1 + index);
    slot->live = false;
    slot->next_free = shard->free_slot;
    shard->free_slot = index;
    shard->slot_used--;
    shard->live_of_call[slot->grain.call]--;
}

void slot_release(struct shard *shard, struct slot *slot)
{
    struct grain grain = slot->grain;
    slot_release_keeping_hold(shard, slot);
    if (shard->unhold_count == shard->unhold_capacity) {
        shard_fail(shard, -ENOMEM, "releasing a claim"); /* sized for every slot and hold: cannot happen */
        return;
    }
    shard->unhold[shard->unhold_count++] = grain;
}

/* ---- describing a row ---- */

static uint64_t row_timeout_ns(const struct shard *shard, const struct plan_call *call)
{
    uint32_t timeout_ms = run_timeout_ms(shard->run, call);
    return timeout_ms * UINT64_C(1000000);
}

/* The root index of the host, which is not the order in which roots came into this shard's lineage. */
static void write_coordinate(const struct shard *shard, struct grain grain, uint64_t *coordinate, uint32_t depth)
{
    uint32_t domain = shard->plan->calls[grain.call].domain;
    uint32_t written = lineage_coordinate(shard->lineage, domain, grain.entity, coordinate, depth);
    assert(written == depth);
    coordinate[0] = root_of(shard, lineage_root_of(shard->lineage, grain))->index;
}

static int read_input(struct shard *shard, struct slot *slot, uint32_t index, struct value_ref *ret_ref)
{
    struct lineage_value value;
    int result = lineage_input(shard->lineage, slot->grain, index, &value);
    if (result < 0)
        return result;
    if (value.is_list)
        return list_build(shard, value.list, &slot->built, ret_ref);
    *ret_ref = value.value;
    return 0;
}

/* Coordinate and inputs of a row that does not fit a descriptor. */
static int describe_overflow(struct shard *shard, struct slot *slot, struct dispatch *dispatch, uint32_t depth)
{
    uint64_t offset, bytes = depth * sizeof(uint64_t) + dispatch->input_count * sizeof(struct value_ref);
    int result = built_alloc(shard, &slot->built, bytes, &offset);
    if (result < 0)
        return result;
    uint64_t *coordinate = payload_shard_at(shard->run->payload, shard->number, offset);
    struct value_ref *inputs = (struct value_ref *)(coordinate + depth);
    write_coordinate(shard, slot->grain, coordinate, depth);
    for (uint32_t i = 0; i < dispatch->input_count && result == 0; i++)
        result = read_input(shard, slot, i, &inputs[i]);
    if (result < 0)
        return result;
    weigh_row(shard, inputs, dispatch);
    memcpy(dispatch->coordinate, coordinate,
           (depth < DISPATCH_DEPTH_INLINE ? depth : DISPATCH_DEPTH_INLINE) * sizeof *coordinate);
    memcpy(dispatch->inputs, inputs,
           (dispatch->input_count < DISPATCH_INPUTS_INLINE ? dispatch->input_count : DISPATCH_INPUTS_INLINE) *
               sizeof *inputs);
    dispatch->flags |= DISPATCH_OVERFLOW;
    dispatch->overflow = (struct value_ref){.kind = SHEAF_BYTES,
                                            .segment = payload_shard_segment(shard->run->payload, shard->number),
                                            .offset = offset,
                                            .length = bytes};
    return 0;
}

/* All that comes before Coordinate and inputs. */
static void describe_head(const struct shard *shard, const struct slot *slot, const struct sched_row *row,
                          struct dispatch *dispatch)
{
    const struct plan_call *call = &shard->plan->calls[slot->grain.call];
    dispatch->number = slot->number;
    dispatch->key = lineage_entity_key(shard->lineage, call->domain, slot->grain.entity);
    dispatch->parent_key = lineage_parent_key(shard->lineage, call->domain, slot->grain.entity);
    dispatch->grain = slot_number(shard, slot);
    dispatch->call = slot->grain.call;
    dispatch->attempt = row->attempt;
    if (!row->fresh_worker)
        dispatch->home = hold_home(shard, row);
    else
        dispatch->home = shard->links[row->home].retired ? DISPATCH_HOME_ANY : row->home;
    dispatch->input_count = call->input_count;
    dispatch->depth = (uint16_t)shard->plan->domains[call->domain].depth;
    dispatch->flags = row->fresh_worker ? DISPATCH_ALONE : 0;
    dispatch->batch = row->batch;
    dispatch->timeout_ns = row_timeout_ns(shard, call);
}

static int describe(struct shard *shard, struct slot *slot, const struct sched_row *row)
{
    const struct plan_call *call = &shard->plan->calls[slot->grain.call];
    uint32_t depth = shard->plan->domains[call->domain].depth;
    bool overflows = depth > DISPATCH_DEPTH_INLINE || call->input_count > DISPATCH_INPUTS_INLINE;
    struct dispatch
        dispatch; /* nothing is read of what it does not use: to clear it all would cost as much as the rest */
    memset(&dispatch, 0, offsetof(struct dispatch, coordinate));
    describe_head(shard, slot, row, &dispatch);
    int result = 0;
    if (overflows) {
        result = describe_overflow(shard, slot, &dispatch, depth);
    } else {
        write_coordinate(shard, slot->grain, dispatch.coordinate, depth);
        for (uint32_t i = 0; i < call->input_count && result == 0; i++)
            result = read_input(shard, slot, i, &dispatch.inputs[i]);
        if (result == 0)
            weigh_row(shard, dispatch.inputs, &dispatch);
    }
    if (result == 0)
        dispatch_write(&shard->board.dispatches, &dispatch);
    slot->homed = dispatch.home != DISPATCH_HOME_ANY;
    shard->pools[call->pool].homed += slot->homed;
    return result;
}

/* ---- offering ---- */

static enum board_ring ring_for(enum sched_queue queue)
{
    static const enum board_ring rings[] = {
        [SCHED_RETRY] = BOARD_RETRY, [SCHED_READY] = BOARD_READY, [SCHED_ISOLATION] = BOARD_ISOLATION};
    return rings[queue];
}

/* Offers one row, or fails it; `single`: an isolation batch that is this row alone. 0; -EAGAIN: no room, the row went
 * back to the front of its queue; else the run cannot go on. */
static int offer(struct shard *shard, const struct sched_row *row, bool single)
{
    struct reservation reserved;
    uint64_t bytes = reserve_estimate(shard, row->grain);
    if (bytes > shard->run->budget.largest_bytes) {
        complete_refuse(shard, row->grain, bytes);
        return 0;
    }
    if (!reserve_take(shard, row->grain, bytes, row->queue == SCHED_ISOLATION, &reserved)) {
        sched_requeue_uncharged(shard->sched, row->grain);
        return -EAGAIN;
    }
    struct slot *slot = slot_take(shard, row->grain);
    if (!slot) {
        reserve_end(shard, &reserved);
        sched_requeue_uncharged(shard->sched, row->grain);
        return -EAGAIN;
    }
    slot->reserved_bytes = reserved.bytes;
    slot->reserved_alone = reserved.alone;
    if (shard->plan->calls[row->grain.call].domain == 0)
        admit_begun(shard, root_of(shard, lineage_root_of(shard->lineage, row->grain)));
    lineage_hold(shard->lineage, row->grain);
    batching_row_offered(shard, slot);
    struct call_counts *counts = &shard->counts[row->grain.call];
    counts->full_ring = 0;
    slot->ring = ring_for(row->queue);
    slot->batch = row->batch;
    slot->single = single;
    slot->alone = shard->alone == ALONE_MINE;
    int result = describe(shard, slot, row);
    if (result == 0)
        result = ready_ring_put(ring_of(shard, row->grain.call, slot->ring), slot_number(shard, slot), slot->number,
                                &slot->position);
    if (result == -EAGAIN)
        counts->full_ring = 1u + slot->ring;
    if (result < 0) {
        slot_release(shard, slot);
        sched_requeue_uncharged(shard->sched, row->grain);
        shard_settle(shard);
        if (result != -ENOMEM)
            return result;
        grant_press(shard); /* payload memory comes back as rows end; if none is out, somebody has to give some */
        atomic_store_explicit(&shard->waits_for_room, true, memory_order_relaxed);
        return -EAGAIN;
    }
    bool waits = row->queue == SCHED_READY && batching_waits(shard, row->grain.call);
    shard->pools[shard->plan->calls[row->grain.call].pool].pushed |= !waits;
    return 0;
}

static bool next_row(struct shard *shard, uint32_t call, uint64_t now_us, struct sched_row *ret_row)
{
    return shard->alone == ALONE_MINE ? sched_next_isolated(shard->sched, call, ret_row)
                                      : sched_next(shard->sched, call, now_us, ret_row);
}

/* An isolation batch is shown as a whole: a worker that is awake would take part of it for all of it. */
static uint32_t offer_call(struct shard *shard, uint32_t call, uint64_t now_us)
{
    uint32_t offered = 0, pool = shard->plan->calls[call].pool;
    if (shard->pools[pool].rebuilding)
        return 0;
    uint32_t most = shard->alone == ALONE_MINE ? 1 : live_max(shard, call); /* one batch, and nothing is out */
    struct sched_row row;
    bool in_batch = false; /* the rows of an isolation batch go out together, whatever the bound says */
    while ((in_batch || shard->live_of_call[call] < most) && next_row(shard, call, now_us, &row)) {
        if (row.follower != LINEAGE_NOBODY)
            lineage_prefetch(shard->lineage, (struct grain){call, row.follower});
        int result = offer(shard, &row, row.queue == SCHED_ISOLATION && row.batch_left == 0 && !in_batch);
        if (result == -EAGAIN)
            break;
        if (result == -EBADMSG) {
            rebuild_want(shard, pool, "a ready ring holds a word that nobody wrote");
            break;
        }
        if (result < 0) {
            shard_fail(shard, result, "offering a row");
            break;
        }
        offered++;
        in_batch = row.queue == SCHED_ISOLATION && row.batch_left > 0;
        if (!in_batch)
            ready_ring_show(ring_of(shard, call, ring_for(row.queue)));
    }
    ready_ring_show(ring_of(shard, call, BOARD_ISOLATION)); /* of a batch that is not out as a whole */
    return offered;
}

/* Rows of a Call that are out. */
static uint32_t level_call(struct shard *shard, uint32_t call)
{
    const struct call_counts *counts = &shard->counts[call];
    if (counts->rows > 0)
        sched_set_row_us(shard->sched, call, counts->run_ns / counts->rows / 1000);
    return shard->live_of_call[call];
}

void dispatch_level(struct shard *shard)
{
    for (uint32_t pool = 0; pool < shard->plan->pool_count; pool++) {
        const struct plan_pool *calls = &shard->plan->pools[pool];
        uint32_t out = 0;
        for (uint32_t i = 0; i < calls->call_count; i++)
            out += level_call(shard, shard->plan->pool_calls[calls->call_first + i]);
        sched_level(shard->sched, pool, out, shard->run->pool_count[pool]);
    }
}

uint32_t dispatch_step(struct shard *shard)
{
    uint32_t offered = 0;
    shard->offered_us = clock_now_ns() / 1000;
    atomic_store_explicit(&shard->waits_for_room, false, memory_order_relaxed); /* what finds none says so again */
    if (shard->alone == ALONE_HELD)
        return 0;
    bool alone = shard->alone == ALONE_MINE;
    /* Where room is short, what is nearest to an output takes it first. */
    for (uint32_t i = 0; i < shard->plan->call_count && !(alone && offered > 0); i++)
        offered += offer_call(shard, shard->drain_order[i], shard->offered_us);
    shard->alone_used |= alone && offered > 0;
    return offered;
}

uint32_t dispatch_waiting(const struct shard *shard, uint32_t call)
{
    return sched_queued(shard->sched, call) + sched_isolating(shard->sched, call) + sched_aside(shard->sched, call);
}

void dispatch_publish(struct shard *shard)
{
    uint64_t all_queued = 0;
    for (uint32_t call = 0; call < shard->plan->call_count; call++) {
        struct board_call *board = &shard->board.calls[call];
        uint32_t queued = dispatch_waiting(shard, call);
        all_queued += queued;
        /* Partner: a worker that finds the ring empty loads `overflow` after its look and bumps us (PROTOCOL H8c). */
        atomic_store_explicit(&board->overflow, queued > 0, memory_order_release);
        atomic_store_explicit(&board->ready, queued + shard->live_of_call[call], memory_order_relaxed);
    }
    atomic_store_explicit(&shard->rows_queued, all_queued, memory_order_relaxed);
    const struct board *first = &shard->run->shards[0]->board;
    for (uint32_t pool = 0; pool < shard->plan->pool_count; pool++) {
        if (!shard->pools[pool].pushed)
            continue;
        shard->pools[pool].pushed = false;
        event_count_bump(&first->pool_events[pool]);
    }
}

/* ---- cancelling ---- */

/* X3 over the pages of the Pool: the slot was seen not to name the row. */
static enum lineage_found cancel_in_pages(struct shard *shard, struct slot *slot)
{
    const struct sheaf_run *run = shard->run;
    uint32_t pool = shard->plan->calls[slot->grain.call].pool, number = slot_number(shard, slot);
    for (uint32_t i = 0; i < run->pool_count[pool]; i++) {
        uint32_t worker = run->pool_first[pool] + i;
        const struct claim_page *page = &run->workers[worker].lane.claims;
        uint32_t row = claim_page_find(page, number, slot->number);
        if (row == CLAIM_ROW_NONE)
            continue;
        switch (claim_page_cancel(page, row, number, slot->number)) {
        case CLAIM_CANCELLED:
            return LINEAGE_SKIPPED;
        case CLAIM_RUNNING:
            slot->started = true;
            link_order(shard, worker, CONTROL_UNWANTED, number, slot->number);
            return LINEAGE_RUNNING;
        default:
            break; /* answered meanwhile */
        }
    }
    return LINEAGE_RUNNING; /* its record is in a completion ring, or its worker is dead: it comes and is discarded */
}

enum lineage_found dispatch_cancel(struct shard *shard, struct grain grain)
{
    if (turn_cancel(shard, grain))
        return LINEAGE_KEPT_OUT;
    turn_over(shard, grain, false);
    uint32_t claim = sched_claim(shard->sched, grain);
    if (sched_cancel(shard->sched, grain))
        return LINEAGE_KEPT_OUT;
    if (claim == 0)
        return LINEAGE_RUNNING; /* its record is being taken in right now */
    struct slot *slot = &shard->slots[claim - 1];
    slot->unwanted = true;
    struct ready_producer *ring = ring_of(shard, grain.call, slot->ring);
    switch (ready_ring_cancel(ring, slot_number(shard, slot), slot->number, slot->position)) {
    case READY_CANCEL_DONE:
        slot_release(shard, slot);
        sched_done(shard->sched, grain);
        return LINEAGE_KEPT_OUT;
    case READY_CANCEL_MARKED:
        return LINEAGE_SKIPPED;
    default:
        return cancel_in_pages(shard, slot);
    }
}
