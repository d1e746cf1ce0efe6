/* SPDX-License-Identifier: Apache-2.0 */
/* image.measure on pictures made here: blank pages, dust, skew, looks, and what it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "kernels/table.h"
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

/* ---- on a device ---- */

enum { SHAPES = 7, ROWS = 4 };
static const struct {
    uint32_t width, height, channels;
} shapes[SHAPES] = {{901, 777, 1}, {250, 2100, 3}, {2100, 40, 1}, {31, 33, 3}, {7, 9, 1}, {1, 1, 3}, {640, 31, 1}};

/* Four pictures of one shape with gaps between their rows: lines, blank, dust, noise. */
static void fill(struct fixture *f, uint32_t shape, struct sheaf_tensor *tensors, struct sheaf_value *values)
{
    uint32_t width = shapes[shape].width, height = shapes[shape].height, channels = shapes[shape].channels, random = 7;
    size_t whole = 3 * WIDTH * HEIGHT / ROWS;
    for (uint32_t row = 0; row < ROWS; row++) {
        uint8_t *pixels = f->pixels + row * whole;
        size_t stride = (size_t)width * channels + row;
        assert_true(stride * height <= whole);
        memset(pixels, 240, stride * height);
        for (size_t y = 0; y < height; y++)
            for (size_t x = 0; x < (size_t)width * channels; x++) {
                random = random * 1664525 + 1013904223;
                if ((row == 0 && (y + x / channels / 20) % 24 < 9 && x / 7 % 5) || (row == 2 && random >> 20 == 0))
                    pixels[y * stride + x] = 30;
                if (row == 3)
                    pixels[y * stride + x] = (uint8_t)(random >> 24);
            }
        tensors[row] = (struct sheaf_tensor){.dtype = SHEAF_U8, .rank = channels == 1 ? 2 : 3};
        tensors[row].shape[0] = height;
        tensors[row].shape[1] = width;
        tensors[row].stride_bytes[0] = (int64_t)stride;
        tensors[row].stride_bytes[1] = channels;
        tensors[row].shape[2] = channels == 1 ? 0 : channels;
        tensors[row].stride_bytes[2] = channels == 1 ? 0 : 1;
        values[row] = (struct sheaf_value){
            .kind = SHEAF_TENSOR, .data = pixels, .length_bytes = stride * height, .tensor = &tensors[row]};
    }
}

static void assert_alike(const struct host_run *here, const struct host_run *there)
{
    assert_int_equal(here->answered, there->answered);
    assert_int_equal(here->failed, there->failed);
    assert_int_equal(here->class_id, there->class_id);
    assert_string_equal(here->message, there->message);
    if (!here->answered)
        return;
    assert_int_equal(here->outputs[0].boolean, there->outputs[0].boolean);
    assert_memory_equal(&here->outputs[1].f64, &there->outputs[1].f64, sizeof(double));
    assert_memory_equal(here->outputs[2].data, there->outputs[2].data, 16);
}

/* As many bytes as the operator says a row takes beside its input, and no more, are enough for a row. */
static void one_by_one(void *opened, const struct sheaf_value *values, const struct host_run *here)
{
    for (uint32_t row = 0; row < ROWS; row++) {
        struct host_run there;
        uint64_t input = (values[row].length_bytes + 255) / 256 * 256;
        uint64_t beside = operator_image_measure.device_bytes(opened, &here[row].row);
        assert_int_equal(host_run_batch(&operator_image_measure, opened, &sheaf_device_kernels,
                                        input + (beside + 255) / 256 * 256, &values[row], 1, &there),
                         0);
        assert_alike(&here[row], &there);
        host_run_fini(&there);
    }
}

/* The same on a device as in place: answers to the bit, and refusals. */
static void test_device(void **state)
{
    static const char *const choices[] = {"never", "empty", "dust"};
    struct fixture *f = *state;
    for (uint32_t shape = 0; shape < SHAPES; shape++) {
        struct sheaf_tensor tensors[ROWS];
        struct sheaf_value values[ROWS];
        struct host_run here[ROWS], there[ROWS];
        char error[512];
        struct host_option given[] = {
            {"blank", {.type = SHEAF_OPTION_TEXT, .text = choices[shape % 3]}},
            {"max_skew", {.type = SHEAF_OPTION_I64, .i64 = shape == 3 ? 0 : 5}},
        };
        void *opened = host_open(&operator_image_measure, given, 2, error);
        fill(f, shape, tensors, values);
        if (shape % 2 == 0)
            tensors[1].stride_bytes[1] = 2; /* no picture */
        for (uint32_t row = 0; row < ROWS; row++)
            host_run(&operator_image_measure, opened, (struct host_keys){row + 1, 1}, &values[row], 1, &here[row]);
        assert_int_equal(
            host_run_batch(&operator_image_measure, opened, &sheaf_device_kernels, 64 << 20, values, ROWS, there), 0);
        for (uint32_t row = 0; row < ROWS; row++) {
            assert_alike(&here[row], &there[row]);
            host_run_fini(&there[row]);
        }
        one_by_one(opened, values, here);
        assert_int_equal(host_run_batch(&operator_image_measure, opened, &sheaf_device_kernels,
                                        4 * ((values[0].length_bytes + ROWS * shapes[shape].height) / 256 + 1) * 256,
                                        values, ROWS, there),
                         -ENOMEM);
        for (uint32_t row = 0; row < ROWS; row++) {
            host_run_fini(&here[row]);
            host_run_fini(&there[row]);
        }
        host_close(&operator_image_measure, opened);
    }
}

int main(void)
{
#define UNIT(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {UNIT(test_blank), UNIT(test_skew),     UNIT(test_no_lines),
                                       UNIT(test_look),  UNIT(test_refusals), UNIT(test_device)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
