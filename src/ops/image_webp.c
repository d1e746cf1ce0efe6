/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/image.h"

#include <stdlib.h>
#include <string.h>

#include <webp/decode.h>

/* The EXIF chunk of the RIFF container, if any. */
static int webp_orientation(const uint8_t *data, size_t size_bytes)
{
    for (size_t at = 12; at + 8 <= size_bytes;) {
        size_t bytes =
            (size_t)data[at + 4] | (size_t)data[at + 5] << 8 | (size_t)data[at + 6] << 16 | (size_t)data[at + 7] << 24;
        if (bytes > size_bytes - at - 8)
            return 1;
        const uint8_t *chunk = data + at + 8;
        if (memcmp(data + at, "EXIF", 4) == 0) {
            int has_prefix = bytes > 6 && memcmp(chunk, "Exif\0\0", 6) == 0;
            return has_prefix ? exif_orientation(chunk + 6, bytes - 6) : exif_orientation(chunk, bytes);
        }
        at += 8 + bytes + (bytes & 1);
    }
    return 1;
}

int webp_facts(const struct image_source *source, struct image_facts *facts, struct document_failure *failure)
{
    WebPBitstreamFeatures features;
    VP8StatusCode code = WebPGetFeatures(source->data, source->size_bytes, &features);
    if (code != VP8_STATUS_OK)
        return image_refuse(failure, SHEAF_CLASS_MALFORMED, "the WebP header cannot be read (libwebp error %d)", code);
    if (features.has_animation)
        return image_refuse(failure, SHEAF_CLASS_UNSUPPORTED, "an animated WebP image; still images are read");
    facts->width = (uint32_t)features.width;
    facts->height = (uint32_t)features.height;
    facts->orientation = webp_orientation(source->data, source->size_bytes);
    return 0;
}

int webp_rows(const struct image_source *source, struct image_sink *sink, struct document_failure *failure)
{
    size_t stride = (size_t)sink->width * 4;
    if (stride * sink->height > IMAGE_SCRATCH_BYTES_MAX)
        return image_refuse(failure, SHEAF_CLASS_TOO_LARGE, "the WebP image is %u by %u pixels", sink->width,
                            sink->height);
    uint8_t *pixels = malloc(stride * sink->height);
    if (!pixels)
        return image_refuse(failure, SHEAF_CLASS_RESOURCE_EXHAUSTED, "no memory to decode the WebP");
    if (!WebPDecodeRGBAInto(source->data, source->size_bytes, pixels, stride * sink->height, (int)stride)) {
        free(pixels);
        return image_refuse(failure, SHEAF_CLASS_MALFORMED, "the WebP cannot be decoded: damaged or cut off");
    }
    for (uint32_t y = 0; y < sink->height; y++) {
        uint8_t *row = pixels + y * stride;
        for (uint32_t x = 0; x < sink->width; x++) {
            const uint8_t *in = row + 4 * (size_t)x;
            uint32_t alpha = in[3];
            for (uint32_t c = 0; c < 3; c++)
                row[3 * (size_t)x + c] = (uint8_t)((in[c] * alpha + 255 * (255 - alpha) + 127) / 255);
        }
        image_sink_row(sink, row, 3);
    }
    free(pixels);
    return 0;
}
