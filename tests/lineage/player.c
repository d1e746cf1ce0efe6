/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lineage/player.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lineage/operators.h"

enum { DISPATCHES_MAX = 6, HEAP_SEGMENT = 1 };

enum turn_state { TURN_CLAIMED, TURN_RUNNING, TURN_OVER };

/* A claimed row. */
struct turn {
    struct grain grain;
    uint32_t attempt, emitted;
    enum turn_state state;
    bool cancelled;
    struct row_result result;
};

struct dispatch {
    uint32_t call, count, at;
    uint32_t rows_before; /* that its worker had run */
    struct turn *turns;
};

struct player {
    const struct sheaf_plan *plan;
    struct lineage *lineage;
    struct sched *sched;
    struct played *out;
    uint64_t random, now_us;
    struct dispatch dispatches[DISPATCHES_MAX];
    uint32_t dispatch_count;
    uint8_t *values; /* by number: 1 live, 2 unused */
    json_t **held;   /* by number: what a live value refers to, or NULL */
    uint64_t value_count, value_capacity;
    uint32_t *complete; /* roots to collect */
    uint32_t complete_count, admitted, released;
    json_t **results; /* per root index: {output: [entries]} */
};

static uint32_t draw(struct player *p, uint32_t below)
{
    p->random ^= p->random << 13;
    p->random ^= p->random >> 7;
    p->random ^= p->random << 17;
    return (uint32_t)((p->random >> 32) % below);
}

static void breach(struct player *p, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    if (!p->out->breach[0])
        vsnprintf(p->out->breach, sizeof(p->out->breach), format, values);
    va_end(values);
}

/* ---- values ---- */

static struct value_ref value_make(struct player *p, json_t *json)
{
    if (p->value_count + 1 >= p->value_capacity) {
        p->value_capacity = p->value_capacity ? p->value_capacity * 2 : 256;
        p->values = realloc(p->values, p->value_capacity);
        p->held = realloc(p->held, p->value_capacity * sizeof(*p->held));
    }
    p->values[++p->value_count] = 1;
    p->held[p->value_count] = NULL;
    struct value_ref ref = {.hash = p->value_count};
    if (json_is_boolean(json)) {
        ref.kind = SHEAF_BOOL;
        ref.offset = json_is_true(json);
    } else {
        ref.kind = SHEAF_ANY;
        ref.segment = HEAP_SEGMENT;
        ref.offset = (uint64_t)(uintptr_t)json_incref(json);
        p->held[p->value_count] = json;
    }
    return ref;
}

static void on_value_unused(void *cookie, const struct value_ref *value)
{
    struct player *p = cookie;
    if (value->hash == 0 || value->hash > p->value_count || p->values[value->hash] != 1) {
        breach(p, "value %llu is unused twice, or was never made", (unsigned long long)value->hash);
        return;
    }
    p->values[value->hash] = 2;
    if (value->segment == HEAP_SEGMENT)
        json_decref((json_t *)(uintptr_t)value->offset);
}

static json_t *value_json(struct player *p, const struct lineage_value *value)
{
    if (!value->is_list) {
        if (value->value.hash == 0 || p->values[value->value.hash] != 1) {
            breach(p, "value %llu is read after it was unused", (unsigned long long)value->value.hash);
            return json_null();
        }
        if (value->value.segment != HEAP_SEGMENT)
            return json_boolean(value->value.offset);
        return json_incref((json_t *)(uintptr_t)value->value.offset);
    }
    json_t *list = json_array();
    struct lineage_cursor cursor;
    struct lineage_value element;
    lineage_list_open(p->lineage, value->list, &cursor);
    while (lineage_list_next(p->lineage, &cursor, &element))
        json_array_append_new(list, value_json(p, &element));
    if (json_array_size(list) != lineage_list_count(p->lineage, value->list))
        breach(p, "a list does not have as many elements as it says");
    return list;
}

/* ---- effects ---- */

static void on_ready(void *cookie, struct grain grain)
{
    struct player *p = cookie;
    if (sched_ready(p->sched, grain))
        breach(p, "no memory");
}

static struct turn *turn_of(struct player *p, struct grain grain)
{
    for (uint32_t i = 0; i < p->dispatch_count; i++)
        for (uint32_t j = 0; j < p->dispatches[i].count; j++) {
            struct turn *turn = &p->dispatches[i].turns[j];
            if (turn->grain.call == grain.call && turn->grain.entity == grain.entity && turn->state != TURN_OVER)
                return turn;
        }
    return NULL;
}

static enum lineage_found on_cancel(void *cookie, struct grain grain)
{
    struct player *p = cookie;
    if (sched_cancel(p->sched, grain))
        return LINEAGE_KEPT_OUT;
    struct turn *turn = turn_of(p, grain);
    if (!turn || turn->cancelled) {
        breach(p, "a Grain is cancelled that is nowhere, or twice");
        return LINEAGE_KEPT_OUT;
    }
    turn->cancelled = true;
    return turn->state == TURN_CLAIMED ? LINEAGE_SKIPPED : LINEAGE_RUNNING;
}

static void on_root_complete(void *cookie, uint32_t root)
{
    struct player *p = cookie;
    p->complete[p->complete_count++] = root;
}

/* ---- running ---- */

static char *coordinate_text(const struct player *p, uint32_t domain, uint32_t entity, char *text, size_t bytes)
{
    uint64_t at[32];
    uint32_t depth = lineage_coordinate(p->lineage, domain, entity, at, 32);
    int length = 0;
    for (uint32_t i = 0; i < depth && (size_t)length < bytes; i++)
        length += snprintf(text + length, bytes - (size_t)length, i ? ",%llu" : "%llu", (unsigned long long)at[i]);
    return text;
}

static void turn_start(struct player *p, struct turn *turn)
{
    const struct plan_call *call = &p->plan->calls[turn->grain.call];
    turn->state = TURN_RUNNING;
    json_t *inputs = json_array();
    for (uint32_t i = 0; i < call->input_count; i++) {
        struct lineage_value value;
        lineage_input(p->lineage, turn->grain, i, &value);
        json_array_append_new(inputs, value_json(p, &value));
    }
    operator_run(call, inputs, turn->attempt, &turn->result);
    json_decref(inputs);
    char at[256];
    json_object_set_new(json_object_get(p->out->started, call->name),
                        coordinate_text(p, call->domain, turn->grain.entity, at, sizeof(at)), json_true());
}

/* The row's claim ends here, before or after its Grain is sealed. */
static void turn_end(struct player *p, struct turn *turn, bool forget)
{
    turn->state = TURN_OVER;
    if (forget)
        sched_done(p->sched, turn->grain);
    json_decref(turn->result.outputs);
    turn->result.outputs = NULL;
    lineage_release_hold(p->lineage, turn->grain);
}

static uint32_t children_count(const struct player *p, const struct turn *turn, uint32_t domain)
{
    for (uint32_t i = 0; i < p->plan->port_count; i++) {
        const struct plan_port *port = &p->plan->ports[i];
        if (port->port_kind == PLAN_EXPAND && port->domain == domain)
            return (uint32_t)json_array_size(json_array_get(turn->result.outputs, port->slot));
    }
    return 0;
}

/* One child of one Expansion; the values in the order of the Call's outputs. */
static void emit_child(struct player *p, struct turn *turn, uint32_t expansion, uint32_t ordinal)
{
    const struct plan_call *call = &p->plan->calls[turn->grain.call];
    uint32_t domain = p->plan->call_expansions[call->expansion_first + expansion], count = 0;
    struct value_ref values[8];
    for (uint32_t slot = 0; slot < call->output_count; slot++)
        for (uint32_t i = 0; i < p->plan->port_count; i++) {
            const struct plan_port *port = &p->plan->ports[i];
            if (port->port_kind == PLAN_EXPAND && port->domain == domain && port->slot == slot)
                values[count++] = value_make(p, json_array_get(json_array_get(turn->result.outputs, slot), ordinal));
        }
    if (lineage_child(p->lineage, turn->grain, expansion, ordinal, values))
        breach(p, "a child is refused");
}

/* Emits the next child of every Expansion; false: there are no more. */
static bool emit_next(struct player *p, struct turn *turn)
{
    const struct plan_call *call = &p->plan->calls[turn->grain.call];
    bool any = false;
    for (uint32_t i = 0; i < call->expansion_count; i++)
        if (turn->emitted < children_count(p, turn, p->plan->call_expansions[call->expansion_first + i])) {
            emit_child(p, turn, i, turn->emitted);
            any = true;
        }
    turn->emitted += any;
    return any;
}

static void turn_fail(struct player *p, struct turn *turn, enum sheaf_scope scope, enum sheaf_class class_id,
                      const char *text)
{
    struct lineage_cause cause = {scope, class_id, text, (uint32_t)strlen(text), turn->attempt, 0};
    if (lineage_fail(p->lineage, turn->grain, &cause))
        breach(p, "a failure is refused");
}

static void turn_answer(struct player *p, struct turn *turn)
{
    const struct plan_call *call = &p->plan->calls[turn->grain.call];
    struct value_ref outputs[8];
    uint32_t counts[8];
    while (emit_next(p, turn))
        ;
    for (uint32_t slot = 0; slot < call->output_count; slot++) {
        uint32_t output = p->plan->call_ports[call->output_first + slot];
        bool expanded = false;
        for (uint32_t i = 0; i < p->plan->port_count; i++)
            expanded = expanded || (p->plan->ports[i].port_kind == PLAN_EXPAND && p->plan->ports[i].source == output);
        outputs[slot] = (struct value_ref){0};
        if (!expanded)
            outputs[slot] = value_make(p, json_array_get(turn->result.outputs, slot));
    }
    for (uint32_t i = 0; i < call->expansion_count; i++)
        counts[i] = children_count(p, turn, p->plan->call_expansions[call->expansion_first + i]);
    if (lineage_answer(p->lineage, turn->grain, outputs, counts))
        breach(p, "an answer is refused");
}

static enum sheaf_class class_of(enum row_end end)
{
    switch (end) {
    case ROW_CRASHES:
        return SHEAF_CLASS_CRASHED;
    case ROW_HANGS:
        return SHEAF_CLASS_TIMEOUT;
    case ROW_BREAKS:
    case ROW_BREAKS_ANSWER:
        return SHEAF_CLASS_CONTRACT;
    case ROW_ANSWERS:
    case ROW_DECLARES:
    case ROW_RAISES:
        break;
    }
    return SHEAF_CLASS_OPERATOR;
}

/* The dispatch is lost: rows not over go through recovery. `guilty` is the running one, or NULL for a whole batch. */
static void dispatch_lose(struct player *p, struct dispatch *d, struct turn *guilty, enum row_end end)
{
    uint32_t *entities = malloc(d->count * sizeof(*entities)), *index = malloc(d->count * sizeof(*index)), count = 0;
    enum sched_verdict *verdicts = malloc(d->count * sizeof(*verdicts));
    struct sched_loss loss = {.event = end == ROW_CRASHES ? SCHED_CRASHED
                                       : end == ROW_HANGS ? SCHED_TIMED_OUT
                                                          : SCHED_RAISED,
                              .class_id = class_of(end),
                              .call = d->call,
                              .culprit = SCHED_UNKNOWN,
                              .rows_before = d->rows_before};
    for (uint32_t i = 0; i < d->count; i++)
        loss.rows_run += d->turns[i].state == TURN_RUNNING;
    for (uint32_t i = 0; i < d->count; i++) {
        struct turn *turn = &d->turns[i];
        if (turn->state == TURN_OVER)
            continue;
        if (turn->cancelled) {
            turn_end(p, turn, true);
            continue;
        }
        if (turn == guilty)
            loss.culprit = count;
        index[count] = i;
        entities[count++] = turn->grain.entity;
    }
    if (count)
        sched_failed(p->sched, &loss, entities, count, p->now_us, verdicts);
    for (uint32_t i = 0; i < count; i++) {
        struct turn *turn = &d->turns[index[i]];
        if (verdicts[i] == SCHED_SEAL_FAILED || verdicts[i] == SCHED_SEAL_ABORT)
            turn_fail(p, turn, SHEAF_SCOPE_ITEM, loss.class_id, turn->result.cause);
        if (verdicts[i] == SCHED_SEAL_ABORT && !p->out->aborted) {
            p->out->aborted = true;
            const char *cause = turn->result.cause[0] ? turn->result.cause : sheaf_class_name(loss.class_id);
            snprintf(p->out->abort_cause, sizeof(p->out->abort_cause), "%s", cause);
        }
        turn_end(p, turn, false);
    }
    free(entities);
    free(index);
    free(verdicts);
}

/* A RUNNING row of a per-row operator goes on, or one of a batch that came through. */
static void turn_finish(struct player *p, struct dispatch *d, struct turn *turn)
{
    switch (turn->result.end) {
    case ROW_ANSWERS:
        turn_answer(p, turn);
        break;
    case ROW_DECLARES:
        turn_fail(p, turn, turn->result.scope, SHEAF_CLASS_OPERATOR, turn->result.cause);
        break;
    case ROW_BREAKS:
        turn_fail(p, turn, SHEAF_SCOPE_ITEM, SHEAF_CLASS_CONTRACT, "a value of the wrong kind");
        break;
    case ROW_RAISES:
    case ROW_CRASHES:
    case ROW_HANGS:
    case ROW_BREAKS_ANSWER:
        dispatch_lose(p, d, turn, turn->result.end);
        return;
    }
    turn_end(p, turn, true);
}

static void step_rows(struct player *p, struct dispatch *d)
{
    struct turn *turn = &d->turns[d->at];
    if (turn->state == TURN_CLAIMED) {
        if (turn->cancelled)
            turn_end(p, turn, true);
        else
            turn_start(p, turn);
    } else if (turn->state == TURN_RUNNING) {
        bool fails = turn->result.end != ROW_ANSWERS;
        if ((turn->result.streams || fails) && emit_next(p, turn))
            return;
        turn_finish(p, d, turn);
        d->rows_before++;
    }
    while (d->at < d->count && d->turns[d->at].state == TURN_OVER)
        d->at++;
}

static void step_batch(struct player *p, struct dispatch *d)
{
    if (d->at == 0) {
        d->at = d->count + 1; /* all started */
        for (uint32_t i = 0; i < d->count; i++) {
            if (d->turns[i].cancelled)
                turn_end(p, &d->turns[i], true);
            else
                turn_start(p, &d->turns[i]);
        }
        return;
    }
    for (uint32_t i = 0; i < d->count; i++)
        if (d->turns[i].state == TURN_RUNNING &&
            (d->turns[i].result.end == ROW_RAISES || d->turns[i].result.end == ROW_BREAKS_ANSWER)) {
            dispatch_lose(p, d, NULL, d->turns[i].result.end);
            return;
        }
    for (uint32_t i = 0; i < d->count; i++)
        if (d->turns[i].state == TURN_RUNNING)
            turn_finish(p, d, &d->turns[i]);
}

static bool dispatch_is_over(const struct dispatch *d)
{
    for (uint32_t i = 0; i < d->count; i++)
        if (d->turns[i].state != TURN_OVER)
            return false;
    return true;
}

/* Its worker is lost to something that is no row's doing: nobody is charged. */
static void dispatch_drop(struct player *p, struct dispatch *d)
{
    for (uint32_t i = d->count; i-- > 0;) {
        struct turn *turn = &d->turns[i];
        if (turn->state == TURN_OVER)
            continue;
        if (!turn->cancelled)
            sched_requeue_uncharged(p->sched, turn->grain);
        turn_end(p, turn, turn->cancelled);
    }
}

static void step_dispatch(struct player *p)
{
    uint32_t index = draw(p, p->dispatch_count);
    struct dispatch *d = &p->dispatches[index];
    if (draw(p, 64) == 0)
        dispatch_drop(p, d);
    else if (p->plan->calls[d->call].batch)
        step_batch(p, d);
    else
        step_rows(p, d);
    if (!dispatch_is_over(d))
        return;
    free(d->turns);
    *d = p->dispatches[--p->dispatch_count];
}

static bool step_claim(struct player *p)
{
    uint32_t *calls = malloc((p->plan->call_count + 1) * sizeof(*calls)), count = 0;
    struct sched_row row;
    for (uint32_t i = 0; i < p->plan->call_count; i++)
        if (draw(p, 2))
            calls[count++] = i;
    uint32_t call = sched_pick(p->sched, calls, count, p->now_us);
    free(calls);
    if (call == PLAN_NONE || !sched_next(p->sched, call, p->now_us, &row))
        return false;
    struct dispatch *d = &p->dispatches[p->dispatch_count++];
    uint32_t rows_max = 1 + draw(p, p->plan->calls[call].batch_rows < 64 ? p->plan->calls[call].batch_rows : 64);
    if (row.queue == SCHED_ISOLATION)
        rows_max = row.batch_left + 1;
    *d = (struct dispatch){
        .call = call, .rows_before = row.fresh_worker ? 0 : draw(p, 2), .turns = calloc(rows_max, sizeof(*d->turns))};
    do {
        d->turns[d->count++] = (struct turn){.grain = row.grain, .attempt = row.attempt};
        lineage_hold(p->lineage, row.grain);
        bool isolated = row.queue == SCHED_ISOLATION;
        if (isolated ? row.batch_left == 0 : sched_isolating(p->sched, call) && !sched_queued(p->sched, call))
            break;
    } while (d->count < rows_max && sched_next(p->sched, call, p->now_us, &row));
    return true;
}

/* ---- roots ---- */

static void admit_one(struct player *p, json_t *const *columns)
{
    struct value_ref sources[16];
    for (uint32_t i = 0; i < p->plan->source_count; i++)
        sources[i] = value_make(p, json_array_get(columns[i], p->admitted));
    uint32_t root;
    if (lineage_admit(p->lineage, p->admitted, sources, &root))
        breach(p, "a root is refused");
    p->admitted++;
}

static json_t *coordinate_json(struct player *p, uint32_t domain, uint32_t entity)
{
    uint64_t at[32];
    uint32_t depth = lineage_coordinate(p->lineage, domain, entity, at, 32);
    json_t *json = json_array();
    for (uint32_t i = 0; i < depth; i++)
        json_array_append_new(json, json_integer((json_int_t)at[i]));
    return json;
}

static json_t *errors_json(struct player *p, const struct lineage_item *item)
{
    struct lineage_cursor cursor;
    struct lineage_list_error error;
    json_t *errors = json_array();
    lineage_list_open(p->lineage, item->value.list, &cursor);
    while (lineage_list_error_next(p->lineage, &cursor, &error)) {
        json_t *at = coordinate_json(p, item->domain, item->entity);
        json_array_append_new(at, json_integer((json_int_t)error.ordinal));
        json_array_append_new(errors, at);
        if (error.length_bytes == 0)
            breach(p, "an error of a partial gather says nothing");
    }
    return errors;
}

static json_t *entry_json(struct player *p, uint32_t output, const struct lineage_item *item)
{
    static const char *const letters[] = {"?", "P", "D", "F", "S"};
    json_t *entry = json_object();
    json_object_set_new(entry, "at", coordinate_json(p, item->domain, item->entity));
    json_object_set_new(entry, "o", json_string(letters[item->outcome]));
    if (item->outcome == LINEAGE_PRESENT) {
        json_object_set_new(entry, "v", value_json(p, &item->value));
        const struct plan_port *port = &p->plan->ports[p->plan->outputs[output].port];
        if (port->port_kind == PLAN_GATHER && port->partial) {
            json_t *errors = errors_json(p, item);
            if (item->partial != (json_array_size(errors) > 0))
                breach(p, "a partial gather and its errors disagree");
            if (item->partial)
                json_object_set(entry, "errs", errors);
            json_decref(errors);
        }
    }
    if (item->outcome == LINEAGE_FAILED || item->outcome == LINEAGE_SUPPRESSED) {
        json_object_set_new(entry, "cause", json_stringn(item->cause, item->cause_length_bytes));
        json_object_set_new(entry, "class", json_string(sheaf_class_name(item->class_id)));
        if (item->cause_length_bytes == 0)
            breach(p, "a failure without a cause");
    }
    return entry;
}

static void collect(struct player *p, uint32_t root)
{
    static const char *const names[] = {"ok", "partial", "filtered", "failed"};
    uint64_t index = lineage_root_tag(p->lineage, root);
    json_t *result = json_object();
    if (index != lineage_root_index(p->lineage, root))
        breach(p, "a root has another's tag");
    for (uint32_t i = 0; i < p->plan->output_count; i++) {
        json_t *entries = json_array();
        struct lineage_item_cursor cursor;
        struct lineage_item item;
        lineage_items_open(p->lineage, root, i, &cursor);
        while (lineage_items_next(p->lineage, &cursor, &item))
            json_array_append_new(entries, entry_json(p, i, &item));
        json_object_set_new(result, p->plan->outputs[i].name, entries);
    }
    json_object_set_new(result, "", json_string(names[lineage_root_status(p->lineage, root)]));
    json_decref(p->results[index]);
    p->results[index] = result;
}

/* Collects and releases one complete root if nothing of it is held. */
static bool step_release(struct player *p)
{
    if (p->complete_count == 0)
        return false;
    uint32_t index = draw(p, p->complete_count), root = p->complete[index];
    collect(p, root);
    if (lineage_release_root(p->lineage, root))
        return false;
    p->complete[index] = p->complete[--p->complete_count];
    p->released++;
    return true;
}

/* ---- the run ---- */

static void step(struct player *p, json_t *const *columns, uint32_t roots)
{
    if (p->admitted < roots && (draw(p, 4) == 0 || p->admitted == p->released))
        admit_one(p, columns);
    if (draw(p, 4) == 0)
        step_release(p);
    if (p->dispatch_count < DISPATCHES_MAX && draw(p, 2) && step_claim(p))
        return;
    if (p->dispatch_count)
        step_dispatch(p);
    else if (sched_next_retry_us(p->sched, &p->now_us))
        p->now_us++;
}

static void check_end(struct player *p)
{
    uint64_t live = 0;
    for (uint64_t i = 1; i <= p->value_count; i++)
        live += p->values[i] == 1;
    if (live)
        breach(p, "%llu values were never unused", (unsigned long long)live);
    if (lineage_live_entities(p->lineage) || lineage_live_bytes(p->lineage))
        breach(p, "Entities or bytes are left: %llu, %llu", (unsigned long long)lineage_live_entities(p->lineage),
               (unsigned long long)lineage_live_bytes(p->lineage));
    for (uint32_t i = 0; i < p->plan->call_count; i++) {
        struct lineage_call_counts counts;
        lineage_call_counts(p->lineage, i, &counts);
        p->out->grains_sealed += counts.sealed;
        if (counts.grains != counts.sealed)
            breach(p, "Call %s: %llu Grains, %llu sealed", p->plan->calls[i].name, (unsigned long long)counts.grains,
                   (unsigned long long)counts.sealed);
    }
    for (uint32_t i = 0; i < p->plan->output_count; i++) {
        struct lineage_output_counts counts;
        lineage_output_counts(p->lineage, i, &counts);
        if (counts.entities != counts.present + counts.dropped + counts.failed + counts.suppressed)
            breach(p, "output %s does not balance", p->plan->outputs[i].name);
    }
}

static void gather_results(struct player *p, uint32_t roots)
{
    for (uint32_t i = 0; i < p->plan->output_count; i++) {
        json_t *all = json_array();
        for (uint32_t root = 0; root < roots; root++)
            json_array_extend(all, json_object_get(p->results[root], p->plan->outputs[i].name));
        json_object_set_new(p->out->outputs, p->plan->outputs[i].name, all);
    }
    for (uint32_t root = 0; root < roots; root++)
        json_array_append(p->out->roots, json_object_get(p->results[root], ""));
    for (uint32_t i = 0; i < p->plan->call_count; i++) {
        const char *name = p->plan->calls[i].name;
        json_object_set_new(p->out->dispatched, name,
                            json_integer((json_int_t)json_object_size(json_object_get(p->out->started, name))));
    }
}

void play(const struct sheaf_plan *plan, json_t *const *columns, uint64_t seed, struct played *ret_played)
{
    uint32_t roots = plan->source_count ? (uint32_t)json_array_size(columns[0]) : 0;
    *ret_played = (struct played){
        .outputs = json_object(), .roots = json_array(), .dispatched = json_object(), .started = json_object()};
    struct player p = {.plan = plan,
                       .out = ret_played,
                       .random = seed * 0x9E3779B97F4A7C15ull + 1,
                       .complete = calloc(roots + 1, sizeof(uint32_t)),
                       .results = calloc(roots + 1, sizeof(json_t *))};
    struct lineage_effects effects = {&p, on_ready, on_cancel, on_value_unused, on_root_complete};
    if (lineage_create(plan, &effects, &lineage_heap, &p.lineage) || sched_create(plan, &lineage_heap, &p.sched))
        abort();
    for (uint32_t i = 0; i < plan->call_count; i++)
        json_object_set_new(ret_played->started, plan->calls[i].name, json_object());
    uint64_t steps = 0;
    while (p.released < roots && !ret_played->breach[0] && !ret_played->aborted)
        if (step(&p, columns, roots), ++steps > 3000000)
            breach(&p, "the run does not end");
    if (!ret_played->breach[0] && !ret_played->aborted) {
        check_end(&p);
        gather_results(&p, roots);
    }
    for (uint32_t i = 0; i < p.dispatch_count; i++) {
        for (uint32_t j = 0; j < p.dispatches[i].count; j++)
            json_decref(p.dispatches[i].turns[j].result.outputs);
        free(p.dispatches[i].turns);
    }
    lineage_destroy(p.lineage);
    sched_destroy(p.sched);
    for (uint32_t i = 0; i < roots; i++)
        json_decref(p.results[i]);
    free(p.complete);
    free(p.results);
    for (uint64_t i = 1; i <= p.value_count; i++) { /* an aborted run leaves live ones */
        if (p.values[i] == 1)
            json_decref(p.held[i]);
    }
    free(p.values);
    free(p.held);
}

void played_clear(struct played *played)
{
    json_decref(played->outputs);
    json_decref(played->roots);
    json_decref(played->dispatched);
    json_decref(played->started);
}
