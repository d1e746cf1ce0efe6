/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lineage/player.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Steps without anything done for good before a run counts as one that does not end. */
enum { DISPATCHES_MAX = 6, STILL_MAX = 200000 };

enum turn_state { TURN_CLAIMED, TURN_RUNNING, TURN_OVER };

/* A claimed row. */
struct turn {
    struct grain grain;
    uint32_t attempt, emitted;
    enum turn_state state;
    bool cancelled;
    struct row_result result;
};

struct dispatch {
    uint32_t call, count, at;
    uint32_t rows_before; /* that its worker had run */
    struct turn *turns;
};

struct player {
    const struct sheaf_plan *plan;
    struct lineage *lineage;
    struct sched *sched;
    struct witness witness;
    uint64_t random, now_us, still;
    struct dispatch dispatches[DISPATCHES_MAX];
    uint32_t dispatch_count, losses;
    uint32_t *complete; /* roots to collect */
    uint32_t complete_count, admitted, released;
};

static uint32_t draw(struct player *p, uint32_t below)
{
    p->random ^= p->random << 13;
    p->random ^= p->random >> 7;
    p->random ^= p->random << 17;
    return (uint32_t)((p->random >> 32) % below);
}

/* ---- effects ---- */

static void on_ready(void *cookie, struct grain grain)
{
    struct player *p = cookie;
    if (sched_ready(p->sched, grain))
        witness_breach(&p->witness, "no memory");
}

static void on_value_unused(void *cookie, const struct value_ref *value)
{
    struct player *p = cookie;
    witness_unused(&p->witness, value);
}

static struct turn *turn_of(struct player *p, struct grain grain)
{
    for (uint32_t i = 0; i < p->dispatch_count; i++)
        for (uint32_t j = 0; j < p->dispatches[i].count; j++) {
            struct turn *turn = &p->dispatches[i].turns[j];
            if (turn->grain.call == grain.call && turn->grain.entity == grain.entity && turn->state != TURN_OVER)
                return turn;
        }
    return NULL;
}

static enum lineage_found on_cancel(void *cookie, struct grain grain)
{
    struct player *p = cookie;
    if (sched_cancel(p->sched, grain))
        return LINEAGE_KEPT_OUT;
    struct turn *turn = turn_of(p, grain);
    if (!turn || turn->cancelled) {
        witness_breach(&p->witness, "a Grain is cancelled that is nowhere, or twice");
        return LINEAGE_KEPT_OUT;
    }
    turn->cancelled = true;
    return turn->state == TURN_CLAIMED ? LINEAGE_SKIPPED : LINEAGE_RUNNING;
}

static void on_root_complete(void *cookie, uint32_t root)
{
    struct player *p = cookie;
    p->complete[p->complete_count++] = root;
}

/* ---- running ---- */

static void turn_start(struct player *p, struct turn *turn)
{
    turn->state = TURN_RUNNING;
    witness_run(&p->witness, p->lineage, turn->grain, turn->attempt, &turn->result);
}

/* The row's claim ends here, before or after its Grain is sealed. */
static void turn_end(struct player *p, struct turn *turn, bool forget)
{
    turn->state = TURN_OVER;
    if (forget)
        sched_done(p->sched, turn->grain);
    json_decref(turn->result.outputs);
    turn->result.outputs = NULL;
    lineage_release_hold(p->lineage, turn->grain);
}

/* One child of one Expansion; the values in the order of the Call's outputs. */
static void emit_child(struct player *p, struct turn *turn, uint32_t expansion, uint32_t ordinal)
{
    const struct plan_call *call = &p->plan->calls[turn->grain.call];
    uint32_t domain = p->plan->call_expansions[call->expansion_first + expansion], count = 0;
    struct value_ref values[8];
    for (uint32_t slot = 0; slot < call->output_count; slot++)
        for (uint32_t i = 0; i < p->plan->port_count; i++) {
            const struct plan_port *port = &p->plan->ports[i];
            if (port->port_kind == PLAN_EXPAND && port->domain == domain && port->slot == slot)
                values[count++] =
                    witness_value(&p->witness, json_array_get(json_array_get(turn->result.outputs, slot), ordinal));
        }
    if (lineage_child(p->lineage, turn->grain, expansion, ordinal, values))
        witness_breach(&p->witness, "a child is refused");
}

/* Emits the next child of every Expansion; false: there are no more. */
static bool emit_next(struct player *p, struct turn *turn)
{
    const struct plan_call *call = &p->plan->calls[turn->grain.call];
    bool any = false;
    for (uint32_t i = 0; i < call->expansion_count; i++)
        if (turn->emitted < witness_children(&p->witness, turn->grain.call, i, &turn->result)) {
            emit_child(p, turn, i, turn->emitted);
            any = true;
        }
    turn->emitted += any;
    p->still = any ? 0 : p->still;
    return any;
}

static void turn_fail(struct player *p, struct turn *turn, enum sheaf_scope scope, enum sheaf_class class_id,
                      const char *text)
{
    struct lineage_cause cause = {scope, class_id, text, (uint32_t)strlen(text), turn->attempt, 0};
    if (lineage_fail(p->lineage, turn->grain, &cause))
        witness_breach(&p->witness, "a failure is refused");
    p->still = 0;
}

static void turn_answer(struct player *p, struct turn *turn)
{
    const struct plan_call *call = &p->plan->calls[turn->grain.call];
    struct value_ref outputs[8];
    uint32_t counts[8];
    while (emit_next(p, turn))
        ;
    for (uint32_t slot = 0; slot < call->output_count; slot++) {
        uint32_t output = p->plan->call_ports[call->output_first + slot];
        bool expanded = false;
        for (uint32_t i = 0; i < p->plan->port_count; i++)
            expanded = expanded || (p->plan->ports[i].port_kind == PLAN_EXPAND && p->plan->ports[i].source == output);
        outputs[slot] = (struct value_ref){0};
        if (!expanded)
            outputs[slot] = witness_value(&p->witness, json_array_get(turn->result.outputs, slot));
    }
    for (uint32_t i = 0; i < call->expansion_count; i++)
        counts[i] = witness_children(&p->witness, turn->grain.call, i, &turn->result);
    if (lineage_answer(p->lineage, turn->grain, outputs, counts))
        witness_breach(&p->witness, "an answer is refused");
    p->still = 0;
}

/* The dispatch is lost: rows not over go through recovery. `guilty` is the running one, or NULL for a whole batch. */
static void dispatch_lose(struct player *p, struct dispatch *d, struct turn *guilty, enum row_end end)
{
    uint32_t *entities = malloc(d->count * sizeof(*entities)), *index = malloc(d->count * sizeof(*index)), count = 0;
    enum sched_verdict *verdicts = malloc(d->count * sizeof(*verdicts));
    struct sched_loss loss = {.event = end == ROW_CRASHES ? SCHED_CRASHED
                                       : end == ROW_HANGS ? SCHED_TIMED_OUT
                                                          : SCHED_RAISED,
                              .class_id = witness_class(end),
                              .call = d->call,
                              .culprit = SCHED_UNKNOWN,
                              .rows_before = d->rows_before};
    for (uint32_t i = 0; i < d->count; i++)
        loss.rows_run += d->turns[i].state == TURN_RUNNING;
    for (uint32_t i = 0; i < d->count; i++) {
        struct turn *turn = &d->turns[i];
        if (turn->state == TURN_OVER)
            continue;
        if (turn->cancelled) {
            turn_end(p, turn, true);
            continue;
        }
        if (turn == guilty)
            loss.culprit = count;
        index[count] = i;
        entities[count++] = turn->grain.entity;
    }
    if (count)
        sched_failed(p->sched, &loss, entities, count, p->now_us, verdicts);
    for (uint32_t i = 0; i < count; i++) {
        struct turn *turn = &d->turns[index[i]];
        if (verdicts[i] == SCHED_SEAL_FAILED || verdicts[i] == SCHED_SEAL_ABORT)
            turn_fail(p, turn, SHEAF_SCOPE_ITEM, loss.class_id, turn->result.cause);
        if (verdicts[i] == SCHED_SEAL_ABORT && !p->witness.out->aborted) {
            p->witness.out->aborted = true;
            const char *cause = turn->result.cause[0] ? turn->result.cause : sheaf_class_name(loss.class_id);
            snprintf(p->witness.out->abort_cause, sizeof(p->witness.out->abort_cause), "%s", cause);
        }
        turn_end(p, turn, false);
    }
    free(entities);
    free(index);
    free(verdicts);
}

/* A RUNNING row of a per-row operator goes on, or one of a batch that came through. */
static void turn_finish(struct player *p, struct dispatch *d, struct turn *turn)
{
    switch (turn->result.end) {
    case ROW_ANSWERS:
        turn_answer(p, turn);
        break;
    case ROW_DECLARES:
        turn_fail(p, turn, turn->result.scope, SHEAF_CLASS_OPERATOR, turn->result.cause);
        break;
    case ROW_BREAKS:
        turn_fail(p, turn, SHEAF_SCOPE_ITEM, SHEAF_CLASS_CONTRACT, "a value of the wrong kind");
        break;
    case ROW_RAISES:
    case ROW_CRASHES:
    case ROW_HANGS:
    case ROW_BREAKS_ANSWER:
        dispatch_lose(p, d, turn, turn->result.end);
        return;
    }
    turn_end(p, turn, true);
}

static void step_rows(struct player *p, struct dispatch *d)
{
    struct turn *turn = &d->turns[d->at];
    if (turn->state == TURN_CLAIMED) {
        if (turn->cancelled)
            turn_end(p, turn, true);
        else
            turn_start(p, turn);
    } else if (turn->state == TURN_RUNNING) {
        bool fails = turn->result.end != ROW_ANSWERS;
        if ((turn->result.streams || fails) && emit_next(p, turn))
            return;
        turn_finish(p, d, turn);
        d->rows_before++;
    }
    while (d->at < d->count && d->turns[d->at].state == TURN_OVER)
        d->at++;
}

static void step_batch(struct player *p, struct dispatch *d)
{
    if (d->at == 0) {
        d->at = d->count + 1; /* all started */
        for (uint32_t i = 0; i < d->count; i++) {
            if (d->turns[i].cancelled)
                turn_end(p, &d->turns[i], true);
            else
                turn_start(p, &d->turns[i]);
        }
        return;
    }
    for (uint32_t i = 0; i < d->count; i++)
        if (d->turns[i].state == TURN_RUNNING &&
            (d->turns[i].result.end == ROW_RAISES || d->turns[i].result.end == ROW_BREAKS_ANSWER)) {
            dispatch_lose(p, d, NULL, d->turns[i].result.end);
            return;
        }
    for (uint32_t i = 0; i < d->count; i++)
        if (d->turns[i].state == TURN_RUNNING)
            turn_finish(p, d, &d->turns[i]);
}

static bool dispatch_is_over(const struct dispatch *d)
{
    for (uint32_t i = 0; i < d->count; i++)
        if (d->turns[i].state != TURN_OVER)
            return false;
    return true;
}

/* Its worker is lost to something that is no row's doing: nobody is charged. */
static void dispatch_drop(struct player *p, struct dispatch *d)
{
    p->losses++;
    for (uint32_t i = d->count; i-- > 0;) {
        struct turn *turn = &d->turns[i];
        if (turn->state == TURN_OVER)
            continue;
        if (!turn->cancelled)
            sched_requeue_uncharged(p->sched, turn->grain);
        turn_end(p, turn, turn->cancelled);
    }
}

static void step_dispatch(struct player *p)
{
    uint32_t index = draw(p, p->dispatch_count);
    struct dispatch *d = &p->dispatches[index];
    /* Losses become rarer: a long stream that begins anew each time would never end. */
    if (draw(p, 64u << (p->losses / 8 < 20 ? p->losses / 8 : 20)) == 0)
        dispatch_drop(p, d);
    else if (p->plan->calls[d->call].batch)
        step_batch(p, d);
    else
        step_rows(p, d);
    if (!dispatch_is_over(d))
        return;
    free(d->turns);
    *d = p->dispatches[--p->dispatch_count];
}

static bool step_claim(struct player *p)
{
    uint32_t *calls = malloc((p->plan->call_count + 1) * sizeof(*calls)), count = 0;
    struct sched_row row;
    for (uint32_t i = 0; i < p->plan->call_count; i++)
        if (draw(p, 2))
            calls[count++] = i;
    uint32_t call = sched_pick(p->sched, calls, count, p->now_us);
    free(calls);
    if (call == PLAN_NONE || !sched_next(p->sched, call, p->now_us, &row))
        return false;
    struct dispatch *d = &p->dispatches[p->dispatch_count++];
    uint32_t rows_max = 1 + draw(p, p->plan->calls[call].batch_rows < 64 ? p->plan->calls[call].batch_rows : 64);
    if (row.queue == SCHED_ISOLATION)
        rows_max = row.batch_left + 1;
    *d = (struct dispatch){
        .call = call, .rows_before = row.fresh_worker ? 0 : draw(p, 2), .turns = calloc(rows_max, sizeof(*d->turns))};
    do {
        d->turns[d->count++] = (struct turn){.grain = row.grain, .attempt = row.attempt};
        lineage_hold(p->lineage, row.grain);
        bool isolated = row.queue == SCHED_ISOLATION;
        if (isolated ? row.batch_left == 0 : !sched_due(p->sched, call, p->now_us))
            break;
    } while (d->count < rows_max && sched_next(p->sched, call, p->now_us, &row));
    return true;
}

/* ---- roots ---- */

static void admit_one(struct player *p)
{
    struct value_ref sources[16];
    for (uint32_t i = 0; i < p->plan->source_count; i++)
        sources[i] = witness_source(&p->witness, p->admitted, i);
    uint32_t root;
    if (lineage_admit(p->lineage, p->admitted, sources, &root))
        witness_breach(&p->witness, "a root is refused");
    p->admitted++;
    p->still = 0;
}

/* Collects and releases one complete root if nothing of it is held. */
static bool step_release(struct player *p)
{
    if (p->complete_count == 0)
        return false;
    uint32_t index = draw(p, p->complete_count), root = p->complete[index];
    witness_collect(&p->witness, p->lineage, root);
    if (lineage_release_root(p->lineage, root))
        return false;
    p->complete[index] = p->complete[--p->complete_count];
    p->released++;
    p->still = 0;
    return true;
}

/* ---- the run ---- */

static void step(struct player *p)
{
    if (p->admitted < p->witness.roots && (draw(p, 4) == 0 || p->admitted == p->released))
        admit_one(p);
    if (draw(p, 4) == 0)
        step_release(p);
    if (p->dispatch_count < DISPATCHES_MAX && draw(p, 2) && step_claim(p))
        return;
    if (p->dispatch_count)
        step_dispatch(p);
    else
        sched_next_retry_us(p->sched, p->now_us, &p->now_us);
}

static void check_end(struct player *p)
{
    if (lineage_live_entities(p->lineage) || lineage_live_bytes(p->lineage))
        witness_breach(&p->witness, "Entities or bytes are left: %llu, %llu",
                       (unsigned long long)lineage_live_entities(p->lineage),
                       (unsigned long long)lineage_live_bytes(p->lineage));
    for (uint32_t i = 0; i < p->plan->call_count; i++) {
        struct lineage_call_counts counts;
        lineage_call_counts(p->lineage, i, &counts);
        p->witness.out->grains_sealed += counts.sealed;
        if (counts.grains != counts.sealed)
            witness_breach(&p->witness, "Call %s: %llu Grains, %llu sealed", p->plan->calls[i].name,
                           (unsigned long long)counts.grains, (unsigned long long)counts.sealed);
    }
    for (uint32_t i = 0; i < p->plan->output_count; i++) {
        struct lineage_output_counts counts;
        lineage_output_counts(p->lineage, i, &counts);
        if (counts.entities != counts.present + counts.dropped + counts.failed + counts.suppressed)
            witness_breach(&p->witness, "output %s does not balance", p->plan->outputs[i].name);
    }
}

static void run(struct player *p)
{
    const struct played *out = p->witness.out;
    while (p->released < p->witness.roots && !out->breach[0] && !out->aborted) {
        step(p);
        if (++p->still > STILL_MAX)
            witness_breach(&p->witness, "the run does not end");
    }
    if (out->breach[0] || out->aborted)
        return;
    check_end(p);
    witness_finish(&p->witness);
}

void play(const struct sheaf_plan *plan, json_t *const *columns, uint64_t seed, struct played *ret_played)
{
    struct player p = {.plan = plan, .random = seed * 0x9E3779B97F4A7C15ull + 1};
    struct lineage_effects effects = {&p, on_ready, on_cancel, on_value_unused, on_root_complete};
    witness_open(&p.witness, plan, columns, ret_played);
    p.complete = calloc(p.witness.roots + 1, sizeof(uint32_t));
    if (lineage_create(plan, &effects, &lineage_heap, &p.lineage) || sched_create(plan, &lineage_heap, &p.sched))
        abort();
    run(&p);
    for (uint32_t i = 0; i < p.dispatch_count; i++) {
        for (uint32_t j = 0; j < p.dispatches[i].count; j++)
            json_decref(p.dispatches[i].turns[j].result.outputs);
        free(p.dispatches[i].turns);
    }
    lineage_destroy(p.lineage);
    sched_destroy(p.sched);
    free(p.complete);
    witness_close(&p.witness);
}
