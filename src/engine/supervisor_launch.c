/* SPDX-License-Identifier: Apache-2.0 */
/* Starting the process of a worker number. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/greet.h"
#include "engine/place.h"
#include "engine/supervisor_internal.h"

enum { FIRST_CHUNKS = 2 }; /* of a worker whose answers take memory */

/* A process whose death nobody would be told of is ended here and now. */
static void bury_unwatched(struct process *process)
{
    int status;
    long cpu_us;
    child_kill(&process->child, SIGKILL);
    child_reap(&process->child, &status, &cpu_us);
    child_close(&process->child);
    process->phase = PHASE_NONE;
}

/* Whether an operator that the Pool serves may answer with anything that takes memory. One that answers with numbers
 * may still take some for itself while it works: it asks then, as one that needs a third chunk does. */
static bool answers_take_memory(const struct sheaf_run *run, uint32_t pool)
{
    const struct sheaf_plan *plan = run->plan;
    const struct plan_pool *plan_pool = &plan->pools[pool];
    for (uint32_t i = 0; i < plan_pool->call_count; i++) {
        const struct plan_call *call = &plan->calls[plan->pool_calls[plan_pool->call_first + i]];
        for (uint32_t output = 0; call->live && output < call->output_count; output++) {
            const struct plan_port *port = &plan->ports[plan->call_ports[call->output_first + output]];
            if (!value_is_scalar(port->kind) || (call->op->outputs[output].flags & SHEAF_PORT_GROUP) != 0)
                return true;
        }
    }
    return false;
}

uint32_t supervisor_first_chunks(const struct sheaf_run *run, uint32_t worker)
{
    return answers_take_memory(run, run->workers[worker].pool) ? FIRST_CHUNKS : 0;
}

static int spawn_process(const struct sheaf_run *run, uint32_t worker, const cpu_set_t *cores, struct child *ret_child)
{
    uint32_t device = run->workers[worker].device;
    char *visible = device != TOPO_NONE ? devices_visible(run->devices->found[device].ordinal) : NULL;
    struct child_options options = {
        .path = run->engine->worker_path, .mode = "--attach", .cores = cores, .devices = visible};
    int result = device != TOPO_NONE && !visible ? -ENOMEM : child_spawn(&options, ret_child);
    free(visible);
    return result;
}

static int start_process(struct supervisor *supervisor, uint32_t worker)
{
    struct sheaf_run *run = supervisor->run;
    struct process *process = &supervisor->processes[worker];
    cpu_set_t cores;
    bool kept = place_worker_cores(run, worker, &cores);
    payload_back(run->payload, worker, supervisor_first_chunks(run, worker));
    struct greeting greeting;
    int result = greet_prepare(run, worker, &greeting);
    if (result < 0)
        return result;
    process->started_ns = clock_now_ns();
    process->start_told = false;
    struct message_worker attached = {
        .message.kind = MESSAGE_ATTACHED, .worker = worker, .generation = process->generation + 1};
    result = supervisor_tell_shards(supervisor, &attached);
    if (result == 0)
        result = spawn_process(run, worker, kept ? &cores : NULL, &process->child);
    if (result < 0) {
        free(greeting.chunks);
        return result;
    }
    atomic_store_explicit(&process->pid, process->child.pid, memory_order_relaxed);
    process->phase = PHASE_STARTING;
    process->generation++;
    process->killed = process->idle = process->by_shard = process->undead_told = false;
    process->fault = DEVICE_FAULT_NONE;
    process->base_bytes = process->bytes = process->rows_run = 0;
    process->stopped_ticks = 0;
    process->least_ticks = 0;
    process->ending_since_ns = 0;
    process->end = WORKER_CRASHED;
    process->line_bytes = 0;
    result = greet_send(run, worker, process->generation, process->child.socket, &greeting);
    process->greeted = result == 0;
    if (result < 0)
        process_kill(process, WORKER_BREACH, "it was not ready to be greeted: %s", sheaf_status_text(result));
    result = supervisor_listen(supervisor, process->child.pidfd, HEARD_DEATH, worker);
    if (result == 0)
        result = supervisor_listen(supervisor, process->child.socket, HEARD_SOCKET, worker);
    if (result == 0)
        result = supervisor_listen(supervisor, process->child.output, HEARD_OUTPUT, worker);
    if (result < 0)
        bury_unwatched(process);
    return result;
}

void supervisor_launch(struct supervisor *supervisor, uint32_t worker)
{
    int result = start_process(supervisor, worker);
    if (result == 0)
        return;
    char line[512];
    snprintf(line, sizeof line, "cannot start a worker: %s: %s; set SHEAF_WORKER to the worker program",
             supervisor->run->engine->worker_path, sheaf_status_text(result));
    supervisor_give_up(supervisor, SHEAF_E_ENVIRONMENT, line);
}
