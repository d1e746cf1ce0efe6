/* SPDX-License-Identifier: Apache-2.0 */
/* A set of 64-bit keys other than 0: which rows' or parents' state an operator holds here. Open addressing, private. */
#ifndef SRC_WORKER_KEY_SET_H
#define SRC_WORKER_KEY_SET_H

#include <stdbool.h>
#include <stdint.h>

struct key_set {
    uint64_t *slots;   /* 0: empty */
    uint32_t capacity; /* a power of two, or 0 */
    uint32_t count;
};

int key_set_add(struct key_set *set, uint64_t key);     /* 0, also when it is in already; -ENOMEM */
bool key_set_remove(struct key_set *set, uint64_t key); /* whether it was in */
bool key_set_has(const struct key_set *set, uint64_t key);
void key_set_done(struct key_set *set);

#endif
