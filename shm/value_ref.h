/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a value is named in shared memory: 32 bytes that say where its bytes lie, never a pointer.
 *
 * Payload memory is a set of numbered segments (one memfd each). Segment 0 does not exist: it means the value is in the
 * reference itself. A list is a block of references (struct list_block) in some segment.
 * A reference read from another process is input: check it with segment bounds before use.
 */
#ifndef SHM_VALUE_REF_H
#define SHM_VALUE_REF_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include <sheaf/value.h>

#define VALUE_INLINE 0u /* segment of values that need no memory: bool, i64, f64, empty text */

struct value_ref {
    uint32_t kind;    /* sheaf_kind */
    uint16_t segment; /* VALUE_INLINE or the number of a payload segment */
    uint16_t prefix;  /* bytes before `offset` that describe the data: media type or path (NUL-terminated), struct
                         sheaf_tensor */
    uint64_t offset;  /* of the data in its segment; inline: the bits of the scalar */
    uint64_t length;  /* bytes of data; for a list its elements; inline: 0 */
    uint64_t hash;    /* XXH3 of the data with --integrity, else 0 */
};
static_assert(sizeof(struct value_ref) == 32, "part of the shared layout");

/* Whether every value of a kind is in its reference. */
static inline bool value_is_scalar(sheaf_kind kind)
{
    return kind == SHEAF_BOOL || kind == SHEAF_I64 || kind == SHEAF_F64;
}

/*
 * What stands in the `prefix` bytes before `offset`, which begin 8-byte aligned:
 *   bytes    the media type, NUL-terminated; prefix 0: none
 *   tensor   struct sheaf_tensor
 *   file     struct file_prefix, then the path, NUL-terminated. Without FILE_IN_MEMORY no data stands at `offset`,
 * which then may be the end of the segment; `length` is the size of the file in both cases
 */
#define FILE_IN_MEMORY 1u
struct file_prefix {
    uint64_t source; /* names the source to whoever can hand out its descriptor; 0: there is none */
    uint32_t flags;
    uint32_t path_bytes; /* with the NUL */
};
static_assert(sizeof(struct file_prefix) == 16, "part of the shared layout");

/* A list in shared memory: this header, `count` references, then `error_count` struct list_error_ref. 64-byte aligned.
 */
struct list_block {
    uint32_t count;
    uint32_t error_count;
    uint64_t bytes; /* of the whole block */
};
static_assert(sizeof(struct list_block) == 16, "part of the shared layout");

struct list_error_ref {
    uint64_t ordinal;
    uint32_t class_id;
    uint32_t message_length;
    uint64_t message_offset; /* in the segment of the list */
};
static_assert(sizeof(struct list_error_ref) == 24, "part of the shared layout");

#endif
