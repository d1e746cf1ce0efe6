/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/operators.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW_CAUSE_BYTES 512u

static int load_plugin(const char *path, const struct sheaf_plugin **ret_plugin, char *ret_line, size_t line_bytes)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(ret_line, line_bytes, "plug-in %s cannot be loaded: %s", path, dlerror());
        return SHEAF_E_ENVIRONMENT;
    }
    sheaf_plugin_function function;
    *(void **)(&function) = dlsym(library, SHEAF_PLUGIN_SYMBOL);
    const struct sheaf_plugin *plugin = function != NULL ? function(SHEAF_OPERATOR_ABI) : NULL;
    if (plugin == NULL || plugin->abi != SHEAF_OPERATOR_ABI) {
        snprintf(ret_line, line_bytes, "plug-in %s does not speak version %u of the operator ABI; rebuild it", path,
                 SHEAF_OPERATOR_ABI);
        return SHEAF_E_ABI;
    }
    *ret_plugin = plugin;
    return 0;
}

static const struct sheaf_operator *find_operator(const struct sheaf_plugin *plugin, const char *name)
{
    for (uint32_t at = 0; at < plugin->operator_count; at++)
        if (strcmp(plugin->operators[at]->name, name) == 0)
            return plugin->operators[at];
    return NULL;
}

/* What an operator cannot open or find, the machine lacks, unless the operator says that it is something else. */
static int open_status(int status)
{
    if (status == -EINVAL)
        return SHEAF_E_USAGE;
    return status <= SHEAF_E_REFUSED ? status : SHEAF_E_ENVIRONMENT;
}

static int open_one(struct sheaf_worker *worker, const struct sheaf_worker_call *call,
                    struct opened_operator *ret_opened, char *ret_line, size_t line_bytes)
{
    const struct sheaf_plugin *plugin;
    int status = load_plugin(call->plugin_path, &plugin, ret_line, line_bytes);
    if (status < 0)
        return status;
    const struct sheaf_operator *op = find_operator(plugin, call->operator_name);
    bool batch = (call->operator_flags & SHEAF_OPERATOR_BATCH) != 0;
    if (op == NULL || op->option_count != call->option_count || (batch ? op->run_batch == NULL : op->run == NULL)) {
        snprintf(ret_line, line_bytes, "plug-in %s has no operator '%s' as the plan knows it; rebuild it",
                 call->plugin_path, call->operator_name);
        return SHEAF_E_ABI;
    }
    ret_opened->op = op;
    ret_opened->kernels = plugin->size >= sizeof *plugin ? plugin->kernels : NULL;
    ret_opened->name = call->name;
    ret_opened->batch = batch;
    if (op->open == NULL)
        return 0;
    char cause[ROW_CAUSE_BYTES] = "";
    struct sheaf_open open = {.size = sizeof open,
                              .option_count = call->option_count,
                              .host = sheaf_worker_host(worker),
                              .options = call->options,
                              .data_path = sheaf_worker_data_path(worker),
                              .memory_budget_bytes = call->memory_budget_bytes,
                              .error = cause,
                              .error_bytes = sizeof cause};
    status = op->open(&open, &ret_opened->state);
    if (status < 0) {
        snprintf(ret_line, line_bytes, "step %s: %s cannot be opened: %s", call->name, op->name,
                 cause[0] != '\0' ? cause : strerror(-status));
        ret_opened->op = NULL;
    }
    return status < 0 ? open_status(status) : 0;
}

static void evict(void *cookie, uint32_t index, uint64_t key)
{
    struct operators *operators = cookie;
    struct opened_operator *opened = &operators->opened[index];
    if (opened->op->evict != NULL)
        opened->op->evict(opened->state, key);
}

int operators_open(struct sheaf_worker *worker, struct operators *ret_operators, char *ret_line, size_t line_bytes)
{
    uint32_t count = sheaf_worker_call_count(worker);
    struct operators operators = {calloc(count + 1, sizeof *operators.opened), count};
    if (operators.opened == NULL) {
        snprintf(ret_line, line_bytes, "out of memory");
        return -ENOMEM;
    }
    for (uint32_t index = 0; index < count; index++) {
        struct sheaf_worker_call call = {.size = sizeof call};
        sheaf_worker_call(worker, index, &call);
        int status = open_one(worker, &call, &operators.opened[index], ret_line, line_bytes);
        if (status < 0) {
            operators_close(&operators);
            return status;
        }
    }
    *ret_operators = operators;
    sheaf_worker_on_evict(worker, evict, ret_operators);
    return 0;
}

void operators_close(struct operators *operators)
{
    for (uint32_t index = operators->count; index > 0; index--) {
        struct opened_operator *opened = &operators->opened[index - 1];
        if (opened->op != NULL && opened->op->close != NULL)
            opened->op->close(opened->state);
    }
    free(operators->opened);
    *operators = (struct operators){0};
}
