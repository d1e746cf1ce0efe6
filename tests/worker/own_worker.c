/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker that is not the stock one, on the public worker half alone: doubles numbers. A number of 1000 is kept open
 * while more rows are taken, as a client of a model server would; it is answered last.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <sheaf/worker.h>

static int answer(const struct sheaf_host *host, const struct sheaf_row *row)
{
    struct sheaf_value value = {.kind = SHEAF_I64, .i64 = 2 * row->inputs[0].i64};
    return host->answer(row, &value, 1);
}

/* Rows as they come, out of order: the held one ends when the stop value 0 comes. */
static int serve_slots(struct sheaf_worker *worker, const struct sheaf_worker_claim *claim)
{
    const struct sheaf_host *host = sheaf_worker_host(worker);
    const struct sheaf_row *held = NULL, *row = claim->rows[0];
    int status = sheaf_worker_start(worker, row), quiet = eventfd(0, EFD_CLOEXEC);
    while (status == 0) {
        int64_t number = row->inputs[0].i64;
        if (number == 1000)
            held = row;
        else
            answer(host, row);
        if (number == 0 && held != NULL)
            answer(host, held);
        if (number == 0 || held == NULL)
            break;
        while (status == 0 && (status = host->take(claim->host_batch, &row)) == 0)
            status = host->wait(claim->host_batch, quiet, -1); /* as a socket to a server that says nothing */
        status = status == 1 ? 0 : status;
    }
    if (status == SHEAF_E_CLOSED && held != NULL)
        answer(host, held);
    close(quiet);
    return sheaf_worker_finish_batch(worker, claim, 0, NULL);
}

static int serve(struct sheaf_worker *worker, const struct sheaf_worker_claim *claim)
{
    if (claim->index == 1)
        return serve_slots(worker, claim);
    for (uint32_t at = 0; at < claim->row_count; at++) {
        const struct sheaf_row *row = claim->rows[at];
        int status = sheaf_worker_start(worker, row);
        if (status == 0)
            status = answer(sheaf_worker_host(worker), row);
        if (sheaf_worker_finish(worker, row, status, "cannot answer") < 0)
            return -1;
    }
    return 0;
}

int main(int argument_count, char **arguments)
{
    struct sheaf_worker *worker;
    struct sheaf_error error = SHEAF_ERROR_INIT;
    if (argument_count != 3 || sheaf_worker_attach(atoi(arguments[2]), &worker, &error) < 0)
        return 3;
    struct sheaf_worker_call call;
    if (sheaf_worker_call(worker, 0, &call) < 0 || strcmp(call.name, "double") != 0 ||
        sheaf_worker_call(worker, 2, &call) != -2 || sheaf_worker_ready(worker, 0, NULL) < 0)
        return 4;
    for (;;) {
        const struct sheaf_worker_claim *claim;
        int status = sheaf_worker_claim(worker, 0, &claim);
        if (status < 0 && status != SHEAF_E_CLOSED)
            status = sheaf_worker_claim(worker, -1, &claim);
        if (status == SHEAF_E_CLOSED)
            break;
        if (status < 0 || serve(worker, claim) < 0)
            return 5;
    }
    sheaf_worker_detach(worker);
    return 0;
}
