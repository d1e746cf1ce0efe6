/* SPDX-License-Identifier: Apache-2.0 */
/* A run that is killed before any of its calls leaves a valid tree, and the next run finishes it. */
#include "tree_fixture.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SOURCE_COUNT 6

/* Counts every changing call of the child, and ends it before number `kill_at`. */
struct killing {
    atomic_uint steps;
    unsigned kill_at;
};

static void count_step(void *cookie, const char *what)
{
    struct killing *killing = cookie;

    if (atomic_fetch_add(&killing->steps, 1) + 1 == killing->kill_at)
        kill(getpid(), SIGKILL);
}

/* Writes in two pieces, so that a kill between them tears what is written. */
static int64_t count_piece(void *cookie, enum io_opcode opcode, uint64_t offset, uint64_t length)
{
    count_step(cookie, "piece");
    return (int64_t)(length > 8 ? length - length / 2 : length);
}

/* What source number i has in version `version`: nested names, more files in version 1 than in 2, and other bytes. */
static uint32_t make_source(unsigned i, int version, char *ret_source, char names[3][64], char texts[3][64],
                            struct sheaf_tree_file *files)
{
    uint32_t count = i == 4 ? 0 : version == 1 ? 3 : 2;

    sprintf(ret_source, i == 2 ? "in\xff/%u.pdf" : "in/%u.pdf", i); /* one name is not UTF-8 */
    for (unsigned j = 0; j < count; j++) {
        sprintf(names[j], i == 2 ? "out\xff/%u/%u.md" : "out/%u/%u.md", i, j);
        sprintf(texts[j], "version %d of file %u of source %u", version, j, i);
        files[j] = (struct sheaf_tree_file){names[j], texts[j], strlen(texts[j])};
    }
    return count;
}

static struct sheaf_source_identity version_identity(const char *source, int version)
{
    return (struct sheaf_source_identity){sizeof(struct sheaf_source_identity), 0, source, (uint64_t)version, version};
}

/* Does what is not done of all sources; returns how many were. Runs in the child, too, so it does not assert. */
static int run_sources(struct sheaf_tree *tree, int version)
{
    char sources[SOURCE_COUNT][32], names[SOURCE_COUNT][3][64], texts[SOURCE_COUNT][3][64], line[100];
    struct sheaf_tree_file files[SOURCE_COUNT][3];
    int status, skipped = 0;
    uint64_t tag;

    for (unsigned i = 0; i < SOURCE_COUNT; i++) {
        struct sheaf_tree_commit commit = {.size = sizeof commit, .files = files[i], .manifest_line = line, .tag = i};

        commit.file_count = make_source(i, version, sources[i], names[i], texts[i], files[i]);
        commit.identity = version_identity(sources[i], version);
        enum sheaf_resume resume = sheaf_tree_lookup(tree, &commit.identity, NULL);
        commit.status = i == 4 ? "failed" : i == 3 ? "partial" : "ok";
        commit.error_lines = i == 3 || i == 4 ? (i == 3 ? "{\"of\":3}\n" : "{\"of\":4}\n") : NULL;
        if (resume == SHEAF_RESUME_DONE || resume == SHEAF_RESUME_FAILED) {
            commit.status = "skipped";
            commit.file_count = 0;
            commit.error_lines = NULL;
            skipped++;
        }
        snprintf(line, sizeof line, "{\"source\":%u}", i);
        if (sheaf_tree_submit(tree, &commit, NULL) != 0)
            return -1;
    }
    sheaf_tree_flush(tree);
    for (unsigned done = 0; done < SOURCE_COUNT;) {
        struct pollfd descriptor = {.fd = sheaf_tree_descriptor(tree), .events = POLLIN};

        if (poll(&descriptor, 1, 60000) != 1)
            return -1;
        while (sheaf_tree_poll(tree, &tag, &status) == 1) {
            if (status != 0)
                return -1;
            done++;
        }
    }
    return skipped;
}

static int run_child(const struct fixture *fixture, int version, unsigned kill_at)
{
    static struct killing killing;
    struct sheaf_tree_options options = options_of(fixture);
    struct tree_hooks hooks = {&killing, count_step, count_piece};
    struct sheaf_tree *tree;

    killing.kill_at = kill_at;
    if (tree_open(fixture->folder, &options, &hooks, &tree, NULL) != 0 || run_sources(tree, version) < 0)
        return 1;
    return sheaf_tree_close(tree, "{\"inputs\":6}", NULL) == 0 ? 0 : 1;
}

/* True when the child was killed, false when it ended before it came to that. */
static bool kill_child(const struct fixture *fixture, int version, unsigned kill_at)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(run_child(fixture, version, kill_at));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGKILL);
        return true;
    }
    assert_int_equal(WEXITSTATUS(status), 0);
    return false;
}

/* Every file of every record that counts is there with the journalled size and hash. */
static int check_record(void *cookie, uint64_t offset, const struct journal_frame *frame, const char *text)
{
    struct sheaf_tree *tree = cookie;
    struct record record;
    uint64_t value;

    if (frame->kind != JOURNAL_ROOT)
        return 0;
    assert_true(index_get(&tree->records, frame->key, &value));
    if (value >> 3 != offset)
        return 0; /* replaced or retracted later */
    assert_int_equal(record_parse(text, &record), 0);
    struct sheaf_source_identity identity = {sizeof identity, 0, record.path, record.size_bytes, record.mtime_ns};
    enum sheaf_resume resume = sheaf_tree_lookup(tree, &identity, NULL);
    assert_int_equal(resume, frame->state == JOURNAL_FAILED ? SHEAF_RESUME_FAILED : SHEAF_RESUME_DONE);
    record_clear(&record);
    return 0;
}

static void check_finished(const struct fixture *fixture, int version)
{
    char source[32], names[3][64], texts[3][64], line[32];
    struct sheaf_tree_file files[3];
    unsigned expected = 5; /* lock, journal, manifest, errors, run.json */
    char *manifest = read_text(fixture, "manifest.jsonl"), *errors = read_text(fixture, "errors.jsonl");

    for (unsigned i = 0; i < SOURCE_COUNT; i++) {
        uint32_t count = make_source(i, version, source, names, texts, files);

        for (uint32_t j = 0; j < count; j++)
            assert_text(fixture, names[j], texts[j]);
        expected += count;
        snprintf(line, sizeof line, "{\"source\":%u}\n", i);
        assert_int_equal(count_of(manifest, line), 1);
    }
    assert_int_equal(count_of(manifest, "\n"), SOURCE_COUNT);
    assert_int_equal(count_of(errors, "{\"of\":3}\n"), 1);
    assert_int_equal(count_of(errors, "{\"of\":4}\n"), 1);
    assert_int_equal(count_files(fixture, ""),
                     expected); /* nothing else: no temporaries, no files of the old version */
    free(manifest);
    free(errors);
}

static void check_and_finish(const struct fixture *fixture, int version)
{
    struct sheaf_tree_options options = options_of(fixture);
    struct journal_scan scan;
    struct sheaf_tree *tree;

    options.durability = SHEAF_DURABILITY_NONE;
    options.verify = SHEAF_VERIFY_ALWAYS;
    options.run_id = "heir";
    assert_int_equal(sheaf_tree_open(fixture->folder, &options, &tree, NULL), 0);
    assert_int_equal(count_files(fixture, ".sheaf/tmp"), 0);
    assert_int_equal(journal_scan(tree->journal_fd, check_record, tree, &scan), 0);
    assert_true(run_sources(tree, version) >= 0);
    assert_int_equal(sheaf_tree_close(tree, "{\"inputs\":6}", NULL), 0);
    check_finished(fixture, version);
    assert_int_equal(sheaf_tree_open(fixture->folder, &options, &tree, NULL), 0);
    assert_int_equal(run_sources(tree, version), SOURCE_COUNT); /* nothing is left to do */
    assert_int_equal(sheaf_tree_close(tree, "{\"inputs\":6}", NULL), 0);
    check_finished(fixture, version);
}

static void test_killed(void **state)
{
    struct fixture *fixture = *state;
    unsigned kill_at = 1;

    while (kill_child(fixture, 1, kill_at)) {
        check_and_finish(fixture, 1);
        remove_all(fixture->folder);
        kill_at++;
    }
    print_message("killed before each of %u calls\n", kill_at - 1);
    assert_true(kill_at > 60);
    check_finished(fixture, 1);
}

/* The same where an earlier version of every source was committed: its files are replaced, some go away. */
static void test_killed_while_replacing(void **state)
{
    struct fixture *fixture = *state;
    unsigned kill_at = 1;

    for (;;) {
        remove_all(fixture->folder);
        assert_false(kill_child(fixture, 1, 0));
        if (!kill_child(fixture, 2, kill_at))
            break;
        check_and_finish(fixture, 2);
        kill_at++;
    }
    print_message("killed before each of %u calls\n", kill_at - 1);
    assert_true(kill_at > 60);
    check_finished(fixture, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {ON_BOTH(test_killed), ON_BOTH(test_killed_while_replacing)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
