/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for a shard's tables: the records of lineage and scheduling, and its own. A shard that wakes finds none of
 * them in any cache, and to find each small page that they are on costs about as much as reading them, on a virtual
 * machine more. So tables are cut one after the other from huge pages, where the system has them for anonymous memory
 * (madvise), and lie close together where it has not. What is given back is used again for tables of about its size.
 * Under the address sanitizer each table is an allocation of its own.
 *
 * One thread at a time.
 */
#ifndef SRC_ENGINE_TABLES_H
#define SRC_ENGINE_TABLES_H

#include <stddef.h>

enum { TABLES_SIZES = 64 };

struct tables_block;
struct tables_free;

/* Zeroed: none. */
struct tables {
    struct tables_block *blocks; /* huge pages, the one that is cut from first */
    size_t cut_bytes;            /* of it */
    struct tables_free *free[TABLES_SIZES];
    size_t live; /* taken and not given back */
};

/* At the beginning of a cache line, with any content. NULL: no memory. */
void *tables_take(struct tables *tables, size_t bytes);
void tables_give(struct tables *tables, void *table, size_t bytes); /* as many as were taken */
/* When all were given back. */
void tables_close(struct tables *tables);

#endif
