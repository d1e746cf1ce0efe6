/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of kernels/table.h, for the driver of the tests: it runs their host functions. With KERNELS_WRONG one of
 * them does nothing. */
#include <stdlib.h>
#include <string.h>

#include "kernels/table.h"

SHEAF_API const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi);

#ifdef KERNELS_WRONG
static void do_nothing(const void *argument, const struct sheaf_grid *grid)
{
}

static const struct sheaf_kernels *kernels(void)
{
    static struct sheaf_kernels wrong;
    struct sheaf_kernel *functions = calloc(sheaf_device_kernels.kernel_count, sizeof *functions);
    if (functions == NULL)
        return NULL;
    memcpy(functions, sheaf_device_kernels.kernels, sheaf_device_kernels.kernel_count * sizeof *functions);
    for (uint32_t i = 0; i < sheaf_device_kernels.kernel_count; i++)
        if (strcmp(functions[i].name, "sheaf_sauvola") == 0)
            functions[i].host = do_nothing;
    wrong = sheaf_device_kernels;
    wrong.kernels = functions;
    return &wrong;
}
#else
static const struct sheaf_kernels *kernels(void)
{
    return &sheaf_device_kernels;
}
#endif

const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi)
{
    static struct sheaf_plugin plugin = {
        .size = sizeof plugin, .abi = SHEAF_OPERATOR_ABI, .name = "gpu_check_kernels", .version = "1"};
    plugin.kernels = kernels();
    return host_abi == SHEAF_OPERATOR_ABI ? &plugin : NULL;
}
