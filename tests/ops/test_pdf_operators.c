/* SPDX-License-Identifier: Apache-2.0 */
/* pdf.open, pdf.text, pdf.render and image.ocr on small documents made here: what they answer, keep, log and refuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "ops/document_info.h"
#include "ops/operators.h"
#include "ops/page_record.h"
#include "ops/tesseract.h"

struct page {
    const char *attributes, *content;
};

static char pdf[65536];

/* A PDF with these pages, Helvetica as /F1; returns its length. Readers rebuild the missing table of objects. */
static size_t pdf_make(const struct page *pages, int count, const char *info)
{
    int at = snprintf(pdf, sizeof pdf,
                      "%%PDF-1.6\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
                      "3 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\n4 0 obj<<%s>>endobj\n"
                      "2 0 obj<</Type/Pages/Count %d/Kids[",
                      info, count);
    for (int i = 0; i < count; i++)
        at += snprintf(pdf + at, sizeof pdf - (size_t)at, "%d 0 R ", 10 + 2 * i);
    at += snprintf(pdf + at, sizeof pdf - (size_t)at, "]>>endobj\n");
    for (int i = 0; i < count; i++)
        at += snprintf(pdf + at, sizeof pdf - (size_t)at,
                       "%d 0 obj<</Type/Page/Parent 2 0 R/Contents %d 0 R/Resources<</Font<</F1 3 0 R>>>>%s>>endobj\n"
                       "%d 0 obj<</Length %zu>>stream\n%s\nendstream endobj\n",
                       10 + 2 * i, 11 + 2 * i, pages[i].attributes, 11 + 2 * i, strlen(pages[i].content),
                       pages[i].content);
    at += snprintf(pdf + at, sizeof pdf - (size_t)at, "trailer<</Root 1 0 R/Info 4 0 R>>\n%%%%EOF\n");
    return (size_t)at;
}

#define A4 "/MediaBox[0 0 595 842]"
#define HELLO "BT /F1 24 Tf 72 700 Td (Hello, this is a page with enough text.) Tj ET"

static void *opened(const struct sheaf_operator *op, const struct host_option *given, size_t count)
{
    char error[512];
    void *state = host_open(op, given, count, error);
    if (!state)
        print_message("%s\n", error);
    assert_non_null(state);
    return state;
}

static void test_open(void **unused)
{
    struct page pages[] = {{A4, HELLO}, {A4, ""}, {A4 "/Rotate 90", HELLO}};
    size_t bytes = pdf_make(
        pages, 3, "/Title(  A title )/Author(\\376\\377\\000X\\001\\002)/CreationDate(D:20190428140300+02'00')");
    struct sheaf_value file = host_file_value("a.pdf", pdf, bytes);
    void *state = opened(&operator_pdf_open, NULL, 0);
    struct host_run run;
    host_run(&operator_pdf_open, state, (struct host_keys){9, 0}, &file, 1, &run);
    assert_true(run.answered);
    assert_int_equal(run.child_count, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(run.children[i].i64, i);
    const char *info = run.outputs[1].data;
    size_t length = run.outputs[1].length_bytes;
    static const char *const words[] = {"pdf", "1.6", "A title", "X\xC4\x82", "2019-04-28T14:03:00+02:00"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        assert_non_null(memmem(info, length, words[i], strlen(words[i])));
    assert_int_equal(document_open_count(), 1);
    operator_pdf_open.evict(state, 8);
    assert_int_equal(document_open_count(), 1);
    operator_pdf_open.evict(state, 9);
    assert_int_equal(document_open_count(), 0);
    host_run_fini(&run);
    host_close(&operator_pdf_open, state);
}

static void refused(const void *data, size_t bytes, enum sheaf_class class_id, const char *word)
{
    struct sheaf_value file = host_file_value("x", data, bytes);
    void *state = opened(&operator_pdf_open, NULL, 0);
    struct host_run run;
    host_run(&operator_pdf_open, state, (struct host_keys){9, 0}, &file, 1, &run);
    if (!run.failed || run.class_id != class_id || !strstr(run.message, word))
        print_message("%s: %s\n", sheaf_class_name(run.class_id), run.message);
    assert_true(run.failed);
    assert_int_equal(run.class_id, class_id);
    assert_non_null(strstr(run.message, word));
    assert_int_equal(document_open_count(), 0);
    host_run_fini(&run);
    host_close(&operator_pdf_open, state);
}

static void test_refusals(void **unused)
{
    static const char zeros[64];
    refused("", 0, SHEAF_CLASS_EMPTY, "empty");
    refused("hello world", 11, SHEAF_CLASS_MALFORMED, "text that begins \"hello world\"");
    refused("GIF89a...", 9, SHEAF_CLASS_UNSUPPORTED, "GIF");
    refused("PK\3\4abcdefg", 11, SHEAF_CLASS_UNSUPPORTED, "ZIP");
    refused(zeros, sizeof zeros, SHEAF_CLASS_MALFORMED, "zero bytes");
    refused("%PDF-1.4 and no more", 20, SHEAF_CLASS_MALFORMED, "too damaged");
    refused("\x89PNG\r\n\x1a\n", 8, SHEAF_CLASS_MALFORMED, "PNG");
    refused("\xff\xd8\xff\xd9", 4, SHEAF_CLASS_MALFORMED, "JPEG");
}

static void text_of(void *state, const struct sheaf_value *file, int64_t page, struct host_run *run,
                    struct page_content *content)
{
    struct sheaf_value inputs[2] = {{.kind = SHEAF_I64, .i64 = page}, *file};
    host_run(&operator_pdf_text, state, (struct host_keys){100, 9}, inputs, 2, run);
    memset(content, 0, sizeof *content);
    if (run->answered)
        assert_int_equal(page_record_decode(run->outputs[0].data, run->outputs[0].length_bytes, content), 0);
}

static void test_text_and_ocr_choice(void **unused)
{
    char paths[8192] = "";
    for (int i = 0; i < 60; i++)
        snprintf(paths + strlen(paths), sizeof paths - strlen(paths), "%d 10 m %d 90 l S ", 10 * i, 10 * i);
    struct page pages[] = {{A4, HELLO},
                           {A4, ""},
                           {A4 "/Rotate 90", HELLO},
                           {A4, paths},
                           {A4, "10 10 m 500 10 l S"},
                           {A4, "q 500 0 0 700 40 40 cm BI /W 2 /H 2 /BPC 8 /CS /G ID abcd EI Q"}};
    size_t bytes = pdf_make(pages, 6, "");
    struct sheaf_value file = host_file_value("a.pdf", pdf, bytes);
    file.name = "folder/a.pdf";
    static const int needs[] = {0, 0, 0, 1, 0, 1};
    static const char *const choices[] = {"auto", "never", "always"};
    for (int choice = 0; choice < 3; choice++) {
        struct host_option given[] = {{"ocr", {.type = SHEAF_OPTION_TEXT, .text = choices[choice]}},
                                      {"images", {.type = SHEAF_OPTION_TEXT, .text = choice ? "png" : "none"}}};
        void *state = opened(&operator_pdf_text, given, 2);
        for (int page = 0; page < 6; page++) {
            struct host_run run;
            struct page_content content;
            text_of(state, &file, page, &run, &content);
            assert_true(run.answered);
            assert_int_equal(run.outputs[1].boolean, choice == 0 ? needs[page] : choice == 2);
            assert_int_equal(run.outputs[2].boolean, choice != 0);
            assert_int_equal(content.number, page + 1);
            char image[64];
            snprintf(image, sizeof image, choice ? "a.pdf.pages/%05d.png" : "", page + 1);
            assert_string_equal(content.image_path, image);
            assert_int_equal((int)content.width, page == 2 ? 842 : 595);
            assert_int_equal(content.rotation, page == 2 ? 90 : 0);
            if (page == 0 || page == 2)
                assert_non_null(memmem(content.text, content.text_bytes, "enough", 6));
            page_content_fini(&content);
            host_run_fini(&run);
        }
        assert_int_equal(document_open_count(), 1);
        operator_pdf_text.evict(state, 9);
        host_close(&operator_pdf_text, state);
    }
    void *state = opened(&operator_pdf_text, NULL, 0);
    struct host_run run;
    struct page_content content;
    text_of(state, &file, 6, &run, &content);
    assert_true(run.failed);
    assert_int_equal(run.class_id, SHEAF_CLASS_MALFORMED);
    host_run_fini(&run);
    operator_pdf_text.evict(state, 9);
    host_close(&operator_pdf_text, state);
}

static void render(const struct host_option *given, size_t count, const struct sheaf_value *file, int64_t page,
                   struct host_run *run)
{
    void *state = opened(&operator_pdf_render, given, count);
    struct sheaf_value inputs[2] = {{.kind = SHEAF_I64, .i64 = page}, *file};
    host_run(&operator_pdf_render, state, (struct host_keys){100, 9}, inputs, 2, run);
    operator_pdf_render.evict(state, 9);
    host_close(&operator_pdf_render, state);
}

static void test_render(void **unused)
{
    struct page pages[] = {{"/MediaBox[0 0 200 100]", "1 0 0 rg 0 50 100 50 re f"},
                           {"/MediaBox[0 0 200 100]/Rotate 90", "1 0 0 rg 0 50 100 50 re f"},
                           {"/MediaBox[0 0 14400 14400]", "0 g 0 0 14400 14400 re f"}};
    size_t bytes = pdf_make(pages, 3, "");
    struct sheaf_value file = host_file_value("a.pdf", pdf, bytes);
    struct host_option given[] = {{"dpi", {.type = SHEAF_OPTION_I64, .i64 = 72}},
                                  {"color", {.type = SHEAF_OPTION_TEXT, .text = "rgb"}},
                                  {"max_pixels", {.type = SHEAF_OPTION_I64, .i64 = 1 << 20}}};
    struct host_run run;
    render(given, 2, &file, 0, &run);
    const struct sheaf_tensor *shape = run.outputs[0].tensor;
    const uint8_t *pixels = run.outputs[0].data;
    assert_int_equal(shape->rank, 3);
    assert_int_equal(shape->shape[0], 100);
    assert_int_equal(shape->shape[1], 200);
    assert_int_equal((int)run.outputs[1].f64, 72);
    static const uint8_t red[] = {255, 0, 0}, white[] = {255, 255, 255};
    assert_memory_equal(pixels + (10 * 200 + 10) * 3, red, 3);
    assert_memory_equal(pixels + (10 * 200 + 150) * 3, white, 3);
    assert_memory_equal(pixels + (80 * 200 + 10) * 3, white, 3);
    host_run_fini(&run);

    render(given, 1, &file, 1, &run);
    assert_int_equal(run.outputs[0].tensor->rank, 2);
    assert_int_equal(run.outputs[0].tensor->shape[0], 200);
    assert_int_equal(run.outputs[0].tensor->shape[1], 100);
    pixels = run.outputs[0].data;
    assert_true(pixels[10 * 100 + 90] < 200); /* turned clockwise: the corner is at the top right */
    assert_int_equal(pixels[10 * 100 + 10], 255);
    host_run_fini(&run);

    render(given, 3, &file, 2, &run);
    assert_true(run.answered && run.outputs[0].length_bytes <= 3 << 20);
    assert_in_range((int)run.outputs[1].f64, 4, 6);
    assert_int_equal(run.log_count, 1);
    assert_non_null(strstr(run.log, "instead of 72"));
    host_run_fini(&run);
}

/* Many documents through few places: the oldest goes, nothing is mixed up. */
static void test_cache(void **unused)
{
    void *state = opened(&operator_pdf_text, NULL, 0);
    static char copies[DOCUMENT_CACHE_ENTRIES + 3][4096];
    size_t lengths[DOCUMENT_CACHE_ENTRIES + 3];
    for (int i = 0; i < DOCUMENT_CACHE_ENTRIES + 3; i++) {
        char content[128];
        snprintf(content, sizeof content, "BT /F1 24 Tf 72 700 Td (document number x%dx) Tj ET", i);
        struct page page = {A4, content};
        lengths[i] = pdf_make(&page, 1, "");
        memcpy(copies[i], pdf, lengths[i]);
    }
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < DOCUMENT_CACHE_ENTRIES + 3; i++) {
            char word[16];
            struct host_run run;
            struct page_content content;
            struct sheaf_value inputs[2] = {{.kind = SHEAF_I64}, host_file_value("a", copies[i], lengths[i])};
            /* Keys 0 are not kept; another file under a used key takes its place. */
            host_run(&operator_pdf_text, state, (struct host_keys){50, round == 2 ? 0 : 1 + (uint64_t)i}, inputs, 2,
                     &run);
            memset(&content, 0, sizeof content);
            assert_true(run.answered);
            assert_int_equal(page_record_decode(run.outputs[0].data, run.outputs[0].length_bytes, &content), 0);
            snprintf(word, sizeof word, "x%dx", i);
            assert_non_null(memmem(content.text, content.text_bytes, word, strlen(word)));
            page_content_fini(&content);
            host_run_fini(&run);
        }
        assert_int_equal(document_open_count(), DOCUMENT_CACHE_ENTRIES);
    }
    document_evict_all();
    assert_int_equal(document_open_count(), 0);
    host_close(&operator_pdf_text, state);
}

/* A font that the document does not bring: a Noto font takes its place and that is noted; a script without one is said.
 */
static void test_fonts(void **unused)
{
    const char *path = host_corpus_path("pdf/noembed-sjis.pdf");
    struct host_run run;
    struct document *document;
    struct document_failure failure;
    size_t bytes;
    if (!path || !fonts_have_charset(FXFONT_SHIFTJIS_CHARSET))
        skip();
    uint8_t *data = host_file_read(path, &bytes);
    struct sheaf_value inputs[2] = {{.kind = SHEAF_I64}, host_file_value(path, data, bytes)};
    void *state = opened(&operator_pdf_render, NULL, 0);
    host_run(&operator_pdf_render, state, (struct host_keys){100, 9}, inputs, 2, &run);
    assert_true(run.answered);
    size_t dark = 0;
    for (size_t i = 0; i < run.outputs[0].length_bytes; i++)
        dark += ((const uint8_t *)run.outputs[0].data)[i] < 64;
    assert_true(dark > 1000);
    struct document_request request = {.file = &inputs[1], .row = &run.row, .key = 9};
    assert_int_equal(document_acquire(&request, &document, &failure), 0);
    assert_int_equal(document->fonts.count, 1);
    assert_int_equal(document->fonts.missing, 0);
    assert_string_equal(document->fonts.entries[0].asked, "MS-Gothic");
    assert_non_null(strstr(document->fonts.entries[0].file, "NotoSansCJK"));
    document_release(document);
    operator_pdf_render.evict(state, 9);
    host_run_fini(&run);
    host_close(&operator_pdf_render, state);
    free(data);
}

static void test_dates(void **unused)
{
    static const char *const cases[][2] = {{"D:20190428140300+02'00'", "2019-04-28T14:03:00+02:00"},
                                           {"D:20190428140300Z", "2019-04-28T14:03:00Z"},
                                           {"D:20190428", "2019-04-28"},
                                           {"20190428140300", "2019-04-28T14:03:00"},
                                           {"yesterday", "yesterday"},
                                           {"", ""},
                                           {"D:2019-08", "2019-01-01"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char out[64];
        document_date(cases[i][0], out, sizeof out);
        assert_string_equal(out, cases[i][1]);
    }
}

/* Read as it is shown: turned by quarters, and what comes out is upright again. */
static void ocr_check(void *state, const struct sheaf_value *file, int page)
{
    struct host_run image, run;
    struct page_content content = {0};
    render(NULL, 0, file, page, &image);
    struct sheaf_value inputs[3] = {image.outputs[0], {.kind = SHEAF_I64, .i64 = page}, image.outputs[1]};
    host_run(&operator_image_ocr, state, (struct host_keys){3, 9}, inputs, 3, &run);
    assert_true(run.answered);
    assert_int_equal(page_record_decode(run.outputs[0].data, run.outputs[0].length_bytes, &content), 0);
    assert_int_equal(content.source, PAGE_SOURCE_OCR);
    assert_int_equal(content.rotation, (4 - page) % 4 * 90);
    assert_int_equal(content.number, page + 1);
    assert_int_equal((int)(content.width + 0.5f), 300);
    assert_int_equal((int)(content.height + 0.5f), 100);
    assert_true(content.confidence > 70);
    assert_int_equal(content.line_count, 1);
    assert_int_equal(content.lines[0].flags & (PAGE_TURN_MASK | PAGE_VERTICAL), 0);
    assert_int_equal(content.span_count, 2);
    assert_memory_equal(content.text, "Quarterlyreport", 15);
    assert_true(content.spans[0].box.x0 > 18 && content.spans[0].box.x0 < 26);
    assert_true(content.spans[0].box.y0 > 28 && content.spans[0].box.y1 < 60);
    assert_true(content.spans[1].box.x0 > content.spans[0].box.x1);
    assert_true(content.lines[0].baseline > 47 && content.lines[0].baseline < 53);
    page_content_fini(&content);
    host_run_fini(&run);
    host_run_fini(&image);
}

static void test_ocr(void **unused)
{
    char folder[512], error[512];
    if (tesseract_find_language(NULL, "eng", 3, folder, sizeof folder, error, sizeof error) < 0)
        skip();
    static const char text[] = "BT /F1 24 Tf 20 50 Td (Quarterly report) Tj ET";
    struct page pages[] = {{"/MediaBox[0 0 300 100]", text},
                           {"/MediaBox[0 0 300 100]/Rotate 90", text},
                           {"/MediaBox[0 0 300 100]/Rotate 180", text},
                           {"/MediaBox[0 0 300 100]/Rotate 270", text}};
    size_t bytes = pdf_make(pages, 4, "");
    struct sheaf_value file = host_file_value("a.pdf", pdf, bytes);
    void *state = opened(&operator_image_ocr, NULL, 0);
    for (int page = 0; page < 4; page++)
        ocr_check(state, &file, page);
    host_close(&operator_image_ocr, state);
}

/* Lines of text that run down to the right by four degrees, about the middle of the page. */
static const char *skewed_text(void)
{
    static char content[4096];
    int at =
        snprintf(content, sizeof content, "q 0.99756 -0.06976 0.06976 0.99756 -28 22 cm BT /F1 14 Tf 18 TL 72 700 Td ");
    for (int i = 0; i < 24; i++)
        at += snprintf(content + at, sizeof content - (size_t)at, "(Line %d of a page that was laid askew) Tj T* ",
                       i + 10);
    snprintf(content + at, sizeof content - (size_t)at, "ET Q");
    return content;
}

/* Read straight: every line whole, level and under the one before. */
static void straight_check(const struct page_content *content)
{
    float last = 0;
    assert_true(content->skew > 3.8f && content->skew < 4.2f);
    assert_int_equal(content->has_look, 1);
    assert_int_equal(content->line_count, 24);
    for (uint32_t i = 0; i < content->line_count; i++) {
        const struct page_line *line = &content->lines[i];
        assert_true(line->box.y1 - line->box.y0 < 20); /* askew it would be 18 points higher */
        assert_true(line->baseline > last + 12);
        last = line->baseline;
    }
    assert_memory_equal(content->text, "Line10ofapagethatwaslaidaskew", 29);
}

/* image.measure finds the skew, image.ocr turns the picture by it, black and white or not. */
static void test_ocr_skewed(void **unused)
{
    char folder[512], error[512];
    if (tesseract_find_language(NULL, "eng", 3, folder, sizeof folder, error, sizeof error) < 0)
        skip();
    static const char *const ways[] = {"none", "otsu", "sauvola"};
    struct page pages[] = {{A4, skewed_text()}};
    size_t bytes = pdf_make(pages, 1, "");
    struct sheaf_value file = host_file_value("a.pdf", pdf, bytes);
    struct host_run image, measured, run;
    render(NULL, 0, &file, 0, &image);
    void *state = opened(&operator_image_measure, NULL, 0);
    host_run(&operator_image_measure, state, (struct host_keys){3, 9}, &image.outputs[0], 1, &measured);
    host_close(&operator_image_measure, state);
    assert_true(measured.answered && measured.outputs[0].boolean);
    struct sheaf_value inputs[5] = {
        image.outputs[0], {.kind = SHEAF_I64}, image.outputs[1], measured.outputs[1], measured.outputs[2]};
    for (int i = 0; i < 3; i++) {
        struct page_content content = {0};
        struct host_option option = {"binarise", {.type = SHEAF_OPTION_TEXT, .text = ways[i]}};
        state = opened(&operator_image_ocr, &option, 1);
        host_run(&operator_image_ocr, state, (struct host_keys){3, 9}, inputs, 5, &run);
        assert_true(run.answered);
        assert_int_equal(page_record_decode(run.outputs[0].data, run.outputs[0].length_bytes, &content), 0);
        straight_check(&content);
        page_content_fini(&content);
        host_run_fini(&run);
        host_close(&operator_image_ocr, state);
    }
    host_run_fini(&measured);
    host_run_fini(&image);
}

/* A blank picture has no text, and its page its size. */
static void test_ocr_blank(void **unused)
{
    char folder[512], error[512];
    if (tesseract_find_language(NULL, "eng", 3, folder, sizeof folder, error, sizeof error) < 0)
        skip();
    struct page pages[] = {{A4, "0.9 g 0 0 595 842 re f"}};
    size_t bytes = pdf_make(pages, 1, "");
    struct sheaf_value file = host_file_value("a.pdf", pdf, bytes);
    void *state = opened(&operator_image_ocr, NULL, 0);
    struct host_run image, run;
    struct page_content content = {0};
    render(NULL, 0, &file, 0, &image);
    struct sheaf_value inputs[3] = {image.outputs[0], {.kind = SHEAF_I64, .i64 = 0}, image.outputs[1]};
    host_run(&operator_image_ocr, state, (struct host_keys){3, 9}, inputs, 3, &run);
    assert_true(run.answered);
    assert_int_equal(page_record_decode(run.outputs[0].data, run.outputs[0].length_bytes, &content), 0);
    assert_int_equal(content.source, PAGE_SOURCE_OCR);
    assert_int_equal(content.line_count, 0);
    assert_true(content.confidence < 0);
    assert_int_equal((int)(content.height + 0.5f), 842);
    page_content_fini(&content);
    host_run_fini(&run);
    host_run_fini(&image);
    host_close(&operator_image_ocr, state);
}

/* A scan is rendered at one and a half times its own resolution, within the bounds given; what is drawn over it, if it
 * is more than a stamp, at the full one. */
static void test_render_scan(void **unused)
{
    static char scan[4096], drawn[8192];
    int at = snprintf(scan, sizeof scan, "q 208 0 0 104 0 0 cm BI /W 104 /H 52 /CS /G /BPC 1 /F /AHx ID ");
    for (int i = 0; i < 13 * 52; i++)
        at += snprintf(scan + at, sizeof scan - (size_t)at, "%02x", i * 37 & 0xFF);
    snprintf(scan + at, sizeof scan - (size_t)at, "> EI Q");
    at = snprintf(drawn, sizeof drawn, "%s", scan);
    for (int i = 0; i < 20; i++)
        at += snprintf(drawn + at, sizeof drawn - (size_t)at, " BT /F1 4 Tf 10 %d Td (words) Tj ET", 4 * i + 4);
    struct page pages[] = {{"/MediaBox[0 0 208 104]", scan}, {"/MediaBox[0 0 208 104]", drawn}};
    size_t bytes = pdf_make(pages, 2, "");
    struct sheaf_value file = host_file_value("a.pdf", pdf, bytes);
    static const struct {
        int page, least, most, expected;
    } cases[] = {{0, 18, 144, 54}, {0, 100, 144, 100}, {0, 18, 40, 40}, {0, 144, 144, 144}, {1, 18, 144, 144}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct host_option given[] = {{"dpi", {.type = SHEAF_OPTION_I64, .i64 = cases[i].most}},
                                      {"min_dpi", {.type = SHEAF_OPTION_I64, .i64 = cases[i].least}}};
        struct host_run run;
        render(given, 2, &file, cases[i].page, &run);
        assert_true(run.answered);
        assert_int_equal((int)(run.outputs[1].f64 + 0.5), cases[i].expected);
        assert_int_equal(run.outputs[0].tensor->shape[1], (208 * cases[i].expected + 36) / 72);
        assert_int_equal(run.log_count, 0);
        host_run_fini(&run);
    }
}

static void test_missing_language(void **unused)
{
    char error[512];
    struct host_option given[] = {{"lang", {.type = SHEAF_OPTION_TEXT, .text = "eng+tlh_new"}}};
    assert_null(host_open(&operator_image_ocr, given, 1, error));
    assert_non_null(strstr(error, "tlh_new.traineddata"));
    assert_non_null(strstr(error, "apt install tesseract-ocr-tlh-new"));
    assert_null(strchr(error, '\n'));
    given[0].value.text = "../etc/passwd";
    assert_null(host_open(&operator_image_ocr, given, 1, error));
}

int main(void)
{
    char path[4096], error[512];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_text_and_ocr_choice),
        cmocka_unit_test(test_render),
        cmocka_unit_test(test_cache),
        cmocka_unit_test(test_fonts),
        cmocka_unit_test(test_dates),
        cmocka_unit_test(test_ocr),
        cmocka_unit_test(test_ocr_skewed),
        cmocka_unit_test(test_ocr_blank),
        cmocka_unit_test(test_render_scan),
        cmocka_unit_test(test_missing_language),
    };
    if (pdfium_find(path, sizeof path, error, sizeof error) < 0) {
        print_message("skipped: %s\n", error);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
