/* SPDX-License-Identifier: Apache-2.0 */
/* Resizing: against double precision, between instruction sets, and host against device code. */
#include "kernels_test.h"
#include "reference.h"

#include <math.h>

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
    double want = reference_scaled(in, ax, ay, x, y, channel, filter);
    double got = is_chroma ? picture_sample(out, 2 * x, 2 * y, channel) : picture_sample(out, x, y, channel);
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
    for (uint32_t i = 0, cases = test_cases(400); i < cases; i++) {
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

/* Sizes that have loops of their own: halves, doubles, and odd, whole, small and large factors; each with every format.
 */
static void test_factors(void **unused)
{
    static const uint32_t sizes[][4] = {{260, 66, 130, 33}, {398, 62, 199, 31}, {192, 96, 64, 32}, {640, 40, 160, 10},
                                        {900, 30, 90, 30},  {700, 50, 66, 7},   {33, 20, 190, 43}, {99, 12, 198, 24},
                                        {66, 9, 132, 5},    {1, 7, 2, 14},      {297, 27, 99, 9},  {350, 15, 70, 3},
                                        {99, 8, 33, 8},     {63, 21, 9, 3},     {63, 21, 9, 4}};
    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (uint32_t at = 0; at < 8; at++) {
            random_begin(i * 8 + at);
            check_size(sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3], 1 + at / 2, at % 2);
        }
}

/* Squares of 2 to 32 pixels to one, which a device takes by sixteen columns, and a few pixels of much, by sixteen
 * lanes. */
static void test_squares(void **unused)
{
    for (uint32_t i = 0, cases = test_cases(120); i < cases; i++) {
        random_begin(i);
        uint32_t side = 2u << i % 5, width = random_side(400 / side), height = random_side(120 / side);
        check_size(side * width, side * height, width, height, i % 7 == 6 ? SHEAF_IMAGE_NV12 : SHEAF_IMAGE_GRAY,
                   SHEAF_FILTER_AREA);
        check_size(1 + random_below(900), 1 + random_below(500), 1 + random_below(9), 1 + random_below(8),
                   SHEAF_IMAGE_GRAY, SHEAF_FILTER_AREA);
    }
}

/* From one width to many: groups that are picked from one vector, from several, and where that does not pay. */
static void test_widths(void **unused)
{
    for (uint32_t width = 1; width < 520; width += 5)
        for (uint32_t format = 1; format <= SHEAF_IMAGE_NV12; format++) {
            random_begin(width);
            check_size(257, 4, width, 3, format, width % 2);
            check_size(width, 3, 130, 2, format, width / 2 % 2);
            check_size(2 * width, 4, width, 2, format, 0);
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

struct letterboxing {
    uint32_t filter;
    uint8_t fill[4];
};

static int letterbox(const void *cookie, const struct sheaf_image *in, struct sheaf_image *out)
{
    const struct letterboxing *how = cookie;
    return sheaf_kernel_letterbox(in, out, how->filter, how->fill);
}

static int plan_letterbox(const void *cookie, const struct sheaf_image *in, struct sheaf_image *out,
                          struct sheaf_kernel_plan *plan)
{
    const struct letterboxing *how = cookie;
    return sheaf_plan_letterbox(in, out, how->filter, how->fill, plan);
}

static void check_letterbox(const struct sheaf_image *in, const struct sheaf_image *out, const struct letterboxing *how)
{
    struct sheaf_rectangle place;
    uint32_t channels = in->format == SHEAF_IMAGE_GRAY ? 1 : in->format == SHEAF_IMAGE_RGB ? 3 : 4;
    assert_int_equal(sheaf_letterbox(in->width, in->height, out->width, out->height, &place), 0);
    double scale = fmin((double)out->width / in->width, (double)out->height / in->height);
    assert_true(fabs(place.width - in->width * scale) <= 0.5 + 1e-9 || place.width == 1);
    assert_true(fabs(place.height - in->height * scale) <= 0.5 + 1e-9 || place.height == 1);
    assert_true(place.width == out->width || place.height == out->height);
    assert_true(place.x == (out->width - place.width) / 2 && place.y == (out->height - place.height) / 2);
    for (uint32_t i = 0; i < 200; i++) {
        uint32_t x = random_below(out->width), y = random_below(out->height), c = random_below(channels);
        double got = picture_sample(out, x, y, c), want = how->fill[c];
        bool inside = x - place.x < place.width && y - place.y < place.height;
        if (inside)
            want = reference_scaled(in, (struct axis){in->width, place.width}, (struct axis){in->height, place.height},
                                    x - place.x, y - place.y, c, how->filter);
        assert_true(fabs(got - want) <= (inside ? 0.54 : 0));
    }
}

static void test_letterbox(void **unused)
{
    for (uint32_t i = 0, cases = test_cases(150); i < cases; i++) {
        random_begin(i);
        uint32_t format = 1 + i % 3;
        struct sheaf_image in = picture_create(random_side(400), random_side(200), format, 0);
        struct sheaf_image out = picture_create(random_side(300), random_side(300), format, 0);
        struct letterboxing how = {i / 3 % 2, {10, 200, 31, 77}};
        picture_everywhere(letterbox, plan_letterbox, &how, &in, &out);
        check_letterbox(&in, &out, &how);
        picture_destroy(&in);
        picture_destroy(&out);
    }
}

struct turning {
    int32_t slope;
    uint8_t fill;
};

static int rotate(const void *cookie, const struct sheaf_image *in, struct sheaf_image *out)
{
    const struct turning *how = cookie;
    return sheaf_kernel_rotate(in, out, how->slope, how->fill);
}

static int plan_rotate(const void *cookie, const struct sheaf_image *in, struct sheaf_image *out,
                       struct sheaf_kernel_plan *plan)
{
    const struct turning *how = cookie;
    return sheaf_plan_rotate(in, out, how->slope, how->fill, plan);
}

static double pixel_or_fill(const struct sheaf_image *in, double x, double y, double fill)
{
    return x >= 0 && y >= 0 && x < in->width && y < in->height ? picture_sample(in, (uint32_t)x, (uint32_t)y, 0) : fill;
}

static void check_turned(const struct sheaf_image *in, const struct sheaf_image *out, struct turning how)
{
    double angle = atan(how.slope / 65536.0);
    for (uint32_t i = 0; i < 200; i++) {
        uint32_t at_x = random_below(in->width), at_y = random_below(in->height);
        double dx = at_x - (in->width - 1) / 2.0, dy = at_y - (in->height - 1) / 2.0;
        double x = cos(angle) * dx - sin(angle) * dy + (in->width - 1) / 2.0, px = x - floor(x);
        double y = sin(angle) * dx + cos(angle) * dy + (in->height - 1) / 2.0, py = y - floor(y);
        double a = pixel_or_fill(in, floor(x), floor(y), how.fill),
               b = pixel_or_fill(in, floor(x) + 1, floor(y), how.fill);
        double c = pixel_or_fill(in, floor(x), floor(y) + 1, how.fill);
        double d = pixel_or_fill(in, floor(x) + 1, floor(y) + 1, how.fill);
        double want = (a * (1 - px) + b * px) * (1 - py) + (c * (1 - px) + d * px) * py;
        if (fabs(want - picture_sample(out, at_x, at_y, 0)) > 0.6)
            fail_msg("slope %d at %u, %u: %u, exact %g", how.slope, at_x, at_y, picture_sample(out, at_x, at_y, 0),
                     want);
    }
}

static void test_rotate(void **unused)
{
    for (uint32_t i = 0, cases = test_cases(150); i < cases; i++) {
        random_begin(i);
        uint32_t width = random_side(900), height = random_side(400);
        struct sheaf_image in = picture_create(width, height, 1, 0), out = picture_create(width, height, 1, 0);
        struct turning how = {(int32_t)random_below(131073) - 65536, (uint8_t)random_below(256)};
        how.slope = i % 5 == 0 ? 0 : i % 5 == 1 ? how.slope / 16 : how.slope;
        picture_everywhere(rotate, plan_rotate, &how, &in, &out);
        check_turned(&in, &out, how);
        picture_destroy(&in);
        picture_destroy(&out);
    }
}

/* Small ones, on both sides of what vectors need, and slopes on both sides of where they read three rows only. */
static void test_rotate_small(void **unused)
{
    static const int32_t slopes[] = {0, 90, -90, 1716, -8043, 9362, -9362, 9363, -9364, 65536, -65536};
    enum { SLOPES = sizeof slopes / sizeof slopes[0] };
    for (uint32_t i = 0; i < 45 * 7 * SLOPES; i++) {
        random_begin(i);
        uint32_t width = 1 + i % 45, height = 1 + i / 45 % 7 * 2;
        struct sheaf_image in = picture_create(width, height, 1, 0), out = picture_create(width, height, 1, 0);
        struct turning how = {slopes[i / (45 * 7)], (uint8_t)random_below(256)};
        picture_everywhere(rotate, plan_rotate, &how, &in, &out);
        picture_destroy(&in);
        picture_destroy(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),    cmocka_unit_test(test_sizes),  cmocka_unit_test(test_factors),
        cmocka_unit_test(test_squares),   cmocka_unit_test(test_widths), cmocka_unit_test(test_identity),
        cmocka_unit_test(test_letterbox), cmocka_unit_test(test_rotate), cmocka_unit_test(test_rotate_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
