/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plain_loop LIST OUTPUT_DIR [COUNTER]
 * plain_loop --one FILE OUTPUT_DIR
 *
 * What a person writes who has no engine: one process, one loop over the files named in LIST (one a line), each opened
 * once, its pages read one after the other with the pdfium calls and the extraction that `pdf.text` uses, put together
 * by `doc.assemble` and written as OUTPUT_DIR/NAME.md and OUTPUT_DIR/NAME.json. No times are taken inside, nothing is
 * checked twice, nothing is synced: it is the least work that gives these files, and what `compare` holds the engine
 * against.
 *
 * COUNTER is a file of 8 bytes, zero at the start, that several copies share: each takes the next file of LIST by one
 * atomic addition, so they are balanced as well as whole files can be.
 *
 * With --one it does one file: what a program is that others start for each document.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/common/document_work.h"

struct loop {
    struct document_work *work;
    const char *folder;
};

static int do_document(const struct loop *loop, struct document_opened *opened, const char *name)
{
    int count = document_work_page_count(opened), status = 0;
    struct document_page *pages = calloc((size_t)count + 1, sizeof *pages);
    if (!pages)
        return -ENOMEM;
    for (int index = 0; status == 0 && index < count; index++)
        status = document_work_page(loop->work, opened, index, &pages[index]);
    if (status == 0)
        status = document_work_write(loop->work, opened, pages, loop->folder, name);
    for (int index = 0; index < count; index++)
        document_work_free(pages[index].data);
    free(pages);
    return status;
}

static int do_file(const struct loop *loop, const char *path)
{
    int status;
    struct document_opened *opened = document_work_open(loop->work, path, &status);
    if (opened) {
        status = do_document(loop, opened, strrchr(path, '/') ? strrchr(path, '/') + 1 : path);
        document_work_close(opened);
    }
    if (status < 0)
        fprintf(stderr, "plain_loop: %s: %s\n", path, strerror(-status));
    return status;
}

/* ---- the loop ---- */

static uint64_t next_file(_Atomic uint64_t *shared, uint64_t *own)
{
    return shared ? atomic_fetch_add(shared, 1) : (*own)++;
}

static int do_list(const struct loop *loop, char *list, _Atomic uint64_t *shared)
{
    size_t count = 0;
    uint64_t own = 0;
    char **paths = calloc(strlen(list) / 2 + 2, sizeof *paths), *rest = list, *path;
    if (!paths)
        return 1;
    while ((path = strsep(&rest, "\n"))) {
        if (*path)
            paths[count++] = path;
    }
    int failed = 0;
    for (uint64_t at; (at = next_file(shared, &own)) < count;)
        failed |= do_file(loop, paths[at]) < 0;
    free(paths);
    return failed;
}

static int do_listed(const struct loop *loop, const char *path, const char *counter)
{
    _Atomic uint64_t *shared = NULL;
    size_t bytes = 0;
    if (counter) {
        int fd = open(counter, O_RDWR | O_CLOEXEC);
        shared = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (shared == MAP_FAILED) {
            perror(counter);
            return 2;
        }
    }
    char *list = (char *)host_file_read(path, &bytes);
    if (!list) {
        perror(path);
        return 1;
    }
    list[bytes] = '\0';
    int failed = do_list(loop, list, shared);
    free(list);
    return failed;
}

int main(int count, char **arguments)
{
    char error[1024] = "";
    bool one = count == 4 && strcmp(arguments[1], "--one") == 0;
    if (count < 3 || count > 4) {
        fprintf(stderr, "use: plain_loop LIST OUTPUT_DIR [COUNTER] | plain_loop --one FILE OUTPUT_DIR\n");
        return 2;
    }
    struct loop loop = {document_work_create(error, sizeof error), arguments[one ? 3 : 2]};
    if (!loop.work) {
        fprintf(stderr, "plain_loop: %s\n", error);
        return 1;
    }
    int failed =
        one ? do_file(&loop, arguments[2]) < 0 : do_listed(&loop, arguments[1], count == 4 ? arguments[3] : NULL);
    document_work_destroy(loop.work);
    return failed;
}
