/* SPDX-License-Identifier: Apache-2.0 */
/* Image decoding on images made here: sizes, orientation, colours, transparency, caps, damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tiffio.h>
#include <unistd.h>

#include "host.h"
#include "ops/image.h"
#include "ops/operators.h"

struct bytes {
    uint8_t *data;
    size_t size;
};

/* image.encode over a picture of `channels`. */
static struct bytes encoded(const char *format, const uint8_t *pixels, uint32_t width, uint32_t height,
                            uint32_t channels)
{
    struct host_option given[] = {{"format", {.type = SHEAF_OPTION_TEXT, .text = format}},
                                  {"quality", {.type = SHEAF_OPTION_I64, .i64 = 100}}};
    char error[512];
    void *state = host_open(&operator_image_encode, given, 2, error);
    struct sheaf_tensor shape = {.dtype = SHEAF_U8,
                                 .rank = channels == 1 ? 2 : 3,
                                 .shape = {height, width, channels},
                                 .stride_bytes = {(int64_t)width * channels, channels, 1}};
    struct sheaf_value image = {
        .kind = SHEAF_TENSOR, .data = pixels, .length_bytes = (uint64_t)width * height * channels, .tensor = &shape};
    struct host_run run;
    assert_non_null(state);
    host_run(&operator_image_encode, state, (struct host_keys){1, 0}, &image, 1, &run);
    assert_true(run.answered);
    assert_string_equal(run.outputs[0].name, strcmp(format, "png") == 0 ? "image/png" : "image/jpeg");
    struct bytes made = {malloc(run.outputs[0].length_bytes), run.outputs[0].length_bytes};
    memcpy(made.data, run.outputs[0].data, made.size);
    host_run_fini(&run);
    host_close(&operator_image_encode, state);
    return made;
}

struct decoded {
    struct image_facts facts;
    struct image_plan plan;
    uint8_t *pixels;
    struct document_failure failure;
    int status;
};

static struct decoded decoded(struct bytes file, uint32_t channels, uint64_t max_pixels)
{
    struct decoded made = {0};
    struct image_source source = {sniff_format(file.data, file.size), file.data, file.size, 0};
    made.status = image_facts_read(&source, &made.facts, &made.failure);
    if (made.status < 0)
        return made;
    image_plan_make(&made.facts, max_pixels, &made.plan);
    size_t bytes = (size_t)made.plan.width * made.plan.height * channels;
    made.pixels = malloc(bytes + 16);
    memset(made.pixels, 0xA5, bytes + 16);
    made.status = image_decode(&source, &made.facts, &made.plan, channels, made.pixels, &made.failure);
    for (int i = 0; i < 16; i++)
        assert_int_equal(made.pixels[bytes + (size_t)i], 0xA5);
    return made;
}

static void fill(uint8_t *pixels, size_t count)
{
    for (size_t i = 0; i < count; i++)
        pixels[i] = (uint8_t)(i * 7 + i / 13);
}

static void test_png_round_trip(void **state)
{
    for (uint32_t channels = 1; channels <= 3; channels += 2) {
        uint8_t pixels[19 * 11 * 3];
        fill(pixels, sizeof pixels);
        struct bytes file = encoded("png", pixels, 19, 11, channels);
        struct decoded image = decoded(file, channels, 0);
        assert_int_equal(image.status, 0);
        assert_int_equal(image.plan.width, 19);
        assert_int_equal(image.plan.height, 11);
        assert_memory_equal(image.pixels, pixels, 19 * 11 * channels);
        free(image.pixels);
        free(file.data);
    }
}

/* A JPEG of four flat quarters with an EXIF block of a given orientation put in after its start. */
static struct bytes quarters_jpeg(int orientation)
{
    enum { WIDTH = 32, HEIGHT = 16 };
    static const uint8_t shades[2][2] = {{0, 80}, {160, 240}};
    uint8_t pixels[HEIGHT * WIDTH];
    for (int y = 0; y < HEIGHT; y++) {
        for (int x = 0; x < WIDTH; x++)
            pixels[y * WIDTH + x] = shades[y * 2 / HEIGHT][x * 2 / WIDTH];
    }
    const uint8_t exif[] = {0xFF, 0xE1, 0, 34, 'E', 'x', 'i',  'f', 0, 0, 'M', 'M', 0, 42, 0,
                            0,    0,    8, 0,  1,   1,   0x12, 0,   3, 0, 0,   0,   1, 0,  (uint8_t)orientation,
                            0,    0,    0, 0,  0,   0};
    struct bytes plain = encoded("jpeg", pixels, WIDTH, HEIGHT, 1), made = {malloc(plain.size + sizeof exif), 0};
    memcpy(made.data, plain.data, 2);
    memcpy(made.data + 2, exif, sizeof exif);
    memcpy(made.data + 2 + sizeof exif, plain.data + 2, plain.size - 2);
    made.size = plain.size + sizeof exif;
    free(plain.data);
    return made;
}

/* The shades of the corners, clockwise from the top left, as a reader must see them for each EXIF orientation. */
static void test_orientations(void **state)
{
    static const uint8_t corners[9][4] = {{0},
                                          {0, 80, 240, 160},
                                          {80, 0, 160, 240},
                                          {240, 160, 0, 80},
                                          {160, 240, 80, 0},
                                          {0, 160, 240, 80},
                                          {160, 0, 80, 240},
                                          {240, 80, 0, 160},
                                          {80, 240, 160, 0}};
    for (int orientation = 1; orientation <= 8; orientation++) {
        struct bytes file = quarters_jpeg(orientation);
        struct decoded image = decoded(file, 1, 0);
        assert_int_equal(image.status, 0);
        assert_int_equal(image.facts.orientation, orientation);
        uint32_t w = image.plan.width, h = image.plan.height;
        assert_int_equal(w, orientation > 4 ? 16 : 32);
        assert_int_equal(h, orientation > 4 ? 32 : 16);
        const uint8_t seen[4] = {image.pixels[0], image.pixels[w - 1], image.pixels[w * h - 1],
                                 image.pixels[w * (h - 1)]};
        for (int i = 0; i < 4; i++)
            assert_in_range(seen[i] + 4, corners[orientation][i], corners[orientation][i] + 8);
        free(image.pixels);
        free(file.data);
    }
}

static void test_scaling_down(void **state)
{
    uint8_t pixels[101 * 51];
    for (int i = 0; i < 101 * 51; i++)
        pixels[i] = i % 101 % 2 ? 255 : 1;
    struct bytes file = encoded("png", pixels, 101, 51, 1);
    struct decoded image = decoded(file, 3, 51 * 26);
    assert_int_equal(image.status, 0);
    assert_int_equal(image.plan.factor, 2);
    assert_int_equal(image.plan.width, 51);
    assert_int_equal(image.plan.height, 26);
    assert_int_equal(image.pixels[0], 128);
    assert_int_equal(image.pixels[50 * 3], 1); /* the last column stands alone */
    assert_int_equal(image.pixels[(25 * 51 + 49) * 3 + 2], 128);
    free(image.pixels);
    free(file.data);
}

static void png_append(png_structp png, png_bytep data, png_size_t bytes)
{
    struct bytes *file = png_get_io_ptr(png);
    file->data = realloc(file->data, file->size + bytes);
    memcpy(file->data + file->size, data, bytes);
    file->size += bytes;
}

static void png_flushed(png_structp png)
{
}

/* A PNG of one row as libpng writes it. */
static struct bytes png_row(int depth, int colour_type, uint32_t width, const uint8_t *row, int interlace)
{
    struct bytes file = {0};
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_color palette[2] = {{10, 20, 30}, {200, 100, 50}};
    if (setjmp(png_jmpbuf(png)))
        fail();
    png_set_write_fn(png, &file, png_append, png_flushed);
    png_set_IHDR(png, info, width, 1, depth, colour_type, interlace, 0, 0);
    if (colour_type == PNG_COLOR_TYPE_PALETTE)
        png_set_PLTE(png, info, palette, 2);
    png_set_pHYs(png, info, 11811, 11811, PNG_RESOLUTION_METER);
    png_write_info(png, info);
    png_bytep rows[1] = {(png_bytep)row};
    png_write_image(png, rows);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    return file;
}

static void test_png_forms(void **state)
{
    static const uint8_t rgba[] = {255, 0, 0, 255, 0, 0, 0, 0, 0, 255, 0, 128};
    static const uint8_t wide[] = {0x12, 0x34, 0xFF, 0xFF};
    static const uint8_t bits[] = {0x40};
    struct bytes file = png_row(8, PNG_COLOR_TYPE_RGBA, 3, rgba, PNG_INTERLACE_ADAM7);
    struct decoded image = decoded(file, 3, 0);
    static const uint8_t over_white[] = {255, 0, 0, 255, 255, 255, 127, 255, 127};
    assert_int_equal(image.status, 0);
    assert_memory_equal(image.pixels, over_white, sizeof over_white);
    assert_in_range((int)(image.plan.dpi * 10), 2998, 3002);
    free(image.pixels);
    free(file.data);

    file = png_row(16, PNG_COLOR_TYPE_GRAY, 2, wide, PNG_INTERLACE_NONE);
    image = decoded(file, 1, 0);
    assert_int_equal(image.pixels[0], 0x12);
    assert_int_equal(image.pixels[1], 0xFF);
    free(image.pixels);
    free(file.data);

    file = png_row(1, PNG_COLOR_TYPE_PALETTE, 2, bits, PNG_INTERLACE_NONE);
    image = decoded(file, 3, 0);
    static const uint8_t palette[] = {10, 20, 30, 200, 100, 50};
    assert_memory_equal(image.pixels, palette, sizeof palette);
    free(image.pixels);
    free(file.data);
}

/* A bomb in the header must be refused before anything is allocated for it. */
static void test_caps(void **state)
{
    uint8_t row[4] = {0};
    struct bytes file = png_row(8, PNG_COLOR_TYPE_GRAY, 4, row, PNG_INTERLACE_NONE);
    static const uint8_t huge[] = {0, 1, 0, 0, 0, 1, 0, 0};
    memcpy(file.data + 16, huge, sizeof huge);
    /* The checksum of the header chunk, from the CRC of PNG. */
    uint32_t crc = 0xFFFFFFFF;
    for (size_t i = 12; i < 29; i++) {
        crc ^= file.data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? 0xEDB88320 ^ crc >> 1 : crc >> 1;
    }
    crc = ~crc;
    for (int i = 0; i < 4; i++)
        file.data[29 + i] = (uint8_t)(crc >> (24 - 8 * i));
    struct decoded image = decoded(file, 1, 0);
    assert_true(image.status < 0);
    assert_int_equal(image.failure.class_id, SHEAF_CLASS_TOO_LARGE);
    assert_null(image.pixels);
    free(file.data);
}

/* Cut anywhere, an image is refused or read in part, never more than that. */
static void test_truncation(void **state)
{
    uint8_t pixels[40 * 30 * 3];
    fill(pixels, sizeof pixels);
    static const char *const formats[] = {"png", "jpeg"};
    for (int f = 0; f < 2; f++) {
        struct bytes file = encoded(formats[f], pixels, 40, 30, 3);
        for (size_t cut = 0; cut < file.size; cut += 1 + file.size / 97) {
            uint8_t *exact = malloc(cut + 1);
            memcpy(exact, file.data, cut);
            struct decoded image = decoded((struct bytes){exact, cut}, 3, 0);
            if (image.status < 0)
                assert_true(image.failure.class_id != SHEAF_CLASS_NONE && image.failure.message[0]);
            free(image.pixels);
            free(exact);
        }
        free(file.data);
    }
}

/* Twice the resolution across, as fax machines have it, becomes square pixels. */
static void test_tiff_fax(void **state)
{
    char path[] = "/tmp/sheaf-test-XXXXXX";
    int descriptor = mkstemp(path);
    TIFF *tiff = TIFFFdOpen(descriptor, path, "w");
    uint8_t rows[3][2] = {{0xF0, 0x0F}, {0x00, 0xFF}, {0xFF, 0x00}};
    assert_non_null(tiff);
    TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, 16);
    TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, 3);
    TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, 1);
    TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
    TIFFSetField(tiff, TIFFTAG_COMPRESSION, COMPRESSION_CCITTFAX4);
    TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, 2);
    TIFFSetField(tiff, TIFFTAG_XRESOLUTION, 204.0);
    TIFFSetField(tiff, TIFFTAG_YRESOLUTION, 98.0);
    for (uint32_t y = 0; y < 3; y++)
        assert_int_equal(TIFFWriteScanline(tiff, rows[y], y, 0), 1);
    TIFFClose(tiff);
    struct bytes file;
    file.data = host_file_read(path, &file.size);
    unlink(path);
    struct decoded image = decoded(file, 1, 0);
    assert_int_equal(image.status, 0);
    assert_int_equal(image.plan.width, 16);
    assert_int_equal(image.plan.height, 6);
    for (int y = 0; y < 6; y++) {
        for (int x = 0; x < 16; x++)
            assert_int_equal(image.pixels[y * 16 + x], rows[y / 2][x / 8] >> (7 - x % 8) & 1 ? 255 : 0);
    }
    free(image.pixels);
    free(file.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_png_round_trip), cmocka_unit_test(test_orientations), cmocka_unit_test(test_scaling_down),
        cmocka_unit_test(test_png_forms),      cmocka_unit_test(test_caps),         cmocka_unit_test(test_truncation),
        cmocka_unit_test(test_tiff_fax),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
