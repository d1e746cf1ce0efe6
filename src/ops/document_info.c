/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/document_info.h"

#include <ctype.h>
#include <errno.h>
#include <msgpack.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { META_BYTES_MAX = 64 * 1024 };

/* UTF-16LE to UTF-8, control characters to spaces, unpaired surrogates to U+FFFD, white space at the ends removed.
 * `out` has room for 3 bytes a unit and a NUL. */
static size_t utf8_from_utf16(const uint8_t *data, size_t units, char *out)
{
    size_t at = 0;
    for (size_t i = 0; i < units; i++) {
        uint32_t code = (uint32_t)data[2 * i] | (uint32_t)data[2 * i + 1] << 8;
        if (code >= 0xD800 && code < 0xDC00 && i + 1 < units && (data[2 * i + 3] & 0xFC) == 0xDC) {
            uint32_t low = (uint32_t)data[2 * i + 2] | (uint32_t)data[2 * i + 3] << 8;
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
            i++;
        } else if (code >= 0xD800 && code < 0xE000) {
            code = 0xFFFD;
        }
        if (code == 0)
            break;
        if (code < 0x20 || code == 0x7F)
            code = ' ';
        if (code < 0x80) {
            if (code != ' ' || at > 0)
                out[at++] = (char)code;
        } else if (code < 0x800) {
            out[at++] = (char)(0xC0 | code >> 6);
            out[at++] = (char)(0x80 | (code & 0x3F));
        } else if (code < 0x10000) {
            out[at++] = (char)(0xE0 | code >> 12);
            out[at++] = (char)(0x80 | (code >> 6 & 0x3F));
            out[at++] = (char)(0x80 | (code & 0x3F));
        } else {
            out[at++] = (char)(0xF0 | code >> 18);
            out[at++] = (char)(0x80 | (code >> 12 & 0x3F));
            out[at++] = (char)(0x80 | (code >> 6 & 0x3F));
            out[at++] = (char)(0x80 | (code & 0x3F));
        }
    }
    while (at > 0 && out[at - 1] == ' ')
        at--;
    out[at] = 0;
    return at;
}

/* One metadata entry as UTF-8, or NULL when absent, empty or without memory. */
static char *meta_text(const struct document *document, const char *tag)
{
    unsigned long bytes = document->pdfium->FPDF_GetMetaText(document->pdf, tag, NULL, 0);
    if (bytes <= 2 || bytes > META_BYTES_MAX)
        return NULL;
    uint8_t *wide = calloc(1, bytes + 2);
    char *text = malloc(bytes / 2 * 3 + 1);
    if (!wide || !text) {
        free(wide);
        free(text);
        return NULL;
    }
    document->pdfium->FPDF_GetMetaText(document->pdf, tag, wide, bytes);
    size_t length = utf8_from_utf16(wide, bytes / 2, text);
    free(wide);
    if (length > 0)
        return text;
    free(text);
    return NULL;
}

static int digits(const char **at, int count, int *ret_value)
{
    int value = 0;
    for (int i = 0; i < count; i++) {
        if (!isdigit((unsigned char)(*at)[i]))
            return 0;
        value = value * 10 + ((*at)[i] - '0');
    }
    *at += count;
    *ret_value = value;
    return 1;
}

void document_date(const char *pdf_date, char *out, size_t out_bytes)
{
    int year, part[5] = {1, 1, 0, 0, 0}, zone_hours = 0, zone_minutes = 0, given = 0;
    const char *at = strncmp(pdf_date, "D:", 2) == 0 ? pdf_date + 2 : pdf_date;
    if (!digits(&at, 4, &year) || (*at && !isdigit((unsigned char)*at) && !strchr("Zz+-", *at))) {
        snprintf(out, out_bytes, "%s", pdf_date);
        return;
    }
    while (given < 5 && digits(&at, 2, &part[given]))
        given++;
    int used = snprintf(out, out_bytes, "%04d-%02d-%02d", year, part[0], part[1]);
    if (given < 3)
        return;
    used += snprintf(out + used, out_bytes - (size_t)used, "T%02d:%02d:%02d", part[2], part[3], part[4]);
    char sign = *at;
    if (sign == 'Z' || sign == 'z') {
        snprintf(out + used, out_bytes - (size_t)used, "Z");
    } else if (sign == '+' || sign == '-') {
        at++;
        if (digits(&at, 2, &zone_hours)) {
            at += *at == '\'';
            (void)digits(&at, 2, &zone_minutes);
            snprintf(out + used, out_bytes - (size_t)used, "%c%02d:%02d", sign, zone_hours, zone_minutes);
        }
    }
}

static void pack_text(msgpack_packer *packer, const char *key, const char *text)
{
    msgpack_pack_str_with_body(packer, key, strlen(key));
    msgpack_pack_str_with_body(packer, text, strlen(text));
}

static const struct {
    const char *key, *tag;
    int is_date;
} entries[] = {
    {"title", "Title", 0},     {"author", "Author", 0},     {"subject", "Subject", 0},      {"keywords", "Keywords", 0},
    {"creator", "Creator", 0}, {"producer", "Producer", 0}, {"created", "CreationDate", 1}, {"modified", "ModDate", 1},
};
enum { ENTRY_COUNT = sizeof entries / sizeof entries[0] };

static void pack_all(msgpack_packer *packer, const struct document *document, char *texts[], size_t text_count)
{
    int version = 0;
    int has_version = document->pdf && document->pdfium->FPDF_GetFileVersion(document->pdf, &version);
    msgpack_pack_map(packer, 3 + (has_version != 0) + text_count);
    pack_text(packer, "format", document_format_name(document->format));
    if (has_version) {
        char shown[16];
        snprintf(shown, sizeof shown, "%d.%d", version / 10, version % 10);
        pack_text(packer, "version", shown);
    }
    msgpack_pack_str_with_body(packer, "pages", 5);
    msgpack_pack_uint32(packer, document->page_count > 0 ? (uint32_t)document->page_count : 0);
    msgpack_pack_str_with_body(packer, "encrypted", 9);
    if (document->encrypted)
        msgpack_pack_true(packer);
    else
        msgpack_pack_false(packer);
    for (size_t i = 0; i < ENTRY_COUNT; i++) {
        char date[64];
        if (!texts[i])
            continue;
        if (entries[i].is_date)
            document_date(texts[i], date, sizeof date);
        pack_text(packer, entries[i].key, entries[i].is_date ? date : texts[i]);
    }
}

int document_info_encode(const struct document *document, void **ret_data, size_t *ret_bytes)
{
    char *texts[ENTRY_COUNT] = {0};
    size_t text_count = 0;
    for (size_t i = 0; document->pdf && i < ENTRY_COUNT; i++) {
        texts[i] = meta_text(document, entries[i].tag);
        text_count += texts[i] != NULL;
    }
    msgpack_sbuffer buffer;
    msgpack_packer packer;
    msgpack_sbuffer_init(&buffer);
    msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
    pack_all(&packer, document, texts, text_count);
    for (size_t i = 0; i < ENTRY_COUNT; i++)
        free(texts[i]);
    if (!buffer.data)
        return -ENOMEM;
    *ret_data = buffer.data;
    *ret_bytes = buffer.size;
    return 0;
}
