/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/run.h"

/* `folder of this library`/`relative`, if something executable is there. */
static char *beside_library(const char *relative)
{
    Dl_info info;
    char path[PATH_MAX];
    if (!dladdr((void *)(uintptr_t)&sheaf_engine_create, &info) || !info.dli_fname || !realpath(info.dli_fname, path))
        return NULL;
    char *slash = strrchr(path, '/');
    if (!slash)
        return NULL;
    *slash = '\0';
    char *joined;
    if (asprintf(&joined, "%s/%s", path, relative) < 0)
        return NULL;
    if (access(joined, F_OK) == 0)
        return joined;
    free(joined);
    return NULL;
}

/* The worker program: as told, from the environment, of an installation, of a build tree. */
static char *find_worker(const struct sheaf_engine_options *options)
{
    static const char *const places[] = {"../libexec/sheaf/sheaf-worker", "../../libexec/sheaf/sheaf-worker",
                                         "sheaf/sheaf-worker", "worker/sheaf-worker"};
    if (options->worker_path)
        return strdup(options->worker_path);
    const char *environment = getenv("SHEAF_WORKER");
    if (environment && *environment)
        return strdup(environment);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char *found = beside_library(places[i]);
        if (found)
            return found;
    }
    return NULL;
}

static int fail(struct sheaf_engine *engine, int status, struct sheaf_error *error, const char *message)
{
    if (error) {
        error->code = status;
        if (message)
            snprintf(error->message, sizeof error->message, "%s", message);
    }
    sheaf_engine_destroy(engine);
    return status;
}

int sheaf_engine_create(const struct sheaf_engine_options *options, struct sheaf_engine **ret_engine,
                        struct sheaf_error *error)
{
    struct sheaf_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return -ENOMEM;
    size_t known = options->size < sizeof *options ? options->size : sizeof *options;
    memcpy(&engine->options, options, known);
    if (engine->options.workers_per_core == 0)
        engine->options.workers_per_core = 1;
    if ((uint32_t)engine->options.integrity > SHEAF_INTEGRITY_ALWAYS)
        return fail(engine, -EINVAL, error, "sheaf_engine_options: integrity is none of its values");
    int result = topo_create(engine->options.topology_xml, &engine->topo, error);
    if (result < 0)
        return fail(engine, result, error, NULL);
    const struct topo_machine *machine = topo_machine(engine->topo);
    engine->memory_bytes =
        engine->options.memory_bytes ? engine->options.memory_bytes : machine->memory_limit_bytes / 4 * 3;
    uint32_t usable = topo_default_workers(engine->topo, engine->options.workers_per_core, 0);
    engine->worker_count =
        engine->options.workers ? engine->options.workers : budget_workers(engine->memory_bytes, usable);
    engine->worker_path = find_worker(&engine->options);
    if (!engine->worker_path)
        return fail(engine, SHEAF_E_ENVIRONMENT, error,
                    "the worker program sheaf-worker is not beside the library; set SHEAF_WORKER to its path");
    engine->data_path = engine->options.data_path ? strdup(engine->options.data_path) : NULL;
    *ret_engine = engine;
    return 0;
}

void sheaf_engine_destroy(struct sheaf_engine *engine)
{
    if (!engine)
        return;
    assert(!engine->run);
    topo_destroy(engine->topo);
    free(engine->worker_path);
    free(engine->data_path);
    free(engine);
}
