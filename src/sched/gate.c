/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/gate.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "sched/policy.h"

enum { CAPACITY_MIN = 256 };
#define NOBODY UINT32_MAX

void gate_open(struct gate *gate, const struct lineage_memory *memory, uint32_t call, uint32_t dial)
{
    *gate = (struct gate){.memory = *memory, .call = call, .dial = dial};
}

void gate_close(struct gate *gate)
{
    if (gate->rows)
        gate->memory.release(gate->memory.cookie, gate->rows, gate->row_capacity * sizeof(*gate->rows));
    if (gate->parents)
        gate->memory.release(gate->memory.cookie, gate->parents, gate->parent_capacity * sizeof(*gate->parents));
    gate->rows = NULL;
    gate->parents = NULL;
    gate->row_capacity = gate->parent_capacity = 0;
}

static int grow(struct gate *gate, void **array, uint32_t *capacity, size_t bytes_each, uint32_t index)
{
    uint32_t wanted = *capacity ? *capacity : CAPACITY_MIN;
    while (wanted <= index)
        wanted *= 2;
    if (wanted == *capacity)
        return 0;
    void *bigger = gate->memory.allocate(gate->memory.cookie, wanted * bytes_each);
    if (!bigger)
        return -ENOMEM;
    memset(bigger, 0, wanted * bytes_each);
    if (*array) {
        memcpy(bigger, *array, *capacity * bytes_each);
        gate->memory.release(gate->memory.cookie, *array, *capacity * bytes_each);
    }
    *array = bigger;
    *capacity = wanted;
    return 0;
}

static const struct gate_list NO_ROWS = {NOBODY, NOBODY};

static struct gate_parent *parent_of(struct gate *gate, uint32_t parent, uint64_t key)
{
    struct gate_parent *state = &gate->parents[parent];
    if (state->key != key)
        *state = (struct gate_parent){.key = key, .held_rows = NO_ROWS, .passed_rows = NO_ROWS};
    return state;
}

static void append(struct gate *gate, struct gate_list *list, uint32_t entity, enum gate_place place)
{
    gate->rows[entity] = (struct gate_row){.previous = list->last, .next = NOBODY, .place = place};
    if (list->last == NOBODY)
        list->first = entity;
    else
        gate->rows[list->last].next = entity;
    list->last = entity;
}

static void take_out(struct gate *gate, struct gate_list *list, uint32_t entity)
{
    struct gate_row *row = &gate->rows[entity];
    if (row->previous == NOBODY)
        list->first = row->next;
    else
        gate->rows[row->previous].next = row->next;
    if (row->next == NOBODY)
        list->last = row->previous;
    else
        gate->rows[row->next].previous = row->previous;
    row->place = GATE_NOWHERE;
}

static void let_through(struct gate *gate, struct gate_parent *state, uint32_t entity)
{
    state->passed++;
    if (state->proven)
        gate->rows[entity].place = GATE_NOWHERE;
    else
        append(gate, &state->passed_rows, entity, GATE_PASSED);
}

int gate_ready(struct gate *gate, uint32_t entity, uint32_t parent, uint64_t parent_key)
{
    if (gate->dial == 0)
        return 1;
    if (grow(gate, (void **)&gate->rows, &gate->row_capacity, sizeof(*gate->rows), entity) ||
        grow(gate, (void **)&gate->parents, &gate->parent_capacity, sizeof(*gate->parents), parent))
        return -ENOMEM;
    struct gate_parent *state = parent_of(gate, parent, parent_key);
    if (state->held == 0 && policy_may_pass(gate->dial, state->proven, state->passed)) {
        let_through(gate, state, entity);
        return 1;
    }
    append(gate, &state->held_rows, entity, GATE_HELD);
    state->held++;
    gate->held++;
    return 0;
}

/* One that failed by itself is out of the list, and the next is the first. */
static bool head_proves(struct gate *gate, struct gate_parent *state)
{
    uint32_t first = state->passed_rows.first;
    return first != NOBODY && gate->rows[first].place == GATE_SUCCEEDED;
}

void gate_over(struct gate *gate, uint32_t entity, uint32_t parent, uint64_t parent_key, bool succeeded)
{
    if (gate->dial == 0 || parent >= gate->parent_capacity || gate->parents[parent].key != parent_key)
        return;
    struct gate_parent *state = &gate->parents[parent];
    if (state->passed > 0)
        state->passed--;
    if (state->proven || entity >= gate->row_capacity || gate->rows[entity].place != GATE_PASSED)
        return;
    if (succeeded)
        gate->rows[entity].place = GATE_SUCCEEDED;
    else
        take_out(gate, &state->passed_rows, entity);
    state->proven = head_proves(gate, state);
    if (state->proven)
        state->passed_rows = NO_ROWS;
}

int gate_next(struct gate *gate, uint32_t parent, uint32_t *ret_entity)
{
    if (gate->dial == 0 || parent >= gate->parent_capacity)
        return 0;
    struct gate_parent *state = &gate->parents[parent];
    if (state->held == 0 || !policy_may_pass(gate->dial, state->proven, state->passed))
        return 0;
    *ret_entity = state->held_rows.first;
    take_out(gate, &state->held_rows, *ret_entity);
    state->held--;
    gate->held--;
    let_through(gate, state, *ret_entity);
    return 1;
}

bool gate_cancel(struct gate *gate, uint32_t entity, uint32_t parent)
{
    if (gate->dial == 0 || entity >= gate->row_capacity || gate->rows[entity].place != GATE_HELD)
        return false;
    assert(parent < gate->parent_capacity);
    take_out(gate, &gate->parents[parent].held_rows, entity);
    gate->parents[parent].held--;
    gate->held--;
    return true;
}
