/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/admission.h"

#include <errno.h>
#include <string.h>

enum { CAPACITY_MIN = 64 };

void admission_open(struct admission *admission, enum admission_order order, const struct lineage_memory *memory)
{
    *admission = (struct admission){.memory = *memory, .order = order};
}

void admission_close(struct admission *admission)
{
    if (admission->capacity)
        admission->memory.release(admission->memory.cookie, admission->heap,
                                  admission->capacity * sizeof(*admission->heap));
    admission->heap = NULL;
    admission->count = admission->capacity = 0;
}

static bool goes_before(const struct admission_root *a, const struct admission_root *b)
{
    return a->size != b->size ? a->size > b->size : a->number < b->number;
}

static int grow(struct admission *admission)
{
    uint32_t capacity = admission->capacity ? admission->capacity * 2 : CAPACITY_MIN;
    struct admission_root *larger = admission->memory.allocate(admission->memory.cookie, capacity * sizeof(*larger));
    if (!larger)
        return -ENOMEM;
    if (admission->capacity) {
        memcpy(larger, admission->heap, admission->count * sizeof(*larger));
        admission->memory.release(admission->memory.cookie, admission->heap,
                                  admission->capacity * sizeof(*admission->heap));
    }
    admission->heap = larger;
    admission->capacity = capacity;
    return 0;
}

int admission_add(struct admission *admission, uint64_t root, uint64_t size)
{
    if (admission->count == admission->capacity && grow(admission))
        return -ENOMEM;
    struct admission_root *heap = admission->heap, added = {.root = root, .number = admission->added++};
    added.size = admission->order == ADMISSION_LARGEST_FIRST ? size : 0;
    uint32_t at = admission->count++;
    for (; at > 0 && goes_before(&added, &heap[(at - 1) / 2]); at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = added;
    return 0;
}

bool admission_take(struct admission *admission, uint64_t *ret_root)
{
    if (admission->count == 0)
        return false;
    struct admission_root *heap = admission->heap, last = heap[--admission->count];
    *ret_root = heap[0].root;
    uint32_t at = 0;
    for (uint32_t child = 1; child < admission->count; child = 2 * at + 1) {
        child += child + 1 < admission->count && goes_before(&heap[child + 1], &heap[child]);
        if (!goes_before(&heap[child], &last))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return true;
}

uint64_t admission_roots_max(const struct admission *admission, uint64_t window, uint32_t workers, bool more)
{
    if (admission->order == ADMISSION_AS_SUBMITTED || !more)
        return window;
    return workers < window ? workers : window;
}
