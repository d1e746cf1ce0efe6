/* SPDX-License-Identifier: Apache-2.0 */
/* Part of device.cu: resizing. A thread for an output pixel. */

DEVICE_FUNCTION(bilinear, struct bilinear_args)
{
    EACH_THREAD
    {
        uint32_t x = PIXEL_X, y = PIXEL_Y;
        if (x >= args.width || y >= args.height)
            continue;
        int16_t weight_x, weight_y;
        uint32_t at_x = bilinear_place(&args.x, x, &weight_x), at_y = bilinear_place(&args.y, y, &weight_y);
        const uint8_t *upper = args.in + at_y * args.in_stride + (uint64_t)at_x * args.channels;
        const uint8_t *lower = upper + (weight_y ? args.in_stride : 0);
        uint32_t right = weight_x ? args.channels : 0;
        uint8_t *out = args.out + y * args.out_stride + (uint64_t)x * args.channels;
        for (uint32_t c = 0; c < args.channels; c++) {
            int16_t a = blend_u8(upper[c], lower[c], weight_y);
            int16_t b = blend_u8(upper[c + right], lower[c + right], weight_y);
            out[c] = round_q7(blend_q7(a, b, weight_x));
        }
    }
}

DEVICE_FUNCTION(area, struct area_args)
{
    EACH_THREAD
    {
        uint32_t x = PIXEL_X, y = PIXEL_Y;
        if (x >= args.width || y >= args.height)
            continue;
        uint64_t sums[4] = {0, 0, 0, 0};
        uint32_t from_x = area_first(&args.x, x), weight;
        for (uint32_t at_y = area_first(&args.y, y); at_y < args.in_height; at_y++) {
            uint32_t weight_y = area_weight(&args.y, y, at_y);
            if (weight_y == 0)
                break;
            const uint8_t *row = args.in + at_y * args.in_stride;
            for (uint32_t at_x = from_x; at_x < args.in_width && (weight = area_weight(&args.x, x, at_x)) > 0; at_x++)
                for (uint32_t c = 0; c < args.channels; c++)
                    sums[c] += (uint64_t)weight_y * weight * row[(uint64_t)at_x * args.channels + c];
        }
        uint8_t *out = args.out + y * args.out_stride + (uint64_t)x * args.channels;
        for (uint32_t c = 0; c < args.channels; c++)
            out[c] = area_mean(sums[c], args.total, args.inverse);
    }
}
