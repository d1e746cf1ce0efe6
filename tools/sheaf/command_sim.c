/* SPDX-License-Identifier: Apache-2.0 */
/* `sheaf sim`: becomes the program sheaf-sim, which stands beside this one. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

int command_sim(char **argv)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length < 0 ? 0 : length] = '\0';
    char *slash = strrchr(path, '/');
    if (slash == NULL || (size_t)(slash - path) + sizeof "/sheaf-sim" > sizeof path) {
        complain("sim: cannot tell where this program stands: %s", strerror(errno));
        return EXIT_ENVIRONMENT;
    }
    memcpy(slash, "/sheaf-sim", sizeof "/sheaf-sim");
    execv(path, argv);
    complain("sim: %s cannot be started: %s; it is installed beside sheaf", path, strerror(errno));
    return EXIT_ENVIRONMENT;
}
