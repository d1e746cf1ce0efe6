/* SPDX-License-Identifier: Apache-2.0 */
/* Names, references, and the canonical order of steps. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "program/compile.h"
#include "program/text.h"

/* Where a name stands in the hash, or the free place where it would stand. */
static uint32_t name_position(const struct compile *compile, const char *name)
{
    uint32_t at = (uint32_t)XXH3_64bits(name, strlen(name)) & compile->name_mask;
    while (compile->name_slots[at] != PLAN_NONE && strcmp(compile->names[compile->name_slots[at]].name, name) != 0)
        at = (at + 1) & compile->name_mask;
    return at;
}

struct name_entry *compile_find_name(const struct compile *compile, const char *name)
{
    uint32_t index = compile->name_slots[name_position(compile, name)];
    return index == PLAN_NONE ? NULL : &compile->names[index];
}

static int define(struct compile *compile, uint32_t step_index, uint32_t slot, const char *name)
{
    const struct program_step *steps = compile->program->steps;
    uint32_t at = name_position(compile, name);
    uint32_t known = compile->name_slots[at];
    if (known != PLAN_NONE) {
        const struct program_step *first = &steps[compile->names[known].step];
        if (compile->names[known].step == step_index)
            return compile_refuse(
                compile, 9, first,
                "the name \"%s\" is defined twice in this step; Ports and Calls share one name space, "
                "rename one of them",
                name);
        return compile_refuse(compile, 9, &steps[step_index],
                              "the name \"%s\" is defined twice, first by %s \"%s\"; Ports and Calls share one name "
                              "space, rename one of them",
                              name, program_step_word(first->step_kind), program_step_name(first));
    }
    compile->name_slots[at] = compile->name_count;
    compile->names[compile->name_count++] = (struct name_entry){name, step_index, slot, PLAN_NONE};
    return 0;
}

static int define_names(struct compile *compile)
{
    const struct sheaf_program *program = compile->program;
    uint32_t sources = 0;
    for (uint32_t i = 0; i < program->step_count; i++) {
        const struct program_step *step = &program->steps[i];
        compile->first_names[i] = compile->name_count;
        compile->source_numbers[i] = step->step_kind == STEP_SOURCE ? sources++ : PLAN_NONE;
        int status = step->step_kind == STEP_CALL ? define(compile, i, NAME_OF_CALL, step->call.name) : 0;
        for (uint32_t slot = 0; status == 0 && slot < step->output_count; slot++)
            status = define(compile, i, slot, step->outputs[slot]);
        if (status != 0)
            return status;
    }
    return 0;
}

void compile_offer_ports(const struct compile *compile, struct nearest *nearest)
{
    for (uint32_t i = 0; i < compile->name_count; i++)
        if (compile->names[i].slot != NAME_OF_CALL)
            nearest_offer(nearest, compile->names[i].name);
}

static int refer(struct compile *compile, const struct program_step *step, const char *name, uint32_t *ret_reference)
{
    const struct name_entry *entry = compile_find_name(compile, name);
    if (!entry) {
        struct nearest nearest;
        nearest_start(&nearest, name);
        compile_offer_ports(compile, &nearest);
        return compile_refuse(compile, 9, step, "no step defines a Port \"%s\"%s", name, nearest_hint(&nearest));
    }
    if (entry->slot == NAME_OF_CALL)
        return compile_refuse(compile, 9, step, "\"%s\" is a Call, not a Port; name one of the Call's outputs", name);
    *ret_reference = (uint32_t)(entry - compile->names);
    return 0;
}

static int resolve_references(struct compile *compile)
{
    const struct sheaf_program *program = compile->program;
    uint32_t count = 0;
    for (uint32_t i = 0; i < program->step_count; i++) {
        const struct program_step *step = &program->steps[i];
        compile->first_references[i] = count;
        for (uint32_t input = 0; input < step->input_count; input++) {
            int status = refer(compile, step, step->inputs[input], &compile->references[count++]);
            if (status != 0)
                return status;
        }
        int status = step->other ? refer(compile, step, step->other, &compile->references[count++]) : 0;
        if (status != 0)
            return status;
    }
    compile->first_references[program->step_count] = count;
    return 0;
}

/* Which steps read a step's names: lists over references, as one array. */
struct graph {
    uint32_t *waiting; /* per step: references not yet ordered */
    uint32_t *levels;  /* per step: the longest way from a step that reads nothing */
    uint32_t *first_successors, *successors;
};

static int build_graph(struct compile *compile, struct graph *graph)
{
    uint32_t step_count = compile->program->step_count;
    uint32_t reference_count = compile->first_references[step_count];
    graph->waiting = memory_array(&compile->scratch, step_count, sizeof(uint32_t));
    graph->levels = memory_array(&compile->scratch, step_count, sizeof(uint32_t));
    graph->first_successors = memory_array(&compile->scratch, step_count + 2, sizeof(uint32_t));
    graph->successors = memory_array(&compile->scratch, reference_count, sizeof(uint32_t));
    if (!graph->waiting || !graph->levels || !graph->first_successors || !graph->successors)
        return compile_no_memory(compile);
    for (uint32_t i = 0; i < reference_count; i++)
        graph->first_successors[compile->names[compile->references[i]].step + 2]++;
    for (uint32_t i = 2; i < step_count + 2; i++)
        graph->first_successors[i] += graph->first_successors[i - 1];
    for (uint32_t step = 0; step < step_count; step++) {
        graph->waiting[step] = compile->first_references[step + 1] - compile->first_references[step];
        for (uint32_t i = compile->first_references[step]; i < compile->first_references[step + 1]; i++) {
            uint32_t from = compile->names[compile->references[i]].step;
            graph->successors[graph->first_successors[from + 1]++] = step;
        }
    }
    return 0;
}

/* Some step waits for ever: walk back through what it waits for until a step comes again, and name that circle. */
static int refuse_cycle(struct compile *compile, const struct graph *graph)
{
    const struct program_step *steps = compile->program->steps;
    uint32_t at = 0;
    while (graph->waiting[at] == 0)
        at++;
    uint32_t *seen = memory_array(&compile->scratch, compile->program->step_count, sizeof(uint32_t));
    uint32_t *from = memory_array(&compile->scratch, compile->program->step_count, sizeof(uint32_t));
    if (!seen || !from)
        return compile_no_memory(compile);
    while (!seen[at]) {
        seen[at] = 1;
        uint32_t i = compile->first_references[at];
        while (graph->waiting[compile->names[compile->references[i]].step] == 0)
            i++;
        assert(i < compile->first_references[at + 1]); /* a waiting step reads a waiting one */
        uint32_t next = compile->names[compile->references[i]].step;
        from[next] = at;
        at = next;
    }
    char circle[512] = "";
    size_t used = 0;
    uint32_t next = at;
    do {
        int length = snprintf(circle + used, sizeof(circle) - used, "\"%.60s\" -> ", program_step_name(&steps[next]));
        used += length > 0 ? (size_t)length : 0;
        next = from[next];
    } while (next != at && used < sizeof(circle) - 160);
    snprintf(circle + used, sizeof(circle) - used, "%s\"%.60s\"", next != at ? "... -> " : "",
             program_step_name(&steps[at]));
    return compile_refuse(compile, 9, &steps[at], "a cycle: %s; no step may read what depends on it", circle);
}

struct order_key {
    uint32_t level, step;
    enum step_kind step_kind;
    const char *name;
};

static int compare_keys(const void *left, const void *right)
{
    const struct order_key *a = left, *b = right;
    if (a->level != b->level)
        return a->level < b->level ? -1 : 1;
    if (a->step_kind != b->step_kind)
        return a->step_kind < b->step_kind ? -1 : 1;
    int order = strcmp(a->name, b->name);
    return order ? order : (a->step > b->step) - (a->step < b->step);
}

/* By level, then by sort of step, then by name: topological, and the same in whatever order the steps were written. */
static int order_steps(struct compile *compile)
{
    uint32_t step_count = compile->program->step_count, done = 0, found = 0;
    struct graph graph;
    int status = build_graph(compile, &graph);
    if (status != 0)
        return status;
    for (uint32_t step = 0; step < step_count; step++)
        if (graph.waiting[step] == 0)
            compile->order[found++] = step;
    while (done < found) {
        uint32_t step = compile->order[done++];
        for (uint32_t i = graph.first_successors[step]; i < graph.first_successors[step + 1]; i++) {
            uint32_t next = graph.successors[i];
            if (graph.levels[next] <= graph.levels[step])
                graph.levels[next] = graph.levels[step] + 1;
            if (--graph.waiting[next] == 0)
                compile->order[found++] = next;
        }
    }
    if (found < step_count)
        return refuse_cycle(compile, &graph);
    struct order_key *keys = memory_array(&compile->scratch, step_count, sizeof(*keys));
    if (!keys)
        return compile_no_memory(compile);
    for (uint32_t i = 0; i < step_count; i++) {
        const struct program_step *step = &compile->program->steps[i];
        keys[i] = (struct order_key){graph.levels[i], i, step->step_kind, program_step_name(step)};
    }
    qsort(keys, step_count, sizeof(*keys), compare_keys);
    for (uint32_t i = 0; i < step_count; i++)
        compile->order[i] = keys[i].step;
    return 0;
}

int compile_resolve(struct compile *compile)
{
    int status = define_names(compile);
    if (status == 0)
        status = resolve_references(compile);
    if (status == 0)
        status = order_steps(compile);
    return status;
}
