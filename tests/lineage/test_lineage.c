/* SPDX-License-Identifier: Apache-2.0 */
/* Lineage step by step: every event by hand, every consequence looked at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lineage/lineage.h"
#include "tests/common/compiled_plan.h"

enum { GRAINS_MAX = 64 };

struct bed {
    struct sheaf_registry *registry;
    struct sheaf_plan *plan;
    struct lineage *lineage;
    struct grain ready[GRAINS_MAX];
    uint32_t ready_count, cancelled_count, complete_count, complete;
    uint64_t unused; /* values, as a sum of their offsets: tests give each value a bit */
    enum lineage_found found;
    uint64_t allocations_left;
};

static void on_ready(void *cookie, struct grain grain)
{
    struct bed *bed = cookie;
    assert_true(bed->ready_count < GRAINS_MAX);
    bed->ready[bed->ready_count++] = grain;
}

static enum lineage_found on_cancel(void *cookie, struct grain grain)
{
    struct bed *bed = cookie;
    (void)grain;
    bed->cancelled_count++;
    return bed->found;
}

static void on_value_unused(void *cookie, const struct value_ref *value)
{
    struct bed *bed = cookie;
    assert_int_equal(bed->unused & value->offset, 0);
    bed->unused |= value->offset;
}

static void on_root_complete(void *cookie, uint32_t root)
{
    struct bed *bed = cookie;
    bed->complete = root;
    bed->complete_count++;
}

static void *counted_allocate(void *cookie, size_t bytes)
{
    struct bed *bed = cookie;
    if (bed->allocations_left == 0)
        return NULL;
    bed->allocations_left--;
    return malloc(bytes);
}

static void counted_release(void *cookie, void *memory, size_t bytes)
{
    (void)cookie;
    (void)bytes;
    free(memory);
}

static void bed_compile(struct bed *bed, const char *text)
{
    *bed = (struct bed){.allocations_left = UINT64_MAX};
    compiled_plan(text, &bed->registry, &bed->plan);
}

static int bed_start(struct bed *bed)
{
    struct lineage_effects effects = {bed, on_ready, on_cancel, on_value_unused, on_root_complete};
    struct lineage_memory memory = {bed, counted_allocate, counted_release};
    return lineage_create(bed->plan, &effects, &memory, &bed->lineage);
}

static void bed_make(struct bed *bed, const char *text)
{
    bed_compile(bed, text);
    assert_int_equal(bed_start(bed), 0);
}

static void bed_drop(struct bed *bed)
{
    lineage_destroy(bed->lineage);
    sheaf_plan_destroy(bed->plan);
    sheaf_registry_destroy(bed->registry);
}

static struct value_ref value(uint64_t bit)
{
    return (struct value_ref){.kind = SHEAF_I64, .offset = bit};
}

static uint32_t admit(struct bed *bed, uint64_t bit)
{
    struct value_ref source = value(bit);
    uint32_t root;
    assert_int_equal(lineage_admit(bed->lineage, 42, &source, &root), 0);
    return root;
}

/* Takes the READY Grain of a Call whose last ordinal (or root index) is `ordinal` off the list. */
static bool find_ready(struct bed *bed, const char *call, uint64_t ordinal, struct grain *ret_grain)
{
    for (uint32_t i = 0; i < bed->ready_count; i++) {
        struct grain grain = bed->ready[i];
        const struct plan_call *plan_call = &bed->plan->calls[grain.call];
        uint64_t at[8];
        uint32_t depth = lineage_coordinate(bed->lineage, plan_call->domain, grain.entity, at, 8);
        if (strcmp(plan_call->name, call) != 0 || at[depth - 1] != ordinal)
            continue;
        memmove(&bed->ready[i], &bed->ready[i + 1], (--bed->ready_count - i) * sizeof(bed->ready[0]));
        *ret_grain = grain;
        return true;
    }
    return false;
}

static struct grain take(struct bed *bed, const char *call, uint64_t ordinal)
{
    struct grain grain = {0};
    if (!find_ready(bed, call, ordinal, &grain))
        fail_msg("%s %llu is not READY", call, (unsigned long long)ordinal);
    return grain;
}

static bool is_waiting(struct bed *bed, const char *call, uint64_t ordinal)
{
    struct grain grain;
    return !find_ready(bed, call, ordinal, &grain);
}

static void answer(struct bed *bed, struct grain grain, uint64_t bit)
{
    struct value_ref output = value(bit);
    assert_int_equal(lineage_answer(bed->lineage, grain, &output, NULL), 0);
}

static void child(struct bed *bed, struct grain grain, uint32_t ordinal, uint64_t bit)
{
    struct value_ref output = value(bit);
    assert_int_equal(lineage_child(bed->lineage, grain, 0, ordinal, &output), 0);
}

static void fails(struct bed *bed, struct grain grain, enum sheaf_scope scope, const char *text)
{
    struct lineage_cause cause = {scope, SHEAF_CLASS_OPERATOR, text, (uint32_t)strlen(text), 1, 77};
    assert_int_equal(lineage_fail(bed->lineage, grain, &cause), 0);
}

static struct lineage_item first_item(struct bed *bed, uint32_t root, uint32_t output)
{
    struct lineage_item_cursor cursor;
    struct lineage_item item;
    lineage_items_open(bed->lineage, root, output, &cursor);
    assert_int_equal(lineage_items_next(bed->lineage, &cursor, &item), 1);
    return item;
}

static const char pages[] = "sources: {s: {kind: i64}}\n"
                            "steps:\n"
                            "- {call: open, op: range, in: [s], out: [g], with: {stream: true}}\n"
                            "- {expand: [g], as: [page]}\n"
                            "- {call: read, op: fail_group_if, in: [page], out: [text], with: {at: [1]}}\n"
                            "- {gather: [text], as: [texts]}\n"
                            "- {call: join, op: sum, in: [texts], out: [result]}\n"
                            "outputs: [result]\n";

/* An abandoned root counts for nothing, whether it was complete or not, and gives its sources back. */
static void test_abandoned_root(void **state)
{
    struct bed bed;
    struct lineage_output_counts counts;
    (void)state;
    for (int complete = 0; complete < 2; complete++) {
        bed_make(&bed, pages);
        lineage_keep_sources(bed.lineage);
        uint32_t root = admit(&bed, 1);
        struct grain open = take(&bed, "open", 0);
        lineage_hold(bed.lineage, open);
        child(&bed, open, 0, 2);
        answer(&bed, open, 0);
        answer(&bed, take(&bed, "read", 0), 4);
        if (complete)
            answer(&bed, take(&bed, "join", 0), 8);
        assert_int_equal(bed.complete_count, complete);
        assert_int_equal(lineage_abandon_root(bed.lineage, root), 0);
        assert_int_equal(bed.complete_count, 1);
        assert_int_equal(lineage_release_root(bed.lineage, root), -EBUSY);
        lineage_release_hold(bed.lineage, open);
        assert_int_equal(lineage_release_root(bed.lineage, root), 0);
        assert_int_equal(bed.unused, complete ? 2 | 4 | 8 : 2 | 4);
        lineage_output_counts(bed.lineage, 0, &counts);
        assert_int_equal(counts.entities, 0);
        assert_int_equal(counts.present, 0);
        assert_int_equal(lineage_entity_count(bed.lineage, 0), 0);
        assert_int_equal(lineage_entity_count(bed.lineage, 1), 0);

        root = admit(&bed, 1); /* once more, and now it counts */
        open = take(&bed, "open", 1);
        answer(&bed, open, 0);
        answer(&bed, take(&bed, "join", 1), 16);
        lineage_output_counts(bed.lineage, 0, &counts);
        assert_int_equal(counts.present, 1);
        assert_int_equal(bed.unused & 1, 0);
        assert_int_equal(lineage_release_root(bed.lineage, root), 0);
        assert_int_equal(bed.unused & 1, 1);
        bed_drop(&bed);
    }
}

struct sum {
    uint64_t offsets;
};

static void add_offset(void *cookie, struct value_ref *value)
{
    struct sum *sum = cookie;
    sum->offsets += value->offset;
}

/* Every value that somebody may still read, and no other. */
/* What workers keep open is known by its key, and they serve several lineages. */
static void test_keys_of_several_never_meet(void **state)
{
    (void)state;
    enum { COUNT = 3, ROOTS = 4 };
    uint64_t keys[COUNT * ROOTS], taken = 0;
    for (uint32_t number = 0; number < COUNT; number++) {
        struct bed bed;
        bed_make(&bed, "name: keys\nsources: {s: i64}\nsteps: []\noutputs: [s]\n");
        lineage_number_keys(bed.lineage, number, COUNT);
        for (uint32_t i = 0; i < ROOTS; i++)
            keys[taken++] = lineage_entity_key(bed.lineage, 0, admit(&bed, 1u << i));
        bed_drop(&bed);
    }
    for (uint64_t i = 0; i < taken; i++) {
        assert_true(keys[i] > 0);
        for (uint64_t j = 0; j < i; j++)
            assert_true(keys[i] != keys[j]);
    }
}

static void test_visits_values(void **state)
{
    struct bed bed;
    struct sum sum = {0};
    (void)state;
    bed_make(&bed, pages);
    uint32_t root = admit(&bed, 1);
    struct grain open = take(&bed, "open", 0);
    child(&bed, open, 0, 2);
    child(&bed, open, 1, 32);
    answer(&bed, take(&bed, "read", 0), 4);
    uint64_t stored = 1 | 2 | 4 | 32;
    lineage_values(bed.lineage, root, add_offset, &sum);
    assert_int_equal(sum.offsets, stored & ~bed.unused);
    assert_true((sum.offsets & 4) != 0);
    bed_drop(&bed);
}

static void test_children_run_before_their_parent_ends(void **state)
{
    struct bed bed;
    (void)state;
    bed_make(&bed, pages);
    uint32_t root = admit(&bed, 1);
    struct grain open = take(&bed, "open", 0);
    child(&bed, open, 0, 2);
    struct grain read = take(&bed, "read", 0);
    answer(&bed, read, 4);
    child(&bed, open, 1, 8);
    answer(&bed, open, 0);
    assert_true(is_waiting(&bed, "join", 0));
    answer(&bed, take(&bed, "read", 1), 16);
    struct grain join = take(&bed, "join", 0);
    struct lineage_value input, element;
    struct lineage_cursor cursor;
    assert_int_equal(lineage_input(bed.lineage, join, 0, &input), 0);
    assert_true(input.is_list);
    assert_int_equal(lineage_list_count(bed.lineage, input.list), 2);
    lineage_list_open(bed.lineage, input.list, &cursor);
    assert_int_equal(lineage_list_next(bed.lineage, &cursor, &element), 1);
    assert_int_equal(element.value.offset, 4);
    assert_int_equal(lineage_list_next(bed.lineage, &cursor, &element), 1);
    assert_int_equal(element.value.offset, 16);
    assert_int_equal(lineage_list_next(bed.lineage, &cursor, &element), 0);
    answer(&bed, join, 32);
    assert_int_equal(bed.complete_count, 1);
    assert_int_equal(lineage_root_status(bed.lineage, root), LINEAGE_OK);
    assert_int_equal(first_item(&bed, root, 0).value.value.offset, 32);
    assert_int_equal(lineage_root_tag(bed.lineage, root), 42);
    bed_drop(&bed);
}

static void test_an_ordinal_keeps_its_first_value(void **state)
{
    struct bed bed;
    struct value_ref output = value(64);
    uint32_t count = 1;
    (void)state;
    bed_make(&bed, pages);
    uint32_t root = admit(&bed, 1);
    struct grain open = take(&bed, "open", 0);
    child(&bed, open, 0, 2);
    child(&bed, open, 1, 4);
    child(&bed, open, 0, 8); /* a later attempt */
    assert_int_equal(bed.unused, 8);
    assert_int_equal(lineage_child(bed.lineage, open, 0, 3, &output), -EINVAL);
    assert_int_equal(bed.unused, 8 | 64);
    assert_int_equal(lineage_answer(bed.lineage, open, &output, &count), 1);
    assert_int_equal(bed.complete_count, 1);
    assert_int_equal(bed.cancelled_count, 2);
    struct lineage_item item = first_item(&bed, root, 0);
    assert_int_equal(item.outcome, LINEAGE_SUPPRESSED);
    assert_int_equal(item.class_id, SHEAF_CLASS_CONTRACT);
    bed_drop(&bed);
}

static void test_values_live_while_they_can_be_read(void **state)
{
    struct bed bed;
    (void)state;
    bed_make(&bed, pages);
    uint32_t root = admit(&bed, 1);
    struct grain open = take(&bed, "open", 0);
    lineage_hold(bed.lineage, open);
    child(&bed, open, 0, 2);
    answer(&bed, open, 0);
    assert_int_equal(bed.unused, 0);
    lineage_release_hold(bed.lineage, open);
    assert_int_equal(bed.unused, 1);
    struct grain read = take(&bed, "read", 0);
    lineage_hold(bed.lineage, read);
    lineage_hold(bed.lineage, read); /* recalled and claimed again */
    lineage_release_hold(bed.lineage, read);
    answer(&bed, read, 4);
    assert_int_equal(bed.unused, 1);
    lineage_release_hold(bed.lineage, read);
    assert_int_equal(bed.unused, 1 | 2);
    struct grain join = take(&bed, "join", 0);
    lineage_hold(bed.lineage, join);
    answer(&bed, join, 8);
    assert_int_equal(bed.unused, 1 | 2);
    assert_int_equal(lineage_release_root(bed.lineage, root), -EBUSY);
    lineage_release_hold(bed.lineage, join);
    assert_int_equal(bed.unused, 1 | 2 | 4); /* the output stays until its root is released */
    uint64_t key = lineage_entity_key(bed.lineage, 0, root);
    assert_int_equal(lineage_release_root(bed.lineage, root), 0);
    assert_int_equal(bed.unused, 1 | 2 | 4 | 8);
    assert_int_equal(lineage_live_entities(bed.lineage), 0);
    assert_int_equal(lineage_live_bytes(bed.lineage), 0);
    bed.unused = 0;
    assert_int_equal(admit(&bed, 1), root); /* the number again, not the key */
    assert_true(lineage_entity_key(bed.lineage, 0, root) > key);
    assert_int_equal(lineage_root_index(bed.lineage, root), 1);
    bed_drop(&bed);
}

/* A row that was recalled too late runs twice: both claims read its inputs. */
static void test_every_hold_keeps_the_inputs(void **state)
{
    struct bed bed;
    (void)state;
    bed_make(&bed, pages);
    admit(&bed, 1);
    struct grain open = take(&bed, "open", 0);
    lineage_hold(bed.lineage, open);
    lineage_hold(bed.lineage, open);
    answer(&bed, open, 0);
    assert_int_equal(bed.unused, 0);
    lineage_release_hold(bed.lineage, open);
    assert_int_equal(bed.unused, 0);
    lineage_release_hold(bed.lineage, open);
    assert_int_equal(bed.unused, 1);
    bed_drop(&bed);
}

/* Nobody reads the list of the children, so each is over with its own readers, while its parent still runs. */
static void test_a_child_is_unused_before_its_siblings(void **state)
{
    struct bed bed;
    (void)state;
    bed_make(&bed, pages);
    admit(&bed, 1);
    struct grain open = take(&bed, "open", 0);
    lineage_hold(bed.lineage, open);
    child(&bed, open, 0, 2);
    child(&bed, open, 1, 4);
    struct grain read = take(&bed, "read", 1);
    lineage_hold(bed.lineage, read);
    answer(&bed, read, 8);
    assert_int_equal(bed.unused, 0);
    lineage_release_hold(bed.lineage, read);
    assert_int_equal(bed.unused, 4);
    bed_drop(&bed);
}

static const char read_as_list[] = "sources: {s: {kind: i64}}\n"
                                   "steps:\n"
                                   "- {call: open, op: range, in: [s], out: [g]}\n"
                                   "- {expand: [g], as: [page]}\n"
                                   "- {call: read, op: neg, in: [page], out: [text]}\n"
                                   "- {gather: [text], as: [texts]}\n"
                                   "- {call: join, op: sum, in: [texts], out: [result]}\n"
                                   "- {call: count, op: sum, in: [g], out: [total]}\n"
                                   "outputs: [result, total]\n";

static void test_children_stay_while_their_list_can_be_read(void **state)
{
    struct bed bed;
    (void)state;
    bed_make(&bed, read_as_list);
    admit(&bed, 1);
    struct grain open = take(&bed, "open", 0);
    lineage_hold(bed.lineage, open);
    child(&bed, open, 0, 2);
    answer(&bed, open, 0);
    lineage_release_hold(bed.lineage, open);
    struct grain read = take(&bed, "read", 0), count = take(&bed, "count", 0);
    answer(&bed, read, 4);
    assert_int_equal(bed.unused, 1);
    answer(&bed, count, 8);
    assert_int_equal(bed.unused, 1 | 2);
    bed_drop(&bed);
}

/* Four siblings: PRESENT, RUNNING, READY and the culprit. */
static void test_a_barrier_is_accounted_for(void **state)
{
    struct bed bed;
    struct lineage_call_counts counts;
    (void)state;
    bed_make(&bed, "sources: {s: {kind: i64}}\n"
                   "steps:\n"
                   "- {call: open, op: range, in: [s], out: [g], with: {stream: true}}\n"
                   "- {expand: [g], as: [page]}\n"
                   "- {call: read, op: fail_group_if, in: [page], out: [text], with: {at: [1]}}\n"
                   "- {gather: [text], as: [texts]}\n"
                   "outputs: [texts, g]\n");
    uint32_t root = admit(&bed, 1), position = 0;
    struct grain open = take(&bed, "open", 0);
    for (uint32_t i = 0; i < 4; i++)
        child(&bed, open, i, 2u << i);
    answer(&bed, take(&bed, "read", 0), 64);
    struct grain running = take(&bed, "read", 1);
    lineage_hold(bed.lineage, running);
    bed.found = LINEAGE_RUNNING;
    fails(&bed, take(&bed, "read", 2), SHEAF_SCOPE_GROUP, "bad");
    assert_int_equal(bed.cancelled_count, 2);
    child(&bed, open, 4, 128); /* comes after the barrier: kept out where it would be READY */
    assert_true(is_waiting(&bed, "read", 4));
    assert_false(lineage_is_ready(bed.lineage, running));
    answer(&bed, running, 256);
    assert_true(bed.unused & 256);
    lineage_release_hold(bed.lineage, running);
    lineage_call_counts(bed.lineage, running.call, &counts);
    assert_int_equal(counts.failed, 1);
    assert_int_equal(counts.kept_out + counts.skipped + counts.discarded, 4);
    assert_int_equal(counts.discarded, 3);
    assert_true(lineage_is_ready(bed.lineage, open)); /* its list is an output */
    answer(&bed, open, 0);
    assert_int_equal(bed.complete_count, 1);
    assert_int_equal(lineage_root_status(bed.lineage, root), LINEAGE_ROOT_FAILED);
    struct lineage_item item = first_item(&bed, root, 0);
    assert_int_equal(item.outcome, LINEAGE_SUPPRESSED);
    assert_string_equal(item.cause, "bad");
    struct lineage_failure failure;
    assert_int_equal(lineage_failures_next(bed.lineage, root, &position, &failure), 1);
    assert_int_equal(failure.elapsed_us, 77);
    assert_int_equal(failure.attempt, 1);
    assert_int_equal(failure.scope, SHEAF_SCOPE_GROUP);
    assert_int_equal(lineage_failures_next(bed.lineage, root, &position, &failure), 0);
    bed_drop(&bed);
}

static void test_a_wider_failure_than_stated_is_a_breach(void **state)
{
    struct bed bed;
    (void)state;
    bed_make(&bed, pages);
    uint32_t root = admit(&bed, 1);
    fails(&bed, take(&bed, "open", 0), SHEAF_SCOPE_GROUP, "bad");
    struct lineage_item item = first_item(&bed, root, 0);
    assert_int_equal(item.class_id, SHEAF_CLASS_CONTRACT);
    bed_drop(&bed);
}

static void test_a_root_can_be_cancelled(void **state)
{
    struct bed bed;
    struct lineage_cause cause = {SHEAF_SCOPE_ROOT, SHEAF_CLASS_CANCELLED, "", 0, 0, 0};
    (void)state;
    bed_make(&bed, pages);
    uint32_t root = admit(&bed, 1), other = admit(&bed, 2);
    child(&bed, take(&bed, "open", 0), 0, 4);
    assert_int_equal(lineage_fail_root(bed.lineage, root, &cause), 0);
    assert_int_equal(bed.complete_count, 1);
    assert_int_equal(bed.cancelled_count, 2);
    struct lineage_item item = first_item(&bed, root, 0);
    assert_int_equal(item.outcome, LINEAGE_SUPPRESSED);
    assert_string_equal(item.cause, "cancelled"); /* never empty */
    assert_int_equal(lineage_release_root(bed.lineage, root), 0);
    assert_false(lineage_root_is_complete(bed.lineage, other));
    bed_drop(&bed);
}

/* A strict gather is SUPPRESSED at once: what only feeds it stops, and later children never start. */
static void test_what_nobody_can_observe_is_not_run(void **state)
{
    struct bed bed;
    struct lineage_call_counts counts;
    (void)state;
    bed_make(&bed, "sources: {s: {kind: i64}}\n"
                   "steps:\n"
                   "- {call: open, op: range, in: [s], out: [g]}\n"
                   "- {expand: [g], as: [page]}\n"
                   "- {call: read, op: fail_item_if, in: [page], out: [text], with: {at: [1]}}\n"
                   "- {gather: [text], as: [texts]}\n"
                   "- {call: count, op: len, in: [g], out: [n]}\n"
                   "outputs: [texts, n]\n");
    admit(&bed, 1);
    struct grain open = take(&bed, "open", 0);
    child(&bed, open, 0, 2);
    child(&bed, open, 1, 4);
    struct grain read = take(&bed, "read", 0);
    fails(&bed, read, SHEAF_SCOPE_ITEM, "bad");
    assert_int_equal(bed.cancelled_count, 1);
    child(&bed, open, 2, 8);
    assert_true(is_waiting(&bed, "read", 2));
    assert_true(lineage_is_ready(bed.lineage, open)); /* still observed through the list */
    answer(&bed, open, 0);
    answer(&bed, take(&bed, "count", 0), 16);
    assert_int_equal(bed.complete_count, 1);
    lineage_call_counts(bed.lineage, read.call, &counts);
    assert_int_equal(counts.kept_out, 2);
    bed_drop(&bed);
}

/* A value broadcast over two levels stays needed by a child that came late under an early parent. */
static void test_late_children_keep_a_broadcast_needed(void **state)
{
    struct bed bed;
    (void)state;
    bed_make(&bed, "sources: {s: {kind: i64}}\n"
                   "steps:\n"
                   "- {call: slow, op: id, in: [s], out: [x]}\n"
                   "- {call: open, op: range, in: [s], out: [g]}\n"
                   "- {expand: [g], as: [page]}\n"
                   "- {call: split, op: range, in: [page], out: [h]}\n"
                   "- {expand: [h], as: [region]}\n"
                   "- {call: read, op: fail_item_if, in: [region], out: [t], with: {at: [1]}}\n"
                   "- {broadcast: x, like: region, as: each}\n"
                   "- {call: both, op: add, in: [t, each], out: [y]}\n"
                   "- {gather: [y], as: [ys], mode: partial}\n"
                   "outputs: [ys]\n");
    admit(&bed, 0);
    struct grain open = take(&bed, "open", 0), slow = take(&bed, "slow", 0);
    child(&bed, open, 0, 0);
    child(&bed, open, 1, 0);
    answer(&bed, open, 0);
    struct grain early = take(&bed, "split", 0), late = take(&bed, "split", 1);
    child(&bed, early, 0, 0);
    struct grain first = take(&bed, "read", 0);
    child(&bed, late, 0, 0);
    child(&bed, late, 1, 0);
    answer(&bed, late, 0);
    fails(&bed, first, SHEAF_SCOPE_ITEM, "bad"); /* the search for who needs `x` goes on to the second page */
    child(&bed, early, 1, 0);
    answer(&bed, early, 0);
    fails(&bed, take(&bed, "read", 0), SHEAF_SCOPE_ITEM, "bad");
    struct grain a = take(&bed, "read", 1), b = take(&bed, "read", 1);
    uint64_t at[3];
    lineage_coordinate(bed.lineage, 2, a.entity, at, 3);
    fails(&bed, at[1] == 1 ? a : b, SHEAF_SCOPE_ITEM, "bad");
    assert_true(lineage_is_ready(bed.lineage, slow));
    fails(&bed, at[1] == 1 ? b : a, SHEAF_SCOPE_ITEM, "bad");
    assert_false(lineage_is_ready(bed.lineage, slow));
    assert_int_equal(bed.complete_count, 1);
    bed_drop(&bed);
}

/* A partial gather below a group that may still fail waits, though all its members are there. */
static void test_a_partial_gather_waits_for_final_members(void **state)
{
    struct bed bed;
    (void)state;
    bed_make(&bed, "sources: {s: {kind: i64}}\n"
                   "steps:\n"
                   "- {call: open, op: range, in: [s], out: [g]}\n"
                   "- {expand: [g], as: [page]}\n"
                   "- {call: check, op: fail_group_if, in: [page], out: [checked], with: {at: [1]}}\n"
                   "- {call: split, op: range, in: [page], out: [h]}\n"
                   "- {expand: [h], as: [region]}\n"
                   "- {broadcast: checked, like: region, as: member}\n"
                   "- {gather: [region], members: member, mode: partial, as: [regions]}\n"
                   "- {call: count, op: len, in: [regions], out: [n]}\n"
                   "outputs: [n]\n");
    uint32_t root = admit(&bed, 1);
    struct grain open = take(&bed, "open", 0);
    child(&bed, open, 0, 2);
    child(&bed, open, 1, 4);
    answer(&bed, open, 0);
    answer(&bed, take(&bed, "check", 0), 8);
    struct grain split = take(&bed, "split", 0);
    child(&bed, split, 0, 16);
    answer(&bed, split, 0);
    answer(&bed, take(&bed, "split", 1), 0);
    assert_true(is_waiting(&bed, "count", 0));
    fails(&bed, take(&bed, "check", 1), SHEAF_SCOPE_GROUP, "bad");
    struct grain count = take(&bed, "count", 0);
    struct lineage_value input;
    struct lineage_cursor cursor;
    struct lineage_list_error error;
    lineage_input(bed.lineage, count, 0, &input);
    assert_int_equal(lineage_list_count(bed.lineage, input.list), 0);
    lineage_list_open(bed.lineage, input.list, &cursor);
    assert_int_equal(lineage_list_error_next(bed.lineage, &cursor, &error), 1);
    assert_int_equal(error.ordinal, 0);
    assert_string_equal(error.text, "bad");
    assert_int_equal(lineage_list_error_next(bed.lineage, &cursor, &error), 0);
    answer(&bed, count, 32);
    answer(&bed, take(&bed, "count", 1), 64);
    assert_int_equal(lineage_root_status(bed.lineage, root), LINEAGE_PARTIAL);
    bed_drop(&bed);
}

/* A Grain whose own Item nobody reads any more still runs while it may fail a group that is observed. */
static void test_a_group_keeps_its_members_needed(void **state)
{
    struct bed bed;
    (void)state;
    bed_make(&bed, "sources: {s: {kind: i64}}\n"
                   "steps:\n"
                   "- {call: open, op: range, in: [s], out: [g]}\n"
                   "- {expand: [g], as: [page]}\n"
                   "- {call: first, op: fail_item_if, in: [page], out: [a], with: {at: [1]}}\n"
                   "- {call: second, op: fail_group_if, in: [page], out: [b], with: {at: [1]}}\n"
                   "- {call: both, op: add, in: [a, b], out: [c]}\n"
                   "outputs: [c]\n");
    admit(&bed, 1);
    struct grain open = take(&bed, "open", 0);
    child(&bed, open, 0, 2);
    child(&bed, open, 1, 4);
    answer(&bed, open, 0);
    fails(&bed, take(&bed, "first", 0), SHEAF_SCOPE_ITEM, "bad"); /* `both` of page 0 is SUPPRESSED */
    assert_int_equal(bed.cancelled_count, 0);
    fails(&bed, take(&bed, "second", 0), SHEAF_SCOPE_GROUP, "worse");
    struct grain first = take(&bed, "first", 1); /* was READY; its only reader is SUPPRESSED now */
    assert_false(lineage_is_ready(bed.lineage, first));
    assert_int_equal(bed.complete_count, 1);
    bed_drop(&bed);
}

static void test_the_lowest_coordinate_is_the_cause(void **state)
{
    struct bed bed;
    (void)state;
    bed_make(&bed, "sources: {s: {kind: i64}}\n"
                   "steps:\n"
                   "- {call: open, op: range, in: [s], out: [g]}\n"
                   "- {expand: [g], as: [page]}\n"
                   "- {call: read, op: fail_item_if, in: [page], out: [text], with: {at: [1]}}\n"
                   "- {gather: [page], members: page, as: [whole]}\n"
                   "- {gather: [text], members: page, as: [texts]}\n"
                   "outputs: [texts]\n");
    uint32_t root = admit(&bed, 1);
    struct grain open = take(&bed, "open", 0);
    for (uint32_t i = 0; i < 3; i++)
        child(&bed, open, i, 2u << i);
    answer(&bed, open, 0);
    fails(&bed, take(&bed, "read", 2), SHEAF_SCOPE_ITEM, "third");
    fails(&bed, take(&bed, "read", 1), SHEAF_SCOPE_ITEM, "second");
    answer(&bed, take(&bed, "read", 0), 64);
    assert_string_equal(first_item(&bed, root, 0).cause, "second");
    bed_drop(&bed);
}

/* A failed side effect spoils what would be ok, and nothing else. */
static void test_a_side_effect_counts_only_for_ok(void **state)
{
    struct bed bed;
    (void)state;
    bed_make(&bed, "sources: {s: {kind: i64}}\n"
                   "steps:\n"
                   "- {call: even, op: is_even, in: [s], out: [mask]}\n"
                   "- {filter: s, mask: mask, as: kept}\n"
                   "- {call: log, op: tap, in: [s], out: [unread]}\n"
                   "outputs: [kept]\n");
    for (uint64_t even = 0; even < 2; even++) {
        uint32_t root = admit(&bed, 0);
        struct value_ref mask = {.kind = SHEAF_BOOL, .offset = even};
        assert_int_equal(lineage_answer(bed.lineage, take(&bed, "even", even), &mask, NULL), 0);
        assert_false(lineage_root_is_complete(bed.lineage, root));
        bed.unused = 0;
        fails(&bed, take(&bed, "log", even), SHEAF_SCOPE_ITEM, "disk full");
        assert_int_equal(lineage_root_status(bed.lineage, root), even ? LINEAGE_PARTIAL : LINEAGE_FILTERED);
    }
    bed_drop(&bed);
}

static void test_memory_is_linear_and_small(void **state)
{
    struct bed bed;
    const uint32_t count = 20000;
    (void)state;
    bed_make(&bed, pages);
    admit(&bed, 0);
    struct grain open = take(&bed, "open", 0);
    uint64_t before = lineage_live_bytes(bed.lineage);
    for (uint32_t i = 0; i < count; i++) {
        child(&bed, open, i, 0);
        bed.ready_count = 0;
    }
    uint64_t each = (lineage_live_bytes(bed.lineage) - before) / count;
    print_message("%llu bytes per page with two values (%zu of them the references)\n", (unsigned long long)each,
                  2 * sizeof(struct value_ref));
    assert_in_range(each, 1, 2 * sizeof(struct value_ref) + 40);
    assert_in_range(lineage_reserved_bytes(bed.lineage), 1, 2 * each * count + 65536);
    bed_drop(&bed);
}

/* A run of `pages` that gives up at the first -ENOMEM. */
static int short_run(struct bed *bed)
{
    struct value_ref source = value(0);
    uint32_t root;
    int status = bed_start(bed);
    if (status)
        return status;
    status = lineage_admit(bed->lineage, 0, &source, &root);
    struct grain open = bed->ready_count ? bed->ready[0] : (struct grain){0};
    for (uint32_t i = 0; status == 0 && i < 200; i++) {
        status = lineage_child(bed->lineage, open, 0, i, &source);
        bed->ready_count = 1;
    }
    struct lineage_cause cause = {SHEAF_SCOPE_ITEM, SHEAF_CLASS_OPERATOR, "bad", 3, 0, 0};
    status = status ? status : lineage_fail(bed->lineage, open, &cause);
    lineage_destroy(bed->lineage);
    return status;
}

static void test_no_memory_is_an_error_everywhere(void **state)
{
    struct bed bed;
    (void)state;
    bed_compile(&bed, pages);
    int status = -ENOMEM;
    uint64_t allocations = 0;
    for (; status == -ENOMEM && allocations < 1000; allocations++) {
        bed.allocations_left = allocations;
        bed.ready_count = bed.cancelled_count = 0;
        bed.found = LINEAGE_KEPT_OUT;
        status = short_run(&bed);
    }
    assert_int_equal(status, 0);
    assert_in_range(allocations, 20, 999);
    sheaf_plan_destroy(bed.plan);
    sheaf_registry_destroy(bed.registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_abandoned_root),
        cmocka_unit_test(test_keys_of_several_never_meet),
        cmocka_unit_test(test_visits_values),
        cmocka_unit_test(test_children_run_before_their_parent_ends),
        cmocka_unit_test(test_an_ordinal_keeps_its_first_value),
        cmocka_unit_test(test_values_live_while_they_can_be_read),
        cmocka_unit_test(test_every_hold_keeps_the_inputs),
        cmocka_unit_test(test_a_child_is_unused_before_its_siblings),
        cmocka_unit_test(test_children_stay_while_their_list_can_be_read),
        cmocka_unit_test(test_a_barrier_is_accounted_for),
        cmocka_unit_test(test_a_wider_failure_than_stated_is_a_breach),
        cmocka_unit_test(test_a_root_can_be_cancelled),
        cmocka_unit_test(test_what_nobody_can_observe_is_not_run),
        cmocka_unit_test(test_late_children_keep_a_broadcast_needed),
        cmocka_unit_test(test_a_partial_gather_waits_for_final_members),
        cmocka_unit_test(test_a_group_keeps_its_members_needed),
        cmocka_unit_test(test_the_lowest_coordinate_is_the_cause),
        cmocka_unit_test(test_a_side_effect_counts_only_for_ok),
        cmocka_unit_test(test_memory_is_linear_and_small),
        cmocka_unit_test(test_no_memory_is_an_error_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
