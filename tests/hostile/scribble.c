/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/hostile/scribble.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { RANGES_MAX = 256, PAGE_BYTES = 4096, RANGE_BYTES_MAX = 8 << 20, TOUCHED_BYTES = 64 << 20 };

static struct range {
    char *from, *to;
} ranges[RANGES_MAX];
static int range_count;

/* The small ones first: lanes and boards before payload, so that much is still to be done when they go. */
static int by_size(const void *one, const void *other)
{
    const struct range *a = one, *b = other;
    ptrdiff_t difference = (a->to - a->from) - (b->to - b->from);
    return difference < 0 ? -1 : difference > 0;
}

static struct range payloads[RANGES_MAX]; /* of workers */
static int payload_count;
static struct range own_payload;

static void note_payload(const char *line, const char *access, struct range range)
{
    if (strstr(line, "memfd:sheaf-worker-") == NULL || range.to - range.from < RANGE_BYTES_MAX)
        return;
    if (strcmp(access, "rw-s") == 0)
        own_payload = range;
    else if (payload_count < RANGES_MAX)
        payloads[payload_count++] = range;
}

/* Every page but those that are there: 64 MiB of a segment from its middle on, where nothing is given out so early. */
static void touch(const struct range *range, bool write)
{
    char *from = range->from + (range->to - range->from) / 2, *to = from + TOUCHED_BYTES;
    for (char *page = from; page < to && page < range->to; page += PAGE_BYTES) {
        if (write)
            *(volatile char *)page = 1;
        else
            (void)*(volatile char *)page;
    }
}

void touch_holes(int own)
{
    if (own)
        touch(&own_payload, true);
    for (int i = 0; !own && i < payload_count; i++)
        touch(&payloads[i], false);
    for (;;)
        pause();
}

void scribble_prepare(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512], access[8];
    unsigned long from, to;
    range_count = 0;
    payload_count = 0;
    while (maps != NULL && range_count < RANGES_MAX && fgets(line, sizeof line, maps) != NULL) {
        if (sscanf(line, "%lx-%lx %7s", &from, &to, access) != 3)
            continue;
        note_payload(line, access, (struct range){(char *)from, (char *)to});
        if (strcmp(access, "rw-s") == 0)
            ranges[range_count++] = (struct range){(char *)from, (char *)to};
    }
    if (maps != NULL)
        fclose(maps);
    qsort(ranges, (size_t)range_count, sizeof ranges[0], by_size);
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void scribble_page(char *page, enum scribble_pattern pattern, uint64_t *state)
{
    uint64_t *words = (uint64_t *)(void *)page;
    if (pattern == SCRIBBLE_ZEROS || pattern == SCRIBBLE_ONES) {
        memset(page, pattern == SCRIBBLE_ZEROS ? 0 : 0xff, PAGE_BYTES);
        return;
    }
    for (int i = 0; i < PAGE_BYTES / 8; i++)
        if (pattern == SCRIBBLE_RANDOM || next_random(state) % 8 == 0)
            words[i] = next_random(state);
}

void scribble(unsigned how)
{
    enum scribble_pattern pattern = (enum scribble_pattern)(how % 10);
    uint64_t state = 88172645463325252u + how;
    for (int i = 0; i < range_count; i++)
        for (char *page = ranges[i].from; page < ranges[i].to && page < ranges[i].from + RANGE_BYTES_MAX;
             page += PAGE_BYTES) {
            unsigned char resident = 0; /* what is not there would only use up memory */
            if (mincore(page, PAGE_BYTES, &resident) == 0 && (resident & 1) != 0)
                scribble_page(page, pattern, &state);
        }
    switch ((enum scribble_end)(how / 10 % 10)) {
    case SCRIBBLE_CRASHES:
        raise(SIGKILL);
        return;
    case SCRIBBLE_STAYS:
        for (;;)
            pause();
    default:
        return;
    }
}
