/* SPDX-License-Identifier: Apache-2.0 */
/* Part of rows.c: resizing, turning, tensors. */

static void blend_rows(const uint8_t *restrict a, const uint8_t *restrict b, int16_t weight, int16_t *restrict out,
                       uint32_t n)
{
    lanes by = lanes_all(weight);
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        lanes from = lanes_load_u8(a + i), to = lanes_load_u8(b + i);
        lanes_store(out + i, (from << 7) + lanes_multiply_q15((to - from) << 7, by));
    }
    for (; i < n; i++)
        out[i] = blend_u8(a[i], b[i], weight);
}

/* The samples of a pixel and of the one behind it lie together: for each channel one load of both would need a gather,
 * so the loop is over pixels and its body over channels. */
#define BLEND_ACROSS(channels)                                                                                         \
    static void blend_across_##channels(const int16_t *restrict row, const uint32_t *restrict at,                      \
                                        const int16_t *restrict weight, uint8_t *restrict out, uint32_t n)             \
    {                                                                                                                  \
        for (uint32_t i = 0; i < n; i++) {                                                                             \
            const int16_t *from = (const int16_t *)(const void *)((const char *)row + at[i]);                          \
            for (uint32_t c = 0; c < channels; c++)                                                                    \
                out[i * channels + c] = round_q7(blend_q7(from[c], from[c + channels], weight[i]));                    \
        }                                                                                                              \
    }
BLEND_ACROSS(1)
BLEND_ACROSS(2)
BLEND_ACROSS(3)
BLEND_ACROSS(4)

static void area_add(const uint8_t *restrict row, uint32_t weight, bool is_first, uint32_t *restrict sums, uint32_t n)
{
    if (is_first)
        for (uint32_t i = 0; i < n; i++)
            sums[i] = weight * row[i];
    else
        for (uint32_t i = 0; i < n; i++)
            sums[i] += weight * row[i];
}

/* Output pixels take what is left of the input pixel `at` in turn: `left` of it, in units of scale->area_x. */
#define AREA_ACROSS(channels)                                                                                          \
    static void area_across_##channels(const uint32_t *restrict sums, const struct plane_scale *scale,                 \
                                       uint8_t *restrict out, uint32_t n)                                              \
    {                                                                                                                  \
        uint32_t at = 0, left = scale->area_x.out;                                                                     \
        for (uint32_t i = 0; i < n; i++) {                                                                             \
            uint64_t sum[channels] = {0};                                                                              \
            for (uint32_t wanted = scale->area_x.in; wanted > 0;) {                                                    \
                uint32_t weight = left < wanted ? left : wanted;                                                       \
                for (uint32_t c = 0; c < channels; c++)                                                                \
                    sum[c] += (uint64_t)weight * sums[at * channels + c];                                              \
                wanted -= weight;                                                                                      \
                left -= weight;                                                                                        \
                at += left == 0;                                                                                       \
                left = left == 0 ? scale->area_x.out : left;                                                           \
            }                                                                                                          \
            for (uint32_t c = 0; c < channels; c++)                                                                    \
                out[i * channels + c] = area_mean(sum[c], scale->total, scale->inverse);                               \
        }                                                                                                              \
    }
AREA_ACROSS(1)
AREA_ACROSS(2)
AREA_ACROSS(3)
AREA_ACROSS(4)

/* ---- turning ---- */

static void rotate_row(const struct rotate_args *args, uint32_t y, uint8_t *out)
{
    const struct turn turn = args->turn;
    const struct plane_view in = args->in;
    int64_t x_0 = turn.x_0 + turn.x_y * y, y_0 = turn.y_0 + turn.y_y * y;
    for (uint32_t x = 0; x < args->width; x++)
        out[x] = turned_pixel(in.data, in.stride, in.width, in.height, x_0 + turn.x_x * x, y_0 + turn.y_x * x,
                              (uint8_t)args->fill);
}

/* ---- tensors ---- */

static void floats_of_plane(const uint8_t *restrict plane, float by, float bias, float *restrict out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] = normalise(plane[i], by, bias);
}

static void bfloats_of_plane(const uint8_t *restrict plane, float by, float bias, uint16_t *restrict out, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] = bf16_of_bits(bits_of_float(normalise(plane[i], by, bias)));
}

/* `out` is where the row begins in the first plane. */
static void planes_normalise(const struct tensor_args *args, const struct planes *planes, char *out, uint32_t n)
{
    const uint8_t *samples[3] = {planes->a, planes->b, planes->c};
    size_t plane = (size_t)args->out_width * args->out_height;
    for (uint32_t c = 0; c < (args->format == SHEAF_IMAGE_GRAY ? 1 : 3); c++) {
        if (args->dtype == SHEAF_FLOAT32)
            floats_of_plane(samples[c], args->by[c], args->bias[c], (float *)(void *)out + c * plane, n);
        else
            bfloats_of_plane(samples[c], args->by[c], args->bias[c], (uint16_t *)(void *)out + c * plane, n);
    }
}

static void tensor_row(const struct tensor_args *args, const uint8_t *row, const uint8_t *chroma, void *out)
{
    size_t float_bytes = args->dtype == SHEAF_FLOAT32 ? sizeof(float) : sizeof(uint16_t);
    struct chroma_terms terms;
    struct planes planes;
    for (uint32_t at = 0, n; at < args->width; at += n) {
        n = args->width - at < RUN ? args->width - at : RUN;
        switch (args->format) {
        case SHEAF_IMAGE_GRAY:
            memcpy(planes.a, row + at, n);
            break;
        case SHEAF_IMAGE_RGB:
            planes_of_rgb(row + 3 * (size_t)at, &planes, n);
            break;
        case SHEAF_IMAGE_BGRA:
            planes_of_bgra(row + 4 * (size_t)at, &planes, n);
            break;
        default:
            chroma_make(&args->colour, chroma + 2 * (size_t)at, &terms, n);
            planes_of_yuv(&args->colour, row + at, &terms, &planes, n);
        }
        planes_normalise(args, &planes, (char *)out + at * float_bytes, n);
    }
}
