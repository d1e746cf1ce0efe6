/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/picture_work.h"

#include <errno.h>
#include <stdlib.h>

struct sheaf_image picture_image(const struct picture *picture)
{
    struct sheaf_image image = {.width = picture->width,
                                .height = picture->height,
                                .format = picture->channels == 3 ? SHEAF_IMAGE_RGB : SHEAF_IMAGE_GRAY,
                                .stride_bytes = picture->row_bytes,
                                .data = (void *)(uintptr_t)picture->pixels};
    image.size_bytes = (image.height - 1) * image.stride_bytes + (uint64_t)image.width * picture->channels;
    return image;
}

/* A gray picture of this size, without gaps, and its memory; NULL: there is none. */
static uint8_t *picture_create(uint32_t width, uint32_t height, struct picture *ret_picture)
{
    uint8_t *memory = malloc((size_t)width * height);
    *ret_picture = (struct picture){memory, width, height, 1, width};
    return memory;
}

/* Keeps what a kernel made, or nothing. */
static int picture_keep(int status, uint8_t *memory, const struct picture *made, struct picture *ret_picture,
                        uint8_t **ret_memory)
{
    if (status < 0) {
        free(memory);
        return status;
    }
    *ret_picture = *made;
    *ret_memory = memory;
    return 0;
}

int picture_gray(const struct picture *picture, struct picture *ret_gray, uint8_t **ret_memory)
{
    struct picture gray;
    if (picture->channels == 1) {
        *ret_gray = *picture;
        *ret_memory = NULL;
        return 0;
    }
    uint8_t *memory = picture_create(picture->width, picture->height, &gray);
    struct sheaf_image in = picture_image(picture), out = picture_image(&gray);
    return picture_keep(memory ? sheaf_kernel_convert(&in, &out) : -ENOMEM, memory, &gray, ret_gray, ret_memory);
}

/* ---- blank pages ---- */

enum { LETTER_SIDE = 8, LETTER_PIXELS = 16, SHADES_APART = 32 };

bool picture_may_have_letters(uint32_t width, uint32_t height)
{
    return width >= LETTER_SIDE && height >= LETTER_SIDE;
}

bool picture_may_be_averaged(uint32_t width, uint32_t height)
{
    return width >= PICTURE_AVERAGED * LETTER_SIDE && height >= PICTURE_AVERAGED * LETTER_SIDE;
}

bool picture_shades_are_blank(const uint32_t counts[256])
{
    return sheaf_page_ink(counts, SHADES_APART).ink < LETTER_PIXELS;
}

bool picture_shades_are_dust(const uint32_t counts[256])
{
    return sheaf_page_ink(counts, SHADES_APART).ink == 0;
}

bool picture_is_blank(const struct picture *gray)
{
    struct sheaf_image image = picture_image(gray);
    uint32_t counts[256];
    if (!picture_may_have_letters(gray->width, gray->height))
        return true;
    return sheaf_kernel_histogram(&image, counts) == 0 && picture_shades_are_blank(counts);
}

bool picture_is_blank_but_for_dust(const struct picture *gray)
{
    struct picture small;
    if (!picture_may_be_averaged(gray->width, gray->height))
        return picture_is_blank(gray);
    uint8_t *memory = picture_create(gray->width / PICTURE_AVERAGED, gray->height / PICTURE_AVERAGED, &small);
    struct sheaf_image in = picture_image(gray), out = picture_image(&small);
    uint32_t counts[256];
    bool is_blank = memory && sheaf_kernel_resize(&in, &out, SHEAF_FILTER_AREA) == 0 &&
                    sheaf_kernel_histogram(&out, counts) == 0 && picture_shades_are_dust(counts);
    free(memory);
    return is_blank;
}

/* ---- straight lines ---- */

bool picture_may_have_lines(uint32_t height, uint32_t max_slope)
{
    enum { LINES_HEIGHT = 32 };
    return max_slope > 0 && height >= LINES_HEIGHT;
}

/* Lines of a few hundred rows are found as well as those of thousands, and their profile costs less. */
uint32_t picture_skew_factor(uint32_t width, uint32_t height)
{
    enum { ENOUGH = 2000 };
    uint32_t longer = width > height ? width : height, factor = 1;
    while (longer / factor > ENOUGH && width / factor > 2 && height / factor > 2)
        factor *= 2;
    return factor;
}

static int picture_reduced(const struct picture *gray, struct picture *ret_small, uint8_t **ret_memory)
{
    uint32_t factor = picture_skew_factor(gray->width, gray->height);
    struct picture small;
    *ret_small = *gray;
    *ret_memory = NULL;
    if (factor == 1)
        return 0;
    struct picture whole = *gray;
    whole.width -= whole.width % factor;
    whole.height -= whole.height % factor;
    uint8_t *memory = picture_create(whole.width / factor, whole.height / factor, &small);
    struct sheaf_image in = picture_image(&whole), out = picture_image(&small);
    return picture_keep(memory ? sheaf_kernel_resize(&in, &out, SHEAF_FILTER_AREA) : -ENOMEM, memory, &small, ret_small,
                        ret_memory);
}

int32_t picture_sure_slope(const struct sheaf_skew *skew)
{
    enum { LEAST = 286, BETTER_PERCENT = 120 }; /* a quarter of a degree */
    bool is_sure = skew->best / BETTER_PERCENT > skew->level / 100;
    return is_sure && abs(skew->slope) >= LEAST ? skew->slope : 0;
}

int32_t picture_slope(const struct picture *gray, uint32_t max_slope)
{
    struct picture small;
    struct sheaf_skew skew = {0};
    uint8_t *memory;
    uint32_t counts[256];
    if (!picture_may_have_lines(gray->height, max_slope) || picture_reduced(gray, &small, &memory) < 0)
        return 0;
    struct sheaf_image image = picture_image(&small);
    int status = sheaf_kernel_histogram(&image, counts);
    if (status == 0)
        status = sheaf_kernel_skew(&image, sheaf_otsu_threshold(counts), max_slope, &skew);
    free(memory);
    return status == 0 ? picture_sure_slope(&skew) : 0;
}

int picture_straighten(const struct picture *gray, int32_t slope, struct picture *ret_straight, uint8_t **ret_memory)
{
    struct picture straight;
    uint8_t *memory = picture_create(gray->width, gray->height, &straight);
    struct sheaf_image in = picture_image(gray), out = picture_image(&straight);
    uint32_t counts[256];
    int status = memory ? sheaf_kernel_histogram(&in, counts) : -ENOMEM;
    if (status == 0)
        status = sheaf_kernel_rotate(&in, &out, slope, (uint8_t)sheaf_page_ink(counts, SHADES_APART).paper);
    return picture_keep(status, memory, &straight, ret_straight, ret_memory);
}

/* Sauvola's window is about as large as two letters of ten points: radius 12 at 300 dpi. */
int picture_black_and_white(const struct picture *gray, enum picture_binarise how, double dpi,
                            struct picture *ret_binary, uint8_t **ret_memory)
{
    enum { K_256 = 87, RADIUS_MOST = 63 };
    struct picture binary;
    uint8_t *memory = picture_create(gray->width, gray->height, &binary);
    struct sheaf_image in = picture_image(gray), out = picture_image(&binary);
    double radius = dpi / 25 < 2 ? 2 : dpi / 25 > RADIUS_MOST ? RADIUS_MOST : dpi / 25;
    int status = -ENOMEM;
    if (memory && how == PICTURE_SAUVOLA)
        status = sheaf_kernel_sauvola(&in, &out, (uint32_t)radius, K_256);
    else if (memory)
        status = sheaf_kernel_otsu(&in, &out, NULL);
    return picture_keep(status, memory, &binary, ret_binary, ret_memory);
}
