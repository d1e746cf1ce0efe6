/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seal point of a stock worker: after every `open`, before the first row of a stranger's file.
 */
#ifndef SRC_WORKER_SANDBOX_H
#define SRC_WORKER_SANDBOX_H

/* Dies with the thread that started the process. Before anything else, since the starter may be gone already
 * (-ESRCH). */
int sandbox_follow_parent(void);

/* Gives up what rows do not need. No way back. 0 or negative errno. */
int sandbox_close(void);

#endif
