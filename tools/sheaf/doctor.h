/* SPDX-License-Identifier: Apache-2.0 */
/* Findings of `sheaf doctor` and the checks of the system; those of operators come from their plug-ins. */
#ifndef SHEAF_TOOL_DOCTOR_H
#define SHEAF_TOOL_DOCTOR_H

#include "settings.h"

enum finding { FINDING_OK, FINDING_WARN, FINDING_MISSING };

struct doctor {
    const struct settings *settings;
    unsigned warnings, missing;
};

/* One line: `ok|warn|missing  what  hint`. */
void doctor_report(struct doctor *doctor, enum finding finding, const char *what, const char *hint);

void doctor_memory(struct doctor *doctor);     /* memfd, huge pages, memlock, cgroup */
void doctor_io(struct doctor *doctor);         /* io_uring, descriptors, processes */
void doctor_sandbox(struct doctor *doctor);    /* seccomp, Landlock */
void doctor_processors(struct doctor *doctor); /* cores, NUMA nodes, GPUs */

#endif
