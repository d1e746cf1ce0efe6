/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `pdf.open`, `pdf.text` and `pdf.render` have in common: pdfium, fonts and passwords of one opened operator, and
 * the way from a row to its open document.
 */
#ifndef SHEAF_OPS_PAGE_OPERATOR_H
#define SHEAF_OPS_PAGE_OPERATOR_H

#include <sheaf/operator.h>

#include "ops/document.h"
#include "ops/image.h"

/* The first options of every operator that opens documents, in this order. */
enum { PAGE_OPTION_PASSWORDS, PAGE_OPTION_FONTS, PAGE_OPTION_OWN };
#define PAGE_OPTIONS                                                                                                   \
    {.name = "passwords",                                                                                              \
     .type = SHEAF_OPTION_TEXT_LIST,                                                                                   \
     .fallback = {.type = SHEAF_OPTION_TEXT_LIST},                                                                     \
     .summary = "passwords tried on encrypted documents, in order, after none at all"},                                \
    {                                                                                                                  \
        .name = "fonts", .type = SHEAF_OPTION_TEXT, .fallback = {.type = SHEAF_OPTION_TEXT, .text = ""},               \
        .summary = "folders with fonts for documents that bring none, separated by colons; empty: the system's"        \
    }

struct page_operator {
    const struct sheaf_host *host;
    const struct pdfium *pdfium;
    char **passwords;
    uint32_t password_count;
};

/* Loads pdfium and the fonts and copies the options above. On failure `open->error` says why, and nothing is kept. */
int page_operator_open(const struct sheaf_open *open, struct page_operator *common);
void page_operator_close(struct page_operator *common);

/* The open document of a row, kept under `key`. */
int page_operator_document(const struct page_operator *common, const struct sheaf_row *row,
                           const struct sheaf_value *file, uint64_t key, struct document **ret_document,
                           struct document_failure *failure);

/* Fails the row for the reason given, with the name of its file before it; returns what `run` should return. */
int page_operator_fail(const struct page_operator *common, const struct sheaf_row *row,
                       const struct document_failure *failure);

/* Image source of a page of an image document. */
static inline struct image_source page_image_source(const struct document *document, int64_t page)
{
    return (struct image_source){document->format, document->data, document->size_bytes, (uint32_t)page};
}

#endif
