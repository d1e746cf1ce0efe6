/* SPDX-License-Identifier: Apache-2.0 */
/* The shard's side of the ready ring. */
#include <errno.h>
#include <stdlib.h>

#include "shm/crash_point.h"
#include "shm/ready_ring.h"
#include "shm/ready_word.h"

static uint32_t slot_index(const struct ready_producer *producer, uint64_t position)
{
    return (uint32_t)position & (producer->ring.capacity - 1);
}

static shared_u64 *slot_at(const struct ready_producer *producer, uint64_t position)
{
    return &producer->ring.slots->words[slot_index(producer, position)];
}

static uint64_t seal(const struct ready_producer *producer, uint64_t body)
{
    return ready_seal(body, ready_seed(producer->ring.salt, producer->epoch));
}

static bool sealed(const struct ready_producer *producer, uint64_t word)
{
    return ready_sealed(word, ready_seed(producer->ring.salt, producer->epoch));
}

/* The slot of `position` when what was there is over: EMPTY(lap + 1). */
static uint64_t empty_after(const struct ready_producer *producer, uint64_t position)
{
    return seal(producer, ready_body(READY_SLOT_EMPTY, ready_lap_of(position, producer->ring.capacity) + 1, 0, 0));
}

/* Everything EMPTY from `tail` on, which begins a lap. The epoch goes first: no word of the old one checks out under
 * it. */
static void start_epoch(struct ready_producer *producer, uint32_t epoch, uint64_t tail)
{
    const struct ready_ring *ring = &producer->ring;
    producer->epoch = epoch;
    producer->tail = tail;
    store_release_u32(&ring->notice->epoch, epoch);
    for (uint32_t i = 0; i < ring->capacity; i++) {
        producer->shadow[i] = (struct ready_shadow){0};
        uint64_t empty = seal(producer, ready_body(READY_SLOT_EMPTY, ready_lap_of(tail, ring->capacity), 0, 0));
        store_release_u64(&ring->slots->words[i], empty);
    }
    store_release_u64(&ring->slots->head, tail);
    store_release_u64(&ring->notice->tail, tail);
}

int ready_producer_open(struct ready_producer *producer, const struct ready_ring *ring)
{
    uint32_t capacity = ring->capacity;
    if (capacity < 2 || capacity > READY_RING_CAPACITY_MAX || (capacity & (capacity - 1)))
        return -EINVAL;
    struct ready_shadow *shadow = calloc(capacity, sizeof(*shadow));
    if (!shadow)
        return -ENOMEM;
    *producer = (struct ready_producer){.ring = *ring, .shadow = shadow};
    start_epoch(producer, load_relaxed_u32(&ring->notice->epoch) + 1, 0);
    return 0;
}

void ready_producer_close(struct ready_producer *producer)
{
    free(producer->shadow);
    *producer = (struct ready_producer){0};
}

/* The first position from the tail on whose slot is EMPTY; CLAIMED ones are skipped, a READY one means full. */
static int find_place(const struct ready_producer *producer, uint64_t *ret_position)
{
    for (uint64_t skipped = 0; skipped < producer->ring.capacity; skipped++) {
        uint64_t position = producer->tail + skipped;
        uint64_t word = load_acquire_u64(slot_at(producer, position)); /* partner: C4 */
        if (!sealed(producer, word))
            return -EBADMSG;
        switch (ready_state(word)) {
        case READY_SLOT_EMPTY:
            *ret_position = position;
            return 0;
        case READY_SLOT_READY:
            return -EAGAIN;
        case READY_SLOT_CLAIMED:
            break;
        case READY_SLOT_NONE:
            return -EBADMSG;
        }
    }
    return -EAGAIN;
}

bool ready_ring_has_room(const struct ready_producer *producer)
{
    uint64_t position;
    return find_place(producer, &position) == 0;
}

int ready_ring_put(struct ready_producer *producer, uint32_t grain, uint64_t number, uint64_t *ret_position)
{
    assert(grain < DISPATCH_GRAINS_MAX && number <= DISPATCH_NUMBER_MASK);
    uint64_t position = 0;
    int status = find_place(producer, &position);
    if (status)
        return status;
    producer->shadow[slot_index(producer, position)] = (struct ready_shadow){position, number, grain, 1};
    uint64_t lap = ready_lap_of(position, producer->ring.capacity);
    /* P2: release, partner C1: who claims the row sees its descriptor (P1). Nobody but the shard leaves EMPTY. */
    store_release_u64(slot_at(producer, position), seal(producer, ready_body(READY_SLOT_READY, lap, grain, 0)));
    SHEAF_CRASH_POINT("ready.pushed");
    producer->tail = position + 1;
    *ret_position = position;
    return 0;
}

void ready_ring_show(struct ready_producer *producer)
{
    if (load_relaxed_u64(&producer->ring.notice->tail) == producer->tail)
        return;
    store_release_u64(&producer->ring.notice->tail, producer->tail); /* P3, skipped positions included */
    SHEAF_CRASH_POINT("ready.tail_moved");
}

int ready_ring_push(struct ready_producer *producer, uint32_t grain, uint64_t number, uint64_t *ret_position)
{
    int status = ready_ring_put(producer, grain, number, ret_position);
    if (status == 0)
        ready_ring_show(producer);
    return status;
}

/* Whether the slot's word is about (g, d) as pushed at `position`, CLAIMED or READY. */
static bool names(const struct ready_producer *producer, uint64_t word, uint32_t grain, uint64_t number,
                  uint64_t position)
{
    const struct ready_shadow *shadow = &producer->shadow[slot_index(producer, position)];
    return shadow->used && shadow->position == position && shadow->grain == grain && shadow->number == number &&
           (ready_state(word) == READY_SLOT_READY || ready_state(word) == READY_SLOT_CLAIMED) &&
           ready_grain(word) == grain && ready_lap(word) == ready_lap_of(position, producer->ring.capacity);
}

enum ready_found ready_ring_find(const struct ready_producer *producer, uint32_t grain, uint64_t number,
                                 uint64_t position)
{
    uint64_t word = load_acquire_u64(slot_at(producer, position)); /* partner: C4; pages are looked at after this */
    if (!names(producer, word, grain, number, position))
        return READY_GONE;
    return ready_state(word) == READY_SLOT_READY ? READY_WAITING : READY_TAKEN;
}

enum ready_cancel ready_ring_cancel(struct ready_producer *producer, uint32_t grain, uint64_t number, uint64_t position)
{
    shared_u64 *slot = slot_at(producer, position);
    /* An honest slot moves twice at most while we look: READY, CLAIMED, EMPTY. */
    for (int look = 0; look < 3; look++) {
        uint64_t word = load_acquire_u64(slot);
        if (!names(producer, word, grain, number, position))
            return READY_CANCEL_GONE;
        if (ready_state(word) == READY_SLOT_READY) {
            if (swap_exact_u64(slot, word, empty_after(producer, position))) { /* X1 */
                SHEAF_CRASH_POINT("ready.cancelled");
                return READY_CANCEL_DONE;
            }
            continue;
        }
        uint64_t marked = seal(producer, (word & READY_BODY_MASK) | READY_CANCEL);
        if (word == marked || swap_exact_u64(slot, word, marked)) { /* X2 */
            SHEAF_CRASH_POINT("ready.cancel_marked");
            return READY_CANCEL_MARKED;
        }
    }
    return READY_CANCEL_GONE;
}

uint32_t ready_ring_sweep(struct ready_producer *producer, uint32_t worker, ready_ring_visit *visit, void *context)
{
    uint32_t told = 0;
    for (uint32_t i = 0; i < producer->ring.capacity; i++) {
        shared_u64 *slot = &producer->ring.slots->words[i];
        uint64_t word = load_acquire_u64(slot);
        if (!sealed(producer, word) || ready_state(word) != READY_SLOT_CLAIMED || ready_worker(word) != worker)
            continue;
        const struct ready_shadow *shadow = &producer->shadow[i];
        if (shadow->used) {
            visit(context, shadow->grain, shadow->number);
            told++;
        }
        store_release_u64(slot, empty_after(producer, shadow->position)); /* R2 */
        SHEAF_CRASH_POINT("ready.swept");
    }
    return told;
}

int ready_ring_check(const struct ready_producer *producer)
{
    for (uint32_t i = 0; i < producer->ring.capacity; i++) {
        uint64_t word = load_acquire_u64(&producer->ring.slots->words[i]);
        const struct ready_shadow *shadow = &producer->shadow[i];
        if (!sealed(producer, word) || ready_state(word) == READY_SLOT_NONE)
            return -EBADMSG;
        if (ready_state(word) != READY_SLOT_EMPTY &&
            !names(producer, word, shadow->grain, shadow->number, shadow->position))
            return -EBADMSG;
    }
    return 0;
}

void ready_ring_reset_head(struct ready_producer *producer)
{
    uint64_t back = producer->ring.capacity;
    store_release_u64(&producer->ring.slots->head, producer->tail > back ? producer->tail - back : 0);
}

void ready_ring_rebuild(struct ready_producer *producer)
{
    uint64_t capacity = producer->ring.capacity;
    start_epoch(producer, producer->epoch + 1, (producer->tail + capacity - 1) / capacity * capacity + capacity);
}
