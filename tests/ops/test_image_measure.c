/* SPDX-License-Identifier: Apache-2.0 */
/* image.measure on pictures made here: blank pages, dust, skew, looks, and what it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "kernels/kernels.h"
#include "ops/operators.h"

enum { WIDTH = 1240, HEIGHT = 1754 };

struct fixture {
    uint8_t *pixels;
    struct sheaf_tensor tensor;
    struct host_run run;
};

static struct sheaf_value picture(struct fixture *f, uint32_t channels)
{
    f->tensor = (struct sheaf_tensor){.dtype = SHEAF_U8, .rank = channels == 1 ? 2 : 3};
    f->tensor.shape[0] = HEIGHT;
    f->tensor.shape[1] = WIDTH;
    f->tensor.shape[2] = channels == 1 ? 0 : channels;
    f->tensor.stride_bytes[0] = WIDTH * (int64_t)channels;
    f->tensor.stride_bytes[1] = channels;
    f->tensor.stride_bytes[2] = channels == 1 ? 0 : 1;
    return (struct sheaf_value){.kind = SHEAF_TENSOR,
                                .data = f->pixels,
                                .length_bytes = (uint64_t)WIDTH * HEIGHT * channels,
                                .tensor = &f->tensor};
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->pixels = malloc(3 * WIDTH * HEIGHT);
    memset(f->pixels, 235, 3 * WIDTH * HEIGHT);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    host_run_fini(&f->run);
    free(f->pixels);
    free(f);
    return 0;
}

/* Runs with an option, or without (name NULL). */
static void measure(struct fixture *f, uint32_t channels, const char *name, const char *text, int64_t number)
{
    char error[512];
    struct host_option option = {name, {.type = text ? SHEAF_OPTION_TEXT : SHEAF_OPTION_I64}};
    if (text)
        option.value.text = text;
    else
        option.value.i64 = number;
    struct sheaf_value value = picture(f, channels);
    void *state = host_open(&operator_image_measure, &option, name != NULL, error);
    assert_non_null(state);
    host_run_fini(&f->run);
    host_run(&operator_image_measure, state, (struct host_keys){3, 9}, &value, 1, &f->run);
    host_close(&operator_image_measure, state);
    assert_true(f->run.answered);
    assert_int_equal(f->run.outputs[0].kind, SHEAF_BOOL);
    assert_int_equal(f->run.outputs[1].kind, SHEAF_F64);
    assert_int_equal(f->run.outputs[2].length_bytes, 16);
}

/* Lines of words that run down to the right by `slope` pixels a pixel. */
static void draw_text(struct fixture *f, uint32_t channels, double slope)
{
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 120; x < WIDTH - 120; x++) {
            int row = y - (int)lround(slope * (x - WIDTH / 2)) - 150;
            if (row < 0 || row > HEIGHT - 300 || row % 40 > 18 || (x / 9 + row / 40 * 7) % 6 == 0 || x % 9 > 6)
                continue;
            memset(f->pixels + ((size_t)y * WIDTH + (size_t)x) * channels, 40, channels);
        }
}

static void test_blank(void **state)
{
    struct fixture *f = *state;
    measure(f, 1, NULL, NULL, 0);
    assert_false(f->run.outputs[0].boolean);
    assert_true(f->run.outputs[1].f64 == 0);
    measure(f, 1, "blank", "never", 0);
    assert_true(f->run.outputs[0].boolean);
    for (size_t i = 0; i < 40; i++) /* dust: forty specks far from each other */
        f->pixels[(i * 41 + 30) * WIDTH + i * 97 % WIDTH] = 30;
    measure(f, 1, NULL, NULL, 0);
    assert_true(f->run.outputs[0].boolean);
    measure(f, 1, "blank", "dust", 0);
    assert_false(f->run.outputs[0].boolean);
    for (size_t y = 100; y < 124; y++) /* a letter */
        memset(f->pixels + y * WIDTH + 300, 30, 5);
    measure(f, 1, "blank", "dust", 0);
    assert_true(f->run.outputs[0].boolean);
}

static void test_skew(void **state)
{
    static const double degrees[] = {0, 0.6, -1.5, 3, -4.4};
    struct fixture *f = *state;
    for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++) {
        uint32_t channels = i % 2 ? 3 : 1;
        memset(f->pixels, 235, 3 * WIDTH * HEIGHT);
        draw_text(f, channels, tan(degrees[i] * M_PI / 180));
        measure(f, channels, NULL, NULL, 0);
        assert_true(f->run.outputs[0].boolean);
        if (fabs(f->run.outputs[1].f64 - degrees[i]) > 0.1)
            fail_msg("%g degrees, found %g", degrees[i], f->run.outputs[1].f64);
    }
    measure(f, 1, "max_skew", NULL, 0);
    assert_true(f->run.outputs[1].f64 == 0);
    measure(f, 1, "max_skew", NULL, 2);
    assert_true(fabs(f->run.outputs[1].f64) <= 2);
}

/* Noise has no lines. */
static void test_no_lines(void **state)
{
    struct fixture *f = *state;
    uint32_t random = 1;
    for (size_t i = 0; i < WIDTH * HEIGHT; i++) {
        random = random * 1664525 + 1013904223;
        f->pixels[i] = (uint8_t)(random >> 24);
    }
    measure(f, 1, NULL, NULL, 0);
    assert_true(f->run.outputs[0].boolean);
    assert_true(f->run.outputs[1].f64 == 0);
}

static uint32_t looks_apart(const uint8_t *a, const uint8_t *b)
{
    uint64_t left[2], right[2];
    memcpy(left, a, sizeof left);
    memcpy(right, b, sizeof right);
    return sheaf_hash_distance(left[0], right[0]) + sheaf_hash_distance(left[1], right[1]);
}

static void test_look(void **state)
{
    struct fixture *f = *state;
    uint8_t looks[3][16];
    draw_text(f, 1, 0);
    for (int i = 0; i < 3; i++) {
        if (i == 1) /* the same page, a little darker and with a speck */
            for (size_t at = 0; at < WIDTH * HEIGHT; at++)
                f->pixels[at] = (uint8_t)(f->pixels[at] - 4);
        if (i == 2) /* another: a picture in its upper half */
            memset(f->pixels, 90, WIDTH * HEIGHT / 2);
        measure(f, 1, NULL, NULL, 0);
        memcpy(looks[i], f->run.outputs[2].data, 16);
    }
    assert_true(looks_apart(looks[0], looks[1]) <= 4);
    assert_true(looks_apart(looks[0], looks[2]) > 12);
}

static void test_refusals(void **state)
{
    struct fixture *f = *state;
    char error[512];
    void *opened = host_open(&operator_image_measure, NULL, 0, error);
    struct sheaf_value value = picture(f, 1);
    f->tensor.shape[0] = HEIGHT * 4; /* more than its bytes */
    host_run(&operator_image_measure, opened, (struct host_keys){3, 9}, &value, 1, &f->run);
    assert_true(f->run.failed);
    assert_int_equal(f->run.class_id, SHEAF_CLASS_UNSUPPORTED);
    host_close(&operator_image_measure, opened);
}

int main(void)
{
#define UNIT(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {UNIT(test_blank), UNIT(test_skew), UNIT(test_no_lines), UNIT(test_look),
                                       UNIT(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
