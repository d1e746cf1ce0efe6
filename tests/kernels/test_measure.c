/* SPDX-License-Identifier: Apache-2.0 */
/* Measures, hashes and skew: against plain double precision, everywhere alike. */
#include "kernels_test.h"
#include "reference.h"

#include <math.h>

static struct sheaf_image random_plane(uint32_t least, uint32_t most)
{
    uint32_t width = random_side(most), height = random_side(200);
    uint32_t format = random_below(4) ? SHEAF_IMAGE_GRAY : SHEAF_IMAGE_NV12;
    return picture_create(width < least ? least : width, height < least ? least : height, format, 0);
}

/* ---- sharpness ---- */

static int sharpness(const void *cookie, const struct sheaf_image *in, void *result)
{
    return sheaf_kernel_sharpness(in, result);
}

static int plan_sharpness(const void *cookie, const struct sheaf_image *in, void *result,
                          struct sheaf_kernel_plan *plan)
{
    return sheaf_plan_sharpness(in, result, plan);
}

static double at(const struct sheaf_image *in, int64_t x, int64_t y)
{
    x = x < 0 ? 0 : x >= in->width ? in->width - 1 : x;
    y = y < 0 ? 0 : y >= in->height ? in->height - 1 : y;
    return picture_sample(in, (uint32_t)x, (uint32_t)y, 0);
}

static void test_sharpness(void **unused)
{
    for (uint32_t i = 0, cases = test_cases(200); i < cases; i++) {
        random_begin(i);
        struct sheaf_image in = random_plane(1, 5000);
        struct sheaf_sharpness got;
        double sum = 0, squares = 0, n = (double)in.width * in.height;
        value_everywhere(sharpness, plan_sharpness, NULL, &in, &got, sizeof got, 16);
        for (int64_t y = 0; y < in.height; y++)
            for (int64_t x = 0; x < in.width; x++) {
                double value = at(&in, x - 1, y) + at(&in, x + 1, y) + at(&in, x, y - 1) + at(&in, x, y + 1);
                value -= 4 * at(&in, x, y);
                sum += value;
                squares += value * value;
            }
        assert_true(got.sum == (int64_t)sum && got.squares == (uint64_t)squares);
        double want = squares / n - sum / n * (sum / n);
        assert_true(fabs(sheaf_laplacian_variance(&got) - want) <= 1e-9 * (1 + want));
        picture_destroy(&in);
    }
}

/* ---- similarity ---- */

static int ssim(const void *cookie, const struct sheaf_image *in, void *result)
{
    return sheaf_kernel_ssim(in, cookie, result);
}

static int plan_ssim(const void *cookie, const struct sheaf_image *in, void *result, struct sheaf_kernel_plan *plan)
{
    return sheaf_plan_ssim(in, cookie, result, plan);
}

static double window_similarity(const struct sheaf_image *a, const struct sheaf_image *b, uint32_t x, uint32_t y)
{
    double ma = 0, mb = 0, va = 0, vb = 0, covariance = 0, c1 = 0.01 * 255 * 0.01 * 255, c2 = 0.03 * 255 * 0.03 * 255;
    for (uint32_t i = 0; i < 64; i++) {
        ma += picture_sample(a, x + i % 8, y + i / 8, 0) / 64.0;
        mb += picture_sample(b, x + i % 8, y + i / 8, 0) / 64.0;
    }
    for (uint32_t i = 0; i < 64; i++) {
        double da = picture_sample(a, x + i % 8, y + i / 8, 0) - ma,
               db = picture_sample(b, x + i % 8, y + i / 8, 0) - mb;
        va += da * da / 64;
        vb += db * db / 64;
        covariance += da * db / 64;
    }
    return (2 * ma * mb + c1) * (2 * covariance + c2) / ((ma * ma + mb * mb + c1) * (va + vb + c2));
}

/* C1 and C2 are rounded to 2^-12, one in 50,000 of C1. */
static void test_ssim(void **unused)
{
    for (uint32_t i = 0, cases = test_cases(120); i < cases; i++) {
        random_begin(i);
        struct sheaf_image a = random_plane(8, 1200), b = picture_create(a.width, a.height, SHEAF_IMAGE_GRAY, 0);
        struct sheaf_ssim got;
        double sum = 0, windows = 0;
        for (uint32_t y = 0; y < a.height && i % 2; y++) /* a noisy copy */
            for (uint32_t x = 0; x < a.width; x++)
                ((uint8_t *)b.data)[y * b.stride_bytes + x] =
                    (uint8_t)(picture_sample(&a, x, y, 0) ^ random_below(1 + i % 16));
        value_everywhere(ssim, plan_ssim, &b, &a, &got, sizeof got, 8);
        for (uint32_t y = 0; y + 8 <= a.height; y += 4)
            for (uint32_t x = 0; x + 8 <= a.width; x += 4, windows++)
                sum += window_similarity(&a, &b, x, y);
        assert_true(got.windows == (uint64_t)windows);
        if (!(fabs(sheaf_ssim_mean(&got) - sum / windows) <= 2e-5))
            fail_msg("%u x %u: %.9g, exact %.9g", a.width, a.height, sheaf_ssim_mean(&got), sum / windows);
        picture_destroy(&a);
        picture_destroy(&b);
    }
}

static void test_ssim_same(void **unused)
{
    random_begin(3);
    struct sheaf_image a = picture_create(64, 64, 1, 0), b = picture_clone(&a);
    struct sheaf_ssim got;
    assert_int_equal(sheaf_kernel_ssim(&a, &b, &got), 0);
    assert_true(sheaf_ssim_mean(&got) == 1);
    picture_destroy(&a);
    picture_destroy(&b);
}

/* ---- scenes ---- */

static int distance(const void *cookie, const struct sheaf_image *in, void *result)
{
    const uint32_t *histograms = cookie;
    *(uint32_t *)result = sheaf_histogram_distance(histograms, histograms + 256);
    return 0;
}

static int plan_distance(const void *cookie, const struct sheaf_image *in, void *result, struct sheaf_kernel_plan *plan)
{
    const uint32_t *histograms = cookie;
    return sheaf_plan_histogram_distance(histograms, histograms + 256, result, plan);
}

static void test_distance(void **unused)
{
    struct sheaf_image none = {0};
    for (uint32_t i = 0, cases = test_cases(200); i < cases; i++) {
        random_begin(i);
        uint32_t histograms[512], got;
        double n[2] = {0, 0}, sum = 0;
        for (uint32_t j = 0; j < 512; j++) {
            histograms[j] = random_below(3) ? random_below(1 << (4 + i % 17)) : 0;
            n[j / 256] += histograms[j] *= i % 50 != 49 || j < 256;
        }
        value_everywhere(distance, plan_distance, histograms, &none, &got, sizeof got, sizeof got);
        for (uint32_t j = 0; j < 256 && n[0] > 0 && n[1] > 0; j++)
            sum += fabs(histograms[j] / n[0] - histograms[256 + j] / n[1]);
        assert_true(fabs(got - sum * 32768) <= 1 + 1e-6);
        assert_int_equal(sheaf_histogram_distance(histograms, histograms), 0);
    }
    uint32_t black[256] = {[0] = 77}, white[256] = {[255] = 5};
    assert_int_equal(sheaf_histogram_distance(black, white), 65536);
}

/* ---- hashes ---- */

static int dhash(const void *cookie, const struct sheaf_image *in, void *result)
{
    return sheaf_kernel_dhash(in, result);
}

static int plan_dhash(const void *cookie, const struct sheaf_image *in, void *result, struct sheaf_kernel_plan *plan)
{
    return sheaf_plan_dhash(in, result, plan);
}

static int phash(const void *cookie, const struct sheaf_image *in, void *result)
{
    return sheaf_kernel_phash(in, result);
}

static int plan_phash(const void *cookie, const struct sheaf_image *in, void *result, struct sheaf_kernel_plan *plan)
{
    return sheaf_plan_phash(in, result, plan);
}

static double mean(const struct sheaf_image *in, uint32_t width, uint32_t height, uint32_t x, uint32_t y)
{
    return reference_scaled(in, (struct axis){in->width, width}, (struct axis){in->height, height}, x, y, 0,
                            SHEAF_FILTER_AREA);
}

/* Neighbours whose means are within a rounding of each other may compare either way. */
static void check_dhash(const struct sheaf_image *in, uint64_t hash)
{
    for (uint32_t i = 0; i < 64; i++) {
        double left = mean(in, 9, 8, i % 8, i / 8), right = mean(in, 9, 8, i % 8 + 1, i / 8);
        if (fabs(right - left) > 1.001)
            assert_int_equal(hash >> (63 - i) & 1, right > left);
    }
}

static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

/* Samples are rounded to half a shade and coefficients to 2^-6 of one, means over the picture. */
static void check_phash(const struct sheaf_image *in, uint64_t hash)
{
    double samples[32][32], coefficients[64], sorted[64], unsure = 2 * (0.5 + 1 / 64.0);
    for (uint32_t i = 0; i < 1024; i++)
        samples[i / 32][i % 32] = mean(in, 32, 32, i % 32, i / 32);
    for (uint32_t i = 0; i < 64; i++) {
        coefficients[i] = 0;
        for (uint32_t j = 0; j < 1024; j++)
            coefficients[i] += samples[j / 32][j % 32] / 1024 * cos(M_PI / 64 * (i / 8) * (2 * (j / 32) + 1)) *
                               cos(M_PI / 64 * (i % 8) * (2 * (j % 32) + 1));
        sorted[i] = coefficients[i];
    }
    qsort(sorted, 64, sizeof *sorted, by_size);
    double median = (sorted[31] + sorted[32]) / 2;
    for (uint32_t i = 0; i < 64; i++)
        if (fabs(coefficients[i] - median) > unsure)
            assert_int_equal(hash >> (63 - i) & 1, coefficients[i] > median);
}

static void test_hashes(void **unused)
{
    for (uint32_t i = 0, cases = test_cases(60); i < cases; i++) {
        random_begin(i);
        struct sheaf_image in = random_plane(1, 900);
        uint64_t hash;
        value_everywhere(dhash, plan_dhash, NULL, &in, &hash, sizeof hash, sizeof hash);
        check_dhash(&in, hash);
        value_everywhere(phash, plan_phash, NULL, &in, &hash, sizeof hash, sizeof hash);
        check_phash(&in, hash);
        picture_destroy(&in);
    }
    assert_int_equal(sheaf_hash_distance(0xF0, 0x0F), 8);
}

/* A picture of soft blots, as hashes are for, its smaller and its brighter likeness, and another: near, and far. */
static struct sheaf_image blots(uint32_t width, uint32_t height, uint64_t stream, double brighter)
{
    struct sheaf_image image = picture_create(width, height, SHEAF_IMAGE_GRAY, 0);
    double x[6], y[6];
    random_begin(stream);
    for (int i = 0; i < 6; i++) {
        x[i] = random_below(1000) / 1000.0;
        y[i] = random_below(1000) / 1000.0;
    }
    for (uint32_t j = 0; j < width * height; j++) {
        double value = 200;
        for (int i = 0; i < 6; i++)
            value -=
                150 *
                exp(-30 * (pow((j % width) / (double)width - x[i], 2) + pow((j / width) / (double)height - y[i], 2)));
        ((uint8_t *)image.data)[j / width * image.stride_bytes + j % width] = (uint8_t)fmax(0, value + brighter);
    }
    return image;
}

static void test_hashes_recognise(void **unused)
{
    struct sheaf_image pictures[4] = {blots(400, 300, 5, 0), blots(200, 150, 5, 0), blots(400, 300, 5, 30),
                                      blots(400, 300, 6, 0)};
    uint64_t d[4], p[4];
    for (int i = 0; i < 4; i++) {
        assert_int_equal(sheaf_kernel_dhash(&pictures[i], &d[i]), 0);
        assert_int_equal(sheaf_kernel_phash(&pictures[i], &p[i]), 0);
        picture_destroy(&pictures[i]);
    }
    for (int i = 1; i < 3; i++) {
        assert_true(sheaf_hash_distance(d[0], d[i]) <= 6);
        assert_true(sheaf_hash_distance(p[0], p[i]) <= 6);
    }
    assert_true(sheaf_hash_distance(d[0], d[3]) >= 12);
    assert_true(sheaf_hash_distance(p[0], p[3]) >= 12);
}

/* ---- skew ---- */

static const uint32_t max_slopes[] = {6554, 0, 20000, 65536};

static int skew(const void *cookie, const struct sheaf_image *in, void *result)
{
    return sheaf_kernel_skew(in, 127, *(const uint32_t *)cookie, result);
}

static int plan_skew(const void *cookie, const struct sheaf_image *in, void *result, struct sheaf_kernel_plan *plan)
{
    return sheaf_plan_skew(in, 127, *(const uint32_t *)cookie, result, plan);
}

static int skew_otsu(const void *cookie, const struct sheaf_image *in, void *result)
{
    uint32_t counts[256];
    int status = sheaf_kernel_histogram(in, counts);
    return status < 0 ? status : sheaf_kernel_skew(in, sheaf_otsu_threshold(counts), *(const uint32_t *)cookie, result);
}

static int plan_skew_otsu(const void *cookie, const struct sheaf_image *in, void *result,
                          struct sheaf_kernel_plan *plan)
{
    return sheaf_plan_skew_otsu(in, *(const uint32_t *)cookie, result, plan);
}

/* The sum of squared differences of the profile at a slope, plainly. */
static double profile_score(const struct sheaf_image *in, int32_t slope)
{
    double *profile = calloc(in->height, sizeof *profile), score = 0;
    for (uint32_t y = 0; y < in->height; y++)
        for (uint32_t x = 0; x < in->width; x++) {
            double middle = x / 16 * 16 + 8 - in->width / 2.0, row = y - floor(slope / 65536.0 * middle + 0.5);
            if (row >= 0 && row < in->height && picture_sample(in, x, y, 0) <= 127)
                profile[(uint32_t)row]++;
        }
    for (uint32_t y = 0; y + 1 < in->height; y++)
        score += (profile[y + 1] - profile[y]) * (profile[y + 1] - profile[y]);
    free(profile);
    return score;
}

static void test_skew(void **unused)
{
    for (uint32_t i = 0, cases = test_cases(40); i < cases; i++) {
        random_begin(i);
        struct sheaf_image in = random_plane(1, 900);
        struct sheaf_skew got;
        uint32_t max = max_slopes[i % 4];
        value_everywhere(skew, plan_skew, &max, &in, &got, sizeof got, sizeof got);
        assert_true(got.slope >= -(int32_t)max && got.slope <= (int32_t)max && got.best >= got.level);
        assert_true((double)got.best == profile_score(&in, got.slope));
        assert_true((double)got.level == profile_score(&in, 0));
        value_everywhere(skew_otsu, plan_skew_otsu, &max, &in, &got, sizeof got, sizeof got);
        picture_destroy(&in);
    }
}

/* Lines of text, of words, at a known slope: found to a pixel or two from edge to edge. */
static void test_skew_of_text(void **unused)
{
    enum { WIDTH = 1240, HEIGHT = 1754, LINE = 24 };
    for (int32_t slope = -6000; slope <= 6000; slope += 857) {
        random_begin((uint64_t)(slope + 6000));
        struct sheaf_image in = picture_create(WIDTH, HEIGHT, SHEAF_IMAGE_GRAY, 0);
        struct sheaf_skew got;
        for (uint32_t y = 0; y < HEIGHT; y++)
            for (uint32_t x = 0; x < WIDTH; x++) {
                int64_t row = y - (int64_t)lround(slope / 65536.0 * (x - WIDTH / 2.0)) + 10 * LINE;
                bool is_ink =
                    x > 100 && x < 1140 && row % LINE < LINE / 2 && x * 7919 / 64 * (uint64_t)(row / LINE) % 5 != 0;
                ((uint8_t *)in.data)[y * in.stride_bytes + x] = is_ink ? 20 : 240;
            }
        assert_int_equal(sheaf_kernel_skew(&in, 127, 6554, &got), 0);
        if (abs(got.slope - slope) > 2 * 65536 / WIDTH)
            fail_msg("slope %d, found %d", slope, got.slope);
        assert_true(abs(slope) < 200 || got.best > 2 * got.level);
        picture_destroy(&in);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sharpness), cmocka_unit_test(test_ssim),         cmocka_unit_test(test_ssim_same),
        cmocka_unit_test(test_distance),  cmocka_unit_test(test_hashes),       cmocka_unit_test(test_hashes_recognise),
        cmocka_unit_test(test_skew),      cmocka_unit_test(test_skew_of_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
