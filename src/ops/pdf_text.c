/* SPDX-License-Identifier: Apache-2.0 */
/* pdf.text: the text layer of one page, and whether the page must be read as an image instead. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sheaf/output.h>

#include "ops/operators.h"
#include "ops/page_marks.h"
#include "ops/page_operator.h"
#include "ops/page_text.h"
#include "ops/page_utf8.h"

enum { OPTION_OCR = PAGE_OPTION_OWN, OPTION_IMAGES };
enum ocr_choice { OCR_AUTO, OCR_NEVER, OCR_ALWAYS };

static const struct sheaf_port inputs[] = {
    {"page", SHEAF_I64, 0, "page index"},
    {"document", SHEAF_FILE, 0, "the document the page is in"},
};
static const struct sheaf_port outputs[] = {
    {"content", SHEAF_RECORD, 0, "size, rotation and text of the page, with boxes"},
    {"needs_ocr", SHEAF_BOOL, 0, "the page shows something and has no usable text"},
    {"wants_image", SHEAF_BOOL, 0, "an image of the page is wanted"},
};
static const struct sheaf_option options[] = {
    PAGE_OPTIONS,
    {.name = "ocr",
     .type = SHEAF_OPTION_TEXT,
     .fallback = {.type = SHEAF_OPTION_TEXT, .text = "auto"},
     .choices = "auto|never|always",
     .summary = "which pages are read as images: those without text, none, or all"},
    {.name = "images",
     .type = SHEAF_OPTION_TEXT,
     .fallback = {.type = SHEAF_OPTION_TEXT, .text = "none"},
     .choices = "none|jpeg|png",
     .summary = "whether page images are written, and as what"},
};

struct text_state {
    struct page_operator common;
    enum ocr_choice ocr;
    const char *image_suffix;    /* "jpg" or "png"; NULL: no page images */
    struct page_content content; /* reused from page to page */
};

static int text_open(const struct sheaf_open *open, void **ret_state)
{
    struct text_state *state = calloc(1, sizeof *state);
    if (!state)
        return -ENOMEM;
    int status = page_operator_open(open, &state->common);
    if (status < 0) {
        free(state);
        return status;
    }
    const char *ocr = open->options[OPTION_OCR].text;
    state->ocr = strcmp(ocr, "never") == 0 ? OCR_NEVER : strcmp(ocr, "always") == 0 ? OCR_ALWAYS : OCR_AUTO;
    const char *images = open->options[OPTION_IMAGES].text;
    state->image_suffix = strcmp(images, "jpeg") == 0 ? "jpg" : strcmp(images, "png") == 0 ? "png" : NULL;
    page_content_init(&state->content);
    *ret_state = state;
    return 0;
}

static void text_close(void *opaque)
{
    struct text_state *state = opaque;
    page_content_fini(&state->content);
    page_operator_close(&state->common);
    free(state);
}

/* ---- is there something to read that is not in the text layer? ---- */

/* Characters a reader would see, counted up to `enough`. */
static uint32_t letters_count(const struct page_content *content, uint32_t enough)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < content->text_bytes && count < enough; i++) {
        unsigned char byte = (unsigned char)content->text[i];
        count += byte > ' ' && byte != 0x7F && (byte & 0xC0) != 0x80;
    }
    return count;
}

/*
 * A page is read as an image when it shows something and has (nearly) no text: nothing at all beside an image or a
 * drawing of some size (text drawn as outlines), a stamp or page number on what is mostly an image, or text whose
 * characters mostly have no meaning. Blank pages, and pages with a ruled line only, are not.
 */
static int page_needs_ocr(const struct pdfium *pdfium, FPDF_PAGE page, const struct page_content *content)
{
    enum { NEARLY_NONE = 24, ENOUGH = 200, DRAWING_PATHS = 40 };
    uint32_t letters = letters_count(content, ENOUGH);
    if (content->unmapped > 50 && letters < ENOUGH && content->unmapped > 2 * letters)
        return 1;
    if (letters > NEARLY_NONE)
        return 0;
    struct page_marks marks = page_marks_count(pdfium, page);
    double area = (double)content->width * content->height;
    if (letters > 0)
        return marks.image_area > area * 0.5;
    return marks.image_area > area * 0.01 || marks.paths >= DRAWING_PATHS;
}

/* ---- the row ---- */

static int image_content(struct text_state *state, const struct document *document, int64_t page,
                         struct document_failure *failure)
{
    struct image_source source = page_image_source(document, page);
    struct image_facts facts;
    struct image_plan plan;
    int status = image_facts_read(&source, &facts, failure);
    if (status < 0)
        return status;
    image_plan_make(&facts, 0, &plan);
    page_content_clear(&state->content);
    state->content.number = (uint32_t)page + 1;
    state->content.width = (float)(plan.width * 72.0 / plan.dpi);
    state->content.height = (float)(plan.height * 72.0 / plan.dpi);
    return 0;
}

static int pdf_content(struct text_state *state, struct document *document, int64_t index, int *ret_needs_ocr,
                       struct document_failure *failure)
{
    const struct pdfium *pdfium = state->common.pdfium;
    FPDF_PAGE page;
    int status = document_page(document, index, &page, failure);
    if (status < 0)
        return status;
    FPDF_TEXTPAGE text = pdfium->FPDFText_LoadPage(page);
    status = page_text_extract(pdfium, page, text, (uint32_t)index + 1, &state->content);
    if (text)
        pdfium->FPDFText_ClosePage(text);
    if (status < 0)
        return image_refuse(failure, SHEAF_CLASS_RESOURCE_EXHAUSTED, "no memory for the text of page %lld",
                            (long long)index + 1);
    *ret_needs_ocr = state->ocr == OCR_AUTO && page_needs_ocr(pdfium, page, &state->content);
    return 0;
}

static void fonts_report(const struct text_state *state, const struct sheaf_row *row, struct document *document)
{
    for (uint32_t i = 0; document->fonts.missing > 0 && i < document->fonts.count && i < FONT_LOG_ENTRIES; i++) {
        const struct font_substitution *entry = &document->fonts.entries[i];
        if (entry->file[0] == 0)
            state->common.host->log(row, 2,
                                    "no %s font for '%s': its text may not be visible in page images; try "
                                    "apt install fonts-noto-core fonts-noto-cjk",
                                    font_charset_name(entry->charset), entry->asked);
    }
    document->fonts.missing = 0;
}

/*
 * Where the page's image is going to be, as seen from the document's own files: by the pattern of the documents
 * pipeline, "{name}.pages/{2:05}.jpg", where {name} ends in what the output tree makes of the file's own name. That
 * depends on the folder, which is not known here, for the few names that are the tree's own at its top: they are left
 * out.
 */
static void image_path_set(struct text_state *state, const struct sheaf_value *file)
{
    enum { TREE_NAME_BYTES_MAX = 200 };
    static const char folder[] = "x/";
    char below[sizeof folder + NAME_MAX], at_top[NAME_MAX + 1], inside[NAME_MAX + sizeof folder];
    const char *slash = file->name ? strrchr(file->name, '/') : NULL, *name = slash ? slash + 1 : file->name;
    if (!state->image_suffix || !name || strlen(name) > NAME_MAX)
        return;
    snprintf(below, sizeof below, "%s%s", folder, name);
    if (sheaf_tree_name(name, at_top, sizeof at_top) < 0 || sheaf_tree_name(below, inside, sizeof inside) < 0 ||
        strcmp(at_top, inside + strlen(folder)) != 0)
        return;
    snprintf(state->content.image_path, sizeof state->content.image_path, "%.*s.pages/%05u.%s", TREE_NAME_BYTES_MAX,
             at_top, state->content.number, state->image_suffix);
}

static int text_answer(struct text_state *state, const struct sheaf_row *row, int needs_ocr)
{
    const struct sheaf_host *host = state->common.host;
    size_t bytes = page_record_bound(&state->content);
    void *record = host->alloc(row, bytes);
    if (!record)
        return host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_RESOURCE_EXHAUSTED, "no memory for %zu bytes of text",
                          bytes);
    int status = page_record_encode(&state->content, record, bytes, &bytes);
    if (status < 0)
        return status;
    struct sheaf_value values[3] = {
        {.kind = SHEAF_RECORD, .data = record, .length_bytes = bytes},
        {.kind = SHEAF_BOOL, .boolean = needs_ocr != 0},
        {.kind = SHEAF_BOOL, .boolean = state->image_suffix != NULL},
    };
    return host->answer(row, values, 3);
}

static int text_run(void *opaque, const struct sheaf_row *row, char *message)
{
    struct text_state *state = opaque;
    struct document *document;
    struct document_failure failure = {0};
    int64_t page = row->inputs[0].i64;
    int needs_ocr = 1;
    int status = page_operator_document(&state->common, row, &row->inputs[1], row->parent_key, &document, &failure);
    if (status < 0)
        return page_operator_fail(&state->common, row, &failure);
    if (document->format == DOCUMENT_PDF)
        status = pdf_content(state, document, page, &needs_ocr, &failure);
    else
        status = image_content(state, document, page, &failure);
    fonts_report(state, row, document);
    document_release(document);
    if (status < 0)
        return page_operator_fail(&state->common, row, &failure);
    image_path_set(state, &row->inputs[1]);
    if (state->ocr != OCR_AUTO)
        needs_ocr = state->ocr == OCR_ALWAYS;
    return text_answer(state, row, needs_ocr);
}

static void text_evict(void *state, uint64_t key)
{
    document_evict(key);
}

static uint64_t text_estimate(const struct sheaf_option_value *values, const struct sheaf_value *row, uint32_t count)
{
    return 64 * 1024;
}

const struct sheaf_operator operator_pdf_text = {
    .size = sizeof(struct sheaf_operator),
    .flags = SHEAF_OPERATOR_STATE_OF_PARENT,
    .name = "pdf.text",
    .version = "1",
    .summary = "reads the text layer of a page",
    .inputs = inputs,
    .outputs = outputs,
    .options = options,
    .input_count = 2,
    .output_count = 3,
    .option_count = sizeof options / sizeof options[0],
    .widest_failure = SHEAF_SCOPE_ITEM,
    .timeout_ms = 60000,
    .open = text_open,
    .close = text_close,
    .run = text_run,
    .evict = text_evict,
    .estimate = text_estimate,
};
