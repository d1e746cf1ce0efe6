/* SPDX-License-Identifier: Apache-2.0 */
/* Resizing: against double precision, between instruction sets, and host against device code. */
#include "kernels_test.h"

#include <math.h>

/* Samples of a plane: the picture itself, or the chroma of NV12 as a picture of its own. */
static double sample(const struct sheaf_image *image, uint32_t x, uint32_t y, uint32_t channel)
{
    if (image->format == SHEAF_IMAGE_NV12 && channel > 0)
        return picture_sample(image, 2 * x, 2 * y, channel);
    return picture_sample(image, x, y, channel);
}

struct axis {
    uint32_t in, out;
};

/* The weight of input pixel `at` for output pixel i. */
static double bilinear_weight(struct axis axis, uint32_t i, uint32_t at)
{
    double place = (i + 0.5) * axis.in / axis.out - 0.5;
    place = fmin(fmax(place, 0), axis.in - 1);
    return fmax(0, 1 - fabs(place - at));
}

static double area_part(struct axis axis, uint32_t i, uint32_t at)
{
    double begin = (double)i * axis.in / axis.out, end = (double)(i + 1) * axis.in / axis.out;
    return fmax(0, fmin(end, at + 1.0) - fmax(begin, at)) / (end - begin);
}

static double exact(const struct sheaf_image *in, struct axis ax, struct axis ay, uint32_t x, uint32_t y,
                    uint32_t channel, uint32_t filter)
{
    double (*weight)(struct axis, uint32_t, uint32_t) = filter == SHEAF_FILTER_AREA ? area_part : bilinear_weight;
    double sum = 0, middle_x = (x + 0.5) * ax.in / ax.out, middle_y = (y + 0.5) * ay.in / ay.out;
    double reach_x = fmax(1, 0.5 * ax.in / ax.out) + 1, reach_y = fmax(1, 0.5 * ay.in / ay.out) + 1;
    for (int64_t at_y = (int64_t)fmax(0, middle_y - reach_y); at_y < ay.in && at_y <= middle_y + reach_y; at_y++) {
        double down = weight(ay, y, (uint32_t)at_y);
        for (int64_t at_x = (int64_t)fmax(0, middle_x - reach_x);
             at_x < ax.in && at_x <= middle_x + reach_x && down > 0; at_x++)
            sum += down * weight(ax, x, (uint32_t)at_x) * sample(in, (uint32_t)at_x, (uint32_t)at_y, channel);
    }
    return sum;
}

static void check_pixel(const struct sheaf_image *in, const struct sheaf_image *out, uint32_t filter, uint32_t x,
                        uint32_t y, uint32_t channel)
{
    bool is_chroma = in->format == SHEAF_IMAGE_NV12 && channel > 0;
    struct axis ax = {in->width, out->width}, ay = {in->height, out->height};
    if (is_chroma) {
        ax = (struct axis){(ax.in + 1) / 2, (ax.out + 1) / 2};
        ay = (struct axis){(ay.in + 1) / 2, (ay.out + 1) / 2};
        x /= 2;
        y /= 2;
    }
    double want = exact(in, ax, ay, x, y, channel, filter), got = sample(out, x, y, channel);
    double allowed = filter == SHEAF_FILTER_AREA ? 0.5 + 1e-6 : 0.54;
    if (fabs(got - want) > allowed)
        fail_msg("%u x %u to %u x %u, format %u, filter %u, at %u, %u, channel %u: %g, exact %.9g", in->width,
                 in->height, out->width, out->height, in->format, filter, x, y, channel, got, want);
}

static int resize(const void *cookie, const struct sheaf_image *in, struct sheaf_image *out)
{
    return sheaf_kernel_resize(in, out, *(const uint32_t *)cookie);
}

static int plan_resize(const void *cookie, const struct sheaf_image *in, struct sheaf_image *out,
                       struct sheaf_kernel_plan *plan)
{
    return sheaf_plan_resize(in, out, *(const uint32_t *)cookie, plan);
}

static void check_size(uint32_t in_width, uint32_t in_height, uint32_t width, uint32_t height, uint32_t format,
                       uint32_t filter)
{
    uint32_t matrix = format == SHEAF_IMAGE_NV12 ? random_below(3) : 0;
    struct sheaf_image in = picture_create(in_width, in_height, format, matrix);
    struct sheaf_image out = picture_create(width, height, format, matrix);
    uint32_t channels = format == SHEAF_IMAGE_GRAY ? 1 : format == SHEAF_IMAGE_BGRA ? 4 : 3;
    picture_everywhere(resize, plan_resize, &filter, &in, &out);
    for (uint32_t c = 0; c < channels; c++) {
        check_pixel(&in, &out, filter, 0, 0, c);
        check_pixel(&in, &out, filter, width - 1, height - 1, c);
        for (uint32_t i = 0; i < 60; i++)
            check_pixel(&in, &out, filter, random_below(width), random_below(height), c);
    }
    picture_destroy(&in);
    picture_destroy(&out);
}

static void test_random(void **unused)
{
    for (uint32_t i = 0, cases = test_cases(1000); i < cases; i++) {
        random_begin(i);
        check_size(random_side(700), random_side(300), random_side(700), random_side(300), 1 + i % 4, i / 4 % 2);
    }
}

/* Sizes of every day, whole factors, a line, a column, and the largest. */
static void test_sizes(void **unused)
{
    static const uint32_t sizes[][4] = {{1920, 1080, 640, 360}, {640, 360, 1920, 1080}, {1024, 768, 512, 384},
                                        {300, 300, 100, 100},   {7680, 10, 224, 3},     {7680, 4320, 9, 8},
                                        {65535, 1, 1, 1},       {1, 65535, 1, 7},       {1, 1, 4000, 3},
                                        {65535, 3, 65534, 2},   {2, 2, 2, 2},           {4096, 64, 32, 32}};
    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (uint32_t filter = 0; filter < 2; filter++) {
            random_begin(i);
            check_size(sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3], 1 + (i + filter) % 4, filter);
        }
}

/* A picture of its own size stays as it is. */
static void test_identity(void **unused)
{
    for (uint32_t format = 1; format <= SHEAF_IMAGE_NV12; format++)
        for (uint32_t filter = 0; filter < 2; filter++) {
            random_begin(format);
            struct sheaf_image in = picture_create(177, 35, format, 0), out = picture_clone(&in);
            memset(out.data, 9, out.size_bytes);
            assert_int_equal(sheaf_kernel_resize(&in, &out, filter), 0);
            for (uint32_t y = 0; y < 35; y++)
                for (uint32_t x = 0; x < 177; x++)
                    assert_int_equal(picture_sample(&in, x, y, 0), picture_sample(&out, x, y, 0));
            picture_destroy(&in);
            picture_destroy(&out);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_identity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
