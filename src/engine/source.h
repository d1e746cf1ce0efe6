/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources of one shard: its I/O thread, which reads files into the shard's payload segment, and the table by which
 * workers are handed descriptors.
 *
 * A `file` value lies as [struct file_prefix, path, padding][data] in one page run. A file above the streaming
 * threshold gets no data: workers read it by descriptor.
 */
#ifndef SRC_ENGINE_SOURCE_H
#define SRC_ENGINE_SOURCE_H

#include "engine/run.h"

struct sources;
struct root;

/* A file was read, or not: to the shard. */
struct message_source {
    struct message message;
    struct root *root;
    uint32_t index;       /* of the source in the root */
    uint64_t id;          /* for sources_forget; 0 when it failed */
    struct value_ref ref; /* when class_id is NONE */
    enum sheaf_class class_id;
    char text[512];
};

int sources_create(struct sheaf_run *run, struct shard *shard, uint32_t shard_number, struct sources **ret_sources,
                   struct sheaf_error *error);
void sources_destroy(struct sources *sources);

/* Asks for a file. 0, -EAGAIN (later), -ENOMEM. The shard's thread. */
int sources_read(struct sources *sources, const char *path, struct root *root, uint32_t index);
/* Room may have come back for reads that wait for it. */
void sources_retry(struct sources *sources);

/* A descriptor for a source, open and close-on-exec, the caller's. Any thread. -ENOENT: no such source. */
int sources_descriptor(struct sources *sources, uint64_t id, int *ret_fd);
void sources_forget(struct sources *sources, uint64_t id);
/* Which shard made an id. */
uint32_t source_shard(uint64_t id);

/* The page run of a value in a shard's segment, for payload_run_free. */
void source_run(const struct payload *payload, const struct value_ref *ref, uint64_t *ret_offset, uint64_t *ret_bytes);

/* How the files are read: one line. */
const char *sources_describe(const struct sources *sources);

#endif
