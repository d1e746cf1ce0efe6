/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors of `file` values: asked for once, kept as long as the value is readable. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm/crash_point.h"
#include "worker/worker.h"

/* What the descriptor lives with: the state it may be read from, or (0) the row. */
static uint64_t tag_of(const struct worker_row *row)
{
    uint32_t flags = row->call->spec->operator_flags;
    if ((flags & SHEAF_OPERATOR_STATE_OF_ROW) != 0)
        return row->row.key;
    return (flags & SHEAF_OPERATOR_STATE_OF_PARENT) != 0 ? row->row.parent_key : 0;
}

static int keep(struct sheaf_worker *worker, const struct source_descriptor *descriptor)
{
    if (worker->descriptor_count == worker->descriptor_capacity) {
        uint32_t capacity = 2 * worker->descriptor_capacity + 8;
        struct source_descriptor *grown = realloc(worker->descriptors, capacity * sizeof *grown);
        if (grown == NULL)
            return -ENOMEM;
        worker->descriptors = grown;
        worker->descriptor_capacity = capacity;
    }
    worker->descriptors[worker->descriptor_count++] = *descriptor;
    return 0;
}

/* Bytes that exist only in memory get a file from the engine, which copies them from where it can see them. */
static int copy_to_file(struct worker_row *row, const struct sheaf_value *file, int *ret_fd)
{
    struct sheaf_worker *worker = row->worker;
    uint32_t segment;
    uint64_t offset;
    char *memory = payload_new(row, file->length_bytes, PAYLOAD_HEAD_BYTES);
    if (memory == NULL)
        return -ENOMEM;
    memcpy(memory, file->data, file->length_bytes);
    SHEAF_CRASH_POINT("payload.copied");
    int status = chunk_pages_locate(&worker->pages, memory, &segment, &offset);
    if (status == 0)
        status = attach_request_copy(worker->socket, segment, offset, file->length_bytes, ret_fd);
    payload_free(worker, memory);
    return status;
}

int source_descriptor(struct worker_row *row, const struct sheaf_value *file, int *ret_fd)
{
    struct sheaf_worker *worker = row->worker;
    if (file == NULL || file->kind != SHEAF_FILE)
        return -EINVAL;
    struct file_prefix prefix = {0};
    (void)view_file_prefix(&worker->map, file, &prefix); /* else: a file of the operator's own making */
    struct source_descriptor descriptor = {prefix.source, tag_of(row), -1};
    for (uint32_t at = 0; at < worker->descriptor_count; at++) {
        struct source_descriptor *known = &worker->descriptors[at];
        if (prefix.source != 0 && known->source == prefix.source && known->tag == descriptor.tag) {
            *ret_fd = known->fd;
            return 0;
        }
    }
    int status = -ENOENT;
    if (prefix.source != 0)
        status = attach_request_descriptor(worker->socket, prefix.source, &descriptor.fd);
    else if (file->data != NULL)
        status = copy_to_file(row, file, &descriptor.fd);
    if (status < 0)
        return status;
    status = keep(worker, &descriptor);
    if (status < 0) {
        close(descriptor.fd);
        return status;
    }
    *ret_fd = descriptor.fd;
    return 0;
}

void descriptors_drop(struct sheaf_worker *worker, uint64_t tag)
{
    for (uint32_t at = 0; at < worker->descriptor_count;) {
        if (worker->descriptors[at].tag != tag) {
            at++;
            continue;
        }
        close(worker->descriptors[at].fd);
        worker->descriptors[at] = worker->descriptors[--worker->descriptor_count];
    }
}

void descriptors_done(struct sheaf_worker *worker)
{
    for (uint32_t at = 0; at < worker->descriptor_count; at++)
        close(worker->descriptors[at].fd);
    free(worker->descriptors);
    worker->descriptors = NULL;
    worker->descriptor_count = worker->descriptor_capacity = 0;
}
