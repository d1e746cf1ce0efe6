/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.measure: what can be said of a page's picture before it is read: is there anything on it, do its lines run
 * level, and what does it look like. The picture itself is not touched.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/image_measure.h"
#include "ops/operators.h"

enum { OPTION_BLANK, OPTION_MAX_SKEW };

static const struct sheaf_port inputs[] = {
    {"image", SHEAF_TENSOR, 0, "u8 [height, width] gray, or [height, width, 3] RGB"},
};
static const struct sheaf_port outputs[] = {
    {"has_ink", SHEAF_BOOL, 0, "the page is not blank: the mask of a filter"},
    {"skew", SHEAF_F64, 0, "degrees by which its lines run down to the right; 0: level, or no lines to be sure of"},
    {"look", SHEAF_BYTES, 0, "16 bytes by which pages that look alike are told: two hashes of 64 bits, little-endian"},
};
static const struct sheaf_option options[] = {
    {.name = "blank",
     .type = SHEAF_OPTION_TEXT,
     .fallback = {.type = SHEAF_OPTION_TEXT, .text = "empty"},
     .choices = "never|empty|dust",
     .summary =
         "which pages are blank: none, those with less than a letter on them, or also those with nothing but dust"},
    {.name = "max_skew",
     .type = SHEAF_OPTION_I64,
     .fallback = {.type = SHEAF_OPTION_I64, .i64 = 5},
     .min = 0,
     .max = 30,
     .summary = "degrees up to which skew is looked for; 0: not at all"},
};

static int measure_open(const struct sheaf_open *open, void **ret_state)
{
    struct measure_state *state = calloc(1, sizeof *state);
    if (!state)
        return -ENOMEM;
    const char *blank = open->options[OPTION_BLANK].text;
    state->host = open->host;
    state->blank = strcmp(blank, "never") == 0 ? BLANK_NEVER : strcmp(blank, "dust") == 0 ? BLANK_DUST : BLANK_EMPTY;
    state->max_slope = (uint32_t)lround(tan((double)open->options[OPTION_MAX_SKEW].i64 * M_PI / 180) * 65536);
    *ret_state = state;
    return 0;
}

static void measure_close(void *state)
{
    free(state);
}

static bool has_ink(const struct measure_state *state, const struct picture *gray)
{
    switch (state->blank) {
    case BLANK_NEVER:
        return true;
    case BLANK_EMPTY:
        return !picture_is_blank(gray);
    default:
        return !picture_is_blank(gray) && !picture_is_blank_but_for_dust(gray);
    }
}

int measure_answer(const struct measure_state *state, const struct sheaf_row *row, const struct measure *measure)
{
    uint8_t look[16];
    for (unsigned i = 0; i < sizeof look; i++)
        look[i] = (uint8_t)(measure->hashes[i / 8] >> (i % 8 * 8));
    int32_t slope = measure->has_ink ? measure->slope : 0;
    struct sheaf_value values[3] = {
        {.kind = SHEAF_BOOL, .boolean = measure->has_ink},
        {.kind = SHEAF_F64, .f64 = atan(slope / 65536.0) * 180 / M_PI},
        {.kind = SHEAF_BYTES, .data = look, .length_bytes = sizeof look, .name = "application/octet-stream"},
    };
    return state->host->answer(row, values, 3);
}

/* Width and height of a tensor that is a picture. */
static unsigned side(const struct sheaf_row *row, uint32_t axis)
{
    return (unsigned)row->inputs[0].tensor->shape[axis];
}

int measure_refuse(const struct measure_state *state, const struct sheaf_row *row, int status)
{
    switch (status) {
    case -EINVAL:
        return state->host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_UNSUPPORTED,
                                 "not a picture of u8 [h, w] or [h, w, 3] with sides of at most %d pixels",
                                 MEASURE_SIDE_MAX);
    case -ERANGE:
        return state->host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_TOO_LARGE, "a picture of %u by %u pixels",
                                 side(row, 1), side(row, 0));
    case -ENOMEM:
        return state->host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_RESOURCE_EXHAUSTED,
                                 "no memory to measure a picture of %u by %u pixels", side(row, 1), side(row, 0));
    default:
        return status;
    }
}

static int measure_picture(const struct measure_state *state, const struct picture *gray, struct measure *ret_measure)
{
    struct sheaf_image image = picture_image(gray);
    int status = sheaf_kernel_dhash(&image, &ret_measure->hashes[0]);
    if (status == 0)
        status = sheaf_kernel_phash(&image, &ret_measure->hashes[1]);
    if (status < 0)
        return status;
    ret_measure->has_ink = has_ink(state, gray);
    ret_measure->slope = ret_measure->has_ink ? picture_slope(gray, state->max_slope) : 0;
    return 0;
}

static int measure_run(void *opaque, const struct sheaf_row *row, char *message)
{
    struct measure_state *state = opaque;
    struct picture picture, gray;
    struct measure measure;
    uint8_t *memory;
    int status = picture_of_value(&row->inputs[0], MEASURE_SIDE_MAX, &picture);
    if (status == 0)
        status = picture_gray(&picture, &gray, &memory);
    if (status == 0) {
        status = measure_picture(state, &gray, &measure);
        free(memory);
    }
    return status == 0 ? measure_answer(state, row, &measure) : measure_refuse(state, row, status);
}

static uint64_t measure_estimate(const struct sheaf_option_value *values, const struct sheaf_value *row, uint32_t count)
{
    return 64;
}

const struct sheaf_operator operator_image_measure = {
    .size = sizeof(struct sheaf_operator),
    .flags = SHEAF_OPERATOR_BATCH | SHEAF_OPERATOR_DEVICE,
    .name = "image.measure",
    .version = "1",
    .summary = "tells blank pages, skew, and pages that look alike",
    .inputs = inputs,
    .outputs = outputs,
    .options = options,
    .input_count = 1,
    .output_count = 3,
    .option_count = sizeof options / sizeof options[0],
    .widest_failure = SHEAF_SCOPE_ITEM,
    .timeout_ms = 60000,
    .batch_rows = 16,
    .batch_kib = 128 << 10,
    .open = measure_open,
    .close = measure_close,
    .run = measure_run,
    .run_batch = measure_run_batch,
    .finish_batch = measure_finish_batch,
    .device_bytes = measure_device_bytes,
    .estimate = measure_estimate,
};
