/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels_test.h"

#include <errno.h>

void plan_make(picture_plan plan, const void *cookie, const struct sheaf_image *in, struct sheaf_image *out,
               struct sheaf_kernel_plan *ret_plan)
{
    *ret_plan = (struct sheaf_kernel_plan){0};
    int status = plan(cookie, in, out, ret_plan);
    if (status == -ENOSPC) {
        uint64_t bytes = ret_plan->scratch_bytes;
        void *scratch = malloc(bytes);
        assert_non_null(scratch);
        memset(scratch, 0xC3, bytes);
        *ret_plan = (struct sheaf_kernel_plan){.scratch = (uintptr_t)scratch, .scratch_bytes = bytes};
        status = plan(cookie, in, out, ret_plan);
    }
    assert_int_equal(status, 0);
    assert_true(ret_plan->step_count > 0);
}

void picture_everywhere(picture_call call, picture_plan plan, const void *cookie, const struct sheaf_image *in,
                        struct sheaf_image *out)
{
    struct sheaf_image other = picture_clone(out), before = picture_clone(out);
    struct sheaf_kernel_plan steps;
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
    for (uint64_t order = 0; order < 2; order++) {
        memcpy(other.data, before.data, other.size_bytes);
        plan_make(plan, cookie, in, &other, &steps);
        assert_int_equal(kernel_emulate_plan(&steps, order * 0x51ED27), 0);
        free((void *)(uintptr_t)steps.scratch);
        if (!pictures_equal(out, &other))
            fail_msg("device code differs from the host's, order %u", (unsigned)order);
    }
    picture_destroy(&other);
    picture_destroy(&before);
}
