/* SPDX-License-Identifier: Apache-2.0 */
/* The operators of a stock worker: found in their plug-ins, opened once each, one per Call. */
#ifndef SRC_WORKER_OPERATORS_H
#define SRC_WORKER_OPERATORS_H

#include <stdbool.h>

#include <sheaf/worker.h>

struct device_module;

struct opened_operator {
    const struct sheaf_operator *op;
    void *state;
    const char *name;                    /* of the Call */
    bool batch;                          /* by run_batch, not by run */
    const struct sheaf_kernels *kernels; /* of its plug-in, or NULL */
    struct device_module *module;        /* they, on the device of this process */
};

struct operators {
    struct opened_operator *opened; /* by number of the Call */
    uint32_t count;
};

/* Loads and opens all; the first that cannot be says why in `ret_line`. Plug-ins stay loaded until the process ends. */
int operators_open(struct sheaf_worker *worker, struct operators *ret_operators, char *ret_line, size_t line_bytes);
void operators_close(struct operators *operators);

#endif
