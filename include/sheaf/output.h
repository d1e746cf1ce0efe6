/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An output tree: files that count only when a journal names them.
 *
 * Roots are committed in groups (up to 64, or 50 ms): temporary names, fsyncs in parallel, renames, one fsync per
 * folder, one checksummed journal record per root, one fsync of the journal. Killed between any two system calls, tree
 * and journal are valid, and the same command goes on where it stopped. Beside the files stand manifest.jsonl (a line
 * per input), errors.jsonl and run.json; docs/OUTPUTS.md describes all of it.
 *
 * One thread at a time per tree. Writing happens on a thread of the tree's own, from the caller's memory, without
 * copies.
 */
#ifndef SHEAF_OUTPUT_H
#define SHEAF_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

#include <sheaf/status.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sheaf_tree;

enum sheaf_durability { SHEAF_DURABILITY_FULL = 0, SHEAF_DURABILITY_NONE };

struct sheaf_tree_options {
    uint32_t size;
    enum sheaf_durability durability;
    const char *run_id;
    const char *fingerprint; /* of the pipeline: another one in the journal is refused (-EEXIST) unless `restart` */
    const char *description; /* canonical text of the pipeline, so that a refusal can show the difference; or NULL */
    uint32_t restart;        /* forget what is journalled and begin again */
    uint32_t io;             /* enum sheaf_io_backend */
    void *cookie;
    void (*log)(void *cookie, int level, const char *line);
    uint32_t verify; /* enum sheaf_verify: how closely sheaf_tree_lookup looks at committed files */
};
/* TOUCHED: a file's size is compared, and its hash when its modification time is not the journalled one. ALWAYS: the
 * hash of every file. */
enum sheaf_verify { SHEAF_VERIFY_TOUCHED = 0, SHEAF_VERIFY_ALWAYS };

/* Opens or makes `directory`: takes its lock (-EBUSY names the run and pid that hold it), reads the journal, cuts a
 * torn tail, removes temporary files of dead runs. */
SHEAF_API int sheaf_tree_open(const char *directory, const struct sheaf_tree_options *options,
                              struct sheaf_tree **ret_tree, struct sheaf_error *error);

/* What identifies an input: its path as given, and what of the file tells a change. */
struct sheaf_source_identity {
    uint32_t size;
    uint32_t reserved;
    const char *path;
    uint64_t size_bytes;
    int64_t mtime_ns;
};

enum sheaf_resume { SHEAF_RESUME_NEW = 0, SHEAF_RESUME_DONE, SHEAF_RESUME_CHANGED, SHEAF_RESUME_FAILED };
/* What an earlier run left for this input: DONE is committed (ok, partial or filtered) with its files as journalled;
 * FAILED was tried and failed; CHANGED is journalled for other bytes, or its files are damaged. `ret_line` (may be
 * NULL) gets the journalled manifest line (NULL when NEW), valid until the next lookup or the close. */
SHEAF_API enum sheaf_resume sheaf_tree_lookup(struct sheaf_tree *tree, const struct sheaf_source_identity *identity,
                                              const char **ret_line);

struct sheaf_tree_file {
    const char *path; /* relative to the tree; "..", absolute and reserved names are refused */
    const void *data; /* readable until the commit is polled */
    uint64_t length_bytes;
};

struct sheaf_tree_commit {
    uint32_t size;
    uint32_t file_count;
    const struct sheaf_tree_file *files;
    struct sheaf_source_identity identity;
    const char *status;        /* "ok", "partial", "filtered", "failed", "skipped" */
    const char *manifest_line; /* one JSON object without line end; the tree adds nothing */
    const char *error_lines;   /* JSON objects, each with its line end, or NULL */
    uint64_t tag;
};
/* Queues one root. 0, -EAGAIN (the queue is full: poll first) or an error of the arguments. Strings are copied, the
 * data of files is not. `skipped` roots write their manifest line, and to errors.jsonl what the journal has for them.
 */
SHEAF_API int sheaf_tree_submit(struct sheaf_tree *tree, const struct sheaf_tree_commit *commit,
                                struct sheaf_error *error);

/* Readable while sheaf_tree_poll may have something. */
SHEAF_API int sheaf_tree_descriptor(const struct sheaf_tree *tree);
/* 1 and the tag of a root that is durable (`ret_status` 0) or could not be written; 0 when there is none. */
SHEAF_API int sheaf_tree_poll(struct sheaf_tree *tree, uint64_t *ret_tag, int *ret_status);
/* Commits what is queued without waiting for a fuller group. */
SHEAF_API void sheaf_tree_flush(struct sheaf_tree *tree);

/* A file name for a source path: bytes are kept, "/" separates folders; components over 200 bytes are cut and get a
 * hash, reserved ones are escaped; injective. Writes a NUL-terminated string; -ENAMETOOLONG if it does not fit. */
SHEAF_API int sheaf_tree_name(const char *source_path, char *ret_name, size_t name_bytes);

/* Flushes, writes run.json (`run_json`, or nothing when NULL) atomically, releases the lock. NULL is fine. */
SHEAF_API int sheaf_tree_close(struct sheaf_tree *tree, const char *run_json, struct sheaf_error *error);

#ifdef __cplusplus
}
#endif
#endif
