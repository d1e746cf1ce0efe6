/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growing buffer of bytes whose memory comes from whoever owns it: malloc, or the host's shared memory for a value.
 * Appends never fail visibly; `failed` says afterwards whether all went in. Single-threaded.
 */
#ifndef SHEAF_OPS_ASSEMBLE_BUFFER_H
#define SHEAF_OPS_ASSEMBLE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct buffer {
    char *data;
    size_t length, capacity;
    bool failed;
    /* Resizes `data` (NULL at first) to `bytes`; NULL on failure, then the old memory is still valid. NULL: realloc. */
    void *(*resize)(void *cookie, void *data, size_t bytes);
    void *cookie;
};

/* Makes room for `more` bytes; false (and `failed`) when there is none. */
bool buffer_reserve(struct buffer *buffer, size_t more);
/* Frees memory that came from realloc. */
void buffer_fini(struct buffer *buffer);

static inline void buffer_append(struct buffer *buffer, const char *data, size_t bytes)
{
    if (bytes && (buffer->capacity - buffer->length >= bytes || buffer_reserve(buffer, bytes))) {
        memcpy(buffer->data + buffer->length, data, bytes);
        buffer->length += bytes;
    }
}

static inline void buffer_append_char(struct buffer *buffer, char c)
{
    if (buffer->length < buffer->capacity || buffer_reserve(buffer, 1))
        buffer->data[buffer->length++] = c;
}

static inline void buffer_append_text(struct buffer *buffer, const char *text)
{
    buffer_append(buffer, text, strlen(text));
}

void buffer_append_unsigned(struct buffer *buffer, uint64_t value);
/* With two decimals and no trailing zeros: "12.5", "-0.07", "3". The same bytes on every machine. */
void buffer_append_hundredths(struct buffer *buffer, float value);
/* What stands between the quotes of a JSON string, UTF-8 as it is. `text` must be UTF-8. */
void buffer_append_json_inside(struct buffer *buffer, const char *text, size_t bytes);
/* With the quotes. */
void buffer_append_json(struct buffer *buffer, const char *text, size_t bytes);

#endif
