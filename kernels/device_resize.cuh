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

/* A lane's part of the sum over `bytes` bytes. */
KERNEL uint64_t run_sum(const uint8_t *first, uint32_t bytes, uint32_t lane, uint32_t lanes)
{
    struct byte_run run = byte_run_of(first, bytes);
    uint64_t sum = 0;
    for (uint32_t i = lane; i < run.sixteens; i += lanes) {
        struct sixteen loaded = aligned_sixteen(first + run.head + 16 * i);
        sum += sum_of_bytes(&loaded);
    }
    for (uint32_t n = lane; n < bytes - 16 * run.sixteens; n += lanes)
        sum += first[left_over(&run, n)];
    return sum;
}

/* A lane's part of what output column x covers of an input row of one channel, weighted; the pixels between the first
 * and the last are covered as wholes. */
KERNEL uint64_t area_row(const struct plane_scale *scale, const uint8_t *row, uint32_t x, uint32_t lane, uint32_t lanes)
{
    const struct area_axis *axis = &scale->area_x;
    uint32_t first = area_first(axis, x), last = (uint32_t)((((uint64_t)x + 1) * axis->in - 1) / axis->out);
    uint64_t sum = last > first + 1 ? axis->out * run_sum(row + first + 1, last - first - 1, lane, lanes) : 0;
    if (lane == 0)
        sum += (uint64_t)area_weight(axis, x, first) * row[first];
    if (lane == 0 && last > first)
        sum += (uint64_t)area_weight(axis, x, last) * row[last];
    return sum;
}

/* By area, a block for an output pixel: its threads add what it covers, of one channel sixteen of them a row. */
DEVICE_FUNCTION(resize_few, struct resize_args)
{
    enum { LANES = 16, ROWS = PLAN_BLOCK_THREADS / LANES };
    SHARED uint64_t sums[4][PLAN_BLOCK_THREADS];
    const struct plane_scale *scale = &args.scale;
    uint32_t x = blockIdx.x, y = blockIdx.y, at_x = x - args.x, at_y = y - args.y;
    bool is_inside = at_x < args.width && at_y < args.height;
    EACH_THREAD
    {
        uint64_t mine[4] = {0, 0, 0, 0};
        if (scale->channels == 1)
            continue;
        if (is_inside)
            area_sum(scale, at_x, at_y, threadIdx.x, blockDim.x, mine);
        for (uint32_t c = 0; c < 4; c++)
            sums[c][threadIdx.x] = mine[c];
    }
    EACH_THREAD
    {
        uint64_t mine = 0;
        uint32_t row = area_first(&scale->area_y, at_y) + threadIdx.x / LANES, weight;
        if (scale->channels != 1)
            continue;
        for (; is_inside && row < scale->in_height && (weight = area_weight(&scale->area_y, at_y, row)) > 0;
             row += ROWS)
            mine += weight * area_row(scale, scale->in + row * scale->in_stride, at_x, threadIdx.x % LANES, LANES);
        sums[0][threadIdx.x] = mine;
    }
    for (uint32_t c = 0; c < scale->channels; c++)
        BLOCK_SUM(sums[c])
    EACH_THREAD
    {
        uint32_t c = threadIdx.x;
        uint8_t *out = args.out + y * args.out_stride + (uint64_t)x * scale->channels;
        if (c < scale->channels)
            out[c] = is_inside ? area_mean(sums[c][0], scale->total, scale->inverse) : args.fill[c];
    }
}

/* A thread for sixteen columns of the input. */
template <uint32_t shift> KERNEL void reduce_sixteen(const struct reduce_args *args, uint32_t x, uint32_t y)
{
    const uint32_t count = 16u >> shift, side = 1u << shift;
    uint32_t sums[count];
    struct sixteen out = {{0, 0, 0, 0}};
    UNROLL
    for (uint32_t i = 0; i < count; i++)
        sums[i] = 0;
    for (uint32_t row = 0; row < side; row++) {
        struct sixteen loaded =
            load_sixteen(args->in.data + ((uint64_t)y * side + row) * args->in.stride, side * x, args->in.width);
        UNROLL
        for (uint32_t i = 0; i < 16; i++)
            sums[i >> shift] += BYTE_OF(loaded, i);
    }
    UNROLL
    for (uint32_t i = 0; i < count; i++)
        out.words[i / 4] |= (uint32_t)area_mean(sums[i], args->total, args->inverse) << 8 * (i % 4);
    store_bytes(args->out + y * args->out_stride, x, args->width, count, &out);
}

DEVICE_FUNCTION(reduce, struct reduce_args)
{
    EACH_THREAD
    {
        uint32_t x = (WIDE_BYTES >> args.shift) * PIXEL_X, y = PIXEL_Y;
        if (x >= args.width || y >= args.height)
            continue;
        if (args.shift == 1)
            reduce_sixteen<1>(&args, x, y);
        else if (args.shift == 2)
            reduce_sixteen<2>(&args, x, y);
        else if (args.shift == 3)
            reduce_sixteen<3>(&args, x, y);
        else
            reduce_sixteen<4>(&args, x, y);
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
