/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plain_loop LIST OUTPUT_DIR [COUNTER]
 *
 * What a person writes who has no engine: one process, one loop over the files named in LIST (one a line), each opened
 * once, its pages read one after the other with the pdfium calls and the extraction that `pdf.text` uses, put together
 * by `doc.assemble` and written as OUTPUT_DIR/NAME.md and OUTPUT_DIR/NAME.json. No times are taken inside, nothing is
 * checked twice, nothing is synced: it is the least work that gives these files, and what `compare` holds the engine
 * against.
 *
 * COUNTER is a file of 8 bytes, zero at the start, that several copies share: each takes the next file of LIST by one
 * atomic addition, so they are balanced as well as whole files can be.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ops/document.h"
#include "ops/document_info.h"
#include "ops/operators.h"
#include "ops/page_text.h"

enum { MEMORIES_MAX = 64 };

struct record {
    void *data;
    size_t bytes;
};

/* A list in memory, read by cursor. */
struct sheaf_list {
    struct record *records;
    size_t count, next;
};

/* What doc.assemble answers into: one row at a time. */
struct loop {
    const struct pdfium *pdfium;
    void *assembler;
    const char *folder;
    struct page_content content;
    struct sheaf_value answers[2];
    void *memories[MEMORIES_MAX];
    bool failed;
};

/* ---- the least host that doc.assemble needs ---- */

static void *host_alloc(const struct sheaf_row *row, size_t bytes)
{
    struct loop *loop = row->host_row;
    for (size_t i = 0; i < MEMORIES_MAX; i++) {
        if (!loop->memories[i])
            return loop->memories[i] = malloc(bytes ? bytes : 1);
    }
    return NULL;
}

static void *host_resize(const struct sheaf_row *row, void *memory, size_t bytes)
{
    struct loop *loop = row->host_row;
    for (size_t i = 0; i < MEMORIES_MAX; i++) {
        if (loop->memories[i] != memory)
            continue;
        void *moved = realloc(memory, bytes);
        return moved ? loop->memories[i] = moved : NULL;
    }
    return NULL;
}

static int host_answer(const struct sheaf_row *row, const struct sheaf_value *values, uint32_t count)
{
    struct loop *loop = row->host_row;
    memcpy(loop->answers, values, count * sizeof *values);
    return 0;
}

static int host_fail(const struct sheaf_row *row, enum sheaf_scope scope, enum sheaf_class class_id, const char *format,
                     ...)
{
    struct loop *loop = row->host_row;
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    loop->failed = true;
    return 0;
}

static int host_list_next(struct sheaf_list *list, struct sheaf_value *ret_value)
{
    if (list->next == list->count)
        return 0;
    struct record *record = &list->records[list->next++];
    *ret_value = (struct sheaf_value){.kind = SHEAF_RECORD, .data = record->data, .length_bytes = record->bytes};
    return 1;
}

static void host_list_rewind(struct sheaf_list *list)
{
    list->next = 0;
}

static int host_list_error_next(struct sheaf_list *list, struct sheaf_list_error *ret_error)
{
    return 0;
}

static int host_cancelled(const struct sheaf_row *row)
{
    return 0;
}

static const struct sheaf_host host = {
    .size = sizeof host,
    .version = SHEAF_OPERATOR_ABI,
    .alloc = host_alloc,
    .resize = host_resize,
    .answer = host_answer,
    .fail = host_fail,
    .list_next = host_list_next,
    .list_rewind = host_list_rewind,
    .list_error_next = host_list_error_next,
    .cancelled = host_cancelled,
};

/* ---- one file ---- */

static int read_page(struct loop *loop, FPDF_DOCUMENT pdf, int index, struct record *record)
{
    const struct pdfium *pdfium = loop->pdfium;
    FPDF_PAGE page = pdfium->FPDF_LoadPage(pdf, index);
    if (!page)
        return -EBADMSG;
    FPDF_TEXTPAGE text = pdfium->FPDFText_LoadPage(page);
    int status = page_text_extract(pdfium, page, text, (uint32_t)index + 1, &loop->content);
    if (text)
        pdfium->FPDFText_ClosePage(text);
    pdfium->FPDF_ClosePage(page);
    if (status < 0)
        return status;
    size_t bound = page_record_bound(&loop->content);
    record->data = malloc(bound);
    if (!record->data)
        return -ENOMEM;
    return page_record_encode(&loop->content, record->data, bound, &record->bytes);
}

static int write_file(const struct loop *loop, const char *name, const char *extension, const struct sheaf_value *value)
{
    char target[4096];
    snprintf(target, sizeof target, "%s/%s.%s", loop->folder, name, extension);
    int fd = open(target, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return -errno;
    ssize_t written = write(fd, value->data, value->length_bytes);
    return close(fd) == 0 && written == (ssize_t)value->length_bytes ? 0 : -EIO;
}

static int assemble(struct loop *loop, struct document *document, struct record *records, const char *name)
{
    void *info;
    size_t info_bytes;
    int status = document_info_encode(document, &info, &info_bytes);
    if (status < 0)
        return status;
    struct sheaf_list pages = {records, (size_t)document->page_count, 0}, none = {NULL, 0, 0};
    struct sheaf_value inputs[3] = {
        {.kind = SHEAF_RECORD, .data = info, .length_bytes = info_bytes},
        {.kind = SHEAF_LIST_OF(SHEAF_RECORD, 1), .list = &pages, .length_bytes = pages.count},
        {.kind = SHEAF_LIST_OF(SHEAF_RECORD, 1), .list = &none},
    };
    uint64_t coordinate = 0;
    char message[512] = "";
    struct sheaf_row row = {.size = sizeof row,
                            .key = 1,
                            .coordinate = &coordinate,
                            .depth = 1,
                            .input_count = 3,
                            .inputs = inputs,
                            .host_row = loop};
    status = operator_doc_assemble.run(loop->assembler, &row, message);
    free(info);
    if (status == 0 && !loop->failed)
        status = write_file(loop, name, "md", &loop->answers[0]);
    if (status == 0 && !loop->failed)
        status = write_file(loop, name, "json", &loop->answers[1]);
    for (size_t i = 0; i < MEMORIES_MAX; i++) {
        free(loop->memories[i]);
        loop->memories[i] = NULL;
    }
    return loop->failed ? -EBADMSG : status;
}

static int do_document(struct loop *loop, struct document *document, const char *name)
{
    struct record *records = calloc((size_t)document->page_count + 1, sizeof *records);
    int status = records ? 0 : -ENOMEM;
    for (int index = 0; status == 0 && index < document->page_count; index++)
        status = read_page(loop, document->pdf, index, &records[index]);
    if (status == 0)
        status = assemble(loop, document, records, name);
    for (int index = 0; records && index < document->page_count; index++)
        free(records[index].data);
    free(records);
    return status;
}

static char *read_file(const char *path, size_t *ret_bytes)
{
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *data = NULL;
    if (fd >= 0 && fstat(fd, &about) == 0 && (data = malloc((size_t)about.st_size + 1)) &&
        read(fd, data, (size_t)about.st_size) != about.st_size) {
        free(data);
        data = NULL;
    }
    if (fd >= 0)
        close(fd);
    if (data) {
        *ret_bytes = (size_t)about.st_size;
        data[about.st_size] = 0;
    }
    return data;
}

static int do_file(struct loop *loop, const char *path)
{
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    struct document document = {.pdfium = loop->pdfium, .format = DOCUMENT_PDF, .page_index = -1, .descriptor = -1};
    size_t bytes = 0;
    char *data = read_file(path, &bytes);
    document.pdf = data ? loop->pdfium->FPDF_LoadMemDocument64(data, bytes, NULL) : NULL;
    int status = document.pdf ? 0 : -EBADMSG;
    if (document.pdf) {
        document.page_count = loop->pdfium->FPDF_GetPageCount(document.pdf);
        status = do_document(loop, &document, name);
        loop->pdfium->FPDF_CloseDocument(document.pdf);
    }
    free(data);
    if (status < 0)
        fprintf(stderr, "plain_loop: %s: %s\n", path, strerror(-status));
    return status;
}

/* ---- the loop ---- */

static uint64_t next_file(_Atomic uint64_t *shared, uint64_t *own)
{
    return shared ? atomic_fetch_add(shared, 1) : (*own)++;
}

static int do_list(struct loop *loop, char *list, _Atomic uint64_t *shared)
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

int main(int count, char **arguments)
{
    static struct loop loop;
    _Atomic uint64_t *shared = NULL;
    char error[1024] = "";
    size_t bytes;
    if (count < 3 || count > 4) {
        fprintf(stderr, "use: plain_loop LIST OUTPUT_DIR [COUNTER]\n");
        return 2;
    }
    if (count == 4) {
        int fd = open(arguments[3], O_RDWR | O_CLOEXEC);
        shared = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (shared == MAP_FAILED) {
            perror(arguments[3]);
            return 2;
        }
    }
    char *list = read_file(arguments[1], &bytes);
    const struct sheaf_open open = {
        .size = sizeof open, .host = &host, .error = error, .error_bytes = sizeof error, .data_path = NULL};
    if (!list || pdfium_load(NULL, error, sizeof error, &loop.pdfium) < 0 ||
        operator_doc_assemble.open(&open, &loop.assembler) < 0) {
        fprintf(stderr, "plain_loop: %s\n", list ? error : arguments[1]);
        return 1;
    }
    fonts_install(loop.pdfium, NULL);
    loop.folder = arguments[2];
    page_content_init(&loop.content);
    int failed = do_list(&loop, list, shared);
    operator_doc_assemble.close(loop.assembler);
    page_content_fini(&loop.content);
    free(list);
    return failed;
}
