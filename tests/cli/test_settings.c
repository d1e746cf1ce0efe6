/* SPDX-License-Identifier: Apache-2.0 */
/* Settings: which of flag, environment, file and default wins, what is refused, what the documents flags become. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "settings.h"

static char file_path[] = "settings-XXXXXX";
static char config_variable[64];

static void write_file(const char *content)
{
    FILE *file = fopen(file_path, "w");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
}

static int read_words(struct settings *settings, const char *const *environment, struct text *error, ...)
{
    char name[] = "sheaf", *words[32] = {name};
    int count = 1;
    va_list values;
    va_start(values, error);
    while ((words[count] = va_arg(values, char *)) != NULL)
        count++;
    va_end(values);
    return settings_read(settings, count, words, environment, error);
}

static int make_file(void **state)
{
    int descriptor = mkstemp(file_path);
    if (descriptor < 0)
        return -1;
    close(descriptor);
    snprintf(config_variable, sizeof config_variable, "SHEAF_CONFIG=%s", file_path);
    return setenv("HOME", "/nonexistent", 1) | unsetenv("XDG_CONFIG_HOME");
}

static int remove_file(void **state)
{
    return unlink(file_path);
}

static void flag_wins_over_environment_over_file_over_default(void **state)
{
    struct settings settings;
    struct text error = {0};
    const char *environment[] = {config_variable, "SHEAF_WORKERS=5", "SHEAF_MEMORY=2G", NULL};
    write_file("# mine\nworkers: 9\nmemory: 9G\nlang: deu\nrecursive: false\n");
    assert_int_equal(read_words(&settings, environment, &error, "run", "documents", "--workers", "3", NULL), 0);
    assert_int_equal(settings_number(&settings, SETTING_WORKERS), 3);
    assert_int_equal(settings.values[SETTING_WORKERS].origin, FROM_FLAG);
    assert_int_equal(settings_number(&settings, SETTING_MEMORY), UINT64_C(2) << 30);
    assert_int_equal(settings.values[SETTING_MEMORY].origin, FROM_ENVIRONMENT);
    assert_string_equal(settings_text(&settings, SETTING_LANG), "deu");
    assert_int_equal(settings.values[SETTING_LANG].origin, FROM_FILE);
    assert_non_null(strstr(settings.values[SETTING_LANG].where, ":4"));
    assert_true(settings_is(&settings, SETTING_RECURSIVE, "no"));
    assert_string_equal(settings_text(&settings, SETTING_DURABILITY), "full");
    assert_false(settings_given(&settings, SETTING_DURABILITY));
    settings_free(&settings);
}

static void assert_refused(const char *file, const char *variable, const char *flag, const char *value,
                           const char *wanted)
{
    struct settings settings;
    struct text error = {0};
    const char *environment[] = {config_variable, variable, NULL};
    write_file(file);
    assert_int_equal(read_words(&settings, environment, &error, "run", "documents", flag, value, NULL), SHEAF_E_USAGE);
    if (strstr(text_string(&error), wanted) == NULL)
        fail_msg("'%s' does not contain '%s'", text_string(&error), wanted);
    text_free(&error);
    settings_free(&settings);
}

static void what_is_unknown_or_unfit_is_refused_with_a_suggestion(void **state)
{
    assert_refused("wrokers: 3\n", NULL, NULL, NULL, "did you mean workers?");
    assert_refused("workers: many\n", NULL, NULL, NULL, ":1: 'many' does not fit");
    assert_refused("- workers\n", NULL, NULL, NULL, "setting: value");
    assert_refused("workers: [1]\n", NULL, NULL, NULL, "setting: value");
    assert_refused("output: x\n", NULL, NULL, NULL, "no such setting");
    assert_refused("", "SHEAF_IMAGES=gif", NULL, NULL, "SHEAF_IMAGES: 'gif' does not fit: want none|jpeg|png");
    assert_refused("", NULL, "--wrokers=3", NULL, "did you mean --workers?");
    assert_refused("", NULL, "--workers", NULL, "a value is missing");
    assert_refused("", NULL, "--workers", "-1", "does not fit");
    assert_refused("", NULL, "--memory", "2Q", "does not fit");
    assert_refused("", NULL, "--timeout", "0", "does not fit");
    assert_refused("", NULL, "--allow-failures", "%", "does not fit");
    assert_refused("", NULL, "-z", NULL, "no such option");
}

static void documents_flags_become_overrides_and_set_wins(void **state)
{
    struct settings settings;
    struct text error = {0};
    struct text_list overrides = {0};
    const char *environment[] = {NULL};
    int status = read_words(&settings, environment, &error, "run", "documents", "--lang", "eng+deu", "--images", "none",
                            "--set", "ocr.lang=fra", NULL);
    assert_int_equal(status, 0);
    assert_int_equal(settings_overrides(&settings, &overrides, &error), 0);
    bool has_lang = false, has_format = false;
    for (size_t i = 0; i < overrides.count; i++) {
        has_lang |= strcmp(overrides.items[i], "ocr.lang=eng+deu") == 0;
        has_format |= strncmp(overrides.items[i], "encode.format=", 14) == 0;
    }
    assert_true(has_lang);
    assert_false(has_format); /* no images: no format for them */
    assert_string_equal(overrides.items[overrides.count - 1], "ocr.lang=fra");
    text_list_free(&overrides);
    settings_free(&settings);
}

/* How many overrides set `option`. */
static size_t overrides_of(const char *option, const char *set)
{
    struct settings settings;
    struct text error = {0};
    struct text_list overrides = {0};
    const char *environment[] = {NULL};
    size_t length = strlen(option), count = 0;
    assert_int_equal(
        read_words(&settings, environment, &error, "run", "documents", "--ocr", "never", "--set", set, NULL), 0);
    assert_int_equal(settings_overrides(&settings, &overrides, &error), 0);
    for (size_t i = 0; i < overrides.count; i++)
        count += strncmp(overrides.items[i], option, length) == 0 && overrides.items[i][length] == '=';
    text_list_free(&overrides);
    settings_free(&settings);
    return count;
}

/* Tesseract is not loaded where it is never used. That it is used all the same --set may say, with the last word. */
static void what_only_saves_work_is_left_out_where_set_says_otherwise(void **state)
{
    assert_int_equal(overrides_of("?ocr.load", "measure.blank=dust"), 1);
    assert_int_equal(overrides_of("?ocr.load", "text.ocr=always"), 0);
    assert_int_equal(overrides_of("text.ocr", "text.ocr=always"), 2);
}

static void a_password_file_becomes_a_list_for_every_call_that_opens(void **state)
{
    struct settings settings;
    struct text error = {0};
    struct text_list overrides = {0};
    const char *environment[] = {NULL};
    write_file("one\r\n\ntwo words\nthree");
    assert_int_equal(read_words(&settings, environment, &error, "run", "documents", "--passwords", file_path, NULL), 0);
    assert_int_equal(settings_overrides(&settings, &overrides, &error), 0);
    assert_int_equal(overrides.count, 4);
    assert_string_equal(overrides.items[0], "open.passwords=one,two words,three");
    text_list_free(&overrides);
    write_file("a,b\n");
    assert_int_equal(settings_overrides(&settings, &overrides, &error), SHEAF_E_USAGE);
    assert_non_null(strstr(error.data, "comma"));
    text_free(&error);
    text_list_free(&overrides);
    settings_free(&settings);
}

static void inputs_may_follow_each_other(void **state)
{
    struct settings settings;
    struct text error = {0};
    const char *environment[] = {NULL};
    int status = read_words(&settings, environment, &error, "run", "documents", "--input", "a", "b", "c", "-o", "out",
                            "-i", "d", NULL);
    assert_int_equal(status, 0);
    assert_int_equal(settings.inputs.count, 4);
    assert_int_equal(settings.words.count, 2);
    assert_string_equal(settings_text(&settings, SETTING_OUTPUT), "out");
    settings_free(&settings);
}

static void failures_are_allowed_by_count_or_percentage(void **state)
{
    static const struct {
        const char *value;
        uint64_t failures, inputs;
        bool allowed;
    } cases[] = {{"0", 0, 10, true},   {"0", 1, 10, false},   {"2", 2, 10, true},     {"2", 3, 10, false},
                 {"10%", 1, 10, true}, {"10%", 2, 10, false}, {"100%", 10, 10, true}, {"0%", 1, 1000, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct settings settings;
        struct text error = {0};
        const char *environment[] = {NULL};
        assert_int_equal(
            read_words(&settings, environment, &error, "run", "x", "--allow-failures", cases[i].value, NULL), 0);
        assert_int_equal(settings_failures_allowed(&settings, cases[i].failures, cases[i].inputs), cases[i].allowed);
        settings_free(&settings);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flag_wins_over_environment_over_file_over_default),
        cmocka_unit_test(what_is_unknown_or_unfit_is_refused_with_a_suggestion),
        cmocka_unit_test(documents_flags_become_overrides_and_set_wins),
        cmocka_unit_test(what_only_saves_work_is_left_out_where_set_says_otherwise),
        cmocka_unit_test(a_password_file_becomes_a_list_for_every_call_that_opens),
        cmocka_unit_test(inputs_may_follow_each_other),
        cmocka_unit_test(failures_are_allowed_by_count_or_percentage),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
