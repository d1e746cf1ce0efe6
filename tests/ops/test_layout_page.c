/* SPDX-License-Identifier: Apache-2.0 */
/* Layout analysis on pages made by hand: reading order, blocks, hyphens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "ops/layout_document.h"
#include "page_builder.h"

struct fixture {
    struct page_content page;
    struct layout layout;
    struct layout_style style;
    struct buffer text;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    page_start(&f->page, 1);
    f->style.body_size = 10;
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    page_content_fini(&f->page);
    layout_fini(&f->layout);
    buffer_fini(&f->text);
    free(f);
    return 0;
}

/* All blocks as "kind: text" lines. */
static const char *lay_out(struct fixture *f)
{
    assert_int_equal(layout_page(&f->layout, &f->page, &f->style, NULL), 0);
    f->text.length = 0;
    for (uint32_t i = 0; i < f->layout.block_count; i++) {
        const struct layout_block *block = &f->layout.blocks[i];
        buffer_append_text(&f->text, layout_kind_name(block->kind));
        buffer_append_text(&f->text, block->continues ? "+: " : ": ");
        layout_block_text(&f->layout, &f->page, block, &f->text);
        buffer_append_char(&f->text, '\n');
    }
    buffer_append_char(&f->text, 0);
    return f->text.data;
}

#define FULL "words that fill the line of a column well" /* 41 characters: 205 points */

static void test_paragraphs(void **state)
{
    struct fixture *f = *state;
    line(&f->page, 50, 100, "The first paragraph starts with a line that is full and");
    line(&f->page, 50, 112, "ends here.");
    line(&f->page, 50, 124, "The next one follows without space but the line before");
    line(&f->page, 50, 136, "had room for its first word.");
    line(&f->page, 50, 160, "Space above starts a third.");
    assert_string_equal(lay_out(f),
                        "paragraph: The first paragraph starts with a line that is full and ends here.\n"
                        "paragraph: The next one follows without space but the line before had room for its "
                        "first word.\n"
                        "paragraph: Space above starts a third.\n");
}

static void test_indented_paragraphs(void **state)
{
    struct fixture *f = *state;
    line(&f->page, 60, 100, "One paragraph set in at its first line and full, x x");
    line(&f->page, 50, 112, "which goes on at the margin and is just as full, okay");
    line(&f->page, 60, 124, "Another one set in at its first line and full, too, x");
    line(&f->page, 50, 136, "which goes on at the margin.");
    assert_string_equal(lay_out(f),
                        "paragraph: One paragraph set in at its first line and full, x x which goes on at the "
                        "margin and is just as full, okay\n"
                        "paragraph: Another one set in at its first line and full, too, x which goes on at the "
                        "margin.\n");
}

static void two_columns(struct page_content *page, bool interleaved)
{
    char left[100], right[100];
    for (int i = 0; i < 8; i++) {
        snprintf(left, sizeof left, "l%d " FULL "%s", i, i == 7 ? "," : "");
        line(page, 50, 200 + 12.0f * (float)i, left);
        if (interleaved) {
            snprintf(right, sizeof right, "r%d " FULL, i);
            line(page, 320, 200 + 12.0f * (float)i, right);
        }
    }
    for (int i = 0; i < 8 && !interleaved; i++) {
        snprintf(right, sizeof right, "r%d " FULL, i);
        line(page, 320, 200 + 12.0f * (float)i, right);
    }
}

static const char two_columns_text[] =
    "heading: A title over both columns of the page\n"
    "paragraph: l0 " FULL " l1 " FULL " l2 " FULL " l3 " FULL " l4 " FULL " l5 " FULL " l6 " FULL " l7 " FULL ",\n"
    "paragraph+: r0 " FULL " r1 " FULL " r2 " FULL " r3 " FULL " r4 " FULL " r5 " FULL " r6 " FULL " r7 " FULL "\n"
    "paragraph: And a line across the page closes it, from one margin to the other, just as wide as both.\n";

static void test_two_columns(void **state)
{
    struct fixture *f = *state;
    line_at(&f->page, 100, 150, 18, PAGE_BOLD, 0, "A title over both columns of the page");
    two_columns(&f->page, false);
    line(&f->page, 60, 340,
         "And a line across the page closes it, from one margin to the other, just as wide as both.");
    assert_string_equal(lay_out(f), two_columns_text);
}

/* The order in which lines were drawn does not matter. */
static void test_drawn_in_any_order(void **state)
{
    struct fixture *f = *state;
    line(&f->page, 60, 340,
         "And a line across the page closes it, from one margin to the other, just as wide as both.");
    two_columns(&f->page, true);
    line_at(&f->page, 100, 150, 18, PAGE_BOLD, 0, "A title over both columns of the page");
    assert_string_equal(lay_out(f), two_columns_text);
}

static void test_three_columns(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 6; i++) {
        for (int column = 0; column < 3; column++) {
            char text[64];
            snprintf(text, sizeof text, "c%d l%d words that fill the line", column, i);
            line(&f->page, 40 + 180.0f * (float)column, 100 + 12.0f * (float)i, text);
        }
    }
    const char *text = lay_out(f);
    assert_non_null(strstr(text, "c0 l5 words that fill the line\n"));
    assert_true(strstr(text, "c0 l5") < strstr(text, "c1 l0") && strstr(text, "c1 l5") < strstr(text, "c2 l0"));
}

static void test_table_reads_across(void **state)
{
    struct fixture *f = *state;
    static const char *const cells[4][3] = {
        {"State", "Guns", "Total"}, {"Ohio", "12", "120"}, {"Iowa", "7", "70"}, {"Utah", "9", "90"}};
    for (int column = 0; column < 3; column++) {
        for (int row = 0; row < 4; row++)
            line(&f->page, 50 + 150.0f * (float)column, 100 + 14.0f * (float)row, cells[row][column]);
    }
    const char *text = lay_out(f);
    assert_memory_equal(text, "table: State", 12);
    assert_true(strstr(text, "Guns") < strstr(text, "Total") && strstr(text, "Total") < strstr(text, "Ohio"));
    assert_true(strstr(text, "120") < strstr(text, "Iowa"));
}

/* A list of names and a column of text: on other baselines they are columns; on the same ones, rows of a table. */
static void names_beside_text(struct page_content *page, float leading, float down)
{
    char text[64];
    for (int i = 0; i < 9; i++) {
        snprintf(text, sizeof text, "%s %d", i % 3 == 0 ? "STATE" : "  name", i);
        line(page, i % 3 == 0 ? 50 : 75, 100 + down + leading * (float)i, text);
    }
    for (int i = 0; i < 12; i++) {
        snprintf(text, sizeof text, "r%02d " FULL, i);
        line(page, 320, 100 + 12.0f * (float)i, text);
    }
}

static void test_list_beside_text(void **state)
{
    struct fixture *f = *state;
    names_beside_text(&f->page, 13, 3);
    const char *text = lay_out(f);
    assert_true(strstr(text, "name 8") < strstr(text, "r00"));
}

static void test_names_of_a_table(void **state)
{
    struct fixture *f = *state;
    names_beside_text(&f->page, 12, 0);
    const char *text = lay_out(f);
    assert_true(strstr(text, "name 8") > strstr(text, "r00"));
}

static void test_hyphens(void **state)
{
    struct fixture *f = *state;
    line(&f->page, 50, 100, "Words at the end of lines are often hyphen-");
    line(&f->page, 50, 112, "ated, but a compound such as a well-");
    line(&f->page, 50, 124, "known one, state-of-the-");
    line(&f->page, 50, 136, "art or a name like Anglo-");
    line(&f->page, 50, 148, "Saxon and COVID-");
    line(&f->page, 50, 160, "19 keep theirs.");
    assert_string_equal(lay_out(f),
                        "paragraph: Words at the end of lines are often hyphenated, but a compound such as a "
                        "well-known one, state-of-the-art or a name like Anglo-Saxon and COVID-19 keep "
                        "theirs.\n");
}

static void test_headings(void **state)
{
    struct fixture *f = *state;
    f->style.heading_count = 2;
    f->style.heading_sizes[0] = 20;
    f->style.heading_sizes[1] = 14;
    line_at(&f->page, 50, 100, 20, 0, 0, "Title");
    line_at(&f->page, 50, 140, 14, 0, 0, "Section");
    line_at(&f->page, 50, 170, 10, PAGE_BOLD, 0, "Bold heading");
    line(&f->page, 50, 184, "Text of the body.");
    line(&f->page, 50, 210, "2.1 Numbered Heading");
    line(&f->page, 50, 236, "More text of the body.");
    assert_string_equal(lay_out(f), "heading: Title\nheading: Section\nheading: Bold heading\n"
                                    "paragraph: Text of the body.\nheading: 2.1 Numbered Heading\n"
                                    "paragraph: More text of the body.\n");
    const uint32_t levels[] = {1, 2, 3, 0, 4};
    for (int i = 0; i < 5; i++)
        assert_int_equal(f->layout.blocks[i].level, levels[i]);
}

static void test_lists(void **state)
{
    struct fixture *f = *state;
    line(&f->page, 50, 100, "An introduction to it:");
    line(&f->page, 60, 112, "\xe2\x80\xa2 the first item, which is long enough for");
    line(&f->page, 70, 124, "a second line");
    line(&f->page, 60, 136, "\xe2\x80\xa2 the second item");
    line(&f->page, 60, 160, "1. one");
    line(&f->page, 60, 172, "2. two");
    assert_string_equal(lay_out(f), "paragraph: An introduction to it:\n"
                                    "list-item: \xe2\x80\xa2 the first item, which is long enough for a second line\n"
                                    "list-item: \xe2\x80\xa2 the second item\n"
                                    "list-item: 1. one\nlist-item: 2. two\n");
}

static void test_code_keeps_its_lines(void **state)
{
    struct fixture *f = *state;
    line_at(&f->page, 50, 100, 10, PAGE_MONOSPACE, 0, "for (;;)");
    line_at(&f->page, 70, 112, 10, PAGE_MONOSPACE, 0, "work();");
    line(&f->page, 50, 140, "And text.");
    assert_string_equal(lay_out(f), "code: for (;;)\n    work();\nparagraph: And text.\n");
}

static void test_footnote_and_caption(void **state)
{
    struct fixture *f = *state;
    line(&f->page, 50, 100, "Body text of the page.");
    line(&f->page, 50, 300, "Figure 3: What it shows.");
    line_at(&f->page, 50, 700, 8, 0, 0, "1 A note at the foot.");
    assert_string_equal(lay_out(f), "paragraph: Body text of the page.\ncaption: Figure 3: What it shows.\n"
                                    "footnote: 1 A note at the foot.\n");
}

/* No spaces between lines of Chinese; vertical lines follow from right to left. */
static void test_cjk(void **state)
{
    struct fixture *f = *state;
    line(&f->page, 50, 100, "\xe6\x97\xa5\xe6\x9c\xac");
    line(&f->page, 50, 112, "\xe8\xaa\x9e");
    assert_string_equal(lay_out(f), "paragraph: \xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\n");
    page_start(&f->page, 1);
    const struct page_box boxes[2] = {{100, 50, 110, 150}, {120, 50, 130, 150}};
    static const char *const texts[2] = {"\xe8\xaa\x9e", "\xe6\x97\xa5"};
    for (int i = 0; i < 2; i++) {
        page_line_begin(&f->page, PAGE_VERTICAL);
        page_span_append(&f->page, texts[i], 3, &boxes[i], 10, 0);
        page_line_end(&f->page, boxes[i].x0);
    }
    assert_string_equal(lay_out(f), "paragraph: \xe6\x97\xa5\xe8\xaa\x9e\n");
}

/* Parts of a right-to-left line are read from the right, and so are columns. */
static void test_right_to_left(void **state)
{
    struct fixture *f = *state;
    line_at(&f->page, 100, 100, 10, PAGE_RIGHT_TO_LEFT, PAGE_RIGHT_TO_LEFT, "\xd7\x91");
    line_at(&f->page, 112, 100, 10, PAGE_RIGHT_TO_LEFT, PAGE_RIGHT_TO_LEFT, "\xd7\x90");
    assert_string_equal(lay_out(f), "paragraph: \xd7\x90 \xd7\x91\n");
    assert_int_equal(f->layout.blocks[0].flags, PAGE_RIGHT_TO_LEFT);
}

/* A page whose text runs downwards reads like an upright one. */
static void test_turned(void **state)
{
    struct fixture *f = *state;
    static const char *const texts[3] = {"The first line of text that", "is turned by a quarter and", "ends."};
    for (int i = 0; i < 3; i++) {
        float x = 500 - 12.0f * (float)i;
        struct page_box box = {x - 2, 50, x + 8, 50 + text_width(texts[i], 10)};
        page_line_begin(&f->page, 1u << PAGE_TURN_SHIFT);
        page_span_append(&f->page, texts[i], strlen(texts[i]), &box, 10, 0);
        page_line_end(&f->page, 600 - x);
    }
    assert_string_equal(lay_out(f), "paragraph: The first line of text that is turned by a quarter and ends.\n");
}

/* Whatever lines there are: every one lands in exactly one block, in bounded time. */
static void test_random_pages(void **state)
{
    struct fixture *f = *state;
    unsigned seed = (unsigned)time(NULL);
    print_message("seed %u\n", seed);
    srand(seed);
    for (int round = 0; round < 300; round++) {
        page_start(&f->page, 1);
        int count = rand() % 200;
        for (int i = 0; i < count; i++)
            line_at(&f->page, (float)(rand() % 600), (float)(rand() % (round % 2 ? 800 : 40)), (float)(rand() % 30),
                    (uint32_t)rand() & 7, (uint32_t)rand() & PAGE_FLAGS_ALL, i % 7 ? "some text" : "-");
        assert_int_equal(layout_page(&f->layout, &f->page, &f->style, NULL), 0);
        uint32_t rows = 0, items = 0;
        for (uint32_t i = 0; i < f->layout.block_count; i++) {
            assert_int_equal(f->layout.blocks[i].first_row, rows);
            rows += f->layout.blocks[i].row_count;
        }
        assert_int_equal(rows, f->layout.row_count);
        for (uint32_t i = 0; i < rows; i++) {
            assert_int_equal(f->layout.rows[i].first_item, items);
            items += f->layout.rows[i].item_count;
        }
        assert_int_equal(items, count);
        lay_out(f);
    }
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Tens of thousands of lines, in a form that invites cutting: still well under a second. */
static void test_hostile_page(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 40000; i++)
        line_at(&f->page, (float)(i % 200) * 3, (float)(i / 200) * 4, 1, 0, 0, "x");
    double began = seconds();
    assert_int_equal(layout_page(&f->layout, &f->page, &f->style, NULL), 0);
    assert_true(seconds() - began < 5);
}

/* Lines that recur in the margins are running heads and page numbers; a title is not, nor are numbered headings. */
static void test_margins(void **state)
{
    struct fixture *f = *state;
    struct layout_document document = {0};
    uint8_t margin[16];
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t number = 1; number <= 4; number++) {
            char text[32];
            page_start(&f->page, number);
            line(&f->page, 50, 40, "A Running Head");
            snprintf(text, sizeof text, "Chapter %u", number);
            line_at(&f->page, 50, 70, 18, 0, 0, text);
            snprintf(text, sizeof text, "Text %c", 'a' + (int)number);
            for (int i = 0; i < 5; i++)
                line(&f->page, 50, 300 + 12.0f * (float)i, text);
            snprintf(text, sizeof text, "%u", number + 8);
            line(&f->page, 300, 760, text);
            if (pass == 0) {
                assert_int_equal(layout_document_note(&document, &f->page), 0);
                continue;
            }
            layout_document_margins(&document, &f->page, margin);
            const uint8_t expected[8] = {1, 0, 0, 0, 0, 0, 0, 2};
            assert_memory_equal(margin, expected, 8);
        }
        layout_document_finish(&document);
    }
    assert_true(document.style.body_size == 10);
    layout_document_fini(&document);
}

/* The first page that a worker puts together may have none: there is no array yet then. */
static void test_margins_of_no_lines(void **state)
{
    struct fixture *f = *state;
    struct layout_document document = {0};
    page_start(&f->page, 1);
    assert_int_equal(layout_document_note(&document, &f->page), 0);
    layout_document_finish(&document);
    layout_document_margins(&document, &f->page, NULL);
    layout_document_fini(&document);
}

#define UNIT(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT(test_paragraphs),
        UNIT(test_indented_paragraphs),
        UNIT(test_two_columns),
        UNIT(test_drawn_in_any_order),
        UNIT(test_three_columns),
        UNIT(test_table_reads_across),
        UNIT(test_list_beside_text),
        UNIT(test_names_of_a_table),
        UNIT(test_hyphens),
        UNIT(test_headings),
        UNIT(test_lists),
        UNIT(test_code_keeps_its_lines),
        UNIT(test_footnote_and_caption),
        UNIT(test_cjk),
        UNIT(test_right_to_left),
        UNIT(test_turned),
        UNIT(test_random_pages),
        UNIT(test_hostile_page),
        UNIT(test_margins),
        UNIT(test_margins_of_no_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
