/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments: shared memory as anonymous files (memfd), mapped by several processes at addresses of their own.
 *
 * A segment has a size for life: it is sealed against shrinking and growing as soon as the size is set, so that no
 * process can pull memory from under another. It is sparse: parts are committed (fallocate) before they are used, so
 * that a full machine is an error code here and not a SIGBUS somewhere. It has no name in any file system, and it is
 * gone when the last process that holds it is gone. A process that must not write gets a descriptor that was opened
 * read-only.
 *
 * Any thread may call anything here; two threads on the same `struct segment` need their own agreement.
 */
#ifndef SHM_SEGMENT_H
#define SHM_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/atomic.h"

struct segment {
    void *base;          /* 2 MiB aligned, NULL when not mapped */
    uint64_t size_bytes; /* a multiple of the page size */
    int descriptor;
    bool writable;
    int node; /* what is committed here lies on this NUMA node, as the kernel numbers them; or SEGMENT_ANY_NODE */
};
#define SEGMENT_ANY_NODE (-1)
#define SEGMENT_NONE                                                                                                   \
    {                                                                                                                  \
        0, 0, -1, false, SEGMENT_ANY_NODE                                                                              \
    }

enum segment_backing {
    SEGMENT_SMALL_PAGES, /* the system has no huge pages for us */
    SEGMENT_HUGE_LATER,  /* advised: the kernel may collapse it in the background */
    SEGMENT_HUGE_NOW,    /* collapsed */
};

/* A new segment, mapped read-write, nothing committed. `label` is seen in /proc/PID/maps only. -EINVAL, -ENOMEM,
 * -EMFILE. */
int segment_create(const char *label, uint64_t size_bytes, struct segment *ret_segment);

/* What is committed from now on is to lie on a NUMA node, whichever process touches it first; when the node is full, on
 * another, since a budget is for the whole machine. SEGMENT_ANY_NODE does nothing. -EPERM, -ENOSYS, -EINVAL: the system
 * does not let us; the segment is as good as before. */
int segment_bind(struct segment *segment, int node);

/*
 * Map a segment that came as a descriptor. The descriptor is owned by the segment from success on. -EINVAL: not a
 * sealed segment; -EACCES: writable wanted and the descriptor is read-only.
 */
int segment_attach(int descriptor, bool writable, struct segment *ret_segment);

/* The same, for reading only, of a file that nobody but its owner can make shorter. -EINVAL: it is empty. */
int segment_attach_file(int descriptor, struct segment *ret_segment);

/* Make [offset, offset + length) real memory (whole pages around it). Idempotent. -ENOSPC or -ENOMEM: the machine is
 * full. */
int segment_commit(const struct segment *segment, uint64_t offset, uint64_t length_bytes);

/* What the machine, and every control group from our own up to the root, can still give without swapping; UINT64_MAX:
 * not known. */
uint64_t segment_memory_available(void);

/* The same of the groups alone: `group`, a path as in /proc/self/cgroup ("" for the root), below the mount point. */
uint64_t segment_group_memory(const char *mount, const char *group);

/* Give whole pages inside [offset, offset + length) back; they read as zeros and must be committed again before use. */
int segment_decommit(const struct segment *segment, uint64_t offset, uint64_t length_bytes);

/* A second descriptor (close-on-exec) to the same memory that can only be mapped for reading. */
int segment_open_read_only(const struct segment *segment, int *ret_descriptor);

/* Ask for huge pages for the 2 MiB blocks that lie whole inside a range, committed or about to be: before, they are
 * cleared where they stand, afterwards copied. Never fails: says what came of it. */
enum segment_backing segment_advise_huge(const struct segment *segment, uint64_t offset, uint64_t length_bytes);

/* Fault a committed range into this process's page tables ahead of use (writable or read-only). 0 or negative errno. */
int segment_touch(const struct segment *segment, uint64_t offset, uint64_t length_bytes);

/* Close the descriptor and keep the mapping: for a process that will never commit, map or hand on any more. */
void segment_drop_descriptor(struct segment *segment);

/* Unmap and close. The segment is SEGMENT_NONE afterwards; releasing that again is fine. */
void segment_release(struct segment *segment);

/* The address of [offset, offset + length), or NULL when it does not lie inside: for offsets that came from elsewhere.
 */
static inline void *segment_at(const struct segment *segment, uint64_t offset, uint64_t length_bytes)
{
    if (!segment->base || offset > segment->size_bytes || length_bytes > segment->size_bytes - offset)
        return 0;
    return (char *)segment->base + offset;
}

#endif
