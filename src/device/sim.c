/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's arithmetic under a modelled clock: one engine for copies in, one for kernels, one for copies out, as a GPU
 * has them. Data moves when it is asked for, as on the host; only the times are modelled. The clock stands still while
 * work is put on streams (the host is infinitely fast) and moves when somebody waits.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "device/backend.h"

struct device_stream {
    double free_s; /* when what is on it is over */
};

struct device_event {
    double at_s;
};

enum engine { ENGINE_COPY_IN, ENGINE_KERNEL, ENGINE_COPY_OUT, ENGINES };

struct sim {
    struct device device;
    struct device_functions functions; /* the host's, and our own where time passes */
    struct device_model model;
    double now_s;
    double free_s[ENGINES], busy_s[ENGINES];
};

static struct sim *sim_of(struct device *device)
{
    return (struct sim *)device;
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

static void spend(struct device *device, struct device_stream *stream, enum engine engine, double takes_s)
{
    struct sim *sim = sim_of(device);
    double start_s = later(later(sim->now_s, stream->free_s), sim->free_s[engine]);
    sim->free_s[engine] = stream->free_s = start_s + takes_s;
    sim->busy_s[engine] += takes_s;
}

static int sim_stream_create(struct device *device, struct device_stream **ret_stream)
{
    *ret_stream = calloc(1, sizeof **ret_stream);
    return *ret_stream != NULL ? 0 : -ENOMEM;
}

static int sim_event_create(struct device *device, struct device_event **ret_event)
{
    *ret_event = calloc(1, sizeof **ret_event);
    return *ret_event != NULL ? 0 : -ENOMEM;
}

static int sim_stream_wait_idle(struct device *device, struct device_stream *stream)
{
    struct sim *sim = sim_of(device);
    sim->now_s = later(sim->now_s, stream->free_s);
    return 0;
}

static int sim_event_record(struct device *device, struct device_event *event, struct device_stream *stream)
{
    event->at_s = later(sim_of(device)->now_s, stream->free_s);
    return 0;
}

static int sim_stream_wait_event(struct device *device, struct device_stream *stream, struct device_event *event)
{
    stream->free_s = later(stream->free_s, event->at_s);
    return 0;
}

static int sim_event_query(struct device *device, struct device_event *event)
{
    return sim_of(device)->now_s >= event->at_s;
}

static int sim_event_wait(struct device *device, struct device_event *event)
{
    struct sim *sim = sim_of(device);
    sim->now_s = later(sim->now_s, event->at_s);
    return 0;
}

static int sim_copy_in(struct device *device, struct device_stream *stream, device_address to, const void *from,
                       uint64_t bytes)
{
    const struct device_model *model = &sim_of(device)->model;
    spend(device, stream, ENGINE_COPY_IN, model->copy_fixed_s + (double)bytes / model->copy_in_bytes_per_s);
    return host_functions.copy_in(device, stream, to, from, bytes);
}

static int sim_copy_out(struct device *device, struct device_stream *stream, void *to, device_address from,
                        uint64_t bytes)
{
    const struct device_model *model = &sim_of(device)->model;
    spend(device, stream, ENGINE_COPY_OUT, model->copy_fixed_s + (double)bytes / model->copy_out_bytes_per_s);
    return host_functions.copy_out(device, stream, to, from, bytes);
}

static int sim_module_launch(struct device *device, struct device_stream *stream, struct device_module *module,
                             uint32_t kernel, const struct sheaf_grid *grid, const void *argument)
{
    const struct device_model *model = &sim_of(device)->model;
    double blocks = (double)grid->blocks[0] * grid->blocks[1] * grid->blocks[2];
    spend(device, stream, ENGINE_KERNEL, model->kernel_fixed_s + blocks * model->kernel_s_per_block);
    return host_functions.module_launch(device, stream, module, kernel, grid, argument);
}

int sim_open(uint32_t ordinal, struct device **ret_device, char *ret_line)
{
    struct sim *sim = calloc(1, sizeof *sim);
    if (sim == NULL) {
        snprintf(ret_line, DEVICE_LINE_BYTES, "out of memory");
        return -ENOMEM;
    }
    host_init(&sim->device, SHEAF_DEVICE_SIM, ordinal);
    sim->functions = host_functions;
    sim->functions.stream_create = sim_stream_create;
    sim->functions.stream_wait_idle = sim_stream_wait_idle;
    sim->functions.event_create = sim_event_create;
    sim->functions.event_record = sim_event_record;
    sim->functions.stream_wait_event = sim_stream_wait_event;
    sim->functions.event_query = sim_event_query;
    sim->functions.event_wait = sim_event_wait;
    sim->functions.copy_in = sim_copy_in;
    sim->functions.copy_out = sim_copy_out;
    sim->functions.module_launch = sim_module_launch;
    sim->device.functions = &sim->functions;
    /* About a GPU on sixteen lanes of PCIe 5; the kernel's times are anybody's guess and mostly set by the caller. */
    sim->model = (struct device_model){.copy_in_bytes_per_s = 50e9,
                                       .copy_out_bytes_per_s = 50e9,
                                       .copy_fixed_s = 2.3e-6,
                                       .kernel_fixed_s = 5e-6,
                                       .kernel_s_per_block = 1e-7};
    *ret_device = &sim->device;
    return 0;
}

void device_sim_set_model(struct device *device, const struct device_model *model)
{
    sim_of(device)->model = *model;
}

void device_sim_times(const struct device *device, struct device_sim_times *ret_times)
{
    const struct sim *sim = (const struct sim *)device;
    *ret_times = (struct device_sim_times){.now_s = sim->now_s,
                                           .copy_in_s = sim->busy_s[ENGINE_COPY_IN],
                                           .kernel_s = sim->busy_s[ENGINE_KERNEL],
                                           .copy_out_s = sim->busy_s[ENGINE_COPY_OUT]};
}
