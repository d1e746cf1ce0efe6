/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: a kind and any bytes as the record of a worker, with the checksum that they should have. What is taken
 * for a record is written again, and then reads the same. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shm/completion_ring.c" /* for the checksum, which nobody else may know */

enum { RING_BYTES = 1 << 14 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A ring in memory of its own, so that a look beyond it is seen. */
struct pipe {
    shared_u64 write_index, read_index;
    struct spsc_ring ring;
    struct spsc_writer writer;
    struct completion_reader reader;
};

static void pipe_open(struct pipe *pipe)
{
    *pipe = (struct pipe){.ring.capacity_bytes = RING_BYTES, .ring.data = calloc(1, RING_BYTES)};
    pipe->ring.write_index = &pipe->write_index;
    pipe->ring.read_index = &pipe->read_index;
    spsc_writer_open(&pipe->writer, &pipe->ring);
    assert(pipe->ring.data && completion_reader_open(&pipe->reader, &pipe->ring) == 0);
}

static void pipe_close(struct pipe *pipe)
{
    completion_reader_close(&pipe->reader);
    free(pipe->ring.data);
}

static void put(struct pipe *pipe, uint32_t kind, const uint8_t *bytes, uint32_t length_bytes)
{
    void *payload;
    assert(spsc_reserve(&pipe->writer, kind, length_bytes, &payload) == 0);
    memcpy(payload, bytes, length_bytes);
    if (length_bytes >= sizeof(struct completion_head)) {
        struct completion_head *head = payload;
        head->checksum = 0;
        head->checksum = checksum_of(kind, payload, length_bytes);
    }
    spsc_commit(&pipe->writer);
}

static void expect_same(const struct completion *a, const struct completion *b)
{
    assert(a->kind == b->kind && a->grain == b->grain && a->number == b->number && a->ordinal == b->ordinal &&
           a->child_count == b->child_count && a->run_ns == b->run_ns && a->key == b->key && a->scope == b->scope &&
           a->class_id == b->class_id && a->level == b->level && a->rows_run == b->rows_run && a->closed == b->closed &&
           a->row_count == b->row_count && a->value_count == b->value_count &&
           a->text_length_bytes == b->text_length_bytes);
    assert(memcmp(a->values, b->values, a->value_count * sizeof *a->values) == 0);
    assert(memcmp(a->others, b->others, (a->row_count - 1) * sizeof *a->others) == 0);
    assert(memcmp(a->text, b->text, a->text_length_bytes) == 0 && a->text[a->text_length_bytes] == '\0');
}

static int write_again(struct spsc_writer *writer, const struct completion *record)
{
    struct completion_part parts[COMPLETION_TOGETHER_MAX];
    struct completion row = completion_first_row(record), shared = *record;
    for (uint32_t at = 0; at < record->row_count; at++) {
        if (at > 0)
            completion_next_row(record, &row, at);
        parts[at] = (struct completion_part){dispatch_name(row.grain, row.number), row.values};
    }
    shared.value_count = row.value_count;
    return completion_write_rows(writer, &shared, parts, record->row_count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1 || size - 1 > spsc_payload_max(RING_BYTES))
        return 0;
    struct pipe first, second;
    struct completion record, again;
    pipe_open(&first);
    pipe_open(&second);
    put(&first, 1 + data[0] % COMPLETION_KINDS, data + 1, (uint32_t)size - 1);
    int status = completion_read(&first.reader, &record);
    assert(status == 0 || status == -EBADMSG);
    if (status == 0) {
        assert(write_again(&second.writer, &record) == 0);
        spsc_commit(&second.writer);
        assert(completion_read(&second.reader, &again) == 0);
        expect_same(&again, &record);
    }
    assert(completion_read(&first.reader, &record) == (status == 0 ? -EAGAIN : -EBADMSG));
    pipe_close(&first);
    pipe_close(&second);
    return 0;
}
