/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/table.h"

#include "kernels/launch.h"

#if defined(SHEAF_KERNEL_DEVICE)
#include "kernels_fatbin.h"
#else
#define SHEAF_KERNEL_FATBIN_TEXT "device kernels: none, nvcc was not found when this was built"
#endif

#define FUNCTION_ENTRY(name, type) {"sheaf_" #name, sizeof(type)},
#define FUNCTION_FITS(name, type) _Static_assert(sizeof(type) <= SHEAF_KERNEL_ARGS_BYTES_MAX, "fits a step");

KERNEL_FUNCTIONS(FUNCTION_FITS)

const struct sheaf_kernel_function sheaf_kernel_functions[] = {KERNEL_FUNCTIONS(FUNCTION_ENTRY)};
const uint32_t sheaf_kernel_function_count = FUNCTION_COUNT;

#if defined(SHEAF_KERNEL_DEVICE)
/* The bytes of the file that nvcc made, in this object. */
__asm__(".pushsection .rodata\n"
        ".balign 16\n"
        "kernel_fatbin_begin: .incbin \"" SHEAF_KERNEL_FATBIN "\"\n"
        "kernel_fatbin_end:\n"
        ".byte 0\n"
        ".popsection\n");
extern const char kernel_fatbin_begin[] __attribute__((visibility("hidden")));
extern const char kernel_fatbin_end[] __attribute__((visibility("hidden")));

const void *sheaf_kernel_fatbin(size_t *ret_bytes)
{
    *ret_bytes = (size_t)(kernel_fatbin_end - kernel_fatbin_begin);
    return kernel_fatbin_begin;
}
#else
const void *sheaf_kernel_fatbin(size_t *ret_bytes)
{
    *ret_bytes = 0;
    return NULL;
}
#endif

const char *sheaf_kernel_fatbin_text(void)
{
    return SHEAF_KERNEL_FATBIN_TEXT;
}
