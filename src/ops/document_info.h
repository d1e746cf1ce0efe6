/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The `info` record of `pdf.open`: what is known of a document as a whole, a MessagePack map with text keys.
 *
 *   format     text   "pdf", "jpeg", "png", "tiff" or "webp"
 *   version    text   of the PDF format, "1.7"; absent for images
 *   pages      uint   page count
 *   encrypted  bool   true when the file is encrypted, also with an empty password
 *   title, author, subject, keywords, creator, producer
 *              text   from the document's own metadata, white space at the ends removed; absent when empty
 *   created, modified
 *              text   ISO 8601 ("2019-04-28T14:03:00+02:00"), or as the file has it when it is no PDF date; absent when
 *                     empty
 *
 * Keys stand in this order. Readers skip keys they do not know.
 */
#ifndef SHEAF_OPS_DOCUMENT_INFO_H
#define SHEAF_OPS_DOCUMENT_INFO_H

#include <stddef.h>

#include "ops/document.h"

/* Encodes the record into memory of `malloc`, which the caller frees. 0 or -ENOMEM. */
int document_info_encode(const struct document *document, void **ret_data, size_t *ret_bytes);

/* "D:20190428140300+02'00'" to ISO 8601; anything else is copied as it is. Always NUL-terminated. */
void document_date(const char *pdf_date, char *out, size_t out_bytes);

#endif
