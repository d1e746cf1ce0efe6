/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/document.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct document *open_documents[DOCUMENT_CACHE_ENTRIES];
static uint64_t tick;

static int refuse(struct document_failure *failure, enum sheaf_class class_id, const char *format, ...)
    SHEAF_PRINTF(3, 4);

static int refuse(struct document_failure *failure, enum sheaf_class class_id, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    failure->class_id = class_id;
    vsnprintf(failure->message, sizeof failure->message, format, values);
    va_end(values);
    return -EBADMSG;
}

static void page_close(struct document *document)
{
    if (document->page)
        document->pdfium->FPDF_ClosePage(document->page);
    document->page = NULL;
    document->page_index = -1;
}

static void document_close(struct document *document)
{
    if (!document)
        return;
    fonts_log_to(NULL);
    page_close(document);
    if (document->pdf)
        document->pdfium->FPDF_CloseDocument(document->pdf);
    free(document->owned);
    free(document);
}

static int read_all(int descriptor, uint64_t position, uint8_t *buffer, size_t size)
{
    while (size > 0) {
        ssize_t got = pread(descriptor, buffer, size, (off_t)position);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            return -ENODATA;
        buffer += got;
        position += (uint64_t)got;
        size -= (size_t)got;
    }
    return 0;
}

static int access_read(void *cookie, unsigned long position, unsigned char *buffer, unsigned long size)
{
    const struct document *document = cookie;
    return read_all(document->descriptor, position, buffer, size) == 0;
}

/* The first bytes, wherever they are; also makes the descriptor known when the file is not in memory. */
static int head_read(const struct document_request *request, struct document *document, const uint8_t **ret_head,
                     size_t *ret_bytes, uint8_t *buffer, struct document_failure *failure)
{
    size_t bytes = document->size_bytes < SNIFF_BYTES ? document->size_bytes : SNIFF_BYTES;
    *ret_bytes = bytes;
    if (document->data) {
        *ret_head = document->data;
        return 0;
    }
    int status = request->host->file_descriptor(request->row, request->file, &document->descriptor);
    if (status == 0)
        status = read_all(document->descriptor, 0, buffer, bytes);
    if (status < 0)
        return refuse(failure, SHEAF_CLASS_IO, "the file cannot be read: %s", strerror(-status));
    *ret_head = buffer;
    return 0;
}

static FPDF_DOCUMENT pdf_try(struct document *document, const char *password)
{
    if (document->data)
        return document->pdfium->FPDF_LoadMemDocument64(document->data, document->size_bytes, password);
    document->access = (struct pdfium_file_access){document->size_bytes, access_read, document};
    return document->pdfium->FPDF_LoadCustomDocument(&document->access, password);
}

static int pdf_open(const struct document_request *request, struct document *document, struct document_failure *failure)
{
    document->pdf = pdf_try(document, NULL);
    unsigned long code = document->pdf ? FPDF_ERR_SUCCESS : document->pdfium->FPDF_GetLastError();
    for (uint32_t i = 0; !document->pdf && code == FPDF_ERR_PASSWORD && i < request->password_count; i++) {
        document->pdf = pdf_try(document, request->passwords[i]);
        code = document->pdf ? FPDF_ERR_SUCCESS : document->pdfium->FPDF_GetLastError();
    }
    if (!document->pdf && code == FPDF_ERR_PASSWORD && request->password_count == 0)
        return refuse(failure, SHEAF_CLASS_ENCRYPTED,
                      "encrypted: it needs a password and none is given; try --passwords");
    if (!document->pdf && code == FPDF_ERR_PASSWORD)
        return refuse(failure, SHEAF_CLASS_ENCRYPTED, "encrypted: none of the %u passwords given fits",
                      request->password_count);
    if (!document->pdf)
        return refuse(failure, code == FPDF_ERR_SECURITY ? SHEAF_CLASS_UNSUPPORTED : SHEAF_CLASS_MALFORMED,
                      "the PDF cannot be opened: %s (pdfium error %lu)", pdfium_error_text(code), code);
    document->encrypted = document->pdfium->FPDF_GetSecurityHandlerRevision(document->pdf) >= 0;
    document->page_count = document->pdfium->FPDF_GetPageCount(document->pdf);
    if (document->page_count < 0 || document->page_count > DOCUMENT_PAGES_MAX)
        return refuse(failure, SHEAF_CLASS_TOO_LARGE, "it claims %d pages; at most %d are read", document->page_count,
                      DOCUMENT_PAGES_MAX);
    return 0;
}

static int image_load(struct document *document, struct document_failure *failure)
{
    document->page_count = document->format == DOCUMENT_TIFF ? -1 : 1;
    if (document->data)
        return 0;
    if (document->size_bytes > DOCUMENT_IMAGE_BYTES_MAX)
        return refuse(failure, SHEAF_CLASS_TOO_LARGE, "an image of %zu bytes; at most %u are read",
                      document->size_bytes, DOCUMENT_IMAGE_BYTES_MAX);
    document->owned = malloc(document->size_bytes);
    if (!document->owned)
        return refuse(failure, SHEAF_CLASS_RESOURCE_EXHAUSTED, "no memory for %zu bytes", document->size_bytes);
    int status = read_all(document->descriptor, 0, document->owned, document->size_bytes);
    if (status < 0)
        return refuse(failure, SHEAF_CLASS_IO, "the file cannot be read: %s", strerror(-status));
    document->data = document->owned;
    return 0;
}

static int document_open(const struct document_request *request, struct document *document,
                         struct document_failure *failure)
{
    const uint8_t *head = NULL;
    uint8_t buffer[SNIFF_BYTES];
    size_t head_bytes = 0;
    char other[96];
    if (document->size_bytes == 0)
        return refuse(failure, SHEAF_CLASS_EMPTY, "the file is empty");
    int status = head_read(request, document, &head, &head_bytes, buffer, failure);
    if (status < 0)
        return status;
    document->format = sniff_format(head, head_bytes);
    switch (document->format) {
    case DOCUMENT_PDF:
        return pdf_open(request, document, failure);
    case DOCUMENT_JPEG:
    case DOCUMENT_PNG:
    case DOCUMENT_TIFF:
    case DOCUMENT_WEBP:
        return image_load(document, failure);
    case DOCUMENT_UNKNOWN:
        break;
    }
    if (sniff_other(head, head_bytes, other, sizeof other))
        return refuse(failure, SHEAF_CLASS_UNSUPPORTED, "%s; PDF, JPEG, PNG, TIFF and WebP are read", other);
    return refuse(failure, SHEAF_CLASS_MALFORMED, "not a PDF or an image: the file holds %s", other);
}

static int slot_of(uint64_t key)
{
    for (int i = 0; key != 0 && i < DOCUMENT_CACHE_ENTRIES; i++) {
        if (open_documents[i] && open_documents[i]->key == key)
            return i;
    }
    return -1;
}

/* A slot for a new document: an empty one, or the least recently used one, emptied. */
static int slot_free(void)
{
    int oldest = 0;
    for (int i = 0; i < DOCUMENT_CACHE_ENTRIES; i++) {
        if (!open_documents[i])
            return i;
        if (open_documents[i]->used < open_documents[oldest]->used)
            oldest = i;
    }
    document_close(open_documents[oldest]);
    open_documents[oldest] = NULL;
    return oldest;
}

int document_acquire(const struct document_request *request, struct document **ret_document,
                     struct document_failure *failure)
{
    const struct sheaf_value *file = request->file;
    int slot = slot_of(request->key);
    if (slot >= 0) {
        struct document *kept = open_documents[slot];
        if (kept->source_data == file->data && kept->size_bytes == file->length_bytes) {
            kept->used = ++tick;
            fonts_log_to(&kept->fonts);
            *ret_document = kept;
            return 0;
        }
        document_evict(request->key);
    }
    struct document *document = calloc(1, sizeof *document);
    if (!document) {
        refuse(failure, SHEAF_CLASS_RESOURCE_EXHAUSTED, "no memory to open the document");
        return -ENOMEM;
    }
    *document = (struct document){.pdfium = request->pdfium,
                                  .data = file->data,
                                  .source_data = file->data,
                                  .size_bytes = file->length_bytes,
                                  .key = request->key,
                                  .used = ++tick,
                                  .descriptor = -1,
                                  .page_index = -1};
    fonts_log_to(&document->fonts);
    int status = document_open(request, document, failure);
    if (status < 0) {
        document_close(document);
        return status;
    }
    if (document->key != 0)
        open_documents[slot_free()] = document;
    *ret_document = document;
    return 0;
}

void document_release(struct document *document)
{
    fonts_log_to(NULL);
    if (document && document->key == 0)
        document_close(document);
}

void document_evict(uint64_t key)
{
    int slot = slot_of(key);
    if (slot < 0)
        return;
    document_close(open_documents[slot]);
    open_documents[slot] = NULL;
}

void document_evict_all(void)
{
    for (int i = 0; i < DOCUMENT_CACHE_ENTRIES; i++) {
        document_close(open_documents[i]);
        open_documents[i] = NULL;
    }
}

uint32_t document_open_count(void)
{
    uint32_t count = 0;
    for (int i = 0; i < DOCUMENT_CACHE_ENTRIES; i++)
        count += open_documents[i] != NULL;
    return count;
}

int document_page(struct document *document, int64_t page_index, FPDF_PAGE *ret_page, struct document_failure *failure)
{
    assert(document->format == DOCUMENT_PDF);
    if (page_index < 0 || page_index >= document->page_count)
        return refuse(failure, SHEAF_CLASS_MALFORMED, "there is no page %lld: the document has %d",
                      (long long)page_index + 1, document->page_count);
    if (!document->page || document->page_index != page_index) {
        page_close(document);
        document->page = document->pdfium->FPDF_LoadPage(document->pdf, (int)page_index);
        if (!document->page)
            return refuse(failure, SHEAF_CLASS_MALFORMED, "page %lld cannot be loaded: %s", (long long)page_index + 1,
                          pdfium_error_text(FPDF_ERR_PAGE));
        document->page_index = (int)page_index;
    }
    *ret_page = document->page;
    return 0;
}
