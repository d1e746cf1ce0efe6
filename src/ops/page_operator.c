/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/page_operator.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int page_operator_open(const struct sheaf_open *open, struct page_operator *common)
{
    *common = (struct page_operator){.host = open->host};
    int status = pdfium_load(NULL, open->error, open->error_bytes, &common->pdfium);
    if (status < 0)
        return status;
    const struct sheaf_option_value *passwords = &open->options[PAGE_OPTION_PASSWORDS];
    fonts_install(common->pdfium, open->options[PAGE_OPTION_FONTS].text);
    if (passwords->count == 0)
        return 0;
    common->passwords = calloc(passwords->count, sizeof *common->passwords);
    for (uint32_t i = 0; common->passwords && i < passwords->count; i++) {
        common->passwords[i] = strdup(passwords->texts[i]);
        if (!common->passwords[i])
            break;
        common->password_count = i + 1;
    }
    if (common->password_count == passwords->count)
        return 0;
    page_operator_close(common);
    snprintf(open->error, open->error_bytes, "pdf: no memory for %u passwords", passwords->count);
    return -ENOMEM;
}

void page_operator_close(struct page_operator *common)
{
    for (uint32_t i = 0; i < common->password_count; i++)
        free(common->passwords[i]);
    free(common->passwords);
    common->passwords = NULL;
    common->password_count = 0;
}

int page_operator_document(const struct page_operator *common, const struct sheaf_row *row,
                           const struct sheaf_value *file, uint64_t key, struct document **ret_document,
                           struct document_failure *failure)
{
    struct document_request request = {.host = common->host,
                                       .row = row,
                                       .pdfium = common->pdfium,
                                       .file = file,
                                       .key = key,
                                       .passwords = (const char *const *)common->passwords,
                                       .password_count = common->password_count};
    return document_acquire(&request, ret_document, failure);
}

/* The file's own name: the folders are in the ledger already. */
static const char *file_name(const struct sheaf_row *row)
{
    for (uint32_t i = 0; i < row->input_count; i++) {
        const char *name = row->inputs[i].kind == SHEAF_FILE ? row->inputs[i].name : NULL;
        const char *slash = name ? strrchr(name, '/') : NULL;
        if (name && *name)
            return slash ? slash + 1 : name;
    }
    return "the document";
}

int page_operator_fail(const struct page_operator *common, const struct sheaf_row *row,
                       const struct document_failure *failure)
{
    return common->host->fail(row, SHEAF_SCOPE_ITEM, failure->class_id, "%s: %s", file_name(row), failure->message);
}
