/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Named points at which a process can be made to die, one after each write to shared memory.
 *
 * Compiled in with -Dcrashpoints=true only; otherwise SHEAF_CRASH_POINT is nothing. A build that has them kills its own
 * process (SIGKILL, as a real death would be: nothing is cleaned up) at the k-th passage of the point named by
 * SHEAF_CRASH_AT=name[:k] (k counts from 1, per process). Tests that fork may choose for the child with
 * crash_point_arm.
 */
#ifndef SHM_CRASH_POINT_H
#define SHM_CRASH_POINT_H

#ifdef SHEAF_CRASH_POINTS
#include <stdbool.h>
#include <stdint.h>

/* Die at the k-th passage of `name` from now on, instead of what the environment says; NULL: never. Not thread-safe. */
void crash_point_arm(const char *name, uint32_t passage);
void crash_point_pass(const char *name);
#define SHEAF_CRASH_POINT(name) crash_point_pass(name)
#else
#define SHEAF_CRASH_POINT(name) ((void)0)
#endif

#endif
