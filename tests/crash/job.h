/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One job on the real engine, run as often as a test likes in one process: open, submit, poll, acknowledge, wait until
 * nothing is left over, close. What must not depend on who died comes back as one text.
 */
#ifndef TESTS_CRASH_JOB_H
#define TESTS_CRASH_JOB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct job_options {
    const char *plugin, *worker, *program; /* paths of both; YAML */
    uint32_t workers;
    uint64_t roots;
    uint64_t memory_bytes;
    uint32_t window;
    uint64_t items_per_root; /* 0: the outcome is a text; else only check that each root gathered its items in order */
    void (*each)(void *cookie, uint64_t done); /* after each root; NULL: none */
    void *cookie;
};

struct job_outcome {
    char *text;        /* per root in order: status, items, failures. Free it with job_free. */
    char *ledger;      /* JSON */
    char problem[512]; /* "" when the run ended as it must, and left nothing */
    uint64_t deaths, wall_us, engine_cpu_us, worker_cpu_us;
    bool killed; /* the log names a death by SIGKILL */
};

void job_run(const struct job_options *options, struct job_outcome *ret_outcome);
void job_free(struct job_outcome *outcome);
#define JOB_CHILDREN_MAX 64
/* Children of this process that are there now; `settled`: only those that are past their start. */
uint32_t job_children(pid_t *ret_children, bool settled);

/* A program of everything that writes shared memory: streams, rows, batches that raise, lists, state per parent,
 * failures of items and of whole roots. */
extern const char *const job_program;

#endif
