/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bits of a ready-ring slot, for the ring and for tests that forge slots.
 *
 *     0..27 grain | 28..39 claimant | 40 CANCEL | 41..42 state | 43..53 lap | 54..63 tag
 *
 * The tag is a hash of the rest with the ring's number and epoch. It catches stray writes, not a forger. The lap may
 * wrap: all that is done for a row is done after the claim, by what the claim found.
 */
#ifndef SHM_READY_WORD_H
#define SHM_READY_WORD_H

#include "shm/dispatch.h"

#define READY_WORKER_SHIFT 28u
#define READY_WORKER_MASK UINT64_C(0xfff)
#define READY_CANCEL (UINT64_C(1) << 40)
#define READY_STATE_SHIFT 41u
#define READY_LAP_SHIFT 43u
#define READY_LAP_MASK UINT64_C(0x7ff)
#define READY_TAG_SHIFT 54u
#define READY_BODY_MASK ((UINT64_C(1) << READY_TAG_SHIFT) - 1)

enum ready_state { READY_SLOT_EMPTY = 0, READY_SLOT_READY, READY_SLOT_CLAIMED, READY_SLOT_NONE };

/* The seed of the tags of one ring in one epoch. */
static inline uint64_t ready_seed(uint32_t salt, uint32_t epoch)
{
    return ((uint64_t)epoch << 32 | salt) * UINT64_C(0x9e3779b97f4a7c15);
}

static inline uint64_t ready_seal(uint64_t body, uint64_t seed)
{
    uint64_t mixed = (body ^ seed) * UINT64_C(0xd6e8feb86659fd93);
    mixed = (mixed ^ mixed >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return body | (mixed >> READY_TAG_SHIFT) << READY_TAG_SHIFT;
}

static inline bool ready_sealed(uint64_t word, uint64_t seed)
{
    return ready_seal(word & READY_BODY_MASK, seed) == word;
}

static inline enum ready_state ready_state(uint64_t word)
{
    return (enum ready_state)(word >> READY_STATE_SHIFT & 3);
}

static inline uint32_t ready_grain(uint64_t word)
{
    return (uint32_t)(word & (DISPATCH_GRAINS_MAX - 1));
}

static inline uint32_t ready_worker(uint64_t word)
{
    return (uint32_t)(word >> READY_WORKER_SHIFT & READY_WORKER_MASK);
}

static inline uint64_t ready_body(enum ready_state state, uint64_t lap, uint32_t grain, uint32_t worker)
{
    return (lap & READY_LAP_MASK) << READY_LAP_SHIFT | (uint64_t)state << READY_STATE_SHIFT |
           (uint64_t)worker << READY_WORKER_SHIFT | grain;
}

static inline uint64_t ready_lap(uint64_t word)
{
    return word >> READY_LAP_SHIFT & READY_LAP_MASK;
}

/* The lap of a position, as words have it. A shift: to divide would cost more than all else that is done for a slot. */
static inline uint64_t ready_lap_of(uint64_t position, uint32_t capacity)
{
    return position >> __builtin_ctz(capacity) & READY_LAP_MASK;
}

#endif
