/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels_test.h"

#include <errno.h>

#include "kernels/device_host.h"

void plan_run(const struct sheaf_kernel_plan *plan, uint64_t order)
{
    device_host_order(order);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const struct sheaf_kernel_step *step = &plan->steps[i];
        assert_true(step->function < sheaf_device_kernels.kernel_count);
        assert_int_equal(step->args_bytes, sheaf_device_kernels.kernels[step->function].argument_bytes);
        sheaf_device_kernels.kernels[step->function].host(step->args, &step->grid);
    }
    device_host_order(0);
}

/* Makes a plan, with scratch memory full of garbage where it asks for some, and runs it. */
static void plan_make_and_run(int (*make)(const void *cookie, struct sheaf_kernel_plan *plan), const void *cookie,
                              uint64_t order)
{
    struct sheaf_kernel_plan plan = {0};
    void *scratch = NULL;
    int status = make(cookie, &plan);
    if (status == -ENOSPC) {
        uint64_t bytes = plan.scratch_bytes;
        scratch = malloc(bytes);
        assert_non_null(scratch);
        memset(scratch, 0xC3, bytes);
        plan = (struct sheaf_kernel_plan){.scratch = (uintptr_t)scratch, .scratch_bytes = bytes};
        status = make(cookie, &plan);
    }
    assert_int_equal(status, 0);
    assert_true(plan.step_count > 0);
    plan_run(&plan, order);
    free(scratch);
}

struct picture_making {
    picture_plan plan;
    const void *cookie;
    const struct sheaf_image *in;
    struct sheaf_image *out;
};

static int make_picture(const void *cookie, struct sheaf_kernel_plan *plan)
{
    const struct picture_making *making = cookie;
    return making->plan(making->cookie, making->in, making->out, plan);
}

struct value_making {
    value_plan plan;
    const void *cookie;
    const struct sheaf_image *in;
    void *result;
};

static int make_value(const void *cookie, struct sheaf_kernel_plan *plan)
{
    const struct value_making *making = cookie;
    return making->plan(making->cookie, making->in, making->result, plan);
}

enum { ORDERS = 2, ORDER = 0x51ED27 };

void value_everywhere(value_call call, value_plan plan, const void *cookie, const struct sheaf_image *in, void *result,
                      size_t bytes, size_t compared)
{
    void *other = malloc(bytes);
    struct value_making making = {plan, cookie, in, other};
    assert_non_null(other);
    memset(result, 0, bytes);
    assert_int_equal(call(cookie, in, result), 0);
    for (uint32_t i = 0; kernel_rows_at(i); i++) {
        memset(other, 0, bytes);
        kernel_rows_force(kernel_rows_at(i));
        int status = call(cookie, in, other);
        kernel_rows_force(NULL);
        assert_int_equal(status, 0);
        if (memcmp(result, other, bytes) != 0)
            fail_msg("%s differs from %s, %u x %u", kernel_rows_at(i)->name, sheaf_kernel_host_variant(), in->width,
                     in->height);
    }
    for (uint64_t order = 0; order < ORDERS; order++) {
        memset(other, 0xA7, bytes);
        plan_make_and_run(make_value, &making, order * ORDER);
        if (memcmp(result, other, compared) != 0)
            fail_msg("device code differs from the host's, %u x %u, order %u", in->width, in->height, (unsigned)order);
    }
    free(other);
}

void picture_everywhere(picture_call call, picture_plan plan, const void *cookie, const struct sheaf_image *in,
                        struct sheaf_image *out)
{
    struct sheaf_image other = picture_clone(out), before = picture_clone(out);
    struct picture_making making = {plan, cookie, in, &other};
    assert_int_equal(call(cookie, in, out), 0);
    assert_true(picture_gaps_whole(out));
    for (uint32_t i = 0; kernel_rows_at(i); i++) {
        memcpy(other.data, before.data, other.size_bytes);
        kernel_rows_force(kernel_rows_at(i));
        int status = call(cookie, in, &other);
        kernel_rows_force(NULL);
        assert_int_equal(status, 0);
        if (!pictures_equal(out, &other))
            fail_msg("%s differs from %s", kernel_rows_at(i)->name, sheaf_kernel_host_variant());
    }
    for (uint64_t order = 0; order < ORDERS; order++) {
        memcpy(other.data, before.data, other.size_bytes);
        plan_make_and_run(make_picture, &making, order * ORDER);
        if (!pictures_equal(out, &other))
            fail_msg("device code differs from the host's, order %u", (unsigned)order);
    }
    picture_destroy(&other);
    picture_destroy(&before);
}
