/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal of an output tree: an append-only file of checksummed records. A root's files count only when it names
 * them.
 *
 * Each record is a frame and a text. The text of a root is its description (one JSON line), its manifest line, and its
 * error lines; nothing but the frame is looked at when a journal is opened, so that a million records take a second.
 * The frame's checksum covers everything after it. A record that was torn by a crash ends the file and is cut; a record
 * that was damaged later is passed over by searching the next good one: its root is simply done again.
 */
#ifndef SRC_IO_TREE_JOURNAL_H
#define SRC_IO_TREE_JOURNAL_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JOURNAL_MAGIC 0x314c4a53u /* "SJL1" */
#define JOURNAL_TEXT_BYTES_MAX (256u << 20)

enum journal_kind { JOURNAL_HEADER = 1, JOURNAL_ROOT, JOURNAL_RETRACT };

/* What a root's record says; part of the file format. RETRACTED: its files are about to be replaced and no longer
 * count. */
enum journal_state { JOURNAL_OK = 0, JOURNAL_PARTIAL, JOURNAL_FILTERED, JOURNAL_FAILED, JOURNAL_RETRACTED };

/* Little-endian. */
struct journal_frame {
    uint32_t magic;
    uint32_t text_bytes;
    uint64_t checksum; /* XXH3-64 of what follows here, the text included, seeded with text_bytes */
    uint64_t key;      /* of the source's path, see journal_key; header: 0 */
    uint8_t kind;      /* enum journal_kind */
    uint8_t state;     /* enum journal_state */
    uint8_t reserved[6];
};
static_assert(sizeof(struct journal_frame) == 32, "part of the file format");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "frames are written as they lie in memory");

/* A growing byte string; all zero is empty. */
struct buffer {
    char *bytes;
    size_t length, capacity;
};
int buffer_append(struct buffer *buffer, const void *bytes, size_t length);
void buffer_clear(struct buffer *buffer);

/* XXH3-64 of the path's bytes. */
uint64_t journal_key(const char *path);

/* Appends a record whose text is the parts one after the other, each given a line end where it has none. NULL and empty
 * parts are left out. -ENOMEM, or -E2BIG for a text over the cap. */
int journal_append(struct buffer *buffer, enum journal_kind kind, enum journal_state state, uint64_t key,
                   const char *const *parts, size_t part_count);

/* Reads the record at `offset`: 0 and its text, NUL-terminated (free it), or a negative errno; -EBADMSG: damaged. */
int journal_read(int fd, uint64_t offset, struct journal_frame *ret_frame, char **ret_text);

struct journal_scan {
    uint64_t end_bytes;     /* after the last good record: what lies beyond is torn */
    uint64_t damaged_bytes; /* passed over between good records */
    uint64_t record_count;
};
/* Calls `found` for each good record in order; the text is NUL-terminated and valid in the call. What `found` returns
 * other than 0 ends the scan. */
int journal_scan(int fd,
                 int (*found)(void *cookie, uint64_t offset, const struct journal_frame *frame, const char *text),
                 void *cookie, struct journal_scan *ret_scan);

#endif
