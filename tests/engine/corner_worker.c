/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker that gets stuck where operators have no say: SHEAF_TEST_CORNER names where and how. It gives texts of as
 * many bytes as it is told.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sheaf/worker.h>

#include "worker/worker.h"

enum { HANG_BYTES = 36000001 /* after a row of so many */ };

static _Noreturn void hang(void)
{
    for (;;)
        pause();
}

static bool is(const char *corner)
{
    const char *given = getenv("SHEAF_TEST_CORNER");
    return given && strcmp(given, corner) == 0;
}

static void say_nonsense(int socket)
{
    (void)!write(socket, "nonsense", 8);
    hang();
}

/* Somebody who holds on to everything the worker had. */
static void leave_child(void)
{
    if (fork() == 0)
        hang();
}

static void before_attaching(int socket)
{
    if (is("stopped at once"))
        raise(SIGSTOP);
    if (is("nonsense at once"))
        say_nonsense(socket);
    if (is("closed at once")) {
        close(socket);
        hang();
    }
    if (is("a child, then the end")) {
        leave_child();
        _exit(0);
    }
}

static void when_ready(int socket)
{
    if (is("ready, then stopped"))
        raise(SIGSTOP);
    if (is("ready, then nonsense"))
        say_nonsense(socket);
    if (is("ready, then nothing"))
        hang();
    if (is("ready, then the end"))
        exit(0);
    if (is("ready, then closed")) {
        close(socket);
        hang();
    }
}

/* Of its own memory it needs nothing for that: pages that nobody wrote are none. */
static int answer(struct sheaf_worker *worker, const struct sheaf_row *row)
{
    static const char text[HANG_BYTES];
    struct sheaf_value value = {.kind = SHEAF_TEXT, .data = text, .length_bytes = (uint64_t)row->inputs[0].i64};
    return sheaf_worker_host(worker)->answer(row, &value, 1);
}

static int serve(struct sheaf_worker *worker, const struct sheaf_row *row)
{
    int64_t bytes = row->inputs[0].i64;
    int status = sheaf_worker_start(worker, row);
    if (status == 0)
        status = answer(worker, row);
    status = sheaf_worker_finish(worker, row, status, "cannot answer");
    if (bytes == HANG_BYTES) { /* as if it slept until there is something to do */
        store_relaxed_u64(&worker->lane.counters->state, LANE_IDLE);
        announce(worker);
        hang();
    }
    return status;
}

int main(int argument_count, char **arguments)
{
    struct sheaf_worker *worker;
    const struct sheaf_worker_claim *claim;
    int socket = argument_count == 3 ? atoi(arguments[2]) : -1;
    before_attaching(socket);
    int status = sheaf_worker_attach(socket, &worker, NULL);
    if (status == 0)
        status = sheaf_worker_ready(worker, 0, NULL);
    if (status == 0)
        when_ready(socket);
    while (status == 0 && (status = sheaf_worker_claim(worker, -1, &claim)) == 0)
        for (uint32_t at = 0; at < claim->row_count && status == 0; at++)
            status = serve(worker, claim->rows[at]);
    if (status == SHEAF_E_CLOSED)
        sheaf_worker_detach(worker);
    return status == SHEAF_E_CLOSED ? 0 : 1;
}
