/* SPDX-License-Identifier: Apache-2.0 */
/* Output trees: what a run leaves, what the next one finds, what is refused, and names. */
#include "tree_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Commits one root and returns its status. */
static int commit_one(struct sheaf_tree *tree, const struct sheaf_tree_commit *commit)
{
    struct sheaf_error error = SHEAF_ERROR_INIT;
    uint64_t tag;
    int status;

    int rc = sheaf_tree_submit(tree, commit, &error);
    if (rc < 0)
        return rc;
    sheaf_tree_flush(tree);
    wait_readable(sheaf_tree_descriptor(tree));
    assert_int_equal(sheaf_tree_poll(tree, &tag, &status), 1);
    assert_int_equal(tag, commit->tag);
    assert_int_equal(sheaf_tree_poll(tree, &tag, &status), 0);
    return status;
}

static struct sheaf_source_identity identity_of(const char *path, uint64_t size)
{
    return (struct sheaf_source_identity){sizeof(struct sheaf_source_identity), 0, path, size, 42};
}

static int commit_text(struct sheaf_tree *tree, const char *source, const char *path, const char *text,
                       const char *status, const char *errors)
{
    struct sheaf_tree_file file = {path, text, strlen(text)};
    char line[PATH_MAX + 100];

    snprintf(line, sizeof line, "{\"source\":\"%s\",\"status\":\"%s\"}", source, status);
    return commit_one(tree, &(struct sheaf_tree_commit){.size = sizeof(struct sheaf_tree_commit),
                                                        .file_count = path == NULL ? 0 : 1,
                                                        .files = &file,
                                                        .identity = identity_of(source, 7),
                                                        .status = status,
                                                        .manifest_line = line,
                                                        .error_lines = errors,
                                                        .tag = 5});
}

static enum sheaf_resume look_up(struct sheaf_tree *tree, const char *source, uint64_t size)
{
    struct sheaf_source_identity identity = identity_of(source, size);
    const char *line;
    enum sheaf_resume resume = sheaf_tree_lookup(tree, &identity, &line);

    assert_int_equal(resume == SHEAF_RESUME_NEW, line == NULL);
    if (line != NULL)
        assert_non_null(strstr(line, "\"status\""));
    return resume;
}

/* ---- a run and the next ---- */

static void test_resume(void **state)
{
    struct fixture *fixture = *state;
    struct sheaf_tree *tree = open_again(fixture, "first");

    assert_int_equal(look_up(tree, "a.pdf", 7), SHEAF_RESUME_NEW);
    assert_int_equal(commit_text(tree, "a.pdf", "deep/er/a.md", "text of a", "ok", NULL), 0);
    assert_int_equal(commit_text(tree, "b.pdf", "b.md", "half", "partial", "{\"page\":1}\n{\"page\":2}\n"), 0);
    assert_int_equal(commit_text(tree, "c.pdf", NULL, "", "failed", "{\"page\":3}\n"), 0);
    assert_int_equal(commit_text(tree, "d.pdf", NULL, "", "filtered", NULL), 0);
    assert_int_equal(look_up(tree, "a.pdf", 7), SHEAF_RESUME_DONE);
    assert_text(fixture, "errors.jsonl", "{\"page\":1}\n{\"page\":2}\n{\"page\":3}\n");
    assert_int_equal(sheaf_tree_close(tree, "{\"inputs\":4}\n", NULL), 0);
    assert_text(fixture, "deep/er/a.md", "text of a");
    assert_text(fixture, "run.json", "{\"inputs\":4}\n");
    assert_text(fixture, ".sheaf/lock", "");

    tree = open_again(fixture, "second");
    assert_text(fixture, "manifest.jsonl", ""); /* of this run */
    assert_int_equal(look_up(tree, "a.pdf", 7), SHEAF_RESUME_DONE);
    assert_int_equal(look_up(tree, "a.pdf", 8), SHEAF_RESUME_CHANGED);
    assert_int_equal(look_up(tree, "b.pdf", 7), SHEAF_RESUME_DONE);
    assert_int_equal(look_up(tree, "c.pdf", 7), SHEAF_RESUME_FAILED);
    assert_int_equal(look_up(tree, "c.pdf", 9), SHEAF_RESUME_CHANGED);
    assert_int_equal(look_up(tree, "d.pdf", 7), SHEAF_RESUME_DONE);
    assert_int_equal(look_up(tree, "e.pdf", 7), SHEAF_RESUME_NEW);
    assert_int_equal(commit_text(tree, "b.pdf", NULL, "", "skipped", NULL), 0);
    assert_text(fixture, "manifest.jsonl", "{\"source\":\"b.pdf\",\"status\":\"skipped\"}\n");
    assert_text(fixture, "errors.jsonl", "{\"page\":1}\n{\"page\":2}\n"); /* what the partial one had */
    assert_int_equal(look_up(tree, "b.pdf", 7), SHEAF_RESUME_DONE);
    assert_int_equal(commit_text(tree, "c.pdf", "c.md", "now", "ok", NULL), 0); /* tried again */
    assert_int_equal(look_up(tree, "c.pdf", 7), SHEAF_RESUME_DONE);
    assert_int_equal(sheaf_tree_close(tree, NULL, NULL), 0);
    assert_int_equal(count_files(fixture, ".sheaf/tmp"), 0);
}

/* A root that is alone is committed without anybody asking; folders on the way to a tree are made. */
static void test_group_time(void **state)
{
    struct fixture *fixture = *state;
    struct sheaf_tree_options options = options_of(fixture);
    struct sheaf_tree_commit commit = {
        .size = sizeof commit, .status = "ok", .manifest_line = "{\"status\":1}", .tag = 9};
    struct sheaf_tree *tree;
    char directory[PATH_MAX];
    uint64_t tag;
    int status;

    snprintf(directory, sizeof directory, "%s/new/er/", fixture->folder);
    assert_int_equal(sheaf_tree_open(directory, &options, &tree, NULL), 0);
    commit.identity = identity_of("a", 1);
    int64_t start_us = tree_now_us();
    assert_int_equal(sheaf_tree_submit(tree, &commit, NULL), 0);
    wait_readable(sheaf_tree_descriptor(tree));
    assert_true(tree_now_us() - start_us >= TREE_GROUP_WAIT_US);
    assert_int_equal(sheaf_tree_poll(tree, &tag, &status), 1);
    assert_int_equal(status, 0);
    assert_int_equal(sheaf_tree_close(tree, NULL, NULL), 0);
    assert_true(exists(fixture, "new/er/manifest.jsonl"));
    snprintf(directory, sizeof directory, "%s/new/er/manifest.jsonl", fixture->folder);
    assert_int_equal(sheaf_tree_open(directory, &options, &tree, NULL), -ENOTDIR);
}

/* Files that are not as journalled are noticed: by size, by hash when touched, and by hash always when asked. */
static void test_verify(void **state)
{
    struct fixture *fixture = *state;
    struct sheaf_tree_options options = options_of(fixture);
    struct sheaf_tree *tree = open_again(fixture, "first");
    char path[PATH_MAX];
    struct stat before;

    assert_int_equal(commit_text(tree, "a.pdf", "a.md", "0123456789", "ok", NULL), 0);
    snprintf(path, sizeof path, "%s/a.md", fixture->folder);
    assert_int_equal(stat(path, &before), 0);
    struct timespec times[2] = {before.st_atim, before.st_mtim}, later[2] = {{9, 9}, {9, 9}};
    assert_int_equal(utimensat(AT_FDCWD, path, later, 0), 0);
    assert_int_equal(look_up(tree, "a.pdf", 7), SHEAF_RESUME_DONE); /* touched, but the hash is right */
    FILE *file = fopen(path, "r+e");
    assert_true(fputs("X", file) >= 0 && fclose(file) == 0);
    assert_int_equal(look_up(tree, "a.pdf", 7), SHEAF_RESUME_CHANGED);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_int_equal(look_up(tree, "a.pdf", 7), SHEAF_RESUME_DONE); /* vouched for by its time */
    assert_int_equal(sheaf_tree_close(tree, NULL, NULL), 0);

    options.verify = SHEAF_VERIFY_ALWAYS;
    assert_int_equal(sheaf_tree_open(fixture->folder, &options, &tree, NULL), 0);
    assert_int_equal(look_up(tree, "a.pdf", 7), SHEAF_RESUME_CHANGED);
    assert_int_equal(truncate(path, 3), 0);
    assert_int_equal(look_up(tree, "a.pdf", 7), SHEAF_RESUME_CHANGED);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(look_up(tree, "a.pdf", 7), SHEAF_RESUME_CHANGED);
    assert_int_equal(sheaf_tree_close(tree, NULL, NULL), 0);
}

static void test_lock(void **state)
{
    struct fixture *fixture = *state;
    struct sheaf_tree_options options = options_of(fixture);
    struct sheaf_error error = SHEAF_ERROR_INIT;
    struct sheaf_tree *tree = open_again(fixture, "holder"), *other = NULL;
    char expected[64];
    int status;

    assert_int_equal(sheaf_tree_open(fixture->folder, &options, &other, &error), -EBUSY);
    snprintf(expected, sizeof expected, "run holder, pid %ld", (long)getpid());
    assert_non_null(strstr(error.message, expected));
    assert_null(other);
    assert_int_equal(sheaf_tree_close(tree, NULL, NULL), 0);

    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        options.run_id = "dead";
        if (sheaf_tree_open(fixture->folder, &options, &other, NULL) == 0)
            kill(getpid(), SIGKILL);
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    char *left = read_text(fixture, ".sheaf/lock");
    assert_non_null(strstr(left, "run dead")); /* stale */
    free(left);
    assert_int_equal(sheaf_tree_close(open_again(fixture, "heir"), NULL, NULL), 0);
}

static void test_fingerprint(void **state)
{
    struct fixture *fixture = *state;
    struct sheaf_tree_options options = options_of(fixture);
    struct sheaf_error error = SHEAF_ERROR_INIT;
    struct sheaf_tree *tree = open_again(fixture, "first");

    assert_int_equal(commit_text(tree, "a.pdf", "a.md", "text", "ok", NULL), 0);
    assert_int_equal(sheaf_tree_close(tree, NULL, NULL), 0);
    options.fingerprint = "f2";
    options.description = "call: a\n  dpi: 300\n";
    assert_int_equal(sheaf_tree_open(fixture->folder, &options, &tree, &error), -EEXIST);
    assert_non_null(strstr(error.message, "was \"dpi: 150\"; now \"dpi: 300\""));
    assert_null(strstr(error.message, "call: a"));
    assert_null(strchr(error.message, '\n'));
    char *lock = read_text(fixture, ".sheaf/lock");
    assert_string_equal(lock, "");
    free(lock);
    options.restart = 1;
    assert_int_equal(sheaf_tree_open(fixture->folder, &options, &tree, &error), 0);
    assert_int_equal(look_up(tree, "a.pdf", 7), SHEAF_RESUME_NEW);
    assert_int_equal(sheaf_tree_close(tree, NULL, NULL), 0);
    options.restart = 0;
    assert_int_equal(sheaf_tree_open(fixture->folder, &options, &tree, &error), 0);
    assert_int_equal(sheaf_tree_close(tree, NULL, NULL), 0);
    options.fingerprint = "f3"; /* nothing was committed under f2: there is nothing to refuse for */
    assert_int_equal(sheaf_tree_open(fixture->folder, &options, &tree, &error), 0);
    assert_int_equal(commit_text(tree, "a.pdf", "a.md", "text", "ok", NULL), 0);
    assert_int_equal(sheaf_tree_close(tree, NULL, NULL), 0);
    options.fingerprint = "f2";
    assert_int_equal(sheaf_tree_open(fixture->folder, &options, &tree, &error), -EEXIST);
}

/* ---- what is refused, and what fails alone ---- */

static void test_refused(void **state)
{
    static const char *const bad[] = {"../x",   "/x",       "a/../b",   "",    "a//b",         "a/",
                                      ".sheaf", ".sheaf/x", "run.json", "./a", "errors.jsonl", "manifest.jsonl"};
    struct fixture *fixture = *state;
    struct sheaf_tree *tree = open_again(fixture, "first");
    struct sheaf_tree_options options = options_of(fixture);

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(commit_text(tree, "a.pdf", bad[i], "x", "ok", NULL), SHEAF_E_USAGE);
    assert_int_equal(commit_text(tree, "a.pdf", "a", "x", "fine", NULL), SHEAF_E_USAGE);
    assert_int_equal(commit_text(tree, "a.pdf", "a", "x", "skipped", NULL), SHEAF_E_USAGE);
    assert_int_equal(commit_text(tree, "a\nb", "a", "x", "ok", NULL), SHEAF_E_USAGE); /* line end in its line */
    assert_int_equal(sheaf_tree_close(tree, NULL, NULL), 0);
    options.run_id = "a/b";
    assert_int_equal(sheaf_tree_open(fixture->folder, &options, &tree, NULL), SHEAF_E_USAGE);
    assert_int_equal(sheaf_tree_close(NULL, NULL, NULL), 0);
}

/* A root whose files cannot be placed is told, leaves nothing, and does not hurt the others of its group. */
static void test_failure_alone(void **state)
{
    struct fixture *fixture = *state;
    struct sheaf_tree *tree = open_again(fixture, "first");
    struct sheaf_tree_file files[3] = {{"good/x", "x", 1}, {"file/below", "y", 1}, {"file", "z", 1}};
    struct sheaf_tree_commit commit = {.size = sizeof commit, .status = "ok", .manifest_line = "{}", .file_count = 1};
    int status, seen = 0;
    uint64_t tag;

    assert_int_equal(commit_text(tree, "z", "file", "z", "ok", NULL), 0);
    commit.files = &files[0];
    commit.file_count = 2; /* the second needs a folder where a file is */
    commit.identity = identity_of("bad", 1);
    commit.tag = 1;
    assert_int_equal(sheaf_tree_submit(tree, &commit, NULL), 0);
    commit.files = &(struct sheaf_tree_file){"good/w", "w", 1};
    commit.file_count = 1;
    commit.identity = identity_of("fine", 1);
    commit.tag = 2;
    assert_int_equal(sheaf_tree_submit(tree, &commit, NULL), 0);
    sheaf_tree_flush(tree);
    while (seen < 2) {
        wait_readable(sheaf_tree_descriptor(tree));
        while (sheaf_tree_poll(tree, &tag, &status) == 1) {
            assert_int_equal(status, tag == 1 ? -ENOTDIR : 0);
            seen++;
        }
    }
    assert_false(exists(fixture, "good/x"));
    assert_true(exists(fixture, "good/w"));
    assert_int_equal(look_up(tree, "bad", 1), SHEAF_RESUME_NEW);
    assert_int_equal(count_files(fixture, ".sheaf/tmp"), 0);
    assert_int_equal(sheaf_tree_close(tree, NULL, NULL), 0);
}

struct failing {
    enum io_opcode opcode;
    uint64_t offset_from;
    int code;
};

static int64_t fail_some(void *cookie, enum io_opcode opcode, uint64_t offset, uint64_t length)
{
    struct failing *failing = cookie;

    return opcode == failing->opcode && offset >= failing->offset_from ? failing->code : (int64_t)length;
}

/* A full disk fails the root; a journal that cannot be synced fails everything after it. Neither is forgotten at the
 * close. */
static void test_disk_errors(void **state)
{
    struct fixture *fixture = *state;
    struct sheaf_tree_options options = options_of(fixture);
    struct failing failing = {IO_WRITE, UINT64_MAX, -ENOSPC};
    struct tree_hooks hooks = {.cookie = &failing, .fault = fail_some};
    struct sheaf_error error = SHEAF_ERROR_INIT;
    struct sheaf_tree *tree;

    assert_int_equal(tree_open(fixture->folder, &options, &hooks, &tree, NULL), 0);
    assert_int_equal(commit_text(tree, "a", "a.md", "text", "ok", NULL), 0);
    failing.offset_from = 0;
    assert_int_equal(commit_text(tree, "b", "b.md", "text", "ok", NULL), -ENOSPC);
    failing.offset_from = 1; /* files are written from 0; the journal is not */
    assert_int_equal(commit_text(tree, "b", "b.md", "text", "ok", NULL), -ENOSPC);
    failing.offset_from = UINT64_MAX;
    assert_false(exists(fixture, "b.md"));
    assert_int_equal(commit_text(tree, "b", "b.md", "text", "ok", NULL), 0);
    failing = (struct failing){IO_FDATASYNC, 0, -EIO};
    assert_int_equal(commit_text(tree, "c", "c.md", "text", "ok", NULL), -EIO);
    failing.opcode = (enum io_opcode)0;
    assert_int_equal(commit_text(tree, "d", "d.md", "text", "ok", NULL), -EIO);
    assert_int_equal(sheaf_tree_close(tree, "{}", &error), -EIO);
    assert_true(error.message[0] != '\0');
    tree = open_again(fixture, "next");
    assert_int_equal(look_up(tree, "a", 7), SHEAF_RESUME_DONE);
    assert_int_equal(look_up(tree, "b", 7), SHEAF_RESUME_DONE);
    assert_int_not_equal(look_up(tree, "c", 7), SHEAF_RESUME_DONE);
    assert_int_equal(sheaf_tree_close(tree, NULL, NULL), 0);
}

/* More files than the queue is deep, more roots than a group takes, and back-pressure past the limit. */
static void test_many(void **state)
{
    struct fixture *fixture = *state;
    struct sheaf_tree *tree = open_again(fixture, "first");
    enum { FILES = 300, ROOTS = 600 };
    static char names[FILES][32], source[32];
    static struct sheaf_tree_file files[FILES];
    struct sheaf_tree_commit commit = {.size = sizeof commit, .status = "ok", .manifest_line = "{\"status\":1}"};
    unsigned submitted = 0, done = 0, refused = 0;
    uint64_t tag;
    int status;

    for (unsigned i = 0; i < FILES; i++) {
        snprintf(names[i], sizeof names[i], "big/%u/%u", i % 7, i);
        files[i] = (struct sheaf_tree_file){names[i], names[i], strlen(names[i])};
    }
    while (done < ROOTS) {
        if (submitted < ROOTS) {
            commit.file_count = submitted == 0 ? FILES : 0;
            commit.files = files;
            commit.tag = submitted;
            snprintf(source, sizeof source, "s%u", submitted);
            commit.identity = identity_of(source, 1);
            int rc = sheaf_tree_submit(tree, &commit, NULL);
            submitted += rc == 0;
            refused += rc == -EAGAIN;
            assert_true(rc == 0 || rc == -EAGAIN);
            if (rc == 0)
                continue;
        }
        sheaf_tree_flush(tree);
        wait_readable(sheaf_tree_descriptor(tree));
        while (sheaf_tree_poll(tree, &tag, &status) == 1) {
            assert_int_equal(status, 0);
            assert_int_equal(tag, done++); /* in order */
        }
    }
    assert_true(refused > 0);
    assert_int_equal(count_files(fixture, "big"), FILES);
    for (unsigned i = 0; i < FILES; i++)
        assert_text(fixture, names[i], names[i]);
    assert_int_equal(look_up(tree, "s0", 1), SHEAF_RESUME_DONE);
    assert_int_equal(look_up(tree, "s599", 1), SHEAF_RESUME_DONE);
    assert_int_equal(sheaf_tree_close(tree, NULL, NULL), 0);
    char *manifest = read_text(fixture, "manifest.jsonl");
    assert_int_equal(count_of(manifest, "\n"), ROOTS);
    free(manifest);
}

/* ---- a damaged journal ---- */

static void append_garbage(const struct fixture *fixture, const void *bytes, size_t length)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/.sheaf/journal", fixture->folder);
    FILE *file = fopen(path, "ae");
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

/* Every way the last record can be torn: the tree opens, knows the others, and goes on. */
static void test_torn_tail(void **state)
{
    struct fixture *fixture = *state;
    struct sheaf_tree *tree = open_again(fixture, "first");
    struct stat one, two;
    char path[PATH_MAX];
    static char whole[TEXT_BYTES];

    snprintf(path, sizeof path, "%s/.sheaf/journal", fixture->folder);
    assert_int_equal(commit_text(tree, "a", "a.md", "text", "ok", NULL), 0);
    assert_int_equal(stat(path, &one), 0);
    assert_int_equal(commit_text(tree, "b", "b.md", "text", "ok", NULL), 0);
    assert_int_equal(sheaf_tree_close(tree, NULL, NULL), 0);
    assert_int_equal(stat(path, &two), 0);
    FILE *file = fopen(path, "re");
    assert_int_equal(fread(whole, 1, sizeof whole, file), two.st_size);
    fclose(file);
    for (off_t length = one.st_size; length < two.st_size; length += 1 + (off_t)(next_random(fixture) % 5)) {
        file = fopen(path, "we");
        assert_int_equal(fwrite(whole, 1, (size_t)length, file), length);
        assert_int_equal(fclose(file), 0);
        tree = open_again(fixture, "next");
        assert_int_equal(look_up(tree, "a", 7), SHEAF_RESUME_DONE);
        assert_int_equal(look_up(tree, "b", 7), SHEAF_RESUME_NEW);
        assert_int_equal(sheaf_tree_close(tree, NULL, NULL), 0);
        struct stat cut;
        assert_int_equal(stat(path, &cut), 0);
        assert_int_equal(cut.st_size, one.st_size);
    }
    append_garbage(fixture, "\x53\x4a\x4c\x31\xff\xff\xff\x0f garbage that starts like a record", 40);
    tree = open_again(fixture, "next");
    assert_int_equal(commit_text(tree, "b", "b.md", "text", "ok", NULL), 0);
    assert_int_equal(sheaf_tree_close(tree, NULL, NULL), 0);
    tree = open_again(fixture, "last");
    assert_int_equal(look_up(tree, "b", 7), SHEAF_RESUME_DONE);
    assert_int_equal(sheaf_tree_close(tree, NULL, NULL), 0);
}

/* Any flipped byte costs at most the record it is in. */
static void test_damaged(void **state)
{
    struct fixture *fixture = *state;
    struct sheaf_tree_options options = options_of(fixture);
    struct sheaf_tree *tree = open_again(fixture, "first");
    struct sheaf_error error = SHEAF_ERROR_INIT;
    char path[PATH_MAX];
    struct stat header, all;

    snprintf(path, sizeof path, "%s/.sheaf/journal", fixture->folder);
    assert_int_equal(stat(path, &header), 0);
    assert_int_equal(commit_text(tree, "a", "a.md", "text", "ok", NULL), 0);
    assert_int_equal(commit_text(tree, "b", "b.md", "text", "ok", NULL), 0);
    assert_int_equal(commit_text(tree, "c", "c.md", "text", "ok", NULL), 0);
    assert_int_equal(sheaf_tree_close(tree, NULL, NULL), 0);
    assert_int_equal(stat(path, &all), 0);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    for (unsigned round = 0; round < 60; round++) {
        off_t at = header.st_size + (off_t)(next_random(fixture) % (uint64_t)((all.st_size - header.st_size) * 2 / 3));
        unsigned char byte, flipped;

        assert_int_equal(pread(fd, &byte, 1, at), 1);
        flipped = byte ^ (unsigned char)(1u << next_random(fixture) % 8);
        assert_int_equal(pwrite(fd, &flipped, 1, at), 1);
        tree = open_again(fixture, "next");
        unsigned known = (look_up(tree, "a", 7) == SHEAF_RESUME_DONE) + (look_up(tree, "b", 7) == SHEAF_RESUME_DONE);
        assert_int_equal(known, 1);
        assert_int_equal(look_up(tree, "c", 7), SHEAF_RESUME_DONE);
        assert_int_equal(sheaf_tree_close(tree, NULL, NULL), 0);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    assert_int_equal(pwrite(fd, "x", 1, 40), 1); /* the header */
    assert_int_equal(sheaf_tree_open(fixture->folder, &options, &tree, &error), SHEAF_E_CORRUPT);
    assert_non_null(strstr(error.message, "journal"));
    options.restart = 1;
    assert_int_equal(sheaf_tree_open(fixture->folder, &options, &tree, &error), 0);
    assert_int_equal(sheaf_tree_close(tree, NULL, NULL), 0);
    close(fd);
}

/* ---- size ---- */

/* Opening costs little per journalled source. SHEAF_RECORDS=1000000 to measure. */
static void test_scale(void **state)
{
    struct fixture *fixture = *state;
    const char *wanted = getenv("SHEAF_RECORDS");
    unsigned count = wanted != NULL ? (unsigned)atoi(wanted) : 20000;
    struct sheaf_tree *tree = open_again(fixture, "first");
    struct tree_file file = {.path = NULL, .length_bytes = 1234, .hash = 5678};
    struct buffer records = {0};
    char source[64], path[64], journal[PATH_MAX];

    assert_int_equal(sheaf_tree_close(tree, NULL, NULL), 0);
    snprintf(journal, sizeof journal, "%s/.sheaf/journal", fixture->folder);
    FILE *out = fopen(journal, "ae");
    for (unsigned i = 0; i < count; i++) {
        struct tree_root root = {.files = &file, .file_count = 1, .path = source, .size_bytes = i, .mtime_ns = 42};

        snprintf(source, sizeof source, "corpus/part-%03u/document-%07u.pdf", i % 1000, i);
        snprintf(path, sizeof path, "corpus/part-%03u/document-%07u.md", i % 1000, i);
        file.path = path;
        char *line = record_describe(&root, "first");
        const char *parts[] = {line, "{\"source\":\"corpus\",\"status\":\"ok\",\"outputs\":[],\"pages\":3}"};
        records.length = 0;
        assert_int_equal(journal_append(&records, JOURNAL_ROOT, JOURNAL_OK, journal_key(source), parts, 2), 0);
        assert_int_equal(fwrite(records.bytes, 1, records.length, out), records.length);
        free(line);
    }
    print_message("%u records, %.1f MB\n", count, (double)ftell(out) / 1e6);
    assert_int_equal(fclose(out), 0);
    buffer_clear(&records);
    int64_t start_us = tree_now_us();
    tree = open_again(fixture, "second");
    print_message("opened in %.3f s, %.1f bytes of memory a record\n", (double)(tree_now_us() - start_us) / 1e6,
                  (double)(tree->records.capacity * sizeof *tree->records.entries) / count);
    assert_int_equal(tree->records.count, count);
    start_us = tree_now_us();
    for (unsigned i = 0; i < count; i += count / 1000) {
        snprintf(source, sizeof source, "corpus/part-%03u/document-%07u.pdf", i % 1000, i);
        assert_int_equal(look_up(tree, source, i), SHEAF_RESUME_CHANGED); /* its file is missing */
    }
    print_message("%.1f us a lookup\n", (double)(tree_now_us() - start_us) / 1000);
    assert_int_equal(sheaf_tree_close(tree, NULL, NULL), 0);
}

/* ---- names ---- */

static void check_name(const char *source, const char *expected)
{
    char name[PATH_MAX];

    assert_int_equal(sheaf_tree_name(source, name, sizeof name), 0);
    assert_string_equal(name, expected);
}

static void test_names(void **state)
{
    char name[PATH_MAX], source[PATH_MAX];

    check_name("a/b c/\xff\n.pdf", "a/b c/\xff\n.pdf");
    check_name("manifest.jsonl", "%sheaf-=manifest.jsonl");
    check_name("manifest", "%sheaf-=manifest"); /* "{name}.jsonl" */
    check_name("manifest.pdf", "manifest.pdf");
    check_name(".sheaf/x", "%sheaf-=.sheaf/x");
    check_name("x/.sheaf", "x/.sheaf");
    check_name("/abs//../.", "%sheaf-e/abs/%sheaf-e/%sheaf-p/%sheaf-d");
    check_name("%sheaf-e", "%sheaf-=%sheaf-e");
    check_name("50%sheaf-", "%sheaf-=50%sheaf-");
    memset(source, 'x', 201);
    strcpy(source + 201, "/y");
    assert_int_equal(sheaf_tree_name(source, name, sizeof name), 0);
    assert_int_equal(strcspn(name, "/"), 150 + 8 + 32);
    source[200] = '/';
    assert_int_equal(sheaf_tree_name(source, name, sizeof name), 0);
    assert_int_equal(strcspn(name, "/"), 200);
    assert_int_equal(sheaf_tree_name("abc", name, 3), -ENAMETOOLONG);
    memset(source, 'x', sizeof source);
    for (size_t i = 100; i < sizeof source; i += 100)
        source[i] = '/';
    source[sizeof source - 1] = '\0';
    assert_int_equal(sheaf_tree_name(source, name, sizeof name), 0); /* 4095 bytes still fit */
    for (size_t i = 0; i < sizeof source - 1; i += 2)
        memcpy(source + i, "./", 2);
    assert_int_equal(sheaf_tree_name(source, name, sizeof name), -ENAMETOOLONG);
}

/* A random path from few pieces, so that collisions would be found if there were any. */
static void random_path(struct fixture *fixture, char *ret_path)
{
    static const char *const pieces[] = {"%sheaf-",
                                         "h",
                                         "=",
                                         "e",
                                         "d",
                                         "p",
                                         ".",
                                         "/",
                                         "run",
                                         "a",
                                         "%",
                                         "%sheaf-=",
                                         "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"};

    ret_path[0] = '\0';
    for (uint64_t n = 1 + next_random(fixture) % 5; n > 0; n--)
        strcat(ret_path, pieces[next_random(fixture) % (sizeof pieces / sizeof *pieces)]);
}

struct named {
    char path[400], name[800];
};

static int compare_named(const void *left, const void *right)
{
    return strcmp(((const struct named *)left)->name, ((const struct named *)right)->name);
}

static void test_names_injective(void **state)
{
    struct fixture *fixture = *state;
    enum { COUNT = 20000 };
    struct named *named = calloc(COUNT, sizeof *named);
    unsigned different = 0;

    for (unsigned i = 0; i < COUNT; i++) {
        random_path(fixture, named[i].path);
        assert_int_equal(sheaf_tree_name(named[i].path, named[i].name, sizeof named[i].name), 0);
        if (tree_path_problem(named[i].name) != NULL)
            fail_msg("%s -> %s: %s", named[i].path, named[i].name, tree_path_problem(named[i].name));
    }
    qsort(named, COUNT, sizeof *named, compare_named);
    for (unsigned i = 1; i < COUNT; i++) {
        if (strcmp(named[i - 1].name, named[i].name) == 0)
            assert_string_equal(named[i - 1].path, named[i].path);
        else
            different++;
    }
    assert_true(different > COUNT / 4);
    free(named);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_BOTH(test_resume),        ON(SYNC, test_group_time),  ON(SYNC, test_verify),
        ON(SYNC, test_lock),         ON(SYNC, test_fingerprint), ON(SYNC, test_refused),
        ON_BOTH(test_failure_alone), ON_BOTH(test_disk_errors),  ON_BOTH(test_many),
        ON(SYNC, test_torn_tail),    ON(SYNC, test_damaged),

        ON(SYNC, test_scale),        ON(SYNC, test_names),       ON(SYNC, test_names_injective),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
