/* SPDX-License-Identifier: Apache-2.0 */
/* The virtual clock: a heap of moments at which a device goes on; chance. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/state.h"

uint32_t sim_draw(struct sim *sim, uint32_t below)
{
    sim->random ^= sim->random << 13;
    sim->random ^= sim->random >> 7;
    sim->random ^= sim->random << 17;
    return (uint32_t)((sim->random >> 32) % below);
}

/* The array, large enough for index `needed`, new elements zeroed. Memory that is gone ends the run. */
void *sim_grow(struct sim *sim, void *array, uint32_t *capacity, uint32_t needed, size_t bytes_each)
{
    if (needed < *capacity)
        return array;
    uint32_t wanted = *capacity ? *capacity : 64;
    while (wanted <= needed)
        wanted *= 2;
    char *bigger = realloc(array, wanted * bytes_each);
    if (!bigger) {
        sim->error = -ENOMEM;
        return array;
    }
    memset(bigger + *capacity * bytes_each, 0, (wanted - *capacity) * bytes_each);
    *capacity = wanted;
    return bigger;
}

static bool earlier(const struct event *a, const struct event *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

void event_push(struct sim *sim, uint64_t at_us, uint32_t device)
{
    sim->heap = sim_grow(sim, sim->heap, &sim->heap_capacity, sim->heap_count, sizeof(*sim->heap));
    if (sim->error)
        return;
    uint64_t order = sim->setup->shuffled ? sim_draw(sim, UINT32_MAX) : sim->order++;
    struct event event = {at_us, order, device};
    uint32_t index = sim->heap_count++;
    for (; index > 0 && earlier(&event, &sim->heap[(index - 1) / 2]); index = (index - 1) / 2)
        sim->heap[index] = sim->heap[(index - 1) / 2];
    sim->heap[index] = event;
}

bool event_pop(struct sim *sim, struct event *ret_event)
{
    if (sim->heap_count == 0)
        return false;
    *ret_event = sim->heap[0];
    struct event last = sim->heap[--sim->heap_count];
    uint32_t index = 0;
    for (;;) {
        uint32_t child = 2 * index + 1;
        if (child >= sim->heap_count)
            break;
        if (child + 1 < sim->heap_count && earlier(&sim->heap[child + 1], &sim->heap[child]))
            child++;
        if (!earlier(&sim->heap[child], &last))
            break;
        sim->heap[index] = sim->heap[child];
        index = child;
    }
    sim->heap[index] = last;
    return true;
}
