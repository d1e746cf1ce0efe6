/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/common/document_work.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ops/document.h"
#include "ops/document_info.h"
#include "ops/operators.h"
#include "ops/page_text.h"

struct document_work {
    const struct pdfium *pdfium;
    void *assembler;
    struct page_content content;
};

struct document_opened {
    struct document document;
    uint8_t *data;
};

struct document_work *document_work_create(char *error, size_t error_bytes)
{
    char line[512] = "";
    struct document_work *work = calloc(1, sizeof *work);
    if (!work || pdfium_load(NULL, error, error_bytes, &work->pdfium) < 0) {
        free(work);
        return NULL;
    }
    fonts_install(work->pdfium, NULL);
    work->assembler = host_open(&operator_doc_assemble, NULL, 0, line);
    if (!work->assembler) {
        snprintf(error, error_bytes, "%s", line);
        free(work);
        return NULL;
    }
    page_content_init(&work->content);
    return work;
}

void document_work_destroy(struct document_work *work)
{
    host_close(&operator_doc_assemble, work->assembler);
    page_content_fini(&work->content);
    free(work);
}

struct document_opened *document_work_open(struct document_work *work, const char *path, int *ret_status)
{
    struct document_opened *opened = calloc(1, sizeof *opened);
    size_t bytes = 0;
    *ret_status = -ENOMEM;
    if (!opened)
        return NULL;
    opened->document =
        (struct document){.pdfium = work->pdfium, .format = DOCUMENT_PDF, .page_index = -1, .descriptor = -1};
    errno = EIO;
    opened->data = host_file_read(path, &bytes);
    *ret_status = opened->data ? -EBADMSG : -errno;
    if (opened->data)
        opened->document.pdf = work->pdfium->FPDF_LoadMemDocument64(opened->data, bytes, NULL);
    if (!opened->document.pdf) {
        free(opened->data);
        free(opened);
        return NULL;
    }
    opened->document.page_count = work->pdfium->FPDF_GetPageCount(opened->document.pdf);
    *ret_status = 0;
    return opened;
}

void document_work_close(struct document_opened *opened)
{
    opened->document.pdfium->FPDF_CloseDocument(opened->document.pdf);
    free(opened->data);
    free(opened);
}

int document_work_page_count(const struct document_opened *opened)
{
    return opened->document.page_count;
}

struct document *document_work_inside(struct document_opened *opened)
{
    return &opened->document;
}

int document_work_page(struct document_work *work, struct document_opened *opened, int index,
                       struct document_page *ret_page)
{
    const struct pdfium *pdfium = work->pdfium;
    FPDF_PAGE page = pdfium->FPDF_LoadPage(opened->document.pdf, index);
    if (!page)
        return -EBADMSG;
    FPDF_TEXTPAGE text = pdfium->FPDFText_LoadPage(page);
    int status = page_text_extract(pdfium, page, text, (uint32_t)index + 1, &work->content);
    if (text)
        pdfium->FPDFText_ClosePage(text);
    pdfium->FPDF_ClosePage(page);
    if (status < 0)
        return status;
    size_t bound = page_record_bound(&work->content);
    ret_page->data = malloc(bound);
    if (!ret_page->data)
        return -ENOMEM;
    return page_record_encode(&work->content, ret_page->data, bound, &ret_page->bytes);
}

void document_work_free(void *data)
{
    free(data);
}

int document_work_assemble(struct document_work *work, struct document_opened *opened,
                           const struct document_page *pages, struct host_run *ret_run)
{
    uint64_t count = (uint64_t)opened->document.page_count;
    struct sheaf_value *records = calloc(count + 1, sizeof *records);
    void *info = NULL;
    size_t info_bytes = 0;
    int status = records ? document_info_encode(&opened->document, &info, &info_bytes) : -ENOMEM;
    if (status < 0) {
        free(records);
        return status;
    }
    for (uint64_t at = 0; at < count; at++)
        records[at] =
            (struct sheaf_value){.kind = SHEAF_RECORD, .data = pages[at].data, .length_bytes = pages[at].bytes};
    struct sheaf_list list = {.values = records, .count = count}, none = {.count = 0};
    const struct sheaf_value inputs[3] = {{.kind = SHEAF_RECORD, .data = info, .length_bytes = info_bytes},
                                          host_list_value(&list, SHEAF_RECORD),
                                          host_list_value(&none, SHEAF_RECORD)};
    host_run(&operator_doc_assemble, work->assembler, (struct host_keys){1, 0}, inputs, 3, ret_run);
    free(info);
    free(records);
    status = ret_run->status < 0 ? ret_run->status : ret_run->failed ? -EBADMSG : 0;
    if (status < 0) {
        fprintf(stderr, "doc.assemble: %s\n", ret_run->message);
        host_run_fini(ret_run);
    }
    return status;
}

static int write_file(const char *folder, const char *name, const char *extension, const struct sheaf_value *value)
{
    char target[4096];
    snprintf(target, sizeof target, "%s/%s.%s", folder, name, extension);
    int fd = open(target, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return -errno;
    ssize_t written = write(fd, value->data, value->length_bytes);
    return close(fd) == 0 && written == (ssize_t)value->length_bytes ? 0 : -EIO;
}

int document_work_write(struct document_work *work, struct document_opened *opened, const struct document_page *pages,
                        const char *folder, const char *name)
{
    struct host_run run;
    int status = document_work_assemble(work, opened, pages, &run);
    if (status < 0)
        return status;
    status = write_file(folder, name, "md", &run.outputs[0]);
    if (status == 0)
        status = write_file(folder, name, "json", &run.outputs[1]);
    host_run_fini(&run);
    return status;
}
