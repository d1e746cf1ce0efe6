/* SPDX-License-Identifier: Apache-2.0 */
/* Conversion of colours: against double precision, between instruction sets, and host against device code. */
#include "kernels_test.h"

#include <math.h>

struct rgb {
    double r, g, b;
};

static void weights_of(uint32_t matrix, double *kr, double *kb)
{
    *kr = matrix == SHEAF_MATRIX_BT709 ? 0.2126 : 0.299;
    *kb = matrix == SHEAF_MATRIX_BT709 ? 0.0722 : 0.114;
}

static double clamp(double value)
{
    return fmin(fmax(value, 0), 255);
}

static struct rgb rgb_of(const struct sheaf_image *in, uint32_t x, uint32_t y)
{
    double s[3] = {picture_sample(in, x, y, 0), 0, 0}, kr, kb;
    for (uint32_t i = 1; i < 3 && in->format != SHEAF_IMAGE_GRAY; i++)
        s[i] = picture_sample(in, x, y, i);
    if (in->format == SHEAF_IMAGE_GRAY)
        return (struct rgb){s[0], s[0], s[0]};
    if (in->format == SHEAF_IMAGE_RGB)
        return (struct rgb){s[0], s[1], s[2]};
    if (in->format == SHEAF_IMAGE_BGRA)
        return (struct rgb){s[2], s[1], s[0]};
    weights_of(in->matrix, &kr, &kb);
    double luma = in->matrix == SHEAF_MATRIX_JPEG ? s[0] : (s[0] - 16) * 255 / 219;
    double scale = in->matrix == SHEAF_MATRIX_JPEG ? 1 : 255.0 / 224, u = (s[1] - 128) * scale,
           v = (s[2] - 128) * scale;
    struct rgb out = {luma + 2 * (1 - kr) * v, 0, luma + 2 * (1 - kb) * u};
    out.g = (luma - kr * out.r - kb * out.b) / (1 - kr - kb);
    return (struct rgb){clamp(out.r), clamp(out.g), clamp(out.b)};
}

/* The exact value of a sample of `out`, not rounded. */
static double exact(const struct sheaf_image *in, const struct sheaf_image *out, uint32_t x, uint32_t y,
                    uint32_t channel)
{
    struct rgb pixel = rgb_of(in, x, y);
    double kr, kb;
    if (out->format == SHEAF_IMAGE_GRAY && in->format == SHEAF_IMAGE_NV12)
        return in->matrix == SHEAF_MATRIX_JPEG ? picture_sample(in, x, y, 0)
                                               : clamp((picture_sample(in, x, y, 0) - 16) * 255.0 / 219);
    if (out->format == SHEAF_IMAGE_GRAY)
        return 0.299 * pixel.r + 0.587 * pixel.g + 0.114 * pixel.b;
    if (out->format == SHEAF_IMAGE_RGB)
        return channel == 0 ? pixel.r : channel == 1 ? pixel.g : pixel.b;
    if (out->format == SHEAF_IMAGE_BGRA)
        return channel == 0 ? pixel.b : channel == 1 ? pixel.g : channel == 2 ? pixel.r : 255;
    weights_of(out->matrix, &kr, &kb);
    if (channel > 0) {
        pixel = (struct rgb){0, 0, 0};
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t at_x = x / 2 * 2 + (i & 1), at_y = y / 2 * 2 + i / 2;
            struct rgb one =
                rgb_of(in, at_x < in->width ? at_x : in->width - 1, at_y < in->height ? at_y : in->height - 1);
            pixel = (struct rgb){pixel.r + one.r / 4, pixel.g + one.g / 4, pixel.b + one.b / 4};
        }
    }
    double luma = kr * pixel.r + (1 - kr - kb) * pixel.g + kb * pixel.b;
    double scale = out->matrix == SHEAF_MATRIX_JPEG ? 1 : 224.0 / 255;
    if (channel == 0)
        return out->matrix == SHEAF_MATRIX_JPEG ? luma : 16 + luma * 219 / 255;
    double chroma = channel == 1 ? (pixel.b - luma) / (2 * (1 - kb)) : (pixel.r - luma) / (2 * (1 - kr));
    return clamp(128 + chroma * scale);
}

/* Chroma is made of means that are rounded first, which may add up to half a step of its own. */
static double allowed(const struct sheaf_image *out, uint32_t channel)
{
    return out->format == SHEAF_IMAGE_NV12 && channel > 0 ? 1.1 : 0.6;
}

static void check_values(const struct sheaf_image *in, const struct sheaf_image *out)
{
    uint32_t channels = out->format == SHEAF_IMAGE_GRAY ? 1 : out->format == SHEAF_IMAGE_BGRA ? 4 : 3;
    for (uint32_t y = 0; y < in->height; y++)
        for (uint32_t x = 0; x < in->width; x++)
            for (uint32_t c = 0; c < channels; c++) {
                double want = exact(in, out, x, y, c), got = picture_sample(out, x, y, c);
                if (fabs(got - want) > allowed(out, c))
                    fail_msg("format %u to %u, matrix %u, at %u, %u, channel %u: %g, exact %g", in->format, out->format,
                             in->matrix, x, y, c, got, want);
            }
}

static int convert(const void *cookie, const struct sheaf_image *in, struct sheaf_image *out)
{
    return sheaf_kernel_convert(in, out);
}

static int plan_convert(const void *cookie, const struct sheaf_image *in, struct sheaf_image *out,
                        struct sheaf_kernel_plan *plan)
{
    return sheaf_plan_convert(in, out, plan);
}

static void test_random(void **unused)
{
    for (uint32_t i = 0, cases = test_cases(600); i < cases; i++) {
        random_begin(i);
        uint32_t from = 1 + i % 4, to = 1 + i / 4 % 4, width = random_side(1500), height = random_side(200);
        uint32_t matrix = from == SHEAF_IMAGE_NV12 || to == SHEAF_IMAGE_NV12 ? random_below(3) : 0;
        struct sheaf_image in = picture_create(width, height, from, from == SHEAF_IMAGE_NV12 ? matrix : 0);
        struct sheaf_image out = picture_create(width, height, to, to == SHEAF_IMAGE_NV12 ? matrix : 0);
        picture_everywhere(convert, plan_convert, NULL, &in, &out);
        if (from != to)
            check_values(&in, &out);
        picture_destroy(&in);
        picture_destroy(&out);
    }
}

/* Every width about what vectors hold, between all formats. */
static void test_widths(void **unused)
{
    for (uint32_t i = 0; i < 16 * 140; i++) {
        random_begin(i);
        uint32_t from = 1 + i % 4, to = 1 + i / 4 % 4, width = 1 + i / 16;
        struct sheaf_image in = picture_create(width, 3, from, 0), out = picture_create(width, 3, to, 0);
        picture_everywhere(convert, plan_convert, NULL, &in, &out);
        picture_destroy(&in);
        picture_destroy(&out);
    }
}

/* Every colour of a cube: all reds and blues, every third green. */
static void test_all_colours(void **unused)
{
    random_begin(7);
    for (uint32_t format = SHEAF_IMAGE_RGB; format <= SHEAF_IMAGE_NV12; format++) {
        struct sheaf_image in = picture_create(512, 256, format, 0), gray = picture_create(512, 256, 1, 0);
        struct sheaf_image rgb = picture_create(512, 256, format == SHEAF_IMAGE_RGB ? SHEAF_IMAGE_BGRA : 2, 0);
        for (uint32_t third = 0; third < 256; third += 3) {
            for (uint64_t i = 0; i < in.size_bytes; i++) /* neighbours step by 1 and 3, rows by the stride */
                ((uint8_t *)in.data)[i] = (uint8_t)(i % 3 == 0 ? third : i * 85 / 3 + i / 512 + third * 31);
            assert_int_equal(sheaf_kernel_convert(&in, &gray), 0);
            assert_int_equal(sheaf_kernel_convert(&in, &rgb), 0);
            if (third % 51 == 0) {
                check_values(&in, &gray);
                check_values(&in, &rgb);
            }
        }
        picture_destroy(&in);
        picture_destroy(&gray);
        picture_destroy(&rgb);
    }
}

static void test_grays_stay(void **unused)
{
    uint8_t gray[256], rgb[768], back[256];
    for (int i = 0; i < 256; i++)
        gray[i] = (uint8_t)i;
    struct sheaf_image a = sheaf_image_packed(256, 1, SHEAF_IMAGE_GRAY, gray);
    struct sheaf_image b = sheaf_image_packed(256, 1, SHEAF_IMAGE_RGB, rgb);
    struct sheaf_image c = sheaf_image_packed(256, 1, SHEAF_IMAGE_GRAY, back);
    assert_int_equal(sheaf_kernel_convert(&a, &b), 0);
    assert_int_equal(sheaf_kernel_convert(&b, &c), 0);
    assert_memory_equal(gray, back, 256);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_widths),
        cmocka_unit_test(test_all_colours),
        cmocka_unit_test(test_grays_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
