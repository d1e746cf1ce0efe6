/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.measure in its two ways: image_measure.c measures a picture on the CPU, in place; image_measure_device.c puts
 * the same kernels on a device for pictures of one shape. What is said of a picture is decided in one place.
 */
#ifndef SHEAF_OPS_IMAGE_MEASURE_H
#define SHEAF_OPS_IMAGE_MEASURE_H

#include <sheaf/operator.h>

#include "ops/picture_work.h"

enum { MEASURE_SIDE_MAX = 65535 };
enum blank_choice { BLANK_NEVER, BLANK_EMPTY, BLANK_DUST };

struct measure_state {
    const struct sheaf_host *host;
    enum blank_choice blank;
    uint32_t max_slope;
};

/* What was found: `slope` as of picture_slope. */
struct measure {
    bool has_ink;
    int32_t slope;
    uint64_t hashes[2]; /* dHash, pHash */
};

int measure_answer(const struct measure_state *state, const struct sheaf_row *row, const struct measure *measure);
/* Fails the row for what `status` says of its picture; a status that is none of the picture's is given back. */
int measure_refuse(const struct measure_state *state, const struct sheaf_row *row, int status);

/* For struct sheaf_operator. */
int measure_run_batch(void *opaque, const struct sheaf_batch *batch, char *message);
int measure_finish_batch(void *opaque, const struct sheaf_batch *batch, char *message);
uint64_t measure_device_bytes(void *opaque, const struct sheaf_row *row);

#endif
