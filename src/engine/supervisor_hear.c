/* SPDX-License-Identifier: Apache-2.0 */
/* What workers say on their sockets, and what they print. */
#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "engine/health.h"
#include "engine/lend.h"
#include "engine/supervisor_internal.h"

enum { ROUNDS_MAX = 32 /* reads from one descriptor before others are looked at */ };

static void answer_request(struct supervisor *supervisor, uint32_t worker, const struct attach_reply *request)
{
    int fd = -1, result = lend_descriptor(supervisor->run, worker, request, &fd);
    result = attach_answer_descriptor(supervisor->processes[worker].child.socket, request->number, fd, result);
    if (fd >= 0)
        close(fd);
    if (result < 0)
        supervisor_kill_speaker(supervisor, worker, "it does not take the descriptor it asked for");
}

static void became_ready(struct supervisor *supervisor, uint32_t worker)
{
    struct process *process = &supervisor->processes[worker];
    process->phase = PHASE_READY;
    process->ready_ns = clock_now_ns();
    process->futile_starts = 0;
    run_log(supervisor->run, 0, "worker %u is ready: process %d", worker, (int)process->child.pid);
    pthread_mutex_lock(&supervisor->lock);
    supervisor->ready_of_pool[supervisor->run->workers[worker].pool]++;
    pthread_cond_broadcast(&supervisor->changed);
    pthread_mutex_unlock(&supervisor->lock);
}

/* While the run starts, its own words are the reason for the user; later, a replacement gets more tries. */
static void refused_to_serve(struct supervisor *supervisor, uint32_t worker, const struct attach_reply *reply)
{
    struct process *process = &supervisor->processes[worker];
    snprintf(process->refusal, sizeof process->refusal, "%.*s", (int)sizeof process->refusal - 1, reply->line);
    if (!supervisor_is_running(supervisor))
        supervisor_give_up(supervisor, reply->status < 0 ? reply->status : SHEAF_E_ENVIRONMENT, reply->line);
}

void supervisor_hear_socket(struct supervisor *supervisor, uint32_t worker)
{
    struct process *process = &supervisor->processes[worker];
    struct attach_reply reply;
    int result = -EAGAIN;
    for (int round = 0; round < ROUNDS_MAX; round++) {
        result = attach_receive_reply(process->child.socket, &reply);
        if (result < 0)
            break;
        switch (reply.kind) {
        case ATTACH_READY:
            if (process->phase == PHASE_STARTING)
                became_ready(supervisor, worker);
            break;
        case ATTACH_ERROR:
            refused_to_serve(supervisor, worker, &reply);
            break;
        case ATTACH_DEVICE_FAULT:
            health_last_words(process, &reply);
            break;
        case ATTACH_REQUEST_DESCRIPTOR:
        case ATTACH_REQUEST_COPY:
            answer_request(supervisor, worker, &reply);
            break;
        default:
            (void)attach_answer_descriptor(process->child.socket, reply.number, -1, -ENOENT);
            break;
        }
    }
    if (result == 0 || result == -EAGAIN)
        return;
    epoll_ctl(supervisor->epoll_fd, EPOLL_CTL_DEL, process->child.socket, NULL);
    if (result != -EPIPE)
        supervisor_kill_speaker(supervisor, worker,
                                result == SHEAF_E_ABI ? "it is of another version; use worker and library of one build"
                                                      : "it wrote nonsense on its socket");
}

void supervisor_hear_last_line(struct supervisor *supervisor, uint32_t worker)
{
    struct process *process = &supervisor->processes[worker];
    if (process->line_bytes > 0)
        run_log(supervisor->run, 1, "worker %u printed: %.*s", worker, (int)process->line_bytes, process->line);
    process->line_bytes = 0;
}

void supervisor_hear_output(struct supervisor *supervisor, uint32_t worker)
{
    struct process *process = &supervisor->processes[worker];
    char buffer[4096];
    ssize_t got = 1;
    /* Bounded: one that prints without end must not keep us from the others. */
    for (int round = 0; round < ROUNDS_MAX && (got = read(process->child.output, buffer, sizeof buffer)) > 0; round++) {
        for (ssize_t i = 0; i < got; i++) {
            if (buffer[i] == '\n' || process->line_bytes == OUTPUT_LINE_BYTES)
                supervisor_hear_last_line(supervisor, worker);
            if (buffer[i] != '\n')
                process->line[process->line_bytes++] = buffer[i];
        }
    }
    if (got == 0)
        epoll_ctl(supervisor->epoll_fd, EPOLL_CTL_DEL, process->child.output, NULL);
}
