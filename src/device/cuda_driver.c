/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cuda_driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "device/device.h"

static const char library_name[] = "libcuda.so.1";

static const struct {
    const char *symbol;
    size_t offset;
} functions[] = {
#define CUDA_ENTRY(symbol, parameters) {#symbol, offsetof(struct cuda_driver, symbol)},
    CUDA_FUNCTIONS(CUDA_ENTRY)
#undef CUDA_ENTRY
};

static int resolve(struct cuda_driver *driver, char *ret_line)
{
    for (size_t at = 0; at < sizeof functions / sizeof *functions; at++) {
        void *address = dlsym(driver->library, functions[at].symbol);
        if (address == NULL) {
            snprintf(ret_line, DEVICE_LINE_BYTES, "%s has no %s: the NVIDIA driver is too old; install 525 or later",
                     library_name, functions[at].symbol);
            return SHEAF_E_ENVIRONMENT;
        }
        memcpy((char *)driver + functions[at].offset, &address, sizeof address);
    }
    return 0;
}

int cuda_driver_open(struct cuda_driver *ret_driver, char *ret_line)
{
    /* Once initialised a driver has threads of its own: it stays until the process ends. */
    struct cuda_driver driver = {.library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)};
    if (driver.library == NULL) {
        snprintf(ret_line, DEVICE_LINE_BYTES, "no NVIDIA driver: %s cannot be loaded", library_name);
        return SHEAF_E_ENVIRONMENT;
    }
    int status = resolve(&driver, ret_line);
    if (status == 0) {
        cuda_result result = driver.cuInit(0);
        if (result != CUDA_OK) {
            snprintf(ret_line, DEVICE_LINE_BYTES, "the NVIDIA driver does not start: cuInit: %s",
                     cuda_result_name(&driver, result));
            status = SHEAF_E_ENVIRONMENT;
        }
    }
    if (status < 0) {
        dlclose(driver.library);
        return status;
    }
    *ret_driver = driver;
    return 0;
}

void cuda_driver_close(struct cuda_driver *driver)
{
    if (driver->library != NULL)
        dlclose(driver->library);
    driver->library = NULL;
}

const char *cuda_result_name(const struct cuda_driver *driver, cuda_result result)
{
    const char *name = NULL;
    return driver->cuGetErrorName(result, &name) == CUDA_OK && name != NULL ? name : "an unknown error";
}

int cuda_status(cuda_result result)
{
    switch (result) {
    case CUDA_OK:
        return 0;
    case CUDA_OUT_OF_MEMORY:
        return -ENOMEM;
    case CUDA_LAUNCH_TIMEOUT:
        return -ETIME;
    case CUDA_ILLEGAL_ADDRESS:
    case CUDA_ASSERT:
    case CUDA_HARDWARE_STACK_ERROR: /* a kernel's own stack, in spite of its name */
    case CUDA_ILLEGAL_INSTRUCTION:
    case CUDA_MISALIGNED_ADDRESS:
    case CUDA_INVALID_ADDRESS_SPACE:
    case CUDA_INVALID_PC:
    case CUDA_LAUNCH_FAILED:
    case CUDA_TENSOR_MEMORY_LEAK:
        return -EFAULT;
    case CUDA_ECC_UNCORRECTABLE:
    case CUDA_NVLINK_UNCORRECTABLE:
    case CUDA_CONTAINED: /* a memory error that was kept to this process */
        return -EIO;
    case CUDA_DEINITIALIZED:
    case CUDA_NOT_INITIALIZED:
    case CUDA_DEVICE_UNAVAILABLE:
    case CUDA_NO_DEVICE:
    case CUDA_INVALID_DEVICE:
    case CUDA_INVALID_CONTEXT:
    case CUDA_OPERATING_SYSTEM:
    case CUDA_CONTEXT_IS_DESTROYED:
    case CUDA_SYSTEM_NOT_READY:
    case CUDA_SYSTEM_DRIVER_MISMATCH:
    case CUDA_UNKNOWN: /* what the driver says when the device has fallen off the bus */
        return -ENODEV;
    case CUDA_NOT_READY:
        return -EAGAIN;
    case CUDA_NOT_FOUND:
        return -ENOENT;
    case CUDA_INVALID_IMAGE:
    case CUDA_NO_BINARY_FOR_GPU:
    case CUDA_INVALID_PTX:
    case CUDA_JIT_COMPILER_NOT_FOUND:
    case CUDA_UNSUPPORTED_PTX_VERSION:
    case CUDA_JIT_COMPILATION_DISABLED:
        return -ENOEXEC;
    case CUDA_NOT_SUPPORTED:
        return -EOPNOTSUPP;
    default:
        return -EINVAL;
    }
}
