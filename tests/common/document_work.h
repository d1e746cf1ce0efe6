/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The work of the documents pipeline as plain calls, without an engine: one document, opened once, page by page with
 * the calls of pdf.text, put together by doc.assemble through tests/ops/host.h. For programs that show or measure it,
 * and, as a shared object of its own, for those that are measured beside the engine in other languages.
 *
 * One thread. Statuses are 0 or a negative errno.
 */
#ifndef TESTS_COMMON_DOCUMENT_WORK_H
#define TESTS_COMMON_DOCUMENT_WORK_H

#include <stddef.h>

#include "tests/ops/host.h"

struct document;
struct document_work;   /* a process: pdfium, fonts, doc.assemble */
struct document_opened; /* a file */

/* The encoded content of a page, in memory of malloc. */
struct document_page {
    void *data;
    size_t bytes;
};

/* NULL and a line in `error` when the libraries are not there. */
SHEAF_API struct document_work *document_work_create(char *error, size_t error_bytes);
SHEAF_API void document_work_destroy(struct document_work *work);

/* Reads the whole file. NULL and a status when it is no document. */
SHEAF_API struct document_opened *document_work_open(struct document_work *work, const char *path, int *ret_status);
SHEAF_API void document_work_close(struct document_opened *opened);
SHEAF_API int document_work_page_count(const struct document_opened *opened);
struct document *document_work_inside(struct document_opened *opened);

/* `index` from 0. Free the data by document_work_free. */
SHEAF_API int document_work_page(struct document_work *work, struct document_opened *opened, int index,
                                 struct document_page *ret_page);
SHEAF_API void document_work_free(void *data);

/* All pages of the document, in order. Outputs of the run: Markdown, JSON. */
int document_work_assemble(struct document_work *work, struct document_opened *opened,
                           const struct document_page *pages, struct host_run *ret_run);
/* The same, written as FOLDER/NAME.md and FOLDER/NAME.json. */
SHEAF_API int document_work_write(struct document_work *work, struct document_opened *opened,
                                  const struct document_page *pages, const char *folder, const char *name);

#endif
