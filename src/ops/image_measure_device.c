/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pictures of one shape, one after the other on the stream: what is between two steps is for the next picture again.
 * One struct of results per picture goes back. A picture costs about twenty small launches, and less time on the device
 * than its way there.
 */
#include <errno.h>
#include <stdlib.h>

#include "kernels/table.h"
#include "ops/image_measure.h"

/* Of one picture, on the device and as it comes back. */
struct findings {
    uint64_t hashes[2];
    struct sheaf_skew skew;
    uint32_t shades[256], averaged[256];
};

/* The batch's own, until it is finished. */
struct findings_of_batch {
    bool *is_refused; /* per row, behind the findings */
    struct findings rows[];
};

/* Device memory that every picture of a batch uses in turn. */
struct room {
    uint8_t *gray, *small, *scratch;
    uint64_t gray_bytes, small_bytes, scratch_bytes; /* 0: not wanted */
};

struct measuring {
    const struct measure_state *state;
    const struct sheaf_batch *batch;
    struct room room;
    struct findings *found; /* per row, on the device */
};

/* A gray picture on the device, both sides divided: its rows begin where kernels load sixteen bytes at once. */
static struct sheaf_image plane(uint32_t width, uint32_t height, uint32_t factor, uint8_t *memory)
{
    enum { ALIGNMENT = 16 };
    struct sheaf_image image = sheaf_image_packed(width / factor, height / factor, SHEAF_IMAGE_GRAY, memory);
    image.stride_bytes = (image.stride_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    image.size_bytes = image.stride_bytes * image.height;
    return image;
}

static uint64_t plane_bytes(uint32_t width, uint32_t height, uint32_t factor)
{
    return plane(width, height, factor, NULL).size_bytes;
}

/* Scratch memory of the hungriest plan: of the skew's in the picture it is looked for in, if it is, and never less than
 * the hashes' samples. */
static uint64_t scratch_bytes(const struct measure_state *state, uint32_t width, uint32_t height, bool has_lines)
{
    enum { HASH_SAMPLES = 32 * 32 };
    struct sheaf_kernel_plan plan;
    struct sheaf_image image = sheaf_image_packed(width, height, SHEAF_IMAGE_GRAY, &plan); /* not looked at */
    plan.scratch = plan.scratch_bytes = 0;
    plan.step_count = 0;
    bool sizes =
        has_lines && sheaf_plan_skew_otsu(&image, state->max_slope, (struct sheaf_skew *)&plan, &plan) == -ENOSPC;
    return sizes && plan.scratch_bytes > HASH_SAMPLES ? plan.scratch_bytes : HASH_SAMPLES;
}

static struct room room_for(const struct measure_state *state, const struct picture *picture)
{
    uint32_t width = picture->width, height = picture->height, factor = picture_skew_factor(width, height);
    bool has_lines = picture_may_have_lines(height, state->max_slope);
    struct room room = {.gray_bytes = picture->channels == 3 ? plane_bytes(width, height, 1) : 0};
    if (factor > 1 && has_lines)
        room.small_bytes = plane_bytes(width, height, factor);
    if (state->blank == BLANK_DUST && plane_bytes(width, height, PICTURE_AVERAGED) > room.small_bytes)
        room.small_bytes = plane_bytes(width, height, PICTURE_AVERAGED);
    room.scratch_bytes = scratch_bytes(state, width / factor, height / factor, has_lines);
    return room;
}

uint64_t measure_device_bytes(void *opaque, const struct sheaf_row *row)
{
    enum { ROUNDING = 1024 };
    struct picture picture;
    struct room room = {0};
    if (picture_of_value(&row->inputs[0], MEASURE_SIDE_MAX, &picture) == 0) /* else it will be refused */
        room = room_for(opaque, &picture);
    return room.gray_bytes + room.small_bytes + room.scratch_bytes + sizeof(struct findings) + ROUNDING;
}

/* Memory for one picture; NULL where none is wanted. */
static int take(const struct sheaf_batch *batch, uint64_t bytes, uint8_t **ret_memory)
{
    *ret_memory = bytes > 0 ? batch->device->alloc(batch, bytes) : NULL;
    return bytes > 0 && *ret_memory == NULL ? -ENOMEM : 0;
}

static int room_take(const struct sheaf_batch *batch, struct room *room)
{
    int status = take(batch, room->gray_bytes, &room->gray);
    if (status == 0)
        status = take(batch, room->small_bytes, &room->small);
    return status == 0 ? take(batch, room->scratch_bytes, &room->scratch) : status;
}

static struct sheaf_kernel_plan plan_begin(const struct room *room)
{
    return (struct sheaf_kernel_plan){.scratch = (uintptr_t)room->scratch, .scratch_bytes = room->scratch_bytes};
}

/* Puts the steps on the stream, unless they could not be planned. */
static int launch(const struct sheaf_batch *batch, int status, const struct sheaf_kernel_plan *plan)
{
    for (uint32_t i = 0; i < plan->step_count && status == 0; i++) {
        const struct sheaf_kernel_step *step = &plan->steps[i];
        const char *kernel = sheaf_device_kernels.kernels[step->function].name;
        status = batch->device->launch(batch, kernel, &step->grid, step->args);
    }
    return status;
}

static int measure_look(const struct measuring *on, const struct picture *picture, struct findings *found,
                        struct sheaf_image *ret_gray)
{
    struct sheaf_kernel_plan plan = plan_begin(&on->room);
    struct sheaf_image in = picture_image(picture), gray = in;
    int status = 0;
    if (picture->channels == 3) {
        gray = plane(in.width, in.height, 1, on->room.gray);
        status = sheaf_plan_convert(&in, &gray, &plan);
    }
    if (status == 0)
        status = sheaf_plan_dhash(&gray, &found->hashes[0], &plan);
    if (status == 0)
        status = sheaf_plan_phash(&gray, &found->hashes[1], &plan);
    *ret_gray = gray;
    return launch(on->batch, status, &plan);
}

static int measure_ink(const struct measuring *on, const struct sheaf_image *gray, struct findings *found)
{
    struct sheaf_kernel_plan plan = plan_begin(&on->room);
    int status = 0;
    if (on->state->blank != BLANK_NEVER)
        status = sheaf_plan_histogram(gray, found->shades, &plan);
    if (status == 0 && on->state->blank == BLANK_DUST && picture_may_be_averaged(gray->width, gray->height)) {
        struct sheaf_image small = plane(gray->width, gray->height, PICTURE_AVERAGED, on->room.small);
        status = sheaf_plan_resize(gray, &small, SHEAF_FILTER_AREA, &plan);
        if (status == 0)
            status = sheaf_plan_histogram(&small, found->averaged, &plan);
    }
    return launch(on->batch, status, &plan);
}

static int measure_skew(const struct measuring *on, const struct sheaf_image *gray, struct findings *found)
{
    struct sheaf_kernel_plan plan = plan_begin(&on->room);
    struct sheaf_image whole = *gray, small = *gray;
    uint32_t factor = picture_skew_factor(gray->width, gray->height);
    int status = 0;
    if (!picture_may_have_lines(gray->height, on->state->max_slope))
        return 0;
    if (factor > 1) {
        whole.width -= whole.width % factor;
        whole.height -= whole.height % factor;
        small = plane(whole.width, whole.height, factor, on->room.small);
        status = sheaf_plan_resize(&whole, &small, SHEAF_FILTER_AREA, &plan);
    }
    if (status == 0)
        status = sheaf_plan_skew_otsu(&small, on->state->max_slope, &found->skew, &plan);
    return launch(on->batch, status, &plan);
}

/* The row's picture on the device. -EINVAL, -ERANGE: it is none, or too large. */
static int picture_of_row(const struct sheaf_batch *batch, uint32_t row, struct picture *ret_picture)
{
    int status = picture_of_value(&batch->rows[row]->inputs[0], MEASURE_SIDE_MAX, ret_picture);
    if (status < 0)
        return status;
    ret_picture->pixels = batch->devices[row];
    struct sheaf_image image = picture_image(ret_picture);
    return sheaf_image_check(&image);
}

static int measure_row(const struct measuring *on, const struct picture *picture, struct findings *found)
{
    struct sheaf_image gray;
    int status = measure_look(on, picture, found, &gray);
    if (status == 0)
        status = measure_ink(on, &gray, found);
    return status == 0 ? measure_skew(on, &gray, found) : status;
}

/* Memory that the pictures share, by the first that is one: they are of one shape. */
static int measuring_begin(struct measuring *on)
{
    const struct sheaf_batch *batch = on->batch;
    struct picture picture;
    uint8_t *found;
    uint32_t row = 0;
    while (row < batch->row_count && picture_of_row(batch, row, &picture) < 0)
        row++;
    if (row < batch->row_count)
        on->room = room_for(on->state, &picture);
    int status = room_take(batch, &on->room);
    if (status == 0)
        status = take(batch, batch->row_count * sizeof(struct findings), &found);
    if (status == 0)
        on->found = (struct findings *)(void *)found;
    return status;
}

int measure_run_batch(void *opaque, const struct sheaf_batch *batch, char *message)
{
    struct measuring on = {.state = opaque, .batch = batch};
    uint64_t bytes = batch->row_count * sizeof(struct findings);
    struct findings_of_batch *found = calloc(1, sizeof *found + bytes + batch->row_count * sizeof *found->is_refused);
    int status = found ? measuring_begin(&on) : -ENOMEM;
    if (status == 0)
        found->is_refused = (bool *)&found->rows[batch->row_count];
    for (uint32_t row = 0; row < batch->row_count && status == 0; row++) {
        struct picture picture;
        int unfit = picture_of_row(batch, row, &picture);
        found->is_refused[row] = unfit < 0;
        status =
            unfit < 0 ? measure_refuse(opaque, batch->rows[row], unfit) : measure_row(&on, &picture, &on.found[row]);
    }
    if (status == 0)
        status = batch->device->fetch(batch, found->rows, on.found, bytes);
    if (status < 0)
        free(found);
    else
        *batch->cookie = found;
    return status;
}

/* The passes of picture_is_blank and picture_is_blank_but_for_dust, by what they found on the device. */
static bool has_ink(const struct measure_state *state, const struct sheaf_row *row, const struct findings *found)
{
    const uint64_t *shape = row->inputs[0].tensor->shape; /* of a picture */
    uint32_t width = (uint32_t)shape[1], height = (uint32_t)shape[0];
    if (state->blank == BLANK_NEVER)
        return true;
    if (!picture_may_have_letters(width, height) || picture_shades_are_blank(found->shades))
        return false;
    return state->blank == BLANK_EMPTY || !picture_may_be_averaged(width, height) ||
           !picture_shades_are_dust(found->averaged);
}

int measure_finish_batch(void *opaque, const struct sheaf_batch *batch, char *message)
{
    const struct measure_state *state = opaque;
    struct findings_of_batch *found = *batch->cookie;
    int status = 0;
    for (uint32_t row = 0; row < batch->row_count && status == 0; row++) {
        const struct findings *of_row = &found->rows[row];
        const struct sheaf_row *about = batch->rows[row];
        if (found->is_refused[row])
            continue;
        bool has_lines = picture_may_have_lines((uint32_t)about->inputs[0].tensor->shape[0], state->max_slope);
        struct measure measure = {.has_ink = has_ink(state, about, of_row),
                                  .slope = has_lines ? picture_sure_slope(&of_row->skew) : 0,
                                  .hashes = {of_row->hashes[0], of_row->hashes[1]}};
        status = measure_answer(state, about, &measure);
    }
    free(found);
    return status;
}
