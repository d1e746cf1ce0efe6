/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows that may have written over shared memory run with nothing else out: no other row of any Pool in any shard, and
 * rings that were looked at just before. So what is damaged then is the doing of the row that ran, whichever shard
 * finds it.
 *
 * The shards agree through one word of the run, `round 32 | 1 + holder 32`. A shard with suspects takes it when nobody
 * has it, and from then on every shard offers nothing. One that has no row out, whose rings check out and that makes
 * none anew says so by storing the word it saw into its own `quiet_for`. It cannot offer anything before the word has
 * changed, since it looks at the word before it offers, so what it said stays true. When all have said it in a round
 * that began with nothing out, the holder offers one isolation batch: in the first round rows of one shard may still
 * damage rings that another has looked at already. After the batch comes the next round, or the word is given up. Rows
 * that are out always end (by an answer, a deadline, a death), so does every wait here; nobody waits for a row that is
 * not out yet, batches included (batching.c).
 */
#include "engine/shard.h"

static uint32_t holder_of(uint64_t word)
{
    return (uint32_t)word;
}

/* Of the round after that of `word`: never the same word twice while somebody may still remember it. */
static uint64_t next_word(uint64_t word, uint32_t holder)
{
    return ((word >> 32) + 1) << 32 | holder;
}

/* Suspects wait for their turn. Once there are none nobody has to be careful any more. */
static bool has_suspects(struct shard *shard)
{
    for (uint32_t call = 0; shard->careful && call < shard->plan->call_count; call++) {
        if (sched_isolating(shard->sched, call) > 0)
            return true;
    }
    shard->careful = false;
    return false;
}

static bool makes_rings_anew(const struct shard *shard)
{
    for (uint32_t pool = 0; pool < shard->plan->pool_count; pool++) {
        if (shard->pools[pool].rebuilding)
            return true;
    }
    return false;
}

/* Whether this shard is quiet in the round of `word`; looked at until it is. */
static bool is_quiet(struct shard *shard, uint64_t word)
{
    if (shard->slot_used > 0 || makes_rings_anew(shard))
        return false;
    if (atomic_load_explicit(&shard->quiet_for, memory_order_relaxed) == word)
        return true;
    while (!rebuild_rings_hold(shard)) { /* where no worker is there to be killed first they are new at once */
        if (makes_rings_anew(shard))
            return false;
    }
    /* Release, partner: others_are_quiet. What is offered next comes after our last look at our rings. */
    atomic_store_explicit(&shard->quiet_for, word, memory_order_release);
    return true;
}

static bool others_are_quiet(const struct shard *shard, uint64_t word)
{
    const struct sheaf_run *run = shard->run;
    for (uint32_t i = 0; i < run->shard_count; i++) {
        if (i != shard->number && atomic_load_explicit(&run->shards[i]->quiet_for, memory_order_acquire) != word)
            return false;
    }
    return true;
}

/* Release, partner: the acquire load in alone_step. A shard that offers again sees what the holder left. */
static uint64_t say(struct sheaf_run *run, uint64_t word)
{
    atomic_store_explicit(&run->alone, word, memory_order_release);
    shard_wake_all(run);
    return word;
}

static bool take(struct shard *shard, uint64_t *word)
{
    struct sheaf_run *run = shard->run;
    uint64_t mine = next_word(*word, shard->number + 1);
    /* Of two that want it one gets it; the other finds out here, or is woken when it is given up. */
    if (!atomic_compare_exchange_strong_explicit(&run->alone, word, mine, memory_order_acq_rel, memory_order_acquire))
        return false;
    *word = mine;
    shard->alone_used = shard->alone_drained = false;
    shard_wake_all(run);
    return true;
}

static enum alone_says as_other(struct shard *shard, uint64_t word)
{
    uint32_t holder = holder_of(word);
    bool said = atomic_load_explicit(&shard->quiet_for, memory_order_relaxed) == word;
    if (holder != 0 && !said && is_quiet(shard, word))
        event_count_bump(shard->run->shards[holder - 1]->board.shard_events);
    return ALONE_HELD;
}

static enum alone_says as_holder(struct shard *shard, uint64_t word)
{
    if (shard->slot_used > 0)
        return ALONE_HELD;
    if (!has_suspects(shard)) {
        say(shard->run, next_word(word, 0));
        return ALONE_OPEN;
    }
    uint64_t next = next_word(word, shard->number + 1);
    if (shard->alone_used)
        word = say(shard->run, next);
    shard->alone_used = false;
    if (!is_quiet(shard, word) || !others_are_quiet(shard, word))
        return ALONE_HELD;
    if (shard->alone_drained)
        return ALONE_MINE;
    shard->alone_drained = true;
    word = say(shard->run, next);
    return is_quiet(shard, word) && others_are_quiet(shard, word) ? ALONE_MINE : ALONE_HELD; /* nobody else: at once */
}

enum alone_says alone_step(struct shard *shard)
{
    uint64_t word = atomic_load_explicit(&shard->run->alone, memory_order_acquire);
    if (holder_of(word) == shard->number + 1)
        return as_holder(shard, word);
    if (holder_of(word) != 0)
        return as_other(shard, word);
    if (!has_suspects(shard))
        return ALONE_OPEN;
    return take(shard, &word) ? as_holder(shard, word) : as_other(shard, word);
}
