/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that are not what was answered.
 *
 * A value lies where its worker made it, and the worker can write there as long as it lives. With --integrity every
 * worker hashes what it answers. With `always` whoever reads a value looks whether the hash holds, and says DAMAGED
 * instead of anything else if not; results are copied out and looked at. With `crash` the shard looks once at all that
 * a worker left when it crashed or was killed for what it wrote.
 *
 * What is damaged cannot be told from what was made of it. So the whole root is begun anew, from its sources, which
 * stay for that; nothing of it was told to the host before. A root that this happens to again and again fails.
 */
#include <stdio.h>

#include "engine/shard.h"
#include "shm/value_hash.h"

static const void *read_payload(void *context, uint16_t segment, uint64_t offset, uint64_t bytes)
{
    const struct payload *payload = context;
    if (segment == VALUE_INLINE || segment > payload_segment_count(payload))
        return NULL;
    return segment_at(payload_segment(payload, segment), offset, bytes);
}

static bool holds(const struct shard *shard, const struct value_ref *ref, struct value_ref *ret_damaged)
{
    return value_hash_holds(ref, read_payload, shard->run->payload, ret_damaged);
}

bool integrity_holds(const struct shard *shard, const struct value_ref *ref)
{
    struct value_ref damaged;
    return shard->run->integrity == SHEAF_INTEGRITY_OFF || holds(shard, ref, &damaged);
}

/* The worker that made it, if it is the process that is there now. */
static void blame_maker(struct shard *shard, const struct value_ref *damaged)
{
    const struct sheaf_run *run = shard->run;
    uint32_t worker = damaged->segment - 1u - run->shard_count;
    if (!payload_is_stale(run->payload, damaged))
        link_kill(shard, worker, "a value that it made was written over after it was answered");
}

static void root_damaged(struct shard *shard, struct root *root, const struct value_ref *damaged)
{
    uint32_t worker = damaged->segment - 1u - shard->run->shard_count;
    if (damaged->segment == payload_spill_segment(shard->run->payload)) {
        run_log(shard->run, 2, "root %llu: a value came back from disk with other bytes; check the disk",
                (unsigned long long)root->index);
        admit_again(shard, root);
        return;
    }
    run_log(shard->run, 2, "root %llu: a value of worker %u was written over after it was answered",
            (unsigned long long)root->index, worker);
    blame_maker(shard, damaged);
    admit_again(shard, root);
}

bool integrity_row(struct shard *shard, const struct slot *slot)
{
    const struct sheaf_run *run = shard->run;
    struct dispatch dispatch;
    struct value_ref damaged;
    if (run->integrity == SHEAF_INTEGRITY_OFF || slot->unwanted ||
        dispatch_copy(&shard->board.dispatches, shard->slot_first + (uint32_t)(slot - shard->slots), &dispatch) < 0)
        return true;
    const struct value_ref *inputs = dispatch.inputs;
    if ((dispatch.flags & DISPATCH_OVERFLOW) != 0)
        inputs =
            payload_shard_at(run->payload, shard->number, dispatch.overflow.offset + dispatch.depth * sizeof(uint64_t));
    for (uint32_t i = 0; i < dispatch.input_count; i++) {
        if (holds(shard, &inputs[i], &damaged))
            continue;
        root_damaged(shard, root_of(shard, lineage_root_of(shard->lineage, slot->grain)), &damaged);
        return false;
    }
    return true;
}

/* ---- what a death leaves ---- */

struct sweep {
    const struct shard *shard;
    uint16_t segment;
    bool found;
    struct value_ref damaged;
};

static void visit(void *cookie, struct value_ref *value)
{
    struct sweep *sweep = cookie;
    if (!sweep->found && value->segment == sweep->segment)
        sweep->found = !holds(sweep->shard, value, &sweep->damaged);
}

void integrity_sweep(struct shard *shard, uint32_t worker)
{
    if (shard->run->integrity == SHEAF_INTEGRITY_OFF)
        return;
    for (struct root *root = shard->admitted, *next; root; root = next) {
        struct sweep sweep = {.shard = shard, .segment = payload_worker_segment(shard->run->payload, worker)};
        next = root->next;
        if (root->phase != ROOT_LIVE && root->phase != ROOT_COMPLETE)
            continue;
        lineage_values(shard->lineage, root->lineage_root, visit, &sweep);
        if (sweep.found && root->phase == ROOT_LIVE)
            root_damaged(shard, root, &sweep.damaged);
        else if (sweep.found && shard->run->integrity == SHEAF_INTEGRITY_CRASH)
            run_log(shard->run, 2,
                    "root %llu: its result is with the host and names a value that worker %u wrote over as it died; "
                    "--integrity always copies results",
                    (unsigned long long)root->index, worker);
    }
}
