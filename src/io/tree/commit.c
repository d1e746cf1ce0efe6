/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One group commit. The order is what makes every moment of it safe to be killed in:
 *
 *   1 retract   records of sources that are done again stop counting before their files are replaced
 *   2 write     every file under a temporary name, fsync in parallel
 *   3 rename    into place; until 6 they are files that nobody names
 *   4 remove    files of retracted records that the new ones will not name
 *   5 fsync     every folder that has a new name in it, up to the root
 *   6 journal   one append, one fsync: from here on the files count
 *   7 lines     manifest.jsonl and errors.jsonl, which can always be made again from the journal
 */
#include "io/tree/tree.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

struct group {
    struct sheaf_tree *tree;
    struct tree_root **roots;
    uint32_t count;
    char **folders; /* that have new names in them; "" is the root */
    size_t folder_count, folder_capacity;
};

static bool is_live(const struct tree_root *root)
{
    return !root->skipped && root->result == 0;
}

/* Nothing of this group is to count: what was not refused already ends with `rc`. */
static void fail_group(struct group *group, int rc)
{
    for (uint32_t i = 0; i < group->count; i++)
        if (is_live(group->roots[i]))
            group->roots[i]->result = rc;
}

static int tree_io(struct sheaf_tree *tree, enum io_opcode opcode, int fd, void *data, uint64_t length, uint64_t offset)
{
    struct io_request request = {opcode, fd, data, length, offset, 0};
    struct io_completion completion;
    int rc = io_submit(tree->io, &request);

    while (rc == 0)
        rc = io_reap(tree->io, &completion, 1, IO_WAIT_FOREVER);
    if (rc < 0)
        return rc;
    return completion.result < 0 ? (int)completion.result : 0;
}

/* ---- 1 and 6: the journal ---- */

/* Appends what is durable when this returns 0. An append that failed is cut off again; where that is impossible, or an
 * fsync failed (after which nobody knows what the disk has), the journal takes nothing more in this run. */
static int append_journal(struct sheaf_tree *tree, const struct buffer *records)
{
    int rc = tree_io(tree, IO_WRITE, tree->journal_fd, records->bytes, records->length, tree->journal_bytes);
    if (rc < 0) {
        tree_log(tree, "%s: the journal cannot be written: %s", tree->directory, strerror(-rc));
        if (ftruncate(tree->journal_fd, (off_t)tree->journal_bytes) < 0)
            tree->broken = rc;
        return rc;
    }
    rc = tree->durable ? tree_io(tree, IO_FDATASYNC, tree->journal_fd, NULL, 0, 0) : 0;
    if (rc < 0) {
        tree_log(tree, "%s: the journal cannot be synced: %s", tree->directory, strerror(-rc));
        tree->broken = rc;
        return rc;
    }
    tree->journal_bytes += records->length;
    return 0;
}

static int index_record(struct sheaf_tree *tree, uint64_t key, uint64_t offset, enum journal_state state)
{
    pthread_mutex_lock(&tree->lock);
    int rc = index_set(&tree->records, key, offset << 3 | state);
    pthread_mutex_unlock(&tree->lock);
    return rc;
}

/* Finds the record a root replaces, and appends a retraction of it unless it is one already or names no files. */
static int retract_root(struct sheaf_tree *tree, struct tree_root *root, struct buffer *records)
{
    enum journal_state state;
    struct record record;
    int rc = tree_find(tree, root->path, &state, &root->stale);

    if (rc < 0)
        return 0; /* nothing there, or nothing that counts */
    rc = record_parse(root->stale, &record);
    bool same = rc == 0 && strcmp(record.path, root->path) == 0 && record.file_count > 0;
    if (rc == 0)
        record_clear(&record);
    if (!same) {
        free(root->stale);
        root->stale = NULL;
        return 0;
    }
    if (state == JOURNAL_RETRACTED)
        return 0;
    root->record_offset = records->length;
    const char *parts[] = {root->stale};
    rc = journal_append(records, JOURNAL_RETRACT, JOURNAL_RETRACTED, root->key, parts, 1);
    return rc < 0 ? rc : 1;
}

static void retract(struct group *group)
{
    struct sheaf_tree *tree = group->tree;
    struct buffer records = {0};
    bool retracted[TREE_GROUP_MAX] = {false};
    int rc = 0;

    for (uint32_t i = 0; i < group->count && rc >= 0; i++)
        if (is_live(group->roots[i])) {
            rc = retract_root(tree, group->roots[i], &records);
            retracted[i] = rc > 0;
        }
    uint64_t start = tree->journal_bytes;
    if (rc >= 0 && records.length > 0) {
        tree_step(tree, "retract");
        rc = append_journal(tree, &records);
    }
    for (uint32_t i = 0; i < group->count && rc >= 0; i++)
        if (retracted[i])
            rc = index_record(tree, group->roots[i]->key, start + group->roots[i]->record_offset, JOURNAL_RETRACTED);
    buffer_clear(&records);
    if (rc < 0)
        fail_group(group, rc);
}

static void journal_roots(struct group *group)
{
    struct sheaf_tree *tree = group->tree;
    struct buffer records = {0};

    for (uint32_t i = 0; i < group->count; i++) {
        struct tree_root *root = group->roots[i];

        if (!is_live(root))
            continue;
        char *description = record_describe(root, tree->run_id);
        const char *parts[] = {description, root->manifest_line, root->error_lines};
        root->record_offset = records.length;
        root->result =
            description == NULL ? -ENOMEM : journal_append(&records, JOURNAL_ROOT, root->state, root->key, parts, 3);
        free(description);
    }
    uint64_t start = tree->journal_bytes;
    if (records.length > 0) {
        tree_step(tree, "journal");
        int rc = append_journal(tree, &records);
        if (rc < 0)
            fail_group(group, rc);
    }
    for (uint32_t i = 0; i < group->count; i++) {
        struct tree_root *root = group->roots[i];

        if (is_live(root) && index_record(tree, root->key, start + root->record_offset, root->state) < 0)
            tree_log(tree, "%s: no memory to remember it in this run; the journal has it", root->path);
    }
    buffer_clear(&records);
}

/* ---- 2: files under temporary names ---- */

static void temporary_name(const struct sheaf_tree *tree, uint64_t number, char *ret_name, size_t name_bytes)
{
    snprintf(ret_name, name_bytes, "%.64s-%llu", tree->run_id, (unsigned long long)number);
}

static void close_file(struct tree_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

/* Requests in flight carry root and file as their tag. */
static uint64_t file_tag(uint32_t root, uint32_t file)
{
    return (uint64_t)root << 32 | file;
}

static int start_file(struct group *group, uint32_t root_index, uint32_t file_index)
{
    struct sheaf_tree *tree = group->tree;
    struct tree_file *file = &group->roots[root_index]->files[file_index];
    char name[128];

    temporary_name(tree, ++tree->temporaries, name, sizeof name);
    tree_step(tree, "create");
    file->fd = openat(tree->temporary_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file->fd < 0)
        return -errno;
    file->temporary = tree->temporaries;
    /* The queue only reads the data of a write. */
    struct io_request request = {IO_WRITE,           file->fd, (void *)(uintptr_t)file->data,
                                 file->length_bytes, 0,        file_tag(root_index, file_index)};
    int rc = io_submit(tree->io, &request);
    if (rc == 0) {
        io_flush(tree->io);
        file->hash = XXH3_64bits(file->length_bytes > 0 ? file->data : "", file->length_bytes);
    }
    return rc;
}

/* After its write a file gets its time and, when durable, an fsync under the same tag; after that it is closed. */
static void go_on_with_file(struct group *group, const struct io_completion *completion)
{
    struct sheaf_tree *tree = group->tree;
    struct tree_root *root = group->roots[completion->tag >> 32];
    struct tree_file *file = &root->files[(uint32_t)completion->tag];
    bool written = file->mtime_ns == 0;
    struct stat status;
    int rc = completion->result < 0 ? (int)completion->result : 0;

    if (rc == 0 && written) {
        if (fstat(file->fd, &status) < 0)
            rc = -errno;
        else
            file->mtime_ns = (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
        struct io_request request = {IO_FSYNC, file->fd, NULL, 0, 0, completion->tag};
        if (rc == 0 && tree->durable) {
            rc = io_submit(tree->io, &request);
            if (rc == 0)
                return;
        }
    }
    if (rc < 0 && root->result == 0)
        root->result = rc;
    close_file(file);
}

static int reap_files(struct group *group, uint32_t in_flight_max)
{
    struct io_completion completions[16];

    while (io_in_flight(group->tree->io) > in_flight_max) {
        int count = io_reap(group->tree->io, completions, 16, IO_WAIT_FOREVER);

        if (count < 0)
            return count;
        for (int i = 0; i < count; i++)
            go_on_with_file(group, &completions[i]);
    }
    return 0;
}

static void write_files(struct group *group)
{
    int rc = 0;

    for (uint32_t i = 0; i < group->count && rc == 0; i++) {
        struct tree_root *root = group->roots[i];

        for (uint32_t j = 0; j < root->file_count && rc == 0 && is_live(root); j++) {
            int started = start_file(group, i, j);

            if (started < 0 && root->result == 0)
                root->result = started;
            if (started < 0)
                close_file(&root->files[j]);
            /* An fsync takes the place of its write, so the queue is never fuller than the number of open files. */
            rc = reap_files(group, IO_DEPTH_DEFAULT - 1);
        }
    }
    if (rc == 0)
        rc = reap_files(group, 0);
    if (rc < 0) { /* the queue itself */
        group->tree->broken = rc;
        fail_group(group, rc);
    }
}

/* ---- 3 and 5: names ---- */

static int note_folder(struct group *group, const char *path, size_t length)
{
    for (size_t i = group->folder_count; i > 0; i--) /* most files of a group share the last few */
        if (strlen(group->folders[i - 1]) == length && memcmp(group->folders[i - 1], path, length) == 0)
            return 0;
    if (group->folder_count == group->folder_capacity) {
        size_t capacity = group->folder_capacity * 2 + 16;
        char **grown = realloc(group->folders, capacity * sizeof *grown);

        if (grown == NULL)
            return -ENOMEM;
        group->folders = grown;
        group->folder_capacity = capacity;
    }
    char *copy = strndup(path, length);
    if (copy == NULL)
        return -ENOMEM;
    group->folders[group->folder_count++] = copy;
    return 0;
}

static size_t parent_length(const char *path, size_t length)
{
    while (length > 0 && path[length - 1] != '/')
        length--;
    return length > 0 ? length - 1 : 0;
}

/* Notes the folder a name stands in, and those above it that are not known to be durable. */
static int note_folders(struct group *group, const char *path)
{
    size_t length = parent_length(path, strlen(path));
    uint64_t seen;
    int rc = note_folder(group, path, length);

    while (rc == 0 && length > 0 && !index_get(&group->tree->folders, XXH3_64bits(path, length), &seen)) {
        length = parent_length(path, length);
        rc = note_folder(group, path, length);
    }
    return rc;
}

static int make_folders(struct sheaf_tree *tree, const char *path)
{
    char *folder = strdup(path);
    int rc = 0;

    if (folder == NULL)
        return -ENOMEM;
    for (char *slash = strchr(folder, '/'); slash != NULL && rc == 0; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        tree_step(tree, "mkdir");
        if (mkdirat(tree->root_fd, folder, 0777) < 0 && errno != EEXIST)
            rc = -errno;
        *slash = '/';
    }
    free(folder);
    return rc;
}

static int place_file(struct group *group, struct tree_file *file)
{
    struct sheaf_tree *tree = group->tree;
    char name[128];

    temporary_name(tree, file->temporary, name, sizeof name);
    tree_step(tree, "rename");
    int rc = renameat(tree->temporary_fd, name, tree->root_fd, file->path) < 0 ? -errno : 0;
    if (rc == -ENOENT) {
        rc = make_folders(tree, file->path);
        tree_step(tree, "rename");
        if (rc == 0 && renameat(tree->temporary_fd, name, tree->root_fd, file->path) < 0)
            rc = -errno;
    }
    if (rc < 0)
        return rc;
    file->temporary = 0;
    file->placed = true;
    return tree->durable ? note_folders(group, file->path) : 0;
}

static void place_files(struct group *group)
{
    for (uint32_t i = 0; i < group->count; i++) {
        struct tree_root *root = group->roots[i];

        for (uint32_t j = 0; j < root->file_count && is_live(root); j++)
            root->result = place_file(group, &root->files[j]);
    }
}

static int sync_folder(struct group *group, const char *path)
{
    struct sheaf_tree *tree = group->tree;
    int fd = openat(tree->root_fd, path[0] == '\0' ? "." : path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    struct io_request request = {IO_FSYNC, fd, NULL, 0, 0, (uint64_t)fd};
    int rc = io_submit(tree->io, &request);
    if (rc < 0)
        close(fd);
    return rc;
}

static int reap_folders(struct sheaf_tree *tree, uint32_t in_flight_max)
{
    struct io_completion completions[16];
    int rc = 0;

    while (io_in_flight(tree->io) > in_flight_max) {
        int count = io_reap(tree->io, completions, 16, IO_WAIT_FOREVER);

        if (count < 0)
            return count;
        for (int i = 0; i < count; i++) {
            close((int)completions[i].tag);
            if (completions[i].result < 0)
                rc = (int)completions[i].result;
        }
    }
    return rc;
}

static void sync_folders(struct group *group)
{
    struct sheaf_tree *tree = group->tree;
    int rc = 0;

    for (size_t i = 0; i < group->folder_count && rc == 0; i++) {
        rc = sync_folder(group, group->folders[i]);
        int reaped = reap_folders(tree, IO_DEPTH_DEFAULT - 1);
        rc = rc < 0 ? rc : reaped;
    }
    int reaped = reap_folders(tree, 0);
    rc = rc < 0 ? rc : reaped;
    for (size_t i = 0; i < group->folder_count; i++) {
        const char *path = group->folders[i];

        if (rc == 0) /* forgetting one for want of memory only syncs it again */
            (void)index_set(&tree->folders, XXH3_64bits(path, strlen(path)), 1);
        free(group->folders[i]);
    }
    free(group->folders);
    if (rc < 0)
        fail_group(group, rc);
}

/* ---- 4 and failures: what is no longer wanted ---- */

static bool names_file(const struct tree_root *root, const char *path)
{
    for (uint32_t i = 0; i < root->file_count; i++)
        if (strcmp(root->files[i].path, path) == 0)
            return true;
    return false;
}

/* A failed root leaves no temporaries, and none of the names it was given: what they replaced no longer counts anyway.
 */
static void clean_failed(struct sheaf_tree *tree, struct tree_root *root)
{
    char name[128];

    for (uint32_t i = 0; i < root->file_count; i++) {
        struct tree_file *file = &root->files[i];

        close_file(file);
        if (file->temporary != 0) {
            temporary_name(tree, file->temporary, name, sizeof name);
            tree_step(tree, "unlink");
            unlinkat(tree->temporary_fd, name, 0);
        }
        if (file->placed) {
            tree_step(tree, "unlink");
            unlinkat(tree->root_fd, file->path, 0);
        }
    }
}

static void remove_stale(struct sheaf_tree *tree, struct tree_root *root)
{
    struct record record;

    if (root->stale == NULL || record_parse(root->stale, &record) < 0)
        return;
    for (size_t i = 0; i < record.file_count; i++)
        if (!names_file(root, record.files[i].path)) {
            tree_step(tree, "unlink");
            unlinkat(tree->root_fd, record.files[i].path, 0);
        }
    record_clear(&record);
}

/* Before the new record is written: as long as there is only the retraction, it tells what is still to be removed. */
static void remove_stale_files(struct group *group)
{
    for (uint32_t i = 0; i < group->count; i++)
        if (is_live(group->roots[i]))
            remove_stale(group->tree, group->roots[i]);
}

static void clean_up_failed(struct group *group)
{
    for (uint32_t i = 0; i < group->count; i++)
        if (group->roots[i]->result < 0)
            clean_failed(group->tree, group->roots[i]);
}

/* ---- 7: lines ---- */

static int append_line(struct buffer *lines, const char *line)
{
    size_t length = line == NULL ? 0 : strlen(line);
    int rc = length == 0 ? 0 : buffer_append(lines, line, length);

    return rc == 0 && length > 0 && line[length - 1] != '\n' ? buffer_append(lines, "\n", 1) : rc;
}

/* The errors of a skipped source are those of the run that did it. */
static int append_old_errors(struct sheaf_tree *tree, const struct tree_root *root, struct buffer *lines)
{
    enum journal_state state;
    struct record record;
    char *text;
    int rc = 0;

    if (tree_find(tree, root->path, &state, &text) < 0)
        return 0;
    if (record_parse(text, &record) == 0) {
        if (strcmp(record.path, root->path) == 0 && state != JOURNAL_RETRACTED)
            rc = append_line(lines, record.error_lines);
        record_clear(&record);
    }
    free(text);
    return rc;
}

static int write_lines(struct sheaf_tree *tree, int fd, const struct buffer *lines, uint64_t *end_bytes)
{
    if (lines->length == 0)
        return 0;
    tree_step(tree, "lines");
    int rc = tree_io(tree, IO_WRITE, fd, lines->bytes, lines->length, *end_bytes);
    if (rc == 0)
        *end_bytes += lines->length;
    else if (ftruncate(fd, (off_t)*end_bytes) < 0)
        tree_log(tree, "%s: a torn line stays in a .jsonl file: %s", tree->directory, strerror(errno));
    return rc;
}

static void append_lines(struct group *group)
{
    struct sheaf_tree *tree = group->tree;
    struct buffer manifest = {0}, errors = {0};
    int rc = 0;

    for (uint32_t i = 0; i < group->count && rc == 0; i++) {
        const struct tree_root *root = group->roots[i];

        if (root->result < 0)
            continue;
        rc = append_line(&manifest, root->manifest_line);
        if (rc == 0 && root->skipped && root->error_lines == NULL)
            rc = append_old_errors(tree, root, &errors);
        else if (rc == 0)
            rc = append_line(&errors, root->error_lines);
    }
    if (rc == 0)
        rc = write_lines(tree, tree->manifest_fd, &manifest, &tree->manifest_bytes);
    if (rc == 0)
        rc = write_lines(tree, tree->errors_fd, &errors, &tree->errors_bytes);
    if (rc < 0 && tree->lines_broken == 0) {
        tree_log(tree, "%s: manifest.jsonl or errors.jsonl cannot be written: %s", tree->directory, strerror(-rc));
        tree->lines_broken = rc;
    }
    buffer_clear(&manifest);
    buffer_clear(&errors);
}

void tree_commit_group(struct sheaf_tree *tree, struct tree_root **roots, uint32_t count)
{
    struct group group = {.tree = tree, .roots = roots, .count = count};

    assert(count > 0 && count <= TREE_GROUP_MAX);
    if (tree->broken != 0) {
        for (uint32_t i = 0; i < count; i++)
            roots[i]->result = tree->broken;
        return;
    }
    assert(io_in_flight(tree->io) == 0);
    retract(&group);
    write_files(&group);
    place_files(&group);
    remove_stale_files(&group);
    sync_folders(&group);
    journal_roots(&group);
    clean_up_failed(&group);
    append_lines(&group);
}
