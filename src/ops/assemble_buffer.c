/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/assemble_buffer.h"

#include <math.h>
#include <stdlib.h>

bool buffer_reserve(struct buffer *buffer, size_t more)
{
    if (buffer->failed || more > SIZE_MAX / 4 - buffer->length) {
        buffer->failed = true;
        return false;
    }
    size_t need = buffer->length + more;
    if (need <= buffer->capacity)
        return true;
    size_t next = buffer->capacity + buffer->capacity / 2;
    if (next < need)
        next = need < 512 ? 512 : need + need / 4;
    void *moved = buffer->resize ? buffer->resize(buffer->cookie, buffer->data, next) : realloc(buffer->data, next);
    if (!moved) {
        buffer->failed = true;
        return false;
    }
    buffer->data = moved;
    buffer->capacity = next;
    return true;
}

void buffer_fini(struct buffer *buffer)
{
    if (!buffer->resize)
        free(buffer->data);
    *buffer = (struct buffer){0};
}

void buffer_append_unsigned(struct buffer *buffer, uint64_t value)
{
    char digits[20];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + value % 10);
    while (value /= 10);
    buffer_append(buffer, digits + at, sizeof digits - at);
}

void buffer_append_hundredths(struct buffer *buffer, float value)
{
    double scaled = floor((double)value * 100 + 0.5);
    if (!(scaled > -1e15 && scaled < 1e15))
        scaled = 0;
    int64_t hundredths = (int64_t)scaled;
    if (hundredths < 0)
        buffer_append_char(buffer, '-');
    uint64_t magnitude = (uint64_t)(hundredths < 0 ? -hundredths : hundredths);
    buffer_append_unsigned(buffer, magnitude / 100);
    uint32_t part = (uint32_t)(magnitude % 100);
    if (part == 0)
        return;
    buffer_append_char(buffer, '.');
    buffer_append_char(buffer, (char)('0' + part / 10));
    if (part % 10)
        buffer_append_char(buffer, (char)('0' + part % 10));
}

static void append_escape(struct buffer *buffer, unsigned char c)
{
    static const char hexadecimal[] = "0123456789abcdef";
    static const char names[] = "\bb\tt\nn\ff\rr\"\"\\\\";
    for (const char *name = names; *name; name += 2) {
        if (c == (unsigned char)*name) {
            char pair[2] = {'\\', name[1]};
            buffer_append(buffer, pair, 2);
            return;
        }
    }
    char code[6] = {'\\', 'u', '0', '0', hexadecimal[c >> 4], hexadecimal[c & 15]};
    buffer_append(buffer, code, 6);
}

void buffer_append_json_inside(struct buffer *buffer, const char *text, size_t bytes)
{
    size_t from = 0;
    for (size_t at = 0; at < bytes; at++) {
        unsigned char c = (unsigned char)text[at];
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7F)
            continue;
        buffer_append(buffer, text + from, at - from);
        append_escape(buffer, c);
        from = at + 1;
    }
    buffer_append(buffer, text + from, bytes - from);
}

void buffer_append_json(struct buffer *buffer, const char *text, size_t bytes)
{
    buffer_append_char(buffer, '"');
    buffer_append_json_inside(buffer, text, bytes);
    buffer_append_char(buffer, '"');
}
