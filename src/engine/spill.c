/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/spill.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef RAMFS_MAGIC
#define RAMFS_MAGIC 0x858458f6
#endif
#define BLOCK_BYTES UINT64_C(4096)
#define BYTES_MAX (UINT64_C(1) << 42) /* of address space, too */

/* Not in use: in order of offset, never two that touch. */
struct gap {
    uint64_t offset, bytes;
};

struct spill {
    struct segment memory;
    char *folder;
    int read_only; /* memory.descriptor writes */
    uint64_t limit_bytes;
    pthread_mutex_t lock;
    struct gap *gaps;
    size_t gap_count, gap_capacity;
    uint64_t used_bytes, used_peak;
};

/* ---- the file ---- */

static bool is_memory(int folder)
{
    struct statfs system;
    return fstatfs(folder, &system) < 0 || (unsigned long)system.f_type == TMPFS_MAGIC ||
           (unsigned long)system.f_type == RAMFS_MAGIC;
}

/* Without a name from the start; where the file system cannot, it is taken away at once. */
static int open_nameless(const char *folder)
{
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
        return fd < 0 ? -errno : fd;
    char *path;
    if (asprintf(&path, "%s/.sheaf-spill-XXXXXX", folder) < 0)
        return -ENOMEM;
    fd = mkostemp(path, O_CLOEXEC);
    int status = fd < 0 ? -errno : fd;
    if (fd >= 0)
        unlink(path);
    free(path);
    return status;
}

static int open_in(struct spill *spill, const char *folder)
{
    struct statvfs room;
    int fd = open_nameless(folder);
    if (fd < 0)
        return fd;
    int status = is_memory(fd) ? -ENOTSUP : fstatvfs(fd, &room) < 0 ? -errno : 0;
    uint64_t bytes = status == 0 ? (uint64_t)room.f_bavail * room.f_frsize / 2 / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES : 0;
    bytes = bytes < BYTES_MAX ? bytes : BYTES_MAX;
    if (status == 0 && bytes == 0)
        status = -ENOSPC;
    if (status == 0 && ftruncate(fd, (off_t)bytes) < 0)
        status = -errno;
    if (status == 0)
        status = segment_attach_file(fd, &spill->memory);
    if (status < 0) {
        close(fd);
        return status;
    }
    spill->limit_bytes = bytes;
    spill->folder = strdup(folder);
    if (!spill->folder)
        return -ENOMEM;
    return segment_open_read_only(&spill->memory, &spill->read_only);
}

int spill_create(const char *const *folders, struct spill **ret_spill)
{
    struct spill *spill = calloc(1, sizeof *spill);
    if (!spill)
        return -ENOMEM;
    pthread_mutex_init(&spill->lock, NULL);
    spill->memory = (struct segment)SEGMENT_NONE;
    spill->read_only = -1;
    int status = -ENOTSUP;
    for (; *folders && status < 0; folders++)
        status = open_in(spill, *folders);
    spill->gaps = calloc(16, sizeof *spill->gaps);
    if (status == 0 && !spill->gaps)
        status = -ENOMEM;
    if (status < 0) {
        spill_destroy(spill);
        return status;
    }
    spill->gap_capacity = 16;
    spill->gaps[spill->gap_count++] = (struct gap){0, spill->limit_bytes};
    *ret_spill = spill;
    return 0;
}

void spill_destroy(struct spill *spill)
{
    if (!spill)
        return;
    segment_release(&spill->memory);
    if (spill->read_only >= 0)
        close(spill->read_only);
    pthread_mutex_destroy(&spill->lock);
    free(spill->folder);
    free(spill->gaps);
    free(spill);
}

const struct segment *spill_segment(const struct spill *spill)
{
    return &spill->memory;
}

int spill_read_only(const struct spill *spill)
{
    return spill->read_only;
}

uint64_t spill_bytes_peak(const struct spill *spill)
{
    return spill->used_peak;
}

static int write_all(int fd, const void *data, uint64_t bytes, uint64_t offset)
{
    for (uint64_t done = 0; done < bytes;) {
        ssize_t written = pwrite(fd, (const char *)data + done, bytes - done, (off_t)(offset + done));
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return written < 0 ? -errno : -EIO;
        done += (uint64_t)written;
    }
    return 0;
}

int spill_file(const struct spill *spill, const void *data, uint64_t bytes, int *ret_fd)
{
    int fd = open_nameless(spill->folder);
    if (fd < 0)
        return fd;
    struct segment file = {.descriptor = fd};
    int status = write_all(fd, data, bytes, 0);
    if (status == 0)
        status = segment_open_read_only(&file, ret_fd);
    close(fd);
    return status;
}

/* ---- room in it ---- */

static uint64_t whole_blocks(uint64_t bytes)
{
    return (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
}

static bool take_gap(struct spill *spill, uint64_t bytes, uint64_t *ret_offset)
{
    for (size_t i = 0; i < spill->gap_count; i++) {
        struct gap *gap = &spill->gaps[i];
        if (gap->bytes < bytes)
            continue;
        *ret_offset = gap->offset;
        gap->offset += bytes;
        gap->bytes -= bytes;
        if (gap->bytes == 0)
            memmove(gap, gap + 1, (--spill->gap_count - i) * sizeof *gap);
        return true;
    }
    return false;
}

/* What finds no memory to be noted in is not used again: the file only gets longer. */
static void give_gap(struct spill *spill, uint64_t offset, uint64_t bytes)
{
    size_t at = 0;
    while (at < spill->gap_count && spill->gaps[at].offset < offset)
        at++;
    assert(at == spill->gap_count || offset + bytes <= spill->gaps[at].offset);
    bool joins_next = at < spill->gap_count && spill->gaps[at].offset == offset + bytes;
    bool joins_last = at > 0 && spill->gaps[at - 1].offset + spill->gaps[at - 1].bytes == offset;
    if (joins_last) {
        spill->gaps[at - 1].bytes += bytes + (joins_next ? spill->gaps[at].bytes : 0);
        if (joins_next)
            memmove(&spill->gaps[at], &spill->gaps[at + 1], (--spill->gap_count - at) * sizeof *spill->gaps);
        return;
    }
    if (joins_next) {
        spill->gaps[at].offset = offset;
        spill->gaps[at].bytes += bytes;
        return;
    }
    if (spill->gap_count == spill->gap_capacity) {
        struct gap *larger = realloc(spill->gaps, 2 * spill->gap_capacity * sizeof *larger);
        if (!larger)
            return;
        spill->gaps = larger;
        spill->gap_capacity *= 2;
    }
    memmove(&spill->gaps[at + 1], &spill->gaps[at], (spill->gap_count++ - at) * sizeof *spill->gaps);
    spill->gaps[at] = (struct gap){offset, bytes};
}

int spill_put(struct spill *spill, const void *data, uint64_t bytes, uint64_t *ret_offset)
{
    uint64_t offset, blocks = whole_blocks(bytes);
    pthread_mutex_lock(&spill->lock);
    bool there = take_gap(spill, blocks, &offset);
    if (there) {
        spill->used_bytes += blocks;
        spill->used_peak = spill->used_bytes > spill->used_peak ? spill->used_bytes : spill->used_peak;
    }
    pthread_mutex_unlock(&spill->lock);
    if (!there)
        return -ENOSPC;
    int status = write_all(spill->memory.descriptor, data, bytes, offset);
    if (status < 0) {
        spill_free(spill, offset, bytes);
        return status;
    }
    *ret_offset = offset;
    return 0;
}

void spill_free(struct spill *spill, uint64_t offset, uint64_t bytes)
{
    uint64_t blocks = whole_blocks(bytes);
    /* First, so that nobody writes there yet. If it fails, the file keeps blocks that are written over later. */
    (void)fallocate(spill->memory.descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)blocks);
    pthread_mutex_lock(&spill->lock);
    give_gap(spill, offset, blocks);
    assert(spill->used_bytes >= blocks);
    spill->used_bytes -= blocks;
    pthread_mutex_unlock(&spill->lock);
}
