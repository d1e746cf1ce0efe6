/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a row's inputs are what their producers answered. With --integrity always that is looked at before the
 * operator gets them and once more when it is done: what was damaged in between was perhaps read. What comes of it is
 * for the engine to say, which looks itself.
 */
#include "shm/value_hash.h"
#include "worker/worker.h"

static const void *read_map(void *context, uint16_t segment, uint64_t offset, uint64_t bytes)
{
    return payload_map_at(context, segment, offset, bytes);
}

void row_check_inputs(struct worker_row *row)
{
    struct value_ref damaged;
    if (row->worker->hello.integrity != ATTACH_INTEGRITY_ALWAYS || row->spoiled || row->phase != ROW_RUNNING)
        return;
    for (uint32_t at = 0; at < row->row.input_count && !row->spoiled; at++)
        row->spoiled = !value_hash_holds(&row_refs(row)[at], read_map, &row->worker->map, &damaged);
}
