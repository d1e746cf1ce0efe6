/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UTF-8, code point by code point, for the text operators. Pure functions; every one is safe on any bytes.
 */
#ifndef SHEAF_OPS_PAGE_UTF8_H
#define SHEAF_OPS_PAGE_UTF8_H

#include <stddef.h>
#include <stdint.h>

#define UTF8_REPLACEMENT 0xFFFDu

/* Reads the code point at `text` (length > 0) and sets `*ret_bytes` to its length. What is not UTF-8 (overlong forms,
 * surrogates and values above U+10FFFF included) reads as U+FFFD, one byte long, and clears `*ret_valid`. */
static inline uint32_t utf8_read(const char *text, size_t length, uint32_t *ret_bytes, int *ret_valid)
{
    const unsigned char *bytes = (const unsigned char *)text;
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (bytes[0] < 0x80) {
        *ret_bytes = 1;
        return bytes[0];
    }
    uint32_t count = bytes[0] >= 0xF0 ? 4 : bytes[0] >= 0xE0 ? 3 : 2;
    if (bytes[0] >= 0xC2 && bytes[0] <= 0xF4 && count <= length) {
        uint32_t code = bytes[0] & (0x7Fu >> count), at = 1;
        while (at < count && (bytes[at] & 0xC0) == 0x80)
            code = code << 6 | (bytes[at++] & 0x3F);
        if (at == count && code >= least[count] && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF)) {
            *ret_bytes = count;
            return code;
        }
    }
    *ret_bytes = 1;
    *ret_valid = 0;
    return UTF8_REPLACEMENT;
}

/* The same for text known to be UTF-8 (everything in a page_content is). */
static inline uint32_t utf8_next(const char *text, size_t length, uint32_t *ret_bytes)
{
    int valid;
    return utf8_read(text, length, ret_bytes, &valid);
}

/* The last code point of text[0..length), length > 0; `*ret_bytes` its length. */
static inline uint32_t utf8_last(const char *text, size_t length, uint32_t *ret_bytes)
{
    size_t at = length - 1;
    while (at > 0 && length - at < 4 && ((unsigned char)text[at] & 0xC0) == 0x80)
        at--;
    return utf8_next(text + at, length - at, ret_bytes);
}

/* Writes a code point, at most 4 bytes; what is no Unicode scalar value is written as U+FFFD. Returns the length. */
static inline uint32_t utf8_write(char *out, uint32_t code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xC0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
        code = UTF8_REPLACEMENT;
    if (code < 0x10000) {
        out[0] = (char)(0xE0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3F));
        out[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3F));
    out[2] = (char)(0x80 | (code >> 6 & 0x3F));
    out[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

/* Length of the leading part of `text` that is ASCII. */
static inline size_t utf8_ascii_prefix(const char *text, size_t length)
{
    size_t at = 0;
    while (length - at >= 8) {
        uint64_t word;
        __builtin_memcpy(&word, text + at, 8);
        if (word & 0x8080808080808080u)
            break;
        at += 8;
    }
    while (at < length && (unsigned char)text[at] < 0x80)
        at++;
    return at;
}

static inline int utf8_valid(const char *text, size_t length)
{
    int valid = 1;
    for (size_t at = 0; at < length && valid;) {
        at += utf8_ascii_prefix(text + at, length - at);
        uint32_t bytes = 0;
        if (at < length)
            utf8_read(text + at, length - at, &bytes, &valid);
        at += bytes;
    }
    return valid;
}

#endif
