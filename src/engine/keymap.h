/* SPDX-License-Identifier: Apache-2.0 */
/* A hash map from 64-bit keys to 32-bit numbers, for one thread. Grows by doubling; key UINT64_MAX is not allowed. */
#ifndef SRC_ENGINE_KEYMAP_H
#define SRC_ENGINE_KEYMAP_H

#include <stdbool.h>
#include <stdint.h>

#define KEYMAP_NONE UINT32_MAX

struct keymap {
    uint64_t *keys; /* key + 1; 0: empty */
    uint32_t *numbers;
    uint32_t capacity; /* a power of two, or 0 */
    uint32_t count;
};

int keymap_set(struct keymap *map, uint64_t key, uint32_t number); /* 0 or -ENOMEM */
uint32_t keymap_get(const struct keymap *map, uint64_t key);       /* KEYMAP_NONE: not there */
void keymap_remove(struct keymap *map, uint64_t key);
void keymap_fini(struct keymap *map);

#endif
