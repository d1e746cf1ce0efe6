/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "worker/sandbox.h"

uint64_t sandbox_data_bytes(void)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    unsigned long long kib = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "VmData: %llu kB", &kib) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return kib << 10;
}

static int limit(__rlimit_resource_t resource, rlim_t most)
{
    struct rlimit now;
    if (getrlimit(resource, &now) < 0)
        return -errno;
    rlim_t value = now.rlim_cur < most ? now.rlim_cur : most; /* RLIM_INFINITY is the largest */
    struct rlimit frozen = {value, value};
    return setrlimit(resource, &frozen) < 0 ? -errno : 0;
}

int sandbox_limit(const struct sandbox_options *options)
{
    /* What a row does to this process must not fill the disk with its memory. */
    int status = limit(RLIMIT_CORE, 0);
    if (status == 0)
        status = limit(RLIMIT_NPROC, RLIM_INFINITY);
    if (status == 0)
        status = limit(RLIMIT_NOFILE, RLIM_INFINITY);
    if (status < 0 || options->heap_bytes == 0)
        return status;
    /* What is reserved, touched or not, and so never less than what is resident. Shared mappings do not count. Not
     * RLIMIT_AS, which the segments alone would exceed. */
    status = limit(RLIMIT_DATA, options->heap_bytes);
    /* No byte into any file: one in memory is all that it could still make, and nobody would count it. A write fails
     * then, instead of ending the process. A driver may write what it likes to its own. */
    if (options->profile == SANDBOX_GPU || status < 0)
        return status;
    sigset_t too_large;
    sigemptyset(&too_large);
    sigaddset(&too_large, SIGXFSZ);
    sigprocmask(SIG_BLOCK, &too_large, NULL);
    return limit(RLIMIT_FSIZE, 0);
}
