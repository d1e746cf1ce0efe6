/* SPDX-License-Identifier: Apache-2.0 */
/* What memory there is: of devices, and of the host where it is pinned. All functions lock for themselves. */
#ifndef TESTS_FAKE_CUDA_MEMORY_H
#define TESTS_FAKE_CUDA_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

enum memory_kind { MEMORY_DEVICE = 1, MEMORY_PINNED, MEMORY_PINNED_READ_ONLY, MEMORY_HOST };

/* False: it overlaps with what is there. */
bool memory_add(const void *base, size_t bytes, enum memory_kind kind);
/* The size of what begins there and is of that kind, taken out; 0: nothing. */
size_t memory_remove(const void *base, enum memory_kind kind);
/* The kind of what holds all of these bytes; 0: nothing does. */
int memory_kind(const void *base, size_t bytes);

#endif
