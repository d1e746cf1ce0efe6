/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/event_count.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shm/crash_point.h"

#define EVENT_COUNT_STEP 2u

bool event_count_announce(struct event_count *events, uint32_t seen)
{
    uint32_t word = load_relaxed_u32(&events->word);
    while ((word & ~EVENT_COUNT_FLAG) == seen) {
        if (atomic_compare_exchange_weak_explicit(&events->word, &word, seen | EVENT_COUNT_FLAG, memory_order_acq_rel,
                                                  memory_order_relaxed)) {
            fence_total(); /* partner: the fence in bump */
            SHEAF_CRASH_POINT("event.announced");
            return true;
        }
    }
    return false;
}

int event_count_wait(struct event_count *events, uint32_t seen, uint64_t timeout_ns)
{
    struct timespec timeout = {(time_t)(timeout_ns / 1000000000u), (long)(timeout_ns % 1000000000u)};
    long status = syscall(SYS_futex, (uint32_t *)&events->word, FUTEX_WAIT, seen | EVENT_COUNT_FLAG,
                          timeout_ns == EVENT_COUNT_FOREVER ? NULL : &timeout, NULL, 0);
    if (status == 0 || errno == EAGAIN)
        return 0;
    return -errno;
}

/* seq + 1, flag off; returns whether the flag was on. */
static bool move_on(struct event_count *events)
{
    fence_total(); /* what was published before is seen by whoever announces later and looks again */
    uint32_t word = load_relaxed_u32(&events->word);
    while (!atomic_compare_exchange_weak_explicit(&events->word, &word, (word & ~EVENT_COUNT_FLAG) + EVENT_COUNT_STEP,
                                                  memory_order_acq_rel, memory_order_relaxed))
        ;
    SHEAF_CRASH_POINT("event.moved");
    return word & EVENT_COUNT_FLAG;
}

static void wake_all(struct event_count *events)
{
    syscall(SYS_futex, (uint32_t *)&events->word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void event_count_bump(struct event_count *events)
{
    if (move_on(events))
        wake_all(events);
}

void event_count_bump_always(struct event_count *events)
{
    move_on(events);
    wake_all(events);
}
