/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fake_cuda/memory.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

struct range {
    uintptr_t first;
    size_t bytes;
    enum memory_kind kind;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct range *ranges;
static size_t range_count, range_capacity;

static bool grow(void)
{
    if (range_count < range_capacity)
        return true;
    size_t capacity = range_capacity > 0 ? 2 * range_capacity : 64;
    struct range *grown = realloc(ranges, capacity * sizeof *grown);
    if (grown == NULL)
        return false;
    ranges = grown;
    range_capacity = capacity;
    return true;
}

bool memory_add(const void *base, size_t bytes, enum memory_kind kind)
{
    uintptr_t first = (uintptr_t)base;
    pthread_mutex_lock(&lock);
    bool good = grow();
    for (size_t at = 0; at < range_count && good; at++)
        good = first >= ranges[at].first + ranges[at].bytes || ranges[at].first >= first + bytes;
    if (good)
        ranges[range_count++] = (struct range){first, bytes, kind};
    pthread_mutex_unlock(&lock);
    return good;
}

size_t memory_remove(const void *base, enum memory_kind kind)
{
    size_t bytes = 0;
    pthread_mutex_lock(&lock);
    for (size_t at = 0; at < range_count && bytes == 0; at++) {
        bool either = kind == MEMORY_PINNED && ranges[at].kind == MEMORY_PINNED_READ_ONLY;
        if (ranges[at].first != (uintptr_t)base || (ranges[at].kind != kind && !either))
            continue;
        bytes = ranges[at].bytes;
        ranges[at] = ranges[--range_count];
    }
    pthread_mutex_unlock(&lock);
    return bytes;
}

int memory_kind(const void *base, size_t bytes)
{
    uintptr_t first = (uintptr_t)base;
    int kind = 0;
    pthread_mutex_lock(&lock);
    for (size_t at = 0; at < range_count && kind == 0; at++)
        if (first >= ranges[at].first && first - ranges[at].first < ranges[at].bytes &&
            bytes <= ranges[at].bytes - (first - ranges[at].first))
            kind = (int)ranges[at].kind;
    pthread_mutex_unlock(&lock);
    return kind;
}

/* When the library is unloaded. */
__attribute__((destructor)) static void memory_done(void)
{
    free(ranges);
    ranges = NULL;
}
