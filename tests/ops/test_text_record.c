/* SPDX-License-Identifier: Apache-2.0 */
/* Page records: what is encoded comes back, what is damaged is refused. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "page_builder.h"

static void fill(struct page_content *content)
{
    page_start(content, 7);
    content->rotation = 90;
    content->confidence = 91.25f;
    content->source = PAGE_SOURCE_OCR;
    content->fonts_substituted = 2;
    content->unmapped = 3;
    strcpy(content->image_path, "name.pages/00007.jpg");
    line_at(content, 50, 100, 12, PAGE_BOLD, 0, "A title");
    line_at(content, 50, 120, 10, 0, PAGE_RIGHT_TO_LEFT, "\xd7\xa9\xd7\x9c\xd7\x95\xd7\x9d");
    page_line_begin(content, 0);
    struct page_box box = {10, 130, 20, 140};
    page_span_append(content, "two", 3, &box, 10, 0);
    page_span_append(content, "spans", 5, &box, 10, PAGE_ITALIC | PAGE_SPACE_BEFORE);
    page_line_end(content, 138);
}

static void *encode(const struct page_content *content, size_t *ret_bytes)
{
    size_t bound = page_record_bound(content);
    void *data = malloc(bound);
    assert_int_equal(page_record_encode(content, data, bound, ret_bytes), 0);
    return data;
}

static void test_round_trip(void **state)
{
    struct page_content a = {0}, b = {0};
    size_t bytes;
    fill(&a);
    void *data = encode(&a, &bytes);
    assert_int_equal(page_record_decode(data, bytes, &b), 0);
    assert_int_equal(b.number, 7);
    assert_int_equal(b.rotation, 90);
    assert_int_equal(b.source, PAGE_SOURCE_OCR);
    assert_true(b.confidence == 91.25f && b.width == 600 && b.height == 800);
    assert_int_equal(b.fonts_substituted, 2);
    assert_int_equal(b.unmapped, 3);
    assert_string_equal(b.image_path, a.image_path);
    assert_int_equal(b.text_bytes, a.text_bytes);
    assert_memory_equal(b.text, a.text, a.text_bytes);
    assert_int_equal(b.span_count, 4);
    assert_int_equal(b.line_count, 3);
    assert_memory_equal(b.spans, a.spans, a.span_count * sizeof *a.spans);
    assert_memory_equal(b.lines, a.lines, a.line_count * sizeof *a.lines);
    free(data);
    page_content_fini(&a);
    page_content_fini(&b);
}

static void test_empty_page(void **state)
{
    struct page_content a = {0}, b = {0};
    size_t bytes;
    page_start(&a, 1);
    a.source = PAGE_SOURCE_NONE;
    a.confidence = -1;
    assert_true(page_content_blank(&a));
    void *data = encode(&a, &bytes);
    assert_int_equal(page_record_decode(data, bytes, &b), 0);
    assert_int_equal(b.line_count, 0);
    assert_true(b.confidence < 0);
    free(data);
    page_content_fini(&a);
    page_content_fini(&b);
}

static void test_small_buffer(void **state)
{
    struct page_content a = {0};
    size_t bytes, unused = 77;
    fill(&a);
    void *data = encode(&a, &bytes);
    for (size_t room = 0; room < bytes; room++)
        assert_int_equal(page_record_encode(&a, data, room, &unused), -ENOSPC);
    assert_int_equal(unused, 77);
    assert_int_equal(page_record_encode(&a, data, bytes, &unused), 0);
    free(data);
    page_content_fini(&a);
}

/* Appending repairs text and numbers, so that nothing built can fail to decode. */
static void test_builder_repairs(void **state)
{
    struct page_content a = {0}, b = {0};
    struct page_box box = {NAN, -INFINITY, 5, INFINITY};
    size_t bytes;
    page_start(&a, 1);
    page_line_begin(&a, ~0u);
    assert_int_equal(page_span_append(&a, "a\xff\xc3z", 4, &box, NAN, ~0u), 0);
    page_line_end(&a, NAN);
    page_line_begin(&a, 0);
    page_line_end(&a, 0); /* no spans: no line */
    assert_int_equal(a.line_count, 1);
    assert_int_equal(a.text_bytes, 8);
    assert_memory_equal(a.text, "a\xef\xbf\xbd\xef\xbf\xbdz", 8);
    void *data = encode(&a, &bytes);
    assert_int_equal(page_record_decode(data, bytes, &b), 0);
    free(data);
    page_content_fini(&a);
    page_content_fini(&b);
}

/* Everything the rest of the program relies on. */
static void check_sound(const struct page_content *content)
{
    uint32_t span = 0, offset = 0;
    for (uint32_t i = 0; i < content->line_count; i++) {
        assert_int_equal(content->lines[i].first_span, span);
        assert_true(content->lines[i].span_count > 0);
        span += content->lines[i].span_count;
    }
    assert_int_equal(span, content->span_count);
    for (uint32_t i = 0; i < content->span_count; i++) {
        assert_int_equal(content->spans[i].text_offset, offset);
        assert_true(content->spans[i].text_bytes > 0);
        assert_true(isfinite(content->spans[i].box.x0) && isfinite(content->spans[i].font_size));
        offset += content->spans[i].text_bytes;
    }
    assert_int_equal(offset, content->text_bytes);
}

static void test_truncated(void **state)
{
    struct page_content a = {0}, b = {0};
    size_t bytes;
    fill(&a);
    char *data = encode(&a, &bytes);
    for (size_t length = 0; length < bytes; length++) {
        assert_true(page_record_decode(data, length, &b) < 0);
        assert_int_equal(b.line_count, 0);
    }
    data = realloc(data, bytes + 1);
    data[bytes] = 0;
    assert_int_equal(page_record_decode(data, bytes + 1, &b), -EBADMSG);
    free(data);
    page_content_fini(&a);
    page_content_fini(&b);
}

static void test_damaged(void **state)
{
    struct page_content a = {0}, b = {0};
    size_t bytes;
    unsigned seed = (unsigned)time(NULL);
    print_message("seed %u\n", seed);
    srand(seed);
    fill(&a);
    unsigned char *data = encode(&a, &bytes);
    unsigned char *copy = malloc(bytes);
    unsigned refused = 0;
    for (int round = 0; round < 20000; round++) {
        memcpy(copy, data, bytes);
        for (int i = rand() % 3; i >= 0; i--)
            copy[(size_t)rand() % bytes] = (unsigned char)rand();
        int status = page_record_decode(copy, bytes, &b);
        refused += status != 0;
        assert_true(status == 0 || status == -EBADMSG || status == -ENOMEM);
        check_sound(&b);
    }
    assert_true(refused > 1000);
    free(data);
    free(copy);
    page_content_fini(&a);
    page_content_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),      cmocka_unit_test(test_empty_page), cmocka_unit_test(test_small_buffer),
        cmocka_unit_test(test_builder_repairs), cmocka_unit_test(test_truncated),  cmocka_unit_test(test_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
