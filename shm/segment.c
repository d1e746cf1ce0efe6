/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Known by number: the headers of the oldest supported distribution lack some of them. */
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define SEGMENT_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

static uint64_t page_bytes(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* [offset, offset + length) widened to whole pages; false when it does not lie inside the segment. */
static bool widen(const struct segment *segment, uint64_t *offset, uint64_t *length_bytes)
{
    if (!segment_at(segment, *offset, *length_bytes))
        return false;
    uint64_t page = page_bytes();
    uint64_t end = (*offset + *length_bytes + page - 1) / page * page;
    *offset = *offset / page * page;
    *length_bytes = end - *offset;
    return true;
}

/* Map `descriptor` at a 2 MiB boundary: reserve more than is needed, map inside it, give the rest back. */
static int map_aligned(int descriptor, uint64_t size_bytes, bool writable, void **ret_base)
{
    uint64_t reserved_bytes = size_bytes + HUGE_PAGE_BYTES;
    char *reserved = mmap(NULL, reserved_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED)
        return -errno;
    uint64_t before = -(uintptr_t)reserved & (HUGE_PAGE_BYTES - 1);
    char *base = reserved + before;
    int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    if (mmap(base, size_bytes, protection, MAP_SHARED | MAP_FIXED, descriptor, 0) == MAP_FAILED) {
        int status = -errno;
        munmap(reserved, reserved_bytes);
        return status;
    }
    if (before)
        munmap(reserved, before);
    munmap(base + size_bytes, HUGE_PAGE_BYTES - before);
    *ret_base = base;
    return 0;
}

static int size_and_seal(int descriptor, uint64_t size_bytes)
{
    if (ftruncate(descriptor, (off_t)size_bytes))
        return -errno;
    /* F_SEAL_SEAL: a worker that holds the writable descriptor cannot seal the memory against writing. */
    return fcntl(descriptor, F_ADD_SEALS, SEGMENT_SEALS | F_SEAL_SEAL) ? -errno : 0;
}

int segment_create(const char *label, uint64_t size_bytes, struct segment *ret_segment)
{
    uint64_t page = page_bytes();
    if (size_bytes == 0 || size_bytes > UINT64_C(1) << 46)
        return -EINVAL;
    size_bytes = (size_bytes + page - 1) / page * page;
    int descriptor = memfd_create(label, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (descriptor < 0)
        return -errno;
    void *base;
    int status = size_and_seal(descriptor, size_bytes);
    if (!status)
        status = map_aligned(descriptor, size_bytes, true, &base);
    if (status) {
        close(descriptor);
        return status;
    }
    *ret_segment = (struct segment){base, size_bytes, descriptor, true, SEGMENT_ANY_NODE};
    return 0;
}

int segment_bind(struct segment *segment, int node)
{
    enum { BITS = 8 * sizeof(unsigned long), NODES_MAX = 1024 };
    unsigned long nodes[NODES_MAX / BITS] = {0};
    if (node == SEGMENT_ANY_NODE)
        return 0;
    if (node < 0 || node >= NODES_MAX)
        return -EINVAL;
    nodes[node / BITS] = 1ul << (node % BITS);
    /* The policy of shared memory belongs to the file: it holds for whoever touches a page first. (The kernel takes one
     * bit less than it is told.) */
    if (syscall(SYS_mbind, segment->base, segment->size_bytes, MPOL_PREFERRED, nodes, (unsigned long)NODES_MAX + 1, 0))
        return -errno;
    segment->node = node;
    return 0;
}

int segment_attach(int descriptor, bool writable, struct segment *ret_segment)
{
    int seals = fcntl(descriptor, F_GET_SEALS);
    int flags = fcntl(descriptor, F_GETFL);
    off_t size_bytes = lseek(descriptor, 0, SEEK_END); /* not fstat: a sealed worker may come here */
    if (seals < 0 || flags < 0 || size_bytes < 0)
        return errno == EBADF ? -EBADF : -EINVAL;
    if ((seals & SEGMENT_SEALS) != SEGMENT_SEALS || size_bytes == 0)
        return -EINVAL;
    if (writable && (flags & O_ACCMODE) != O_RDWR)
        return -EACCES;
    void *base;
    int status = map_aligned(descriptor, (uint64_t)size_bytes, writable, &base);
    if (status)
        return status;
    *ret_segment = (struct segment){base, (uint64_t)size_bytes, descriptor, writable, SEGMENT_ANY_NODE};
    return 0;
}

int segment_attach_file(int descriptor, struct segment *ret_segment)
{
    off_t size_bytes = lseek(descriptor, 0, SEEK_END);
    if (size_bytes <= 0)
        return -EINVAL;
    void *base = NULL;
    int status = map_aligned(descriptor, (uint64_t)size_bytes, false, &base);
    if (status)
        return status;
    *ret_segment = (struct segment){base, (uint64_t)size_bytes, descriptor, false};
    return 0;
}

int segment_commit(const struct segment *segment, uint64_t offset, uint64_t length_bytes)
{
    if (!widen(segment, &offset, &length_bytes))
        return -EINVAL;
    if (length_bytes == 0)
        return 0;
    if (length_bytes > segment_memory_available())
        return -ENOMEM;
    int status;
    do
        status = fallocate(segment->descriptor, 0, (off_t)offset, (off_t)length_bytes) ? -errno : 0;
    while (status == -EINTR);
    return status;
}

int segment_decommit(const struct segment *segment, uint64_t offset, uint64_t length_bytes)
{
    if (!segment_at(segment, offset, length_bytes))
        return -EINVAL;
    uint64_t page = page_bytes();
    uint64_t first = (offset + page - 1) / page * page;
    uint64_t end = (offset + length_bytes) / page * page;
    if (first >= end)
        return 0;
    int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    return fallocate(segment->descriptor, mode, (off_t)first, (off_t)(end - first)) ? -errno : 0;
}

int segment_open_read_only(const struct segment *segment, int *ret_descriptor)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", segment->descriptor);
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return -errno;
    *ret_descriptor = descriptor;
    return 0;
}

enum segment_backing segment_advise_huge(const struct segment *segment, uint64_t offset, uint64_t length_bytes)
{
    if (!segment_at(segment, offset, length_bytes))
        return SEGMENT_SMALL_PAGES;
    uint64_t first = (offset + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    uint64_t end = (offset + length_bytes) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
    if (first >= end)
        return SEGMENT_SMALL_PAGES;
    /* One page in each block: a block without any is not collapsed, and the huge page comes from the node where most of
     * its pages lie, whatever the policy says. */
    for (uint64_t block = first; block < end; block += HUGE_PAGE_BYTES)
        (void)fallocate(segment->descriptor, 0, (off_t)block, (off_t)page_bytes());
    char *at = (char *)segment->base + first;
    bool advised = madvise(at, end - first, MADV_HUGEPAGE) == 0;
    if (madvise(at, end - first, MADV_COLLAPSE) == 0)
        return SEGMENT_HUGE_NOW;
    return advised ? SEGMENT_HUGE_LATER : SEGMENT_SMALL_PAGES;
}

int segment_touch(const struct segment *segment, uint64_t offset, uint64_t length_bytes)
{
    if (!widen(segment, &offset, &length_bytes))
        return -EINVAL;
    if (length_bytes == 0)
        return 0;
    char *at = (char *)segment->base + offset;
    if (madvise(at, length_bytes, segment->writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0)
        return 0;
    if (errno != EINVAL)
        return -errno;
    for (uint64_t i = 0; i < length_bytes; i += page_bytes()) { /* a kernel without MADV_POPULATE */
        char byte = *(volatile char *)(at + i);
        (void)byte;
    }
    return 0;
}

void segment_drop_descriptor(struct segment *segment)
{
    if (segment->descriptor >= 0)
        close(segment->descriptor);
    segment->descriptor = -1;
}

void segment_release(struct segment *segment)
{
    if (segment->base)
        munmap(segment->base, segment->size_bytes);
    if (segment->descriptor >= 0)
        close(segment->descriptor);
    *segment = (struct segment)SEGMENT_NONE;
}
