/* SPDX-License-Identifier: Apache-2.0 */
#include "program/memory.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 16 * 1024, ALIGN_BYTES = 16 };

struct memory_block {
    struct memory_block *next;
    size_t reserved;
    unsigned char bytes[];
};
_Static_assert(offsetof(struct memory_block, bytes) % ALIGN_BYTES == 0, "blocks start aligned");

void *memory_array(struct memory *memory, size_t count, size_t element_bytes)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, element_bytes, &bytes) || bytes > SIZE_MAX / 2)
        return NULL;
    bytes = (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    if (bytes == 0)
        bytes = ALIGN_BYTES;
    if (!memory->blocks || memory->block_bytes - memory->used_bytes < bytes) {
        size_t block_bytes = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        struct memory_block *block = calloc(1, sizeof(*block) + block_bytes);
        if (!block)
            return NULL;
        block->next = memory->blocks;
        memory->blocks = block;
        memory->block_bytes = block_bytes;
        memory->used_bytes = 0;
    }
    void *array = memory->blocks->bytes + memory->used_bytes;
    memory->used_bytes += bytes;
    return array;
}

char *memory_bytes(struct memory *memory, const char *text, size_t length)
{
    char *copy = memory_array(memory, length + 1, 1);
    if (copy && length > 0)
        memcpy(copy, text, length);
    return copy;
}

char *memory_string(struct memory *memory, const char *text)
{
    return memory_bytes(memory, text, strlen(text));
}

char *memory_print(struct memory *memory, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = NULL;
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0)
        return NULL;
    char *copy = memory_bytes(memory, text, (size_t)length);
    free(text);
    return copy;
}

void memory_free(struct memory *memory)
{
    while (memory->blocks) {
        struct memory_block *next = memory->blocks->next;
        free(memory->blocks);
        memory->blocks = next;
    }
    memory->used_bytes = memory->block_bytes = 0;
}
