/* SPDX-License-Identifier: Apache-2.0 */
/* The byte ring, the completion records and the control orders over it, honest and hostile. */
#include "cmocka_all.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sheaf/operator.h>

#include "shm/completion_ring.h"
#include "shm/control_ring.h"
#include "shm/dispatch.h"

#define RING_BYTES 1024u
#define HEAD_BYTES 16u  /* of a completion record before its fields and values */
#define CHECKSUM_AT 12u /* in it */

struct pipe_ends {
    shared_u64 write_index;
    shared_u64 read_index;
    _Alignas(8) unsigned char data[RING_BYTES];
    struct spsc_ring ring;
    struct spsc_writer writer;
    struct spsc_reader reader;
};

static void open_ends(struct pipe_ends *ends)
{
    memset(ends, 0, sizeof(*ends));
    ends->ring = (struct spsc_ring){&ends->write_index, &ends->read_index, ends->data, RING_BYTES};
    spsc_writer_open(&ends->writer, &ends->ring);
    spsc_reader_open(&ends->reader, &ends->ring);
}

static uint64_t next_random(uint64_t *random)
{
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *random >> 24;
}

/* Records of random lengths in random batches come out as they went in; the expected bytes follow from their number. */
static void bytes_come_out_as_they_went_in(void **state)
{
    struct pipe_ends ends;
    uint64_t random = 20261129;
    print_message("seed %llu\n", (unsigned long long)random);
    open_ends(&ends);
    uint32_t sent = 0, got = 0, visible = 0, lengths[4096];
    while (got < 50000) {
        uint32_t length = (uint32_t)(next_random(&random) % (spsc_payload_max(RING_BYTES) + 1));
        if (next_random(&random) & 1)
            length %= 40;
        void *payload;
        int status = spsc_reserve(&ends.writer, 1 + sent % 5, length, &payload);
        if (status == 0) {
            assert_int_equal((uintptr_t)payload & 7, 0);
            memset(payload, (int)sent, length);
            lengths[sent++ % 4096] = length;
        } else {
            assert_int_equal(status, -EAGAIN);
        }
        if (status || next_random(&random) % 3 == 0) {
            spsc_commit(&ends.writer);
            visible = sent;
        }
        while (status || next_random(&random) % 3 == 0) {
            struct spsc_header header;
            const void *read;
            int found = spsc_next(&ends.reader, &header, &read);
            assert_int_equal(found, got == visible ? -EAGAIN : 0);
            if (found)
                break;
            assert_int_equal(header.length_bytes, lengths[got % 4096]);
            assert_int_equal(header.kind, 1 + got % 5);
            for (uint32_t i = 0; i < header.length_bytes; i++)
                assert_int_equal(((const unsigned char *)read)[i], got & 0xff);
            got++;
        }
        spsc_release(&ends.reader);
    }
}

static void uncommitted_records_do_not_exist(void **state)
{
    struct pipe_ends ends;
    struct spsc_header header;
    void *payload;
    const void *read;
    open_ends(&ends);
    assert_int_equal(spsc_reserve(&ends.writer, 1, 16, &payload), 0);
    assert_false(spsc_pending(&ends.reader));
    spsc_abandon(&ends.writer);
    assert_int_equal(spsc_reserve(&ends.writer, 2, 8, &payload), 0);
    spsc_commit(&ends.writer);
    assert_true(spsc_pending(&ends.reader));
    assert_int_equal(spsc_next(&ends.reader, &header, &read), 0);
    assert_int_equal(header.kind, 2);
    assert_int_equal(spsc_next(&ends.reader, &header, &read), -EAGAIN);
}

static void limits_are_said(void **state)
{
    struct pipe_ends ends;
    void *payload;
    open_ends(&ends);
    assert_int_equal(spsc_reserve(&ends.writer, 1, spsc_payload_max(RING_BYTES) + 1, &payload), -EMSGSIZE);
    assert_int_equal(spsc_reserve(&ends.writer, 1, spsc_payload_max(RING_BYTES), &payload), 0);
    assert_int_equal(spsc_reserve(&ends.writer, 1, spsc_payload_max(RING_BYTES), &payload), 0);
    assert_int_equal(spsc_reserve(&ends.writer, 1, 0, &payload), -EAGAIN);
    spsc_commit(&ends.writer);
    store_relaxed_u64(&ends.read_index, 4096);
    assert_int_equal(spsc_reserve(&ends.writer, 1, 0, &payload), -EBADMSG);
}

static void a_bad_index_or_header_breaks_the_ring(void **state)
{
    struct pipe_ends ends;
    struct spsc_header header;
    const void *read;
    const uint64_t indices[] = {3, RING_BYTES + 8, UINT64_MAX - 7};
    for (size_t i = 0; i < sizeof(indices) / sizeof(indices[0]); i++) {
        open_ends(&ends);
        store_relaxed_u64(&ends.write_index, indices[i]);
        assert_true(spsc_pending(&ends.reader));
        assert_int_equal(spsc_next(&ends.reader, &header, &read), -EBADMSG);
        store_relaxed_u64(&ends.write_index, 0);
        assert_int_equal(spsc_next(&ends.reader, &header, &read), -EBADMSG);
    }
    const struct spsc_header headers[] = {{UINT32_MAX, 1}, {RING_BYTES - 8, 1}, {57, 1}, {0, 0}, {48, 0}};
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        open_ends(&ends);
        memcpy(ends.data, &headers[i], sizeof(headers[i]));
        store_relaxed_u64(&ends.write_index, headers[i].length_bytes == RING_BYTES - 8 ? RING_BYTES : 64);
        assert_int_equal(spsc_next(&ends.reader, &header, &read), -EBADMSG);
    }
}

/* --- completion records --- */

struct completion_ends {
    struct pipe_ends pipe;
    struct completion_reader reader;
};

static struct completion_ends *open_completion(void)
{
    struct completion_ends *ends = calloc(1, sizeof(*ends));
    open_ends(&ends->pipe);
    assert_int_equal(completion_reader_open(&ends->reader, &ends->pipe.ring), 0);
    return ends;
}

static void close_completion(struct completion_ends *ends)
{
    completion_reader_close(&ends->reader);
    free(ends);
}

static struct completion there_and_back(struct completion_ends *ends, const struct completion *record)
{
    struct completion read;
    assert_int_equal(completion_write(&ends->pipe.writer, record), 0);
    spsc_commit(&ends->pipe.writer);
    assert_int_equal(completion_read(&ends->reader, &read), 0);
    spsc_release(&ends->reader.ring);
    assert_int_equal(read.kind, record->kind);
    return read;
}

static void records_keep_their_fields(void **state)
{
    struct completion_ends *ends = open_completion();
    struct value_ref values[3] = {{.kind = SHEAF_TEXT, .segment = 2, .offset = 64, .length = 5},
                                  {.kind = SHEAF_LIST_OF(SHEAF_I64, 2), .segment = 1, .offset = 128, .length = 2},
                                  {.kind = SHEAF_NONE}};
    struct completion answer = {.kind = COMPLETION_ANSWER,
                                .grain = 5,
                                .number = 6,
                                .child_count = 7,
                                .run_ns = 8,
                                .ordinal = 99,
                                .value_count = 3,
                                .values = values,
                                .text = "no",
                                .text_length_bytes = 2};
    struct completion read = there_and_back(ends, &answer);
    assert_int_equal(read.grain, 5);
    assert_int_equal(read.number, 6);
    assert_int_equal(read.child_count, 7);
    assert_int_equal(read.run_ns, 8);
    assert_int_equal(read.ordinal, 0);
    assert_int_equal(read.text_length_bytes, 0);
    assert_int_equal(read.value_count, 3);
    assert_memory_equal(read.values, values, sizeof(values));

    struct completion fail = {.kind = COMPLETION_FAIL,
                              .grain = 1,
                              .number = DISPATCH_NUMBER_MASK,
                              .scope = SHEAF_SCOPE_ROOT,
                              .class_id = SHEAF_CLASS_MALFORMED,
                              .text = "bad page",
                              .text_length_bytes = 8};
    read = there_and_back(ends, &fail);
    assert_int_equal(read.scope, SHEAF_SCOPE_ROOT);
    assert_int_equal(read.class_id, SHEAF_CLASS_MALFORMED);
    assert_string_equal(read.text, "bad page");
    assert_int_equal(read.number, DISPATCH_NUMBER_MASK);

    struct completion child = {.kind = COMPLETION_CHILD,
                               .grain = 1,
                               .number = 2,
                               .ordinal = 40000,
                               .child_count = 1,
                               .value_count = 1,
                               .values = values};
    assert_int_equal(there_and_back(ends, &child).ordinal, 40000);
    struct completion evicted = {.kind = COMPLETION_EVICTED, .key = 77, .grain = 3};
    assert_int_equal(there_and_back(ends, &evicted).key, 77);
    struct completion released = {.kind = COMPLETION_RELEASED, .grain = 3, .number = 4};
    assert_int_equal(there_and_back(ends, &released).grain, 3);
    struct completion line = {.kind = COMPLETION_LOG,
                              .grain = COMPLETION_NO_GRAIN,
                              .level = 2,
                              .text = "font missing",
                              .text_length_bytes = 12};
    read = there_and_back(ends, &line);
    assert_string_equal(read.text, "font missing");
    assert_int_equal(read.grain, COMPLETION_NO_GRAIN);
    close_completion(ends);
}

/* Answers of rows, and children, that share a record. */
static void records_are_shared(void **state)
{
    enum { ROWS = COMPLETION_TOGETHER_MAX };
    static unsigned char data[1u << 16] __attribute__((aligned(8)));
    shared_u64 write_index = 0, read_index = 0;
    struct spsc_ring ring = {&write_index, &read_index, data,
                             completion_ring_bytes_min(1)}; /* the smallest takes them */
    struct spsc_writer writer;
    struct completion_reader reader;
    assert_true(ring.capacity_bytes <= sizeof data);
    spsc_writer_open(&writer, &ring);
    assert_int_equal(completion_reader_open(&reader, &ring), 0);
    struct value_ref values[ROWS];
    struct completion_part parts[ROWS];
    for (uint32_t at = 0; at < ROWS; at++) {
        values[at] = (struct value_ref){.kind = SHEAF_I64, .offset = 100 + at};
        parts[at] = (struct completion_part){dispatch_name(DISPATCH_GRAINS_MAX - 1 - at, DISPATCH_NUMBER_MASK - at),
                                             &values[at]};
    }
    struct completion shared = {.kind = COMPLETION_ANSWER,
                                .grain = DISPATCH_GRAINS_MAX - 1,
                                .number = DISPATCH_NUMBER_MASK,
                                .run_ns = 5,
                                .closed = 1,
                                .rows_run = ROWS,
                                .value_count = 1},
                      read;
    assert_int_equal(completion_write_rows(&writer, &shared, parts, ROWS), 0);
    spsc_commit(&writer);
    assert_int_equal(completion_read(&reader, &read), 0);
    assert_int_equal(read.row_count, ROWS);
    struct completion row = completion_first_row(&read);
    for (uint32_t at = 0; at < ROWS; at++) {
        if (at > 0)
            completion_next_row(&read, &row, at);
        assert_int_equal(row.grain, DISPATCH_GRAINS_MAX - 1 - at);
        assert_int_equal(row.number, DISPATCH_NUMBER_MASK - at);
        assert_int_equal(row.row_count, 1);
        assert_int_equal(row.value_count, 1);
        assert_int_equal(row.values[0].offset, 100 + at);
        assert_int_equal(row.run_ns, 5);
        assert_int_equal(row.rows_run, at == 0 ? ROWS : 0);
    }
    assert_int_equal(completion_write_rows(&writer, &shared, parts, ROWS + 1), -EMSGSIZE);

    struct completion children = {.kind = COMPLETION_CHILD,
                                  .grain = 1,
                                  .number = 2,
                                  .ordinal = 40000,
                                  .child_count = ROWS / 2,
                                  .value_count = ROWS,
                                  .values = values};
    assert_int_equal(completion_write(&writer, &children), 0);
    spsc_commit(&writer);
    assert_int_equal(completion_read(&reader, &read), 0);
    assert_int_equal(read.child_count, ROWS / 2);
    assert_int_equal(read.ordinal, 40000);
    assert_memory_equal(read.values, values, sizeof values);
    completion_reader_close(&reader);
}

static void long_texts_are_cut_between_letters(void **state)
{
    static unsigned char data[1u << 16] __attribute__((aligned(8)));
    shared_u64 write_index = 0, read_index = 0;
    uint32_t bytes = completion_ring_bytes_min(4);
    assert_true(bytes <= sizeof(data));
    struct spsc_ring ring = {&write_index, &read_index, data, bytes};
    struct spsc_writer writer;
    struct completion_reader reader;
    spsc_writer_open(&writer, &ring);
    assert_int_equal(completion_reader_open(&reader, &ring), 0);
    char text[COMPLETION_TEXT_BYTES_MAX + 8];
    text[0] = 'x';
    for (size_t i = 1; i + 1 < sizeof(text); i += 2)
        memcpy(text + i, "\xc3\xa9", 2);
    struct completion fail = {.kind = COMPLETION_FAIL, .text = text, .text_length_bytes = sizeof(text)};
    assert_int_equal(completion_write(&writer, &fail), 0);
    spsc_commit(&writer);
    struct completion read;
    assert_int_equal(completion_read(&reader, &read), 0);
    assert_int_equal(read.text_length_bytes, COMPLETION_TEXT_BYTES_MAX - 1);
    completion_reader_close(&reader);
}

/* As a forger would: the checksum is right for whatever stands there. */
static void seal(unsigned char *data)
{
    struct spsc_header header;
    memcpy(&header, data, sizeof header);
    if (header.length_bytes < HEAD_BYTES || header.length_bytes > RING_BYTES - sizeof header)
        return;
    unsigned char *record = data + sizeof header;
    memset(record + CHECKSUM_AT, 0, sizeof(uint32_t));
    uint64_t sum = (uint64_t)header.length_bytes << 32 | header.kind;
    for (uint32_t at = 0; at <= header.length_bytes; at += sizeof(uint64_t)) { /* the last word may be a part of one */
        uint64_t word = 0;
        uint32_t left = header.length_bytes - at;
        memcpy(&word, record + at, left < sizeof word ? left : sizeof word);
        sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    }
    uint32_t checksum = (uint32_t)(sum >> 32) ^ (uint32_t)(sum >> 17);
    memcpy(record + CHECKSUM_AT, &checksum, sizeof checksum);
}

/* Every bit of a record that is flipped by itself is noticed. */
static void flipped_bits_are_noticed(void **state)
{
    struct value_ref values[2] = {{.kind = SHEAF_I64, .offset = 7}, {.kind = SHEAF_BOOL, .offset = 1}};
    struct completion record = {.kind = COMPLETION_ANSWER, .grain = 3, .number = 4, .value_count = 2, .values = values};
    uint32_t bits = 8 * (sizeof(struct spsc_header) + HEAD_BYTES + sizeof values);
    for (uint32_t bit = 0; bit < bits; bit++) {
        struct completion_ends *ends = open_completion();
        struct completion read;
        assert_int_equal(completion_write(&ends->pipe.writer, &record), 0);
        ends->pipe.data[bit / 8] ^= (unsigned char)(1u << bit % 8);
        spsc_commit(&ends->pipe.writer);
        assert_int_equal(completion_read(&ends->reader, &read), -EBADMSG);
        close_completion(ends);
    }
}

/* Records with a right checksum that say what no writer says. The first is a good one. */
static void crooked_records_are_refused(void **state)
{
    enum { ORDINAL, CHILD_COUNT, RUN_NS, KEY, CAUSE, BATCH, LEVEL, OTHERS, NO_SUCH_FIELD };
#define FIELD(field) (UINT64_C(1) << (48 + (field)))
#define VALUES(count) ((uint64_t)(count) << 33)
    const struct {
        uint32_t kind, length_bytes;
        uint64_t named;
        uint32_t grain;
        uint64_t word;
    } crooked[] = {
        {COMPLETION_RELEASED, 16, 4, 3, 0},
        {COMPLETION_RELEASED, 15, 4, 3, 0},                                /* shorter than a record */
        {0x7fffffff, 16, 4, 3, 0},                                         /* kind */
        {COMPLETION_RELEASED, 16, 4, 1u << 28, 0},                         /* grain out of bounds */
        {COMPLETION_RELEASED, 16, 4 | UINT64_C(1) << 44, 3, 0},            /* bits that are 0 */
        {COMPLETION_RELEASED, 24, 4 | FIELD(NO_SUCH_FIELD), 3, 0},         /* a field that there is not */
        {COMPLETION_CHILD, 16, 4 | FIELD(ORDINAL), 3, 0},                  /* a field without its word */
        {COMPLETION_RELEASED, 24, 4 | FIELD(ORDINAL), 3, 1},               /* ordinal of what has none */
        {COMPLETION_RAISED, 24, 4 | FIELD(CHILD_COUNT), 3, 1},             /* children of what has none */
        {COMPLETION_RELEASED, 24, 4 | FIELD(RUN_NS), 3, 1},                /* a time of what did not run */
        {COMPLETION_RELEASED, 24, 4 | FIELD(KEY), 3, 1},                   /* key of what has none */
        {COMPLETION_RELEASED, 24, 4 | FIELD(CAUSE), 3, UINT64_C(1) << 32}, /* scope of what has none */
        {COMPLETION_RELEASED, 24, 4 | FIELD(CAUSE), 3, 1},                 /* class of what has none */
        {COMPLETION_FAIL, 24, 4 | FIELD(CAUSE), 3, UINT64_C(3) << 32},     /* a scope that there is not */
        {COMPLETION_FAIL, 24, 4 | FIELD(CAUSE), 3, 256},                   /* a class that there is not */
        {COMPLETION_RELEASED, 24, 4 | FIELD(LEVEL), 3, 1},                 /* level of what has none */
        {COMPLETION_LOG, 24, 4 | FIELD(LEVEL), 3, UINT64_C(1) << 32},      /* a level that there is not */
        {COMPLETION_ANSWER, 24, 4 | FIELD(BATCH), 3, 1},                   /* a batch of what does not tell of it */
        {COMPLETION_RELEASED, 24, 4 | FIELD(BATCH), 3,
         UINT64_C(1) << 32},                                              /* one that was closed, of what did not run */
        {COMPLETION_ANSWER, 24, 4 | FIELD(BATCH), 3, UINT64_C(99) << 32}, /* a reason that there is not */
        {COMPLETION_RELEASED, 48, 4 | VALUES(1), 3, 0},                   /* values it does not carry */
        {COMPLETION_ANSWER, 48, 4 | VALUES(2), 3, 0},                     /* more values than there are */
        {COMPLETION_ANSWER, 48, 4, 3, 0},                                 /* text it does not carry */
        {COMPLETION_EVICTED, 16, 4, UINT32_MAX, 0},                       /* a row of what is of none */
        {COMPLETION_EVICTED, 16, 0, 3, 0},
        {COMPLETION_FAIL, 24, 4 | FIELD(OTHERS), 3, 1},                        /* rows of what is of one */
        {COMPLETION_ANSWER, 24, 4 | FIELD(OTHERS), 3, 1},                      /* a row without its name */
        {COMPLETION_ANSWER, 64, 4 | FIELD(OTHERS) | VALUES(1), 3, 1},          /* two rows with one value */
        {COMPLETION_CHILD, 56, 4 | FIELD(OTHERS) | VALUES(1), 3, 1},           /* two children with one value */
        {COMPLETION_CHILD, 24, 4 | FIELD(OTHERS), 3, COMPLETION_TOGETHER_MAX}, /* more than share a record */
        {COMPLETION_ANSWER, 24, 4 | FIELD(OTHERS), 3, UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof(crooked) / sizeof(crooked[0]); i++) {
        struct completion_ends *ends = open_completion();
        struct completion read;
        unsigned char record[64] = {0};
        void *payload;
        memcpy(record, &crooked[i].named, 8);
        memcpy(record + 8, &crooked[i].grain, 4);
        memcpy(record + HEAD_BYTES, &crooked[i].word, 8);
        assert_int_equal(spsc_reserve(&ends->pipe.writer, crooked[i].kind, crooked[i].length_bytes, &payload), 0);
        memcpy(payload, record, crooked[i].length_bytes);
        seal(ends->pipe.data);
        spsc_commit(&ends->pipe.writer);
        assert_int_equal(completion_read(&ends->reader, &read), i == 0 ? 0 : -EBADMSG);
        assert_int_equal(completion_read(&ends->reader, &read), i == 0 ? -EAGAIN : -EBADMSG);
        close_completion(ends);
    }
}

/* Two rows without values, and what makes nonsense of them. */
static void crooked_rows_are_refused(void **state)
{
    enum { OTHERS = 55, CHILD_COUNT = 49 }; /* bits of the fields */
    const uint64_t name = dispatch_name(7, 9);
    const struct {
        uint64_t words[5]; /* named, grain, then fields and names */
        uint32_t count;
        int status;
    } rows[] = {
        {{4 | UINT64_C(1) << OTHERS, 3, 1, name}, 4, 0},
        {{4 | UINT64_C(1) << OTHERS, 3, 1, name | UINT64_C(1) << 61}, 4, -EBADMSG},             /* not a name */
        {{4 | UINT64_C(1) << OTHERS, 3, 2, name}, 4, -EBADMSG},                                 /* one name too few */
        {{4 | UINT64_C(1) << OTHERS | UINT64_C(1) << CHILD_COUNT, 3, 1, 1, name}, 5, -EBADMSG}, /* with children */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct completion_ends *ends = open_completion();
        struct completion read;
        uint32_t bytes = rows[i].count * (uint32_t)sizeof(uint64_t);
        void *payload;
        assert_int_equal(spsc_reserve(&ends->pipe.writer, COMPLETION_ANSWER, bytes, &payload), 0);
        memcpy(payload, rows[i].words, bytes);
        seal(ends->pipe.data);
        spsc_commit(&ends->pipe.writer);
        assert_int_equal(completion_read(&ends->reader, &read), rows[i].status);
        if (rows[i].status == 0)
            assert_int_equal(read.row_count, 2);
        close_completion(ends);
    }
}

/* Random bytes and random flips in good records: the reader refuses or gives something within its promises. */
static void hostile_bytes_crash_nobody(void **state)
{
    uint64_t random = 0xfeedface;
    print_message("seed %llu\n", (unsigned long long)random);
    uint32_t refused = 0, taken = 0;
    struct value_ref values[2] = {{.kind = SHEAF_BYTES, .segment = 1}, {.kind = SHEAF_BOOL, .offset = 1}};
    for (uint32_t round = 0; round < 30000; round++) {
        struct completion_ends *ends = open_completion();
        struct completion record = {.kind = 1 + round % (COMPLETION_KINDS - 1),
                                    .grain = round,
                                    .number = 1,
                                    .child_count = 1,
                                    .value_count = 2,
                                    .values = values,
                                    .text = "text",
                                    .text_length_bytes = 4};
        for (int i = 0; i < 3; i++)
            completion_write(&ends->pipe.writer, &record);
        spsc_commit(&ends->pipe.writer);
        uint32_t flips = (uint32_t)next_random(&random) % 6;
        for (uint32_t i = 0; i < flips; i++)
            ends->pipe.data[next_random(&random) % 400] ^= (unsigned char)(1u << next_random(&random) % 8);
        if (round % 2 == 0)
            seal(ends->pipe.data);
        if (round % 5 == 0) {
            for (uint32_t i = 0; i < RING_BYTES; i++)
                ends->pipe.data[i] = (unsigned char)next_random(&random);
            store_relaxed_u64(&ends->pipe.write_index, next_random(&random) % 1100);
        }
        struct completion read;
        int status;
        while ((status = completion_read(&ends->reader, &read)) == 0) {
            assert_true(read.kind > 0 && read.kind < COMPLETION_KINDS);
            assert_true(read.value_count <= COMPLETION_VALUES_MAX &&
                        read.text_length_bytes <= COMPLETION_TEXT_BYTES_MAX);
            assert_int_equal(read.text[read.text_length_bytes], '\0');
            assert_true(read.row_count > 0 && read.row_count <= COMPLETION_TOGETHER_MAX);
            assert_int_equal(read.value_count % read.row_count, 0);
            if (read.kind == COMPLETION_CHILD)
                assert_true(read.child_count > 0 && read.value_count % read.child_count == 0);
            taken++;
        }
        assert_true(status == -EAGAIN || status == -EBADMSG);
        refused += status == -EBADMSG;
        close_completion(ends);
    }
    assert_true(refused > 1000 && taken > 1000);
}

static void orders_arrive(void **state)
{
    struct pipe_ends ends;
    struct control order, sent = {CONTROL_FREE, 3, UINT64_C(1) << 40};
    open_ends(&ends);
    for (uint32_t round = 0; round < 1000; round++) {
        sent.kind = 1 + round % (CONTROL_KINDS - 1);
        sent.value++;
        assert_int_equal(control_write(&ends.writer, &sent), 0);
        assert_int_equal(control_read(&ends.reader, &order), 0);
        assert_int_equal(order.kind, sent.kind);
        assert_int_equal(order.segment, 3);
        assert_int_equal(order.value, sent.value);
    }
    assert_int_equal(control_read(&ends.reader, &order), -EAGAIN);
    while (control_write(&ends.writer, &sent) == 0)
        ;
    assert_int_equal(control_write(&ends.writer, &sent), -EAGAIN);
    void *payload;
    open_ends(&ends);
    assert_int_equal(spsc_reserve(&ends.writer, CONTROL_KINDS, 16, &payload), 0);
    spsc_commit(&ends.writer);
    assert_int_equal(control_read(&ends.reader, &order), -EBADMSG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_come_out_as_they_went_in),
        cmocka_unit_test(uncommitted_records_do_not_exist),
        cmocka_unit_test(limits_are_said),
        cmocka_unit_test(a_bad_index_or_header_breaks_the_ring),
        cmocka_unit_test(records_keep_their_fields),
        cmocka_unit_test(records_are_shared),
        cmocka_unit_test(long_texts_are_cut_between_letters),
        cmocka_unit_test(flipped_bits_are_noticed),
        cmocka_unit_test(crooked_records_are_refused),
        cmocka_unit_test(crooked_rows_are_refused),
        cmocka_unit_test(hostile_bytes_crash_nobody),
        cmocka_unit_test(orders_arrive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
