/* SPDX-License-Identifier: Apache-2.0 */
/* Part of rows.c: tensors. */

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
