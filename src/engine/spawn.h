/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting and burying worker processes.
 *
 * A child is cloned with a pidfd and without an exit signal, so the host's SIGCHLD and wait() never see it. The thread
 * that starts it waits until it has executed its program (as vfork does), also where that lies on a disk that does not
 * answer; so no memory of the host is copied. It dies with that thread (PDEATHSIG follows the thread), which is why
 * only the supervisor thread may call this.
 */
#ifndef SRC_ENGINE_SPAWN_H
#define SRC_ENGINE_SPAWN_H

#include <sched.h>
#include <stdbool.h>
#include <sys/types.h>

struct child {
    pid_t pid;
    int pidfd;            /* readable once the process is dead */
    int socket;           /* our end of the attach socket */
    int output;           /* what it prints, on both stdout and stderr */
    int statm, schedstat; /* its files in /proc, from the first look at them on */
};
#define CHILD_NONE ((struct child){.pid = 0, .pidfd = -1, .socket = -1, .output = -1, .statm = -1, .schedstat = -1})

struct child_options {
    const char *path;
    const char *mode;       /* "--attach" */
    const cpu_set_t *cores; /* its affinity; NULL: all */
    const char *devices;    /* what CUDA_VISIBLE_DEVICES is for it; NULL: as it is */
};

/* Executes `path MODE 3`, with the other end of a socket pair as descriptor 3, /dev/null as stdin and a process group
 * of its own (a terminal's Ctrl-C is the host's to handle). */
int child_spawn(const struct child_options *options, struct child *ret_child);

/* Ends it. The pidfd tells when it is gone. */
void child_kill(const struct child *child, int signal_number);

/* Whether a signal has stopped it and nothing has let it go on since. */
bool child_is_stopped(const struct child *child);

/* Collects a dead child: its wait status, and CPU microseconds of its life. Processes that it started end with it.
 * -EBUSY: it is not dead, or a tracer has it. Call once, after the pidfd became readable. */
int child_reap(struct child *child, int *ret_status, long *ret_cpu_us);

/* Closes the descriptors; the process must be reaped. */
void child_close(struct child *child);

#endif
