/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When shared memory that workers can write does not check out.
 *
 * The arena, the claim pages of the dead and the shard's own slots are the truth; rings and heads are hints that can be
 * made anew. So on a bad word, or when a row that was offered can be found nowhere (audit.c), every worker of the Pool
 * is killed, what each leaves is taken in as after any death, and once the last is gone the Pool's rings start empty
 * under a new epoch. Rows that were RUNNING are run once more with nothing else out in any shard (alone.c), and charged
 * with class `contract` if damage is done again; all others are innocent. Replacements wait for the rebuild.
 */
#include <errno.h>

#include "engine/shard.h"
#include "engine/supervisor.h"

static bool in_pool(const struct shard *shard, const struct slot *slot, uint32_t pool)
{
    return shard->plan->calls[slot->grain.call].pool == pool;
}

static void for_each_ring(struct shard *shard, uint32_t pool, void (*act)(struct ready_producer *ring))
{
    const struct plan_pool *calls = &shard->plan->pools[pool];
    for (uint32_t i = 0; i < calls->call_count; i++) {
        uint32_t call = shard->plan->pool_calls[calls->call_first + i];
        for (uint32_t ring = 0; ring < BOARD_RINGS; ring++)
            act(&shard->rings[(size_t)call * BOARD_RINGS + ring]);
    }
}

/* A row that no page and no ring names any more may have wiped out its own trace: it runs once more, alone, while
 * nothing else is out; if it is lost again it was the one. */
void rebuild_suspect(struct shard *shard, struct slot *slot, uint32_t worker)
{
    static const char text[] = "shared memory was damaged while it ran, twice";
    if (slot->unwanted) {
        recover_give_back(shard, slot);
        return;
    }
    struct sched_loss loss = {.event = SCHED_CRASHED,
                              .class_id = SHEAF_CLASS_CONTRACT,
                              .call = slot->grain.call,
                              .culprit = 0,
                              .in_company = !slot->alone,
                              .worker = worker,
                              .rows_before = 1};
    uint32_t entity = slot->grain.entity;
    shard->careful = true;
    shard->losses++;
    slot_release(shard, slot);
    complete_failed(shard, &loss, &entity, 1, text, sizeof text - 1, 0);
}

/* Every worker of the Pool is dead and recovered: what is still offered lies in the rings, or was lost from them. */
static void rebuild_if_quiet(struct shard *shard, uint32_t pool)
{
    const struct sheaf_run *run = shard->run;
    for (uint32_t i = 0; i < run->pool_count[pool]; i++) {
        if (shard->links[run->pool_first[pool] + i].attached)
            return;
    }
    for (uint32_t i = 0; i < shard->slots_real; i++) {
        struct slot *slot = &shard->slots[i];
        if (!slot->live || !in_pool(shard, slot, pool))
            continue;
        if (slot->unwanted || slot_in_ring(shard, slot) == READY_WAITING)
            recover_give_back(shard, slot);
        else
            rebuild_suspect(shard, slot, run->pool_first[pool]); /* all are replaced: any will do */
    }
    for_each_ring(shard, pool, ready_ring_rebuild);
    shard->pools[pool].rebuilding = false;
    for (uint32_t i = 0; i < run->pool_count[pool]; i++) {
        struct link *link = &shard->links[run->pool_first[pool] + i];
        if (link->awaits_rebuild)
            supervisor_recovered(run->supervisor, run->pool_first[pool] + i, link->death);
        link->awaits_rebuild = false;
    }
}

void rebuild_want(struct shard *shard, uint32_t pool, const char *why)
{
    const struct sheaf_run *run = shard->run;
    if (shard->pools[pool].rebuilding)
        return;
    shard->pools[pool].rebuilding = true;
    run_log(run, 2, "pool %s: shared memory is damaged: %s; its workers are replaced and its rings made anew",
            shard->plan->pools[pool].name, why);
    for (uint32_t i = 0; i < run->pool_count[pool]; i++)
        link_kill(shard, run->pool_first[pool] + i, why);
    rebuild_if_quiet(shard, pool);
}

bool rebuild_delays(struct shard *shard, uint32_t worker)
{
    uint32_t pool = shard->run->workers[worker].pool;
    if (!shard->pools[pool].rebuilding)
        return false;
    shard->links[worker].awaits_rebuild = true;
    rebuild_if_quiet(shard, pool);
    return true;
}

/* ---- noticing ---- */

static bool check_rings(struct shard *shard, uint32_t pool)
{
    const struct plan_pool *calls = &shard->plan->pools[pool];
    for (uint32_t i = 0; i < calls->call_count; i++) {
        uint32_t call = shard->plan->pool_calls[calls->call_first + i];
        for (uint32_t ring = 0; ring < BOARD_RINGS; ring++) {
            if (ready_ring_check(&shard->rings[(size_t)call * BOARD_RINGS + ring]) == 0)
                continue;
            rebuild_want(shard, pool, "a ready ring holds a word that nobody wrote");
            return false;
        }
    }
    return true;
}

void rebuild_check_damage(struct shard *shard, uint32_t worker)
{
    struct link *link = &shard->links[worker];
    uint64_t damaged = load_relaxed_u64(&shard->run->workers[worker].lane.counters->damaged);
    if (damaged == link->damaged)
        return;
    link->damaged = damaged;
    check_rings(shard, shard->run->workers[worker].pool);
}

bool rebuild_rings_hold(struct shard *shard)
{
    bool hold = true;
    for (uint32_t pool = 0; pool < shard->plan->pool_count; pool++) {
        for_each_ring(shard, pool, ready_ring_reset_head);
        hold &= check_rings(shard, pool);
    }
    return hold;
}

void rebuild_show_rows(struct shard *shard, uint32_t pool)
{
    for_each_ring(shard, pool, ready_ring_reset_head);
    shard->pools[pool].pushed = true;
}
