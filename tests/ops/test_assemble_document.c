/* SPDX-License-Identifier: Apache-2.0 */
/* doc.assemble: Markdown and JSON of documents made by hand, and of real ones where the corpus and pdfium are there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>
#include <jansson.h>
#include <msgpack.h>

#include "host.h"
#include "ops/markdown.h"
#include "ops/operators.h"
#include "ops/page_text.h"
#include "page_builder.h"

enum { PAGES_MAX = 16 };

struct fixture {
    void *operator_state;
    struct page_content page;
    struct sheaf_value pages[PAGES_MAX], ocr_pages[PAGES_MAX];
    struct sheaf_list_error errors[4], ocr_errors[4];
    struct sheaf_list list, ocr_list, *pictures; /* NULL: not given */
    msgpack_sbuffer info;
    struct host_run run;
};

static void pack_text(msgpack_packer *packer, const char *text)
{
    msgpack_pack_str_with_body(packer, text, strlen(text));
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    char error[512] = "";
    f->operator_state = host_open(&operator_doc_assemble, NULL, 0, error);
    assert_non_null(f->operator_state);
    msgpack_packer packer;
    msgpack_sbuffer_init(&f->info);
    msgpack_packer_init(&packer, &f->info, msgpack_sbuffer_write);
    msgpack_pack_map(&packer, 3);
    pack_text(&packer, "format");
    pack_text(&packer, "pdf");
    pack_text(&packer, "pages");
    msgpack_pack_int(&packer, 3);
    pack_text(&packer, "title");
    pack_text(&packer, "A \"title\"");
    *state = f;
    return 0;
}

static struct sheaf_value record_of(const struct page_content *page)
{
    size_t bound = page_record_bound(page), bytes;
    void *data = malloc(bound);
    assert_int_equal(page_record_encode(page, data, bound, &bytes), 0);
    return (struct sheaf_value){.kind = SHEAF_RECORD, .data = data, .length_bytes = bytes};
}

static void add_page(struct fixture *f)
{
    f->pages[f->list.count++] = record_of(&f->page);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    for (uint64_t i = 0; i < f->list.count; i++)
        free((void *)f->pages[i].data);
    for (uint64_t i = 0; i < f->ocr_list.count; i++)
        free((void *)f->ocr_pages[i].data);
    host_run_fini(&f->run);
    host_close(&operator_doc_assemble, f->operator_state);
    page_content_fini(&f->page);
    msgpack_sbuffer_destroy(&f->info);
    free(f);
    return 0;
}

static void run(struct fixture *f)
{
    f->list.values = f->pages;
    f->list.errors = f->errors;
    f->ocr_list.values = f->ocr_pages;
    f->ocr_list.errors = f->ocr_errors;
    struct sheaf_value inputs[4] = {
        {.kind = SHEAF_RECORD, .data = f->info.data, .length_bytes = f->info.size},
        host_list_value(&f->list, SHEAF_RECORD),
        host_list_value(&f->ocr_list, SHEAF_RECORD),
    };
    if (f->pictures)
        inputs[3] = host_list_value(f->pictures, SHEAF_BYTES);
    host_run(&operator_doc_assemble, f->operator_state, (struct host_keys){1, 0}, inputs, f->pictures ? 4 : 3, &f->run);
}

static void assert_markdown(struct fixture *f, const char *expected)
{
    run(f);
    assert_int_equal(f->run.answered, 1);
    const struct sheaf_value *value = &f->run.outputs[0];
    char *text = strndup(value->data ? value->data : "", value->length_bytes);
    assert_string_equal(text, expected);
    assert_string_equal(value->name, "text/markdown");
    free(text);
}

static json_t *json_of(struct fixture *f)
{
    json_error_t error;
    json_t *root = json_loadb(f->run.outputs[1].data, f->run.outputs[1].length_bytes, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        fail_msg("%s at %d", error.text, error.position);
    return root;
}

static void test_golden(void **state)
{
    struct fixture *f = *state;
    page_start(&f->page, 1);
    line_at(&f->page, 50, 100, 18, PAGE_BOLD, 0, "Title");
    line(&f->page, 50, 140, "A \"quoted\" word & a *star*.");
    add_page(f);
    assert_markdown(f, "# Title\n\nA \"quoted\" word & a \\*star\\*.\n");
    static const char expected[] =
        "{\"page_count\":3,\"status\":\"ok\",\"metadata\":{\"format\":\"pdf\",\"title\":\"A "
        "\\\"title\\\"\"},\"errors\":[],"
        "\"pages\":[\n{\"number\":1,\"width\":600,\"height\":800,\"rotation\":0,\"source\":\"text-layer\","
        "\"confidence\":null,"
        "\"fonts_substituted\":0,\"unmapped_characters\":0,\"image\":null,"
        "\"text\":\"Title\\n\\nA \\\"quoted\\\" word & a *star*.\",\"blocks\":["
        "{\"kind\":\"heading\",\"level\":1,\"box\":[50,85.6,95,103.6],\"font_size\":18,\"text\":\"Title\"},"
        "{\"kind\":\"paragraph\",\"box\":[50,132,185,142],\"font_size\":10,"
        "\"text\":\"A \\\"quoted\\\" word & a *star*.\"}]}\n]}\n";
    assert_int_equal(f->run.outputs[1].length_bytes, strlen(expected));
    assert_memory_equal(f->run.outputs[1].data, expected, strlen(expected));
    json_decref(json_of(f));
}

/* A sentence goes on over a page break, with its hyphen resolved; a footnote does not part it. */
static void test_page_break(void **state)
{
    struct fixture *f = *state;
    page_start(&f->page, 1);
    line(&f->page, 50, 100, "Some text that fills most of the line and then a");
    line(&f->page, 50, 112, "sentence that does not end on this page but con-");
    line_at(&f->page, 50, 700, 8, 0, 0, "1 A note.");
    add_page(f);
    page_start(&f->page, 2);
    line(&f->page, 50, 100, "tinues on the next.");
    add_page(f);
    assert_markdown(f, "Some text that fills most of the line and then a sentence that does not end on this page but "
                       "continues on the next.\n\n1 A note.\n");
}

static void test_failed_pages(void **state)
{
    struct fixture *f = *state;
    page_start(&f->page, 2);
    line(&f->page, 50, 100, "The second page.");
    add_page(f);
    f->errors[0] = (struct sheaf_list_error){.ordinal = 2, .class_id = SHEAF_CLASS_TIMEOUT, .message = "too \xff slow"};
    f->errors[1] = (struct sheaf_list_error){.ordinal = 0, .class_id = SHEAF_CLASS_CRASHED, .message = "killed"};
    f->list.error_count = 2;
    assert_markdown(f, "> **Page 1 could not be read: killed (crashed)**\n\nThe second page.\n\n"
                       "> **Page 3 could not be read: too \xef\xbf\xbd slow (timeout)**\n");
    json_t *root = json_of(f);
    assert_string_equal(json_string_value(json_object_get(root, "status")), "partial");
    json_t *pages = json_object_get(root, "pages"), *errors = json_object_get(root, "errors");
    assert_int_equal(json_array_size(pages), 3);
    assert_int_equal(json_array_size(errors), 2);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(errors, 1), "page")), 3);
    assert_string_equal(json_string_value(json_object_get(json_array_get(errors, 1), "class")), "timeout");
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(json_integer_value(json_object_get(json_array_get(pages, i), "number")), i + 1);
    assert_non_null(json_object_get(json_array_get(pages, 0), "error"));
    json_decref(root);
}

/* What was read from the image of a page stands for it, at the page's own size. */
/* What is said of a page image that failed: the JSON names no image, says why, and says it once where the page itself
 * failed for it. The Markdown is whole, and says nothing. */
static void test_missing_images(void **state)
{
    struct fixture *f = *state;
    for (uint32_t number = 1; number <= 3; number++) {
        page_start(&f->page, number);
        line(&f->page, 50, 100, "Words.");
        snprintf(f->page.image_path, sizeof f->page.image_path, "a.pdf.pages/%05u.jpg", number);
        add_page(f);
    }
    f->errors[0] = (struct sheaf_list_error){.ordinal = 3, .class_id = SHEAF_CLASS_MALFORMED, .message = "damaged"};
    f->list.error_count = 1;
    struct sheaf_list_error image_errors[] = {
        {.ordinal = 3, .class_id = SHEAF_CLASS_MALFORMED, .message = "damaged"},
        {.ordinal = 1, .class_id = SHEAF_CLASS_TIMEOUT, .message = "too slow"},
    };
    struct sheaf_list pictures = {.errors = image_errors, .error_count = 2};
    f->pictures = &pictures;
    run(f);
    assert_true(f->run.answered);
    assert_null(memmem(f->run.outputs[0].data, f->run.outputs[0].length_bytes, "too slow", 8));
    json_t *root = json_of(f), *pages = json_object_get(root, "pages"), *errors = json_object_get(root, "errors");
    assert_int_equal(json_array_size(errors), 2);
    assert_string_equal(json_string_value(json_object_get(json_array_get(errors, 0), "stage")), "image");
    assert_string_equal(json_string_value(json_object_get(json_array_get(errors, 1), "stage")), "page");
    assert_string_equal(json_string_value(json_object_get(json_array_get(pages, 0), "image")), "a.pdf.pages/00001.jpg");
    assert_true(json_is_null(json_object_get(json_array_get(pages, 1), "image")));
    assert_string_equal(json_string_value(json_object_get(json_array_get(pages, 2), "image")), "a.pdf.pages/00003.jpg");
    json_decref(root);
}

static void test_ocr_replaces(void **state)
{
    struct fixture *f = *state;
    for (uint32_t number = 1; number <= 3; number++) {
        page_start(&f->page, number);
        if (number != 2)
            line(&f->page, 50, 100, number == 1 ? "First page." : "Third page.");
        add_page(f);
    }
    page_start(&f->page, 2);
    f->page.source = PAGE_SOURCE_OCR;
    f->page.confidence = 87.5f;
    f->page.width = 300;
    f->page.height = 400;
    line_at(&f->page, 25, 50, 5, 0, 0, "Read from an image.");
    f->ocr_pages[f->ocr_list.count++] = record_of(&f->page);
    assert_markdown(f, "First page.\n\nRead from an image.\n\nThird page.\n");
    json_t *root = json_of(f), *page = json_array_get(json_object_get(root, "pages"), 1);
    assert_string_equal(json_string_value(json_object_get(page, "source")), "ocr");
    assert_true(json_number_value(json_object_get(page, "confidence")) == 87.5);
    assert_true(json_number_value(json_object_get(page, "width")) == 600);
    json_t *box = json_object_get(json_array_get(json_object_get(page, "blocks"), 0), "box");
    assert_true(json_number_value(json_array_get(box, 0)) == 50);
    json_decref(root);
}

/* Pages read from pictures that look like an earlier one say so; one that was straightened says by how much. */
static void test_near_duplicates(void **state)
{
    static const uint64_t looks[4][2] = {{0xF0F0, 0x1234}, {0xFFFF, 0x1234}, {0xF0F3, 0x1236}, {0xF0F0, 0x4321}};
    static const json_int_t duplicate_of[4] = {0, 0, 1, 0};
    struct fixture *f = *state;
    for (uint32_t i = 0; i < 4; i++) {
        page_start(&f->page, i + 1);
        add_page(f);
        line(&f->page, 50, 100, "Read from a picture.");
        f->page.source = PAGE_SOURCE_OCR;
        f->page.skew = i == 1 ? 2.5f : 0;
        f->page.has_look = 1;
        memcpy(f->page.look, looks[i], sizeof f->page.look);
        f->ocr_pages[f->ocr_list.count++] = record_of(&f->page);
    }
    run(f);
    assert_int_equal(f->run.answered, 1);
    json_t *root = json_of(f);
    for (size_t i = 0; i < 4; i++) {
        const json_t *page = json_array_get(json_object_get(root, "pages"), i);
        assert_int_equal(json_integer_value(json_object_get(page, "near_duplicate_of")), duplicate_of[i]);
        assert_true(json_number_value(json_object_get(page, "skew")) == (i == 1 ? 2.5 : 0));
        assert_int_equal(json_string_length(json_object_get(page, "look")), 32);
    }
    assert_string_equal(json_string_value(json_object_get(json_array_get(json_object_get(root, "pages"), 0), "look")),
                        "000000000000f0f00000000000001234");
    json_decref(root);
}

static void test_no_pages(void **state)
{
    struct fixture *f = *state;
    assert_markdown(f, "");
    json_t *root = json_of(f);
    assert_int_equal(json_array_size(json_object_get(root, "pages")), 0);
    json_decref(root);
}

static void test_refuses_other_records(void **state)
{
    struct fixture *f = *state;
    f->pages[f->list.count++] =
        (struct sheaf_value){.kind = SHEAF_RECORD, .data = strdup("\x81\xa1x\x01"), .length_bytes = 4};
    run(f);
    assert_int_equal(f->run.failed, 1);
    assert_int_equal(f->run.class_id, SHEAF_CLASS_CONTRACT);
}

/* Twice the pages, at most about twice the time: 10,000 pages go through in linear time. */
static void test_many_pages(void **state)
{
    struct fixture *f = *state;
    enum { MANY = 10000 };
    page_start(&f->page, 1);
    for (int i = 0; i < 10; i++)
        line(&f->page, 50, 100 + 12.0f * (float)i, "Words of a page that is one of very many pages.");
    struct sheaf_value *values = calloc(MANY, sizeof *values);
    for (uint32_t i = 0; i < MANY; i++) {
        f->page.number = i + 1;
        values[i] = record_of(&f->page);
    }
    double seconds[2];
    for (int round = 0; round < 2; round++) {
        struct sheaf_list list = {.values = values, .count = round ? MANY : MANY / 4}, none = {0};
        struct sheaf_value inputs[3] = {
            {.kind = SHEAF_RECORD, .data = f->info.data, .length_bytes = f->info.size},
            host_list_value(&list, SHEAF_RECORD),
            host_list_value(&none, SHEAF_RECORD),
        };
        clock_t began = clock();
        host_run(&operator_doc_assemble, f->operator_state, (struct host_keys){1, 0}, inputs, 3, &f->run);
        seconds[round] = (double)(clock() - began) / CLOCKS_PER_SEC;
        assert_int_equal(f->run.answered, 1);
        host_run_fini(&f->run);
    }
    memset(&f->run, 0, sizeof f->run);
    print_message("%d pages: %.0f ms, %d pages: %.0f ms\n", MANY / 4, seconds[0] * 1e3, MANY, seconds[1] * 1e3);
    assert_true(seconds[1] < 12 * seconds[0] + 0.2); /* quadratic would be 16 */
    for (uint32_t i = 0; i < MANY; i++)
        free((void *)values[i].data);
    free(values);
}

static void assert_escaped(const char *text, bool at_start, const char *expected)
{
    struct buffer buffer = {0};
    markdown_escape(&buffer, text, strlen(text), at_start);
    buffer_append_char(&buffer, 0);
    assert_string_equal(buffer.data, expected);
    buffer_fini(&buffer);
}

static void test_escape(void **state)
{
    assert_escaped("# no heading", true, "\\# no heading");
    assert_escaped("# inside", false, "# inside");
    assert_escaped("1. no list", true, "1\\. no list");
    assert_escaped("1.5 is a number", true, "1.5 is a number");
    assert_escaped("- no list", true, "\\- no list");
    assert_escaped("-5 degrees", true, "-5 degrees");
    assert_escaped("> no quote", true, "\\> no quote");
    assert_escaped("--- no rule", true, "\\--- no rule");
    assert_escaped("snake_case and _emphasis_", false, "snake_case and \\_emphasis\\_");
    assert_escaped("2*3*4 `code` ~~x~~", false, "2\\*3\\*4 \\`code\\` \\~\\~x\\~\\~");
    assert_escaped("<b>bold</b> 1 < 2", false, "\\<b>bold\\</b> 1 < 2");
    assert_escaped("[1] and [link](x)", false, "[1] and [link\\](x)");
    assert_escaped("AT&T &amp; &#65;", false, "AT&T \\&amp; \\&#65;");
    assert_escaped("C:\\dir \\*", false, "C:\\dir \\\\\\*");
    assert_escaped("costs $5 or 5 $ now", false, "costs \\$5 or 5 $ now");
    assert_escaped("two\nlines", false, "two lines");
}

/* ---- real files ---- */

/* The Markdown of a file of the corpus, or NULL. */
static char *markdown_of(struct fixture *f, const char *relative)
{
    const char *path = host_corpus_path(relative);
    const struct pdfium *pdfium;
    char error[1024];
    size_t bytes;
    if (!path || pdfium_load(NULL, error, sizeof error, &pdfium))
        return NULL;
    uint8_t *data = host_file_read(path, &bytes);
    assert_non_null(data);
    FPDF_DOCUMENT document = pdfium->FPDF_LoadMemDocument64(data, bytes, NULL);
    assert_non_null(document);
    int count = pdfium->FPDF_GetPageCount(document);
    for (int index = 0; index < count && index < PAGES_MAX; index++) {
        FPDF_PAGE page = pdfium->FPDF_LoadPage(document, index);
        FPDF_TEXTPAGE text = pdfium->FPDFText_LoadPage(page);
        assert_int_equal(page_text_extract(pdfium, page, text, (uint32_t)index + 1, &f->page), 0);
        add_page(f);
        pdfium->FPDFText_ClosePage(text);
        pdfium->FPDF_ClosePage(page);
    }
    pdfium->FPDF_CloseDocument(document);
    free(data);
    run(f);
    assert_int_equal(f->run.answered, 1);
    json_decref(json_of(f));
    return strndup(f->run.outputs[0].data, f->run.outputs[0].length_bytes);
}

static void assert_file_has(void **state, const char *relative, const char *const *parts)
{
    char *markdown = markdown_of(*state, relative);
    if (!markdown) {
        print_message("no corpus or no pdfium: set SHEAF_SHARED and SHEAF_PDFIUM\n");
        skip();
    }
    const char *from = markdown;
    for (; *parts; parts++) { /* in this order */
        const char *at = strstr(from, *parts);
        if (!at)
            fail_msg("%s: \"%s\" is missing or out of order", relative, *parts);
        from = at;
    }
    free(markdown);
}

static void test_two_column_paper(void **state)
{
    static const char *const parts[] = {
        "# The response of flow duration curves to afforestation\n",
        "represents a potentially significant alteration of catchment evapotranspiration (ET). Using",
        "prediction of the long-term hydrologic impact",
        NULL,
    };
    assert_file_has(state, "pdf/demo1.pdf", parts);
}

static void test_two_column_latex(void **state)
{
    static const char *const parts[] = {"# Two-Column Document with Lorem Ipsum\n",
                                        "## Abstract\n\nThis is a sample document with two columns filled",
                                        "pellentesque ante. Phasellus adipiscing", NULL};
    assert_file_has(state, "pdf/multicolumn.pdf", parts);
}

static void test_arabic(void **state)
{
    static const char *const parts[] = {
        "\xd8\xaa\xd8\xad\xd8\xb3\xd9\x8a\xd9\x86 \xd8\xa7\xd9\x84\xd8\xa5\xd9\x86\xd8\xaa\xd8\xa7"
        "\xd8\xac\xd9\x8a\xd8\xa9 \xd9\x88\xd8\xad\xd9\x84",
        NULL};
    assert_file_has(state, "pdf/right_to_left_01.pdf", parts);
}

static void test_vertical_japanese(void **state)
{
    static const char *const parts[] = {"\xe3\x81\x82\xe3\x81\x84\xe3\x81\x86\xe3\x81\x88\xe3\x81\x8a",
                                        "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e", NULL};
    assert_file_has(state, "pdf/vertical.pdf", parts);
}

static void test_emoji(void **state)
{
    static const char *const parts[] = {"\xf0\x9f\x91\xa9\xf0\x9f\x8f\xbd\xe2\x80\x8d\xf0\x9f\x9a\x92", NULL};
    assert_file_has(state, "pdf/Grapheme clusters emoji.pdf", parts);
}

static void test_turned_page(void **state)
{
    static const char *const parts[] = {"# Edgar, King of England\n",
                                        "was King of the English from 959 until his death", NULL};
    assert_file_has(state, "pdf/edgar-rotated90.pdf", parts);
}

#define UNIT(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT(test_golden),
        UNIT(test_page_break),
        UNIT(test_failed_pages),
        UNIT(test_missing_images),
        UNIT(test_ocr_replaces),
        UNIT(test_near_duplicates),
        UNIT(test_no_pages),
        UNIT(test_refuses_other_records),
        UNIT(test_many_pages),
        cmocka_unit_test(test_escape),
        UNIT(test_two_column_paper),
        UNIT(test_two_column_latex),
        UNIT(test_arabic),
        UNIT(test_vertical_japanese),
        UNIT(test_emoji),
        UNIT(test_turned_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
