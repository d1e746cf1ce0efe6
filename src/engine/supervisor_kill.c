/* SPDX-License-Identifier: Apache-2.0 */
/* Other threads want a worker ended: its process may be another one by now, which is left alone. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/supervisor_internal.h"

struct message_kill {
    struct message message;
    uint32_t worker, generation;
    enum worker_end end;
    bool by_shard;  /* for what others of its Pool may have done as well */
    uint32_t grain; /* TIMED_OUT: the row */
    uint64_t number;
    uint64_t patience_ns; /* only if it has been ready for so long; 0: in any case */
    char why[128];
};

static void order_kill(struct supervisor *supervisor, const struct message_kill *order)
{
    struct message_kill *message = malloc(sizeof *message);
    if (!message)
        return;
    *message = *order;
    mailbox_post(&supervisor->inbox, &message->message);
    supervisor_wake(supervisor);
}

void supervisor_kill(struct supervisor *supervisor, uint32_t worker, uint32_t generation, const char *why)
{
    struct message_kill order = {.worker = worker, .generation = generation, .end = WORKER_BREACH, .by_shard = true};
    snprintf(order.why, sizeof order.why, "%s", why);
    order_kill(supervisor, &order);
}

void supervisor_kill_speaker(struct supervisor *supervisor, uint32_t worker, const char *why)
{
    struct message_kill order = {
        .worker = worker, .generation = supervisor->processes[worker].generation, .end = WORKER_BREACH};
    snprintf(order.why, sizeof order.why, "%s", why);
    order_kill(supervisor, &order);
}

void supervisor_time_out(struct supervisor *supervisor, uint32_t worker, uint32_t generation, uint32_t grain,
                         uint64_t number, uint32_t timeout_ms)
{
    struct message_kill order = {
        .worker = worker, .generation = generation, .end = WORKER_TIMED_OUT, .grain = grain, .number = number};
    snprintf(order.why, sizeof order.why, "no answer within %.3g s", timeout_ms / 1e3);
    order_kill(supervisor, &order);
}

void supervisor_end_stuck(struct supervisor *supervisor, uint32_t worker, uint32_t generation)
{
    struct message_kill order = {
        .worker = worker, .generation = generation, .end = WORKER_STUCK, .why = "it had rows and ran none of them"};
    order_kill(supervisor, &order);
}

void supervisor_end_idle(struct supervisor *supervisor, uint32_t worker, uint32_t generation, uint64_t patience_ns)
{
    struct message_kill order = {.worker = worker,
                                 .generation = generation,
                                 .end = WORKER_BREACH,
                                 .patience_ns = patience_ns,
                                 .why = "rows or orders waited and it took none"};
    order_kill(supervisor, &order);
}

static void carry_out(struct supervisor *supervisor, const struct message_kill *order)
{
    struct process *process = &supervisor->processes[order->worker];
    bool ready = process->phase == PHASE_READY;
    if (process->generation != order->generation || process->killed || !(ready || process->phase == PHASE_STARTING))
        return;
    if (order->patience_ns > 0 && (!ready || clock_now_ns() - process->ready_ns < order->patience_ns))
        return;
    process->grain = order->grain;
    process->number = order->number;
    process->idle = order->patience_ns > 0;
    process->by_shard = order->by_shard;
    process_kill(process, order->end, "%s", order->why);
}

void supervisor_take_kills(struct supervisor *supervisor)
{
    struct message *message = mailbox_take(&supervisor->inbox);
    while (message) {
        struct message_kill *order = (struct message_kill *)message;
        message = message->next;
        carry_out(supervisor, order);
        free(order);
    }
}
