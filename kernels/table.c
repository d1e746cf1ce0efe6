/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/table.h"

#include "kernels/device_host.h"

#if defined(SHEAF_KERNEL_DEVICE)
#include "kernels_fatbin.h"

/* The bytes of the file that nvcc made, in this object. */
__asm__(".pushsection .rodata\n"
        ".balign 16\n"
        "kernel_fatbin: .incbin \"" SHEAF_KERNEL_FATBIN "\"\n"
        ".popsection\n");
extern const char kernel_fatbin[] __attribute__((visibility("hidden")));
#define IMAGE kernel_fatbin
#else
#define SHEAF_KERNEL_FATBIN_TEXT "device kernels: none, this was built without nvcc"
#define SHEAF_KERNEL_FATBIN_BYTES 0
#define IMAGE NULL
#endif

#define FUNCTION_FITS(name, type) _Static_assert(sizeof(type) <= SHEAF_KERNEL_ARGS_BYTES_MAX, "fits a step");
KERNEL_FUNCTIONS(FUNCTION_FITS)

#define FUNCTION_ENTRY(function_name, type)                                                                            \
    {.name = "sheaf_" #function_name, .argument_bytes = sizeof(type), .host = device_host_##function_name},
static const struct sheaf_kernel functions[] = {KERNEL_FUNCTIONS(FUNCTION_ENTRY)};

const struct sheaf_kernels sheaf_device_kernels = {.size = sizeof(struct sheaf_kernels),
                                                   .kernel_count = FUNCTION_COUNT,
                                                   .kernels = functions,
                                                   .image = IMAGE,
                                                   .image_bytes = SHEAF_KERNEL_FATBIN_BYTES};

const char *sheaf_device_kernels_text(void)
{
    return SHEAF_KERNEL_FATBIN_TEXT;
}
