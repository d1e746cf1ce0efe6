/* SPDX-License-Identifier: Apache-2.0 */
/* pdf.render: the picture of one page. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/operators.h"
#include "ops/page_marks.h"
#include "ops/page_operator.h"

enum { OPTION_DPI = PAGE_OPTION_OWN, OPTION_COLOR, OPTION_MAX_PIXELS, OPTION_LEAST_DPI };
enum { SIDE_PIXELS_MAX = 32000 }; /* pdfium's rasteriser works with 16-bit coordinates */

static const struct sheaf_port inputs[] = {
    {"page", SHEAF_I64, 0, "page index"},
    {"document", SHEAF_FILE, 0, "the document the page is in"},
};
static const struct sheaf_port outputs[] = {
    {"image", SHEAF_TENSOR, 0, "u8 [height, width] gray, or [height, width, 3] RGB; upright, over white"},
    {"dpi", SHEAF_F64, 0, "pixels per inch of the image: what was asked for, or less where a cap was met"},
};
static const struct sheaf_option options[] = {
    PAGE_OPTIONS,
    {.name = "dpi",
     .type = SHEAF_OPTION_I64,
     .fallback = {.type = SHEAF_OPTION_I64, .i64 = 300},
     .min = 18,
     .max = 2400,
     .summary = "pixels per inch; pages that are images keep their own"},
    {.name = "color",
     .type = SHEAF_OPTION_TEXT,
     .fallback = {.type = SHEAF_OPTION_TEXT, .text = "gray"},
     .choices = "gray|rgb",
     .summary = "what a pixel is"},
    {.name = "max_pixels",
     .type = SHEAF_OPTION_I64,
     .fallback = {.type = SHEAF_OPTION_I64, .i64 = 64 << 20},
     .min = 4096,
     .max = 1 << 29,
     .summary = "larger pages are rendered at a lower resolution"},
    {.name = "min_dpi",
     .type = SHEAF_OPTION_I64,
     .fallback = {.type = SHEAF_OPTION_I64, .i64 = 2400},
     .min = 18,
     .max = 2400,
     .summary = "scanned pages are rendered at 1.5 times the resolution of their scan where that is less than dpi, but "
                "not below this; from dpi on: never less"},
};

struct render_state {
    struct page_operator common;
    double dpi, least_dpi;
    uint64_t max_pixels;
    uint32_t channels;
};

static int render_open(const struct sheaf_open *open, void **ret_state)
{
    struct render_state *state = calloc(1, sizeof *state);
    if (!state)
        return -ENOMEM;
    int status = page_operator_open(open, &state->common);
    if (status < 0) {
        free(state);
        return status;
    }
    state->dpi = (double)open->options[OPTION_DPI].i64;
    state->least_dpi = fmin(state->dpi, (double)open->options[OPTION_LEAST_DPI].i64);
    state->channels = strcmp(open->options[OPTION_COLOR].text, "rgb") == 0 ? 3 : 1;
    state->max_pixels = (uint64_t)open->options[OPTION_MAX_PIXELS].i64;
    *ret_state = state;
    return 0;
}

static void render_close(void *opaque)
{
    struct render_state *state = opaque;
    page_operator_close(&state->common);
    free(state);
}

struct picture {
    uint32_t width, height;
    double dpi;
    int is_reduced;  /* below the resolution wanted, to stay within the caps */
    uint8_t *pixels; /* of the host */
};

static int picture_alloc(const struct render_state *state, const struct sheaf_row *row, struct picture *picture,
                         struct document_failure *failure)
{
    size_t bytes = (size_t)picture->width * picture->height * state->channels;
    picture->pixels = state->common.host->alloc(row, bytes);
    if (picture->pixels)
        return 0;
    return image_refuse(failure, SHEAF_CLASS_RESOURCE_EXHAUSTED, "no memory for an image of %u by %u pixels",
                        picture->width, picture->height);
}

/* The size of the picture in pixels, within the caps. */
static int picture_size(const struct render_state *state, FPDF_PAGE page, struct picture *picture,
                        struct document_failure *failure)
{
    double width = state->common.pdfium->FPDF_GetPageWidthF(page);
    double height = state->common.pdfium->FPDF_GetPageHeightF(page), dpi = state->dpi;
    if (!(width > 0) || !(height > 0) || !isfinite(width) || !isfinite(height))
        return image_refuse(failure, SHEAF_CLASS_MALFORMED, "the page is %g by %g points", width, height);
    if (state->least_dpi < state->dpi) {
        struct page_marks marks = page_marks_count(state->common.pdfium, page);
        dpi = page_marks_dpi(&marks, width * height, state->least_dpi, state->dpi);
    }
    double scale = dpi / 72;
    scale = fmin(scale, sqrt((double)state->max_pixels / (width * height)));
    scale = fmin(scale, SIDE_PIXELS_MAX / fmax(width, height));
    /* At the cap round down, else to the nearest. */
    double rounding = scale < dpi / 72 ? 0 : 0.5;
    picture->width = (uint32_t)fmax(1, floor(width * scale + rounding));
    picture->height = (uint32_t)fmax(1, floor(height * scale + rounding));
    picture->dpi = scale * 72;
    picture->is_reduced = scale < dpi / 72 * 0.999;
    return 0;
}

/*
 * pdfium draws straight into the memory that becomes the value: its gray and BGR bitmaps need no row padding, and with
 * REVERSE_BYTE_ORDER the latter are RGB. Drawing elsewhere and copying costs one more pass over memory.
 */
static int pdf_picture(const struct render_state *state, const struct sheaf_row *row, struct document *document,
                       int64_t index, struct picture *picture, struct document_failure *failure)
{
    const struct pdfium *pdfium = state->common.pdfium;
    FPDF_PAGE page;
    int status = document_page(document, index, &page, failure);
    if (status == 0)
        status = picture_size(state, page, picture, failure);
    if (status == 0)
        status = picture_alloc(state, row, picture, failure);
    if (status < 0)
        return status;
    int is_gray = state->channels == 1, width = (int)picture->width, height = (int)picture->height;
    memset(picture->pixels, 255, (size_t)picture->width * picture->height * state->channels);
    FPDF_BITMAP bitmap = pdfium->FPDFBitmap_CreateEx(width, height, is_gray ? FPDFBitmap_Gray : FPDFBitmap_BGR,
                                                     picture->pixels, width * (int)state->channels);
    if (!bitmap)
        return image_refuse(failure, SHEAF_CLASS_RESOURCE_EXHAUSTED, "pdfium refuses an image of %d by %d pixels",
                            width, height);
    pdfium->FPDF_RenderPageBitmap(bitmap, page, 0, 0, width, height, 0,
                                  FPDF_ANNOT | (is_gray ? FPDF_GRAYSCALE : FPDF_REVERSE_BYTE_ORDER));
    pdfium->FPDFBitmap_Destroy(bitmap);
    if (picture->is_reduced)
        state->common.host->log(row, 1, "page %lld is rendered at %.0f dpi instead of %.0f to stay within %llu pixels",
                                (long long)index + 1, picture->dpi, state->dpi, (unsigned long long)state->max_pixels);
    return 0;
}

static int image_picture(const struct render_state *state, const struct sheaf_row *row, const struct document *document,
                         int64_t index, struct picture *picture, struct document_failure *failure)
{
    struct image_source source = page_image_source(document, index);
    struct image_facts facts;
    struct image_plan plan;
    int status = image_facts_read(&source, &facts, failure);
    if (status < 0)
        return status;
    image_plan_make(&facts, state->max_pixels, &plan);
    *picture = (struct picture){plan.width, plan.height, plan.dpi, 0, NULL};
    status = picture_alloc(state, row, picture, failure);
    if (status < 0)
        return status;
    if (plan.factor > 1)
        state->common.host->log(row, 1, "the image of %u by %u pixels is scaled down by %u to stay within %llu",
                                facts.width, facts.height, plan.factor, (unsigned long long)state->max_pixels);
    return image_decode(&source, &facts, &plan, state->channels, picture->pixels, failure);
}

static int render_run(void *opaque, const struct sheaf_row *row, char *message)
{
    struct render_state *state = opaque;
    struct document *document;
    struct document_failure failure = {0};
    struct picture picture = {0};
    int64_t page = row->inputs[0].i64;
    int status = page_operator_document(&state->common, row, &row->inputs[1], row->parent_key, &document, &failure);
    if (status < 0)
        return page_operator_fail(&state->common, row, &failure);
    if (document->format == DOCUMENT_PDF)
        status = pdf_picture(state, row, document, page, &picture, &failure);
    else
        status = image_picture(state, row, document, page, &picture, &failure);
    document_release(document);
    if (status < 0)
        return page_operator_fail(&state->common, row, &failure);
    int64_t channels = state->channels;
    struct sheaf_tensor shape = {.dtype = SHEAF_U8,
                                 .rank = channels == 1 ? 2 : 3,
                                 .shape = {picture.height, picture.width, channels == 1 ? 0 : 3},
                                 .stride_bytes = {picture.width * channels, channels, channels == 1 ? 0 : 1}};
    struct sheaf_value values[2] = {
        {.kind = SHEAF_TENSOR,
         .data = picture.pixels,
         .length_bytes = (uint64_t)picture.width * picture.height * state->channels,
         .tensor = &shape},
        {.kind = SHEAF_F64, .f64 = picture.dpi},
    };
    return state->common.host->answer(row, values, 2);
}

static void render_evict(void *state, uint64_t key)
{
    document_evict(key);
}

/* A page of A4, more or less. */
static uint64_t render_estimate(const struct sheaf_option_value *values, const struct sheaf_value *row, uint32_t count)
{
    uint64_t dpi = (uint64_t)values[OPTION_DPI].i64, channels = strcmp(values[OPTION_COLOR].text, "rgb") == 0 ? 3 : 1;
    uint64_t pixels = dpi * dpi * 97, most = (uint64_t)values[OPTION_MAX_PIXELS].i64;
    return (pixels < most ? pixels : most) * channels;
}

const struct sheaf_operator operator_pdf_render = {
    .size = sizeof(struct sheaf_operator),
    .flags = SHEAF_OPERATOR_STATE_OF_PARENT,
    .name = "pdf.render",
    .version = "1",
    .summary = "renders a page to pixels",
    .inputs = inputs,
    .outputs = outputs,
    .options = options,
    .input_count = 2,
    .output_count = 2,
    .option_count = sizeof options / sizeof options[0],
    .widest_failure = SHEAF_SCOPE_ITEM,
    .timeout_ms = 60000,
    .open = render_open,
    .close = render_close,
    .run = render_run,
    .evict = render_evict,
    .estimate = render_estimate,
};
