/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/spsc_ring.h"

#include <errno.h>
#include <string.h>

#include "shm/crash_point.h"

#define FILLER 0u

/* Bytes a record takes: header and payload, rounded up to 8. */
static uint64_t record_bytes(uint64_t length_bytes)
{
    return (sizeof(struct spsc_header) + length_bytes + 7) & ~UINT64_C(7);
}

static uint64_t bytes_to_end(const struct spsc_ring *ring, uint64_t position)
{
    return ring->capacity_bytes - (position & (ring->capacity_bytes - 1));
}

static unsigned char *data_at(const struct spsc_ring *ring, uint64_t position)
{
    return ring->data + (position & (ring->capacity_bytes - 1));
}

static void put_header(const struct spsc_ring *ring, uint64_t position, uint32_t length_bytes, uint32_t kind)
{
    struct spsc_header header = {length_bytes, kind};
    memcpy(data_at(ring, position), &header, sizeof(header));
}

static void check_ring(const struct spsc_ring *ring)
{
    assert(ring->capacity_bytes >= SPSC_RING_BYTES_MIN && ring->capacity_bytes <= SPSC_RING_BYTES_MAX);
    assert((ring->capacity_bytes & (ring->capacity_bytes - 1)) == 0 && ((uintptr_t)ring->data & 7) == 0);
    (void)ring;
}

void spsc_writer_open(struct spsc_writer *writer, const struct spsc_ring *ring)
{
    check_ring(ring);
    uint64_t written = load_acquire_u64(ring->write_index);
    *writer = (struct spsc_writer){*ring, written, written, load_acquire_u64(ring->read_index)};
}

void spsc_reader_open(struct spsc_reader *reader, const struct spsc_ring *ring)
{
    check_ring(ring);
    uint64_t read = load_acquire_u64(ring->read_index);
    *reader = (struct spsc_reader){*ring, read, read, read, (read & 7) != 0};
}

void spsc_ring_reset(const struct spsc_ring *ring)
{
    check_ring(ring);
    store_release_u64(ring->write_index, 0);
    store_release_u64(ring->read_index, 0);
}

/* Whether `bytes` more fit, by the reader's index if need be. 0, -EAGAIN, -EBADMSG. */
static int find_room(struct spsc_writer *writer, uint64_t bytes)
{
    uint64_t capacity = writer->ring.capacity_bytes;
    if (writer->reserved - writer->read_seen + bytes <= capacity)
        return 0;
    uint64_t read = load_acquire_u64(writer->ring.read_index); /* partner: spsc_release */
    if (read > writer->committed || read < writer->read_seen)
        return -EBADMSG;
    writer->read_seen = read;
    return writer->reserved - read + bytes <= capacity ? 0 : -EAGAIN;
}

int spsc_reserve(struct spsc_writer *writer, uint32_t kind, uint32_t length_bytes, void **ret_payload)
{
    assert(kind != FILLER);
    if (length_bytes > spsc_payload_max(writer->ring.capacity_bytes))
        return -EMSGSIZE;
    uint64_t bytes = record_bytes(length_bytes);
    uint64_t to_end = bytes_to_end(&writer->ring, writer->reserved);
    uint64_t filler = bytes > to_end ? to_end : 0;
    int status = find_room(writer, filler + bytes);
    if (status)
        return status;
    if (filler)
        put_header(&writer->ring, writer->reserved, (uint32_t)(filler - sizeof(struct spsc_header)), FILLER);
    writer->reserved += filler;
    put_header(&writer->ring, writer->reserved, length_bytes, kind);
    *ret_payload = data_at(&writer->ring, writer->reserved) + sizeof(struct spsc_header);
    writer->reserved += bytes;
    return 0;
}

void spsc_abandon(struct spsc_writer *writer)
{
    writer->reserved = writer->committed;
}

void spsc_commit(struct spsc_writer *writer)
{
    SHEAF_CRASH_POINT("spsc.filled");
    if (writer->reserved == writer->committed)
        return;
    writer->committed = writer->reserved;
    store_release_u64(writer->ring.write_index, writer->committed); /* C6; partner: look_at_index */
    SHEAF_CRASH_POINT("spsc.committed");
}

/* Refresh what is known of the writer. True when there is something to read. */
static bool look_at_index(struct spsc_reader *reader)
{
    uint64_t written = load_acquire_u64(reader->ring.write_index);
    if (written < reader->write_seen || written - reader->released > reader->ring.capacity_bytes || (written & 7)) {
        reader->broken = true;
        return false;
    }
    reader->write_seen = written;
    return written != reader->position;
}

int spsc_next(struct spsc_reader *reader, struct spsc_header *ret_header, const void **ret_payload)
{
    /* At most one filler stands before a record. */
    for (int look = 0; look < 2 && !reader->broken; look++) {
        if (reader->position == reader->write_seen && !look_at_index(reader))
            return reader->broken ? -EBADMSG : -EAGAIN;
        struct spsc_header header;
        memcpy(&header, data_at(&reader->ring, reader->position), sizeof(header));
        uint64_t bytes = record_bytes(header.length_bytes);
        uint64_t to_end = bytes_to_end(&reader->ring, reader->position);
        if (bytes > to_end || bytes > reader->write_seen - reader->position)
            break;
        if (header.kind != FILLER) {
            if (header.length_bytes > spsc_payload_max(reader->ring.capacity_bytes))
                break;
            *ret_header = header;
            *ret_payload = data_at(&reader->ring, reader->position) + sizeof(header);
            reader->position += bytes;
            return 0;
        }
        if (bytes != to_end)
            break;
        reader->position += bytes;
    }
    reader->broken = true;
    return -EBADMSG;
}

bool spsc_pending(struct spsc_reader *reader)
{
    return reader->broken || reader->position != reader->write_seen || look_at_index(reader) || reader->broken;
}

const void *spsc_ahead(const struct spsc_reader *reader, uint32_t length_bytes, uint32_t records)
{
    uint64_t bytes = record_bytes(length_bytes), position = reader->position + records * bytes;
    bool whole = bytes <= bytes_to_end(&reader->ring, position); /* else a filler stands there */
    if (position + bytes > reader->write_seen || !whole)
        return NULL;
    return data_at(&reader->ring, position) + sizeof(struct spsc_header);
}

void spsc_release(struct spsc_reader *reader)
{
    if (reader->released == reader->position)
        return;
    reader->released = reader->position;
    store_release_u64(reader->ring.read_index, reader->released); /* partner: find_room */
    SHEAF_CRASH_POINT("spsc.released");
}
