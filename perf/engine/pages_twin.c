/* SPDX-License-Identifier: Apache-2.0 */
/* The same work without an engine: processes that take the next batch of pages from one shared counter. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pages.h"

static void take_batches(const struct job *job, _Atomic uint64_t *next)
{
    struct timing timing;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (timing_open(&timing, &job->cost, job->trace) < 0)
        _exit(1);
    for (;;) {
        uint64_t first = atomic_fetch_add(next, job->batch);
        if (first >= job->page_count)
            break;
        uint64_t rest = job->page_count - first;
        timing_work(&timing, rest < job->batch ? (uint32_t)rest : job->batch);
    }
    _exit(0);
}

int pages_twin(const struct job *job, struct outcome *ret_outcome)
{
    double since = pages_now_s();
    _Atomic uint64_t *next = mmap(NULL, sizeof *next, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool failed = next == MAP_FAILED;
    uint32_t started = 0;
    for (; !failed && started < job->workers; started++) {
        pid_t child = fork();
        if (child == 0)
            take_batches(job, next);
        if (child < 0)
            break;
    }
    failed = failed || started < job->workers;
    for (int status; started > 0 && wait(&status) > 0; started--)
        failed = failed || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    ret_outcome->wall_s = ret_outcome->run_s = pages_now_s() - since;
    ret_outcome->more = json_object();
    if (failed)
        fprintf(stderr, "perf_pages: the processes without an engine could not all be run\n");
    return failed;
}
