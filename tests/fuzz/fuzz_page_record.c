/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: any bytes as a page record; what decodes is encoded, laid out and written. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "ops/assemble_json.h"
#include "ops/layout_document.h"
#include "ops/markdown.h"
#include "ops/page_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void write_out(const struct page_content *content, struct layout *layout)
{
    struct buffer texts = {0}, out = {0}, json = {0};
    struct markdown markdown;
    size_t *ends = calloc(layout->block_count + 1, sizeof *ends), from = 0;
    markdown_init(&markdown, &out);
    for (uint32_t i = 0; i < layout->block_count; i++) {
        layout_block_text(layout, content, &layout->blocks[i], &texts);
        ends[i] = texts.length;
        if (ends[i] > from)
            markdown_block(&markdown, &layout->blocks[i], (int)layout->blocks[i].continues, texts.data + from,
                           ends[i] - from);
        from = ends[i];
    }
    assemble_json_page(&json, true, content, content->has_look, layout, &texts, ends);
    markdown_finish(&markdown);
    free(ends);
    buffer_fini(&texts);
    buffer_fini(&out);
    buffer_fini(&json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct page_content content = {0};
    struct layout layout = {0};
    struct layout_document document = {0};
    if (page_record_decode(data, size, &content) == 0) {
        size_t bound = page_record_bound(&content), bytes;
        void *again = malloc(bound);
        assert(page_record_encode(&content, again, bound, &bytes) == 0);
        uint8_t *margin = calloc(content.line_count + 1, 1);
        if (layout_document_note(&document, &content) == 0) {
            layout_document_finish(&document);
            layout_document_margins(&document, &content, margin);
            if (layout_page(&layout, &content, &document.style, margin) == 0)
                write_out(&content, &layout);
        }
        free(margin);
        free(again);
    }
    layout_document_fini(&document);
    layout_fini(&layout);
    page_content_fini(&content);
    return 0;
}
