/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/image.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

/* A progressive file may repeat scans for ever at a few bytes each; real encoders make about ten. */
enum { SCANS_MAX = 200 };

struct decoder {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    char message[JMSG_LENGTH_MAX];
    uint8_t *row, *rgb;
};

static void on_error(j_common_ptr common)
{
    struct decoder *decoder = common->client_data;
    common->err->format_message(common, decoder->message);
    longjmp(decoder->escape, 1);
}

static void on_message(j_common_ptr common)
{
    /* Warnings are about damage that the decoder gets over. */
}

static void on_progress(j_common_ptr common)
{
    struct decoder *decoder = common->client_data;
    if (decoder->jpeg.input_scan_number <= SCANS_MAX)
        return;
    snprintf(decoder->message, sizeof decoder->message, "more than %d scans", SCANS_MAX);
    longjmp(decoder->escape, 1);
}

static void decoder_begin(struct decoder *decoder, const struct image_source *source)
{
    decoder->jpeg.err = jpeg_std_error(&decoder->errors);
    decoder->errors.error_exit = on_error;
    decoder->errors.output_message = on_message;
    decoder->jpeg.client_data = decoder;
    jpeg_create_decompress(&decoder->jpeg);
    decoder->progress.progress_monitor = on_progress;
    decoder->jpeg.progress = &decoder->progress;
    jpeg_mem_src(&decoder->jpeg, source->data, source->size_bytes);
    jpeg_save_markers(&decoder->jpeg, JPEG_APP0 + 1, 0xFFFF);
    jpeg_read_header(&decoder->jpeg, TRUE);
}

static int decoder_end(struct decoder *decoder, int failed, struct document_failure *failure)
{
    jpeg_destroy_decompress(&decoder->jpeg);
    free(decoder->row);
    free(decoder->rgb);
    if (!failed)
        return 0;
    int unsupported = strncmp(decoder->message, "Unsupported", 11) == 0 || strncmp(decoder->message, "Sorry", 5) == 0;
    return image_refuse(failure, unsupported ? SHEAF_CLASS_UNSUPPORTED : SHEAF_CLASS_MALFORMED,
                        "the JPEG cannot be decoded: %s", decoder->message);
}

int jpeg_facts(const struct image_source *source, struct image_facts *facts, struct document_failure *failure)
{
    struct decoder decoder = {0};
    if (setjmp(decoder.escape))
        return decoder_end(&decoder, 1, failure);
    decoder_begin(&decoder, source);
    facts->width = decoder.jpeg.image_width;
    facts->height = decoder.jpeg.image_height;
    facts->is_gray = decoder.jpeg.jpeg_color_space == JCS_GRAYSCALE;
    if (decoder.jpeg.saw_JFIF_marker && decoder.jpeg.density_unit > 0) {
        double unit = decoder.jpeg.density_unit == 2 ? 2.54 : 1;
        facts->dpi_x = decoder.jpeg.X_density * unit;
        facts->dpi_y = decoder.jpeg.Y_density * unit;
    }
    for (jpeg_saved_marker_ptr marker = decoder.jpeg.marker_list; marker; marker = marker->next) {
        if (marker->data_length > 6 && memcmp(marker->data, "Exif\0\0", 6) == 0) {
            facts->orientation = exif_orientation(marker->data + 6, marker->data_length - 6);
            break;
        }
    }
    return decoder_end(&decoder, 0, failure);
}

/* Adobe's programs store CMYK the other way round, and say so by a marker. */
static void rgb_from_cmyk(uint8_t *rgb, const uint8_t *cmyk, uint32_t width, int is_inverted)
{
    uint8_t flip = is_inverted ? 0 : 255;
    for (uint32_t x = 0; x < width; x++, cmyk += 4, rgb += 3) {
        uint32_t black = cmyk[3] ^ flip;
        for (int c = 0; c < 3; c++)
            rgb[c] = (uint8_t)(((uint32_t)(cmyk[c] ^ flip) * black + 127) / 255);
    }
}

int jpeg_rows(const struct image_source *source, struct image_sink *sink, struct document_failure *failure)
{
    struct decoder decoder = {0};
    if (setjmp(decoder.escape))
        return decoder_end(&decoder, 1, failure);
    decoder_begin(&decoder, source);
    struct jpeg_decompress_struct *jpeg = &decoder.jpeg;
    int is_cmyk = jpeg->num_components == 4;
    jpeg->out_color_space = is_cmyk ? JCS_CMYK : sink->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(jpeg);
    decoder.row = malloc((size_t)jpeg->output_width * (size_t)jpeg->output_components);
    decoder.rgb = malloc((size_t)jpeg->output_width * 3);
    if (jpeg->output_width != sink->width || !decoder.row || !decoder.rgb) {
        snprintf(decoder.message, sizeof decoder.message, "no memory for a row");
        return decoder_end(&decoder, 1, failure);
    }
    while (jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW row = decoder.row;
        jpeg_read_scanlines(jpeg, &row, 1);
        if (is_cmyk) {
            rgb_from_cmyk(decoder.rgb, decoder.row, sink->width, jpeg->saw_Adobe_marker);
            image_sink_row(sink, decoder.rgb, 3);
        } else {
            image_sink_row(sink, decoder.row, sink->channels);
        }
    }
    return decoder_end(&decoder, 0, failure);
}
