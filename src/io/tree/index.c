/* SPDX-License-Identifier: Apache-2.0 */
#include "io/tree/index.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define CAPACITY_FIRST 1024u

/* The entry of `key`, or the empty one where it belongs. */
static struct index_entry *place_of(const struct index *index, uint64_t key)
{
    size_t at = (size_t)key & (index->capacity - 1);

    while (index->entries[at].key != 0 && index->entries[at].key != key)
        at = (at + 1) & (index->capacity - 1);
    return &index->entries[at];
}

/* Keys are hashes already; 0 marks an empty entry, so it goes with 1. */
static uint64_t stored_key(uint64_t key)
{
    return key == 0 ? 1 : key;
}

static int grow(struct index *index)
{
    struct index grown = {.capacity = index->capacity == 0 ? CAPACITY_FIRST : index->capacity * 2,
                          .count = index->count};

    grown.entries = calloc(grown.capacity, sizeof *grown.entries);
    if (grown.entries == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < index->capacity; i++)
        if (index->entries[i].key != 0)
            *place_of(&grown, index->entries[i].key) = index->entries[i];
    free(index->entries);
    *index = grown;
    return 0;
}

int index_set(struct index *index, uint64_t key, uint64_t value)
{
    if (index->count + 1 > index->capacity / 3 * 2) {
        int rc = grow(index);

        if (rc < 0)
            return rc;
    }
    struct index_entry *entry = place_of(index, stored_key(key));
    if (entry->key == 0)
        index->count++;
    *entry = (struct index_entry){stored_key(key), value};
    assert(index->count < index->capacity);
    return 0;
}

bool index_get(const struct index *index, uint64_t key, uint64_t *ret_value)
{
    if (index->capacity == 0)
        return false;
    const struct index_entry *entry = place_of(index, stored_key(key));
    if (entry->key == 0)
        return false;
    *ret_value = entry->value;
    return true;
}

void index_clear(struct index *index)
{
    free(index->entries);
    *index = (struct index){0};
}
