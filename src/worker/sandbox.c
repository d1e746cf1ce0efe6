/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/sandbox.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "shm/sanitizer.h"

int sandbox_follow_parent(void)
{
    pid_t parent = getppid();
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return -errno;
    return getppid() == parent ? 0 : -ESRCH;
}

bool sandbox_is_off(void)
{
    const char *word = getenv("SHEAF_SANDBOX");
    return BUILT_WITH_SANITIZER || (word != NULL && strcmp(word, "off") == 0);
}

/* What the C library would otherwise read from files when it is first asked. */
static void warm_up(void)
{
    tzset();
    (void)sysconf(_SC_PHYS_PAGES);
    (void)sysconf(_SC_NPROCESSORS_ONLN);
}

int sandbox_close(const struct sandbox_options *options, struct sandbox_state *ret_state)
{
    struct sandbox_state state = {.off = sandbox_is_off()};
    if (state.off) {
        *ret_state = state;
        return 0;
    }
    warm_up();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    int status = sandbox_limit(options);
    if (status < 0)
        return status;
    status = sandbox_landlock(options, &state.landlock);
    if (status < 0 && status != -ENOSYS && status != -EOPNOTSUPP)
        return status;
    status = sandbox_filter(options); /* last: it denies what the others are made with */
    if (status < 0 && status != -ENOSYS)
        return status;
    state.filtered = status == 0;
    *ret_state = state;
    return 0;
}
