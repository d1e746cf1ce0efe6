/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the first bytes of a file say it is. Names and extensions are not looked at: corpora are full of wrong ones.
 */
#ifndef SHEAF_OPS_SNIFF_H
#define SHEAF_OPS_SNIFF_H

#include <stddef.h>
#include <stdint.h>

/* As many first bytes as these functions look at. */
#define SNIFF_BYTES 1280u

enum document_format {
    DOCUMENT_UNKNOWN = 0,
    DOCUMENT_PDF,
    DOCUMENT_JPEG,
    DOCUMENT_PNG,
    DOCUMENT_TIFF,
    DOCUMENT_WEBP,
};

/* "pdf", "jpeg", ...; "unknown". Static. */
const char *document_format_name(enum document_format format);

/* The format. A PDF may have up to 1,024 bytes of something else before its header, as other readers allow. */
enum document_format sniff_format(const uint8_t *head, size_t head_bytes);

/* For bytes of no format above: 1 and a name ("a GIF image") when they are of a well-known other one, 0 and a
 * description
 * ("text that begins ...", "bytes 00 17 ...") when not. */
int sniff_other(const uint8_t *head, size_t head_bytes, char *out, size_t out_bytes);

#endif
