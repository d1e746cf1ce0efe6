/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is freed as a whole: a Program, a Plan, or the scratch of one compilation. Blocks are zeroed and aligned
 * for any type. One thread at a time.
 */
#ifndef SRC_PROGRAM_MEMORY_H
#define SRC_PROGRAM_MEMORY_H

#include <stddef.h>

struct memory_block;

struct memory {
    struct memory_block *blocks;
    size_t used_bytes, block_bytes; /* of the newest block */
};

/* `count` zeroed elements, or NULL. Zero elements give a valid pointer. */
void *memory_array(struct memory *memory, size_t count, size_t element_bytes);
/* A copy of a string, or of its first `length` bytes, NUL-terminated; NULL without memory. */
char *memory_string(struct memory *memory, const char *text);
char *memory_bytes(struct memory *memory, const char *text, size_t length);
/* printf into the memory. */
char *memory_print(struct memory *memory, const char *format, ...) __attribute__((format(printf, 2, 3)));
void memory_free(struct memory *memory);

#endif
