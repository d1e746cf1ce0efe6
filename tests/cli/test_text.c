/* SPDX-License-Identifier: Apache-2.0 */
/* Strings, JSON of bytes, suggestions, output patterns, manifest lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pattern.h"
#include "text.h"

static void assert_json(const char *bytes, size_t length, const char *wanted)
{
    struct text text = {0};
    text_add_json(&text, bytes, length);
    assert_string_equal(text.data, wanted);
    text_free(&text);
}

static void json_keeps_utf8_and_escapes_the_rest(void **state)
{
    assert_json("a\"b\\c\n\x01", 7, "\"a\\\"b\\\\c\\n\\u0001\"");
    assert_json("\xc3\xbc\xe6\x96\x87\xf0\x9f\x98\x80", 9, "\"\xc3\xbc\xe6\x96\x87\xf0\x9f\x98\x80\"");
    assert_json("", 0, "\"\"");
}

static void json_writes_each_wrong_byte_as_a_lone_surrogate(void **state)
{
    assert_json("a\xff\x80z", 4, "\"a\\udcff\\udc80z\"");
    assert_json("\xc0\xaf", 2, "\"\\udcc0\\udcaf\"");                       /* overlong */
    assert_json("\xed\xa0\x80", 3, "\"\\udced\\udca0\\udc80\"");            /* a surrogate in UTF-8 */
    assert_json("\xf4\x90\x80\x80", 4, "\"\\udcf4\\udc90\\udc80\\udc80\""); /* above U+10FFFF */
    assert_json("\xe6\x96", 2, "\"\\udce6\\udc96\"");                       /* cut off */
    assert_json("\xc3\xbc\xc3", 3, "\"\xc3\xbc\\udcc3\"");
}

static void the_nearest_word_is_suggested_or_none(void **state)
{
    const char *const words[] = {"workers", "memory", "output", NULL};
    assert_string_equal(text_nearest("wrokers", words), "workers");
    assert_string_equal(text_nearest("memroy", words), "memory");
    assert_null(text_nearest("zzzzzz", words));
    assert_null(text_nearest("x", words));
}

static void assert_expands(const char *pattern, const uint64_t *coordinate, uint32_t depth, const char *wanted)
{
    const char *reason = "";
    struct text path = {0};
    assert_int_equal(pattern_check(pattern, depth, &reason), 0);
    pattern_expand(pattern, "a/b.pdf", coordinate, depth, &path);
    assert_string_equal(path.data, wanted);
    text_free(&path);
}

static void patterns_expand(void **state)
{
    const uint64_t coordinate[] = {7, 0, 41};
    assert_expands("{name}.md", coordinate, 1, "a/b.pdf.md");
    assert_expands("{name}.pages/{2:05}.jpg", coordinate, 2, "a/b.pdf.pages/00001.jpg");
    assert_expands("x/{name}/{2}-{3:03}", coordinate, 3, "x/a/b.pdf/1-042");
    const uint64_t large[] = {0, UINT64_C(123456789)};
    assert_expands("{name}.{2:03}", large, 2, "a/b.pdf.123456790");
}

static void the_end_of_an_image_path_follows_its_media_type(void **state)
{
    struct text path = {0};
    text_adds(&path, "x/00001.jpg");
    pattern_fit_media_type(&path, "image/jpeg");
    assert_string_equal(path.data, "x/00001.jpg");
    pattern_fit_media_type(&path, "image/png");
    assert_string_equal(path.data, "x/00001.png");
    pattern_fit_media_type(&path, NULL);
    assert_string_equal(path.data, "x/00001.png");
    text_free(&path);
}

static void wrong_patterns_are_refused(void **state)
{
    static const struct {
        const char *pattern;
        uint32_t depth;
    } wrong[] = {
        {"x.md", 1},          {"{name}.jpg", 2}, {"{2:05}.jpg", 2},   {"{name}{3}", 2}, {"{name", 1},
        {"{name}}", 1},       {"{name}{1}", 1},  {"{name}{2:5}", 2},  {"{nom}.md", 1},  {"{name}{2:0}", 2},
        {"{name}{2:099}", 2}, {"{name}{}", 1},   {"{name}{2:0x}", 2}, {"{name}{2}", 3},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *reason = NULL;
        assert_int_equal(pattern_check(wrong[i].pattern, wrong[i].depth, &reason), SHEAF_E_USAGE);
        assert_non_null(reason);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_keeps_utf8_and_escapes_the_rest),
        cmocka_unit_test(json_writes_each_wrong_byte_as_a_lone_surrogate),
        cmocka_unit_test(the_nearest_word_is_suggested_or_none),
        cmocka_unit_test(patterns_expand),
        cmocka_unit_test(the_end_of_an_image_path_follows_its_media_type),
        cmocka_unit_test(wrong_patterns_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
