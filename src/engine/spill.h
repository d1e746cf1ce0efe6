/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values on disk: one file without a name, as a segment more. When memory for values is short and nothing else can move
 * (grant.c), a shard copies the bytes of values that no row under way reads into it, and their references name the file
 * from then on. Every process has mapped it for reading since its start, so nobody is told: who reads such a value
 * reads the file, through the page cache. The file is gone with the last process that has it.
 *
 * Only the engine writes. Any thread.
 */
#ifndef SRC_ENGINE_SPILL_H
#define SRC_ENGINE_SPILL_H

#include <stdint.h>

#include "shm/segment.h"

struct spill;

/* In the first of the folders (up to a NULL) that takes such a file and is not itself memory; -ENOTSUP: none does. At
 * most half of what is free there will be used. */
int spill_create(const char *const *folders, struct spill **ret_spill);
void spill_destroy(struct spill *spill);

/* Mapped for reading. */
const struct segment *spill_segment(const struct spill *spill);
int spill_read_only(const struct spill *spill); /* a descriptor, the spill's own */

/* A file of its own with these bytes, for reading; the caller's, gone when closed. */
int spill_file(const struct spill *spill, const void *data, uint64_t bytes, int *ret_fd);

/* Writes so many bytes; they stand at *ret_offset. -ENOSPC, or what writing gives. */
int spill_put(struct spill *spill, const void *data, uint64_t bytes, uint64_t *ret_offset);
/* The same number that were put there. */
void spill_free(struct spill *spill, uint64_t offset, uint64_t bytes);

uint64_t spill_bytes_peak(const struct spill *spill);

#endif
