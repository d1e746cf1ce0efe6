/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/shard.h"

int built_alloc(struct shard *shard, struct built **built, uint64_t bytes, uint64_t *ret_offset)
{
    struct built *block = malloc(sizeof *block);
    if (!block)
        return -ENOMEM;
    int result = payload_run_alloc(shard->run->payload, shard->number, bytes, &block->offset);
    if (result < 0) {
        free(block);
        return result;
    }
    block->bytes = bytes;
    block->next = *built;
    *built = block;
    *ret_offset = block->offset;
    return 0;
}

void built_free(struct shard *shard, struct built *built)
{
    while (built) {
        struct built *next = built->next;
        payload_run_free(shard->run->payload, shard->number, built->offset, built->bytes);
        shard->retry_reads = true;
        free(built);
        built = next;
    }
}

/* Errors that a partial gather left out: how many, and how much text they have. */
static void count_errors(struct shard *shard, struct lineage_list list, uint32_t *ret_count, uint64_t *ret_text_bytes)
{
    struct lineage_cursor cursor;
    struct lineage_list_error error;
    lineage_list_open(shard->lineage, list, &cursor);
    while (lineage_list_error_next(shard->lineage, &cursor, &error)) {
        ++*ret_count;
        *ret_text_bytes += error.length_bytes + 1;
    }
}

static void write_errors(struct shard *shard, struct lineage_list list, uint64_t block_offset, uint32_t count,
                         struct list_error_ref *errors)
{
    struct lineage_cursor cursor;
    struct lineage_list_error error;
    char *text = (char *)(errors + count);
    uint64_t text_offset =
        block_offset + (uint64_t)(text - (char *)payload_shard_at(shard->run->payload, shard->number, block_offset));
    lineage_list_open(shard->lineage, list, &cursor);
    while (lineage_list_error_next(shard->lineage, &cursor, &error)) {
        *errors++ = (struct list_error_ref){.ordinal = error.ordinal,
                                            .class_id = error.class_id,
                                            .message_length = error.length_bytes,
                                            .message_offset = text_offset};
        memcpy(text, error.text, error.length_bytes);
        text[error.length_bytes] = '\0';
        text += error.length_bytes + 1;
        text_offset += error.length_bytes + 1;
    }
}

/* A list being written: nested lists are written depth first with a stack, since they may nest a thousand deep. */
struct level {
    struct lineage_cursor cursor;
    struct value_ref *next; /* where its next element's reference goes */
};

/* Makes the block of one list, errors included, and gives its reference and where its elements go. */
static int open_list(struct shard *shard, struct lineage_list list, struct built **built, struct value_ref *ret_ref,
                     struct level *ret_level)
{
    uint32_t count = lineage_list_count(shard->lineage, list), error_count = 0;
    uint64_t text_bytes = 0, offset;
    count_errors(shard, list, &error_count, &text_bytes);
    uint64_t bytes = sizeof(struct list_block) + (uint64_t)count * sizeof(struct value_ref) +
                     (uint64_t)error_count * sizeof(struct list_error_ref) + text_bytes;
    int result = built_alloc(shard, built, bytes, &offset);
    if (result < 0)
        return result;
    struct list_block *block = payload_shard_at(shard->run->payload, shard->number, offset);
    *block = (struct list_block){.count = count, .error_count = error_count, .bytes = bytes};
    struct value_ref *elements = (struct value_ref *)(block + 1);
    if (error_count > 0)
        write_errors(shard, list, offset, error_count, (struct list_error_ref *)(elements + count));
    *ret_ref = (struct value_ref){.kind = shard->plan->ports[list.port].kind,
                                  .segment = payload_shard_segment(shard->run->payload, shard->number),
                                  .offset = offset,
                                  .length = count};
    lineage_list_open(shard->lineage, list, &ret_level->cursor);
    ret_level->next = elements;
    return 0;
}

/* Room for one more level. */
static struct level *deepen(struct level **stack, uint32_t depth, uint32_t *capacity)
{
    if (depth == *capacity) {
        uint32_t larger = *capacity ? *capacity * 2 : 8;
        struct level *moved = realloc(*stack, larger * sizeof *moved);
        if (!moved)
            return NULL;
        *stack = moved;
        *capacity = larger;
    }
    return &(*stack)[depth];
}

int list_build(struct shard *shard, struct lineage_list list, struct built **built, struct value_ref *ret_ref)
{
    struct level *stack = NULL;
    uint32_t depth = 0, capacity = 0;
    struct value_ref top;
    int result = deepen(&stack, depth, &capacity) ? open_list(shard, list, built, &top, &stack[0]) : -ENOMEM;
    depth = result == 0;
    while (result == 0 && depth > 0) {
        struct level *level = &stack[depth - 1];
        struct lineage_value value;
        if (!lineage_list_next(shard->lineage, &level->cursor, &value)) {
            depth--;
            continue;
        }
        struct value_ref *place = level->next++;
        if (!value.is_list) {
            *place = value.value;
            continue;
        }
        struct level *inner = deepen(&stack, depth, &capacity);
        result = inner ? open_list(shard, value.list, built, place, inner) : -ENOMEM;
        depth++;
    }
    free(stack);
    if (result == 0)
        *ret_ref = top;
    return result;
}
