/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the supervisor:
 *
 *   supervisor.c         its thread, from the start of a run to its end
 *   supervisor_launch.c  starting processes
 *   supervisor_hear.c    what they say and print
 *   supervisor_bury.c    their deaths, and who takes their place
 *   supervisor_kill.c    kills that other threads ask for
 *
 * Only the supervisor's thread, unless said.
 */
#ifndef SRC_ENGINE_SUPERVISOR_INTERNAL_H
#define SRC_ENGINE_SUPERVISOR_INTERNAL_H

#include <pthread.h>

#include "engine/shard.h"
#include "engine/supervisor.h"
#include "engine/watch.h"
#include "worker/attach.h"

enum {
    FUTILE_STARTS_MAX = 3, /* processes of one worker number that died in a row without having become ready */
};

enum heard { HEARD_WAKE, HEARD_DEATH, HEARD_SOCKET, HEARD_OUTPUT };

struct supervisor {
    struct sheaf_run *run;
    pthread_t thread;
    int epoll_fd, wake_fd;
    struct mailbox inbox; /* kills */
    struct process *processes;
    uint64_t oom_kills; /* the system's count when last looked at */
    _Atomic uint64_t dead_cpu_us;
    _Atomic bool stopping;
    /* The start: under the lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool running; /* past the start: trouble is told to the host */
    uint32_t *ready_of_pool;
    int start_status;
    char start_line[ATTACH_LINE_BYTES + 64];
};

/* supervisor.c */
void supervisor_wake(struct supervisor *supervisor); /* any thread */
int supervisor_listen(struct supervisor *supervisor, int fd, enum heard what, uint32_t worker);
/* Every Pool and shard looks again: PROTOCOL, rule (b). */
void supervisor_wake_waiters(struct sheaf_run *run);
int supervisor_tell_shards(struct supervisor *supervisor, const struct message_worker *message); /* a copy each */
/* Past the start: trouble is told to the host. */
bool supervisor_is_running(struct supervisor *supervisor);
/* Something that ends the run. Before the start is over it is the start's result instead. */
void supervisor_give_up(struct supervisor *supervisor, int status, const char *line);

/* supervisor_launch.c */
void supervisor_launch(struct supervisor *supervisor, uint32_t worker); /* or the run is given up */
/* How many chunks are made real before a worker starts: none where its answers take no memory. It asks for more when it
 * needs them. */
uint32_t supervisor_first_chunks(const struct sheaf_run *run, uint32_t worker);

/* supervisor_hear.c */
void supervisor_hear_socket(struct supervisor *supervisor, uint32_t worker);
void supervisor_hear_output(struct supervisor *supervisor, uint32_t worker);
void supervisor_hear_last_line(struct supervisor *supervisor, uint32_t worker); /* which has no end */

/* supervisor_bury.c */
/* How many processes the kernel has ended for lack of memory since boot. */
uint64_t supervisor_count_oom_kills(void);
void supervisor_bury(struct supervisor *supervisor, uint32_t worker);
/* Those that every shard has recovered. */
void supervisor_replace_recovered(struct supervisor *supervisor);

/* supervisor_kill.c */
/* For what the process itself said or did not take, as the supervisor saw: not once it is dead. */
void supervisor_kill_speaker(struct supervisor *supervisor, uint32_t worker, const char *why);
void supervisor_take_kills(struct supervisor *supervisor);

#endif
