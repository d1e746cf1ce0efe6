/* SPDX-License-Identifier: Apache-2.0 */
/* What rows say, and what becomes of them when their dispatch is lost. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/state.h"

static void consumers_resume(struct sim *sim, uint32_t maker)
{
    for (uint32_t i = 0; i < sim->plan->call_count; i++)
        for (uint32_t j = 0; j < sim->upstream.calls[i].maker_count; j++)
            if (sim->upstream.calls[i].makers[j].call == maker)
                policy_resumed(&sim->calls[i].arrivals, sim->now_us);
}

/* Claimed rows that are suppressed are skipped. */
void row_start(struct sim *sim, struct sim_row *row)
{
    const struct plan_call *call = &sim->plan->calls[row->grain.call];
    struct call_state *state = &sim->calls[row->grain.call];
    if (row->cancelled) {
        row_end(sim, &sim->devices[claim_of(sim, row->grain)->device - 1], row, true);
        gate_row_over(sim, row->grain, false);
        return;
    }
    row->state = ROW_RUNS;
    if (state->running++ == 0)
        consumers_resume(sim, row->grain.call);
    lineage_started(sim->lineage, row->grain);
    row->saying = (struct sim_saying){0};
    sim->operators.start(sim->operators.cookie, sim->lineage, row->grain, row->attempt, &row->saying);
    row->children = 0;
    for (uint32_t i = 0; i < call->expansion_count; i++)
        if (row->saying.children[i] > row->children)
            row->children = row->saying.children[i];
    const struct sim_service *service = &sim->setup->services[row->grain.call];
    double us =
        service->child_us * row->children + (call->batch ? batch_us(service, 1) : service->fixed_us + service->row_us);
    if (us > state->longest_row_us)
        state->longest_row_us = us;
    state->children_us += service->child_us * row->children;
}

static uint64_t children_alive(const struct sim *sim)
{
    return lineage_live_entities(sim->lineage) - lineage_live_roots(sim->lineage);
}

bool row_may_emit(struct sim *sim, const struct device *device, const struct sim_row *row)
{
    const struct pool_state *pool = &sim->pools[device->pool];
    if (!sim->setup->children_max || row->cancelled || row->saying.at_once || row->emitted >= row->children ||
        children_alive(sim) < sim->setup->children_max)
        return true;
    uint32_t root = lineage_root_of(sim->lineage, row->grain);
    bool first = lineage_root_index(sim->lineage, root) == sim->lowest;
    bool last_worker = pool->blocked + 1 >= pool->device_count;
    sim->result->spilled += first || last_worker; /* somebody has to go on */
    return first || last_worker;
}

/* One more child of each Expansion. False: there are no more. */
bool row_emit(struct sim *sim, struct sim_row *row)
{
    const struct plan_call *call = &sim->plan->calls[row->grain.call];
    const struct call_state *state = &sim->calls[row->grain.call];
    if (row->emitted >= row->children)
        return false;
    for (uint32_t i = 0; i < call->expansion_count; i++) {
        struct value_ref values[SIM_EXPANSIONS_MAX];
        if (row->emitted >= row->saying.children[i])
            continue;
        for (uint32_t j = 0; j < state->groups[i].count; j++)
            values[j] = sim->operators.child(sim->operators.cookie, &row->saying, row->grain, state->groups[i].slots[j],
                                             row->emitted);
        sim->result->values_made += state->groups[i].count;
        int status = lineage_child(sim->lineage, row->grain, i, row->emitted, values);
        sim->error = sim->error ? sim->error : status;
    }
    row->emitted++;
    sim->still = 0;
    sched_children(sim->sched, lineage_root_of(sim->lineage, row->grain), 1);
    sim->calls[row->grain.call].children.emitted++;
    return true;
}

static void answer(struct sim *sim, struct sim_row *row)
{
    const struct plan_call *call = &sim->plan->calls[row->grain.call];
    struct call_state *state = &sim->calls[row->grain.call];
    struct value_ref outputs[SIM_EXPANSIONS_MAX] = {{0}};
    bool wanted = !row->cancelled;
    while (row_emit(sim, row))
        ;
    if (state->expands)
        upstream_answered(&state->children, row->children);
    for (uint32_t slot = 0; slot < call->output_count; slot++) {
        if (state->expanded_slot[slot])
            continue;
        outputs[slot] = sim->operators.output(sim->operators.cookie, &row->saying, row->grain, slot);
        sim->result->values_made++;
    }
    int status = lineage_answer(sim->lineage, row->grain, outputs, row->saying.children);
    if (status < 0 && !sim->error)
        sim->error = status;
    if (state->expands && wanted)
        expansion_closed(sim, row->grain.call, row->grain.entity);
}

static void fail(struct sim *sim, struct sim_row *row, enum sheaf_scope scope, enum sheaf_class class_id)
{
    const char *text = row->saying.text ? row->saying.text : "";
    struct lineage_cause cause = {scope, class_id, text, (uint32_t)strlen(text), row->attempt, 0};
    int status = lineage_fail(sim->lineage, row->grain, &cause);
    sim->still = 0;
    sim->error = sim->error ? sim->error : status;
}

/* A RUNNING row comes to its end, or a claimed one of a batch that was skipped. */
void row_finish(struct sim *sim, struct device *device, struct sim_row *row)
{
    enum sim_fault fault = row->saying.fault;
    bool succeeded = fault == SIM_ANSWERS && !row->cancelled;
    sim->still = 0;
    if (fault == SIM_ANSWERS)
        answer(sim, row);
    else
        fail(sim, row,
             fault == SIM_FAILS_ROOT    ? SHEAF_SCOPE_ROOT
             : fault == SIM_FAILS_GROUP ? SHEAF_SCOPE_GROUP
                                        : SHEAF_SCOPE_ITEM,
             row->saying.class_id);
    row_end(sim, device, row, true);
    gate_row_over(sim, row->grain, succeeded);
}

/* ---- lost dispatches ---- */

static enum sheaf_class class_of(enum sim_fault fault)
{
    return fault == SIM_CRASHES  ? SHEAF_CLASS_CRASHED
           : fault == SIM_HANGS  ? SHEAF_CLASS_TIMEOUT
           : fault == SIM_BREAKS ? SHEAF_CLASS_CONTRACT
                                 : SHEAF_CLASS_OPERATOR;
}

static struct sched_loss loss_of(const struct device *device, enum sim_fault fault)
{
    struct sched_loss loss = {.event = fault == SIM_CRASHES ? SCHED_CRASHED
                                       : fault == SIM_HANGS ? SCHED_TIMED_OUT
                                                            : SCHED_RAISED,
                              .class_id = class_of(fault),
                              .call = device->call,
                              .culprit = SCHED_UNKNOWN,
                              .worker = device->number,
                              .rows_before = device->rows_before};
    for (uint32_t i = 0; i < device->count; i++)
        loss.rows_run += device->rows[i].state == ROW_RUNS;
    return loss;
}

static void settle_verdict(struct sim *sim, struct device *device, struct sim_row *row, enum sched_verdict verdict,
                           enum sheaf_class class_id)
{
    bool sealed = verdict == SCHED_SEAL_FAILED || verdict == SCHED_SEAL_ABORT;
    struct sim_result *result = sim->result;
    if (sealed)
        fail(sim, row, SHEAF_SCOPE_ITEM, class_id);
    if (verdict == SCHED_SEAL_ABORT && !result->aborted) {
        const char *text = row->saying.text && row->saying.text[0] ? row->saying.text : sheaf_class_name(class_id);
        result->aborted = true;
        snprintf(result->abort_cause, sizeof(result->abort_cause), "%s", text);
    }
    row_end(sim, device, row, false);
    if (sealed)
        gate_row_over(sim, row->grain, false);
}

/* The rows that recovery decides about; those that are suppressed end here. */
static uint32_t rows_at_stake(struct sim *sim, struct device *device, uint32_t *index)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < device->count; i++) {
        struct sim_row *row = &device->rows[i];
        if (row->state == ROW_IS_OVER)
            continue;
        if (!row->cancelled) {
            index[count++] = i;
            continue;
        }
        row_end(sim, device, row, true);
        gate_row_over(sim, row->grain, false);
    }
    return count;
}

static void rows_recover(struct sim *sim, struct device *device, const struct sim_row *guilty, struct sched_loss loss,
                         const uint32_t *index, uint32_t count)
{
    uint32_t *entities = malloc(count * sizeof(*entities));
    enum sched_verdict *verdicts = malloc(count * sizeof(*verdicts));
    for (uint32_t i = 0; i < count && entities; i++) {
        entities[i] = device->rows[index[i]].grain.entity;
        if (&device->rows[index[i]] == guilty)
            loss.culprit = i;
    }
    int status =
        entities && verdicts ? sched_failed(sim->sched, &loss, entities, count, sim->now_us, verdicts) : -ENOMEM;
    sim->error = sim->error ? sim->error : status;
    for (uint32_t i = 0; i < count && status == 0; i++)
        settle_verdict(sim, device, &device->rows[index[i]], verdicts[i], loss.class_id);
    free(entities);
    free(verdicts);
}

void dispatch_lose(struct sim *sim, struct device *device, struct sim_row *guilty, enum sim_fault fault)
{
    uint32_t *index = malloc(device->count * sizeof(*index));
    struct sched_loss loss = loss_of(device, fault); /* counts rows that ran, suppressed ones too */
    uint32_t count = index ? rows_at_stake(sim, device, index) : 0;
    device->lost = true;
    if (!index)
        sim->error = -ENOMEM;
    else if (fault != SIM_ANSWERS && count)
        rows_recover(sim, device, guilty, loss, index, count);
    for (uint32_t i = count; fault == SIM_ANSWERS && i-- > 0;) { /* nobody is charged */
        struct sim_row *row = &device->rows[index[i]];
        sched_requeue_uncharged(sim->sched, row->grain);
        row_end(sim, device, row, false);
    }
    free(index);
    device_idle(sim, device, fault != SIM_RAISES && fault != SIM_BREAKS);
}
