/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON of a document, written page by page: docs/TEXT.md has its form. Key order and number format are fixed, so
 * the same document always gives the same bytes. Written directly, because a tree of values in memory would cost
 * several times the document.
 *
 *     assemble_json_begin -> (assemble_json_page | assemble_json_failed_page)* -> assemble_json_end
 */
#ifndef SHEAF_OPS_ASSEMBLE_JSON_H
#define SHEAF_OPS_ASSEMBLE_JSON_H

#include <sheaf/status.h>

#include "ops/assemble_buffer.h"
#include "ops/layout.h"

/* What is wrong with a page: it is missing, its image could not be read, or not be written. */
enum assemble_stage { ASSEMBLE_PAGE, ASSEMBLE_OCR, ASSEMBLE_IMAGE };

struct assemble_error {
    uint32_t page; /* 1-based */
    enum assemble_stage stage;
    bool no_image; /* the page image is not written for this reason */
    enum sheaf_class class_id;
    char *message; /* of malloc */
};

/* "malformed" and so on, as in sheaf_class_name. */
const char *assemble_class_name(enum sheaf_class class_id);

/* Opens the document. `info` is the record of document_info.h; what in it is no text, number or bool is left out.
 * -EBADMSG: no such record. `*ret_page_count`: its "pages", 0 when absent. */
int assemble_json_begin(struct buffer *out, const void *info, size_t info_bytes, const struct assemble_error *errors,
                        size_t error_count, uint64_t *ret_page_count);
/* `first`: no page was written before. `near_duplicate_of`: the page that this one looks like, 0: none. `texts`: the
 * text of every block, one after the other; `ends`: where each ends.
 */
void assemble_json_page(struct buffer *out, bool first, const struct page_content *content, uint32_t near_duplicate_of,
                        const struct layout *layout, const struct buffer *texts, const size_t *ends);
void assemble_json_failed_page(struct buffer *out, bool first, const struct assemble_error *error);
void assemble_json_end(struct buffer *out);

#endif
