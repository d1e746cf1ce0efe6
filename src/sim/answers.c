/* SPDX-License-Identifier: Apache-2.0 */
/* What rows say, and what becomes of them when their dispatch is lost. */
#include <stdlib.h>
#include <string.h>

#include "sim/state.h"

static struct value_ref number(struct sim *sim, uint64_t value)
{
    sim->result->values_made++;
    return (struct value_ref){.kind = SHEAF_I64, .offset = value};
}

static uint64_t first_input(const struct sim *sim, struct grain grain)
{
    struct lineage_value value;
    lineage_input(sim->lineage, grain, 0, &value);
    return value.is_list ? 0 : value.value.offset;
}

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
    if (state->expands)
        row->children = (uint32_t)first_input(sim, row->grain);
    if (!sim->setup->fault)
        return;
    uint64_t at[16];
    uint32_t depth = lineage_coordinate(sim->lineage, call->domain, row->grain.entity, at, 16);
    row->fault = (uint8_t)sim->setup->fault(sim->setup->cookie, row->grain.call, at, depth, row->attempt);
}

/* One more child of a Call that expands. False: there are no more. */
bool row_emit(struct sim *sim, struct sim_row *row)
{
    const struct plan_call *call = &sim->plan->calls[row->grain.call];
    if (row->emitted >= row->children)
        return false;
    for (uint32_t i = 0; i < call->expansion_count; i++) {
        uint32_t groups = 0;
        struct value_ref values[8];
        for (uint32_t port = 0; port < sim->plan->port_count; port++)
            groups += sim->plan->ports[port].port_kind == PLAN_EXPAND &&
                      sim->plan->ports[port].domain == sim->plan->call_expansions[call->expansion_first + i];
        for (uint32_t j = 0; j < groups && j < 8; j++)
            values[j] = number(sim, row->emitted);
        lineage_child(sim->lineage, row->grain, i, row->emitted, values);
    }
    row->emitted++;
    sched_child(sim->sched, lineage_root_of(sim->lineage, row->grain));
    sim->calls[row->grain.call].children.emitted++;
    return true;
}

static bool is_expanded(const struct sim *sim, uint32_t output)
{
    for (uint32_t i = 0; i < sim->plan->port_count; i++)
        if (sim->plan->ports[i].port_kind == PLAN_EXPAND && sim->plan->ports[i].source == output)
            return true;
    return false;
}

static void answer(struct sim *sim, struct sim_row *row)
{
    const struct plan_call *call = &sim->plan->calls[row->grain.call];
    struct call_state *state = &sim->calls[row->grain.call];
    struct value_ref outputs[8] = {{0}};
    bool wanted = !row->cancelled;
    uint64_t value = wanted ? first_input(sim, row->grain) : 0;
    while (row_emit(sim, row))
        ;
    if (state->expands)
        upstream_answered(&state->children, row->children);
    for (uint32_t slot = 0; slot < call->output_count && slot < 8; slot++)
        if (!is_expanded(sim, sim->plan->call_ports[call->output_first + slot]))
            outputs[slot] = number(sim, value);
    lineage_answer(sim->lineage, row->grain, outputs, NULL);
    if (state->expands && wanted)
        expansion_closed(sim, row->grain.call, row->grain.entity);
}

static void fail(struct sim *sim, struct sim_row *row, enum sheaf_scope scope, enum sheaf_class class_id)
{
    static const char text[] = "simulated failure";
    struct lineage_cause cause = {scope, class_id, text, sizeof(text) - 1, row->attempt, 0};
    lineage_fail(sim->lineage, row->grain, &cause);
}

/* A RUNNING row comes to its end, or a claimed one of a batch that was skipped. */
void row_finish(struct sim *sim, struct device *device, struct sim_row *row)
{
    bool succeeded = row->fault == SIM_ANSWERS && !row->cancelled;
    if (row->fault == SIM_ANSWERS)
        answer(sim, row);
    else
        fail(sim, row,
             row->fault == SIM_FAILS_ROOT    ? SHEAF_SCOPE_ROOT
             : row->fault == SIM_FAILS_GROUP ? SHEAF_SCOPE_GROUP
                                             : SHEAF_SCOPE_ITEM,
             SHEAF_CLASS_OPERATOR);
    row_end(sim, device, row, true);
    gate_row_over(sim, row->grain, succeeded);
}

static struct sched_loss loss_of(const struct sim *sim, const struct device *device, enum sim_fault fault)
{
    struct sched_loss loss = {.event = fault == SIM_CRASHES ? SCHED_CRASHED
                                       : fault == SIM_HANGS ? SCHED_TIMED_OUT
                                                            : SCHED_RAISED,
                              .class_id = fault == SIM_CRASHES ? SHEAF_CLASS_CRASHED
                                          : fault == SIM_HANGS ? SHEAF_CLASS_TIMEOUT
                                                               : SHEAF_CLASS_OPERATOR,
                              .call = device->call,
                              .culprit = SCHED_UNKNOWN,
                              .rows_before = device->rows_before};
    (void)sim;
    for (uint32_t i = 0; i < device->count; i++)
        loss.rows_run += device->rows[i].state == ROW_RUNS;
    return loss;
}

static void settle_verdict(struct sim *sim, struct device *device, struct sim_row *row, enum sched_verdict verdict,
                           enum sheaf_class class_id)
{
    bool sealed = verdict == SCHED_SEAL_FAILED || verdict == SCHED_SEAL_ABORT;
    if (sealed)
        fail(sim, row, SHEAF_SCOPE_ITEM, class_id);
    row_end(sim, device, row, false);
    if (sealed)
        gate_row_over(sim, row->grain, false);
}

void dispatch_lose(struct sim *sim, struct device *device, struct sim_row *guilty, enum sim_fault fault)
{
    struct sched_loss loss = loss_of(sim, device, fault);
    uint32_t *entities = malloc(device->count * sizeof(*entities)), *index = malloc(device->count * sizeof(*index));
    enum sched_verdict *verdicts = malloc(device->count * sizeof(*verdicts));
    uint32_t count = 0;
    for (uint32_t i = 0; i < device->count && entities && index && verdicts; i++) {
        struct sim_row *row = &device->rows[i];
        if (row->state == ROW_IS_OVER)
            continue;
        if (row->cancelled) {
            row_end(sim, device, row, true);
            continue;
        }
        if (row == guilty)
            loss.culprit = count;
        index[count] = i;
        entities[count++] = row->grain.entity;
    }
    if (count)
        sched_failed(sim->sched, &loss, entities, count, sim->now_us, verdicts);
    for (uint32_t i = 0; i < count; i++)
        settle_verdict(sim, device, &device->rows[index[i]], verdicts[i], loss.class_id);
    free(entities);
    free(index);
    free(verdicts);
    device_idle(sim, device, fault != SIM_RAISES);
}
