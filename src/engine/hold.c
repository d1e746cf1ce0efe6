/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "engine/shard.h"

/* Under what key the operator keeps state for a row, or false when it keeps none: then nothing is fetched. */
static bool state_key(const struct shard *shard, struct grain grain, uint64_t *ret_key)
{
    const struct plan_call *call = &shard->plan->calls[grain.call];
    *ret_key = 0;
    if (call->op->flags & SHEAF_OPERATOR_STATE_OF_ROW)
        *ret_key = lineage_entity_key(shard->lineage, call->domain, grain.entity);
    else if (call->op->flags & SHEAF_OPERATOR_STATE_OF_PARENT)
        *ret_key = lineage_parent_key(shard->lineage, call->domain, grain.entity);
    return *ret_key != 0;
}

static uint64_t pair_key(const struct shard *shard, uint64_t key, uint32_t worker)
{
    return key * shard->run->worker_count + worker;
}

static uint32_t hold_new(struct shard *shard)
{
    if (shard->free_hold != UINT32_MAX) {
        uint32_t index = shard->free_hold;
        shard->free_hold = shard->holds[index].next_of_root;
        return index;
    }
    if ((shard->hold_count & (shard->hold_count - 1)) == 0) { /* grow at powers of two */
        uint32_t capacity = shard->hold_count ? shard->hold_count * 2 : 1;
        struct hold *larger = realloc(shard->holds, capacity * sizeof *larger);
        struct grain *unhold = realloc(shard->unhold, ((size_t)capacity + shard->slot_count) * sizeof *unhold);
        if (larger)
            shard->holds = larger;
        if (unhold)
            shard->unhold = unhold;
        if (!larger || !unhold)
            return UINT32_MAX;
        shard->unhold_capacity = capacity + shard->slot_count;
    }
    return shard->hold_count++;
}

bool hold_take(struct shard *shard, uint32_t worker, const struct slot *slot)
{
    struct grain grain = slot->grain;
    uint64_t key;
    if (!state_key(shard, grain, &key))
        return false;
    if (keymap_get(&shard->hold_of, pair_key(shard, key, worker)) != KEYMAP_NONE)
        return false;
    struct root *root = root_of(shard, lineage_root_of(shard->lineage, grain));
    uint32_t index = hold_new(shard);
    if (index == UINT32_MAX || keymap_set(&shard->hold_of, pair_key(shard, key, worker), index) < 0) {
        shard_fail(shard, -ENOMEM, "keeping what a worker has open");
        return false;
    }
    if (keymap_get(&shard->home_of, key) == KEYMAP_NONE)
        (void)keymap_set(&shard->home_of, key, worker); /* a hint: losing it costs an opening */
    shard->holds[index] = (struct hold){.key = key,
                                        .worker = worker,
                                        .grain = grain,
                                        .root = root,
                                        .next_of_root = root->first_hold,
                                        .previous_of_root = UINT32_MAX,
                                        .used = true};
    shard->hold_used++;
    if (root->first_hold != UINT32_MAX)
        shard->holds[root->first_hold].previous_of_root = index;
    root->first_hold = index;
    /* The root may be complete already: a row whose result was not wanted ended late. */
    if (root->phase >= ROOT_COMPLETE)
        hold_evict_root(shard, root);
    return true;
}

static void hold_end(struct shard *shard, uint32_t index)
{
    struct hold *hold = &shard->holds[index];
    assert(hold->used);
    keymap_remove(&shard->hold_of, pair_key(shard, hold->key, hold->worker));
    if (keymap_get(&shard->home_of, hold->key) == hold->worker)
        keymap_remove(&shard->home_of, hold->key);
    if (hold->previous_of_root != UINT32_MAX)
        shard->holds[hold->previous_of_root].next_of_root = hold->next_of_root;
    else
        hold->root->first_hold = hold->next_of_root;
    if (hold->next_of_root != UINT32_MAX)
        shard->holds[hold->next_of_root].previous_of_root = hold->previous_of_root;
    assert(shard->unhold_count < shard->unhold_capacity);
    shard->unhold[shard->unhold_count++] = hold->grain;
    hold->used = false;
    shard->hold_used--;
    hold->next_of_root = shard->free_hold;
    shard->free_hold = index;
}

void hold_evicted(struct shard *shard, uint32_t worker, uint64_t key)
{
    if (key > UINT64_MAX / (shard->run->worker_count + 1))
        return; /* no key of ours */
    uint32_t index = keymap_get(&shard->hold_of, pair_key(shard, key, worker));
    if (index == KEYMAP_NONE)
        return;
    hold_end(shard, index);
    shard_settle(shard);
}

void hold_evict_root(struct shard *shard, struct root *root)
{
    for (uint32_t i = root->first_hold; i != UINT32_MAX; i = shard->holds[i].next_of_root) {
        struct hold *hold = &shard->holds[i];
        if (hold->evicting)
            continue;
        hold->evicting = true;
        link_order(shard, hold->worker, CONTROL_EVICT, 0, hold->key);
    }
}

void hold_drop_worker(struct shard *shard, uint32_t worker)
{
    for (uint32_t i = 0; i < shard->hold_count; i++) {
        if (shard->holds[i].used && shard->holds[i].worker == worker)
            hold_end(shard, i);
    }
    shard_settle(shard);
}

static bool wants_lanes(const struct shard *shard, uint32_t call)
{
    const struct plan_call *of = &shard->plan->calls[call];
    return of->domain != 0 && (of->op->flags & SHEAF_OPERATOR_STATE_OF_PARENT) != 0 &&
           shard->run->pool_count[of->pool] > 1;
}

int hold_open_lanes(struct shard *shard)
{
    int result = 0;
    for (uint32_t call = 0; call < shard->plan->call_count && result == 0; call++) {
        uint32_t pool = shard->plan->calls[call].pool;
        if (!wants_lanes(shard, call))
            continue;
        result = sched_set_lanes(shard->sched, call, shard->run->pool_first[pool], shard->run->pool_count[pool]);
        shard->pools[pool].has_lanes = true;
    }
    return result;
}

uint32_t hold_home(const struct shard *shard, const struct sched_row *row)
{
    uint64_t kept_under;
    if (row->worker != LINEAGE_NOBODY)
        return row->worker;
    if (!state_key(shard, row->grain, &kept_under))
        return DISPATCH_HOME_ANY;
    uint32_t worker = keymap_get(&shard->home_of, kept_under);
    return worker == KEYMAP_NONE ? DISPATCH_HOME_ANY : worker;
}
