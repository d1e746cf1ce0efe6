/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sources under way: from submission, through the engine's result, to the commit of its files.
 *
 * One slot per source; its index is the tag given to the engine and to the output tree. The number of slots is bounded
 * by the engine's window and the tree's queue, both of which refuse what is too much. A slot owns the strings the tree
 * reads while it commits; the data of files stays where the engine put it, until the result is acknowledged.
 */
#ifndef SHEAF_TOOL_ROOTS_H
#define SHEAF_TOOL_ROOTS_H

#include <sheaf/sheaf.h>

#include "report.h"
#include "sources.h"

struct root {
    char *path, *name;
    uint64_t size_bytes;
    int64_t mtime_ns;
    double began_seconds;
    struct sheaf_result *result; /* NULL: the engine has not finished it, or never had it */
    enum sheaf_root_status status;
    bool has_pages;
    uint64_t pages;
    struct text_list paths;   /* of its files */
    struct text_list scalars; /* texts of values that have no bytes of their own */
    struct sheaf_tree_file *files;
    size_t file_count, file_capacity;
    struct text manifest_line, error_lines;
    uint32_t next; /* in the free list or in the queue of those that wait for the tree */
};

struct roots {
    struct root *items;
    uint32_t capacity;
    uint32_t free_first;
    uint32_t queue_first, queue_last; /* complete, not taken by the tree yet */
    uint32_t in_engine, in_tree;
};
#define ROOT_NONE UINT32_MAX

void roots_start(struct roots *roots);
void roots_free(struct roots *roots);
/* A slot for a source. The index stays, the address may change with the next call. */
uint32_t roots_take(struct roots *roots, const struct source *source, double now_seconds);
void roots_release(struct roots *roots, uint32_t index);
void roots_queue(struct roots *roots, uint32_t index);

/* An output of the Plan with the pattern of its files. */
struct root_output {
    size_t index;
    uint32_t depth;
    sheaf_kind kind;
    const char *port, *pattern; /* pattern NULL: nothing is written */
};
struct root_outputs {
    struct root_output *items;
    size_t count;
};
/* Reads and checks the Plan's outputs; an exit code. */
int root_outputs_read(struct root_outputs *outputs, const struct sheaf_plan *plan);

/* Builds files, manifest line and error lines from the engine's result. 0, or a negative status: a name that is too
 * long, a value that cannot be a file; then the root is failed, with that as its message. */
int root_build(struct root *root, const struct root_outputs *outputs, double now_seconds);
/* The same for a source that never reached the engine. */
void root_build_failed(struct root *root, enum sheaf_class class_id, const char *message);
void root_build_skipped(struct root *root, const char *earlier_line, const char *message);
/* Its files cannot be written as they are: without them it is failed, class io. */
void root_refuse(struct root *root, const char *message);
/* What the tree is to commit. */
void root_commit(const struct root *root, uint32_t index, struct sheaf_tree_commit *ret_commit);

#endif
