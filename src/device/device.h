/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices: memory, streams, events, copies and kernels, the same words for three backends.
 *
 *     cuda.c, cuda_driver.c   NVIDIA GPUs by the driver API, loaded at run time (cuda_functions.h lists what is used)
 *     host.c                  the CPU: everything happens when it is asked for
 *     sim.c                   the host's arithmetic with modelled times, for planning and tests: never a measurement
 *
 * and above them what does not depend on the backend: pinned.c (host memory that a device may reach by itself),
 * pipeline.c (three batches in flight).
 *
 * A device belongs to the process that opened it, and to one thread: a process opens at most one, after it was
 * exec'ed, on the device's primary context, so that CUDA libraries inside operators share it. Order between streams
 * comes of events alone. Handles are freed by their device's close, or one by one before.
 *
 * Status: 0 or a negative errno. What a device fault looks like: see device_fault. After a fault that is sticky every
 * call fails the same way, and only another process can go on.
 */
#ifndef SRC_DEVICE_DEVICE_H
#define SRC_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sheaf/operator.h>

#define DEVICE_LINE_BYTES 256u
#define DEVICE_ALIGNMENT 256u

typedef uint64_t device_address;

static inline uint64_t device_aligned(uint64_t bytes, uint64_t to)
{
    return (bytes + to - 1) / to * to;
}

struct device;
struct device_stream;
struct device_event;
struct device_module;

struct device_info {
    enum sheaf_device_backend backend;
    uint32_t ordinal;
    char name[64];
    char bus_id[16]; /* "0000:1b:00.0", as in the topology; "" if it has none */
    uint64_t memory_bytes;
    bool reads_read_only; /* can register memory that this process may only read */
};

/* Kinds of fault, by what they say about the rows. */
enum device_fault {
    DEVICE_FAULT_NONE = 0,
    DEVICE_FAULT_ILLEGAL,  /* -EFAULT: a kernel touched what is not its own, or was launched wrongly: maybe the rows */
    DEVICE_FAULT_DEADLINE, /* -ETIME: a kernel ran too long: maybe the rows */
    DEVICE_FAULT_MEMORY,   /* -ENOMEM: device memory is used up: fewer rows may fit. Not sticky */
    DEVICE_FAULT_ECC,      /* -EIO: an uncorrectable memory error: the device, not the rows */
    DEVICE_FAULT_LOST,     /* -ENODEV: it is off the bus, or its driver is gone: the device, not the rows */
    DEVICE_FAULT_UNSUITED, /* -ENOEXEC: the kernels were not built for it, or its driver does not know their kind */
};
/* What kind of fault a negative status of a device function is. */
enum device_fault device_fault_of(int status);
const char *device_fault_name(enum device_fault fault);
/* Whether the device itself is to blame, so that rows which were on it are innocent. */
static inline bool device_fault_is_device(enum device_fault fault)
{
    return fault == DEVICE_FAULT_ECC || fault == DEVICE_FAULT_LOST || fault == DEVICE_FAULT_UNSUITED;
}

/* ---- opening ---- */

/* How many CUDA devices this process sees. Negative: none can be used; `ret_line` (DEVICE_LINE_BYTES) says why. */
int device_cuda_count(char *ret_line);

/* What there is to say of one, without opening it. */
int device_cuda_describe(uint32_t ordinal, struct device_info *ret_info, char *ret_line);

/* Opens device `ordinal` of a backend (host and sim have any ordinal). `ret_line` says why not. */
int device_open(enum sheaf_device_backend backend, uint32_t ordinal, struct device **ret_device, char *ret_line);
void device_close(struct device *device); /* NULL is fine */
const struct device_info *device_info(const struct device *device);
/* What the backend said about the last call that failed. */
const char *device_last_error(const struct device *device);
/* Memory that could be allocated now. */
int device_free_bytes(struct device *device, uint64_t *ret_bytes);
/* Writes, copies and reads a pattern: 0 when the device does what it is told. */
int device_self_test(struct device *device);

/* ---- memory ---- */

int device_alloc(struct device *device, uint64_t bytes, device_address *ret_address);
int device_free(struct device *device, device_address address);
/* Pinned host memory. */
int device_host_alloc(struct device *device, uint64_t bytes, void **ret_memory);
int device_host_free(struct device *device, void *memory);
/* Pins memory that is there already. `read_only`: this process may not write it. -EOPNOTSUPP: the device cannot; use a
 * staged copy. */
int device_register(struct device *device, void *memory, uint64_t bytes, bool read_only);
int device_unregister(struct device *device, void *memory);

/* ---- order ---- */

int device_stream_create(struct device *device, struct device_stream **ret_stream);
int device_stream_destroy(struct device *device, struct device_stream *stream);
int device_stream_wait_idle(struct device *device, struct device_stream *stream);
/* CUstream, for libraries; NULL where there is none. */
void *device_stream_native(const struct device *device, const struct device_stream *stream);

int device_event_create(struct device *device, struct device_event **ret_event);
int device_event_destroy(struct device *device, struct device_event *event);
int device_event_record(struct device *device, struct device_event *event, struct device_stream *stream);
/* What is put on `stream` from here on waits for the event as it was recorded last. */
int device_stream_wait_event(struct device *device, struct device_stream *stream, struct device_event *event);
/* 1: over; 0: not yet. */
int device_event_query(struct device *device, struct device_event *event);
/* Sleeps until it is over. */
int device_event_wait(struct device *device, struct device_event *event);

/* ---- work ---- */

/* The host memory must be pinned and stay as it is until the copy is over. */
int device_copy_in(struct device *device, struct device_stream *stream, device_address to, const void *from,
                   uint64_t bytes);
int device_copy_out(struct device *device, struct device_stream *stream, void *to, device_address from, uint64_t bytes);

/* Kernels of a plug-in. -ENOEXEC: they have no image for this device. `kernels` must stay. */
int device_module_load(struct device *device, const struct sheaf_kernels *kernels, struct device_module **ret_module);
/* `argument` is copied before it returns. -ENOENT: no such kernel; -EINVAL: no such shape of a grid. */
int device_launch(struct device *device, struct device_stream *stream, struct device_module *module, const char *kernel,
                  const struct sheaf_grid *grid, const void *argument);

/* ---- modelled time: sim only ---- */

struct device_model {
    double copy_in_bytes_per_s, copy_out_bytes_per_s;
    double copy_fixed_s, kernel_fixed_s;
    double kernel_s_per_block;
};
void device_sim_set_model(struct device *device, const struct device_model *model);
/* Modelled seconds since it was opened, and those in which each of its three engines was busy. */
struct device_sim_times {
    double now_s;
    double copy_in_s, kernel_s, copy_out_s;
};
void device_sim_times(const struct device *device, struct device_sim_times *ret_times);

#endif
