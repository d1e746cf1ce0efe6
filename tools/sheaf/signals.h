/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals as bytes on a pipe, so that the main loop polls them like everything else.
 *
 * SIGINT and SIGTERM are written to the pipe; the third one of either kind ends the process at once, as the system
 * would have. SIGUSR1 is written there, too, as often as it comes. SIGPIPE is ignored: a closed standard output is an
 * error of the write that meets it.
 */
#ifndef SHEAF_TOOL_SIGNALS_H
#define SHEAF_TOOL_SIGNALS_H

#include <signal.h>

enum { SIGNAL_INTERRUPT = SIGINT, SIGNAL_TERMINATE = SIGTERM, SIGNAL_STATE = SIGUSR1 };

/* 0 or a negative errno. Once per process. */
int signals_install(void);
/* From here on signals do what they do in any program: for when nothing is left to be saved. */
void signals_restore(void);
/* Readable when a signal came. */
int signals_descriptor(void);
/* The next signal that came, or 0. */
int signals_next(void);

#endif
