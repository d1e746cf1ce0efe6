/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/crash_point.h"

#ifdef SHEAF_CRASH_POINTS
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_BYTES 64u

/* State of the process that is to die, in builds made for dying only. */
static struct {
    char name[NAME_BYTES], pause_name[NAME_BYTES];
    _Atomic uint32_t left; /* passages until death; 0: never */
    _Atomic bool chosen;
    useconds_t pause_us;
} plan;

static void set_name(char *name, const char *from, size_t length)
{
    if (length >= NAME_BYTES)
        length = 0;
    memcpy(name, from, length);
    name[length] = '\0';
}

static void choose(const char *name, size_t name_length, uint32_t passage)
{
    set_name(plan.name, name, name_length);
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

/* `text` up to `stop` is "name[:number]". */
static void choose_from(const char *text, const char *stop)
{
    const char *colon = memchr(text, ':', (size_t)(stop - text));
    unsigned long passage = colon ? strtoul(colon + 1, NULL, 10) : 1;
    choose(text, (size_t)((colon ? colon : stop) - text), (uint32_t)passage);
}

static void choose_pause(void)
{
    const char *wish = getenv("SHEAF_CRASH_PAUSE"), *colon = wish ? strchr(wish, ':') : NULL;
    if (!colon)
        return;
    plan.pause_us = (useconds_t)strtoul(colon + 1, NULL, 10);
    set_name(plan.pause_name, wish, (size_t)(colon - wish));
}

static void choose_by_environment(void)
{
    const char *wish = getenv("SHEAF_CRASH_AT");
    choose_pause();
    if (!wish || strchr(wish, '@'))
        choose("", 0, 0); /* unless crash_point_identify says that it is this process */
    else
        choose_from(wish, wish + strlen(wish));
}

void crash_point_identify(uint32_t worker, uint32_t generation)
{
    const char *wish = getenv("SHEAF_CRASH_AT"), *at = wish ? strchr(wish, '@') : NULL;
    if (!at)
        return;
    char *end;
    unsigned long wanted_worker = strtoul(at + 1, &end, 10);
    unsigned long wanted_generation = *end == '.' ? strtoul(end + 1, NULL, 10) : 1;
    choose_pause();
    if (wanted_worker == worker && wanted_generation == generation)
        choose_from(wish, at);
}

void crash_point_pass(const char *name)
{
    if (!atomic_load(&plan.chosen))
        choose_by_environment();
    if (plan.pause_us != 0 && strcmp(plan.pause_name, name) == 0)
        usleep(plan.pause_us);
    if (atomic_load(&plan.left) == 0 || strcmp(plan.name, name) != 0)
        return;
    if (atomic_fetch_sub(&plan.left, 1) == 1)
        kill(getpid(), SIGKILL);
}
#endif
