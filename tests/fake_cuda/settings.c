/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fake_cuda/fake_cuda.h"

struct fake_settings fake;

static const char *const function_names[] = {
#define FAKE_NAME(symbol, parameters) #symbol,
    CUDA_FUNCTIONS(FAKE_NAME)
#undef FAKE_NAME
};

static uint64_t number(const char *variable, uint64_t fallback)
{
    const char *text = getenv(variable);
    return text != NULL && *text != '\0' ? strtoull(text, NULL, 0) : fallback;
}

/* CUDA_VISIBLE_DEVICES: numbers; the first that is none ends the list, as in the real one. */
static void read_visible(uint32_t present)
{
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    fake.device_count = 0;
    if (text == NULL) {
        for (uint32_t at = 0; at < present; at++)
            fake.visible[fake.device_count++] = at;
        return;
    }
    while (*text != '\0' && fake.device_count < present) {
        char *end;
        unsigned long device = strtoul(text, &end, 10);
        if (end == text || device >= present)
            break;
        fake.visible[fake.device_count++] = (uint32_t)device;
        text = *end == ',' ? end + 1 : end;
    }
}

static bool read_rule(const char *text, struct fake_rule *ret_rule)
{
    char device[8], function[64], call[24], error[16];
    if (sscanf(text, "%7[^:]:%63[^:]:%23[^:]:%15[^,]", device, function, call, error) != 4)
        return false;
    struct fake_rule rule = {.device = strcmp(device, "*") == 0 ? -1 : (int)strtol(device, NULL, 10),
                             .function = FAKE_FUNCTIONS,
                             .call = strtoull(call, NULL, 10),
                             .onwards = strchr(call, '+') != NULL,
                             .error = strcmp(error, "hang") == 0 ? FAKE_HANG : (int)strtol(error, NULL, 10)};
    for (int at = 0; at < FAKE_FUNCTIONS; at++)
        if (strncmp(function_names[at], function, strlen(function)) == 0 &&
            strspn(function_names[at] + strlen(function), "_v2") == strlen(function_names[at] + strlen(function)))
            rule.function = (enum fake_function)at;
    *ret_rule = rule;
    return rule.function != FAKE_FUNCTIONS && rule.call > 0;
}

static bool read_rules(void)
{
    const char *text = getenv("SHEAF_FAKE_CUDA_ERRORS");
    while (text != NULL && *text != '\0') {
        if (fake.rule_count == FAKE_RULES_MAX || !read_rule(text, &fake.rules[fake.rule_count++])) {
            fprintf(stderr, "SHEAF_FAKE_CUDA_ERRORS: cannot read '%s'\n", text);
            return false;
        }
        text = strchr(text, ',');
        text += text != NULL;
    }
    return true;
}

static bool map_calls(void)
{
    const char *path = getenv("SHEAF_FAKE_CUDA_STATE");
    size_t bytes = sizeof(_Atomic uint64_t[FAKE_DEVICES_MAX][FAKE_FUNCTIONS]);
    int fd = path != NULL ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (path != NULL && (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)) {
        fprintf(stderr, "SHEAF_FAKE_CUDA_STATE: cannot open %s\n", path);
        return false;
    }
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
    if (fd >= 0)
        close(fd);
    fake.calls = memory;
    return memory != MAP_FAILED;
}

static bool load_kernels(void)
{
    const char *text = getenv("SHEAF_FAKE_CUDA_KERNELS");
    char *paths = strdup(text != NULL ? text : ""), *rest = paths, *path;
    bool good = paths != NULL;
    while (good && (path = strsep(&rest, ":")) != NULL) {
        if (*path == '\0' || fake.plugin_count == FAKE_PLUGINS_MAX)
            continue;
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        sheaf_plugin_function function = NULL;
        if (library != NULL)
            *(void **)(&function) = dlsym(library, SHEAF_PLUGIN_SYMBOL);
        const struct sheaf_plugin *plugin = function != NULL ? function(SHEAF_OPERATOR_ABI) : NULL;
        good = plugin != NULL && plugin->size >= sizeof *plugin && plugin->kernels != NULL;
        if (good)
            fake.kernels[fake.plugin_count++] = plugin->kernels;
        else
            fprintf(stderr, "SHEAF_FAKE_CUDA_KERNELS: %s is no plug-in with kernels\n", path);
    }
    free(paths);
    return good;
}

bool fake_read_settings(void)
{
    uint64_t present = number("SHEAF_FAKE_CUDA_DEVICES", 8);
    read_visible(present < FAKE_DEVICES_MAX ? (uint32_t)present : FAKE_DEVICES_MAX);
    fake.memory_bytes = number("SHEAF_FAKE_CUDA_MEMORY", UINT64_C(64) << 20);
    fake.seed = number("SHEAF_FAKE_CUDA_SEED", 1);
    fake.delay_ns = number("SHEAF_FAKE_CUDA_DELAY_US", 0) * 1000;
    fake.read_only = number("SHEAF_FAKE_CUDA_READ_ONLY", 1) != 0;
    fake.strict = number("SHEAF_FAKE_CUDA_STRICT", 0) != 0;
    const char *times = getenv("SHEAF_FAKE_CUDA_TIMES"), *trace = getenv("SHEAF_FAKE_CUDA_TRACE");
    unsigned long long t[5] = {300000, 100000, 10000, 0, 0};
    if (times != NULL && sscanf(times, "%llu:%llu:%llu:%llu:%llu", &t[0], &t[1], &t[2], &t[3], &t[4]) != 5) {
        fprintf(stderr, "SHEAF_FAKE_CUDA_TIMES: want five numbers, got '%s'\n", times);
        return false;
    }
    fake.in_ns = t[0];
    fake.kernel_ns = t[1];
    fake.out_ns = t[2];
    fake.in_ps_per_byte = t[3];
    fake.out_ps_per_byte = t[4];
    fake.trace = trace != NULL ? open(trace, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    return read_rules() && map_calls() && load_kernels();
}

int fake_count_call(uint32_t device, enum fake_function function)
{
    uint64_t call = atomic_fetch_add_explicit(&fake.calls[device][function], 1, memory_order_relaxed) + 1;
    for (uint32_t at = 0; at < fake.rule_count; at++) {
        const struct fake_rule *rule = &fake.rules[at];
        if (rule->function == function && (rule->device < 0 || (uint32_t)rule->device == device) &&
            (rule->onwards ? call >= rule->call : call == rule->call))
            return rule->error;
    }
    return CUDA_OK;
}
