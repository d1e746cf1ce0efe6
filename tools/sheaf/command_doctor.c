/* SPDX-License-Identifier: Apache-2.0 */
/* `sheaf doctor`: is this machine fit, what is missing, what to do about it. */
#include <stdio.h>
#include <unistd.h>

#include "command.h"
#include "doctor.h"
#include "machine.h"
#include "pipeline.h"

void doctor_report(struct doctor *doctor, enum finding finding, const char *what, const char *hint)
{
    static const char *const words[] = {"ok", "warn", "missing"};
    doctor->warnings += finding == FINDING_WARN;
    doctor->missing += finding == FINDING_MISSING;
    printf("%-8s %s%s%s\n", words[finding], what, hint != NULL && hint[0] != '\0' ? "  -> " : "",
           hint != NULL ? hint : "");
}

static void on_finding(void *cookie, int ok, const char *what, const char *hint)
{
    doctor_report(cookie, ok ? FINDING_OK : FINDING_MISSING, what, ok ? "" : hint);
}

static void check_operators(struct doctor *doctor)
{
    struct sheaf_error error = SHEAF_ERROR_INIT;
    struct sheaf_registry *registry = NULL;
    int status = sheaf_registry_create(&registry);
    if (status == 0)
        status = sheaf_registry_load_default(registry, &error);
    if (status < 0) {
        doctor_report(doctor, FINDING_MISSING, "operators",
                      error.message[0] != '\0' ? error.message : sheaf_status_text(status));
        sheaf_registry_destroy(registry);
        return;
    }
    const struct sheaf_plugin *plugin;
    const char *path = NULL;
    for (size_t i = 0; (plugin = sheaf_registry_plugin(registry, i, &path)) != NULL; i++) {
        struct text what = {0};
        text_addf(&what, "plug-in %s %s, %u operators (%s)", plugin->name, plugin->version, plugin->operator_count,
                  path);
        doctor_report(doctor, FINDING_OK, what.data, "");
        text_free(&what);
        if (plugin->doctor != NULL)
            plugin->doctor(on_finding, doctor);
    }
    if (sheaf_registry_count(registry) == 0)
        doctor_report(doctor, FINDING_MISSING, "operators: no plug-in was found",
                      "set SHEAF_PLUGINS to the folder they lie in");
    sheaf_registry_destroy(registry);
}

static void check_pipeline(struct doctor *doctor)
{
    struct text path = {0};
    if (pipeline_find(doctor->settings, "documents", &path))
        doctor_report(doctor, FINDING_OK, text_string(&path), "");
    else
        doctor_report(doctor, FINDING_MISSING, "pipeline documents",
                      "set SHEAF_PIPELINES to the folder of documents.yaml");
    text_free(&path);
}

/* The engine's own probe: worker program, memory, kernel features. It starts no worker. */
static void check_engine(struct doctor *doctor)
{
    struct sheaf_error error = SHEAF_ERROR_INIT;
    struct sheaf_engine_options options = machine_options(doctor->settings);
    options.topology_xml = NULL; /* findings are of this machine, whatever is planned for */
    struct sheaf_engine *engine = NULL;
    int status = sheaf_engine_create(&options, &engine, &error);
    if (status == 0)
        doctor_report(doctor, FINDING_OK, "the engine can start here", "");
    else
        doctor_report(doctor, FINDING_MISSING, "the engine cannot start here",
                      error.message[0] != '\0' ? error.message : sheaf_status_text(status));
    sheaf_engine_destroy(engine);
}

int command_doctor(const struct settings *settings)
{
    struct doctor doctor = {.settings = settings};
    printf("%-8s sheaf %s\n", "ok", sheaf_version());
    doctor_processors(&doctor);
    doctor_memory(&doctor);
    doctor_io(&doctor);
    doctor_sandbox(&doctor);
    check_engine(&doctor);
    check_operators(&doctor);
    check_pipeline(&doctor);
    int code = machine_print(settings, NULL);
    if (doctor.missing > 0)
        complain("doctor: needed and missing: %u; the hints above say what to do", doctor.missing);
    return doctor.missing > 0 ? EXIT_ENVIRONMENT : code;
}
