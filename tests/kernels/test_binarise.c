/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms and black and white: against plain double precision, everywhere alike. */
#include "kernels_test.h"

#include <math.h>

static struct sheaf_image random_plane(uint32_t most)
{
    uint32_t format = random_below(4) ? SHEAF_IMAGE_GRAY : SHEAF_IMAGE_NV12;
    return picture_create(random_side(most), random_side(200), format, 0);
}

static int histogram(const void *cookie, const struct sheaf_image *in, void *result)
{
    return sheaf_kernel_histogram(in, result);
}

static int plan_histogram(const void *cookie, const struct sheaf_image *in, void *result,
                          struct sheaf_kernel_plan *plan)
{
    return sheaf_plan_histogram(in, result, plan);
}

static void test_histogram(void **unused)
{
    for (uint32_t i = 0, cases = test_cases(200); i < cases; i++) {
        random_begin(i);
        struct sheaf_image in = random_plane(3000);
        uint32_t counts[256], want[256] = {0};
        value_everywhere(histogram, plan_histogram, NULL, &in, counts, sizeof counts, sizeof counts);
        for (uint32_t y = 0; y < in.height; y++)
            for (uint32_t x = 0; x < in.width; x++)
                want[picture_sample(&in, x, y, 0)]++;
        assert_memory_equal(counts, want, sizeof want);
        picture_destroy(&in);
    }
}

/* ---- Otsu ---- */

static double variance_between(const uint32_t counts[256], uint32_t threshold)
{
    double n[2] = {0, 0}, sum[2] = {0, 0};
    for (uint32_t i = 0; i < 256; i++) {
        n[i > threshold] += counts[i];
        sum[i > threshold] += (double)i * counts[i];
    }
    if (n[0] == 0 || n[1] == 0)
        return 0;
    double apart = sum[0] / n[0] - sum[1] / n[1];
    return n[0] / (n[0] + n[1]) * (n[1] / (n[0] + n[1])) * apart * apart;
}

static int otsu(const void *cookie, const struct sheaf_image *in, struct sheaf_image *out)
{
    return sheaf_kernel_otsu(in, out, NULL);
}

static int plan_otsu(const void *cookie, const struct sheaf_image *in, struct sheaf_image *out,
                     struct sheaf_kernel_plan *plan)
{
    return sheaf_plan_otsu(in, out, NULL, plan);
}

static void test_otsu(void **unused)
{
    for (uint32_t i = 0, cases = test_cases(200); i < cases; i++) {
        random_begin(i);
        struct sheaf_image in = random_plane(900), out = picture_create(in.width, in.height, SHEAF_IMAGE_GRAY, 0);
        uint32_t counts[256], threshold;
        picture_everywhere(otsu, plan_otsu, NULL, &in, &out);
        sheaf_kernel_histogram(&in, counts);
        assert_int_equal(sheaf_kernel_otsu(&in, &out, &threshold), 0);
        for (uint32_t t = 0; t < 256; t++)
            assert_true(variance_between(counts, t) <= variance_between(counts, threshold) * (1 + 1e-12) + 1e-12);
        for (uint32_t j = 0; j < 100; j++) {
            uint32_t x = random_below(in.width), y = random_below(in.height);
            assert_int_equal(picture_sample(&out, x, y, 0), picture_sample(&in, x, y, 0) > threshold ? 255 : 0);
        }
        picture_destroy(&in);
        picture_destroy(&out);
    }
}

/* The largest picture there may be, in two shades at the ends: nothing overflows. */
static void test_otsu_largest(void **unused)
{
    uint32_t counts[256] = {0};
    counts[0] = counts[255] = 1u << 27;
    assert_int_equal(sheaf_otsu_threshold(counts), 0);
    counts[200] = 5;
    counts[255] -= 5;
    assert_int_equal(sheaf_otsu_threshold(counts), 0);
}

static int threshold(const void *cookie, const struct sheaf_image *in, struct sheaf_image *out)
{
    return sheaf_kernel_threshold(in, out, *(const uint32_t *)cookie);
}

static int plan_threshold(const void *cookie, const struct sheaf_image *in, struct sheaf_image *out,
                          struct sheaf_kernel_plan *plan)
{
    return sheaf_plan_threshold(in, out, *(const uint32_t *)cookie, plan);
}

static void test_threshold(void **unused)
{
    static const uint32_t thresholds[] = {0, 1, 127, 254, 255, 256, 70000};
    for (uint32_t i = 0; i < sizeof thresholds / sizeof *thresholds; i++) {
        random_begin(i);
        struct sheaf_image in = picture_create(700, 60, 1, 0), out = picture_create(700, 60, 1, 0);
        picture_everywhere(threshold, plan_threshold, &thresholds[i], &in, &out);
        for (uint32_t x = 0; x < 700; x++)
            assert_int_equal(picture_sample(&out, x, 59, 0), picture_sample(&in, x, 59, 0) > thresholds[i] ? 255 : 0);
        picture_destroy(&in);
        picture_destroy(&out);
    }
}

/* ---- Sauvola ---- */

struct window {
    uint32_t radius, k_256;
};

static int sauvola(const void *cookie, const struct sheaf_image *in, struct sheaf_image *out)
{
    const struct window *window = cookie;
    return sheaf_kernel_sauvola(in, out, window->radius, window->k_256);
}

static int plan_sauvola(const void *cookie, const struct sheaf_image *in, struct sheaf_image *out,
                        struct sheaf_kernel_plan *plan)
{
    const struct window *window = cookie;
    return sheaf_plan_sauvola(in, out, window->radius, window->k_256, plan);
}

static void check_sauvola_pixel(const struct sheaf_image *in, const struct sheaf_image *out, struct window window,
                                int64_t x, int64_t y)
{
    double n = 0, sum = 0, squares = 0, k = window.k_256 / 256.0,
           pixel = picture_sample(in, (uint32_t)x, (uint32_t)y, 0);
    int64_t radius = window.radius;
    for (int64_t at_y = y - radius; at_y <= y + radius; at_y++)
        for (int64_t at_x = x - radius; at_x <= x + radius; at_x++) {
            if (at_x < 0 || at_y < 0 || at_x >= in->width || at_y >= in->height)
                continue;
            double value = picture_sample(in, (uint32_t)at_x, (uint32_t)at_y, 0);
            n++;
            sum += value;
            squares += value * value;
        }
    double mean = sum / n, deviation = sqrt(fmax(0, squares / n - mean * mean));
    double want = mean * (1 + k * (deviation / 128 - 1)), slack = mean * k / 128 / n + 1e-6;
    uint8_t got = picture_sample(out, (uint32_t)x, (uint32_t)y, 0);
    assert_true(got == 0 || got == 255);
    if (fabs(pixel - want) > slack && (got == 255) != (pixel > want))
        fail_msg("radius %u, k %u, %u x %u at %d, %d: %u, pixel %g, threshold %g", window.radius, window.k_256,
                 in->width, in->height, (int)x, (int)y, got, pixel, want);
}

static void test_sauvola(void **unused)
{
    for (uint32_t i = 0, cases = test_cases(120); i < cases; i++) {
        random_begin(i);
        struct sheaf_image in = random_plane(700), out = picture_create(in.width, in.height, SHEAF_IMAGE_GRAY, 0);
        struct window window = {1 + random_below(i % 8 ? 20 : 63), i % 5 ? 87 : random_below(257)};
        picture_everywhere(sauvola, plan_sauvola, &window, &in, &out);
        for (uint32_t j = 0; j < 40; j++)
            check_sauvola_pixel(&in, &out, window, random_below(in.width), random_below(in.height));
        check_sauvola_pixel(&in, &out, window, 0, 0);
        check_sauvola_pixel(&in, &out, window, in.width - 1, in.height - 1);
        picture_destroy(&in);
        picture_destroy(&out);
    }
}

static void test_ink(void **unused)
{
    uint32_t counts[256] = {0};
    counts[250] = 900;
    counts[255] = 60;
    counts[200] = 30;
    counts[10] = 10;
    struct sheaf_page_ink ink = sheaf_page_ink(counts, 50);
    assert_true(ink.paper == 250 && ink.pixels == 1000 && ink.ink == 10);
    assert_true(sheaf_page_ink(counts, 49).ink == 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_histogram), cmocka_unit_test(test_otsu),    cmocka_unit_test(test_otsu_largest),
        cmocka_unit_test(test_threshold), cmocka_unit_test(test_sauvola), cmocka_unit_test(test_ink),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
