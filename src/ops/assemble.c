/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doc.assemble: the pages of a document, in order, as one Markdown file and one JSON file.
 *
 * Two passes over the list of pages by cursor: the first learns the document's body size, heading sizes and running
 * lines (layout_document.h), the second lays out and writes page by page. So memory beyond the outputs is one page and
 * a few words per page.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "ops/assemble_json.h"
#include "ops/layout_document.h"
#include "ops/markdown.h"
#include "ops/operators.h"
#include "ops/page_utf8.h"

enum { INPUT_INFO, INPUT_CONTENTS, INPUT_OCR, INPUT_PICTURES, INPUT_COUNT };
enum { OUTPUT_MARKDOWN, OUTPUT_JSON, OUTPUT_COUNT };
enum { OPTION_NEAR_DUPLICATES };
enum { NOTE_BYTES = 512 };

static const struct sheaf_port inputs[] = {
    {"info", SHEAF_RECORD, 0, "the document's metadata, from pdf.open"},
    {"contents", SHEAF_LIST_OF(SHEAF_RECORD, 1), 0, "its pages, from pdf.text"},
    {"ocr_contents", SHEAF_LIST_OF(SHEAF_RECORD, 1), 0, "those of its pages that were read as images, from image.ocr"},
    {"pictures", SHEAF_LIST_OF(SHEAF_BYTES, 1), SHEAF_PORT_OPTIONAL,
     "its page images, from image.encode: the JSON names those that are written"},
};
static const struct sheaf_port outputs[] = {
    {"markdown", SHEAF_BYTES, 0, "the document's text as Markdown"},
    {"json", SHEAF_BYTES, 0, "pages, blocks, boxes and metadata as JSON"},
};

static const struct sheaf_option options[] = {
    {.name = "near_duplicates",
     .type = SHEAF_OPTION_I64,
     .fallback = {.type = SHEAF_OPTION_I64, .i64 = 2},
     .min = 0,
     .max = 16,
     .summary = "pages read from pictures are marked that look like an earlier one: bits of 64 that both hashes may "
                "differ by; 0: not looked for"},
};

/* What a page looks like. */
struct page_look {
    uint32_t number;
    uint64_t look[2];
};

struct assemble_state {
    const struct sheaf_host *host;
    uint32_t near_duplicates;
    /* reused from row to row */
    struct page_content page, ocr;
    struct layout layout;
    struct buffer texts;
    size_t *ends;
    uint32_t end_capacity;
    uint8_t *margin;
    uint32_t margin_capacity;
    struct page_look *looks; /* of the document's pages, in order */
    uint32_t look_count, look_capacity;
};

/* One document on its way. */
struct assembly {
    struct assemble_state *state;
    const struct sheaf_host *host;
    const struct sheaf_row *row;
    struct layout_document document;
    struct markdown markdown;
    struct buffer markdown_out, json_out;
    struct assemble_error *errors; /* by page */
    size_t error_count, error_next;
    bool ocr_ready, any_page; /* state->ocr holds the next page that was read as an image */
};

static int assemble_open(const struct sheaf_open *open, void **ret_state)
{
    struct assemble_state *state = calloc(1, sizeof *state);
    if (!state) {
        snprintf(open->error, open->error_bytes, "doc.assemble: no memory");
        return -ENOMEM;
    }
    state->host = open->host;
    state->near_duplicates = (uint32_t)open->options[OPTION_NEAR_DUPLICATES].i64;
    page_content_init(&state->page);
    page_content_init(&state->ocr);
    *ret_state = state;
    return 0;
}

static void assemble_close(void *opaque)
{
    struct assemble_state *state = opaque;
    if (!state)
        return;
    page_content_fini(&state->page);
    page_content_fini(&state->ocr);
    layout_fini(&state->layout);
    buffer_fini(&state->texts);
    free(state->ends);
    free(state->margin);
    free(state->looks);
    free(state);
}

/* ---- memory for the outputs ---- */

static void *resize_output(void *cookie, void *data, size_t bytes)
{
    struct assembly *assembly = cookie;
    return data ? assembly->host->resize(assembly->row, data, bytes) : assembly->host->alloc(assembly->row, bytes);
}

/* ---- errors ---- */

static int by_page(const void *left, const void *right)
{
    const struct assemble_error *a = left, *b = right;
    if (a->page != b->page)
        return a->page < b->page ? -1 : 1;
    return (int)a->stage - (int)b->stage;
}

/* A copy that is UTF-8 whatever an operator wrote. */
static char *copy_message(const char *message)
{
    size_t bytes = message ? strlen(message) : 0, at = 0;
    char *copy = malloc(3 * bytes + 1);
    for (size_t i = 0; copy && i < bytes;) {
        uint32_t length;
        int valid = 1;
        uint32_t code = utf8_read(message + i, bytes - i, &length, &valid);
        at += utf8_write(copy + at, code < 0x20 ? ' ' : code);
        i += length;
    }
    if (copy)
        copy[at] = 0;
    return copy;
}

static int add_error(struct assembly *assembly, uint64_t page, enum assemble_stage stage, enum sheaf_class class_id,
                     const char *message)
{
    size_t count = assembly->error_count;
    if ((count & (count - 1)) == 0) { /* full at powers of two */
        struct assemble_error *grown = realloc(assembly->errors, (count ? 2 * count : 1) * sizeof *grown);
        if (!grown)
            return -ENOMEM;
        assembly->errors = grown;
    }
    char *copy = copy_message(message);
    if (!copy)
        return -ENOMEM;
    uint32_t number = page > UINT32_MAX ? UINT32_MAX : (uint32_t)page;
    assembly->errors[assembly->error_count++] =
        (struct assemble_error){number, stage, stage == ASSEMBLE_IMAGE, class_id, copy};
    return 0;
}

static int take_errors(struct assembly *assembly, struct sheaf_list *list, enum assemble_stage stage)
{
    struct sheaf_list_error error;
    int status;
    while ((status = assembly->host->list_error_next(list, &error)) == 1) {
        status = add_error(assembly, error.ordinal + 1, stage, error.class_id, error.message);
        if (status)
            break;
    }
    return status < 0 ? status : 0;
}

/* By page, and said once: what fails a page is also why it was not read from its image and why there is no image. */
static void sort_errors(struct assembly *assembly)
{
    struct assemble_error *errors = assembly->errors;
    size_t kept = 0, first = 0; /* of the page */
    if (assembly->error_count)
        qsort(errors, assembly->error_count, sizeof *errors, by_page);
    for (size_t i = 0; i < assembly->error_count; i++) {
        first = kept > 0 && errors[kept - 1].page == errors[i].page ? first : kept;
        size_t same = first;
        while (same < kept && strcmp(errors[same].message, errors[i].message) != 0)
            same++;
        if (same == kept) {
            errors[kept++] = errors[i];
            continue;
        }
        errors[same].no_image = errors[same].no_image || errors[i].no_image;
        free(errors[i].message);
    }
    assembly->error_count = kept;
}

static int take_all_errors(struct assembly *assembly)
{
    const struct sheaf_row *row = assembly->row;
    int status = take_errors(assembly, row->inputs[INPUT_CONTENTS].list, ASSEMBLE_PAGE);
    if (!status)
        status = take_errors(assembly, row->inputs[INPUT_OCR].list, ASSEMBLE_OCR);
    if (!status && row->input_count > INPUT_PICTURES && row->inputs[INPUT_PICTURES].kind != SHEAF_NONE)
        status = take_errors(assembly, row->inputs[INPUT_PICTURES].list, ASSEMBLE_IMAGE);
    if (!status)
        sort_errors(assembly);
    return status;
}

/* ---- reading pages ---- */

/* The next page of a list: 1; 0 at the end; negative when it fails, -EBADMSG for what is no page record. */
static int next_page(struct assembly *assembly, struct sheaf_list *list, struct page_content *content)
{
    struct sheaf_value value;
    int status = assembly->host->list_next(list, &value);
    if (status != 1)
        return status;
    status = page_record_decode(value.data, value.length_bytes, content);
    return status ? status : 1;
}

/* Brings what was read from an image to the page's own size. */
static void scale_content(struct page_content *content, float width, float height)
{
    float x = width / content->width, y = height / content->height;
    for (uint32_t i = 0; i < content->span_count; i++) {
        struct page_span *span = &content->spans[i];
        span->box = (struct page_box){span->box.x0 * x, span->box.y0 * y, span->box.x1 * x, span->box.y1 * y};
        span->font_size *= y;
    }
    for (uint32_t i = 0; i < content->line_count; i++) {
        struct page_line *line = &content->lines[i];
        line->box = (struct page_box){line->box.x0 * x, line->box.y0 * y, line->box.x1 * x, line->box.y1 * y};
        line->baseline *= line->flags & (PAGE_VERTICAL | (1u << PAGE_TURN_SHIFT)) ? x : y;
    }
    content->width = width;
    content->height = height;
}

/* What was read from the image stands for the page. Its `rotation` is by how much the image was turned to be read; then
 * the page is given as it reads. */
static void take_place(struct page_content *ocr, const struct page_content *page)
{
    bool turned = ocr->rotation % 180 != 0;
    float width = turned ? page->height : page->width, height = turned ? page->width : page->height;
    bool sized = ocr->width > 0 && ocr->height > 0 && width > 0 && height > 0;
    if (sized && (fabsf(ocr->width - width) > 0.05f || fabsf(ocr->height - height) > 0.05f))
        scale_content(ocr, width, height);
    ocr->rotation = (ocr->rotation + page->rotation) % 360;
    ocr->fonts_substituted = page->fonts_substituted;
    ocr->unmapped = page->unmapped;
    if (!ocr->image_path[0])
        memcpy(ocr->image_path, page->image_path, sizeof ocr->image_path);
}

/* The page as it goes into the document: its own text, or what was read from its image. */
static int select_page(struct assembly *assembly, struct page_content **ret_content)
{
    struct assemble_state *state = assembly->state;
    struct sheaf_list *list = assembly->row->inputs[INPUT_OCR].list;
    while (!assembly->ocr_ready || state->ocr.number < state->page.number) {
        int status = next_page(assembly, list, &state->ocr);
        if (status < 0)
            return status;
        assembly->ocr_ready = true;
        if (status == 0)
            state->ocr.number = UINT32_MAX;
    }
    *ret_content = &state->page;
    if (state->ocr.number != state->page.number)
        return 0;
    if (page_content_blank(&state->ocr)) {
        state->page.has_look = state->ocr.has_look;
        memcpy(state->page.look, state->ocr.look, sizeof state->page.look);
        return 0;
    }
    take_place(&state->ocr, &state->page);
    *ret_content = &state->ocr;
    return 0;
}

static void rewind_pages(struct assembly *assembly)
{
    assembly->host->list_rewind(assembly->row->inputs[INPUT_CONTENTS].list);
    assembly->host->list_rewind(assembly->row->inputs[INPUT_OCR].list);
    assembly->ocr_ready = false;
}

/* ---- pages that look alike ---- */

static int look_note(struct assemble_state *state, const struct page_content *content)
{
    if (!content->has_look || state->near_duplicates == 0)
        return 0;
    if (state->look_count == state->look_capacity) {
        uint32_t capacity = state->look_capacity ? 2 * state->look_capacity : 64;
        struct page_look *looks = realloc(state->looks, capacity * sizeof *looks);
        if (!looks)
            return -ENOMEM;
        state->looks = looks;
        state->look_capacity = capacity;
    }
    state->looks[state->look_count++] = (struct page_look){content->number, {content->look[0], content->look[1]}};
    return 0;
}

/* The first page before this one that looks like it; 0: none. */
static uint32_t near_duplicate_of(const struct assemble_state *state, const struct page_content *content)
{
    for (uint32_t i = 0; i < state->look_count && content->has_look; i++) {
        const struct page_look *other = &state->looks[i];
        if (other->number >= content->number)
            return 0;
        if (sheaf_hash_distance(other->look[0], content->look[0]) <= state->near_duplicates &&
            sheaf_hash_distance(other->look[1], content->look[1]) <= state->near_duplicates)
            return other->number;
    }
    return 0;
}

/* ---- first pass ---- */

static int first_pass(struct assembly *assembly)
{
    struct page_content *content;
    int status;
    rewind_pages(assembly);
    assembly->state->look_count = 0;
    while ((status = next_page(assembly, assembly->row->inputs[INPUT_CONTENTS].list, &assembly->state->page)) == 1) {
        status = select_page(assembly, &content);
        if (!status)
            status = look_note(assembly->state, content);
        if (!status)
            status = layout_document_note(&assembly->document, content);
        if (status)
            return status;
    }
    if (status)
        return status;
    layout_document_finish(&assembly->document);
    return 0;
}

/* ---- writing pages ---- */

static int make_room(struct assemble_state *state, const struct page_content *content)
{
    if (content->line_count > state->margin_capacity) {
        uint8_t *margin = realloc(state->margin, content->line_count);
        if (!margin)
            return -ENOMEM;
        state->margin = margin;
        state->margin_capacity = content->line_count;
    }
    if (content->line_count > state->end_capacity) { /* a block has at least one line */
        size_t *ends = realloc(state->ends, content->line_count * sizeof *ends);
        if (!ends)
            return -ENOMEM;
        state->ends = ends;
        state->end_capacity = content->line_count;
    }
    return 0;
}

static bool is_flowing(const struct layout_block *block)
{
    return block->kind != LAYOUT_HEADER && block->kind != LAYOUT_FOOTER && block->kind != LAYOUT_FOOTNOTE &&
           block->kind != LAYOUT_CAPTION && block->kind != LAYOUT_ASIDE;
}

/* Writes the blocks as Markdown; the first of the page may go on with the last sentence of the page before. */
static void write_markdown(struct assembly *assembly, struct layout *layout)
{
    const struct assemble_state *state = assembly->state;
    size_t from = 0;
    bool first = true;
    for (uint32_t i = 0; i < layout->block_count; i++) {
        struct layout_block *block = &layout->blocks[i];
        const char *text = state->texts.data + from;
        size_t bytes = state->ends[i] - from;
        if (first && is_flowing(block)) {
            if (block->kind == LAYOUT_PARAGRAPH)
                block->continues = (uint32_t)markdown_continues(&assembly->markdown, block->size, text, bytes);
            first = false;
        }
        markdown_block(&assembly->markdown, block, (int)block->continues, text, bytes);
        from = state->ends[i];
    }
}

/* The errors that are next are those of this page. */
static bool has_image(const struct assembly *assembly, uint32_t page)
{
    for (size_t i = assembly->error_next; i < assembly->error_count && assembly->errors[i].page <= page; i++) {
        if (assembly->errors[i].page == page && assembly->errors[i].no_image)
            return false;
    }
    return true;
}

static int write_page(struct assembly *assembly, struct page_content *content)
{
    struct assemble_state *state = assembly->state;
    int status = make_room(state, content);
    if (status)
        return status;
    layout_document_margins(&assembly->document, content, state->margin);
    status = layout_page(&state->layout, content, &assembly->document.style, state->margin);
    if (status)
        return status;
    state->texts.length = 0;
    for (uint32_t i = 0; i < state->layout.block_count; i++) {
        layout_block_text(&state->layout, content, &state->layout.blocks[i], &state->texts);
        state->ends[i] = state->texts.length;
    }
    if (state->texts.failed) {
        state->texts.failed = false;
        return -ENOMEM;
    }
    if (!has_image(assembly, content->number))
        content->image_path[0] = 0;
    write_markdown(assembly, &state->layout);
    assemble_json_page(&assembly->json_out, !assembly->any_page, content, near_duplicate_of(state, content),
                       &state->layout, &state->texts, state->ends);
    assembly->any_page = true;
    return 0;
}

/* Errors of pages up to and with `page` are said where the pages would stand. */
static void write_errors(struct assembly *assembly, uint32_t page)
{
    for (; assembly->error_next < assembly->error_count; assembly->error_next++) {
        const struct assemble_error *error = &assembly->errors[assembly->error_next];
        if (error->page > page)
            return;
        if (error->stage == ASSEMBLE_IMAGE)
            continue;
        char note[NOTE_BYTES];
        int length = snprintf(note, sizeof note, "Page %u could not be read%s: %.400s (%s)", error->page,
                              error->stage == ASSEMBLE_OCR ? " from its image" : "", error->message,
                              assemble_class_name(error->class_id));
        markdown_note(&assembly->markdown, note, length < NOTE_BYTES ? (size_t)length : NOTE_BYTES - 1);
        if (error->stage == ASSEMBLE_PAGE) {
            assemble_json_failed_page(&assembly->json_out, !assembly->any_page, error);
            assembly->any_page = true;
        }
    }
}

static int second_pass(struct assembly *assembly)
{
    struct page_content *content;
    int status;
    rewind_pages(assembly);
    while ((status = next_page(assembly, assembly->row->inputs[INPUT_CONTENTS].list, &assembly->state->page)) == 1) {
        if (assembly->state->page.number > 0)
            write_errors(assembly, assembly->state->page.number - 1);
        status = select_page(assembly, &content);
        if (!status)
            status = write_page(assembly, content);
        if (!status && (assembly->json_out.failed || assembly->markdown_out.failed))
            status = -ENOBUFS;
        if (!status && assembly->host->cancelled(assembly->row))
            status = -ECANCELED;
        if (status)
            return status;
        write_errors(assembly, assembly->state->page.number);
    }
    if (!status)
        write_errors(assembly, UINT32_MAX);
    return status;
}

static int assemble(struct assembly *assembly)
{
    const struct sheaf_value *in = assembly->row->inputs;
    uint64_t page_count;
    int status = take_all_errors(assembly);
    if (status)
        return status;
    status = assemble_json_begin(&assembly->json_out, in[INPUT_INFO].data, in[INPUT_INFO].length_bytes,
                                 assembly->errors, assembly->error_count, &page_count);
    if (!status)
        status = first_pass(assembly);
    if (!status)
        status = second_pass(assembly);
    assemble_json_end(&assembly->json_out);
    markdown_finish(&assembly->markdown);
    if (!status && (assembly->json_out.failed || assembly->markdown_out.failed))
        status = -ENOBUFS;
    return status;
}

static int answer(struct assembly *assembly)
{
    struct sheaf_value values[OUTPUT_COUNT] = {
        {.kind = SHEAF_BYTES,
         .data = assembly->markdown_out.data ? assembly->markdown_out.data : "",
         .length_bytes = assembly->markdown_out.length,
         .name = "text/markdown"},
        {.kind = SHEAF_BYTES,
         .data = assembly->json_out.data,
         .length_bytes = assembly->json_out.length,
         .name = "application/json"},
    };
    return assembly->host->answer(assembly->row, values, OUTPUT_COUNT);
}

static int fail(struct assembly *assembly, int status)
{
    const struct sheaf_host *host = assembly->host;
    const struct sheaf_row *row = assembly->row;
    switch (status) {
    case -ENOBUFS:
        return host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_RESOURCE_EXHAUSTED,
                          "doc.assemble: no shared memory for the document's text; try a larger memory budget");
    case -EBADMSG:
        return host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_CONTRACT,
                          "doc.assemble: an input is no page record; feed it from pdf.open, pdf.text and image.ocr");
    case -ECANCELED:
        return host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_CANCELLED, "doc.assemble: cancelled");
    case -ENOMEM:
        return host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_OOM, "doc.assemble: no memory");
    default:
        return host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_OPERATOR, "doc.assemble: %s", strerror(-status));
    }
}

static int assemble_run(void *opaque, const struct sheaf_row *row, char *message)
{
    struct assemble_state *state = opaque;
    struct assembly assembly = {.state = state, .host = state->host, .row = row};
    (void)message;
    assembly.markdown_out = (struct buffer){.resize = resize_output, .cookie = &assembly};
    assembly.json_out = (struct buffer){.resize = resize_output, .cookie = &assembly};
    markdown_init(&assembly.markdown, &assembly.markdown_out);
    int status = assemble(&assembly);
    layout_document_fini(&assembly.document);
    for (size_t i = 0; i < assembly.error_count; i++)
        free(assembly.errors[i].message);
    free(assembly.errors);
    return status ? fail(&assembly, status) : answer(&assembly);
}

/* Text grows little from record to Markdown, and stands twice in the JSON beside its boxes. */
static uint64_t assemble_estimate(const struct sheaf_option_value *given, const struct sheaf_value *values,
                                  uint32_t count)
{
    uint64_t pages = count > INPUT_CONTENTS ? values[INPUT_CONTENTS].length_bytes : 0;
    return (64 << 10) + pages * (16 << 10);
}

const struct sheaf_operator operator_doc_assemble = {
    .size = sizeof(struct sheaf_operator),
    .name = "doc.assemble",
    .version = "2",
    .summary = "pages in order to one Markdown and one JSON document",
    .inputs = inputs,
    .outputs = outputs,
    .options = options,
    .input_count = INPUT_COUNT,
    .output_count = OUTPUT_COUNT,
    .option_count = sizeof options / sizeof options[0],
    .widest_failure = SHEAF_SCOPE_ITEM,
    .open = assemble_open,
    .close = assemble_close,
    .run = assemble_run,
    .estimate = assemble_estimate,
};
