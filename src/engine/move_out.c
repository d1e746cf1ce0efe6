/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which values of a shard go to the spill (spill.h): those of roots that are not complete, that lie in a worker's
 * memory, are no lists, and that no row under way and no state kept by an operator reads. Newest roots first: the
 * oldest are to end soonest. A queued row has no descriptor yet and will be given the new place.
 */
#include "engine/shard.h"
#include "engine/spill.h"

enum { BYTES_MIN = 4096 };

struct moving {
    struct shard *shard;
    struct keymap pinned;
    uint64_t wanted_bytes, moved_bytes;
    bool failed; /* no room on the disk, or no memory to think in */
};

static uint64_t place_key(const struct value_ref *ref)
{
    return (uint64_t)ref->segment << 46 | ref->offset;
}

static void pin(struct moving *moving, const struct value_ref *ref)
{
    if (ref->segment > moving->shard->run->shard_count && keymap_set(&moving->pinned, place_key(ref), 1) < 0)
        moving->failed = true;
}

static void pin_list(struct moving *moving, struct lineage_list list)
{
    struct lineage_cursor cursor;
    struct lineage_value value;
    lineage_list_open(moving->shard->lineage, list, &cursor);
    while (lineage_list_next(moving->shard->lineage, &cursor, &value)) {
        if (value.is_list)
            pin_list(moving, value.list); /* as deep as Domains, not as data */
        else
            pin(moving, &value.value);
    }
}

static void pin_inputs(struct moving *moving, struct grain grain)
{
    struct lineage_value value;
    for (uint32_t i = 0; i < moving->shard->plan->calls[grain.call].input_count; i++) {
        if (lineage_input(moving->shard->lineage, grain, i, &value) < 0)
            continue;
        if (value.is_list)
            pin_list(moving, value.list);
        else
            pin(moving, &value.value);
    }
}

static void pin_all(struct moving *moving)
{
    const struct shard *shard = moving->shard;
    for (uint32_t i = 0; i < shard->slots_real; i++) {
        if (shard->slots[i].live)
            pin_inputs(moving, shard->slots[i].grain);
    }
    for (uint32_t i = 0; i < shard->hold_count; i++) {
        if (shard->holds[i].used)
            pin_inputs(moving, shard->holds[i].grain);
    }
}

static void move_value(void *cookie, struct value_ref *ref)
{
    struct moving *moving = cookie;
    const struct sheaf_run *run = moving->shard->run;
    uint64_t bytes = ref->prefix + ref->length, offset;
    if (moving->failed || moving->moved_bytes >= moving->wanted_bytes || SHEAF_KIND_DEPTH(ref->kind) != 0 ||
        SHEAF_KIND_BASE(ref->kind) == SHEAF_FILE || /* its length may be that of bytes elsewhere */
        ref->segment <= run->shard_count || ref->segment == payload_spill_segment(run->payload) || bytes < BYTES_MIN ||
        keymap_get(&moving->pinned, place_key(ref)) != KEYMAP_NONE)
        return;
    if (!integrity_holds(moving->shard, ref))
        return; /* whoever reads it finds out, and whose it was */
    const char *data = payload_view(run->payload, ref);
    if (!data || spill_put(run->spill, data - ref->prefix, bytes, &offset) < 0) {
        moving->failed = true;
        return;
    }
    struct value_ref before = *ref;
    ref->segment = payload_spill_segment(run->payload);
    ref->offset = offset + ref->prefix;
    value_free(moving->shard, &before);
    moving->moved_bytes += bytes;
}

uint64_t move_out(struct shard *shard, uint64_t wanted_bytes)
{
    struct moving moving = {.shard = shard, .wanted_bytes = wanted_bytes};
    pin_all(&moving);
    for (struct root *root = shard->admitted; root; root = root->next) {
        if (root->phase == ROOT_LIVE && !lineage_root_is_complete(shard->lineage, root->lineage_root))
            lineage_values(shard->lineage, root->lineage_root, move_value, &moving);
    }
    keymap_fini(&moving.pinned);
    if (moving.moved_bytes > 0)
        run_log(shard->run, 0, "memory is short: %llu MiB of values moved to disk",
                (unsigned long long)(moving.moved_bytes >> 20));
    return moving.moved_bytes;
}

void move_out_step(struct shard *shard)
{
    struct sheaf_run *run = shard->run;
    uint64_t round = atomic_load_explicit(&run->spill_round, memory_order_acquire);
    if (round == shard->spill_round)
        return;
    shard->spill_round = round;
    uint64_t moved = move_out(shard, atomic_load_explicit(&run->spill_wanted_bytes, memory_order_relaxed));
    atomic_fetch_add_explicit(&run->spill_moved_bytes, moved, memory_order_relaxed);
    /* Release, partner: grant.c. Then what moved is counted, and its owners know. */
    if (atomic_fetch_sub_explicit(&run->spill_shards_left, 1, memory_order_acq_rel) == 1)
        event_count_bump(run->shards[0]->board.shard_events);
}
