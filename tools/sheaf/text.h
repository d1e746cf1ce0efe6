/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growing strings, JSON in them, and nearest words for suggestions.
 *
 * Running out of memory in these ends the program with one line: the tool has nothing better to do then, and what was
 * committed stays committed.
 */
#ifndef SHEAF_TOOL_TEXT_H
#define SHEAF_TOOL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sheaf/status.h>

/* All zero is empty. `data` is NUL-terminated once something was added. */
struct text {
    char *data;
    size_t length, capacity;
};

void text_add(struct text *text, const char *bytes, size_t length);
void text_adds(struct text *text, const char *string);
void text_addf(struct text *text, const char *format, ...) SHEAF_PRINTF(2, 3);
/* Empties it and keeps the memory. */
void text_clear(struct text *text);
void text_free(struct text *text);
/* The string, never NULL. */
const char *text_string(const struct text *text);

/*
 * A JSON string with its quotes. Names are bytes: what is not UTF-8 is written as \udcXX, one escape a byte, which is
 * valid JSON syntax and what Python reads back to the same bytes by os.fsencode.
 */
void text_add_json(struct text *text, const char *bytes, size_t length);
/* `,"key":"value"`, or without the comma after `{` or `[`. */
void text_add_member(struct text *text, const char *key, const char *value);
void text_add_member_number(struct text *text, const char *key, uint64_t value);

/* A list of strings, owned. All zero is empty. */
struct text_list {
    char **items;
    size_t count, capacity;
};
void text_list_add(struct text_list *list, const char *string);
void text_list_free(struct text_list *list);

/* malloc and strdup that do not return NULL. */
void *must_allocate(size_t bytes);
void *must_resize(void *memory, size_t bytes);
char *must_copy(const char *string);

/* The word of a NULL-terminated list nearest to `word`, if it is near enough to be meant; else NULL. */
const char *text_nearest(const char *word, const char *const *words);

#endif
