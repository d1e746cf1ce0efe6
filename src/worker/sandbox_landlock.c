/* SPDX-License-Identifier: Apache-2.0 */
/* All that the kernel's Landlock can take away, with no rule that gives any of it back. By number: the headers of the
 * oldest supported distribution know the first versions only. */
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "worker/sandbox.h"

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_restrict_self 446
#endif

enum { ASK_VERSION = 1 };

/* struct landlock_ruleset_attr of version 6; older kernels take it as long as what they do not know is 0. */
struct ruleset {
    uint64_t files;
    uint64_t ports;
    uint64_t scopes;
};

/* Rights of versions 1 (execute to make symbolic links), 2 (refer), 3 (truncate), 5 (device ioctl). */
static uint64_t file_rights(long version)
{
    uint64_t count = version >= 5 ? 16 : version >= 3 ? 15 : version >= 2 ? 14 : 13;
    return (UINT64_C(1) << count) - 1;
}

int sandbox_landlock(int *ret_version)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, ASK_VERSION);
    if (version < 0)
        return -errno;
    struct ruleset nothing = {
        .files = file_rights(version),
        .ports = version >= 4 ? 3 : 0,  /* TCP bind and connect */
        .scopes = version >= 6 ? 3 : 0, /* abstract sockets and signals, to outside */
    };
    int ruleset = (int)syscall(SYS_landlock_create_ruleset, &nothing, sizeof nothing, 0);
    if (ruleset < 0)
        return -errno;
    int status = syscall(SYS_landlock_restrict_self, ruleset, 0) < 0 ? -errno : 0;
    close(ruleset);
    if (status == 0)
        *ret_version = (int)version;
    return status;
}
