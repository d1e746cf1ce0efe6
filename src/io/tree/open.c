/* SPDX-License-Identifier: Apache-2.0 */
#include "io/tree/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIFFERENCES_SHOWN 3

int tree_fail(struct sheaf_error *error, int code, const char *format, ...)
{
    if (error != NULL) {
        va_list values;

        va_start(values, format);
        vsnprintf(error->message, sizeof error->message, format, values);
        va_end(values);
        error->code = code;
        error->row = 0;
    }
    return code;
}

void tree_log(const struct sheaf_tree *tree, const char *format, ...)
{
    char line[1024];
    va_list values;

    if (tree->log == NULL)
        return;
    va_start(values, format);
    vsnprintf(line, sizeof line, format, values);
    va_end(values);
    tree->log(tree->cookie, 1, line);
}

static int fail_at(const struct sheaf_tree *tree, struct sheaf_error *error, const char *what)
{
    int code = -errno;

    return tree_fail(error, code, "%s: %s: %s; is it a folder on a disk that may be written to?", tree->directory, what,
                     strerror(-code));
}

/* ---- folders ---- */

/* A new folder lasts when the folder it stands in is synced. */
static int sync_parent(const char *path)
{
    char *parent = strdup(path);
    int rc = 0;

    if (parent == NULL)
        return -ENOMEM;
    char *slash = strrchr(parent, '/');
    if (slash != NULL)
        slash[slash == parent ? 1 : 0] = '\0';
    int fd = open(slash == NULL ? "." : parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0)
        rc = -errno;
    if (fd >= 0)
        close(fd);
    free(parent);
    return rc;
}

/* Like mkdir -p. */
static int make_path(struct sheaf_tree *tree)
{
    char *path = strdup(tree->directory);
    int rc = 0;

    if (path == NULL)
        return -ENOMEM;
    for (char *slash = strchr(path + 1, '/'); rc == 0; slash = strchr(slash + 1, '/')) {
        if (slash != NULL)
            *slash = '\0';
        tree_step(tree, "mkdir");
        if (mkdir(path, 0777) == 0)
            rc = tree->durable ? sync_parent(path) : 0;
        else if (errno != EEXIST)
            rc = -errno;
        if (slash == NULL)
            break;
        *slash = '/';
    }
    free(path);
    errno = -rc;
    return rc;
}

static int open_folder(struct sheaf_tree *tree, int at, const char *name, bool make)
{
    if (make) {
        tree_step(tree, "mkdir");
        if (mkdirat(at, name, 0777) < 0 && errno != EEXIST)
            return -1;
    }
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int open_folders(struct sheaf_tree *tree, struct sheaf_error *error)
{
    if (make_path(tree) < 0)
        return fail_at(tree, error, "cannot be made");
    tree->root_fd = open_folder(tree, AT_FDCWD, tree->directory, false);
    if (tree->root_fd < 0)
        return fail_at(tree, error, "cannot be opened");
    tree->state_fd = open_folder(tree, tree->root_fd, TREE_STATE, true);
    if (tree->state_fd < 0)
        return fail_at(tree, error, TREE_STATE " cannot be made in it");
    tree->temporary_fd = open_folder(tree, tree->state_fd, "tmp", true);
    if (tree->temporary_fd < 0)
        return fail_at(tree, error, TREE_STATE "/tmp cannot be made in it");
    if (tree->durable && fsync(tree->root_fd) < 0)
        return fail_at(tree, error, "cannot be synced");
    return 0;
}

/* Everything in tmp is of dead runs: we hold the lock. */
static int remove_temporaries(struct sheaf_tree *tree, struct sheaf_error *error)
{
    int fd = openat(tree->temporary_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    if (folder == NULL) {
        int rc = fail_at(tree, error, TREE_STATE "/tmp cannot be listed");
        if (fd >= 0)
            close(fd);
        return rc;
    }
    while ((entry = readdir(folder)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            tree_step(tree, "unlink");
            unlinkat(tree->temporary_fd, entry->d_name, 0);
        }
    closedir(folder);
    return 0;
}

/* ---- the lock ---- */

/* flock is what excludes; the text only tells who holds it. A dead process's lock is gone, its text is overwritten. */
static int take_lock(struct sheaf_tree *tree, struct sheaf_error *error)
{
    char text[200] = "";

    tree_step(tree, "create lock");
    tree->lock_fd = openat(tree->state_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (tree->lock_fd < 0)
        return fail_at(tree, error, TREE_STATE "/lock cannot be opened");
    if (flock(tree->lock_fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK)
            return fail_at(tree, error, TREE_STATE "/lock cannot be locked");
        ssize_t length = pread(tree->lock_fd, text, sizeof text - 1, 0);
        text[length > 0 ? length : 0] = '\0';
        text[strcspn(text, "\n")] = '\0';
        close(tree->lock_fd); /* not ours to empty */
        tree->lock_fd = -1;
        return tree_fail(error, -EBUSY, "%s: in use by %s; wait for it to end or choose another output folder",
                         tree->directory, text[0] == '\0' ? "a run that is just starting" : text);
    }
    int length = snprintf(text, sizeof text, "run %.64s, pid %ld\n", tree->run_id, (long)getpid());
    tree_step(tree, "write lock");
    if (ftruncate(tree->lock_fd, 0) < 0 || pwrite(tree->lock_fd, text, (size_t)length, 0) != length)
        return fail_at(tree, error, TREE_STATE "/lock cannot be written");
    return 0;
}

/* ---- files made whole under a temporary name ---- */

static int write_all(int fd, const char *bytes, size_t length)
{
    size_t done = 0;

    while (done < length) {
        ssize_t count = pwrite(fd, bytes + done, length - done, (off_t)done);

        if (count < 0 && errno != EINTR)
            return -errno;
        done += count > 0 ? (size_t)count : 0;
    }
    return 0;
}

/* Makes `name` in folder `at` with these bytes, all or nothing; returns its descriptor or a negative errno. */
static int make_file(struct sheaf_tree *tree, int at, const char *name, const char *bytes, size_t length)
{
    tree_step(tree, "create");
    int fd = openat(tree->temporary_fd, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return -errno;
    tree_step(tree, "write");
    int rc = write_all(fd, bytes, length);
    tree_step(tree, "fsync");
    if (rc == 0 && tree->durable && fsync(fd) < 0)
        rc = -errno;
    tree_step(tree, "rename");
    if (rc == 0 && renameat(tree->temporary_fd, name, at, name) < 0)
        rc = -errno;
    tree_step(tree, "fsync folder");
    if (rc == 0 && tree->durable && fsync(at) < 0)
        rc = -errno;
    if (rc < 0) {
        close(fd);
        return rc;
    }
    return fd;
}

/* ---- the journal ---- */

struct loading {
    struct sheaf_tree *tree;
    char *fingerprint;
    char *description;
    uint64_t count;
};

static int load_record(void *cookie, uint64_t offset, const struct journal_frame *frame, const char *text)
{
    struct loading *loading = cookie;

    if (loading->count++ == 0)
        return frame->kind != JOURNAL_HEADER ? -EBADMSG
                                             : record_parse_header(text, &loading->fingerprint, &loading->description);
    if (frame->kind != JOURNAL_ROOT && frame->kind != JOURNAL_RETRACT)
        return 0; /* of a later version: nothing this one needs */
    return index_set(&loading->tree->records, frame->key, offset << 3 | (frame->state & 7));
}

/* Does `line` stand in `text` as a whole line? */
static bool has_line(const char *text, const char *line, size_t length)
{
    while (*text != '\0') {
        size_t text_length = strcspn(text, "\n");

        if (text_length == length && memcmp(text, line, length) == 0)
            return true;
        text += text_length + (text[text_length] == '\n');
    }
    return false;
}

/* Appends the first lines of `text` that `other` does not have. */
static void list_differences(const char *text, const char *other, const char *word, char *to, size_t to_bytes)
{
    size_t used = strlen(to);
    int shown = 0, more = 0;

    while (*text != '\0') {
        size_t length = strcspn(text, "\n"), indent = strspn(text, " ");

        if (length > 0 && !has_line(other, text, length)) {
            if (shown++ < DIFFERENCES_SHOWN)
                used += (size_t)snprintf(to + used, to_bytes - used, "; %s \"%.*s\"", word,
                                         length - indent > 80 ? 80 : (int)(length - indent), text + indent);
            else
                more++;
        }
        text += length + (text[length] == '\n');
    }
    if (more > 0)
        snprintf(to + used, to_bytes - used, " and %d more", more);
}

static int refuse_fingerprint(const struct sheaf_tree *tree, const struct loading *loading,
                              const struct sheaf_tree_options *options, struct sheaf_error *error)
{
    char differences[700] = "";

    if (loading->description != NULL && options->description != NULL) {
        list_differences(loading->description, options->description, "was", differences, sizeof differences);
        list_differences(options->description, loading->description, "now", differences, sizeof differences);
    }
    return tree_fail(
        error, -EEXIST,
        "%.150s: was made by another pipeline%s; choose another output folder, or begin again with restart (--restart)",
        tree->directory, differences);
}

enum { JOURNAL_OF_NOTHING = 1 };

/* JOURNAL_OF_NOTHING: of another pipeline, of which nothing was committed (it did not get to start, say). */
static int read_journal(struct sheaf_tree *tree, const struct sheaf_tree_options *options, struct sheaf_error *error)
{
    struct loading loading = {.tree = tree};
    struct journal_scan scan = {0};
    struct stat status;
    int rc =
        fstat(tree->journal_fd, &status) < 0 ? -errno : journal_scan(tree->journal_fd, load_record, &loading, &scan);

    if (rc == 0 && scan.record_count == 0)
        rc = -EBADMSG;
    if (rc == -EBADMSG)
        rc = tree_fail(error, SHEAF_E_CORRUPT,
                       "%s: " TREE_STATE
                       "/journal is not a journal this version reads; choose another output folder, or "
                       "restart to begin again",
                       tree->directory);
    else if (rc < 0)
        rc = tree_fail(error, rc, "%s: " TREE_STATE "/journal cannot be read: %s", tree->directory, strerror(-rc));
    else if (strcmp(loading.fingerprint, options->fingerprint == NULL ? "" : options->fingerprint) != 0)
        rc = scan.record_count == 1 && scan.damaged_bytes == 0 ? JOURNAL_OF_NOTHING
                                                               : refuse_fingerprint(tree, &loading, options, error);
    free(loading.fingerprint);
    free(loading.description);
    if (rc != 0)
        return rc;
    if (scan.damaged_bytes > 0)
        tree_log(tree, "%s: %llu bytes of the journal are damaged; the inputs they named are done again",
                 tree->directory, (unsigned long long)scan.damaged_bytes);
    tree->journal_bytes = scan.end_bytes;
    if ((uint64_t)status.st_size > scan.end_bytes) { /* torn by a crash: it was never acknowledged */
        tree_step(tree, "truncate");
        if (ftruncate(tree->journal_fd, (off_t)scan.end_bytes) < 0)
            return fail_at(tree, error, TREE_STATE "/journal cannot be cut");
    }
    return 0;
}

static int new_journal(struct sheaf_tree *tree, const struct sheaf_tree_options *options, struct sheaf_error *error)
{
    char *line = record_describe_header(tree->run_id, options->fingerprint == NULL ? "" : options->fingerprint,
                                        options->description);
    const char *parts[] = {line};
    struct buffer record = {0};
    int rc = line == NULL ? -ENOMEM : journal_append(&record, JOURNAL_HEADER, JOURNAL_OK, 0, parts, 1);

    if (rc == 0) {
        tree->journal_fd = make_file(tree, tree->state_fd, "journal", record.bytes, record.length);
        rc = tree->journal_fd < 0 ? tree->journal_fd : 0;
    }
    tree->journal_bytes = record.length;
    free(line);
    buffer_clear(&record);
    return rc == 0
               ? 0
               : tree_fail(error, rc, "%s: " TREE_STATE "/journal cannot be made: %s", tree->directory, strerror(-rc));
}

static int open_journal(struct sheaf_tree *tree, const struct sheaf_tree_options *options, struct sheaf_error *error)
{
    if (options->restart)
        return new_journal(tree, options, error);
    tree->journal_fd = openat(tree->state_fd, "journal", O_RDWR | O_CLOEXEC);
    if (tree->journal_fd >= 0) {
        int rc = read_journal(tree, options, error);
        if (rc != JOURNAL_OF_NOTHING)
            return rc;
        close(tree->journal_fd);
    } else if (errno != ENOENT) {
        return fail_at(tree, error, TREE_STATE "/journal cannot be opened");
    }
    return new_journal(tree, options, error);
}

/* The lines are those of this run: what an earlier one left, whole or torn, is replaced by an empty file. */
static int open_lines(struct sheaf_tree *tree, struct sheaf_error *error)
{
    tree->manifest_fd = make_file(tree, tree->root_fd, "manifest.jsonl", "", 0);
    if (tree->manifest_fd >= 0)
        tree->errors_fd = make_file(tree, tree->root_fd, "errors.jsonl", "", 0);
    if (tree->manifest_fd >= 0 && tree->errors_fd >= 0)
        return 0;
    int rc = tree->manifest_fd < 0 ? tree->manifest_fd : tree->errors_fd;
    return tree_fail(error, rc, "%s: manifest.jsonl and errors.jsonl cannot be made: %s", tree->directory,
                     strerror(-rc));
}

/* ---- opening and closing ---- */

static void close_descriptor(int fd)
{
    if (fd >= 0)
        close(fd);
}

static void release(struct sheaf_tree *tree)
{
    tree_stop_writer(tree);
    io_destroy(tree->io);
    if (tree->lock_fd >= 0) {
        tree_step(tree, "empty lock");
        (void)!ftruncate(tree->lock_fd, 0);
    }
    close_descriptor(tree->journal_fd);
    close_descriptor(tree->manifest_fd);
    close_descriptor(tree->errors_fd);
    close_descriptor(tree->temporary_fd);
    close_descriptor(tree->state_fd);
    close_descriptor(tree->root_fd);
    close_descriptor(tree->event_fd);
    close_descriptor(tree->lock_fd); /* last: nobody else may be here before */
    index_clear(&tree->records);
    index_clear(&tree->folders);
    pthread_cond_destroy(&tree->changed);
    pthread_mutex_destroy(&tree->lock);
    free(tree->line);
    free(tree->directory);
    free(tree->run_id);
    free(tree);
}

static int prepare(struct sheaf_tree *tree, const struct sheaf_tree_options *options, struct sheaf_error *error)
{
    struct io_options io = {.backend = (enum sheaf_io_backend)options->io,
                            .depth = IO_DEPTH_DEFAULT,
                            .fault = tree->hooks.fault,
                            .fault_cookie = tree->hooks.cookie};
    int rc = io_create(&io, &tree->io, error);

    tree->event_fd = rc < 0 ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (rc == 0 && tree->event_fd < 0)
        rc = fail_at(tree, error, "no event descriptor");
    if (rc == 0)
        rc = open_folders(tree, error);
    if (rc == 0)
        rc = take_lock(tree, error);
    if (rc == 0)
        rc = remove_temporaries(tree, error);
    if (rc == 0)
        rc = open_journal(tree, options, error);
    if (rc == 0)
        rc = open_lines(tree, error);
    if (rc == 0 && (rc = tree_start_writer(tree)) < 0)
        tree_fail(error, rc, "%s: its writer thread cannot be started: %s", tree->directory, strerror(-rc));
    return rc;
}

static struct sheaf_tree *allocate(const char *directory, const struct sheaf_tree_options *options,
                                   const struct tree_hooks *hooks)
{
    struct sheaf_tree *tree = calloc(1, sizeof *tree);
    pthread_condattr_t attributes;
    char made_up[32];

    if (tree == NULL)
        return NULL;
    snprintf(made_up, sizeof made_up, "%llx-%lx", (unsigned long long)tree_now_us(), (long)getpid());
    tree->directory = strdup(directory);
    tree->run_id = strdup(options->run_id == NULL ? made_up : options->run_id);
    tree->durable = options->durability == SHEAF_DURABILITY_FULL;
    tree->cookie = options->cookie;
    tree->log = options->log;
    tree->verify_always = options->size >= offsetof(struct sheaf_tree_options, verify) + sizeof options->verify &&
                          options->verify == SHEAF_VERIFY_ALWAYS;
    if (hooks != NULL)
        tree->hooks = *hooks;
    tree->root_fd = tree->state_fd = tree->temporary_fd = tree->lock_fd = tree->journal_fd = -1;
    tree->manifest_fd = tree->errors_fd = tree->event_fd = -1;
    pthread_mutex_init(&tree->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&tree->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    if (tree->directory == NULL || tree->run_id == NULL) {
        release(tree);
        return NULL;
    }
    return tree;
}

int tree_open(const char *directory, const struct sheaf_tree_options *options, const struct tree_hooks *hooks,
              struct sheaf_tree **ret_tree, struct sheaf_error *error)
{
    const char *run_id = options->run_id;

    if (directory == NULL || directory[0] == '\0')
        return tree_fail(error, SHEAF_E_USAGE, "output tree: no folder given");
    if (options->size < offsetof(struct sheaf_tree_options, verify))
        return tree_fail(error, SHEAF_E_ABI, "output tree: options of an unknown version");
    if (run_id != NULL && (run_id[0] == '\0' || strlen(run_id) > 64 || strpbrk(run_id, "/\n") != NULL))
        return tree_fail(error, SHEAF_E_USAGE, "%s: a run id has 1 to 64 bytes and no '/'", directory);
    struct sheaf_tree *tree = allocate(directory, options, hooks);
    if (tree == NULL)
        return tree_fail(error, -ENOMEM, "%s: out of memory", directory);
    int rc = prepare(tree, options, error);
    if (rc < 0) {
        release(tree);
        return rc;
    }
    *ret_tree = tree;
    return 0;
}

int sheaf_tree_open(const char *directory, const struct sheaf_tree_options *options, struct sheaf_tree **ret_tree,
                    struct sheaf_error *error)
{
    return tree_open(directory, options, NULL, ret_tree, error);
}

static int close_files(struct sheaf_tree *tree, const char *run_json)
{
    int rc = tree->broken != 0 ? tree->broken : tree->lines_broken;

    tree_step(tree, "fsync");
    if (tree->durable && (fsync(tree->manifest_fd) < 0 || fsync(tree->errors_fd) < 0) && rc == 0)
        rc = -errno;
    if (run_json == NULL)
        return rc;
    int fd = make_file(tree, tree->root_fd, "run.json", run_json, strlen(run_json));
    if (fd < 0)
        return rc < 0 ? rc : fd;
    close(fd);
    return rc;
}

int sheaf_tree_close(struct sheaf_tree *tree, const char *run_json, struct sheaf_error *error)
{
    if (tree == NULL)
        return 0;
    tree_stop_writer(tree);
    int rc = close_files(tree, run_json);
    if (rc < 0)
        tree_fail(error, rc, "%s: not everything could be written: %s; free some space and run again", tree->directory,
                  strerror(-rc));
    release(tree);
    return rc;
}
