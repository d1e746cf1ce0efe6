/* SPDX-License-Identifier: Apache-2.0 */
/* Enumeration of sources: order, names, links, loops, what is passed over, lists that come slowly. */
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "sources.h"

static char folder[] = "sources-XXXXXX";

static void make_file(const char *path, const char *content)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
}

static void make_folder(const char *path)
{
    assert_int_equal(mkdir(path, 0755), 0);
}

static int enter(void **state)
{
    return mkdtemp(folder) == NULL ? -1 : chdir(folder);
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *at)
{
    return remove(path);
}

static int leave(void **state)
{
    return chdir("..") | nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* All sources as "path=name" lines; a problem as "path!". */
static char *list_all(struct sources *sources)
{
    struct text text = {0};
    struct source source;
    int status;
    while ((status = sources_next(sources, &source)) == SOURCES_ONE) {
        text_adds(&text, source.path);
        if (source.problem != NULL)
            text_adds(&text, "!");
        else
            text_addf(&text, "=%s", source.name);
        text_adds(&text, "\n");
    }
    assert_int_equal(status, SOURCES_END);
    return text.data == NULL ? must_copy("") : text.data;
}

static void assert_sources(const struct sources_options *options, const char *own_output, const char *wanted)
{
    struct sources *sources;
    struct stat info;
    struct text error = {0};
    assert_int_equal(sources_open(options, &sources, &error), 0);
    if (own_output != NULL) {
        assert_int_equal(stat(own_output, &info), 0);
        sources_own_output(sources, &info);
    }
    char *all = list_all(sources);
    assert_string_equal(all, wanted);
    free(all);
    sources_close(sources);
}

static struct text_list words(const char *first, ...)
{
    struct text_list list = {0};
    va_list values;
    va_start(values, first);
    for (const char *word = first; word != NULL; word = va_arg(values, const char *))
        text_list_add(&list, word);
    va_end(values);
    return list;
}

static void folders_are_walked_in_order_of_bytes(void **state)
{
    make_folder("walk");
    make_folder("walk/b");
    make_folder("walk/.git");
    make_file("walk/.git/x", "");
    make_file("walk/.hidden", "");
    make_file("walk/b/2.pdf", "22");
    make_file("walk/b/10.pdf", "1");
    make_file("walk/a.pdf", "");
    make_file("walk/caf\xe9 \n.pdf", "");
    make_file("walk/\xc3\xbc.txt", "");
    assert_int_equal(mkfifo("walk/pipe", 0600), 0);
    struct text_list inputs = words("walk/", NULL);
    struct sources_options options = {.inputs = &inputs, .recursive = true};
    assert_sources(&options, NULL,
                   "walk/a.pdf=a.pdf\nwalk/b/10.pdf=b/10.pdf\nwalk/b/2.pdf=b/2.pdf\n"
                   "walk/caf\xe9 \n.pdf=caf\xe9 \n.pdf\nwalk/\xc3\xbc.txt=\xc3\xbc.txt\n");
    options.recursive = false;
    assert_sources(&options, NULL,
                   "walk/a.pdf=a.pdf\nwalk/caf\xe9 \n.pdf=caf\xe9 \n.pdf\nwalk/\xc3\xbc.txt=\xc3\xbc.txt\n");
    struct text_list includes = words("*.pdf", NULL), excludes = words("1*", NULL);
    options.recursive = true;
    options.includes = &includes;
    options.excludes = &excludes;
    assert_sources(&options, NULL, "walk/a.pdf=a.pdf\nwalk/b/2.pdf=b/2.pdf\nwalk/caf\xe9 \n.pdf=caf\xe9 \n.pdf\n");
    text_list_free(&includes);
    text_list_free(&excludes);
    text_list_free(&inputs);
}

static void links_to_files_are_followed_and_to_folders_not(void **state)
{
    make_folder("links");
    make_folder("links/deep");
    make_file("links/deep/file", "");
    assert_int_equal(symlink("..", "links/deep/loop"), 0);
    assert_int_equal(symlink("deep/file", "links/to-file"), 0);
    assert_int_equal(symlink("nowhere", "links/dangling"), 0);
    assert_int_equal(symlink("links", "links-alias"), 0);
    struct text_list inputs = words("links", NULL);
    struct sources_options options = {.inputs = &inputs, .recursive = true};
    assert_sources(&options, NULL, "links/dangling!\nlinks/deep/file=deep/file\nlinks/to-file=to-file\n");
    text_list_free(&inputs);
    inputs = words("links-alias", NULL); /* named itself: followed */
    assert_sources(&options, NULL,
                   "links-alias/dangling!\nlinks-alias/deep/file=deep/file\nlinks-alias/to-file=to-file\n");
    text_list_free(&inputs);
}

static void our_output_and_hidden_files_are_passed_over_unless_named(void **state)
{
    make_folder("own");
    make_folder("own/out");
    make_file("own/out/a.md", "");
    make_folder("own/older"); /* the results of another run */
    make_folder("own/older/.sheaf");
    make_file("own/older/.sheaf/journal", "");
    make_file("own/older/b.md", "");
    make_file("own/a", "");
    make_file("own/.b", "");
    struct text_list inputs = words("own", NULL);
    struct sources_options options = {.inputs = &inputs, .recursive = true};
    assert_sources(&options, "own/out", "own/a=a\n");
    text_list_free(&inputs);
    inputs = words("own/.b", NULL);
    assert_sources(&options, NULL, "own/.b=.b\n");
    text_list_free(&inputs);
}

static void several_inputs_share_the_deepest_folder(void **state)
{
    make_folder("many");
    make_folder("many/x");
    make_folder("many/y");
    make_folder("many/x-1");
    make_file("many/x/a.pdf", "");
    make_file("many/y/a.pdf", "");
    make_file("many/x-1/[z].pdf", "");
    struct text_list inputs = words("many/y", "many/x/a.pdf", "many/x-1/[z].pdf", "./many//x/a.pdf", NULL);
    struct sources_options options = {.inputs = &inputs, .recursive = true};
    assert_sources(&options, NULL, "many/y/a.pdf=y/a.pdf\nmany/x/a.pdf=x/a.pdf\nmany/x-1/[z].pdf=x-1/[z].pdf\n");
    text_list_free(&inputs);
    inputs = words("many/*/a.pdf", NULL);
    assert_sources(&options, NULL, "many/x/a.pdf=x/a.pdf\nmany/y/a.pdf=y/a.pdf\n");
    text_list_free(&inputs);
    inputs = words("many/x/a.pdf", NULL);
    assert_sources(&options, NULL, "many/x/a.pdf=a.pdf\n");
    text_list_free(&inputs);
}

static void inputs_that_do_not_exist_or_are_nested_are_refused(void **state)
{
    make_folder("bad");
    make_folder("bad/in");
    make_file("bad-1", "");
    static const char *const wrong[][2] = {{"missing", "No such file"},
                                           {"bad*/none", "nothing matches"},
                                           {"bad/in", "lies inside bad"},
                                           {"bad/../bad/in", "lies inside bad"},
                                           {"", "empty path"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct text_list inputs = words("bad", "bad-1", wrong[i][0], NULL);
        struct sources_options options = {.inputs = &inputs, .recursive = true};
        struct sources *sources;
        struct text error = {0};
        int status = sources_open(&options, &sources, &error);
        assert_int_equal(status, strchr(wrong[i][0], '*') ? SHEAF_E_INPUT : SHEAF_E_USAGE);
        assert_non_null(strstr(error.data, wrong[i][1]));
        text_free(&error);
        text_list_free(&inputs);
    }
}

static void lists_are_read_to_their_end_and_what_is_missing_is_a_source(void **state)
{
    make_file("listed", "123");
    make_file("list", "./listed\n\n.//listed\nmissing\nlisted");
    struct sources_options options = {.files_from = "list"};
    assert_sources(&options, NULL, "./listed=listed\n.//listed=listed\nmissing!\nlisted=listed\n");
    FILE *file = fopen("list0", "w");
    fwrite("listed\0mis\nsing\0", 1, 16, file);
    fclose(file);
    options = (struct sources_options){.files_from = "list0", .null_separated = true};
    assert_sources(&options, NULL, "listed=listed\nmis\nsing!\n");
    struct sources *sources;
    struct text error = {0};
    options.files_from = "no-list";
    assert_int_equal(sources_open(&options, &sources, &error), SHEAF_E_USAGE);
    text_free(&error);
}

static void a_slow_list_makes_nobody_wait(void **state)
{
    int ends[2], standard_input = dup(STDIN_FILENO);
    assert_int_equal(pipe(ends), 0);
    assert_true(dup2(ends[0], STDIN_FILENO) >= 0);
    close(ends[0]);
    make_file("slow", "1");
    struct sources_options options = {.files_from = "-"};
    struct sources *sources;
    struct source source;
    struct text error = {0};
    assert_int_equal(sources_open(&options, &sources, &error), 0);
    assert_int_equal(sources_next(sources, &source), SOURCES_WAIT);
    assert_int_equal(write(ends[1], "sl", 2), 2);
    assert_int_equal(sources_next(sources, &source), SOURCES_WAIT); /* half a name is none */
    assert_int_equal(write(ends[1], "ow\nslo", 6), 6);
    assert_int_equal(sources_next(sources, &source), SOURCES_ONE);
    assert_string_equal(source.path, "slow");
    assert_int_equal(source.size_bytes, 1);
    assert_int_equal(sources_next(sources, &source), SOURCES_WAIT);
    assert_int_equal(sources_descriptor(sources), STDIN_FILENO);
    assert_int_equal(write(ends[1], "w", 1), 1);
    close(ends[1]);
    assert_int_equal(sources_next(sources, &source), SOURCES_ONE);
    assert_string_equal(source.path, "slow");
    assert_int_equal(sources_next(sources, &source), SOURCES_END);
    sources_close(sources);
    dup2(standard_input, STDIN_FILENO);
    close(standard_input);
}

static void folders_that_cannot_be_read_are_sources_with_a_problem(void **state)
{
    if (geteuid() == 0)
        skip(); /* root reads everything */
    make_folder("locked");
    make_folder("locked/in");
    make_file("locked/z", "");
    assert_int_equal(chmod("locked/in", 0), 0);
    struct text_list inputs = words("locked", NULL);
    struct sources_options options = {.inputs = &inputs, .recursive = true};
    assert_sources(&options, NULL, "locked/in!\nlocked/z=z\n");
    chmod("locked/in", 0700);
    text_list_free(&inputs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(folders_are_walked_in_order_of_bytes),
        cmocka_unit_test(links_to_files_are_followed_and_to_folders_not),
        cmocka_unit_test(our_output_and_hidden_files_are_passed_over_unless_named),
        cmocka_unit_test(several_inputs_share_the_deepest_folder),
        cmocka_unit_test(inputs_that_do_not_exist_or_are_nested_are_refused),
        cmocka_unit_test(lists_are_read_to_their_end_and_what_is_missing_is_a_source),
        cmocka_unit_test(a_slow_list_makes_nobody_wait),
        cmocka_unit_test(folders_that_cannot_be_read_are_sources_with_a_problem),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
