/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A deliberate slowdown of the claim path by about a tenth: linked with -Wl,--wrap=ready_ring_claim into a second
 * sheaf_bench, which is there to see that the gate and perf/compare notice it.
 */
#include "shm/ready_ring.h"

#define STEPS_PER_ROW 51u /* two instructions each: a tenth of what a row of ready_ring/push_and_claim takes */

struct ready_taken __real_ready_ring_claim(const struct ready_ring *ring, const struct dispatch_table *table,
                                           const struct claim_page *page, uint32_t worker,
                                           const struct ready_wish *wish, struct ready_claim *claims);
struct ready_taken __wrap_ready_ring_claim(const struct ready_ring *ring, const struct dispatch_table *table,
                                           const struct claim_page *page, uint32_t worker,
                                           const struct ready_wish *wish, struct ready_claim *claims);

struct ready_taken __wrap_ready_ring_claim(const struct ready_ring *ring, const struct dispatch_table *table,
                                           const struct claim_page *page, uint32_t worker,
                                           const struct ready_wish *wish, struct ready_claim *claims)
{
    struct ready_taken taken = __real_ready_ring_claim(ring, table, page, worker, wish, claims);
    for (uint32_t step = taken.claimed * STEPS_PER_ROW; step > 0; step--)
        __asm__ volatile("");
    return taken;
}
