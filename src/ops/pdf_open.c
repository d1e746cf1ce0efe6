/* SPDX-License-Identifier: Apache-2.0 */
/* pdf.open: a file becomes its pages. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/document_info.h"
#include "ops/operators.h"
#include "ops/page_operator.h"

static const struct sheaf_port inputs[] = {
    {"file", SHEAF_FILE, 0, "a PDF, or a JPEG, PNG, TIFF or WebP image; told by its bytes, not its name"},
};
static const struct sheaf_port outputs[] = {
    {"pages", SHEAF_I64, SHEAF_PORT_GROUP, "page indices, from 0; every directory of a TIFF is a page"},
    {"info", SHEAF_RECORD, 0, "format, version, page count, encryption and metadata"},
};
static const struct sheaf_option options[] = {PAGE_OPTIONS};

static int open_open(const struct sheaf_open *open, void **ret_state)
{
    struct page_operator *common = malloc(sizeof *common);
    if (!common)
        return -ENOMEM;
    int status = page_operator_open(open, common);
    if (status < 0) {
        free(common);
        return status;
    }
    *ret_state = common;
    return 0;
}

static void open_close(void *state)
{
    page_operator_close(state);
    free(state);
}

struct emission {
    const struct sheaf_host *host;
    const struct sheaf_row *row;
    int status; /* of the host's emit */
};

static int page_emit(void *cookie, uint32_t page)
{
    struct emission *emission = cookie;
    struct sheaf_value index = {.kind = SHEAF_I64, .i64 = page};
    if (emission->host->cancelled(emission->row))
        return -ECANCELED;
    emission->status = emission->host->emit(emission->row, &index, 1);
    return emission->status;
}

static int image_emit(struct emission *emission, struct document *document, struct document_failure *failure)
{
    struct image_source source = page_image_source(document, 0);
    struct image_facts facts;
    int status = image_facts_read(&source, &facts, failure);
    if (status < 0)
        return status;
    status = image_pages(&source, page_emit, emission, failure);
    if (status > 0)
        document->page_count = status;
    return status < 0 ? status : 0;
}

static int pages_emit(struct emission *emission, struct document *document, struct document_failure *failure)
{
    if (document->format != DOCUMENT_PDF)
        return image_emit(emission, document, failure);
    int status = 0;
    if (document->page_count == 0)
        return image_refuse(failure, SHEAF_CLASS_EMPTY, "the PDF has no pages");
    for (int page = 0; status == 0 && page < document->page_count; page++)
        status = page_emit(emission, (uint32_t)page);
    return status;
}

static int open_run(void *state, const struct sheaf_row *row, char *message)
{
    const struct page_operator *common = state;
    struct document *document;
    struct document_failure failure = {0};
    struct sheaf_value values[2] = {{.kind = SHEAF_NONE}, {.kind = SHEAF_RECORD}};
    struct emission emission = {common->host, row, 0};
    void *info;
    size_t info_bytes;
    if (page_operator_document(common, row, &row->inputs[0], row->key, &document, &failure) < 0)
        return page_operator_fail(common, row, &failure);
    int status = pages_emit(&emission, document, &failure);
    if (status == 0)
        status = document_info_encode(document, &info, &info_bytes);
    document_release(document);
    if (status < 0) {
        document_evict(row->key); /* a row that does not answer keeps nothing */
        if (failure.class_id)
            return page_operator_fail(common, row, &failure);
        snprintf(message, 512, "pages could not be handed on: %s", strerror(-status));
        return status;
    }
    values[1].data = info;
    values[1].length_bytes = info_bytes;
    status = common->host->answer(row, values, 2);
    free(info);
    return status;
}

static void open_evict(void *state, uint64_t key)
{
    document_evict(key);
}

static uint64_t open_estimate(const struct sheaf_option_value *values, const struct sheaf_value *row, uint32_t count)
{
    return 4096;
}

const struct sheaf_operator operator_pdf_open = {
    .size = sizeof(struct sheaf_operator),
    .flags = SHEAF_OPERATOR_STATE_OF_ROW,
    .name = "pdf.open",
    .version = "1",
    .summary = "opens a PDF or an image and hands out its pages",
    .inputs = inputs,
    .outputs = outputs,
    .options = options,
    .input_count = 1,
    .output_count = 2,
    .option_count = sizeof options / sizeof options[0],
    .widest_failure = SHEAF_SCOPE_ITEM,
    .timeout_ms = 60000,
    .open = open_open,
    .close = open_close,
    .run = open_run,
    .evict = open_evict,
    .estimate = open_estimate,
};
