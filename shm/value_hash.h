/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a value's hash covers, and whether it still holds. A worker hashes what it answers; whoever reads the value
 * later can see whether somebody wrote over it meanwhile. For a list a worker made it is the whole block, for anything
 * else the prefix and the data behind it. Values that are not hashed (hash 0) lie in memory that only the engine
 * writes, or in the reference itself; of a list among them the elements are looked at.
 */
#ifndef SHM_VALUE_HASH_H
#define SHM_VALUE_HASH_H

#include <stdbool.h>

#include "shm/value_ref.h"

/* Never 0. */
uint64_t value_hash(const void *start, uint64_t bytes);

/* The address of [offset, offset + bytes) in a segment, or NULL when it does not lie inside. */
typedef const void *value_reader(void *context, uint16_t segment, uint64_t offset, uint64_t bytes);

/* Where the bytes of one value stand in its segment, prefix included. False: they cannot stand there. */
bool value_hash_range(const struct value_ref *ref, value_reader *at, void *context, uint64_t *ret_start,
                      uint64_t *ret_bytes);

/* False: some value that `ref` names, itself or an element, is not as it was answered; `ret_damaged` is its reference.
 */
bool value_hash_holds(const struct value_ref *ref, value_reader *at, void *context, struct value_ref *ret_damaged);

#endif
