/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *must_resize(void *memory, size_t bytes)
{
    void *grown = realloc(memory, bytes == 0 ? 1 : bytes);
    if (grown == NULL) {
        fprintf(stderr, "sheaf: memory: %zu bytes cannot be had: out of memory; try a smaller --memory\n", bytes);
        exit(1);
    }
    return grown;
}

void *must_allocate(size_t bytes)
{
    return must_resize(NULL, bytes);
}

char *must_copy(const char *string)
{
    size_t bytes = strlen(string) + 1;
    return memcpy(must_allocate(bytes), string, bytes);
}

void text_add(struct text *text, const char *bytes, size_t length)
{
    if (text->length + length + 1 > text->capacity) {
        text->capacity = (text->length + length + 1) * 2;
        text->data = must_resize(text->data, text->capacity);
    }
    if (length > 0)
        memcpy(text->data + text->length, bytes, length);
    text->length += length;
    text->data[text->length] = '\0';
}

void text_adds(struct text *text, const char *string)
{
    text_add(text, string, strlen(string));
}

void text_addf(struct text *text, const char *format, ...)
{
    va_list values, again;
    va_start(values, format);
    va_copy(again, values);
    int length = vsnprintf(NULL, 0, format, values);
    va_end(values);
    if (length > 0) {
        char *line = must_allocate((size_t)length + 1);
        vsnprintf(line, (size_t)length + 1, format, again);
        text_add(text, line, (size_t)length);
        free(line);
    }
    va_end(again);
}

void text_clear(struct text *text)
{
    text->length = 0;
    if (text->data != NULL)
        text->data[0] = '\0';
}

void text_free(struct text *text)
{
    free(text->data);
    *text = (struct text){0};
}

const char *text_string(const struct text *text)
{
    return text->data == NULL ? "" : text->data;
}

/* Length of the valid UTF-8 sequence at `bytes`, or 0: no overlong forms, no surrogates, nothing above U+10FFFF. */
static size_t utf8_length(const unsigned char *bytes, size_t left)
{
    unsigned char lead = bytes[0];
    if (lead < 0x80)
        return 1;
    size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || length > left)
        return 0;
    for (size_t i = 1; i < length; i++) {
        if ((bytes[i] & 0xc0) != 0x80)
            return 0;
    }
    if (lead == 0xe0 && bytes[1] < 0xa0) /* overlong */
        return 0;
    if (lead == 0xed && bytes[1] > 0x9f) /* surrogates */
        return 0;
    if (lead == 0xf0 && bytes[1] < 0x90) /* overlong */
        return 0;
    if (lead == 0xf4 && bytes[1] > 0x8f) /* above U+10FFFF */
        return 0;
    return length;
}

void text_add_json(struct text *text, const char *bytes, size_t length)
{
    const unsigned char *at = (const unsigned char *)bytes, *end = at + length;
    text_add(text, "\"", 1);
    while (at < end) {
        size_t step = utf8_length(at, (size_t)(end - at));
        if (step == 0) {
            text_addf(text, "\\udc%02x", *at);
            step = 1;
        } else if (*at == '"' || *at == '\\') {
            text_addf(text, "\\%c", *at);
        } else if (*at == '\n') {
            text_adds(text, "\\n");
        } else if (*at < 0x20 || *at == 0x7f) {
            text_addf(text, "\\u%04x", *at);
        } else {
            text_add(text, (const char *)at, step);
        }
        at += step;
    }
    text_add(text, "\"", 1);
}

static void add_key(struct text *text, const char *key)
{
    char last = text->length > 0 ? text->data[text->length - 1] : '{';
    if (last != '{' && last != '[')
        text_add(text, ",", 1);
    text_add_json(text, key, strlen(key));
    text_add(text, ":", 1);
}

void text_add_member(struct text *text, const char *key, const char *value)
{
    add_key(text, key);
    text_add_json(text, value, strlen(value));
}

void text_add_member_number(struct text *text, const char *key, uint64_t value)
{
    add_key(text, key);
    text_addf(text, "%llu", (unsigned long long)value);
}

void text_list_add(struct text_list *list, const char *string)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity == 0 ? 8 : list->capacity * 2;
        list->items = must_resize(list->items, list->capacity * sizeof *list->items);
    }
    list->items[list->count++] = must_copy(string);
}

void text_list_free(struct text_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (struct text_list){0};
}

/* Edits (insert, delete, replace) between two words; words longer than the row are never near. */
static size_t edit_distance(const char *left, const char *right)
{
    size_t row[65], right_length = strlen(right);
    if (right_length >= sizeof row / sizeof *row)
        return SIZE_MAX;
    for (size_t j = 0; j <= right_length; j++)
        row[j] = j;
    for (size_t i = 1; left[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= right_length; j++) {
            size_t replace = diagonal + (left[i - 1] != right[j - 1]);
            size_t shift = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = replace < shift ? replace : shift;
        }
    }
    return row[right_length];
}

const char *text_nearest(const char *word, const char *const *words)
{
    const char *best = NULL;
    size_t best_distance = strlen(word) / 3 + 2; /* a third of the letters may be wrong */
    for (; *words != NULL; words++) {
        size_t distance = edit_distance(word, *words);
        if (distance < best_distance) {
            best_distance = distance;
            best = *words;
        }
    }
    return best;
}
