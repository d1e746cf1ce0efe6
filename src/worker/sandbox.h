/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seal point of a stock worker: after every `open`, before the first row of a stranger's file.
 */
#ifndef SRC_WORKER_SANDBOX_H
#define SRC_WORKER_SANDBOX_H

/* Dies with the thread that started the process. Before anything else, since the starter may be gone already
 * (-ESRCH). */
int sandbox_follow_parent(void);

/* Gives up new privileges and core dumps. No way back. Files and sockets are not denied yet. 0 or negative errno. */
int sandbox_close(void);

#endif
