/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/completion_ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sheaf/operator.h>

#include "shm/board.h"
#include "shm/dispatch.h"

/* A record: this, then value_count references, then the text. */
struct completion_wire {
    uint64_t number;
    uint64_t ordinal;
    uint64_t child_count;
    uint64_t run_ns;
    uint64_t key;
    uint32_t grain;
    uint32_t scope;
    uint32_t class_id;
    uint32_t level;
    uint32_t value_count;
    uint32_t text_length_bytes;
    uint32_t rows_run;
    uint32_t closed;
    uint32_t checksum; /* of kind and record, with 0 in this place */
    uint32_t reserved;
};
static_assert(sizeof(struct completion_wire) == 80, "part of the shared layout");

#define CLASS_IDS 256u
#define LEVELS 3u

static bool carries_values(uint32_t kind)
{
    return kind == COMPLETION_ANSWER || kind == COMPLETION_CHILD;
}

static bool carries_text(uint32_t kind)
{
    return kind == COMPLETION_FAIL || kind == COMPLETION_RAISED || kind == COMPLETION_LOG;
}

uint32_t completion_ring_bytes_min(uint32_t values_max)
{
    uint64_t payload =
        sizeof(struct completion_wire) + (uint64_t)values_max * sizeof(struct value_ref) + COMPLETION_TEXT_BYTES_MAX;
    uint32_t bytes = SPSC_RING_BYTES_MIN;
    while (bytes < SPSC_RING_BYTES_MAX && spsc_payload_max(bytes) < payload)
        bytes *= 2;
    return bytes;
}

/* At most `limit` bytes of a text, not ending inside a UTF-8 sequence. */
static uint32_t cut_text(const char *text, uint32_t length_bytes, uint32_t limit)
{
    if (length_bytes <= limit)
        return length_bytes;
    uint32_t end = limit;
    while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80)
        end--;
    return end;
}

/* Of no row: a key is all it has. */
static bool is_keyed(uint32_t kind)
{
    return kind == COMPLETION_EVICTED || kind == COMPLETION_CHUNK;
}

static uint64_t mix(uint64_t sum, uint64_t word)
{
    return (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
}

/* Against stray writes, two or three instructions a word: xxHash takes far more for so little. Each step is a
 * bijection, so a change of one word is not missed before the end is cut off. `record` is 8-byte aligned. */
static uint32_t checksum_of(uint32_t kind, const void *record, uint32_t length_bytes)
{
    const uint64_t *words = record;
    uint64_t sum = (uint64_t)length_bytes << 32 | kind, rest = 0;
    for (uint32_t left = length_bytes / 32; left > 0; left--, words += 4)
        sum = mix(mix(mix(mix(sum, words[0]), words[1]), words[2]), words[3]);
    for (uint32_t left = length_bytes % 32 / 8; left > 0; left--)
        sum = mix(sum, *words++);
    memcpy(&rest, words, length_bytes % 8);
    sum = mix(sum, rest);
    return (uint32_t)(sum >> 32) ^ (uint32_t)(sum >> 17);
}

static struct completion_wire to_wire(const struct completion *record)
{
    uint32_t kind = record->kind;
    struct completion_wire wire = {0};
    wire.grain = COMPLETION_NO_GRAIN;
    if (is_keyed(kind)) {
        wire.key = record->key;
        return wire;
    }
    wire.grain = record->grain;
    wire.number = record->number;
    if (kind == COMPLETION_CHILD)
        wire.ordinal = record->ordinal;
    if (kind == COMPLETION_ANSWER || kind == COMPLETION_FAIL)
        wire.child_count = record->child_count;
    if (kind == COMPLETION_ANSWER || kind == COMPLETION_FAIL || kind == COMPLETION_RAISED)
        wire.run_ns = record->run_ns;
    if (kind == COMPLETION_FAIL || kind == COMPLETION_RAISED)
        wire.class_id = record->class_id;
    if (kind == COMPLETION_ANSWER || kind == COMPLETION_FAIL || kind == COMPLETION_RAISED)
        wire.closed = record->closed;
    if (kind == COMPLETION_RAISED || wire.closed)
        wire.rows_run = record->rows_run;
    if (kind == COMPLETION_FAIL)
        wire.scope = record->scope;
    if (kind == COMPLETION_LOG)
        wire.level = record->level;
    if (carries_values(kind))
        wire.value_count = record->value_count;
    if (carries_text(kind))
        wire.text_length_bytes = cut_text(record->text, record->text_length_bytes, COMPLETION_TEXT_BYTES_MAX);
    return wire;
}

int completion_write(struct spsc_writer *writer, const struct completion *record)
{
    assert(record->kind > 0 && record->kind < COMPLETION_KINDS);
    struct completion_wire wire = to_wire(record);
    if (wire.value_count > COMPLETION_VALUES_MAX)
        return -EMSGSIZE;
    uint32_t values_bytes = wire.value_count * (uint32_t)sizeof(struct value_ref);
    uint32_t length_bytes = (uint32_t)sizeof(wire) + values_bytes + wire.text_length_bytes;
    void *payload;
    int status = spsc_reserve(writer, record->kind, length_bytes, &payload);
    if (status)
        return status;
    memcpy(payload, &wire, sizeof(wire));
    if (values_bytes)
        memcpy((char *)payload + sizeof(wire), record->values, values_bytes);
    if (wire.text_length_bytes)
        memcpy((char *)payload + sizeof(wire) + values_bytes, record->text, wire.text_length_bytes);
    ((struct completion_wire *)payload)->checksum = checksum_of(record->kind, payload, length_bytes);
    return 0;
}

int completion_reader_open(struct completion_reader *reader, const struct spsc_ring *ring)
{
    uint32_t copy_bytes = spsc_payload_max(ring->capacity_bytes) + 1; /* and a NUL after the text */
    void *copy = malloc(copy_bytes);
    if (!copy)
        return -ENOMEM;
    *reader = (struct completion_reader){.copy = copy, .copy_bytes = copy_bytes};
    spsc_reader_open(&reader->ring, ring);
    return 0;
}

void completion_reader_close(struct completion_reader *reader)
{
    free(reader->copy);
    *reader = (struct completion_reader){0};
}

static bool values_make_sense(const struct value_ref *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t kind = values[i].kind;
        if (kind != SHEAF_KIND_BASE(kind) + (SHEAF_KIND_DEPTH(kind) << 8) || SHEAF_KIND_BASE(kind) > SHEAF_FILE)
            return false;
        if (kind == SHEAF_NONE && (values[i].segment || values[i].length || values[i].offset))
            return false;
    }
    return true;
}

/* Fields a kind does not have are 0: what to_wire would not have written is not ours. */
static bool fields_make_sense(const struct completion_wire *wire, uint32_t kind)
{
    bool grain_may_lack = kind == COMPLETION_LOG;
    bool grain_is_there = wire->grain < DISPATCH_GRAINS_MAX && wire->number <= DISPATCH_NUMBER_MASK;
    if (is_keyed(kind)) {
        if (wire->grain != COMPLETION_NO_GRAIN || wire->number)
            return false;
    } else if (!grain_is_there && !(grain_may_lack && wire->grain == COMPLETION_NO_GRAIN)) {
        return false;
    }
    bool ends_run = kind == COMPLETION_ANSWER || kind == COMPLETION_FAIL || kind == COMPLETION_RAISED;
    return (is_keyed(kind) || !wire->key) && (kind == COMPLETION_CHILD || !wire->ordinal) &&
           (ends_run || !wire->run_ns) &&
           (kind == COMPLETION_ANSWER || kind == COMPLETION_FAIL || !wire->child_count) &&
           (kind == COMPLETION_FAIL ? wire->scope <= SHEAF_SCOPE_ROOT : !wire->scope) &&
           (kind == COMPLETION_FAIL || kind == COMPLETION_RAISED ? wire->class_id < CLASS_IDS : !wire->class_id) &&
           (kind == COMPLETION_LOG ? wire->level < LEVELS : !wire->level) &&
           (ends_run ? wire->closed < BATCH_CLOSES : !wire->closed) &&
           (kind == COMPLETION_RAISED || wire->closed || !wire->rows_run) && !wire->reserved;
}

static bool lengths_make_sense(const struct completion_wire *wire, uint32_t kind, uint32_t length_bytes)
{
    if (wire->value_count > COMPLETION_VALUES_MAX || wire->text_length_bytes > COMPLETION_TEXT_BYTES_MAX)
        return false;
    if ((wire->value_count && !carries_values(kind)) || (wire->text_length_bytes && !carries_text(kind)))
        return false;
    return length_bytes == sizeof(*wire) + wire->value_count * sizeof(struct value_ref) + wire->text_length_bytes;
}

/* Check the private copy of a record and describe it. */
static int parse(struct completion_reader *reader, const struct spsc_header *header, struct completion *ret_record)
{
    struct completion_wire wire;
    if (header->kind >= COMPLETION_KINDS || header->length_bytes < sizeof(wire))
        return -EBADMSG;
    memcpy(&wire, reader->copy, sizeof(wire));
    ((struct completion_wire *)reader->copy)->checksum = 0;
    if (wire.checksum != checksum_of(header->kind, reader->copy, header->length_bytes))
        return -EBADMSG;
    if (!lengths_make_sense(&wire, header->kind, header->length_bytes) || !fields_make_sense(&wire, header->kind))
        return -EBADMSG;
    const struct value_ref *values = (const struct value_ref *)((const char *)reader->copy + sizeof(wire));
    if (!values_make_sense(values, wire.value_count))
        return -EBADMSG;
    char *text = (char *)reader->copy + sizeof(wire) + wire.value_count * sizeof(struct value_ref);
    text[wire.text_length_bytes] = '\0';
    *ret_record = (struct completion){
        .kind = (enum completion_kind)header->kind,
        .grain = wire.grain,
        .number = wire.number,
        .ordinal = wire.ordinal,
        .child_count = wire.child_count,
        .run_ns = wire.run_ns,
        .key = wire.key,
        .scope = wire.scope,
        .class_id = wire.class_id,
        .level = wire.level,
        .rows_run = wire.rows_run,
        .closed = wire.closed,
        .value_count = wire.value_count,
        .text_length_bytes = wire.text_length_bytes,
        .values = values,
        .text = text,
    };
    return 0;
}

int completion_read(struct completion_reader *reader, struct completion *ret_record)
{
    struct spsc_header header;
    const void *payload;
    if (reader->broken)
        return -EBADMSG;
    int status = spsc_next(&reader->ring, &header, &payload);
    if (status)
        return status;
    assert(header.length_bytes < reader->copy_bytes);
    memcpy(reader->copy, payload, header.length_bytes);
    status = parse(reader, &header, ret_record);
    reader->broken = status != 0;
    return status;
}
