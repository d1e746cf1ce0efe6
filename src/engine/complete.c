/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/shard.h"
#include "engine/spill.h"
#include "engine/supervisor.h"

enum { RAISED_TEXT_BYTES = 512 };

/* Rows of one batch that raised: their records come one after another in one commit. */
struct raised_rows {
    uint32_t call, worker, count, capacity;
    uint32_t seen;     /* records so far: `count` and those of rows that are suppressed by now */
    uint32_t rows_run; /* as the worker says: how many ran as one */
    bool single;       /* the one that ran was an isolation batch of its own, whatever the worker says */
    uint32_t *entities;
    enum sheaf_class class_id;
    uint64_t run_ns;
    char text[RAISED_TEXT_BYTES];
    uint32_t text_bytes;
};

/* ---- orders to a worker ---- */

void link_kill(struct shard *shard, uint32_t worker, const char *why)
{
    struct link *link = &shard->links[worker];
    if (!link->attached || link->killed)
        return;
    link->killed = true;
    supervisor_kill(shard->run->supervisor, worker, link->generation, why);
}

static bool pending_push(struct link *link, const struct control *order)
{
    if (link->pending_count == link->pending_capacity) {
        uint32_t capacity = link->pending_capacity ? link->pending_capacity * 2 : 64;
        struct control *larger = malloc(capacity * sizeof *larger);
        if (!larger)
            return false;
        for (uint32_t i = 0; i < link->pending_count; i++)
            larger[i] = link->pending[(link->pending_first + i) % link->pending_capacity];
        free(link->pending);
        link->pending = larger;
        link->pending_capacity = capacity;
        link->pending_first = 0;
    }
    link->pending[(link->pending_first + link->pending_count++) % link->pending_capacity] = *order;
    return true;
}

/* A worker that waits for memory waits for what is freed; an idle one must not sleep over an eviction, which others'
 * memory waits for. */
static void wake_for_order(struct shard *shard, uint32_t worker, enum control_kind kind)
{
    const struct worker *who = &shard->run->workers[worker];
    uint64_t state = load_relaxed_u64(&who->lane.counters->state);
    if (state == LANE_WAITING_MEMORY)
        event_count_bump(who->lane.events);
    else if (state == LANE_IDLE && (kind == CONTROL_EVICT || kind == CONTROL_RETURN))
        shard->pools[who->pool].pushed = true;
}

static void count_order(struct shard *shard, uint32_t worker, enum control_kind kind)
{
    struct sheaf_run *run = shard->run;
    wake_for_order(shard, worker, kind);
    if (kind != CONTROL_FREE)
        return;
    /* Release, partner: grant.c. What it then asks the worker to give back is asked after this. */
    atomic_fetch_add_explicit(&run->workers[worker].frees, 1, memory_order_release);
    if (shard->number == 0)
        complete_again(shard, worker); /* it may have more than its share, and use it no longer */
    if (shard->number != 0 && atomic_load_explicit(&run->memory_short, memory_order_relaxed))
        event_count_bump(run->shards[0]->board.shard_events);
}

void link_flush(struct shard *shard, uint32_t worker)
{
    struct link *link = &shard->links[worker];
    while (link->attached && !link->killed && link->pending_count > 0) {
        int result = control_write(&link->control, &link->pending[link->pending_first]);
        if (result == -EAGAIN)
            return;
        if (result < 0) {
            link_kill(shard, worker, "it damaged its control ring");
            return;
        }
        count_order(shard, worker, link->pending[link->pending_first].kind);
        link->pending_first = (link->pending_first + 1) % link->pending_capacity;
        link->pending_count--;
    }
}

void link_order(struct shard *shard, uint32_t worker, enum control_kind kind, uint32_t segment, uint64_t value)
{
    struct control order = {.kind = kind, .segment = segment, .value = value};
    if (!pending_push(&shard->links[worker], &order)) {
        shard_fail(shard, -ENOMEM, "queueing an order to a worker");
        return;
    }
    link_flush(shard, worker);
}

/* ---- values ---- */

struct chunk_receiver {
    struct shard *shard;
    uint32_t worker;
    uint16_t segment;
};

static void chunk_returned(void *cookie, uint32_t chunk)
{
    struct chunk_receiver *to = cookie;
    link_order(to->shard, to->worker, CONTROL_CHUNK, to->segment, chunk);
}

void value_free(struct shard *shard, const struct value_ref *ref)
{
    const struct sheaf_run *run = shard->run;
    if (ref->segment == VALUE_INLINE)
        return;
    if (ref->segment <= run->shard_count) {
        uint64_t offset, bytes;
        source_run(run->payload, ref, &offset, &bytes);
        payload_run_free(run->payload, ref->segment - 1u, offset, bytes);
        shard->retry_reads = true;
        return;
    }
    if (ref->segment == payload_spill_segment(run->payload)) {
        spill_free(run->spill, ref->offset - ref->prefix, ref->prefix + ref->length);
        return;
    }
    uint32_t worker = ref->segment - 1u - run->shard_count;
    struct chunk_receiver to = {shard, worker, ref->segment};
    uint64_t start = ref->offset - (SHEAF_KIND_DEPTH(ref->kind) ? 0 : ref->prefix);
    if (payload_release(run->payload, ref, chunk_returned, &to) == PAYLOAD_OWNER_FREES && shard->links[worker].attached)
        link_order(shard, worker, CONTROL_FREE, ref->segment, start);
}

/* A value a worker reports must be of the kind the Plan says and lie in memory the worker may write. */
static bool value_accept(struct shard *shard, uint32_t worker, sheaf_kind kind, struct value_ref *ref)
{
    if (ref->kind != kind)
        return false;
    if (ref->segment != VALUE_INLINE)
        return ref->segment == payload_worker_segment(shard->run->payload, worker) &&
               (ref->hash != 0) == (shard->run->integrity != SHEAF_INTEGRITY_OFF) &&
               payload_retain(shard->run->payload, ref) == 0;
    if (kind == SHEAF_BOOL)
        ref->offset = ref->offset != 0;
    return value_is_scalar(kind) || ref->length == 0;
}

/* Accepts `count` values, or none: those accepted before the bad one are given back. */
static bool values_accept(struct shard *shard, uint32_t worker, const sheaf_kind *kinds, struct value_ref *refs,
                          uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (kinds[i] == SHEAF_NONE)
            continue;
        if (value_accept(shard, worker, kinds[i], &refs[i]))
            continue;
        while (i-- > 0) {
            if (kinds[i] != SHEAF_NONE)
                value_free(shard, &refs[i]);
        }
        return false;
    }
    return true;
}

/* ---- the ends of a row ---- */

/* The claim of a slot ended on a worker: its inputs stay held if the worker keeps the Entity open. */
static void claim_ended(struct shard *shard, uint32_t worker, struct slot *slot)
{
    if (hold_take(shard, worker, slot))
        slot_release_keeping_hold(shard, slot);
    else
        slot_release(shard, slot);
}

/* The Grain is sealed F; `attempt` is the one that failed, counted from 0. */
static void seal_failed(struct shard *shard, struct grain grain, const struct lineage_cause *cause)
{
    int result = lineage_fail(shard->lineage, grain, cause);
    if (result < 0)
        shard_fail(shard, result, "recording a failure");
    turn_over(shard, grain, false);
}

static void fail_grain(struct shard *shard, struct grain grain, enum sheaf_scope scope, enum sheaf_class class_id,
                       const char *text, uint32_t text_bytes, uint64_t elapsed_us)
{
    struct lineage_cause cause = {.scope = scope,
                                  .class_id = class_id,
                                  .text = text,
                                  .length_bytes = text_bytes,
                                  .attempt = sched_attempt(shard->sched, grain),
                                  .elapsed_us = elapsed_us};
    sched_done(shard->sched, grain);
    seal_failed(shard, grain, &cause);
}

static void fail_contract(struct shard *shard, struct grain grain, const char *text)
{
    fail_grain(shard, grain, SHEAF_SCOPE_ITEM, SHEAF_CLASS_CONTRACT, text, (uint32_t)strlen(text), 0);
}

void complete_refuse(struct shard *shard, struct grain grain, uint64_t bytes)
{
    char text[160];
    snprintf(text, sizeof text, "it would make %llu MiB, and the budget of %llu MiB has room for %llu MiB of values",
             (unsigned long long)(bytes >> 20), (unsigned long long)(shard->run->budget.total_bytes >> 20),
             (unsigned long long)(shard->run->budget.largest_bytes >> 20));
    fail_grain(shard, grain, SHEAF_SCOPE_ITEM, SHEAF_CLASS_RESOURCE_EXHAUSTED, text, (uint32_t)strlen(text), 0);
    shard_settle(shard);
}

/* Of a batch one record tells; rows that run one at a time, or answer when they like (`slots`), are each their own. */
static void count_row(struct shard *shard, uint32_t worker, const struct slot *slot, const struct completion *record)
{
    const struct plan_call *call = &shard->plan->calls[slot->grain.call];
    struct call_counts *counts = &shard->counts[slot->grain.call];
    bool together = call->batch && call->op->slots <= 1;
    counts->rows++;
    shard->links[worker].rows_done++;
    if (together && record->closed == BATCH_OPEN)
        return;
    counts->batches++;
    counts->run_ns += record->run_ns;
    if (!together)
        return;
    batching_learn(shard, slot, record);
    shard_note_batch(shard, record->run_ns);
}

/* Kinds of a Call's outputs, SHEAF_NONE for a group that is expanded: its children came as records of their own. */
static void output_kinds(const struct shard *shard, const struct plan_call *call, sheaf_kind *ret_kinds)
{
    const struct sheaf_plan *plan = shard->plan;
    for (uint32_t i = 0; i < call->output_count; i++)
        ret_kinds[i] = plan->ports[plan->call_ports[call->output_first + i]].kind;
    for (uint32_t i = 0; i < call->expansion_count; i++) {
        const struct plan_domain *domain = &plan->domains[plan->call_expansions[call->expansion_first + i]];
        for (uint32_t j = 0; j < domain->port_count; j++) {
            const struct plan_port *port = &plan->ports[plan->domain_ports[domain->port_first + j]];
            if (port->port_kind == PLAN_EXPAND)
                ret_kinds[port->slot] = SHEAF_NONE;
        }
    }
}

static void take_answer(struct shard *shard, uint32_t worker, struct slot *slot, const struct completion *record)
{
    struct grain grain = slot->grain;
    const struct plan_call *call = &shard->plan->calls[grain.call];
    bool unwanted = slot->unwanted;
    sheaf_kind kinds[COMPLETION_VALUES_MAX];
    struct value_ref *refs = (struct value_ref *)(uintptr_t)record->values; /* the reader's own memory, to be changed */
    count_row(shard, worker, slot, record);
    claim_ended(shard, worker, slot);
    if (record->value_count != call->output_count) {
        if (!unwanted)
            fail_contract(shard, grain, "the answer has a wrong number of values");
        return;
    }
    output_kinds(shard, call, kinds);
    if (!values_accept(shard, worker, kinds, refs, record->value_count)) {
        if (!unwanted)
            fail_contract(shard, grain, "an answered value has the wrong kind or lies outside the worker's memory");
        return;
    }
    sched_done(shard->sched, grain);
    batching_answered(shard, grain.call, record->child_count);
    uint32_t child_counts[64];
    for (uint32_t i = 0; i < call->expansion_count && i < 64; i++)
        child_counts[i] = (uint32_t)record->child_count;
    int result = lineage_answer(shard->lineage, grain, refs, call->expansion_count <= 64 ? child_counts : NULL);
    if (result < 0)
        shard_fail(shard, result, "recording an answer");
    if (!unwanted)
        turn_over(shard, grain, result == 0);
}

/* One child for every expansion of the Call that takes any of its values. */
static void make_child(struct shard *shard, uint32_t worker, const struct slot *slot, uint32_t ordinal,
                       const struct value_ref *values, uint32_t value_count)
{
    const struct sheaf_plan *plan = shard->plan;
    const struct plan_call *call = &plan->calls[slot->grain.call];
    for (uint32_t e = 0; e < call->expansion_count; e++) {
        const struct plan_domain *domain = &plan->domains[plan->call_expansions[call->expansion_first + e]];
        sheaf_kind kinds[COMPLETION_VALUES_MAX];
        struct value_ref refs[COMPLETION_VALUES_MAX];
        uint32_t count = 0;
        for (uint32_t output = 0, group = 0; output < call->output_count; output++) {
            if (!(call->op->outputs[output].flags & SHEAF_PORT_GROUP))
                continue;
            uint32_t value = group++;
            for (uint32_t j = 0; j < domain->port_count; j++) {
                const struct plan_port *port = &plan->ports[plan->domain_ports[domain->port_first + j]];
                if (port->port_kind != PLAN_EXPAND || port->slot != output || value >= value_count)
                    continue;
                kinds[count] = port->kind;
                refs[count++] = values[value];
            }
        }
        if (count == 0 || !values_accept(shard, worker, kinds, refs, count))
            continue; /* the ordinal is then missing, which the answer's count shows */
        int result = lineage_child(shard->lineage, slot->grain, e, ordinal, refs);
        if (result < 0 && result != -EINVAL)
            shard_fail(shard, result, "recording a child");
        lineage_prefetch_child(shard->lineage, slot->grain.call, e);
    }
}

static void take_children(struct shard *shard, uint32_t worker, struct slot *slot, const struct completion *record)
{
    uint32_t count = (uint32_t)record->child_count, value_count = record->value_count / count;
    if (record->ordinal > UINT32_MAX - count)
        return; /* no row has that many children: its answer will be a broken contract */
    audit_restart(shard, slot);
    uint32_t root = lineage_root_of(shard->lineage, slot->grain);
    sched_children(shard->sched, root, count);
    batching_children(shard, slot, count);
    sched_opened_by(shard->sched, root, worker);
    for (uint32_t child = 0; child < count; child++)
        make_child(shard, worker, slot, (uint32_t)record->ordinal + child, record->values + child * value_count,
                   value_count);
}

void complete_failed(struct shard *shard, const struct sched_loss *loss, const uint32_t *entities, uint32_t count,
                     const char *text, uint32_t text_bytes, uint64_t elapsed_us)
{
    enum sched_verdict *verdicts = calloc(count, sizeof *verdicts);
    int result =
        verdicts ? sched_failed(shard->sched, loss, entities, count, clock_now_ns() / 1000, verdicts) : -ENOMEM;
    if (result < 0) {
        free(verdicts);
        shard_fail(shard, result, "deciding about rows that failed");
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct grain grain = {loss->call, entities[i]};
        struct call_counts *counts = &shard->counts[loss->call];
        counts->raised += loss->event == SCHED_RAISED && i == 0;
        counts->retried += verdicts[i] == SCHED_RETRIED;
        counts->isolated += verdicts[i] == SCHED_ISOLATING;
        if (verdicts[i] != SCHED_SEAL_FAILED && verdicts[i] != SCHED_SEAL_ABORT)
            continue;
        struct lineage_cause cause = {.scope = SHEAF_SCOPE_ITEM,
                                      .class_id = loss->class_id,
                                      .text = text,
                                      .length_bytes = text_bytes,
                                      .attempt = shard->plan->calls[loss->call].retries, /* its last */
                                      .elapsed_us = elapsed_us};
        seal_failed(shard, grain, &cause);
        if (verdicts[i] == SCHED_SEAL_ABORT) {
            struct message_text *message = calloc(1, sizeof *message);
            if (message) {
                message->message.kind = MESSAGE_ABORT;
                snprintf(message->text, sizeof message->text, "%.*s", (int)text_bytes, text);
                shard_add_message(shard, &message->message);
            }
        }
    }
    free(verdicts);
    shard_settle(shard);
}

/* ---- raised batches ---- */

struct raised_rows *raised_create(void)
{
    return calloc(1, sizeof(struct raised_rows));
}

void raised_free(struct raised_rows *raised)
{
    if (!raised)
        return;
    free(raised->entities);
    free(raised);
}

static void raised_flush(struct shard *shard)
{
    struct raised_rows *raised = shard->raised;
    uint32_t count = raised->count;
    raised->count = raised->seen = 0;
    if (count == 0)
        return;
    bool known = raised->class_id > SHEAF_CLASS_NONE && raised->class_id < SHEAF_CLASS_COUNT;
    struct sched_loss loss = {.event = SCHED_RAISED,
                              .class_id = known ? raised->class_id : SHEAF_CLASS_OPERATOR,
                              .call = raised->call,
                              .culprit = shard->plan->calls[raised->call].batch ? SCHED_UNKNOWN : 0,
                              .rows_run = raised->single ? 1 : raised->rows_run};
    complete_failed(shard, &loss, raised->entities, count, raised->text, raised->text_bytes, raised->run_ns / 1000);
}

/* Whether a record is of the batch that is being collected. */
static bool belongs(const struct raised_rows *raised, uint32_t worker, uint32_t call, const struct completion *record)
{
    return raised->call == call && raised->worker == worker && raised->run_ns == record->run_ns &&
           raised->rows_run == record->rows_run && raised->class_id == (enum sheaf_class)record->class_id;
}

static int collect(struct raised_rows *raised, uint32_t entity)
{
    if (raised->count == raised->capacity) {
        uint32_t capacity = raised->capacity ? raised->capacity * 2 : 64;
        uint32_t *larger = realloc(raised->entities, capacity * sizeof *larger);
        if (!larger)
            return -ENOMEM;
        raised->entities = larger;
        raised->capacity = capacity;
    }
    raised->entities[raised->count++] = entity;
    return 0;
}

static void take_raised(struct shard *shard, uint32_t worker, struct slot *slot, const struct completion *record)
{
    struct raised_rows *raised = shard->raised;
    struct grain grain = slot->grain;
    bool unwanted = slot->unwanted, single = slot->single;
    if (raised->seen > 0 && !belongs(raised, worker, grain.call, record))
        raised_flush(shard);
    claim_ended(shard, worker, slot);
    if (raised->seen++ == 0) {
        raised->call = grain.call;
        raised->worker = worker;
        raised->run_ns = record->run_ns;
        raised->rows_run = record->rows_run;
        raised->single = single;
        raised->class_id = (enum sheaf_class)record->class_id;
        raised->text_bytes =
            record->text_length_bytes < RAISED_TEXT_BYTES ? record->text_length_bytes : RAISED_TEXT_BYTES;
        memcpy(raised->text, record->text, raised->text_bytes);
    }
    /* What is suppressed is split off before any recovery decision. */
    if (!unwanted && collect(raised, grain.entity) < 0)
        shard_fail(shard, -ENOMEM, "recording a failed batch");
    else if (raised->single || raised->seen >= raised->rows_run)
        raised_flush(shard);
}

/* An input is not what its producer answered, says the worker. If it is, the worker lies, or has damaged itself. */
static void take_damaged(struct shard *shard, uint32_t worker, struct slot *slot)
{
    if (!slot->unwanted && integrity_row(shard, slot)) {
        link_kill(shard, worker, "it called inputs damaged that are not");
        rebuild_suspect(shard, slot, worker);
    } else {
        claim_ended(shard, worker, slot);
    }
}

/* ---- records ---- */

static void take_failure(struct shard *shard, uint32_t worker, struct slot *slot, const struct completion *record)
{
    struct grain grain = slot->grain;
    bool unwanted = slot->unwanted;
    count_row(shard, worker, slot, record);
    claim_ended(shard, worker, slot);
    enum sheaf_scope scope = record->scope <= SHEAF_SCOPE_ROOT ? (enum sheaf_scope)record->scope : SHEAF_SCOPE_ITEM;
    enum sheaf_class class_id = record->class_id && record->class_id < SHEAF_CLASS_COUNT
                                    ? (enum sheaf_class)record->class_id
                                    : SHEAF_CLASS_OPERATOR;
    /* A root failure counts even where the row's own result is not wanted any more; lineage discards the rest. */
    if (!unwanted || scope == SHEAF_SCOPE_ROOT)
        fail_grain(shard, grain, scope, class_id, record->text, record->text_length_bytes, record->run_ns / 1000);
}

static void take_log(struct shard *shard, uint32_t worker, const struct completion *record)
{
    struct slot *slot = slot_find(shard, record->grain, record->number);
    char where[128] = "";
    if (slot) {
        struct root *root = root_of(shard, lineage_root_of(shard->lineage, slot->grain));
        snprintf(where, sizeof where, " %s: root %llu:", shard->plan->calls[slot->grain.call].name,
                 (unsigned long long)root->index);
    }
    run_log(shard->run, (int)record->level, "worker %u:%s %.*s", worker, where, (int)record->text_length_bytes,
            record->text);
}

/* Only a worker of the Pool can have the row, and nobody but who was seen with it; it must have unlinked it from its
 * ring, and a recalled one is only released. */
static bool may_report(struct shard *shard, uint32_t worker, const struct slot *slot, const struct completion *record)
{
    return shard->plan->calls[slot->grain.call].pool == shard->run->workers[worker].pool &&
           !audit_seen_elsewhere(shard, slot, worker) && slot_in_ring(shard, slot) == READY_GONE &&
           (!slot->recalled || record->kind == COMPLETION_RELEASED);
}

static void take_record(struct shard *shard, uint32_t worker, const struct completion *record)
{
    if (record->kind == COMPLETION_LOG) {
        take_log(shard, worker, record);
        return;
    }
    if (record->kind == COMPLETION_EVICTED) {
        hold_evicted(shard, worker, record->key);
        return;
    }
    if (record->kind == COMPLETION_CHUNK) {
        grant_returned(shard, worker, record->key);
        return;
    }
    shard->child_taken |= record->kind == COMPLETION_CHILD;
    struct slot *slot = slot_find(shard, record->grain, record->number);
    if (!slot)
        return; /* stale or invented: nothing of it is believed */
    if (!may_report(shard, worker, slot, record)) {
        link_kill(shard, worker, "it reported a row that it does not have");
        return;
    }
    /* Before anything else happens in lineage: it might suppress rows that are being collected. */
    if (record->kind != COMPLETION_RAISED && record->kind != COMPLETION_RELEASED)
        raised_flush(shard);
    if (record->kind != COMPLETION_RELEASED)
        lineage_started(shard->lineage, slot->grain);
    if (record->kind != COMPLETION_RELEASED && record->kind != COMPLETION_CHILD)
        reserve_over(shard, worker, slot->grain);
    switch (record->kind) {
    case COMPLETION_ANSWER:
        take_answer(shard, worker, slot, record);
        break;
    case COMPLETION_CHILD:
        take_children(shard, worker, slot, record);
        break;
    case COMPLETION_FAIL:
        take_failure(shard, worker, slot, record);
        break;
    case COMPLETION_RAISED:
        take_raised(shard, worker, slot, record);
        break;
    case COMPLETION_DAMAGED:
        take_damaged(shard, worker, slot);
        break;
    default: /* RELEASED: given back unrun, or because others go first: then its operator may have kept something */
        if (!slot->unwanted)
            sched_requeue_uncharged(shard->sched, slot->grain);
        if (reserve_gave_way(shard, worker, slot->grain))
            claim_ended(shard, worker, slot);
        else
            slot_release(shard, slot);
        break;
    }
    shard_settle(shard);
}

/* A record, or a row of one, takes as long as one or two lines from memory. */
enum { ROWS_AHEAD = 2, SLOTS_AHEAD = 5 };

/* Row by row; the next record is read when all of them are settled. What they need is known in advance, as it is of the
 * records that follow only by guess. */
static void take_rows(struct shard *shard, uint32_t worker, const struct completion *record)
{
    uint32_t count = record->row_count;
    struct completion row = completion_first_row(record);
    for (uint32_t at = 1; at < SLOTS_AHEAD && at < count; at++)
        slot_prefetch(shard, dispatch_name_grain(record->others[at - 1]));
    for (uint32_t at = 0; at < count; at++) {
        if (at + SLOTS_AHEAD < count)
            slot_prefetch(shard, dispatch_name_grain(record->others[at + SLOTS_AHEAD - 1]));
        if (at + ROWS_AHEAD < count)
            slot_prefetch_row(shard, dispatch_name_grain(record->others[at + ROWS_AHEAD - 1]));
        if (at > 0)
            completion_next_row(record, &row, at);
        take_record(shard, worker, &row);
    }
}

static uint32_t drain(struct shard *shard, uint32_t worker)
{
    struct link *link = &shard->links[worker];
    struct completion record;
    uint32_t taken = 0;
    int result;
    while ((result = completion_read(&link->completions, &record)) == 0) {
        taken++;
        if (record.row_count > 1) {
            take_rows(shard, worker, &record);
            continue;
        }
        slot_prefetch(shard, completion_ahead(&link->completions, SLOTS_AHEAD));
        slot_prefetch_row(shard, completion_ahead(&link->completions, ROWS_AHEAD));
        take_record(shard, worker, &record);
    }
    raised_flush(shard);
    if (taken > 0) {
        spsc_release(&link->completions.ring);
        event_count_bump(shard->run->workers[worker].lane.events); /* it may wait for room */
    }
    if (result == -EBADMSG)
        link_kill(shard, worker, "it wrote a damaged record");
    return taken;
}

void complete_drain(struct shard *shard, uint32_t worker)
{
    if (shard->links[worker].attached)
        drain(shard, worker);
}

/* Looks at one worker: its records, what it wants, what it damaged. */
static uint32_t look_at(struct shard *shard, uint32_t worker)
{
    struct link *link = &shard->links[worker];
    if (!link->attached)
        return 0; /* complete_again, when it is */
    uint32_t taken = drain(shard, worker);
    rebuild_check_damage(shard, worker);
    recall_look(shard, worker);
    if (link->pending_count > 0)
        link_flush(shard, worker);
    if (grant_look(shard, worker) || link->pending_count > 0)
        complete_again(shard, worker);
    return taken;
}

void complete_again(struct shard *shard, uint32_t worker)
{
    shard->again[worker / 64] |= UINT64_C(1) << worker % 64;
}

/* Of 64 workers those that have news (N2), and those that are waited for whether they have or not. */
static uint64_t to_look_at(struct shard *shard, uint32_t word, bool all)
{
    uint32_t first = word * 64, left = shard->run->worker_count - first;
    uint64_t there = left < 64 ? (UINT64_C(1) << left) - 1 : UINT64_MAX;
    uint64_t some = board_take_news(&shard->board, word) | shard->again[word];
    shard->again[word] = 0;
    return all ? there : some & there;
}

uint32_t complete_step(struct shard *shard, bool all)
{
    uint32_t taken = 0;
    all |= grant_concerns_all(shard);
    for (uint32_t word = 0; word < shard_news_words(shard); word++) {
        for (uint64_t left = to_look_at(shard, word, all); left != 0; left &= left - 1)
            taken += look_at(shard, word * 64 + (uint32_t)__builtin_ctzll(left));
    }
    grant_step(shard);
    return taken;
}
