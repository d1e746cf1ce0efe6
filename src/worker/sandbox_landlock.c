/* SPDX-License-Identifier: Apache-2.0 */
/* All that the kernel's Landlock can take away; rules give back the driver's files to workers with a GPU, and nothing
 * to others. By number: the headers of the oldest supported distribution know the first versions only. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "worker/sandbox.h"

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

enum { ASK_VERSION = 1 };

/* struct landlock_ruleset_attr of version 6; older kernels take it as long as what they do not know is 0. */
struct ruleset {
    uint64_t files;
    uint64_t ports;
    uint64_t scopes;
};

/* struct landlock_path_beneath_attr, which is packed. */
struct __attribute__((packed)) beneath {
    uint64_t rights;
    int32_t folder;
};

/* Rights of versions 1 (execute to make symbolic links), 2 (refer), 3 (truncate), 5 (device ioctl). */
static uint64_t file_rights(long version)
{
    uint64_t count = version >= 5 ? 16 : version >= 3 ? 15 : version >= 2 ? 14 : 13;
    return (UINT64_C(1) << count) - 1;
}

/* Files under `path` may be read, or with `write` used as devices. What is not there needs no rule. */
static int give_back(int ruleset, const char *path, bool write, long version)
{
    enum { BENEATH = 1, WRITE_FILE = 1 << 1, READ_FILE = 1 << 2, READ_DIR = 1 << 3, IOCTL_DEV = 1 << 15 };
    struct beneath rule = {.rights = READ_FILE};
    struct stat info;
    rule.folder = open(path, O_PATH | O_CLOEXEC);
    if (rule.folder < 0)
        return 0;
    if (fstat(rule.folder, &info) == 0 && S_ISDIR(info.st_mode))
        rule.rights |= READ_DIR;
    if (write)
        rule.rights |= WRITE_FILE | (version >= 5 ? IOCTL_DEV : 0);
    int status = syscall(SYS_landlock_add_rule, ruleset, BENEATH, &rule, 0) < 0 ? -errno : 0;
    close(rule.folder);
    return status;
}

/* The files of NVIDIA's driver. /proc is read for its own maps and the driver's parameters; /sys for where devices are.
 */
static int give_driver(int ruleset, long version)
{
    static const char *const devices[] = {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools",
                                          "/dev/nvidia-caps", "/dev/nvidia-modeset"};
    static const char *const read[] = {"/proc/driver/nvidia", "/proc/self",   "/proc/devices",
                                       "/sys/devices",        "/sys/bus/pci", "/sys/module/nvidia"};
    char path[32];
    int status = 0;
    for (size_t at = 0; at < sizeof devices / sizeof *devices && status == 0; at++)
        status = give_back(ruleset, devices[at], true, version);
    for (unsigned number = 0; number < 64 && status == 0; number++) {
        snprintf(path, sizeof path, "/dev/nvidia%u", number);
        status = give_back(ruleset, path, true, version);
    }
    for (size_t at = 0; at < sizeof read / sizeof *read && status == 0; at++)
        status = give_back(ruleset, read[at], false, version);
    return status;
}

int sandbox_landlock(const struct sandbox_options *options, int *ret_version)
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
    int status = options->profile == SANDBOX_GPU ? give_driver(ruleset, version) : 0;
    if (status == 0)
        status = syscall(SYS_landlock_restrict_self, ruleset, 0) < 0 ? -errno : 0;
    close(ruleset);
    if (status == 0)
        *ret_version = (int)version;
    return status;
}
