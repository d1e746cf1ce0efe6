/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/completion_ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sheaf/operator.h>

#include "shm/board.h"
#include "shm/dispatch.h"

/* What a record may say besides its row and its values, one word each. */
enum field {
    FIELD_ORDINAL,
    FIELD_CHILD_COUNT,
    FIELD_RUN_NS,
    FIELD_KEY,
    FIELD_CAUSE, /* scope 32 | class_id 32 */
    FIELD_BATCH, /* closed 32 | rows_run 32 */
    FIELD_LEVEL,
    FIELD_OTHERS, /* rows, or children, after the first */
    FIELDS
};

/* A record: this, then the fields that are not 0, then value_count references, then the names of the other rows or the
 * text. What an answer of one value takes is one cache line: each line crosses from the worker's core to the shard's.
 */
struct completion_head {
    uint64_t named; /* number 33 | value_count 11 | 4 bits that are 0 | which fields follow 16 */
    uint32_t grain;
    uint32_t checksum; /* of kind and record, with 0 in this place */
};
static_assert(sizeof(struct completion_head) == 16, "part of the shared layout");
static_assert(sizeof(struct spsc_header) + sizeof(struct completion_head) + sizeof(uint64_t) +
                      sizeof(struct value_ref) ==
                  CACHE_LINE_BYTES,
              "an answer, or a child, of one value");

#define NAMED_COUNT_SHIFT DISPATCH_NUMBER_BITS
#define NAMED_COUNT_BITS 11u
#define NAMED_FIELDS_SHIFT 48u
static_assert(COMPLETION_VALUES_MAX < 1u << NAMED_COUNT_BITS, "a count fits");
static_assert(COMPLETION_TOGETHER_MAX * (sizeof(struct value_ref) + sizeof(uint64_t)) <= COMPLETION_TEXT_BYTES_MAX,
              "where a text fits, rows together do");

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
    uint64_t payload = sizeof(struct completion_head) + FIELDS * sizeof(uint64_t) +
                       (uint64_t)values_max * sizeof(struct value_ref) + COMPLETION_TEXT_BYTES_MAX;
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

/* Which fields a kind has. What it does not have is not written, and refused where it stands. */
#define HAS(field) (1u << (field))
#define HAS_RUN (HAS(FIELD_RUN_NS) | HAS(FIELD_BATCH))
static const uint16_t fields_of[COMPLETION_KINDS] = {
    [COMPLETION_ANSWER] = HAS_RUN | HAS(FIELD_CHILD_COUNT) | HAS(FIELD_OTHERS),
    [COMPLETION_FAIL] = HAS_RUN | HAS(FIELD_CHILD_COUNT) | HAS(FIELD_CAUSE),
    [COMPLETION_RAISED] = HAS_RUN | HAS(FIELD_CAUSE),
    [COMPLETION_CHILD] = HAS(FIELD_ORDINAL) | HAS(FIELD_OTHERS),
    [COMPLETION_EVICTED] = HAS(FIELD_KEY),
    [COMPLETION_CHUNK] = HAS(FIELD_KEY),
    [COMPLETION_LOG] = HAS(FIELD_LEVEL),
};

/* Fields on their way into a record. */
struct packed {
    uint64_t words[FIELDS];
    uint32_t which, count;
};

static inline void pack(struct packed *packed, uint32_t has, enum field field, uint64_t value)
{
    if (!(has & HAS(field)) || value == 0)
        return;
    packed->which |= HAS(field);
    packed->words[packed->count++] = value;
}

static inline uint64_t two(uint32_t high, uint32_t low)
{
    return (uint64_t)high << 32 | low;
}

/* What counts for its kind, in the order of enum field. */
static void pack_fields(const struct completion *record, uint32_t row_count, struct packed *packed)
{
    uint32_t kind = record->kind, has = fields_of[kind];
    pack(packed, has, FIELD_ORDINAL, record->ordinal);
    pack(packed, has, FIELD_CHILD_COUNT, record->child_count);
    pack(packed, has, FIELD_RUN_NS, record->run_ns);
    pack(packed, has, FIELD_KEY, record->key);
    pack(packed, has, FIELD_CAUSE, two(kind == COMPLETION_FAIL ? record->scope : 0, record->class_id));
    if (kind == COMPLETION_RAISED || record->closed)
        pack(packed, has, FIELD_BATCH, two(record->closed, record->rows_run));
    pack(packed, has, FIELD_LEVEL, record->level);
    pack(packed, has, FIELD_OTHERS, kind == COMPLETION_CHILD ? record->child_count - 1 : row_count - 1);
}

static inline char *put_part(char *at, const void *part, size_t part_bytes)
{
    memcpy(at, part, part_bytes);
    return at + part_bytes;
}

int completion_write_rows(struct spsc_writer *writer, const struct completion *record,
                          const struct completion_part *parts, uint32_t count)
{
    uint32_t kind = record->kind;
    assert(kind > 0 && kind < COMPLETION_KINDS && record->number <= DISPATCH_NUMBER_MASK);
    assert(count == 1 || (kind == COMPLETION_ANSWER && record->child_count == 0));
    assert(kind != COMPLETION_CHILD || (record->child_count > 0 && record->value_count % record->child_count == 0));
    uint32_t each = carries_values(kind) ? record->value_count : 0, text_bytes = 0;
    uint64_t value_count = (uint64_t)each * count, together = kind == COMPLETION_CHILD ? record->child_count : count;
    if (value_count > (count > 1 ? COMPLETION_TOGETHER_MAX : COMPLETION_VALUES_MAX) ||
        together > COMPLETION_TOGETHER_MAX)
        return -EMSGSIZE;
    if (carries_text(kind))
        text_bytes = cut_text(record->text, record->text_length_bytes, COMPLETION_TEXT_BYTES_MAX);
    struct packed packed;
    packed.which = packed.count = 0;
    pack_fields(record, count, &packed);
    struct completion_head head = {(uint64_t)packed.which << NAMED_FIELDS_SHIFT | value_count << NAMED_COUNT_SHIFT,
                                   COMPLETION_NO_GRAIN, 0};
    if (!is_keyed(kind)) {
        head.named |= record->number;
        head.grain = record->grain;
    }
    uint32_t words = packed.count + count - 1;
    uint32_t length_bytes =
        (uint32_t)(sizeof(head) + words * sizeof(uint64_t) + value_count * sizeof(struct value_ref)) + text_bytes;
    void *payload;
    int status = spsc_reserve(writer, kind, length_bytes, &payload);
    if (status)
        return status;
    char *at = put_part(payload, &head, sizeof(head));
    for (uint32_t i = 0; i < packed.count; i++)
        at = put_part(at, &packed.words[i], sizeof(uint64_t));
    for (uint32_t row = 0; row < count; row++)
        for (uint32_t value = 0; value < each; value++)
            at = put_part(at, &parts[row].values[value], sizeof(struct value_ref));
    for (uint32_t row = 1; row < count; row++)
        at = put_part(at, &parts[row].name, sizeof(uint64_t));
    if (text_bytes)
        put_part(at, record->text, text_bytes);
    ((struct completion_head *)payload)->checksum = checksum_of(kind, payload, length_bytes);
    return 0;
}

int completion_write(struct spsc_writer *writer, const struct completion *record)
{
    const struct completion_part part = {.values = record->values};
    return completion_write_rows(writer, record, &part, 1);
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

static bool row_makes_sense(const struct completion *record)
{
    if (is_keyed(record->kind))
        return record->grain == COMPLETION_NO_GRAIN && !record->number;
    return record->grain < DISPATCH_GRAINS_MAX ||
           (record->kind == COMPLETION_LOG && record->grain == COMPLETION_NO_GRAIN);
}

/* Of fields that its kind has. */
static bool fields_make_sense(const struct completion *record)
{
    return record->scope <= (record->kind == COMPLETION_FAIL ? SHEAF_SCOPE_ROOT : 0) && record->class_id < CLASS_IDS &&
           record->level < LEVELS && record->closed < BATCH_CLOSES &&
           (record->kind == COMPLETION_RAISED || record->closed || !record->rows_run);
}

/* Rows, or children, that share a record: each has as many values. */
static bool others_make_sense(const struct completion *record, uint64_t others)
{
    bool rows = record->kind == COMPLETION_ANSWER;
    if (others == 0)
        return true;
    if (record->value_count % (others + 1) != 0 || (rows && record->child_count != 0))
        return false;
    for (uint32_t at = 0; rows && at < others; at++)
        if (record->others[at] >> DISPATCH_NAME_BITS != 0)
            return false;
    return true;
}

/* The words of the fields that follow. The copy has room for all of them, however short the record is. */
static char *read_fields(char *at, uint32_t which, uint64_t *ret_fields)
{
    for (uint32_t field = 0; which >> field; field++) {
        if (which & HAS(field)) {
            memcpy(&ret_fields[field], at, sizeof(uint64_t));
            at += sizeof(uint64_t);
        }
    }
    return at;
}

/* Check the private copy of a record and describe it. */
static int parse(struct completion_reader *reader, const struct spsc_header *header, struct completion *ret_record)
{
    struct completion_head head;
    char *at = reader->copy;
    uint64_t fields[FIELDS] = {0};
    if (header->kind >= COMPLETION_KINDS || header->length_bytes < sizeof(head))
        return -EBADMSG;
    memcpy(&head, at, sizeof(head));
    ((struct completion_head *)reader->copy)->checksum = 0;
    if (head.checksum != checksum_of(header->kind, reader->copy, header->length_bytes))
        return -EBADMSG;
    uint32_t value_count =
        (uint32_t)(head.named >> NAMED_COUNT_SHIFT) & ((1u << (NAMED_FIELDS_SHIFT - NAMED_COUNT_SHIFT)) - 1);
    uint32_t which = (uint32_t)(head.named >> NAMED_FIELDS_SHIFT);
    if (which & ~(uint32_t)fields_of[header->kind] || value_count > COMPLETION_VALUES_MAX)
        return -EBADMSG;
    at = read_fields(at + sizeof(head), which, fields);
    uint64_t others = fields[FIELD_OTHERS];
    bool rows = header->kind == COMPLETION_ANSWER;
    if (others >= COMPLETION_TOGETHER_MAX)
        return -EBADMSG;
    uint64_t before_text = (uint64_t)(at - (char *)reader->copy) + value_count * sizeof(struct value_ref) +
                           (rows ? others * sizeof(uint64_t) : 0);
    if (before_text > header->length_bytes || header->length_bytes - before_text > COMPLETION_TEXT_BYTES_MAX)
        return -EBADMSG;
    struct completion record = {
        .kind = (enum completion_kind)header->kind,
        .grain = head.grain,
        .number = head.named & DISPATCH_NUMBER_MASK,
        .ordinal = fields[FIELD_ORDINAL],
        .child_count = header->kind == COMPLETION_CHILD ? others + 1 : fields[FIELD_CHILD_COUNT],
        .run_ns = fields[FIELD_RUN_NS],
        .key = fields[FIELD_KEY],
        .scope = (uint32_t)(fields[FIELD_CAUSE] >> 32),
        .class_id = (uint32_t)fields[FIELD_CAUSE],
        .level = fields[FIELD_LEVEL] < LEVELS ? (uint32_t)fields[FIELD_LEVEL] : LEVELS,
        .rows_run = (uint32_t)fields[FIELD_BATCH],
        .closed = (uint32_t)(fields[FIELD_BATCH] >> 32),
        .row_count = rows ? (uint32_t)others + 1 : 1,
        .value_count = value_count,
        .text_length_bytes = (uint32_t)(header->length_bytes - before_text),
        .others = (const uint64_t *)(const void *)(at + value_count * sizeof(struct value_ref)),
        .values = (const struct value_ref *)(const void *)at,
        .text = (const char *)reader->copy + before_text,
    };
    ((char *)reader->copy)[header->length_bytes] = '\0';
    if ((value_count && !carries_values(record.kind)) || (record.text_length_bytes && !carries_text(record.kind)) ||
        !row_makes_sense(&record) || !fields_make_sense(&record) || !others_make_sense(&record, others) ||
        !values_make_sense(record.values, value_count))
        return -EBADMSG;
    *ret_record = record;
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
    reader->last_bytes = header.length_bytes;
    status = parse(reader, &header, ret_record);
    reader->broken = status != 0;
    return status;
}

uint32_t completion_ahead(const struct completion_reader *reader, uint32_t records)
{
    const struct completion_head *head = NULL;
    if (reader->last_bytes >= sizeof(*head))
        head = spsc_ahead(&reader->ring, reader->last_bytes, records);
    return head ? __atomic_load_n(&head->grain, __ATOMIC_RELAXED) : COMPLETION_NO_GRAIN;
}
