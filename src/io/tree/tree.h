/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside an output tree (the contract is <sheaf/output.h>). Files and who does what:
 *
 *   open.c    takes the lock, reads the journal, starts the writer; closes            caller's thread
 *   lookup.c  what the journal knows of a source                                      caller's thread
 *   queue.c   submit, poll, flush, and the writer thread's loop                       both
 *   commit.c  one group: write, fsync, rename, fsync folders, journal, lines          writer
 *   record.c  the text of a journal record, both ways                                 both, pure
 *   names.c   which names are allowed, and sheaf_tree_name                            pure
 *
 * `lock` guards the queue and the index; the journal is read with pread by either thread, and appended to by the
 * writer. Every system call that changes something is announced to `hooks`, so that a test can kill the process before
 * any of them.
 */
#ifndef SRC_IO_TREE_TREE_H
#define SRC_IO_TREE_TREE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sheaf/output.h>

#include "io/io.h"
#include "io/tree/index.h"
#include "io/tree/journal.h"

#define TREE_GROUP_MAX 64u        /* roots committed together */
#define TREE_GROUP_WAIT_US 50000  /* the first of a group waits no longer for others */
#define TREE_OUTSTANDING_MAX 256u /* submitted and not yet polled */
#define TREE_STATE ".sheaf"       /* folder of our own files */

struct tree_hooks {
    void *cookie;
    void (*step)(void *cookie, const char *what); /* before each changing call, on the thread that makes it */
    int64_t (*fault)(void *cookie, enum io_opcode opcode, uint64_t offset_bytes, uint64_t length_bytes); /* io.h */
};

struct tree_file {
    char *path;
    const void *data;
    uint64_t length_bytes;
    uint64_t hash;
    int64_t mtime_ns;
    uint64_t temporary; /* number in the name of its temporary file; 0: there is none */
    int fd;
    bool placed;
};

/* A root on its way. */
struct tree_root {
    struct tree_file *files;
    uint32_t file_count;
    char *path; /* of the source */
    uint64_t key;
    uint64_t size_bytes;
    int64_t mtime_ns;
    bool skipped;
    enum journal_state state;
    char *manifest_line;
    char *error_lines; /* or NULL */
    char *stale;       /* text of the record this one replaces, or NULL */
    uint64_t tag;
    int64_t queued_us;
    uint64_t record_offset; /* in the group's journal bytes */
    int result;
};

struct tree_done {
    uint64_t tag;
    int result;
};

struct sheaf_tree {
    char *directory;
    char *run_id;
    bool durable;
    bool verify_always;
    void *cookie;
    void (*log)(void *cookie, int level, const char *line);
    struct tree_hooks hooks;
    int root_fd, state_fd, temporary_fd, lock_fd, journal_fd, manifest_fd, errors_fd, event_fd;
    struct io *io; /* the writer's */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t writer;
    bool writer_started;
    bool closing, flushing;
    struct tree_root *queue[TREE_OUTSTANDING_MAX];
    uint32_t queue_first, queue_count;
    struct tree_done done[TREE_OUTSTANDING_MAX];
    uint32_t done_first, done_count;
    uint32_t outstanding;
    struct index records; /* key -> offset << 3 | enum journal_state */
    char *line;           /* of the last lookup */

    /* The writer's: */
    uint64_t journal_bytes, manifest_bytes, errors_bytes;
    uint64_t temporaries;
    struct index folders; /* hashes of folders whose way down from the root is durable */
    int broken;           /* the journal cannot be trusted to take more: why */
    int lines_broken;     /* a line could not be written: why */
};

/* sheaf_tree_open with hooks; `hooks` may be NULL. */
int tree_open(const char *directory, const struct sheaf_tree_options *options, const struct tree_hooks *hooks,
              struct sheaf_tree **ret_tree, struct sheaf_error *error);

static inline void tree_step(const struct sheaf_tree *tree, const char *what)
{
    if (tree->hooks.step != NULL)
        tree->hooks.step(tree->hooks.cookie, what);
}

int tree_fail(struct sheaf_error *error, int code, const char *format, ...) SHEAF_PRINTF(3, 4);
void tree_log(const struct sheaf_tree *tree, const char *format, ...) SHEAF_PRINTF(2, 3);
int64_t tree_now_us(void);

/* ---- names.c ---- */

/* NULL when a file may have this path inside the tree, else why not. */
const char *tree_path_problem(const char *path);

/* ---- record.c ---- */

struct record_file {
    char *path;
    uint64_t length_bytes;
    uint64_t hash;
    int64_t mtime_ns;
};
struct record {
    char *path;
    uint64_t size_bytes;
    int64_t mtime_ns;
    struct record_file *files;
    size_t file_count;
    const char *manifest_line; /* in the text it was read from; ends before the line end */
    size_t manifest_length;
    const char *error_lines; /* the rest of the text */
};
/* The first line of a root's record, without line end; NULL: out of memory. Free it. */
char *record_describe(const struct tree_root *root, const char *run_id);
/* -EBADMSG: not a record. The text must outlive ret_record; free with record_clear. */
int record_parse(const char *text, struct record *ret_record);
void record_clear(struct record *record);

char *record_describe_header(const char *run_id, const char *fingerprint, const char *description);
/* What a header says; strings are new, the description NULL where it says nothing. */
int record_parse_header(const char *text, char **ret_fingerprint, char **ret_description);

/* ---- lookup.c ---- */

/* The journal's record of a source: 0 and its text (free it); -ENOENT: none; -EBADMSG: damaged, or another source's. */
int tree_find(struct sheaf_tree *tree, const char *path, enum journal_state *ret_state, char **ret_text);

/* ---- commit.c ---- */

/* Commits a group; every root has its result afterwards. The writer's thread. */
void tree_commit_group(struct sheaf_tree *tree, struct tree_root **roots, uint32_t count);

/* ---- queue.c ---- */

int tree_start_writer(struct sheaf_tree *tree);
void tree_stop_writer(struct sheaf_tree *tree); /* after it has committed everything */

#endif
