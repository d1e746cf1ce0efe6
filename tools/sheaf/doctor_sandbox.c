/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel has to keep operators away from files, network and processes once they are open. */
#include <errno.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "doctor.h"

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#endif

enum { ASK_VERSION = 1 };

static void check_filter(struct doctor *doctor)
{
    uint32_t action = SECCOMP_RET_ERRNO;
    if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0)
        doctor_report(doctor, FINDING_OK, "sandbox: seccomp keeps operators from files, network and processes", "");
    else
        doctor_report(doctor, FINDING_WARN, "sandbox: this kernel has no seccomp",
                      "operators can open connections and start processes as this user; run in a container without "
                      "network");
}

static void check_landlock(struct doctor *doctor)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, ASK_VERSION);
    struct text what = {0};
    if (version > 0) {
        text_addf(&what, "sandbox: Landlock, version %ld", version);
        doctor_report(doctor, FINDING_OK, what.data, "");
    } else {
        text_addf(&what, "sandbox: no Landlock (%s)", errno == ENOSYS ? "Linux 5.13 or later has it" : strerror(errno));
        doctor_report(doctor, FINDING_WARN, what.data,
                      "seccomp alone keeps operators from files; add landlock to the kernel's lsm= list for both");
    }
    text_free(&what);
}

void doctor_sandbox(struct doctor *doctor)
{
    const char *word = getenv("SHEAF_SANDBOX");
    if (word != NULL && strcmp(word, "off") == 0)
        doctor_report(doctor, FINDING_WARN, "sandbox: switched off by SHEAF_SANDBOX=off",
                      "unset it: it is for debuggers");
    check_filter(doctor);
    check_landlock(doctor);
}
