/* SPDX-License-Identifier: Apache-2.0 */
#include "io/reader.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define QUEUED_DEFAULT 1024u
#define REAP_MAX 64u
#define OPENED_IN_STEP_MAX 4u

struct item {
    struct item *next;
    uint64_t tag;
    struct io_source source; /* fd -1: not open */
    void *memory;
    char path[];
};

struct list {
    struct item *first, **end;
};

struct reader {
    struct reader_options options;
    struct io *io;
    uint32_t queued_max;

    pthread_mutex_t lock; /* guards the next four */
    struct list submitted;
    uint32_t submitted_count;
    uint64_t pending;
    bool retry;

    /* The I/O thread's: */
    struct list waiting; /* open, told LATER */
    uint32_t open_count; /* reading or waiting */
    uint32_t open_max;
    uint64_t reported;
};

static void list_init(struct list *list)
{
    list->first = NULL;
    list->end = &list->first;
}

static void list_push(struct list *list, struct item *item)
{
    item->next = NULL;
    *list->end = item;
    list->end = &item->next;
}

static struct item *list_pop(struct list *list)
{
    struct item *item = list->first;

    if (item != NULL && (list->first = item->next) == NULL)
        list->end = &list->first;
    return item;
}

int reader_create(const struct reader_options *options, struct reader **ret_reader, struct sheaf_error *error)
{
    struct reader *reader = calloc(1, sizeof *reader);

    assert(options->place != NULL && options->done != NULL);
    if (reader == NULL)
        return -ENOMEM;
    reader->options = *options;
    reader->queued_max = options->queued_max == 0 ? QUEUED_DEFAULT : options->queued_max;
    int rc = io_create(&options->io, &reader->io, error);
    if (rc < 0) {
        free(reader);
        return rc;
    }
    uint32_t depth = options->io.depth == 0 ? IO_DEPTH_DEFAULT : options->io.depth;
    if (depth > IO_DEPTH_MAX)
        depth = IO_DEPTH_MAX;
    reader->open_max = options->in_flight_max == 0 || options->in_flight_max > depth ? depth : options->in_flight_max;
    list_init(&reader->submitted);
    list_init(&reader->waiting);
    pthread_mutex_init(&reader->lock, NULL);
    *ret_reader = reader;
    return 0;
}

/* Reports and forgets the item. `fd` is given away when it is not -1. */
static void report(struct reader *reader, struct item *item, const struct io_source_problem *problem, int fd)
{
    struct reader_result result = {
        .tag = item->tag,
        .path = item->path,
        .class_id = problem == NULL ? SHEAF_CLASS_NONE : problem->class_id,
        .code = problem == NULL ? 0 : problem->code,
        .size_bytes = item->source.size_bytes,
        .mtime_ns = item->source.mtime_ns,
        .memory = item->memory,
        .fd = fd,
        .message = problem == NULL ? "" : problem->message,
    };

    if (item->source.fd >= 0 && fd < 0)
        close(item->source.fd);
    pthread_mutex_lock(&reader->lock);
    reader->pending--;
    pthread_mutex_unlock(&reader->lock);
    reader->reported++;
    reader->options.done(reader->options.cookie, &result);
    free(item);
}

static void finish_read(struct reader *reader, struct item *item, int64_t result)
{
    struct io_source_problem problem;
    int rc;

    reader->open_count--;
    if (result < 0) {
        problem.class_id = SHEAF_CLASS_IO;
        problem.code = (int)result;
        snprintf(problem.message, sizeof problem.message, "%.150s: cannot be read: %s", item->path,
                 strerror((int)-result));
        rc = (int)result;
    } else {
        rc = io_source_verify(item->path, &item->source, &problem);
        if (rc == 0 && (uint64_t)result != item->source.size_bytes) {
            problem.class_id = SHEAF_CLASS_IO;
            problem.code = rc = -ESTALE;
            snprintf(problem.message, sizeof problem.message, "%.150s: ended after %lld of %llu bytes", item->path,
                     (long long)result, (unsigned long long)item->source.size_bytes);
        }
    }
    report(reader, item, rc < 0 ? &problem : NULL, -1);
}

static void start_read(struct reader *reader, struct item *item)
{
    struct io_request request = {
        .opcode = IO_READ,
        .fd = item->source.fd,
        .data = item->memory,
        .length_bytes = item->source.size_bytes,
        .tag = (uint64_t)(uintptr_t)item,
    };
    int rc = io_submit(reader->io, &request);

    if (rc < 0)
        finish_read(reader, item, rc);
}

/* Asks where an open item goes, and does it. False: LATER. */
static bool place_item(struct reader *reader, struct item *item)
{
    struct reader_place place = {.kind = READER_REFUSE, .class_id = SHEAF_CLASS_RESOURCE_EXHAUSTED};
    struct io_source_problem problem;

    reader->options.place(reader->options.cookie, item->tag, item->path, item->source.size_bytes, item->source.mtime_ns,
                          &place);
    switch (place.kind) {
    case READER_LATER:
        return false;
    case READER_READ:
        item->memory = place.memory;
        start_read(reader, item);
        return true;
    case READER_STREAM:
        reader->open_count--;
        report(reader, item, NULL, item->source.fd);
        return true;
    case READER_REFUSE:
        break;
    }
    problem.class_id = place.class_id;
    problem.code = -ENOBUFS;
    memcpy(problem.message, place.message, sizeof problem.message);
    problem.message[sizeof problem.message - 1] = '\0';
    reader->open_count--;
    report(reader, item, &problem, -1);
    return true;
}

static void open_item(struct reader *reader, struct item *item)
{
    struct io_source_problem problem;

    if (io_source_open(item->path, reader->options.follow_links, &item->source, &problem) < 0) {
        report(reader, item, &problem, -1);
        return;
    }
    reader->open_count++;
    if (!place_item(reader, item))
        list_push(&reader->waiting, item);
}

/* Asks again for what waits, oldest first, until one has still no room. */
static void retry_waiting(struct reader *reader)
{
    while (reader->waiting.first != NULL) {
        struct item *item = list_pop(&reader->waiting);

        if (!place_item(reader, item)) { /* back to the front */
            item->next = reader->waiting.first;
            if (item->next == NULL)
                reader->waiting.end = &item->next;
            reader->waiting.first = item;
            return;
        }
    }
}

static struct item *take_submitted(struct reader *reader)
{
    pthread_mutex_lock(&reader->lock);
    struct item *item = list_pop(&reader->submitted);
    if (item != NULL)
        reader->submitted_count--;
    pthread_mutex_unlock(&reader->lock);
    return item;
}

static bool take_retry(struct reader *reader)
{
    pthread_mutex_lock(&reader->lock);
    bool retry = reader->retry;
    reader->retry = false;
    pthread_mutex_unlock(&reader->lock);
    return retry;
}

/*
 * Nothing is opened past an item that waits for room: what came first is placed first, so a large one cannot starve.
 * True when there may be more to open: only so much is begun in one step, for memory is made and cached files are
 * copied right here, and the first ones are to be worked on while the others are read.
 */
static bool open_more(struct reader *reader)
{
    for (uint32_t begun = 0; reader->open_count < reader->open_max && reader->waiting.first == NULL; begun++) {
        if (begun == OPENED_IN_STEP_MAX)
            return true;
        struct item *item = take_submitted(reader);
        if (item == NULL)
            return false;
        open_item(reader, item);
    }
    return false;
}

int reader_step(struct reader *reader, int64_t wait_us)
{
    struct io_completion completions[REAP_MAX];
    uint64_t before = reader->reported;

    if (take_retry(reader))
        retry_waiting(reader);
    bool more = open_more(reader);
    int count = io_reap(reader->io, completions, REAP_MAX, more || reader->reported != before ? 0 : wait_us);
    if (count < 0)
        return count;
    for (int i = 0; i < count; i++)
        finish_read(reader, (struct item *)(uintptr_t)completions[i].tag, completions[i].result);
    return (int)(reader->reported - before);
}

int reader_submit(struct reader *reader, const char *path, uint64_t tag)
{
    size_t path_bytes = strlen(path) + 1;
    struct item *item = malloc(sizeof *item + path_bytes);

    if (item == NULL)
        return -ENOMEM;
    *item = (struct item){.tag = tag, .source = {.fd = -1}};
    memcpy(item->path, path, path_bytes);
    pthread_mutex_lock(&reader->lock);
    bool full = reader->submitted_count == reader->queued_max;
    if (!full) {
        list_push(&reader->submitted, item);
        reader->submitted_count++;
        reader->pending++;
    }
    pthread_mutex_unlock(&reader->lock);
    if (full) {
        free(item);
        return -EAGAIN;
    }
    io_wake(reader->io);
    return 0;
}

void reader_retry(struct reader *reader)
{
    pthread_mutex_lock(&reader->lock);
    bool waits = reader->pending > 0; /* whoever asks from now on is told by the room there is */
    reader->retry |= waits;
    pthread_mutex_unlock(&reader->lock);
    if (waits)
        io_wake(reader->io);
}

void reader_wake(struct reader *reader)
{
    io_wake(reader->io);
}

uint64_t reader_pending(struct reader *reader)
{
    pthread_mutex_lock(&reader->lock);
    uint64_t pending = reader->pending;
    pthread_mutex_unlock(&reader->lock);
    return pending;
}

const char *reader_describe(const struct reader *reader)
{
    return io_describe(reader->io);
}

void reader_destroy(struct reader *reader)
{
    static const struct io_source_problem cancelled = {SHEAF_CLASS_CANCELLED, -ECANCELED, "the run was cancelled"};
    struct io_completion completion = {0};
    struct item *item;

    if (reader == NULL)
        return;
    while (io_in_flight(reader->io) > 0 && io_reap(reader->io, &completion, 1, IO_WAIT_FOREVER) >= 0) {
        if (completion.tag != 0)
            report(reader, (struct item *)(uintptr_t)completion.tag, &cancelled, -1);
        completion.tag = 0;
    }
    while ((item = list_pop(&reader->waiting)) != NULL || (item = take_submitted(reader)) != NULL)
        report(reader, item, &cancelled, -1);
    io_destroy(reader->io);
    pthread_mutex_destroy(&reader->lock);
    free(reader);
}
