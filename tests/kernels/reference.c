/* SPDX-License-Identifier: Apache-2.0 */
#include "reference.h"

#include <math.h>

/* Samples of a plane: the picture itself, or the chroma of NV12 as a picture of its own. */
static double sample(const struct sheaf_image *image, uint32_t x, uint32_t y, uint32_t channel)
{
    if (image->format == SHEAF_IMAGE_NV12 && channel > 0)
        return picture_sample(image, 2 * x, 2 * y, channel);
    return picture_sample(image, x, y, channel);
}

/* The weight of input pixel `at` for output pixel i. */
static double bilinear_weight(struct axis axis, uint32_t i, uint32_t at)
{
    double place = (i + 0.5) * axis.in / axis.out - 0.5;
    place = fmin(fmax(place, 0), axis.in - 1);
    return fmax(0, 1 - fabs(place - at));
}

static double area_part(struct axis axis, uint32_t i, uint32_t at)
{
    double begin = (double)i * axis.in / axis.out, end = (double)(i + 1) * axis.in / axis.out;
    return fmax(0, fmin(end, at + 1.0) - fmax(begin, at)) / (end - begin);
}

double reference_scaled(const struct sheaf_image *in, struct axis ax, struct axis ay, uint32_t x, uint32_t y,
                        uint32_t channel, uint32_t filter)
{
    double (*weight)(struct axis, uint32_t, uint32_t) = filter == SHEAF_FILTER_AREA ? area_part : bilinear_weight;
    double sum = 0, middle_x = (x + 0.5) * ax.in / ax.out, middle_y = (y + 0.5) * ay.in / ay.out;
    double reach_x = fmax(1, 0.5 * ax.in / ax.out) + 1, reach_y = fmax(1, 0.5 * ay.in / ay.out) + 1;
    for (int64_t at_y = (int64_t)fmax(0, middle_y - reach_y); at_y < ay.in && at_y <= middle_y + reach_y; at_y++) {
        double down = weight(ay, y, (uint32_t)at_y);
        for (int64_t at_x = (int64_t)fmax(0, middle_x - reach_x);
             at_x < ax.in && at_x <= middle_x + reach_x && down > 0; at_x++)
            sum += down * weight(ax, x, (uint32_t)at_x) * sample(in, (uint32_t)at_x, (uint32_t)at_y, channel);
    }
    return sum;
}
