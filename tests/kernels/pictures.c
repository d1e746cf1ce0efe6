/* SPDX-License-Identifier: Apache-2.0 */
#include "pictures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

uint64_t test_seed(void)
{
    static uint64_t seed;
    const char *text = getenv("SHEAF_TEST_SEED");
    if (seed == 0) {
        seed = text ? strtoull(text, NULL, 10) : 1;
        printf("seed %llu (SHEAF_TEST_SEED sets it)\n", (unsigned long long)seed);
    }
    return seed;
}

uint32_t test_cases(uint32_t usual)
{
    const char *text = getenv("SHEAF_TEST_CASES");
    return text ? (uint32_t)strtoul(text, NULL, 10) : usual;
}

void random_begin(uint64_t stream)
{
    state = (test_seed() + 1) * 0x9E3779B97F4A7C15u ^ (stream + 1) * 0xD1B54A32D192ED03u;
}

/* splitmix64, Steele, Lea and Flood 2014. */
uint64_t random_u64(void)
{
    uint64_t z = state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

uint32_t random_below(uint32_t limit)
{
    return (uint32_t)(random_u64() % limit);
}

uint32_t random_side(uint32_t most)
{
    switch (random_below(8)) {
    case 0:
        return 1;
    case 1:
        return 1 + random_below(most);
    case 2:
        return 1 + random_below(most < 600 ? most : 600);
    default:
        return 1 + random_below(most < 90 ? most : 90);
    }
}

static uint8_t gap_byte(uint64_t at)
{
    return (uint8_t)(at * 7 + 3);
}

/* Calls `each` for the rows of all planes: where they begin and how many bytes are theirs. */
static void each_row(const struct sheaf_image *image, void (*each)(void *cookie, uint64_t offset, uint64_t bytes),
                     void *cookie)
{
    uint64_t row_bytes = sheaf_image_bytes(image->width, 1, image->format);
    if (image->format == SHEAF_IMAGE_NV12)
        row_bytes = image->width;
    for (uint32_t y = 0; y < image->height; y++)
        each(cookie, y * image->stride_bytes, row_bytes);
    for (uint32_t y = 0; image->format == SHEAF_IMAGE_NV12 && y < (image->height + 1) / 2; y++)
        each(cookie, image->chroma_offset + y * image->stride_bytes, ((uint64_t)image->width + 1) / 2 * 2);
}

struct filling {
    uint8_t *data;
    uint32_t kind, salt, row;
};

static void fill_row(void *cookie, uint64_t offset, uint64_t bytes)
{
    struct filling *filling = cookie;
    uint8_t *row = filling->data + offset;
    for (uint64_t i = 0; i < bytes; i++) {
        switch (filling->kind) {
        case 0:
            row[i] = (uint8_t)(i * 3 + filling->row * 5 + filling->salt);
            break;
        case 1:
            row[i] = (i / 5 + filling->row / 3 + filling->salt) % 3 ? 255 : 0;
            break;
        case 2:
            row[i] = (uint8_t)filling->salt;
            break;
        default:
            row[i] = (uint8_t)(random_u64() >> 20);
        }
    }
    filling->row++;
}

struct sheaf_image picture_create(uint32_t width, uint32_t height, uint32_t format, uint32_t matrix)
{
    struct sheaf_image image = sheaf_image_packed(width, height, format, NULL);
    image.matrix = matrix;
    image.stride_bytes += random_below(3) ? random_below(40) : 0;
    image.size_bytes = (height - 1) * image.stride_bytes + sheaf_image_bytes(width, 1, format);
    if (format == SHEAF_IMAGE_NV12) {
        uint64_t pair_bytes = ((uint64_t)width + 1) / 2 * 2;
        image.chroma_offset = height * image.stride_bytes + random_below(9);
        image.size_bytes = image.chroma_offset + (((uint64_t)height + 1) / 2 - 1) * image.stride_bytes + pair_bytes;
    }
    image.data = malloc(image.size_bytes);
    struct filling filling = {image.data, random_below(6), random_below(256), 0};
    for (uint64_t i = 0; i < image.size_bytes; i++)
        filling.data[i] = gap_byte(i);
    each_row(&image, fill_row, &filling);
    return image;
}

void picture_destroy(struct sheaf_image *image)
{
    free(image->data);
    image->data = NULL;
}

struct sheaf_image picture_clone(const struct sheaf_image *image)
{
    struct sheaf_image clone = *image;
    clone.data = malloc(image->size_bytes);
    memcpy(clone.data, image->data, image->size_bytes);
    return clone;
}

bool pictures_equal(const struct sheaf_image *a, const struct sheaf_image *b)
{
    const uint8_t *at_a = a->data, *at_b = b->data;
    for (uint64_t i = 0; i < a->size_bytes; i++) {
        if (at_a[i] == at_b[i])
            continue;
        printf("byte %llu of %u x %u, format %u, stride %llu: %u and %u\n", (unsigned long long)i, a->width, a->height,
               a->format, (unsigned long long)a->stride_bytes, at_a[i], at_b[i]);
        return false;
    }
    return true;
}

static void mark_row(void *cookie, uint64_t offset, uint64_t bytes)
{
    memset((uint8_t *)cookie + offset, 1, bytes);
}

bool picture_gaps_whole(const struct sheaf_image *image)
{
    uint8_t *is_pixel = calloc(1, image->size_bytes), *data = image->data;
    bool whole = true;
    each_row(image, mark_row, is_pixel);
    for (uint64_t i = 0; i < image->size_bytes; i++)
        whole = whole && (is_pixel[i] || data[i] == gap_byte(i));
    free(is_pixel);
    return whole;
}

uint8_t picture_sample(const struct sheaf_image *image, uint32_t x, uint32_t y, uint32_t channel)
{
    const uint8_t *data = image->data;
    if (image->format == SHEAF_IMAGE_NV12)
        return channel == 0 ? data[y * image->stride_bytes + x]
                            : data[image->chroma_offset + y / 2 * image->stride_bytes + x / 2 * 2 + channel - 1];
    uint64_t channels = image->format == SHEAF_IMAGE_GRAY ? 1 : image->format == SHEAF_IMAGE_RGB ? 3 : 4;
    return data[y * image->stride_bytes + x * channels + channel];
}
