/* SPDX-License-Identifier: Apache-2.0 */
/* What a new worker process is told: the hello of worker/attach.h, made from the run. The supervisor's thread. */
#ifndef SRC_ENGINE_GREET_H
#define SRC_ENGINE_GREET_H

#include "engine/run.h"

struct attach_chunk;

struct greeting {
    struct attach_chunk *chunks;
    uint32_t chunk_count;
};

/* Leases the worker's chunks and says so in its lane: after this shards may attach. */
int greet_prepare(struct sheaf_run *run, uint32_t worker, struct greeting *ret_greeting);
/* Sends the hello and frees the greeting. */
int greet_send(struct sheaf_run *run, uint32_t worker, uint32_t generation, int socket, struct greeting *greeting);

#endif
