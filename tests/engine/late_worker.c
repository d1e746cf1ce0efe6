/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker whose answers come again, late and wrong: after every row it sends for the rows before it, whose claims have
 * ended, another answer under their old numbers. Their slots describe other rows by then, some of which it has itself.
 */
#include <stdlib.h>

#include <sheaf/worker.h>

#include "worker/worker.h"

enum { OLD_ONES = 8, WRONG = 666 };

struct old {
    uint32_t shard, grain;
    uint64_t number;
};

static void send_again(struct sheaf_worker *worker, const struct old *old)
{
    struct value_ref wrong = {.kind = SHEAF_I64, .offset = WRONG};
    struct completion record = {.kind = COMPLETION_ANSWER,
                                .grain = old->grain,
                                .number = old->number,
                                .run_ns = 1,
                                .values = &wrong,
                                .value_count = 1};
    record_write(worker, old->shard, &record);
    record_commit(worker, old->shard);
}

static int serve(struct sheaf_worker *worker, const struct sheaf_row *row)
{
    static struct old old[OLD_ONES];
    static uint64_t rows;
    const struct worker_row *own = row->host_row;
    struct old now = {own->shard, own->claim.dispatch.grain, own->claim.dispatch.number};
    struct sheaf_value value = {.kind = SHEAF_I64, .i64 = row->inputs[0].i64};
    int status = sheaf_worker_start(worker, row);
    if (status == 0)
        status = sheaf_worker_host(worker)->answer(row, &value, 1);
    status = sheaf_worker_finish(worker, row, status, "cannot answer");
    for (uint64_t i = 0; i < OLD_ONES && i < rows; i++)
        send_again(worker, &old[i]);
    old[rows++ % OLD_ONES] = now;
    return status;
}

int main(int argument_count, char **arguments)
{
    struct sheaf_worker *worker;
    const struct sheaf_worker_claim *claim;
    int status = argument_count == 3 ? sheaf_worker_attach(atoi(arguments[2]), &worker, NULL) : -1;
    if (status == 0)
        status = sheaf_worker_ready(worker, 0, NULL);
    while (status == 0 && (status = sheaf_worker_claim(worker, -1, &claim)) == 0)
        for (uint32_t at = 0; at < claim->row_count && status == 0; at++)
            status = serve(worker, claim->rows[at]);
    if (status == SHEAF_E_CLOSED)
        sheaf_worker_detach(worker);
    return status == SHEAF_E_CLOSED ? 0 : 1;
}
