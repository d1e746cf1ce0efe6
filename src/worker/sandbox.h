/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seal point of a stock worker: after every `open`, before the first row of a stranger's file.
 *
 * Until then a worker may do what its user may; from then on it works with what it holds: memory, open descriptors,
 * the clock, threads, and messages on the one socket to its engine. It cannot name a file, open a connection, start or
 * signal a process, make memory executable, or raise a limit. Three layers, the later ones where the kernel has them:
 *
 *     sandbox_limits.c    resource limits: no core files, nothing can be raised, private memory and files end somewhere
 *     sandbox_landlock.c  Landlock: no right to any file, TCP port, abstract socket or process outside
 *     sandbox_filter.c    seccomp: a list of system calls that may be made, some only with certain arguments; all
 *                         others fail with EPERM. Covers threads that `open` started. No call that takes a path and no
 *                         call that makes a descriptor to something outside is on it
 *
 * A profile says which calls are on the list. SANDBOX_CPU is the one above. SANDBOX_GPU is wider by what a GPU's driver
 * does as it goes: it opens its device files again, talks to them by ioctl, and maps them. Landlock then leaves it the
 * files of the driver, and no others; where the kernel has no Landlock it can name any file its user may (said in the
 * log). Connections, other processes and new programs stay closed.
 *
 * SHEAF_SANDBOX=off in the worker's environment leaves all of it open, for debuggers; so does a build with a sanitizer,
 * whose runtime reads files and starts processes.
 */
#ifndef SRC_WORKER_SANDBOX_H
#define SRC_WORKER_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

/* Dies with the thread that started the process. Before anything else, since the starter may be gone already
 * (-ESRCH). */
int sandbox_follow_parent(void);

enum sandbox_profile { SANDBOX_CPU, SANDBOX_GPU };

struct sandbox_options {
    enum sandbox_profile profile;
    int socket;          /* the only descriptor that messages may be sent and received on */
    uint64_t heap_bytes; /* most private memory, with what is there now; 0: not limited */
};

/* What is enforced from now on. */
struct sandbox_state {
    bool off;      /* SHEAF_SANDBOX=off, or a sanitizer's build */
    bool filtered; /* seccomp */
    int landlock;  /* version of its interface, 0: the kernel has none, or it is disabled */
};

/* Gives up what rows do not need. No way back. 0; a kernel without a layer is no failure but said in `ret_state`;
 * negative errno when a layer that is there cannot be closed. */
int sandbox_close(const struct sandbox_options *options, struct sandbox_state *ret_state);

/* ---- the layers: for sandbox.c ---- */

int sandbox_limit(const struct sandbox_options *options);
/* By SHEAF_SANDBOX=off, or built with a sanitizer, which takes terabytes of address space for itself: then no limit is
 * set either. */
bool sandbox_is_off(void);
/* Private memory as the kernel counts it against RLIMIT_DATA; 0 when it does not say. */
uint64_t sandbox_data_bytes(void);
/* 0; -ENOSYS, -EOPNOTSUPP: the kernel has none. */
int sandbox_landlock(const struct sandbox_options *options, int *ret_version);
/* 0; -ENOSYS: the kernel has none. */
int sandbox_filter(const struct sandbox_options *options);

#endif
