/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors: samples against resize and convert, floats against double precision, everywhere alike. */
#include "kernels_test.h"
#include "reference.h"

#include <math.h>

struct shape {
    struct sheaf_normalise how;
    uint32_t width, height;
    uint64_t bytes;
};

static int tensor(const void *cookie, const struct sheaf_image *in, void *result)
{
    const struct shape *shape = cookie;
    return sheaf_kernel_tensor(in, shape->width, shape->height, &shape->how, result, shape->bytes);
}

static int plan_tensor(const void *cookie, const struct sheaf_image *in, void *result, struct sheaf_kernel_plan *plan)
{
    const struct shape *shape = cookie;
    return sheaf_plan_tensor(in, shape->width, shape->height, &shape->how, result, shape->bytes, plan);
}

static double element(const struct shape *shape, const void *data, uint32_t c, uint32_t x, uint32_t y)
{
    uint64_t at = ((uint64_t)c * shape->height + y) * shape->width + x;
    if (shape->how.dtype == SHEAF_FLOAT32)
        return ((const float *)data)[at];
    uint32_t bits = (uint32_t)((const uint16_t *)data)[at] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Of a sample that is exact, or up to 4 off: both operations and, for bfloat16, the last rounding. */
static double float_error(const struct shape *shape, uint32_t c, double sample)
{
    double product = fabs(sample * shape->how.by[c]);
    double sum = fabs(sample * shape->how.by[c] + shape->how.bias[c]) + 4 * fabs(shape->how.by[c]);
    double error = ldexp(product + sum, -24) + ldexp(1, -140);
    return shape->how.dtype == SHEAF_FLOAT32 ? error : error + ldexp(sum + error, -8);
}

static double clamp(double value)
{
    return fmin(fmax(value, 0), 255);
}

/* A sample before it is normalised, and how far it may be off. */
static double sample_of(const struct sheaf_image *in, struct axis ax, struct axis ay, uint32_t x, uint32_t y,
                        uint32_t c, uint32_t filter, double *ret_error)
{
    *ret_error = filter == SHEAF_FILTER_AREA ? 0.5 + 1e-6 : 0.54;
    if (in->format != SHEAF_IMAGE_NV12)
        return reference_scaled(in, ax, ay, x, y, in->format == SHEAF_IMAGE_BGRA ? 2 - c : c, filter);
    struct axis half_x = {(ax.in + 1) / 2, ax.out}, half_y = {(ay.in + 1) / 2, ay.out};
    double luma = reference_scaled(in, ax, ay, x, y, 0, filter);
    double u = reference_scaled(in, half_x, half_y, x, y, 1, filter) - 128;
    double v = reference_scaled(in, half_x, half_y, x, y, 2, filter) - 128;
    bool full = in->matrix == SHEAF_MATRIX_JPEG;
    double kr = in->matrix == SHEAF_MATRIX_BT709 ? 0.2126 : 0.299,
           kb = in->matrix == SHEAF_MATRIX_BT709 ? 0.0722 : 0.114;
    luma = full ? luma : (luma - 16) * 255 / 219;
    u *= full ? 1 : 255.0 / 224;
    v *= full ? 1 : 255.0 / 224;
    *ret_error = *ret_error * (1.17 + 2.2) + 0.6;
    if (c != 1)
        return clamp(luma + (c == 0 ? 2 * (1 - kr) * v : 2 * (1 - kb) * u));
    return clamp(luma - (kr * 2 * (1 - kr) * v + kb * 2 * (1 - kb) * u) / (1 - kr - kb));
}

static void check_elements(const struct sheaf_image *in, const struct shape *shape, const void *data)
{
    struct sheaf_rectangle place = {0, 0, shape->width, shape->height};
    if (shape->how.letterbox)
        sheaf_letterbox(in->width, in->height, shape->width, shape->height, &place);
    for (uint32_t i = 0; i < 150; i++) {
        uint32_t x = random_below(shape->width), y = random_below(shape->height);
        uint32_t c = in->format == SHEAF_IMAGE_GRAY ? 0 : random_below(3);
        double sample = shape->how.fill[c], error = 0, got = element(shape, data, c, x, y);
        if (x - place.x < place.width && y - place.y < place.height)
            sample = sample_of(in, (struct axis){in->width, place.width}, (struct axis){in->height, place.height},
                               x - place.x, y - place.y, c, shape->how.filter, &error);
        double want = sample * shape->how.by[c] + shape->how.bias[c];
        double allowed = error * fabs(shape->how.by[c]) + float_error(shape, c, sample);
        if (!(fabs(got - want) <= allowed))
            fail_msg("%u x %u to %u x %u, format %u, at %u, %u, channel %u: %.9g, exact %.9g, allowed %g", in->width,
                     in->height, shape->width, shape->height, in->format, x, y, c, got, want, allowed);
    }
}

static struct shape shape_of(uint32_t i, uint32_t format, uint32_t width, uint32_t height)
{
    static const float deviations[3] = {0.229f, 0.224f, 0.225f}, means[3] = {0.485f, 0.456f, 0.406f};
    struct shape shape = {.width = width, .height = height};
    shape.how = (struct sheaf_normalise){.dtype = i % 2 ? SHEAF_FLOAT32 : SHEAF_BFLOAT16,
                                         .filter = i / 2 % 2,
                                         .letterbox = i / 4 % 2,
                                         .fill = {114, 3, 250}};
    for (int c = 0; c < 3; c++) {
        shape.how.by[c] = 1 / (255 * deviations[c]);
        shape.how.bias[c] = -means[c] / deviations[c];
    }
    shape.bytes = sheaf_tensor_bytes(width, height, format, shape.how.dtype);
    return shape;
}

static void test_random(void **unused)
{
    for (uint32_t i = 0, cases = test_cases(500); i < cases; i++) {
        random_begin(i);
        uint32_t format = 1 + i % 4, matrix = format == SHEAF_IMAGE_NV12 ? random_below(3) : 0;
        struct sheaf_image in = picture_create(random_side(700), random_side(200), format, matrix);
        struct shape shape = shape_of(i / 4, format, random_side(300), random_side(200));
        void *data = malloc(shape.bytes);
        value_everywhere(tensor, plan_tensor, &shape, &in, data, shape.bytes, shape.bytes);
        check_elements(&in, &shape, data);
        free(data);
        picture_destroy(&in);
    }
}

/* All samples, one by one: exactly sample * by + bias in float32, and its nearest bfloat16. */
static void test_every_sample(void **unused)
{
    uint8_t samples[256];
    float floats[256];
    uint16_t halves[256];
    for (int i = 0; i < 256; i++)
        samples[i] = (uint8_t)i;
    struct sheaf_image in = sheaf_image_packed(256, 1, SHEAF_IMAGE_GRAY, samples);
    struct sheaf_normalise how = {.by = {0.0171247538f}, .bias = {-2.11790393f}, .dtype = SHEAF_FLOAT32};
    assert_int_equal(sheaf_kernel_tensor(&in, 256, 1, &how, floats, sizeof floats), 0);
    how.dtype = SHEAF_BFLOAT16;
    assert_int_equal(sheaf_kernel_tensor(&in, 256, 1, &how, halves, sizeof halves), 0);
    for (int i = 0; i < 256; i++) {
        volatile float product = (float)i * how.by[0];
        float sum = product + how.bias[0], below, above;
        uint32_t bits = (uint32_t)halves[i] << 16, next = bits + 0x10000, last = bits - 0x10000;
        float half;
        assert_true(floats[i] == sum);
        memcpy(&half, &bits, sizeof half);
        memcpy(&above, &next, sizeof above);
        memcpy(&below, &last, sizeof below);
        assert_true(fabsf(half - sum) <= fabsf(above - sum) && fabsf(half - sum) <= fabsf(below - sum));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_every_sample),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
