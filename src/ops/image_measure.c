/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.measure: what can be said of a page's picture before it is read: is there anything on it, do its lines run
 * level, and what does it look like. The picture itself is not touched.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/operators.h"
#include "ops/picture_work.h"

enum { OPTION_BLANK, OPTION_MAX_SKEW };
enum { MEASURE_SIDE_MAX = 65535 };
enum blank_choice { BLANK_NEVER, BLANK_EMPTY, BLANK_DUST };

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

struct measure_state {
    const struct sheaf_host *host;
    enum blank_choice blank;
    uint32_t max_slope;
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

static int measure_answer(const struct measure_state *state, const struct sheaf_row *row, const struct picture *gray)
{
    struct sheaf_image image = picture_image(gray);
    uint64_t hashes[2] = {0, 0};
    uint8_t look[16];
    int status = sheaf_kernel_dhash(&image, &hashes[0]);
    if (status == 0)
        status = sheaf_kernel_phash(&image, &hashes[1]);
    if (status < 0)
        return status;
    for (unsigned i = 0; i < sizeof look; i++)
        look[i] = (uint8_t)(hashes[i / 8] >> (i % 8 * 8));
    bool ink = has_ink(state, gray);
    int32_t slope = ink ? picture_slope(gray, state->max_slope) : 0;
    struct sheaf_value values[3] = {
        {.kind = SHEAF_BOOL, .boolean = ink},
        {.kind = SHEAF_F64, .f64 = atan(slope / 65536.0) * 180 / M_PI},
        {.kind = SHEAF_BYTES, .data = look, .length_bytes = sizeof look, .name = "application/octet-stream"},
    };
    return state->host->answer(row, values, 3);
}

static int measure_run(void *opaque, const struct sheaf_row *row, char *message)
{
    struct measure_state *state = opaque;
    struct picture picture, gray;
    uint8_t *memory;
    if (picture_of_value(&row->inputs[0], MEASURE_SIDE_MAX, &picture) < 0)
        return state->host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_UNSUPPORTED,
                                 "not a picture of u8 [h, w] or [h, w, 3] with sides of at most %d pixels",
                                 MEASURE_SIDE_MAX);
    int status = picture_gray(&picture, &gray, &memory);
    if (status == 0) {
        status = measure_answer(state, row, &gray);
        free(memory);
    }
    if (status == -ERANGE)
        return state->host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_TOO_LARGE, "a picture of %u by %u pixels",
                                 picture.width, picture.height);
    if (status == -ENOMEM)
        return state->host->fail(row, SHEAF_SCOPE_ITEM, SHEAF_CLASS_RESOURCE_EXHAUSTED,
                                 "no memory to measure a picture of %u by %u pixels", picture.width, picture.height);
    return status;
}

static uint64_t measure_estimate(const struct sheaf_option_value *values, const struct sheaf_value *row, uint32_t count)
{
    return 64;
}

const struct sheaf_operator operator_image_measure = {
    .size = sizeof(struct sheaf_operator),
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
    .open = measure_open,
    .close = measure_close,
    .run = measure_run,
    .estimate = measure_estimate,
};
