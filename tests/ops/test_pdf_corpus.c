/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every PDF and image of the corpus goes through pdf.open, pdf.text and pdf.render: page counts are those of the
 * manifest, encrypted files open with their password only, and everything else fails with a reason instead of taking
 * the process down. Each file runs in a process of its own, as in the engine, with a deadline: a file that crashes
 * pdfium or hangs is reported as such, and only those named in `known_bad` may.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host.h"
#include "ops/document.h"
#include "ops/operators.h"
#include "ops/page_record.h"

enum { PAGES_READ_MAX = 12, PAGES_RENDERED_MAX = 3, DEADLINE_S = 10 };

/* What one file came to; sent from the child by pipe. */
struct outcome {
    int opened;
    enum sheaf_class class_id;
    uint64_t pages, text_failed, render_failed, characters;
    char message[200];
};

struct operators {
    void *open, *text, *render;
};

/* Files that pdfium may die of or not finish in time. That is what worker processes are for. */
static const char *const known_bad[] = {"exponentialXObjectLoop.pdf"};

static char passwords_of_manifest[32][64];
static const char *password_pointers[32];
static uint32_t password_count;

static void passwords_collect(FILE *manifest)
{
    char line[8192];
    while (fgets(line, sizeof line, manifest)) {
        char *at = strstr(line, "password '");
        if (!at || password_count == 32)
            continue;
        at += strlen("password '");
        char *end = strchr(at, '\'');
        if (!end || end - at >= 64)
            continue;
        memcpy(passwords_of_manifest[password_count], at, (size_t)(end - at));
        password_pointers[password_count] = passwords_of_manifest[password_count];
        password_count++;
    }
    rewind(manifest);
}

static struct operators operators_open(int with_passwords)
{
    struct host_option given[] = {
        {"passwords", {.type = SHEAF_OPTION_TEXT_LIST, .count = password_count, .texts = password_pointers}},
        {"dpi", {.type = SHEAF_OPTION_I64, .i64 = 72}},
        {"max_pixels", {.type = SHEAF_OPTION_I64, .i64 = 4 << 20}},
    };
    char error[512];
    size_t skip = with_passwords ? 0 : 1;
    struct operators made = {
        host_open(&operator_pdf_open, given + skip, 1 - skip, error),
        host_open(&operator_pdf_text, given + skip, 1 - skip, error),
        host_open(&operator_pdf_render, given + skip, 3 - skip, error),
    };
    if (!made.open || !made.text || !made.render)
        print_message("%s\n", error);
    return made;
}

static void page_check(const struct operators *ops, const struct sheaf_value inputs[2], int render, struct outcome *out)
{
    struct host_run run;
    struct page_content content;
    host_run(&operator_pdf_text, ops->text, (struct host_keys){100 + (uint64_t)inputs[0].i64, 7}, inputs, 2, &run);
    out->text_failed += run.failed != 0;
    page_content_init(&content);
    if (run.answered && (page_record_decode(run.outputs[0].data, run.outputs[0].length_bytes, &content) != 0 ||
                         content.number != inputs[0].i64 + 1 || !(content.width > 0)))
        _exit(90);
    out->characters += content.text_bytes;
    page_content_fini(&content);
    if (run.failed)
        snprintf(out->message, sizeof out->message, "%.199s", run.message);
    host_run_fini(&run);
    if (!render)
        return;
    host_run(&operator_pdf_render, ops->render, (struct host_keys){200 + (uint64_t)inputs[0].i64, 7}, inputs, 2, &run);
    out->render_failed += run.failed != 0;
    if (run.failed)
        snprintf(out->message, sizeof out->message, "%.199s", run.message);
    host_run_fini(&run);
}

static void file_check(const struct operators *ops, const char *path, int in_memory, struct outcome *out)
{
    size_t bytes;
    uint8_t *data = host_file_read(path, &bytes);
    struct host_run run;
    if (!data)
        _exit(91);
    struct sheaf_value file = host_file_value(path, in_memory ? data : NULL, bytes);
    host_run(&operator_pdf_open, ops->open, (struct host_keys){7, 0}, &file, 1, &run);
    out->opened = run.answered;
    out->class_id = run.class_id;
    out->pages = run.child_count;
    snprintf(out->message, sizeof out->message, "%.199s", run.message);
    for (uint64_t i = 0; i < run.child_count && i < PAGES_READ_MAX; i++) {
        struct sheaf_value inputs[2] = {run.children[i], file};
        page_check(ops, inputs, i < PAGES_RENDERED_MAX, out);
    }
    host_run_fini(&run);
    if (document_open_count() > 1)
        _exit(92);
    operator_pdf_text.evict(ops->text, 7);
    if (document_open_count() != 0)
        _exit(93);
    free(data);
}

/* Runs one file in a child. Returns the wait status. */
static int file_run(const struct operators *ops, const char *path, int in_memory, struct outcome *out)
{
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit no_core = {0, 0};
        struct outcome made = {0};
        setrlimit(RLIMIT_CORE, &no_core);
#ifndef __SANITIZE_ADDRESS__ /* which reserves terabytes */
        struct rlimit memory = {6ul << 30, 6ul << 30};
        setrlimit(RLIMIT_DATA, &memory);
#endif
        alarm(DEADLINE_S);
        file_check(ops, path, in_memory, &made);
        _exit(write(ends[1], &made, sizeof made) == sizeof made ? 0 : 94);
    }
    close(ends[1]);
    memset(out, 0, sizeof *out);
    if (read(ends[0], out, sizeof *out) != sizeof *out)
        snprintf(out->message, sizeof out->message, "no outcome");
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static int is_known_bad(const char *name)
{
    for (size_t i = 0; i < sizeof known_bad / sizeof known_bad[0]; i++) {
        if (strstr(name, known_bad[i]))
            return 1;
    }
    return 0;
}

/* Pages the manifest promises, or -1 where tools disagree or the file need not open. */
static long pages_expected(const char *expected)
{
    long pages = -1;
    const char *valid = strncmp(expected, "valid, ", 7) == 0 ? expected + 7 : strstr(expected, "' valid, ");
    if (valid && *valid == '\'')
        valid += 9;
    if (valid && sscanf(valid, "%ld page", &pages) != 1)
        pages = -1;
    return pages;
}

static int entry_check(const char *name, const char *expected, const struct operators *with,
                       const struct operators *without)
{
    struct outcome out;
    const char *path = host_corpus_path(name);
    assert_non_null(path);
    int status = file_run(with, path, 1, &out), wrong = 0;
    int died = !WIFEXITED(status);
    if (died || getenv("CORPUS_VERBOSE"))
        print_message("%-60s %s%s pages %lu text_failed %lu render_failed %lu chars %lu %s\n", name,
                      died         ? strsignal(WTERMSIG(status))
                      : out.opened ? "opened"
                                   : "failed ",
                      died || out.opened ? "" : sheaf_class_name(out.class_id), out.pages, out.text_failed,
                      out.render_failed, out.characters, out.message);
    if (died)
        return !is_known_bad(name);
    wrong += WEXITSTATUS(status) != 0;
    long pages = pages_expected(expected);
    if (strncmp(name, "pdf/", 4) == 0 && pages >= 0)
        wrong += !out.opened || out.pages != (uint64_t)pages;
    if (!out.opened)
        wrong += out.class_id == SHEAF_CLASS_NONE || out.message[0] == 0;
    if (strstr(expected, "without a password must be")) {
        struct outcome closed;
        file_run(without, path, 1, &closed);
        wrong += closed.opened || closed.class_id != SHEAF_CLASS_ENCRYPTED;
    }
    if (wrong)
        print_message("%s: %s; got exit %d opened %d pages %lu class %s: %s\n", name, expected, WEXITSTATUS(status),
                      out.opened, out.pages, sheaf_class_name(out.class_id), out.message);
    return wrong != 0;
}

static void test_every_file(void **state)
{
    const char *path = host_corpus_path("MANIFEST.tsv");
    FILE *manifest = fopen(path, "re");
    char line[8192];
    int wrong = 0, count = 0;
    assert_non_null(manifest);
    passwords_collect(manifest);
    struct operators with = operators_open(1), without = operators_open(0);
    assert_true(with.open && with.text && with.render && without.open);
    while (fgets(line, sizeof line, manifest)) {
        char *fields[16] = {0}, *rest = line;
        for (int i = 0; i < 16 && rest; i++)
            fields[i] = strsep(&rest, "\t\n");
        if (strncmp(fields[0], "pdf/", 4) != 0 && strncmp(fields[0], "image/", 6) != 0)
            continue;
        count++;
        wrong += entry_check(fields[0], fields[8], &with, &without);
    }
    fclose(manifest);
    assert_true(count > 50);
    assert_int_equal(wrong, 0);
    host_close(&operator_pdf_open, with.open);
    host_close(&operator_pdf_text, with.text);
    host_close(&operator_pdf_render, with.render);
    host_close(&operator_pdf_open, without.open);
    host_close(&operator_pdf_text, without.text);
    host_close(&operator_pdf_render, without.render);
}

/* The same results when the bytes are not in memory. */
static void test_by_descriptor(void **state)
{
    static const char *const names[] = {"pdf/multicolumn.pdf", "pdf/noembed-sjis.pdf", "image/french.jpg",
                                        "image/testTIFF_multipage.tif"};
    struct operators ops = operators_open(0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct outcome memory, descriptor;
        const char *path = host_corpus_path(names[i]);
        assert_non_null(path);
        assert_int_equal(file_run(&ops, path, 1, &memory), 0);
        assert_int_equal(file_run(&ops, path, 0, &descriptor), 0);
        assert_true(memory.opened && memory.pages > 0);
        assert_memory_equal(&memory, &descriptor, sizeof memory);
    }
    host_close(&operator_pdf_open, ops.open);
    host_close(&operator_pdf_text, ops.text);
    host_close(&operator_pdf_render, ops.render);
}

int main(void)
{
    char path[4096], error[512];
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_file), cmocka_unit_test(test_by_descriptor)};
    if (!host_corpus_path("MANIFEST.tsv")) {
        print_message("skipped: there is no ../shared/corpus (or SHEAF_SHARED)\n");
        return 77;
    }
    if (pdfium_find(path, sizeof path, error, sizeof error) < 0) {
        print_message("skipped: %s\n", error);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
