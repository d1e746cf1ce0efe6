/* SPDX-License-Identifier: Apache-2.0 */
#include "io/tree/journal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#define WINDOW_BYTES ((size_t)1 << 20)
#define COVERED_FROM offsetof(struct journal_frame, key)

int buffer_append(struct buffer *buffer, const void *bytes, size_t length)
{
    if (buffer->capacity - buffer->length < length) {
        size_t capacity = (buffer->length + length) * 3 / 2 + 4096;
        char *grown = realloc(buffer->bytes, capacity);

        if (grown == NULL)
            return -ENOMEM;
        buffer->bytes = grown;
        buffer->capacity = capacity;
    }
    if (length > 0)
        memcpy(buffer->bytes + buffer->length, bytes, length);
    buffer->length += length;
    return 0;
}

void buffer_clear(struct buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (struct buffer){0};
}

uint64_t journal_key(const char *path)
{
    return XXH3_64bits(path, strlen(path));
}

/* `record` is a frame and its text, one after the other. */
static uint64_t checksum(const char *record, uint32_t text_bytes)
{
    return XXH3_64bits_withSeed(record + COVERED_FROM, sizeof(struct journal_frame) - COVERED_FROM + text_bytes,
                                text_bytes);
}

static int append_part(struct buffer *buffer, const char *part)
{
    size_t length = part == NULL ? 0 : strlen(part);

    if (length == 0)
        return 0;
    if (length >= JOURNAL_TEXT_BYTES_MAX)
        return -E2BIG;
    int rc = buffer_append(buffer, part, length);
    return rc == 0 && part[length - 1] != '\n' ? buffer_append(buffer, "\n", 1) : rc;
}

int journal_append(struct buffer *buffer, enum journal_kind kind, enum journal_state state, uint64_t key,
                   const char *const *parts, size_t part_count)
{
    struct journal_frame frame = {.magic = JOURNAL_MAGIC, .key = key, .kind = (uint8_t)kind, .state = (uint8_t)state};
    size_t start = buffer->length;
    int rc = buffer_append(buffer, &frame, sizeof frame);

    for (size_t i = 0; i < part_count && rc == 0; i++)
        rc = append_part(buffer, parts[i]);
    size_t text_bytes = rc == 0 ? buffer->length - start - sizeof frame : 0;
    if (rc == 0 && text_bytes > JOURNAL_TEXT_BYTES_MAX)
        rc = -E2BIG;
    if (rc < 0) {
        buffer->length = start;
        return rc;
    }
    frame.text_bytes = (uint32_t)text_bytes;
    memcpy(buffer->bytes + start, &frame, sizeof frame);
    frame.checksum = checksum(buffer->bytes + start, frame.text_bytes);
    memcpy(buffer->bytes + start, &frame, sizeof frame);
    return 0;
}

/* Reads up to `length` bytes: their number, fewer only at the end of the file. */
static ssize_t read_fully(int fd, char *bytes, size_t length, uint64_t offset)
{
    size_t done = 0;

    while (done < length) {
        ssize_t count = pread(fd, bytes + done, length - done, (off_t)(offset + done));

        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return -errno;
        if (count == 0)
            break;
        done += (size_t)count;
    }
    return (ssize_t)done;
}

int journal_read(int fd, uint64_t offset, struct journal_frame *ret_frame, char **ret_text)
{
    struct journal_frame frame;
    ssize_t count = read_fully(fd, (char *)&frame, sizeof frame, offset);

    if (count < 0)
        return (int)count;
    if (count != (ssize_t)sizeof frame || frame.magic != JOURNAL_MAGIC || frame.text_bytes > JOURNAL_TEXT_BYTES_MAX)
        return -EBADMSG;
    char *record = malloc(sizeof frame + frame.text_bytes + 1);
    if (record == NULL)
        return -ENOMEM;
    count = read_fully(fd, record, sizeof frame + frame.text_bytes, offset);
    if (count != (ssize_t)(sizeof frame + frame.text_bytes) || checksum(record, frame.text_bytes) != frame.checksum) {
        free(record);
        return count < 0 ? (int)count : -EBADMSG;
    }
    memmove(record, record + sizeof frame, frame.text_bytes);
    record[frame.text_bytes] = '\0';
    *ret_frame = frame;
    *ret_text = record;
    return 0;
}

/* The part of the file in memory while it is scanned. */
struct window {
    int fd;
    uint64_t base; /* offset in the file of the buffer's first byte */
    size_t at;     /* of the record looked at, in the buffer */
    struct buffer buffer;
};

/* Makes `length` bytes from `at` on available: 1, 0 when the file ends before, or a negative errno. */
static int need(struct window *window, size_t length)
{
    struct buffer *buffer = &window->buffer;
    size_t want = length > WINDOW_BYTES ? length : WINDOW_BYTES;

    if (buffer->length - window->at >= length)
        return 1;
    if (window->at > 0)
        memmove(buffer->bytes, buffer->bytes + window->at, buffer->length - window->at);
    buffer->length -= window->at;
    window->base += window->at;
    window->at = 0;
    if (buffer->capacity < want + 1) { /* and a NUL */
        char *grown = realloc(buffer->bytes, want + 1);

        if (grown == NULL)
            return -ENOMEM;
        buffer->bytes = grown;
        buffer->capacity = want + 1;
    }
    ssize_t count =
        read_fully(window->fd, buffer->bytes + buffer->length, want - buffer->length, window->base + buffer->length);
    if (count < 0)
        return (int)count;
    buffer->length += (size_t)count;
    return buffer->length >= length;
}

/* 1: a whole, good record lies at `at`; 0: not. */
static int check_record(struct window *window, struct journal_frame *ret_frame)
{
    struct journal_frame frame;
    int rc = need(window, sizeof frame);

    if (rc <= 0)
        return rc;
    memcpy(&frame, window->buffer.bytes + window->at, sizeof frame);
    if (frame.magic != JOURNAL_MAGIC || frame.text_bytes > JOURNAL_TEXT_BYTES_MAX)
        return 0;
    rc = need(window, sizeof frame + frame.text_bytes);
    if (rc <= 0)
        return rc;
    if (checksum(window->buffer.bytes + window->at, frame.text_bytes) != frame.checksum)
        return 0;
    *ret_frame = frame;
    return 1;
}

/* Moves `at` to the next place that may be a record: 1, or 0 at the end of the file. */
static int seek_magic(struct window *window)
{
    const uint32_t magic = JOURNAL_MAGIC;
    int rc;

    if (window->at < window->buffer.length)
        window->at++;
    while ((rc = need(window, sizeof(struct journal_frame))) > 0) {
        char *from = window->buffer.bytes + window->at;
        char *found = memmem(from, window->buffer.length - window->at, &magic, sizeof magic);

        if (found != NULL) {
            window->at = (size_t)(found - window->buffer.bytes);
            return 1;
        }
        window->at = window->buffer.length - (sizeof magic - 1);
    }
    return rc;
}

static int call_found(struct window *window, const struct journal_frame *frame,
                      int (*found)(void *, uint64_t, const struct journal_frame *, const char *), void *cookie)
{
    char *text = window->buffer.bytes + window->at + sizeof *frame;
    char kept = text[frame->text_bytes]; /* first byte of the next record, or past the end of what was read */

    text[frame->text_bytes] = '\0';
    int rc = found(cookie, window->base + window->at, frame, text);
    text[frame->text_bytes] = kept;
    return rc;
}

int journal_scan(int fd,
                 int (*found)(void *cookie, uint64_t offset, const struct journal_frame *frame, const char *text),
                 void *cookie, struct journal_scan *ret_scan)
{
    struct window window = {.fd = fd};
    struct journal_scan scan = {0};
    struct journal_frame frame;
    int rc;

    while ((rc = check_record(&window, &frame)) >= 0) {
        if (rc == 0) {
            rc = seek_magic(&window);
            if (rc <= 0)
                break;
            continue;
        }
        uint64_t offset = window.base + window.at;
        rc = call_found(&window, &frame, found, cookie);
        if (rc != 0)
            break;
        scan.damaged_bytes += offset - scan.end_bytes;
        scan.end_bytes = offset + sizeof frame + frame.text_bytes;
        scan.record_count++;
        window.at += sizeof frame + frame.text_bytes;
    }
    buffer_clear(&window.buffer);
    if (rc == 0)
        *ret_scan = scan;
    return rc;
}
