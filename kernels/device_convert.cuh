/* SPDX-License-Identifier: Apache-2.0 */
/* Part of device.cu: conversion of colours. */

struct rgb {
    uint8_t r, g, b;
};

KERNEL struct rgb pixel_load(const struct picture_view *in, const struct colour *c, uint32_t x, uint32_t y)
{
    const uint8_t *row = in->data + y * in->stride;
    struct rgb pixel = {0, 0, 0};
    switch (in->format) {
    case SHEAF_IMAGE_GRAY:
        pixel.r = pixel.g = pixel.b = row[x];
        break;
    case SHEAF_IMAGE_RGB:
        pixel.r = row[3ull * x];
        pixel.g = row[3ull * x + 1];
        pixel.b = row[3ull * x + 2];
        break;
    case SHEAF_IMAGE_BGRA:
        pixel.b = row[4ull * x];
        pixel.g = row[4ull * x + 1];
        pixel.r = row[4ull * x + 2];
        break;
    default: {
        const uint8_t *uv = in->chroma + y / 2 * in->stride + (x & ~1u);
        pixel.r = red_of_yuv(c, row[x], uv[1]);
        pixel.g = green_of_yuv(c, row[x], uv[0], uv[1]);
        pixel.b = blue_of_yuv(c, row[x], uv[0]);
    }
    }
    return pixel;
}

KERNEL uint8_t gray_load(const struct picture_view *in, const struct colour *c, uint32_t x, uint32_t y)
{
    if (in->format == SHEAF_IMAGE_GRAY)
        return in->data[y * in->stride + x];
    if (in->format == SHEAF_IMAGE_NV12)
        return gray_of_yuv(c, in->data[y * in->stride + x]);
    struct rgb pixel = pixel_load(in, c, x, y);
    return gray_of_rgb(c, pixel.r, pixel.g, pixel.b);
}

KERNEL void pixel_store(const struct picture_view *out, struct rgb pixel, uint32_t x, uint32_t y)
{
    uint8_t *row = out->data + y * out->stride;
    if (out->format == SHEAF_IMAGE_RGB) {
        row[3ull * x] = pixel.r;
        row[3ull * x + 1] = pixel.g;
        row[3ull * x + 2] = pixel.b;
    } else {
        row[4ull * x] = pixel.b;
        row[4ull * x + 1] = pixel.g;
        row[4ull * x + 2] = pixel.r;
        row[4ull * x + 3] = 255;
    }
}

/* A thread for 2 x 2 pixels of NV12: sides may be odd, then the last pixel stands for its missing neighbour. */
KERNEL void nv12_store(const struct convert_args *args, uint32_t x, uint32_t y)
{
    const struct picture_view *in = &args->in, *out = &args->out;
    struct colour_sum sum = {0, 0, 0};
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t at_x = x + (i & 1) < in->width ? x + (i & 1) : x, at_y = y + (i >> 1) < in->height ? y + (i >> 1) : y;
        struct rgb pixel = pixel_load(in, &args->colour, at_x, at_y);
        colour_add(&sum, pixel.r, pixel.g, pixel.b);
        out->data[at_y * out->stride + at_x] = luma_of_rgb(&args->colour, pixel.r, pixel.g, pixel.b);
    }
    uint8_t *uv = out->chroma + y / 2 * out->stride + x;
    uv[0] = u_of_sum(&args->colour, &sum);
    uv[1] = v_of_sum(&args->colour, &sum);
}

DEVICE_FUNCTION(copy, struct copy_args)
{
    EACH_THREAD
    {
        uint32_t x = WIDE_BYTES * PIXEL_X, y = PIXEL_Y;
        if (x >= args.row_bytes || y >= args.rows)
            continue;
        struct sixteen loaded = load_sixteen(args.in + y * args.in_stride, x, args.row_bytes);
        store_bytes(args.out + y * args.out_stride, x, args.row_bytes, 16, &loaded);
    }
}

/* A thread for sixteen pixels of `channels` bytes, red at `red`. */
template <uint32_t channels, uint32_t red>
KERNEL void gray_sixteen(const struct gray_args *args, uint32_t x, uint32_t y)
{
    const uint8_t *row = args->in.data + y * args->in.stride;
    struct sixteen loaded[channels], gray = {{0, 0, 0, 0}};
    UNROLL
    for (uint32_t i = 0; i < channels; i++)
        loaded[i] = load_sixteen(row, channels * x + 16 * i, channels * args->in.width);
    UNROLL
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t r = channels * i + red, g = channels * i + 1, b = channels * i + 2 - red;
        gray.words[i / 4] |= (uint32_t)gray_of_rgb(&args->colour, BYTE_OF(loaded[r / 16], r % 16),
                                                   BYTE_OF(loaded[g / 16], g % 16), BYTE_OF(loaded[b / 16], b % 16))
                             << 8 * (i % 4);
    }
    store_bytes(args->out + y * args->out_stride, x, args->in.width, 16, &gray);
}

DEVICE_FUNCTION(gray, struct gray_args)
{
    EACH_THREAD
    {
        uint32_t x = WIDE_BYTES * PIXEL_X, y = PIXEL_Y;
        if (x >= args.in.width || y >= args.in.height)
            continue;
        if (args.in.format == SHEAF_IMAGE_RGB)
            gray_sixteen<3, 0>(&args, x, y);
        else
            gray_sixteen<4, 2>(&args, x, y);
    }
}

DEVICE_FUNCTION(convert, struct convert_args)
{
    EACH_THREAD
    {
        uint32_t step = args.out.format == SHEAF_IMAGE_NV12 ? 2 : 1, x = PIXEL_X * step, y = PIXEL_Y * step;
        if (x >= args.in.width || y >= args.in.height)
            continue;
        if (args.out.format == SHEAF_IMAGE_GRAY)
            args.out.data[y * args.out.stride + x] = gray_load(&args.in, &args.colour, x, y);
        else if (args.out.format == SHEAF_IMAGE_NV12)
            nv12_store(&args, x, y);
        else
            pixel_store(&args.out, pixel_load(&args.in, &args.colour, x, y), x, y);
    }
}
