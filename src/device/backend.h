/* SPDX-License-Identifier: Apache-2.0 */
/* What a backend implements: device.h says what each function means. Private to src/device. */
#ifndef SRC_DEVICE_BACKEND_H
#define SRC_DEVICE_BACKEND_H

#include "device/device.h"

struct device_functions {
    void (*close)(struct device *device);
    int (*free_bytes)(struct device *device, uint64_t *ret_bytes);
    int (*alloc)(struct device *device, uint64_t bytes, device_address *ret_address);
    int (*free)(struct device *device, device_address address);
    int (*host_alloc)(struct device *device, uint64_t bytes, void **ret_memory);
    int (*host_free)(struct device *device, void *memory);
    int (*register_memory)(struct device *device, void *memory, uint64_t bytes, bool read_only);
    int (*unregister_memory)(struct device *device, void *memory);
    int (*stream_create)(struct device *device, struct device_stream **ret_stream);
    int (*stream_destroy)(struct device *device, struct device_stream *stream);
    int (*stream_wait_idle)(struct device *device, struct device_stream *stream);
    void *(*stream_native)(const struct device_stream *stream);
    int (*event_create)(struct device *device, struct device_event **ret_event);
    int (*event_destroy)(struct device *device, struct device_event *event);
    int (*event_record)(struct device *device, struct device_event *event, struct device_stream *stream);
    int (*stream_wait_event)(struct device *device, struct device_stream *stream, struct device_event *event);
    int (*event_query)(struct device *device, struct device_event *event);
    int (*event_wait)(struct device *device, struct device_event *event);
    int (*copy_in)(struct device *device, struct device_stream *stream, device_address to, const void *from,
                   uint64_t bytes);
    int (*copy_out)(struct device *device, struct device_stream *stream, void *to, device_address from, uint64_t bytes);
    int (*module_load)(struct device *device, struct device_module *module);
    int (*module_unload)(struct device *device, struct device_module *module);
    int (*module_launch)(struct device *device, struct device_stream *stream, struct device_module *module,
                         uint32_t kernel, const struct sheaf_grid *grid, const void *argument);
};

struct device {
    const struct device_functions *functions;
    struct device_info info;
    char error[DEVICE_LINE_BYTES];
    struct device_module *modules; /* all that were loaded */
};

struct device_module {
    struct device_module *next;
    const struct sheaf_kernels *kernels;
    void *image;      /* the backend's */
    void **functions; /* the backend's, one per kernel */
};

int host_open(uint32_t ordinal, struct device **ret_device, char *ret_line);
int sim_open(uint32_t ordinal, struct device **ret_device, char *ret_line);
int cuda_open(uint32_t ordinal, struct device **ret_device, char *ret_line);

/* The host's functions, which sim puts its clock around. */
extern const struct device_functions host_functions;
/* A host device in memory of at least sizeof(struct device) bytes. */
void host_init(struct device *device, enum sheaf_device_backend backend, uint32_t ordinal);

/* Notes a line for device_last_error and gives `status` back. */
int device_note(struct device *device, int status, const char *format, ...) SHEAF_PRINTF(3, 4);

#endif
