/* SPDX-License-Identifier: Apache-2.0 */
/* Part of device.cu: resizing, turning, tensors. A thread for an output pixel. */

KERNEL void scaled_pixel(const struct plane_scale *scale, uint32_t x, uint32_t y, uint8_t *out)
{
    if (scale->filter == SHEAF_FILTER_AREA)
        area_pixel(scale, x, y, out);
    else
        bilinear_pixel(scale, x, y, out);
}

DEVICE_FUNCTION(resize, struct resize_args)
{
    EACH_THREAD
    {
        uint32_t x = PIXEL_X, y = PIXEL_Y, at_x = x - args.x, at_y = y - args.y; /* left of the place they wrap */
        if (x >= args.out_width || y >= args.out_height)
            continue;
        uint8_t pixel[4] = {args.fill[0], args.fill[1], args.fill[2], args.fill[3]};
        if (at_x < args.width && at_y < args.height)
            scaled_pixel(&args.scale, at_x, at_y, pixel);
        uint8_t *out = args.out + y * args.out_stride + (uint64_t)x * args.scale.channels;
        for (uint32_t c = 0; c < args.scale.channels; c++)
            out[c] = pixel[c];
    }
}

/* By area, a block for an output pixel: its threads add rows of what it covers. */
DEVICE_FUNCTION(resize_few, struct resize_args)
{
    SHARED unsigned long long sums[4];
    uint32_t x = blockIdx.x, y = blockIdx.y, at_x = x - args.x, at_y = y - args.y;
    bool is_inside = at_x < args.width && at_y < args.height;
    EACH_THREAD
    {
        if (threadIdx.x < 4)
            sums[threadIdx.x] = 0;
    }
    EACH_THREAD
    {
        uint64_t mine[4] = {0, 0, 0, 0};
        if (is_inside)
            area_sum(&args.scale, at_x, at_y, threadIdx.x, blockDim.x, mine);
        for (uint32_t c = 0; c < args.scale.channels; c++)
            if (mine[c] != 0)
                atomicAdd(&sums[c], (unsigned long long)mine[c]);
    }
    EACH_THREAD
    {
        uint32_t c = threadIdx.x;
        uint8_t *out = args.out + y * args.out_stride + (uint64_t)x * args.scale.channels;
        if (c < args.scale.channels)
            out[c] = is_inside ? area_mean(sums[c], args.scale.total, args.scale.inverse) : args.fill[c];
    }
}

KERNEL void element_store(const struct tensor_args *args, uint64_t at, uint32_t channel, uint8_t sample)
{
    float value = normalise(sample, args->by[channel], args->bias[channel]);
    uint64_t element = (uint64_t)channel * args->out_width * args->out_height + at;
    if (args->dtype == SHEAF_FLOAT32)
        ((float *)args->out)[element] = value;
    else
        ((uint16_t *)args->out)[element] = bf16_of_bits(bits_of_float(value));
}

/* Red, green and blue, or gray, of the place's pixel. */
KERNEL void tensor_pixel(const struct tensor_args *args, uint32_t x, uint32_t y, uint8_t *out)
{
    uint8_t pixel[4], uv[4];
    scaled_pixel(&args->scale, x, y, pixel);
    switch (args->format) {
    case SHEAF_IMAGE_NV12:
        scaled_pixel(&args->chroma, x, y, uv);
        out[0] = red_of_yuv(&args->colour, pixel[0], uv[1]);
        out[1] = green_of_yuv(&args->colour, pixel[0], uv[0], uv[1]);
        out[2] = blue_of_yuv(&args->colour, pixel[0], uv[0]);
        break;
    case SHEAF_IMAGE_BGRA:
        out[0] = pixel[2];
        out[1] = pixel[1];
        out[2] = pixel[0];
        break;
    default:
        out[0] = pixel[0];
        out[1] = pixel[1];
        out[2] = pixel[2];
    }
}

DEVICE_FUNCTION(tensor, struct tensor_args)
{
    EACH_THREAD
    {
        uint32_t x = PIXEL_X, y = PIXEL_Y, at_x = x - args.x, at_y = y - args.y;
        if (x >= args.out_width || y >= args.out_height)
            continue;
        uint8_t pixel[3] = {args.fill[0], args.fill[1], args.fill[2]};
        if (at_x < args.width && at_y < args.height)
            tensor_pixel(&args, at_x, at_y, pixel);
        for (uint32_t c = 0; c < (args.format == SHEAF_IMAGE_GRAY ? 1 : 3); c++)
            element_store(&args, (uint64_t)y * args.out_width + x, c, pixel[c]);
    }
}

DEVICE_FUNCTION(rotate, struct rotate_args)
{
    EACH_THREAD
    {
        int64_t x = PIXEL_X, y = PIXEL_Y;
        if (x >= args.width || y >= args.height)
            continue;
        int64_t place_x = args.turn.x_0 + args.turn.x_x * x + args.turn.x_y * y;
        int64_t place_y = args.turn.y_0 + args.turn.y_x * x + args.turn.y_y * y;
        args.out[y * args.out_stride + x] = turned_pixel(args.in.data, args.in.stride, args.in.width, args.in.height,
                                                         place_x, place_y, (uint8_t)args.fill);
    }
}
