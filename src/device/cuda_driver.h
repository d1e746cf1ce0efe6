/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA driver, loaded when it is first asked for. One per process. */
#ifndef SRC_DEVICE_CUDA_DRIVER_H
#define SRC_DEVICE_CUDA_DRIVER_H

#include "device/cuda_functions.h"

struct cuda_driver {
    void *library;
#define CUDA_POINTER(symbol, parameters) cuda_result(*symbol) parameters;
    CUDA_FUNCTIONS(CUDA_POINTER)
#undef CUDA_POINTER
};

/* Loads and initialises it. 0; SHEAF_E_ENVIRONMENT: `ret_line` (DEVICE_LINE_BYTES) says what is missing. Free with
 * cuda_driver_close. */
int cuda_driver_open(struct cuda_driver *ret_driver, char *ret_line);
void cuda_driver_close(struct cuda_driver *driver);
/* The negative status that a result of the driver is; see device_fault. */
int cuda_status(cuda_result result);
/* Its name, "CUDA_ERROR_..." */
const char *cuda_result_name(const struct cuda_driver *driver, cuda_result result);

#endif
