/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/value_hash.h"

#include <stddef.h>

#include <sheaf/value.h>
#include <xxhash.h>

uint64_t value_hash(const void *start, uint64_t bytes)
{
    uint64_t hash = XXH3_64bits(start, bytes);
    return hash != 0 ? hash : 1;
}

/* Bytes of data that travel with a file: none when readers get it by descriptor. */
static uint64_t file_bytes(const struct value_ref *ref, value_reader *at, void *context)
{
    const struct file_prefix *prefix = ref->prefix >= sizeof *prefix && ref->offset >= ref->prefix
                                           ? at(context, ref->segment, ref->offset - ref->prefix, sizeof *prefix)
                                           : NULL;
    return prefix != NULL && (__atomic_load_n(&prefix->flags, __ATOMIC_RELAXED) & FILE_IN_MEMORY) == 0 ? 0
                                                                                                       : ref->length;
}

bool value_hash_range(const struct value_ref *ref, value_reader *at, void *context, uint64_t *ret_start,
                      uint64_t *ret_bytes)
{
    uint64_t prefix = 0, bytes = ref->length;
    if (SHEAF_KIND_DEPTH(ref->kind) > 0) {
        const struct list_block *block = at(context, ref->segment, ref->offset, sizeof *block);
        if (block == NULL)
            return false;
        bytes = __atomic_load_n(&block->bytes, __ATOMIC_RELAXED);
    } else {
        prefix = ref->prefix;
        if (SHEAF_KIND_BASE(ref->kind) == SHEAF_FILE)
            bytes = file_bytes(ref, at, context);
    }
    if (prefix > ref->offset || bytes > UINT64_MAX - prefix)
        return false;
    *ret_start = ref->offset - prefix;
    *ret_bytes = prefix + bytes;
    return at(context, ref->segment, *ret_start, *ret_bytes) != NULL;
}

static bool own_hash_holds(const struct value_ref *ref, value_reader *at, void *context)
{
    uint64_t start, bytes;
    return value_hash_range(ref, at, context, &start, &bytes) &&
           value_hash(at(context, ref->segment, start, bytes), bytes) == ref->hash;
}

bool value_hash_holds(const struct value_ref *ref, value_reader *at, void *context, struct value_ref *ret_damaged)
{
    if (ref->segment == VALUE_INLINE || (ref->hash == 0 && SHEAF_KIND_DEPTH(ref->kind) == 0))
        return true;
    if (ref->hash != 0) {
        bool holds = own_hash_holds(ref, at, context);
        if (!holds)
            *ret_damaged = *ref;
        return holds;
    }
    uint64_t bytes = sizeof(struct list_block) + ref->length * sizeof(struct value_ref);
    const struct list_block *block = ref->length <= UINT32_MAX ? at(context, ref->segment, ref->offset, bytes) : NULL;
    const struct value_ref *elements = (const struct value_ref *)(block + 1);
    for (uint64_t i = 0; block != NULL && i < ref->length; i++) {
        if (!value_hash_holds(&elements[i], at, context, ret_damaged)) /* as deep as kinds nest, at most 255 */
            return false;
    }
    return true; /* what cannot be read at all is the reader's to say */
}
