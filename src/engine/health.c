/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/health.h"

#include <stdio.h>

enum { DEVICE_FAULTS_MAX = 3 };

void health_last_words(struct process *process, const struct attach_reply *reply)
{
    uint32_t kind = ATTACH_FAULT_KIND(reply->number);
    bool known = kind != DEVICE_FAULT_NONE && kind <= DEVICE_FAULT_UNSUITED;
    process->fault = known ? (enum device_fault)kind : DEVICE_FAULT_LOST;
    process->fault_alone = ATTACH_FAULT_ALONE(reply->number);
    snprintf(process->refusal, sizeof process->refusal, "%.*s", (int)sizeof process->refusal - 1, reply->line);
}

uint32_t health_devices_left(const struct sheaf_run *run, const struct process *processes, uint32_t pool)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < run->pool_count[pool]; i++)
        left += !processes[run->pool_first[pool] + i].retired;
    return left;
}

void health_count_fault(struct sheaf_run *run, struct process *processes, uint32_t worker)
{
    struct process *process = &processes[worker];
    uint32_t number = run->workers[worker].device;
    if (process->killed || process->fault == DEVICE_FAULT_NONE || number == TOPO_NONE)
        return;
    if (load_relaxed_u64(&run->workers[worker].lane.counters->batches) > 0)
        process->faults_in_a_row = 0;
    atomic_fetch_add_explicit(&run->devices->failures[number], 1, memory_order_relaxed);
    process->device_faults += device_fault_is_device(process->fault);
    process->faults_in_a_row += !process->fault_alone;
    process->retired = process->fault == DEVICE_FAULT_UNSUITED || process->device_faults >= DEVICE_FAULTS_MAX ||
                       process->faults_in_a_row >= DEVICE_FAULTS_MAX;
    if (!process->retired)
        return;
    char failures[32] = "";
    if (process->fault != DEVICE_FAULT_UNSUITED) /* which no second try changes */
        snprintf(failures, sizeof failures, " after %u failures", DEVICE_FAULTS_MAX);
    atomic_store_explicit(&run->devices->retired[number], true, memory_order_relaxed);
    run_log(run, 2, "device %u (%s) is retired%s, %u left: %s", run->devices->found[number].ordinal,
            run->devices->found[number].name, failures, health_devices_left(run, processes, run->workers[worker].pool),
            process->refusal);
}
