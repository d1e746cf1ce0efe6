/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open documents, shared by all operators of a worker process.
 *
 * Opening a PDF again for every page costs several times the work of reading the page, so a document stays open under
 * the key of the row it came from: `pdf.open` opens it (its row's key), page operators find it (their row's parent key)
 * or open it from their own `document` input when they run in another process. The cache holds a few documents and
 * drops the least recently used; `evict` of any operator closes a document before its bytes go. Key 0 is never kept.
 *
 * A document reads its bytes from the file value's memory, which stays readable until `evict`, or with pread from the
 * host's descriptor; images that are not in memory are read whole, up to a cap. The last page stays loaded, since text
 * and image of one page are mostly wanted one after the other.
 *
 * One thread; the cache is process-wide because pdfium is.
 */
#ifndef SHEAF_OPS_DOCUMENT_H
#define SHEAF_OPS_DOCUMENT_H

#include <stddef.h>
#include <stdint.h>

#include <sheaf/operator.h>

#include "ops/fonts.h"
#include "ops/pdfium.h"
#include "ops/sniff.h"

#define DOCUMENT_PAGES_MAX 1000000          /* a larger count is a damaged or hostile page tree */
#define DOCUMENT_IMAGE_BYTES_MAX (1u << 30) /* of an image file that is not in memory */
#define DOCUMENT_CACHE_ENTRIES 12

/* Why a document or page cannot be had: what goes into `sheaf_host.fail`. */
struct document_failure {
    enum sheaf_class class_id;
    char message[480];
};

struct document {
    const struct pdfium *pdfium;
    enum document_format format;
    int page_count; /* of a TIFF: -1 until counted, see image_page_count */
    int encrypted;
    const uint8_t *data; /* NULL: through `descriptor` */
    size_t size_bytes;
    FPDF_DOCUMENT pdf;
    struct font_log fonts; /* fonts this document asked for and did not bring */

    /* private */
    uint64_t key;
    uint64_t used; /* tick of the last use */
    const void *source_data;
    uint8_t *owned;
    int descriptor;
    struct pdfium_file_access access;
    FPDF_PAGE page;
    int page_index;
};

struct document_request {
    const struct sheaf_host *host;
    const struct sheaf_row *row;
    const struct pdfium *pdfium;
    const struct sheaf_value *file;
    uint64_t key;
    const char *const *passwords; /* tried in order, after none at all */
    uint32_t password_count;
};

/* Finds or opens. 0 and a document, valid until document_release; or a negative status and the reason. */
int document_acquire(const struct document_request *request, struct document **ret_document,
                     struct document_failure *failure);
/* Done with it for this row: closes it when it is not kept. */
void document_release(struct document *document);
/* Closes what is open under the key, if anything. */
void document_evict(uint64_t key);
/* Closes everything. */
void document_evict_all(void);
/* How many are open: for tests. */
uint32_t document_open_count(void);

/* The page, loaded; it belongs to the document and stays until the next document_page or its end. */
int document_page(struct document *document, int64_t page_index, FPDF_PAGE *ret_page, struct document_failure *failure);

#endif
