/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>

#include "command.h"

static enum sheaf_io_backend io_backend(const struct settings *settings)
{
    if (settings_is(settings, SETTING_IO, "uring"))
        return SHEAF_IO_URING;
    return settings_is(settings, SETTING_IO, "sync") ? SHEAF_IO_SYNC : SHEAF_IO_AUTO;
}

static enum sheaf_integrity integrity(const struct settings *settings)
{
    if (settings_is(settings, SETTING_INTEGRITY, "off"))
        return SHEAF_INTEGRITY_OFF;
    return settings_is(settings, SETTING_INTEGRITY, "always") ? SHEAF_INTEGRITY_ALWAYS : SHEAF_INTEGRITY_CRASH;
}

struct sheaf_engine_options machine_options(const struct settings *settings)
{
    return (struct sheaf_engine_options){
        .size = sizeof(struct sheaf_engine_options),
        .workers = (uint32_t)settings_number(settings, SETTING_WORKERS),
        .workers_per_core = (uint32_t)settings_number(settings, SETTING_WORKERS_PER_CORE),
        .memory_bytes = settings_number(settings, SETTING_MEMORY),
        .io = io_backend(settings),
        .device = settings_text(settings, SETTING_DEVICE),
        /* not given: what the pipeline and its operators say */
        .integrity = integrity(settings),
        .row_timeout_ms = settings_given(settings, SETTING_TIMEOUT)
                              ? (uint32_t)(settings_seconds(settings, SETTING_TIMEOUT) * 1000)
                              : 0,
        .start_timeout_ms = (uint32_t)(settings_seconds(settings, SETTING_START_TIMEOUT) * 1000),
        .topology_xml = settings_given(settings, SETTING_TOPOLOGY) ? settings_text(settings, SETTING_TOPOLOGY) : NULL,
    };
}

int machine_print(const struct settings *settings, const struct sheaf_plan *plan)
{
    struct sheaf_error error = SHEAF_ERROR_INIT;
    struct sheaf_engine_options options = machine_options(settings);
    struct sheaf_engine *engine = NULL;
    char *text = NULL;
    int status = sheaf_engine_create(&options, &engine, &error);
    if (status == 0)
        status = sheaf_engine_placement(engine, plan, &text);
    if (text != NULL)
        printf("\n%s", text);
    free(text);
    sheaf_engine_destroy(engine);
    return status == 0 ? EXIT_OK : complain_error("placement", status, &error);
}
