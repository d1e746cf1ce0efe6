/* SPDX-License-Identifier: Apache-2.0 */
/* image.encode: a picture as the bytes of a JPEG or PNG file. */
#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>

#include "ops/operators.h"
#include "ops/picture.h"

enum { OPTION_FORMAT, OPTION_QUALITY };
enum { ENCODE_SIDE_MAX = 65500 }; /* of a JPEG */

static const struct sheaf_port inputs[] = {
    {"image", SHEAF_TENSOR, 0, "u8 [height, width] gray, or [height, width, 3] RGB"},
};
static const struct sheaf_port outputs[] = {
    {"file", SHEAF_BYTES, 0, "image/jpeg or image/png"},
};
static const struct sheaf_option options[] = {
    {.name = "format",
     .type = SHEAF_OPTION_TEXT,
     .fallback = {.type = SHEAF_OPTION_TEXT, .text = "jpeg"},
     .choices = "jpeg|png",
     .summary = "of the file"},
    {.name = "quality",
     .type = SHEAF_OPTION_I64,
     .fallback = {.type = SHEAF_OPTION_I64, .i64 = 85},
     .min = 1,
     .max = 100,
     .summary = "of a JPEG"},
};

struct encode_state {
    const struct sheaf_host *host;
    int is_png, quality;
};

/* Where the file goes: memory of `malloc` that grows. */
struct output {
    uint8_t *data;
    size_t bytes, capacity;
};

static int encode_open(const struct sheaf_open *open, void **ret_state)
{
    struct encode_state *state = malloc(sizeof *state);
    if (!state)
        return -ENOMEM;
    state->host = open->host;
    state->is_png = strcmp(open->options[OPTION_FORMAT].text, "png") == 0;
    state->quality = (int)open->options[OPTION_QUALITY].i64;
    *ret_state = state;
    return 0;
}

static void encode_close(void *state)
{
    free(state);
}

/* ---- JPEG ---- */

struct jpeg_writer {
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    jmp_buf escape;
    unsigned char *data;
    unsigned long bytes;
};

static void on_jpeg_error(j_common_ptr common)
{
    struct jpeg_writer *writer = common->client_data;
    longjmp(writer->escape, 1);
}

static int jpeg_encode(const struct picture *picture, int quality, struct output *output)
{
    struct jpeg_writer writer = {0};
    writer.jpeg.err = jpeg_std_error(&writer.errors);
    writer.errors.error_exit = on_jpeg_error;
    if (setjmp(writer.escape)) {
        jpeg_destroy_compress(&writer.jpeg);
        free(writer.data);
        return -EINVAL;
    }
    writer.jpeg.client_data = &writer;
    jpeg_create_compress(&writer.jpeg);
    jpeg_mem_dest(&writer.jpeg, &writer.data, &writer.bytes);
    writer.jpeg.image_width = picture->width;
    writer.jpeg.image_height = picture->height;
    writer.jpeg.input_components = (int)picture->channels;
    writer.jpeg.in_color_space = picture->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&writer.jpeg);
    jpeg_set_quality(&writer.jpeg, quality, TRUE);
    jpeg_start_compress(&writer.jpeg, TRUE);
    while (writer.jpeg.next_scanline < writer.jpeg.image_height) {
        JSAMPROW row = (JSAMPROW)(picture->pixels + writer.jpeg.next_scanline * picture->row_bytes);
        jpeg_write_scanlines(&writer.jpeg, &row, 1);
    }
    jpeg_finish_compress(&writer.jpeg);
    jpeg_destroy_compress(&writer.jpeg);
    *output = (struct output){writer.data, writer.bytes, writer.bytes};
    return 0;
}

/* ---- PNG ---- */

static void on_png_write(png_structp png, png_bytep data, png_size_t bytes)
{
    struct output *output = png_get_io_ptr(png);
    if (bytes > output->capacity - output->bytes) {
        size_t capacity = 2 * (output->bytes + bytes) + 65536;
        uint8_t *grown = realloc(output->data, capacity);
        if (!grown)
            png_error(png, "no memory");
        output->data = grown;
        output->capacity = capacity;
    }
    memcpy(output->data + output->bytes, data, bytes);
    output->bytes += bytes;
}

static void on_png_flush(png_structp png)
{
}

static void on_png_error(png_structp png, png_const_charp text)
{
    png_longjmp(png, 1);
}

static void on_png_warning(png_structp png, png_const_charp text)
{
}

static int png_encode(const struct picture *picture, struct output *output)
{
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, on_png_error, on_png_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info) {
        png_destroy_write_struct(&png, NULL);
        return -ENOMEM;
    }
    if (setjmp(png_jmpbuf(png))) {
        png_destroy_write_struct(&png, &info);
        free(output->data);
        *output = (struct output){0};
        return -ENOMEM;
    }
    png_set_write_fn(png, output, on_png_write, on_png_flush);
    png_set_IHDR(png, info, picture->width, picture->height, 8,
                 picture->channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_set_compression_level(png, 4);
    png_write_info(png, info);
    for (uint32_t y = 0; y < picture->height; y++)
        png_write_row(png, picture->pixels + y * picture->row_bytes);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    return 0;
}

/* ---- the row ---- */

static int encode_run(void *opaque, const struct sheaf_row *row, char *message)
{
    const struct encode_state *state = opaque;
    struct picture picture;
    struct output output = {0};
    if (picture_of_value(&row->inputs[0], ENCODE_SIDE_MAX, &picture) < 0)
        return state->host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_UNSUPPORTED,
                                 "not a picture of u8 [h, w] or [h, w, 3] with sides of at most %d pixels",
                                 ENCODE_SIDE_MAX);
    int status = state->is_png ? png_encode(&picture, &output) : jpeg_encode(&picture, state->quality, &output);
    if (status < 0)
        return state->host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_RESOURCE_EXHAUSTED,
                                 "no memory to encode the image");
    struct sheaf_value value = {.kind = SHEAF_BYTES,
                                .data = output.data,
                                .length_bytes = output.bytes,
                                .name = state->is_png ? "image/png" : "image/jpeg"};
    status = state->host->answer(row, &value, 1);
    free(output.data);
    return status;
}

static uint64_t encode_estimate(const struct sheaf_option_value *values, const struct sheaf_value *row, uint32_t count)
{
    return count > 0 ? row[0].length_bytes / 2 + 4096 : 1 << 20;
}

const struct sheaf_operator operator_image_encode = {
    .size = sizeof(struct sheaf_operator),
    .name = "image.encode",
    .version = "1",
    .summary = "makes a JPEG or PNG of a picture",
    .inputs = inputs,
    .outputs = outputs,
    .options = options,
    .input_count = 1,
    .output_count = 1,
    .option_count = sizeof options / sizeof options[0],
    .widest_failure = SHEAF_SCOPE_ITEM,
    .timeout_ms = 60000,
    .open = encode_open,
    .close = encode_close,
    .run = encode_run,
    .estimate = encode_estimate,
};
