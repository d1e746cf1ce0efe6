/* SPDX-License-Identifier: Apache-2.0 */
/* What memory is left, asked of the kernel's files: of the machine, and of every control group above this process. */
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "shm/segment.h"

enum { FILE_BYTES = 8192 };

static bool read_text(const char *path, char *ret_text)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return false;
    ssize_t length = read(descriptor, ret_text, FILE_BYTES - 1);
    close(descriptor);
    ret_text[length > 0 ? length : 0] = '\0';
    return length > 0;
}

/* The first number after `name` in a file; UINT64_MAX when there is none ("max", no file). */
static uint64_t read_number(const char *folder, const char *file, const char *name)
{
    char path[PATH_MAX], text[FILE_BYTES];
    if (snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path || !read_text(path, text))
        return UINT64_MAX;
    const char *at = strstr(text, name);
    uint64_t number;
    return at && sscanf(at + strlen(name), "%" SCNu64, &number) == 1 ? number : UINT64_MAX;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* One group: its limit less what it uses. What the kernel drops before it ends anybody is not used. */
static uint64_t left_in(const char *folder)
{
    uint64_t limit = smaller(read_number(folder, "memory.max", ""), read_number(folder, "memory.high", ""));
    uint64_t used = read_number(folder, "memory.current", "");
    uint64_t cached = read_number(folder, "memory.stat", "\ninactive_file ");
    if (used == UINT64_MAX) { /* the first version */
        limit = read_number(folder, "memory.limit_in_bytes", "");
        used = read_number(folder, "memory.usage_in_bytes", "");
        cached = read_number(folder, "memory.stat", "\ntotal_inactive_file ");
    }
    if (limit == UINT64_MAX || used == UINT64_MAX)
        return UINT64_MAX;
    if (cached < used)
        used -= cached;
    return limit > used ? limit - used : 0;
}

uint64_t segment_group_memory(const char *mount, const char *group)
{
    char folder[PATH_MAX];
    uint64_t left = UINT64_MAX;
    if (snprintf(folder, sizeof folder, "%s%s", mount, group) >= (int)sizeof folder)
        return left;
    for (;;) {
        left = smaller(left, left_in(folder));
        char *slash = strrchr(folder + strlen(mount), '/');
        if (!slash)
            return left;
        *slash = '\0';
    }
}

/* Of one line of /proc/self/cgroup, `number:controllers:path`. */
static uint64_t group_of_line(char *line)
{
    char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path)
        return UINT64_MAX;
    *path++ = '\0';
    controllers++;
    if (strcmp(path, "/") == 0)
        path++;
    if (*controllers == '\0')
        return smaller(segment_group_memory("/sys/fs/cgroup", path),
                       segment_group_memory("/sys/fs/cgroup/unified", path));
    return strcmp(controllers, "memory") == 0 ? segment_group_memory("/sys/fs/cgroup/memory", path) : UINT64_MAX;
}

uint64_t segment_memory_available(void)
{
    char groups[FILE_BYTES], *next = NULL;
    uint64_t available = read_number("/proc", "meminfo", "MemAvailable:");
    if (available != UINT64_MAX)
        available *= 1024;
    if (!read_text("/proc/self/cgroup", groups))
        return available;
    for (char *line = strtok_r(groups, "\n", &next); line; line = strtok_r(NULL, "\n", &next))
        available = smaller(available, group_of_line(line));
    return available;
}
