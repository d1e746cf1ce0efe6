/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Named points at which a process can be made to die, one after each write to shared memory.
 *
 * Compiled in with -Dcrashpoints=true only; otherwise SHEAF_CRASH_POINT is nothing. A build that has them kills its own
 * process (SIGKILL, as a real death would be: nothing is cleaned up) at the k-th passage of a point, as the environment
 * says:
 *
 *     SHEAF_CRASH_AT=name[:k]                      the process that has this environment (k counts from 1, per process)
 *     SHEAF_CRASH_AT=name[:k]@worker[.generation]  only the worker process of that number (generation: 1 is the first
 *                                                  process of a number, the default)
 *     SHEAF_CRASH_PAUSE=name:us                    every process waits so long at every passage of that point, which
 *                                                  widens a window of a few instructions so that others get into it
 *
 * Tests that fork may choose for the child with crash_point_arm.
 */
#ifndef SHM_CRASH_POINT_H
#define SHM_CRASH_POINT_H

#ifdef SHEAF_CRASH_POINTS
#include <stdbool.h>
#include <stdint.h>

/* Die at the k-th passage of `name` from now on, instead of what the environment says; NULL: never. Not thread-safe. */
void crash_point_arm(const char *name, uint32_t passage);
/* This process is a worker, of that number and generation. Passages before do not count for a plan that names one. */
void crash_point_identify(uint32_t worker, uint32_t generation);
void crash_point_pass(const char *name);
#define SHEAF_CRASH_POINT(name) crash_point_pass(name)
#define SHEAF_CRASH_IDENTITY(worker, generation) crash_point_identify(worker, generation)
#else
#define SHEAF_CRASH_POINT(name) ((void)0)
#define SHEAF_CRASH_IDENTITY(worker, generation) ((void)0)
#endif

#endif
