/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A CUDA driver without a GPU: the functions of src/device/cuda_functions.h over threads of the CPU, so that all of
 * Sheaf's device code runs anywhere. It is found by the loader (LD_LIBRARY_PATH) as libcuda.so.1, and never installed.
 *
 * It is strict where real hardware is lucky. Every device has three engines (copies in, kernels, copies out); each
 * piece of work has a start and an end in time, and its effect on memory happens at its end, in the order of ends. Only
 * streams and events order anything: a kernel that does not wait for a copy ends before it and reads what lay there
 * before (new memory is poisoned), a copy out that does not wait for a kernel carries old bytes, staging memory that is
 * used again too early is copied as it is then. The place a copy out goes to is poisoned when it is asked for.
 *
 * The environment says what it is like:
 *
 *     SHEAF_FAKE_CUDA_DEVICES   how many (8); CUDA_VISIBLE_DEVICES hides some
 *     SHEAF_FAKE_CUDA_MEMORY    bytes of each (64 MiB)
 *     SHEAF_FAKE_CUDA_TIMES     nanoseconds: copy in, kernel, copy out, and picoseconds per byte copied in and out:
 *                               "300000:100000:10000:0:0" (the default: what is not ordered goes wrong)
 *     SHEAF_FAKE_CUDA_SEED      with SHEAF_FAKE_CUDA_DELAY_US: every piece of work takes up to so much longer
 *     SHEAF_FAKE_CUDA_ERRORS    "DEVICE:FUNCTION:CALL:ERROR,...": call number CALL (from 1; "5+": from 5 on) of a
 *                               function on a device (*: any) fails with the driver's number, or "hang"
 *     SHEAF_FAKE_CUDA_STATE     a file that counts calls over all processes, so that a replaced process goes on
 * counting SHEAF_FAKE_CUDA_READ_ONLY 0: cannot register read-only memory (1) SHEAF_FAKE_CUDA_STRICT    1: a copy from
 * or to memory that is not pinned is an error SHEAF_FAKE_CUDA_KERNELS   plug-ins (colon-separated) whose kernels' host
 * functions stand for those of an image SHEAF_FAKE_CUDA_TRACE     a file to which every piece of work is appended when
 * it is over: "DEVICE ENGINE START_NS END_NS BYTES", engine in, kernel or out
 */
#ifndef TESTS_FAKE_CUDA_H
#define TESTS_FAKE_CUDA_H

#include <pthread.h>
#include <stdbool.h>

#include <sheaf/operator.h>

#include "device/cuda_functions.h"

enum { FAKE_DEVICES_MAX = 16, FAKE_RULES_MAX = 32, FAKE_PLUGINS_MAX = 16 };
#define FAKE_HANG (-1)
#define FAKE_POISON 0xa5

enum fake_function {
#define FAKE_NUMBER(symbol, parameters) FAKE_##symbol,
    CUDA_FUNCTIONS(FAKE_NUMBER)
#undef FAKE_NUMBER
        FAKE_FUNCTIONS
};

struct fake_rule {
    int device; /* -1: any */
    enum fake_function function;
    uint64_t call;
    bool onwards;
    int error; /* or FAKE_HANG */
};

struct fake_settings {
    uint32_t device_count;
    uint32_t visible[FAKE_DEVICES_MAX]; /* which device an ordinal is */
    uint64_t memory_bytes;
    uint64_t in_ns, kernel_ns, out_ns, in_ps_per_byte, out_ps_per_byte;
    uint64_t seed, delay_ns;
    bool read_only, strict;
    struct fake_rule rules[FAKE_RULES_MAX];
    uint32_t rule_count;
    _Atomic uint64_t (*calls)[FAKE_FUNCTIONS]; /* [device][function], shared by processes */
    const struct sheaf_kernels *kernels[FAKE_PLUGINS_MAX];
    uint32_t plugin_count;
    int trace;
};
extern struct fake_settings fake;

/* settings.c. False: the environment makes no sense; said on standard error. */
bool fake_read_settings(void);
/* The error that call has, or CUDA_OK, or FAKE_HANG. */
int fake_count_call(uint32_t device, enum fake_function function);

/* ---- executor.c ---- */

enum fake_kind { FAKE_COPY_IN, FAKE_KERNEL, FAKE_COPY_OUT, FAKE_RECORD, FAKE_WAIT };

struct fake_work {
    struct fake_work *next;
    enum fake_kind kind;
    uint64_t asked_ns, end_ns, start_ns;
    bool scheduled, over;
    int error; /* what its end does to the context */
    /* copies */
    unsigned char *to;
    const unsigned char *from;
    uint64_t bytes;
    unsigned char *snapshot; /* of memory that is not pinned */
    /* kernels */
    const struct sheaf_kernel *kernel;
    struct sheaf_grid grid;
    unsigned char *argument;
    /* events */
    struct CUevent_st *event;
    uint64_t generation; /* RECORD: the one it makes; WAIT: the one it waits for */
};

struct CUfunc_st {
    const struct sheaf_kernel *kernel;
    struct CUfunc_st *next;
};

struct CUmod_st {
    struct CUmod_st *next;
    struct CUfunc_st *functions;
};

struct CUevent_st {
    struct CUctx_st *context;
    struct CUevent_st *next;
    uint64_t recorded; /* generation asked for last */
    uint64_t done;     /* generation that is over */
    uint64_t scheduled;
    uint64_t end_ns; /* of the one scheduled last */
};

struct CUstream_st {
    struct CUctx_st *context;
    struct CUstream_st *next;
    struct fake_work *first, *last; /* not over */
    uint64_t free_ns;               /* when what is scheduled on it ends */
};

struct CUctx_st {
    uint32_t device;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool running;
    int error; /* sticky */
    uint64_t engine_free_ns[3];
    uint64_t random;
    uint64_t memory_used;
    /* What it owns, and what goes with it. */
    struct CUstream_st *streams;
    struct CUevent_st *events;
    struct CUmod_st *modules;
};

int executor_start(struct CUctx_st *context);
/* Frees all that the context owns, as the driver does. */
void executor_stop(struct CUctx_st *context);
void executor_free_module(struct CUmod_st *module);
/* Takes `work` over. The context is locked. */
void executor_add(struct CUstream_st *stream, struct fake_work *work);
/* Waits until the event's generation, or all of the stream, is over. The context is locked; its error, or CUDA_OK. */
int executor_wait_event(struct CUevent_st *event);
int executor_wait_stream(struct CUstream_st *stream);

/* For kernels of tests: the running kernel's device faults with this error when it ends. */
SHEAF_API void fake_cuda_fault(int error);

#endif
