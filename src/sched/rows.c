/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/rows.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

static size_t block_bytes(uint32_t block)
{
    return ((size_t)ROWS_FIRST_BLOCK << block) * sizeof(struct row);
}

/* From where row 0 would be to the first row of the block. */
static uintptr_t block_offset(uint32_t block)
{
    return block_bytes(block) - block_bytes(0);
}

bool rows_make_block(struct sched *sched, uint32_t call, uint32_t block)
{
    void *rows = sched->memory.allocate(sched->memory.cookie, block_bytes(block));
    if (!rows)
        return false;
    memset(rows, 0, block_bytes(block));
    sched->calls[call].blocks[block] = (uintptr_t)rows - block_offset(block);
    return true;
}

static struct row_list *list_of(struct sched *sched, uint32_t call, const struct row *row)
{
    struct call_queues *queues = &sched->calls[call];
    switch ((enum row_place)row->place) {
    case ROW_RETRY:
        return &queues->retry;
    case ROW_READY:
        return &queues->lanes[row->lane].ready;
    case ROW_ASIDE:
        return &queues->lanes[row->lane].aside;
    case ROW_ISOLATION:
        return &queues->isolation;
    case ROW_NOWHERE:
    case ROW_OUT:
        break;
    }
    return NULL;
}

/* Rows of the Call that are READY or aside, and READY ones of the root. */
static void count_row(struct sched *sched, uint32_t call, const struct row *row, int by)
{
    if (row->place == ROW_ASIDE)
        sched->calls[call].aside_count += (uint32_t)by;
    if (row->place != ROW_READY)
        return;
    sched->calls[call].ready_count += (uint32_t)by;
    if (row->root)
        sched->bulk.roots[row->root - 1].queued += (uint32_t)by;
}

void row_out(struct sched *sched, uint32_t call, struct row *row)
{
    row->place = ROW_OUT;
    sched->calls[call].lanes[row->lane].out++;
}

void row_in(struct sched *sched, uint32_t call, struct row *row)
{
    if (row->place != ROW_OUT)
        return;
    struct lane *lane = &sched->calls[call].lanes[row->lane];
    assert(lane->out > 0);
    lane->out--;
    row->place = ROW_NOWHERE;
}

/* The list the row is about to be linked into. */
static struct row_list *enter(struct sched *sched, uint32_t call, struct row *row, enum row_place place)
{
    row_in(sched, call, row);
    row->place = (uint8_t)place;
    count_row(sched, call, row, 1);
    return list_of(sched, call, row);
}

void row_append(struct sched *sched, uint32_t call, uint32_t entity, enum row_place place)
{
    struct row *row = row_at(sched, call, entity);
    struct row_list *list = enter(sched, call, row, place);
    row->next = NOBODY;
    row->previous = list->count ? list->last : NOBODY;
    if (list->count)
        row_at(sched, call, list->last)->next = entity;
    else
        list->first = entity;
    list->last = entity;
    list->count++;
}

void row_prepend(struct sched *sched, uint32_t call, uint32_t entity, enum row_place place)
{
    struct row *row = row_at(sched, call, entity);
    struct row_list *list = enter(sched, call, row, place);
    row->previous = NOBODY;
    row->next = list->count ? list->first : NOBODY;
    if (list->count)
        row_at(sched, call, list->first)->previous = entity;
    else
        list->last = entity;
    list->first = entity;
    list->count++;
}

void row_remove(struct sched *sched, uint32_t call, struct row *row)
{
    struct row_list *list = list_of(sched, call, row);
    assert(list && list->count > 0);
    if (row->previous == NOBODY)
        list->first = row->next;
    else
        row_at(sched, call, row->previous)->next = row->next;
    if (row->next == NOBODY)
        list->last = row->previous;
    else
        row_at(sched, call, row->next)->previous = row->previous;
    list->count--;
    count_row(sched, call, row, -1);
    row->place = ROW_NOWHERE;
}

void row_move_up(struct sched *sched, uint32_t call, uint32_t entity)
{
    row_remove(sched, call, row_at(sched, call, entity));
    row_append(sched, call, entity, ROW_READY);
}

uint32_t row_new_batch(struct sched *sched)
{
    if (++sched->last_batch == 0)
        sched->last_batch = 1;
    return sched->last_batch;
}

void row_isolate(struct sched *sched, uint32_t call, uint32_t entity, uint32_t batch)
{
    row_at(sched, call, entity)->batch = batch;
    row_append(sched, call, entity, ROW_ISOLATION);
}

int sched_create(const struct sheaf_plan *plan, const struct lineage_memory *memory, struct sched **ret_sched)
{
    struct sched *sched = memory->allocate(memory->cookie, sizeof(*sched));
    if (!sched)
        return -ENOMEM;
    size_t bytes = (plan->call_count + 1) * sizeof(*sched->calls);
    *sched = (struct sched){.plan = plan, .memory = *memory, .calls = memory->allocate(memory->cookie, bytes)};
    if (!sched->calls) {
        memory->release(memory->cookie, sched, sizeof(*sched));
        return -ENOMEM;
    }
    memset(sched->calls, 0, bytes);
    for (uint32_t call = 0; call < plan->call_count; call++) {
        if (sched_set_lanes(sched, call, 0, 1) < 0) {
            sched_destroy(sched);
            return -ENOMEM;
        }
    }
    if (bulk_open(sched) < 0) {
        sched_destroy(sched);
        return -ENOMEM;
    }
    *ret_sched = sched;
    return 0;
}

void sched_destroy(struct sched *sched)
{
    if (!sched)
        return;
    struct lineage_memory memory = sched->memory;
    bulk_close(sched);
    for (uint32_t i = 0; i < sched->plan->call_count; i++) {
        lanes_close(sched, i);
        for (uint32_t block = 0; block < 27; block++)
            if (sched->calls[i].blocks[block])
                memory.release(memory.cookie, (void *)(sched->calls[i].blocks[block] + block_offset(block)),
                               block_bytes(block));
    }
    memory.release(memory.cookie, sched->calls, (sched->plan->call_count + 1) * sizeof(*sched->calls));
    memory.release(memory.cookie, sched, sizeof(*sched));
}
