/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/place.h"
#include "engine/shard.h"
#include "io/reader.h"

enum { ID_SHARD_SHIFT = 48, DATA_ALIGNMENT = 64 };
enum { LISTS_BYTES = 4 << 20 }; /* of what sources may take: room for what rows are told of their inputs */
#define ID_ENTRY_MASK ((UINT64_C(1) << ID_SHARD_SHIFT) - 1)

/* A file that was read or is being read. */
struct source {
    char *path;
    struct root *root;
    uint32_t index; /* in the root */
    uint64_t id;
    uint64_t size_bytes;
    int64_t mtime_ns;
    int fd; /* of a streamed file, else -1 */
    bool placed, streamed;
    uint64_t offset; /* of its page run */
    uint32_t prefix_bytes;
};

struct entry {
    struct source *source; /* NULL: free */
    uint32_t next_free;
};

struct sources {
    struct sheaf_run *run;
    struct shard *shard;
    uint32_t shard_number;
    struct reader *reader;
    pthread_t thread;
    _Atomic bool stopping;
    uint64_t stream_bytes;
    pthread_mutex_t lock; /* the table: read by the supervisor too */
    struct entry *table;
    uint32_t count, capacity, free_entry;
};

uint32_t source_shard(uint64_t id)
{
    return (uint32_t)(id >> ID_SHARD_SHIFT) - 1;
}

void source_run(const struct payload *payload, const struct value_ref *ref, uint64_t *ret_offset, uint64_t *ret_bytes)
{
    const struct segment *memory = payload_segment(payload, ref->segment);
    if (SHEAF_KIND_DEPTH(ref->kind) != 0) {
        const struct list_block *block = segment_at(memory, ref->offset, sizeof *block);
        *ret_offset = ref->offset;
        *ret_bytes = block->bytes;
        return;
    }
    *ret_offset = ref->offset - ref->prefix;
    *ret_bytes = ref->prefix + ref->length;
    if (SHEAF_KIND_BASE(ref->kind) == SHEAF_FILE) {
        const struct file_prefix *file = segment_at(memory, *ret_offset, sizeof *file);
        if (!(file->flags & FILE_IN_MEMORY))
            *ret_bytes = ref->prefix;
    }
}

/* ---- the table ---- */

/* A free entry, or UINT32_MAX when memory is out. Under the lock. */
static uint32_t entry_take(struct sources *sources)
{
    uint32_t entry = sources->free_entry;
    if (entry != UINT32_MAX) {
        sources->free_entry = sources->table[entry].next_free;
        return entry;
    }
    if (sources->count == sources->capacity) {
        uint32_t capacity = sources->capacity ? sources->capacity * 2 : 64;
        struct entry *larger = realloc(sources->table, capacity * sizeof *larger);
        if (!larger)
            return UINT32_MAX;
        sources->table = larger;
        sources->capacity = capacity;
    }
    return sources->count++;
}

static struct source *source_new(struct sources *sources, const char *path)
{
    struct source *source = calloc(1, sizeof *source);
    if (!source)
        return NULL;
    source->fd = -1;
    source->path = strdup(path);
    pthread_mutex_lock(&sources->lock);
    uint32_t entry = source->path ? entry_take(sources) : UINT32_MAX;
    if (entry != UINT32_MAX) {
        sources->table[entry].source = source;
        source->id = (uint64_t)(sources->shard_number + 1) << ID_SHARD_SHIFT | entry;
    }
    pthread_mutex_unlock(&sources->lock);
    if (source->id == 0) {
        free(source->path);
        free(source);
        return NULL;
    }
    return source;
}

static void source_end(struct sources *sources, struct source *source)
{
    uint32_t entry = (uint32_t)(source->id & ID_ENTRY_MASK);
    pthread_mutex_lock(&sources->lock);
    sources->table[entry] = (struct entry){.source = NULL, .next_free = sources->free_entry};
    sources->free_entry = entry;
    pthread_mutex_unlock(&sources->lock);
    if (source->fd >= 0)
        close(source->fd);
    free(source->path);
    free(source);
}

/* Under the lock. */
static struct source *source_find(struct sources *sources, uint64_t id)
{
    uint64_t entry = id & ID_ENTRY_MASK;
    return entry < sources->count ? sources->table[entry].source : NULL;
}

void sources_forget(struct sources *sources, uint64_t id)
{
    pthread_mutex_lock(&sources->lock);
    struct source *source = source_find(sources, id);
    pthread_mutex_unlock(&sources->lock);
    if (source)
        source_end(sources, source);
}

/* The same file as was read, or an error: what changed meanwhile is not handed out under its name. */
static int open_again(const char *path, uint64_t size_bytes, int64_t mtime_ns)
{
    struct io_source source;
    struct io_source_problem problem;
    int result = io_source_open(path, true, &source, &problem);
    if (result < 0)
        return result;
    if (source.size_bytes == size_bytes && source.mtime_ns == mtime_ns)
        return source.fd;
    close(source.fd);
    return -ESTALE;
}

int sources_descriptor(struct sources *sources, uint64_t id, int *ret_fd)
{
    int fd = -ENOENT;
    char *path = NULL;
    uint64_t size_bytes = 0;
    int64_t mtime_ns = 0;
    pthread_mutex_lock(&sources->lock);
    struct source *source = source_find(sources, id);
    if (source && source->fd >= 0) {
        fd = fcntl(source->fd, F_DUPFD_CLOEXEC, 0);
        fd = fd < 0 ? -errno : fd;
    } else if (source) {
        path = strdup(source->path);
        size_bytes = source->size_bytes;
        mtime_ns = source->mtime_ns;
    }
    pthread_mutex_unlock(&sources->lock);
    if (path)
        fd = open_again(path, size_bytes, mtime_ns);
    free(path);
    if (fd < 0)
        return fd;
    *ret_fd = fd;
    return 0;
}

/* ---- reading, on the I/O thread ---- */

static void place(void *cookie, uint64_t tag, const char *path, uint64_t size_bytes, int64_t mtime_ns,
                  struct reader_place *ret_place)
{
    struct sources *sources = cookie;
    struct source *source = (struct source *)(uintptr_t)tag;
    size_t path_bytes = strlen(path) + 1;
    source->size_bytes = size_bytes;
    source->mtime_ns = mtime_ns;
    source->streamed = size_bytes > sources->stream_bytes;
    size_t prefix = sizeof(struct file_prefix) + path_bytes;
    source->prefix_bytes = (uint32_t)((prefix + DATA_ALIGNMENT - 1) / DATA_ALIGNMENT * DATA_ALIGNMENT);
    if (source->prefix_bytes > UINT16_MAX) {
        ret_place->kind = READER_REFUSE;
        ret_place->class_id = SHEAF_CLASS_UNSUPPORTED;
        snprintf(ret_place->message, sizeof ret_place->message, "the path is longer than 65,000 bytes");
        return;
    }
    uint64_t bytes = source->prefix_bytes + (source->streamed ? 0 : size_bytes);
    uint64_t in_use = payload_shard_bytes(sources->run->payload);
    bool is_short = atomic_load_explicit(&sources->run->memory_short, memory_order_relaxed);
    if (in_use > 0 && (is_short || in_use + bytes > sources->run->budget.source_bytes - LISTS_BYTES)) {
        ret_place->kind = READER_LATER; /* asked again when a source is done with */
        return;
    }
    if (payload_run_alloc(sources->run->payload, sources->shard_number, bytes, &source->offset) < 0) {
        ret_place->kind = READER_LATER;
        return;
    }
    source->placed = true;
    char *memory = payload_shard_at(sources->run->payload, sources->shard_number, source->offset);
    *(struct file_prefix *)memory = (struct file_prefix){
        .source = source->id, .flags = source->streamed ? 0 : FILE_IN_MEMORY, .path_bytes = (uint32_t)path_bytes};
    memcpy(memory + sizeof(struct file_prefix), path, path_bytes);
    ret_place->kind = source->streamed ? READER_STREAM : READER_READ;
    ret_place->memory = memory + source->prefix_bytes;
}

static void unplace(struct sources *sources, struct source *source)
{
    if (!source->placed)
        return;
    uint64_t bytes = source->prefix_bytes + (source->streamed ? 0 : source->size_bytes);
    payload_run_free(sources->run->payload, sources->shard_number, source->offset, bytes);
    source->placed = false;
}

static void done(void *cookie, const struct reader_result *result)
{
    struct sources *sources = cookie;
    struct source *source = (struct source *)(uintptr_t)result->tag;
    struct message_source *message = calloc(1, sizeof *message);
    if (!message) {
        run_fail(sources->run, "memory is used up while reading sources");
        return;
    }
    message->message.kind = MESSAGE_SOURCE;
    message->root = source->root;
    message->index = source->index;
    message->class_id = result->class_id;
    snprintf(message->text, sizeof message->text, "%s", result->message ? result->message : "");
    source->fd = result->fd;
    if (result->class_id != SHEAF_CLASS_NONE) {
        unplace(sources, source);
        source_end(sources, source);
    } else {
        message->id = source->id;
        message->ref =
            (struct value_ref){.kind = SHEAF_FILE,
                               .segment = payload_shard_segment(sources->run->payload, sources->shard_number),
                               .prefix = (uint16_t)source->prefix_bytes,
                               .offset = source->offset + source->prefix_bytes,
                               .length = result->size_bytes};
    }
    shard_tell(sources->shard, &message->message);
}

static void *io_thread(void *argument)
{
    struct sources *sources = argument;
    place_thread(sources->run, sources->shard_number, "sheaf-io");
    while (!atomic_load_explicit(&sources->stopping, memory_order_acquire)) {
        int result = reader_step(sources->reader, IO_WAIT_FOREVER);
        if (result < 0) {
            run_fail(sources->run, "reading sources: %s", sheaf_status_text(result));
            break;
        }
    }
    return NULL;
}

/* ---- for the shard ---- */

int sources_create(struct sheaf_run *run, struct shard *shard, uint32_t shard_number, struct sources **ret_sources,
                   struct sheaf_error *error)
{
    struct sources *sources = calloc(1, sizeof *sources);
    if (!sources)
        return -ENOMEM;
    sources->run = run;
    sources->shard = shard;
    sources->shard_number = shard_number;
    sources->free_entry = UINT32_MAX;
    /* One file may take half of what sources may: then the next can be read while it is worked on. */
    sources->stream_bytes = run->budget.source_bytes / 2;
    pthread_mutex_init(&sources->lock, NULL);
    struct reader_options options = {.io = {.backend = run->engine->options.io},
                                     .queued_max = UINT32_MAX,
                                     .follow_links = true,
                                     .cookie = sources,
                                     .place = place,
                                     .done = done};
    int result = reader_create(&options, &sources->reader, error);
    if (result == 0)
        result = thread_start(&sources->thread, io_thread, sources);
    if (result < 0) {
        reader_destroy(sources->reader);
        pthread_mutex_destroy(&sources->lock);
        free(sources);
        return result;
    }
    *ret_sources = sources;
    return 0;
}

void sources_destroy(struct sources *sources)
{
    if (!sources)
        return;
    atomic_store_explicit(&sources->stopping, true, memory_order_release);
    reader_wake(sources->reader);
    pthread_join(sources->thread, NULL);
    reader_destroy(sources->reader); /* reports what is left, to a shard that reads no more */
    for (uint32_t entry = 0; entry < sources->count; entry++) {
        if (sources->table[entry].source)
            source_end(sources, sources->table[entry].source);
    }
    free(sources->table);
    pthread_mutex_destroy(&sources->lock);
    free(sources);
}

int sources_read(struct sources *sources, const char *path, struct root *root, uint32_t index)
{
    struct source *source = source_new(sources, path);
    if (!source)
        return -ENOMEM;
    source->root = root;
    source->index = index;
    int result = reader_submit(sources->reader, path, (uintptr_t)source);
    if (result < 0)
        source_end(sources, source);
    return result;
}

void sources_retry(struct sources *sources)
{
    reader_retry(sources->reader);
}

const char *sources_describe(const struct sources *sources)
{
    return reader_describe(sources->reader);
}
