/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/crash_point.h"

#ifdef SHEAF_CRASH_POINTS
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* State of the process that is to die, in builds made for dying only. */
static struct {
    char name[64];
    _Atomic uint32_t left; /* passages until death; 0: never */
    _Atomic bool chosen;
} plan;

static void choose(const char *name, size_t name_length, uint32_t passage)
{
    if (name_length >= sizeof(plan.name)) {
        name_length = 0;
        passage = 0;
    }
    memcpy(plan.name, name, name_length);
    plan.name[name_length] = '\0';
    atomic_store(&plan.left, passage);
    atomic_store(&plan.chosen, true);
}

void crash_point_arm(const char *name, uint32_t passage)
{
    if (name)
        choose(name, strlen(name), passage);
    else
        choose("", 0, 0);
}

static void choose_by_environment(void)
{
    const char *wish = getenv("SHEAF_CRASH_AT");
    if (!wish) {
        choose("", 0, 0);
        return;
    }
    const char *colon = strchr(wish, ':');
    unsigned long passage = colon ? strtoul(colon + 1, NULL, 10) : 1;
    choose(wish, colon ? (size_t)(colon - wish) : strlen(wish), (uint32_t)passage);
}

void crash_point_pass(const char *name)
{
    if (!atomic_load(&plan.chosen))
        choose_by_environment();
    if (atomic_load(&plan.left) == 0 || strcmp(plan.name, name) != 0)
        return;
    if (atomic_fetch_sub(&plan.left, 1) == 1)
        kill(getpid(), SIGKILL);
}
#endif
