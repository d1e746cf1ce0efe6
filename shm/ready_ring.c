/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's side of the ready ring, and what both sides look at. The shard's side is ready_producer.c. */
#include "shm/ready_ring.h"

#include "shm/crash_point.h"
#include "shm/ready_word.h"

#define PLACE_LINES 4u        /* of a claim with one input */
#define PREFETCH_ROWS_MAX 64u /* more would push out what came first */

/* What one claiming pass works with. */
struct claiming {
    const struct ready_ring *ring;
    const struct dispatch_table *table;
    const struct claim_page *page;
    const struct ready_wish *wish;
    struct ready_claim *claims;
    struct ready_taken taken;
    uint64_t seed;
    uint32_t worker;
    uint32_t row; /* FREE row for the next claim */
};

static shared_u64 *slot_of(const struct ready_ring *ring, uint64_t position)
{
    return &ring->slots->words[position & (ring->capacity - 1)];
}

static uint64_t lap_of(const struct ready_ring *ring, uint64_t position)
{
    return ready_lap_of(position, ring->capacity);
}

static uint64_t ring_seed(const struct ready_ring *ring)
{
    return ready_seed(ring->salt, load_acquire_u32(&ring->notice->epoch));
}

/*
 * The stretch of positions that may hold READY rows. The head is loaded before the tail: whoever moved the head
 * (release) had seen a tail beyond it (acquire), so an honest head is never past the tail seen here. Any other head is
 * ignored.
 */
static uint64_t first_position(const struct ready_ring *ring, uint64_t *ret_head, uint64_t *ret_tail)
{
    *ret_head = load_acquire_u64(&ring->slots->head);
    *ret_tail = load_acquire_u64(&ring->notice->tail);
    if (*ret_head <= *ret_tail && *ret_tail - *ret_head <= ring->capacity)
        return *ret_head;
    return *ret_tail > ring->capacity ? *ret_tail - ring->capacity : 0;
}

static bool is_ready_at(const struct ready_ring *ring, uint64_t word, uint64_t position)
{
    return ready_state(word) == READY_SLOT_READY && ready_lap(word) == lap_of(ring, position);
}

/* Move the head hint over positions that are no longer READY; each of them was pushed or skipped, so it never is again.
 */
static void advance_head(const struct ready_ring *ring)
{
    uint64_t head, tail;
    uint64_t position = first_position(ring, &head, &tail);
    while (position < tail && !is_ready_at(ring, load_acquire_u64(slot_of(ring, position)), position))
        position++;
    if (position != head && swap_exact_u64(&ring->slots->head, head, position))
        SHEAF_CRASH_POINT("ready.head_moved");
}

/* C4, or C4' when the shard set CANCEL meanwhile. */
static void unlink_claim(struct claiming *pass, struct ready_claim *claim)
{
    shared_u64 *slot = slot_of(pass->ring, claim->position);
    uint64_t empty =
        ready_seal(ready_body(READY_SLOT_EMPTY, lap_of(pass->ring, claim->position) + 1, 0, 0), pass->seed);
    /* Release, partner: the acquire with which the shard looks at the slot before it looks at pages. */
    if (swap_exact_u64(slot, claim->word, empty)) {
        SHEAF_CRASH_POINT("ready.unlinked");
        return;
    }
    uint64_t cancelled = ready_seal((claim->word & READY_BODY_MASK) | READY_CANCEL, pass->seed);
    claim->cancelled = true;
    if (swap_exact_u64(slot, cancelled, empty)) {
        SHEAF_CRASH_POINT("ready.unlinked_cancelled");
        return;
    }
    /* Somebody wrote over our claim. The row is in our page; the shard sees the slot when it checks the ring. */
    claim->cancelled = false;
    pass->taken.damaged++;
}

/* Whether the row a READY word names is one to take; counts words that cannot be ours. */
static bool is_wanted(struct claiming *pass, uint64_t word)
{
    struct dispatch_peek peek;
    if (!ready_sealed(word, pass->seed) || dispatch_peek(pass->table, ready_grain(word), &peek) ||
        peek.grain != ready_grain(word)) {
        pass->taken.damaged++;
        return false;
    }
    return !pass->wish->wanted || pass->wish->wanted(pass->wish->context, &peek);
}

static struct ready_claim *place_of(const struct claiming *pass, uint32_t index)
{
    return pass->wish->places ? pass->wish->places[index] : &pass->claims[index];
}

/* The descriptors and places of what is likely to be claimed: each is several cache lines that others wrote or nobody
 * has touched for long, and one after the other they would take most of the time of a claim. */
static void prefetch(const struct claiming *pass, uint64_t position, uint64_t tail)
{
    uint32_t most = pass->wish->rows_max < PREFETCH_ROWS_MAX ? pass->wish->rows_max : PREFETCH_ROWS_MAX;
    uint64_t end = tail - position > most ? position + most : tail;
    for (uint32_t index = 0; position < end; position++, index++) {
        uint64_t word = load_relaxed_u64(slot_of(pass->ring, position));
        if (ready_state(word) != READY_SLOT_READY)
            continue;
        dispatch_prefetch(pass->table, ready_grain(word));
        const char *place = (const char *)place_of(pass, index);
        for (uint32_t line = 0; line < PLACE_LINES; line++)
            __builtin_prefetch(place + line * CACHE_LINE_BYTES, 1);
    }
}

/* C1 to C3 at one position. True when it was claimed. */
static bool claim_at(struct claiming *pass, uint64_t position)
{
    shared_u64 *slot = slot_of(pass->ring, position);
    uint64_t word = load_acquire_u64(slot);
    if (!is_ready_at(pass->ring, word, position) || !is_wanted(pass, word))
        return false;
    uint32_t grain = ready_grain(word);
    uint64_t claimed =
        ready_seal(ready_body(READY_SLOT_CLAIMED, lap_of(pass->ring, position), grain, pass->worker), pass->seed);
    /* C1: acquire, partner P2; the word says from here on who has the row. */
    if (!swap_exact_u64(slot, word, claimed))
        return false;
    SHEAF_CRASH_POINT("ready.claimed");
    struct ready_claim *claim = place_of(pass, pass->taken.claimed);
    claim->row = pass->row;
    claim->cancelled = false;
    claim->position = position;
    claim->word = claimed;
    if (dispatch_copy(pass->table, grain, &claim->dispatch)) { /* C2; only a forged word gets here */
        unlink_claim(pass, claim);
        pass->taken.damaged++;
        return false;
    }
    claim_page_take(pass->page, claim->row, grain, claim->dispatch.number); /* C3 */
    return true;
}

struct ready_taken ready_ring_claim(const struct ready_ring *ring, const struct dispatch_table *table,
                                    const struct claim_page *page, uint32_t worker, const struct ready_wish *wish,
                                    struct ready_claim *claims)
{
    assert(worker < READY_RING_WORKERS_MAX);
    struct claiming pass = {.ring = ring, .table = table, .page = page, .wish = wish, .claims = claims};
    pass.seed = ring_seed(ring);
    pass.worker = worker;
    uint64_t head, tail;
    uint64_t position = first_position(ring, &head, &tail);
    if (position == tail)
        return pass.taken;
    if (wish->examined_max && tail - position > wish->examined_max)
        tail = position + wish->examined_max;
    prefetch(&pass, position, tail);
    pass.row = claim_page_find_free(page, 0);
    for (; position < tail && pass.taken.claimed < wish->rows_max && pass.row != CLAIM_ROW_NONE; position++) {
        pass.taken.examined++;
        if (claim_at(&pass, position)) {
            pass.taken.claimed++;
            pass.row = claim_page_find_free(page, pass.row + 1);
        }
    }
    for (uint32_t i = 0; i < pass.taken.claimed; i++)
        unlink_claim(&pass, place_of(&pass, i));
    advance_head(ring);
    return pass.taken;
}

bool ready_ring_has_ready(const struct ready_ring *ring)
{
    uint64_t head, tail;
    for (uint64_t position = first_position(ring, &head, &tail); position < tail; position++) {
        if (is_ready_at(ring, load_acquire_u64(slot_of(ring, position)), position))
            return true;
    }
    return false;
}

uint32_t ready_ring_count_ready(const struct ready_ring *ring)
{
    uint64_t head, tail;
    uint32_t count = 0;
    for (uint64_t position = first_position(ring, &head, &tail); position < tail; position++)
        count += is_ready_at(ring, load_acquire_u64(slot_of(ring, position)), position);
    return count;
}
