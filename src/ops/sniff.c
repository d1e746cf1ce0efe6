/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/sniff.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

const char *document_format_name(enum document_format format)
{
    static const char *const names[] = {"unknown", "pdf", "jpeg", "png", "tiff", "webp"};
    return format <= DOCUMENT_WEBP ? names[format] : names[0];
}

static int starts(const uint8_t *head, size_t head_bytes, size_t at, const char *magic, size_t magic_bytes)
{
    return head_bytes >= at + magic_bytes && memcmp(head + at, magic, magic_bytes) == 0;
}

enum document_format sniff_format(const uint8_t *head, size_t head_bytes)
{
    if (starts(head, head_bytes, 0, "\xff\xd8\xff", 3))
        return DOCUMENT_JPEG;
    if (starts(head, head_bytes, 0, "\x89PNG\r\n\x1a\n", 8))
        return DOCUMENT_PNG;
    if (starts(head, head_bytes, 0, "II*\0", 4) || starts(head, head_bytes, 0, "MM\0*", 4) ||
        starts(head, head_bytes, 0, "II+\0", 4) || starts(head, head_bytes, 0, "MM\0+", 4))
        return DOCUMENT_TIFF;
    if (starts(head, head_bytes, 0, "RIFF", 4) && starts(head, head_bytes, 8, "WEBP", 4))
        return DOCUMENT_WEBP;
    size_t searched = head_bytes < 1028 ? head_bytes : 1028;
    if (searched >= 4 && memmem(head, searched, "%PDF", 4))
        return DOCUMENT_PDF;
    return DOCUMENT_UNKNOWN;
}

static const struct {
    const char *name, *magic;
    uint8_t at, bytes;
} others[] = {
    {"a GIF image", "GIF8", 0, 4},
    {"a BMP image", "BM", 0, 2},
    {"a JPEG 2000 image", "\0\0\0\x0cjP  ", 0, 8},
    {"a JPEG 2000 codestream", "\xff\x4f\xff\x51", 0, 4},
    {"a HEIF image", "ftyphei", 4, 7},
    {"a HEIF image", "ftypmif1", 4, 8},
    {"an AVIF image", "ftypavif", 4, 8},
    {"an MP4 or QuickTime video", "ftyp", 4, 4},
    {"a Matroska video", "\x1a\x45\xdf\xa3", 0, 4},
    {"a ZIP archive (an office document or e-book?)", "PK\3\4", 0, 4},
    {"a gzip archive", "\x1f\x8b", 0, 2},
    {"an old office document", "\xd0\xcf\x11\xe0", 0, 4},
    {"PostScript", "%!PS", 0, 4},
    {"RTF text", "{\\rtf", 0, 5},
    {"XML", "<?xml", 0, 5},
    {"HTML", "<!DOCTYPE html", 0, 14},
    {"HTML", "<!doctype html", 0, 14},
    {"HTML", "<html", 0, 5},
    {"DjVu", "AT&TFORM", 0, 8},
};

int sniff_other(const uint8_t *head, size_t head_bytes, char *out, size_t out_bytes)
{
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (!starts(head, head_bytes, others[i].at, others[i].magic, others[i].bytes))
            continue;
        snprintf(out, out_bytes, "%s", others[i].name);
        return 1;
    }
    size_t shown = head_bytes < 24 ? head_bytes : 24, printable = 0, zeros = 0;
    for (size_t i = 0; i < head_bytes; i++)
        zeros += head[i] == 0;
    for (size_t i = 0; i < shown; i++)
        printable += isprint(head[i]) || isspace(head[i]);
    if (zeros == head_bytes && head_bytes > 0) {
        snprintf(out, out_bytes, "zero bytes");
    } else if (printable == shown && shown > 0) {
        char text[25];
        for (size_t i = 0; i < shown; i++)
            text[i] = isprint(head[i]) && head[i] != '"' ? (char)head[i] : ' ';
        text[shown] = 0;
        snprintf(out, out_bytes, "text that begins \"%s\"", text);
    } else {
        int at = snprintf(out, out_bytes, "bytes");
        for (size_t i = 0; i < shown && i < 8 && at < (int)out_bytes; i++)
            at += snprintf(out + at, out_bytes - (size_t)at, " %02x", head[i]);
    }
    return 0;
}
