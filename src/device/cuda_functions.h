/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every function of the CUDA driver API that Sheaf calls, once: X(symbol, parameters). The loader (cuda_driver.c) takes
 * its pointers from this list, and the driver of the tests (tests/fake_cuda) its prototypes, so neither can lack one.
 *
 * The types are declared here because the machine that builds Sheaf need not have the toolkit's headers. Symbols carry
 * the version suffix under which the library exports the ABI that is declared.
 */
#ifndef SRC_DEVICE_CUDA_FUNCTIONS_H
#define SRC_DEVICE_CUDA_FUNCTIONS_H

#include <stddef.h>
#include <stdint.h>

typedef int cuda_result;
typedef int cuda_device;
typedef uint64_t cuda_address;
typedef struct CUctx_st *cuda_context;
typedef struct CUstream_st *cuda_stream;
typedef struct CUevent_st *cuda_event;
typedef struct CUmod_st *cuda_module;
typedef struct CUfunc_st *cuda_function;

/* Those results of the driver that are told apart. */
enum {
    CUDA_OK = 0,
    CUDA_INVALID_VALUE = 1,
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_NOT_INITIALIZED = 3,
    CUDA_DEINITIALIZED = 4,
    CUDA_DEVICE_UNAVAILABLE = 46,
    CUDA_NO_DEVICE = 100,
    CUDA_INVALID_DEVICE = 101,
    CUDA_INVALID_IMAGE = 200,
    CUDA_INVALID_CONTEXT = 201,
    CUDA_NO_BINARY_FOR_GPU = 209,
    CUDA_ECC_UNCORRECTABLE = 214,
    CUDA_INVALID_PTX = 218,
    CUDA_NVLINK_UNCORRECTABLE = 220,
    CUDA_JIT_COMPILER_NOT_FOUND = 221,
    CUDA_UNSUPPORTED_PTX_VERSION = 222,
    CUDA_JIT_COMPILATION_DISABLED = 223,
    CUDA_CONTAINED = 226,
    CUDA_OPERATING_SYSTEM = 304,
    CUDA_INVALID_HANDLE = 400,
    CUDA_NOT_FOUND = 500,
    CUDA_NOT_READY = 600,
    CUDA_ILLEGAL_ADDRESS = 700,
    CUDA_LAUNCH_OUT_OF_RESOURCES = 701,
    CUDA_LAUNCH_TIMEOUT = 702,
    CUDA_CONTEXT_IS_DESTROYED = 709,
    CUDA_ASSERT = 710,
    CUDA_HOST_MEMORY_ALREADY_REGISTERED = 712,
    CUDA_HOST_MEMORY_NOT_REGISTERED = 713,
    CUDA_HARDWARE_STACK_ERROR = 714,
    CUDA_ILLEGAL_INSTRUCTION = 715,
    CUDA_MISALIGNED_ADDRESS = 716,
    CUDA_INVALID_ADDRESS_SPACE = 717,
    CUDA_INVALID_PC = 718,
    CUDA_LAUNCH_FAILED = 719,
    CUDA_TENSOR_MEMORY_LEAK = 721,
    CUDA_NOT_SUPPORTED = 801,
    CUDA_SYSTEM_NOT_READY = 802,
    CUDA_SYSTEM_DRIVER_MISMATCH = 803,
    CUDA_UNKNOWN = 999,
};

enum {
    CUDA_EVENT_BLOCKING_SYNC = 1,
    CUDA_EVENT_DISABLE_TIMING = 2,
    CUDA_STREAM_NON_BLOCKING = 1,
    CUDA_REGISTER_READ_ONLY = 8,
    CUDA_CONTEXT_BLOCKING_SYNC = 4,
    CUDA_ATTRIBUTE_READ_ONLY_REGISTER = 113,
};

#define CUDA_FUNCTIONS(X)                                                                                              \
    X(cuInit, (unsigned flags))                                                                                        \
    X(cuDriverGetVersion, (int *version))                                                                              \
    X(cuGetErrorName, (cuda_result result, const char **name))                                                         \
    X(cuGetErrorString, (cuda_result result, const char **text))                                                       \
    X(cuDeviceGetCount, (int *count))                                                                                  \
    X(cuDeviceGet, (cuda_device * device, int ordinal))                                                                \
    X(cuDeviceGetName, (char *name, int bytes, cuda_device device))                                                    \
    X(cuDeviceGetPCIBusId, (char *id, int bytes, cuda_device device))                                                  \
    X(cuDeviceGetAttribute, (int *value, int attribute, cuda_device device))                                           \
    X(cuDeviceTotalMem_v2, (size_t * bytes, cuda_device device))                                                       \
    X(cuDevicePrimaryCtxSetFlags_v2, (cuda_device device, unsigned flags))                                             \
    X(cuDevicePrimaryCtxRetain, (cuda_context * context, cuda_device device))                                          \
    X(cuDevicePrimaryCtxRelease_v2, (cuda_device device))                                                              \
    X(cuCtxSetCurrent, (cuda_context context))                                                                         \
    X(cuMemGetInfo_v2, (size_t * free, size_t * total))                                                                \
    X(cuMemAlloc_v2, (cuda_address * address, size_t bytes))                                                           \
    X(cuMemFree_v2, (cuda_address address))                                                                            \
    X(cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags))                                                   \
    X(cuMemFreeHost, (void *memory))                                                                                   \
    X(cuMemHostRegister_v2, (void *memory, size_t bytes, unsigned flags))                                              \
    X(cuMemHostUnregister, (void *memory))                                                                             \
    X(cuMemcpyHtoDAsync_v2, (cuda_address to, const void *from, size_t bytes, cuda_stream stream))                     \
    X(cuMemcpyDtoHAsync_v2, (void *to, cuda_address from, size_t bytes, cuda_stream stream))                           \
    X(cuStreamCreate, (cuda_stream * stream, unsigned flags))                                                          \
    X(cuStreamDestroy_v2, (cuda_stream stream))                                                                        \
    X(cuStreamSynchronize, (cuda_stream stream))                                                                       \
    X(cuStreamWaitEvent, (cuda_stream stream, cuda_event event, unsigned flags))                                       \
    X(cuEventCreate, (cuda_event * event, unsigned flags))                                                             \
    X(cuEventDestroy_v2, (cuda_event event))                                                                           \
    X(cuEventRecord, (cuda_event event, cuda_stream stream))                                                           \
    X(cuEventQuery, (cuda_event event))                                                                                \
    X(cuEventSynchronize, (cuda_event event))                                                                          \
    X(cuModuleLoadData, (cuda_module * module, const void *image))                                                     \
    X(cuModuleUnload, (cuda_module module))                                                                            \
    X(cuModuleGetFunction, (cuda_function * function, cuda_module module, const char *name))                           \
    X(cuLaunchKernel, (cuda_function function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z,                \
                       unsigned threads_x, unsigned threads_y, unsigned threads_z, unsigned shared_bytes,              \
                       cuda_stream stream, void **arguments, void **extra))

#endif
