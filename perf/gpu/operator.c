/* SPDX-License-Identifier: Apache-2.0 */
/* The plug-in of sheaf-gpu-check: gpu_check.threshold turns bytes black and white on a device, a batch in one launch.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/table.h"

static int open_host(const struct sheaf_open *open, void **ret_state)
{
    *ret_state = (void *)(uintptr_t)open->host;
    return 0;
}

static void close_host(void *state)
{
}

/* Rows are of one length, so the batch is a picture with a line for each. */
static int threshold_run(void *cookie, const struct sheaf_batch *batch, char *message)
{
    const struct sheaf_device_input *in = &batch->inputs[0];
    uint32_t width = (uint32_t)in->lengths[0];
    uint64_t bytes = (uint64_t)width * batch->row_count;
    struct sheaf_image from = {.width = width,
                               .height = batch->row_count,
                               .format = SHEAF_IMAGE_GRAY,
                               .stride_bytes = in->stride_bytes,
                               .size_bytes = in->stride_bytes * (batch->row_count - 1) + width,
                               .data = in->base};
    struct sheaf_image to =
        sheaf_image_packed(width, batch->row_count, SHEAF_IMAGE_GRAY, batch->device->alloc(batch, bytes));
    struct sheaf_kernel_plan plan = {0};
    if (in->stride_bytes == 0)
        return -EINVAL;
    if (to.data == NULL)
        return -ENOMEM;
    int status = sheaf_plan_threshold(&from, &to, 100, &plan);
    for (uint32_t i = 0; i < plan.step_count && status == 0; i++)
        status = batch->device->launch(batch, sheaf_device_kernels.kernels[plan.steps[i].function].name,
                                       &plan.steps[i].grid, plan.steps[i].args);
    void *results = status == 0 ? malloc(bytes) : NULL;
    if (results == NULL)
        return status < 0 ? status : -ENOMEM;
    *batch->cookie = results;
    return batch->device->fetch(batch, results, to.data, bytes);
}

static int threshold_finish(void *cookie, const struct sheaf_batch *batch, char *message)
{
    const struct sheaf_host *host = cookie;
    char *results = *batch->cookie;
    for (uint32_t row = 0; row < batch->row_count; row++) {
        uint64_t bytes = batch->inputs[0].lengths[row];
        struct sheaf_value value = {.kind = SHEAF_BYTES, .data = results + row * bytes, .length_bytes = bytes};
        host->answer(batch->rows[row], &value, 1); /* copied: it is memory of ours */
    }
    free(results);
    return 0;
}

static const struct sheaf_port in[] = {{"bytes", SHEAF_BYTES, 0, NULL}}, out[] = {{"black", SHEAF_BYTES, 0, NULL}};

static const struct sheaf_operator threshold = {.size = sizeof threshold,
                                                .flags = SHEAF_OPERATOR_BATCH | SHEAF_OPERATOR_DEVICE,
                                                .name = "gpu_check.threshold",
                                                .version = "1",
                                                .summary = "bytes to black and white, on a device",
                                                .inputs = in,
                                                .outputs = out,
                                                .input_count = 1,
                                                .output_count = 1,
                                                .open = open_host,
                                                .close = close_host,
                                                .run_batch = threshold_run,
                                                .finish_batch = threshold_finish};

SHEAF_API const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi);

const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi)
{
    static const struct sheaf_operator *const operators[] = {&threshold};
    static const struct sheaf_plugin plugin = {.size = sizeof plugin,
                                               .abi = SHEAF_OPERATOR_ABI,
                                               .name = "gpu_check",
                                               .version = "1",
                                               .operators = operators,
                                               .operator_count = 1,
                                               .kernels = &sheaf_device_kernels};
    return host_abi == SHEAF_OPERATOR_ABI ? &plugin : NULL;
}
