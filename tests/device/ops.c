/* SPDX-License-Identifier: Apache-2.0 */
/* The plug-in of the tests of devices: the driver of the tests takes its kernels from here. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/device/kernels.h"

SHEAF_API const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi);

const struct sheaf_plugin *sheaf_plugin(uint32_t host_abi)
{
    static const struct sheaf_plugin plugin = {.size = sizeof plugin,
                                               .abi = SHEAF_OPERATOR_ABI,
                                               .name = "device_test",
                                               .version = "1",
                                               .kernels = &test_kernels};
    return host_abi == SHEAF_OPERATOR_ABI ? &plugin : NULL;
}
