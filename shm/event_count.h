/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Event counts: how a process sleeps until somebody in another process has news, on a shared futex.
 *
 * One 32-bit word: a sequence in the upper 31 bits and in bit 0 a flag "somebody may be asleep". There is no count of
 * sleepers: one that dies would leave it wrong. Who clears the flag wakes everybody. A sleeper does, in this order:
 *
 *     uint32_t seen = event_count_sample(events);     1. sample
 *     if (there is work) ...                          2. look
 *     if (event_count_announce(events, seen))         3. CAS (seq, any) -> (seq, FLAG), then a full fence
 *         if (there is no work)                       4. look again
 *             event_count_wait(events, seen, ...)     5. futex_wait on exactly (seq, FLAG)
 *
 * and then starts over whatever came back. Who has news publishes it and then bumps, once per batch; the bump begins
 * with a full fence, which is the partner of the fence in 3: either the sleeper's second look sees the news, or the
 * bump sees the flag or moves the sequence and the wait returns. Every death is followed by event_count_bump_always on
 * every event count the dead process might have been about to wake: it may have died between clearing the flag and
 * waking.
 *
 * The word lies in memory workers write. A hostile worker can cost wake-ups; the supervisor's tick bounds the loss.
 */
#ifndef SHM_EVENT_COUNT_H
#define SHM_EVENT_COUNT_H

#include "shm/atomic.h"

#define EVENT_COUNT_FLAG 1u
#define EVENT_COUNT_FOREVER UINT64_MAX

struct event_count {
    shared_u32 word;
    uint8_t apart[FALSE_SHARING_BYTES - sizeof(shared_u32)];
};
static_assert(sizeof(struct event_count) == FALSE_SHARING_BYTES, "part of the shared layout");

/* 1. The sequence now. */
static inline uint32_t event_count_sample(const struct event_count *events)
{
    return load_acquire_u32(&events->word) & ~EVENT_COUNT_FLAG;
}

/* 3. Say that somebody may sleep. false: there was news since the sample, look again. */
bool event_count_announce(struct event_count *events, uint32_t seen);

/* 5. Sleep while the word is exactly (seen, FLAG). 0: woken or there is news; -ETIMEDOUT; -EINTR. Call announce first.
 */
int event_count_wait(struct event_count *events, uint32_t seen, uint64_t timeout_ns);

/* There is news: seq + 1, flag off, and wake everybody if the flag was on. */
void event_count_bump(struct event_count *events);

/* The same, and wake everybody whether or not the flag was on: for deaths. */
void event_count_bump_always(struct event_count *events);

#endif
