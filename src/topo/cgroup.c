/* SPDX-License-Identifier: Apache-2.0 */
#include "topo/cgroup.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int read_file(const char *folder, const char *name, char *ret_path, char *ret_text, size_t text_bytes)
{
    if (snprintf(ret_path, PATH_MAX, "%s/%s", folder, name) >= PATH_MAX)
        return -ENAMETOOLONG;
    FILE *file = fopen(ret_path, "re");
    if (file == NULL)
        return -errno;
    size_t length = fread(ret_text, 1, text_bytes - 1, file);
    ret_text[length] = '\0';
    fclose(file);
    return 0;
}

static void read_memory(const char *folder, const char *name, struct cgroup_limits *limits)
{
    char path[PATH_MAX], text[64], *end;

    if (read_file(folder, name, path, text, sizeof text) < 0 || text[0] < '0' || text[0] > '9')
        return; /* "max", or no such controller */
    uint64_t bytes = strtoull(text, &end, 10);
    if (bytes >= limits->memory_bytes)
        return;
    limits->memory_bytes = bytes;
    snprintf(limits->memory_from, sizeof limits->memory_from, "%.*s", (int)sizeof limits->memory_from - 1, path);
}

static void read_quota(const char *folder, struct cgroup_limits *limits)
{
    char path[PATH_MAX], text[64];
    double quota_us, period_us;

    if (read_file(folder, "cpu.max", path, text, sizeof text) < 0 ||
        sscanf(text, "%lf %lf", &quota_us, &period_us) != 2 || quota_us <= 0 || period_us <= 0)
        return;
    if (limits->quota_cores == 0 || quota_us / period_us < limits->quota_cores)
        limits->quota_cores = quota_us / period_us;
}

void cgroup_limits_read(const char *mount, const char *group, struct cgroup_limits *ret_limits)
{
    struct cgroup_limits limits = {.memory_bytes = UINT64_MAX};
    char folder[PATH_MAX];
    size_t mount_length = strlen(mount);

    if (snprintf(folder, sizeof folder, "%s%s", mount, group) < (int)sizeof folder) {
        for (;;) {
            read_memory(folder, "memory.max", &limits);
            read_memory(folder, "memory.high", &limits);
            read_quota(folder, &limits);
            char *slash = strrchr(folder + mount_length, '/');
            if (slash == NULL)
                break;
            *slash = '\0';
        }
    }
    *ret_limits = limits;
}

/* The mount point of cgroup2: /sys/fs/cgroup, or another place where the first version has that. */
static int find_mount(char *ret_mount, size_t mount_bytes)
{
    FILE *file = fopen("/proc/self/mounts", "re");
    char *line = NULL;
    size_t line_bytes = 0;
    int rc = -ENOENT;

    if (file == NULL)
        return -errno;
    while (rc != 0 && getline(&line, &line_bytes, file) > 0) {
        char *save, *device = strtok_r(line, " ", &save), *folder = strtok_r(NULL, " ", &save),
                    *type = strtok_r(NULL, " ", &save);

        if (device != NULL && type != NULL && strcmp(type, "cgroup2") == 0 && strlen(folder) < mount_bytes) {
            memcpy(ret_mount, folder, strlen(folder) + 1);
            rc = 0;
        }
    }
    free(line);
    fclose(file);
    return rc;
}

void cgroup_limits_own(struct cgroup_limits *ret_limits)
{
    char mount[PATH_MAX], *line = NULL, *group = NULL;
    size_t line_bytes = 0;
    FILE *file = fopen("/proc/self/cgroup", "re");

    *ret_limits = (struct cgroup_limits){.memory_bytes = UINT64_MAX};
    if (file == NULL)
        return;
    while (group == NULL && getline(&line, &line_bytes, file) > 0) {
        if (strncmp(line, "0::/", 4) != 0)
            continue;
        line[strcspn(line, "\n")] = '\0';
        group = line + 3;
    }
    if (group != NULL && find_mount(mount, sizeof mount) == 0)
        cgroup_limits_read(mount, strcmp(group, "/") == 0 ? "" : group, ret_limits);
    free(line);
    fclose(file);
}
