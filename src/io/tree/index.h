/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash table from 64-bit hashes to 64-bit values, 16 bytes an entry at a load of a third to two thirds: what a tree
 * keeps in memory per journalled source. Sources whose hashes agree share an entry; whoever reads the record notices.
 */
#ifndef SRC_IO_TREE_INDEX_H
#define SRC_IO_TREE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct index_entry {
    uint64_t key; /* 0: empty */
    uint64_t value;
};

/* All zero is empty. */
struct index {
    struct index_entry *entries;
    size_t capacity; /* 0, or a power of two */
    size_t count;
};

/* Sets or replaces. -ENOMEM. */
int index_set(struct index *index, uint64_t key, uint64_t value);
bool index_get(const struct index *index, uint64_t key, uint64_t *ret_value);
void index_clear(struct index *index);

#endif
